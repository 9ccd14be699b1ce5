"""Plans dry runs: predicts the outcome of each step on each device now. Records and sends nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from core.batch.models import Batch, Plan, PlannedCell, Step, flatten
from core.errors import ErrorCode, QuarterdeckError
from core.fleet.models import Device, Health
from core.policy.models import Answer, Decision
from core.policy.real_paths import NOT_FOLLOWED, ResolvedPaths

_WORDS = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "denied"}


class Explains(Protocol):
    """The part of the dispatcher that planning uses."""

    def explain(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        actor: str = "",
        leads: ResolvedPaths = NOT_FOLLOWED,
    ) -> Decision: ...


def make_plan(
    batch: Batch, devices: list[Device], dispatcher: Explains, actor: str, leads: Mapping[str, ResolvedPaths]
) -> Plan:
    """Ask the policy for its decision on every step on every device, as if `actor` ran the batch.

    `leads`: by step id, the resolved paths of its arguments on this computer.
    """
    started = time.perf_counter()
    steps = flatten(batch.steps)
    cells = [_cell(step, device, dispatcher, actor, leads[step.id]) for device in devices for step in steps]
    return Plan(
        devices=[device.name for device in devices],
        steps=[step.id for step in steps],
        cells=cells,
        production=[device.name for device in devices if device.production],
        took_ms=round((time.perf_counter() - started) * 1000, 3),
    )


def _cell(step: Step, device: Device, dispatcher: Explains, actor: str, leads: ResolvedPaths) -> PlannedCell:
    if not step.enabled:
        return PlannedCell(device=device.name, step=step.id, outcome="off", why="switched off")
    if device.health in (Health.OFFLINE, Health.RECONNECTING):
        why = f"{device.health.value}: {device.reason}" if device.reason else device.health.value
        return PlannedCell(device=device.name, step=step.id, outcome="offline", why=why)
    try:
        decision = dispatcher.explain(device.name, step.tool, step.parameters, actor, leads)
    except QuarterdeckError as error:
        if error.code is ErrorCode.CONTRACT_CHANGED:
            return PlannedCell(device=device.name, step=step.id, outcome="denied", why=error.message)
        missing = error.code is ErrorCode.UNKNOWN_TOOL
        outcome = "no_such_tool" if missing else "invalid"
        return PlannedCell.model_validate(
            {"device": device.name, "step": step.id, "outcome": outcome, "why": error.message}
        )
    return PlannedCell.model_validate(
        {
            "device": device.name,
            "step": step.id,
            "outcome": _WORDS[decision.answer],
            "answer": decision.answer,
            "risk": decision.risk,
            "summary": decision.summary,
            "why": decision.reasons[0].text,
        }
    )
