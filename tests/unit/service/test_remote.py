"""The control socket, both ends, with a console in memory behind it: calls, events and leaving."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from pydantic_core import from_json

from core.batch.models import Batch, Step
from core.canonical_json import sha256_hex
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused, ServiceError
from core.service import exit_codes
from core.service.console import Console, Missed, RunChanged, api_methods
from core.service.event_hub import MAX_PENDING
from core.service.rpc import protocol
from core.service.rpc.client import RemoteConsole
from core.service.rpc.server import WRITE_LIMIT, ControlServer
from tests.fakes.control_socket import FakeHost, raw, within
from tests.fakes.patience import PATIENCE_S
from tests.fakes.work import most_calls

# Ten times what is kept for a client that does not read.
FLOOD = 10 * MAX_PENDING
BATCH = Batch(name="b", steps=[Step(id="s", tool="echo", parameters={"text": "hello"})])


class TestCalls:
    def test_every_call_of_the_console_crosses_without_code_of_its_own(self):
        assert Console.__abstractmethods__ == {"invoke", "events", "close"}
        assert set(protocol.methods()) == set(api_methods())
        assert not inspect.isabstract(RemoteConsole)

    async def test_models_cross_unchanged_in_both_directions(self, attach, host):
        console = await attach()
        host.gate.set()
        local = host.console("operator:anna")
        assert await console.service.state() == await local.service.state()
        run = await console.runs.start(BATCH, expected_devices=["this-computer"])
        assert run == host.fake.work.find(run.summary.id)
        assert await console.runs.wait(run.summary.id, timeout=20) == run
        assert await console.journal.prove(1) == await local.journal.prove(1)
        assert await console.service.resume() is None
        await console.runs.save_batch("mine", BATCH)
        assert host.fake.calls_of("save_batch") == [{"name": "mine", "batch": BATCH}]

    @pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
    async def test_a_number_that_json_has_not_is_refused_and_never_sent_as_null(self, attach, host, number):
        console = await attach()
        with pytest.raises(BadInput, match=r"parameters\.deep\[1\]\.x must be a finite number"):
            await console.runs.call("this-computer", "echo", {"deep": [1, {"x": number}]})
        odd = Batch(name="b", steps=[Step(id="s", tool="echo", parameters={"x": number})])
        with pytest.raises(BadInput, match=r"batch\.steps\[0\]\.parameters\.x must be"):
            await console.runs.start(odd)
        assert not host.asked

    async def test_bytes_cross_as_they_are(self, attach, host):
        console = await attach()
        data = b"\x00\xff" * 1000
        host.fake.answer("blob", data)
        assert await console.journal.blob(sha256_hex(data)) == data

    async def test_an_error_arrives_as_the_class_and_code_it_was_raised_with(self, attach, host):
        console = await attach()
        host.fake.answer("run", BadInput("There is no run 'r9'.", ErrorCode.NOT_FOUND))
        host.fake.answer("load_batch", Refused("This batch is nobody's."))
        with pytest.raises(BadInput, match="no run 'r9'") as unknown:
            await console.runs.get("r9")
        assert unknown.value.code is ErrorCode.NOT_FOUND
        with pytest.raises(Refused):
            await console.runs.load_batch("x")

    async def test_a_fault_in_the_service_is_told_without_its_details(self, attach, host):
        console = await attach()
        host.fake.answer("entries", RuntimeError("secret detail"))
        with pytest.raises(QuarterdeckError) as fault:
            await console.journal.entries()
        assert fault.value.code is ErrorCode.INTERNAL
        assert "secret" not in fault.value.message
        assert (await console.journal.verify()).ok

    async def test_wrong_arguments_are_named_before_anything_is_sent_or_done(self, attach):
        console = await attach()
        with pytest.raises(BadInput, match="wait_run"):
            await console.runs.wait("r1", minutes=3)
        with pytest.raises(BadInput, match="entry"):
            await console.journal.entry("one")

    async def test_one_slow_call_does_not_hold_up_the_others(self, attach, host):
        console = await attach()
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(console.runs.start(BATCH))
            await host.entered.acquire()
            assert (await console.journal.verify()).ok
            host.gate.set()
        assert slow.result().summary.id == "r-0001"

    async def test_the_sixty_fifth_call_waits_for_a_place(self, attach, host):
        console = await attach()
        async with asyncio.TaskGroup() as group:
            for _ in range(65):
                group.create_task(console.runs.start(BATCH))
            for _ in range(64):
                await host.entered.acquire()
            other = await attach()
            await other.service.state()
            assert host.asked["start_run"] == 64
            host.gate.set()
        assert host.asked["start_run"] == 65

    async def test_a_call_that_is_given_up_is_forgotten_at_the_other_end(self, attach, host):
        console = await attach()
        run = await console.runs.call("this-computer", "change", {})
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(console.runs.wait(run.summary.id, 500))
            await asyncio.sleep(0)
            # By this answer the other end has the call: frames are read in their order.
            await console.service.state()
            waiting.cancel()
        await within(host.finished)
        assert host.cancelled_waits == 1

    async def test_a_service_that_does_not_answer_is_given_up_in_bounded_time(self, attach, host):
        console = await attach(timeout=0.1)
        with pytest.raises(ServiceError, match="did not answer start_run") as late:
            await console.runs.start(BATCH)
        assert late.value.code is ErrorCode.SERVICE_SILENT
        assert exit_codes.exit_code_of(late.value.code) == exit_codes.HOME_OWNED
        assert "before you ask again" in late.value.info.next

    async def test_an_argument_beyond_a_frame_is_refused_here_and_the_connection_lives(self, attach):
        console = await attach()
        with pytest.raises(BadInput) as large:
            await console.runs.call("this-computer", "echo", {"text": "x" * (protocol.MAX_FRAME + 1)})
        assert large.value.code is ErrorCode.TOO_LARGE
        assert (await console.journal.verify()).ok

    async def test_fifty_mebibytes_fit(self, attach):
        console = await attach()
        text = "x" * (50 * 1024 * 1024)
        decision = await console.policy.explain("this-computer", "echo", {"text": text})
        assert decision.summary == "Calls echo"


class TestLeaving:
    async def test_a_client_that_goes_stops_no_work_but_frees_what_it_held(self, attach, host, server):
        console = await attach()
        waiting = await console.runs.call("this-computer", "change", {})
        await console.approvals.hold(waiting.cells[0].approval, True)
        stream = console.events()
        calls = [
            asyncio.get_running_loop().create_task(console.runs.start(BATCH)),
            asyncio.get_running_loop().create_task(console.runs.wait(waiting.summary.id, 600)),
        ]
        for _ in calls:
            await host.entered.acquire()
        assert len(host.hub) == 1
        console._connection.transport.abort()
        for call in calls:
            with pytest.raises(ServiceError):
                await call
        with pytest.raises(ServiceError):
            await anext(stream)
        await within(server.unattended)
        await within(host.left)
        assert host.fake.calls_of("hold")[-1] == {"approval": waiting.cells[0].approval, "reading": False}
        assert host.cancelled_waits == 1
        host.finished.clear()
        host.gate.set()
        await within(host.finished)
        assert len(host.hub) == 0

    async def test_when_the_service_ends_every_waiting_call_says_so(self, attach, host, server):
        console = await attach()
        run = await console.runs.call("this-computer", "change", {})
        stream = console.events()
        waiting = asyncio.get_running_loop().create_task(console.runs.wait(run.summary.id, 600))
        reading = asyncio.get_running_loop().create_task(anext(stream))
        await host.entered.acquire()
        await server.close()
        for task in (waiting, reading):
            with pytest.raises(ServiceError) as gone:
                await task
            assert gone.value.code is ErrorCode.SERVICE_UNAVAILABLE
        await within(console.closed)
        assert console.closed_reason == "The service has ended."
        with pytest.raises(ServiceError):
            await console.service.state()

    async def test_the_answer_to_shut_down_still_arrives(self, attach, host, server):
        console = await attach()

        async def end() -> None:
            await host.on_shutdown_asked.wait()
            await server.close()

        async with asyncio.TaskGroup() as group:
            group.create_task(end())
            assert await console.service.shut_down(cancel_work=False) == "It ends."

    async def test_the_server_knows_whether_anybody_is_there(self, attach, server):
        assert server.unattended.is_set()
        console = await attach()
        assert server.attached.is_set()
        assert not server.unattended.is_set()
        await console.close()
        await within(server.unattended)
        assert not server.attached.is_set()


def changed(host: FakeHost, number: int) -> RunChanged:
    [summary] = host.fake.work.summaries()
    return RunChanged(run=summary.model_copy(update={"id": f"flood-{number}"}))


class TestEvents:
    async def test_a_stream_tells_what_happens_after_it_was_asked_for(self, attach, host):
        console = await attach()
        stream = console.events()
        run = await console.runs.call("this-computer", "echo", {})
        async with asyncio.timeout(PATIENCE_S):
            while not isinstance(event := await anext(stream), RunChanged):
                pass
        assert event.run.id == run.summary.id

    async def test_a_stream_that_is_closed_costs_the_service_nothing_more(self, attach, host):
        console = await attach()
        stream = console.events()
        await console.service.state()
        assert len(host.hub) == 1
        await stream.aclose()
        await console.service.state()
        await console.service.state()
        assert len(host.hub) == 0
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    async def test_a_stream_that_is_only_dropped_ends_with_the_next_event(self, attach, host):
        console = await attach()
        stream = console.events()
        await console.service.state()
        del stream
        await console.runs.call("this-computer", "echo", {})
        async with asyncio.timeout(PATIENCE_S):
            while len(host.hub):
                await console.service.state()

    async def test_a_client_that_never_reads_blocks_nobody_and_is_told_what_it_missed(
        self, home, attach, host, server
    ):
        seeing = await attach()
        await seeing.runs.call("this-computer", "echo", {})
        stuck = await raw(home)
        await stuck.recv()
        await stuck.send('{"subscribe": 5}')
        await stuck.send('{"id": 6, "method": "verify"}')
        await stuck.recv()
        stuck.transport.pause_reading()
        for number in range(4000):
            host.hub.publish(changed(host, number))
        (pumped,) = (client for client in server._clients if client._streams)
        while pumped._connection.transport.get_write_buffer_size() < WRITE_LIMIT:
            await seeing.journal.verify()
        for number in range(FLOOD):
            event = changed(host, number)
            with most_calls(200):
                host.hub.publish(event)
            if number % 1000 == 0:
                await seeing.journal.verify()
        assert len(pumped._streams[5]._pending) <= MAX_PENDING
        stuck.transport.resume_reading()
        seen: list[Any] = []
        async with asyncio.timeout(PATIENCE_S):
            while not any(event["event"] == "missed" for event in seen):
                seen += from_json(await stuck.recv())["events"]
        missed = Missed.model_validate(next(event for event in seen if event["event"] == "missed"))
        assert missed.count > FLOOD - 2 * MAX_PENDING
        await stuck.send('{"id": 8, "method": "state"}')
        async with asyncio.timeout(PATIENCE_S):
            while from_json(await stuck.recv()).get("id") != 8:
                pass
        await stuck.close()

    async def test_a_client_that_stays_stuck_is_cut_off(self, home, host):
        server = ControlServer(host, home, stuck_after=0.1)
        await server.open()
        await host.console("cli:x").runs.call("this-computer", "echo", {})
        stuck = await raw(home)
        await stuck.recv()
        await stuck.send('{"subscribe": 5}')
        await stuck.send('{"id": 6, "method": "verify"}')
        await stuck.recv()
        stuck.transport.pause_reading()
        for number in range(4000):
            host.hub.publish(changed(host, number))
        await within(server.unattended)
        stuck.transport.abort()
        await server.close()
