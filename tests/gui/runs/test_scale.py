"""A run over a thousand devices: no turn of the window's loop does much, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path

import pytest

from app.screens.runs import actions
from app.screens.runs.actions import MOST_AT_ONCE
from app.screens.runs.cells_model import LOOK_ROLE
from app.screens.runs.remainder_text import Left, left_of
from app.screens.targets import OpenRun
from app.state import CELLS_A_TURN
from app.theme.theme import Theme
from app.widgets.labels import Label
from core.batch.models import Cell, CellPage, CellState, Run, RunState
from core.service.console import CellChanged, RunChanged
from tests.fakes.big_run import ENDED, STEP, big_run, ended, ended_run
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import many_devices
from tests.fakes.painted import Painted
from tests.fakes.qt_turns import most_calls_a_turn
from tests.fakes.runs_screen import CLEAN, drawer_of, runs_of
from tests.fakes.story import story
from tests.fakes.turns import Turns
from tests.fakes.window import open_frame, seen

COUNT = 1000
MOST_IN_A_TURN = 75_000


def crowded(*numbers: int) -> tuple[FakeConsole, list[Run]]:
    """A console with a thousand devices, and runs over all of them."""
    console = FakeConsole(many_devices(COUNT), story().operators)
    runs = [big_run(number, list(console.fleet)) for number in numbers]
    for run in runs:
        console.work.add(run)
    return console, runs


async def test_a_burst_of_cells_goes_out_in_slices_newest_last_and_before_the_end_of_its_run(
    theme: Theme, tmp_path: Path
) -> None:
    console, (run,) = crowded(1)

    async with open_frame(theme, tmp_path, console) as desk:
        await asyncio.sleep(0)
        turns = Turns()
        told: list[Cell] = []
        when: Counter[int] = Counter()
        ends: list[int] = []
        desk.state.cell_changed.connect(lambda cell: (told.append(cell), when.update([turns.count])))
        desk.state.runs_changed.connect(
            lambda name: ends.append(len(told)) if name == run.summary.id else None
        )
        for cell in run.cells:
            desk.state.apply(CellChanged(cell=cell))
        for cell in run.cells:
            desk.state.apply(CellChanged(cell=ended(cell)))
        desk.state.apply(RunChanged(run=ended_run(run).summary))
        await seen(lambda: ends)
        assert told == [ended(cell) for cell in run.cells]
        assert max(when.values()) <= CELLS_A_TURN
        assert ends == [COUNT]
        turns.close()


async def test_a_cell_that_changes_while_others_go_out_is_told_as_it_is_at_last(
    theme: Theme, tmp_path: Path
) -> None:
    console, (run,) = crowded(1)

    async with open_frame(theme, tmp_path, console) as desk:
        told: dict[str, Cell] = {}
        desk.state.cell_changed.connect(lambda cell: told.update({cell.device: cell}))
        for cell in run.cells:
            desk.state.apply(CellChanged(cell=cell))
        desk.state.flush()
        assert len(told) == CELLS_A_TURN
        # One that is told already, and one that is not yet.
        for cell in (run.cells[0], run.cells[-1]):
            desk.state.apply(CellChanged(cell=ended(cell)))
        await seen(lambda: len(told) == COUNT and told[run.cells[0].device] == ended(run.cells[0]))
        assert told[run.cells[-1].device] == ended(run.cells[-1])


async def test_reading_a_run_again_keeps_the_rows_and_shows_what_is_new(theme: Theme, tmp_path: Path) -> None:
    console, (run,) = crowded(1)
    last = run.cells[-1]

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun("r-0001", last.device, last.step))
        await seen(lambda: screen.drawer.isVisible() and screen.matrix.isVisible())
        resets: list[int] = []
        screen.matrix.cells.modelReset.connect(lambda: resets.append(1))
        top = screen.matrix.verticalScrollBar().value()
        assert top > 0
        console.work.add(ended_run(run))
        console.emit(RunChanged(run=ended_run(run).summary))
        at = screen.matrix.cells.index_of(last.device, last.step)
        await seen(lambda: at.data(LOOK_ROLE) == "confirmed")
        await seen(lambda: screen.drawer.badge.accessibleName() == "Outcome: confirmed")
        # The counts of a thousand cells follow in a turn of their own.
        await seen(lambda: screen.counts.chips["done"].accessibleName().endswith("done"))
        assert screen.matrix.verticalScrollBar().value() == top
        assert not resets


async def test_moving_from_cell_to_cell_makes_no_label_anew(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        drawer = await drawer_of(desk, "lab-lnx-01", "disk")
        await seen(lambda: drawer.entries.table.rows_model.items)
        made: list[str] = []
        real = Label.__init__

        def counted(self: Label, text: str = "", *rest: object, **more: object) -> None:
            made.append(text)
            real(self, text, *rest, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(Label, "__init__", counted)
        for device in ("lab-lnx-02", "lab-lnx-03", "lab-lnx-02"):
            other = await drawer_of(desk, device, "disk")
            await seen(lambda other=other: other.entries.table.rows_model.items)
            assert other.facts.value("Verdict").text() == "confirmed"
        assert made == []


async def test_a_decision_is_built_when_its_tab_comes_to_be_seen(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        drawer = await drawer_of(desk, "edge-gw-11", "clean")
        await seen(lambda: drawer.entries.table.rows_model.items)
        assert drawer.decision.findChildren(Label) == []
        drawer.choose_tab("decision")
        await seen(lambda: drawer.decision.findChildren(Label))
        words = [label.text() for label in drawer.decision.findChildren(Label)]
        assert "Why" in words
        drawer.choose_tab("result")
        await drawer_of(desk, "lab-lnx-04", "clean")
        drawer.choose_tab("decision")
        assert [label.text() for label in drawer.decision.findChildren(Label)] != words


async def test_what_changes_of_one_run_paints_one_row_of_the_list(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(CLEAN))
        view = screen.list.view
        row = view.visualRect(screen.list.model.index(0, 0)).height()
        await seen(lambda: screen.matrix.isVisible())
        painted = Painted(view.viewport())
        summary = console.work.find("r-0409").summary
        for number in range(1, 4):
            await asyncio.sleep(0.05)
            painted.take()
            changed = summary.model_copy(update={"note": f"note {number}"})
            console.emit(RunChanged(run=changed))
            await seen(lambda: painted.regions)
            assert painted.most_height() <= row
        assert screen.list.model.find("r-0409") == changed


async def test_no_turn_does_much_while_a_run_over_a_thousand_devices_opens_and_goes_on(
    theme: Theme, tmp_path: Path
) -> None:
    console, (first, run) = crowded(1, 2)

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun(first.summary.id))
        with most_calls_a_turn(MOST_IN_A_TURN):
            desk.window.open("runs", OpenRun(run.summary.id))
            await seen(lambda: screen.matrix.cells.total() == COUNT and screen.matrix.isVisible())
            for cell in run.cells:
                console.emit(CellChanged(cell=ended(cell)))
            await seen(
                lambda: (
                    screen.matrix.cells.counts["done"] == COUNT
                    and screen.drawer.facts.value("Verdict").text()
                )
            )
        assert screen.matrix.cells.index_of(run.summary.devices[-1], STEP).data(LOOK_ROLE) == "confirmed"


async def test_what_is_left_of_a_large_run_is_seen_off_the_loop_of_the_window(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = story()
    run = big_run(900, [f"lab-{number:04d}" for number in range(MOST_AT_ONCE + 1)])
    counts = {CellState.FAILED: len(run.cells)}
    summary = run.summary.model_copy(update={"state": RunState.FAILED, "counts": counts, "ended_at": ENDED})
    cells = [cell.model_copy(update={"state": CellState.FAILED, "ended_at": ENDED}) for cell in run.cells]
    console.work.add(run.model_copy(update={"summary": summary, "cells": cells}))
    threads: list[bool] = []

    def seen_there(found: Run) -> Left:
        threads.append(threading.current_thread() is threading.main_thread())
        return left_of(found)

    monkeypatch.setattr(actions, "left_of", seen_there)

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await runs_of(desk, OpenRun("r-0900"))
        await seen(screen.head.resume.isVisible)
        assert screen.head.resume.text() == f"Re-run failed step on {MOST_AT_ONCE + 1:,} devices…"
        assert threads == [False]


async def test_a_run_is_read_in_pages_and_what_changes_meanwhile_is_not_lost(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(many_devices(6), story().operators)
    run = big_run(1, list(console.fleet))
    console.work.add(run)
    told = asyncio.Event()

    def first_page(run: str) -> Run:
        whole = console.work.find(run)
        return whole.model_copy(update={"cells": whole.cells[:2], "next": 2})

    async def further_page(run: str, after: int) -> CellPage:
        """Before the last page, a cell of the first changes, and one of the last did."""
        whole = console.work.find(run)
        cells = [*whole.cells[:-1], ended(whole.cells[-1])]
        end = after + 2 if after + 2 < len(cells) else None
        if end is None:
            console.emit(CellChanged(cell=ended(cells[0])))
            console.emit(CellChanged(cell=whole.cells[-1]))  # older than its page
            await told.wait()
        return CellPage(run=whole.summary, cells=cells[after:end], next=end)

    console.answer("run", first_page)
    console.answer("run_cells", further_page)

    async with open_frame(theme, tmp_path, console) as desk:
        desk.state.cell_changed.connect(
            lambda cell: told.set() if cell.device == run.cells[-1].device else None
        )
        screen = await runs_of(desk, OpenRun(run.summary.id))
        cells = screen.matrix.cells
        await seen(lambda: cells.total() == 6)
        states = [cell.state for cell in cells.cells_of(STEP)[0]]
        assert states == [CellState.DONE, *[CellState.RUNNING] * 4, CellState.DONE]
