"""Turns a batch and its devices into the course that a run's state machine follows."""

from __future__ import annotations

from core.batch.models import ApprovalStep, Batch, Entry, Rollout, Step, StopAt, calls
from core.batch.run_machine import Block, Course, OnFailure, StepRules, StopRule, Trouble
from core.errors import ErrorCode
from core.next_steps import ADVICE

# Where a batch lists no codes: each failure of the tool, and what may succeed when it is tried again.
RETRIED = frozenset(
    {
        ErrorCode.TOOL_FAILED,
        ErrorCode.PARTIAL_FAILURE,
        ErrorCode.EXPECTATION_FAILED,
        *(code for code, advice in ADVICE.items() if advice.retryable),
    }
)


def course_of(batch: Batch, devices: list[str]) -> Course:
    """The course of a batch on these devices; steps that are switched off are not in it."""
    blocks = (_block(entry, batch.on_failure) for entry in batch.steps)
    return Course(
        blocks=tuple(block for block in blocks if block),
        waves=waves_of(batch.rollout, devices),
        parallel=batch.rollout.parallel,
        stops=_stops(batch.rollout),
    )


def _block(entry: Entry, on_failure: str) -> Block:
    if isinstance(entry, ApprovalStep):
        return (StepRules(entry.id),)
    return tuple(_rules(step, on_failure) for step in calls(entry) if step.enabled)


def _rules(step: Step, on_failure: str) -> StepRules:
    goes_on = (step.on_failure if step.on_failure in ("stop", "continue") else on_failure) == "continue"
    return StepRules(
        id=step.id,
        on_failure=OnFailure.CONTINUE if goes_on else OnFailure.STOP,
        attempts=1 + step.retry.times if step.retry else 1,
        retry_on=frozenset(step.retry.on or RETRIED) if step.retry else frozenset(),
        # A recovery has worked if each of its steps has that does not itself say `continue`.
        recovery=tuple(_rules(inner, "stop") for inner in step.recover if inner.enabled),
        allow_failure=step.allow_failure,
    )


def waves_of(rollout: Rollout, devices: list[str]) -> tuple[tuple[str, ...], ...]:
    """The devices of each wave, in the order of the waves."""
    canary = rollout.canary or 0
    size = rollout.wave or max(len(devices) - canary, 1)
    starts = range(canary, len(devices), size)
    waves = [devices[:canary], *(devices[start : start + size] for start in starts)]
    return tuple(tuple(wave) for wave in waves if wave)


def _stops(rollout: Rollout) -> tuple[StopRule, ...]:
    if rollout.stop is None:
        return ()
    return (*_rules_of(rollout.stop.run, per_wave=False), *_rules_of(rollout.stop.wave, per_wave=True))


def _rules_of(stop: StopAt | None, *, per_wave: bool) -> list[StopRule]:
    limits = ((trouble, getattr(stop, trouble.value, None)) for trouble in Trouble)
    return [
        StopRule(trouble, int(str(limit).removesuffix("%")), isinstance(limit, str), per_wave)
        for trouble, limit in limits
        if limit is not None
    ]
