"""Runs: the list, the matrix and its filters, cancelling, saving, and what goes on live."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel

from app.screens.runs.cells_model import LOOK_ROLE
from app.screens.runs.screen import RunsScreen
from app.screens.targets import OpenApproval, OpenRun
from app.theme.theme import Theme
from core.batch.models import CellState, Run, RunState
from core.errors import ErrorCode, QuarterdeckError
from core.service.console import CellChanged, ConsoleState, RunChanged
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import ago
from tests.fakes.runs_screen import CLEAN, runs_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, opened_screens, seen


def listed(screen: RunsScreen) -> list[str]:
    model = screen.list.model
    return [run.id for row in range(model.rowCount()) if (run := model.item(row)) is not None]


def at_cell(screen: RunsScreen) -> tuple[str, str]:
    cell = screen.matrix.current_cell()
    assert cell is not None
    return cell.device, cell.step


def press(screen: RunsScreen, key: Qt.Key) -> None:
    QTest.keyClick(screen.matrix, key)


class ManyRuns(FakeConsole):
    """A console that knows many runs, of which its state names only the newest ten."""

    def __init__(self, count: int) -> None:
        known = story()
        super().__init__()
        pattern = known.work.find("r-0409")
        for number in range(1, count + 1):
            changes = {"id": f"r-{number:04d}", "name": f"Old {number}", "started_at": ago(9000 - number)}
            summary = pattern.summary.model_copy(update=changes)
            cells = [cell.model_copy(update={"run": summary.id}) for cell in pattern.cells]
            self.work.add(Run(summary=summary, batch=pattern.batch, cells=cells))

    def on_state(self) -> ConsoleState:
        whole = super().on_state()
        return whole.model_copy(update={"runs": whole.runs[:10]})


async def test_until_the_service_answers_the_screen_says_that_it_reads_and_offers_nothing(
    theme: Theme, tmp_path: Path
) -> None:
    answers = asyncio.Event()

    async def door() -> FakeConsole:
        await answers.wait()
        return story()

    async with open_frame(theme, tmp_path, door, wait=False) as desk:
        for target in (None, OpenRun(CLEAN)):
            desk.window.open("runs", target)
            screen = desk.window.current
            assert isinstance(screen, RunsScreen)
            said = [label.text() for label in screen.findChildren(QLabel) if label.isVisible()]
            assert said == ["Reading the runs…", "They are shown as soon as the service answers."]
            pressable = [one for one in screen.findChildren(QAbstractButton) if one.isVisible()]
            assert not pressable
            assert not screen.drawer.isVisible()
        answers.set()
        await seen(lambda: screen.matrix.cells.total() and screen.drawer.isVisible())
        assert screen.head.title.text()
        assert desk.window.focusWidget() is screen.matrix


async def test_the_keyboard_waits_with_the_cells_while_another_run_is_read(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.activateWindow()
        screen = await runs_of(desk)
        screen.matrix.setFocus(Qt.FocusReason.OtherFocusReason)
        await seen(screen.matrix.hasFocus)
        held = console.hold_back("run")
        screen.list.chosen.emit("r-0411")
        await seen(lambda: not screen.matrix.isVisible())
        waits = desk.window.focusWidget()
        assert waits is not None
        assert waits.isAncestorOf(screen.matrix)
        held.set()
        await seen(lambda: screen.matrix.isVisible())
        assert desk.window.focusWidget() is screen.matrix
        held.clear()
        screen.list.chosen.emit(CLEAN)
        await seen(lambda: not screen.matrix.isVisible())
        QTest.keyClick(desk.window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
        held.set()
        await seen(lambda: screen.matrix.isVisible())
        assert screen.list.field.hasFocus(), "the operator went elsewhere meanwhile"


async def test_runs_are_listed_newest_first_with_state_and_how_much_is_done(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await runs_of(desk)
        known = desk.state.runs_newest_first()
        assert listed(screen) == [run.id for run in known]
        place = screen.list.model.index_of(CLEAN)
        said = str(place.data(Qt.ItemDataRole.AccessibleTextRole))
        assert said.startswith("Free disk space, r-0418, waits, 7 devices")
        assert said.endswith("19 of 42 done")


async def test_the_list_is_filtered_by_name_id_and_state(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await runs_of(desk)
        QTest.keyClick(desk.window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
        assert screen.list.field.hasFocus()
        for text, wanted in (("night sweep", ["r-0408"]), ("0411", ["r-0411"]), ("unknown", ["r-0410"])):
            screen.list.field.clear()
            QTest.keyClicks(screen.list.field, text)
            await seen(lambda wanted=wanted: listed(screen) == wanted)
        QTest.keyClicks(screen.list.field, " nothing like it")
        await seen(lambda: screen.list.place.words.startswith("No run matches this filter."))
        assert screen.list.place.empty.isVisible()
        QTest.keyClick(screen.list.field, Qt.Key.Key_Escape)
        await seen(lambda: len(listed(screen)) == len(desk.state.runs))


@pytest.mark.parametrize("waits", [True, False])
async def test_enter_in_the_filter_opens_the_only_run_that_it_finds(
    theme: Theme, tmp_path: Path, waits: bool
) -> None:
    """Also when it is pressed before the service has answered."""

    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.activateWindow()
        screen = await runs_of(desk)
        field = screen.list.field
        field.setFocus()
        QTest.keyClicks(field, "night sweep")
        if waits:
            await seen(lambda: listed(screen) == ["r-0408"])
        assert screen.list.current != "r-0408"
        QTest.keyClick(field, Qt.Key.Key_Return)
        await seen(lambda: screen.run is not None and screen.run.summary.id == "r-0408")
        focus = QApplication.focusWidget()
        assert focus is not None
        assert screen.views.isAncestorOf(focus)


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Down])
async def test_enter_and_down_lead_from_the_filter_to_the_runs_that_it_finds(
    theme: Theme, tmp_path: Path, key: Qt.Key
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.activateWindow()
        screen = await runs_of(desk)
        field = screen.list.field
        field.setFocus()
        QTest.keyClicks(field, "lab")
        screen.list.apply_filter()
        await seen(lambda: 1 < len(listed(screen)) < len(desk.state.runs))
        QTest.keyClick(field, key)
        assert screen.list.view.hasFocus()
        assert screen.list.current in listed(screen)
        field.setFocus()
        field.setText("nothing like it")
        screen.list.apply_filter()
        await seen(lambda: not listed(screen))
        QTest.keyClick(field, key)
        assert field.hasFocus()


async def test_the_filter_finds_any_run_there_is_by_device_tool_and_asker(
    theme: Theme, tmp_path: Path
) -> None:
    console = ManyRuns(115)
    old = console.work.find("r-0003")
    summary = old.summary.model_copy(
        update={"devices": ["lab-lnx-02"], "actor": "agent:night-shift", "tools": ["write_file"]}
    )
    console.work.add(old.model_copy(update={"summary": summary}))

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk)
        for text in ("lab-lnx-02", "night-shift", "write_file", "r-0003"):
            screen.list.field.setText(text)
            screen.list.apply_filter()
            await seen(lambda: listed(screen) == ["r-0003"])
        words = screen.list.model.data(screen.list.model.index(0, 0), Qt.ItemDataRole.AccessibleTextRole)
        assert "lab-lnx-02" in str(words)
        assert "night-shift" in str(words)
        await seen(lambda: not screen.list.place.words)


async def test_a_filter_is_one_question_to_the_service_however_many_runs_there_are(
    theme: Theme, tmp_path: Path
) -> None:
    console = ManyRuns(2500)
    old = console.work.find("r-0007")
    summary = old.summary.model_copy(update={"effect": "Deletes /srv/artifacts and everything in it"})
    console.work.add(old.model_copy(update={"summary": summary}))

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk)
        await seen(lambda: len(listed(screen)) == 50)
        before = len(console.asked)
        for text in ("r-0007", "artifacts"):
            screen.list.field.setText(text)
            screen.list.apply_filter()
            await seen(lambda: not screen.list.search.busy and listed(screen) == ["r-0007"])
        assert console.asked[before:].count("find_runs") == 2
        assert "runs" not in console.asked[before:]
        words = str(screen.list.model.data(screen.list.model.index(0, 0), Qt.ItemDataRole.AccessibleTextRole))
        assert "Deletes /srv/artifacts and everything in it" in words
        # Without the filter the list goes on where it was: no run between is missing from it.
        screen.list.forget_filter()
        screen.list.read_older()
        await seen(lambda: len([run for run in listed(screen) if run != "r-0007"]) == 100)
        assert listed(screen)[:100] == [f"r-{number:04d}" for number in range(2500, 2400, -1)]


async def test_a_run_that_starts_while_a_filter_stands_is_looked_for(theme: Theme, tmp_path: Path) -> None:
    console = ManyRuns(60)

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk)
        screen.list.field.setText("lab-lnx-77")
        screen.list.apply_filter()
        await seen(lambda: screen.list.place.words.startswith("No run matches this filter."))
        pattern = console.work.find("r-0060")
        changes = {"id": "r-0061", "devices": ["lab-lnx-77"], "started_at": ago(0)}
        run = pattern.model_copy(update={"summary": pattern.summary.model_copy(update=changes)})
        console.work.add(run)
        console.emit(RunChanged(run=run.summary))
        await seen(lambda: listed(screen) == ["r-0061"])


async def test_a_click_leaves_the_arrow_keys_in_the_list_and_enter_goes_into_the_run(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.resize(1500, 900)
        screen = await runs_of(desk)
        view = screen.list.view
        rows = [view.visualRect(screen.list.model.index(row, 0)).center() for row in range(3)]
        QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=rows[1])
        await seen(lambda: screen.matrix.current_cell() is not None)
        assert view.hasFocus()
        QTest.keyClick(view, Qt.Key.Key_Down)
        assert view.currentIndex().row() == 2
        assert view.hasFocus()
        QTest.keyClick(view, Qt.Key.Key_Return)
        await seen(lambda: screen.matrix.hasFocus())


async def test_runs_that_go_on_or_wait_stand_above_those_that_have_ended(
    theme: Theme, tmp_path: Path
) -> None:
    console = ManyRuns(115)
    old = console.work.find("r-0101")
    waiting = old.summary.model_copy(update={"state": RunState.WAITING})
    console.work.add(old.model_copy(update={"summary": waiting}))

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk)
        await seen(lambda: len(listed(screen)) == 50)
        assert listed(screen)[:3] == ["r-0101", "r-0115", "r-0114"]
        assert screen.list.head.detail.text() == "1 not ended"
        console.emit(RunChanged(run=old.summary))
        await seen(lambda: listed(screen)[:2] == ["r-0115", "r-0114"])


async def test_a_page_of_older_runs_takes_back_nothing_that_the_window_was_told_since(
    theme: Theme, tmp_path: Path
) -> None:
    console = ManyRuns(115)

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk)
        await seen(lambda: len(listed(screen)) == 50)
        changed = console.work.find("r-0080").summary.model_copy(update={"state": RunState.UNKNOWN})
        console.emit(RunChanged(run=changed))
        await seen(lambda: screen.list.model.find("r-0080") == changed)
        screen.list.read_older()
        await seen(lambda: len(listed(screen)) == 100)
        assert screen.list.model.find("r-0080") == changed


async def test_older_runs_are_read_in_pages_while_the_list_is_scrolled(theme: Theme, tmp_path: Path) -> None:
    console = ManyRuns(115)

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk)
        await seen(lambda: len(listed(screen)) == 50)
        bar = screen.list.view.verticalScrollBar()
        bar.setValue(bar.maximum())
        await seen(lambda: len(listed(screen)) == 100)
        bar.setValue(bar.maximum())
        await seen(lambda: len(listed(screen)) == 115)
        assert listed(screen) == [f"r-{number:04d}" for number in range(115, 0, -1)]
        assert not screen.list.older.isVisible()
        assert console.asked.count("find_runs") == 3


async def test_the_matrix_shows_every_cell_with_the_consoles_own_conclusion(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        await seen(lambda: screen.matrix.cells.rowCount() == 7)
        cells = screen.matrix.cells
        rows = [
            [cells.index(row, column).data(LOOK_ROLE) for column in range(6)]
            for row in range(cells.rowCount())
        ]
        assert rows[0] == ["confirmed", "confirmed", "unverified", "confirmed", "confirmed", "unverified"]
        assert rows[5][1] == "failed"
        assert rows[6][1:3] == ["no_such_tool", "refused"]
        assert cells.headerData(0, Qt.Orientation.Horizontal) == "1 disk"
        assert screen.head.number.text() == CLEAN
        await seen(lambda: screen.counts.chips["done"].accessibleName() == "18 done")
        assert screen.counts.chips["idle"].accessibleName() == "9 skipped or not started"
        assert screen.counts.look.text() == "Needs a look 4"


async def test_n_goes_round_through_what_needs_a_look(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN, "lab-lnx-01", "disk"))
        await seen(lambda: at_cell(screen) == ("lab-lnx-01", "disk"))
        wanted = [
            ("lab-lnx-04", "clean"),
            ("lab-lnx-05", "mark"),
            ("build-lnx-03", "keep"),
            ("edge-gw-11", "clean"),
            ("lab-lnx-04", "clean"),
        ]
        for place in wanted:
            press(screen, Qt.Key.Key_N)
            assert at_cell(screen) == place


async def test_a_count_shows_only_the_devices_that_have_such_a_cell(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        await seen(lambda: screen.matrix.cells.rowCount() == 7)
        await seen(screen.counts.look.isEnabled)
        screen.counts.chips["running"].click()
        assert screen.matrix.cells.devices == ["lab-lnx-02", "lab-lnx-03"]
        assert at_cell(screen) == ("lab-lnx-02", "clean")
        screen.counts.look.click()
        assert screen.matrix.cells.devices == ["lab-lnx-04", "lab-lnx-05", "build-lnx-03", "edge-gw-11"]
        assert not screen.counts.chips["running"].isChecked()
        QTest.keyClick(desk.window, Qt.Key.Key_Escape)
        assert len(screen.matrix.cells.devices) == 7
        assert screen.counts.all.isChecked()


async def test_enter_on_a_cell_that_waits_opens_its_request(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN, "lab-lnx-04", "clean"))
        await seen(lambda: at_cell(screen) == ("lab-lnx-04", "clean"))
        opened = opened_screens(desk)
        press(screen, Qt.Key.Key_Return)
        cell = screen.matrix.current_cell()
        assert cell is not None
        assert cell.approval
        assert opened == [("approvals", OpenApproval(cell.approval))]


async def test_a_cell_changes_live_and_the_counts_with_it(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN, "lab-lnx-02", "clean"))
        await seen(lambda: at_cell(screen) == ("lab-lnx-02", "clean"))
        cell = screen.matrix.current_cell()
        assert cell is not None
        console.emit(CellChanged(cell=cell.model_copy(update={"state": CellState.UNKNOWN})))
        await seen(lambda: screen.counts.chips["unknown"].isVisible())
        assert screen.counts.chips["running"].accessibleName() == "1 running"
        assert screen.counts.look.text() == "Needs a look 5"
        assert screen.drawer.banner.fact.text() == "This may have happened. Nothing was sent again."
        assert at_cell(screen) == ("lab-lnx-02", "clean")


async def test_cells_of_another_run_do_not_touch_this_one(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        await seen(lambda: screen.matrix.cells.rowCount() == 7)
        before = dict(screen.matrix.cells.counts)
        cell = console.work.find(CLEAN).cells[14]
        console.emit(CellChanged(cell=cell.model_copy(update={"run": "r-0001", "state": CellState.FAILED})))
        console.emit(RunChanged(run=console.work.find("r-0408").summary.model_copy(update={"name": "Later"})))
        await seen(lambda: (run := screen.list.model.find("r-0408")) is not None and run.name == "Later")
        assert dict(screen.matrix.cells.counts) == before
        assert screen.head.number.text() == CLEAN


async def test_an_interrupted_run_says_that_the_service_ended(theme: Theme, tmp_path: Path) -> None:
    console = story()
    run = console.work.find(CLEAN)
    ended = run.summary.model_copy(update={"state": RunState.INTERRUPTED, "ended_at": run.summary.started_at})
    console.work.add(run.model_copy(update={"summary": ended}))

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN, "lab-lnx-02", "clean"))
        await seen(lambda: at_cell(screen) == ("lab-lnx-02", "clean"))
        assert "The service ended while this run was going on." in screen.notice.words()
        assert screen.drawer.banner.fact.text() == "The service ended while this was going on."
        assert screen.matrix.cells.counts["interrupted"] == 3
        assert screen.matrix.cells.counts["running"] == 0
        assert screen.matrix.cells.counts["to_go"] == 0


async def test_a_run_that_is_not_in_memory_is_read_and_shown(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk)
        old = console.work.find("r-0408")
        summary = old.summary.model_copy(update={"id": "r-0002", "name": "From long ago"})
        cells = [cell.model_copy(update={"run": "r-0002"}) for cell in old.cells]
        console.work.add(old.model_copy(update={"summary": summary, "cells": cells}))
        desk.window.open("runs", OpenRun("r-0002"))
        await seen(lambda: screen.head.title.text() == "From long ago")
        await seen(lambda: screen.matrix.cells.total() == 3)
        assert screen.list.current == "r-0002"


async def test_a_run_that_cannot_be_read_says_why(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await runs_of(desk)
        desk.window.open("runs", OpenRun("r-9999"))
        await seen(lambda: "There is no run r-9999." in screen.message.words())
        assert screen.message.isVisible()
        assert not screen.split.isVisible()


async def test_over_forty_devices_become_a_dense_matrix_of_shapes(theme: Theme, tmp_path: Path) -> None:
    console = story()
    run = console.work.find("r-0408")
    names = [f"node-{number:04d}" for number in range(1000)]
    cells = [cell.model_copy(update={"device": name}) for name in names for cell in run.cells]
    summary = run.summary.model_copy(update={"devices": names})
    console.work.add(run.model_copy(update={"summary": summary, "cells": cells}))

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun("r-0408"))
        await seen(lambda: screen.matrix.cells.total() == 3000 and screen.matrix.current_cell() is not None)
        assert screen.matrix.dense
        assert screen.matrix.rowHeight(0) == 20
        QTest.keyClick(screen.matrix, Qt.Key.Key_End, Qt.KeyboardModifier.ControlModifier)
        assert at_cell(screen)[0] == "node-0999"
        said = screen.matrix.currentIndex().data(Qt.ItemDataRole.AccessibleTextRole)
        assert str(said).startswith("node-0999, shot: confirmed")


async def test_at_its_end_a_run_is_read_whole_once_more(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        await seen(lambda: screen.matrix.cells.rowCount() == 7)
        before = console.asked.count("run")
        # An event of a cell got lost on the way; only the end of the run was heard.
        run = console.work.find(CLEAN)
        cells = [
            cell.model_copy(update={"state": CellState.CANCELLED})
            if cell.state is CellState.RUNNING
            else cell
            for cell in run.cells
        ]
        ended = run.summary.model_copy(update={"state": RunState.CANCELLED})
        console.work.add(run.model_copy(update={"summary": ended, "cells": cells}))
        await seen(lambda: screen.matrix.cells.counts["cancelled"] == 2)
        assert console.asked.count("run") == before + 1


async def test_errors_of_the_door_never_leave_a_screen_that_reads_forever(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    console.fail_next["run"] = QuarterdeckError("Its entries cannot be read.", ErrorCode.JOURNAL_CORRUPT)

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("runs", OpenRun(CLEAN))
        screen = desk.window.current
        assert isinstance(screen, RunsScreen)
        await seen(lambda: "Its entries cannot be read." in screen.message.words())
        desk.state.reset.emit()
        await seen(lambda: screen.matrix.cells.total() == 42)
        await seen(lambda: screen.matrix.isVisible() and not screen.message.isVisible())
        await seen(lambda: screen.matrix.currentIndex() != QModelIndex())
