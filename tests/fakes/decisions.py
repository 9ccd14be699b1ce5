"""How the fake judges a call."""

from __future__ import annotations

from typing import Any

from core.batch.models import Step
from core.models.devices import Device
from core.models.tools import Effect, Risk, Tool
from core.policy.models import Answer, Decision, Finding, Profile, Reason

_RUNS_BELOW = {Profile.OBSERVE: 1, Profile.GUARDED: 1, Profile.TRUSTED: 2, Profile.LOCKDOWN: 0}


def decide_call(tool: Tool, parameters: dict[str, Any], profile: Profile, device: Device) -> Decision:
    """Allow, ask or deny from the contract, a few words in a shell line, and the profile."""
    risk, findings = tool.contract.risk.value, _findings(parameters)
    for finding in findings:
        risk = max(risk, finding.risk, key=lambda one: one.rank)
    effect = tool.contract.effect.value
    if tool.changed:
        answer, why = Answer.DENY, "The tool's definition changed and was not reviewed."
    elif profile is Profile.OBSERVE and effect is not Effect.OBSERVE:
        answer, why = Answer.DENY, "Profile observe: reads only."
    elif risk.rank < _RUNS_BELOW[profile]:
        answer, why = Answer.ALLOW, f"Profile {profile.value}: {risk.value} risk runs."
    else:
        answer, why = Answer.ASK, f"Profile {profile.value}: {risk.value} risk asks."
    reasons = [Reason(text=why, origin=f"profile {profile.value}")]
    if device.production:
        reasons.append(Reason(text="The device is production.", origin="tag prod"))
    undoable = tool.tool_name == "write_file"
    return Decision(
        answer=answer,
        risk=risk,
        effect=effect,
        profile=profile,
        summary=summary_of(tool, parameters, findings),
        reasons=reasons,
        findings=findings,
        reversible=tool.contract.reversible.value,
        undo="The device keeps the old file; restore_file puts it back." if undoable else "",
    )


def decide_step(tools: list[Tool], step: Step, device: Device) -> Decision | None:
    """What a guarded console says of a step; None when the device has no such tool."""
    known = next((tool for tool in tools if tool.tool_name == step.tool), None)
    return decide_call(known, step.parameters, Profile.GUARDED, device) if known else None


def summary_of(tool: Tool, parameters: dict[str, Any], findings: list[Finding]) -> str:
    """One sentence from the arguments."""
    if findings:
        return findings[0].text
    if tool.tool_name == "write_file":
        return f"Writes {parameters.get('file_path', 'a file')}"
    if tool.tool_name.startswith("shell_execute"):
        return "Runs a shell line"
    if tool.tool_name == "screenshot":
        return "Takes a picture of the screen"
    return f"Calls {tool.tool_name}"


_SIGNS = [
    ("rm -r", "Deletes recursively", Risk.HIGH),
    ("sudo", "Runs as root", Risk.HIGH),
    ("systemctl", "Restarts a service", Risk.MEDIUM),
    (">", "Writes a file", Risk.MEDIUM),
]


def _findings(parameters: dict[str, Any]) -> list[Finding]:
    line = parameters.get("command")
    if not isinstance(line, str):
        return []
    found = []
    for sign, words, risk in _SIGNS:
        start = line.find(sign)
        if start >= 0:
            found.append(
                Finding(
                    text=words, risk=risk, detail=sign, argument="command", start=start, end=start + len(sign)
                )
            )
    return found
