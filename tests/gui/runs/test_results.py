"""The results of a run: which are alike, as rows, searched, exported, and compared with another run's."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.items.table_view import TableView
from app.screens.runs.result_rows import MOST_ROWS, rows_of, table_of
from app.screens.targets import OpenRun
from app.theme.theme import Theme
from core.aip.messages import ResultStatus
from core.batch.models import Cell, CellState, RunState
from core.commands.results import Basis, CommandResult, Verdict
from tests.fakes.runs_screen import CLEAN, change_cell, runs_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.runs.page import open_runs
from tests.gui.runs.test_controls import read, write


def rows(table: TableView) -> list[str]:
    model = table.rows_model
    return [model.words(row) for row in range(model.rowCount())]


async def test_equal_results_stand_together_and_the_others_say_how_they_differ(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    for number, device in enumerate(console.work.find(CLEAN).summary.devices):
        used = 97 if number == 2 else 91
        change_cell(console, device, "disk", result={"filesystems": [{"mount": "/", "use_percent": used}]})

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN, "lab-lnx-01", "disk"))
        await seen(lambda: screen.views.bar.alike.text() == "disk: 6 alike, 1 differs")
        QTest.keyClick(screen.matrix, Qt.Key.Key_V)
        results = screen.views.results
        assert results.isVisible()
        assert results.words.text() == "6 alike, 1 differs"
        assert len(rows(results.groups)) == 2
        assert "$.filesystems[0].use_percent: 91 → 97" in rows(results.groups)[1]
        results.groups.choose("lab-lnx-03")
        assert rows(results.differences) == ["$.filesystems[0].use_percent\t91\t97"]
        # Enter shows the cell, in the matrix.
        results.groups.setFocus()
        QTest.keyClick(results.groups, Qt.Key.Key_Return)
        cell = screen.matrix.current_cell()
        assert screen.matrix.hasFocus()
        assert cell is not None
        assert (cell.device, cell.step) == ("lab-lnx-03", "disk")


async def test_a_result_that_changes_while_it_is_looked_at_is_grouped_anew(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    for device in console.work.find(CLEAN).summary.devices:
        change_cell(console, device, "disk", result={"used": 1})

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN, "lab-lnx-01", "disk"))
        screen.views.show_view("results")
        await seen(lambda: screen.views.results.words.text() == "7 alike")
        cell = change_cell(console, "lab-lnx-05", "disk", result={"used": 2})
        desk.state.cell_changed.emit(cell)
        await seen(lambda: screen.views.results.words.text() == "6 alike, 1 differs")


async def test_where_a_result_is_rows_they_are_a_table_that_sorts_by_value(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    for number, device in enumerate(console.work.find(CLEAN).summary.devices):
        mounts = [{"mount": "/", "used": 100 - number}, {"mount": "/srv", "used": number, "note": "small"}]
        change_cell(console, device, "disk", result={"filesystems": mounts, "info_type": "disk"})

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN, "lab-lnx-01", "disk"))
        screen.views.show_view("results")
        results = screen.views.results
        results.kind.choose("table")
        results.kind.chosen.emit("table")
        await seen(lambda: results.words.text() == "14 rows")
        assert rows(results.table)[1] == "lab-lnx-01\t/srv\t0\tsmall"
        results.table.sort_by("used", descending=True)
        assert rows(results.table)[0] == "lab-lnx-01\t/\t100\t"
        assert rows(results.table)[-1].split("\t")[2] == "0"


async def test_all_results_of_a_run_are_searched_and_a_hit_leads_to_its_cell(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        for name, content in (("one", "hay"), ("two", "a needle in hay")):
            (page.work / name).write_text(content)
        await page.start(read("one", page.work / "one"), read("two", page.work / "two"))
        await page.until(RunState.DONE)
        page.press_key(Qt.Key.Key_V)
        results = page.screen.views.results
        # To where the keyboard is: the results need not have come.
        keyboard = QApplication.focusWidget() or page.screen
        QTest.keyClick(keyboard, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
        await seen(results.field.hasFocus)
        QTest.keyClicks(results.field, "NEEDLE hay")
        await seen(lambda: results.words.text() == "1 found")
        results.hits.setFocus()
        results.hits.selectRow(0)
        QTest.keyClick(results.hits, Qt.Key.Key_Return)
        cell = page.screen.matrix.current_cell()
        assert cell is not None
        assert cell.step == "two"
        page.press_key(Qt.Key.Key_V)
        results.field.setText("nowhere")
        await seen(lambda: results.place.words.startswith("No result has these words."))
        results.field.clear()
        await seen(results.groups.isVisible)


async def test_results_are_exported_and_no_file_is_replaced_unasked(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        note = page.work / "note"
        note.write_text("=cmd|' /C calc'!A0")
        run = await page.start(read("look", note))
        await page.until(RunState.DONE)
        target, whole = tmp_path / "results.csv", tmp_path / "results.json"
        page.press_key(Qt.Key.Key_E, Qt.KeyboardModifier.ControlModifier)
        dialog = page.screen.export.dialog
        assert dialog is not None
        assert not dialog.isModal()
        dialog.fileSelected.emit(str(target))
        dialog.reject()
        await seen(target.exists)
        [row] = csv.DictReader(target.read_text("utf-8").splitlines())
        assert (row["run"], row["step"], row["state"]) == (run, "look", "done")
        await seen(lambda: not page.screen.export.isVisible())
        target.write_text("mine")
        page.screen.export.write(run, target)
        assert page.screen.ask.words.text() == "Replace results.csv?"
        page.press("Keep it")
        assert target.read_text() == "mine"
        page.screen.export.write(run, target)
        page.press("Replace it")
        await seen(lambda: target.read_text().startswith("run,device"))
        page.screen.export.write(run, whole)
        await seen(whole.exists)
        assert json.loads(whole.read_text())["results"][0]["step"] == "look"


async def test_an_export_that_fails_is_told_and_one_that_is_cancelled_leaves_no_file(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_runs(theme, tmp_path) as page:
        run = await page.start({"id": "look", "tool": "get_system_info", "with": {"info_type": "memory"}})
        await page.until(RunState.DONE)
        page.screen.export.write(run, tmp_path / "no" / "such" / "folder.csv")
        await seen(page.bay.desk.window.notices.words)
        assert "cannot be written" in " ".join(page.bay.desk.window.notices.words())
        target = tmp_path / "cancelled.csv"
        page.screen.export.write(run, target)
        assert page.screen.export.progress.isVisible()
        page.screen.export.progress.cancel.click()
        assert not page.screen.export.isVisible()
        # What goes on after it would be written before this answers.
        await page.bay.beside.runs.cells(run)
        assert not target.exists()
        assert not [name for name in os.listdir(tmp_path) if "cancelled" in name]


async def test_two_runs_of_a_batch_are_compared_cell_by_cell(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        note = page.work / "note"
        steps = (
            read("look", note),
            {"id": "same", "tool": "read_file", "with": {"file_path": str(page.work / "x")}},
        )
        (page.work / "x").write_text("x")
        note.write_text("one")
        first = await page.start(*steps, on_failure="continue")
        await page.until(RunState.DONE)
        note.write_text("two")
        second = await page.start(*steps, on_failure="continue")
        await page.until(RunState.DONE)
        page.screen.views.show_view("compare")
        comparison = page.screen.views.comparison
        await seen(lambda: comparison.words.text() == f"{first} and {second}: 1 alike, 1 differ")
        [row] = rows(comparison.cells)
        assert row.startswith("this-computer\tlook\tconfirmed\tconfirmed\t$.content: one → two")
        assert " → " in row.split("\t")[-1]
        assert "$.content\tone\ttwo" in rows(comparison.differences)
        comparison.only.click()
        assert len(rows(comparison.cells)) == 2
        note.unlink()
        third = await page.start(*steps, on_failure="continue")
        await page.until(RunState.FAILED)
        await seen(lambda: comparison.words.text() == f"{second} and {third}: 1 alike, 1 differ")
        comparison.other.setCurrentIndex(comparison.other.findData(first))
        comparison.other.activated.emit(0)
        await seen(lambda: comparison.words.text() == f"{first} and {third}: 1 alike, 1 differ")
        QTest.keyClick(comparison.cells, Qt.Key.Key_Escape)
        assert page.screen.views.shows_matrix


async def test_a_run_without_another_of_its_batch_says_so(theme: Theme, tmp_path: Path) -> None:
    async with open_runs(theme, tmp_path) as page:
        await page.start(write("one", page.work / "note", "x"), name="Only once")
        await page.until(RunState.DONE)
        page.screen.views.show_view("compare")
        await seen(lambda: page.screen.views.comparison.place.words.startswith("There is no other run"))


def result(value: object) -> Cell:
    found = CommandResult(
        call_id="c", device="d", tool_name="t", status=ResultStatus.SUCCESS, verdict=Verdict.CONFIRMED,
        basis=Basis.READ_RESPONSE, result=value,
    )  # fmt: skip
    return Cell(run="r", device="d", step="s", tool="t", state=CellState.DONE, result=found)


def test_each_form_of_a_result_has_rows() -> None:
    assert rows_of([{"a": 1}, 2]) == [{"a": 1}, {"value": 2}]
    assert rows_of({"few": [{"a": 1}], "many": [{"b": 1}, {"b": 2}], "n": 3}) == [{"b": 1}, {"b": 2}]
    assert rows_of({"a": 1, "execution_time": 2.5}) == [{"a": 1}]
    assert rows_of("text") == [{"value": "text"}]
    assert rows_of(None) == rows_of({}) == []


def test_a_flood_of_rows_is_bounded_and_what_is_left_out_is_counted() -> None:
    table = table_of([result([{"a": n} for n in range(MOST_ROWS + 7)])])
    assert (len(table.rows), table.left) == (MOST_ROWS, 7)
