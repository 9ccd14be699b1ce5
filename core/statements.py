"""Signed approvals: a command's canonical form, and an operator's signed statement about it.

The console creates and checks statements. A device that requires signed approvals checks them again, with
only its pinned keys. This module uses no queue, policy or file.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.canonical_json import Encoded, canonical_bytes, sha256_hex
from core.commitments import MOST_SECRETS, Opening, is_stand_in, marked_objects
from core.errors import BadInput, ErrorCode, Refused
from core.models.tools import ToolType

REQUEST_FORMAT = "quarterdeck.request/1"
PAYLOAD_FORMAT = "quarterdeck.payload/1"
MOST_STATEMENT_SECONDS = 600.0

_KEY = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"[0-9a-f]{128}")


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Request(_Plain):
    """A command bound to one device and one contract, as it is shown, approved and recorded.

    In `parameters` each secret is replaced by its stand-in (`core.commitments`). `digest` is SHA-256 over the
    canonical bytes: RFC 8785 JSON of every field but `digest`, plus `"format": REQUEST_FORMAT`. Every program
    that shows a request can therefore compute its digest.
    """

    device: str
    contract: str
    tool_key: str
    tool_name: str
    tool_type: ToolType
    namespace: str | None = None
    parameters: dict[str, Any]
    call_id: str
    digest: str


class Statement(_Plain):
    """The statement that an operator signs: Ed25519 over the canonical bytes of this model (RFC 8785 JSON).

    `expires` is UTC, ISO 8601: the signature is invalid afterwards.
    """

    format: Literal["quarterdeck.approval/1"] = "quarterdeck.approval/1"
    verdict: Literal["approve", "deny"]
    approval: str
    request_digest: str
    contract: str
    device: str
    call_id: str
    approver: str
    expires: str
    reason: str = ""


class SignedStatement(_Plain):
    """A statement with its signature: 128 hexadecimal digits."""

    statement: Statement
    signature: str


class ApprovalProof(_Plain):
    """The proof sent with an approved command to a device that checks approvals itself (`Terms.approval`).

    From it and its own definition of the tool, the device rebuilds the request and compares digests. `facts`
    are the console's facts about the tool; with the device's definition they determine `contract`. `secrets`
    name the arguments that were shown as commitments, and open these.
    """

    statements: list[SignedStatement] = Field(max_length=16)
    contract: str
    tool_key: str
    namespace: str | None = None
    facts: dict[str, Any] = Field(default_factory=dict)
    secrets: list[Opening] = Field(default_factory=list, max_length=MOST_SECRETS)


def request_bytes(request: Request) -> bytes:
    """The canonical bytes that a request's digest covers: all fields but `digest`, and the format's name.

    Raises:
        BadInput: the parameters have no canonical form.
    """
    return _request_bytes(request.__dict__)


def request_digest(request: Request) -> str:
    """SHA-256 of `request_bytes`, hexadecimal.

    Raises:
        BadInput: the parameters have no canonical form.
    """
    return sha256_hex(request_bytes(request))


def _request_bytes(fields: dict[str, Any]) -> bytes:
    # The Python values, not pydantic's JSON: that would write NaN as null, and the digest would cover a value
    # that is not sent.
    covered = {**fields, "format": REQUEST_FORMAT}
    covered.pop("digest", None)
    return canonical_bytes(covered)


def make_request(
    *,
    device: str,
    contract: str,
    tool_key: str,
    tool_name: str,
    tool_type: ToolType,
    namespace: str | None,
    parameters: dict[str, Any],
    call_id: str,
    encoded: Encoded | None = None,
) -> Request:
    """Bind a call to one device and one contract, and compute the digest that an approval covers.

    In `parameters` secrets are replaced by their stand-ins. `encoded` are their canonical bytes, if they are
    made already.

    Raises:
        BadInput: the parameters have no canonical form.
    """
    fields: dict[str, Any] = {
        "device": device,
        "contract": contract,
        "tool_key": tool_key,
        "tool_name": tool_name,
        "tool_type": tool_type,
        "namespace": namespace,
        "parameters": parameters,
        "call_id": call_id,
    }
    covered = fields if encoded is None else {**fields, "parameters": encoded}
    return Request(**fields, digest=sha256_hex(_request_bytes(covered)))


def check_shown(request: Request) -> None:
    """Check that a request's digest matches its shown fields. Clients call this before signing.

    Raises:
        Refused: the digest differs, or a secret's stand-in is malformed (code `approval_invalid`).
    """
    if not all(map(is_stand_in, marked_objects(request.parameters))):
        raise Refused(
            "What stands for a secret in this request is malformed; nothing is signed.",
            ErrorCode.APPROVAL_INVALID,
        )
    try:
        digest = request_digest(request)
    except BadInput as error:
        raise Refused(
            f"The digest of this request cannot be computed; nothing is signed. {error.message}",
            ErrorCode.APPROVAL_INVALID,
        ) from error
    if digest != request.digest:
        raise Refused(
            "The digest of this request is not that of what is shown; nothing is signed. "
            "The service is broken or another program stands in for it.",
            ErrorCode.APPROVAL_INVALID,
        )


def payload_digest(
    *, device: str, tool_name: str, tool_type: str, call_id: str | None, arguments: bytes
) -> str:
    """SHA-256 over a command as sent to a device, including secrets; `arguments` are canonical bytes."""
    head = canonical_bytes([PAYLOAD_FORMAT, device, tool_name, tool_type, call_id])
    digest = hashlib.sha256(head + b"\n")
    digest.update(arguments)
    return digest.hexdigest()


def short_code(digest: str) -> str:
    """The first eight digits of a request's digest, shown at both ends so that people can compare them."""
    return f"{digest[:4]} {digest[4:8]}"


def signed_bytes(model: BaseModel) -> bytes:
    """The bytes that a signature over a model covers."""
    return canonical_bytes(model.model_dump(mode="json"))


def verify_signature(model: BaseModel, signature: str, public_key: str) -> bool:
    """Whether this key (64 hexadecimal digits) signed exactly this model.

    Only lower-case digits are accepted: each signature has a single spelling, so that it can be compared.
    """
    # 10 ms: every client imports this module for its models, and most check no signature.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not _SIGNATURE.fullmatch(signature) or not _KEY.fullmatch(public_key):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        key.verify(bytes.fromhex(signature), signed_bytes(model))
    except (InvalidSignature, ValueError, BadInput):
        return False
    return True


def check_subject(statement: Statement, request: Request) -> None:
    """Check that a statement is about exactly this request, and has an expiry.

    Raises:
        Refused: it is for another request, contract, device or call, or has no valid expiry.
    """
    _expiry(statement.expires)
    for name, signed_value, value in (
        ("request", statement.request_digest, request.digest),
        ("contract", statement.contract, request.contract),
        ("device", statement.device, request.device),
        ("call", statement.call_id, request.call_id),
    ):
        if signed_value != value:
            raise Refused(f"The signature is for another {name}.", ErrorCode.APPROVAL_INVALID)


def _expiry(expires: str) -> datetime:
    try:
        moment = datetime.fromisoformat(expires)
    except (ValueError, TypeError) as error:
        raise Refused("The signature has no valid expiry.", ErrorCode.APPROVAL_INVALID) from error
    if moment.tzinfo is None:
        raise Refused("The signature has no valid expiry.", ErrorCode.APPROVAL_INVALID)
    return moment


def check_time(
    expires: str,
    most_seconds: float = MOST_STATEMENT_SECONDS,
    now: datetime | None = None,
    *,
    waited_s: float = 0.0,
) -> None:
    """Check that a signature has not expired, and expires within `most_seconds`.

    `waited_s` seconds since the signature was accepted do not count.

    Raises:
        Refused: it has expired, or is valid for too long (code `approval_invalid`).
    """
    left = (_expiry(expires) - (now or datetime.now(UTC))).total_seconds() + waited_s
    if not 0 < left <= most_seconds:
        raise Refused("The signature has expired, or is valid for too long.", ErrorCode.APPROVAL_INVALID)
