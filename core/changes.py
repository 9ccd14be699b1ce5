"""Changes that loosen security, and the statement that an operator signs over such a change.

The client builds the change from what it shows to the operator. The service builds it again from the action
that it will carry out, and accepts the signature only if both are equal. This module uses no queue, policy or
file.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.errors import ErrorCode, Refused
from core.ids import new_id

CHANGE_VALID_S = 120.0
# Values that only the service knows: token digests, this console's certificates, a trusted tool's pin. A
# service gains nothing by lying here: the signature counts only if the service builds the same change again.
_MADE_BY_SERVICE = frozenset({"token_sha256", "dial_token_sha256", "pin", "certificate_sha256"})


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class ChangeKind(StrEnum):
    """The kind of a change. A closed list."""

    POLICY = "policy"
    SETTINGS = "settings"
    CONTRACT = "contract"
    DEVICE_PAIRED = "device_paired"
    DEVICE_SET = "device_set"
    DEVICE_BOUND = "device_bound"
    LISTENING = "listening"
    RESUME = "resume"
    OPERATOR_ADDED = "operator_added"
    OPERATOR_REMOVED = "operator_removed"
    AGENT_ADDED = "agent_added"
    AGENT_SET = "agent_set"
    LOSS_ACCEPTED = "loss_accepted"
    CERTIFICATE = "certificate"


class Change(_Plain):
    """A change of `subject` from `before` to `after`, which are JSON objects.

    Texts and definitions are represented by their SHA-256, all other values by themselves.
    """

    kind: ChangeKind
    subject: str = ""
    before: dict[str, Any] = Field(default_factory=dict)
    after: dict[str, Any] = Field(default_factory=dict)


def next_certificate_change(before: str, after: str) -> Change:
    """That devices accept, after this console's certificate `before`, its next one (SHA-256 of each)."""
    return Change(
        kind=ChangeKind.CERTIFICATE,
        before={"certificate_sha256": before},
        after={"certificate_sha256": after},
    )


class ChangeStatement(_Plain):
    """The statement that an operator signs: Ed25519 over the canonical bytes of this model (RFC 8785 JSON).

    `home` is the public key of the home's journal, hexadecimal: a signature is valid in one home only, and by
    its `nonce` only once. `expires` is UTC, ISO 8601.
    """

    format: Literal["quarterdeck.change/1"] = "quarterdeck.change/1"
    home: str
    change: Change
    approver: str
    nonce: str
    expires: str


class SignedChange(_Plain):
    """A change with its signature: 128 hexadecimal digits."""

    statement: ChangeStatement
    signature: str


class Identity(_Plain):
    """The statement that an operator signs to prove their identity on a connection to the service.

    The service created `challenge` for this connection only.
    """

    format: Literal["quarterdeck.identity/1"] = "quarterdeck.identity/1"
    home: str
    challenge: str
    operator: str


class SignedIdentity(_Plain):
    """An identity with its signature: 128 hexadecimal digits."""

    identity: Identity
    signature: str


class Proposal(_Plain):
    """The preview of a change before it is signed.

    `change` is the change to be signed, in which the service has filled in the replaced values. `difference`
    lists, in sentences, what would run or be reachable beyond the present state. It is empty if the change
    only tightens, which needs no signature (`needs_signature`).
    """

    home: str
    change: Change
    needs_signature: bool
    difference: list[str] = Field(default_factory=list)


def change_statement(proposal: Proposal, approver: str, valid_s: float = CHANGE_VALID_S) -> ChangeStatement:
    """The statement for this operator to sign; valid for `valid_s` seconds."""
    return ChangeStatement(
        home=proposal.home,
        change=proposal.change,
        approver=approver,
        nonce=new_id(),
        expires=(datetime.now(UTC) + timedelta(seconds=valid_s)).isoformat(),
    )


def check_proposal(wish: Change, proposal: Proposal) -> None:
    """Check that a proposal is for the requested change, so that nothing else is signed by mistake or deceit.

    The service may fill in the values that the change replaces and the values that stay the same.

    Raises:
        Refused: the proposal is for another change (code `approval_invalid`).
    """
    change = proposal.change
    kept = {
        name: value
        for name, value in change.after.items()
        if name not in wish.after and name not in _MADE_BY_SERVICE
    }
    same = all(name in change.after and change.after[name] == value for name, value in wish.after.items())
    # A value without a previous value must stay empty: a new device has only the requested tags.
    unchanged = all(
        change.before[name] == value if name in change.before else not value for name, value in kept.items()
    )
    if (change.kind, change.subject) != (wish.kind, wish.subject) or not same or not unchanged:
        raise Refused(
            "The service would change something else than what was asked for; nothing was signed.",
            ErrorCode.APPROVAL_INVALID,
        )
