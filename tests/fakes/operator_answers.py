"""What operators answer to a request of a rig: yes, no, and grants, signed with their keys."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from core.approvals.models import Approval
from core.approvals.operator_keys import OperatorKey, statement_for
from core.audit.entries import Kind
from core.ids import new_id
from core.models.tools import Risk
from core.policy.grants import GrantTerms, SignedGrant, exact_arguments
from core.statements import SignedStatement, signed_bytes
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, Rig

SHELL = {"command": "rm -rf build"}
TWO = '[[rule]]\nid = "two"\ndecision = "ask"\ntool = "shell_execute"\napprovers = 2\n'


async def asked(rig: Rig) -> Approval:
    return await asyncio.wait_for(rig.asked.get(), PATIENCE_S)


def yes(key: OperatorKey, approval: Approval, **changes: Any) -> SignedStatement:
    return key.sign(statement_for(approval, "approve", key.name).model_copy(update=changes))


def no(key: OperatorKey, approval: Approval) -> SignedStatement:
    return key.sign(statement_for(approval, "deny", key.name, "not now"))


def terms_for(approval: Approval, author: str, **changes: Any) -> GrantTerms:
    fields: dict[str, Any] = {
        "id": f"g-{new_id()}",
        "approval": approval.id,
        "author": author,
        "devices": [DEVICE],
        "tool_key": approval.request.tool_key,
        "contract": approval.request.contract,
        "actors": [approval.actor],
        "arguments": exact_arguments(approval.request.parameters),
        "risk": Risk.MEDIUM if approval.decision.risk.rank < Risk.HIGH.rank else Risk.HIGH,
        "expires": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    }
    if fields["risk"] is Risk.HIGH:
        fields["uses"] = 100
    return GrantTerms.model_validate({**fields, **changes})


def signed_grant(key: OperatorKey, terms: GrantTerms) -> SignedGrant:
    return SignedGrant(terms=terms, signature=key._private.sign(signed_bytes(terms)).hex())


async def kinds_of(rig: Rig) -> list[Kind]:
    return [entry.kind for entry in await rig.entries()]
