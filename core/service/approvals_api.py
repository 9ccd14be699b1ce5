"""The console API's calls about approval requests: cards, decisions, edits, previews and helper calls.

Every read for a card goes through the dispatcher as an observation by the client's actor. The policy judges
it and the journal records it; a read that would itself need approval is not made.
"""

from __future__ import annotations

from typing import Any

from core.approvals.answering_rules import check_still_secret
from core.approvals.grants import SignedGrant
from core.approvals.models import Approval, Fatigue
from core.approvals.preview_models import Helper, Preview
from core.approvals.suggestions import helpers_for
from core.canonical_json import digest_of
from core.dispatch.command_request import CommandRequest, Purpose
from core.dispatch.models import CommandResult
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.fleet.contracts import changed_parts
from core.policy.models import Answer
from core.service.console import ContractChange
from core.service.policy_api import PolicyApi
from core.service.previews import Previewer
from core.statements import SignedStatement

LOOK_TIMEOUT = 20.0


class ApprovalsApi(PolicyApi):
    """The calls about approval requests in a client's console API."""

    async def approvals(self) -> list[Approval]:
        return self._service.approvals.list()

    async def approval(self, approval: str) -> Approval:
        return self._service.approvals.get(approval)

    async def decide(self, signed: SignedStatement, grant: SignedGrant | None = None) -> Approval:
        self._only_people("answer a request for approval")
        return await self._service.approvals.decide(signed, grant)

    async def hold(self, approval: str, reading: bool) -> Approval:
        self._only_people("hold a request for approval")
        return self._service.approvals.hold(approval, self._reader, reading)

    async def edit_approval(self, approval: str, parameters: dict[str, Any]) -> Approval:
        self._only_people("edit a request for approval")
        service = self._service
        asked = service.approvals.get(approval)
        request = asked.request
        wanted = service.approvals.restored(approval, parameters)
        masked, _ = await service.dispatcher.masked([request.device], request.tool_name, wanted)
        check_still_secret(parameters, masked)
        if digest_of(masked) == digest_of(request.parameters):
            raise BadInput("These are the arguments that it has; nothing was changed.")
        # Arguments that the policy denies are refused here, so that the old request stays pending.
        leads = await service.dispatcher.look_ahead([request.device], request.tool_name, wanted)
        decision = service.dispatcher.explain(request.device, request.tool_name, wanted, asked.actor, leads)
        if decision.answer is Answer.DENY:
            raise Refused(f"So changed it would be denied: {decision.reasons[0].text.removesuffix('.')}.")
        await service.approvals.edit(approval, wanted, masked, self._actor, self._operator)
        return service.approvals.get(approval)

    async def fatigue(self, operator: str) -> Fatigue:
        return self._service.approvals.fatigue.measure(operator)

    async def preview(self, approval: str) -> Preview:
        self._only_people("look at what a request would change")
        service = self._service
        asked = service.approvals.get(approval)
        device = asked.request.device

        async def look(tool: str, parameters: dict[str, Any]) -> CommandResult:
            return await self._look(device, tool, parameters)

        known = service.fleet.get(device)
        offered = self._offered(device)
        return await Previewer(asked, service.journal, look, known.picture, offered).preview()

    async def helpers(self, approval: str) -> list[Helper]:
        request = self._service.approvals.get(approval).request
        helpers = helpers_for(request, self._offered(request.device))
        return [one for one in helpers if await self._runs_by_itself(one)]

    async def run_helper(self, approval: str, helper: str) -> CommandResult:
        self._only_people("look at something before deciding")
        for one in await self.helpers(approval):
            if one.id == helper:
                return await self._look(one.device, one.tool, one.parameters)
        raise BadInput(f"This request has no helper {helper}.", ErrorCode.NOT_FOUND)

    async def contract_change(self, device: str, tool_key: str) -> ContractChange:
        change = await self._service.fleet.change(device, tool_key)
        return ContractChange(
            device=device,
            tool_key=tool_key,
            before=change.before,
            before_contract=change.contract_before,
            after=change.after,
            changed=changed_parts(change.before, change.after) if change.before else [],
        )

    def _offered(self, device: str) -> set[str]:
        return {tool.tool_name for tool in self._service.fleet.tools(device)}

    async def _runs_by_itself(self, helper: Helper) -> bool:
        dispatcher = self._service.dispatcher
        device, tool, parameters = helper.device, helper.tool, helper.parameters
        try:
            leads = await dispatcher.look_ahead([device], tool, parameters)
            decision = dispatcher.explain(device, tool, parameters, self._actor, leads)
        except QuarterdeckError:
            # Its arguments do not fit this device, or the device is offline.
            return False
        return decision.answer is Answer.ALLOW

    async def _look(self, device: str, tool: str, parameters: dict[str, Any]) -> CommandResult:
        order = CommandRequest(
            device, tool, parameters, self._actor, timeout=LOOK_TIMEOUT, purpose=Purpose.PREVIEW
        )
        return await self._service.dispatcher.dispatch(order)
