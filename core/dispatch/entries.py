"""Makes the dispatcher's journal entries about commands. Pure: writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from core.approvals.models import Approval
from core.audit.entries import NewEntry
from core.audit.events import (
    CommandDecided,
    CommandEvent,
    CommandPrepared,
    CommandRefused,
    CommandSent,
    IntentRecorded,
    ResultRecorded,
)
from core.canonical_json import Encoded
from core.commands.request import CommandRequest, Purpose
from core.commands.results import NOT_WRITTEN, Basis, CommandResult
from core.dispatch.command import DispatchedCommand
from core.policy.models import Decision
from core.statements import ApprovalProof, Request

# Characters or members above which `sketch` states an argument's size.
_LARGE = 4_096
# Outcomes that the service concluded without a device's answer.
NO_PARTS: Mapping[str, Encoded] = MappingProxyType({})
_WITHOUT_ITS_WORD = frozenset({Basis.NO_ANSWER, Basis.UNUSABLE_ANSWER, Basis.NOTHING_SENT})


def command_entry(
    request: CommandRequest,
    event: CommandEvent,
    actor: str,
    parts: Mapping[str, Encoded] = NO_PARTS,
    **more: Any,
) -> NewEntry:
    """The entry of an event of a request's command; `more` are further fields of `NewEntry`.

    `parts` are values of its body that are encoded already, in place of the event's.
    """
    body = {**event.body(), **parts}
    return NewEntry(
        kind=event.kind,
        actor=actor,
        run=request.run,
        step=request.step,
        device=request.device,
        call_id=request.call_id,
        tool=request.tool,
        # Lets queries exclude the constant entries of a live device wall.
        body={**body, "glimpse": True} if request.purpose is Purpose.LIVE_VIEW else body,
        **more,
    )


def prepared_entry(command: DispatchedCommand) -> NewEntry:
    """The entry that a command was bound to a contract; it is redacted."""
    request, shown = command.request, command.shown
    event = CommandPrepared(
        digest=shown.digest,
        contract=shown.contract,
        tool_key=shown.tool_key,
        tool_type=shown.tool_type,
        namespace=shown.namespace,
        parameters={},
        said=request.said,
        evidence_for=request.evidence_for,
    )
    return command_entry(request, event, request.actor, {"parameters": command.call.shown_json})


def asked_and_sent_entry(command: DispatchedCommand, decision: Decision) -> NewEntry:
    """The one entry of a command that is sent without more ado: its request and the decision with it."""
    request, shown, device = command.request, command.shown, command.target.device
    event = CommandSent(
        digest=shown.digest,
        contract=shown.contract,
        tool_key=shown.tool_key,
        tool_type=shown.tool_type,
        namespace=shown.namespace,
        said=request.said,
        evidence_for=request.evidence_for,
        tags=device.tags,
        production=device.production,
    )
    parts = {"parameters": command.call.shown_json, "decision": decision.encoded}
    return command_entry(request, event, request.actor, parts)


def decided_entry(command: DispatchedCommand, decision: Decision) -> NewEntry:
    """The entry with the policy's decision, and the device facts behind it that no other entry has."""
    device = command.target.device
    event = CommandDecided(decision={}, tags=device.tags, production=device.production)
    return command_entry(command.request, event, "policy", {"decision": decision.encoded})


def intent_entry(command: DispatchedCommand) -> NewEntry:
    """The entry that a command is about to be sent."""
    intent = IntentRecorded(digest=command.shown.digest, contract=command.shown.contract)
    return command_entry(command.request, intent, "service")


def sent_entry(command: DispatchedCommand) -> NewEntry:
    """The entry that a command is sent whose request and decision have entries of their own."""
    sent = CommandSent(digest=command.shown.digest, contract=command.shown.contract)
    return command_entry(command.request, sent, "service")


def refused_entry(command: DispatchedCommand, result: CommandResult) -> NewEntry:
    """The entry that a command ended before it was sent, perhaps before it was bound."""
    request = command.request
    event = CommandRefused(
        result=result.model_dump(mode="json", exclude=set(NOT_WRITTEN)),
        parameters=command.shown.parameters if command.is_bound else sketch(request.parameters),
    )
    return command_entry(
        request,
        event,
        "policy" if command.is_bound else request.actor,
        status=result.status.value,
        verdict=result.verdict.value,
        blobs=[evidence.blob for evidence in result.evidence],
    )


def approval_proof(command: DispatchedCommand, approval: Approval | None) -> dict[str, Any] | None:
    """The proof for a command: operators' signatures for the device to check; None without an approval."""
    if approval is None:
        return None
    shown, openings = command.shown, command.arguments.openings
    proof = ApprovalProof(
        statements=[signed for signed in approval.signed if signed.statement.verdict == "approve"],
        contract=shown.contract,
        tool_key=shown.tool_key,
        namespace=shown.namespace,
        facts=command.tool.contract.facts(),
        secrets=list(openings),
    )
    # Earlier device clients do not know the field `secrets`, and accept a proof without it.
    return proof.model_dump(mode="json", exclude=None if openings else {"secrets"})


def outcome_entry(command: DispatchedCommand, result: CommandResult) -> NewEntry:
    """The entry with the outcome of a command that was sent."""
    return command_entry(
        command.request,
        ResultRecorded(result=_written(result)),
        "service" if result.basis in _WITHOUT_ITS_WORD else f"device:{result.device}",
        status=result.status.value,
        verdict=result.verdict.value,
        duration_ms=result.duration_ms,
        blobs=[evidence.blob for evidence in result.evidence],
    )


def _written(result: CommandResult) -> dict[str, Any]:
    """The result as `model_dump` makes it, but with the device's value itself, which is JSON data already."""
    return {
        "call_id": result.call_id,
        "device": result.device,
        "tool_name": result.tool_name,
        "status": result.status.value,
        "verdict": result.verdict.value,
        "basis": result.basis.value,
        "error": result.error.model_dump(mode="json") if result.error else None,
        "result": result.result,
        "namespace": result.namespace,
        "duration_ms": result.duration_ms,
        "evidence": [evidence.model_dump(mode="json") for evidence in result.evidence],
        "note": result.note,
    }


def unbound(request: CommandRequest) -> Request:
    """A `Request` for the record of a command that could not be bound to a contract; it has no digest."""
    return Request(
        device=request.device,
        contract="",
        tool_key="",
        tool_name=request.tool,
        tool_type="action",
        parameters={},
        call_id=request.call_id,
        digest="",
    )


def sketch(parameters: Any) -> dict[str, Any]:
    """Only names and types of unchecked arguments, which may be huge, secret, or not JSON.

    An argument's length is stated only if it is too large: the length of a password would be a hint.
    """
    if not isinstance(parameters, dict):
        return {}
    return {str(key)[:100]: _kind(value) for key, value in list(parameters.items())[:50]}


def _kind(value: Any) -> str:
    kind = type(value).__name__
    large = isinstance(value, str | list | dict) and len(value) > _LARGE
    return f"{kind}, {len(value):,} long" if large else kind
