"""MCP servers that do not want to end: they go with the device client, however that goes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from core.device.mcp.config import ServerConfig
from core.device.mcp.framing import ServerLog
from core.device.mcp.stdio_transport import open_process
from tests.fakes.ended import still_running
from tests.fakes.program import ROOT, environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the guard is for Linux")

# Ignores its input and every polite signal; so does a child that left its session. The last line is `ready`.
STUBBORN = """
import json, os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if len(sys.argv) > 2:
    os.setsid()
    print(json.dumps([os.getpid(), int(sys.argv[2])]), file=open(sys.argv[1], "w"), flush=True)
else:
    middle = "import subprocess,sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]])"
    code = open(sys.argv[1] + ".code").read()
    subprocess.Popen([sys.executable, "-c", middle, code, sys.argv[1], str(os.getpid())])
while True:
    time.sleep(1000)
"""
HOST = """
import asyncio, json, os, sys
from core.device.mcp.config import ServerConfig
from core.device.mcp.framing import ServerLog
from core.device.mcp.stdio_transport import open_process
async def main():
    server = ServerConfig("s", "stdio", command=sys.executable, args=("-c", *sys.argv[1:]))
    async with open_process(server, 1000, ServerLog(lambda kind, text: None, str), lambda: None):
        await asyncio.Event().wait()
asyncio.run(main())
"""


def stubborn_words(tmp_path: Path) -> tuple[str, str]:
    told = tmp_path / "pids"
    os.mkfifo(told)
    (tmp_path / "pids.code").write_text(STUBBORN)
    return STUBBORN, str(told)


async def processes(tmp_path: Path) -> list[psutil.Process]:
    """The server and the child that ran away from it, once both are there."""
    async with asyncio.timeout(20):
        pids = json.loads(await asyncio.to_thread((tmp_path / "pids").read_text))
    return [psutil.Process(pid) for pid in pids]


def quiet() -> ServerLog:
    return ServerLog(lambda stream, words: None, str)


async def gone(found: list[psutil.Process]) -> bool:
    return not await asyncio.to_thread(still_running, found, 10)


async def test_nothing_of_a_server_outlives_a_device_client_that_was_killed(tmp_path: Path) -> None:
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOST, *stubborn_words(tmp_path)), cwd=ROOT, env=environment()
    )
    found = await processes(tmp_path)
    host.kill()
    await host.wait()
    assert await gone(found)


async def test_a_server_that_is_ended_takes_along_who_left_its_session(tmp_path: Path) -> None:
    server = ServerConfig("s", "stdio", command=sys.executable, args=("-c", *stubborn_words(tmp_path)))
    async with open_process(server, 1000, quiet(), lambda: None):
        found = await processes(tmp_path)
    assert await gone(found)


async def test_a_killed_guard_takes_its_server_along(tmp_path: Path) -> None:
    lost = asyncio.Event()
    server = ServerConfig("s", "stdio", command=sys.executable, args=("-c", *stubborn_words(tmp_path)))
    async with open_process(server, 1000, quiet(), lost.set):
        found = await processes(tmp_path)
        own = found[1]
        guard = own.parent()
        assert guard is not None
        guard.send_signal(signal.SIGKILL)
        assert await gone([own])
        async with asyncio.timeout(10):
            await lost.wait()
    await asyncio.to_thread(found[0].kill)


@pytest.mark.parametrize("command", ["no-such-program-at-all", "./none", "/", "./plain"])
async def test_a_program_that_cannot_be_run_is_told_before_anything_starts(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "plain").write_text("no program")
    server = ServerConfig("s", "stdio", command=command, cwd=str(tmp_path))
    with pytest.raises(OSError, match=r"No such file|denied"):
        async with open_process(server, 1000, quiet(), lambda: None):
            pass


async def test_a_server_sees_no_descriptor_of_its_guard(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = f"import os; open({str(told)!r}, 'w').write(' '.join(sorted(os.listdir('/proc/self/fd'))))"
    lost = asyncio.Event()
    server = ServerConfig("s", "stdio", command=sys.executable, args=("-c", script))
    async with open_process(server, 1000, quiet(), lost.set), asyncio.timeout(10):
        await lost.wait()
    assert told.read_text().split()[:3] == ["0", "1", "2"]
    assert len(told.read_text().split()) <= 5
