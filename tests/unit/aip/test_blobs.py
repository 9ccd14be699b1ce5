"""Bytes of a device: binary frames ahead of a result, and what becomes of them on the way to the journal."""

from __future__ import annotations

import hashlib
import io
from collections.abc import AsyncIterator
from typing import Any

import pytest
from PIL import Image

from core.aip.device_link import DeviceLink
from core.aip.extensions import pack_blob
from core.aip.limits import LinkLimits
from core.commands.live_secrets import Redaction
from core.dispatch.result_sanitizer import UnusableAnswer, take_evidence
from core.errors import ErrorCode
from core.token_formats import MASK
from tests.fakes.aip_house import (
    House,
    answer,
    fails,
    hear,
    look,
    running_house,
    say,
    soon,
    still_works,
    success,
)

MOST = LinkLimits(
    progress_burst=5, progress_per_s=0.001, held_blobs=3, held_bytes=50_000, flood_burst=20, flood_per_s=0.001
)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with running_house(MOST) as built:
        yield built


def nothing_held(link: DeviceLink) -> bool:
    return not any(count for name, count in link.held.items() if name != "given_up")


@pytest.mark.parametrize(
    "shape",
    [
        lambda sha: {"$blob": sha, "width": 2},
        lambda sha: {"data_base64": {"$blob": sha}, "media_type": "image/png", "width": 2},
    ],
)
async def test_a_picture_in_a_binary_frame_comes_back_as_bytes_and_becomes_evidence(
    house: House, shape: Any
) -> None:
    socket, link = await house.joined(features=["binary"])
    sending = house.send(link, look())
    command = await hear(socket)
    picture = png()
    sha, frame = pack_blob(picture, "image/png")
    await socket.send(frame)
    await answer(socket, command, success(result={"shot": [shape(sha)]}))
    [result] = await soon(sending)
    assert result.result["shot"][0] == {"media_type": "image/png", "width": 2, "data_bytes": picture}
    assert nothing_held(link)
    blobs = Blobs()
    clean, [evidence] = await take_evidence(result.result, blobs, Redaction())
    assert clean["shot"][0]["blob"] == evidence.blob == hashlib.sha256(picture).hexdigest()
    assert (evidence.media_type, evidence.width, blobs.kept) == ("image/png", 2, [picture])


async def test_a_text_in_a_binary_frame_is_a_text_again(house: House) -> None:
    socket, link = await house.joined(features=["binary"])
    sending = house.send(link, look())
    command = await hear(socket)
    sha, frame = pack_blob("größe\n".encode() * 1000, "text/plain")
    await socket.send(frame)
    await answer(socket, command, success(result={"stdout": {"$blob": sha}, "exit_code": 0}))
    assert (await soon(sending))[0].result == {"stdout": "größe\n" * 1000, "exit_code": 0}


async def test_bytes_that_say_they_are_no_picture_are_kept_as_they_are() -> None:
    blobs = Blobs()
    value = {"media_type": "audio/wav", "data_bytes": b"RIFF", "mimeType": "audio/wav"}
    clean, [evidence] = await take_evidence(value, blobs, Redaction())
    assert (evidence.media_type, evidence.size, blobs.kept) == ("audio/wav", 4, [b"RIFF"])
    assert "data_bytes" not in clean
    _, [odd] = await take_evidence({"media_type": "text/html", "data_base64": "PGI+"}, blobs, Redaction())
    assert odd.media_type == "application/octet-stream"


async def test_what_a_device_claims_of_bytes_is_not_shown_as_found_by_the_console() -> None:
    claims = {"head": "all is well", "what": "picture", "width": 7, "height": 7, "blob": "0" * 64}
    for content, media_type in ((b"RIFF", "audio/wav"), (png(), "image/png")):
        clean, [evidence] = await take_evidence(
            {**claims, "media_type": media_type, "data_bytes": content}, Blobs(), Redaction()
        )
        assert clean["blob"] == evidence.blob == hashlib.sha256(content).hexdigest()
        assert "head" not in clean
        assert (clean.get("width"), clean.get("height")) == (evidence.width, evidence.height)


async def test_a_secret_in_a_file_is_not_stored() -> None:
    blobs = Blobs()
    value = {"media_type": "application/x-log", "data_bytes": b"\xff password is tr0ub4dor now"}
    _, [evidence] = await take_evidence(value, blobs, Redaction(("tr0ub4dor",)))
    assert blobs.kept == [b"\xff password is " + MASK.encode() + b" now"]
    assert evidence.size == len(blobs.kept[0])


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
async def test_a_picture_of_too_many_pixels_is_not_decoded() -> None:
    packed = io.BytesIO()
    Image.new("1", (10_001, 10_000)).save(packed, "PNG")
    blobs = Blobs()
    with pytest.raises(UnusableAnswer, match="not a picture"):
        await take_evidence({"data_bytes": packed.getvalue(), "media_type": "image/png"}, blobs, Redaction())
    assert blobs.kept == [packed.getvalue()]


async def test_bytes_that_claim_to_be_a_picture_must_be_one() -> None:
    for value in ({"data_bytes": b"no"}, {"data_bytes": b"no", "media_type": "image/png"}):
        with pytest.raises(UnusableAnswer, match="not a picture"):
            await take_evidence(value, Blobs(), Redaction())


async def test_the_same_bytes_may_come_once_for_each_of_two_results(house: House) -> None:
    socket, link = await house.joined(features=["binary"])
    sendings = [house.send(link, look("a")), house.send(link, look("b"))]
    commands = [await hear(socket) for _ in sendings]
    sha, frame = pack_blob(b"same", "application/octet-stream")
    await socket.send(frame)
    await socket.send(frame)
    for command, call_id in zip(commands, "ab", strict=True):
        await answer(socket, command, success(call_id, {"$blob": sha}))
    for sending in sendings:
        assert (await soon(sending))[0].result["data_bytes"] == b"same"
    assert nothing_held(link)


@pytest.mark.parametrize("media_type", ["text/plain", "application/octet-stream"])
async def test_bytes_named_without_end_are_no_more_than_are_held(house: House, media_type: str) -> None:
    socket, link = await house.joined(features=["binary"])
    sha, frame = pack_blob(b"x" * 10_000, media_type)
    for times, fits in ((5, True), (6, False)):
        sending = house.send(link, look())
        command = await hear(socket)
        await socket.send(frame)
        await answer(socket, command, success(result=[{"$blob": sha}] * times))
        if fits:
            assert len((await soon(sending))[0].result) == times
        else:
            assert "too often" in await fails(sending, ErrorCode.BAD_RESULT)
        assert nothing_held(link)
    await still_works(house, socket, link)


async def test_a_blob_that_never_came_makes_a_bad_result(house: House) -> None:
    socket, link = await house.joined(features=["binary"])
    for reference in ("0" * 64, 7, None, {"$blob": "x"}):
        sending = house.send(link, look())
        await answer(socket, await hear(socket), success(result={"a": {"$blob": reference}}))
        assert "never came" in await fails(sending, ErrorCode.BAD_RESULT)
    await still_works(house, socket, link)


async def test_an_altered_blob_is_told_and_never_held(house: House) -> None:
    socket, link = await house.joined(features=["binary"])
    sending = house.send(link, look())
    command = await hear(socket)
    sha, frame = pack_blob(b"true bytes", "image/png")
    await socket.send(frame[:-1] + b"!")
    assert "not those of its digest" in (await hear(socket))["error"]
    await answer(socket, command, success(result={"$blob": sha}))
    await fails(sending, ErrorCode.BAD_RESULT)


async def test_blobs_that_no_result_names_are_let_go_with_the_last_command(house: House) -> None:
    socket, link = await house.joined(features=["binary"])
    sending = house.send(link, look())
    command = await hear(socket)
    for number in range(10):
        await socket.send(pack_blob(b"x" * 1000 + bytes([number]), "image/png")[1])
    await answer(socket, command, success())
    await soon(sending)
    assert nothing_held(link)
    await still_works(house, socket, link)


async def test_held_blobs_are_bounded_in_number_and_in_bytes(house: House) -> None:
    socket, link = await house.joined(features=["binary"])
    sending = house.send(link, look())
    command = await hear(socket)
    await socket.send(pack_blob(b"x" * 60_000, "image/png")[1])
    for number in range(5):
        await socket.send(pack_blob(bytes([number]), "image/png")[1])
    await say(socket, type="heartbeat", status="ok")
    await hear(socket)
    assert (link.held["blobs"], link.held["blob_bytes"]) == (MOST.held_blobs, 3)
    await answer(socket, command, success())
    await soon(sending)


async def test_blobs_that_nobody_waits_for_are_a_flood_at_last(house: House) -> None:
    socket, _ = await house.joined(features=["binary"])
    frame = pack_blob(b"x", "image/png")[1]
    for _ in range(30):
        await socket.send(frame)
    assert "more frames" in (await soon(house.lost.get()))[1]
    assert (await soon(house.refused.get()))[0].startswith("it sent more frames")


async def test_a_stock_devices_binary_frame_is_json_or_nothing(house: House) -> None:
    socket, link = await house.joined()
    await socket.send(pack_blob(b"x", "image/png")[1])
    assert (await hear(socket))["error"].startswith("protocol_error: ")
    sending = house.send(link, look())
    await answer(socket, await hear(socket), success(result={"$blob": "0" * 64}))
    assert (await soon(sending))[0].result == {"$blob": "0" * 64}


@pytest.mark.parametrize(("depth", "fits"), [(99, True), (100, False), (101, False)])
async def test_bytes_at_the_very_depth_that_is_allowed_are_kept_and_deeper_ones_refused(
    depth: int, fits: bool
) -> None:
    value: Any = {"data_bytes": b"RIFF", "media_type": "audio/wav", "title": "t"}
    for _ in range(depth):
        value = [value]
    blobs = Blobs()
    if fits:
        await take_evidence(value, blobs, Redaction())
        assert blobs.kept == [b"RIFF"]
    else:
        with pytest.raises(UnusableAnswer, match="nested deeper"):
            await take_evidence(value, blobs, Redaction())


class Blobs:
    def __init__(self) -> None:
        self.kept: list[bytes] = []

    async def put_blob(self, data: bytes) -> str:
        self.kept.append(data)
        return hashlib.sha256(data).hexdigest()


def png() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (2, 2), "red").save(data, "PNG")
    return data.getvalue()
