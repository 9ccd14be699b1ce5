"""The governed dispatcher: the only path from a request to a device. Every command passes nine stages.

    prepare → validate → harden → decide → approve → record intent → send → observe → record outcome

A command ends at the first stage that fails; if that is before stage 7, nothing is sent. Every end is
journalled with its own error code.
"""

from __future__ import annotations

import asyncio
import copy
import time
from dataclasses import replace
from typing import Any

from core.aip.extensions import FEATURE_BINARY
from core.aip.messages import Result
from core.approvals.models import Approval
from core.approvals.queue import ApprovalQueue
from core.audit.entries import Kind, NewEntry
from core.dispatch.approval_stage import MOST_EDITS, ApprovalStage, Edited, as_ordered, check_still_allowed
from core.dispatch.argument_checks import Roots, check_form, check_roots, may_have_paths
from core.dispatch.arguments import CheckedArguments, RedactedArguments
from core.dispatch.channel import BasicCommandDispatcher
from core.dispatch.command_request import Bound, CommandRequest, Devices, OnStage, Prepared, Recorder, Stage
from core.dispatch.deadline import deadline_of, is_stock
from core.dispatch.entries import (
    decided_entry,
    entry_of,
    leave_of,
    outcome_entry,
    prepared_entry,
    refused_entry,
    sketch,
    unbound,
)
from core.dispatch.evidence import EvidenceTaker, StaleTargetError
from core.dispatch.late import PendingWrites
from core.dispatch.live_secrets import LiveSecrets, Redaction, secrets_in, texts_in
from core.dispatch.models import Basis, CommandResult, CommandStage
from core.dispatch.outcome import conclude, failure_in, not_answered, not_sent, unusable
from core.dispatch.own_screen import check_own_screen
from core.dispatch.permit import Gate, Permit, PermitMint, PermittedCommand
from core.dispatch.preparing import bind, check_bound, gone_offline, prepare, tool_of
from core.dispatch.redaction import Redactor
from core.dispatch.result_sanitizer import UnusableAnswer, take_evidence
from core.dispatch.turn import Turn
from core.dispatch.validating import ArgumentValidator
from core.errors import BadInput, ErrorCode, JournalUnavailable, QuarterdeckError, Refused
from core.fleet.models import Effect
from core.policy.engine import PolicyQuery
from core.policy.models import Answer, Decision
from core.policy.policy_store import Explanation, Policy
from core.policy.real_paths import NOT_FOLLOWED, Leads, Links, paths_in
from core.tasks import TaskGroupOwner


class Dispatcher:
    """Carries commands through the nine stages. It depends on no window, socket or file."""

    def __init__(
        self,
        *,
        devices: Devices,
        policy: Policy,
        approvals: ApprovalQueue,
        journal: Recorder,
        masker: Redactor,
        live_secrets: LiveSecrets,
        tasks: TaskGroupOwner,
        ui_on_own_computer: bool = False,
    ) -> None:
        """`ui_on_own_computer`: allow UI commands on the screen that shows the console itself; for tests."""
        self._own_screen = ui_on_own_computer
        self._devices = devices
        self._policy = policy
        self._journal = journal
        self._masker = masker
        self._live_secrets = live_secrets
        self._mint = PermitMint()
        self.validating = ArgumentValidator(devices, masker)
        self._links = Links()
        self._stopped = ""
        self._turn: Turn | None = None
        self._approving = ApprovalStage(approvals, policy.grants, journal, lambda: self._stopped)
        self._evidence = EvidenceTaker(self.dispatch, journal)
        self._late = PendingWrites(journal, tasks)
        self._running: dict[str, BasicCommandDispatcher] = {}

    @property
    def gate(self) -> Gate:
        """The permit gate that channels use to demand a permit for each command."""
        return self._mint

    @property
    def stopped(self) -> str:
        """Why dispatch is stopped; an empty string while it is not."""
        return self._stopped

    @property
    def in_flight(self) -> list[str]:
        """The ids of calls that were sent to a device and are not answered yet."""
        return list(self._running)

    def stop(self, why: str) -> None:
        """Stop sending: no permit is minted or redeemed until `resume`."""
        self._stopped = why
        self._mint.halt(True)

    def resume(self) -> None:
        """Allow commands to be sent again."""
        self._stopped = ""
        self._mint.halt(False)

    def keep(self, entries: list[NewEntry]) -> None:
        """Queue entries that the journal could not take; they are recorded as soon as it can."""
        self._late.add(entries)

    async def record_late(self) -> bool:
        """Try now to record the queued entries; returns whether none is left."""
        return await self._late.flush()

    async def cancel(self, call_id: str) -> bool:
        """Ask the device to cancel a running command; False when the device cannot be asked."""
        channel = self._running.get(call_id)
        return await channel.cancel(call_id) if channel is not None else False

    async def look_ahead(self, devices: list[str], tool: str, parameters: dict[str, Any]) -> Leads:
        """Fetch what `explain` needs for these calls; returns where their paths lead, for its `leads`.

        Raises:
            BadInput: there is no such device.
            Refused: a disk of this computer on which the paths lie does not respond.
        """
        filled = await self.validating.look_ahead(devices, tool, parameters)
        shares = any(self._devices.target(device).shares_disk for device in devices)
        return await self._follow({"each": filled or [parameters]}) if shares else Leads()

    def explain(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        actor: str = "operator:nobody",
        leads: Leads = NOT_FOLLOWED,
    ) -> Decision:
        """The decision of stages 1 to 4 about a call. Nothing is recorded and nothing is sent.

        `leads`: the result of `look_ahead`; a path that is not in it counts against the call.

        Raises:
            BadInput: the error with which the stages would refuse the call.
        """
        return self._policy.decide(self._explained(device, tool, parameters, actor, leads))

    def explanation(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        actor: str = "operator:nobody",
        leads: Leads = NOT_FOLLOWED,
    ) -> Explanation:
        """The decision as in `explain`, with the rules and grants that nearly applied.

        Raises:
            BadInput: the error with which the stages would refuse the call.
        """
        return self._policy.explain(self._explained(device, tool, parameters, actor, leads))

    def _explained(
        self, device: str, tool: str, parameters: dict[str, Any], actor: str, leads: Leads
    ) -> PolicyQuery:
        order = CommandRequest(device, tool, parameters, actor)
        target = self._devices.target(device)
        offered = tool_of(order, target)
        redacted = self.validating.redact(offered, parameters)
        bound = bind(order, target, offered, redacted)
        prepared = prepare(bound, self.validating.check_at_once(offered, redacted))
        if target.shares_disk and may_have_paths(offered, redacted.sent):
            prepared = prepared._replace(leads=leads)
        self._harden(prepared)
        return self._asked(prepared)

    async def masked(
        self, devices: list[str], tool: str, parameters: dict[str, Any], said: str = ""
    ) -> tuple[dict[str, Any], str]:
        """Arguments and the asker's text, redacted, so that both may be written and shown before dispatch.

        A value is secret if any known schema of the tool marks it: the schemas that these devices define or
        last defined, otherwise those of any device. For a tool without a known schema, and for arguments that
        no call may have, only names and types are returned.
        """
        schemas = await self._devices.schemas_of(tool, devices)
        try:
            check_form(parameters)
            if schemas:
                redacted = self._masker.redact(tool, parameters, schemas)
                return redacted.shown, self._live_secrets.everywhere(said, secrets_in(redacted))
        except BadInput:
            # Dispatching the call will refuse it and report the reason.
            pass
        return sketch(parameters), self._live_secrets.everywhere(said, texts_in(parameters))

    async def dispatch(
        self, order: CommandRequest, on_stage: OnStage = lambda stage, approval: None
    ) -> CommandResult:
        """Carry one command through all stages. Every end, errors too, is journalled and returned."""
        started = time.perf_counter()
        for _ in range(MOST_EDITS):
            try:
                return await self._once(order, on_stage, started)
            except Edited as edited:
                order = replace(
                    order,
                    parameters=edited.parameters,
                    edited_from=edited.approval,
                    operators=(*order.operators, edited.operator),
                )
            finally:
                # The caller may edit the policy and dispatch again in the same turn of the loop.
                if self._turn is not None:
                    self._turn.looked = False
        error = Refused(f"It was edited {MOST_EDITS} times; ask again.", ErrorCode.CANCELLED)
        return self._refuse(order, None, [], None, error, started, CommandStage.APPROVE)

    async def _once(self, order: CommandRequest, on_stage: OnStage, started: float) -> CommandResult:
        bound: Bound | None = None
        prepared: Prepared | None = None
        decision: Decision | None = None
        stage = CommandStage.PREPARE
        try:
            self._check_wanted(order)
            turn = self._present_turn()
            bound, arguments = self._bind(order, turn)
            stage = CommandStage.VALIDATE
            checked = await self._validate(bound, arguments)
            stage = CommandStage.HARDEN
            prepared = await self._followed(prepare(bound, checked))
            self._harden(prepared)
            prepared.held.append(prepared_entry(prepared))
            stage = CommandStage.DECIDE
            decision = self._decide(prepared, turn)
            order.on_decided(decision)
            card = self._evidence.on_card(prepared)
            # `approve` raises the denial, but the stage that failed is DECIDE.
            stage = CommandStage.DECIDE if decision.answer is Answer.DENY else CommandStage.APPROVE
            prepared, decision, approval = await self._approving.approve(
                prepared, decision, on_stage, lambda: self._judge_again(order)
            )
            stage = CommandStage.RECORD_INTENT
            await self._evidence.before(prepared, decision, approval, card)
            await self._check_still_allowed(prepared, decision, approval)
            permit = await self._record_intent(prepared, decision, turn)
        except QuarterdeckError as error:
            held = prepared.held if prepared else []
            return self._refuse(order, bound, held, decision, error, started, stage)
        on_stage(Stage.RUNNING, "")
        result = self._evidence.with_before(prepared, await self._send(prepared, decision, permit, approval))
        result = self._record_outcome(prepared, decision, result)
        self._evidence.pictures.note(order, result)
        if result.basis is Basis.NOTHING_SENT:
            return result
        result = await self._evidence.after(prepared, decision, result)
        self._write_late(prepared)
        return result

    async def _judge_again(self, order: CommandRequest) -> tuple[Prepared, Decision]:
        """Run the first four stages again for a waiting order, as for a new request.

        Raises:
            QuarterdeckError: the error with which a new request would be refused.
        """
        self._check_wanted(order)
        turn = self._present_turn()
        bound, arguments = self._bind(order, turn)
        prepared = await self._followed(prepare(bound, await self._validate(bound, arguments)))
        self._harden(prepared)
        self._check_wanted(order)
        if turn.over:
            self._check_still_bound(prepared)
        return prepared, self._decide(prepared, turn)

    def _present_turn(self) -> Turn:
        """The `Turn` of all commands that begin now; it ends for all when any of them yields to the loop."""
        if self._turn is None or not self._turn.lasts():
            self._turn = Turn()
        return self._turn

    # Stage 1
    def _bind(self, order: CommandRequest, turn: Turn) -> tuple[Bound, RedactedArguments | CheckedArguments]:
        # Commands that begin in one turn of the loop share one check of the policy file.
        target = self._devices.target(order.device, refreshed=turn.looked)
        turn.looked = True
        tool = tool_of(order, target)
        arguments = self.validating.known(tool, order.parameters) or self.validating.redact(
            tool, order.parameters
        )
        if order.said:
            said = self._live_secrets.everywhere(order.said, secrets_in(arguments))
            order = replace(order, said=said)
        return bind(order, target, tool, arguments), arguments

    # Stage 2
    async def _validate(
        self, bound: Bound, arguments: RedactedArguments | CheckedArguments
    ) -> CheckedArguments:
        if isinstance(arguments, RedactedArguments):
            return await self.validating.check(bound.tool, arguments)
        return arguments

    # Stage 3: the checks that depend on more than the arguments
    def _harden(self, prepared: Prepared) -> None:
        check_own_screen(prepared, self._own_screen)
        folders, leads = prepared.target.roots, prepared.leads
        if folders is not None and leads is not None:
            check_roots(prepared.tool, prepared.arguments.sent, Roots(folders, leads))

    # Stage 4
    def _decide(self, prepared: Prepared, turn: Turn) -> Decision:
        # The policy file was checked when the command was bound. If the turn is over (a schema was read), the
        # file may have been edited since.
        decision = self._policy.decide(self._asked(prepared), refreshed=not turn.over)
        decision = as_ordered(prepared.order, decision)
        prepared.held.append(decided_entry(prepared, decision))
        return decision

    def _asked(self, prepared: Prepared) -> PolicyQuery:
        return PolicyQuery(
            device=prepared.target.device,
            tool=prepared.tool,
            parameters=prepared.arguments.sent,
            shown=prepared.arguments.shown,
            actor=prepared.order.actor,
            run=prepared.order.run,
            shares_disk=prepared.target.shares_disk,
            real=prepared.leads.real if prepared.leads is not None else None,
            # On a shared disk a path may lead elsewhere each time, so such a decision is not reused.
            same=prepared.arguments.key if prepared.leads is None else None,
        )

    async def _followed(self, prepared: Prepared) -> Prepared:
        """The prepared call with the present real paths of its path arguments."""
        arguments = prepared.arguments.sent
        if not prepared.target.shares_disk or not may_have_paths(prepared.tool, arguments):
            return prepared
        return prepared._replace(leads=await self._follow(arguments))

    async def _follow(self, parameters: dict[str, Any]) -> Leads:
        paths = list(paths_in(parameters))
        return await self._links.follow([*paths, *self._policy.folders] if paths else ())

    async def _check_still_allowed(
        self, prepared: Prepared, decision: Decision, approval: Approval | None
    ) -> None:
        if approval is not None or prepared.before:
            # Symlinks may have been changed while the request waited.
            now = self._policy.decide(self._asked(await self._followed(prepared)))
            check_still_allowed(now, decision, approval, self._policy.problem)

    # Stage 6
    async def _record_intent(self, prepared: Prepared, decision: Decision, turn: Turn) -> Permit:
        """`turn` began before the command was bound; once it is over, the device may have changed."""
        self._check_wanted(prepared.order)
        if turn.over or prepared.target.channel is None:
            self._check_still_bound(prepared)
        body = {"digest": prepared.request.digest, "contract": prepared.request.contract}
        prepared.held.append(entry_of(prepared.order, Kind.INTENT_RECORDED, body, "service", plain=True))
        if prepared.request.tool_type == "action" or decision.effect is not Effect.OBSERVE:
            await self._journal.append_many(prepared.held)
            prepared.held.clear()
            # Stop or cancel may have arrived during the disk write.
            self._check_wanted(prepared.order)

        def leaves() -> None:
            self._check_wanted(prepared.order)
            if turn.over:
                self._check_still_bound(prepared)
            self._approving.check_still_granted(decision)
            prepared.held.append(entry_of(prepared.order, Kind.COMMAND_SENT, body, "service", plain=True))
            try:
                self._write(prepared)
            except JournalUnavailable:
                # The command is not sent, so COMMAND_SENT must not be recorded later.
                prepared.held.pop()
                raise

        return self._mint.mint(prepared.request, prepared.arguments, leaves)

    # Stages 7 and 8
    async def _send(
        self, prepared: Prepared, decision: Decision, permit: Permit, approval: Approval | None
    ) -> CommandResult:
        request = prepared.request
        # The device may have reconnected while the request waited: use its present link.
        channel = self._devices.channel(request.device)
        leave = leave_of(prepared, approval)
        command = PermittedCommand.of(request, prepared.arguments, permit, leave)
        started = time.perf_counter()
        if channel is None:
            self._mint.revoke(permit)
            return not_sent(request, decision, gone_offline(request.device), 0.0)
        if not prepared.order.glimpse:
            # A live picture must not show its device as busy every other second.
            self._devices.began(request.device, request.call_id, request.tool_name)
        self._running[request.call_id] = channel
        self._live_secrets.remember(request.device, prepared.order.run, prepared.arguments)
        result: CommandResult | None = None
        try:
            stock = is_stock(prepared.target.device)
            seconds = deadline_of(prepared.order, prepared.tool, stock=stock)
            [answer] = await channel.execute_commands([command], seconds)
            result = await self._observe(prepared, decision, answer, started)
        except QuarterdeckError as error:
            result = self._unanswered(prepared, decision, error, started)
        except asyncio.CancelledError:
            gone = QuarterdeckError("The service ended while the device had it.", ErrorCode.OUTCOME_UNKNOWN)
            result = not_answered(request, decision, gone, _ms(started))
            self._record_outcome(prepared, decision, result)
            raise
        finally:
            self._mint.revoke(permit)
            self._running.pop(request.call_id, None)
            if result is not None:
                order = prepared.order
                self._devices.ended(
                    order.device, order.call_id, result, order.glimpse, order.shows_whole_screen
                )
        return result

    async def _observe(
        self, prepared: Prepared, decision: Decision, answer: Result, started: float
    ) -> CommandResult:
        took = _ms(started)
        request, device = prepared.request, prepared.target.device
        redaction = self._redaction(prepared)
        error, namespace = redaction.value(answer.error), redaction.value(answer.namespace)
        if error is not answer.error or namespace is not answer.namespace:
            answer = answer.model_copy(update={"error": error, "namespace": namespace})
        try:
            sends_bytes = FEATURE_BINARY in device.features
            clean, evidence = await take_evidence(
                answer.result, self._journal, redaction, sends_bytes=sends_bytes
            )
        except UnusableAnswer as error:
            return unusable(request, decision, error, error.evidence, took)
        stock = is_stock(device)
        # Read from the raw answer: redacting and moving data to blobs may remove the failure from `clean`.
        failure = redaction.value(failure_in(answer.result))
        result = conclude(request, decision, answer, clean, evidence, took, failure=failure, stock=stock)
        return _with_note(result, redaction)

    def _unanswered(
        self, prepared: Prepared, decision: Decision, error: QuarterdeckError, started: float
    ) -> CommandResult:
        request = prepared.request
        # The error may quote text from the device.
        error = _masked(error, self._redaction(prepared))
        if error.code is ErrorCode.BAD_RESULT:
            return unusable(request, decision, error, [], _ms(started))
        never_left = (Refused, BadInput, JournalUnavailable)
        if isinstance(error, never_left) or error.code is ErrorCode.DEVICE_OFFLINE:
            return not_sent(request, decision, error, _ms(started))
        return not_answered(request, decision, error, _ms(started))

    def _redaction(self, prepared: Prepared) -> Redaction:
        order = prepared.order
        return self._live_secrets.redaction(order.device, order.run, secrets_in(prepared.arguments))

    # Stage 9
    def _record_outcome(self, prepared: Prepared, decision: Decision, result: CommandResult) -> CommandResult:
        prepared.held.append(outcome_entry(prepared, result))
        try:
            self._write_late(prepared)
        except BadInput as error:
            # No journal entry can hold this answer. Record that it came, and why it is not stored.
            prepared.held.pop()
            result = unusable(prepared.request, decision, error, [], result.duration_ms)
            prepared.held.append(outcome_entry(prepared, result))
            self._write_late(prepared)
        return result

    def _write_late(self, prepared: Prepared) -> None:
        try:
            self._write(prepared)
        except JournalUnavailable:
            # The command was sent, so its outcome must be recorded: it waits for the disk, and nothing new
            # is sent.
            self._late.add(prepared.held)
            # A later write for this command (a picture taken afterwards) must not record these twice.
            prepared.held.clear()

    def _refuse(
        self,
        order: CommandRequest,
        bound: Bound | None,
        held: list[NewEntry],
        decision: Decision | None,
        error: QuarterdeckError,
        started: float,
        stage: CommandStage,
    ) -> CommandResult:
        request = bound.request if bound else unbound(order)
        result = not_sent(request, decision, error, _ms(started), stage)
        if isinstance(error, StaleTargetError):
            result = result.model_copy(update={"evidence": error.evidence})
        entry = refused_entry(order, bound, result)
        try:
            self._journal.note_all([*held, entry])
        except JournalUnavailable as unavailable:
            return not_sent(request, decision, unavailable, _ms(started), stage)
        return result

    def _check_wanted(self, order: CommandRequest) -> None:
        if self._stopped:
            raise Refused(self._stopped, ErrorCode.STOPPED)
        if order.cancelled():
            raise Refused("It was cancelled before it was sent.", ErrorCode.CANCELLED)

    def _check_still_bound(self, prepared: Prepared) -> None:
        """Check that the tool is still the tool that was judged; the device may have reconnected since."""
        check_bound(prepared, self._devices.target(prepared.order.device))

    def _write(self, prepared: Prepared) -> None:
        """Append the pending entries to the journal in one piece; when that fails they stay pending."""
        if prepared.held:
            self._journal.note_all(prepared.held)
            prepared.held.clear()


def _masked(error: QuarterdeckError, redaction: Redaction) -> QuarterdeckError:
    masked = copy.copy(error)
    masked.message = redaction.text(error.message)
    return masked


def _with_note(result: CommandResult, redaction: Redaction) -> CommandResult:
    """Note in the result how many places of the device's answer were redacted."""
    if not redaction.count:
        return result
    places = "1 place" if redaction.count == 1 else f"{redaction.count} places"
    note = f"{result.note} Secrets are masked in {places} of what the device said.".strip()
    return result.model_copy(update={"note": note})


def _ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000
