"""The far end of a device client's link (AIP), over real sockets: it agrees on whatever a test wants."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.connection import Connection
from websockets.asyncio.server import ServerConnection, serve

from core.aip.extensions import FEATURES, CommandOptions, Welcome
from core.aip.messages import FrameStatus, ServerMessage
from core.aip.tls import Identity, server_context
from core.device.client import DeviceClient, Timing
from core.device.config import DeviceConfig
from core.device.router import Router
from core.device.tool import Contract, Tool, ToolCall, object_schema
from core.ids import now_stamp
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S

QUICK = Timing(register=5.0, heartbeat=30.0, ping=5.0, probe=0.3, back_off=(0.01, 0.05))
PLAIN = ServerMessage(type="heartbeat", status=FrameStatus.OK, timestamp=now_stamp(), response_id="r")
TOKEN = "a-token-that-only-the-console-knows"
ACT = Contract("change", "high", reversible=False, idempotent=False)


# A heartbeat may come between any two frames, so only tests of heartbeats ask for early ones. Large frames
# come whole, as from and to a peer of an earlier version: `Wire` reads frames, not their parts.
QUIET = FEATURES - {"metrics", "chunks"}


def welcome(features: Sequence[str] | frozenset[str] = QUIET, heartbeat_s: float = 30.0) -> str:
    """The acknowledgement of a console that has these features."""
    said = Welcome(version="test", features=sorted(features), heartbeat_s=heartbeat_s)
    return PLAIN.model_copy(update={"result": {"quarterdeck": said.model_dump()}}).model_dump_json()


def command(tool: str, kind: str = "action", call_id: str | None = None, **more: Any) -> dict[str, Any]:
    """One action of a frame; `terms` and `parameters` by name."""
    terms: dict[str, Any] | None = more.pop("terms", None)
    ready = {"tool_name": tool, "tool_type": kind, "parameters": more.pop("parameters", {})}
    ready["call_id"] = call_id or os.urandom(8).hex()
    if terms is not None:
        ready["quarterdeck"] = CommandOptions.model_validate(terms).model_dump()
    return {**ready, **more}


@dataclass
class Wire:
    """One link as the console sees it."""

    connection: Connection
    hello: dict[str, Any] = field(default_factory=dict)

    async def read(self) -> dict[str, Any] | bytes:
        """The next frame: JSON, or the bytes of a binary one."""
        async with asyncio.timeout(PATIENCE_S):
            data = await self.connection.recv()
        if isinstance(data, bytes):
            return data
        frame = json.loads(data)
        assert isinstance(frame, dict)
        return frame

    async def hear(self) -> dict[str, Any]:
        """The next frame, which is a text."""
        frame = await self.read()
        assert isinstance(frame, dict), frame
        return frame

    async def send(self, *commands: dict[str, Any]) -> str:
        """Send a command frame and return its response id."""
        response_id = os.urandom(8).hex()
        frame = {"type": "command", "status": "continue", "session_id": "s", "response_id": response_id}
        await self.connection.send(json.dumps({**frame, "actions": commands}))
        return response_id

    async def ask(self, *commands: dict[str, Any]) -> list[dict[str, Any]]:
        """The results of one frame of commands; frames that come before them must not come."""
        response_id = await self.send(*commands)
        answer = await self.hear()
        assert answer["prev_response_id"] == response_id, answer
        results: list[dict[str, Any]] = answer["action_results"]
        return results

    async def recall(self, *call_ids: str) -> dict[str, Any]:
        """What the device knows of these calls."""
        [answer] = await self.ask(
            command("quarterdeck.recall", "data_collection", parameters={"call_ids": call_ids})
        )
        assert answer["status"] == "success", answer
        known: dict[str, Any] = answer["result"]
        return known

    async def cut(self) -> None:
        """Break the link without a word."""
        self.connection.transport.abort()
        await self.connection.wait_closed()


@dataclass
class LinkConsole:
    """Takes every device that comes; `links` has them in order."""

    url: str = ""
    ack: str = ""
    links: asyncio.Queue[Wire] = field(default_factory=asyncio.Queue)

    async def link(self) -> Wire:
        """The next device that has registered."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.links.get()


@asynccontextmanager
async def link_console(ack: str | None = None) -> AsyncIterator[LinkConsole]:
    """A console that answers registrations with `ack`, by default with every feature."""
    console = LinkConsole(ack=welcome() if ack is None else ack)

    async def handler(connection: ServerConnection) -> None:
        wire = Wire(connection)
        wire.hello = await wire.hear()
        await connection.send(console.ack)
        console.links.put_nowait(wire)
        await connection.wait_closed()

    async with serve(handler, "127.0.0.1", 0, max_size=None, compression=None) as server:
        console.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
        yield console


@asynccontextmanager
async def running(client: DeviceClient) -> AsyncIterator[DeviceClient]:
    """A client at work; stopped and awaited at the end."""
    tasks = TaskGroupOwner("test")
    run = tasks.spawn("device client", client.run())
    try:
        yield client
    finally:
        client.stop()
        async with asyncio.timeout(PATIENCE_S):
            await run
        await tasks.close()


@asynccontextmanager
async def device_in_process(
    console: LinkConsole, router: Router, config: DeviceConfig, state_dir: Path | None = None
) -> AsyncIterator[DeviceClient]:
    """The device client `d1` in this process."""
    client = DeviceClient(console.url, "d1", router, config, "t", QUICK, state_dir=state_dir)
    async with running(client):
        yield client


@dataclass
class Bench:
    """Tools that a test holds in its hand: `work` begins, says so, and ends when `go` is set."""

    router: Router
    ran: list[dict[str, Any]] = field(default_factory=list)
    began: asyncio.Queue[ToolCall] = field(default_factory=asyncio.Queue)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    answer: Any = "done"

    def __post_init__(self) -> None:
        for name, kind in (("work", "action"), ("watch", "data_collection")):
            self.router.offer(self._tool(name, kind))

    def _tool(self, name: str, kind: Any) -> Tool:
        async def run(call: ToolCall) -> Any:
            self.ran.append(call.arguments)
            self.began.put_nowait(call)
            await self.go.wait()
            return self.answer

        return Tool(
            name=name,
            title=name,
            tool_type=kind,
            description="A tool of a test.",
            input_schema=object_schema({"n": {"type": "integer"}}, required=()),
            output_schema={},
            contract=ACT,
            run=run,
            stops_with_task=True,
        )

    async def next(self) -> ToolCall:
        """The next call that has begun."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.began.get()


@asynccontextmanager
async def tls_console(identity: Identity) -> AsyncIterator[tuple[str, list[str | None]]]:
    """A console that encrypts; yields its address and the tokens that it was shown."""
    shown: list[str | None] = []

    def admit(connection: Any, request: Any) -> None:
        shown.append(request.headers.get("Authorization"))

    async def handler(connection: Any) -> None:
        await connection.recv()
        await connection.send(welcome())

    context = server_context(identity)
    async with serve(handler, "127.0.0.1", 0, ssl=context, process_request=admit) as server:
        yield f"wss://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws", shown
