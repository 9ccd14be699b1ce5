"""What a frame is made of, counted before it is read: reading it holds the loop, whoever else waits.

A part is a value, a list or object, or a name in an object: a comma, an opening bracket or a colon that
stands outside of texts. Each takes up to a tenth of a microsecond, so that `MOST_PARTS` of them take less
than 0.1 s; in one object of nothing but different names it is more, for each misses the processor's cache.
A result of so many would be too much for the journal anyway (`core.aip.pending_requests`: eight bytes a
number and fifteen for a named one). What stands inside of a text costs nothing: 25 MB of it are one part.
"""

from __future__ import annotations

from core.errors import DeviceError, ErrorCode

MOST_PARTS = 920_000
# Numbers of thousands of digits are few parts and take long all the same. Nothing but numbers, names of
# constants and blanks stands outside of texts, and the journal takes 7 MiB of them.
MOST_OUTSIDE = 12 * 1024 * 1024
# To look at each text costs more than to read the frame, once there are so many.
_MOST_TEXTS = 500_000
_MARKS = b",:[{"
_ALL_ELSE = bytes(byte for byte in range(256) if byte not in b'",:[{')


def check_frame_parts(data: bytes) -> None:
    """Refuse a frame that takes too long to read.

    Raises:
        DeviceError: it has too many parts, or too much outside of its texts (code `protocol_error`).
    """
    if len(data) <= MOST_PARTS or (len(data) <= MOST_OUTSIDE and _parts(data) <= MOST_PARTS):
        return
    if b"\\" in data:
        # A quotation mark that is a part of its text ends none. Pairs go first: in `\\"` it is no part.
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if len(data) <= MOST_OUTSIDE:
        # Texts without a mark in them, most of all, are gone at once: `""` is nothing else where JSON is
        # valid, and where it is not nobody reads on.
        data = data.translate(None, _ALL_ELSE).replace(b'""', b"")
    if data.count(b'"') > 2 * _MOST_TEXTS:
        raise DeviceError(
            f"Not an AIP frame: it holds more than {_MOST_TEXTS:,} texts beside much else",
            ErrorCode.PROTOCOL_ERROR,
        )
    outside = b"".join(data.split(b'"')[::2])
    if len(outside) > MOST_OUTSIDE:
        raise DeviceError(
            f"Not an AIP frame: it holds more than {MOST_OUTSIDE:,} bytes outside of its texts",
            ErrorCode.PROTOCOL_ERROR,
        )
    if _parts(outside) > MOST_PARTS:
        raise DeviceError(
            f"Not an AIP frame: it holds more than {MOST_PARTS:,} values, names, lists and objects",
            ErrorCode.PROTOCOL_ERROR,
        )


def _parts(data: bytes) -> int:
    return sum(data.count(mark) for mark in _MARKS)
