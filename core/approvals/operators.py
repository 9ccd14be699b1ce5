"""The registered operators of a home: names and public keys from the journal. It has no private keys.

The journal is the only source: an operator that is registered only in a file does not count. The first
operator of a home is registered without a signature, once in the life of its journal. Every later
registration, and every removal, is signed by an operator. `operators.json` is a copy for people and other
programs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import BaseModel, TypeAdapter, ValidationError

from core.approvals.models import Operator
from core.audit.entries import Entry, Kind
from core.changes import Change, ChangeKind, ChangeStatement, SignedChange, SignedIdentity
from core.errors import BadInput, ErrorCode, JournalCorrupt, Refused, first_fault
from core.files import read_own_text, write_atomic
from core.home import OPERATOR_NAME
from core.log import Logger
from core.policy.grants import SignedGrant
from core.similar import meant_or_known
from core.statements import SignedStatement, verify_signature
from core.text import sentences

log = Logger(__name__)

MOST_OPERATORS = 100
LARGEST_FILE = 1 << 20

Holds = Callable[[Entry, ChangeStatement], bool]


@dataclass(slots=True)
class _Term:
    """When an operator's key counted: from the entry `first` until the entry `last`, if there is one."""

    public_key: str
    first: int
    last: int | None = None

    def covers(self, seq: int) -> bool:
        """Whether the key counted at the entry of this number."""
        return self.first < seq and (self.last is None or seq < self.last)


def adding(operator: Operator) -> Change:
    """The change that registers a further operator."""
    after = {"public_key": operator.public_key, "has_passphrase": operator.has_passphrase}
    return Change(kind=ChangeKind.OPERATOR_ADDED, subject=operator.name, after=after)


def removing(operator: Operator) -> Change:
    """The change that removes an operator."""
    return Change(
        kind=ChangeKind.OPERATOR_REMOVED, subject=operator.name, before={"public_key": operator.public_key}
    )


_OPERATORS = TypeAdapter(list[Operator])


def read_copy(path: Path) -> list[Operator] | None:
    """The operators that a home's `operators.json` names; None without it. Any program may have written it.

    Raises:
        BadInput: it cannot be read, or does not have the form that the service writes.
    """
    text = read_own_text(path, LARGEST_FILE)
    try:
        return None if text is None else _OPERATORS.validate_json(text)
    except ValidationError as error:
        raise BadInput(sentences(f"{path} is not as it was written: {first_fault(error)}")) from error


class Operators:
    """The registered operators of one home."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._operators: dict[str, Operator] = {}
        # True once a first operator was registered, even if removed: every later one needs a signature.
        self._had_operator = False
        # The terms of every operator of the journal: what a removed operator signed before stays valid.
        self._terms: dict[str, list[_Term]] = {}

    def restore(self, entries: Iterable[Entry], holds: Holds) -> list[str]:
        """Rebuild the operators from journal entries, oldest first.

        `holds` says whether a statement in an entry is of this home, in its time and used for the first time.
        Returns sentences on the registrations, and on the entries of `operators.json`, that do not count.

        Raises:
            JournalCorrupt: an entry about operators does not have the form that the service writes.
        """
        ignored: list[str] = []
        try:
            for entry in entries:
                if entry.kind is Kind.OPERATOR_REGISTERED:
                    ignored += self._restore_operator(entry, holds)
                elif entry.kind is Kind.OPERATOR_REMOVED:
                    ignored += self._restore_removal(entry, holds)
        except (ValidationError, KeyError, TypeError) as error:
            raise JournalCorrupt(
                sentences(f"The journal's entries about operators cannot be read: {first_fault(error)}")
            ) from error
        return [*ignored, *self._compare_copy()]

    def _restore_operator(self, entry: Entry, holds: Holds) -> list[str]:
        operator = Operator.model_validate(entry.body["operator"])
        if self.is_registered(operator):
            return []
        if self._had_operator and not self._signed_now(entry, adding(operator), holds):
            return [f"Operator {operator.name} (entry {entry.seq}) was registered without a valid signature."]
        registered = operator.model_copy(update={"registered_at": operator.registered_at or entry.time})
        self._register(registered)
        self._terms.setdefault(operator.name, []).append(_Term(operator.public_key, entry.seq))
        return []

    def _restore_removal(self, entry: Entry, holds: Holds) -> list[str]:
        operator = self._operators.get(str(entry.body["operator"]))
        if operator is None:
            return []
        if not self._signed_now(entry, removing(operator), holds):
            return [f"Operator {operator.name} was removed without a valid signature (entry {entry.seq})."]
        del self._operators[operator.name]
        self._terms[operator.name][-1].last = entry.seq
        return []

    def _register(self, operator: Operator) -> None:
        self._had_operator = True
        self._operators[operator.name] = operator

    def _signed_now(self, entry: Entry, change: Change, holds: Holds) -> bool:
        """Whether an operator registered at the time of the entry signed this change there."""
        try:
            signed = SignedChange.model_validate(entry.body.get("signed"))
        except ValidationError:
            return False
        author = self._operators.get(signed.statement.approver)
        return (
            author is not None
            and signed.statement.change == change
            and holds(entry, signed.statement)
            and verify_signature(signed.statement, signed.signature, author.public_key)
        )

    def _compare_copy(self) -> list[str]:
        """Report operators that only `operators.json` names, and write the file again from the journal."""
        differences: list[str] = []
        try:
            text = read_own_text(self._path, LARGEST_FILE)
            rows = json.loads(text) if text is not None else []
            for row in rows:
                operator = Operator.model_validate(row)
                if self._registered(operator) is None:
                    differences.append(
                        f"operators.json names {operator.name} with a key that is not registered in the "
                        "journal; it does not count."
                    )
        except (BadInput, ValueError, TypeError) as error:
            text = None
            differences.append(
                f"operators.json was not as it was written ({first_fault(error)});"
                " the journal's operators hold."
            )
        if text != self._copy_text() and (self._operators or text is not None):
            self._write()
        return differences

    def list(self) -> list[Operator]:
        """All operators, in the order of their registration."""
        return list(self._operators.values())

    @property
    def begun(self) -> bool:
        """Whether this home has, or ever had, an operator."""
        return self._had_operator

    def get(self, name: str) -> Operator:
        """The operator with this name.

        Raises:
            BadInput: no operator has that name (code `not_found`).
        """
        operator = self._operators.get(name)
        if operator is None:
            known = meant_or_known(name, self._operators, "Operators")
            raise BadInput(f"{name} is not an operator of this home. {known}.", ErrorCode.NOT_FOUND)
        return operator

    def is_registered(self, operator: Operator) -> bool:
        """Whether exactly this name and key are registered already."""
        return self._registered(operator) is not None

    def check_new(self, operator: Operator) -> None:
        """Check that this operator can be registered; the caller checks the signature.

        Raises:
            BadInput: the name or key is malformed.
            Refused: the name or key is taken, or there are `MOST_OPERATORS` operators.
        """
        if not OPERATOR_NAME.fullmatch(operator.name):
            raise BadInput("An operator's name has letters, digits, '.', '_' and '-', at most 64.")
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(operator.public_key))
        except ValueError as error:
            raise BadInput("This is not an Ed25519 public key.") from error
        if operator.name in self._operators:
            raise Refused(
                f"{operator.name} is registered with another key.",
                next_step="Choose another name, or remove that operator first.",
            )
        if any(registered.public_key == operator.public_key for registered in self._operators.values()):
            # With two names for the same key, one person could give two approvals.
            raise Refused(
                "This key belongs to another operator already.",
                next_step="Make a key of this operator's own.",
            )
        if len(self._operators) >= MOST_OPERATORS:
            raise Refused(
                f"There are {MOST_OPERATORS} operators already.",
                next_step="Remove one who is not there any more.",
            )

    def check_removable(self, name: str) -> Operator:
        """The operator with this name, if another operator remains after the removal.

        Raises:
            BadInput: no operator has that name (code `not_found`).
            Refused: it is the last operator; without an operator no further operator could be registered.
        """
        operator = self.get(name)
        if len(self._operators) == 1:
            raise Refused(
                f"{name} is the only operator; without one, nothing can be approved any more.",
                next_step="Add another operator first.",
            )
        return operator

    def add(self, operator: Operator) -> Operator:
        """Register an operator; the caller has journalled the registration."""
        registered = operator.model_copy(update={"registered_at": datetime.now(UTC).isoformat()})
        self._register(registered)
        self._write()
        return registered

    def remove(self, name: str) -> None:
        """Remove an operator; the caller has journalled the removal."""
        self._operators.pop(name, None)
        self._write()

    def check_signature(self, signed: SignedStatement) -> Operator:
        """The operator who signed this statement.

        Raises:
            Refused: no operator has that name, or the signature is not theirs (code `approval_invalid`).
        """
        return self._signer(signed.statement.approver, signed.statement, signed.signature)

    def check_change(self, signed: SignedChange) -> Operator:
        """The operator who signed this change.

        Raises:
            Refused: as `check_signature`.
        """
        return self._signer(signed.statement.approver, signed.statement, signed.signature)

    def signed_at(self, signed: SignedChange, seq: int) -> bool:
        """Whether an operator who was registered at the entry of this number signed this change."""
        return any(
            term.covers(seq) and verify_signature(signed.statement, signed.signature, term.public_key)
            for term in self._terms.get(signed.statement.approver, ())
        )

    def check_identity(self, signed: SignedIdentity) -> Operator:
        """The operator who signed this identity.

        Raises:
            Refused: as `check_signature`.
        """
        return self._signer(signed.identity.operator, signed.identity, signed.signature)

    def _signer(self, name: str, signed: BaseModel, signature: str) -> Operator:
        operator = self._operators.get(name)
        if operator is None:
            raise Refused(f"{name} is not an operator of this home.", ErrorCode.APPROVAL_INVALID)
        if not verify_signature(signed, signature, operator.public_key):
            raise Refused(f"The signature is not {name}'s.", ErrorCode.APPROVAL_INVALID)
        return operator

    def signed_grant(self, signed: SignedGrant) -> bool:
        """Whether the author of these terms is an operator and signed exactly them."""
        author = self._operators.get(signed.terms.author)
        return author is not None and verify_signature(signed.terms, signed.signature, author.public_key)

    def _registered(self, operator: Operator) -> Operator | None:
        registered = self._operators.get(operator.name)
        return registered if registered is not None and registered.public_key == operator.public_key else None

    def _copy_text(self) -> str:
        return json.dumps(
            [operator.model_dump(mode="json") for operator in self._operators.values()], indent=1
        )

    def _write(self) -> None:
        try:
            write_atomic(self._path, self._copy_text())
        except OSError as error:
            # The file is only a copy of the journal; the next start of the service writes it again.
            log.warning("operators.json cannot be written", problem=error.strerror)
