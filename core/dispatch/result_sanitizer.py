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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from core.aip.binary_frames import BASE64_KEY, BYTES_KEY
from core.broken_text import MARK, valid_text
from core.commands.live_secrets import MOST_DEPTH, Redaction
from core.commands.results import Evidence
from core.errors import DeviceError, ErrorCode
from core.json_walk import MOST_DIGITS, is_finite, is_small, is_too_long

LARGE_TEXT = 64 * 1024
HEAD_OF_LARGE_TEXT = 2_000
# Answers up to this size (values, and units of 100 characters) are searched for secrets on the loop: 2 ms.
_SEARCHED_ON_LOOP = 500
MOST_PIXELS = 100_000_000
# Never shown as text or picture, so the device's claim of such a media type is accepted unchecked.
_OTHER_MEDIA = re.compile(r"(audio|video|application)/[A-Za-z0-9][A-Za-z0-9.+-]{0,100}")
_UNKNOWN_MEDIA = "application/octet-stream"
_CONSOLE_KEYS = frozenset(
    {"blob", "media_type", "size", "width", "height", "what", "head", BYTES_KEY, BASE64_KEY}
)
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
class _Findings:
    """The findings of a walk over a result: places to fill with blob references, and problems."""

    pictures: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)
    texts: list[tuple[str, dict[str, Any], str]] = field(default_factory=list)
    files: list[tuple[str, dict[str, Any], str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    broken_text: bool = False
    # The original object and its depth, by `id` of its replacement: restored as a tool's own data if its
    # supposed base64 is none.
    own: dict[int, tuple[dict[str, Any], int]] = field(default_factory=dict)


async def take_evidence(
    result: Any,
    blobs: Blobs,
    redaction: Redaction,
    *,
    sends_bytes: bool = False,
    on_broken_text: Callable[[], None] | None = None,
) -> tuple[Any, list[Evidence]]:
    """Replace pictures, files and large texts by blob references; returns the result and the references.

    `redaction` is applied before anything is stored or returned.

    `sends_bytes`: the device can send bytes directly (feature `binary`). Its string under `data_base64` may
    then be a tool's own data. It is kept as such if it is not base64, or not a picture although sent as one.

    The returned result always has a canonical JSON form; U+FFFD takes the place of broken Unicode.
    `on_broken_text` is called if any text has this mark, from here or from where the text came in.

    Raises:
        UnusableAnswer: data sent as a picture is none, or the result is not JSON data.
    """
    findings = _Findings()
    if is_small(result, _SEARCHED_ON_LOOP):
        redacted = redaction.value(result)
    else:
        redacted = await asyncio.to_thread(redaction.value, result)
    sanitized = _walk(redacted, "", findings, 0)
    if sends_bytes:
        await _restore_own_data(findings, redaction)
    evidence = [await _store_text(place, target, text, blobs) for place, target, text in findings.texts]
    for place, target, media_type, content in findings.files:
        evidence.append(
            await _store_file(place, target, media_type, content, blobs, findings.problems, redaction)
        )
    for place, target, data in findings.pictures:
        evidence.append(await _store_picture(place, target, data, blobs, findings.problems, redaction))
    if findings.broken_text and on_broken_text is not None:
        on_broken_text()
    if findings.problems:
        raise UnusableAnswer(
            f"The device's answer cannot be used: {'; '.join(findings.problems[:5])}.", evidence
        )
    return sanitized, evidence


def _walk(value: Any, place: str, findings: _Findings, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if depth > MOST_DEPTH:
        findings.problems.append(f"it is nested deeper than {MOST_DEPTH} levels")
        return None
    if isinstance(value, str):
        return _text(value, place, findings)
    if isinstance(value, int):
        if is_too_long(value):
            findings.problems.append(f"{place or 'it'} has more than {MOST_DIGITS:,} digits")
            return None
        return value
    if isinstance(value, float):
        if is_finite(value):
            return value
        findings.problems.append(f"{place or 'it'} is not a JSON number")
        return None
    if isinstance(value, list):
        return [
            _walk(element, f"{place}[{index}]", findings, depth + 1) for index, element in enumerate(value)
        ]
    if isinstance(value, dict) and isinstance(value.get(BYTES_KEY), bytes):
        return _binary(value, value[BYTES_KEY], place or "the result", findings, depth)
    if isinstance(value, dict) and BASE64_KEY in value:
        return _binary(value, value[BASE64_KEY], place or "the result", findings, depth)
    if isinstance(value, dict):
        return _members(value, place, findings, depth)
    findings.problems.append(f"{place or 'it'} is not JSON data")
    return None


def _members(value: dict[str, Any], place: str, findings: _Findings, depth: int) -> dict[str, Any]:
    sanitized: dict[str, Any] = {}
    for key, member in value.items():
        name = str(key)
        if depth < MOST_DEPTH and _is_unchanged(member):
            sanitized[_valid_text(name, findings)] = member
        else:
            sanitized[_valid_text(name, findings)] = _walk(
                member, f"{place}.{name}" if place else name, findings, depth + 1
            )
    return sanitized


def _is_unchanged(value: Any) -> bool:
    """Whether a value needs no change: the fast path for most values that devices send."""
    value_type = type(value)
    return (
        value is None
        or value_type is bool
        or (value_type is int and not is_too_long(value))
        or (value_type is str and len(value) <= LARGE_TEXT and bool(value.isascii()))
    )


async def _restore_own_data(findings: _Findings, redaction: Redaction) -> None:
    """Restore tools' own data that was taken for base64; its other members have been walked already."""

    async def is_own(target: dict[str, Any], content: Any, picture: bool) -> bool:
        if id(target) not in findings.own:
            return False
        data = _decoded(content)
        is_own_data = data is None or (picture and await asyncio.to_thread(_picture_info, data) is None)
        if is_own_data:
            value, depth = findings.own[id(target)]
            claimed = {key: item for key, item in value.items() if key in _CONSOLE_KEYS}
            # Taken for base64, it has not been redacted yet.
            claimed[BASE64_KEY] = redaction.value(claimed[BASE64_KEY])
            target.update(_members(claimed, "the result", findings, depth))
        return is_own_data

    findings.pictures = [item for item in findings.pictures if not await is_own(item[1], item[2], True)]
    findings.files = [item for item in findings.files if not await is_own(item[1], item[3], False)]


def _binary(value: dict[str, Any], data: Any, place: str, findings: _Findings, depth: int) -> dict[str, Any]:
    """Register bytes or base64 as a picture, or as a file if it has another media type."""
    # Members beside the bytes (a URI, a title) are kept, except the keys that only the console may set.
    other_members = {key: member for key, member in value.items() if key not in _CONSOLE_KEYS}
    target: dict[str, Any] = _walk(other_members, place, findings, depth)
    if not isinstance(data, bytes):
        findings.own[id(target)] = (value, depth)
    media_type = value.get("media_type")
    if not isinstance(media_type, str) or media_type.lower().startswith("image/"):
        findings.pictures.append((place, target, data))
    else:
        accepted_type = media_type if _OTHER_MEDIA.fullmatch(media_type) else _UNKNOWN_MEDIA
        findings.files.append((place, target, accepted_type, data))
    return target


def _text(value: str, place: str, findings: _Findings) -> Any:
    value = _valid_text(value, findings)
    if len(value) <= LARGE_TEXT:
        return value
    target: dict[str, Any] = {}
    findings.texts.append((place, target, value))
    return target


def _valid_text(text: str, findings: _Findings) -> str:
    if text.isascii():
        return text
    text = valid_text(text)
    findings.broken_text = findings.broken_text or MARK in text
    return text


async def _store_text(place: str, target: dict[str, Any], text: str, blobs: Blobs) -> Evidence:
    data = text.encode()
    evidence = Evidence(blob=await blobs.put_blob(data), media_type="text/plain", size=len(data), what=place)
    target.update(blob=evidence.blob, media_type=evidence.media_type, size=evidence.size)
    target["head"] = text[:HEAD_OF_LARGE_TEXT]
    return evidence


async def _store_file(
    place: str,
    target: dict[str, Any],
    media_type: str,
    content: Any,
    blobs: Blobs,
    problems: list[str],
    redaction: Redaction,
) -> Evidence:
    data = content if isinstance(content, bytes) else _decoded(content)
    if data is None:
        problems.append(f"{place} is not base64")
        media_type, data = _UNKNOWN_MEDIA, valid_text(str(content)).encode()
    data = await _redacted(data, redaction)
    evidence = Evidence(blob=await blobs.put_blob(data), media_type=media_type, size=len(data), what=place)
    target.update(blob=evidence.blob, media_type=evidence.media_type, size=evidence.size)
    return evidence


async def _store_picture(
    place: str,
    target: dict[str, Any],
    encoded: Any,
    blobs: Blobs,
    problems: list[str],
    redaction: Redaction,
) -> Evidence:
    data = encoded if isinstance(encoded, bytes) else _decoded(encoded)
    if data is None:
        problems.append(f"{place} is not base64")
        data = valid_text(str(encoded)).encode()
        picture_info = None
    else:
        picture_info = await asyncio.to_thread(_picture_info, data)
        if picture_info is None:
            problems.append(f"{place} is not a picture")
    if picture_info is None:
        data = await _redacted(data, redaction)
    media_type, width, height = picture_info or (_UNKNOWN_MEDIA, None, None)
    evidence = Evidence(
        blob=await blobs.put_blob(data),
        media_type=media_type,
        size=len(data),
        what="picture" if picture_info else "not a picture",
        width=width,
        height=height,
    )
    target.update(evidence.model_dump(exclude_none=True, exclude={"what"}))
    return evidence


async def _redacted(data: bytes, redaction: Redaction) -> bytes:
    if len(data) <= LARGE_TEXT:
        return redaction.data(data)
    return await asyncio.to_thread(redaction.data, data)


def _decoded(text: Any) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None


def _picture_info(data: bytes) -> tuple[str, int, int] | None:
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
