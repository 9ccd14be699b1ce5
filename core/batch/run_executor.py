"""Carries out one run: asks its scheduler for the next action and does it.

What happens to a cell is told to the scheduler, shown to clients and recorded in the journal here, and
nowhere else. What may begin, and when, is decided by the scheduler alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from core.audit.entries import Entry, NewEntry
from core.audit.events import Event, RetryScheduled, StepCancelAsked, StepFailed, StepRecovered, StepSkipped
from core.backoff import Backoff
from core.batch.expressions import RESULT, STEPS, Context, DeviceFacts, Expression, ExpressionError, StepFacts
from core.batch.inputs import secret_values
from core.batch.live_run import (
    ALLOWED,
    AS_EXPECTED,
    LiveCell,
    LiveRun,
    cell_state_of,
    failed_without_command,
    recovered,
    step_facts,
    unexpected,
)
from core.batch.models import OPEN_STATES, ApprovalStep, CellState, Retry, Step, flatten
from core.batch.questions import AskedQuestion, Asks, question_text
from core.batch.step_scheduler import (
    CANCELLED,
    Allow,
    AskCancel,
    AskQuestion,
    End,
    Finish,
    GiveUp,
    Place,
    Proceed,
    Recovered,
    RetryLater,
    RunRules,
    Skip,
    Start,
    StepScheduler,
    Withdraw,
)
from core.batch.step_values import has_large_texts, load_texts, readable_value
from core.batch.templates import CompiledStep, FilledArguments
from core.commands.request import NO_SECRETS, CommandRequest, Secrets, Stage
from core.commands.results import Basis, CommandResult, CommandStage
from core.dispatch.outcome import TARGET_CODES
from core.errors import ErrorCode, ErrorInfo, QuarterdeckError
from core.ids import now_utc

# Commands that are started, and other actions that are carried out, in one iteration of the event loop:
# starting 1000 devices in one iteration blocks the loop for half a second.
STARTS_AT_A_TIME = 10
ACTIONS_AT_A_TIME = 50
LONGEST_BACKOFF_S = 3600.0
# A request that was approved, but is not as it was approved when its turn comes, is asked again; one that the
# policy denies by then is not.
_ASKED_AGAIN = frozenset({ErrorCode.CONTRACT_CHANGED, ErrorCode.APPROVAL_INVALID})
_AFTER_APPROVAL = (CommandStage.RECORD_INTENT, CommandStage.SEND)


class Dispatches(Protocol):
    """The part of the dispatcher that runs use."""

    async def dispatch(
        self, order: CommandRequest, on_stage: Callable[[Stage, str], None]
    ) -> CommandResult: ...
    async def cancel(self, call_id: str) -> bool: ...


class Recorder(Protocol):
    """The part of the journal that runs use."""

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]: ...
    def note_late(self, entries: list[NewEntry]) -> None: ...
    async def get_blob(self, sha: str) -> bytes: ...


class Approvals(Asks, Protocol):
    """The part of the approval queue that runs use."""

    def room(self, actor: str) -> int: ...
    def withdraw(self, reason: str, run: str | None = None) -> int: ...
    def withdraw_one(self, approval_id: str, reason: str) -> None: ...


class Devices(Protocol):
    """The part of the fleet that runs use."""

    def facts(self, device: str) -> DeviceFacts:
        """The facts about a device for expressions."""
        ...

    def machine(self, device: str) -> str:
        """The identity of the machine that a device's pairing is bound to; empty if it is not known."""
        ...

    def described_lines(self, device: str, tool: str) -> frozenset[str]:
        """The arguments of a tool that its schema describes as shell lines."""
        ...

    def may_repeat(self, device: str, tool: str) -> bool:
        """Whether a tool only reads, or does by two calls what it does by one, as the contract says."""
        ...


@dataclass(frozen=True, slots=True)
class Environment:
    """The parts of the service that executing runs uses. `sleep` and `uniform` are replaced in tests."""

    dispatcher: Dispatches
    journal: Recorder
    approvals: Approvals
    devices: Devices
    on_cell: Callable[[LiveCell], None]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    uniform: Callable[[float, float], float] = random.uniform


class RunExecutor:
    """Carries out one run, from its start to its end."""

    def __init__(
        self,
        run: LiveRun,
        compiled: Mapping[str, CompiledStep],
        environment: Environment,
        on_change: Callable[[str], None],
        earlier: Mapping[tuple[str, str], CommandResult],
    ) -> None:
        """`compiled` are the batch's expressions; `earlier` the results of carried cells, for references.

        `on_change` is called with the run's id when its summary changes.
        """
        self.run = run
        self._compiled = compiled
        self._environment = environment
        self._on_change = on_change
        self._earlier = earlier
        carried = {Place(*key): carried.state for key, carried in run.carried.items()}
        self._scheduler = StepScheduler(RunRules.of(run.batch, run.waves), carried)
        self._steps: dict[str, Step | ApprovalStep] = {step.id: step for step in flatten(run.batch.steps)}
        self._steps |= {entry.id: entry for entry in run.batch.steps if isinstance(entry, ApprovalStep)}
        self._secrets = secret_values(run.batch, run.inputs)
        # As the run starts: its later steps do not run on a machine that took a device's place.
        self._machines = {device: environment.devices.machine(device) for device in run.devices}
        self._turns: dict[Place, asyncio.Event] = {}
        self._timers: dict[Place, asyncio.Task[None]] = {}
        # By step: the question that waits for operators.
        self._questions: dict[str, AskedQuestion] = {}
        self._woken = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._finished = False

    async def carry_out(self) -> None:
        """Carry out the run until it has ended."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            while not self._finished:
                if self._take_actions():
                    await asyncio.sleep(0)
                elif not self._finished:
                    await self._woken.wait()
                    self._woken.clear()

    @property
    def stopped(self) -> str:
        """Why the run starts nothing more; empty while it goes on, and where it was cancelled."""
        return "" if self._scheduler.stopped == CANCELLED else self._scheduler.stopped

    def cancel(self) -> None:
        """Start nothing more and ask the devices to cancel what runs."""
        self._scheduler.cancel()
        self._go_on()

    def pause(self) -> None:
        """Start nothing until `unpause`."""
        self._scheduler.pause()

    def unpause(self) -> None:
        """Start steps again."""
        self._scheduler.unpause()
        self._go_on()

    def cancel_cell(self, place: Place, actor: str) -> bool:
        """Cancel one cell; False if it has ended."""
        if not self._scheduler.cancel_cell(place, f"cancelled by {actor}"):
            return False
        self._note(place, StepCancelAsked(), actor)
        self._go_on()
        self._withdraw_unneeded(place.step)
        return True

    def _withdraw_unneeded(self, step: str) -> None:
        """Withdraw the question of an approval step for which no device waits any more."""
        question = self._questions.get(step)
        waiting = (cell.state is CellState.WAITING for cell in self.run.cells.values() if cell.step == step)
        if question is not None and not any(waiting):
            self._environment.approvals.withdraw_one(question.approval, "No device waits for it any more.")

    # Actions
    def _go_on(self) -> None:
        """Carry out what the scheduler wants now; the rest follows in the run's own task."""
        self._take_actions()
        self._woken.set()

    def _take_actions(self) -> bool:
        """Carry out the next actions; returns whether there may be more."""
        if self._group is None:
            return False
        starts = 0
        for _ in range(ACTIONS_AT_A_TIME):
            action = self._scheduler.next()
            if action is None or self._finished:
                return False
            self._carry_out(action)
            starts += isinstance(action, Start)
            if starts == STARTS_AT_A_TIME:
                break
        return True

    def _carry_out(self, action: Any) -> None:
        match action:
            case Start(place, attempt):
                self._start(place, attempt)
            case Proceed(place):
                self._turns.pop(place).set()
            case Skip(place, state, why):
                self._note(place, StepSkipped(why=why, needless=state is CellState.SKIPPED))
                self._set(place, state=state, note=why)
            case RetryLater(place, attempt, code):
                self._retry_later(place, attempt, code)
            case GiveUp(place):
                if (timer := self._timers.pop(place, None)) is not None:
                    timer.cancel()
                # A request that was to be asked again keeps the state of its refusal, as the journal has it.
                if self._cell(place).state is CellState.RETRYING:
                    self._set(place, state=CellState.FAILED)
            case Recovered(place, by):
                self._note(place, StepRecovered(by=list(by)))
                self._change(place, recovered(self._cell(place), list(by)))
            case Allow(place):
                self._counts_as_done(place, ALLOWED)
            case AskQuestion():
                self._spawn(f"question {action.step}", self._ask(action))
            case AskCancel(place):
                self._ask_cancel(place)
            case Withdraw(place, why):
                self._withdraw(place, why)
            case Finish():
                self._finished = True
                self._woken.set()

    def _start(self, place: Place, attempt: int) -> None:
        """Begin an attempt, at once unless it reads a text that only the journal has."""
        compiled = self._compiled.get(place.step)
        if compiled is not None and self._reads_large_texts(place.device, compiled):
            self._spawn(f"texts for {place.step} on {place.device}", self._start_with_texts(place, attempt))
        else:
            self._start_now(place, attempt, None)

    async def _start_with_texts(self, place: Place, attempt: int) -> None:
        expressions = list(self._compiled[place.step].expressions())
        texts = await self._texts(expressions, self._context(place.device))
        self._start_now(place, attempt, texts)
        self._woken.set()

    def _start_now(self, place: Place, attempt: int, texts: Mapping[str, str] | None) -> None:
        """Evaluate what the batch says of a step, then dispatch its command."""
        step, compiled = self._steps[place.step], self._compiled.get(place.step)
        context = self._context(place.device, texts=texts)
        try:
            if attempt == 1 and not self._condition(place.step, context):
                self._not_needed(place, f"{step.when} is false")
                return
            if isinstance(step, ApprovalStep):
                # A question that cannot be put into words fails here, on each of its devices.
                question_text(step, compiled, context)
                self._scheduler.parked(place)
                return
            if self.run.undoes and place not in self.run.undo_arguments:
                self._not_needed(place, "there is nothing to undo on this device")
                return
            filled = FilledArguments(self.run.undo_arguments.get(place, step.parameters))
            if compiled is not None and compiled.arguments is not None and compiled.arguments.templates:
                described = self._environment.devices.described_lines(place.device, step.tool)
                filled = compiled.arguments.fill(context, self._secrets, described)
        except ExpressionError as error:
            self._fail(place, ErrorInfo.of(error.code, f"{place.step}: {error.message}"))
            return
        self._spawn(f"{place.step} on {place.device}", self._command(place, step, filled))

    def _condition(self, step: str, context: Context) -> bool:
        """Whether the `when` of a step holds; true without one."""
        compiled = self._compiled.get(step)
        if compiled is None or compiled.when is None:
            return True
        return bool(compiled.when.evaluate(context))

    def _reads_large_texts(self, device: str, compiled: CompiledStep) -> bool:
        """Whether expressions of a step read results that have large texts, which are in the journal."""
        paths = (reference.path for one in compiled.expressions() for reference in one.references)
        read = {path[1] for path in paths if path[0] == STEPS and len(path) > 1}
        return any(
            has_large_texts(self.run.cells[device, step].result or self._earlier.get((device, step)))
            for step in read
        )

    async def _texts(self, expressions: Iterable[Expression], context: Context) -> dict[str, str]:
        """The large texts that expressions read, by blob."""
        data = [expression.cut(context) for expression in expressions]
        return await load_texts(data, self._environment.journal.get_blob)

    def _not_needed(self, place: Place, why: str) -> None:
        self._note(place, StepSkipped(why=why, needless=True))
        self._set(place, state=CellState.SKIPPED, note=why)
        self._scheduler.ended(place, End(CellState.SKIPPED))

    def _counts_as_done(self, place: Place, why: str) -> None:
        """Let a step that failed count as done."""
        self._note(place, StepRecovered(by=[], why=why))
        self._change(place, recovered(self._cell(place), [], why))

    def _fail(self, place: Place, error: ErrorInfo) -> None:
        """End a step that fails before it has a command."""
        self._note(place, StepFailed(error=error.model_dump(mode="json")))
        result = failed_without_command(self._cell(place), error)
        self._set(place, state=CellState.FAILED, note=error.message, ended_at=now_utc(), result=result)
        self._scheduler.ended(place, End(CellState.FAILED, error.code))

    # Commands
    async def _command(self, place: Place, step: Step, filled: FilledArguments) -> None:
        run, scheduler = self.run, self._scheduler
        order = CommandRequest(
            device=place.device,
            tool=step.tool,
            parameters=filled.parameters,
            actor=run.actor,
            run=run.id,
            step=step.id,
            timeout=step.timeout,
            said=run.said,
            program=run.program,
            operators=(run.operator,),
            secrets=Secrets(self._secrets, filled.secret) if self._secrets else NO_SECRETS,
            unquoted=filled.unquoted,
            machine=self._machines[place.device],
            cancelled=lambda: scheduler.unwanted(place),
            on_decided=lambda decision: run.decided(place.device, step.id, decision.summary),
            turn=lambda: self._turn(place),
        )

        def on_stage(stage: Stage, approval: str) -> None:
            if stage is Stage.WAITING:
                self._waits(place, approval)
            else:
                self._set(place, state=CellState.RUNNING, note="")

        self._begin(place, order.call_id)
        result = await self._environment.dispatcher.dispatch(order, on_stage)
        self._conclude(place, step, result, await self._result_context(place, result))
        # Not `_go_on`: the actions that follow a hundred results are not one iteration of the loop.
        self._woken.set()

    def _begin(self, place: Place, call_id: str) -> None:
        self._set(
            place,
            state=CellState.RUNNING,
            call_id=call_id,
            started_at=now_utc(),
            attempts=self._cell(place).attempts + 1,
            approval=None,
            ended_at=None,
            note="",
            progress="",
            output_tail="",
            output_size=0,
            result=None,
        )

    def _waits(self, place: Place, approval: str) -> None:
        # While the queue has little room for this actor, cells that wait keep their slots, so that no more
        # devices come to ask than the queue takes.
        room = self._environment.approvals.room(self.run.actor)
        self._set(place, state=CellState.WAITING, approval=approval)
        self._scheduler.waits(place, keeps_slot=room <= self._scheduler.slots_that_may_ask)
        self._woken.set()

    async def _turn(self, place: Place) -> None:
        """Wait until an approved command may go on: approved together, they still go one after another."""
        turn = self._turns[place] = asyncio.Event()
        self._scheduler.answered(place)
        self._go_on()
        if not turn.is_set():
            self._set(place, state=CellState.QUEUED, note="approved; waits for its turn")
            await turn.wait()

    async def _result_context(self, place: Place, result: CommandResult) -> Context:
        """The context of a step's expectations when its command has ended."""
        context = self._context(place.device, readable_value(result))
        compiled = self._compiled.get(place.step)
        if compiled is None or not compiled.expect:
            return context
        if not has_large_texts(result) and not self._reads_large_texts(place.device, compiled):
            return context
        expressions = [condition.expression for condition in compiled.expect]
        return replace(context, texts=await self._texts(expressions, context))

    def _conclude(self, place: Place, step: Step, result: CommandResult, context: Context) -> None:
        state = cell_state_of(result)
        note = result.error.message if result.error else result.note
        if state is CellState.DONE and (error := self._unmet(place, context)) is not None:
            self._note(place, StepFailed(error=error.model_dump(mode="json"), expectation=True))
            result, state, note = unexpected(result, error), CellState.FAILED, error.message
        self._set(place, state=state, ended_at=now_utc(), note=note, result=result)
        if state is CellState.FAILED and self._failed_as_expected(place, result, context):
            self._counts_as_done(place, AS_EXPECTED)
            self._scheduler.ended(place, End(CellState.DONE))
        else:
            self._scheduler.ended(place, self._end_of(place, step, result, state))

    def _failed_as_expected(self, place: Place, result: CommandResult, context: Context) -> bool:
        """Whether a tool failed with a result that is what the expectations of its step want."""
        compiled = self._compiled.get(place.step)
        unmet = result.error is None or result.error.code is ErrorCode.EXPECTATION_FAILED
        if compiled is None or unmet or not _tool_failed(result) or result.result is None:
            return False
        references = (reference for condition in compiled.expect for reference in condition.references)
        return any(one.path[0] == RESULT for one in references) and self._unmet(place, context) is None

    def _end_of(self, place: Place, step: Step, result: CommandResult, state: CellState) -> End:
        code = result.error.code if result.error else None
        nothing_sent = result.basis is Basis.NOTHING_SENT
        nothing_done = nothing_sent or result.basis is Basis.DEVICE_REFUSED
        may_retry = False
        if state is CellState.FAILED and step.retry is not None:
            words = step.retry.not_idempotent is not None
            may_retry = nothing_done or words or self._environment.devices.may_repeat(place.device, step.tool)
        again = nothing_sent and code in _ASKED_AGAIN and result.stage in _AFTER_APPROVAL
        return End(state, code, may_retry, again, _tool_failed(result))

    def _unmet(self, place: Place, context: Context) -> ErrorInfo | None:
        """The error of a step whose result is not as the batch expects; None if it is."""
        step, compiled = self._steps[place.step], self._compiled.get(place.step)
        if compiled is None or not isinstance(step, Step):
            return None
        for text, expression in zip(step.expect, compiled.expect, strict=True):
            try:
                if expression.evaluate(context):
                    continue
                message = f"Expected {text}, which is false."
            except ExpressionError as error:
                message = f"Expected {text}: {error.message}"
            return ErrorInfo.of(ErrorCode.EXPECTATION_FAILED, message)
        return None

    def _context(self, device: str, result: Any = None, texts: Mapping[str, str] | None = None) -> Context:
        """The context of expressions on a device now."""
        steps = _EndedSteps(self.run, self._earlier, device)
        facts = self._environment.devices.facts(device) if self._compiled else DeviceFacts(device)
        return Context(self.run.inputs, steps, facts, result, texts)

    # Retries
    def _retry_later(self, place: Place, attempt: int, code: ErrorCode | None) -> None:
        retry = getattr(self._steps[place.step], "retry", None)
        assert retry is not None, "only a step with `retry` is retried"
        wait_s = _wait_before(retry, attempt, self._environment.uniform)
        self._note(place, RetryScheduled(attempt=attempt, wait_s=round(wait_s, 3), code=(code or "")))
        self._set(place, state=CellState.RETRYING)

        async def wait() -> None:
            await self._environment.sleep(wait_s)
            del self._timers[place]
            self._scheduler.due(place)
            self._go_on()

        self._timers[place] = self._spawn(f"retry {place.step} on {place.device}", wait())

    # Questions
    async def _ask(self, action: AskQuestion) -> None:
        step = self._steps[action.step]
        assert isinstance(step, ApprovalStep), "only an approval step asks"
        if why := self._scheduler.stopped:
            # Stopped when there was no request to withdraw yet.
            for place in self._scheduler.question_answered(action, CellState.NOT_STARTED, why):
                self._note(place, StepSkipped(why=why))
                self._set(place, state=CellState.NOT_STARTED, note=why)
            self._go_on()
            return
        # An approval step reads inputs only, so that the text is the same for all devices.
        text = question_text(step, self._compiled.get(step.id), self._context(action.devices[0]))
        question = self._questions[step.id] = AskedQuestion(self.run, step, action, text)
        for device in action.devices:
            self._set(
                Place(device, step.id),
                state=CellState.WAITING,
                approval=question.approval,
                call_id=question.call_id,
                started_at=now_utc(),
            )
        end = await question.ask(self._environment.approvals, self._environment.journal)
        del self._questions[step.id]
        for place in self._scheduler.question_answered(action, end.state, end.note):
            cell = self._cell(place)
            result = failed_without_command(cell, end.error, question.call_id) if end.error else None
            self._set(place, state=end.state, note=end.note, ended_at=now_utc(), result=result)
        self._go_on()

    # Cancelling
    def _ask_cancel(self, place: Place) -> None:
        cell = self._cell(place)
        if cell.state is CellState.RUNNING and cell.call_id:
            self._set(place, state=CellState.CANCEL_ASKED)
            self._spawn(f"cancel {cell.call_id}", self._cancel_command(cell.call_id))

    async def _cancel_command(self, call_id: str) -> None:
        try:
            await self._environment.dispatcher.cancel(call_id)
        except QuarterdeckError:
            # The link is gone. The result of the command will state what is known.
            return

    def _withdraw(self, place: Place | None, why: str) -> None:
        approvals = self._environment.approvals
        if place is None:
            text = "The run was cancelled" if why == CANCELLED else f"{why[:1].upper()}{why[1:]}"
            approvals.withdraw(f"{text.removesuffix('.')}; nothing was sent.", self.run.id)
        elif (approval := self._cell(place).approval) is not None:
            approvals.withdraw_one(approval, f"The step was {why}; nothing was sent.")

    # Cells
    def _cell(self, place: Place) -> LiveCell:
        return self.run.cells[place]

    def _set(self, place: Place, **changes: Any) -> None:
        self._change(place, changes)

    def _change(self, place: Place, changes: Mapping[str, Any]) -> None:
        cell = self.run.cells[place]
        if all(getattr(cell, name) == value for name, value in changes.items()):
            return
        self.run.change(cell, changes)
        self._environment.on_cell(cell)
        self._on_change(self.run.id)

    def _note(self, place: Place, event: Event, actor: str = "service") -> None:
        # No command of the run is sent while the journal is unavailable, so the entry may come later.
        cell = self.run.cells[place]
        entry = event.entry(
            actor, run=self.run.id, step=place.step, device=place.device, tool=cell.tool, call_id=None
        )
        self._environment.journal.note_late([entry])

    def _spawn(self, name: str, work: Any) -> asyncio.Task[None]:
        assert self._group is not None, "actions are carried out while the run goes on"
        return self._group.create_task(work, name=f"run {self.run.id}: {name}")


@dataclass(frozen=True, slots=True)
class _EndedSteps(Mapping[str, StepFacts]):
    """The steps of a device that have ended, by id. Facts are made of those that an expression reads only."""

    run: LiveRun
    earlier: Mapping[tuple[str, str], CommandResult]
    device: str

    def __getitem__(self, step: str) -> StepFacts:
        cell = self.run.cells[self.device, step]
        if cell.state in OPEN_STATES:
            raise KeyError(step)
        return step_facts(cell.model(), self.earlier.get((self.device, step)))

    def __iter__(self) -> Iterator[str]:
        return (row.id for row in self.run.rows if self.get(row.id) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _tool_failed(result: CommandResult) -> bool:
    """Whether the device was asked, and its tool failed or did not do what the batch expects.

    That a control is not there is a failure of the tool; arguments that the device does not take are not.
    """
    if result.error is None:
        return False
    reported = result.basis is Basis.DEVICE_REPORTED_FAILURE
    no_target = result.basis is Basis.DEVICE_REFUSED and result.error.code in TARGET_CODES
    return reported or no_target or result.error.code is ErrorCode.EXPECTATION_FAILED


def _wait_before(retry: Retry, attempt: int, uniform: Callable[[float, float], float]) -> float:
    """The seconds to wait before an attempt; the first one has the number 1."""
    spread = (1 - retry.jitter, 1 + retry.jitter)
    backoff = Backoff(retry.backoff, LONGEST_BACKOFF_S, jitter=spread, uniform=uniform)
    for _ in range(attempt - 1):
        backoff.fail()
    return backoff.wait()
