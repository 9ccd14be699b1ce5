"""A running end of device links, and hand-made devices that dial it over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.extensions import Progress
from core.aip.limits import LinkLimits
from core.aip.link_events import Heartbeat, LateAnswer
from core.aip.link_server import DeviceLinkServer, token_table
from core.aip.messages import Command, Result, ResultStatus
from core.aip.tls import Identity
from core.errors import DeviceError, ErrorCode
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S

QUICK = LinkLimits(register_s=20, close_s=0.5, max_incoming_bytes=1024 * 1024, max_outgoing_bytes=200_000)
# For a peer whose silence a test waits out; any other may need its time on a busy machine.
HASTY = replace(QUICK, register_s=0.3)
TIGHT = replace(QUICK, door_most=4, takeover_s=0.2)
HASTY_TOO = replace(TIGHT, register_s=HASTY.register_s)
TOKENS = {"d1": "token-one", "d2": "token-two"}


@dataclass
class House:
    """A running server and what it told its owner."""

    server: DeviceLinkServer
    tasks: TaskGroupOwner
    events: LinkEvents
    connected: asyncio.Queue[DeviceLink] = field(default_factory=asyncio.Queue)
    lost: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    refused: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    late: asyncio.Queue[LateAnswer] = field(default_factory=asyncio.Queue)
    progress: asyncio.Queue[Progress] = field(default_factory=asyncio.Queue)
    beats: asyncio.Queue[Heartbeat] = field(default_factory=asyncio.Queue)
    changed: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def dial(self, token: str | None = "token-one", **more: Any) -> ClientConnection:
        headers = [("Authorization", f"Bearer {token}")] if token else []
        headers += more.pop("headers", [])
        return await connect(
            self.server.url + more.pop("query", ""), additional_headers=headers, proxy=None, **more
        )

    async def joined(
        self, name: str = "d1", features: Collection[str] = ()
    ) -> tuple[ClientConnection, DeviceLink]:
        """A registered device: a stock one, or one that announces `features`."""
        socket = await self.dial(TOKENS[name])
        metadata: dict[str, Any] = {"quarterdeck": {"features": list(features)}} if features else {"a": 1}
        await say(socket, type="register", status="ok", client_id=name, metadata=metadata)
        assert (await hear(socket))["type"] == "heartbeat"
        return socket, await soon(self.connected.get())

    def send(self, link: DeviceLink, *commands: Command, timeout: float = 5) -> asyncio.Task[list[Result]]:
        return self.tasks.spawn("send", link.send_commands(commands, timeout))


@asynccontextmanager
async def running_house(
    limits: LinkLimits = QUICK, host: str = "127.0.0.1", identity: Identity | None = None
) -> AsyncIterator[House]:
    """A house with its server listening."""
    tasks = TaskGroupOwner("test", lambda name, error: None)
    events = LinkEvents(
        on_connected=lambda link: built.connected.put_nowait(link),
        on_lost=lambda link, reason: built.lost.put_nowait((link.name, reason)),
        on_refused=lambda attempt: built.refused.put_nowait((attempt.reason, attempt.peer)),
        on_late=lambda link, late: built.late.put_nowait(late),
        on_progress=lambda link, progress: built.progress.put_nowait(progress),
        on_heartbeat=lambda link, beat: built.beats.put_nowait(beat),
        on_tools_changed=lambda link: built.changed.put_nowait(link.name),
    )
    server = DeviceLinkServer(token_table(TOKENS), events, limits=limits, host=host, identity=identity)
    built = House(server, tasks, events)
    await built.server.start()
    try:
        yield built
    finally:
        await built.server.close()
        await tasks.close()


async def soon(wanted: Any, seconds: float = PATIENCE_S) -> Any:
    async with asyncio.timeout(seconds):
        return await wanted


async def say(socket: ClientConnection, **frame: Any) -> None:
    await socket.send(json.dumps(frame))


async def hear(socket: ClientConnection) -> dict[str, Any]:
    frame = json.loads(await soon(socket.recv()))
    assert isinstance(frame, dict)
    return frame


def look(call_id: str = "c1", **parameters: Any) -> Command:
    return Command(
        tool_name="get_system_info", tool_type="data_collection", parameters=parameters, call_id=call_id
    )


def success(call_id: str | None = "c1", result: Any = 1) -> dict[str, Any]:
    return {"status": "success", "error": None, "result": result, "namespace": "n", "call_id": call_id}


async def answer(socket: ClientConnection, command: dict[str, Any], *results: Any, **more: Any) -> None:
    frame = {
        "type": "command_results",
        "status": "continue",
        "client_id": "d1",
        "session_id": command["session_id"],
        "prev_response_id": command["response_id"],
        "action_results": list(results),
    }
    await say(socket, **{**frame, **more})


async def fails(sending: asyncio.Task[list[Result]], code: ErrorCode) -> str:
    with pytest.raises(DeviceError) as caught:
        await soon(sending)
    assert caught.value.code is code
    return caught.value.message


async def still_works(house: House, socket: ClientConnection, link: DeviceLink) -> None:
    sending = house.send(link, look("alive"))
    await answer(socket, await hear(socket), success("alive"))
    assert (await soon(sending))[0].status is ResultStatus.SUCCESS


@asynccontextmanager
async def neighbour(house: House, **more: Any) -> AsyncIterator[None]:
    """Another device, whose link must work before and after whatever happens inside."""
    socket = await house.dial("token-two", **more)
    await say(socket, type="register", status="ok", client_id="d2")
    await hear(socket)
    link = await soon(house.connected.get())
    yield
    await still_works_as("d2", house, socket, link)
    await socket.close()


async def still_works_as(name: str, house: House, socket: ClientConnection, link: DeviceLink) -> None:
    sending = house.send(link, look("alive"))
    command = await hear(socket)
    result = {"status": "success", "call_id": "alive", "result": 1}
    await say(
        socket,
        type="command_results",
        status="ok",
        client_id=name,
        prev_response_id=command["response_id"],
        action_results=[result],
    )
    assert (await soon(sending))[0].result == 1


async def refused(house: House, said: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            reason, peer = await house.refused.get()
            if said in reason:
                assert peer.startswith("127.0.0.1:")
                return


async def raw(house: House, data: bytes, secure: ssl.SSLContext | None = None) -> bytes:
    """Write bytes to the port and read until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", house.server.port, ssl=secure)
    try:
        writer.write(data)
        answer: bytes = await soon(reader.read())
        return answer
    except OSError:
        return b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
