"""Canonical JSON (RFC 8785) and SHA-256 digests over it: what approvals and the journal are made of."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

from core.errors import BadInput


def canonical_bytes(value: Any) -> bytes:
    """Encode JSON data so that equal values always give equal bytes.

    Raises:
        BadInput: not JSON, a number beyond ±(2^53 - 1), NaN, or text that is not valid Unicode.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeError) as error:
        raise BadInput(f"This value has no canonical JSON form: {error or type(error).__name__}") from error


def sha256_hex(data: bytes) -> str:
    """The SHA-256 digest of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """The SHA-256 digest, in hexadecimal, of a value's canonical bytes."""
    return sha256_hex(canonical_bytes(value))
