"""The link is cut at every point of a command's way: nothing runs twice, and no answer is lost or made up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.aip.extensions import FEATURES
from core.device.__main__ import _loop
from core.device.build import build_router
from core.device.call_records import CallRecord, CallRecords
from core.device.config import DeviceConfig, Limits
from tests.fakes.device_process import device
from tests.fakes.link_console import (
    QUIET,
    Bench,
    LinkConsole,
    Wire,
    command,
    device_in_process,
    link_console,
    welcome,
)
from tests.fakes.patience import PATIENCE_S
from tests.fakes.read_shell import NO_READ_SHELL

# A console that gets long texts as texts, so that these frames are large ones.
NO_BLOBS = welcome(QUIET - {"binary"})


@asynccontextmanager
async def at_work(
    tmp_path: Path, ack: str | None = None, state: bool = False, **limits: Any
) -> AsyncIterator[tuple[LinkConsole, Bench]]:
    config = DeviceConfig(roots=(tmp_path,), limits=Limits(**limits), tools_off=NO_READ_SHELL)
    bench = Bench(build_router(config, tmp_path / "state", "d1"))
    async with link_console(ack) as console:
        kept = tmp_path / "state" if state else None
        async with device_in_process(console, bench.router, config, kept):
            yield console, bench


async def test_a_cut_before_the_command_came_is_never_seen_and_the_command_is_refused_later(
    tmp_path: Path,
) -> None:
    async with at_work(tmp_path, state=True) as (console, bench):
        wire = await console.link()
        await wire.cut()
        wire = await console.link()
        told = (await wire.recall("c1"))["c1"]
        assert (told["state"], told["result"]) == ("never_seen", None)
        bench.go.set()
        [late] = await wire.ask(command("work", call_id="c1"))
        assert late["status"] == "failure"
        assert late["error"].startswith("cancelled: ")
        assert bench.ran == []


async def test_a_cut_while_it_runs_leaves_it_running_and_its_result_is_recalled(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (console, bench):
        wire = await console.link()
        await wire.send(command("work", call_id="c1"))
        await bench.next()
        await wire.cut()
        wire = await console.link()
        assert (await wire.recall("c1"))["c1"]["state"] == "running"
        bench.go.set()
        # The same command again waits for the first one's end.
        [result] = await wire.ask(command("work", call_id="c1"))
        assert (result["status"], result["result"], result["call_id"]) == ("success", "done", "c1")
        known = (await wire.recall("c1"))["c1"]
        assert known["state"] == "done"
        assert known["result"] == result
        assert len(bench.ran) == 1


async def test_a_cut_in_the_middle_of_the_result_frame_loses_no_result(tmp_path: Path) -> None:
    async with at_work(tmp_path, NO_BLOBS) as (console, bench):
        bench.answer = "x" * 4_000_000
        wire = await console.link()
        # Nobody reads, so the frame stands half sent in the socket's buffers.
        wire.connection.transport.pause_reading()
        await wire.send(command("work", call_id="c1"))
        await bench.next()
        bench.go.set()
        await wire.cut()
        wire = await console.link()
        # Also where it has not ended yet, the same command again brings its result.
        await wire.ask(command("work", call_id="c1"))
        known = (await wire.recall("c1"))["c1"]
        assert known["state"] == "done"
        assert known["result"]["result"] == bench.answer
        assert len(bench.ran) == 1


async def test_a_batch_is_answered_step_by_step_after_a_cut(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (console, bench):
        wire = await console.link()
        batch = [
            command("work", call_id="a"),
            command("no_such_tool", call_id="b"),
            command("work", call_id="c"),
        ]
        await wire.send(*batch)
        await bench.next()
        await wire.cut()
        wire = await console.link()
        states = {call: row["state"] for call, row in (await wire.recall("a", "b", "c", "d")).items()}
        assert states == {"a": "running", "b": "running", "c": "running", "d": "never_seen"}
        bench.go.set()
        again = await wire.ask(*batch)
        assert [row["status"] for row in again] == ["success", "failure", "skipped"]
        assert [row["call_id"] for row in again] == ["a", "b", "c"]
        assert len(bench.ran) == 1


async def test_a_call_id_never_means_two_commands(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (console, bench):
        bench.go.set()
        wire = await console.link()
        await wire.ask(command("work", call_id="c1", terms={"deadline_s": 9, "digest": "d1"}))
        [other_tool] = await wire.ask(command("watch", "data_collection", call_id="c1"))
        [other_digest] = await wire.ask(
            command("work", call_id="c1", terms={"deadline_s": 9, "digest": "d2"})
        )
        [other_arguments] = await wire.ask(
            command("work", call_id="c1", parameters={"n": 2}, terms={"deadline_s": 9, "digest": "d1"})
        )
        for refused in (other_tool, other_digest, other_arguments):
            assert refused["error"].startswith("protocol_error: ")
            assert refused["result"] is None
        assert len(bench.ran) == 1


async def test_a_known_call_among_new_ones_is_answered_without_running(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (console, bench):
        bench.go.set()
        wire = await console.link()
        [first] = await wire.ask(command("work", call_id="c1"))
        both = await wire.ask(command("work", call_id="c1"), command("work", call_id="c2"))
        assert both[0] == first
        assert both[1]["status"] == "success"
        twice = await wire.ask(command("work", call_id="c3"), command("work", call_id="c3"))
        assert twice[0] == twice[1]
        assert len(bench.ran) == 3


async def test_without_recall_agreed_a_repeated_call_id_is_a_new_command(tmp_path: Path) -> None:
    async with at_work(tmp_path, welcome(FEATURES - {"recall"})) as (console, bench):
        bench.go.set()
        wire = await console.link()
        await wire.ask(command("work", call_id="c1"))
        await wire.ask(command("work", call_id="c1"))
        assert len(bench.ran) == 2
        recall = command("quarterdeck.recall", "data_collection", parameters={"call_ids": ["c1"]})
        [refused] = await wire.ask(recall)
        assert refused["error"].startswith("unknown_tool: ")


@pytest.mark.parametrize("asked", [None, "c1", {"c1": 1}, [1], ["x" * 201], ["c"] * 257])
async def test_a_senseless_recall_is_refused_and_changes_nothing(tmp_path: Path, asked: Any) -> None:
    async with at_work(tmp_path) as (console, bench):
        bench.go.set()
        wire = await console.link()
        [refused] = await wire.ask(
            command("quarterdeck.recall", "data_collection", parameters={"call_ids": asked})
        )
        assert refused["status"] == "failure"
        [served] = await wire.ask(command("work", call_id="c"))
        assert served["status"] == "success"


async def test_results_larger_than_a_frame_are_recalled_in_parts(tmp_path: Path) -> None:
    async with at_work(tmp_path, NO_BLOBS, max_output_bytes=20 * 1024 * 1024) as (console, bench):
        bench.go.set()
        bench.answer = "y" * 11_000_000
        wire = await console.link()
        for call_id in ("a", "b"):
            await wire.ask(command("work", call_id=call_id))
        assert (await wire.recall("a"))["a"]["result"]["result"] == bench.answer
        # What had to make room is not called never seen: it has run.
        for number in range(3):
            await wire.ask(command("work", call_id=f"m{number}"))
        known = (await wire.recall("a"))["a"]
        assert known["state"] == "done"
        assert known["result"]["error"].startswith("outcome_unknown: ")


async def test_a_command_that_waits_is_cancelled_at_once_and_never_starts(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (console, bench):
        wire = await console.link()
        first = await wire.send(command("work", call_id="c1"))
        await bench.next()
        second = await wire.send(command("work", call_id="c2"))
        cancel = command("quarterdeck.cancel", "data_collection", parameters={"call_id": "c2"})
        third = await wire.send(cancel)
        answers = {frame["prev_response_id"]: frame for frame in (await wire.hear(), await wire.hear())}
        assert answers[third]["action_results"][0]["result"] == {"cancelled": True}
        assert answers[second]["action_results"][0]["error"].startswith("cancelled: ")
        bench.go.set()
        last = await wire.hear()
        assert last["prev_response_id"] == first
        assert len(bench.ran) == 1


async def test_what_is_cancelled_while_its_beginning_is_recorded_never_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, recorded, claim = asyncio.Event(), asyncio.Event(), CallRecords.claim

    async def slowly(records: CallRecords, record: CallRecord) -> CallRecord | None:
        other = await claim(records, record)
        recording.set()
        await recorded.wait()
        return other

    async with at_work(tmp_path, state=True) as (console, bench):
        bench.go.set()
        wire = await console.link()
        monkeypatch.setattr(CallRecords, "claim", slowly)
        await wire.send(command("work", call_id="c1"))
        await asyncio.wait_for(recording.wait(), PATIENCE_S)
        cancel = command("quarterdeck.cancel", "data_collection", parameters={"call_id": "c1"})
        [told] = await wire.ask(cancel)
        assert told["result"] == {"cancelled": True}
        recorded.set()
        [result] = (await wire.hear())["action_results"]
        assert result["error"] == "cancelled: work was cancelled before it started."
        assert bench.ran == []
        known = await wire.recall("c1")
        assert known["c1"]["result"]["error"] == result["error"]


async def test_the_device_keeps_the_deadline_by_itself(tmp_path: Path) -> None:
    async with at_work(tmp_path) as (console, bench):
        wire = await console.link()
        await wire.send(command("work", call_id="c1", terms={"deadline_s": 0.3}))
        # Waits behind the first one, and its time is counted from its arrival.
        await wire.send(command("work", call_id="c2", terms={"deadline_s": 0.1}))
        waited = (await wire.hear())["action_results"][0]
        ran = (await wire.hear())["action_results"][0]
        assert (waited["call_id"], ran["call_id"]) == ("c2", "c1")
        assert waited["error"].startswith("timeout: ")
        assert "not started" in waited["error"]
        assert ran["error"].startswith("timeout: ")
        assert len(bench.ran) == 1


def stand_still(seconds: float) -> None:
    """As a process that is stopped, or whose machine sleeps."""
    time.sleep(seconds)


async def test_what_came_while_the_process_stood_still_counts_from_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.device.stall_detector._STANDSTILL_S", 0.2)
    async with at_work(tmp_path) as (console, bench):
        bench.go.set()
        wire = await console.link()
        await wire.ask(command("work", call_id="before"))
        # It stands still once the frame has left, and before it is read.
        asyncio.get_running_loop().call_soon(stand_still, 0.4)
        late = await wire.send(command("work", call_id="late", terms={"deadline_s": 0.3}))
        answer = await wire.hear()
        assert answer["prev_response_id"] == late
        assert answer["action_results"][0]["error"].startswith("timeout: ")
        # Whoever has time enough is served all the same.
        [served] = await wire.ask(command("work", call_id="soon", terms={"deadline_s": 20}))
        assert served["status"] == "success"
        assert len(bench.ran) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="the clock is Linux's")
def test_the_clock_of_deadlines_goes_on_while_the_machine_sleeps() -> None:
    loop = _loop()
    assert abs(loop.time() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1
    loop.close()


@pytest.mark.parametrize("terms", [{"deadline_s": 0}, {"deadline_s": "soon"}, {"deadline_s": 1e9}, {}])
async def test_terms_that_cannot_be_kept_run_nothing(tmp_path: Path, terms: dict[str, Any]) -> None:
    async with at_work(tmp_path) as (console, bench):
        wire = await console.link()
        [refused] = await wire.ask({**command("work", call_id="c1"), "quarterdeck": terms})
        assert refused["error"].startswith("protocol_error: ")
        assert bench.ran == []


async def in_process(wire: Wire, line: str, call_id: str) -> dict[str, Any]:
    [result] = await wire.ask(
        command("shell_execute", call_id=call_id, parameters={"command": line, "timeout": 60})
    )
    return result


async def test_after_kill_9_nothing_runs_twice_and_what_ran_is_unknown(tmp_path: Path) -> None:
    log = tmp_path / "root" / "log"
    os.mkfifo(tmp_path / "fifo")
    async with link_console() as console:
        async with device(console.url, tmp_path) as running:
            wire = await console.link()
            done = await in_process(wire, f"echo done >> {log}", "finished")
            assert done["status"] == "success"
            line = f"echo cut >> {log}; echo $$ > {tmp_path}/fifo; exec sleep 60"
            await wire.send(
                command("shell_execute", call_id="cut", parameters={"command": line, "timeout": 60})
            )
            await asyncio.to_thread((tmp_path / "fifo").read_text)
            await wire.recall("never")
            running.process.kill()
            await running.process.wait()
        async with device(console.url, tmp_path) as running:
            wire = await console.link()
            known = await wire.recall("finished", "cut", "new")
            assert known["finished"]["result"]["result"]["exit_code"] == 0
            assert known["cut"]["state"] == "done"
            assert known["cut"]["result"]["error"].startswith("outcome_unknown: ")
            assert known["new"]["state"] == "never_seen"
            again = await in_process(wire, line, "cut")
            assert again["error"].startswith("outcome_unknown: ")
            assert (await in_process(wire, f"echo done >> {log}", "finished"))["status"] == "success"
            assert (await in_process(wire, f"echo never >> {log}", "never"))["status"] == "failure"
            running.process.send_signal(signal.SIGTERM)
            assert await running.ended() == 0
    assert log.read_text() == "done\ncut\n"


async def test_a_client_that_takes_over_answers_for_the_one_that_was_killed(tmp_path: Path) -> None:
    async with link_console() as console, device(console.url, tmp_path) as first:
        wire = await console.link()
        await in_process(wire, "true", "c1")
        async with device(console.url, tmp_path):
            second = await console.link()
            # Both are alive: the second does not know what the first one did.
            first.process.kill()
            await first.process.wait()
            assert (await second.recall("c1"))["c1"]["state"] == "done"


async def test_an_action_that_cannot_be_noted_does_not_run(tmp_path: Path) -> None:
    config = DeviceConfig(roots=(tmp_path,))
    bench = Bench(build_router(config, tmp_path / "state", "d1"))
    bench.go.set()
    async with (
        link_console() as console,
        device_in_process(console, bench.router, config, tmp_path / "state") as client,
    ):
        wire = await console.link()
        records = client._desk.deliveries._records
        assert records is not None
        records._store.do(lambda connection: connection.execute("PRAGMA max_page_count = 1"))
        refused = (await wire.ask(command("work", call_id="c1")))[0]
        number = 0
        while refused["status"] == "success":
            # Until the file's last page is full.
            number += 1
            [refused] = await wire.ask(command("work", call_id=f"{number:0200}"))
        [looked] = await wire.ask(command("watch", "data_collection", call_id="looks"))
        ran = len(bench.ran)
        records._store.do(lambda connection: connection.execute("PRAGMA max_page_count = 100000"))
        assert refused["error"].startswith("denied_by_device: This device cannot keep its record of actions")
        assert looked["status"] == "success"
        assert ran == (number or 0) + 1
        [served] = await wire.ask(command("work", call_id="c3"))
        assert served["status"] == "success"
        known = await wire.recall(refused["call_id"], "c3")
    assert [row["state"] for row in known.values()] == ["done", "done"]
    async with link_console() as console:
        bench = Bench(build_router(config, tmp_path / "state", "d1"))
        async with device_in_process(console, bench.router, config, tmp_path / "state"):
            wire = await console.link()
            known = await wire.recall(refused["call_id"], "c3")
    # The next client has no record of the call that did not run.
    assert [row["state"] for row in known.values()] == ["never_seen", "done"]
