"""The calls about approval requests (cards, decisions, edits, previews, helper calls), grants and operators.

Every read for a card goes through the dispatcher as an observation by the client's actor. The policy judges
it and the journal records it; a read that would itself need approval is not made.
"""

from __future__ import annotations

from typing import Any

from core.approvals.answering_rules import check_still_secret
from core.approvals.models import AnswerFate, Approval, Fatigue, Operator
from core.approvals.preview_models import Helper, Preview
from core.approvals.suggestions import helpers_for
from core.audit.events import GrantRevoked, OperatorRegistered, OperatorRemoved
from core.batch.questions import is_question
from core.canonical_json import digest_of
from core.changes import SignedChange
from core.commands.request import CommandRequest, Purpose
from core.commands.results import CommandResult
from core.dispatch.card_views import CardView
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.policy.grants import Grant, SignedGrant
from core.policy.models import Answer
from core.policy.refusal import refusal
from core.service import proposals
from core.service.api.client import ClientApi
from core.service.console import ApprovalsApi
from core.service.previews import Previewer
from core.service.screen_previews import LastPicture
from core.statements import SignedStatement

LOOK_TIMEOUT = 20.0


class LocalApprovals(ClientApi, ApprovalsApi):
    """Implements `ApprovalsApi` in the service."""

    async def get(self, approval: str) -> Approval:
        return self._service.approvals.get(approval)

    async def decide(self, signed: SignedStatement, grant: SignedGrant | None = None) -> Approval:
        return await self._service.approvals.decide(signed, grant)

    async def decide_many(self, signed: list[SignedStatement]) -> list[AnswerFate]:
        return await self._service.approvals.decide_many(signed)

    async def edit(self, approval: str, parameters: dict[str, Any]) -> Approval:
        service = self._service
        asked = service.approvals.get(approval)
        request = asked.request
        if is_question(request):
            raise Refused(
                "The question of an approval step cannot be edited.",
                next_step="Answer it, or cancel the run.",
            )
        edited = service.approvals.unredacted(approval, parameters)
        arguments = edited.arguments
        redacted, _ = await service.dispatcher.redacted(
            [request.device], request.tool_name, arguments, declared=edited.places
        )
        check_still_secret(parameters, redacted)
        if digest_of(redacted) == digest_of(request.parameters):
            raise BadInput("These are the arguments that it has; nothing was changed.")
        # Arguments that the policy denies are refused here, so that the old request stays pending.
        leads = await service.dispatcher.look_ahead([request.device], request.tool_name, arguments)
        decision = service.dispatcher.explain(
            request.device, request.tool_name, arguments, asked.actor, leads
        )
        if decision.answer is Answer.DENY:
            raise refusal(decision, "So changed it would be denied: ")
        await service.approvals.edit(
            approval, arguments, redacted, self._client.actor, self._client.operator, edited.places
        )
        return service.approvals.get(approval)

    async def hold(self, approval: str, reading: bool) -> Approval:
        return self._service.approvals.pause_expiry(approval, self._client.reader, reading)

    async def preview(self, approval: str) -> Preview:
        service = self._service
        asked = service.approvals.get(approval)
        if is_question(asked.request):
            return Preview(kind="nothing", problem="A question changes nothing by itself.")
        device = asked.request.device

        async def look(tool: str, parameters: dict[str, Any]) -> CommandResult:
            return await self._look(device, tool, parameters)

        async def view() -> CardView | None:
            # What other operators look at, or have approved, is not replaced: it is compared with the screen.
            is_free = not asked.approved_by
            renew = is_free and not service.approvals.is_read_by_others(approval, self._client.reader)
            return await service.dispatcher.cards.shown(asked.request.digest, renew=renew)

        known = service.fleet.get(device)
        last, offered = LastPicture(known.picture, known.picture_at), self._offered(device)
        return await Previewer(asked, service.journal, look, view, last, offered).preview()

    async def helpers(self, approval: str) -> list[Helper]:
        request = self._service.approvals.get(approval).request
        if is_question(request):
            return []
        helpers = helpers_for(request, self._offered(request.device))
        return [helper for helper in helpers if await self._runs_by_itself(helper)]

    async def run_helper(self, approval: str, helper: str) -> CommandResult:
        for offer in await self.helpers(approval):
            if offer.id == helper:
                return await self._look(offer.device, offer.tool, offer.parameters)
        raise BadInput(f"This request has no helper {helper}.", ErrorCode.NOT_FOUND)

    async def fatigue(self, operator: str) -> Fatigue:
        return self._service.approvals.fatigue.measure(operator)

    async def grants(self) -> list[Grant]:
        return self._service.policy.grants.all()

    async def revoke_grant(self, grant: str) -> Grant:
        service = self._service
        service.policy.grants.get(grant)
        event = GrantRevoked(grant=grant)
        # A revocation takes effect at once, even if the journal cannot be written.
        revoked = service.policy.grants.revoke(grant, self._client.actor)
        try:
            await self._client.record(event)
        except QuarterdeckError:
            self._client.record_stop(event, f"Grant {grant} is revoked.")
        return revoked

    async def register_operator(self, operator: Operator, signed: SignedChange | None = None) -> Operator:
        service = self._service
        if service.operators.is_registered(operator):
            return service.operators.get(operator.name)
        async with service.operators_changing:
            proof = await self._client.signed(proposals.operator_added(service, operator), signed)
            event = OperatorRegistered(operator=operator.model_dump(mode="json"), **proof)
            await self._client.record(event)
            registered = service.operators.add(operator)
        service.tell_control()
        return registered

    async def remove_operator(self, name: str, signed: SignedChange | None = None) -> None:
        service = self._service
        async with service.operators_changing:
            operator = service.operators.get(name)
            proof = await self._client.signed(proposals.operator_removed(service, name), signed)
            event = OperatorRemoved(operator=name, public_key=operator.public_key, **proof)
            await self._client.record(event)
            service.operators.remove(name)
        service.approvals.operator_removed(name)
        for grant in await self.grants():
            if grant.terms.author == name and not grant.over:
                await self.revoke_grant(grant.terms.id)
        service.tell_control()

    async def list(self) -> list[Approval]:
        return self._service.approvals.list()

    def _offered(self, device: str) -> set[str]:
        return {tool.tool_name for tool in self._service.fleet.tools(device)}

    async def _runs_by_itself(self, helper: Helper) -> bool:
        dispatcher = self._service.dispatcher
        device, tool, parameters = helper.device, helper.tool, helper.parameters
        try:
            leads = await dispatcher.look_ahead([device], tool, parameters)
            decision = dispatcher.explain(device, tool, parameters, self._client.actor, leads)
        except QuarterdeckError:
            # Its arguments do not fit this device, or the device is offline.
            return False
        return decision.answer is Answer.ALLOW

    async def _look(self, device: str, tool: str, parameters: dict[str, Any]) -> CommandResult:
        order = CommandRequest(
            device, tool, parameters, self._client.actor, timeout=LOOK_TIMEOUT, purpose=Purpose.PREVIEW
        )
        return await self._service.dispatcher.dispatch(order)
