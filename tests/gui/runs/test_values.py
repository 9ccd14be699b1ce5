"""Runs keeps the newest values of the run on show; the journal has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.screens.runs.held_cells import IN_JOURNAL, HeldCells
from app.theme.theme import Theme
from core.batch import held_values
from core.batch.held_values import bytes_of
from core.batch.models import RunState
from tests.fakes.cells import cell_with
from tests.fakes.window import seen
from tests.gui.runs.page import open_runs

STEPS = 8
SIZE = 10_000


async def test_of_large_results_the_newest_are_kept_and_the_others_are_read_from_the_journal(
    theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_values, "MOST_HELD", 3 * SIZE + 2_000)

    def content(number: int) -> str:
        return str(number) * SIZE

    async with open_runs(theme, tmp_path) as page:
        steps = []
        for number in range(STEPS):
            file = page.work / f"note{number}"
            file.write_text(content(number))
            steps.append({"id": f"look{number}", "tool": "read_file", "with": {"file_path": str(file)}})
        await page.start(*steps)
        await page.until(RunState.DONE)
        cells = page.cells()
        assert len(cells) == STEPS
        kept = [bytes_of(cell.result.result) for cell in cells if cell.result and cell.result.result]
        assert SIZE < sum(kept) <= held_values.MOST_HELD
        for number in (0, STEPS - 1):
            page.choose(f"look{number}")
            await seen(lambda number=number: content(number) in str(page.drawer.result.json.value))
        page.choose("look0")
        results = page.screen.views.results
        page.screen.views.show_view("results")
        await seen(lambda: results.words.text() == "1 large result in the journal only, not compared")
        results.kind.choose("table")
        results.kind.chosen.emit("table")
        await seen(lambda: results.words.text() == "0 rows; 1 large result in the journal only, not compared")
        results.kind.choose("groups")
        results.kind.chosen.emit("groups")
        results.step_chosen.emit(f"look{STEPS - 1}")
        await seen(lambda: results.words.text() == "1 alike")


def test_a_value_that_comes_anew_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_values, "MOST_HELD", 250)
    held = HeldCells()
    for value in ("a", "b", "c"):
        held.put(cell_with("one", "s", value * 100))
        held.put(cell_with("two", "s", value * 100))
    assert all(held.has_value(one) for one in held.cells.values())
    held.put(cell_with("three", "s", "d" * 100))
    left, *kept = (held.cells[device, "s"] for device in ("one", "two", "three"))
    assert not held.has_value(left)
    assert left.result is not None
    assert (left.result.result, left.result.note) == (None, IN_JOURNAL)
    assert [one.result.result for one in kept if one.result is not None] == ["c" * 100, "d" * 100]
    held.put(cell_with("one", "s", "e"))
    assert held.has_value(held.cells["one", "s"])
