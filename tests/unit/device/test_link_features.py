"""What travels beyond AIP: agreed before it is sent, bounded, and unknown to a stock console."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from core.aip.extensions import FEATURES, Progress, unpack_blob
from core.aip.limits import LinkLimits
from core.device.build import build_router
from core.device.config import DeviceConfig, Limits, PinnedOperator
from core.device.progress_sender import CallProgress
from core.device.tool import FailedWithResult
from core.errors import ErrorCode
from core.tasks import TaskGroupOwner
from tests.fakes.link_console import PLAIN, Bench, Wire, command, device_in_process, link_console, welcome
from tests.fakes.patience import PATIENCE_S
from tests.fakes.read_shell import NO_READ_SHELL

STOCK = PLAIN.model_dump_json()
RESULT_KEYS = {"status", "error", "result", "namespace", "call_id"}
FRAME_KEYS = {
    "type",
    "status",
    "client_type",
    "session_id",
    "task_name",
    "client_id",
    "target_id",
    "request",
    "action_results",
    "timestamp",
    "request_id",
    "prev_response_id",
    "error",
    "metadata",
}


@asynccontextmanager
async def linked(tmp_path: Path, ack: str, **settings: Any) -> AsyncIterator[tuple[Wire, Bench]]:
    config = DeviceConfig(roots=(tmp_path,), tools_off=NO_READ_SHELL, **settings)
    bench = Bench(build_router(config, tmp_path / "state", "d1"))
    async with link_console(ack) as console, device_in_process(console, bench.router, config):
        yield await console.link(), bench


async def test_a_stock_console_gets_plain_aip_and_nothing_else(tmp_path: Path) -> None:
    async with linked(tmp_path, STOCK) as (wire, bench):
        bench.answer = {
            "image": {"media_type": "image/png", "data_bytes": b"\x89PNG\x00\xff"},
            "raw": b"\x01",
        }
        await wire.send(command("work", call_id="c1", terms={"deadline_s": 0.001}))
        call = await bench.next()
        call.report("text nobody asked for", done=1.0, total=2.0)
        bench.router.announce()
        bench.go.set()
        answer = await wire.hear()
        assert set(answer) == FRAME_KEYS
        assert answer["metadata"] is None
        [result] = answer["action_results"]
        assert set(result) == RESULT_KEYS
        assert result["result"] == {
            "image": {
                "media_type": "image/png",
                "data_base64": base64.b64encode(b"\x89PNG\x00\xff").decode(),
            },
            "raw": {"data_base64": "AQ=="},
        }
        # The next frame is the next answer: no progress, no announcement, no binary frame in between.
        [again] = await wire.ask(command("watch", "data_collection"))
        assert set(again) == RESULT_KEYS


async def test_a_stock_consoles_heartbeat_is_plain(tmp_path: Path) -> None:
    async with linked(tmp_path, welcome(FEATURES - {"metrics"}, 0.1)) as (wire, _):
        beat = await wire.hear()
        assert beat["type"] == "heartbeat"
        assert set(beat) == FRAME_KEYS
        assert beat["metadata"] is None


async def test_a_machine_that_tells_nothing_of_itself_registers_and_its_heart_beats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(*_: Any) -> Any:
        raise FileNotFoundError("/proc/stat")

    monkeypatch.setattr("core.device.device_session.registration", hidden)
    monkeypatch.setattr("core.device.device_session.LoadMeter.read", hidden)
    async with linked(tmp_path, welcome(FEATURES, 0.1)) as (wire, _):
        assert "system_info" not in wire.hello["metadata"]
        beat = await wire.hear()
        assert (beat["type"], beat["metadata"]) == ("heartbeat", None)


async def test_heartbeats_carry_the_load_at_the_agreed_pace(tmp_path: Path) -> None:
    async with linked(tmp_path, welcome(FEATURES, 0.1)) as (wire, _):
        for _number in range(2):
            beat = await wire.hear()
            assert (beat["type"], beat["client_id"]) == ("heartbeat", "d1")
            metrics = beat["metadata"]["quarterdeck"]["metrics"]
            assert 0 <= metrics["cpu_percent"] <= 100
            assert 0 < metrics["memory_percent"] <= 100


@pytest.mark.parametrize(
    "told", [7, [], "yes", {"features": ["recall"]}, {"version": "1", "features": "all"}]
)
async def test_a_welcome_that_cannot_be_read_leaves_plain_aip(tmp_path: Path, told: Any) -> None:
    ack = PLAIN.model_copy(update={"result": {"quarterdeck": told}}).model_dump_json()
    async with linked(tmp_path, ack) as (wire, bench):
        bench.go.set()
        bench.answer = b"abc"
        [result] = await wire.ask(command("work"))
        assert result["result"] == {"data_base64": "YWJj"}


async def test_bytes_go_ahead_of_the_result_as_binary_frames(tmp_path: Path) -> None:
    async with linked(tmp_path, welcome()) as (wire, bench):
        bench.go.set()
        picture = b"\x89PNG" + bytes(300_000)
        bench.answer = {"image": {"media_type": "image/png", "data_bytes": picture}, "list": [b"one", b"one"]}
        await wire.send(command("work", call_id="c1"))
        blobs = {}
        for _number in range(2):
            frame = await wire.read()
            assert isinstance(frame, bytes)
            head, data = unpack_blob(frame)
            blobs[head.sha256] = (head.media_type, data)
        answer = await wire.hear()
        value = answer["action_results"][0]["result"]
        assert blobs[value["image"]["$blob"]] == ("image/png", picture)
        assert value["image"] == {"media_type": "image/png", "$blob": value["image"]["$blob"]}
        assert [blobs[one["$blob"]][1] for one in value["list"]] == [b"one", b"one"]
        # A recalled result brings its bytes again.
        recall = command("quarterdeck.recall", "data_collection", parameters={"call_ids": ["c1"]})
        await wire.send(recall)
        again = {
            unpack_blob(frame)[0].sha256
            for frame in [await wire.read(), await wire.read()]
            if isinstance(frame, bytes)
        }
        assert again == set(blobs)
        assert (await wire.hear())["action_results"][0]["result"]["c1"]["result"]["result"] == value


async def test_more_bytes_than_the_device_sends_are_a_clear_failure(tmp_path: Path) -> None:
    async with linked(tmp_path, welcome(), limits=Limits(max_output_bytes=4096)) as (wire, bench):
        bench.go.set()
        bench.answer = {"data_bytes": bytes(4000)}
        [result] = await wire.ask(command("work"))
        # It ran: `too_large` would say that it was refused.
        assert result["error"].startswith("bad_result: The result has 5336 bytes")


async def test_a_failure_with_bytes_to_show_is_still_an_answer(tmp_path: Path) -> None:
    async with linked(tmp_path, STOCK) as (wire, bench):

        async def fail(call: Any) -> Any:
            raise FailedWithResult("it broke", ErrorCode.TOOL_FAILED, {"last": b"\xff"})

        tool = bench.router._by_name["work"]
        bench.router.offer(type(tool)(**{**{k: getattr(tool, k) for k in tool.__slots__}, "run": fail}))
        [result] = await wire.ask(command("work"))
        assert result["error"] == "tool_failed: it broke"
        assert result["result"] == {"last": {"data_base64": "/w=="}}


async def test_progress_comes_in_order_and_all_of_it_before_the_result(tmp_path: Path) -> None:
    async with linked(tmp_path, welcome()) as (wire, bench):
        await wire.send(command("work", call_id="c1"))
        call = await bench.next()
        for number in range(100):
            call.report(f"{number}\n", stream="stdout")
        call.report("careful\n", stream="stderr", done=3, total=10, unit="files")
        await asyncio.to_thread(call.report, "from a thread\n", stream="note")
        bench.go.set()
        frames = []
        while (frame := await wire.hear())["type"] == "quarterdeck.progress":
            frames.append(Progress.model_validate(frame))
        assert frame["action_results"][0]["status"] == "success"
        assert [one.seq for one in frames] == list(range(len(frames)))
        assert {one.call_id for one in frames} == {"c1"}
        texts = {
            name: "".join(one.text for one in frames if one.stream == name)
            for name in ("stdout", "stderr", "note")
        }
        assert texts["stdout"] == "".join(f"{number}\n" for number in range(100))
        assert texts["stderr"] == "careful\n"
        assert texts["note"] == "from a thread\n"
        assert [(one.done, one.total, one.unit) for one in frames if one.done is not None] == [
            (3, 10, "files")
        ]
        # Merged: far fewer frames than reports.
        assert len(frames) < 10
        call.report("after the end")
        [next_answer] = await wire.ask(command("watch", "data_collection"))
        assert next_answer["status"] == "success"


async def test_progress_goes_on_over_the_next_link(tmp_path: Path) -> None:
    config = DeviceConfig(roots=(tmp_path,))
    bench = Bench(build_router(config, tmp_path / "state", "d1"))
    async with link_console() as console, device_in_process(console, bench.router, config):
        wire = await console.link()
        await wire.send(command("work", call_id="c1"))
        call = await bench.next()
        await wire.cut()
        wire = await console.link()
        await wire.recall("c1")
        call.report("still here")
        frame = await wire.hear()
        assert (frame["type"], frame["call_id"], frame["text"]) == (
            "quarterdeck.progress",
            "c1",
            "still here",
        )
        bench.go.set()


async def test_a_slow_socket_costs_the_oldest_text_and_says_how_much() -> None:
    tasks = TaskGroupOwner("test")
    sent: list[dict[str, Any]] = []
    gate = asyncio.Event()

    async def send(text: str) -> None:
        sent.append(json.loads(text))
        await gate.wait()

    progress = CallProgress("c1", send, tasks, pause_s=0)
    total = 0
    for number in range(3000):
        line = f"{number:06}" + "x" * 1000 + "\n"
        total += len(line)
        progress(line, stream="stdout")
        await asyncio.sleep(0)
        assert progress.held <= 256 * 1024
    gate.set()
    await progress.close()
    text = "".join(frame["text"] for frame in sent)
    assert all(len(frame["text"].encode()) <= 65_536 for frame in sent)
    assert text.endswith("002999" + "x" * 1000 + "\n")
    left_out = int(text.partition("[")[2].partition(" ")[0])
    notice = f"\n[{left_out} characters were left out: the link is slower than the output]\n"
    assert len(text) - len(notice) + left_out == total
    assert [frame["seq"] for frame in sent] == list(range(len(sent)))
    await tasks.close()


async def test_texts_of_two_streams_come_in_the_order_in_which_they_were_reported() -> None:
    tasks = TaskGroupOwner("test")
    sent: list[Progress] = []

    async def send(frame: str) -> None:
        sent.append(Progress.model_validate_json(frame))

    progress = CallProgress("c1", send, tasks, pause_s=0)
    said: list[tuple[str, str]] = []
    for number in range(20):
        for stream in ("stdout", "stderr"):
            progress(f"{stream} {number}\n", stream=stream)  # type: ignore[arg-type]
            said.append((stream, f"{stream} {number}\n"))
        # Without another stream between, texts share a frame.
        progress("more\n", stream="stderr")
        said[-1] = ("stderr", said[-1][1] + "more\n")
        await asyncio.sleep(0)
    await progress.close()
    await tasks.close()
    texts: list[tuple[str, str]] = []
    for one in sent:
        if texts and texts[-1][0] == one.stream:
            texts[-1] = (one.stream, texts[-1][1] + one.text)
        else:
            texts.append((one.stream, one.text))
    assert texts == said


async def test_streams_that_change_all_the_time_make_no_more_frames_than_a_console_takes() -> None:
    tasks = TaskGroupOwner("test")
    sent: list[Progress] = []
    gate = LinkLimits()

    async def send(frame: str) -> None:
        sent.append(Progress.model_validate_json(frame))

    progress = CallProgress("c1", send, tasks, pause_s=3600)
    for number in range(2_000):
        progress(f"o{number}\n", stream="stdout")
        progress(f"e{number}\n", stream="stderr")
        await asyncio.sleep(0)
    await progress.close()
    await tasks.close()
    for stream, letter in (("stdout", "o"), ("stderr", "e")):
        text = "".join(one.text for one in sent if one.stream == stream)
        assert text == "".join(f"{letter}{number}\n" for number in range(2_000))
    assert len(sent) <= gate.progress_burst


@pytest.mark.parametrize("text", ["ü" * 300_000, "\udcff" * 10, "\x00" * 70_000, "🙂" * 100_000])
async def test_any_text_makes_frames_that_can_be_read(text: str) -> None:
    tasks = TaskGroupOwner("test")
    sent: list[Progress] = []

    async def send(frame: str) -> None:
        sent.append(Progress.model_validate_json(frame))

    progress = CallProgress("c1", send, tasks, pause_s=0)
    progress(text, done=float("nan"), total=float("inf"))
    await progress.close()
    assert sent
    assert all(len(one.text.encode()) <= 65_536 and one.done is None and one.total is None for one in sent)
    await tasks.close()


async def test_changed_tools_are_announced_once_for_many_changes(tmp_path: Path) -> None:
    async with linked(tmp_path, welcome()) as (wire, bench):
        # Its answer shows that the device has begun to serve this link.
        await wire.recall("c0")
        for _number in range(20):
            bench.router.announce()
        rows = [asdict(row) for row in bench.router.unavailable]
        assert await wire.hear() == {"type": "quarterdeck.tools_changed", "unavailable": rows}
        bench.go.set()
        [result] = await wire.ask(command("work"))
        assert result["status"] == "success"


@pytest.mark.parametrize("terms", [None, {"deadline_s": 5}, {"deadline_s": 5, "approval": {}}])
async def test_an_action_without_an_approval_is_refused_where_the_device_wants_one(
    tmp_path: Path, terms: dict[str, Any] | None
) -> None:
    wants = {
        "require_signed_approval": True,
        "pinned_operators": (PinnedOperator(name="o", public_key="ab" * 32),),
    }
    for ack in (welcome(), STOCK):
        async with linked(tmp_path, ack, **wants) as (wire, bench):
            bench.go.set()
            [refused] = await wire.ask(command("work", terms=terms))
            assert refused["error"].startswith("denied_by_device: ")
            assert bench.ran == []
            [looked] = await wire.ask(command("watch", "data_collection"))
            assert looked["status"] == "success"


async def test_a_console_that_never_agreed_on_terms_cannot_bring_an_approval(tmp_path: Path) -> None:
    wants = {
        "require_signed_approval": True,
        "pinned_operators": (PinnedOperator(name="o", public_key="ab" * 32),),
    }
    approval = {"deadline_s": 5, "approval": {"statement": {}, "signature": "00"}}
    async with linked(tmp_path, STOCK, **wants) as (wire, bench):
        bench.go.set()
        [refused] = await wire.ask(command("work", terms=approval))
        assert refused["error"].startswith("denied_by_device: ")
        assert bench.ran == []


async def test_the_last_output_does_not_keep_a_result_waiting_on_a_link_that_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("core.device.progress_sender._LAST_TEXT_S", 0.05)
    tasks = TaskGroupOwner("test")
    sent: list[str] = []

    async def send(text: str) -> None:
        sent.append(text)
        await asyncio.Event().wait()

    progress = CallProgress("c1", send, tasks, pause_s=0)
    for _ in range(40):
        progress("x" * 10_000, stream="stdout")
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await progress.close()
    # The one that was being sent, and the first of the rest: the result that follows has all of it.
    assert len(sent) == 2
    await tasks.close()


async def test_text_that_a_slow_link_would_carry_twice_is_left_to_the_result() -> None:
    tasks = TaskGroupOwner("test")
    sent: list[Progress] = []
    gate = asyncio.Event()

    async def send(frame: str) -> None:
        sent.append(Progress.model_validate_json(frame))
        await gate.wait()

    # 7,000 bytes a second: a line of 56 kbit/s.
    progress = CallProgress("c1", send, tasks, pause_s=0, takes_s=lambda size: size / 7_000)
    for _ in range(20):
        progress("x" * 10_000, stream="stdout")
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await progress.close()
    assert len(sent) == 1
    # A few words are carried in a moment, and still told.
    gate.set()
    last = CallProgress("c2", send, tasks, pause_s=3600, takes_s=lambda size: size / 7_000)
    last("first", stream="stdout")
    await asyncio.sleep(0)
    last("last words", stream="stdout")
    await last.close()
    assert [one.text for one in sent if one.call_id == "c2"] == ["first", "last words"]
    await tasks.close()


@pytest.mark.parametrize(("round_trip_s", "merged"), [(0.0, False), (3600.0, True)])
async def test_text_that_trickles_shares_frames_on_a_line_that_takes_long_for_one(
    round_trip_s: float, merged: bool
) -> None:
    tasks = TaskGroupOwner("test")
    sent: list[Progress] = []

    async def send(frame: str) -> bool:
        sent.append(Progress.model_validate_json(frame))
        return True

    progress = CallProgress("c1", send, tasks, pause_s=0, round_trip_s=lambda: round_trip_s)
    for number in range(50):
        progress(f"{number}\n", stream="stdout")
        for _ in range(5):
            await asyncio.sleep(0)
    await progress.close()
    assert "".join(one.text for one in sent) == "".join(f"{number}\n" for number in range(50))
    # The first at once, the others when the command has ended.
    assert (len(sent) == 2) == merged
    await tasks.close()


async def test_much_text_does_not_wait_for_more_on_a_line_that_takes_long_for_a_frame() -> None:
    tasks = TaskGroupOwner("test")
    sent: asyncio.Queue[Progress] = asyncio.Queue()

    async def send(frame: str) -> bool:
        sent.put_nowait(Progress.model_validate_json(frame))
        return True

    progress = CallProgress("c1", send, tasks, pause_s=0, round_trip_s=lambda: 3600.0)
    for _ in range(100):
        progress("x" * 4096, stream="stdout")
        # Half a second for each would be too long.
        async with asyncio.timeout(PATIENCE_S / 2):
            assert len((await sent.get()).text) == 4096
    await progress.close()
    await tasks.close()
