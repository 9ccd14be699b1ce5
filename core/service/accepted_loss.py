"""Accepting that a journal has lost its newest entries: the change to be signed, and its signature.

A journal that is older than its last known head does not open, so that no service can be asked. The program
that asks the operator does the work itself, and owns the home while it does.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.approvals.models import Operator
from core.approvals.operators import Operators, read_copy
from core.audit.accepted_loss import Loss, accept_loss, entries_left, find_loss
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Kind
from core.audit.events import LossAccepted
from core.changes import Change, ChangeKind, Proposal, SignedChange
from core.errors import BadInput, ErrorCode, JournalCorrupt, Refused
from core.home import Home
from core.service.changes import SIGNED_KINDS, ChangeGate, SignatureHistory
from core.text import sentences


@dataclass(frozen=True, slots=True)
class LossProposal:
    """A loss that may be accepted: `proposal` is to be signed by one of `operators`."""

    loss: Loss
    key: Ed25519PrivateKey
    proposal: Proposal
    operators: Operators
    history: SignatureHistory


def propose(home: Home) -> LossProposal:
    """The loss of a home's journal, and the change by which an operator accepts it. Blocks.

    The caller holds the home's lock. Changes nothing.

    Raises:
        BadInput: nothing is missing.
        JournalError: what is left does not verify or names no operator, or a file cannot be read.
    """
    if not (home.path / "journal.head").exists():
        raise BadInput(f"There is no journal with a known head in {home.path}.", ErrorCode.NOT_FOUND)
    key = load_or_create_journal_key(home.keys / "journal.key")
    loss = find_loss(home.path, key.public_key())
    change = Change(
        kind=ChangeKind.LOSS_ACCEPTED,
        subject="journal",
        before={"size": loss.known.size, "root": loss.known.root.hex(), "head": loss.known_note},
        after={"size": loss.left.size, "root": loss.left.root.hex()},
    )
    difference = [
        f"{loss.words}: lost for ever. The next entry says so, and names the head that was known.",
        "What it approved, revoked, paused or stopped is not known any more: look before work goes on.",
    ]
    home_key = key.public_key().public_bytes_raw().hex()
    proposal = Proposal(home=home_key, change=change, needs_signature=True, difference=difference)
    history = SignatureHistory.of(home_key, entries_left(home.path, SIGNED_KINDS))
    operators = _operators_left(home, history)
    if not operators.list():
        raise JournalCorrupt(
            f"{loss.words}. What is left of the journal names no operator who could sign for the loss:"
            " put an earlier copy of the home back."
        )
    return LossProposal(loss, key, proposal, operators, history)


def _operators_left(home: Home, history: SignatureHistory) -> Operators:
    """The operators that the rest of the journal knows."""
    entries = entries_left(home.path, (Kind.OPERATOR_REGISTERED, Kind.OPERATOR_REMOVED))
    # Restoring writes the copy, and the home's copy may know of a later removal.
    with tempfile.TemporaryDirectory() as folder:
        operators = Operators(Path(folder) / "operators.json")
        operators.restore(entries, history.holds)
    return operators


def accept(home: Home, wish: LossProposal, signed: SignedChange | None) -> int:
    """Accept a loss that an operator has signed; returns the number of the entry that says so. Blocks.

    Raises:
        Refused: no operator of this home has signed exactly this loss, or the operator may have been removed
            in what is missing.
        JournalError: the journal was changed meanwhile, or cannot be written.
    """
    gate = ChangeGate(wish.operators, wish.history)
    proof = gate.check(wish.proposal.change, signed)
    assert signed is not None, "checked by the gate"
    author = wish.operators.check_change(signed)
    _check_not_removed(home, author)
    loss = wish.loss
    event = LossAccepted(
        from_=loss.left.size + 1,
        to=loss.known.size,
        known_head=loss.known_note,
        spool=loss.spool,
        **proof,
    )
    return accept_loss(home.path, wish.key, "quarterdeck", loss, event.entry(f"operator:{author.name}"))


def _check_not_removed(home: Home, author: Operator) -> None:
    """Refuse an operator whom the home's copy of the operators lacks: the removal may be what is missing."""
    try:
        known = read_copy(home.operators)
    except BadInput as error:
        raise Refused(
            sentences(f"{home.operators} cannot be read: {error}"), ErrorCode.APPROVAL_INVALID
        ) from error
    if known is None:
        return
    if all((one.name, one.public_key) != (author.name, author.public_key) for one in known):
        raise Refused(
            f"{author.name} is not in {home.operators}: what is missing may have removed this operator.",
            ErrorCode.APPROVAL_INVALID,
        )
