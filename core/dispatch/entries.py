"""Makes the dispatcher's journal entries about commands. Pure: writes nothing."""

from __future__ import annotations

from typing import Any

from core.approvals.models import Approval
from core.audit.entries import Kind, NewEntry, PlainEntry
from core.audit.events import CommandDecided, CommandEvent, CommandPrepared, CommandRefused, ResultRecorded
from core.canonical_json import float_prints_alike, is_plain
from core.dispatch.command_request import Bound, CommandRequest, Prepared
from core.dispatch.models import NOT_WRITTEN, Basis, CommandResult
from core.errors import BadInput
from core.policy.models import Decision
from core.quick import made
from core.statements import Request, SignedLeave

# Characters or members above which `sketch` states an argument's size.
_LARGE = 4_096
# Outcomes that the service concluded without a device's answer.
_WITHOUT_ITS_WORD = frozenset({Basis.NO_ANSWER, Basis.UNUSABLE_ANSWER, Basis.NOTHING_SENT})


def entry_of(
    order: CommandRequest, kind: Kind, body: dict[str, Any], actor: str, *, plain: bool = False, **more: Any
) -> NewEntry:
    """An entry about an order, with its run, step and device; `more` are further fields of `NewEntry`.

    `plain`: the body is known to be plain (`core.canonical_json.is_plain`), so that it is not walked.
    """
    # Built without validation: there are five entries for each command, from data that was already checked.
    fields: dict[str, Any] = {
        "kind": kind,
        "actor": actor,
        "run": order.run,
        "step": order.step,
        "device": order.device,
        "call_id": order.call_id,
        "tool": order.tool,
        # Lets queries exclude the constant entries of a live device wall.
        "body": {**body, "glimpse": True} if order.glimpse else body,
        "status": None,
        "verdict": None,
        "duration_ms": None,
        "blobs": [],
    }
    if more:
        fields.update(more)
    return made(PlainEntry if plain else NewEntry, fields)


def command_entry(
    order: CommandRequest, event: CommandEvent, actor: str, *, plain: bool = False, **more: Any
) -> NewEntry:
    """The entry of an event of an order's command; see `entry_of`."""
    return entry_of(order, event.kind, event.body(), actor, plain=plain, **more)


def prepared_entry(prepared: Prepared) -> NewEntry:
    """The entry that a command was bound to a contract; it is redacted."""
    order, request = prepared.order, prepared.request
    event = CommandPrepared(
        digest=request.digest,
        contract=request.contract,
        tool_key=request.tool_key,
        tool_type=request.tool_type,
        namespace=request.namespace,
        parameters=request.parameters,
        said=order.said,
        evidence_for=order.evidence_for,
    )
    return command_entry(order, event, order.actor, plain=prepared.arguments.is_plain)


def decided_entry(prepared: Prepared, decision: Decision) -> NewEntry:
    """The entry with the policy's decision, and the device facts behind it that no other entry has."""
    device = prepared.target.device
    event = CommandDecided(decision=_written(decision), tags=device.tags, production=device.production)
    # `expires_s` is the only float of a decision; all else is strings, integers, lists and fixed names.
    plain = decision.expires_s is None
    return command_entry(prepared.order, event, "policy", plain=plain)


_last_written: tuple[Decision | None, dict[str, Any]] = (None, {})


def _written(decision: Decision) -> dict[str, Any]:
    """A decision as JSON. All commands of a run share one decision object, so the last dump is cached."""
    global _last_written
    # Read the pair once: another thread may replace it.
    last, fields = _last_written
    if last is not decision:
        fields = decision.model_dump(mode="json")
        _last_written = (decision, fields)
    return fields


def refused_entry(order: CommandRequest, bound: Bound | None, result: CommandResult) -> NewEntry:
    """The entry that a command ended before it was sent; `bound` is None if it could not be bound."""
    event = CommandRefused(
        result=result.model_dump(mode="json", exclude=set(NOT_WRITTEN)),
        parameters=bound.request.parameters if bound else sketch(order.parameters),
    )
    return command_entry(
        order,
        event,
        order.actor if bound is None else "policy",
        status=result.status.value,
        verdict=result.verdict.value,
        blobs=[evidence.blob for evidence in result.evidence],
    )


def leave_of(prepared: Prepared, approval: Approval | None) -> dict[str, Any] | None:
    """The proof for a command: operators' signatures for the device to check; None without an approval."""
    if approval is None:
        return None
    request, arguments = prepared.request, prepared.arguments
    signed = [answer for answer in approval.signed if answer.statement.verdict == "approve"]
    leave = SignedLeave(
        statements=signed,
        contract=request.contract,
        tool_key=request.tool_key,
        namespace=request.namespace,
        facts=prepared.tool.contract.facts(),
        secrets=list(arguments.openings),
    )
    # Earlier device clients do not know the field `secrets`, and accept a proof without it.
    return leave.model_dump(mode="json", exclude=None if arguments.openings else {"secrets"})


def outcome_entry(prepared: Prepared, result: CommandResult) -> NewEntry:
    """The entry with the outcome of a command that was sent."""
    written, plain = result_written(result)
    return command_entry(
        prepared.order,
        ResultRecorded(result=written),
        "service" if result.basis in _WITHOUT_ITS_WORD else f"device:{result.device}",
        plain=plain,
        status=written["status"],
        verdict=written["verdict"],
        duration_ms=result.duration_ms,
        blobs=[evidence.blob for evidence in result.evidence],
    )


def result_written(result: CommandResult) -> tuple[dict[str, Any], bool]:
    """A result as JSON, without `NOT_WRITTEN`, and whether it is known to be plain."""
    if result.error is None and not result.evidence and _is_plain_result(result):
        # The common case: the content is JSON already, so it is walked once instead of twice.
        written = {
            **result.__dict__,
            "status": result.status.value,
            "verdict": result.verdict.value,
            "basis": result.basis.value,
        }
        for name in NOT_WRITTEN:
            del written[name]
        return written, True
    return result.model_dump(mode="json", exclude=set(NOT_WRITTEN)), False


def _is_plain_result(result: CommandResult) -> bool:
    try:
        return float_prints_alike(result.duration_ms) and is_plain(result.result)
    except BadInput:
        # The journal reports the error when it encodes the entry.
        return False


def unbound(order: CommandRequest) -> Request:
    """A `Request` for the record of a command that could not be bound to a contract; it has no digest."""
    return Request(
        device=order.device,
        contract="",
        tool_key="",
        tool_name=order.tool,
        tool_type="action",
        parameters={},
        call_id=order.call_id,
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
