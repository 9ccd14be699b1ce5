"""How the fake plans one step on one device; nothing is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.batch.models import PlannedCell, Step
from core.errors import QuarterdeckError
from core.fleet.models import Device, Health
from core.policy.models import Answer
from tests.fakes.decisions import decide_call

if TYPE_CHECKING:
    from tests.fakes.console import FakeConsole


def plan_cell(console: FakeConsole, device: Device, step: Step) -> PlannedCell:
    """What would happen to one step on one device."""

    def cell(outcome: Any, **more: Any) -> PlannedCell:
        return PlannedCell(device=device.name, step=step.id, outcome=outcome, **more)

    if not step.enabled:
        return cell("off", summary="switched off")
    if device.health is Health.OFFLINE:
        return cell("offline", summary="offline", why=device.reason)
    try:
        tool = console.tool_named(device.name, step.tool)
    except QuarterdeckError as error:
        return cell("no_such_tool", why=error.message)
    missing = [key for key in tool.input_schema.get("required", []) if key not in step.parameters]
    if missing:
        return cell("invalid", why=f"{missing[0]} is required")
    decision = decide_call(tool, step.parameters, console.policy_status.profile, device)
    outcome = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "denied"}[decision.answer]
    why = decision.reasons[0].text
    return cell(outcome, answer=decision.answer, risk=decision.risk, summary=decision.summary, why=why)
