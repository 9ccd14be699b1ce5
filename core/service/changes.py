"""The change gate: checks the signature of a change that loosens security; each signature is valid once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from core.approvals.operators import Operators
from core.audit.entries import Entry, Kind
from core.audit.journal import Journal
from core.changes import Change, SignedChange
from core.errors import ErrorCode, Refused
from core.statements import MOST_STATEMENT_SECONDS, check_time

# The kinds of entries that contain the signature of a change.
SIGNED_KINDS = (
    Kind.POLICY_SAVED,
    Kind.PROFILE_CHANGED,
    Kind.SETTINGS_ACCEPTED,
    Kind.CONTRACT_PINNED,
    Kind.DEVICE_PAIRED,
    Kind.DEVICE_BOUND,
    Kind.DEVICE_SET,
    Kind.LISTENING_CHANGED,
    Kind.ALL_RESUMED,
    Kind.OPERATOR_REGISTERED,
    Kind.OPERATOR_REMOVED,
    Kind.AGENT_ADDED,
    Kind.AGENT_SET,
    Kind.LOSS_ACCEPTED,
)


class ChangeGate:
    """Checks a change's signature before the change is recorded. One per service."""

    def __init__(self, operators: Operators, home_key: str) -> None:
        """`home_key` is the public key of the home's journal, hexadecimal."""
        self.home_key = home_key
        self._operators = operators
        # Nonces of used signatures. Expired signatures are refused by their time.
        self._used: set[str] = set()

    def restore(self, entries: Iterable[Entry]) -> None:
        """Restore the used signatures from journal entries; expired signatures may be left out."""
        for entry in entries:
            signed = entry.body.get("signed")
            statement = signed.get("statement") if isinstance(signed, dict) else None
            if isinstance(statement, dict):
                self._used.add(str(statement.get("nonce", "")))

    def check(self, change: Change, signed: SignedChange | None) -> dict[str, Any]:
        """Check and use up a signature of exactly this change; returns the proof for the change's entry.

        Raises:
            Refused: there is no signature (`signature_required`), or it is not an operator's, is for another
                change or home, was used already, or has expired (`approval_invalid`).
        """
        if signed is None:
            raise Refused(
                "This lets more run, or reach farther, so an operator has to sign it.",
                ErrorCode.SIGNATURE_REQUIRED,
            )
        statement = signed.statement
        self._operators.check_change(signed)
        if statement.home != self.home_key:
            raise Refused("The signature is for another home.", ErrorCode.APPROVAL_INVALID)
        if statement.change != change:
            raise Refused(
                "The signature is for another change, or things changed meanwhile; look again and sign anew.",
                ErrorCode.APPROVAL_INVALID,
            )
        check_time(statement.expires)
        if statement.nonce in self._used:
            raise Refused("This signature was used already.", ErrorCode.APPROVAL_INVALID)
        self._used.add(statement.nonce)
        return {"signed": signed.model_dump(mode="json")}


async def used_signatures(journal: Journal) -> list[Entry]:
    """The entries of signed changes whose signatures may not have expired yet."""
    minutes = int(MOST_STATEMENT_SECONDS // 60) + 1
    page = await journal.query(f"kind:{','.join(SIGNED_KINDS)} since:{minutes}m", limit=5_000)
    return page.entries
