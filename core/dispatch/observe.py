"""Stage 8: what a device sent back, made safe to keep: pictures and large texts become blobs.

A picture must be a picture, and a device cannot name blobs of ours: whatever it sends under those keys is
rewritten from the bytes themselves.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import json
from typing import Any, Protocol

from core.dispatch.models import Evidence
from core.errors import DeviceError, ErrorCode

LARGE_TEXT = 64 * 1024
HEAD_OF_LARGE_TEXT = 2_000
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


async def take_evidence(result: Any, blobs: Blobs) -> tuple[Any, list[Evidence]]:
    """The result with pictures and large texts replaced by references, and those references.

    Raises:
        UnusableAnswer: something that claims to be a picture is none, or this is not JSON data.
    """
    evidence: list[Evidence] = []
    problems: list[str] = []

    async def walk(value: Any, place: str) -> Any:
        if isinstance(value, dict):
            if "data_base64" in value:
                return await picture(value, place)
            return {str(key): await walk(one, f"{place}.{key}") for key, one in value.items()}
        if isinstance(value, list):
            if len(value) > 1000:  # a long list of plain rows is not worth a coroutine each
                return value if not _holds_large(value) else [await walk(one, place) for one in value]
            return [await walk(one, f"{place}[{index}]") for index, one in enumerate(value)]
        if isinstance(value, str) and len(value) > LARGE_TEXT:
            return await large_text(value, place)
        return value

    async def large_text(value: str, place: str) -> dict[str, Any]:
        data = value.encode("utf-8", "surrogatepass")
        blob = await blobs.put_blob(data)
        what = place.lstrip(".")
        evidence.append(Evidence(blob=blob, media_type="text/plain", size=len(data), what=what))
        return {
            "blob": blob,
            "media_type": "text/plain",
            "size": len(data),
            "head": value[:HEAD_OF_LARGE_TEXT],
        }

    async def picture(value: dict[str, Any], place: str) -> dict[str, Any]:
        data = _decoded(value["data_base64"])
        if data is None:
            problems.append(f"{place.lstrip('.') or 'the result'} is not base64")
            data = str(value["data_base64"]).encode("utf-8", "replace")
        kept = await blobs.put_blob(data)
        looked = await asyncio.to_thread(_look_at, data)
        if looked is None:
            problems.append(f"{place.lstrip('.') or 'the result'} is not a picture")
            evidence.append(
                Evidence(
                    blob=kept, media_type="application/octet-stream", size=len(data), what="not a picture"
                )
            )
            return {"blob": kept, "media_type": "application/octet-stream", "size": len(data)}
        media_type, width, height = looked
        seen = Evidence(
            blob=kept, media_type=media_type, size=len(data), what="picture", width=width, height=height
        )
        evidence.append(seen)
        return {"blob": kept, "media_type": media_type, "size": len(data), "width": width, "height": height}

    clean = await walk(result, "")
    if problems:
        raise UnusableAnswer(f"The device's answer cannot be used: {'; '.join(problems)}.", evidence)
    return clean, evidence


def _holds_large(rows: list[Any]) -> bool:
    text = json.dumps(rows)
    return "data_base64" in text or len(text) > LARGE_TEXT * 4


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
