"""Stage 8: what a device sent back, made safe to keep: pictures and large texts become blobs.

A picture must be a picture, and a device cannot name blobs of ours: whatever it sends under those keys is
rewritten from the bytes themselves.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import math
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.dispatch.models import Evidence
from core.errors import DeviceError, ErrorCode

LARGE_TEXT = 64 * 1024
HEAD_OF_LARGE_TEXT = 2_000
MOST_DEPTH = 100
MOST_PIXELS = 100_000_000
PICTURE_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}


class Blobs(Protocol):
    """Where evidence is stored, by SHA-256."""

    async def put_blob(self, data: bytes) -> str: ...


class UnusableAnswer(DeviceError):
    """The device answered with something that cannot be what it says; its bytes are kept as evidence."""

    default_code = ErrorCode.BAD_RESULT

    def __init__(self, message: str, evidence: list[Evidence]) -> None:
        super().__init__(message)
        self.evidence = evidence


@dataclass(slots=True)
class _Found:
    """What a walk over a result came upon: the places to fill in, and what is wrong."""

    pictures: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)
    texts: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def take_evidence(result: Any, blobs: Blobs) -> tuple[Any, list[Evidence]]:
    """The result with pictures and large texts replaced by references, and those references.

    What comes back always has a canonical JSON form: whole numbers beyond 2^53 become `{"$number": "…"}`,
    broken Unicode is escaped.

    Raises:
        UnusableAnswer: something that claims to be a picture is none, or this is not JSON data.
    """
    found = _Found()
    clean = _walk(result, "", found, 0)
    evidence = [await _keep_text(place, into, text, blobs) for place, into, text in found.texts]
    for place, into, data in found.pictures:
        evidence.append(await _keep_picture(place, into, data, blobs, found.problems))
    if found.problems:
        raise UnusableAnswer(
            f"The device's answer cannot be used: {'; '.join(found.problems[:5])}.", evidence
        )
    return clean, evidence


def _walk(value: Any, place: str, found: _Found, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if depth > MOST_DEPTH:
        found.problems.append(f"it is nested deeper than {MOST_DEPTH} levels")
        return None
    if isinstance(value, str):
        return _text(value, place, found)
    if isinstance(value, int):
        return value if abs(value) < 2**53 else {"$number": str(value)}
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        found.problems.append(f"{place or 'it'} is not a JSON number")
        return None
    if isinstance(value, list):
        return [_walk(one, f"{place}[{index}]", found, depth + 1) for index, one in enumerate(value)]
    if isinstance(value, dict) and "data_base64" in value:
        into: dict[str, Any] = {}
        found.pictures.append((place or "the result", into, value["data_base64"]))
        return into
    if isinstance(value, dict):
        return {
            _whole(str(key)): _walk(one, f"{place}.{key}" if place else str(key), found, depth + 1)
            for key, one in value.items()
        }
    found.problems.append(f"{place or 'it'} is not JSON data")
    return None


def _text(value: str, place: str, found: _Found) -> Any:
    if len(value) <= LARGE_TEXT:
        return _whole(value)
    into: dict[str, Any] = {}
    found.texts.append((place, into, value))
    return into


def _whole(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


async def _keep_text(place: str, into: dict[str, Any], text: str, blobs: Blobs) -> Evidence:
    data = text.encode("utf-8", "backslashreplace")
    kept = Evidence(blob=await blobs.put_blob(data), media_type="text/plain", size=len(data), what=place)
    into.update(blob=kept.blob, media_type=kept.media_type, size=kept.size)
    into["head"] = _whole(text[:HEAD_OF_LARGE_TEXT])
    return kept


async def _keep_picture(
    place: str, into: dict[str, Any], encoded: Any, blobs: Blobs, problems: list[str]
) -> Evidence:
    data = _decoded(encoded)
    if data is None:
        problems.append(f"{place} is not base64")
        data = str(encoded).encode("utf-8", "backslashreplace")
        looked = None
    else:
        looked = await asyncio.to_thread(_look_at, data)
        if looked is None:
            problems.append(f"{place} is not a picture")
    media_type, width, height = looked or ("application/octet-stream", None, None)
    kept = Evidence(
        blob=await blobs.put_blob(data),
        media_type=media_type,
        size=len(data),
        what="picture" if looked else "not a picture",
        width=width,
        height=height,
    )
    into.update(kept.model_dump(exclude_none=True, exclude={"what"}))
    return kept


def _decoded(text: Any) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None


def _look_at(data: bytes) -> tuple[str, int, int] | None:
    # Pillow is only wanted where pictures come; importing it costs 30 ms of start-up.
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=list(PICTURE_TYPES)) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                return None
            media_type = PICTURE_TYPES[image.format or ""]
            image.load()
            return media_type, width, height
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, KeyError, Image.DecompressionBombError):
        return None
