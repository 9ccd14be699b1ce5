"""Long texts and a tool's own `$blob` keys, over both of our ends: they arrive as what they were."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest

from core.aip.extensions import TEXT_BLOB, unpack_blob
from core.aip.messages import Result, ResultStatus
from core.commands.live_secrets import Redaction
from core.device.binary_values import BinaryResult, for_binary_peer, marked, plain, take_out
from core.device.call_log import MOST_BLOBS
from core.device.client import DeviceClient
from core.device.config import DeviceConfig
from core.dispatch.result_sanitizer import take_evidence
from core.tasks import TaskGroupOwner
from tests.fakes.both_ends import both_ends, work
from tests.fakes.link_console import QUICK, Bench, command, link_console, running, welcome
from tests.fakes.patience import PATIENCE_S

LONG = "größe\n" * 60_000
PNG = b"\x89PNG"
HOSTILE: dict[str, Any] = {
    "$blob": hashlib.sha256(PNG).hexdigest(),
    "$$blob": {"$blob": 1},
    "$$$blob": [{"data_base64": {"$blob": "x"}}],
    "blob": "$blob",
    "$": None,
    "x$blob": 1,
}


async def answered(tmp_path: Path, value: Any) -> Any:
    tasks = TaskGroupOwner("test")
    async with both_ends(tmp_path) as ends:
        link = await ends.link()
        ends.bench.answer = value
        ends.bench.go.set()
        sending = tasks.spawn("send", link.send_commands([work("c1")], 10))
        async with asyncio.timeout(PATIENCE_S):
            [result] = await sending
            known = (await link.recall(["c1"], 5))["c1"]
        assert known.result is not None
        assert known.result["result"] == result.result
        assert link.held["blobs"] == 0
    await tasks.close()
    assert result.status is ResultStatus.SUCCESS
    return result.result


async def test_a_long_text_comes_as_it_was_and_is_recalled_so(tmp_path: Path) -> None:
    value = {"stdout": LONG, "again": LONG, "stderr": "", "exit_code": 0}
    assert await answered(tmp_path, value) == value


@pytest.mark.parametrize("beside", [None, {"media_type": "image/png", "data_bytes": PNG}, LONG])
async def test_a_tools_own_blob_keys_are_never_taken_for_references(tmp_path: Path, beside: Any) -> None:
    value = {"structured": HOSTILE, "beside": beside}
    assert await answered(tmp_path, value) == value


async def test_a_long_text_leaves_as_a_binary_frame_and_only_towards_a_peer_that_has_them(
    tmp_path: Path,
) -> None:
    for features in (["binary"], ["progress"]):
        async with link_console(welcome(features)) as console:
            bench = Bench(make_router(tmp_path))
            bench.answer = {"stdout": LONG}
            bench.go.set()
            client = DeviceClient(
                console.url, "d1", bench.router, DeviceConfig(roots=(tmp_path,)), "t", QUICK
            )
            async with running(client):
                wire = await console.link()
                await wire.send(command("work"))
                first = await wire.read()
                if "binary" not in features:
                    assert isinstance(first, dict)
                    assert first["action_results"][0]["result"] == {"stdout": LONG}
                    continue
                assert isinstance(first, bytes)
                head, data = unpack_blob(first)
                assert (head.media_type, data.decode()) == (TEXT_BLOB, LONG)
                frame = await wire.hear()
                assert frame["action_results"][0]["result"] == {"stdout": {"$blob": head.sha256}}


async def test_the_journal_gets_a_long_text_as_any_large_text(tmp_path: Path) -> None:
    kept: list[bytes] = []

    class Blobs:
        async def put_blob(self, data: bytes) -> str:
            kept.append(data)
            return hashlib.sha256(data).hexdigest()

    clean, [evidence] = await take_evidence(await answered(tmp_path, {"stdout": LONG}), Blobs(), Redaction())
    assert clean["stdout"] == {
        "blob": evidence.blob,
        "media_type": "text/plain",
        "size": len(LONG.encode()),
        "head": LONG[:2000],
    }
    assert kept == [LONG.encode()]


def test_no_more_blobs_leave_than_a_console_holds_and_the_same_bytes_mean_one_thing() -> None:
    texts = [f"{number:03d}" + "x" * 300_000 for number in range(MOST_BLOBS + 3)]
    found = for_binary_peer(Result(status=ResultStatus.SUCCESS, result=texts), MOST_BLOBS)
    assert isinstance(found, BinaryResult)
    assert len(found.blobs) == MOST_BLOBS
    assert found.result[-3:] == texts[-3:]
    blobs: dict[str, bytes] = {}
    both = take_out({"bytes": texts[0].encode(), "text": texts[0]}, blobs)
    result = BinaryResult(status=ResultStatus.SUCCESS, result=both, blobs=blobs)
    assert for_binary_peer(result, MOST_BLOBS).result["text"] == texts[0]


def test_what_is_escaped_for_one_peer_is_plain_for_another() -> None:
    result = marked(Result(status=ResultStatus.SUCCESS, result=HOSTILE))
    assert plain(result).result == HOSTILE


def make_router(tmp_path: Path) -> Any:
    from core.device.build import build_router

    return build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "d1")
