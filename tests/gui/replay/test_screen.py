"""Replay in the real window: opening, stepping, search, playing, following a run, errors in place."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtTest import QTest

from app.screens.replay import timeline_loader
from app.screens.targets import OpenReplay
from app.theme.theme import Theme
from core.audit.entries import Kind
from core.errors import ServiceError
from core.replay.result_search import MOST_TEXT_BYTES
from core.service.console import RunChanged
from tests.fakes.bay_count import RUN
from tests.fakes.console import FakeConsole
from tests.fakes.pointer import move_pointer
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.replay.page import KEYS, add_entry, entries_of, on_bay_count, open_replay


async def test_without_a_target_the_latest_run_opens_at_its_end(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        page = open_replay(desk, run=None)
        await seen(lambda: page.moments)
        assert page.run == desk.state.runs_newest_first()[0].id
        assert page.place == page.moments - 1


async def test_before_the_service_answers_the_screen_does_not_say_that_nothing_has_run(
    theme: Theme, tmp_path: Path
) -> None:
    answers = asyncio.Event()

    async def door() -> FakeConsole:
        await answers.wait()
        return FakeConsole()

    async with open_frame(theme, tmp_path, door, wait=False) as desk:
        page = open_replay(desk, run=None)
        assert "What has run is not known." in page.words
        answers.set()
        await seen(lambda: "Nothing has run yet." in page.words)


async def test_with_no_run_at_all_the_screen_says_what_will_appear(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_frame(theme, tmp_path, console) as desk:
        page = open_replay(desk, run=None)
        assert not page.shows_run
        assert "Nothing has run yet." in page.words
        assert "pictures before and after" in page.words
        await console.runs.call("lab-lnx-01", "screenshot", {})
        await seen(lambda: page.shows_run)


async def test_arrow_keys_step_through_the_entries_and_stay_at_the_ends(theme: Theme, tmp_path: Path) -> None:
    async with on_bay_count(theme, tmp_path) as (_, page, _):
        page.press(KEYS.Key_Home)
        assert page.place == 0
        page.press(KEYS.Key_Left)
        assert page.place == 0
        page.press(KEYS.Key_Right)
        page.press(KEYS.Key_Right)
        assert page.place == 2
        assert page.screen.transport.place.text() == f"entry 3 of {page.moments}"
        page.press(KEYS.Key_End)
        assert page.place == page.moments - 1
        assert not page.screen.transport.next.isEnabled()


async def test_n_goes_to_changes_only_and_says_when_there_is_none(theme: Theme, tmp_path: Path) -> None:
    # The last step's picture is the same as the one before it: it is no change.
    async with on_bay_count(theme, tmp_path) as (_, page, console):
        changed = [entries_of(console, call)["result_recorded"].seq for call in ("04", "07", "09")]
        page.press(KEYS.Key_Home)
        visited = []
        for _ in changed:
            page.press(KEYS.Key_N)
            visited.append(page.seq)
        assert visited == changed
        page.press(KEYS.Key_N)
        assert page.seq == changed[-1]
        assert page.screen.transport.note.text() == "no further change"
        page.press(KEYS.Key_N, Qt.KeyboardModifier.ShiftModifier)
        assert page.seq == changed[1]


async def test_a_click_on_a_frame_goes_to_its_entry(theme: Theme, tmp_path: Path) -> None:
    async with on_bay_count(theme, tmp_path) as (_, page, _):
        page.press(KEYS.Key_Home)
        number = 3
        place = page.screen.film.frame_rect(number).center().toPoint()
        QTest.mouseClick(page.screen.film, Qt.MouseButton.LeftButton, pos=place)
        assert page.seq == page.reel.frames[number].seq
        assert page.screen.film.current == number


async def test_dragging_in_the_lanes_scrubs_and_on_the_axis_zooms_until_escape(
    theme: Theme, tmp_path: Path
) -> None:
    async with on_bay_count(theme, tmp_path) as (_, page, console):
        lanes = page.screen.lanes
        asked = entries_of(console, "08")["approval_requested"]
        at = page.reel.ats[page.reel.at_seq(asked.seq)]
        QTest.mousePress(lanes, Qt.MouseButton.LeftButton, pos=QPoint(round(lanes.x_at(at + 20)), 60))
        move_pointer(lanes, QPoint(round(lanes.x_at(at + 30)), 60))
        QTest.mouseRelease(lanes, Qt.MouseButton.LeftButton, pos=QPoint(round(lanes.x_at(at + 30)), 60))
        assert page.seq == asked.seq
        whole = lanes.range()
        left, right = (QPoint(round(lanes.x_at(seconds)), 8) for seconds in (60.0, 120.0))
        QTest.mousePress(lanes, Qt.MouseButton.LeftButton, pos=left)
        move_pointer(lanes, right)
        QTest.mouseRelease(lanes, Qt.MouseButton.LeftButton, pos=right)
        assert lanes.zoomed
        assert lanes.range() == pytest.approx((60, 120), abs=1.5)
        page.press(KEYS.Key_Escape)
        assert lanes.range() == whole


async def test_a_search_jumps_to_the_moments_that_hold_its_words(theme: Theme, tmp_path: Path) -> None:
    async with on_bay_count(theme, tmp_path) as (_, page, console):
        page.press(KEYS.Key_Home)
        page.press(KEYS.Key_Slash)
        assert page.screen.head.search.hasFocus()
        page.search("harbour approved")
        assert page.seq == entries_of(console, "08")["approval_given"].seq
        assert page.found == "1 of 1"
        QTest.keyClick(page.screen.head.search, KEYS.Key_Escape)
        page.search("device lost")
        assert page.reel.moments[page.place].kind == "device_lost"
        page.search(" xyzzy")
        assert page.found == "nothing found"
        assert page.screen.head.search.property("state") == "fail"


async def test_playing_goes_on_by_itself_skips_idle_time_and_stops_at_the_end(
    theme: Theme, tmp_path: Path
) -> None:
    async with on_bay_count(theme, tmp_path) as (_, page, console):
        asked = page.reel.at_seq(entries_of(console, "08")["approval_requested"].seq)
        assert page.reel.delay(asked, 1.0, skip_idle=True) == 2.0
        assert page.reel.delay(asked, 1.0, skip_idle=False) == pytest.approx(82.0)
        assert page.reel.delay(asked, 16.0, skip_idle=True) == 0.125
        page.screen.go_to(page.moments - 4)
        page.press(KEYS.Key_Plus)
        page.press(KEYS.Key_Plus)
        assert page.screen.transport.speeds.current() == "16"
        page.press(KEYS.Key_Space)
        assert page.screen.playing
        assert page.screen.transport.play.accessibleName() == "Pause"
        await seen(lambda: not page.screen.playing)
        assert page.place == page.moments - 1


async def test_stepping_by_hand_stops_playing(theme: Theme, tmp_path: Path) -> None:
    async with on_bay_count(theme, tmp_path) as (desk, page, _):
        page.press(KEYS.Key_Home)
        page.press(KEYS.Key_Space)
        assert page.screen.playing
        page.press(KEYS.Key_Right)
        assert not page.screen.playing
        desk.window.open("replay", OpenReplay(run=RUN))
        page.press(KEYS.Key_Space)
        desk.window.open("fleet")
        assert not page.screen.playing


async def test_the_entry_number_opens_the_journal(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_bay_count(theme, tmp_path, ("09", "result_recorded")) as (desk, page, _):
        opened: list[tuple[str, object]] = []
        monkeypatch.setattr(desk.window, "open", lambda name, target=None: opened.append((name, target)))
        QTest.mouseClick(page.screen.details.entry, Qt.MouseButton.LeftButton)
        assert opened[0][0] == "journal"
        assert getattr(opened[0][1], "seq", None) == page.seq


async def test_a_run_that_goes_on_is_followed_at_its_end_and_left_alone_elsewhere(
    theme: Theme, tmp_path: Path
) -> None:
    async with on_bay_count(theme, tmp_path) as (_, page, console):
        count = page.moments
        page.press(KEYS.Key_End)
        entry = add_entry(console)
        console.emit(RunChanged(run=console.work.find(RUN).summary))
        await seen(lambda: page.moments == count + 1)
        assert page.seq == entry.seq
        page.screen.go_to(5)
        kept = page.seq
        add_entry(console)
        console.emit(RunChanged(run=console.work.find(RUN).summary))
        await seen(lambda: page.moments == count + 2)
        assert page.seq == kept
        assert page.place == 5


async def test_many_changes_of_a_run_are_read_once(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than the test: it ends the pause itself.
    pause_ms = 600_000
    monkeypatch.setattr(timeline_loader, "RELOAD_MS", pause_ms)

    async with on_bay_count(theme, tmp_path) as (desk, page, console):
        count, before = page.moments, console.asked.count("timeline")
        changes: list[str] = []
        desk.state.runs_changed.connect(changes.append)
        for _ in range(50):
            add_entry(console)
            console.emit(RunChanged(run=console.work.find(RUN).summary))
            await asyncio.sleep(0)
        await seen(lambda: changes)
        desk.state.flush()
        assert console.asked.count("timeline") == before
        pauses = [
            one for one in page.screen.findChildren(QTimer) if one.isActive() and one.interval() == pause_ms
        ]
        assert len(pauses) == 1
        pauses[0].start(0)
        await seen(lambda: page.moments == count + 50)
        assert console.asked.count("timeline") == before + 1


# The off-screen platform says this of every pop-up.
@pytest.mark.qt_log_ignore("This plugin does not support")
async def test_the_chooser_finds_runs_and_entries_by_keyboard(theme: Theme, tmp_path: Path) -> None:
    async with on_bay_count(theme, tmp_path) as (_, page, _):
        page.press(KEYS.Key_O)
        chooser = page.screen.chooser
        assert chooser.isVisible()
        QTest.keyClicks(chooser.search, "gateway")
        QTest.keyClick(chooser.search, KEYS.Key_Return)
        await seen(lambda: page.run == "r-0411")
        assert not chooser.isVisible()
        assert page.screen.head.run.text() == "Rotate gateway logs"
        page.press(KEYS.Key_O)
        QTest.keyClicks(chooser.search, "18,000")
        QTest.keyClick(chooser.search, KEYS.Key_Return)
        await seen(lambda: page.run is None and page.screen.reel is not None)
        assert page.seq == 18_000


async def test_a_timeline_that_cannot_be_read_is_said_in_its_place(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        console.fail_next["timeline"] = ServiceError("The line broke.")
        page = open_replay(desk)
        await seen(lambda: "The line broke." in page.words)
        assert not page.shows_run
        desk.window.open("replay", OpenReplay(run=RUN))
        await seen(lambda: page.shows_run)


async def test_a_low_window_puts_head_and_transport_into_one_row(theme: Theme, tmp_path: Path) -> None:
    async with on_bay_count(theme, tmp_path, size=(1280, 720)) as (desk, page, _):
        assert page.screen.head.isAncestorOf(page.screen.transport)
        assert page.screen.head.height() == 44
        assert page.screen.film.height() == 84
        desk.window.resize(1440, 900)
        await seen(lambda: page.screen.film.height() == 116)
        assert not page.screen.head.isAncestorOf(page.screen.transport)
        desk.window.resize(1024, 640)
        await seen(lambda: page.screen.film.height() == 84)
        assert not page.screen.head.isAncestorOf(page.screen.transport)


async def test_a_search_finds_the_texts_of_results_and_says_what_it_searches(
    theme: Theme, tmp_path: Path
) -> None:
    async with on_bay_count(theme, tmp_path) as (desk, page, console):
        body = {"result": {"result": {"stdout": "a flux capacitor", "stored": {}}}}
        body["result"]["result"]["stored"] = {
            "blob": "gone",
            "media_type": "text/plain",
            "size": MOST_TEXT_BYTES + 1,
        }
        wanted = console.fake_journal.write(
            Kind.RESULT_RECORDED, "service", run=RUN, device="stock-pc-02", tool="exec_cli", body=body
        )
        desk.window.open("replay", OpenReplay(run=RUN, at=console.fake_journal.entries[0].seq))
        await seen(lambda: page.moments and wanted.seq in page.reel.seqs)
        page.screen.go_to(0)
        assert "texts of results" in page.screen.head.search.toolTip()
        assert "1.0 MB" in page.screen.head.search.toolTip()
        page.search("capacitor exec_cli")
        await seen(lambda: page.seq == wanted.seq)
        assert page.found == "1 of 1, 1 text too large or unreadable, not searched"
        page.screen.head.search.setText("capacitor nowhere")
        await seen(lambda: page.found.startswith("nothing found, 1 text"))


async def test_results_that_cannot_be_searched_are_said_beside_what_is_found(
    theme: Theme, tmp_path: Path
) -> None:
    async with on_bay_count(theme, tmp_path) as (_, page, console):
        console.fail_next["find_in_results"] = ServiceError("The line dropped.")
        page.search("harbour approved")
        await seen(lambda: "results not searched: The line dropped." in page.found)
        assert page.found.startswith("1 of 1")
