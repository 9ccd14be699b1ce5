"""Stage 8: sanitizes a device's answer for storage; pictures, files and large texts become blobs.

Data sent as a picture must be a picture. A device cannot reference the console's blobs: fields with those
keys are rewritten from the bytes themselves. Secrets that a device repeats are redacted, except in pictures.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import re
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.aip.binary_frames import BASE64_KEY, BYTES_KEY
from core.dispatch.live_secrets import MOST_DEPTH, Redaction
from core.dispatch.models import Evidence
from core.errors import DeviceError, ErrorCode
from core.json_walk import is_finite
from core.schema_forms.json_values import is_small

LARGE_TEXT = 64 * 1024
HEAD_OF_LARGE_TEXT = 2_000
# Answers up to this size (values, and units of 100 characters) are searched for secrets on the loop: 2 ms.
_SEARCHED_AT_ONCE = 500
_LARGEST = 2**53 - 1
MOST_PIXELS = 100_000_000
# Never shown as text or picture, so the device's claim of such a media type is accepted unchecked.
_OTHER_MEDIA = re.compile(r"(audio|video|application)/[A-Za-z0-9][A-Za-z0-9.+-]{0,100}")
_UNKNOWN_MEDIA = "application/octet-stream"
_OURS = frozenset({"blob", "media_type", "size", "width", "height", "what", "head", BYTES_KEY, BASE64_KEY})
PICTURE_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}


class Blobs(Protocol):
    """The blob store for evidence; keys are SHA-256 digests."""

    async def put_blob(self, data: bytes) -> str: ...


class UnusableAnswer(DeviceError):
    """The device's answer is not what it claims to be; its bytes are stored as evidence."""

    default_code = ErrorCode.BAD_RESULT

    def __init__(self, message: str, evidence: list[Evidence]) -> None:
        super().__init__(message)
        self.evidence = evidence


@dataclass(slots=True)
class _Found:
    """The findings of a walk over a result: places to fill with blob references, and problems."""

    pictures: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)
    texts: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    files: list[tuple[str, dict[str, Any], str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    # The original object and its depth, by `id` of its replacement: restored as a tool's own data if its
    # supposed base64 is none.
    own: dict[int, tuple[dict[str, Any], int]] = field(default_factory=dict)


async def take_evidence(
    result: Any, blobs: Blobs, redaction: Redaction, *, sends_bytes: bool = False
) -> tuple[Any, list[Evidence]]:
    """Replace pictures, files and large texts by blob references; returns the result and the references.

    `redaction` is applied before anything is stored or returned.

    `sends_bytes`: the device can send bytes directly (feature `binary`). Its string under `data_base64` may
    then be a tool's own data. It is kept as such if it is not base64, or not a picture although sent as one.

    The returned result always has a canonical JSON form: integers beyond 2^53 become `{"$number": "…"}`, and
    broken Unicode is escaped.

    Raises:
        UnusableAnswer: data sent as a picture is none, or the result is not JSON data.
    """
    found = _Found()
    if is_small(result, _SEARCHED_AT_ONCE):
        redacted = redaction.value(result)
    else:
        redacted = await asyncio.to_thread(redaction.value, result)
    clean = _walk(redacted, "", found, 0)
    if sends_bytes:
        await _tell_apart(found, redaction)
    evidence = [await _keep_text(place, into, text, blobs) for place, into, text in found.texts]
    for place, into, media_type, content in found.files:
        evidence.append(await _keep_file(place, into, media_type, content, blobs, found.problems, redaction))
    for place, into, data in found.pictures:
        evidence.append(await _keep_picture(place, into, data, blobs, found.problems, redaction))
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
        return value if abs(value) <= _LARGEST else {"$number": str(value)}
    if isinstance(value, float):
        if is_finite(value):
            return value
        found.problems.append(f"{place or 'it'} is not a JSON number")
        return None
    if isinstance(value, list):
        return [_walk(one, f"{place}[{index}]", found, depth + 1) for index, one in enumerate(value)]
    if isinstance(value, dict) and isinstance(value.get(BYTES_KEY), bytes):
        return _binary(value, value[BYTES_KEY], place or "the result", found, depth)
    if isinstance(value, dict) and BASE64_KEY in value:
        return _binary(value, value[BASE64_KEY], place or "the result", found, depth)
    if isinstance(value, dict):
        return _members(value, place, found, depth)
    found.problems.append(f"{place or 'it'} is not JSON data")
    return None


def _members(value: dict[str, Any], place: str, found: _Found, depth: int) -> dict[str, Any]:
    clean: dict[str, Any] = {}
    for key, one in value.items():
        name = str(key)
        if depth < MOST_DEPTH and _is_small(one):
            clean[_whole(name)] = one
        else:
            clean[_whole(name)] = _walk(one, f"{place}.{name}" if place else name, found, depth + 1)
    return clean


def _is_small(value: Any) -> bool:
    """Whether a value needs no change anywhere: the fast path for most of what devices send."""
    kind = type(value)
    if kind is int:
        return bool(-_LARGEST <= value <= _LARGEST)
    return (
        value is None or kind is bool or (kind is str and len(value) <= LARGE_TEXT and bool(value.isascii()))
    )


async def _tell_apart(found: _Found, redaction: Redaction) -> None:
    """Restore tools' own data that was taken for base64; its other members have been walked already."""

    async def is_own(into: dict[str, Any], given: Any, picture: bool) -> bool:
        if id(into) not in found.own:
            return False
        data = _decoded(given)
        own = data is None or (picture and await asyncio.to_thread(_look_at, data) is None)
        if own:
            value, depth = found.own[id(into)]
            left = {key: one for key, one in value.items() if key in _OURS}
            # As supposed base64 it was not redacted yet.
            left[BASE64_KEY] = redaction.value(left[BASE64_KEY])
            into.update(_members(left, "the result", found, depth))
        return own

    found.pictures = [one for one in found.pictures if not await is_own(one[1], one[2], True)]
    found.files = [one for one in found.files if not await is_own(one[1], one[3], False)]


def _binary(value: dict[str, Any], data: Any, place: str, found: _Found, depth: int) -> dict[str, Any]:
    """Register bytes or base64 as a picture, or as a file if it has another media type."""
    # Members beside the bytes (a URI, a title) are kept, except the keys that only the console may set.
    rest = {key: one for key, one in value.items() if key not in _OURS}
    into: dict[str, Any] = _walk(rest, place, found, depth)
    if not isinstance(data, bytes):
        found.own[id(into)] = (value, depth)
    media_type = value.get("media_type")
    if not isinstance(media_type, str) or media_type.lower().startswith("image/"):
        found.pictures.append((place, into, data))
    else:
        known = media_type if _OTHER_MEDIA.fullmatch(media_type) else _UNKNOWN_MEDIA
        found.files.append((place, into, known, data))
    return into


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


async def _keep_file(
    place: str,
    into: dict[str, Any],
    media_type: str,
    given: Any,
    blobs: Blobs,
    problems: list[str],
    redaction: Redaction,
) -> Evidence:
    data = given if isinstance(given, bytes) else _decoded(given)
    if data is None:
        problems.append(f"{place} is not base64")
        media_type, data = _UNKNOWN_MEDIA, str(given).encode("utf-8", "backslashreplace")
    data = await _redacted(data, redaction)
    kept = Evidence(blob=await blobs.put_blob(data), media_type=media_type, size=len(data), what=place)
    into.update(blob=kept.blob, media_type=kept.media_type, size=kept.size)
    return kept


async def _keep_picture(
    place: str,
    into: dict[str, Any],
    encoded: Any,
    blobs: Blobs,
    problems: list[str],
    redaction: Redaction,
) -> Evidence:
    data = encoded if isinstance(encoded, bytes) else _decoded(encoded)
    if data is None:
        problems.append(f"{place} is not base64")
        data = str(encoded).encode("utf-8", "backslashreplace")
        looked = None
    else:
        looked = await asyncio.to_thread(_look_at, data)
        if looked is None:
            problems.append(f"{place} is not a picture")
    if looked is None:
        data = await _redacted(data, redaction)
    media_type, width, height = looked or (_UNKNOWN_MEDIA, None, None)
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


async def _redacted(data: bytes, redaction: Redaction) -> bytes:
    if len(data) <= LARGE_TEXT:
        return redaction.data(data)
    return await asyncio.to_thread(redaction.data, data)


def _decoded(text: Any) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None


def _look_at(data: bytes) -> tuple[str, int, int] | None:
    # Imported here: importing Pillow takes 30 ms, which would delay start-up.
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
