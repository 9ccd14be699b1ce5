"""Rules for files that a shell command overwrites by its arguments: `tar -czf X`, `curl -o X`, `cp a X`.

Most are written by options and operands that the record of the program names (`Writes`); archives have rules
of their own, with the options of GNU tar, Info-ZIP and 7-Zip. Redirections of the shell itself are in
`core.policy.analysis.shell.rules`. Only the device knows whether the file exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from core.models.tools import Risk
from core.policy.analysis.shell.options import Options, options_of
from core.policy.analysis.shell.parser import Call, CommandFinding, Word
from core.policy.analysis.shell.places import HARMLESS_DEVICES
from core.programs.record import Kind, Writes
from core.text import short_line

_UNPACKS = "Replaces files of the same name where it unpacks"
_DELETES_SOURCES = "Deletes the files that it packs"


def overwrite_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in the files that a call overwrites."""
    record = call.program
    if record.writes is not None:
        yield from _written_findings(call, record.writes)
    if not record.kinds.isdisjoint(OVERWRITING):
        for kind, rule in _RULES:
            if kind in record.kinds:
                yield from rule(call)


def file_write_findings(word: Word, appends: bool = False) -> Iterator[CommandFinding]:
    """The finding in writing to the file that a word names; none for a standard stream or `/dev/null`."""
    if word.known and (word.text in ("-", "") or HARMLESS_DEVICES.match(word.text)):
        return
    if not word.known:
        yield CommandFinding("Writes to a file whose path is only known when it runs", Risk.MEDIUM, word)
    elif appends:
        yield CommandFinding(f"Appends to {short_text(word)}", Risk.LOW, word)
    else:
        yield CommandFinding(f"Overwrites {short_text(word)} if it exists", Risk.MEDIUM, word)


def replacement_findings(word: Word) -> Iterator[CommandFinding]:
    """The finding in replacing a file, or the files of the same name in a folder."""
    if not word.known:
        yield CommandFinding("Replaces what is only known when it runs", Risk.MEDIUM, word)
    elif word.text.endswith("/"):
        yield CommandFinding(f"Replaces files of the same name in {short_text(word)}", Risk.MEDIUM, word)
    else:
        yield CommandFinding(f"Replaces {short_text(word)} if it exists", Risk.MEDIUM, word)


def short_text(word: Word) -> str:
    """A word for use in a sentence: on one line, at most 60 characters."""
    return short_line(word.text)


def _written_findings(call: Call, writes: Writes) -> Iterator[CommandFinding]:
    options = options_of(call)
    for word in options.values(*writes.to):
        yield from file_write_findings(word)
    for word in options.values(*writes.adds_to):
        yield from file_write_findings(word, appends=True)
    if writes.operand and not _keeps_operands(options, writes):
        yield from _operand_findings(options, writes)


def _keeps_operands(options: Options, writes: Writes) -> bool:
    """Whether the options say that no file of an operand is overwritten.

    If one says so and one the opposite, the last one counts for `mv`, and for other programs it depends on
    the program: such a call counts as one that overwrites.
    """
    if writes.needs and not options.has(*writes.needs):
        return True
    with_value = {f"{option.name}={option.value.written}" for option in options.options if option.value}
    return (options.has(*writes.unless) or not with_value.isdisjoint(writes.unless)) and not options.has(
        *writes.force
    )


def _operand_findings(options: Options, writes: Writes) -> Iterator[CommandFinding]:
    operands = options.operands
    match writes.operand:
        case "each":
            for word in operands:
                yield from file_write_findings(word, appends=options.has(*writes.adds))
        case "second":
            for word in operands[1:2]:
                yield from file_write_findings(word)
        case "last":
            targets = options.values(*writes.into)
            for word in targets or (operands[-1:] if len(operands) > 1 else []):
                yield from replacement_findings(word)
        case "fetched":
            text = "Overwrites a file named like the download if it exists"
            for word in [*operands, *options.values("--url")]:
                yield CommandFinding(text, Risk.MEDIUM, word)


def _blocks_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.args:
        if word.written.startswith("of="):
            target = word.cut(len("of="))
            # Writing to a device has its own finding.
            if not target.text.startswith("/dev/"):
                yield from file_write_findings(target)


_TAR_CHANGES = ("-r", "--append", "-u", "--update", "-A", "--catenate", "--concatenate", "--delete")


def _tar_findings(call: Call) -> Iterator[CommandFinding]:
    options = options_of(call)
    files = options.values("-f", "--file")
    letters = {option.name for option in options.options}
    first = call.args[0] if call.args else None
    if first is not None and first.known and re.fullmatch(r"[A-Za-z]+", first.text):
        # Without a dash, the values of the letters follow them in the same order.
        with_value = call.program.options.values
        values = iter(call.args[1:])
        for letter in first.text:
            letters.add(f"-{letter}")
            value = next(values, None) if f"-{letter}" in with_value else None
            if letter == "f" and value is not None:
                files.append(value)
    if letters & {"-c", "--create", *_TAR_CHANGES}:
        for word in files:
            yield from file_write_findings(word, appends=not letters & {"-c", "--create"})
        if "--remove-files" in letters:
            yield CommandFinding(_DELETES_SOURCES, Risk.HIGH, call.words[0])
    elif letters & {"-P", "--absolute-names", "--absolute-paths"}:
        text = "Unpacks files to wherever the archive names them"
        yield CommandFinding(text, Risk.HIGH, call.words[0])
    # Unpacking is the usual use of an archive; with these options it also replaces folders and links.
    if letters & {"--overwrite", "--unlink-first", "-U", "--recursive-unlink"}:
        yield CommandFinding(_UNPACKS, Risk.MEDIUM, call.words[0])


def _zip_findings(call: Call) -> Iterator[CommandFinding]:
    options = options_of(call)
    if options.has("-T", "--test", "-h", "--help", "--show-files", "-L"):
        return
    for word in options.values("-O", "--out") or options.operands[:1]:
        yield from file_write_findings(word)
    if options.has("-m", "--move"):
        yield CommandFinding(_DELETES_SOURCES, Risk.HIGH, call.words[0])


def _unzip_findings(call: Call) -> Iterator[CommandFinding]:
    options = options_of(call)
    if options.has("-o") and not options.has("-l", "-v", "-t", "-p", "-c", "-z", "-n"):
        yield CommandFinding(_UNPACKS, Risk.MEDIUM, call.words[0])


def _seven_zip_findings(call: Call) -> Iterator[CommandFinding]:
    words = [word for word in call.args if not word.text.startswith("-")]
    if len(words) > 1 and words[0].text in ("a", "u", "d", "rn"):
        yield from file_write_findings(words[1])
    elif words and words[0].text in ("x", "e") and any(word.text in ("-y", "-aoa") for word in call.args):
        yield CommandFinding(_UNPACKS, Risk.MEDIUM, call.words[0])


_RULES: tuple[tuple[Kind, Callable[[Call], Iterator[CommandFinding]]], ...] = (
    (Kind.BLOCKS, _blocks_findings),
    (Kind.TAR, _tar_findings),
    (Kind.ZIP, _zip_findings),
    (Kind.UNZIP, _unzip_findings),
    (Kind.SEVEN_ZIP, _seven_zip_findings),
)
OVERWRITING = frozenset(kind for kind, _ in _RULES)
"""The kinds of programs with a rule in this module."""
