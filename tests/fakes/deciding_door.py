"""The parts of the door that are about deciding and about the policy, as they are when there is nothing.

Fakes of the whole door build on this and say more where their tests need it.
"""

from __future__ import annotations

from typing import Any

from core.approvals.grants import Grant
from core.approvals.models import Approval, Fatigue
from core.approvals.preview_models import Helper, Preview
from core.canonical_json import sha256_hex
from core.changes import SignedChange
from core.dispatch.models import CommandResult
from core.errors import BadInput, ErrorCode
from core.fleet.models import Effect, Risk
from core.policy.models import Answer, Decision, Profile
from core.policy.policy_check import PolicyCheck, PolicyText, Trial
from core.policy.policy_store import Explanation
from core.service.console import ContractChange, LivePicture, PolicyStatus
from tests.fakes.agents_door import AgentsDoor


class DecidingDoor(AgentsDoor):
    """No grants, no helpers, an empty policy; what is asked for by id is not there."""

    async def on_edit_approval(self, approval: str, parameters: dict[str, Any]) -> Approval:
        raise BadInput(f"No request for approval has the id {approval}.", ErrorCode.NOT_FOUND)

    async def on_preview(self, approval: str) -> Preview:
        return Preview(kind="nothing", problem="There is nothing to show.")

    async def on_helpers(self, approval: str) -> list[Helper]:
        return []

    async def on_run_helper(self, approval: str, helper: str) -> CommandResult:
        raise BadInput(f"No helper has the id {helper}.", ErrorCode.NOT_FOUND)

    async def on_fatigue(self, operator: str) -> Fatigue:
        return Fatigue(operator=operator, decided=0, approved=0, median_s=0.0, hasty=0)

    async def on_grants(self) -> list[Grant]:
        return []

    async def on_revoke_grant(self, grant: str) -> Grant:
        raise BadInput(f"No grant has the id {grant}.", ErrorCode.NOT_FOUND)

    async def on_explanation(
        self, device: str, tool: str, parameters: dict[str, Any], actor: str = ""
    ) -> Explanation:
        decision = Decision(
            answer=Answer.ALLOW,
            risk=Risk.LOW,
            effect=Effect.OBSERVE,
            profile=Profile.GUARDED,
            summary=tool,
            reasons=[],
        )
        return Explanation(decision=decision, near=[], near_grants=[])

    async def on_watch_pictures(self, devices: list[str], anew: bool = False) -> list[LivePicture]:
        return []

    async def on_contract_change(self, device: str, tool_key: str) -> ContractChange:
        return ContractChange(device=device, tool_key=tool_key, before=None, after={}, changed=[])

    async def on_policy_text(self) -> PolicyText:
        return PolicyText(text="", path="policy.toml", digest=sha256_hex(b""))

    async def on_check_policy(self, text: str) -> PolicyCheck:
        return PolicyCheck(ok=True)

    async def on_try_policy(self, text: str, limit: int = 200) -> Trial:
        return Trial(
            looked_at=0, commands=0, allowed=0, asked=0, denied=0, changed=0, allowed_but_denied_by_human=0
        )

    async def on_save_policy(
        self, text: str, digest: str, signed: SignedChange | None = None
    ) -> PolicyStatus:
        return PolicyStatus(profile=Profile.GUARDED)
