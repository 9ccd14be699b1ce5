"""A run that is read back from the journal is the run that was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from core.audit.entries import Entry, Kind, NewEntry
from core.batch.models import Batch, CellState, Run, RunState, flatten
from core.batch.run_history import rebuild_run
from core.errors import JournalCorrupt
from tests.fakes.patience import PATIENCE_S
from tests.fakes.run_size import examples
from tests.fakes.scripted_runs import ENDS, House, open_house

CANCELLED_AT = st.none() | st.integers(0, 12)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """One to five entries, some of them groups, some steps switched off."""
    number = 0
    steps: list[Any] = []

    def step() -> dict[str, Any]:
        nonlocal number
        number += 1
        return {"id": f"s{number}", "tool": "t", "enabled": draw(st.integers(0, 4)) > 0}

    for _ in range(draw(st.integers(1, 4))):
        group = draw(st.integers(0, 3))
        steps.append({"parallel": [step() for _ in range(group)]} if group else step())
    return Batch.model_validate(
        {
            "name": "any",
            "steps": steps,
            "on_failure": draw(st.sampled_from(["stop", "continue"])),
            "rollout": {"parallel": draw(st.integers(1, 3))},
        }
    )


def told(run: Run) -> dict[str, object]:
    """Without times: the service has its own, the journal those of the entries. Stages are not written."""
    cells = {"__all__": {"started_at": True, "ended_at": True, "result": {"stage"}}}
    return run.model_dump(exclude={"summary": {"started_at", "ended_at"}, "cells": cells})


async def play(batch: Batch, devices: list[str], ends: list[str], cancel_at: int | None) -> tuple[Run, House]:
    """Carry a batch through, each call ending as the next of `ends`; cancel at a call's beginning."""
    house = open_house()
    places = [(device, step.id) for device in devices for step in flatten(batch.steps)]
    script = {place: ends[at % len(ends)] for at, place in enumerate(places)}
    house.dispatcher.script = script
    run = await house.runs.start(batch, (tuple(devices),), "operator:anna", "batch", "because")

    def begins() -> None:
        if len(house.dispatcher.begun) == cancel_at:
            house.tasks.spawn("cancel", house.runs.cancel(run, "operator:anna"))

    house.dispatcher.on_begin = begins
    if cancel_at == 0:
        await house.runs.cancel(run, "operator:anna")
    async with asyncio.timeout(PATIENCE_S):
        await run.ended.wait()
    await house.close()
    return run.whole(), house


# The run is cancelled while an approved request, whose contract changed, is about to be asked again.
@example(
    batch=Batch.model_validate(
        {
            "name": "any",
            "steps": [{"parallel": [{"id": "s1", "tool": "t"}, {"id": "s2", "tool": "t"}]}],
            "rollout": {"parallel": 1},
        }
    ),
    devices=2,
    ends=["cancelled", "changed"],
    cancel_at=3,
)
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(
    batch=batches(),
    devices=st.integers(1, 4),
    ends=st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=8),
    cancel_at=CANCELLED_AT,
)
def test_whatever_happened_the_run_read_back_equals_the_run_that_was(batch, devices, ends, cancel_at):
    live, house = asyncio.run(play(batch, [f"d-{number}" for number in range(devices)], ends, cancel_at))
    assert told(rebuild_run(house.journal.entries)) == told(live)


@given(st.data())
@settings(max_examples=examples(60))
def test_a_run_cut_anywhere_is_still_readable_and_has_ended(data):
    batch = data.draw(batches())
    ends = data.draw(st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=4))
    _, house = asyncio.run(play(batch, ["one", "two"], ends, None))
    entries = house.journal.entries[: data.draw(st.integers(1, len(house.journal.entries)))]
    run = rebuild_run(entries)
    assert run.summary.state.ended
    assert len(run.cells) == 2 * len(flatten(batch.steps))
    if any(cell.state in (CellState.RUNNING, CellState.WAITING) for cell in run.cells):
        assert run.summary.state is RunState.INTERRUPTED


def entry(kind: Kind, body: dict[str, Any], run: str | None = "r-0001") -> Entry:
    fields = NewEntry(kind=kind, actor="service", run=run, body=body).values()
    return Entry(**fields, seq=7, time="2026-01-01T00:00:00.000000Z")


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [entry(Kind.RUN_FINISHED, {"state": "done"})],
        [entry(Kind.RUN_STARTED, {}, run=None)],
        [entry(Kind.RUN_STARTED, {})],
        [entry(Kind.RUN_STARTED, {"batch": {"name": "x"}, "kind": "batch", "devices": []})],
        [entry(Kind.RUN_STARTED, {"batch": 7, "kind": "batch", "devices": None})],
    ],
)
def test_entries_that_are_no_run_are_said_so(entries):
    with pytest.raises(JournalCorrupt):
        rebuild_run(entries)
