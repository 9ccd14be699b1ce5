"""The banner of the journal: verified, old, failed, running, not writable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.screens.journal.screen import JournalScreen
from app.theme.theme import Theme
from core.errors import ServiceError
from core.service.console import JournalChanged, VerifyReport, WorkProgressed
from tests.fakes.console import FakeConsole
from tests.fakes.journal import stamp
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.journal.page import open_journal
from tests.gui.page import link_in


def tell(console: FakeConsole, **changes: Any) -> None:
    console.fake_journal.status = console.fake_journal.status.model_copy(update=changes)
    console.emit(JournalChanged(journal=console.fake_journal.status))


def link_of(screen: JournalScreen, words: str) -> Any:
    return link_in(screen.verify_banner, words)


async def test_v_verifies_in_the_background_and_says_what_was_checked(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        held = console.hold_back("verify")
        journal.press(Qt.Key.Key_V)
        journal.press(Qt.Key.Key_V)
        banner = journal.screen.verify_banner
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


async def test_the_keyboard_stays_in_the_journal_when_the_link_that_was_pressed_goes(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.activateWindow()
        journal = await open_journal(desk)
        tell(console, verified_at=None, verified_ok=None)
        await seen(lambda: journal.banner.startswith("Not verified yet."))
        held = console.hold_back("verify")
        link = link_of(journal.screen, "Verify now")
        link.setFocus(Qt.FocusReason.TabFocusReason)
        await seen(link.hasFocus)
        QTest.keyClick(link, Qt.Key.Key_Return)
        await seen(journal.screen.verify_banner.progress.isVisible)
        waits = desk.window.focusWidget()
        assert waits is not None
        assert waits is journal.screen.verify_banner or waits.isAncestorOf(journal.screen.verify_banner)
        assert journal.screen.isAncestorOf(waits), "the keys of the journal.screen work on"
        held.set()
        await seen(lambda: not journal.screen.verify_banner.running)


async def test_a_journal_that_was_never_verified_is_not_called_well(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        journal = await open_journal(desk)
        assert journal.banner_kind == "warn"
        assert "Not verified yet." in journal.banner
        QTest.mouseClick(link_of(journal.screen, "Verify now"), Qt.MouseButton.LeftButton)
        await seen(lambda: journal.banner_kind == "ok")


async def test_a_verification_older_than_a_day_is_not_called_well(theme: Theme, tmp_path: Path) -> None:
    console = story()
    tell(console, verified_at=stamp(datetime.now(UTC) - timedelta(hours=25)))

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        assert journal.banner_kind == "warn"
        assert "more than a day ago" in journal.banner


async def test_a_failed_verification_names_the_entry_shows_it_and_says_what_to_do(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    def failing() -> VerifyReport:
        at = stamp(datetime.now(UTC))
        tell(console, verified_at=at, verified_ok=False, first_bad=18_010)
        return VerifyReport(
            ok=False, entries=18_204, blobs=3, checkpoints=4, first_bad=18_010, problem="why", checked_at=at
        )

    console.answer("verify", failing)

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        journal.screen.verify_act.trigger()
        await seen(lambda: journal.banner_kind == "fail")
        assert "Entry 18,010 does not match its hash." in journal.banner
        QTest.mouseClick(link_of(journal.screen, "What now"), Qt.MouseButton.LeftButton)
        advice = journal.screen.verify_banner.advice
        assert advice.isVisible()
        for words in ("Keep a copy", "Look at entry 18,010", "backup", desk.state.home):
            assert words in advice.accessibleName()
        QTest.mouseClick(link_of(journal.screen, "Show entry"), Qt.MouseButton.LeftButton)
        await seen(lambda: journal.shown == 18_010)


async def test_a_verification_that_could_not_be_made_says_nothing_about_the_journal(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.fail_next["verify"] = ServiceError("The line broke.")

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        journal.screen.verify_act.trigger()
        await seen(lambda: journal.banner.startswith("Not verified. The line broke."))
        assert journal.banner_kind == "warn"


async def test_a_journal_that_cannot_be_written_says_why_and_what_to_do(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        assert not journal.unwritable
        tell(console, writable=False, problem="database or disk is full")
        await seen(lambda: journal.unwritable)
        words = journal.unwritable
        assert "no action is sent" in words
        assert "Database or disk is full. Make room" in words
        tell(console, writable=True, problem="")
        await seen(lambda: not journal.unwritable)


async def test_the_banner_says_how_many_of_how_many_entries_are_verified(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        journal = await open_journal(desk)
        now = datetime.now(UTC).isoformat()
        banner = journal.screen.verify_banner.banner
        tell(console, verified_at=now, verified_ok=True, verified_entries=19, entries=19)
        await seen(lambda: banner.words().startswith("Everything verifies. 19 entries"))
        tell(console, entries=9_216)
        await seen(lambda: banner.words().startswith("19 of 9,216 entries verify. 9,197 newer not looked at"))
        assert banner.kind == "warn"
