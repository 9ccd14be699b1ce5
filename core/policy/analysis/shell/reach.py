"""Rules for what a shell command reaches: keys, addresses, startup files, other programs and computers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from core.confusables import looks_plain, plain_look
from core.models.tools import Risk
from core.policy.analysis.shell.options import options_of
from core.policy.analysis.shell.parser import Call, CommandFinding, Word
from core.policy.analysis.shell.places import STARTUP, names_secrets
from core.policy.analysis.urls import URL_INSIDE, findings_in_url
from core.programs.record import Kind, Sends

_HOME = re.compile(r"^[\"']?\$(?:HOME|\{HOME\}|USERPROFILE)[\"']?")
_VARIABLE_FIRST = re.compile(r"^[\"']?\$(?:\w+|\{\w+\})[\"']?/(?:\*|\.\*)?[\"']?$")
# A text to be sent that names a file: `@file`, `field=@file`, `name@file`.
_NAMES_A_FILE = re.compile(r"@|[^=]*[=@][@<]|[\w-]+@")
_MOST_ADDRESSES = 5


def path_in(word: Word) -> str:
    """A word as a path, with the home folder as `~`; only the part that is known before the line runs."""
    return _HOME.sub("~", word.source, count=1).strip("\"'") if _HOME.match(word.source) else word.text


def reach_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in what a command reaches, by its words."""
    first = call.words[0]
    if not first.text.isascii() and looks_plain(first.text):
        text = f"Hides what it is: its name looks like “{plain_look(first.text)}” and is not"
        yield CommandFinding(text, Risk.HIGH, first)
    for word in call.args:
        if names_secrets(path_in(word)):
            yield CommandFinding("Names where keys or passwords are", Risk.HIGH, word)
    yield from _address_findings(call)
    record = call.program
    if record.sends is not None:
        yield from _transfer_findings(call, record.sends)
    if not record.kinds.isdisjoint(REACHING):
        for kind, rule in _RULES:
            if kind in record.kinds:
                yield from rule(call)


def startup_file_findings(word: Word) -> Iterator[CommandFinding]:
    """The findings in writing to a file that shells or desktops run, or that permits logins."""
    path = path_in(word)
    if path.endswith("authorized_keys"):
        yield CommandFinding("Decides who may log in without a password", Risk.CRITICAL, word)
    elif STARTUP.search(path):
        yield CommandFinding("Writes to a file that runs by itself", Risk.HIGH, word)


def variable_deletion_findings(word: Word) -> Iterator[CommandFinding]:
    """The finding in a recursive deletion of a path that is only known when the line runs."""
    if _VARIABLE_FIRST.match(word.source):
        text = "Deletes everything from / on when that variable is empty"
        yield CommandFinding(text, Risk.CRITICAL, word)
    else:
        yield CommandFinding("Deletes recursively below a variable path", Risk.HIGH, word)


def _address_findings(call: Call) -> Iterator[CommandFinding]:
    remaining = _MOST_ADDRESSES
    for word in call.args:
        for match in URL_INSIDE.finditer(word.text[:4_096]):
            if remaining == 0:
                return
            remaining -= 1
            for text, risk in findings_in_url(match.group()):
                yield CommandFinding(text, risk, word)


def _kill_findings(call: Call) -> Iterator[CommandFinding]:
    for number, word in enumerate(call.args):
        if word.text == "1":
            yield CommandFinding("Ends process 1, which everything else hangs from", Risk.CRITICAL, word)
        elif word.text in ("-1", "0") and number > 0:
            yield CommandFinding("Ends every process it may", Risk.CRITICAL, word)


def _kill_by_name_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.args:
        if word.text in (".", ".*", "*", "", "-u", "-U", "--user"):
            yield CommandFinding("Ends many processes at once", Risk.CRITICAL, word)


def _container_findings(call: Call) -> Iterator[CommandFinding]:
    for before, word in zip(call.words, call.args, strict=False):
        mounts = before.text in ("-v", "--volume", "--mount")
        text = word.text.partition("=")[2] if word.text.startswith(("--volume=", "--mount=")) else word.text
        if re.match(r"-\w*v/", word.text):
            text = word.text.partition("v")[2]
        elif source := re.search(r"(?:^|,)(?:src|source)=([^,]*)", text):
            text = source[1]
        if (mounts or text != word.text) and re.match(
            r"/(?:etc|root|home|var/run)?(?::|/?$)|.*docker\.sock", text
        ):
            yield CommandFinding("Gives a container the files of this computer", Risk.CRITICAL, word)
        elif re.match(r"--(?:pid|net|network|ipc|userns|uts)=host$", word.text):
            yield CommandFinding("Gives a container a part of this computer", Risk.HIGH, word)


def _transfer_findings(call: Call, sends: Sends) -> Iterator[CommandFinding]:
    for option in options_of(call).options:
        if option.name in sends.unchecked:
            yield CommandFinding("Does not check who answers", Risk.MEDIUM, option.word)
        elif option.value is not None and (
            option.name in sends.files
            or (option.name in sends.texts and _NAMES_A_FILE.match(option.value.written[:200]))
        ):
            yield CommandFinding("Sends a file to another computer", Risk.HIGH, option.value)


def _socket_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.input_files:
        yield CommandFinding("Sends a file to another computer", Risk.HIGH, word)


def _lookup_findings(call: Call) -> Iterator[CommandFinding]:
    for word in call.args:
        if not word.known:
            yield CommandFinding(
                "Asks the network for a name that is only known when it runs", Risk.MEDIUM, word
            )


def _editor_findings(call: Call) -> Iterator[CommandFinding]:
    """The findings in the commands that an editor reads from its input."""
    if any(re.search(r"(?:^|\n|;)\s*[\d,.$%]*!", word.written) for word in call.input_texts):
        yield CommandFinding("May run commands from inside another program", Risk.HIGH, call.words[0])
    elif call.program.is_a(Kind.LINE_EDITOR) and call.input_texts:
        yield CommandFinding("Changes files by the commands that it reads", Risk.MEDIUM, call.words[0])


_RULES: tuple[tuple[Kind, Callable[[Call], Iterator[CommandFinding]]], ...] = (
    (Kind.ENDS_BY_NUMBER, _kill_findings),
    (Kind.ENDS_BY_NAME, _kill_by_name_findings),
    (Kind.MOUNTS, _container_findings),
    (Kind.SOCKETS, _socket_findings),
    (Kind.LOOKS_UP, _lookup_findings),
    (Kind.EDITOR, _editor_findings),
)
REACHING = frozenset(kind for kind, _ in _RULES)
"""The kinds of programs with a rule in this module."""
