"""Executes runs: one batch on a fixed list of devices, each cell sent through the dispatcher.

The service owns a run, so the run continues after the client that started it disconnects.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

from core.audit.entries import Entry, NewEntry
from core.audit.events import RunCancelAsked, RunFinished, RunStarted, StepSkipped
from core.batch.models import Batch, Cell, CellState, Parallel, RunSummary, Step, flatten
from core.batch.run_state import SWITCHED_OFF, ActiveRun, cell_state_of, ended_state
from core.debounce import Coalescer
from core.dispatch.command_request import CommandRequest, Stage
from core.dispatch.models import CommandResult
from core.errors import QuarterdeckError
from core.ids import now_utc
from core.tasks import TaskGroupOwner

KEPT_IN_MEMORY = 50
AT_A_TIME = 10


class Dispatches(Protocol):
    """The part of the dispatcher that runs use."""

    async def dispatch(
        self, order: CommandRequest, on_stage: Callable[[Stage, str], None]
    ) -> CommandResult: ...
    async def cancel(self, call_id: str) -> bool: ...


class Recorder(Protocol):
    """The part of the journal that runs use."""

    async def append(self, entry: NewEntry) -> Entry: ...
    def note_late(self, entries: list[NewEntry]) -> None: ...


Redact = Callable[[list[str], str, dict[str, Any], str], Awaitable[tuple[dict[str, Any], str]]]


class Runner:
    """Starts and executes runs. Keeps active runs in memory, and ended ones up to `KEPT_IN_MEMORY` in all."""

    def __init__(
        self,
        dispatcher: Dispatches,
        journal: Recorder,
        tasks: TaskGroupOwner,
        on_run: Callable[[RunSummary], None],
        on_cell: Callable[[Cell], None],
        redact: Redact,
    ) -> None:
        """`redact` redacts a tool's arguments for the given devices, and the reason text given with them."""
        self._redact = redact
        self._dispatcher = dispatcher
        self._journal = journal
        self._tasks = tasks
        self._changes: Coalescer[str] = Coalescer(lambda run: on_run(self._runs[run].summary()))
        self._on_cell = on_cell
        self._runs: OrderedDict[str, ActiveRun] = OrderedDict()
        self.next_number = 1

    @property
    def active(self) -> list[ActiveRun]:
        """Runs that have not ended, oldest first."""
        return [run for run in self._runs.values() if run.end is None]

    def find(self, run: str) -> ActiveRun | None:
        """The run with this id, if it is still in memory."""
        return self._runs.get(run)

    def latest(self) -> list[ActiveRun]:
        """Runs in memory, newest first."""
        return list(reversed(self._runs.values()))

    async def start(
        self,
        batch: Batch,
        devices: list[str],
        actor: str,
        kind: Literal["batch", "call"],
        said: str = "",
        operator: str = "",
        *,
        request_id: str = "",
        request_digest: str = "",
    ) -> ActiveRun:
        """Record the start of a run in the journal, then execute it in the background.

        `operator` is the operator who requested the run; empty unless proved by the operator's key.
        `request_id` and `request_digest` identify an agent's request.

        Raises:
            JournalUnavailable: the start could not be recorded, so the run was not started.
        """
        shown, said = await self._shown(batch, devices, said)
        run = ActiveRun(
            id=f"r-{self.next_number:04d}",
            batch=batch,
            kind=kind,
            actor=actor,
            devices=devices,
            said=said,
            operator=operator,
            started_at=now_utc(),
            shown=shown,
            request_id=request_id,
            request_digest=request_digest,
        )
        self.next_number += 1
        rows = [_first_cell(run.id, step) for step in flatten(batch.steps)]
        for device in devices:
            for cell in rows:
                run.put(cell.model_copy(update={"device": device}))
        await self._journal.append(_started(run))
        self._runs[run.id] = run
        self._forget_old()
        self._changes.mark(run.id)
        self._tasks.spawn(f"run {run.id}", self._carry(run))
        return run

    async def _shown(self, batch: Batch, devices: list[str], said: str) -> tuple[Batch, str]:
        """The batch and the reason given for it, both redacted for the journal and for display."""
        shown: dict[str, dict[str, Any]] = {}
        for step in flatten(batch.steps):
            shown[step.id], said = await self._redact(devices, step.tool, step.parameters, said)
        return _with_parameters(batch, shown), said

    async def cancel(self, run: ActiveRun, actor: str) -> None:
        """Start no further step of a run and ask its devices to cancel the commands that are running."""
        if run.end is not None or run.cancelled:
            return
        run.cancelled = True
        self._note(RunCancelAsked().entry(actor, run=run.id))
        for cell in list(run.cells.values()):
            if cell.state is CellState.RUNNING and cell.call_id:
                self._set(run, cell.device, cell.step, state=CellState.CANCEL_ASKED)
                self._tasks.spawn(f"cancel {cell.call_id}", self._ask_cancel(cell.call_id))

    def close(self) -> None:
        """Stop reporting changes of runs."""
        self._changes.close()

    async def _ask_cancel(self, call_id: str) -> None:
        try:
            await self._dispatcher.cancel(call_id)
        except QuarterdeckError:
            # The link is gone. The result of the command will state what is known.
            return

    async def _carry(self, run: ActiveRun) -> None:
        free = asyncio.Semaphore(run.batch.rollout.parallel)

        async def carry_when_free(device: str) -> None:
            async with free:
                await self._carry_device(run, device)

        try:
            async with asyncio.TaskGroup() as group:
                for number, device in enumerate(run.devices):
                    group.create_task(carry_when_free(device), name=f"run {run.id} on {device}")
                    if number % AT_A_TIME == 0:
                        # Starting 1000 devices in one event loop iteration blocks the loop for half a second.
                        await asyncio.sleep(0)
        finally:
            self._end(run)

    async def _carry_device(self, run: ActiveRun, device: str) -> None:
        failed = False
        for entry in run.batch.steps:
            steps = [step for step in flatten([entry]) if step.enabled]
            if run.cancelled or (failed and run.batch.on_failure == "stop"):
                why = "cancelled" if run.cancelled else "an earlier step did not succeed"
                for step in steps:
                    self._skip(run, device, step, why)
            elif isinstance(entry, Parallel):
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self._carry_step(run, device, step)) for step in steps]
                failed |= not all(task.result() for task in tasks)
            else:
                for step in steps:
                    failed |= not await self._carry_step(run, device, step)

    async def _carry_step(self, run: ActiveRun, device: str, step: Step) -> bool:
        order = CommandRequest(
            device=device,
            tool=step.tool,
            parameters=step.parameters,
            actor=run.actor,
            run=run.id,
            step=step.id,
            timeout=step.timeout,
            said=run.said,
            operators=(run.operator,),
            cancelled=lambda: run.cancelled,
            on_decided=lambda decision: run.decided(device, step.id, decision.summary),
        )

        def on_stage(stage: Stage, approval: str) -> None:
            state = CellState.WAITING if stage is Stage.WAITING else CellState.RUNNING
            known = run.cells[device, step.id]
            if state is not known.state or approval:
                self._set(run, device, step.id, state=state, approval=approval or known.approval)

        self._set(run, device, step.id, call_id=order.call_id, started_at=now_utc(), state=CellState.RUNNING)
        result = await self._dispatcher.dispatch(order, on_stage)
        state = cell_state_of(result)
        note = result.error.message if result.error else result.note
        self._set(run, device, step.id, state=state, ended_at=now_utc(), note=note, result=result)
        return state is CellState.DONE

    def _skip(self, run: ActiveRun, device: str, step: Step, why: str) -> None:
        self._set(run, device, step.id, state=CellState.NOT_STARTED, note=why)
        skipped = StepSkipped(why=why)
        self._note(skipped.entry("service", run=run.id, step=step.id, device=device, tool=step.tool))

    def _end(self, run: ActiveRun) -> None:
        run.end = ended_state(run)
        run.ended_at = now_utc()
        counts = run.summary().model_dump(mode="json")["counts"]
        finished = RunFinished(state=run.end.value, counts=counts)
        self._note(finished.entry("service", run=run.id, status=run.end.value))
        self._changes.mark(run.id)
        self._changes.flush()
        run.asked.set()
        run.ended.set()

    def _set(self, run: ActiveRun, device: str, step: str, **changes: Any) -> None:
        known = run.cells[device, step]
        if changes.items() <= known.__dict__.items():
            return
        cell = known.model_copy(update=changes)
        run.put(cell)
        self._on_cell(cell)
        self._changes.mark(run.id)

    def _note(self, entry: NewEntry) -> None:
        # No command of the run is sent while the journal is unavailable, so the entry may come later.
        self._journal.note_late([entry])

    def _forget_old(self) -> None:
        for run in list(self._runs.values()):
            if len(self._runs) <= KEPT_IN_MEMORY:
                return
            if run.end is not None and run.ended.is_set():
                del self._runs[run.id]


def _first_cell(run: str, step: Step) -> Cell:
    """The initial cell of a step. `device` is empty; the caller sets it."""
    state = CellState.QUEUED if step.enabled else CellState.SKIPPED
    note = "" if step.enabled else SWITCHED_OFF
    return Cell(run=run, device="", step=step.id, tool=step.tool, state=state, note=note)


def _started(run: ActiveRun) -> NewEntry:
    event = RunStarted(
        batch=(run.shown or run.batch).model_dump(mode="json", by_alias=True),
        kind_=run.kind,
        devices=run.devices,
        devices_hash=run.devices_hash,
        said=run.said,
        operator=run.operator,
        request_id=run.request_id,
        request_digest=run.request_digest,
    )
    return event.entry(run.actor, run=run.id)


def _with_parameters(batch: Batch, parameters: dict[str, dict[str, Any]]) -> Batch:
    """A copy of the batch with other arguments in each step. `parameters` maps step ids to arguments."""

    def changed_step(step: Step) -> Step:
        return step.model_copy(update={"parameters": parameters[step.id]})

    steps: list[Step | Parallel] = [
        entry.model_copy(update={"parallel": [changed_step(step) for step in entry.parallel]})
        if isinstance(entry, Parallel)
        else changed_step(entry)
        for entry in batch.steps
    ]
    return batch.model_copy(update={"steps": steps})
