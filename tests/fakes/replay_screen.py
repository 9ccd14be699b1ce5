"""Replay in the real window: opened on the bay count, pressed and read, while its run may go on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication
from app.screens.replay.screen import ReplayScreen
from app.screens.targets import OpenReplay
from app.theme.theme import Theme
from core.audit.entries import Entry, Kind
from tests.fakes.bay_count import DEVICE, RUN
from tests.fakes.console import FakeConsole
from tests.fakes.story import story
from tests.fakes.window import play_frame, seen

KEYS = Qt.Key
Scenario = Callable[[ConsoleApplication, ReplayScreen, FakeConsole], Awaitable[None]]


def entries_of(console: FakeConsole, call: str) -> dict[str, Entry]:
    """The entries of one command of the bay count, by kind."""
    return {
        entry.kind.value: entry for entry in console.fake_journal.entries if entry.call_id == f"c-0414-{call}"
    }


def replay(
    theme: Theme,
    folder: Path,
    scenario: Scenario,
    at: tuple[str, str] | None = None,
    console: FakeConsole | None = None,
    size: tuple[int, int] = (1440, 900),
) -> None:
    """Play a scenario on the bay count, the playhead on one stage of one command."""
    told = console or story()

    async def whole(desk: ConsoleApplication) -> None:
        seq = entries_of(told, at[0])[at[1]].seq if at else None
        desk.window.open("replay", OpenReplay(run=RUN, at=seq))
        screen = desk.window.current
        assert isinstance(screen, ReplayScreen)
        await seen(lambda: screen.reel is not None and screen.pages.currentIndex() == 0)
        await seen(lambda: QApplication.focusWidget() is screen.film)
        await scenario(desk, screen, told)

    play_frame(theme, folder, told, whole, size)


def press(screen: ReplayScreen, key: Qt.Key, modifier: Qt.KeyboardModifier | None = None) -> None:
    """A key to whatever has the focus."""
    target = QApplication.focusWidget() or screen
    QTest.keyClick(target, key, modifier or Qt.KeyboardModifier.NoModifier)


def seq_of(screen: ReplayScreen) -> int:
    assert screen.reel is not None
    return screen.reel.moments[screen.place].seq


def fact(screen: ReplayScreen, label: str) -> str:
    """A fact of the decision tab; empty when it is not there."""
    try:
        return screen.details.decision_tab.facts.value(label).text()
    except KeyError:
        return ""


def add_entry(console: FakeConsole, **more: str) -> Entry:
    """Something more happens in the run."""
    return console.fake_journal.write(
        Kind.PROGRESS_REPORTED, f"device:{DEVICE}", run=RUN, device=DEVICE, call_id="c-0414-10", **more
    )
