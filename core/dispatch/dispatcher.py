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
from core.audit.events import CommandSent, IntentRecorded
from core.commands.arguments import PreparedCall
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
from core.dispatch.argument_checks import Roots, check_form, check_roots, may_have_paths
from core.dispatch.call_preparer import CallPreparer
from core.dispatch.card_views import CardViews
from core.dispatch.command import (
    Attempt,
    BoundCommand,
    PreparedCommand,
    bind,
    check_bound,
    gone_offline,
    tool_of,
)
from core.dispatch.deadline import deadline_of, is_stock
from core.dispatch.entries import (
    approval_proof,
    command_entry,
    decided_entry,
    outcome_entry,
    prepared_entry,
    refused_entry,
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
from core.policy.models import Answer, Decision, Explanation
from core.policy.policy_store import Policy
from core.policy.real_paths import NOT_FOLLOWED, Links, ResolvedPaths, paths_in
from core.tasks import Throttle

# Edits of one command by operators; each begins a new request for approval.
MOST_EDITS = 50
# A call whose contract was edited in policy.toml meanwhile is bound again; one that is edited each time is
# refused before it is sent.
_MOST_BINDINGS = 3
# Commands that are prepared, sent or concluded in one iteration of the event loop. Each takes some 0.3 ms; of
# a thousand devices hundreds answer together, which without this are one iteration of a quarter of a second.
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

    @property
    def cards(self) -> CardViews:
        """What the approval cards of the waiting requests show of the screen."""
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
        bound, call = self._bind(request)
        try:
            call = call or self.calls.prepare_at_once(bound.tool, bound.arguments)
            follows = bound.target.shares_disk and may_have_paths(bound.tool, bound.arguments.sent)
            undone = leads.undone.get(request.device, UnknownPath()) if undoes_a_write(bound.tool) else None
            command = PreparedCommand.of(
                bound, call, leads if follows or (undone and bound.target.shares_disk) else None, undone
            )
            self._harden(command)
        except QuarterdeckError as error:
            raise self._without_secrets(error, bound) from None
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
        last defined, otherwise those of any device. `declared` are places that a caller declared secret. For
        a tool without a known schema, and for arguments that no call may have, only names and types are
        returned.
        """
        schemas = await self._devices.schemas_of(tool, devices)
        try:
            check_form(parameters)
            if schemas:
                redacted = self._redactor.redact(tool, parameters, schemas, declared)
                return redacted.shown, self._live_secrets.redact_everywhere(said, secrets_in(redacted))
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
            attempt = Attempt(request, started)
            try:
                outcome = await self._attempt(attempt, on_stage)
            finally:
                self._evidence.cards.end(attempt.bound)
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
        return self._refuse(Attempt(request, started, CommandStage.APPROVE), error)

    def refuse(self, request: CommandRequest, error: QuarterdeckError) -> CommandResult:
        """Journal a request that cannot become a command, as one that was refused at the first stage."""
        return self._refuse(Attempt(request, time.perf_counter()), error)

    async def _attempt(self, attempt: Attempt, on_stage: OnStage) -> CommandResult | Edited:
        """Carry one request from stage to stage; an operator's edit ends it with the new arguments."""
        try:
            command = await self._prepare(attempt)
            if (with_process_id := await with_process(command, self.dispatch)) is not None:
                attempt.request = with_process_id
                command = await self._prepare(attempt)
            decision = self._decide(command, attempt)
            named = self._evidence.named_picture(command)
            outcome = await self._approving.approve(
                command,
                decision,
                on_stage,
                lambda: self._judge_again(attempt.request),
                partial(self._evidence.cards.begin, command),
            )
            match outcome:
                case Edited():
                    return outcome
                case Denied(error):
                    return self._refuse(attempt, error)
                case Approved(command, decision, approval, waited_s):
                    attempt.stage, attempt.decision = CommandStage.RECORD_INTENT, decision
            approved_at = time.monotonic() - waited_s
            before = await self._evidence.before(command, decision, approval, named, approved_at)
            # A command under a grant may have waited for it, and then for its turn.
            if approval is not None or before or decision.grant:
                await self._check_still_allowed(command, decision, approval, waited_s)
            permit = await self._commit(command, decision)
        except QuarterdeckError as error:
            return self._refuse(attempt, error)
        on_stage(Stage.RUNNING, "")
        result = await self._send(command, decision, permit, approval)
        if before:
            result = result.model_copy(update={"evidence": [*before, *result.evidence]})
        result = self._record_outcome(command, decision, result)
        self._evidence.pictures.note(command.request, result)
        if result.basis is Basis.NOTHING_SENT:
            return result
        return await self._evidence.after(command, decision, result)

    async def _judge_again(self, request: CommandRequest) -> tuple[PreparedCommand, Decision]:
        """Run the first four stages again for a waiting request, as for a new one. Nothing is recorded.

        Raises:
            QuarterdeckError: the error with which a new request would be refused.
        """
        command = await self._prepare(Attempt(request, time.perf_counter()))
        # Cancelled, stopped or disconnected while a schema or a link was read.
        self._check_wanted(request)
        check_bound(command, self._devices.target(request.device))
        return command, self._adjusted(command)

    # Stages 1 to 3
    async def _prepare(self, attempt: Attempt) -> PreparedCommand:
        """Prepare a command for a decision, which has to follow at once: the policy was read just now."""
        await self._throttle.take()
        for _ in range(_MOST_BINDINGS):
            overrides = self._policy.overrides
            command = await self._prepare_once(attempt)
            # Once for each command: a look at the file lets other threads run, which costs more than it.
            self._policy.refresh()
            # An operator's entry for a tool in policy.toml is part of the tool's contract.
            if self._policy.overrides is overrides:
                break
        return command

    async def _prepare_once(self, attempt: Attempt) -> PreparedCommand:
        self._check_wanted(attempt.request)
        bound, call = self._bind(attempt.request)
        attempt.bound, attempt.stage = bound, CommandStage.VALIDATE
        call = call or await self.calls.prepare(bound.tool, bound.arguments)
        attempt.stage = CommandStage.HARDEN
        undone = None
        if undoes_a_write(bound.tool):
            named = await undone_path(
                self._journal, attempt.request.device, bound.arguments.sent.get(UNDO_ID)
            )
            undone = UnknownPath() if named is None else named
        command = PreparedCommand.of(bound, call, await self._leads(bound, undone), undone)
        self._harden(command)
        return command

    # Stage 1
    def _bind(self, request: CommandRequest) -> tuple[BoundCommand, PreparedCall | None]:
        """The request bound to the device's present tool, and its prepared call if that is known already."""
        target = self._devices.target(request.device)
        self._check_exists(request, target)
        tool = tool_of(request, target)
        # An equal call that was prepared before may show what is secret in this one.
        marked = any(request.secrets) or request.unquoted
        call = None if marked else self.calls.known(tool, request.parameters)
        if call is not None:
            arguments = call.arguments
        else:
            arguments = self.calls.redact(tool, request.parameters, request.secrets.places, request.unquoted)
        if request.said:
            said = self._live_secrets.redact_everywhere(request.said, secrets_in(arguments))
            request = replace(request, said=said)
        return bind(request, target, tool, arguments), call

    # Stage 3: the checks that depend on more than the arguments
    def _harden(self, command: PreparedCommand) -> None:
        check_own_screen(command, self._own_screen)
        folders, leads = command.target.roots, command.leads
        if folders is not None and leads is not None:
            check_roots(command.tool, command.arguments.sent, Roots(folders, leads))

    # Stage 4
    def _decide(self, command: PreparedCommand, attempt: Attempt) -> Decision:
        attempt.stage = CommandStage.DECIDE
        decision = self._adjusted(command)
        attempt.decision = decision
        self._journal.note_all([prepared_entry(command), decided_entry(command, decision)])
        command.request.on_decided(decision)
        if decision.answer is not Answer.DENY:
            attempt.stage = CommandStage.APPROVE
        return decision

    def _adjusted(self, command: PreparedCommand) -> Decision:
        decision = self._policy.decide(self._query(command))
        return adjusted(decision, command.request, command.target.device)

    def _query(self, command: PreparedCommand) -> PolicyQuery:
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

    async def _leads(self, bound: BoundCommand, undone: str | None) -> ResolvedPaths | None:
        """The present real paths of a command's path arguments; None on a disk that this computer lacks."""
        arguments = bound.arguments.sent
        if undone:
            return await self._follow({"undone": undone}) if bound.target.shares_disk else None
        if not bound.target.shares_disk or not may_have_paths(bound.tool, arguments):
            return None
        return await self._follow(arguments)

    async def _follow(self, parameters: dict[str, Any]) -> ResolvedPaths:
        paths = list(paths_in(parameters))
        return await self._links.follow([*paths, *self._policy.folders] if paths else ())

    async def _check_still_allowed(
        self, command: PreparedCommand, decision: Decision, approval: Approval | None, waited_s: float
    ) -> None:
        # Symlinks may have been changed while the request waited.
        command = replace(command, leads=await self._leads(command, command.undone))
        self._policy.refresh()
        now = self._policy.decide(self._query(command))
        check_still_allowed(now, decision, approval, self._policy.problem, waited_s)

    # Stage 6
    async def _commit(self, command: PreparedCommand, decision: Decision) -> Permit:
        """Record the intent, durably for an action, and mint the permit to send exactly this command."""
        self._check_still_sendable(command, decision)
        shown = command.shown
        intent = IntentRecorded(digest=shown.digest, contract=shown.contract)
        sent = CommandSent(digest=shown.digest, contract=shown.contract)
        entries = [command_entry(command.request, intent, "service")]
        if shown.tool_type == "action" or decision.effect is not Effect.OBSERVE:
            await self._journal.append_many(entries)
            entries = []
            await self._throttle.take()
            # Stop or cancel may have arrived during the disk write.
            self._check_wanted(command.request)
        entries.append(command_entry(command.request, sent, "service"))

        def before_sending() -> None:
            self._check_still_sendable(command, decision)
            self._journal.note_all(entries)

        return self._mint.mint(shown, command.call, before_sending)

    def _check_still_sendable(self, command: PreparedCommand, decision: Decision) -> None:
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
        self, command: PreparedCommand, decision: Decision, permit: Permit, approval: Approval | None
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
            self._record_outcome(command, decision, result)
            raise
        finally:
            self._mint.revoke(permit)
            self._running.pop(request.call_id, None)
            if result is not None:
                self._devices.ended(request, result)
        return result

    async def _observe(
        self, command: PreparedCommand, decision: Decision, answer: Result, took: float
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
        self, command: PreparedCommand, decision: Decision, error: QuarterdeckError, started: float
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

    def _redaction(self, command: PreparedCommand) -> Redaction:
        request = command.request
        return self._live_secrets.redaction(request.device, request.run, _secrets_of(command))

    # Stage 9
    def _record_outcome(
        self, command: PreparedCommand, decision: Decision, result: CommandResult
    ) -> CommandResult:
        """Record the outcome; while the journal cannot be written it waits, and nothing new is sent."""
        try:
            self._journal.note_late([outcome_entry(command, result)])
        except BadInput as error:
            # No journal entry can hold this answer. Record that it came, and why it is not stored.
            result = unusable(command.shown, decision, error, [], result.duration_ms)
            self._journal.note_late([outcome_entry(command, result)])
        if result.verdict is Verdict.UNKNOWN and command.request.purpose is not Purpose.LIVE_VIEW:
            self._on_unknown(result.device, result.call_id)
        return result

    def _refuse(self, attempt: Attempt, error: QuarterdeckError) -> CommandResult:
        request, bound = attempt.request, attempt.bound
        error = self._without_secrets(error, bound) if bound is not None else error
        shown = bound.shown if bound is not None else unbound(request)
        result = not_sent(shown, attempt.decision, error, attempt.took_ms, attempt.stage)
        if isinstance(error, StaleTargetError):
            result = result.model_copy(update={"evidence": error.evidence})
        try:
            self._journal.note_all([refused_entry(request, bound, result)])
        except JournalUnavailable as unavailable:
            return not_sent(shown, attempt.decision, unavailable, attempt.took_ms, attempt.stage)
        return result

    def _without_secrets(self, error: QuarterdeckError, bound: BoundCommand) -> QuarterdeckError:
        """The error without the secrets of the arguments: it may quote one, such as where a path leads."""
        secrets = tuple(secrets_in(bound.arguments)) if bound.arguments.openings else ()
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


def _secrets_of(command: PreparedCommand) -> tuple[str, ...]:
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
