"""Signatures of changes that loosen security: checked when a change is made, and when it is read back.

The change gate checks a signature before the change is recorded. `SignatureHistory` checks it as strictly
when a service reads the journal at its start: what stands in the journal may have come there by another way
than the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from pydantic import ValidationError

from core.approvals.operators import Operators
from core.audit.entries import Entry, Kind
from core.audit.events import kinds_with
from core.audit.journal import Journal
from core.changes import Change, ChangeKind, ChangeStatement, SignedChange
from core.errors import ErrorCode, Refused
from core.statements import MOST_STATEMENT_SECONDS, check_time

# These have a signed approval or grant in their `signed`.
_OTHER_STATEMENTS = {Kind.APPROVAL_GIVEN, Kind.APPROVAL_DENIED, Kind.APPROVAL_REJECTED, Kind.GRANT_GIVEN}
# The kinds of entries that contain the signature of a change, accepted or refused.
SIGNED_KINDS = tuple(kind for kind in kinds_with("signed") if kind not in _OTHER_STATEMENTS)
# Returns the change of a kind that an entry holds, if its signature counts; None if there is none.
SignedIn = Callable[[Entry, ChangeKind], Change | None]
# An entry gets its time a moment after its signature was checked; a service that was halted may take longer.
_RECORDED_WITHIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class SignatureHistory:
    """The signed changes in a journal, by which each signature holds once and in its time.

    `first` has the number of the first entry with each nonce, whether its change was accepted or refused. At
    the entries `clock_set_back` the journal was ahead of the clock, so that their time says nothing.
    """

    home_key: str
    first: dict[str, int]
    clock_set_back: frozenset[int]

    @classmethod
    async def read(cls, journal: Journal) -> Self:
        """Read all signed changes of a journal.

        Raises:
            JournalError: the journal cannot be read.
        """
        first: dict[str, int] = {}
        set_back: set[int] = set()
        async for entry in journal.entries(f"kind:{','.join(SIGNED_KINDS)} quarterdeck.change"):
            statement = _statement_in(entry)
            if statement is None:
                continue
            first.setdefault(statement.nonce, entry.seq)
            if _is_late(entry, statement) and await _clock_was_set_back(journal, entry):
                set_back.add(entry.seq)
        return cls(journal.public_key.public_bytes_raw().hex(), first, frozenset(set_back))

    @classmethod
    def of(cls, home_key: str, entries: Iterable[Entry]) -> Self:
        """The signed changes among these entries of `SIGNED_KINDS`, oldest first, of a closed journal.

        What was signed while the clock was set back does not count here.
        """
        first: dict[str, int] = {}
        for entry in entries:
            if (statement := _statement_in(entry)) is not None:
                first.setdefault(statement.nonce, entry.seq)
        return cls(home_key, first, frozenset())

    def holds(self, entry: Entry, statement: ChangeStatement) -> bool:
        """Whether a statement in this entry is of this home, was used here first, and had not expired.

        The caller checks the signature.
        """
        if statement.home != self.home_key or self.first.get(statement.nonce) != entry.seq:
            return False
        if _is_late(entry, statement) and entry.seq not in self.clock_set_back:
            return False
        return _seconds_left(entry, statement) <= MOST_STATEMENT_SECONDS


def _statement_in(entry: Entry) -> ChangeStatement | None:
    signed = entry.body.get("signed")
    try:
        return ChangeStatement.model_validate(signed["statement"] if isinstance(signed, dict) else None)
    except (ValidationError, KeyError):
        return None


def _is_late(entry: Entry, statement: ChangeStatement) -> bool:
    return _seconds_left(entry, statement) <= -_RECORDED_WITHIN.total_seconds()


def _seconds_left(entry: Entry, statement: ChangeStatement) -> float:
    """How long the statement was still valid at the time of the entry; minus infinity if it never was."""
    try:
        expires, at = (datetime.fromisoformat(text) for text in (statement.expires, entry.time))
        return (expires - at).total_seconds()
    except (ValueError, TypeError):
        return float("-inf")


async def _clock_was_set_back(journal: Journal, entry: Entry) -> bool:
    """Whether the journal was ahead of the clock: an entry then has the time of the one before it."""
    return entry.seq > 1 and (await journal.entry(entry.seq - 1)).time == entry.time


class ChangeGate:
    """Checks a change's signature before the change is recorded. One per service."""

    def __init__(self, operators: Operators, history: SignatureHistory) -> None:
        self.home_key = history.home_key
        self._operators = operators
        self._used = set(history.first)

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
        was_used = statement.nonce in self._used
        # Also if it is refused below: the refusal is in the journal, where others can read the signature.
        self._used.add(statement.nonce)
        if statement.home != self.home_key:
            raise Refused("The signature is for another home.", ErrorCode.APPROVAL_INVALID)
        if statement.change != change:
            raise Refused(
                "The signature is for another change, or things changed meanwhile; look and sign again.",
                ErrorCode.APPROVAL_INVALID,
            )
        check_time(statement.expires)
        if was_used:
            raise Refused("This signature was used already.", ErrorCode.APPROVAL_INVALID)
        return {"signed": signed.model_dump(mode="json")}
