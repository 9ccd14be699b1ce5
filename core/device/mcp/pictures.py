"""Pictures from a server, held to what a console will take for one.

A console looks into every picture, and refuses the whole answer over one that is none. Servers send what
browsers show all the same: a PNG with a damaged colour profile, a JPEG called `image/jpg`, an empty file. So
what is a picture travels under its real type, a damaged part that no pixel depends on is left out (and named
in `left_out`), and whatever is no picture travels as plain bytes with the server's word for it beside them.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_UNKNOWN = "application/octet-stream"
# Four bytes each while it is looked at.
_MOST_PIXELS = 50_000_000
_PNG = b"\x89PNG\r\n\x1a\n"
_HEAD = struct.Struct(">I4s")
_CHECKSUM = struct.Struct(">I")
_OPTIONAL = 0x20  # this bit of a part's name
# In how many ways a decoder fails over bytes that a stranger made.
_FAULTS = (
    *(OSError, ValueError, SyntaxError, KeyError, IndexError, TypeError, EOFError, MemoryError),
    *(struct.error, zlib.error),
)


def has_pictures(result: dict[str, Any]) -> bool:
    """Whether anything in a result is said to be a picture."""
    return any(_said_type(block) for block in result["content"])


def settle_pictures(result: dict[str, Any]) -> None:
    """Give each picture in a result the type it has. Decodes them, so it is not for the loop."""
    for block in result["content"]:
        if said := _said_type(block):
            block.update(_settled(block["data_bytes"], said))
            if block["media_type"] != _UNKNOWN and block["media_type"] == said.lower():
                block.pop("image_type", None)


def _said_type(block: dict[str, Any]) -> str:
    """The kind of picture that a block's bytes are said to be; nothing where it is none."""
    said = block.get("image_type") or block.get("media_type")
    if not isinstance(block.get("data_bytes"), bytes) or not isinstance(said, str):
        return ""
    return said if said.lower().startswith("image/") else ""


def _settled(data: bytes, said: str) -> dict[str, Any]:
    if kind := _kind(data):
        return {"media_type": kind, "image_type": said}
    sound, damaged = _without_damaged(data)
    if damaged and (kind := _kind(sound)):
        left_out = f"{', '.join(damaged)}: the checksum is wrong"
        return {"media_type": kind, "image_type": said, "data_bytes": sound, "left_out": left_out}
    return {"media_type": _UNKNOWN, "image_type": said}


def _kind(data: bytes) -> str | None:
    # Only wanted where pictures come; importing it costs 30 ms.
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=list(_TYPES)) as image:
            if image.width * image.height > _MOST_PIXELS:
                return None
            image.load()
            return _TYPES[image.format or ""]
    except (*_FAULTS, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return None


def _without_damaged(data: bytes) -> tuple[bytes, list[str]]:
    """A PNG without its optional parts whose checksums are wrong, and their names."""
    if not data.startswith(_PNG):
        return data, []
    kept, damaged, place = [_PNG], [], len(_PNG)
    while place + _HEAD.size <= len(data):
        size, name = _HEAD.unpack_from(data, place)
        end = place + _HEAD.size + size
        if end + _CHECKSUM.size > len(data):
            break
        (said,) = _CHECKSUM.unpack_from(data, end)
        if name[0] & _OPTIONAL and zlib.crc32(data[place + 4 : end]) != said:
            damaged.append(name.decode("ascii", "replace"))
        else:
            kept.append(data[place : end + _CHECKSUM.size])
        place = end + _CHECKSUM.size
    return b"".join(kept), damaged
