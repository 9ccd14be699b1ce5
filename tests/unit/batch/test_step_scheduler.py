"""The scheduler of a run's steps against a plain model of what may start, under any order of events."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.batch.models import CellState
from core.batch.step_scheduler import (
    MOST_ASKED_AGAIN,
    Allow,
    AskCancel,
    AskQuestion,
    End,
    Finish,
    GiveUp,
    OnFailure,
    Place,
    Proceed,
    Recovered,
    RetryLater,
    RunRules,
    Skip,
    Start,
    StepRules,
    StepScheduler,
    StopRule,
    Trouble,
    Withdraw,
)
from core.errors import ErrorCode
from tests.fakes.run_size import examples

DONE, FAILED, SKIPPED = CellState.DONE, CellState.FAILED, CellState.SKIPPED
OK = (DONE, SKIPPED)
BROKE = End(FAILED, ErrorCode.TOOL_FAILED, tool_failed=True)
FLAKY = End(FAILED, ErrorCode.TIMEOUT, may_retry=True, tool_failed=True)
UNSAFE = End(FAILED, ErrorCode.TIMEOUT)
OFFLINE = End(FAILED, ErrorCode.DEVICE_OFFLINE, may_retry=True)
LOST = End(CellState.UNKNOWN, ErrorCode.OUTCOME_UNKNOWN, may_retry=True)
DENIED = End(CellState.REFUSED, ErrorCode.DENIED_BY_POLICY)
CHANGED = End(CellState.REFUSED, ErrorCode.CONTRACT_CHANGED, again=True)
STOPPED_BY_DEVICE = End(CellState.CANCELLED, ErrorCode.CANCELLED)
MISSING = End(CellState.NO_SUCH_TOOL, ErrorCode.UNKNOWN_TOOL)
ENDS = [End(DONE), End(DONE), End(SKIPPED), BROKE, FLAKY, UNSAFE, OFFLINE, LOST, DENIED, CHANGED, MISSING]
TROUBLES = {
    Trouble.FAILED: lambda end: (
        end.state in (FAILED, CellState.NO_SUCH_TOOL) and end.code is not OFFLINE.code
    ),
    Trouble.OFFLINE: lambda end: end.code is OFFLINE.code,
    Trouble.UNKNOWN: lambda end: end.state is CellState.UNKNOWN,
    Trouble.DENIED: lambda end: end.state is CellState.REFUSED,
}
RETRIED = frozenset({ErrorCode.TIMEOUT, ErrorCode.DEVICE_OFFLINE, ErrorCode.OUTCOME_UNKNOWN})


@dataclass
class World:
    """Carries out the scheduler's actions, and holds each of them to what the log so far allows.

    The model is the log: it counts by reading it from the start, and knows nothing of slots or queues.
    """

    run_rules: RunRules
    questions: frozenset[str] = frozenset()
    carried: dict[Place, CellState] = field(default_factory=dict)
    paused: bool = False
    cancelled: bool = False
    dropped: set[Place] = field(default_factory=set)
    attempts: dict[Place, list[End]] = field(default_factory=lambda: defaultdict(list))
    finals: dict[Place, CellState] = field(default_factory=dict)
    # What is under way, in each state that only an event ends.
    preparing: list[Place] = field(default_factory=list)
    sent: list[Place] = field(default_factory=list)
    waiting: list[Place] = field(default_factory=list)
    turn: list[Place] = field(default_factory=list)
    timers: list[Place] = field(default_factory=list)
    asked: list[AskQuestion] = field(default_factory=list)
    answered: set[Place] = field(default_factory=set)
    ended_at: dict[str, list[tuple[Place, End]]] = field(default_factory=lambda: defaultdict(list))
    begun: list[Place] = field(default_factory=list)
    finished: bool = False

    def __post_init__(self) -> None:
        self.scheduler = StepScheduler(self.run_rules, self.carried)
        self.rules = {
            rules.id: rules for block in self.run_rules.blocks for top in block for rules in top.all()
        }
        self.tops = {top.id for block in self.run_rules.blocks for top in block}
        self.wave_of = {device: at for at, wave in enumerate(self.run_rules.waves) for device in wave}

    # The model
    def final_trouble(self, device: str) -> set[Trouble]:
        """The troubles with which steps of a device ended for good."""
        ends = [end for place, end in self.ended_at[device] if self.is_for_good(place)]
        return {trouble for trouble, is_it in TROUBLES.items() for end in ends if is_it(end)}

    def is_for_good(self, place: Place) -> bool:
        """Whether a step of the batch itself has ended, so that no recovery can make up for it any more."""
        recovery = self.rules[place.step].recovery
        failed = [
            self.finals.get(Place(place.device, step.id), DONE) not in OK
            for step in recovery
            if step.on_failure is OnFailure.STOP
        ]
        return place.step in self.tops and (not recovery or any(failed))

    def must_stop(self) -> bool:
        if self.cancelled:
            return True
        for rule in self.run_rules.stops:
            groups = self.run_rules.waves if rule.per_wave else [[*self.wave_of]]
            for devices in groups:
                troubled = sum(rule.trouble in self.final_trouble(device) for device in devices)
                if troubled and (
                    troubled * 100 >= rule.limit * len(devices) if rule.percent else troubled >= rule.limit
                ):
                    return True
        return any(state is not DONE for place, state in self.finals.items() if place in self.answered)

    def check_may_start(self, place: Place) -> None:
        assert not self.must_stop(), "something started after the end of starting"
        assert not self.paused, "something started while the run was paused"
        assert place not in self.dropped
        assert place not in self.finals, "a step that has ended started again"
        assert place not in self.carried
        before = self.attempts[place]
        rules = self.rules[place.step]
        assert all(end.state is not CellState.UNKNOWN for end in before), "an unknown outcome was repeated"
        assert all(end.again or (end.may_retry and end.code in rules.retry_on) for end in before)
        assert sum(not end.again for end in before) < rules.attempts
        assert sum(end.again for end in before) <= MOST_ASKED_AGAIN
        self.check_order(place)

    def check_order(self, place: Place) -> None:
        wave = self.wave_of[place.device]
        for device, at in self.wave_of.items():
            if at < wave:
                missing = [step for step in self.rules if Place(device, step) not in self.all_ended()]
                assert not missing, f"a wave began while {device} had not ended {missing}"
        for block in self.run_rules.blocks:
            if any(place.step == step.id for top in block for step in top.all()):
                break
            for top in block:
                state = self.all_ended().get(Place(place.device, top.id))
                assert state is not None, "a step began before the one ahead of it had ended"
                assert state in OK or top.on_failure is OnFailure.CONTINUE
        parents = [
            top
            for block in self.run_rules.blocks
            for top in block
            if place.step in [one.id for one in top.recovery]
        ]
        for parent in parents:
            assert self.attempts[Place(place.device, parent.id)], "a recovery began before its step failed"

    def all_ended(self) -> dict[Place, CellState]:
        return {**self.carried, **self.finals}

    def check_parallel(self) -> None:
        devices = {place.device for place in [*self.preparing, *self.sent]}
        assert len(devices) <= self.run_rules.parallel
        assert self.scheduler.slots_taken <= self.run_rules.parallel

    def end_of(self, place: Place, end: End) -> None:
        assert place not in self.finals, "a step ended twice"
        self.finals[place] = end.state
        self.ended_at[place.device].append((place, end))

    # The scheduler's actions
    def act(self) -> bool:
        action = self.scheduler.next()
        match action:
            case None:
                return False
            case Start(place, attempt):
                self.check_may_start(place)
                assert attempt == len(self.attempts[place]) + 1
                self.begun.append(place)
                self.preparing.append(place)
                self.check_parallel()
            case Proceed(place):
                self.turn.remove(place)
                if self.scheduler.unwanted(place):
                    self.finish_attempt(place, STOPPED_BY_DEVICE)
                else:
                    self.check_may_start(place)
                    self.sent.append(place)
                    self.check_parallel()
            case Skip(place, state, why):
                assert why
                assert not self.attempts[place], "a step that had begun was skipped"
                self.end_of(place, End(state))
            case RetryLater(place, attempt, _):
                assert attempt == len(self.attempts[place]) + 1
                self.timers.append(place)
            case GiveUp(place):
                if place in self.timers:
                    self.timers.remove(place)
                self.end_of(place, self.attempts[place][-1])
            case Recovered(place, by):
                assert all(
                    self.finals[Place(place.device, step)] in OK
                    or self.rules[step].on_failure is OnFailure.CONTINUE
                    for step in by
                )
                assert self.finals[place] in (FAILED, CellState.NO_SUCH_TOOL)
                self.finals[place] = DONE
                self.ended_at[place.device].remove((place, self.attempts[place][-1]))
            case Allow(place):
                rules = self.rules[place.step]
                assert self.finals[place] in (FAILED, CellState.NO_SUCH_TOOL)
                if rules.allow_failure and place.step in self.tops:
                    assert self.attempts[place][-1].tool_failed, "a fault on the way was allowed"
                elif not (rules.allow_failure and self.attempts[place][-1].tool_failed):
                    assert place.step not in self.tops
                    assert rules.on_failure is OnFailure.CONTINUE
                self.finals[place] = DONE
                self.ended_at[place.device].remove((place, self.attempts[place][-1]))
            case AskQuestion():
                assert not self.must_stop()
                wave = [device for device, at in self.wave_of.items() if at == action.wave]
                busy = {place.device for place in [*self.preparing, *self.sent, *self.waiting, *self.timers]}
                assert not busy & set(wave), "a question was asked before what stands ahead of it had ended"
                self.asked.append(action)
            case AskCancel(place):
                assert place in self.begun
            case Withdraw(place, _):
                for waits in [one for one in self.waiting if place in (None, one)]:
                    self.waiting.remove(waits)
                    self.finish_attempt(waits, STOPPED_BY_DEVICE)
                if place is None:
                    for question in self.asked:
                        self.answer(question, CellState.CANCELLED)
                    self.asked.clear()
            case Finish():
                self.finished = True
        return True

    def finish_attempt(self, place: Place, end: End) -> None:
        self.attempts[place].append(end)
        stopping = self.scheduler.unwanted(place)
        self.scheduler.ended(place, end)
        rules = self.rules[place.step]
        retried = not stopping and (
            (end.again and sum(one.again for one in self.attempts[place]) <= MOST_ASKED_AGAIN)
            or (
                end.state is FAILED
                and end.may_retry
                and end.code in rules.retry_on
                and sum(not one.again for one in self.attempts[place]) < rules.attempts
            )
        )
        if not retried:
            self.end_of(place, end)

    def answer(self, question: AskQuestion, state: CellState) -> None:
        for place in self.scheduler.question_answered(question, state, "refused"):
            self.answered.add(place)
            self.end_of(place, End(state))

    # Events
    def events(self) -> list[str]:
        names = ["preparing", "sent", "waiting", "timers", "asked"]
        return [name for name in names if getattr(self, name)]

    def happen(self, name: str, at: int, end: End, *, asks: bool, says: CellState) -> None:
        queue = getattr(self, name)
        item = queue.pop(at % len(queue))
        match name:
            case "preparing" if item.step in self.questions:
                self.scheduler.parked(item)
            case "preparing" if asks:
                self.scheduler.waits(item)
                self.waiting.append(item)
            case "preparing":
                if self.scheduler.unwanted(item):
                    self.finish_attempt(item, STOPPED_BY_DEVICE)
                else:
                    self.sent.append(item)
                    assert not self.must_stop()
            case "sent":
                self.finish_attempt(item, end)
            case "waiting":
                if says is DONE:
                    self.turn.append(item)
                    self.scheduler.answered(item)
                else:
                    self.finish_attempt(item, DENIED)
            case "timers":
                self.scheduler.due(item)
            case "asked":
                self.answer(item, says)


@st.composite
def rules_of_runs(draw: st.DrawFn) -> tuple[RunRules, frozenset[str]]:
    number = 0
    questions: set[str] = set()

    def step(*, recovery: bool) -> StepRules:
        nonlocal number
        number += 1
        name = f"s{number}"
        return StepRules(
            name,
            draw(st.sampled_from(OnFailure)),
            draw(st.integers(1, 3)),
            RETRIED,
            tuple(step(recovery=False) for _ in range(draw(st.integers(0, 2)))) if recovery else (),
            draw(st.booleans()),
        )

    blocks = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.integers(0, 3)) == 0:
            number += 1
            questions.add(f"s{number}")
            blocks.append((StepRules(f"s{number}"),))
        else:
            blocks.append(tuple(step(recovery=True) for _ in range(draw(st.integers(1, 2)))))
    devices = [f"d{at}" for at in range(draw(st.integers(1, 6)))]
    cuts = sorted(draw(st.sets(st.integers(1, len(devices) - 1)))) if len(devices) > 1 else []
    edges = [0, *cuts, len(devices)]
    waves = tuple(tuple(devices[low:high]) for low, high in itertools.pairwise(edges))
    rule = st.builds(
        StopRule,
        st.sampled_from(Trouble),
        st.integers(1, 3) | st.sampled_from([20, 50]),
        percent=st.booleans(),
        per_wave=st.booleans(),
    )
    stops = tuple(draw(st.lists(rule, max_size=2)))
    return RunRules(tuple(blocks), waves, draw(st.integers(1, 3)), stops), frozenset(questions)


@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(rules_of_runs(), st.data())
def test_in_any_order_of_events_nothing_starts_that_the_log_forbids(made, data):
    rules, questions = made
    places = [
        Place(device, step.id)
        for wave in rules.waves
        for device in wave
        for block in rules.blocks
        for top in block
        for step in top.all()
    ]
    carried_steps = data.draw(st.lists(st.sampled_from(places), max_size=4))
    tops = {top.id for block in rules.blocks for top in block}
    carried = {
        Place(place.device, step.id): data.draw(st.sampled_from(OK))
        for place in carried_steps
        if place.step in tops
        for block in rules.blocks
        for top in block
        if top.id == place.step
        for step in top.all()
    }
    world = World(rules, questions, carried)
    draws = st.tuples(
        st.integers(0, 30),
        st.integers(0, 5),
        st.sampled_from(ENDS),
        st.booleans(),
        st.sampled_from([DONE, DONE, DONE, CellState.REFUSED]),
    )
    for _ in range(2000):
        if world.finished:
            break
        choice, at, end, asks, says = data.draw(draws)
        if choice == 0 and not world.cancelled:
            world.cancelled = True
            world.scheduler.cancel()
        elif choice == 1:
            world.paused = not world.paused
            (world.scheduler.pause if world.paused else world.scheduler.unpause)()
        elif choice == 2:
            place = places[at % len(places)]
            if world.scheduler.cancel_cell(place, "cancelled by anna"):
                world.dropped.add(place)
        elif choice % 2 or not world.events():
            if not world.act() and not world.events():
                assert world.paused, "nothing can happen any more and the run has not ended"
                world.paused = False
                world.scheduler.unpause()
        else:
            names = world.events()
            world.happen(names[at % len(names)], choice, end, asks=asks, says=says)
    assert world.finished
    assert set(world.finals) | set(carried) == set(places), "a step has no end"
    assert world.scheduler.slots_taken == 0
    assert not any([world.preparing, world.sent, world.waiting, world.turn])
