"""Many devices in one process: real WebSocket clients, each with one observation and one action.

    python -m tests.fakes.swarm --url ws://127.0.0.1:5000/ws --count 1000 [--tokens FILE]
                                [--features cancel,…] [--slow SECONDS] [--silent N] [--drop N]

The devices are `sim-0001` and so on. `--tokens` names a JSON file of tokens by device name; without it each
device's name is its token. It prints one JSON line per event: `connected` (all have been acknowledged),
`lost` (one link ended), `ended` (with how many commands ran). It ends when its standard input does.

The last `--silent` devices never answer, and the last `--drop` ones cut their link when a command comes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from core.fleet.known_devices import KnownDevice
from core.home import Home
from core.ids import now_stamp
from core.tasks import TaskGroupOwner
from core.tokens import new_token, token_digest
from tests.fakes.known_devices import put_trusted

ROOT = Path(__file__).parents[2]
OBSERVATION, ACTION = "get_system_info", "write_file"
# Dialled at once; more of them only fill the listener's backlog.
AT_ONCE = 50
PATIENCE = 120.0


def name_of(number: int) -> str:
    """The name of the device of that number, counted from 1."""
    return f"sim-{number:04d}"


@dataclass(frozen=True, slots=True)
class Swarming:
    """How the devices behave; `silent` and `drop` count devices from the end."""

    url: str
    count: int
    tokens: dict[str, str] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)
    slow: float = 0.0
    silent: int = 0
    drop: int = 0
    heartbeat: float = 20.0


def _tool(name: str, tool_type: str, properties: dict[str, Any], description: str) -> dict[str, Any]:
    return {
        "tool_key": f"{tool_type}::{name}",
        "tool_name": name,
        "title": name,
        "namespace": "builtin",
        "tool_type": tool_type,
        "description": description,
        "input_schema": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
        "output_schema": {},
        "meta": None,
        "annotations": None,
    }


TOOLS = [
    _tool(
        OBSERVATION,
        "data_collection",
        {"info_type": {"type": "string", "enum": ["cpu", "memory"]}},
        "Says how loaded this simulated device is.",
    ),
    _tool(
        ACTION,
        "action",
        {"file_path": {"type": "string"}, "content": {"type": "string"}},
        "Pretends to write a file; nothing is written.",
    ),
]
MEMORY = {"total": 16_777_216_000, "used": 8_388_608_000, "available": 8_388_608_000, "percent": 50.5}


class SimulatedDevice:
    """One device: dials, registers, answers commands one after the other, and dials again when it is cut."""

    def __init__(self, number: int, how: Swarming, told: Swarm) -> None:
        self.name = name_of(number)
        self._how = how
        self._told = told
        self._silent = number > how.count - how.silent
        self._drops = number > how.count - how.silent - how.drop and not self._silent

    async def run(self, gate: asyncio.Semaphore) -> None:
        """Stay connected until cancelled."""
        token = self._how.tokens.get(self.name, self.name)
        while True:
            async with gate:
                link = await connect(
                    self._how.url,
                    additional_headers={"Authorization": f"Bearer {token}"},
                    compression=None,
                    ping_interval=None,
                    open_timeout=PATIENCE,
                )
                await link.send(json.dumps(self._registration()))
                acknowledged = json.loads(await link.recv())
            if acknowledged["status"] != "ok":
                raise ConnectionError(f"{self.name} was refused: {acknowledged.get('error')}")
            self._told.came(self.name, link)
            with contextlib.suppress(ConnectionClosed):
                await self._serve(link)
            self._told.went(self.name)

    async def _serve(self, link: ClientConnection) -> None:
        async for data in link:
            frame = json.loads(data)
            if frame["type"] != "command":
                continue
            if self._drops and frame["actions"][0]["tool_name"] != "list_tools":
                link.transport.abort()
                return
            if self._how.slow:
                await asyncio.sleep(self._how.slow)
            if not (self._silent and frame["actions"][0]["tool_name"] != "list_tools"):
                await link.send(self._answer(frame))

    def _answer(self, frame: dict[str, Any]) -> str:
        results = [self._result(action) for action in frame["actions"]]
        self._told.commands += len(results)
        return json.dumps(
            {
                "type": "command_results",
                "status": frame["status"],
                "client_type": "device",
                "client_id": self.name,
                "session_id": frame["session_id"],
                "action_results": results,
                "timestamp": now_stamp(),
                "prev_response_id": frame["response_id"],
            }
        )

    def _result(self, action: dict[str, Any]) -> dict[str, Any]:
        answers = {"list_tools": TOOLS, OBSERVATION: MEMORY, ACTION: {"path": "/nowhere", "bytes": 1}}
        known = action["tool_name"] in answers
        return {
            "status": "success" if known else "failure",
            "error": None if known else f"unknown_tool: there is no {action['tool_name']}",
            "result": answers.get(action["tool_name"]),
            "namespace": "builtin",
            "call_id": action.get("call_id"),
        }

    def _registration(self) -> dict[str, Any]:
        # Like our own client, whose built-in tools the console knows; without features all else is plain AIP.
        ours = {"version": "0", "features": self._how.features}
        metadata = {"platform": "linux", "system_info": {"platform": "linux"}, "quarterdeck": ours}
        return {
            "type": "register",
            "status": "ok",
            "client_type": "device",
            "client_id": self.name,
            "timestamp": now_stamp(),
            "metadata": metadata,
        }


class Swarm:
    """All devices of this process, and what is told of them."""

    def __init__(self, how: Swarming) -> None:
        self._how = how
        self._tasks = TaskGroupOwner("swarm")
        self._links: dict[str, ClientConnection] = {}
        self.commands = 0
        self.all_there = asyncio.Event()

    def came(self, name: str, link: ClientConnection) -> None:
        """A device was acknowledged."""
        self._links[name] = link
        if len(self._links) == self._how.count:
            self.all_there.set()

    def went(self, name: str) -> None:
        """A device's link ended."""
        self._links.pop(name, None)
        tell("lost", device=name)

    async def run(self) -> None:
        """Connect all, then stay until the standard input ends."""
        started = time.perf_counter()
        gate = asyncio.Semaphore(AT_ONCE)
        devices = [SimulatedDevice(number, self._how, self) for number in range(1, self._how.count + 1)]
        running = [self._tasks.spawn(device.name, device.run(gate)) for device in devices]
        there = self._tasks.spawn("wait for all", self.all_there.wait())
        ended = self._tasks.spawn("wait for the end", _input_ends())
        await asyncio.wait([there, ended, *running], return_when=asyncio.FIRST_COMPLETED)
        # A collection over a thousand links takes 50 ms and belongs to this process, not to what it measures.
        gc.collect()
        gc.freeze()
        if there.done():
            tell("connected", count=self._how.count, took_s=round(time.perf_counter() - started, 3))
        beating = self._tasks.spawn("heartbeats", self._beat())
        await asyncio.wait([ended, beating, *running], return_when=asyncio.FIRST_COMPLETED)
        tell("ended", commands=self.commands)
        await self._tasks.close()
        for link in self._links.values():
            link.transport.abort()

    async def _beat(self) -> None:
        """Heartbeats of all devices, spread over the interval."""
        while True:
            for number in range(1, self._how.count + 1):
                await asyncio.sleep(self._how.heartbeat / self._how.count)
                name = name_of(number)
                if (link := self._links.get(name)) is not None:
                    with contextlib.suppress(ConnectionClosed):
                        await link.send(_heartbeat(name))


def _heartbeat(name: str) -> str:
    return json.dumps({"type": "heartbeat", "status": "ok", "client_id": name, "timestamp": now_stamp()})


async def _input_ends() -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        await reader.read()
    finally:
        transport.close()


def tell(event: str, **facts: Any) -> None:
    """Print one event as a JSON line."""
    print(json.dumps({"event": event, **facts}), flush=True)


async def pair_swarm(home: Home, count: int, tokens: Path) -> None:
    """Make the devices of a swarm known in a home that no service owns; their tokens go into a file."""
    given = {name_of(number): new_token() for number in range(1, count + 1)}
    await put_trusted(
        home,
        *(
            KnownDevice(name=name, tags=["swarm"], token_sha256=token_digest(token))
            for name, token in given.items()
        ),
    )
    await asyncio.to_thread(tokens.write_text, json.dumps(given))


@dataclass(slots=True)
class SwarmProcess:
    """A swarm that runs in a process of its own."""

    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def heard(self, event: str) -> dict[str, Any]:
        """The next event of that kind.

        Raises:
            AssertionError: the swarm ended first.
        """
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            async for line in self.process.stdout:
                said: dict[str, Any] = json.loads(line)
                if said["event"] == event:
                    return said
        raise AssertionError(f"the swarm ended before it said {event!r}")

    async def end(self) -> dict[str, Any]:
        """Let all devices go; gives what it says at its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            return await self.heard("ended")
        finally:
            await self.process.wait()


@asynccontextmanager
async def swarm_process(*arguments: str) -> AsyncIterator[SwarmProcess]:
    """Start a swarm with these arguments; it is gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.fakes.swarm",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    try:
        yield SwarmProcess(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def read_arguments(given: list[str] | None = None) -> Swarming:
    """The command line as a `Swarming`."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.swarm", description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--tokens", type=Path)
    parser.add_argument("--features", default="")
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--silent", type=int, default=0)
    parser.add_argument("--drop", type=int, default=0)
    parser.add_argument("--heartbeat", type=float, default=20.0)
    found = parser.parse_args(given)
    return Swarming(
        url=found.url,
        count=found.count,
        tokens=json.loads(found.tokens.read_text()) if found.tokens else {},
        features=[word for word in found.features.split(",") if word],
        slow=found.slow,
        silent=found.silent,
        drop=found.drop,
        heartbeat=found.heartbeat,
    )


if __name__ == "__main__":
    asyncio.run(Swarm(read_arguments()).run())
