"""Runs: the chosen row stays in sight, and a closed drawer can always be opened again."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.main import ConsoleApplication
from app.screens.runs.held_cells import HeldCells
from app.screens.runs.matrix_view import RunMatrix
from app.screens.runs.screen import RunsScreen
from app.screens.targets import OpenRun
from app.theme.theme import Theme
from core.batch.models import Batch, Cell, CellState, Run
from tests.fakes.runs_screen import CLEAN, runs_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen


async def show(desk: ConsoleApplication, run: str) -> RunsScreen:
    screen = await runs_of(desk, OpenRun(run))
    await seen(lambda: screen.head.number.text() == run)
    await seen(lambda: screen.split.isVisible() and screen.matrix.current_cell() is not None)
    return screen


async def test_a_banner_does_not_push_the_chosen_row_out_of_sight(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        screen = await show(desk, CLEAN)
        matrix = screen.matrix
        screen.pages.split.setSizes([matrix.needed_height(), 400])
        matrix.go_to(matrix.cells.index(matrix.cells.rowCount() - 1, 0))
        screen.notice.say("warn", "What became of some commands is not known.", "Look at the device.")
        await seen(lambda: matrix.height() < matrix.needed_height())
        row = matrix.visualRect(matrix.currentIndex())
        assert row.top() >= 0
        assert row.bottom() <= matrix.viewport().height()


async def test_a_closed_drawer_says_how_it_opens_and_a_run_of_one_device_has_its_own(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    singles = [run.id for run in console.work.summaries() if len(run.devices) == 1]

    assert len(singles) >= 2
    async with open_frame(theme, tmp_path, console) as desk:
        screen = await show(desk, CLEAN)
        await seen(screen.drawer.isVisible)
        assert not screen.pages.hint.isVisible()
        QTest.keyClick(desk.window, Qt.Key.Key_Escape)
        assert not screen.drawer.isVisible()
        assert "Enter" in screen.pages.hint.text()
        await seen(screen.pages.hint.isVisible)
        for run in singles[:2]:
            await show(desk, run)
            await seen(screen.drawer.isVisible)
            assert not screen.pages.hint.isVisible()
            QTest.keyClick(desk.window, Qt.Key.Key_Escape)
            assert not screen.drawer.isVisible()
        await show(desk, CLEAN)
        await seen(screen.pages.hint.isVisible)
        assert not screen.drawer.isVisible()
        screen.pages.hint.click()
        await seen(screen.drawer.isVisible)
        assert not screen.pages.hint.isVisible()


def test_few_columns_of_many_devices_have_words_and_many_columns_shapes(theme: Theme, qtbot: QtBot) -> None:
    matrix = RunMatrix()
    qtbot.addWidget(matrix)
    matrix.resize(1000, 400)
    matrix.show()
    few = story().work.find(CLEAN)
    devices = [f"lab-{number:03d}" for number in range(50)]
    for count, words in ((3, True), (30, False), (2, True)):
        steps = [f"s{number}" for number in range(count)]
        summary = few.summary.model_copy(update={"devices": devices, "steps": steps, "tools": ["x"] * count})
        batch = Batch.model_validate({"name": "x", "steps": [{"id": step, "tool": "x"} for step in steps]})
        cells = [
            Cell(run=CLEAN, device=device, step=step, tool="x", state=CellState.DONE)
            for device in devices
            for step in steps
        ]
        held = HeldCells()
        for cell in cells:
            held.put(cell)
        matrix.cells.show_run(Run(summary=summary, batch=batch, cells=cells), held)
        assert matrix.dense
        assert matrix.has_words is words
        if words:
            wide = sum(matrix.columnWidth(column) for column in range(count))
            assert wide == matrix.viewport().width()
