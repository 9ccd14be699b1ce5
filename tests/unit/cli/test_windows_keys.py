"""Questions at a console of Windows, whose keys are a double: lines are read key by key, and never block."""

from __future__ import annotations

import asyncio
import io
import signal
import sys
from typing import Any

import pytest

from core.cli import prompt
from tests.fakes.msvcrt_double import FakeMsvcrt
from tests.fakes.on_windows import loaded_on_windows
from tests.fakes.patience import PATIENCE_S


class Seat:
    """A console, with a person at it who types `answer` once a question is shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.console = FakeMsvcrt()
        self.module: Any = loaded_on_windows(monkeypatch, prompt, self.console)
        self.asked = asyncio.Event()
        self.answer = ""
        seat = self

        class Screen(io.StringIO):
            def flush(self) -> None:
                seat.console.keys.extend(seat.answer)
                seat.asked.set()

        self.screen = Screen()
        self._patch = monkeypatch

    async def types(self, answer: str, secret: bool = False) -> str:
        self.answer = answer
        # Not in a fixture: pytest puts its own stream in place when the test itself begins.
        self._patch.setattr(sys, "stderr", self.screen)
        async with asyncio.timeout(PATIENCE_S):
            line: str = await self.module.ask_line("? ", secret)
        return line


@pytest.fixture
async def seat(monkeypatch: pytest.MonkeyPatch) -> Seat:
    return Seat(monkeypatch)


@pytest.mark.parametrize(
    ("keys", "line", "shown"),
    [
        ("approve\r", "approve", "approve\r\n"),
        ("\r", "", "\r\n"),
        # An arrow key is two codes, and no letter; the first of them alone is one.
        ("no\xe0Kt\r", "not", "not\r\n"),
        ("a\x00;b\x1b\tc\r", "abc", "abc\r\n"),
        ("x\b\bdeny\r", "deny", "x\b \bdeny\r\n"),
        ("漢\b字\r", "字", "漢\b \b\b \b字\r\n"),
        # A character beyond 16 bits is two codes, and one for who takes it back.
        ("\ud83d\ude00ok\r", "\U0001f600ok", "\ud83d\ude00ok\r\n"),
        ("\ud83d\ude00\bok\r", "ok", "\ud83d\ude00\b \b\b \bok\r\n"),
    ],
)
async def test_a_line_is_what_was_typed_and_taken_back(seat: Seat, keys: str, line: str, shown: str) -> None:
    assert await seat.types(keys) == line
    assert (seat.console.shown, seat.screen.getvalue()) == (shown, "? ")


async def test_the_letter_that_is_also_the_first_code_of_a_key_can_be_typed(seat: Seat) -> None:
    asking = asyncio.gather(seat.types("voil\xe0"))
    await seat.asked.wait()
    # Typed by hand, the next key is not there at once.
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.to_thread(seat.console.echoed.wait)
    seat.console.keys.extend("\r")
    assert await asking == ["voil\xe0"]


async def test_a_secret_is_not_echoed(seat: Seat) -> None:
    assert await seat.types("correct\b horse\r", secret=True) == "correc horse"
    assert seat.console.shown == "\r\n"


async def test_what_was_typed_before_the_question_is_no_answer(seat: Seat) -> None:
    seat.console.keys.extend("approve\r")
    assert await seat.types("deny\r") == "deny"


async def test_the_end_of_input_is_no_answer(seat: Seat) -> None:
    with pytest.raises(seat.module.TerminalClosed):
        await seat.types("appro\x1a")


async def test_ctrl_c_interrupts_the_program(seat: Seat, monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[int] = []
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    with pytest.raises(seat.module.TerminalClosed):
        await seat.types("appro\x03")
    assert raised == [signal.SIGINT]


async def test_a_question_that_was_answered_elsewhere_takes_no_key_any_more(seat: Seat) -> None:
    asking = asyncio.gather(seat.types(""))
    await seat.asked.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    # The thread of the question has ended, though no key was pressed.
    await asyncio.get_running_loop().shutdown_default_executor()
    seat.console.keys.extend("approve\r")
    assert seat.console.shown == ""
    assert "".join(seat.console.keys) == "approve\r"
