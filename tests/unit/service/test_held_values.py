"""Values of results beyond a bound are in the journal only, and are read from there when asked for."""

from __future__ import annotations

from typing import Any

import pytest

from core.batch import held_values, runs
from core.batch.held_values import HeldValues, Key
from core.batch.models import Batch, Cell, CellState
from core.home import Home
from core.service.local_console import LocalConsole
from tests.fakes.cells import cell_with
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.patience import PATIENCE_S


def look(name: str, kind: str = "os") -> dict[str, Any]:
    return {"id": name, "tool": "get_system_info", "with": {"info_type": kind}}


BATCH = Batch.model_validate(
    {
        "name": "Looks",
        "targets": "name:this-computer",
        "steps": [
            look("first", "disk"),
            look("second"),
            {**look("third"), "when": "${{ size(steps.first.result.filesystems) > 0 }}"},
        ],
    }
)


async def test_old_values_leave_memory_and_are_the_same_when_asked_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = LocalConsole(service, "operator:anna")
        whole = await console.runs.wait((await console.runs.start(BATCH)).summary.id, PATIENCE_S)
        monkeypatch.setattr(held_values, "MOST_HELD", 10)
        started = await console.runs.start(BATCH)
        number = started.summary.id
        again = await console.runs.wait(number, PATIENCE_S)
        live = service.runs.find(number)
        assert live is not None
        assert live.held is not None
        # The first value was needed by the third step, and could go only when the device had ended.
        assert [cell.state for cell in again.cells] == [CellState.DONE] * 3
        assert live.held.paged == {("this-computer", step) for step in ("first", "second", "third")}
        assert live.held.bytes == 0
        assert all(cell.result.result is None for cell in live.cells.values() if cell.result)
        for read in (again, await console.runs.get(number)):
            assert [sorted(value_of(cell)) for cell in read.cells] == [
                sorted(value_of(cell)) for cell in whole.cells
            ]
        assert value_of((await console.runs.cells(number)).cells[1]) == value_of(again.cells[1])
        [first, *_] = (await console.runs.results(number)).results
        assert first.result == value_of(again.cells[0])
        assert all(not cell.differences for cell in (await console.runs.compare(number, number)).cells)


async def test_a_value_that_the_journal_cannot_give_yet_is_not_called_none(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    choose_channel(home, "in-process")
    monkeypatch.setattr(held_values, "MOST_HELD", 10)
    async with open_service(home) as service:
        console = LocalConsole(service, "operator:anna")
        number = (await console.runs.start(BATCH)).summary.id
        await console.runs.wait(number, PATIENCE_S)
        fold_run = service.journal.fold_run

        async def without_results(run: str, fold: Any, *more: Any) -> Any:
            whole = await fold_run(run, fold, *more)
            cells = [cell.model_copy(update={"result": None}) for cell in whole.cells]
            return whole.model_copy(update={"cells": cells})

        monkeypatch.setattr(service.journal, "fold_run", without_results)
        for cell in (await console.runs.get(number)).cells:
            assert cell.result is not None
            assert "the journal does not have it yet" in cell.result.note


async def test_an_ended_run_with_large_values_is_forgotten_when_another_starts(
    home: Home, monkeypatch: pytest.MonkeyPatch
):
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = LocalConsole(service, "operator:anna")
        number = (await console.runs.start(BATCH)).summary.id
        await console.runs.wait(number, PATIENCE_S)
        monkeypatch.setattr(runs, "MOST_HELD", 10)
        await console.runs.start(BATCH)
        assert service.runs.find(number) is None
        assert value_of((await console.runs.get(number)).cells[0])["filesystems"]


def value_of(cell: Cell) -> dict[str, Any]:
    assert cell.result is not None
    assert isinstance(cell.result.result, dict)
    return cell.result.result


def changed(held: HeldValues, before: Cell | None, cell: Cell) -> list[Key]:
    """The cells that lose their values when `cell` takes the place of `before`."""
    state, result = (before.state, before.result) if before is not None else (None, None)
    return list(held.changed(cell, state, result))


def test_what_expressions_read_stays_until_its_device_has_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(held_values, "MOST_HELD", 30)
    held = HeldValues(frozenset({"a"}))
    begun = [Cell(run="r", device="d", step=step, tool="t", state=CellState.QUEUED) for step in "ab"]
    for cell in begun:
        assert changed(held, None, cell) == []
    first = cell_with("d", "a", "x" * 100)
    assert changed(held, begun[0], first) == []
    assert changed(held, None, cell_with("e", "b", "x" * 100)) == [("e", "b")]
    assert changed(held, begun[1], cell_with("d", "b", 1)) == [("d", "b"), ("d", "a")]
    # A further attempt has a value of its own.
    assert changed(held, first, cell_with("d", "a", 2)) == []
    assert held.paged == {("e", "b"), ("d", "b")}
    assert held.bytes == 1
