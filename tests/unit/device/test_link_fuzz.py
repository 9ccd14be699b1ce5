"""Whatever a console sends: the device neither crashes nor hangs nor grows, and serves what is good."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from core.aip.extensions import pack_blob
from core.device.build import build_router
from core.device.client import DeviceClient
from core.device.config import DeviceConfig
from tests.fakes.link_console import QUICK, Bench, LinkConsole, Wire, command, link_console, running, welcome
from tests.fakes.patience import PATIENCE_S
from tests.fakes.run_size import examples

MODEST = settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

words = some.sampled_from(
    ["c1", "c2", "work", "watch", "quarterdeck.cancel", "quarterdeck.recall", "list_tools", "", "x" * 300]
)
leaves = some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=20) | words
json_values = some.recursive(
    leaves,
    lambda inner: (
        some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=8) | words, inner, max_size=4)
    ),
    max_leaves=12,
)
terms = some.fixed_dictionaries(
    {}, optional={"deadline_s": json_values, "digest": json_values, "approval": json_values}
)
actions = some.fixed_dictionaries(
    {
        "tool_name": words | json_values,
        "tool_type": some.sampled_from(["action", "data_collection"]) | json_values,
    },
    optional={
        "parameters": some.fixed_dictionaries(
            {}, optional={"call_id": words, "call_ids": json_values, "n": json_values}
        )
        | json_values,
        "call_id": words | json_values,
        "quarterdeck": terms | json_values,
    },
)
frames = some.fixed_dictionaries(
    {
        "type": some.sampled_from(
            [
                "command",
                "heartbeat",
                "error",
                "task",
                "task_end",
                "device_info_request",
                "device_info_response",
                "no",
            ]
        )
        | json_values,
        "status": some.sampled_from(["ok", "continue", "error"]) | json_values,
    },
    optional={
        "actions": some.lists(actions | json_values, max_size=4) | json_values,
        "response_id": words | json_values,
        "session_id": json_values,
        "result": json_values,
        "error": json_values,
        "user_request": json_values,
    },
)


def mutated(draw: Any, data: bytes) -> bytes:
    """`data` with a few bytes changed, cut or doubled."""
    changed = bytearray(data)
    for _number in range(draw(some.integers(1, 4))):
        at = draw(some.integers(0, max(0, len(changed) - 1)))
        how = draw(some.sampled_from(["change", "cut", "double"]))
        if how == "change" and changed:
            changed[at] = draw(some.integers(0, 255))
        elif how == "cut":
            del changed[at:]
        else:
            changed[at:at] = changed[at : at + 40]
    return bytes(changed)


@some.composite
def messages(draw: Any) -> str | bytes:
    """One WebSocket message: a frame, a broken one, or bytes."""
    kind = draw(some.sampled_from(["frame", "mutated", "bytes", "text", "blob"]))
    if kind == "bytes":
        return bytes(draw(some.binary(max_size=200)))
    if kind == "text":
        return str(draw(some.text(some.characters(exclude_categories=["Cs"]), max_size=200)))
    if kind == "blob":
        return mutated(draw, pack_blob(draw(some.binary(max_size=50)), "image/png")[1])
    data = json.dumps(draw(frames)).encode()
    if kind == "mutated":
        data = mutated(draw, data)
    if draw(some.booleans()):
        return data
    return data.decode("utf-8", "replace")


class Fuzzed:
    """A device client and its console on one loop, for all examples of a test."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.stack = AsyncExitStack()
        self.console: LinkConsole
        self.client: DeviceClient
        self.wire: Wire | None = None
        self.runner.run(self._start())

    async def _start(self) -> None:
        folder = Path(self.folder.name)
        config = DeviceConfig(roots=(folder,))
        bench = Bench(build_router(config, folder / "state", "d1"))
        bench.go.set()
        self.console = await self.stack.enter_async_context(link_console(welcome()))
        self.client = DeviceClient(
            self.console.url, "d1", bench.router, config, "t", QUICK, state_dir=folder / "s"
        )
        await self.stack.enter_async_context(running(self.client))

    def close(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()
        self.folder.cleanup()

    async def example(self, sent: list[str | bytes]) -> None:
        wire = self.wire or await self.console.link()
        with suppress(ConnectionClosed):
            for message in sent:
                await wire.connection.send(message)
        self.wire = await self._serves(wire)
        self._has_not_grown()

    async def _serves(self, wire: Wire) -> Wire:
        """The device answers a good command on this link, or on the next one when it left this one."""
        for _attempt in range(3):
            try:
                asked = await wire.send(
                    command("get_system_info", "data_collection", parameters={"info_type": "os"})
                )
                async with asyncio.timeout(PATIENCE_S):
                    while True:
                        frame = await wire.read()
                        if isinstance(frame, dict) and frame.get("prev_response_id") == asked:
                            assert frame["action_results"][0]["status"] == "success"
                            return wire
            except ConnectionClosed:
                wire = await self.console.link()
        raise AssertionError("the device does not serve any more")

    def _has_not_grown(self) -> None:
        desk = self.client._desk
        assert len(desk.batches._frames) == 0
        assert len(desk.batches._served) <= 4096
        assert len(desk._serving) == 0
        assert desk.deliveries.bytes_held <= 24 * 1024 * 1024
        # The link, its heartbeat, and the wait for the end.
        assert len(desk.tasks.names) <= 4, desk.tasks.names


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[Fuzzed]:
    ready = Fuzzed()
    yield ready
    ready.close()


@MODEST
@given(sent=some.lists(messages(), min_size=1, max_size=8))
def test_after_the_registration_no_frame_hurts_the_device(fuzzed: Fuzzed, sent: list[str | bytes]) -> None:
    fuzzed.runner.run(fuzzed.example(sent))


class BeforeAck:
    """Consoles that answer the registration with something else, and then one that is good."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.stack = AsyncExitStack()
        self.answer: str | bytes = ""
        self.visited = asyncio.Event()
        self.served = 0
        self.runner.run(self._start())

    async def _start(self) -> None:
        folder = Path(self.folder.name)
        config = DeviceConfig(roots=(folder,))
        server = await self.stack.enter_async_context(serve(self._handle, "127.0.0.1", 0))
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        router = build_router(config, folder / "state", "d1")
        self.client = DeviceClient(url, "d1", router, config, "t", QUICK)
        await self.stack.enter_async_context(running(self.client))

    async def _handle(self, connection: ServerConnection) -> None:
        wire = Wire(connection)
        wire.hello = await wire.hear()
        with suppress(ConnectionClosed):
            await connection.send(self.answer)
            # Whatever it made of that: it speaks AIP, or it has gone.
            await connection.send(json.dumps({"type": "command", "status": "ok", "actions": []}))
            async with asyncio.timeout(PATIENCE_S):
                await connection.recv()
        self.served += 1
        self.visited.set()

    def close(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()
        self.folder.cleanup()

    async def example(self, answer: str | bytes) -> None:
        self.answer = answer
        self.visited.clear()
        async with asyncio.timeout(PATIENCE_S):
            await self.visited.wait()
        assert len(self.client._desk.tasks.names) <= 4


@pytest.fixture(scope="module")
def before_ack() -> Iterator[BeforeAck]:
    ready = BeforeAck()
    yield ready
    ready.close()


# One refusal is for good, and a device that obeys it has not crashed.
acks = messages().filter(
    lambda said: b"invalid_arguments" not in (said.encode() if isinstance(said, str) else said)
)


@MODEST
@given(answer=acks)
def test_no_answer_to_the_registration_hurts_the_device(before_ack: BeforeAck, answer: str | bytes) -> None:
    before_ack.runner.run(before_ack.example(answer))


def test_a_frame_with_too_many_commands_runs_none_of_them(fuzzed: Fuzzed) -> None:
    async def story() -> None:
        wire = fuzzed.wire or await fuzzed.console.link()
        many = [command("work", call_id=f"many-{number}") for number in range(20_000)]
        asked = await wire.send(*many)
        while (frame := await wire.hear()).get("prev_response_id") != asked:
            continue
        assert frame["type"] == "error"
        assert frame["error"].startswith("too_large: ")
        fuzzed.wire = await fuzzed._serves(wire)

    fuzzed.runner.run(story())


@pytest.mark.parametrize("kind", ["task", "error", "task_end"])
def test_a_flood_of_frames_without_commands_costs_the_link(fuzzed: Fuzzed, kind: str) -> None:
    async def flood() -> None:
        wire = fuzzed.wire or await fuzzed.console.link()
        fuzzed.wire = None
        with suppress(ConnectionClosed):
            for _number in range(1000):
                await wire.connection.send(json.dumps({"type": kind, "status": "ok"}))
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionClosed):
                while True:
                    await wire.connection.recv()
        assert wire.connection.close_code == 1008
        fuzzed.wire = await fuzzed._serves(await fuzzed.console.link())

    fuzzed.runner.run(flood())


def test_a_flood_of_garbage_costs_the_link_and_nothing_else(fuzzed: Fuzzed) -> None:
    async def flood() -> None:
        wire = fuzzed.wire or await fuzzed.console.link()
        fuzzed.wire = None
        with suppress(ConnectionClosed):
            for _number in range(1000):
                await wire.connection.send(os.urandom(16))
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ConnectionClosed):
                while True:
                    await wire.connection.recv()
        assert wire.connection.close_code == 1008
        fuzzed.wire = await fuzzed._serves(await fuzzed.console.link())

    fuzzed.runner.run(flood())
