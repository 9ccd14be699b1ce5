"""Who may approve: names and public keys, in `operators.json`. Private keys never come here."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from pydantic import ValidationError

from core.canonical import digest_of
from core.errors import BadInput, ErrorCode, JournalCorrupt, Refused
from core.home import OPERATOR_NAME, write_private
from core.policy.grants import SignedGrant
from core.policy.models import Operator
from core.policy.operator_keys import verify_statement
from core.statements import SignedStatement, Statement, check_time, verify_signature

MOST_OPERATORS = 100


def endorsement_of(operator: Operator, by: str, expires: str) -> Statement:
    """What an operator signs to vouch for another one: name and key, as a statement about no command."""
    return Statement(
        verdict="approve",
        approval=f"operator:{operator.name}",
        request_digest=digest_of({"name": operator.name, "public_key": operator.public_key}),
        contract="",
        device="",
        call_id="",
        approver=by,
        expires=expires,
    )


class Operators:
    """The registered operators of one home."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._operators: dict[str, Operator] = {}

    def load(self) -> Operators:
        """Read the file; without it nobody is registered yet.

        Raises:
            JournalCorrupt: the file is damaged. Starting with nobody would let anybody register first.
        """
        try:
            rows = json.loads(self._path.read_text("utf-8"))
            self._operators = {one.name: one for one in map(Operator.model_validate, rows)}
        except FileNotFoundError:
            self._operators = {}
        except (OSError, ValueError, TypeError, ValidationError) as error:
            raise JournalCorrupt(f"{self._path} is damaged: {error}") from error
        return self

    def list(self) -> list[Operator]:
        """All operators, in the order they were registered."""
        return list(self._operators.values())

    def check_new(self, operator: Operator, endorsed: SignedStatement | None = None) -> None:
        """Whether this operator could be registered. The first needs nobody's leave, every later one has an
        operator's signature under its name and key (`endorsement_of`).

        Raises:
            BadInput: the name or key is not usable.
            Refused: the name or key is taken, or no operator vouches for it.
        """
        if not OPERATOR_NAME.fullmatch(operator.name):
            raise BadInput("An operator's name has letters, digits, '.', '_' and '-', at most 64.")
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(operator.public_key))
        except ValueError as error:
            raise BadInput("This is not an Ed25519 public key.") from error
        if not self._operators or self._known(operator) is not None:
            return
        if operator.name in self._operators:
            raise Refused(f"{operator.name} is registered with another key.", ErrorCode.DENIED_BY_POLICY)
        if any(one.public_key == operator.public_key for one in self._operators.values()):
            # Two names for one key would be two approvals by one person.
            raise Refused("This key belongs to another operator already.", ErrorCode.DENIED_BY_POLICY)
        if len(self._operators) >= MOST_OPERATORS:
            raise Refused(f"There are {MOST_OPERATORS} operators already.", ErrorCode.DENIED_BY_POLICY)
        self._check_endorsed(operator, endorsed)

    def _check_endorsed(self, operator: Operator, endorsed: SignedStatement | None) -> None:
        if endorsed is None:
            raise Refused(
                "This home has an operator already; one of them has to sign for another one.",
                ErrorCode.DENIED_BY_POLICY,
            )
        self.check_signature(endorsed)
        statement = endorsed.statement
        wanted = endorsement_of(operator, statement.approver, statement.expires)
        if statement != wanted:
            raise Refused("The signature is not for this operator and key.", ErrorCode.APPROVAL_INVALID)
        check_time(statement.expires)

    def add(self, operator: Operator, endorsed: SignedStatement | None = None) -> Operator:
        """Register an operator; one that is registered with the same key is returned as it stands.

        Raises:
            BadInput, Refused: as `check_new`; or the file cannot be written.
        """
        self.check_new(operator, endorsed)
        known = self._known(operator)
        if known is not None:
            return known
        registered = operator.model_copy(update={"registered_at": datetime.now(UTC).isoformat()})
        rows = [one.model_dump(mode="json") for one in (*self._operators.values(), registered)]
        try:
            write_private(self._path, json.dumps(rows, indent=1))
        except OSError as error:
            raise BadInput(f"{self._path} cannot be written: {error.strerror}.") from error
        self._operators[registered.name] = registered
        return registered

    def check_signature(self, signed: SignedStatement) -> Operator:
        """The operator who signed this statement.

        Raises:
            Refused: nobody by that name, or the signature is not theirs (code `approval_invalid`).
        """
        statement = signed.statement
        operator = self._operators.get(statement.approver)
        if operator is None:
            raise Refused(
                f"{statement.approver} is not an operator of this home.", ErrorCode.APPROVAL_INVALID
            )
        if not verify_statement(signed, operator.public_key):
            raise Refused(f"The signature is not {statement.approver}'s.", ErrorCode.APPROVAL_INVALID)
        return operator

    def signed_grant(self, signed: SignedGrant) -> bool:
        """Whether one of the operators signed exactly these terms."""
        author = self._operators.get(signed.terms.author)
        return author is not None and verify_signature(signed.terms, signed.signature, author.public_key)

    def _known(self, operator: Operator) -> Operator | None:
        known = self._operators.get(operator.name)
        return known if known is not None and known.public_key == operator.public_key else None
