"""Canonical JSON (RFC 8785) and SHA-256 digests over it, used by approvals and the journal.

RFC 8785 has no form for integers beyond ±(2^53 - 1), which ids and keys exceed every day. Here an integer of
any size is its decimal digits; all else is as in the RFC.
"""

from __future__ import annotations

import hashlib
import json
from json.encoder import encode_basestring
from typing import Any

import orjson
import rfc8785

from core.broken_text import NOT_UNICODE, fault_words
from core.errors import BadInput
from core.json_walk import MOST_DIGITS, is_too_long
from core.text import sentences

# SQLite refuses JSON nested deeper than 2,000 levels; such an entry would block the journal.
MAX_DEPTH = 200
# orjson writes no others.
_LEAST_INTEGER, _MOST_INTEGER = -(2**63), 2**64 - 1


class Encoded:
    """A value's canonical bytes, which stand for it in a larger value. Made only by `encoded`.

    Not a dataclass, which pydantic would take for an object with the member `data`.
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


_PLAIN_KINDS = frozenset({str, bool, type(None), Encoded})
_KEY_KINDS = frozenset({str})


def canonical_bytes(value: Any) -> bytes:
    """Encode JSON data as RFC 8785, so that equal values always have equal bytes.

    Raises:
        BadInput: not JSON, an integer of more than `MOST_DIGITS` digits, NaN, nested deeper than 200 levels,
            or text that is not valid Unicode.
    """
    try:
        # `plain_bytes` is a hundred times as fast, with the same bytes for plain values.
        return plain_bytes(value) if is_plain(value) else _written(value).encode()
    except UnicodeError as error:
        raise BadInput(f"This value has no canonical JSON form: {NOT_UNICODE}.") from error
    except (rfc8785.CanonicalizationError, RecursionError) as error:
        raise BadInput(
            sentences(f"This value has no canonical JSON form: {error or type(error).__name__}")
        ) from error


def encoded(value: Any) -> Encoded:
    """Encode JSON data that is a part of several larger values, or of one that is encoded later.

    Raises:
        BadInput: as `canonical_bytes`.
    """
    return Encoded(canonical_bytes(value))


def read_back(value: Any) -> Any:
    """The value that is encoded; any other value itself."""
    return decoded(value) if isinstance(value, Encoded) else value


def decoded(part: Any) -> Any:
    """The value of an encoded part.

    Raises:
        ValueError: `part` is not `Encoded`.
    """
    if not isinstance(part, Encoded):
        raise ValueError(f"{type(part).__name__} is not JSON data")
    return json.loads(part.data)


def _written(value: Any) -> str:
    """Write any value as RFC 8785 does, and integers of any size."""
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, Encoded):
        return value.data.decode()
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise BadInput("This value has no canonical JSON form: the names in an object must be text.")
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        return "{" + ",".join([f"{encode_basestring(name)}:{_written(value[name])}" for name in names]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_written, value)) + "]"
    if isinstance(value, int) and not isinstance(value, bool):
        if is_too_long(value):
            raise BadInput(f"A number has more than {MOST_DIGITS:,} digits, more than any value may have.")
        return int.__repr__(value)
    return rfc8785.dumps(value).decode()


def plain_bytes(value: Any) -> bytes:
    """The canonical bytes of a value for which `is_plain` is true.

    Raises:
        BadInput: the value contains text that is not valid Unicode.
    """
    try:
        return orjson.dumps(value, default=_fragment, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise BadInput(f"This value has no canonical JSON form: {fault_words(error)}.") from error


def _fragment(part: Any) -> orjson.Fragment:
    if not isinstance(part, Encoded):
        raise TypeError(f"{type(part).__name__} is not JSON data")
    return orjson.Fragment(part.data)


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
        return bool(_LEAST_INTEGER <= value <= _MOST_INTEGER)
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
        if kind in _PLAIN_KINDS or (kind is int and _LEAST_INTEGER <= item <= _MOST_INTEGER):
            continue
        if not is_plain(item, depth + 1):
            plain = False
    return plain


def float_prints_alike(value: Any) -> bool:
    """Whether Python writes this float as RFC 8785 does: without exponent and without trailing `.0`."""
    return type(value) is float and 1e-4 <= abs(value) < 1e16 and not value.is_integer()


def sha256_hex(data: bytes) -> str:
    """The SHA-256 digest of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """The SHA-256 digest, in hexadecimal, of a value's canonical bytes."""
    return sha256_hex(canonical_bytes(value))
