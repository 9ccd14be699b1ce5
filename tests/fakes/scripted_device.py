"""A device that does what a test says: a real WebSocket, frames by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from core.ids import now_stamp
from tests.fakes.patience import PATIENCE_S


def tool(
    name: str, description: str = "Does what it is called.", tool_type: str = "action"
) -> dict[str, Any]:
    """A tool as a device lists it."""
    return {
        "tool_key": f"{tool_type}::{name}",
        "tool_name": name,
        "title": name,
        "namespace": "scripted",
        "tool_type": tool_type,
        "description": description,
        "input_schema": {"type": "object", "properties": {}},
        "output_schema": {},
        "meta": None,
        "annotations": None,
    }


class ScriptedDevice:
    """One connection of a device; `tools` is what it lists, to the agents in `agents` or to all."""

    def __init__(self, connection: ClientConnection, name: str, agents: Sequence[str]) -> None:
        self.connection = connection
        self.name = name
        self.agents = agents
        self.tools = [tool("poke")]
        self.listed = 0
        # Listings of agents that it does not have.
        self.unanswered: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        # Set when a listing is answered, for those that wait then.
        self.has_listed = asyncio.Event()
        self.commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def say(self, **frame: Any) -> None:
        """Send a frame."""
        await self.connection.send(json.dumps(frame))

    async def register(self, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
        """Introduce itself; gives the acknowledgement."""
        await self.say(
            type="register",
            client_type="device",
            client_id=self.name,
            status="ok",
            timestamp=now_stamp(),
            metadata=metadata or {"platform": "linux"},
        )
        acknowledged = json.loads(await self.connection.recv())
        assert isinstance(acknowledged, dict)
        return acknowledged

    async def beat(self, metrics: dict[str, float] | None = None) -> None:
        """Send a heartbeat."""
        metadata = {"quarterdeck": {"metrics": metrics}} if metrics else None
        await self.say(
            type="heartbeat",
            client_type="device",
            client_id=self.name,
            status="ok",
            timestamp=now_stamp(),
            metadata=metadata,
        )

    async def serve(self) -> None:
        """Answer listings; put every other command frame where `command` finds it."""
        async for data in self.connection:
            frame = json.loads(data)
            if frame["type"] != "command":
                continue
            if not frame["actions"]:
                await self.answer(frame)
            elif frame["actions"][0]["tool_name"] != "list_tools":
                self.commands.put_nowait(frame)
            elif not self.agents or frame["agent_name"] in self.agents:
                self.listed += 1
                await self.answer(frame, self.tools)
                answered, self.has_listed = self.has_listed, asyncio.Event()
                answered.set()
            else:
                self.unanswered.put_nowait(frame)

    async def command(self) -> dict[str, Any]:
        """The next command frame."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.commands.get()

    async def listing(self) -> dict[str, Any]:
        """The next listing of an agent that it does not have."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.unanswered.get()

    async def answer(self, frame: dict[str, Any], *values: Any) -> None:
        """Answer a command frame, with a value for each action."""
        await self.say(
            type="command_results",
            client_type="device",
            client_id=self.name,
            status=frame["status"],
            session_id=frame["session_id"],
            prev_response_id=frame["response_id"],
            timestamp=now_stamp(),
            action_results=[
                {"status": "success", "error": None, "result": value, "call_id": action["call_id"]}
                for action, value in zip(frame["actions"], values, strict=True)
            ],
        )


@asynccontextmanager
async def scripted(
    url: str, token: str, name: str, agents: Sequence[str] = (), *, register: bool = True, **features: Any
) -> AsyncIterator[ScriptedDevice]:
    """A connected device that lists its tools; registered, unless a test wants to do that itself."""
    async with connect(f"{url}?token={token}", ping_interval=None) as connection:
        device = ScriptedDevice(connection, name, agents)
        if register:
            ours = {"quarterdeck": features} if features else {}
            await device.register({"platform": "linux", **ours})
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(device.serve())
            try:
                yield device
            finally:
                serving.cancel()
