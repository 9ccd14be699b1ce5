"""Operators' private keys: created, stored and used in the operator's own client, never in the service.

`keys/operator-NAME.pem` is a PKCS #8 key (Ed25519), encrypted if it has a passphrase.
`keys/operator-NAME.pub` is the public key in hexadecimal, so that keys can be listed without unlocking them.
"""

from __future__ import annotations

import getpass
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from core.approvals.models import Approval, Operator
from core.changes import ChangeStatement, Identity, SignedChange, SignedIdentity
from core.errors import BadInput, ErrorCode
from core.files import write_atomic
from core.home import OPERATOR_NAME, Home
from core.statements import SignedStatement, Statement, check_shown, signed_bytes, verify_signature

# cryptography is imported where a key is made or unlocked: 20 ms that a client which signs nothing is spared.
if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import KeySerializationEncryption

    from core.policy.grants import GrantTerms, SignedGrant

SHORTEST_PASSPHRASE = 10
# In bytes; OpenSSL cannot encrypt a key with a longer passphrase.
LONGEST_PASSPHRASE = 1023
STATEMENT_VALID_S = 60.0
# If several operators must sign, the first signature must stay valid until the others have read the request.
SHARED_VALID_S = 540.0

_ENCRYPTED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_KEY = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class OperatorKey:
    """An unlocked key. The private key is left out of `repr` and is written only to its own file."""

    name: str
    has_passphrase: bool
    _private: Ed25519PrivateKey = field(repr=False, compare=False)

    @property
    def public_key(self) -> str:
        """The raw public key, in 64 hexadecimal digits."""
        return self._private.public_key().public_bytes_raw().hex()

    @property
    def operator(self) -> Operator:
        """The operator's entry for the service: name, public key, and whether the key has a passphrase."""
        return Operator(name=self.name, public_key=self.public_key, has_passphrase=self.has_passphrase)

    def sign(self, statement: Statement) -> SignedStatement:
        """Sign a statement that names this operator as its approver.

        Raises:
            BadInput: it names another operator as its approver.
        """
        if statement.approver != self.name:
            raise BadInput(f"{self.name} cannot sign for {statement.approver}.")
        return SignedStatement(
            statement=statement, signature=self._private.sign(signed_bytes(statement)).hex()
        )

    def sign_change(self, statement: ChangeStatement) -> SignedChange:
        """Sign a change that permits more actions or wider access; it names this operator as its approver.

        Raises:
            BadInput: it names another operator as its approver.
        """
        if statement.approver != self.name:
            raise BadInput(f"{self.name} cannot sign for {statement.approver}.")
        signature = self._private.sign(signed_bytes(statement)).hex()
        return SignedChange(statement=statement, signature=signature)

    def sign_identity(self, home: str, challenge: str) -> SignedIdentity:
        """Prove to this home's service, by signing its challenge, that this operator uses the connection."""
        identity = Identity(home=home, challenge=challenge, operator=self.name)
        return SignedIdentity(identity=identity, signature=self._private.sign(signed_bytes(identity)).hex())

    def sign_grant(self, terms: GrantTerms) -> SignedGrant:
        """Sign the terms of a grant that name this operator as their author.

        Raises:
            BadInput: they name another operator as their author.
        """
        from core.policy.grants import SignedGrant

        if terms.author != self.name:
            raise BadInput(f"{self.name} cannot sign for {terms.author}.")
        return SignedGrant(terms=terms, signature=self._private.sign(signed_bytes(terms)).hex())


@dataclass(frozen=True, slots=True)
class KeyFile:
    """A stored key, not unlocked. `public_key` is "" if the `.pub` file is missing or malformed."""

    name: str
    has_passphrase: bool
    public_key: str


def _path(home: Home, name: str) -> Path:
    if not OPERATOR_NAME.fullmatch(name):
        raise BadInput(
            f"{name!r} cannot be an operator's name: letters, digits, '.', '_' and '-', at most 64, "
            "the first one a letter or digit."
        )
    return home.keys / f"operator-{name}.pem"


def login_name() -> str:
    """The login name, changed to a valid operator's name; "operator" if there is no usable login name."""
    try:
        login = getpass.getuser()
    except (OSError, KeyError):
        login = ""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", login).lstrip("._-")[:64]
    return name or "operator"


def create_operator_key(home: Home, name: str, passphrase: str | None) -> OperatorKey:
    """Generate a key and store it in the home, readable by its owner only.

    Raises:
        BadInput: the name is malformed, the passphrase is too short or too long, the home has a key of
            that name already, or the file cannot be written.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = _path(home, name)
    if passphrase is not None:
        _check_new(passphrase)
    if path.exists():
        raise BadInput(f"There is a key of {name} already; it is never overwritten.")
    private = Ed25519PrivateKey.generate()
    key = OperatorKey(name, passphrase is not None, private)
    try:
        write_atomic(path, _pem(private, passphrase), replace=False)
        # A public key file without its private key is a leftover: no operator can sign with it.
        path.with_suffix(".pub").unlink(missing_ok=True)
        write_atomic(path.with_suffix(".pub"), key.public_key, replace=False)
    except FileExistsError as error:
        raise BadInput(f"There is a key of {name} already; it is never overwritten.") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
    return key


def change_passphrase(home: Home, name: str, old: str | None, new: str) -> OperatorKey:
    """Store a key of this home under another passphrase; `old` is None where it had none. The key stays.

    A crash leaves the file as it was, or under the new passphrase. Returns the unlocked key.

    Raises:
        BadInput: as `load_operator_key`; the new passphrase is too short or too long; or the file cannot be
            written, and is as it was.
    """
    _check_new(new)
    key = load_operator_key(home, name, old)
    path = _path(home, name)
    try:
        write_atomic(path, _pem(key._private, new))
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}.") from error
    return OperatorKey(name, True, key._private)


def _check_new(passphrase: str) -> None:
    """Check the length of a new passphrase.

    Raises:
        BadInput: it is too short or too long.
    """
    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise BadInput(f"A passphrase has at least {SHORTEST_PASSPHRASE} characters.")
    if len(passphrase.encode("utf-8", "surrogatepass")) > LONGEST_PASSPHRASE:
        raise BadInput(f"A passphrase has at most {LONGEST_PASSPHRASE:,} bytes.")


def _pem(private: Ed25519PrivateKey, passphrase: str | None) -> bytes:
    """The content of a key's file."""
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    encryption: KeySerializationEncryption = NoEncryption()
    if passphrase is not None:
        encryption = BestAvailableEncryption(passphrase.encode())
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def delete_operator_key(home: Home, name: str) -> None:
    """Delete both files of a new key whose registration failed, so that it is of no use."""
    path = _path(home, name)
    path.unlink(missing_ok=True)
    path.with_suffix(".pub").unlink(missing_ok=True)


def list_operator_keys(home: Home) -> list[KeyFile]:
    """The keys in this home, sorted by name; none is unlocked."""
    keys = []
    for path in sorted(home.keys.glob("operator-*.pem")):
        name = path.stem.removeprefix("operator-")
        if not OPERATOR_NAME.fullmatch(name):
            continue
        with suppress(OSError):
            keys.append(KeyFile(name, path.read_bytes().lstrip().startswith(_ENCRYPTED), _public(path)))
    return keys


def _public(path: Path) -> str:
    try:
        text = path.with_suffix(".pub").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return text if _KEY.fullmatch(text) else ""


def load_operator_key(home: Home, name: str, passphrase: str | None) -> OperatorKey:
    """Unlock a key of this home.

    Raises:
        BadInput: there is no such key (code `not_found`); the passphrase is wrong or missing, or was given
            for a key without one; or the file cannot be read or has no Ed25519 key.
    """
    from cryptography.exceptions import InternalError, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path = _path(home, name)
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise BadInput(f"There is no key of {name} in {home.keys}.", ErrorCode.NOT_FOUND) from error
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from error
    encrypted = data.lstrip().startswith(_ENCRYPTED)
    if encrypted and passphrase is None:
        raise BadInput(f"The key of {name} has a passphrase; it was not given.")
    if not encrypted and passphrase is not None:
        raise BadInput(f"The key of {name} has no passphrase, but one was given.")
    try:
        private = load_pem_private_key(data, passphrase.encode() if passphrase is not None else None)
    except (ValueError, TypeError, UnsupportedAlgorithm, InternalError) as error:
        # A wrong passphrase decrypts to noise and cannot be distinguished from a damaged file.
        problem = "The passphrase is wrong, or the file is damaged" if encrypted else "The file is damaged"
        raise BadInput(f"The key of {name} does not open. {problem}: {path}.") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise BadInput(f"{path} is not an Ed25519 key.")
    return OperatorKey(name, encrypted, private)


def valid_seconds(approval: Approval) -> float:
    """The default validity, in seconds, of a signed answer to this request."""
    return STATEMENT_VALID_S if approval.approvers == 1 else SHARED_VALID_S


def statement_for(
    approval: Approval,
    verdict: Literal["approve", "deny"],
    approver: str,
    reason: str = "",
    valid_s: float | None = None,
) -> Statement:
    """The statement that an operator signs to answer this request; it expires after `valid_s` seconds.

    The default is a minute (`STATEMENT_VALID_S`), or `SHARED_VALID_S` if several operators must sign.

    Raises:
        Refused: the request's digest does not match its displayed content (code `approval_invalid`).
    """
    check_shown(approval.request)
    if valid_s is None:
        valid_s = valid_seconds(approval)
    request = approval.request
    return Statement(
        verdict=verdict,
        approval=approval.id,
        request_digest=request.digest,
        contract=request.contract,
        device=request.device,
        call_id=request.call_id,
        approver=approver,
        expires=(datetime.now(UTC) + timedelta(seconds=valid_s)).isoformat(),
        reason=reason,
    )


def verify_statement(signed: SignedStatement, public_key_hex: str) -> bool:
    """Whether this key signed exactly this statement."""
    return verify_signature(signed.statement, signed.signature, public_key_hex)
