"""The banner of the journal: verified, old, failed, running, not writable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.main import ConsoleApplication
from app.screens.journal.screen import JournalScreen
from app.theme.theme import Theme
from core.errors import ServiceError
from core.service.console import JournalChanged, VerifyReport, WorkProgressed
from tests.fakes.console import FakeConsole
from tests.fakes.journal import stamp
from tests.fakes.story import story
from tests.fakes.window import play_frame, seen
from tests.gui.page import link_in


async def journal_of(desk: ConsoleApplication) -> JournalScreen:
    desk.window.open("journal")
    screen: Any = desk.window.current
    await seen(lambda: screen.feed.loaded and not screen.feed.loading)
    return screen


def tell(console: FakeConsole, **changes: Any) -> None:
    console.fake_journal.status = console.fake_journal.status.model_copy(update=changes)
    console.emit(JournalChanged(journal=console.fake_journal.status))


def link_of(screen: JournalScreen, words: str) -> Any:
    return link_in(screen.verify_banner, words)


def test_v_verifies_in_the_background_and_says_what_was_checked(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await journal_of(desk)
        held = console.hold_back("verify")
        QTest.keyClick(screen.table, Qt.Key.Key_V)
        QTest.keyClick(screen.table, Qt.Key.Key_V)
        banner = screen.verify_banner
        assert banner.progress.isVisible()
        assert banner.progress.bar.share() is None
        console.emit(WorkProgressed(what="verify", done=4_551, total=18_204))
        await seen(lambda: banner.progress.bar.share() == 0.25)
        assert banner.progress.words.text() == "Checked 4,551 of 18,204 entries…"
        # What comes after the entries has no length that is known.
        console.emit(WorkProgressed(what="verify", done=18_204, total=18_204))
        await seen(lambda: banner.progress.bar.share() is None)
        held.set()
        await seen(lambda: not banner.running)
        await seen(lambda: banner.banner.kind == "ok" and " blob" in banner.banner.words())
        words = banner.banner.words()
        assert words.startswith(
            f"Everything verifies. 18,204 entries, {len(console.fake_journal.blobs)} blobs,"
        )
        assert words.endswith(" in 0.40 s")
        assert console.asked.count("verify") == 1

    play_frame(theme, tmp_path, console, scenario)


def test_the_keyboard_stays_in_the_journal_when_the_link_that_was_pressed_goes(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async def scenario(desk: ConsoleApplication) -> None:
        desk.window.activateWindow()
        screen = await journal_of(desk)
        tell(console, verified_at=None, verified_ok=None)
        await seen(lambda: screen.verify_banner.banner.words().startswith("Not verified yet."))
        held = console.hold_back("verify")
        link = link_of(screen, "Verify now")
        link.setFocus(Qt.FocusReason.TabFocusReason)
        await seen(link.hasFocus)
        QTest.keyClick(link, Qt.Key.Key_Return)
        await seen(screen.verify_banner.progress.isVisible)
        waits = desk.window.focusWidget()
        assert waits is not None
        assert waits is screen.verify_banner or waits.isAncestorOf(screen.verify_banner)
        assert screen.isAncestorOf(waits), "the keys of the screen work on"
        held.set()
        await seen(lambda: not screen.verify_banner.running)

    play_frame(theme, tmp_path, console, scenario)


def test_a_journal_that_was_never_verified_is_not_called_well(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: ConsoleApplication) -> None:
        screen = await journal_of(desk)
        assert screen.verify_banner.banner.kind == "warn"
        assert "Not verified yet." in screen.verify_banner.banner.words()
        QTest.mouseClick(link_of(screen, "Verify now"), Qt.MouseButton.LeftButton)
        await seen(lambda: screen.verify_banner.banner.kind == "ok")

    play_frame(theme, tmp_path, FakeConsole(), scenario)


def test_a_verification_older_than_a_day_is_not_called_well(theme: Theme, tmp_path: Path) -> None:
    console = story()
    tell(console, verified_at=stamp(datetime.now(UTC) - timedelta(hours=25)))

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await journal_of(desk)
        assert screen.verify_banner.banner.kind == "warn"
        assert "more than a day ago" in screen.verify_banner.banner.words()

    play_frame(theme, tmp_path, console, scenario)


def test_a_failed_verification_names_the_entry_shows_it_and_says_what_to_do(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async def failing() -> VerifyReport:
        at = stamp(datetime.now(UTC))
        tell(console, verified_at=at, verified_ok=False, first_bad=18_010)
        return VerifyReport(
            ok=False, entries=18_204, blobs=3, checkpoints=4, first_bad=18_010, problem="why", checked_at=at
        )

    console.journal.verify = failing  # type: ignore[method-assign]  # a journal that does not verify

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await journal_of(desk)
        screen.verify()
        await seen(lambda: screen.verify_banner.banner.kind == "fail")
        assert "Entry 18,010 does not match its hash." in screen.verify_banner.banner.words()
        QTest.mouseClick(link_of(screen, "What now"), Qt.MouseButton.LeftButton)
        advice = screen.verify_banner.advice
        assert advice.isVisible()
        for words in ("Keep a copy", "Look at entry 18,010", "backup", desk.state.home):
            assert words in advice.accessibleName()
        QTest.mouseClick(link_of(screen, "Show entry"), Qt.MouseButton.LeftButton)
        await seen(lambda: screen.pane.entry is not None and screen.pane.entry.seq == 18_010)

    play_frame(theme, tmp_path, console, scenario)


def test_a_verification_that_could_not_be_made_says_nothing_about_the_journal(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.fail_next["verify"] = ServiceError("The line broke.")

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await journal_of(desk)
        screen.verify()
        await seen(lambda: screen.verify_banner.banner.words().startswith("Not verified. The line broke."))
        assert screen.verify_banner.banner.kind == "warn"

    play_frame(theme, tmp_path, console, scenario)


def test_a_journal_that_cannot_be_written_says_why_and_what_to_do(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await journal_of(desk)
        assert not screen.verify_banner.unwritable.isVisible()
        tell(console, writable=False, problem="database or disk is full")
        await seen(lambda: screen.verify_banner.unwritable.isVisible())
        words = screen.verify_banner.unwritable.words()
        assert "no action is sent" in words
        assert "Database or disk is full. Make room" in words
        tell(console, writable=True, problem="")
        await seen(lambda: not screen.verify_banner.unwritable.isVisible())

    play_frame(theme, tmp_path, console, scenario)


def test_the_banner_says_how_many_of_how_many_entries_are_verified(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async def scenario(desk: ConsoleApplication) -> None:
        screen = await journal_of(desk)
        now = datetime.now(UTC).isoformat()
        banner = screen.verify_banner.banner
        tell(console, verified_at=now, verified_ok=True, verified_entries=19, entries=19)
        await seen(lambda: banner.words().startswith("Everything verifies. 19 entries"))
        tell(console, entries=9_216)
        await seen(lambda: banner.words().startswith("19 of 9,216 entries verify. 9,197 newer not looked at"))
        assert banner.kind == "warn"

    play_frame(theme, tmp_path, console, scenario)
