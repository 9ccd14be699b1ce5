"""Plays the cases one after the other on one stage, and tells what each printed."""

from __future__ import annotations

import contextlib
import json
import platform
import re
import shlex
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core import __version__
from core.cli.command_table import COMMANDS
from core.cli.output import as_json
from core.device import system_info
from core.user import user_name
from tests.golden import recordings
from tests.golden.cli.cases import CASES, Case
from tests.golden.cli.printing import COLOURS, NO_COLOURS, Ran, printed, ran
from tests.golden.cli.stable import Names
from tests.golden.cli.stage import Stage
from tests.golden.story import short_folder

FOLDER = recordings.FOLDER / "commands"
_COLOUR_NAMES = {"0": "</>", "1": "<b>", "2": "<dim>", "31": "<red>", "32": "<green>", "33": "<yellow>"}
_COLOUR_NAMES |= {"34": "<blue>", "35": "<magenta>"}
_COLOUR = re.compile(r"\x1b\[(\d+)m")
_STATE_COLOUR = re.compile(r"\x1b\[3\dm")
WIDE = 80


def _system() -> str:
    named: str = system_info.registration("", [])["custom_metadata"]["os_name"]
    return named


def _names(folder: Path) -> Names:
    python = re.escape(platform.python_version())
    return Names(
        {
            re.compile(re.escape(str(folder))): "/tmp/story",
            re.compile(rf"\bcli:{re.escape(user_name())}(?![\w.-])"): "cli:user",
            re.compile(rf"(?<=host ){re.escape(socket.gethostname())}\b"): "desk",
            re.compile(rf"(?<![\w.]){re.escape(__version__)}(?![\w.])"): "VERSION",
            re.compile(rf"(?<![\w.]){python}(?![\w.])"): "PYTHON",
            re.compile(re.escape(_system())): "Debian GNU/Linux 12",
        }
    )


@dataclass(slots=True)
class Play:
    """The stage, and what cases have kept for those after them."""

    stage: Stage
    names: Names
    kept: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def shown(self, case: Case) -> str:
        """Play a case and tell what it printed, as it is kept in a file."""
        if case.first is not None:
            case.first(self.stage, self.kept)
        line = case.line.format(folder=self.stage.folder, **self.kept)
        words = ["--home", str(self.stage.folder / case.home), *shlex.split(line)]
        one = ran(words)
        if one.code != case.ends:
            self.wrong.append(f"{line} ended with {one.code} and not with {case.ends}: {one}")
        parts = [f"$ quarterdeck {self.names.text(line)}\nexit code {one.code}"]
        parts += self._answered(case, one) if one.answer else self._failed(one, words)
        return "\n\n".join(part.rstrip("\n") for part in parts if part.strip()) + "\n"

    def _failed(self, one: Ran, words: list[str]) -> list[str]:
        """What a command that ended with an error printed, and its JSON, from a second attempt."""
        again = ran([*words, "--json"])
        if again.code != one.code:
            self.wrong.append(f"{words} ended with {one.code}, and with {again.code} for JSON: {again}")
            return []
        value = as_json(self.names.json(json.loads(again.out)))
        return [
            self.names.text(one.out),
            _under("standard error", self.names.text(one.err)),
            _under("json", value),
        ]

    def _answered(self, case: Case, one: Ran) -> Iterator[str]:
        assert one.answer is not None
        value = json.loads(printed(one.answer, None, NO_COLOURS, True)[0])
        for name, path in case.keeps.items():
            self.kept[name] = _at(value, path)
        answer = self.names.answer(one.answer, value)
        out, err = printed(answer, WIDE, NO_COLOURS, False)
        yield self.names.text(one.out) + out
        yield _under("standard error", self.names.text(one.err) + err)
        yield _under("in colour", _coloured_lines(printed(answer, WIDE, COLOURS, False)))
        for columns in case.columns:
            yield _under(f"at {columns} columns", printed(answer, columns, NO_COLOURS, False)[0])
        yield _under("json", printed(answer, None, NO_COLOURS, True)[0])


def _at(value: Any, path: str) -> str:
    for name in path.split("."):
        value = value[int(name)] if name.isdigit() else value[name]
    assert isinstance(value, str), (path, value)
    return value


def _under(title: str, text: str) -> str:
    return f"--- {title}\n{text}" if text.strip() else ""


def _coloured_lines(texts: tuple[str, str]) -> str:
    """The lines that show a state by its colour."""
    lines = [line for text in texts for line in text.splitlines() if _STATE_COLOUR.search(line)]
    return "\n".join(_COLOUR.sub(lambda match: _COLOUR_NAMES[match[1]], line) for line in lines)


def file_of(word: str) -> str:
    """The file that has the cases of a command."""
    return GROUPS.get(word, word if word in COMMANDS else "program")


GROUPS = {
    "version": "program",
    "completion": "program",
    "gateway": "program",
    "pair": "devices",
    "run": "runs",
    "resume": "runs",
    "undo": "runs",
    "search": "tools",
    "describe": "tools",
    "do": "tools",
    "restore": "backup",
}
"""The file of a command that is no group of its own."""


def play() -> dict[str, str]:
    """What each case printed, by file."""
    with short_folder() as folder:
        stage = Stage(folder)
        told: dict[str, list[str]] = {}
        try:
            playing = Play(stage, _names(folder))
            for case in CASES:
                told.setdefault(file_of(case.words[0]), []).append(playing.shown(case))
        finally:
            stage.close()
            with contextlib.suppress(Exception):
                ran(["--home", str(stage.home.path), "service", "stop", "--cancel-work"])
    assert not playing.wrong, "\n".join(playing.wrong)
    return {name: f"\n{'=' * WIDE}\n\n".join(texts) for name, texts in sorted(told.items())}


def kept() -> dict[str, str]:
    """What was kept, by file."""
    return {file.stem: file.read_text() for file in sorted(FOLDER.glob("*.txt"))}


def differences(now: dict[str, str]) -> dict[str, str]:
    """What is not as it was kept, by file; a file that one of the two lacks is empty there."""
    before = kept()
    return {
        name: recordings.text_difference(f"{name}.txt", before.get(name, ""), now.get(name, ""))
        for name in sorted(before | now)
    }


def write() -> int:
    """Keep what is printed now; what differs between two plays is refused."""
    one, other = play(), play()
    names = sorted(one | other)
    unsteady = [recordings.text_difference(name, one.get(name, ""), other.get(name, "")) for name in names]
    if any(unsteady):
        print("\n\n".join(filter(None, unsteady)))
        return 1
    FOLDER.mkdir(exist_ok=True)
    for name in kept().keys() - one.keys():
        (FOLDER / f"{name}.txt").unlink()
    for name, text in one.items():
        (FOLDER / f"{name}.txt").write_text(text)
    return 0


def files() -> set[str]:
    """The files of all cases."""
    return {file_of(case.words[0]) for case in CASES}
