"""The device client as a process, and consoles for it to meet: a real one, and hostile ones."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.frames import acknowledgement
from core.aip.link_server import DeviceLinkServer, token_table
from core.aip.messages import Command, Result
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S
from tests.fakes.plain_user import PlainUser
from tests.fakes.program import Ended, environment
from tests.fakes.warm import DEVICES

TOKEN = "one-time-token-nobody-may-see"
HERE = Path(__file__).parents[2]


@dataclass
class Device:
    """A running device client. Its standard input is its tether."""

    process: asyncio.subprocess.Process

    async def ended(self, seconds: float = 10) -> int:
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    async def said(self) -> str:
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            return (await self.process.stderr.read()).decode()

    async def says(self, word: str) -> str:
        """The next line of its log with `word` in it."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            while line := (await self.process.stderr.readline()).decode():
                if word in line:
                    return line
        raise AssertionError(f"it ended without saying {word}")


def run(*arguments: str, stdin: str = "") -> Ended:
    """The device client's command line, run to its end."""
    DEVICES.loaded_in(environment())
    return Ended(*DEVICES.run(arguments, environment(), HERE, said=stdin))


@asynccontextmanager
async def device(
    url: str, tmp_path: Path, *more: str, token: str | None = TOKEN, user: PlainUser | None = None
) -> AsyncIterator[Device]:
    """A device client with its files in `tmp_path`, run as we are or as another user."""
    words = ["-m", "core.device", "--connect", url, "--name", "d1", *_places(tmp_path), *more]
    words += [] if token is None else ["--token-stdin"]
    process = await asyncio.create_subprocess_exec(
        *([sys.executable, *words] if user is None else user.command(user.python, *words)),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=HERE,
        env=None if user is None else user.environment(),
    )
    assert process.stdin is not None
    if token is not None:
        process.stdin.write(f"{token}\n".encode())
    try:
        yield Device(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process.stdin.close()


@asynccontextmanager
async def forked_device(url: str, folder: Path, token: str) -> AsyncIterator[None]:
    """The same without its start: for tests of what it does, not of the process it is."""
    DEVICES.loaded_in(environment())
    words = ["--connect", url, "--name", "d1", *_places(folder), "--token-stdin"]
    process = await asyncio.to_thread(DEVICES.start, words, environment(), HERE, said=f"{token}\n", held=True)
    try:
        yield
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, PATIENCE_S)


def _places(folder: Path) -> list[str]:
    """Its configuration, made if there is none, and its state; no sandbox is tried out for it."""
    config = folder / "device.toml"
    if not config.exists():
        (folder / "root").mkdir()
        config.write_text(f'roots = ["{folder}/root"]\ntools_off = ["shell_execute_read"]\n')
    return ["--config", str(config), "--state", str(folder / "state")]


@dataclass
class Console:
    server: DeviceLinkServer
    tasks: TaskGroupOwner
    connected: asyncio.Queue[DeviceLink] = field(default_factory=asyncio.Queue)
    lost: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    refused: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def link(self) -> DeviceLink:
        async with asyncio.timeout(PATIENCE_S):
            return await self.connected.get()


@asynccontextmanager
async def running_console() -> AsyncIterator[Console]:
    """A console's end that knows the token of d1."""
    tasks = TaskGroupOwner("test", lambda name, error: None)
    events = LinkEvents(
        on_connected=lambda link: built.connected.put_nowait(link),
        on_lost=lambda link, reason: built.lost.put_nowait(reason),
        on_refused=lambda attempt: built.refused.put_nowait(attempt.reason),
    )
    built = Console(DeviceLinkServer(token_table({"d1": TOKEN}), events), tasks)
    await built.server.start()
    yield built
    await built.server.close()
    await tasks.close()


def act(tool: str, **parameters: Any) -> Command:
    kind: Any = "action" if tool in {"shell_execute", "write_file", "restore_file"} else "data_collection"
    return Command(tool_name=tool, tool_type=kind, parameters=parameters, call_id=os.urandom(8).hex())


async def one(link: DeviceLink, command: Command, timeout: float = 20) -> Result:
    return (await link.send_commands([command], timeout))[0]


@asynccontextmanager
async def hostile(story: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[tuple[str, Any]]:
    """A console that does with each device whatever `story` says; yields its address and the story's end."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def handler(connection: ServerConnection) -> None:
        try:
            await story(connection)
        except ConnectionClosed:
            return
        except BaseException as error:
            if not done.done():
                done.set_exception(error)
            raise
        if not done.done():
            done.set_result(None)

    async with serve(handler, "127.0.0.1", 0, max_size=None) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws", done


async def hear(connection: ServerConnection) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        frame = json.loads(await connection.recv())
    assert isinstance(frame, dict)
    return frame


async def admit(connection: ServerConnection) -> None:
    hello = await hear(connection)
    assert (hello["type"], hello["client_type"], hello["client_id"]) == ("register", "device", "d1")
    await connection.send(acknowledgement())


GOOD = {"tool_name": "get_system_info", "tool_type": "data_collection", "parameters": {"info_type": "os"}}
