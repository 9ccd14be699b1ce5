"""A program whose input or output is closed, full or read by nobody goes its way and tells by its code."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from core import cli
from core.cli import base
from core.cli.app import run
from core.cli.prompt import is_terminal, open_missing_streams
from core.cli.session import Session
from core.errors import JournalUnavailable
from core.home import Home
from core.service import exit_codes
from tests.fakes.control_socket import FakeHost

Into = Callable[[str, int], None]


@pytest.fixture
def into(monkeypatch: pytest.MonkeyPatch) -> Iterator[Into]:
    """Let one of the standard streams write to a descriptor."""
    opened = []

    def one(name: str, descriptor: int) -> None:
        opened.append(os.fdopen(descriptor, "w", encoding="utf-8"))
        monkeypatch.setattr(sys, name, opened[-1])

    yield one
    monkeypatch.undo()
    for stream in opened:
        stream.close()


def unread() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["version"], exit_codes.DONE),
        (["version", "--help"], exit_codes.DONE),
        (["nonsense", "--json"], exit_codes.BAD_INPUT),
    ],
)
def test_who_has_read_enough_changes_nothing_of_how_it_went(into: Into, words: list[str], code: int) -> None:
    into("stdout", unread())
    assert run(words) == code


def test_remarks_that_nobody_reads_change_nothing_either(into: Into) -> None:
    into("stderr", unread())
    assert run(["nonsense"]) == exit_codes.BAD_INPUT


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_an_answer_that_does_not_fit_on_the_disk_is_missed(
    into: Into, capsys: pytest.CaptureFixture[str]
) -> None:
    into("stdout", os.open("/dev/full", os.O_WRONLY))
    assert run(["version"]) == exit_codes.FAULT
    assert "could not be written: No space left on device." in capsys.readouterr().err


def test_streams_that_are_missing_are_empty_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    # As after `<&- >&- 2>&-`: Python has None there, and print would take standard output for error.
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert run(["version"]) == exit_codes.DONE
    assert run(["nonsense"]) == exit_codes.BAD_INPUT
    assert not is_terminal()
    assert sys.stdin.read() == ""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


def test_streams_that_are_there_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    there = (sys.stdin, sys.stdout, sys.stderr)
    open_missing_streams()
    assert (sys.stdin, sys.stdout, sys.stderr) == there


def test_ctrl_c_before_the_commands_are_loaded_is_as_quiet_as_later(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "core.cli.app", Slow())
    assert cli.main(["version"]) == exit_codes.INTERRUPTED


def test_a_home_that_cannot_be_closed_is_told_beside_the_answer_and_not_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextlib.asynccontextmanager
    async def on_a_full_disk(home: Home, *_: object) -> AsyncIterator[Session]:
        yield Session(home, FakeHost().console("cli:anna"), hosted=True)
        raise JournalUnavailable("The disk is full.")

    monkeypatch.setattr(base, "open_session", on_a_full_disk)
    assert run(["--home", str(tmp_path), "runs", "list", "--json"]) == exit_codes.JOURNAL_BAD
    told = capsys.readouterr()
    assert json.loads(told.out) == {"runs": []}
    assert "The disk is full." in told.err


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such signal")
async def test_a_terminal_that_closes_ends_no_command_that_was_started_with_nohup() -> None:
    loop = asyncio.get_running_loop()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        base.end_on_signals()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert loop.remove_signal_handler(signal.SIGTERM)
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        signal.signal(signal.SIGHUP, before)
