"""Replay in the real window: stepping, pictures as they were known, search, playing, errors in place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.look.theme import Theme
from app.main import Desk
from app.screens.base import OpenReplay
from app.screens.replay.screen import ReplayScreen
from app.screens.replay.source import RELOAD_MS
from core.audit.entries import Entry, Kind
from core.errors import ErrorCode, QuarterdeckError, ServiceError
from core.service.console import RunChanged
from tests.fakes.bay_count import DEVICE, RUN
from tests.fakes.console import FakeConsole
from tests.fakes.pointer import move_pointer
from tests.fakes.story import story
from tests.fakes.window import play, seen

KEYS = Qt.Key
Scenario = Callable[[Desk, ReplayScreen, FakeConsole], Awaitable[None]]


def entries_of(console: FakeConsole, call: str) -> dict[str, Entry]:
    """The entries of one command of the bay count, by kind."""
    return {entry.kind.value: entry for entry in console.journal.entries if entry.call_id == f"c-0414-{call}"}


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

    async def whole(desk: Desk) -> None:
        seq = entries_of(told, at[0])[at[1]].seq if at else None
        desk.window.open("replay", OpenReplay(run=RUN, at=seq))
        screen = desk.window.current
        assert isinstance(screen, ReplayScreen)
        await seen(lambda: screen.reel is not None and screen.pages.currentIndex() == 0)
        await seen(lambda: QApplication.focusWidget() is screen.film)
        await scenario(desk, screen, told)

    play(theme, folder, told, whole, size)


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


def test_without_a_target_the_latest_run_opens_at_its_end(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk) -> None:
        desk.window.open("replay")
        screen = desk.window.current
        assert isinstance(screen, ReplayScreen)
        await seen(lambda: screen.reel is not None)
        assert screen.reel is not None
        assert screen.reel.timeline.run == desk.state.runs_newest_first()[0].id
        assert screen.place == len(screen.reel) - 1

    play(theme, tmp_path, story(), scenario)


def test_with_no_run_at_all_the_screen_says_what_will_appear(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async def scenario(desk: Desk) -> None:
        desk.window.open("replay")
        screen = desk.window.current
        assert isinstance(screen, ReplayScreen)
        assert screen.pages.currentWidget() is screen.empty
        assert "Nothing has run yet." in screen.empty.accessibleName()
        assert "pictures before and after" in screen.empty.accessibleName()
        await console.call("lab-lnx-01", "screenshot", {})
        await seen(lambda: screen.pages.currentIndex() == 0)

    play(theme, tmp_path, console, scenario)


def test_arrow_keys_step_through_the_entries_and_stay_at_the_ends(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        assert screen.reel is not None
        press(screen, KEYS.Key_Home)
        assert screen.place == 0
        press(screen, KEYS.Key_Left)
        assert screen.place == 0
        press(screen, KEYS.Key_Right)
        press(screen, KEYS.Key_Right)
        assert screen.place == 2
        assert screen.transport.place.text() == f"entry 3 of {len(screen.reel)}"
        press(screen, KEYS.Key_End)
        assert screen.place == len(screen.reel) - 1
        assert not screen.transport.next.isEnabled()

    replay(theme, tmp_path, scenario)


def test_stepping_shows_the_pictures_before_and_after_and_how_much_changed(
    theme: Theme, tmp_path: Path
) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        pictures = screen.pictures
        await seen(lambda: not pictures.changed.image().isNull() and not pictures.before.image().isNull())
        assert pictures.after.blob == entries_of(console, "09")["result_recorded"].blobs[0]
        assert pictures.before.blob == entries_of(console, "07")["result_recorded"].blobs[0]
        await seen(lambda: "1 place" in pictures.words.text())
        assert pictures.words.text().endswith("% of the picture")

    replay(theme, tmp_path, scenario, ("09", "result_recorded"))


def test_nothing_is_shown_that_was_not_known_at_the_moment(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        stages = entries_of(console, "08")
        assert screen.pictures.after.blob == entries_of(console, "07")["result_recorded"].blobs[0]
        await seen(lambda: fact(screen, "Approval").startswith("waits"))
        assert fact(screen, "Sent") == "not yet"
        assert fact(screen, "Answer") == "none yet"
        screen.details.show_tab("result")
        await seen(lambda: "Not answered yet" in screen.details.result_tab.words.text())
        screen.details.show_tab("decision")
        screen.go_to_entry(stages["command_prepared"].seq)
        await seen(lambda: screen.details.decision_tab.answer.text() == "not decided yet")
        screen.go_to_entry(stages["approval_given"].seq)
        assert fact(screen, "Approved") == "once, by harbour after 1:22"
        screen.go_to_entry(stages["result_recorded"].seq)
        assert fact(screen, "Answer") == "after 212 ms"

    replay(theme, tmp_path, scenario, ("08", "approval_requested"))


def test_the_first_picture_stands_alone(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        await seen(lambda: not screen.pictures.changed.image().isNull())
        assert screen.pictures.changed_box.title.text() == "Picture"
        assert screen.pictures.before.problem == "No earlier picture"

    replay(theme, tmp_path, scenario, ("01", "result_recorded"))


def test_n_goes_to_changes_only_and_says_when_there_is_none(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        changed = [entries_of(console, call)["result_recorded"].seq for call in ("04", "07", "09")]
        press(screen, KEYS.Key_Home)
        visited = []
        for _ in changed:
            press(screen, KEYS.Key_N)
            visited.append(seq_of(screen))
        assert visited == changed
        press(screen, KEYS.Key_N)
        assert seq_of(screen) == changed[-1]
        assert screen.transport.note.text() == "no further change"
        press(screen, KEYS.Key_N, Qt.KeyboardModifier.ShiftModifier)
        assert seq_of(screen) == changed[1]

    # The last step's picture is the same as the one before it: it is no change.
    replay(theme, tmp_path, scenario)


def test_a_click_on_a_frame_goes_to_its_entry(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        press(screen, KEYS.Key_Home)
        number = 3
        place = screen.film.frame_rect(number).center().toPoint()
        QTest.mouseClick(screen.film, Qt.MouseButton.LeftButton, pos=place)
        assert screen.reel is not None
        assert seq_of(screen) == screen.reel.frames[number].seq
        assert screen.film.current == number

    replay(theme, tmp_path, scenario)


def test_dragging_in_the_lanes_scrubs_and_on_the_axis_zooms_until_escape(
    theme: Theme, tmp_path: Path
) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        lanes = screen.lanes
        asked = entries_of(console, "08")["approval_requested"]
        assert screen.reel is not None
        at = screen.reel.ats[screen.reel.at_seq(asked.seq)]
        QTest.mousePress(lanes, Qt.MouseButton.LeftButton, pos=QPoint(round(lanes.x_at(at + 20)), 60))
        move_pointer(lanes, QPoint(round(lanes.x_at(at + 30)), 60))
        QTest.mouseRelease(lanes, Qt.MouseButton.LeftButton, pos=QPoint(round(lanes.x_at(at + 30)), 60))
        assert seq_of(screen) == asked.seq
        whole = lanes.range()
        left, right = (QPoint(round(lanes.x_at(seconds)), 8) for seconds in (60.0, 120.0))
        QTest.mousePress(lanes, Qt.MouseButton.LeftButton, pos=left)
        move_pointer(lanes, right)
        QTest.mouseRelease(lanes, Qt.MouseButton.LeftButton, pos=right)
        assert lanes.zoomed
        assert lanes.range() == pytest.approx((60, 120), abs=1.5)
        press(screen, KEYS.Key_Escape)
        assert lanes.range() == whole

    replay(theme, tmp_path, scenario)


def test_a_search_jumps_to_the_moments_that_hold_its_words(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        press(screen, KEYS.Key_Home)
        press(screen, KEYS.Key_Slash)
        assert screen.head.search.hasFocus()
        QTest.keyClicks(screen.head.search, "harbour approved")
        assert seq_of(screen) == entries_of(console, "08")["approval_given"].seq
        assert screen.head.found.text() == "1 of 1"
        QTest.keyClick(screen.head.search, KEYS.Key_Escape)
        QTest.keyClicks(screen.head.search, "device lost")
        assert screen.reel is not None
        assert screen.reel.moments[screen.place].kind == "device_lost"
        QTest.keyClicks(screen.head.search, " xyzzy")
        assert screen.head.found.text() == "nothing found"
        assert screen.head.search.property("state") == "fail"

    replay(theme, tmp_path, scenario)


def test_playing_goes_on_by_itself_skips_idle_time_and_stops_at_the_end(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        assert screen.reel is not None
        asked = screen.reel.at_seq(entries_of(console, "08")["approval_requested"].seq)
        assert screen.reel.delay(asked, 1.0, skip_idle=True) == 2.0
        assert screen.reel.delay(asked, 1.0, skip_idle=False) == pytest.approx(82.0)
        assert screen.reel.delay(asked, 16.0, skip_idle=True) == 0.125
        screen.go_to(len(screen.reel) - 4)
        press(screen, KEYS.Key_Plus)
        press(screen, KEYS.Key_Plus)
        assert screen.transport.speeds.current() == "16"
        press(screen, KEYS.Key_Space)
        assert screen.playing
        assert screen.transport.play.accessibleName() == "Pause"
        await seen(lambda: not screen.playing)
        assert screen.place == len(screen.reel) - 1

    replay(theme, tmp_path, scenario)


def test_stepping_by_hand_stops_playing(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        press(screen, KEYS.Key_Home)
        press(screen, KEYS.Key_Space)
        assert screen.playing
        press(screen, KEYS.Key_Right)
        assert not screen.playing
        desk.window.open("replay", OpenReplay(run=RUN))
        press(screen, KEYS.Key_Space)
        desk.window.open("fleet")
        assert not screen.playing

    replay(theme, tmp_path, scenario)


def test_pictures_are_read_on_when_the_screen_comes_back(theme: Theme, tmp_path: Path) -> None:
    console = story()
    gate = console.hold_back("blob")

    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        desk.window.open("fleet")
        gate.set()
        desk.window.open("replay")
        await seen(lambda: not screen.pictures.changed.image().isNull())
        await seen(lambda: not screen.pictures.before.image().isNull())

    replay(theme, tmp_path, scenario, ("09", "result_recorded"), console)


def test_digits_choose_how_pictures_are_shown_and_the_choice_is_kept(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        press(screen, KEYS.Key_1)
        assert screen.pictures.before.isVisible()
        assert not screen.pictures.changed.isVisible()
        press(screen, KEYS.Key_3)
        assert screen.pictures.changed.isVisible()
        assert not screen.pictures.before.isVisible()
        assert screen.remembered("mode") == "full"
        press(screen, KEYS.Key_2)
        assert screen.pictures.before.isVisible()
        assert screen.pictures.changed.isVisible()

    replay(theme, tmp_path, scenario)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (QuarterdeckError("x", ErrorCode.JOURNAL_CORRUPT), "This picture does not match its hash."),
        (QuarterdeckError("x", ErrorCode.NOT_FOUND), "This picture is missing from the store."),
    ],
)
def test_a_picture_that_cannot_be_trusted_is_replaced_by_the_reason(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: QuarterdeckError, words: str
) -> None:
    console = story()
    bad = entries_of(console, "07")["result_recorded"].blobs[0]
    whole = console.blob

    async def blob(sha256: str) -> bytes:
        if sha256 == bad:
            raise error
        return await whole(sha256)

    monkeypatch.setattr(console, "blob", blob)

    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        await seen(lambda: screen.pictures.changed.problem == words)
        assert screen.pictures.after.problem == words
        await seen(lambda: words in screen.pictures.words.text())
        # The picture of the step before is still there.
        await seen(lambda: not screen.pictures.before.image().isNull())

    replay(theme, tmp_path, scenario, ("07", "result_recorded"), console)


@pytest.mark.parametrize("data", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n" + b"\x00" * 64, b"<svg/>"])
def test_bytes_that_are_no_picture_are_said_to_be_none(theme: Theme, tmp_path: Path, data: bytes) -> None:
    console = story()
    console.journal.blobs[entries_of(console, "07")["result_recorded"].blobs[0]] = data

    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        await seen(lambda: "picture" in screen.pictures.changed.problem and not_reading(screen))
        assert screen.pictures.changed.image().isNull()

    replay(theme, tmp_path, scenario, ("07", "result_recorded"), console)


def not_reading(screen: ReplayScreen) -> bool:
    return not screen.pictures.changed.problem.startswith("Reading")


def test_the_proof_is_checked_in_the_window_and_a_wrong_one_is_said_to_be_wrong(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = story()

    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        screen.details.show_tab("proof")
        proof_tab = screen.details.proof_tab
        await seen(lambda: proof_tab.holds.isVisible())
        assert proof_tab.facts.value("Entry").text() == f"{seq_of(screen):,}"
        whole = console.proof

        async def forged(seq: int) -> object:
            proof = await whole(seq)
            return proof.model_copy(update={"entry": proof.entry.replace("confirmed", "unverified")})

        monkeypatch.setattr(console, "proof", forged)
        screen.go_to_entry(entries_of(console, "07")["result_recorded"].seq)
        await seen(lambda: "does not match its proof" in proof_tab.notice.accessibleName())
        assert not proof_tab.holds.isVisible()

    replay(theme, tmp_path, scenario, ("09", "result_recorded"), console)


def test_the_entry_number_opens_the_journal(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        opened: list[tuple[str, object]] = []
        monkeypatch.setattr(desk.window, "open", lambda name, target=None: opened.append((name, target)))
        QTest.mouseClick(screen.details.entry, Qt.MouseButton.LeftButton)
        assert opened[0][0] == "journal"
        assert getattr(opened[0][1], "seq", None) == seq_of(screen)

    replay(theme, tmp_path, scenario, ("09", "result_recorded"))


def add_entry(console: FakeConsole, **more: str) -> Entry:
    """Something more happens in the run."""
    return console.journal.write(
        Kind.PROGRESS_REPORTED, f"device:{DEVICE}", run=RUN, device=DEVICE, call_id="c-0414-10", **more
    )


def test_a_run_that_goes_on_is_followed_at_its_end_and_left_alone_elsewhere(
    theme: Theme, tmp_path: Path
) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        assert screen.reel is not None
        count = len(screen.reel)
        press(screen, KEYS.Key_End)
        entry = add_entry(console)
        console.emit(RunChanged(run=console.work.find(RUN).summary))
        await seen(lambda: screen.reel is not None and len(screen.reel) == count + 1)
        assert seq_of(screen) == entry.seq
        screen.go_to(5)
        kept = seq_of(screen)
        add_entry(console)
        console.emit(RunChanged(run=console.work.find(RUN).summary))
        await seen(lambda: screen.reel is not None and len(screen.reel) == count + 2)
        assert seq_of(screen) == kept
        assert screen.place == 5

    replay(theme, tmp_path, scenario)


def test_many_changes_of_a_run_are_read_once(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        assert screen.reel is not None
        count, before = len(screen.reel), console.asked.count("timeline")
        began = time.monotonic()
        for _ in range(50):
            add_entry(console)
            console.emit(RunChanged(run=console.work.find(RUN).summary))
            await asyncio.sleep(0)
        await seen(lambda: screen.reel is not None and len(screen.reel) == count + 50)
        # One pause gathers them; on a slow machine they may come in during several.
        pauses = int((time.monotonic() - began) * 1000) // RELOAD_MS
        assert console.asked.count("timeline") - before <= max(2, pauses + 1)

    replay(theme, tmp_path, scenario)


def test_text_from_devices_is_shown_plain_and_with_its_hidden_characters(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    add_entry(console, tool="<b>rm</b>\u202ecod")

    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        press(screen, KEYS.Key_End)
        assert screen.details.tool.text() == "<b>rm</b>[U+202E]cod"
        assert "\u202e" not in screen.details.title.text()

    replay(theme, tmp_path, scenario, console=console)


# The off-screen platform says this of every pop-up.
@pytest.mark.qt_log_ignore("This plugin does not support")
def test_the_chooser_finds_runs_and_entries_by_keyboard(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        press(screen, KEYS.Key_O)
        chooser = screen.chooser
        assert chooser.isVisible()
        QTest.keyClicks(chooser.search, "gateway")
        QTest.keyClick(chooser.search, KEYS.Key_Return)
        await seen(lambda: screen.reel is not None and screen.reel.timeline.run == "r-0411")
        assert not chooser.isVisible()
        assert screen.head.run.text() == "Rotate gateway logs"
        press(screen, KEYS.Key_O)
        QTest.keyClicks(chooser.search, "18,000")
        QTest.keyClick(chooser.search, KEYS.Key_Return)
        await seen(lambda: screen.reel is not None and screen.reel.timeline.run is None)
        assert seq_of(screen) == 18_000

    replay(theme, tmp_path, scenario)


def test_a_timeline_that_cannot_be_read_is_said_in_its_place(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async def scenario(desk: Desk) -> None:
        console.fail_next["timeline"] = ServiceError("The line broke.")
        desk.window.open("replay", OpenReplay(run=RUN))
        screen = desk.window.current
        assert isinstance(screen, ReplayScreen)
        await seen(lambda: "The line broke." in screen.empty.accessibleName())
        assert screen.pages.currentWidget() is screen.empty
        desk.window.open("replay", OpenReplay(run=RUN))
        await seen(lambda: screen.pages.currentIndex() == 0)

    play(theme, tmp_path, console, scenario)


def test_a_low_window_puts_head_and_transport_into_one_row(theme: Theme, tmp_path: Path) -> None:
    async def scenario(desk: Desk, screen: ReplayScreen, console: FakeConsole) -> None:
        assert screen.head.isAncestorOf(screen.transport)
        assert screen.head.height() == 44
        assert screen.film.height() == 84
        desk.window.resize(1440, 900)
        await seen(lambda: screen.film.height() == 116)
        assert not screen.head.isAncestorOf(screen.transport)
        desk.window.resize(1024, 640)
        await seen(lambda: screen.film.height() == 84)
        assert not screen.head.isAncestorOf(screen.transport)

    replay(theme, tmp_path, scenario, size=(1280, 720))
