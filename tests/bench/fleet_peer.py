"""The peer of the fan-out: a bare websockets server that asks every device of a swarm once.

No dispatcher, no policy, no journal: JSON out, JSON in. Prints its address; `go` on its standard input makes
a round over all devices and prints how long it took.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from uuid import uuid4

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tests.bench.lines import input_lines
from tests.fakes.swarm import OBSERVATION, tell

_devices: dict[str, ServerConnection] = {}
_waiting: dict[str, asyncio.Future[object]] = {}


async def _take(connection: ServerConnection) -> None:
    hello = json.loads(await connection.recv())
    await connection.send(json.dumps({"type": "heartbeat", "status": "ok"}))
    _devices[hello["client_id"]] = connection
    with contextlib.suppress(ConnectionClosed):
        async for data in connection:
            frame = json.loads(data)
            if frame["type"] == "command_results":
                _waiting.pop(frame["prev_response_id"]).set_result(frame["action_results"])


async def _ask(connection: ServerConnection) -> object:
    response_id, call_id = str(uuid4()), str(uuid4())
    frame = {
        "type": "command",
        "status": "continue",
        "agent_name": "LinuxAgent",
        "process_name": "",
        "root_name": "",
        "actions": [
            {
                "tool_name": OBSERVATION,
                "parameters": {"info_type": "memory"},
                "tool_type": "data_collection",
                "call_id": call_id,
            }
        ],
        "session_id": response_id,
        "task_name": response_id,
        "timestamp": "2026-01-01T00:00:00+00:00",
        "response_id": response_id,
    }
    _waiting[response_id] = asyncio.get_running_loop().create_future()
    answer = _waiting[response_id]
    await connection.send(json.dumps(frame))
    return await answer


async def main() -> None:
    async with serve(_take, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        tell("listening", url=f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws")
        async for line in input_lines(sys.stdin):
            if line == "go":
                started = time.perf_counter()
                async with asyncio.TaskGroup() as group:
                    for connection in _devices.values():
                        group.create_task(_ask(connection))
                tell("done", results=len(_devices), took_s=time.perf_counter() - started)


if __name__ == "__main__":
    asyncio.run(main())
