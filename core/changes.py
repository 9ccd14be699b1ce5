"""What an operator signs to let more run unasked, or to let it reach farther: one statement over one change.

The client makes the change from what it shows to the operator, the service makes it again from what it is
about to do, and only where both are equal does the signature count. It knows no queue, no policy and no file.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.errors import ErrorCode, Refused
from core.ids import new_id

CHANGE_VALID_S = 120.0
# What only the service knows: the proof of a new device, and how it notes a tool that is trusted. A service
# that lies here gains nothing: the signature counts only where the service makes the same change again.
_MADE_BY_SERVICE = frozenset({"token_sha256", "dial_token_sha256", "pin"})


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ChangeKind(StrEnum):
    """What is changed. A closed list."""

    POLICY = "policy"
    SETTINGS = "settings"
    CONTRACT = "contract"
    DEVICE_PAIRED = "device_paired"
    DEVICE_SET = "device_set"
    LISTENING = "listening"
    RESUME = "resume"
    OPERATOR_ADDED = "operator_added"
    OPERATOR_REMOVED = "operator_removed"


class Change(_Plain):
    """One change: of what (`subject`), from what (`before`), to what (`after`); both are JSON objects.

    A text or a definition stands in it as its SHA-256, everything else as it is.
    """

    kind: ChangeKind
    subject: str = ""
    before: dict[str, Any] = Field(default_factory=dict)
    after: dict[str, Any] = Field(default_factory=dict)


class ChangeStatement(_Plain):
    """What an operator signs: Ed25519 over the canonical bytes of this model (RFC 8785 JSON).

    `home` is the public key of the home's journal, hexadecimal: a signature is good in one home, and by
    its `nonce` good once. `expires` is UTC, ISO 8601.
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
    """What an operator signs to prove to a service who is at this end of one connection.

    `challenge` was made by the service for this connection alone.
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
    """What a change would come to, before anybody signs it.

    `change` is what has to be signed, with what it replaces filled in by the service. `difference` says in
    words what would run, or reach farther, than now; it is empty where the change only tightens, which needs
    no signature (`needs_signature`).
    """

    home: str
    change: Change
    needs_signature: bool
    difference: list[str] = Field(default_factory=list)


def change_statement(proposal: Proposal, approver: str, valid_s: float = CHANGE_VALID_S) -> ChangeStatement:
    """What this operator would sign; worth nothing after `valid_s` seconds."""
    return ChangeStatement(
        home=proposal.home,
        change=proposal.change,
        approver=approver,
        nonce=new_id(),
        expires=(datetime.now(UTC) + timedelta(seconds=valid_s)).isoformat(),
    )


def check_proposal(wish: Change, proposal: Proposal) -> None:
    """That a proposal is for what was wished for, so that nothing else is signed by mistake or by a lie.

    The service may fill in what it replaces, and what stays as it is.

    Raises:
        Refused: it is for something else (code `approval_invalid`).
    """
    change = proposal.change
    kept = {
        name: value
        for name, value in change.after.items()
        if name not in wish.after and name not in _MADE_BY_SERVICE
    }
    same = all(name in change.after and change.after[name] == value for name, value in wish.after.items())
    # What nothing was known of before stays empty: a new device has no tags but those that were wished for.
    unchanged = all(
        change.before[name] == value if name in change.before else not value for name, value in kept.items()
    )
    if (change.kind, change.subject) != (wish.kind, wish.subject) or not same or not unchanged:
        raise Refused(
            "The service would change something else than what was asked for; nothing was signed.",
            ErrorCode.APPROVAL_INVALID,
        )
