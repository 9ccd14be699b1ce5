"""Reads the wire format of protocol buffers without their definitions, for the syntax trees of cel-cpp.

The Python packages of protobuf and CEL do not have these trees' definitions.
Format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import struct
from collections import defaultdict

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Message = dict[int, list[int | bytes]]
"""The fields of a message by number, each with its values in order; fixed-size numbers are bytes."""


def decode(data: bytes) -> Message:
    """Read a message.

    Raises:
        ValueError: the data is no message.
    """
    fields: Message = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _read_varint(data, at)
            fields[number].append(value)
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == BYTES:
            size, at = _read_varint(data, at)
        if size is None or at + size > len(data):
            raise ValueError(f"field {number} of a protocol buffer cannot be read")
        fields[number].append(data[at : at + size])
        at += size
    return fields


def signed(value: int) -> int:
    """A varint as the signed 64-bit number that it stands for."""
    return struct.unpack("<q", value.to_bytes(8, "little"))[0]  # type: ignore[no-any-return]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number of a protocol buffer cannot be read")
