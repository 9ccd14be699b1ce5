"""The governed dispatcher: the only way from a wish to a device. Nine stages, the same for every command.

    prepare → validate → harden → decide → approve → record intent → send → observe → record outcome

A stage that fails ends the way there: journalled, with its own error code, and nothing is sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from core.aip.messages import Result
from core.audit.entries import Entry, Kind, NewEntry
from core.dispatch.channel import BasicCommandDispatcher
from core.dispatch.harden import check_size, harden
from core.dispatch.late import LateRecorder
from core.dispatch.models import CommandResult, Verdict
from core.dispatch.observe import UnusableAnswer, take_evidence
from core.dispatch.outcome import conclude, not_answered, not_sent, unusable
from core.dispatch.permit import Gate, Permit, PermitMint, PermittedCommand
from core.dispatch.secrets import Masker
from core.errors import BadInput, DeviceError, ErrorCode, JournalUnavailable, QuarterdeckError, Refused
from core.fleet.models import Device, Tool
from core.ids import new_id
from core.policy.approvals import ApprovalQueue
from core.policy.models import Answer, ApprovalState, Decision, Request
from core.policy.policy import Policy
from core.policy.requests import make_request
from core.schema_forms.validate import validate_arguments
from core.tasks import TaskGroupOwner

DEFAULT_TIMEOUT = 60.0
# A tool that limits itself gets a little longer than its own limit, so that its answer still counts.
GRACE = 10.0
MOST_TIMEOUT = 86_400.0


class Stage(StrEnum):
    """What whoever ordered a command is told while it is on its way."""

    WAITING = "waiting"
    RUNNING = "running"


OnStage = Callable[[Stage, str], None]


@dataclass(frozen=True, slots=True)
class Order:
    """A wish for one call. `said` is what the asker says about it: kept and quoted, never judged.

    `cancelled` is asked until the command has left: once it says yes, nothing of this order is sent.
    """

    device: str
    tool: str
    parameters: dict[str, Any]
    actor: str
    run: str | None = None
    step: str | None = None
    timeout: float | None = None
    said: str = ""
    call_id: str = field(default_factory=new_id)
    cancelled: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Target:
    """A device at one moment. `roots`: its allowed folders, where we share its disk."""

    device: Device
    tools: dict[str, Tool]
    channel: BasicCommandDispatcher | None
    roots: list[Path] | None


class Devices(Protocol):
    """The fleet, as far as the dispatcher needs it."""

    def target(self, device: str) -> Target:
        """The device as it is now; `BadInput` (`unknown_device`) when there is none of that name."""
        ...

    def began(self, device: str, call_id: str, what: str) -> None: ...
    def ended(self, device: str, call_id: str, result: CommandResult) -> None: ...


class Recorder(Protocol):
    """The journal, as far as the dispatcher needs it."""

    async def append_many(self, entries: list[NewEntry]) -> list[Entry]: ...
    def note_all(self, entries: list[NewEntry]) -> None: ...
    async def put_blob(self, data: bytes) -> str: ...


@dataclass(frozen=True, slots=True)
class _Prepared:
    order: Order
    target: Target
    tool: Tool
    request: Request
    shown: Request
    # Entries of stages that have passed and may share one write with the next: at the latest they are
    # written when the command is asked about, refused, or leaves.
    held: list[NewEntry] = field(default_factory=list)


class Dispatcher:
    """Carries commands through the nine stages. It knows no window, no socket and no file."""

    def __init__(
        self,
        *,
        devices: Devices,
        policy: Policy,
        approvals: ApprovalQueue,
        journal: Recorder,
        masker: Masker,
        tasks: TaskGroupOwner,
    ) -> None:
        self._devices = devices
        self._policy = policy
        self._approvals = approvals
        self._journal = journal
        self._masker = masker
        self._mint = PermitMint()
        self._stopped = ""
        self._late = LateRecorder(journal, tasks)
        self._running: dict[str, BasicCommandDispatcher] = {}

    @property
    def gate(self) -> Gate:
        """What a channel is given, so that it can demand permits."""
        return self._mint

    @property
    def stopped(self) -> str:
        """Why nothing leaves, or an empty string."""
        return self._stopped

    @property
    def in_flight(self) -> list[str]:
        """The calls that a device has and has not answered."""
        return list(self._running)

    def stop(self, why: str) -> None:
        """Let nothing leave from now on: no permit is minted or redeemed until `resume`."""
        self._stopped = why
        self._mint.halt(True)

    def resume(self) -> None:
        """Let commands leave again."""
        self._stopped = ""
        self._mint.halt(False)

    def keep(self, entries: list[NewEntry]) -> None:
        """Keep what has happened but could not be recorded; it is recorded as soon as it can be."""
        self._late.add(entries)

    async def record_late(self) -> bool:
        """Record now what could not be recorded when it happened; whether nothing is left of it."""
        return await self._late.flush()

    async def cancel(self, call_id: str) -> bool:
        """Ask the device to cancel a command it has; False when it cannot be asked."""
        channel = self._running.get(call_id)
        return await channel.cancel(call_id) if channel is not None else False

    def explain(self, device: str, tool: str, parameters: dict[str, Any]) -> Decision:
        """What stages 1 to 4 say of a call. Nothing is recorded and nothing is sent.

        Raises:
            BadInput: as the stages would refuse it.
        """
        prepared = self._prepare(Order(device, tool, parameters, actor="nobody"))
        self._validate(prepared)
        self._harden(prepared)
        return self._decide(prepared)

    async def dispatch(self, order: Order, on_stage: OnStage = lambda stage, approval: None) -> CommandResult:
        """Carry one command the whole way. Every end is a result, journalled; errors are in it."""
        started = time.perf_counter()
        prepared: _Prepared | None = None
        decision: Decision | None = None
        try:
            self._check_wanted(order)
            prepared = self._prepare(order)
            self._validate(prepared)
            self._harden(prepared)
            self._hold_prepared(prepared)
            decision = self._decide(prepared)
            self._hold_decided(prepared, decision)
            await self._approve(prepared, decision, on_stage)
            permit = await self._record_intent(prepared)
        except QuarterdeckError as error:
            return self._refuse(order, prepared, decision, error, started)
        on_stage(Stage.RUNNING, "")
        result = await self._send(prepared, decision, permit)
        self._record_outcome(prepared, result)
        return result

    # Stage 1
    def _prepare(self, order: Order) -> _Prepared:
        check_size(order.parameters)
        target = self._devices.target(order.device)
        tool = target.tools.get(order.tool)
        if tool is None and target.channel is None:
            raise DeviceError(
                f"{order.device} is {target.device.health.value}: {target.device.reason or 'not connected'}.",
                ErrorCode.DEVICE_OFFLINE,
            )
        if tool is None:
            raise BadInput(_unknown_tool(order, target), ErrorCode.UNKNOWN_TOOL)
        if tool.changed:
            raise Refused(
                f"{tool.tool_name} on {order.device} changed its definition since it was trusted.",
                ErrorCode.CONTRACT_CHANGED,
            )
        request = make_request(
            device=order.device,
            contract=tool.contract.digest,
            tool_key=tool.tool_key,
            tool_name=tool.tool_name,
            tool_type=tool.tool_type,
            namespace=tool.namespace,
            parameters=order.parameters,
            call_id=order.call_id,
        )
        masked = self._masker.mask(order.parameters, tool.input_schema)
        shown = request.model_copy(update={"parameters": masked})
        return _Prepared(order, target, tool, request, shown)

    # Stage 2
    def _validate(self, prepared: _Prepared) -> None:
        errors = validate_arguments(prepared.tool.input_schema, prepared.order.parameters)
        if errors:
            raise BadInput("; ".join(error.message for error in errors[:5]))

    # Stage 3
    def _harden(self, prepared: _Prepared) -> None:
        harden(prepared.tool, prepared.order.parameters, prepared.target.roots)

    # Stage 4
    def _decide(self, prepared: _Prepared) -> Decision:
        shown_or_sent = prepared.shown.parameters
        return self._policy.decide(prepared.target.device, prepared.tool, shown_or_sent)

    # Stage 5
    async def _approve(self, prepared: _Prepared, decision: Decision, on_stage: OnStage) -> None:
        if decision.answer is Answer.DENY:
            raise Refused(decision.reasons[0].text + ".")
        if decision.answer is Answer.ALLOW:
            return
        approval_id = f"a-{new_id()}"
        body = {"approval": approval_id, "digest": prepared.request.digest}
        self._hold(prepared, Kind.APPROVAL_REQUESTED, body, prepared.order.actor)
        self._write(prepared)
        on_stage(Stage.WAITING, approval_id)
        order = prepared.order
        answered = await self._approvals.ask(
            approval_id,
            prepared.shown,
            decision,
            actor=order.actor,
            run=order.run,
            step=order.step,
            production=prepared.target.device.production,
            said=order.said,
        )
        if answered.state is ApprovalState.APPROVED:
            return
        if answered.state is ApprovalState.DENIED:
            why = f": {answered.reason}" if answered.reason else "."
            raise Refused(f"{answered.decided_by} denied it{why}", ErrorCode.DENIED_BY_OPERATOR)
        ended = {"approval": approval_id, "state": answered.state.value, "reason": answered.reason}
        self._hold(prepared, Kind.APPROVAL_EXPIRED, ended, "service")
        if answered.state is ApprovalState.EXPIRED:
            raise Refused("Nobody answered in time; denied once.", ErrorCode.APPROVAL_EXPIRED)
        code = ErrorCode.STOPPED if self._stopped else ErrorCode.CANCELLED
        raise Refused(answered.reason or "The request was withdrawn.", code)

    # Stage 6
    async def _record_intent(self, prepared: _Prepared) -> Permit:
        self._check_wanted(prepared.order)
        self._check_still_bound(prepared)
        body = {"digest": prepared.request.digest, "contract": prepared.request.contract}
        self._hold(prepared, Kind.INTENT_RECORDED, body, "service")
        if prepared.request.tool_type == "action":
            await self._journal.append_many(prepared.held)
            prepared.held.clear()
            # The disk took its time; what was true before may not be any more.
            self._check_wanted(prepared.order)

        def leaves() -> None:
            self._check_wanted(prepared.order)
            self._hold(prepared, Kind.COMMAND_SENT, body, "service")
            self._write(prepared)

        return self._mint.mint(prepared.request, leaves)

    # Stages 7 and 8
    async def _send(self, prepared: _Prepared, decision: Decision, permit: Permit) -> CommandResult:
        request = prepared.request
        # A device that reconnected while somebody thought is reached by its new link.
        channel = self._devices.target(request.device).channel
        command = PermittedCommand(
            tool_name=request.tool_name,
            tool_type=request.tool_type,
            parameters=request.parameters,
            call_id=request.call_id,
            permit=permit,
        )
        started = time.perf_counter()
        if channel is None:
            return not_sent(request, decision, _offline(request.device), 0.0)
        self._devices.began(request.device, request.call_id, request.tool_name)
        self._running[request.call_id] = channel
        result: CommandResult | None = None
        try:
            [answer] = await channel.execute_commands([command], self._deadline(prepared.order))
            result = await self._observe(prepared, decision, answer, started)
        except QuarterdeckError as error:
            result = self._unanswered(prepared, decision, error, started)
        except asyncio.CancelledError:
            gone = QuarterdeckError("The service ended while the device had it.", ErrorCode.OUTCOME_UNKNOWN)
            result = not_answered(request, decision, gone, _ms(started))
            self._record_outcome(prepared, result)
            raise
        finally:
            self._mint.revoke(permit)
            self._running.pop(request.call_id, None)
            if result is not None:
                self._devices.ended(request.device, request.call_id, result)
        return result

    async def _observe(
        self, prepared: _Prepared, decision: Decision, answer: Result, started: float
    ) -> CommandResult:
        took = _ms(started)
        request = prepared.request
        try:
            clean, evidence = await take_evidence(answer.result, self._journal)
        except UnusableAnswer as error:
            return unusable(request, decision, error, error.evidence, took)
        return conclude(request, decision, answer, clean, evidence, took)

    def _unanswered(
        self, prepared: _Prepared, decision: Decision, error: QuarterdeckError, started: float
    ) -> CommandResult:
        request = prepared.request
        if error.code is ErrorCode.BAD_RESULT:
            return unusable(request, decision, error, [], _ms(started))
        never_left = (Refused, BadInput, JournalUnavailable)
        if isinstance(error, never_left) or error.code is ErrorCode.DEVICE_OFFLINE:
            return not_sent(request, decision, error, _ms(started))
        return not_answered(request, decision, error, _ms(started))

    # Stage 9
    def _record_outcome(self, prepared: _Prepared, result: CommandResult) -> None:
        entry = self._entry(
            prepared,
            Kind.RESULT_RECORDED,
            {"result": result.model_dump(mode="json", exclude={"decision"})},
            f"device:{result.device}" if result.verdict is not Verdict.UNKNOWN else "service",
        ).model_copy(
            update={
                "status": result.status.value,
                "verdict": result.verdict.value,
                "duration_ms": result.duration_ms,
                "blobs": [one.blob for one in result.evidence],
            }
        )
        prepared.held.append(entry)
        try:
            self._write(prepared)
        except JournalUnavailable:
            # It happened, so it must be written: the outcome waits for the disk, and nothing new leaves.
            self._late.add(prepared.held)

    def _refuse(
        self,
        order: Order,
        prepared: _Prepared | None,
        decision: Decision | None,
        error: QuarterdeckError,
        started: float,
    ) -> CommandResult:
        request = prepared.shown if prepared else _unbound(order)
        result = not_sent(request, decision, error, _ms(started))
        entry = NewEntry(
            kind=Kind.COMMAND_REFUSED,
            actor=order.actor if prepared is None else "policy",
            run=order.run,
            step=order.step,
            device=order.device,
            call_id=order.call_id,
            tool=order.tool,
            status=result.status.value,
            verdict=result.verdict.value,
            body={
                "result": result.model_dump(mode="json", exclude={"decision"}),
                "parameters": prepared.shown.parameters if prepared else _sketch(order.parameters),
            },
        )
        try:
            self._journal.note_all([*(prepared.held if prepared else []), entry])
        except JournalUnavailable as unavailable:
            return not_sent(request, decision, unavailable, _ms(started))
        return result

    def _check_wanted(self, order: Order) -> None:
        if self._stopped:
            raise Refused(self._stopped, ErrorCode.STOPPED)
        if order.cancelled():
            raise Refused("It was cancelled before it was sent.", ErrorCode.CANCELLED)

    def _check_still_bound(self, prepared: _Prepared) -> None:
        """While people think, devices come and go: the tool must still be the one that was judged."""
        now = self._devices.target(prepared.order.device)
        tool = now.tools.get(prepared.order.tool)
        if now.channel is None:
            raise _offline(prepared.order.device)
        if tool is None or tool.changed or tool.contract.digest != prepared.request.contract:
            raise Refused(
                f"{prepared.request.tool_name} changed between the decision and the sending.",
                ErrorCode.CONTRACT_CHANGED,
            )

    def _deadline(self, order: Order) -> float:
        own = order.parameters.get("timeout")
        if order.timeout is not None:
            return min(order.timeout, MOST_TIMEOUT)
        if isinstance(own, (int, float)) and not isinstance(own, bool) and own > 0:
            return min(float(own) + GRACE, MOST_TIMEOUT)
        return DEFAULT_TIMEOUT

    def _hold_prepared(self, prepared: _Prepared) -> None:
        request = prepared.shown
        body = {
            "digest": request.digest,
            "contract": request.contract,
            "tool_key": request.tool_key,
            "tool_type": request.tool_type,
            "namespace": request.namespace,
            "parameters": request.parameters,
            "said": prepared.order.said,
        }
        self._hold(prepared, Kind.COMMAND_PREPARED, body, prepared.order.actor)

    def _hold_decided(self, prepared: _Prepared, decision: Decision) -> None:
        body = {"decision": decision.model_dump(mode="json")}
        self._hold(prepared, Kind.COMMAND_DECIDED, body, "policy")

    def _hold(self, prepared: _Prepared, kind: Kind, body: dict[str, Any], actor: str) -> None:
        prepared.held.append(self._entry(prepared, kind, body, actor))

    def _write(self, prepared: _Prepared) -> None:
        """Hand what is held to the journal in one piece; it stays held when that fails."""
        self._journal.note_all(prepared.held)
        prepared.held.clear()

    def _entry(self, prepared: _Prepared, kind: Kind, body: dict[str, Any], actor: str) -> NewEntry:
        order = prepared.order
        return NewEntry(
            kind=kind,
            actor=actor,
            run=order.run,
            step=order.step,
            device=order.device,
            call_id=order.call_id,
            tool=order.tool,
            body=body,
        )


def _offline(device: str) -> DeviceError:
    return DeviceError(f"{device} went offline before it was sent.", ErrorCode.DEVICE_OFFLINE)


def _ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _unknown_tool(order: Order, target: Target) -> str:
    import difflib

    near = difflib.get_close_matches(order.tool, target.tools, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{order.device} has no tool {order.tool!r}.{hint}"


def _unbound(order: Order) -> Request:
    """A request for the record of a command that could not be bound to a contract; it has no digest."""
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


def _sketch(parameters: dict[str, Any]) -> dict[str, Any]:
    """Only names and sizes of arguments that were never checked: they may be huge, secret, or not JSON."""
    return {
        str(key)[:100]: f"{type(value).__name__}, {len(value):,} long"
        if isinstance(value, (str, list, dict))
        else type(value).__name__
        for key, value in list(parameters.items())[:50]
    }
