"""Runs a command of the command line in this process, and prints its answer as every reader would see it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import io
import os
import pty
import struct
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from unittest import mock

from core.cli import answer as answers
from core.cli import app, base
from core.cli.answer import Answer
from core.cli.output import Prose

COLOURS = "xterm"
NO_COLOURS = "dumb"


class Screen(io.StringIO):
    """What a terminal of `columns` shows, or, without a width, what a pipe gets."""

    def __init__(self, columns: int | None = None) -> None:
        super().__init__()
        self._columns = columns
        self._ends = pty.openpty() if columns else (-1, -1)
        if columns:
            fcntl.ioctl(self._ends[1], termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def isatty(self) -> bool:
        return self._columns is not None

    def fileno(self) -> int:
        return self._ends[1]

    def leave(self) -> str:
        """What was printed; the terminal is closed."""
        if self._columns:
            for end in self._ends:
                os.close(end)
        return self.getvalue()


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has run: what it printed while it worked, its answer if there is one, its exit code."""

    out: str
    err: str
    answer: Answer | None
    code: int


@contextlib.contextmanager
def _streams(columns: int | None, terminal: str) -> Iterator[tuple[Screen, Screen]]:
    """Standard output and error on a terminal of this kind; nothing is on standard input."""
    out, err = Screen(columns), Screen(columns)
    with (
        open(os.devnull, encoding="utf-8") as nothing,
        mock.patch.object(sys, "stdin", nothing),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.dict(os.environ, {"TERM": terminal, "NO_COLOR": ""}),
    ):
        yield out, err


async def _whole(answer: Answer) -> Answer:
    """The answer with all that is read only for some readers, so that it can be printed for each."""
    value = await answer.value() if callable(answer.value) else answer.value
    text = await answer.text() if callable(answer.text) else answer.text
    return dataclasses.replace(
        answer, value=value, text=[text] if isinstance(text, str | Prose) else list(text)
    )


def ran(argv: list[str]) -> Ran:
    """Run a command to its end as the program does in a pipe; its answer is kept instead of printed."""
    given: list[Answer] = []

    async def keep(answer: Answer, _json_wanted: bool) -> None:
        given.append(await _whole(answer))

    with _streams(None, NO_COLOURS) as (out, err), mock.patch.object(base, "print_answer", keep):
        code = app.run(argv)
    return Ran(out.leave(), err.leave(), given[0] if given else None, code)


def printed(answer: Answer, columns: int | None, terminal: str, json_wanted: bool) -> tuple[str, str]:
    """What the program prints of an answer on standard output and standard error."""
    with _streams(columns, terminal) as (out, err):
        asyncio.run(answers.print_answer(answer, json_wanted))
    return out.leave(), err.leave()
