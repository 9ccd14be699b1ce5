"""Rules for the commands of a shell line: their effects on files and the risks of their names."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from core.models.tools import Risk
from core.policy.analysis.shell.databases import client_findings
from core.policy.analysis.shell.embedded import (
    assignments_in,
    embedded_findings,
    embedded_in_options,
    embedded_in_variable,
)
from core.policy.analysis.shell.git import embedded_in_git
from core.policy.analysis.shell.languages import program_findings
from core.policy.analysis.shell.overwrites import (
    OVERWRITING,
    file_write_findings,
    overwrite_findings,
    short_text,
)
from core.policy.analysis.shell.parser import Call, CommandFinding, Redirect, Word
from core.policy.analysis.shell.places import EVERYTHING, HARMLESS_DEVICES, names_secrets, system_folder
from core.policy.analysis.shell.reach import (
    REACHING,
    path_in,
    reach_findings,
    startup_file_findings,
    variable_deletion_findings,
)
from core.policy.analysis.shell.wrappers import innermost, wrapped_commands
from core.programs.catalog import RECORDS, common_name, named, program_of
from core.programs.record import Effect, Kind, Program

_HELP = re.compile(r"--help|--version")
# Effects of this kind add nothing to one that is more specific.
_GENERAL = re.compile(r"Drives ")


class _Change(NamedTuple):
    words: tuple[re.Pattern[str], ...]
    text: str
    risk: Risk

    def is_made_by(self, arguments: list[str]) -> bool:
        return all(any(map(pattern.fullmatch, arguments)) for pattern in self.words)


class _Reading(NamedTuple):
    words: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None


def _patterns(words: str, flags: re.RegexFlag) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(word, flags) for word in words.split(" & ")) if words else ()


def _changes(effects: Iterable[Effect]) -> tuple[_Change, ...]:
    return tuple(_Change(_patterns(words, re.DOTALL), text, risk) for words, text, risk in effects)


class _Effects(NamedTuple):
    """The effects in a record, with their patterns compiled. A line's end in an argument hides no effect."""

    changes: tuple[_Change, ...]
    always: tuple[_Change, ...]
    each: tuple[_Change, ...]
    reads: tuple[_Reading, ...]

    @classmethod
    def of(cls, record: Program) -> _Effects:
        readings = (
            _Reading(_patterns(words, re.NOFLAG), re.compile(unless, re.DOTALL) if unless else None)
            for words, unless in record.reads
        )
        return cls(_changes(record.changes), _changes(record.always), _changes(record.each), tuple(readings))


_NONE = _Effects((), (), (), ())
_EFFECTS = {name: effects for record in RECORDS for effects in [_Effects.of(record)] for name in record.names}


def _effects_of(call: Call) -> _Effects:
    names = call.program.names
    return _EFFECTS[names[0]] if names else _NONE


def change_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in the changes that a call makes, unless it only reads."""
    effects = _effects_of(call)
    if not effects.changes or is_read_only(call):
        return
    arguments = [word.text for word in call.args]
    reported: set[str] = set()
    for change in effects.changes:
        if change.text in reported or not change.is_made_by(arguments):
            continue
        if reported and _GENERAL.match(change.text):
            continue
        reported.add(change.text)
        yield CommandFinding(change.text, change.risk, call.words[0])


def word_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in effects that a call has also if it reads, and in effects of single words."""
    effects = _effects_of(call)
    if not (effects.always or effects.each):
        return
    arguments = [word.text for word in call.args]
    for change in effects.always:
        if change.is_made_by(arguments):
            yield CommandFinding(change.text, change.risk, call.words[0])
    for change in effects.each:
        if change.is_made_by(arguments):
            yield from _findings_of_words(change, call.args)


def _findings_of_words(change: _Change, words: Iterable[Word]) -> Iterator[CommandFinding]:
    for word in words:
        if change.words[-1].fullmatch(word.text):
            yield CommandFinding(change.text, change.risk, word)


def is_read_only(call: Call) -> bool:
    """Whether a call only reads, although its program can change something."""
    texts = [word.text for word in call.args]
    if any(not word.known and not word.text and word.source[:1] != '"' for word in call.args):
        # Without quotes, an unknown word can expand to any number of options and verbs.
        return False
    effects = _effects_of(call)
    for patterns, unless in effects.reads:
        if all(any(map(pattern.fullmatch, texts)) for pattern in patterns) and not (
            unless is not None and any(map(unless.fullmatch, texts))
        ):
            return True
    return bool(effects.changes) and len(texts) == 1 and _HELP.fullmatch(texts[0]) is not None


_DOWNLOADS = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, named(Kind.DOWNLOADS))))})\b")


def findings_in_command(call: Call) -> Iterator[CommandFinding]:
    """The findings in one call, without those in the lines and calls nested in it."""
    first, name = call.words[0], call.name
    if not first.known:
        yield CommandFinding("Runs a command whose name is only known when it runs", Risk.HIGH, first)
        return
    if not name and first.pattern:
        text = "Cannot be judged: the command's name is a pattern, only known when it runs"
        yield CommandFinding(text, Risk.HIGH, first)
        return
    if re.match(r"/etc/(?:rc\.d/)?init\.d/", first.text):
        yield CommandFinding("Starts, stops or restarts services", Risk.HIGH, first)
        return
    if "{}" in first.written:
        yield CommandFinding("Runs a command whose name is only known when it runs", Risk.HIGH, first)
    kinds = program_of(name).kinds
    if Kind.ROOT in kinds:
        yield CommandFinding("Runs as root", Risk.HIGH, first)
    for rule in _rules_for(kinds):
        yield from rule(call)
    yield from word_findings(call)
    yield from change_findings(call)
    yield from overwrite_findings(call)
    yield from program_findings(call)
    yield from client_findings(call)
    yield from embedded_findings(embedded_in_options(call))
    yield from embedded_findings(embedded_in_git(call))
    if Kind.DECLARES in kinds:
        for variable, value, word in assignments_in(call.args):
            yield from embedded_findings(embedded_in_variable(variable, value, word))
    if "/" in first.text and not re.match(r"/(?:usr/(?:local/)?)?s?bin/", first.text):
        yield CommandFinding(
            "Runs a program by its path; what it does is not in the line", Risk.MEDIUM, first
        )
    yield from _system_folder_findings(call)
    yield from reach_findings(call)


def has_rules(name: str) -> bool:
    """Whether a rule or table has findings about a program of this name."""
    record = program_of(name)
    return (
        bool(record.changes or record.always or record.each)
        or not record.kinds.isdisjoint(_WITH_RULES)
        # A search may run what overwrites a file only if asked to.
        or (record.writes is not None and Kind.ONLY_IF_ASKED not in record.kinds)
    )


def array_index_finding(word: Word) -> CommandFinding:
    """The finding about a text that runs a command when a shell reads it as a number or a name."""
    return CommandFinding("Hides a command in the index of an array, where a shell runs it", Risk.HIGH, word)


def _delete_findings(call: Call) -> Iterator[CommandFinding]:
    first = call.words[0]
    targets = _operands(call)
    recursive = not call.program.is_a(Kind.ONLY_EMPTY) and _has(
        call, "rR", ("--recursive", "-recurse", "-r", "/s")
    )
    if any(not arg.known and arg.text[:1] in ("", "-") and arg.source[:1] == "$" for arg in call.args):
        # An unquoted variable can carry options as well as paths.
        yield CommandFinding("A variable stands where options of a deleting command may be", Risk.HIGH, first)
    if recursive:
        yield CommandFinding("Deletes folders with everything in them", Risk.HIGH, first)
    else:
        yield CommandFinding("Deletes files", Risk.MEDIUM, first)
    for word in targets:
        if not word.known:
            yield CommandFinding("What is deleted is only known when it runs", Risk.HIGH, word)
            if recursive:
                yield from variable_deletion_findings(word)
            if re.fullmatch(r'"?\$\{?HOME\}?"?/?\*?', word.source):
                yield CommandFinding("Deletes the whole home folder", Risk.CRITICAL, word)
        elif _is_everything(word):
            risk = Risk.CRITICAL if recursive or "*" in word.text else Risk.HIGH
            yield CommandFinding(f"Deletes everything in {short_text(word)}", risk, word)
        elif recursive and system_folder(word.text):
            yield CommandFinding(f"Deletes recursively in {system_folder(word.text)}", Risk.CRITICAL, word)


def _is_everything(word: Word) -> bool:
    return bool(EVERYTHING.match(posixpath.normpath(word.text)))


def _move_findings(call: Call) -> Iterator[CommandFinding]:
    operands = _operands(call)
    for word in operands[:-1]:
        if _is_everything(word):
            yield CommandFinding(f"Moves everything in {short_text(word)}", Risk.CRITICAL, word)
        elif system_folder(word.text):
            yield CommandFinding(f"Takes away from {system_folder(word.text)}", Risk.HIGH, word)


def _search_findings(call: Call) -> Iterator[CommandFinding]:
    for inner in wrapped_commands(call).calls:
        # To read the files that it finds is the usual purpose of a search.
        if has_rules(inner.name) or not inner.name or "/" in inner.words[0].text:
            yield CommandFinding("Runs a command on each file that it finds", Risk.MEDIUM, inner.words[0])


def _input_command_findings(call: Call) -> Iterator[CommandFinding]:
    inner = innermost(call)
    if inner.program.is_a(Kind.DELETES):
        yield CommandFinding("What is deleted comes from another command", Risk.HIGH, inner.words[0])
    elif inner.program.is_a(Kind.ENDS):
        yield CommandFinding("Which process it ends comes from another command", Risk.HIGH, inner.words[0])
    elif inner.program.is_a(Kind.SHELL) and any(word.text == "{}" for word in inner.args):
        yield CommandFinding("Runs text that it reads as a program", Risk.HIGH, inner.words[0])
    wrapped = wrapped_commands(call)
    if call.program.is_a(Kind.RUNS_INPUT) and not (wrapped.calls or wrapped.lines):
        yield CommandFinding("Runs text that it reads as a program", Risk.HIGH, call.words[0])
    for line in wrapped.lines:
        first = re.match(r"\s*(?:\S*/)?(\w+)", line.written)
        if first and program_of(common_name(first[1])).is_a(Kind.DELETES):
            yield CommandFinding("What is deleted comes from another command", Risk.HIGH, line)
        elif "{}" in line.written.split(None, 1)[:1]:
            yield CommandFinding("Runs text that it reads as a program", Risk.HIGH, line)


def _kill_findings(call: Call) -> Iterator[CommandFinding]:
    if any(word.text in ("-0", "-l", "-L", "--list", "--table") for word in call.args):
        # Signal 0 ends nothing.
        return
    for word in call.args:
        if not word.known:
            yield CommandFinding("Which process it ends is only known when it runs", Risk.HIGH, word)
        elif call.program.is_a(Kind.ENDS_BY_NAME) and word.text in ("-F", "--pidfile"):
            yield CommandFinding("Which process it ends is read from a file when it runs", Risk.HIGH, word)


def _permission_findings(call: Call) -> Iterator[CommandFinding]:
    everywhere = _has(call, "R", ("--recursive",))
    if everywhere:
        yield CommandFinding(
            "Changes owner or permissions of everything below a folder", Risk.HIGH, call.words[0]
        )
        for word in _operands(call)[1:]:
            if (_is_everything(word) and word.text != ".") or system_folder(word.text):
                text = f"Changes owner or permissions of everything in {short_text(word)}"
                yield CommandFinding(text, Risk.CRITICAL, word)


def _dd_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.args:
        if word.text.startswith("of="):
            target = word.text[3:]
            if target.startswith("/dev/") and not HARMLESS_DEVICES.match(target):
                yield CommandFinding("Writes straight to a device", Risk.CRITICAL, word)


def _script_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.args:
        if word.source.startswith("<("):
            if _DOWNLOADS.search(word.source):
                yield CommandFinding("Runs a download as a shell script", Risk.CRITICAL, word)
            yield CommandFinding("Runs what another command writes; it is not in the line", Risk.HIGH, word)
    if call.program.is_a(Kind.SOURCES):
        if call.input_texts:
            yield CommandFinding("Runs text that it reads as a program", Risk.HIGH, call.words[0])
        yield CommandFinding("Runs another file's lines", Risk.MEDIUM, call.words[0])


def _cd_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.args:
        if system_folder(word.text):
            yield CommandFinding(f"Goes on inside {system_folder(word.text)}", Risk.HIGH, word)


def _tar_findings(call: Call) -> Iterator[CommandFinding]:
    words = [word.text for word in call.args]
    unpacks = any(re.match(r"-?\w*x|--extract|--get", text) for text in words[:4])
    if unpacks and any(re.match(r"-\w*P|--absolute-names", text) for text in words):
        yield CommandFinding("Unpacks files to wherever the archive says", Risk.HIGH, call.words[0])


def _unpack_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in the folder into which an archive is unpacked."""
    for word in _output_words(call, call.program.kinds):
        path = _path_in_option(word)
        if path and re.fullmatch(r"/+\.?", path):
            yield CommandFinding("Unpacks or writes files anywhere below /", Risk.HIGH, word)


_RULES: tuple[tuple[Kind, Callable[[Call], Iterator[CommandFinding]]], ...] = (
    (Kind.DELETES, _delete_findings),
    (Kind.SEARCHES, _search_findings),
    (Kind.FROM_INPUT, _input_command_findings),
    (Kind.RIGHTS, _permission_findings),
    (Kind.BLOCKS, _dd_findings),
    (Kind.ENTERS, _cd_findings),
    (Kind.SOURCES, _script_findings),
    (Kind.SHELL, _script_findings),
    (Kind.MOVES, _move_findings),
    (Kind.ENDS, _kill_findings),
    (Kind.TAR, _tar_findings),
    (Kind.UNPACKS, _unpack_findings),
)


@cache
def _rules_for(kinds: frozenset[Kind]) -> tuple[Callable[[Call], Iterator[CommandFinding]], ...]:
    """The rules for programs of these kinds; there are as many sets of kinds as the records have."""
    return tuple(rule for kind, rule in _RULES if kind in kinds)


_WITH_RULES = frozenset({Kind.INTERPRETER, Kind.ROOT, *OVERWRITING, *REACHING, *(kind for kind, _ in _RULES)})


def _system_folder_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in the paths that a writing command names."""
    if call.program.kinds.isdisjoint(_WRITING):
        return
    targets = _write_targets(call)
    if targets and is_read_only(call):
        return
    for word in targets:
        path = _path_in_option(word)
        folder = system_folder(path) or system_folder(word.source.strip("\"'"))
        if folder == "/dev":
            yield CommandFinding("Writes straight to a device", Risk.CRITICAL, word)
        elif folder:
            yield CommandFinding(f"Writes under {folder}", Risk.HIGH, word)
        yield from startup_file_findings(word)


def _write_targets(call: Call) -> list[Word]:
    """The words of a call that may name what it writes."""
    kinds = call.program.kinds
    words = [word for word in call.args if not word.text.startswith("-") or "=" in word.text]
    if call.program.is_a(Kind.WRITES_OPERANDS, Kind.DELETES, Kind.LINE_EDITOR):
        return words
    if Kind.WRITES_IN_PLACE in kinds and _has(call, "i", ("--in-place",)):
        return words
    if Kind.WRITES_LAST in kinds:
        return words if _has(call, "t", ("--target-directory",)) else words[-1:]
    return _output_words(call, kinds)


def _path_in_option(word: Word) -> str:
    """The path in a word, after the name of an option or of an operand of `dd`."""
    if attached := re.match(r"-[CdoO](?=/)", word.text):
        return word.text[attached.end() :]
    return word.text.split("=", 1)[-1] if word.text.startswith(("-", "of=")) else word.text


_WITH_OUTPUT_OPTION = frozenset({Kind.OUTPUT_OPTION, Kind.DOWNLOADS})
_WRITING = _WITH_OUTPUT_OPTION | {
    Kind.WRITES_OPERANDS, Kind.WRITES_LAST, Kind.WRITES_IN_PLACE, Kind.DELETES, Kind.LINE_EDITOR,
}  # fmt: skip
_OUTPUT_OPTION = re.compile(
    r"-\w*[CdoOP]|--(?:directory|output|output-document|directory-prefix|output-dir)|-out|-keyout"
)


def _output_words(call: Call, kinds: frozenset[Kind]) -> list[Word]:
    """The words after an output option, for programs that may also read from system folders."""
    if kinds.isdisjoint(_WITH_OUTPUT_OPTION):
        return []
    args = call.args
    after = [
        word
        for before, word in pairwise(args)
        if _OUTPUT_OPTION.fullmatch(before.text) and not (Kind.GIT in kinds and before.text == "-C")
    ]
    if Kind.TAR in kinds and args and re.fullmatch(r"\w*C\w*", args[0].text):
        after += args[1:4]
    return [*after, *(word for word in args if re.match(r"--[\w-]+=/|-[CdoO]/", word.text))]


def redirection_findings(redirect: Redirect) -> Iterator[CommandFinding]:
    """The findings in a redirection of output into a file."""
    word = redirect.target
    if word.known and HARMLESS_DEVICES.match(word.text):
        return
    if word.source.startswith(">("):
        # A process substitution: its command is a call of the line and has its own findings.
        return
    folder = system_folder(word.text)
    yield from startup_file_findings(word)
    if names_secrets(path_in(word)):
        yield CommandFinding("Names where keys or passwords are", Risk.HIGH, word)
    if word.text.startswith(("/dev/tcp/", "/dev/udp/")):
        yield CommandFinding("Sends its output to another computer", Risk.CRITICAL, word)
        return
    if folder == "/dev":
        yield CommandFinding("Writes straight to a device", Risk.CRITICAL, word)
        return
    if folder:
        yield CommandFinding(f"Writes under {folder}", Risk.HIGH, word)
    yield from file_write_findings(word, redirect.appends)


def input_file_findings(word: Word) -> Iterator[CommandFinding]:
    """The findings in a redirection of input from a file."""
    if names_secrets(path_in(word)):
        yield CommandFinding("Names where keys or passwords are", Risk.HIGH, word)
    if word.text.startswith(("/dev/tcp/", "/dev/udp/")):
        yield CommandFinding("Takes its input from another computer", Risk.HIGH, word)


def _has(call: Call, short: str, long: tuple[str, ...] = ()) -> bool:
    for word in call.args:
        if word.text == "--":
            return False
        text = word.text.casefold() if word.text.startswith("/") else word.text
        if any(text.casefold() == name or (name.startswith("--") and text.startswith(name)) for name in long):
            return True
        if re.match(r"-\w", word.text) and any(sign in word.text for sign in short):
            return True
    return False


def _operands(call: Call) -> list[Word]:
    return [word for word in call.args if not word.text.startswith("-")]
