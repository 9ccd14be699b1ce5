"""Failures that nobody would see: each reaches the banner, also when what asked is gone by then."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.main import ConsoleApplication
from app.qt_loop import ended
from app.screens.fleet.device_dialogs import start_revoke
from app.screens.replay.screen import ReplayScreen
from app.screens.targets import OpenReplay
from app.service_client import ConsoleLink
from app.state import Link
from app.theme.theme import Theme
from core.errors import Refused
from core.service.console import Console, ConsoleState
from tests.fakes.approvals_desk import DeskWith
from tests.fakes.console import FakeConsole
from tests.fakes.sign_sheets import operator_of
from tests.fakes.story import story
from tests.fakes.window import open_window, seen


def broken(_answer: object) -> None:
    raise ValueError("nobody sees this")


async def broken_work() -> None:
    broken(None)


async def refused(_console: Console) -> None:
    raise Refused("The queue is closed.")


@pytest.mark.parametrize(
    "go_wrong",
    [
        pytest.param(lambda link: link.ask(lambda console: console.approvals.list(), broken), id="answer"),
        pytest.param(lambda link: link.ask(refused, on_error=broken), id="refusal"),
        pytest.param(lambda link: link.spawn("work", broken_work()), id="background work"),
    ],
)
async def test_an_error_of_the_window_reaches_the_banner_and_fails_the_test(
    theme: Theme, tmp_path: Path, go_wrong: Callable[[ConsoleLink], object]
) -> None:
    heard: list[str] = []
    with pytest.raises(AssertionError, match="ValueError: nobody sees this"):  # noqa: PT012  # as it ends
        async with open_window(theme, tmp_path, FakeConsole()) as desk:
            desk.reporter.happened.connect(lambda words, _details: heard.append(words))
            go_wrong(desk.link)
            await seen(lambda: heard)
    assert heard == ["ValueError: nobody sees this"]


async def test_an_error_in_an_answer_fails_the_test_of_a_screen_without_a_window(desk_with: DeskWith) -> None:
    with pytest.raises(ValueError, match="nobody sees this"):  # noqa: PT012  # as it ends
        async with desk_with() as desk:
            asked = desk.screen.link.ask(lambda console: console.approvals.list(), broken)
            await asyncio.wait([asked])


async def test_the_link_goes_on_after_an_error_that_nobody_expected(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    def state() -> ConsoleState:
        if console.asked.count("state") == 1:
            raise ValueError("a bug of the window")
        return console.on_state()

    console.answer("state", state)

    async with open_window(theme, tmp_path, console, has_faults=True) as desk:
        await seen(lambda: desk.state.service.link is Link.CONNECTED)
        assert console.asked.count("state") == 2


async def test_a_refused_act_is_told_although_its_dialog_was_closed(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])
    console.answer("revoke", Refused("The disk is full."))
    answer = console.hold_back("revoke")

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.open("fleet")
        device = next(iter(desk.state.devices.values()))
        sheet = start_revoke(desk.window, desk.link, device, desk.window.toast)
        sheet.answer("revoke").click()
        await seen(lambda: "revoke" in console.asked)
        sheet.dismissed.emit()
        await ended(sheet.destroyed)
        answer.set()
        await seen(lambda: "Could not revoke the device. The disk is full." in said(desk))


def said(desk: ConsoleApplication) -> str:
    """What the banners of the window say."""
    return " ".join(desk.window.notices.words())


async def test_a_proof_of_another_entry_is_no_proof_of_the_one_that_was_asked_for(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.answer("proof", lambda seq: console.on_proof(seq - 1))

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.open("replay", OpenReplay(run="r-0418"))
        screen = desk.window.current
        assert isinstance(screen, ReplayScreen)
        await seen(lambda: screen.reel is not None and len(screen.reel))
        tab = screen.details.proof_tab
        tab.show_entry(18_204)
        screen.details.show_tab("proof")
        await seen(lambda: "for other words than are shown" in tab.failure.accessibleName())
        assert not tab.verdict.isVisible()


def test_a_theme_that_nothing_else_keeps_lives_as_long_as_the_application() -> None:
    program = (
        "import gc\n"
        "from PySide6.QtWidgets import QApplication\n"
        "from app.theme.theme import Theme, theme_of\n"
        "app = QApplication([])\n"
        "Theme().apply(app)\n"
        "gc.collect()\n"
        "print(theme_of().color('text').name())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "#e4eaee")
