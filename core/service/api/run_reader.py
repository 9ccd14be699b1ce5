"""Reads runs for clients: from memory while the service has them there, otherwise from the journal.

A run may have ten thousand cells, and the value of a result megabytes. So only states are read of a whole run
at once; values are read for some of its devices, no more than fill a page, or for the cells asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from typing import Any

from core.audit.entries import Entry, Kind
from core.audit.projection import keep_values
from core.audit.query import quoted
from core.batch.held_values import bytes_of
from core.batch.live_run import LiveRun, with_result
from core.batch.models import Batch, Cell, CellPage, Run, RunState, RunSummary
from core.batch.run_history import END_KINDS, rebuild_run, summary_of
from core.commands.results import CommandResult
from core.errors import BadInput, ErrorCode, JournalError
from core.service.api.client import Client, no_such_run
from core.similar import meant_or_known
from core.tasks import in_turns

MOST_CELLS = 1_000
# Bytes, as JSON, of the values that a page takes from the journal. With those in memory (`MOST_HELD`) they
# fit into one answer of the API.
MOST_BYTES = 16 * 1024 * 1024

# Entries of `END_KINDS`, and decisions on the first device, that a summary is made from; a run that has more
# of them is read whole.
_MOST_ENDS = 20
_MOST_DECIDED = 400

Place = tuple[str, str]

# Runs that the error for an unknown one names.
_LATEST = 5
_NO_VALUE_YET = "Its value is not in memory, and the journal does not have it yet."


class RunReader:
    """Reads runs for one client; an agent sees its own only."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._service = client.service

    def live(self, run: str) -> LiveRun | None:
        """The run if it is in memory, where it may have ended.

        Raises:
            BadInput: it is not for this client (NOT_FOUND).
        """
        live = self._service.runs.find(run)
        if live is not None:
            self._client.check_own(live.actor, run)
        return live

    async def states(self, run: str) -> Run:
        """A run with all its cells; values may be missing in their results.

        Raises:
            BadInput: there is no such run for this client (NOT_FOUND).
        """
        if (live := self.live(run)) is not None:
            return await live.whole_in_turns()

        def rebuild(entries: Iterator[Entry]) -> Run | None:
            first = next(entries, None)
            if first is None:
                return None
            self._client.check_own(first.actor, run)
            return rebuild_run(keep_values(chain([first], entries), _no_value))

        await self._service.journal.settle()
        if (rebuilt := await self._service.journal.fold_run(run, rebuild)) is None:
            raise no_such_run(run, await self._latest())
        return rebuilt

    async def _latest(self) -> list[str]:
        """The latest runs, for a person; to an agent an unknown run and another's must look the same."""
        if self._client.is_agent:
            return []
        page = await self._service.journal.query(f"kind:{Kind.RUN_STARTED}", limit=_LATEST)
        return [entry.run for entry in page.entries if entry.run]

    async def summary(self, run: str) -> RunSummary:
        """A run without its cells; of one that cannot be read, that it cannot.

        Raises:
            BadInput: there is no such run for this client (NOT_FOUND).
        """
        if (live := self.live(run)) is not None:
            return live.summary()
        kept = self._service.ended_runs
        summary = kept.get(run)
        if summary is None:
            changes = kept.changes
            try:
                summary = await self._summary_at_end(run) or (await self.states(run)).summary
            except JournalError as error:
                return _unreadable(run, error)
            if (live := self.live(run)) is not None:
                # It had just begun: the journal has the start of a run before memory has the run.
                return live.summary()
            # While the journal cannot be written, it may lack the end of a run.
            if summary.ended_at is not None:
                kept.put(summary, changes)
        self._client.check_own(summary.actor, run)
        return summary

    async def _summary_at_end(self, run: str) -> RunSummary | None:
        """The summary of an ended run from a few of its entries; None if that takes all of them.

        All of them take a second for ten thousand cells, and a page of the list of runs may have many such
        runs.
        """
        journal = self._service.journal
        await journal.settle()
        kinds = ",".join(END_KINDS)
        try:
            ends = await journal.query(f"run:{quoted(run)} kind:{kinds}", after=0, limit=_MOST_ENDS)
        except BadInput:
            # Empty, or longer than a query: no run has such an id.
            return None
        if ends.next_after is not None or all(entry.kind is not Kind.RUN_FINISHED for entry in ends.entries):
            return None
        devices = ends.entries[0].body.get("devices")
        if not isinstance(devices, list) or not devices:
            return None
        kinds = f"{Kind.COMMAND_DECIDED},{Kind.COMMAND_SENT}"
        of_first = f"run:{quoted(run)} kind:{kinds} device:{quoted(str(devices[0]))}"
        decided = await journal.query(of_first, after=0, limit=_MOST_DECIDED)
        if decided.next_after is not None:
            return None
        # The start of a run over a thousand devices takes some milliseconds to read.
        return await asyncio.to_thread(summary_of, ends.entries, decided.entries)

    async def batch(self, run: str) -> Batch:
        """The batch of a run; of an ended one, secret arguments are redacted."""
        if (live := self.live(run)) is not None:
            return live.batch
        return (await self._read(run, [], _Values())).batch

    async def first_page(self, run: str) -> Run:
        """A run with the cells of its first devices.

        Raises:
            BadInput: there is no such run for this client (NOT_FOUND).
        """
        live, summary = self.live(run), await self.summary(run)
        known = live.without_cells() if live is not None else await self._read(run, [], _Values())
        cells, following = await self._page(run, summary, 0, MOST_CELLS)
        return known.model_copy(update={"summary": summary, "cells": cells, "next": following})

    async def page(self, run: str, after: int, limit: int) -> CellPage:
        """The cells of some devices of a run, from the device with the index `after`.

        Raises:
            BadInput: there is no such run for this client (NOT_FOUND).
        """
        summary = await self.summary(run)
        cells, following = await self._page(run, summary, max(0, after), limit)
        return CellPage(run=summary, cells=cells, next=following)

    async def _page(
        self, run: str, summary: RunSummary, after: int, limit: int
    ) -> tuple[list[Cell], int | None]:
        """Some `limit` cells from the device with the index `after`; the index of the next device."""
        most = max(1, min(max(limit, 1), MOST_CELLS) // max(len(summary.steps), 1))
        cells, count = await self.cells_of_first(run, summary.devices[after : after + most])
        end = after + count
        return cells, end if end < len(summary.devices) else None

    async def cells_of_first(
        self, run: str, devices: Sequence[str], *, all_of_one: bool = False
    ) -> tuple[list[Cell], int]:
        """The cells of the first of these devices, and of how many: of as many as fill a page, at least one.

        Values of one device that are more than a page are left out, which their cells say; not with
        `all_of_one`.
        """
        count = len(devices)
        while True:
            values = _Values(None if count <= 1 and all_of_one else MOST_BYTES)
            cells = await self._cells_of(run, devices[:count], values)
            if count <= 1 or not values.left_out:
                return cells, count
            count //= 2

    async def cell(self, run: str, device: str, step: str) -> tuple[str, Cell]:
        """The actor of a run, and one cell of it, whatever the size of its value.

        Raises:
            BadInput: there is no such cell or run for this client (NOT_FOUND).
        """
        summary = await self.summary(run)
        values = _Values(only={(device, step)})
        for cell in await self._cells_of(run, [device], values):
            if cell.step == step:
                return summary.actor, cell
        raise no_such_cell(summary, device, step)

    async def results(self, run: str, places: Collection[Place]) -> dict[Place, CommandResult]:
        """The results of these cells of a run, whatever the size of their values."""
        devices = list(dict.fromkeys(device for device, _ in places))
        cells = await self._cells_of(run, devices, _Values(only=places)) if devices else []
        return {
            (cell.device, cell.step): cell.result
            for cell in cells
            if cell.result is not None and (cell.device, cell.step) in places
        }

    async def _cells_of(self, run: str, devices: Sequence[str], values: _Values) -> list[Cell]:
        live, wanted = self.live(run), set(devices)
        if live is not None:
            found = [cell for (device, _), cell in live.cells.items() if device in wanted]
            cells = [cell.model() async for cell in in_turns(found)]
            return await self._with_values(live, cells, values)
        part = await self._read(run, devices, values)
        return [values.noted(cell) for cell in part.cells if cell.device in wanted]

    async def _with_values(self, live: LiveRun, cells: list[Cell], values: _Values) -> list[Cell]:
        """Cells of a run in memory, with those values of theirs that only the journal has."""
        values.narrow(live.held.paged if live.held is not None else set())
        devices = list({cell.device for cell in cells if values.wants((cell.device, cell.step))})
        if not devices:
            return cells
        part = await self._read(live.id, devices, values)
        kept = {cell.call_id: cell.result.result for cell in part.cells if cell.result is not None}

        def complete(cell: Cell) -> Cell:
            if not values.wants((cell.device, cell.step)) or cell.result is None:
                return cell
            if cell.call_id in kept:
                return values.noted(with_result(cell, result=kept[cell.call_id]))
            # While the journal cannot be written, what came last cannot be read from it.
            return with_result(cell, note=f"{cell.result.note} {_NO_VALUE_YET}".strip())

        return [complete(cell) for cell in cells]

    async def _read(self, run: str, devices: Sequence[str], values: _Values) -> Run:
        """A run as the journal tells of it, with nothing of other devices than these."""
        await self._service.journal.settle()
        return await self._service.journal.fold_run(
            run, lambda entries: rebuild_run(keep_values(entries, values.keep)), devices
        )


class _Values:
    """Which values of results a read keeps: of `only` some cells or of all, up to `most` bytes as JSON.

    `left_out` are the calls whose values were beyond that.
    """

    def __init__(self, most: int | None = None, only: Collection[Place] | None = None) -> None:
        self._most = most
        self._only = None if only is None else set(only)
        self._taken = 0
        self.left_out: set[str | None] = set()

    def narrow(self, only: set[Place]) -> None:
        """Keep no values but those of these cells."""
        self._only = only if self._only is None else self._only & only

    def wants(self, place: Place) -> bool:
        """Whether the value of this cell is one of those to keep."""
        return self._only is None or place in self._only

    def keep(self, entry: Entry, value: Any) -> Any:
        """The value of the result in this entry, or None if it is not kept."""
        if not self.wants((entry.device or "", entry.step or "")):
            return None
        size = bytes_of(value) if self._most is not None else 0
        if self._most is not None and self._taken + size > self._most:
            self.left_out.add(entry.call_id)
            return None
        self._taken += size
        return value

    def noted(self, cell: Cell) -> Cell:
        """The cell, with a note if its value was left out."""
        if cell.result is None or cell.call_id not in self.left_out:
            return cell
        note = f"{cell.result.note} Its value is left out: {cell.device} gave too much for one page."
        return with_result(cell, note=f"{note.strip()} Its journal entry has it.")


def no_such_cell(run: RunSummary, device: str, step: str) -> BadInput:
    """The error for a cell that a run does not have, with the devices or the steps that it has."""
    if device not in run.devices:
        has = meant_or_known(device, run.devices, "Its devices")
    else:
        has = meant_or_known(step, run.steps, "Its steps")
    return BadInput(f"{run.id} has no step {step} on {device}. {has}.", ErrorCode.NOT_FOUND)


def _no_value(entry: Entry, value: Any) -> None:
    return None


def _unreadable(run: str, error: JournalError) -> RunSummary:
    return RunSummary(
        id=run,
        name=run,
        kind="batch",
        actor="",
        state=RunState.INTERRUPTED,
        devices=[],
        devices_hash="",
        steps=[],
        tools=[],
        counts={},
        started_at="",
        note=error.message,
    )
