"""What becomes of a server's answer once it is here: its pictures, and a stop that comes too late."""

from __future__ import annotations

import asyncio
import base64
import io
import struct
import threading
from typing import Any

import pytest
from PIL import Image

from core.commands.live_secrets import Redaction
from core.device.mcp.config import ServerConfig
from core.device.mcp.tool_call import call
from core.device.mcp.tool_listing import Definition, read_listing
from core.device.tool import ToolCall
from core.dispatch.result_sanitizer import take_evidence
from core.errors import DeviceError, ErrorCode
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S

MEBIBYTE = 1024 * 1024


def drawn(form: str) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(held, form)
    return held.getvalue()


def part(name: bytes, data: bytes, checksum: bytes = b"bad!") -> bytes:
    return struct.pack(">I", len(data)) + name + data + checksum


class Answers:
    """A session whose server always gives the same answer."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer

    async def request(self, *sent: Any) -> dict[str, Any]:
        return self.answer


async def called(answer: dict[str, Any], **more: Any) -> Any:
    """What a call of an action comes to."""
    [definition] = read_listing([{"name": "t", "inputSchema": {"type": "object"}, **more}], False).tools
    session: Any = Answers(answer)
    return await call(session, ServerConfig("s", "stdio"), definition, ToolCall({}), MEBIBYTE)


class Blobs:
    async def put_blob(self, data: bytes) -> str:
        return "a" * 64


async def settled(data: bytes, media_type: str) -> dict[str, Any]:
    """What becomes of a picture beside a text; a console can use the answer."""
    words = {"type": "text", "text": "before"}
    sent = {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": media_type}
    result = await called({"content": [words, sent]})
    assert result["content"][0] == words
    await take_evidence(result, Blobs(), Redaction())
    block = result["content"][1]
    assert isinstance(block, dict)
    return block


async def test_a_picture_with_a_damaged_part_that_no_pixel_needs_is_a_picture_without_it():
    sound = drawn("PNG")
    # As the reference server of MCP has it: after the header, a colour profile with a wrong checksum.
    block = await settled(sound[:33] + part(b"iCCP", b"profile") + sound[33:], "image/png")
    assert block == {
        "type": "image",
        "media_type": "image/png",
        "data_bytes": sound,
        "left_out": "iCCP: the checksum is wrong",
    }


@pytest.mark.parametrize("said", ["image/png", "image/jpg", "image/x-unheard-of"])
async def test_a_picture_travels_under_the_type_that_it_has(said: str):
    block = await settled(drawn("JPEG"), said)
    assert (block["media_type"], block["image_type"], block["data_bytes"]) == (
        "image/jpeg",
        said,
        drawn("JPEG"),
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<svg/>",
        drawn("PNG")[:-30],
        drawn("PNG")[:33] + part(b"IDAT", b"pixels") + drawn("PNG")[33:],
        drawn("PNG")[:33] + part(b"iCCP", b"") + b"\xff\xff\xff\xffIDAT",
        b"\x89PNG\r\n\x1a\n" + b"\0" * 40,
    ],
)
async def test_what_is_no_picture_travels_as_plain_bytes_and_costs_no_answer(data: bytes):
    assert await settled(data, "image/png") == {
        "type": "image",
        "media_type": "application/octet-stream",
        "image_type": "image/png",
        "data_bytes": data,
    }


async def test_an_action_that_is_stopped_while_its_answer_is_looked_at_is_not_said_to_be_undone(
    monkeypatch: pytest.MonkeyPatch,
):
    looking, gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slowly(self: Definition, answer: dict[str, Any]) -> None:
        loop.call_soon_threadsafe(looking.set)
        gate.wait(PATIENCE_S)

    monkeypatch.setattr(Definition, "check_result", slowly)
    tasks = TaskGroupOwner("test")
    answer = {"content": [], "structuredContent": {}}
    running = tasks.spawn("call", called(answer, outputSchema={"type": "object"}))
    await looking.wait()
    running.cancel()
    with pytest.raises(DeviceError) as caught:
        await running
    gate.set()
    assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN
    await tasks.close()
