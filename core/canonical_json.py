"""Canonical JSON (RFC 8785) and SHA-256 digests over it, used by approvals and the journal."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
import rfc8785

from core.errors import BadInput

# Characters. Larger arguments are rarely sent twice, and the keys stay in memory.
_LONGEST_KEY = 4096

# SQLite refuses JSON nested deeper than 2,000 levels; such an entry would block the journal.
MAX_DEPTH = 200
_MAX_INTEGER = 2**53 - 1
_PLAIN_KINDS = frozenset({str, bool, type(None)})
_KEY_KINDS = frozenset({str})


def canonical_bytes(value: Any) -> bytes:
    """Encode JSON data as RFC 8785, so that equal values always have equal bytes.

    Raises:
        BadInput: not JSON, a number beyond ±(2^53 - 1), NaN, nested deeper than 200 levels, or text that is
            not valid Unicode.
    """
    try:
        # `plain_bytes` is a hundred times as fast, with the same bytes for plain values.
        return plain_bytes(value) if is_plain(value) else rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeError) as error:
        raise BadInput(f"This value has no canonical JSON form: {error or type(error).__name__}") from error


def plain_bytes(value: Any) -> bytes:
    """The canonical bytes of a value for which `is_plain` is true.

    Raises:
        BadInput: the value contains text that is not valid Unicode.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise BadInput(f"This value holds text that is not valid Unicode: {error}.") from error


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether `plain_bytes` returns this value's canonical bytes.

    `plain_bytes` sorts keys by bytes, RFC 8785 by UTF-16 units; both orders are the same for ASCII. Floats
    that need an exponent or end in `.0` are written differently.

    Raises:
        BadInput: the value is nested deeper than 200 levels.
    """
    kind = type(value)
    if kind in _PLAIN_KINDS:
        return True
    if kind is int:
        return bool(-_MAX_INTEGER <= value <= _MAX_INTEGER)
    if kind is float:
        return float_prints_alike(value)
    if kind is not dict and kind is not list:
        return False
    if depth >= MAX_DEPTH:
        raise BadInput(f"This value is nested more than {MAX_DEPTH} levels deep.")
    # The walk continues after the first value that is not plain, because the depth must be checked.
    plain = True
    if kind is dict:
        plain = _KEY_KINDS.issuperset(map(type, value)) and "".join(value).isascii()
        value = value.values()
    # Fast path: most containers in an entry hold only plain scalars.
    if _PLAIN_KINDS.issuperset(map(type, value)):
        return plain
    for item in value:
        kind = type(item)
        if kind in _PLAIN_KINDS or (kind is int and -_MAX_INTEGER <= item <= _MAX_INTEGER):
            continue
        if not is_plain(item, depth + 1):
            plain = False
    return plain


def flat_key(value: dict[str, Any]) -> bytes | None:
    """A cache key of an object: its canonical bytes, equal exactly for equal JSON objects.

    None for an object that is nested, long, or not plain (`is_plain`).
    """
    size = 0
    for key, one in value.items():
        kind = type(one)
        if kind is dict or kind is list or type(key) is not str:
            return None
        size += len(key) + (len(one) if kind is str else 0)
    if size > _LONGEST_KEY or not is_plain(value):
        return None
    try:
        return plain_bytes(value)
    except BadInput:
        return None


def float_prints_alike(value: Any) -> bool:
    """Whether Python writes this float as RFC 8785 does: without exponent and without trailing `.0`."""
    return type(value) is float and 1e-4 <= abs(value) < 1e16 and not value.is_integer()


def sha256_hex(data: bytes) -> str:
    """The SHA-256 digest of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """The SHA-256 digest, in hexadecimal, of a value's canonical bytes."""
    return sha256_hex(canonical_bytes(value))
