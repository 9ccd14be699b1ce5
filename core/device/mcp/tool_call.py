"""Calls an MCP server's tool and reports the outcome, including an unknown one.

`result_of` converts the server's answer into a result of this device.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import io
import math
import struct
import time
import zlib
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.shared.dispatcher import ProgressFnT
from pydantic import ValidationError
from pydantic_core import to_json

from core.device.mcp.config import ServerConfig
from core.device.mcp.http_transport import ACCESS_DENIED, NOT_SENT, REJECTED, SESSION_GONE
from core.device.mcp.numbers import odd_number, with_texts_for_odd
from core.device.mcp.parse_faults import fault_in
from core.device.mcp.session import Session, is_unanswered
from core.device.mcp.stdio_transport import ANSWER_TOO_LARGE
from core.device.mcp.tool_listing import Definition
from core.device.progress import Report
from core.device.tool import FailedWithResult, ToolCall
from core.errors import DeviceError, ErrorCode, QuarterdeckError
from core.text import clause, sentences

MOST_BLOCKS = 10_000
_RENAMED = {"mimeType": "media_type", "_meta": "meta"}
_SHOWN = frozenset({"image/png", "image/jpeg", "image/webp"})
_UNKNOWN = "application/octet-stream"
_ROOM_LEFT = 4096
_SHORT_ERROR = 4000


def result_of(answer: dict[str, Any], most: int) -> dict[str, Any]:
    """Convert a `tools/call` answer into a result whose JSON has at most about `most` bytes.

    Raises:
        DeviceError: the answer is not a tool result, or its structured part alone is too large (code
            `bad_result`).
    """
    answer, odd = _sayable(answer)
    content = answer.get("content")
    # Some servers send null for empty content.
    content = [] if content is None else content
    if not isinstance(content, list) or not all(_is_block(block) for block in content):
        raise DeviceError("The server's answer is not a tool's result.", ErrorCode.BAD_RESULT)
    result: dict[str, Any] = {"content": []}
    if odd:
        result["note"] = f"The server sent {odd}, which JSON cannot say; such numbers are texts here"
    room = max(most - _ROOM_LEFT, most // 2)
    if "structuredContent" in answer:
        result["structured"] = answer["structuredContent"]
        size = _size(answer["structuredContent"])
        if size > room:
            raise DeviceError(
                f"The server's answer has {size} bytes of structured content; {room} are allowed.",
                ErrorCode.BAD_RESULT,
            )
        room -= size
    room -= _take_meta(answer, result, room)
    for block in content[:MOST_BLOCKS]:
        kept = _block(block)
        size = _room_for(kept)
        if size > room:
            kept = _shortened(kept, room, size)
            result["truncated"] = True
            size = min(room, _room_for(kept))
        room -= size
        result["content"].append(kept)
    if len(content) > MOST_BLOCKS:
        result["truncated"] = True
    return result


def _take_meta(answer: dict[str, Any], result: dict[str, Any], room: int) -> int:
    """Copy the answer's `_meta` into the result where it fits; returns its size in bytes."""
    meta = answer.get("_meta")
    if not isinstance(meta, dict):
        return 0
    size = _size(meta)
    if size > room:
        result["truncated"] = True
        return 0
    result["meta"] = meta
    return size


def error_text(answer: dict[str, Any]) -> str:
    """The text blocks of a failed tool's answer, or else its structured part, as an error message."""
    content = answer.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [
        block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str)
    ]
    message = "\n".join(text for text in texts[:100] if text).strip()
    if not message and answer.get("structuredContent") not in (None, {}, []):
        with contextlib.suppress(ValueError, RecursionError):
            message = to_json(answer["structuredContent"], inf_nan_mode="constants").decode()
    return message[:_SHORT_ERROR] or "it did not say why"


def _is_block(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("type"), str)


def _block(block: dict[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind in {"image", "audio"}:
        rest = {key: value for key, value in block.items() if key != "data"}
        return _with_bytes(_renamed(rest), _decoded(block.get("data"), kind))
    if kind == "resource":
        inner = block.get("resource")
        if not isinstance(inner, dict):
            raise DeviceError("The server's answer has a resource without content.", ErrorCode.BAD_RESULT)
        outer = {key: value for key, value in block.items() if key != "resource"}
        rest = {key: value for key, value in inner.items() if key != "blob"}
        kept = {**_renamed(outer), **_renamed(rest), "type": kind}
        if "blob" in inner:
            return _with_bytes(kept, _decoded(inner["blob"], kind))
        return kept
    return _renamed(block)


def _with_bytes(block: dict[str, Any], data: bytes) -> dict[str, Any]:
    declared = block.get("media_type")
    media_type = declared if isinstance(declared, str) else _UNKNOWN
    if media_type.lower().startswith("image/") and media_type.lower() not in _SHOWN:
        return {**block, "media_type": _UNKNOWN, "image_type": media_type, "data_bytes": data}
    return {**block, "media_type": media_type, "data_bytes": data}


def _renamed(block: dict[str, Any]) -> dict[str, Any]:
    return {_RENAMED.get(key, key): value for key, value in block.items()}


def _decoded(data: Any, kind: str) -> bytes:
    try:
        if isinstance(data, str):
            # Some servers insert line breaks into base64.
            return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        pass
    raise DeviceError(f"The server's answer has {kind} data that is not base64.", ErrorCode.BAD_RESULT)


def _sayable(answer: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The answer with NaN and infinities as texts, and the first of them with its place, if any."""
    parts = (("structuredContent", "structured"), ("content", "content"), ("_meta", "meta"))
    found = None
    for key, place in parts:
        if key not in answer:
            continue
        try:
            encoded = to_json(answer[key])
        except (ValueError, RecursionError):
            # Reported with its place where it is converted.
            continue
        if odd := odd_number(answer[key], encoded, place):
            found = found or odd
            answer = {**answer, key: with_texts_for_odd(answer[key])}
    return answer, found


def _size(value: Any) -> int:
    try:
        return len(to_json(value))
    except (ValueError, RecursionError) as error:
        raise DeviceError(
            sentences(f"The server's answer is not JSON: {error}"), ErrorCode.BAD_RESULT
        ) from error


def _room_for(block: dict[str, Any]) -> int:
    """The size of a block as JSON, with its bytes as base64."""
    data = block.get("data_bytes")
    if not isinstance(data, bytes):
        return _size(block)
    return (len(data) + 2) // 3 * 4 + _size({**block, "data_bytes": ""})


def _shortened(block: dict[str, Any], room: int, size: int) -> dict[str, Any]:
    text = block.get("text")
    if block["type"] == "text" and isinstance(text, str) and room > _ROOM_LEFT:
        # A character takes at most six bytes as JSON, so any text of this length fits.
        fits = room - _ROOM_LEFT if text.isascii() and '"' not in text and "\\" not in text else room // 6
        cut = text[: max(0, fits)]
        while len(to_json(cut)) > room:
            cut = cut[: len(cut) // 2]
        return {"type": "text", "text": cut, "truncated": True}
    words = f"It takes {size:,} bytes; of this answer there is room for {max(0, room):,} more on this device"
    return {"type": block["type"], "omitted": size, "note": words}


_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
_UNKNOWN_PICTURE = "application/octet-stream"
# Decoding takes four bytes of memory for each pixel.
_MOST_PIXELS = 50_000_000
_PNG = b"\x89PNG\r\n\x1a\n"
_HEAD = struct.Struct(">I4s")
_CHECKSUM = struct.Struct(">I")
_OPTIONAL = 0x20  # the ancillary bit in the first byte of a PNG chunk's name
# The exceptions with which decoders fail on malformed or hostile input.
_FAULTS = (
    *(OSError, ValueError, SyntaxError, KeyError, IndexError, TypeError, EOFError, MemoryError),
    *(struct.error, zlib.error),
)


def has_pictures(result: dict[str, Any]) -> bool:
    """Whether any block of a result is declared as a picture."""
    return any(_declared_type(block) for block in result["content"])


def identify_pictures(result: dict[str, Any]) -> None:
    """Set the real type of each picture in a result. Slow (it decodes them): not for the event loop."""
    for block in result["content"]:
        if declared := _declared_type(block):
            block.update(_identified(block["data_bytes"], declared))
            if block["media_type"] != _UNKNOWN_PICTURE and block["media_type"] == declared.lower():
                block.pop("image_type", None)


def _declared_type(block: dict[str, Any]) -> str:
    """The image type that a block declares for its bytes; empty where it declares none."""
    declared = block.get("image_type") or block.get("media_type")
    if not isinstance(block.get("data_bytes"), bytes) or not isinstance(declared, str):
        return ""
    return declared if declared.lower().startswith("image/") else ""


def _identified(data: bytes, declared: str) -> dict[str, Any]:
    if kind := _kind(data):
        return {"media_type": kind, "image_type": declared}
    sound, damaged = _without_damaged(data)
    if damaged and (kind := _kind(sound)):
        left_out = f"{', '.join(damaged)}: the checksum is wrong"
        return {"media_type": kind, "image_type": declared, "data_bytes": sound, "left_out": left_out}
    return {"media_type": _UNKNOWN_PICTURE, "image_type": declared}


def _kind(data: bytes) -> str | None:
    # Imported here because it takes 30 ms and is needed for pictures only.
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
    """A PNG without its ancillary chunks whose checksums are wrong, and the names of these chunks."""
    if not data.startswith(_PNG):
        return data, []
    kept, damaged, place = [_PNG], [], len(_PNG)
    while place + _HEAD.size <= len(data):
        size, name = _HEAD.unpack_from(data, place)
        end = place + _HEAD.size + size
        if end + _CHECKSUM.size > len(data):
            break
        (checksum,) = _CHECKSUM.unpack_from(data, end)
        if name[0] & _OPTIONAL and zlib.crc32(data[place + 4 : end]) != checksum:
            damaged.append(name.decode("ascii", "replace"))
        else:
            kept.append(data[place : end + _CHECKSUM.size])
        place = end + _CHECKSUM.size
    return b"".join(kept), damaged


_PROGRESS_EACH_S = 0.05
_MOST_PROGRESS_TEXT = 2000
_MOST_WORDS = 2000
# Marks a parser's message, which is in terms of the parser's own classes.
_BY_PARSER = "validation error"


class NotRun(DeviceError):
    """The server did not run the call, so it may be sent again in another session."""


async def call(
    session: Session, server: ServerConfig, definition: Definition, request: ToolCall, most: int
) -> dict[str, Any]:
    """Call a tool and return its result.

    Raises:
        DeviceError: the call failed. Without an answer the outcome is unknown, even if the server declares
            the tool read-only, because that claim may be wrong.
    """
    name = definition.name
    try:
        answer = await session.request(
            "tools/call", {"name": name, "arguments": request.arguments}, _progress(request.report, server)
        )
        return await _read_answer(answer, server, definition, most)
    except MCPError as error:
        raise _protocol_error(error, server, name) from error
    except ValidationError as error:
        # In the newest protocol the SDK validates answers itself.
        raise DeviceError(
            f"{name} ended, but its answer cannot be used: it is not what MCP allows.", ErrorCode.BAD_RESULT
        ) from error
    except asyncio.CancelledError:
        # The server was asked to stop and does not report whether it did, or it had answered already.
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        raise DeviceError(
            f"{name} was told to stop before its answer was taken; it may have happened, or may go on.",
            ErrorCode.OUTCOME_UNKNOWN,
        ) from None


async def _read_answer(
    answer: dict[str, Any], server: ServerConfig, definition: Definition, most: int
) -> dict[str, Any]:
    if answer.get("resultType", "complete") != "complete":
        raise DeviceError(
            f"{definition.name} asks for input in the middle of a call, which this device does not give.",
            ErrorCode.TOOL_FAILED,
        )
    if answer.get("isError") is True:
        raise await _tool_error(answer, server, most)
    result = await _result(answer, most)
    # A number that JSON cannot say is no fault of the answer's form, and a schema judges only JSON.
    if definition.output is not None and "note" not in result:
        try:
            # In a thread: the server controls both the schema and the answer, so validation may be slow.
            await asyncio.to_thread(definition.check_result, answer)
        except DeviceError as error:
            # The tool has run, so the operator must see its result.
            raise FailedWithResult(error.message, error.code, result) from error
    return result


async def _result(answer: dict[str, Any], most: int) -> dict[str, Any]:
    result = result_of(answer, most)
    if has_pictures(result):
        await asyncio.to_thread(identify_pictures, result)
    return result


async def _tool_error(answer: dict[str, Any], server: ServerConfig, most: int) -> DeviceError:
    message = server.redact(error_text(answer))
    try:
        shown = await _result(answer, most)
    except QuarterdeckError as error:
        return DeviceError(
            f"{message} (not shown: {clause(server.redact(error.message))}).", ErrorCode.TOOL_FAILED
        )
    return FailedWithResult(message, ErrorCode.TOOL_FAILED, shown)


def _protocol_error(error: MCPError, server: ServerConfig, name: str) -> DeviceError:
    message = server.redact(_error_message(error))[:_MOST_WORDS]
    if error.code in {ANSWER_TOO_LARGE, types.PARSE_ERROR}:
        return DeviceError(
            sentences(f"{name} ended, but its answer cannot be used: {message}"), ErrorCode.BAD_RESULT
        )
    if server.kind == "http" and error.code in {NOT_SENT, SESSION_GONE}:
        return NotRun(sentences(f"The server of {name} did not run it", message), ErrorCode.TOOL_FAILED)
    if server.kind == "http" and error.code in {ACCESS_DENIED, REJECTED}:
        return DeviceError(sentences(f"The server of {name} did not run it", message), ErrorCode.TOOL_FAILED)
    if not is_unanswered(error):
        return DeviceError(sentences(f"{name}: {message}"), ErrorCode.TOOL_FAILED)
    return DeviceError(
        f"The server of {name} was lost before it answered ({message}); it may have happened.",
        ErrorCode.OUTCOME_UNKNOWN,
    )


def _error_message(error: MCPError) -> str:
    """An error's message and data; the data may contain an address that the operator has to open."""
    if error.code == types.PARSE_ERROR and _BY_PARSER in error.message:
        return f"it {fault_in(error.message) or 'is not a message of MCP'}"
    words = error.message.strip() or f"it did not say why (error {error.code})"
    if error.data in (None, "", {}, []):
        return words
    return f"{words} {to_json(error.data, inf_nan_mode='constants').decode()}"


def _progress(report: Report, server: ServerConfig) -> ProgressFnT:
    last = -math.inf

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        nonlocal last
        now = time.monotonic()
        finished = total is not None and progress >= total
        if not math.isfinite(progress) or (now - last < _PROGRESS_EACH_S and not finished):
            return
        last = now
        whole = total if total is not None and math.isfinite(total) else None
        report(server.redact(message or "")[:_MOST_PROGRESS_TEXT], done=progress, total=whole)

    return tell
