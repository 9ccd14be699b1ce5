"""The governed dispatcher: the only way from a wish to a device. Nine stages, the same for every command.

    prepare → validate → harden → decide → approve → record intent → send → observe → record outcome

A stage that fails ends the way there: journalled, with its own error code, and nothing is sent.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from core.aip.messages import Result
from core.audit.entries import Kind, NewEntry
from core.dispatch.channel import BasicCommandDispatcher
from core.dispatch.entries import (
    decided_entry,
    entry_of,
    outcome_entry,
    prepared_entry,
    refused_entry,
    unbound,
)
from core.dispatch.harden import check_size, harden
from core.dispatch.late import LateRecorder
from core.dispatch.models import CommandResult
from core.dispatch.observe import UnusableAnswer, take_evidence
from core.dispatch.order import Devices, OnStage, Order, Prepared, Recorder, Stage, Target
from core.dispatch.outcome import conclude, not_answered, not_sent, unusable
from core.dispatch.permit import Gate, Permit, PermitMint, PermittedCommand
from core.dispatch.secrets import Masker
from core.errors import BadInput, DeviceError, ErrorCode, JournalUnavailable, QuarterdeckError, Refused
from core.ids import new_id
from core.policy.approvals import ApprovalQueue
from core.policy.models import Answer, ApprovalState, Decision
from core.policy.policy import Policy
from core.policy.requests import make_request
from core.schema_forms.validate import validate_arguments
from core.tasks import TaskGroupOwner

DEFAULT_TIMEOUT = 60.0
# A tool that limits itself gets a little longer than its own limit, so that its answer still counts.
GRACE = 10.0
MOST_TIMEOUT = 86_400.0


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

    def masked(self, devices: list[str], tool: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Arguments as they may be written and shown: secret by name, or by any of the devices' schemas."""
        masked = self._masker.mask(parameters, {})
        for device in devices:
            known = self._devices.target(device).tools.get(tool)
            if known is not None:
                masked = self._masker.mask(masked, known.input_schema)
        return masked

    async def dispatch(self, order: Order, on_stage: OnStage = lambda stage, approval: None) -> CommandResult:
        """Carry one command the whole way. Every end is a result, journalled; errors are in it."""
        started = time.perf_counter()
        prepared: Prepared | None = None
        decision: Decision | None = None
        try:
            self._check_wanted(order)
            prepared = self._prepare(order)
            self._validate(prepared)
            self._harden(prepared)
            prepared.held.append(prepared_entry(prepared))
            decision = self._decide(prepared)
            prepared.held.append(decided_entry(prepared, decision))
            await self._approve(prepared, decision, on_stage)
            permit = await self._record_intent(prepared)
        except QuarterdeckError as error:
            return self._refuse(order, prepared, decision, error, started)
        on_stage(Stage.RUNNING, "")
        result = await self._send(prepared, decision, permit)
        self._record_outcome(prepared, result)
        return result

    # Stage 1
    def _prepare(self, order: Order) -> Prepared:
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
        return Prepared(order, target, tool, request, shown)

    # Stage 2
    def _validate(self, prepared: Prepared) -> None:
        errors = validate_arguments(prepared.tool.input_schema, prepared.order.parameters)
        if errors:
            raise BadInput("; ".join(error.message for error in errors[:5]))

    # Stage 3
    def _harden(self, prepared: Prepared) -> None:
        harden(prepared.tool, prepared.order.parameters, prepared.target.roots)

    # Stage 4
    def _decide(self, prepared: Prepared) -> Decision:
        shown_or_sent = prepared.shown.parameters
        return self._policy.decide(prepared.target.device, prepared.tool, shown_or_sent)

    # Stage 5
    async def _approve(self, prepared: Prepared, decision: Decision, on_stage: OnStage) -> None:
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
    async def _record_intent(self, prepared: Prepared) -> Permit:
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
    async def _send(self, prepared: Prepared, decision: Decision, permit: Permit) -> CommandResult:
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
        self, prepared: Prepared, decision: Decision, answer: Result, started: float
    ) -> CommandResult:
        took = _ms(started)
        request = prepared.request
        try:
            clean, evidence = await take_evidence(answer.result, self._journal)
        except UnusableAnswer as error:
            return unusable(request, decision, error, error.evidence, took)
        return conclude(request, decision, answer, clean, evidence, took)

    def _unanswered(
        self, prepared: Prepared, decision: Decision, error: QuarterdeckError, started: float
    ) -> CommandResult:
        request = prepared.request
        if error.code is ErrorCode.BAD_RESULT:
            return unusable(request, decision, error, [], _ms(started))
        never_left = (Refused, BadInput, JournalUnavailable)
        if isinstance(error, never_left) or error.code is ErrorCode.DEVICE_OFFLINE:
            return not_sent(request, decision, error, _ms(started))
        return not_answered(request, decision, error, _ms(started))

    # Stage 9
    def _record_outcome(self, prepared: Prepared, result: CommandResult) -> None:
        prepared.held.append(outcome_entry(prepared, result))
        try:
            self._write(prepared)
        except JournalUnavailable:
            # It happened, so it must be written: the outcome waits for the disk, and nothing new leaves.
            self._late.add(prepared.held)

    def _refuse(
        self,
        order: Order,
        prepared: Prepared | None,
        decision: Decision | None,
        error: QuarterdeckError,
        started: float,
    ) -> CommandResult:
        request = prepared.shown if prepared else unbound(order)
        result = not_sent(request, decision, error, _ms(started))
        entry = refused_entry(order, prepared, result)
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

    def _check_still_bound(self, prepared: Prepared) -> None:
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

    def _hold(self, prepared: Prepared, kind: Kind, body: dict[str, Any], actor: str) -> None:
        prepared.held.append(entry_of(prepared.order, kind, body, actor))

    def _write(self, prepared: Prepared) -> None:
        """Hand what is held to the journal in one piece; it stays held when that fails."""
        self._journal.note_all(prepared.held)
        prepared.held.clear()


def _offline(device: str) -> DeviceError:
    return DeviceError(f"{device} went offline before it was sent.", ErrorCode.DEVICE_OFFLINE)


def _ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def _unknown_tool(order: Order, target: Target) -> str:
    import difflib

    near = difflib.get_close_matches(order.tool, target.tools, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{order.device} has no tool {order.tool!r}.{hint}"
