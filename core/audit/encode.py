"""Encodes entries as canonical JSON (RFC 8785), fast because the members of an entry are known.

In the order of RFC 8785 the members are `actor blobs body call_id device duration_ms kind run`, then `seq`,
then `status step time tool verdict`. So everything except `seq` is encoded when an entry is submitted, and
the writer only inserts the number between `head` and `tail`.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from core.audit.entries import Entry, NewEntry
from core.broken_text import NOT_UNICODE, fault_words
from core.canonical_json import canonical_bytes, decoded, is_plain, plain_bytes
from core.errors import BadInput, ErrorCode, JournalCorrupt
from core.text import sentences, shorten_middle

MAX_ENTRY_BYTES = 8 * 1024 * 1024
_SEQ = b',"seq":0,"status":'
_BEFORE_SEQ = len(b',"seq":')
_BLOB_NAME = re.compile(r"[0-9a-f]{64}")


class Parts(NamedTuple):
    """An entry's canonical bytes before and after the digits of its `seq`."""

    head: bytes
    tail: bytes

    def with_seq(self, seq: int) -> bytes:
        """The canonical bytes of the whole entry."""
        return b"%b%d%b" % (self.head, seq, self.tail)


def encode_parts(entry: NewEntry | Entry, time: str) -> Parts:
    """Encode an entry without its number.

    Raises:
        BadInput: the body is not JSON data or is nested too deeply, a blob name is invalid, the text is not
            valid Unicode, or the entry is too large.
    """
    for blob in entry.blobs:
        if not _BLOB_NAME.fullmatch(blob):
            raise BadInput(f"An entry names the blob {blob!r}; expected a SHA-256 in lower-case hexadecimal.")
    took = entry.duration_ms
    usual = is_plain(entry.body) and (took is None or is_plain(took))
    head, tail = _usual(entry, time) if usual else _unusual(entry, time)
    if len(head) + len(tail) > MAX_ENTRY_BYTES:
        raise BadInput(
            f"An entry of {len(head) + len(tail):,} bytes is more than the {MAX_ENTRY_BYTES:,} allowed;"
            " put the large value into a blob.",
            ErrorCode.TOO_LARGE,
        )
    return Parts(head, tail)


def _usual(entry: NewEntry | Entry, time: str) -> tuple[bytes, bytes]:
    """Encode an entry of plain values in one piece, then cut it at its number."""
    whole = {
        "actor": entry.actor,
        "blobs": entry.blobs,
        "body": entry.body,
        "call_id": entry.call_id,
        "device": entry.device,
        "duration_ms": entry.duration_ms,
        # Reading an enumeration member's `value` takes as long as the rest of this function.
        "kind": str.__str__(entry.kind),
        "run": entry.run,
        "seq": 0,
        "status": entry.status,
        "step": entry.step,
        "time": time,
        "tool": entry.tool,
        "verdict": entry.verdict,
    }
    data = plain_bytes(whole)
    # No text can contain `_SEQ`, because its quotes would be escaped, and no object follows after `seq`.
    at = data.rindex(_SEQ)
    return data[: at + _BEFORE_SEQ], data[at + _BEFORE_SEQ + 1 :]


def _unusual(entry: NewEntry | Entry, time: str) -> tuple[bytes, bytes]:
    """Encode an entry with values that need the full canonical encoder."""
    blobs = '","'.join(entry.blobs)
    try:
        start = f'{{"actor":{_text(entry.actor)},"blobs":[{blobs and chr(34) + blobs + chr(34)}],"body":'
        rest = (
            f',"call_id":{_text(entry.call_id)},"device":{_text(entry.device)}'
            f',"duration_ms":{_number(entry.duration_ms)},"kind":"{entry.kind}","run":{_text(entry.run)},"seq":'
        )
        head = b"%b%b%b" % (start.encode(), _body(entry.body), rest.encode())
        tail = (
            f',"status":{_text(entry.status)},"step":{_text(entry.step)},"time":"{time}"'
            f',"tool":{_text(entry.tool)},"verdict":{_text(entry.verdict)}}}'
        ).encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"This entry has no JSON form: {NOT_UNICODE}.") from error
    return head, tail


class UnknownKind(JournalCorrupt):
    """An entry is of a kind that this version does not know: a later version wrote the journal."""

    def __init__(self, kind: str, where: str) -> None:
        super().__init__(
            f"{where} has an entry of the kind {shorten_middle(kind, 60)!r}, which this version of"
            " Quarterdeck does not know: a later version wrote it. It is left as it is: use that version, or"
            " a later one, with this home."
        )


def decode(data: bytes, where: str = "The journal") -> Entry:
    """Read an entry from its bytes, which `where` names for an error message.

    Raises:
        UnknownKind: a later version wrote the entry.
        JournalCorrupt: the bytes are not an entry.
    """
    try:
        return Entry.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        if error.error_count() == 1 and first["loc"] == ("kind",) and isinstance(first["input"], str):
            raise UnknownKind(first["input"], where) from error
        raise JournalCorrupt(
            f"A stored entry cannot be read ({first['msg']}); run `quarterdeck audit verify` to find it."
        ) from error


def _text(value: str | None) -> str:
    return "null" if value is None else encode_basestring(value)


def _number(value: float | None) -> str:
    return "null" if value is None else canonical_bytes(value).decode()


def _body(body: dict[str, Any]) -> bytes:
    try:
        # Encodes as the fast path does; what is encoded already is read back, since it has one form only.
        data = to_jsonable_python(body, fallback=decoded)
    except (PydanticSerializationError, ValueError) as error:
        raise BadInput(sentences(f"The body of an entry is not JSON data: {fault_words(error)}")) from error
    is_plain(data)
    return canonical_bytes(data)
