"""Bytes in results: converts them from a tool's form to the form for each kind of peer.

A tool puts `{"media_type": "image/png", "data_bytes": b"…"}` (or bare `bytes`) anywhere into its result. The
router takes the bytes out and leaves `{"media_type": …, "$blob": sha256}`. A peer with the feature `binary`
gets this, after one binary frame for each blob; any other peer gets `{"media_type": …, "data_base64": …}`.

Long texts also become blobs, but only just before they are sent (`for_binary_peer`), since other peers and
the code that shortens results need them as texts. `$blob` keys in a tool's own data are escaped in results
with references.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from core.aip.extensions import BLOB_KEY, TEXT_BLOB, escaped, is_mark, pack_blob, unescaped
from core.aip.messages import Result

BYTES_KEY = "data_bytes"
BASE64_KEY = "data_base64"
_HEAD_LENGTH = 4
_DEEPEST = 200
# Longer texts become blobs: in a JSON frame each end escapes, scans and copies them several times.
LARGE_TEXT = 256 * 1024

Blobs = dict[str, bytes]


class BinaryResult(Result):
    """A result whose bytes were taken out: `blobs` maps each digest to a complete binary frame."""

    blobs: Blobs = Field(default_factory=dict, exclude=True, repr=False)


def has_bytes(value: Any, depth: int = 0) -> bool:
    """Whether bytes are anywhere in a tool's result."""
    kind = type(value)
    if kind is bytes:
        return True
    if depth >= _DEEPEST:
        return False
    if kind is dict:
        return any(has_bytes(item, depth + 1) for item in value.values())
    if kind is list or kind is tuple:
        return any(has_bytes(item, depth + 1) for item in value)
    return False


def take_out(value: Any, into: Blobs, media_type: str = "application/octet-stream") -> Any:
    """`value` with each bytes object replaced by its digest; the binary frames are added to `into`."""
    if isinstance(value, bytes):
        return {BLOB_KEY: _pack(value, media_type, into)}
    if isinstance(value, dict):
        data = value.get(BYTES_KEY)
        if isinstance(data, bytes):
            named = value.get("media_type") or value.get("mimeType")
            kind = named[:200] if isinstance(named, str) else media_type
            rest = {escaped(key): take_out(item, into) for key, item in value.items() if key != BYTES_KEY}
            return {**rest, BLOB_KEY: _pack(data, kind, into)}
        return {escaped(key): take_out(item, into) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [take_out(item, into) for item in value]
    return value


def as_base64(value: Any, blobs: Mapping[str, bytes]) -> Any:
    """`value` in the form for a peer without `binary`."""
    if isinstance(value, dict):
        named = value.get(BLOB_KEY)
        plain = {unescaped(key): as_base64(item, blobs) for key, item in value.items() if key != BLOB_KEY}
        if isinstance(named, str) and named in blobs:
            return {**plain, BASE64_KEY: base64.b64encode(blob_data(blobs[named])).decode("ascii")}
        return plain if BLOB_KEY not in value else {**plain, BLOB_KEY: named}
    if isinstance(value, list):
        return [as_base64(item, blobs) for item in value]
    return value


def blob_data(frame: bytes) -> memoryview:
    """The data of a binary frame."""
    return memoryview(frame)[_HEAD_LENGTH + int.from_bytes(frame[:_HEAD_LENGTH], "big") :]


def base64_size(blobs: Mapping[str, bytes]) -> int:
    """The size of all `blobs` as base64: limits use it for every peer, since it is the largest form."""
    return sum((len(blob_data(frame)) + 2) // 3 * 4 for frame in blobs.values())


def marked(result: Result) -> BinaryResult:
    """A result in which every `$blob` key is a reference: keys in a tool's own data are escaped."""
    if isinstance(result, BinaryResult):
        return result
    return BinaryResult(**{**result.model_dump(exclude={"result"}), "result": take_out(result.result, {})})


def plain(result: Result) -> Result:
    """A result without blobs, for a peer that has no `binary`."""
    if not isinstance(result, BinaryResult):
        return result
    value = as_base64(result.result, result.blobs)
    return Result(**{**result.model_dump(exclude={"result"}), "result": value})


def for_binary_peer(result: Result, most_blobs: int) -> Result:
    """A result in the form for a peer with `binary`: long texts become blobs, forged references are escaped.

    It has at most `most_blobs` blobs; further texts stay in the result.
    """
    known = isinstance(result, BinaryResult)
    blobs = dict(result.blobs) if isinstance(result, BinaryResult) else {}
    value = result.result if known else take_out(result.result, blobs)
    value = _texts_out(value, blobs, most_blobs)
    return BinaryResult(**{**result.model_dump(exclude={"result"}), "result": value, "blobs": blobs})


def is_ready_for_binary_peer(result: Result) -> bool:
    """Whether `for_binary_peer` would change nothing; a quick check."""
    return not _has_more_to_do(result.result, 0, marks=not isinstance(result, BinaryResult))


def _has_more_to_do(value: Any, depth: int, *, marks: bool) -> bool:
    kind = type(value)
    if kind is str:
        return len(value) > LARGE_TEXT
    if kind is dict and depth < _DEEPEST:
        return any(
            (marks and is_mark(key)) or _has_more_to_do(item, depth + 1, marks=marks)
            for key, item in value.items()
        )
    if kind is list and depth < _DEEPEST:
        return any(_has_more_to_do(item, depth + 1, marks=marks) for item in value)
    return False


def _texts_out(value: Any, into: Blobs, most_blobs: int) -> Any:
    if isinstance(value, dict):
        return {key: _texts_out(item, into, most_blobs) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts_out(item, into, most_blobs) for item in value]
    if not isinstance(value, str) or len(value) <= LARGE_TEXT or len(into) >= most_blobs:
        return value
    try:
        sha256, frame = pack_blob(value.encode(), TEXT_BLOB)
    except UnicodeEncodeError:
        return value
    if sha256 in into and into[sha256] != frame:
        # The same data is in the result as bytes: one digest cannot stand for both a text and bytes.
        return value
    into[sha256] = frame
    return {BLOB_KEY: sha256}


def _pack(data: bytes, media_type: str, into: Blobs) -> str:
    # The peer converts a blob of a text type to a text; these must stay bytes.
    kind = "application/octet-stream" if media_type.startswith("text/") else media_type
    sha256, frame = pack_blob(data, kind)
    into[sha256] = frame
    return sha256
