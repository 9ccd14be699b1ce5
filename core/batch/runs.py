"""The runs of a service: starts, pauses, cancels and ends them, and keeps them in memory.

A run is one batch on a fixed list of devices, carried out by a `RunExecutor`. The service owns it, so it
continues after the client that started it disconnects.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from core.audit.entries import NewEntry
from core.audit.events import (
    Event,
    RunCancelAsked,
    RunFinished,
    RunPaused,
    RunResumed,
    RunStarted,
    RunUnpaused,
)
from core.batch.held_values import MOST_HELD, HeldValues, steps_read
from core.batch.live_run import (
    Carried,
    LiveRun,
    already_resumed,
    answered_late,
    ended_state,
    state_after_late_answer,
)
from core.batch.models import Batch, CellState, RunKind, RunSummary, flatten, with_parameters
from core.batch.run_executor import Environment, RunExecutor
from core.batch.step_scheduler import Place
from core.batch.templates import CompiledStep, compile_batch, has_expressions
from core.batch.waves import Waves, sizes_of
from core.commands.results import CommandResult
from core.debounce import Coalescer
from core.errors import ErrorCode, Refused
from core.ids import now_utc
from core.tasks import TaskGroupOwner

KEPT_IN_MEMORY = 50
# Cells of all runs in memory: a run of 1,000 devices and 10 steps has 10,000, each with its result.
MOST_CELLS = 50_000

Json = dict[str, Any]
Redact = Callable[[list[str], str, Json, str], Awaitable[tuple[Json, str]]]


class Inputs(NamedTuple):
    """The values of a batch's inputs, and the same redacted."""

    values: Json
    shown: Json


NO_INPUTS = Inputs({}, {})


@dataclass(frozen=True, slots=True)
class Resumption:
    """The part of an ended run that another one takes over. `earlier`: the results of the carried cells."""

    run: str
    carried: Mapping[tuple[str, str], Carried]
    earlier: Mapping[tuple[str, str], CommandResult] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Undoing:
    """The target of an undo run: a run, by calls with these arguments by device and step."""

    run: str
    arguments: Mapping[tuple[str, str], Json]


class Runs:
    """Active runs, and ended ones up to `KEPT_IN_MEMORY` in all.

    An ended run is forgotten earlier if all runs together have more than `MOST_CELLS` cells, or more than
    `MOST_HELD` bytes of values. A run whose results are larger leaves the older ones to the journal.
    """

    def __init__(
        self,
        environment: Environment,
        tasks: TaskGroupOwner,
        on_run: Callable[[RunSummary], None],
        redact: Redact,
    ) -> None:
        """`redact` redacts a tool's arguments for the given devices, and the reason text given with them."""
        self._redact = redact
        self._environment = environment
        self._tasks = tasks
        self._on_run = on_run
        self._changes: Coalescer[str] = Coalescer(self._tell)
        self._runs: OrderedDict[str, LiveRun] = OrderedDict()
        self._executors: dict[str, RunExecutor] = {}
        # Runs that this service has resumed, by the run that was resumed.
        self._resumed: dict[str, str] = {}
        self.next_number = 1

    @property
    def active(self) -> list[LiveRun]:
        """Runs that have not ended, oldest first."""
        return [run for run in self._runs.values() if run.end is None]

    def find(self, run: str) -> LiveRun | None:
        """The run with this id, if it is still in memory."""
        return self._runs.get(run)

    def latest(self) -> list[LiveRun]:
        """Runs in memory, newest first."""
        return list(reversed(self._runs.values()))

    async def start(
        self,
        batch: Batch,
        waves: Waves,
        actor: str,
        kind: RunKind,
        said: str = "",
        operator: str = "",
        inputs: Inputs = NO_INPUTS,
        resumption: Resumption | None = None,
        undoing: Undoing | None = None,
        request_id: str = "",
        request_digest: str = "",
        program: str = "",
    ) -> LiveRun:
        """Record the start of a run in the journal, then execute it in the background.

        `waves` are the names of the devices in the order in which they begin.
        `operator` is the operator who requested the run; empty unless proved by the operator's key.
        `request_id` and `request_digest` identify an agent's request, `program` is the program that made it.

        Raises:
            BadInput: an expression of the batch has a mistake.
            Refused: the run to be resumed is resumed already.
            JournalUnavailable: the start could not be recorded, so the run was not started.
        """
        # The arguments of a single call are meant as they are written.
        compiled = compile_batch(batch) if kind == "batch" and has_expressions(batch) else {}
        devices = [device for wave in waves for device in wave]
        shown, said = await self._shown(batch, devices, said)
        run = LiveRun(
            id=f"r-{self.next_number:04d}",
            batch=batch,
            kind=kind,
            actor=actor,
            devices=devices,
            said=said,
            operator=operator,
            started_at=now_utc(),
            shown=shown,
            inputs=inputs.values,
            shown_inputs=inputs.shown,
            resumes=resumption.run if resumption else "",
            carried=dict(resumption.carried) if resumption else {},
            note=resumption.note if resumption else "",
            undoes=undoing.run if undoing else "",
            undo_arguments=undoing.arguments if undoing else {},
            wave_sizes=sizes_of(waves),
            request_id=request_id,
            request_digest=request_digest,
            program=program,
            held=HeldValues(steps_read(compiled)),
        )
        self.next_number += 1
        await run.queue_first_cells()
        await self._record_start(run)
        self._runs[run.id] = run
        self._forget_old()
        self._changes.mark(run.id)
        self._execute(run, compiled, resumption.earlier if resumption else {})
        return run

    async def _record_start(self, run: LiveRun) -> None:
        entries = [_started(run)]
        if run.resumes:
            if (by := self._resumed.get(run.resumes)) is not None:
                raise already_resumed(run.resumes, by)
            # Before the journal writes, so that another client's request finds it.
            self._resumed[run.resumes] = run.id
            entries.append(RunResumed(by=run.id).entry(run.actor, run=run.resumes))
        try:
            await self._environment.journal.append_many(entries)
        except BaseException:
            self._resumed.pop(run.resumes, None)
            raise
        if (before := self._runs.get(run.resumes)) is not None:
            before.resumed_by = run.id
            self._changes.mark(before.id)

    async def _shown(self, batch: Batch, devices: list[str], said: str) -> tuple[Batch, str]:
        """The batch and the reason given for it, both redacted for the journal and for display."""
        shown: dict[str, Json] = {}
        for step in flatten(batch.steps):
            shown[step.id], said = await self._redact(devices, step.tool, step.parameters, said)
        return with_parameters(batch, shown), said

    def _execute(
        self,
        run: LiveRun,
        compiled: Mapping[str, CompiledStep],
        earlier: Mapping[tuple[str, str], CommandResult],
    ) -> None:
        environment, read = self._environment, steps_read(compiled)
        earlier = {place: result for place, result in earlier.items() if place[1] in read}
        executor = RunExecutor(run, compiled, environment, self._changes.mark, earlier)
        self._executors[run.id] = executor

        async def carry_out() -> None:
            try:
                await executor.carry_out()
            finally:
                del self._executors[run.id]
                self._end(run, executor.stopped)

        self._tasks.spawn(f"run {run.id}", carry_out())

    async def cancel(self, run: LiveRun, actor: str) -> None:
        """Start no further step of a run, withdraw its requests, and ask its devices to cancel what runs."""
        if run.end is not None or run.cancelled:
            return
        run.cancelled = True
        self._note(run, RunCancelAsked(), actor)
        self._executors[run.id].cancel()

    def cancel_cell(self, run: LiveRun, device: str, step: str, actor: str) -> None:
        """Cancel one step on one device, also one that has not begun.

        Raises:
            Refused: it has ended.
        """
        executor = self._executors.get(run.id)
        if executor is None or not executor.cancel_cell(Place(device, step), actor):
            raise Refused(
                f"{step} on {device} has ended already.",
                ErrorCode.WRONG_STATE,
                "Look at its result; undo what it changed if that is wanted.",
            )

    def pause(self, run: LiveRun, actor: str) -> None:
        """Start no further step of a run until `unpause`; what runs or waits for operators goes on."""
        if run.end is None and not run.paused and not run.cancelled:
            run.paused = True
            self._note(run, RunPaused(), actor)
            self._executors[run.id].pause()
            self._changes.mark(run.id)

    def unpause(self, run: LiveRun, actor: str) -> None:
        """Let a paused run go on."""
        if run.end is None and run.paused:
            run.paused = False
            self._note(run, RunUnpaused(), actor)
            self._executors[run.id].unpause()
            self._changes.mark(run.id)

    def settle(self, run: LiveRun, device: str, step: str, changes: Mapping[str, Any]) -> None:
        """Change a cell of an ended run that an operator has settled."""
        cell = run.cells[device, step]
        run.change(cell, changes)
        self._environment.on_cell(cell)
        self._changes.mark(run.id)

    def answered_late(self, run: str, result: CommandResult) -> bool:
        """Take over what a late answer tells of a command; False if its run is not in memory."""
        live = self._runs.get(run)
        if live is None:
            return False
        for cell in list(live.cells.values()):
            if cell.device == result.device and cell.call_id == result.call_id:
                live.change(cell, answered_late(live, cell, result))
                if live.end is not None:
                    live.end = state_after_late_answer(live)
                self._environment.on_cell(cell)
                self._changes.mark(live.id)
        return True

    def _tell(self, run: str) -> None:
        # An ended run may have been forgotten since it was marked.
        if (known := self._runs.get(run)) is not None:
            self._on_run(known.summary())

    def close(self) -> None:
        """Stop reporting changes of runs."""
        self._changes.close()

    def _end(self, run: LiveRun, why: str) -> None:
        run.end = ended_state(run)
        for cell in list(run.cells.values()):
            if cell.state is CellState.RETRYING:
                run.change(cell, {"state": CellState.FAILED})
        run.ended_at = now_utc()
        run.paused = False
        run.note = " ".join(filter(None, (run.note, f"{why[:1].upper()}{why[1:]}." if why else "")))
        counts = run.summary().model_dump(mode="json")["counts"]
        finished = RunFinished(state=run.end.value, counts=counts, note=run.note)
        self._environment.journal.note_late([finished.entry("service", run=run.id, status=run.end.value)])
        self._changes.mark(run.id)
        self._changes.flush()
        run.asked.set()
        run.ended.set()

    def _note(self, run: LiveRun, event: Event, actor: str) -> None:
        # No command of the run is sent while the journal is unavailable, so the entry may come later.
        self._environment.journal.note_late([event.entry(actor, run=run.id)])

    def _forget_old(self) -> None:
        cells = sum(len(run.cells) for run in self._runs.values())
        held = sum(_bytes_of(run) for run in self._runs.values())
        for run in list(self._runs.values()):
            if len(self._runs) <= KEPT_IN_MEMORY and cells <= MOST_CELLS and held <= MOST_HELD:
                return
            if run.end is not None and run.ended.is_set():
                cells -= len(run.cells)
                held -= _bytes_of(run)
                del self._runs[run.id]


def _bytes_of(run: LiveRun) -> int:
    return run.held.bytes if run.held is not None else 0


def _started(run: LiveRun) -> NewEntry:
    event = RunStarted(
        batch=(run.shown or run.batch).model_dump(mode="json", by_alias=True),
        kind_=run.kind,
        devices=run.devices,
        devices_hash=run.devices_hash,
        said=run.said,
        operator=run.operator,
        inputs=run.shown_inputs,
        resumes=run.resumes,
        carried=_carried(run),
        note=run.note,
        undoes=run.undoes,
        waves=run.wave_sizes,
        request_id=run.request_id,
        request_digest=run.request_digest,
        program=run.program,
    )
    return event.entry(run.actor, run=run.id)


def _carried(run: LiveRun) -> list[Json]:
    """The carried cells of a run as its start records them: by earlier run, step and state, the devices."""
    devices: dict[tuple[str, str, str], list[str]] = {}
    for (device, step), carried in run.carried.items():
        devices.setdefault((carried.run, step, carried.state.value), []).append(device)
    return [
        {"run": before, "step": step, "state": state, "devices": names}
        for (before, step, state), names in devices.items()
    ]
