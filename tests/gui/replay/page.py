"""Replay as a person sees it: opened on the bay count, stepped through, searched, while its run may go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication
from app.screens.replay.screen import ReplayScreen
from app.screens.replay.timeline_index import TimelineIndex
from app.screens.targets import OpenReplay
from app.theme.theme import Theme
from core.audit.entries import Entry, Kind
from tests.fakes.bay_count import DEVICE, RUN
from tests.fakes.console import FakeConsole
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen

KEYS = Qt.Key
PLAIN = Qt.KeyboardModifier.NoModifier


class ReplayPage:
    """The Replay screen, which is in front."""

    def __init__(self, desk: ConsoleApplication) -> None:
        screen = desk.window.current
        assert isinstance(screen, ReplayScreen)
        self.screen = screen

    @property
    def reel(self) -> TimelineIndex:
        """What is replayed."""
        assert self.screen.reel is not None
        return self.screen.reel

    @property
    def run(self) -> str | None:
        """The run that is replayed; None for a stretch of the journal, and before anything is."""
        return self.screen.reel.timeline.run if self.screen.reel is not None else None

    @property
    def moments(self) -> int:
        """How many moments it has; 0 before anything is replayed."""
        return len(self.screen.reel) if self.screen.reel is not None else 0

    @property
    def place(self) -> int:
        """The moment at which the playhead stands, from 0."""
        return self.screen.place

    @property
    def seq(self) -> int:
        """The number of its entry."""
        return self.reel.moments[self.place].seq

    @property
    def shows_run(self) -> bool:
        """Whether the player is shown, and no words in its place."""
        return self.screen.pages.currentWidget() is not self.screen.empty

    @property
    def words(self) -> str:
        """What is said in its place."""
        return self.screen.empty.accessibleName()

    @property
    def found(self) -> str:
        """What the search says it found."""
        return self.screen.head.found.text()

    def fact(self, label: str) -> str:
        """A fact of the decision tab; empty when it is not there."""
        try:
            return self.screen.details.decision_tab.facts.value(label).text()
        except KeyError:
            return ""

    def press(self, key: Qt.Key, modifier: Qt.KeyboardModifier = PLAIN) -> None:
        """Press a key where the focus is."""
        QTest.keyClick(QApplication.focusWidget() or self.screen, key, modifier)

    def search(self, words: str) -> None:
        """Type into the search."""
        QTest.keyClicks(self.screen.head.search, words)


def open_replay(desk: ConsoleApplication, at: int | None = None, run: str | None = RUN) -> ReplayPage:
    """Bring Replay to the front: a run at an entry, or the latest run where `run` is None."""
    desk.window.open("replay", OpenReplay(run=run, at=at) if run is not None else None)
    return ReplayPage(desk)


@asynccontextmanager
async def on_bay_count(
    theme: Theme,
    folder: Path,
    at: tuple[str, str] | None = None,
    console: FakeConsole | None = None,
    size: tuple[int, int] = (1440, 900),
) -> AsyncIterator[tuple[ConsoleApplication, ReplayPage, FakeConsole]]:
    """A window, and Replay in it on the bay count, the playhead on one stage of one command."""
    told = console or story()
    async with open_frame(theme, folder, told, size) as desk:
        page = open_replay(desk, entries_of(told, at[0])[at[1]].seq if at else None)
        await seen(lambda: page.moments and page.shows_run)
        await seen(lambda: QApplication.focusWidget() is page.screen.film)
        yield desk, page, told


def entries_of(console: FakeConsole, call: str) -> dict[str, Entry]:
    """The entries of one command of the bay count, by kind."""
    return {
        entry.kind.value: entry for entry in console.fake_journal.entries if entry.call_id == f"c-0414-{call}"
    }


def add_entry(console: FakeConsole, **more: str) -> Entry:
    """Something more happens in the run."""
    return console.fake_journal.write(
        Kind.PROGRESS_REPORTED, f"device:{DEVICE}", run=RUN, device=DEVICE, call_id="c-0414-10", **more
    )
