"""Entries as bytes: the canonical JSON (RFC 8785) of a whole entry, made fast because its shape is known.

Sorted as RFC 8785 wants them, its members are `actor blobs body call_id device duration_ms kind run`, then
`seq`, then `status step time tool verdict`. So all but the number can be encoded when an entry is handed in,
and the writer only puts the number between `head` and `tail`.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from core.audit.entries import Entry, NewEntry
from core.canonical import canonical_bytes
from core.errors import BadInput, ErrorCode, JournalCorrupt

MAX_ENTRY_BYTES = 8 * 1024 * 1024
# SQLite refuses JSON nested deeper than 2,000; one such entry would stop the journal for all others.
MAX_DEPTH = 200
_MAX_INTEGER = 2**53 - 1
_BLOB_NAME = re.compile(r"[0-9a-f]{64}")
_encode_plain = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode


class Parts(NamedTuple):
    """An entry's canonical bytes before and after the digits of its `seq`."""

    head: bytes
    tail: bytes

    def with_seq(self, seq: int) -> bytes:
        """The whole entry's canonical bytes."""
        return b"%b%d%b" % (self.head, seq, self.tail)


def now_text() -> str:
    """The present moment as entries carry it: UTC, microseconds, `Z`."""
    return datetime.now(UTC).isoformat(timespec="microseconds")[:26] + "Z"


def encode_parts(entry: NewEntry, time: str) -> Parts:
    """Encode all of an entry but its number.

    Raises:
        BadInput: the body is not JSON data, is nested too deeply, or the entry is too large.
    """
    for blob in entry.blobs:
        if not _BLOB_NAME.fullmatch(blob):
            raise BadInput(f"An entry names the blob {blob!r}; expected a SHA-256 in lower-case hexadecimal.")
    blobs = '","'.join(entry.blobs)
    try:
        head = (
            f'{{"actor":{_text(entry.actor)},"blobs":[{blobs and chr(34) + blobs + chr(34)}]'
            f',"body":{_body(entry.body)},"call_id":{_text(entry.call_id)},"device":{_text(entry.device)}'
            f',"duration_ms":{_number(entry.duration_ms)},"kind":"{entry.kind}","run":{_text(entry.run)},"seq":'
        ).encode()
        tail = (
            f',"status":{_text(entry.status)},"step":{_text(entry.step)},"time":"{time}"'
            f',"tool":{_text(entry.tool)},"verdict":{_text(entry.verdict)}}}'
        ).encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"This entry holds text that is not valid Unicode: {error.reason}.") from error
    if len(head) + len(tail) > MAX_ENTRY_BYTES:
        raise BadInput(
            f"An entry of {len(head) + len(tail):,} bytes is more than the {MAX_ENTRY_BYTES:,} allowed;"
            " put the large value into a blob.",
            ErrorCode.TOO_LARGE,
        )
    return Parts(head, tail)


def decode(data: bytes) -> Entry:
    """Read an entry from its bytes.

    Raises:
        JournalCorrupt: they are not an entry.
    """
    try:
        return Entry.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise JournalCorrupt(
            f"A stored entry cannot be read ({first['msg']}); run `quarterdeck audit verify` to find it."
        ) from error


def _text(value: str | None) -> str:
    return "null" if value is None else encode_basestring(value)


def _number(value: float | None) -> str:
    if value is None:
        return "null"
    if type(value) is int and -_MAX_INTEGER <= value <= _MAX_INTEGER:
        return str(value)
    if _float_prints_alike(value):
        return repr(value)
    return canonical_bytes(value).decode()


def _body(body: dict[str, Any]) -> str:
    if _is_plain(body):
        return _encode_plain(body)
    try:
        data = to_jsonable_python(body)
    except (PydanticSerializationError, ValueError) as error:
        raise BadInput(f"The body of an entry is not JSON data: {error}") from error
    _is_plain(data)
    return canonical_bytes(data).decode()


def _float_prints_alike(value: Any) -> bool:
    """Whether Python writes this float as RFC 8785 does: no exponent in either, no trailing `.0`."""
    return type(value) is float and 1e-4 <= abs(value) < 1e16 and not value.is_integer()


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether the standard encoder gives the canonical bytes of this value; walks all of it for its depth."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return bool(-_MAX_INTEGER <= value <= _MAX_INTEGER)
    if kind is float:
        return _float_prints_alike(value)
    if depth >= MAX_DEPTH and isinstance(value, dict | list | tuple):
        raise BadInput(f"The body of an entry is nested more than {MAX_DEPTH} levels deep.")
    if kind is dict:
        # Python sorts keys by code point, RFC 8785 by UTF-16 unit: the same for ASCII.
        plain = True
        for key, item in value.items():
            plain = _is_plain(item, depth + 1) and type(key) is str and key.isascii() and plain
        return plain
    if isinstance(value, list | tuple):
        plain = kind is list
        for item in value:
            plain = _is_plain(item, depth + 1) and plain
        return plain
    return False
