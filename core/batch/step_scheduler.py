"""The scheduler of a run's steps: which cell may start, wait, be retried or be skipped next. It does no I/O.

It is a state machine. Events come in by methods (`waits`, `ended`, `cancel`, …); `next` gives the next action
for the present state. An action is made at the moment it is taken, so that no start that was planned earlier
outlives a cancel or a stop condition.

    PENDING ──start──► ACTIVE ──waits──► ASKING ──answered──► APPROVED ──proceed──► ACTIVE
                         │ ▲                                                          │
                         │ └──start── DUE ◄──due── BACKOFF ◄──────────────────────────┤ a failure to retry
                         ▼                                                            ▼
        AT_QUESTION ──► ASKED (approval steps)      RECOVERING, or settled as done, allowed or not done

A device is a lane that walks through the batch. It begins in its wave when one of `parallel` slots is free,
holds the slot while a cell of it is `PENDING` or `ACTIVE`, and gives it back while all its cells wait.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from core.batch.models import ApprovalStep, Batch, CellState, Entry, Step, Stop, StopAt, calls
from core.batch.waves import Waves
from core.errors import ErrorCode
from core.next_steps import ADVICE

EARLIER_FAILED = "an earlier step did not succeed"
CANCELLED = "cancelled"
# A request whose contract, policy or signature changed between the answer and the sending is asked again.
MOST_ASKED_AGAIN = 3
# Where a batch lists no codes: each failure of the tool, and what may succeed when it is tried again.
RETRIED = frozenset(
    {
        ErrorCode.TOOL_FAILED,
        ErrorCode.PARTIAL_FAILURE,
        ErrorCode.EXPECTATION_FAILED,
        *(code for code, advice in ADVICE.items() if advice.retryable),
    }
)


class Place(NamedTuple):
    """The place of a cell."""

    device: str
    step: str


class OnFailure(StrEnum):
    """The effect of a step that did not succeed on the device's later steps."""

    STOP = "stop"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class StepRules:
    """The rules of a step. `attempts` counts the first one; `retry_on` are codes of errors.

    `recovery` are the steps to take, in order, when this step has failed. `allow_failure`: a failure of its
    tool counts as done.
    """

    id: str
    on_failure: OnFailure = OnFailure.STOP
    attempts: int = 1
    retry_on: frozenset[ErrorCode] = frozenset()
    recovery: tuple[StepRules, ...] = ()
    allow_failure: bool = False

    @classmethod
    def of(cls, step: Step, on_failure: str) -> StepRules:
        """The rules of a step; `on_failure` is the batch's, for a step that does not say its own."""
        goes_on = (step.on_failure if step.on_failure in ("stop", "continue") else on_failure) == "continue"
        return cls(
            id=step.id,
            on_failure=OnFailure.CONTINUE if goes_on else OnFailure.STOP,
            attempts=1 + step.retry.times if step.retry else 1,
            retry_on=frozenset(step.retry.on or RETRIED) if step.retry else frozenset(),
            # A recovery has worked if each of its steps has that does not itself say `continue`.
            recovery=tuple(cls.of(inner, "stop") for inner in step.recover if inner.enabled),
            allow_failure=step.allow_failure,
        )

    def all(self) -> Iterator[StepRules]:
        """This step, and all steps of its recovery."""
        yield self
        for step in self.recovery:
            yield from step.all()


# Steps that may run at the same time on one device.
Block = tuple[StepRules, ...]


class Trouble(StrEnum):
    """The kinds of ends that a stop condition can count."""

    FAILED = "failed"
    OFFLINE = "offline"
    UNKNOWN = "unknown"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class StopRule:
    """Nothing starts once `limit` devices, of the run or of a wave, have met this trouble.

    With `percent` the limit is that part of the devices.
    """

    trouble: Trouble
    limit: int
    percent: bool = False
    per_wave: bool = False

    def met(self, troubled: int, devices: int) -> bool:
        """Whether so many of so many devices are enough."""
        return troubled * 100 >= self.limit * devices if self.percent else troubled >= self.limit

    def words(self, troubled: int, devices: int, wave: int) -> str:
        """Why the run stopped. `wave` counts from 0."""
        where = f" of wave {wave + 1}" if self.per_wave else ""
        limit = f"{self.limit} %" if self.percent else f"{self.limit}"
        return f"stopped: {troubled} of {devices} devices{where} {self.trouble}; the batch stops at {limit}"


@dataclass(frozen=True, slots=True)
class RunRules:
    """The rules of a run. `waves` are the devices in the order in which they begin."""

    blocks: tuple[Block, ...]
    waves: tuple[tuple[str, ...], ...]
    parallel: int = 5
    stops: tuple[StopRule, ...] = ()

    @classmethod
    def of(cls, batch: Batch, waves: Waves) -> RunRules:
        """The rules of a batch on the devices of these waves; steps that are switched off are not in them."""
        blocks = (_block(entry, batch.on_failure) for entry in batch.steps)
        return cls(
            blocks=tuple(block for block in blocks if block),
            waves=waves,
            parallel=batch.rollout.parallel,
            stops=_stop_rules(batch.rollout.stop) if batch.rollout.stop else (),
        )


def _block(entry: Entry, on_failure: str) -> Block:
    if isinstance(entry, ApprovalStep):
        return (StepRules(entry.id),)
    return tuple(StepRules.of(step, on_failure) for step in calls(entry) if step.enabled)


def _stop_rules(stop: Stop) -> tuple[StopRule, ...]:
    return (*_limits(stop.run, per_wave=False), *_limits(stop.wave, per_wave=True))


def _limits(stop: StopAt | None, *, per_wave: bool) -> list[StopRule]:
    limits = ((trouble, getattr(stop, trouble.value, None)) for trouble in Trouble)
    return [
        StopRule(trouble, int(str(limit).removesuffix("%")), isinstance(limit, str), per_wave)
        for trouble, limit in limits
        if limit is not None
    ]


class End(NamedTuple):
    """How an attempt ended. `again`: it was not sent and must be asked again; `may_retry`: safe to repeat.

    `tool_failed`: the device was asked, and what it did is not what the step is for.
    """

    state: CellState
    code: ErrorCode | None = None
    may_retry: bool = False
    again: bool = False
    tool_failed: bool = False


# Actions
class Start(NamedTuple):
    """Begin an attempt of a step, the first having the number 1."""

    place: Place
    attempt: int


class Proceed(NamedTuple):
    """Resume a command that was approved; a cancelled command is resumed, too, so that it ends."""

    place: Place


class Skip(NamedTuple):
    """A step ends without having begun: `NOT_STARTED`, or `SKIPPED` if it was not needed."""

    place: Place
    state: CellState
    why: str


class RetryLater(NamedTuple):
    """Call `due` after the wait before this attempt."""

    place: Place
    attempt: int
    code: ErrorCode | None


class GiveUp(NamedTuple):
    """A step that waited for its next attempt gets none; its last attempt is its end."""

    place: Place


class Recovered(NamedTuple):
    """A failed step counts as done, because these steps of its recovery have run."""

    place: Place
    by: tuple[str, ...]


class Allow(NamedTuple):
    """A failed step counts as done: the batch allows its failure."""

    place: Place


class AskQuestion(NamedTuple):
    """Ask operators the question of an approval step, once for these devices."""

    step: str
    wave: int
    devices: tuple[str, ...]


class AskCancel(NamedTuple):
    """Ask the device to cancel the running command of this cell."""

    place: Place


class Withdraw(NamedTuple):
    """Withdraw the request for approval of a cell, or of the whole run if `place` is None."""

    place: Place | None
    why: str


class Finish(NamedTuple):
    """The run has ended."""


Action = (
    Start
    | Proceed
    | Skip
    | RetryLater
    | GiveUp
    | Recovered
    | Allow
    | AskQuestion
    | AskCancel
    | Withdraw
    | Finish
)


class _Phase(StrEnum):
    PENDING = "pending"
    ACTIVE = "active"
    ASKING = "asking"
    APPROVED = "approved"
    BACKOFF = "backoff"
    DUE = "due"
    AT_QUESTION = "at_question"
    ASKED = "asked"
    RECOVERING = "recovering"


# In these phases a cell needs the slot of its device.
_NEEDS_SLOT = frozenset({_Phase.PENDING, _Phase.ACTIVE, _Phase.APPROVED, _Phase.DUE})
_STARTABLE = frozenset({_Phase.PENDING, _Phase.APPROVED, _Phase.DUE})


@dataclass(slots=True, eq=False)
class _Cell:
    """A step that is under way on a device. `parent` is the failed step that it recovers."""

    place: Place
    rules: StepRules
    lane: _Lane
    parent: _Cell | None = None
    phase: _Phase = _Phase.PENDING
    attempt: int = 0
    asked_again: int = 0
    recovery_at: int = 0
    cancelled: bool = False
    # Of a cell that waits in the queue: whether it keeps the slot, because the queue has no room for others.
    keeps_slot: bool = False
    last: End | None = None


@dataclass(slots=True, eq=False)
class _Lane:
    """A device on its way through the batch. `at` is the index of its block, -1 before it has begun."""

    device: str
    wave: int
    at: int = -1
    open: dict[str, _Cell] = field(default_factory=dict)
    holds_slot: bool = False
    wants_slot: bool = False
    failed: bool = False
    ended: bool = False
    troubles: set[Trouble] = field(default_factory=set)

    @property
    def needs_slot(self) -> bool:
        return any(cell.phase in _NEEDS_SLOT or cell.keeps_slot for cell in self.open.values())

    @property
    def startable(self) -> list[_Cell]:
        return [cell for cell in self.open.values() if cell.phase in _STARTABLE]


class StepScheduler:
    """Schedules one run. Every method is an event or a question about the present state; none waits."""

    def __init__(self, rules: RunRules, carried: Mapping[Place, CellState] | None = None) -> None:
        """`carried` are the cells that an earlier run has done or skipped; they are not begun."""
        self._rules = rules
        self._carried = carried or {}
        self._lanes = {
            device: _Lane(device, wave) for wave, devices in enumerate(rules.waves) for device in devices
        }
        self._out: deque[Action] = deque()
        # Cells of devices that hold a slot; devices that want theirs back; devices that have not begun, of
        # the present wave; devices to be skipped because the run has stopped.
        self._startable: deque[_Cell] = deque()
        self._wanting: deque[_Lane] = deque()
        self._fresh: deque[_Lane] = deque()
        self._to_skip: deque[_Lane] = deque()
        self._cancelled_ahead: dict[Place, str] = {}
        self._wave = -1
        # Devices of the present wave that have not ended, and those of them that wait for a question.
        self._open_lanes = 0
        self._parked = 0
        self._slots = rules.parallel
        self._troubled: Counter[tuple[int, Trouble]] = Counter()
        # Cells that wait for operators and keep their slots.
        self._keeping = 0
        self._finished = False
        self.paused = False
        # Why nothing starts any more; empty while the run goes on.
        self.stopped = ""

    # Questions
    def unwanted(self, place: Place) -> bool:
        """Whether the command of this cell must not be sent any more."""
        cell = self._find(place)
        return bool(self.stopped) or cell is None or cell.cancelled

    @property
    def slots_taken(self) -> int:
        """How many devices hold one of the `parallel` slots."""
        return self._rules.parallel - self._slots

    @property
    def slots_that_may_ask(self) -> int:
        """How many slots are or may come to be held by devices whose cells do not wait for operators."""
        return self._rules.parallel - self._keeping

    # Events
    def waits(self, place: Place, *, keeps_slot: bool = False) -> None:
        """The command of a cell waits in the queue for an operator's answer."""
        cell = self._known(place)
        cell.phase = _Phase.ASKING
        self._keep_slot(cell, keeps_slot)
        if self.unwanted(place):
            # Stopped or cancelled while the command was prepared, when there was no request to withdraw.
            self._out.append(Withdraw(place, self.stopped or CANCELLED))
        self._settle_slot(cell.lane)

    def answered(self, place: Place) -> None:
        """The answer came and the command may go on when it is its turn: see `Proceed`."""
        cell = self._known(place)
        cell.phase = _Phase.APPROVED
        self._keep_slot(cell, False)
        if self.unwanted(place):
            self._proceed(cell)
        else:
            self._want(cell)

    def parked(self, place: Place) -> None:
        """An approval step was begun: its device waits until the question is answered for its wave."""
        cell = self._known(place)
        if self.unwanted(place):
            self._skip(cell, self.stopped or CANCELLED)
            return
        cell.phase = _Phase.AT_QUESTION
        self._parked += 1
        self._settle_slot(cell.lane)

    def question_answered(self, question: AskQuestion, state: CellState, why: str) -> list[Place]:
        """The question of an approval step was answered; unless it was approved, the run stops.

        Returns the cells that waited for it; they have ended in this state.
        """
        lanes = (self._lanes[device] for device in question.devices)
        waiting = [cell for lane in lanes if (cell := lane.open.get(question.step)) is not None]
        cells = [cell for cell in waiting if cell.phase is _Phase.ASKED]
        if state is not CellState.DONE:
            for cell in cells:
                cell.phase = _Phase.ACTIVE
            self._stop(why)
        for cell in cells:
            self._settle(cell, End(state))
        return [cell.place for cell in cells]

    def due(self, place: Place) -> None:
        """The wait before the next attempt of a cell is over."""
        cell = self._find(place)
        if cell is not None and cell.phase is _Phase.BACKOFF:
            cell.phase = _Phase.DUE
            self._want(cell)

    def ended(self, place: Place, end: End) -> None:
        """An attempt of a cell has ended."""
        cell = self._known(place)
        self._keep_slot(cell, False)
        cell.last = end
        wanted = not self.unwanted(place)
        if end.again and wanted and cell.asked_again < MOST_ASKED_AGAIN:
            cell.asked_again += 1
            cell.phase = _Phase.DUE
            self._want(cell)
        elif wanted and _is_retried(cell, end):
            cell.phase = _Phase.BACKOFF
            self._out.append(RetryLater(place, cell.attempt + 1, end.code))
            self._settle_slot(cell.lane)
        else:
            self._conclude(cell, end)

    def pause(self) -> None:
        """Start nothing until `unpause`; what runs or waits goes on."""
        self.paused = True

    def unpause(self) -> None:
        """Start cells again."""
        self.paused = False

    def cancel(self) -> None:
        """Start nothing any more, and ask the devices to cancel what runs."""
        if self._finished or self.stopped == CANCELLED:
            return
        self._stop(CANCELLED)
        # After an earlier stop condition it is the cancel that holds.
        self.stopped = CANCELLED
        for lane in self._lanes.values():
            for cell in lane.open.values():
                if cell.phase is _Phase.ACTIVE and not cell.cancelled:
                    cell.cancelled = True
                    # Ahead of the steps that are skipped, which may be thousands.
                    self._out.appendleft(AskCancel(cell.place))

    def cancel_cell(self, place: Place, why: str) -> bool:
        """Cancel one cell, also one that has not begun; False if it has ended already."""
        lane, cell = self._lanes.get(place.device), self._find(place)
        if cell is None:
            ahead = lane is not None and not lane.ended and place.step in self._ahead(lane)
            if ahead:
                self._cancelled_ahead[place] = why
            return ahead
        if cell.phase is _Phase.RECOVERING:
            inner = next(child for child in cell.lane.open.values() if child.parent is cell)
            return self.cancel_cell(inner.place, why)
        cell.cancelled = True
        match cell.phase:
            case _Phase.PENDING | _Phase.AT_QUESTION | _Phase.ASKED:
                self._skip(cell, why)
            case _Phase.ACTIVE:
                self._out.append(AskCancel(place))
            case _Phase.ASKING:
                self._out.append(Withdraw(place, why))
            case _Phase.APPROVED:
                self._proceed(cell)
            case _Phase.BACKOFF | _Phase.DUE:
                self._give_up(cell)
        return True

    # The next action
    def next(self) -> Action | None:
        """The next action, to be carried out at once; None until another event."""
        while not self._finished:
            if self._out:
                return self._out.popleft()
            if self._to_skip:
                self._skip_rest(self._to_skip.popleft())
            elif self._startable and not self.paused:
                cell = self._startable.popleft()
                if cell.phase in _STARTABLE and self._find(cell.place) is cell:
                    return self._start(cell)
            elif self._slots > 0 and (self._wanting or self._fresh) and not self.paused:
                self._give_slot(self._wanting.popleft() if self._wanting else self._fresh.popleft())
            elif self._open_lanes:
                return self._next_question()
            elif not self._next_wave():
                self._finished = True
                return Finish()
        return None

    def _start(self, cell: _Cell) -> Action:
        approved = cell.phase is _Phase.APPROVED
        cell.phase = _Phase.ACTIVE
        if approved:
            return Proceed(cell.place)
        cell.attempt += 1
        return Start(cell.place, cell.attempt)

    def _give_slot(self, lane: _Lane) -> None:
        begins = lane.at < 0 and not lane.ended
        lane.wants_slot = False
        if begins or lane.startable:
            lane.holds_slot, self._slots = True, self._slots - 1
            self._startable.extend(lane.startable)
        if begins:
            self._advance(lane)

    def _next_question(self) -> Action | None:
        """The question that the devices of the wave wait for, once none of them has anything else to do."""
        if self._parked < self._open_lanes or self.paused:
            return None
        lanes = [self._lanes[device] for device in self._rules.waves[self._wave]]
        lanes = [lane for lane in lanes if not lane.ended]
        # A device that was carried past a question may be at a later one: the earliest is asked first.
        first = min(lane.at for lane in lanes)
        cells = [cell for lane in lanes if lane.at == first for cell in lane.open.values()]
        for cell in cells:
            cell.phase = _Phase.ASKED
        self._parked -= len(cells)
        return AskQuestion(cells[0].place.step, self._wave, tuple(cell.place.device for cell in cells))

    def _next_wave(self) -> bool:
        if self._wave + 1 >= len(self._rules.waves):
            return False
        self._wave += 1
        lanes = [self._lanes[device] for device in self._rules.waves[self._wave]]
        self._open_lanes = len(lanes)
        (self._to_skip if self.stopped else self._fresh).extend(lanes)
        return True

    # Devices
    def _advance(self, lane: _Lane) -> None:
        """Move a device to its next block that has anything to do."""
        while not lane.open and not lane.ended:
            lane.at += 1
            if lane.at >= len(self._rules.blocks):
                self._end_lane(lane)
            elif lane.failed or self.stopped:
                self._skip_rest(lane)
            else:
                self._enter(lane, self._rules.blocks[lane.at])

    def _enter(self, lane: _Lane, block: Block) -> None:
        for rules in block:
            place = Place(lane.device, rules.id)
            if place in self._carried:
                continue
            if why := self._cancelled_ahead.pop(place, ""):
                self._skip_tree(lane.device, rules, CellState.NOT_STARTED, why)
                lane.failed |= rules.on_failure is OnFailure.STOP
            else:
                self._open(_Cell(place, rules, lane))

    def _open(self, cell: _Cell) -> None:
        cell.lane.open[cell.rules.id] = cell
        if cell.lane.holds_slot:
            self._startable.append(cell)

    def _skip_rest(self, lane: _Lane) -> None:
        """Skip every step of a device that it has not come to; it has no open cell."""
        why = self.stopped or EARLIER_FAILED
        for block in self._rules.blocks[max(lane.at, 0) :]:
            for rules in block:
                if Place(lane.device, rules.id) not in self._carried:
                    self._skip_tree(lane.device, rules, CellState.NOT_STARTED, why)
        self._end_lane(lane)

    def _skip_tree(self, device: str, rules: StepRules, state: CellState, why: str) -> None:
        for step in rules.all():
            self._out.append(Skip(Place(device, step.id), state, why))

    def _end_lane(self, lane: _Lane) -> None:
        lane.ended = True
        self._open_lanes -= 1
        self._settle_slot(lane)

    def _ahead(self, lane: _Lane) -> set[str]:
        """The steps of a device that it has not come to."""
        steps = {rules.id for block in self._rules.blocks[lane.at + 1 :] for rules in block}
        return {step for step in steps if Place(lane.device, step) not in self._carried}

    # Slots
    def _want(self, cell: _Cell) -> None:
        """A cell that waited can go on when its device holds a slot."""
        if cell.lane.holds_slot:
            self._startable.append(cell)
        self._settle_slot(cell.lane)

    def _keep_slot(self, cell: _Cell, keeps: bool) -> None:
        self._keeping += keeps - cell.keeps_slot
        cell.keeps_slot = keeps

    def _settle_slot(self, lane: _Lane) -> None:
        """Give the slot of a device back if nothing of it needs the slot now, or line up for one."""
        if lane.holds_slot:
            if not lane.needs_slot:
                lane.holds_slot, self._slots = False, self._slots + 1
        elif lane.at >= 0 and not lane.wants_slot and lane.startable:
            lane.wants_slot = True
            self._wanting.append(lane)

    # Cells
    def _find(self, place: Place) -> _Cell | None:
        lane = self._lanes.get(place.device)
        return lane.open.get(place.step) if lane is not None else None

    def _known(self, place: Place) -> _Cell:
        cell = self._find(place)
        if cell is None:
            raise ValueError(f"{place.step} on {place.device} is not under way.")
        return cell

    def _conclude(self, cell: _Cell, end: End) -> None:
        """The last attempt of a cell has ended: it is settled, or its recovery begins."""
        device, ok = cell.place.device, _is_ok(end)
        if end.state in _RECOVERABLE and cell.rules.recovery and not self.unwanted(cell.place):
            cell.phase = _Phase.RECOVERING
            self._recover_next(cell)
            self._settle_slot(cell.lane)
            return
        for step in cell.rules.recovery:
            if ok:
                self._skip_tree(device, step, CellState.SKIPPED, f"{cell.rules.id} did not fail")
            else:
                self._skip_tree(device, step, CellState.NOT_STARTED, self.stopped or EARLIER_FAILED)
        self._settle(cell, end)

    def _recover_next(self, cell: _Cell) -> None:
        steps = cell.rules.recovery
        if cell.recovery_at < len(steps):
            rules = steps[cell.recovery_at]
            self._open(_Cell(Place(cell.place.device, rules.id), rules, cell.lane, parent=cell))
            return
        self._out.append(Recovered(cell.place, tuple(step.id for step in steps)))
        self._settle(cell, End(CellState.DONE))

    def _recovery_step_ended(self, parent: _Cell, cell: _Cell, *, ok: bool) -> None:
        parent.recovery_at += 1
        if (ok or cell.rules.on_failure is OnFailure.CONTINUE) and not self.unwanted(parent.place):
            self._recover_next(parent)
            self._settle_slot(parent.lane)
            return
        for step in parent.rules.recovery[parent.recovery_at :]:
            why = self.stopped or EARLIER_FAILED
            self._skip_tree(parent.place.device, step, CellState.NOT_STARTED, why)
        assert parent.last is not None, "a recovery follows a failure"
        self._settle(parent, parent.last)

    def _settle(self, cell: _Cell, end: End) -> None:
        """A cell has its end. The device goes on, or stops."""
        if _is_allowed(cell, end):
            self._out.append(Allow(cell.place))
            end = End(CellState.DONE)
        lane, ok = cell.lane, _is_ok(end)
        del lane.open[cell.rules.id]
        if cell.parent is not None:
            self._recovery_step_ended(cell.parent, cell, ok=ok)
            return
        lane.failed |= not ok and cell.rules.on_failure is OnFailure.STOP
        if (trouble := _trouble_of(end)) is not None:
            self._count(lane, trouble)
        if not lane.open:
            self._advance(lane)
        self._settle_slot(lane)

    def _skip(self, cell: _Cell, why: str) -> None:
        """End an open cell that has not begun."""
        if cell.phase is _Phase.AT_QUESTION:
            self._parked -= 1
        self._skip_tree(cell.place.device, cell.rules, CellState.NOT_STARTED, why)
        self._settle(cell, End(CellState.NOT_STARTED))

    def _give_up(self, cell: _Cell) -> None:
        """End a cell that waits for its next attempt: its last attempt is its end."""
        assert cell.last is not None, "a retry follows a failure"
        self._out.append(GiveUp(cell.place))
        self._conclude(cell, cell.last)

    def _proceed(self, cell: _Cell) -> None:
        """Let a command end that is not wanted any more; it needs no slot for that."""
        cell.phase = _Phase.ACTIVE
        self._out.append(Proceed(cell.place))

    # Stopping
    def _count(self, lane: _Lane, trouble: Trouble) -> None:
        """Count the trouble of a device, once for each kind, and stop the run if a limit is reached."""
        if trouble in lane.troubles:
            return
        lane.troubles.add(trouble)
        self._troubled.update([(lane.wave, trouble), (-1, trouble)])
        for rule in self._rules.stops:
            if rule.trouble is trouble:
                troubled = self._troubled[lane.wave if rule.per_wave else -1, trouble]
                devices = len(self._rules.waves[lane.wave]) if rule.per_wave else len(self._lanes)
                if rule.met(troubled, devices):
                    self._stop(rule.words(troubled, devices, lane.wave))

    def _stop(self, why: str) -> None:
        """Start nothing any more. What runs is answered; what waits is withdrawn. The first reason counts."""
        if self.stopped:
            return
        self.stopped = why
        self._to_skip.extend(self._fresh)
        self._fresh.clear()
        self._wanting.clear()
        self._startable.clear()
        self._out.append(Withdraw(None, why))
        for cell in [cell for lane in self._lanes.values() for cell in lane.open.values()]:
            match cell.phase:
                case _Phase.PENDING | _Phase.AT_QUESTION:
                    self._skip(cell, why)
                case _Phase.APPROVED:
                    self._proceed(cell)
                case _Phase.BACKOFF | _Phase.DUE:
                    self._give_up(cell)


_RECOVERABLE = frozenset({CellState.FAILED, CellState.NO_SUCH_TOOL})


def _is_ok(end: End) -> bool:
    return end.state in (CellState.DONE, CellState.SKIPPED)


def _is_allowed(cell: _Cell, end: End) -> bool:
    """Whether an end that is a failure counts as done.

    A recovery works by its steps that do not say `continue`; the others may fail.
    """
    if cell.parent is not None and cell.rules.on_failure is OnFailure.CONTINUE:
        return end.state in _RECOVERABLE
    return cell.rules.allow_failure and end.state is CellState.FAILED and end.tool_failed


def _is_retried(cell: _Cell, end: End) -> bool:
    # A command whose outcome is unknown has another state than FAILED, and is never repeated.
    return (
        end.state is CellState.FAILED
        and end.may_retry
        and end.code in cell.rules.retry_on
        and cell.attempt - cell.asked_again < cell.rules.attempts
    )


def _trouble_of(end: End) -> Trouble | None:
    if end.code is ErrorCode.DEVICE_OFFLINE:
        return Trouble.OFFLINE
    if end.state in _RECOVERABLE:
        return Trouble.FAILED
    if end.state is CellState.UNKNOWN:
        return Trouble.UNKNOWN
    return Trouble.DENIED if end.state is CellState.REFUSED else None
