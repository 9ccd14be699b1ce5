"""MCP servers' processes: started by the supervisor, and none outlives its server or the device client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from core.aip.messages import Command
from core.device import applications
from core.device.mcp.config import ServerConfig
from core.device.mcp.server_log import ServerLog
from core.device.mcp.stdio_transport import open_stdio
from core.device.processes.child_process import Children
from core.device.processes.supervisor_client import ProcessHandle
from core.errors import DeviceError
from tests.fakes.command_lines import command_lines
from tests.fakes.ended import still_running
from tests.fakes.mcp_hosted import TOKEN, hosted
from tests.fakes.mcp_server import SCRIPT, rogue
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import ROOT, environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the supervisor is for Linux")

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
from core.device.mcp.server_log import ServerLog
from core.device.mcp.stdio_transport import open_stdio
from core.device.processes.child_process import Children
from tests.fakes.patience import PATIENCE_S
async def main():
    server = ServerConfig("s", "stdio", command=sys.executable, args=("-c", *sys.argv[1:]))
    log = ServerLog(lambda kind, text: None, str)
    async with open_stdio(Children(1000), server, 1000, log, lambda: None):
        await asyncio.Event().wait()
asyncio.run(main())
"""


# Writes what it is given to its standard output. With last words it ends, else it waits.
SAYS = """
import sys
sys.stdout.write(sys.argv[1])
sys.stdout.flush()
sys.stderr.write(sys.argv[2])
sys.argv[2] or sys.stdin.read()
"""
ANSWER = '{"jsonrpc": "2.0", "id": 7, "result": {"content": []}}'


@pytest.mark.parametrize(
    ("said", "ids"),
    [
        (f"Downloading model 10%... {ANSWER}\n", [7]),
        (f'{{"level": "info"}} {ANSWER}\n', [7]),
        ("\r10% " * 2000 + ANSWER + "\n", [7]),
        # A log that quotes what was asked, and one that quotes an answer in the middle of a line.
        ('got {"jsonrpc": "2.0", "id": 7, "method": "roots/list"}\n' + ANSWER + "\n", [7]),
        (f"sent {ANSWER} in 3 ms\n" + ANSWER + "\n", [7]),
        # Half of an answer: the call fails at once.
        ('oh {"jsonrpc": "2.0", "id": 7, "result": {"content\n' + ANSWER.replace("7", "8") + "\n", [8]),
    ],
)
async def test_an_answer_after_words_in_its_line_is_taken(said: str, ids: list[int]) -> None:
    strays: list[str] = []
    log = ServerLog(lambda kind, text: strays.append(text), str)
    server = ServerConfig("s", "stdio", command=sys.executable, args=("-c", SAYS, said, ""))
    children = Children(1000)
    try:
        async with (
            open_stdio(children, server, 100_000, log, lambda: None) as (messages, _),
            asyncio.timeout(PATIENCE_S),
        ):
            answer = await messages.receive()
    finally:
        await children.close()
    assert not isinstance(answer, Exception)
    assert answer.message.model_dump()["id"] == ids[0]
    assert strays
    assert log.first_stray


async def test_the_last_words_of_a_server_are_kept_without_a_line_end() -> None:
    words = "Fatal error in main(): no key"
    written = asyncio.Event()
    log = ServerLog(lambda kind, text: written.set(), str)
    server = ServerConfig("s", "stdio", command=sys.executable, args=("-c", SAYS, ANSWER, words))
    children = Children(1000)
    try:
        async with (
            open_stdio(children, server, 1000, log, lambda: None) as (messages, _),
            asyncio.timeout(PATIENCE_S),
        ):
            # Its last message has no line end either.
            answer = await messages.receive()
            await written.wait()
    finally:
        await children.close()
    assert log.last_lines == words
    assert not isinstance(answer, Exception)
    assert answer.message.model_dump()["id"] == 7


def stubborn_words(tmp_path: Path) -> tuple[str, str]:
    told = tmp_path / "pids"
    os.mkfifo(told)
    (tmp_path / "pids.code").write_text(STUBBORN)
    return STUBBORN, str(told)


async def processes(tmp_path: Path) -> list[psutil.Process]:
    """The server and the child that ran away from it, once both are there."""
    async with asyncio.timeout(PATIENCE_S):
        pids = json.loads(await asyncio.to_thread((tmp_path / "pids").read_text))
    return [psutil.Process(pid) for pid in pids]


def quiet() -> ServerLog:
    return ServerLog(lambda stream, words: None, str)


async def gone(found: list[psutil.Process]) -> bool:
    return not await asyncio.to_thread(still_running, found, 10)


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    started = Children(1000)
    yield started
    await started.close()


def server_of(*args: str) -> ServerConfig:
    return ServerConfig("s", "stdio", command=sys.executable, args=("-c", *args))


async def test_nothing_of_a_server_outlives_a_device_client_that_was_killed(tmp_path: Path) -> None:
    """Not even a grandchild that was forked twice, left the session and ignores signals."""
    host = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOST, *stubborn_words(tmp_path)), cwd=ROOT, env=environment()
    )
    found = await processes(tmp_path)
    assert os.getsid(found[0].pid) == found[0].pid
    host.kill()
    await host.wait()
    assert await gone(found)


async def test_a_server_that_is_ended_takes_along_who_left_its_session(
    tmp_path: Path, children: Children
) -> None:
    async with open_stdio(children, server_of(*stubborn_words(tmp_path)), 1000, quiet(), lambda: None):
        found = await processes(tmp_path)
    assert await gone(found)


async def test_a_server_that_ends_by_itself_takes_along_who_left_its_session(
    tmp_path: Path, children: Children
) -> None:
    lost = asyncio.Event()
    async with open_stdio(children, server_of(*stubborn_words(tmp_path)), 1000, quiet(), lost.set):
        found = await processes(tmp_path)
        found[1].kill()
        assert await gone(found)
        async with asyncio.timeout(PATIENCE_S):
            await lost.wait()


async def test_a_killed_monitor_takes_its_server_along(tmp_path: Path, children: Children) -> None:
    lost = asyncio.Event()
    async with open_stdio(children, server_of(*stubborn_words(tmp_path)), 1000, quiet(), lost.set):
        found = await processes(tmp_path)
        own = found[1]
        monitor = own.parent()
        assert monitor is not None
        monitor.send_signal(signal.SIGKILL)
        assert await gone([own])
        async with asyncio.timeout(PATIENCE_S):
            await lost.wait()
    await asyncio.to_thread(found[0].kill)


async def test_a_killed_supervisor_takes_all_of_a_server_along(tmp_path: Path, children: Children) -> None:
    lost = asyncio.Event()
    async with open_stdio(children, server_of(*stubborn_words(tmp_path)), 1000, quiet(), lost.set):
        found = await processes(tmp_path)
        supervisor = supervisor_of(found[1])
        supervisor.kill()
        async with asyncio.timeout(PATIENCE_S):
            await lost.wait()
        assert await gone(found)
    # The next server gets a new supervisor.
    async with open_stdio(children, server_of("input()"), 1000, quiet(), lambda: None):
        pass


async def test_a_server_that_stops_its_monitor_and_the_supervisor_is_killed_all_the_same(
    tmp_path: Path, children: Children
) -> None:
    stopping = """
import os, signal, sys, time
open(sys.argv[1] + ".go").read()
parent = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1]
for pid in (os.getppid(), int(parent)):
    os.kill(pid, signal.SIGSTOP)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write(f"[{os.getpid()}]")
time.sleep(1000)
"""
    os.mkfifo(tmp_path / "pids")
    os.mkfifo(tmp_path / "pids.go")
    server = server_of(stopping, str(tmp_path / "pids"))
    async with open_stdio(children, server, 1000, quiet(), lambda: None):
        await asyncio.to_thread((tmp_path / "pids.go").write_text, "")
        found = await processes(tmp_path)
    assert await gone(found)
    async with open_stdio(children, server_of("input()"), 1000, quiet(), lambda: None):
        pass


async def test_servers_and_commands_have_one_supervisor(tmp_path: Path) -> None:
    async with hosted(tmp_path, rogue(tools=["child"])) as built:
        server = psutil.Process((await built.call("child")).result["structured"]["own"])
        line = "echo $PPID $(cut -d ' ' -f 4 /proc/$PPID/stat)"
        shell = Command(tool_name="shell_execute", tool_type="action", parameters={"command": line})
        result = (await built.router.run(shell, 20)).result
        monitor, supervisor = (int(pid) for pid in result["stdout"].split())
        assert supervisor == supervisor_of(server).pid
        assert monitor != server.ppid()
        ours = command_lines(psutil.Process().children())
        assert [one for one, line in ours.items() if "supervisor.py" in " ".join(line)] == [supervisor]
        assert applications.protected() >= {supervisor, server.ppid()}


async def test_a_servers_variables_are_in_no_list_of_processes(tmp_path: Path) -> None:
    async with hosted(tmp_path, rogue(tools=["environment"], env={"TOKEN": TOKEN})) as built:
        assert (await built.call("environment")).result["structured"]["TOKEN"] == TOKEN
        family = psutil.Process().children(recursive=True)
        holders = [one for one in family if TOKEN in one.environ().values()]
        assert [TOKEN in " ".join(one.cmdline()) for one in family] == [False] * len(family)
        # Nor does the monitor hold them, which other servers' programs could read.
        assert [one.cmdline()[1:3] for one in holders] == [["-P", SCRIPT]]


@pytest.mark.parametrize("command", ["no-such-program-at-all", "./none", "/", "./plain"])
async def test_a_program_that_cannot_be_run_is_told_before_anything_starts(
    tmp_path: Path, children: Children, command: str
) -> None:
    (tmp_path / "plain").write_text("no program")
    server = ServerConfig("s", "stdio", command=command, cwd=str(tmp_path))
    with pytest.raises(OSError, match=r"No such file|denied"):
        async with open_stdio(children, server, 1000, quiet(), lambda: None):
            pass


async def test_a_program_that_the_system_cannot_execute_is_named_and_leaves_no_descriptor(
    tmp_path: Path, children: Children
) -> None:
    program = tmp_path / "plain"
    program.write_text("no program")
    program.chmod(0o755)
    async with open_stdio(children, server_of("input()"), 1000, quiet(), lambda: None):
        pass
    before = await descriptors()
    with pytest.raises(OSError, match="Exec format error") as caught:
        async with open_stdio(
            children, ServerConfig("s", "stdio", command=str(program)), 1000, quiet(), lambda: None
        ):
            pass
    assert caught.value.filename == str(program)
    assert await descriptors() == before


@pytest.mark.parametrize(
    ("environment", "args", "message"),
    [
        ({"A=B": "x"}, (), "illegal environment variable name"),
        ({}, ("\0",), "null byte"),
        ({}, ("\ud800",), "surrogates not allowed"),
    ],
)
async def test_what_no_program_can_be_given_is_refused_before_anything_starts(
    children: Children, environment: dict[str, str], args: tuple[str, ...], message: str
) -> None:
    server = ServerConfig("s", "stdio", command=sys.executable, args=args, env=environment)
    with pytest.raises(ValueError, match=message):
        async with open_stdio(children, server, 1000, quiet(), lambda: None):
            pass


async def test_a_start_that_is_cancelled_leaves_no_process_and_no_descriptor(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_stdio(children, server_of("input()"), 1000, quiet(), lambda: None):
        pass
    before = await descriptors()
    pid = ProcessHandle.pid
    started: list[psutil.Process] = []

    async def cancelled(handle: ProcessHandle) -> int:
        started.append(psutil.Process(await pid(handle)))
        raise asyncio.CancelledError

    monkeypatch.setattr(ProcessHandle, "pid", cancelled)
    with pytest.raises(asyncio.CancelledError):
        async with open_stdio(children, server_of("input()"), 1000, quiet(), lambda: None):
            pass
    assert await gone(started)
    assert await descriptors() == before


async def test_without_a_supervisor_a_server_is_not_started(
    tmp_path: Path, children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await descriptors()

    def failing(*_: object) -> None:
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "send_fds", failing)
        with pytest.raises(DeviceError, match="No process can be started"):
            async with open_stdio(children, server_of("input()"), 1000, quiet(), lambda: None):
                pass
    await children.close()
    assert await descriptors() == before


async def test_a_server_gets_no_descriptor_but_its_standard_streams(
    tmp_path: Path, children: Children
) -> None:
    told = tmp_path / "told"
    script = f"import os; open({str(told)!r}, 'w').write(' '.join(sorted(os.listdir('/proc/self/fd'))))"
    lost = asyncio.Event()
    async with open_stdio(children, server_of(script), 1000, quiet(), lost.set), asyncio.timeout(PATIENCE_S):
        await lost.wait()
    assert told.read_text().split()[:3] == ["0", "1", "2"]
    assert len(told.read_text().split()) <= 5


def supervisor_of(program: psutil.Process) -> psutil.Process:
    return psutil.Process(psutil.Process(program.ppid()).ppid())


async def descriptors() -> set[str]:
    """The descriptors of this process, once the loop has closed those of ended transports."""
    for _ in range(10):
        await asyncio.sleep(0)
    return set(os.listdir("/proc/self/fd"))
