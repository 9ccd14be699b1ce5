"""Counts the parts of a frame before it is parsed, because parsing blocks the event loop for all links.

A part is a value, a list or object, or a name in an object: it is counted as a comma, opening bracket or
colon outside of texts (JSON strings). Parsing takes up to 0.1 µs per part, so `MOST_PARTS` take less than
0.1 s; an object with only distinct names takes longer, because each name misses the processor's cache. A
result with so many parts would be too large for the journal anyway (`core.aip.pending_requests`: 8 bytes for
a number, 15 for a named number). The content of a text costs nothing: 25 MB of it are one part.
"""

from __future__ import annotations

from core.errors import DeviceError, ErrorCode

MOST_PARTS = 920_000
# Numbers with thousands of digits are few parts but slow to parse. Outside of texts there are only numbers,
# constants, punctuation and white space, and the journal accepts at most 7 MiB of them.
MOST_OUTSIDE = 12 * 1024 * 1024
# Above this number of texts, splitting them off costs more than parsing the frame.
_MOST_TEXTS = 500_000
_MARKS = b",:[{"
_ALL_ELSE = bytes(byte for byte in range(256) if byte not in b'",:[{')


def check_frame_parts(data: bytes) -> None:
    """Refuse a frame that takes too long to parse.

    Raises:
        DeviceError: it has too many parts, too many texts, or too many bytes outside of texts (code
            `protocol_error`).
    """
    if len(data) <= MOST_PARTS or (len(data) <= MOST_OUTSIDE and _parts(data) <= MOST_PARTS):
        return
    if b"\\" in data:
        # Escaped quotation marks do not end a text. Pairs of backslashes go first: in `\\"` the mark ends it.
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if len(data) <= MOST_OUTSIDE:
        # Most texts contain none of the counted marks and become `""`, so they go at once. In valid JSON,
        # `""` can be nothing else here; the parser refuses invalid JSON.
        data = data.translate(None, _ALL_ELSE).replace(b'""', b"")
    if data.count(b'"') > 2 * _MOST_TEXTS:
        raise DeviceError(
            f"Not an AIP frame: it holds more than {_MOST_TEXTS:,} texts beside much else.",
            ErrorCode.PROTOCOL_ERROR,
        )
    outside = b"".join(data.split(b'"')[::2])
    if len(outside) > MOST_OUTSIDE:
        raise DeviceError(
            f"Not an AIP frame: it holds more than {MOST_OUTSIDE:,} bytes outside of its texts.",
            ErrorCode.PROTOCOL_ERROR,
        )
    if _parts(outside) > MOST_PARTS:
        raise DeviceError(
            f"Not an AIP frame: it holds more than {MOST_PARTS:,} values, names, lists and objects.",
            ErrorCode.PROTOCOL_ERROR,
        )


def _parts(data: bytes) -> int:
    return sum(data.count(mark) for mark in _MARKS)
