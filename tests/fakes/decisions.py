"""How the fake judges a call, and checks an operator's signature, as strictly as the service does."""

from __future__ import annotations

from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from core.approvals.models import Approval, ApprovalState, Operator
from core.batch.models import Step
from core.canonical_json import canonical_bytes
from core.errors import ErrorCode, Refused
from core.fleet.models import Device, Effect, Risk, Tool
from core.policy.models import Answer, Decision, Finding, Profile, Reason
from core.statements import SignedStatement

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


def check_signature(signed: SignedStatement, waiting: Approval, operators: list[Operator]) -> None:
    """Refuse an answer that is not exactly this request's, or not signed by a registered operator."""
    said = signed.statement
    known = next((one for one in operators if one.name == said.approver), None)
    if known is None:
        raise Refused(f"No operator {said.approver!r} is registered.", ErrorCode.APPROVAL_INVALID)
    request = waiting.request
    bound = (request.digest, request.contract, request.device, request.call_id)
    if (said.request_digest, said.contract, said.device, said.call_id) != bound:
        raise Refused("The statement is about another request.", ErrorCode.APPROVAL_INVALID)
    if waiting.state is not ApprovalState.WAITING:
        raise Refused(f"The request is {waiting.state.value} already.", ErrorCode.APPROVAL_INVALID)
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(known.public_key)).verify(
            bytes.fromhex(signed.signature), canonical_bytes(said.model_dump(mode="json"))
        )
    except (InvalidSignature, ValueError) as error:
        raise Refused("The signature does not fit.", ErrorCode.APPROVAL_INVALID) from error
