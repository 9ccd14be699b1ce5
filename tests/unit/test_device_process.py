"""The device client as the process it is, against the console's real end and against a hostile one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from core.aip.console_end import DeviceLinkServer, LinkEvents, acknowledgement, token_table
from core.aip.error_text import read_error_text
from core.aip.link import DeviceLink
from core.aip.messages import Command, Result, ResultStatus
from core.errors import DeviceError, ErrorCode
from core.tasks import TaskGroupOwner

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
        async with asyncio.timeout(10):
            return (await self.process.stderr.read()).decode()

    async def says(self, word: str) -> str:
        """The next line of its log with `word` in it."""
        assert self.process.stderr is not None
        async with asyncio.timeout(10):
            while line := (await self.process.stderr.readline()).decode():
                if word in line:
                    return line
        raise AssertionError(f"it ended without saying {word}")


@asynccontextmanager
async def device(url: str, tmp_path: Path, *more: str, token: str | None = TOKEN) -> AsyncIterator[Device]:
    config = tmp_path / "device.toml"
    if not config.exists():
        (tmp_path / "root").mkdir()
        config.write_text(f'roots = ["{tmp_path}/root"]\n')
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "core.device", "--connect", url, "--name", "d1"),
        *("--config", str(config), "--state", str(tmp_path / "state"), *more),
        *(() if token is None else ("--token-stdin",)),
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=HERE,
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


@dataclass
class Console:
    server: DeviceLinkServer
    tasks: TaskGroupOwner
    connected: asyncio.Queue[DeviceLink] = field(default_factory=asyncio.Queue)
    lost: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    refused: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def link(self) -> DeviceLink:
        async with asyncio.timeout(10):
            return await self.connected.get()


@pytest.fixture
async def console() -> AsyncIterator[Console]:
    tasks = TaskGroupOwner("test", lambda name, error: None)
    events = LinkEvents(
        on_connected=lambda link: built.connected.put_nowait(link),
        on_lost=lambda link, reason: built.lost.put_nowait(reason),
        on_refused=lambda reason, peer: built.refused.put_nowait(reason),
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


async def test_it_registers_with_its_facts_and_serves_its_tools(console: Console, tmp_path: Path) -> None:
    async with device(console.server.url, tmp_path) as running:
        link = await console.link()
        assert link.metadata["system_info"]["device_id"] == "d1"
        assert link.metadata["system_info"]["cpu_count"] == psutil.cpu_count()
        assert link.metadata["quarterdeck"]["version"]
        memory = await one(link, act("get_system_info", info_type="memory"))
        assert memory.result["total_bytes"] == psutil.virtual_memory().total
        path = str(tmp_path / "root" / "x")
        wrote, ran = await link.send_commands(
            [act("write_file", file_path=path, content="hi"), act("shell_execute", command=f"cat {path}")], 20
        )
        assert ran.result["stdout"] == "hi"
        assert (await one(link, act("restore_file", undo_id=wrote.result["undo"]))).error is None
        assert not Path(path).exists()
        assert running.process.returncode is None


async def test_the_token_appears_nowhere(console: Console, tmp_path: Path) -> None:
    async with device(console.server.url, tmp_path) as running:
        link = await console.link()
        assert TOKEN not in " ".join(psutil.Process(running.process.pid).cmdline())
        printed = await one(
            link, act("shell_execute", command="env; cat /proc/$PPID/environ | tr '\\0' '\\n'")
        )
        assert TOKEN not in printed.result["stdout"]
        running.process.send_signal(signal.SIGTERM)
        assert TOKEN not in await running.said()


async def test_it_ends_when_its_standard_input_does(console: Console, tmp_path: Path) -> None:
    async with device(console.server.url, tmp_path) as running:
        await console.link()
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert await running.ended() == 0
        assert "1001" in await console.lost.get()


async def test_it_ends_with_its_parent_even_when_somebody_else_holds_its_input(tmp_path: Path) -> None:
    # A parent that is killed, while this test keeps the writing end of the device's standard input.
    reading, writing = os.pipe()
    os.write(writing, f"{TOKEN}\n".encode())
    line = [sys.executable, "-m", "core.device", "--connect", "ws://127.0.0.1:9/ws", "--token-stdin"]
    line += ["--state", str(tmp_path / "state")]
    code = f"import subprocess,time; p=subprocess.Popen({line!r}); print(p.pid, flush=True); time.sleep(60)"
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=HERE,
    )
    assert parent.stdout is not None
    assert parent.stderr is not None
    child = psutil.Process(int(await asyncio.to_thread(parent.stdout.readline)))
    await asyncio.to_thread(parent.stderr.readline)
    parent.kill()
    await asyncio.to_thread(parent.wait)
    await asyncio.to_thread(child.wait, 10)
    for end in (reading, writing):
        os.close(end)
    parent.stdout.close()
    parent.stderr.close()


async def test_a_wrong_token_ends_it_with_code_3_and_a_clear_word(console: Console, tmp_path: Path) -> None:
    async with device(console.server.url, tmp_path, token="wrong") as running:
        assert await running.ended() == 3
        assert "the token is not accepted" in await running.said()
    assert await console.refused.get() == "the token is not accepted"


async def test_another_devices_name_ends_it_with_code_3(console: Console, tmp_path: Path) -> None:
    async with device(console.server.url, tmp_path, "--name", "d9") as running:
        assert await running.ended() == 3
        assert "not the device this token is for" in await running.said()


async def test_a_duplicate_keeps_trying_and_takes_over_when_the_first_has_gone(
    console: Console, tmp_path: Path
) -> None:
    async with device(console.server.url, tmp_path) as first:
        await console.link()
        async with device(console.server.url, tmp_path) as second:
            assert "already registered" in await second.says("no link")
            assert (await one(console.server.links["d1"], act("list_tools"))).error is None
            first.process.send_signal(signal.SIGTERM)
            assert await first.ended() == 0
            link = await console.link()
            assert (await one(link, act("list_tools"))).error is None


async def test_killed_in_the_middle_of_an_action_the_outcome_is_unknown_and_nothing_runs_twice(
    console: Console, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    log = tmp_path / "log"
    line = f"echo ran >> {log}; echo $$ > {tmp_path}/fifo; exec sleep 60"
    async with device(console.server.url, tmp_path) as running:
        link = await console.link()
        sending = console.tasks.spawn("send", one(link, act("shell_execute", command=line)))
        left_behind = int(await asyncio.to_thread((tmp_path / "fifo").read_text))
        running.process.kill()
        with pytest.raises(DeviceError) as caught:
            await sending
        assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN
        os.kill(left_behind, signal.SIGKILL)
    async with device(console.server.url, tmp_path):
        again = await console.link()
        assert (await one(again, act("get_system_info", info_type="os"))).error is None
    assert log.read_text() == "ran\n"
    with pytest.raises(DeviceError) as offline:
        await one(link, act("shell_execute", command=line))
    assert offline.value.code is ErrorCode.DEVICE_OFFLINE


async def test_sigterm_ends_it_orderly_and_kills_its_process_groups(console: Console, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    line = f"sleep 60 & echo $$ $! > {tmp_path}/fifo; wait"
    async with device(console.server.url, tmp_path) as running:
        link = await console.link()
        sending = console.tasks.spawn("send", one(link, act("shell_execute", command=line)))
        pids = [int(pid) for pid in (await asyncio.to_thread((tmp_path / "fifo").read_text)).split()]
        processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
        assert len(processes) == 2
        running.process.send_signal(signal.SIGTERM)
        assert await running.ended() == 0
        for process in processes:
            await asyncio.to_thread(process.wait, 5)
        try:
            assert read_error_text((await sending).error or "").code is ErrorCode.CANCELLED
        except DeviceError as error:
            assert error.code is ErrorCode.OUTCOME_UNKNOWN


async def test_it_comes_back_by_itself_when_the_link_breaks(console: Console, tmp_path: Path) -> None:
    async with device(console.server.url, tmp_path):
        link = await console.link()
        await link.close("a test cuts it")
        again = await console.link()
        assert again is not link
        assert (await one(again, act("get_system_info", info_type="cpu"))).error is None


async def test_with_once_it_does_not_come_back(console: Console, tmp_path: Path) -> None:
    async with device(console.server.url, tmp_path, "--once") as running:
        await (await console.link()).close("a test cuts it")
        assert await running.ended() == 0
    async with device("ws://127.0.0.1:9/ws", tmp_path, "--once") as running:
        assert await running.ended() == 1


async def test_it_looks_while_an_action_runs(console: Console, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    async with device(console.server.url, tmp_path):
        link = await console.link()
        line = f"echo begun > {tmp_path}/fifo; read line < {tmp_path}/fifo; echo $line"
        acting = console.tasks.spawn("act", one(link, act("shell_execute", command=line)))
        await asyncio.to_thread((tmp_path / "fifo").read_text)
        assert (await one(link, act("get_system_info", info_type="memory"), timeout=5)).error is None
        assert not acting.done()
        await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
        assert (await acting).result["stdout"] == "go\n"


async def test_attacks_over_the_wire_are_refused_on_the_device(console: Console, tmp_path: Path) -> None:
    async with device(console.server.url, tmp_path):
        link = await console.link()
        (tmp_path / "secret").write_text("secret")
        (tmp_path / "root" / "link").symlink_to(tmp_path)
        huge = "x" * (50 * 1024 * 1024)
        attacks: list[tuple[Command, ErrorCode]] = [
            (act("read_file", file_path=str(tmp_path / "secret")), ErrorCode.PATH_NOT_ALLOWED),
            (act("read_file", file_path=f"{tmp_path}/root/../secret"), ErrorCode.PATH_NOT_ALLOWED),
            (act("read_file", file_path=f"{tmp_path}/root/link/secret"), ErrorCode.PATH_NOT_ALLOWED),
            (act("read_file", file_path=f"{tmp_path}/root/a\0b"), ErrorCode.INVALID_ARGUMENTS),
            (act("write_file", file_path=f"{tmp_path}/root/x", content=huge), ErrorCode.TOO_LARGE),
            (act("write_file", file_path=f"{tmp_path}/device.toml", content=""), ErrorCode.PATH_NOT_ALLOWED),
            (act("write_file", file_path=f"{tmp_path}/root/x"), ErrorCode.INVALID_ARGUMENTS),
            (act("get_system_info", info_type="os", more=1), ErrorCode.INVALID_ARGUMENTS),
            (act("get_system_info", info_type=7), ErrorCode.INVALID_ARGUMENTS),
            (act("no_such_tool"), ErrorCode.UNKNOWN_TOOL),
        ]
        for command, code in attacks:
            result = await one(link, command)
            assert result.status is ResultStatus.FAILURE
            assert read_error_text(result.error or "").code is code, result.error
        assert sorted(path.name for path in (tmp_path / "root").iterdir()) == ["link"]
        assert (await one(link, act("list_tools"))).error is None


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
    async with asyncio.timeout(10):
        frame = json.loads(await connection.recv())
    assert isinstance(frame, dict)
    return frame


async def admit(connection: ServerConnection) -> None:
    hello = await hear(connection)
    assert (hello["type"], hello["client_type"], hello["client_id"]) == ("register", "device", "d1")
    await connection.send(acknowledgement())


GOOD = {"tool_name": "get_system_info", "tool_type": "data_collection", "parameters": {"info_type": "os"}}


async def test_every_malformed_frame_is_answered_and_the_link_goes_on(tmp_path: Path) -> None:
    async def story(connection: ServerConnection) -> None:
        await admit(connection)
        for data in ("{", "[]", '{"type":"dance","status":"ok"}', b"\xff\xfe", "[" * 5000, "7"):
            await connection.send(data)
            assert (await hear(connection))["type"] == "error"
        batch = [
            {**GOOD, "call_id": "1"},
            {**GOOD, "call_id": "2", "tool_type": "magic"},
            {**GOOD, "call_id": "3"},
        ]
        frame = {"type": "command", "status": "continue", "session_id": "s", "response_id": "r"}
        await connection.send(json.dumps({**frame, "actions": batch, "surplus": 1}))
        answer = await hear(connection)
        assert (answer["type"], answer["prev_response_id"], answer["session_id"]) == (
            "command_results",
            "r",
            "s",
        )
        assert [(result["call_id"], result["status"]) for result in answer["action_results"]] == [
            ("1", "success"),
            ("2", "failure"),
            ("3", "skipped"),
        ]
        # The same frame again: nothing runs twice.
        await connection.send(json.dumps({**frame, "actions": [batch[0]]}))
        (again,) = (await hear(connection))["action_results"]
        assert again["status"] == "failure"
        # As stock: ids that are null come back as null, and binary JSON is JSON.
        await connection.send(json.dumps({**frame, "response_id": None, "actions": [GOOD]}).encode())
        answer = await hear(connection)
        assert answer["prev_response_id"] is None
        assert answer["action_results"][0]["call_id"] is None
        await connection.send(json.dumps({**frame, "response_id": "e", "actions": None}))
        assert (await hear(connection))["action_results"] == []

    async with hostile(story) as (url, done), device(url, tmp_path):
        async with asyncio.timeout(20):
            await done


async def test_an_oversized_frame_costs_the_link_but_not_the_device(tmp_path: Path) -> None:
    visits = 0

    async def story(connection: ServerConnection) -> None:
        nonlocal visits
        visits += 1
        await admit(connection)
        if visits == 1:
            with pytest.raises(ConnectionClosed) as caught:
                await connection.send("x" * (65 * 1024 * 1024))
                await connection.recv()
            raise caught.value
        await connection.send(json.dumps({"type": "command", "status": "ok", "actions": [GOOD]}))
        assert (await hear(connection))["action_results"][0]["status"] == "success"

    async with hostile(story) as (url, done), device(url, tmp_path):
        async with asyncio.timeout(20):
            await done
    assert visits == 2


async def test_a_refused_registration_is_tried_again(tmp_path: Path) -> None:
    visits = 0

    async def story(connection: ServerConnection) -> None:
        nonlocal visits
        visits += 1
        if visits < 3:
            await hear(connection)
            await connection.send('{"type":"error","status":"error","error":"not now"}')
            await connection.wait_closed()
            raise ConnectionClosed(None, None)
        await admit(connection)

    async with hostile(story) as (url, done), device(url, tmp_path):
        async with asyncio.timeout(20):
            await done


async def test_a_task_is_sent_back_as_stock_devices_do(tmp_path: Path) -> None:
    async def story(connection: ServerConnection) -> None:
        await admit(connection)
        await connection.send(
            '{"type":"task","status":"ok","user_request":"say hi","task_name":"t","session_id":"s"}'
        )
        task = await hear(connection)
        assert (task["type"], task["request"], task["task_name"]) == ("task", "say hi", "t")

    async with hostile(story) as (url, done), device(url, tmp_path):
        async with asyncio.timeout(20):
            await done


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "core.device", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=HERE,
        timeout=30,
        check=False,
    )


def test_check_reports_tools_and_limits_and_ends(tmp_path: Path) -> None:
    ended = run("--check", "--state", str(tmp_path / "state"))
    assert ended.returncode == 0
    found = json.loads(ended.stdout)
    assert "shell_execute" in found["tools"]
    assert found["roots"]


@pytest.mark.parametrize("text", ["roots = [", "unknown = 1", "[limits]\nmax_processes = 'many'"])
def test_a_broken_device_toml_ends_it_with_code_2_and_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "device.toml").write_text(text)
    ended = run("--connect", "ws://127.0.0.1:9/ws", "--config", str(tmp_path / "device.toml"))
    assert ended.returncode == 2
    assert "device.toml" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        ((), ""),
        (("--connect", "http://127.0.0.1/ws"), ""),
        (("--connect", "ws://"), ""),
        (("--connect", "ws://127.0.0.1:9/ws", "--token-stdin"), ""),
        (("--connect", "ws://127.0.0.1:9/ws", "--token-stdin"), "two words\n"),
        (("--connect", "ws://127.0.0.1:9/ws", "--token-stdin"), "x" * 5000 + "\n"),
        (("--connect", "ws://127.0.0.1:9/ws", "--state", "/proc/no/such"), ""),
        (("--listen", "127.0.0.1:9"), ""),
    ],
)
def test_bad_arguments_end_it_with_code_2(tmp_path: Path, arguments: tuple[str, ...], stdin: str) -> None:
    state = () if "--state" in arguments else ("--state", str(tmp_path / "state"))
    ended = run(*arguments, *state, stdin=stdin)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


def test_it_imports_nothing_of_the_console_but_the_wire() -> None:
    code = "import sys, core.device.__main__; print(*(m for m in sys.modules if m.startswith('core.')))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=HERE, check=True
    ).stdout.split()
    allowed = ("core.aip", "core.device", "core.errors", "core.canonical", "core.tasks")
    assert [name for name in loaded if not name.startswith(allowed)] == []
    assert "core.aip.console_end" not in loaded
