"""The governed dispatcher: the only path from a request to a device. Every command passes nine stages.

    prepare → validate → harden → decide → approve → record intent → send → observe → record outcome

A command ends at the first stage that fails; if that is before stage 7, nothing is sent. Every end is
journalled with its own error code.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from core.aip.extensions import FEATURE_BINARY
from core.aip.messages import Result
from core.approvals.models import Approval
from core.approvals.queue import ApprovalQueue
from core.audit.entries import NewEntry
from core.commands.channel import BasicCommandDispatcher
from core.commands.live_secrets import LiveSecrets, Redaction, secrets_in, texts_in
from core.commands.permit import Gate, Permit, PermitMint, PermittedCommand
from core.commands.request import NO_SECRETS, CommandRequest, OnStage, Purpose, Secrets, Stage, Target
from core.commands.results import Basis, CommandResult, CommandStage, Verdict
from core.commitments import NO_PLACES, Places
from core.dispatch.approval_stage import (
    ApprovalStage,
    Approved,
    Denied,
    Edited,
    adjusted,
    check_still_allowed,
)
from core.dispatch.argument_checks import Roots, check_roots, may_have_paths
from core.dispatch.call_preparer import CallPreparer
from core.dispatch.card_views import CardViews
from core.dispatch.command import DispatchedCommand, check_bound, gone_offline, tool_of
from core.dispatch.deadline import deadline_of, is_stock
from core.dispatch.entries import (
    approval_proof,
    asked_and_sent_entry,
    decided_entry,
    intent_entry,
    outcome_entry,
    prepared_entry,
    refused_entry,
    sent_entry,
    sketch,
    unbound,
)
from core.dispatch.evidence import EvidenceTaker, StaleTargetError
from core.dispatch.interfaces import Devices, Recorder
from core.dispatch.outcome import BROKEN_TEXT, conclude, failure_in, not_answered, not_sent, unusable
from core.dispatch.own_screen import check_own_screen
from core.dispatch.program_meant import with_process
from core.dispatch.redaction import Redactor
from core.dispatch.result_sanitizer import UnusableAnswer, take_evidence
from core.dispatch.typed_echo import TYPE_TEXT, without_echo
from core.dispatch.undone_path import UNDO_ID, undoes_a_write, undone_path
from core.errors import BadInput, DeviceError, ErrorCode, JournalUnavailable, QuarterdeckError, Refused
from core.models.tools import Effect
from core.policy.agents import Agents, no_device
from core.policy.constraints import UnknownPath
from core.policy.engine import PolicyQuery, home_of
from core.policy.models import Answer, Decision, Explanation, Moment
from core.policy.policy_store import Policy
from core.policy.real_paths import NOT_FOLLOWED, Links, ResolvedPaths, paths_in
from core.tasks import OncePerTurn, Throttle

# Edits of one command by operators; each begins a new request for approval.
MOST_EDITS = 50
# A call whose contract was edited in policy.toml meanwhile is bound again; one that is edited each time is
# refused before it is sent.
_MOST_BINDINGS = 3
# Commands that are prepared, sent or concluded in one iteration of the event loop. A thousand actions are
# durable together, and hundreds of devices answer together: without this the loop stands 109 ms in a run of
# a thousand actions, with it 34 ms.
_AT_A_TIME = 20


class Dispatcher:
    """Carries commands through the nine stages. It depends on no window, socket or file."""

    def __init__(
        self,
        *,
        devices: Devices,
        policy: Policy,
        approvals: ApprovalQueue,
        agents: Agents,
        journal: Recorder,
        redactor: Redactor,
        live_secrets: LiveSecrets,
        ui_on_own_computer: bool = False,
        on_unknown: Callable[[str, str], None] = lambda device, call_id: None,
    ) -> None:
        """`ui_on_own_computer`: allow UI commands on the screen that shows the console itself; for tests.

        `on_unknown` gets the device and the id of each call that ended with an unknown outcome.
        """
        self._on_unknown = on_unknown
        self._own_screen = ui_on_own_computer
        self._devices = devices
        self._policy = policy
        self._agents = agents
        self._journal = journal
        self._redactor = redactor
        self._live_secrets = live_secrets
        self._mint = PermitMint()
        self.calls = CallPreparer(devices, redactor)
        self._links = Links()
        self._stopped = ""
        self._approving = ApprovalStage(approvals, policy.grants, journal, lambda: self._stopped)
        self._evidence = EvidenceTaker(self.dispatch, journal)
        self._running: dict[str, BasicCommandDispatcher] = {}
        self._throttle = Throttle(_AT_A_TIME)
        self._first_of_turn = OncePerTurn()

    @property
    def cards(self) -> CardViews:
        """The views of the screen on the cards of waiting requests."""
        return self._evidence.cards

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

    async def close(self) -> None:
        """End the reads for approval cards; nothing waits for an approval any more."""
        await self._evidence.cards.close()

    def resume(self) -> None:
        """Allow commands to be sent again."""
        self._stopped = ""
        self._mint.halt(False)

    async def cancel(self, call_id: str) -> bool:
        """Ask the device to cancel a running command; False when the device cannot be asked."""
        channel = self._running.get(call_id)
        return await channel.cancel(call_id) if channel is not None else False

    async def look_ahead(self, devices: list[str], tool: str, parameters: dict[str, Any]) -> ResolvedPaths:
        """Fetch what `explain` needs for these calls; returns where their paths lead, for its `leads`.

        Raises:
            BadInput: there is no such device.
            Refused: a disk of this computer on which the paths lie does not respond.
        """
        filled = await self.calls.look_ahead(devices, tool, parameters)
        shares = any(self._devices.target(device).shares_disk for device in devices)
        undone = {}
        for device in devices:
            offered = self._devices.offered(device, tool)
            if offered is not None and undoes_a_write(offered):
                path = await undone_path(self._journal, device, parameters.get(UNDO_ID))
                undone[device] = UnknownPath() if path is None else path
        found = ResolvedPaths()
        if shares:
            found = await self._follow({"each": filled or [parameters], "undone": list(undone.values())})
        return replace(found, undone=undone)

    def explain(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        actor: str = "operator:nobody",
        leads: ResolvedPaths = NOT_FOLLOWED,
        secrets: Secrets = NO_SECRETS,
        unquoted: Places = NO_PLACES,
    ) -> Decision:
        """The decision of stages 1 to 4 about a call. Nothing is recorded and nothing is sent.

        `leads`: the result of `look_ahead`; a path that is not in it counts against the call.

        Raises:
            BadInput: the error with which the stages would refuse the call.
        """
        request = CommandRequest(device, tool, parameters, actor, secrets=secrets, unquoted=unquoted)
        return self._policy.decide(self._explained(request, leads))

    def explanation(
        self,
        device: str,
        tool: str,
        parameters: dict[str, Any],
        actor: str = "operator:nobody",
        leads: ResolvedPaths = NOT_FOLLOWED,
    ) -> Explanation:
        """The decision as in `explain`, with the rules and grants that nearly applied.

        Raises:
            BadInput: the error with which the stages would refuse the call.
        """
        return self._policy.explain(self._explained(CommandRequest(device, tool, parameters, actor), leads))

    def _explained(self, request: CommandRequest, leads: ResolvedPaths) -> PolicyQuery:
        self._policy.refresh()
        command = DispatchedCommand(request)
        self._bind(command)
        try:
            command.prepare(self.calls.prepare_at_once(command.tool, command.arguments))
            if undoes_a_write(command.tool):
                command.undone = leads.undone.get(request.device, UnknownPath())
            if command.target.shares_disk and (
                command.undone or may_have_paths(command.tool, command.arguments)
            ):
                command.leads = leads
            self._harden(command)
        except QuarterdeckError as error:
            raise self._without_secrets(error, command) from None
        return self._query(command)

    async def redacted(
        self,
        devices: list[str],
        tool: str,
        parameters: dict[str, Any],
        said: str = "",
        declared: Places = NO_PLACES,
    ) -> tuple[dict[str, Any], str]:
        """Arguments and the asker's text, redacted, so that both may be written and shown before dispatch.

        A value is secret if any known schema of the tool marks it: the schemas that these devices define or
        last defined, otherwise those of any device. Where all define it alike, the arguments are made as
        those of a command. `declared` are places that a caller declared secret. For a tool without a known
        schema, and for arguments that no call may have, only names and types are returned.
        """
        common = self._devices.common(tool, devices)
        schemas = [] if common is not None else await self._devices.schemas_of(tool, devices)
        try:
            if common is not None or schemas:
                if common is not None:
                    arguments = self.calls.take(common, parameters, Secrets(places=declared))
                else:
                    arguments = self._redactor.redact(tool, parameters, schemas, declared)
                # Without the defaults that the command gets.
                shown = {name: arguments.shown[name] for name in parameters}
                return shown, self._live_secrets.redact_everywhere(said, secrets_in(arguments))
        except BadInput:
            # Dispatching the call will refuse it and report the reason.
            pass
        return sketch(parameters), self._live_secrets.redact_everywhere(said, texts_in(parameters))

    async def dispatch(
        self, request: CommandRequest, on_stage: OnStage = lambda stage, approval: None
    ) -> CommandResult:
        """Carry one command through all stages. Every end, errors too, is journalled and returned."""
        started = time.perf_counter()
        for _ in range(MOST_EDITS):
            command = DispatchedCommand(request, started)
            try:
                outcome = await self._carry(command, on_stage)
            finally:
                self._evidence.cards.end(command)
            if not isinstance(outcome, Edited):
                return outcome
            request = replace(
                request,
                parameters=outcome.parameters,
                secrets=request.secrets._replace(places=outcome.places),
                unquoted={},
                edited_from=outcome.approval,
                operators=(*request.operators, outcome.operator),
            )
        error = Refused(f"It was edited {MOST_EDITS} times; ask again.", ErrorCode.CANCELLED)
        return self._refuse(DispatchedCommand(request, started, CommandStage.APPROVE), error)

    def refuse(self, request: CommandRequest, error: QuarterdeckError) -> CommandResult:
        """Journal a request that cannot become a command, as one that was refused at the first stage."""
        return self._refuse(DispatchedCommand(request), error)

    async def _carry(self, command: DispatchedCommand, on_stage: OnStage) -> CommandResult | Edited:
        """Carry one command from stage to stage; an operator's edit ends it with the new arguments."""
        try:
            await self._prepare(command)
            if (with_process_id := await with_process(command, self.dispatch)) is not None:
                command.request = with_process_id
                await self._prepare(command)
            decision = self._decide(command)
            named = self._evidence.named_picture(command)
            request = command.request
            outcome = await self._approving.approve(
                command,
                decision,
                on_stage,
                lambda: self._judge_again(request),
                partial(self._evidence.cards.begin, command),
            )
            match outcome:
                case Edited():
                    return outcome
                case Denied(error):
                    return self._refuse(command, error)
                case Approved(allowed, decision, approval, waited_s):
                    if allowed is not command:
                        allowed.take_over(command)
                        command = allowed
                    command.stage, command.decision = CommandStage.RECORD_INTENT, decision
            approved_at = time.monotonic() - waited_s
            before = await self._evidence.before(command, decision, approval, named, approved_at)
            # A command under a grant may have waited for it, and then for its turn.
            if approval is not None or before or decision.grant:
                await self._check_still_allowed(command, decision, approval, waited_s)
            permit = await self._commit(command, decision)
        except QuarterdeckError as error:
            return self._refuse(command, error)
        on_stage(Stage.RUNNING, "")
        result = await self._send(command, decision, permit, approval)
        if before:
            result = result.model_copy(update={"evidence": [*before, *result.evidence]})
        result = await self._record_outcome(command, decision, result)
        self._evidence.pictures.note(command.request, result)
        if result.basis is Basis.NOTHING_SENT:
            return result
        return await self._evidence.after(command, decision, result)

    async def _judge_again(self, request: CommandRequest) -> tuple[DispatchedCommand, Decision]:
        """Run the first four stages again for a waiting request, as for a new one. Nothing is recorded.

        Raises:
            QuarterdeckError: the error with which a new request would be refused.
        """
        command = DispatchedCommand(request)
        await self._prepare(command)
        # Cancelled, stopped or disconnected while a schema or a link was read.
        self._check_wanted(request)
        check_bound(command, self._devices.target(request.device))
        return command, self._adjusted(command)

    # Stages 1 to 3
    async def _prepare(self, command: DispatchedCommand) -> None:
        """Prepare a command for a decision, which has to follow at once: the policy was read in this turn."""
        await self._throttle.take()
        for _ in range(_MOST_BINDINGS):
            overrides = self._policy.overrides
            await self._prepare_once(command)
            # Once for all commands of a turn: a look at the file costs a tenth of a decision, and lets other
            # threads run. An edit counts for every request that comes after it.
            if self._first_of_turn.is_first():
                self._policy.refresh()
            # An operator's entry for a tool in policy.toml is part of the tool's contract.
            if self._policy.overrides is overrides:
                break

    async def _prepare_once(self, command: DispatchedCommand) -> None:
        self._check_wanted(command.request)
        self._bind(command)
        command.stage = CommandStage.VALIDATE
        command.prepare(await self.calls.prepare(command.tool, command.arguments))
        command.stage = CommandStage.HARDEN
        if undoes_a_write(command.tool):
            undo = command.arguments.sent.get(UNDO_ID)
            named = await undone_path(self._journal, command.request.device, undo)
            command.undone = UnknownPath() if named is None else named
        command.leads = await self._leads(command)
        self._harden(command)

    # Stage 1
    def _bind(self, command: DispatchedCommand) -> None:
        """Bind a command to its device's present tool; its arguments are made here, once."""
        request = command.request
        target = self._devices.target(request.device)
        self._check_exists(request, target)
        tool = tool_of(request, target)
        arguments = self.calls.take(tool, request.parameters, request.secrets, request.unquoted)
        if request.said:
            said = self._live_secrets.redact_everywhere(request.said, secrets_in(arguments))
            command.request = replace(request, said=said)
        command.bind(target, tool, arguments)

    # Stage 3: the checks that depend on more than the arguments
    def _harden(self, command: DispatchedCommand) -> None:
        check_own_screen(command, self._own_screen)
        folders, leads = command.target.roots, command.leads
        if folders is not None and leads is not None:
            check_roots(command.tool, command.arguments, Roots(folders, leads))

    # Stage 4
    def _decide(self, command: DispatchedCommand) -> Decision:
        command.stage = CommandStage.DECIDE
        command.decision = decision = self._adjusted(command)
        if _leads_to_more_entries(decision):
            self._journal.note_all(_request_entries(command))
            command.is_recorded = True
        command.request.on_decided(decision)
        if decision.answer is not Answer.DENY:
            command.stage = CommandStage.APPROVE
        return decision

    def _adjusted(self, command: DispatchedCommand) -> Decision:
        decision = self._policy.decide(self._query(command))
        return adjusted(decision, command.request, command.target.device)

    def _query(self, command: DispatchedCommand) -> PolicyQuery:
        home = home_of(command.target.shares_disk)
        analysis = command.call.analysis(home) if command.leads is None else None
        return PolicyQuery(
            device=command.target.device,
            tool=command.tool,
            parameters=command.arguments.sent,
            redacted=command.arguments.shown,
            marks=command.arguments.marks,
            actor=command.request.actor,
            run=command.request.run,
            shares_disk=command.target.shares_disk,
            real=command.leads.real if command.leads is not None else None,
            analysis=analysis,
            undone=command.undone,
        )

    async def _leads(self, command: DispatchedCommand) -> ResolvedPaths | None:
        """The present real paths of a command's path arguments; None on a disk that this computer lacks."""
        if not command.target.shares_disk:
            return None
        if command.undone:
            return await self._follow({"undone": command.undone})
        if not may_have_paths(command.tool, command.arguments):
            return None
        return await self._follow(command.arguments.sent)

    async def _follow(self, parameters: dict[str, Any]) -> ResolvedPaths:
        paths = list(paths_in(parameters))
        return await self._links.follow([*paths, *self._policy.folders] if paths else ())

    async def _check_still_allowed(
        self, command: DispatchedCommand, decision: Decision, approval: Approval | None, waited_s: float
    ) -> None:
        # Symlinks may have been changed while the request waited.
        command.leads = await self._leads(command)
        self._policy.refresh()
        now = self._policy.decide(self._query(command))
        check_still_allowed(now, decision, approval, self._policy.problem, waited_s)

    # Stage 6
    async def _commit(self, command: DispatchedCommand, decision: Decision) -> Permit:
        """Record what is known before sending, and mint the permit to send exactly this command.

        An action is sent once its intent is on the disk, and recorded as sent at that moment. All else is
        recorded as sent in the one note of this turn, just before: if it may not leave then, its outcome says
        so. An observation that was simply allowed has one entry in it.

        Raises:
            QuarterdeckError: it may not be sent any more, or it could not be recorded; there is no permit.
        """
        self._check_still_sendable(command, decision)
        acts = command.shown.tool_type == "action" or decision.effect is not Effect.OBSERVE
        if acts:
            entries = [*_request_entries(command), intent_entry(command)]
            # Whether entries that could not be appended are on the disk is not known: not written again.
            command.is_recorded = True
            await self._journal.append_many(entries)
            await self._throttle.take()
            # Stop or cancel may have arrived during the disk write.
            self._check_wanted(command.request)
        elif command.is_recorded:
            await self._journal.noted([intent_entry(command), sent_entry(command)])
        else:
            await self._journal.noted([asked_and_sent_entry(command, decision)])
            command.is_recorded = True

        def before_sending() -> None:
            self._check_still_sendable(command, decision)
            if acts:
                self._journal.note_all([sent_entry(command)])

        return self._mint.mint(command.shown, command.call, before_sending)

    def _check_still_sendable(self, command: DispatchedCommand, decision: Decision) -> None:
        """The last check, made again at the moment of sending: nothing can change while it runs.

        Raises:
            QuarterdeckError: dispatch was stopped, the request cancelled, the device or its tool is another,
                or the grant was revoked.
        """
        self._check_wanted(command.request)
        now = self._devices.target(command.request.device)
        # Its tags, and so the targets of an agent, may have changed since.
        self._check_exists(command.request, now)
        check_bound(command, now)
        self._approving.check_still_granted(decision)

    # Stages 7 and 8
    async def _send(
        self, command: DispatchedCommand, decision: Decision, permit: Permit, approval: Approval | None
    ) -> CommandResult:
        request, shown = command.request, command.shown
        # The device may have reconnected while the request waited: use its present link.
        channel = self._devices.channel(request.device)
        permitted = PermittedCommand.of(shown, command.call, permit, approval_proof(command, approval))
        started = time.perf_counter()
        if channel is None:
            self._mint.revoke(permit)
            return not_sent(shown, decision, gone_offline(request.device), 0.0)
        if request.purpose is not Purpose.LIVE_VIEW:
            # A live picture must not show its device as busy every other second.
            self._devices.began(request.device, request.call_id, shown.tool_name)
        self._running[request.call_id] = channel
        self._live_secrets.remember(request.device, request.run, _secrets_of(command))
        result: CommandResult | None = None
        try:
            seconds = deadline_of(request, command.tool, stock=is_stock(command.target.device))
            [answer] = await channel.execute_commands([permitted], seconds)
            took = _ms(started)
            await self._throttle.take()
            result = await self._observe(command, decision, answer, took)
        except QuarterdeckError as error:
            result = self._unanswered(command, decision, error, started)
        except asyncio.CancelledError:
            gone = QuarterdeckError("The service ended while the device had it.", ErrorCode.OUTCOME_UNKNOWN)
            result = not_answered(shown, decision, gone, _ms(started))
            self._journal.note_late([outcome_entry(command, result)])
            self._report_unknown(command, result)
            raise
        finally:
            self._mint.revoke(permit)
            self._running.pop(request.call_id, None)
            if result is not None:
                self._devices.ended(request, result)
        return result

    async def _observe(
        self, command: DispatchedCommand, decision: Decision, answer: Result, took: float
    ) -> CommandResult:
        shown, device = command.shown, command.target.device
        redaction = self._redaction(command)
        if command.tool.tool_name == TYPE_TEXT and _secrets_of(command):
            answer = without_echo(answer)
        error, namespace = redaction.value(answer.error), redaction.value(answer.namespace)
        if error is not answer.error or namespace is not answer.namespace:
            answer = answer.model_copy(update={"error": error, "namespace": namespace})
        notes: list[str] = []
        try:
            clean, evidence = await take_evidence(
                answer.result,
                self._journal,
                redaction,
                sends_bytes=FEATURE_BINARY in device.features,
                on_broken_text=lambda: notes.append(BROKEN_TEXT),
            )
        except UnusableAnswer as error:
            return unusable(shown, decision, error, error.evidence, took)
        stock = is_stock(device)
        # Read from the raw answer: redacting and moving data to blobs may remove the failure from `clean`.
        failure = redaction.value(failure_in(answer.result))
        result = conclude(shown, decision, answer, clean, evidence, took, failure=failure, stock=stock)
        return _with_notes(result, redaction, notes)

    def _unanswered(
        self, command: DispatchedCommand, decision: Decision, error: QuarterdeckError, started: float
    ) -> CommandResult:
        shown = command.shown
        # The error may quote text from the device.
        error = _redacted(error, self._redaction(command))
        if error.code is ErrorCode.BAD_RESULT:
            return unusable(shown, decision, error, [], _ms(started))
        never_left = (Refused, BadInput, JournalUnavailable)
        if isinstance(error, never_left) or error.code is ErrorCode.DEVICE_OFFLINE:
            return not_sent(shown, decision, error, _ms(started))
        return not_answered(shown, decision, error, _ms(started))

    def _redaction(self, command: DispatchedCommand) -> Redaction:
        request = command.request
        return self._live_secrets.redaction(request.device, request.run, _secrets_of(command))

    # Stage 9
    async def _record_outcome(
        self, command: DispatchedCommand, decision: Decision, result: CommandResult
    ) -> CommandResult:
        """Record the outcome; while the journal cannot be written it waits, and nothing new is sent."""
        try:
            await self._journal.noted_late([outcome_entry(command, result)])
        except BadInput as error:
            # No journal entry can hold this answer. Record that it came, and why it is not stored.
            result = unusable(command.shown, decision, error, [], result.duration_ms)
            await self._journal.noted_late([outcome_entry(command, result)])
        self._report_unknown(command, result)
        return result

    def _report_unknown(self, command: DispatchedCommand, result: CommandResult) -> None:
        if result.verdict is Verdict.UNKNOWN and command.request.purpose is not Purpose.LIVE_VIEW:
            self._on_unknown(result.device, result.call_id)

    def _refuse(self, command: DispatchedCommand, error: QuarterdeckError) -> CommandResult:
        error = self._without_secrets(error, command) if command.is_bound else error
        shown = command.shown if command.is_bound else unbound(command.request)
        result = not_sent(shown, command.decision, error, command.took_ms, command.stage)
        if isinstance(error, StaleTargetError):
            result = result.model_copy(update={"evidence": error.evidence})
        entries = [*_request_entries(command), refused_entry(command, result)]
        try:
            self._journal.note_all(entries)
        except JournalUnavailable as unavailable:
            return not_sent(shown, command.decision, unavailable, command.took_ms, command.stage)
        return result

    def _without_secrets(self, error: QuarterdeckError, command: DispatchedCommand) -> QuarterdeckError:
        """The error without the secrets of the arguments: it may quote one, such as where a path leads."""
        arguments = command.arguments
        secrets = tuple(secrets_in(arguments)) if arguments.openings else ()
        return _redacted(error, self._live_secrets.redaction("", None, secrets)) if secrets else error

    def _check_wanted(self, request: CommandRequest) -> None:
        if self._stopped:
            raise Refused(self._stopped, ErrorCode.STOPPED)
        if request.cancelled():
            raise Refused("It was cancelled before it was sent.", ErrorCode.CANCELLED)
        self._agents.check_asks(request.actor)

    def _check_exists(self, request: CommandRequest, target: Target) -> None:
        """Check that the device exists for the actor that asks: one outside an agent's targets does not.

        Raises:
            BadInput: it does not.
            DeviceError: another machine has taken its place since the request was made.
        """
        if request.machine and target.device.machine.identity != request.machine:
            raise DeviceError(
                f"{request.device} is another machine than the one that this was asked for; ask again."
            )
        if not self._agents.sees(request.actor, target.device):
            raise BadInput(no_device(request.device), ErrorCode.UNKNOWN_DEVICE)


def _request_entries(command: DispatchedCommand) -> list[NewEntry]:
    """The entries of the request and of the decision; none before there is a decision, or if written."""
    if command.decision is None or command.is_recorded:
        return []
    return [prepared_entry(command), decided_entry(command, command.decision)]


def _leads_to_more_entries(decision: Decision) -> bool:
    """Whether entries of a question, of a grant's use or of a picture follow before the command is sent."""
    return bool(decision.answer is Answer.ASK or decision.grant or Moment.BEFORE in decision.evidence)


def _secrets_of(command: DispatchedCommand) -> tuple[str, ...]:
    """The secrets in a command's arguments, and those that its caller knows of."""
    known = command.request.secrets.values
    if not known and not command.arguments.openings:
        return ()
    return (*secrets_in(command.arguments), *texts_in(list(known)))


def _redacted(error: QuarterdeckError, redaction: Redaction) -> QuarterdeckError:
    redacted = copy.copy(error)
    redacted.message = redaction.text(error.message)
    return redacted


def _with_notes(result: CommandResult, redaction: Redaction, notes: list[str]) -> CommandResult:
    """Note in the result what was changed in the device's answer: redacted secrets, broken text."""
    if redaction.count:
        places = "1 place" if redaction.count == 1 else f"{redaction.count} places"
        notes = [f"Secrets are masked in {places} of what the device said.", *notes]
    if not notes:
        return result
    return result.model_copy(update={"note": " ".join(filter(None, [result.note, *notes]))})


def _ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000
