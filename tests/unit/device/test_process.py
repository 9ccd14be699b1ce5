"""The device client as the process it is, against the console's real end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from core.aip.frames import read_error_text
from core.aip.messages import Command, ResultStatus
from core.errors import DeviceError, ErrorCode
from tests.fakes.device_process import HERE, TOKEN, Console, act, device, forked_device, one, running_console
from tests.fakes.patience import PATIENCE_S


@pytest.fixture
async def console() -> AsyncIterator[Console]:
    async with running_console() as built:
        yield built


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
        assert not (tmp_path / "root" / "x").exists()
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


def test_it_ends_with_its_parent_even_when_somebody_else_holds_its_input(tmp_path: Path) -> None:
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
    child = psutil.Process(int(parent.stdout.readline()))
    # Its first log line: it has read the token and set itself up.
    parent.stderr.readline()
    parent.kill()
    parent.wait()
    child.wait(PATIENCE_S)
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
        left = psutil.Process(int(await asyncio.to_thread((tmp_path / "fifo").read_text)))
        running.process.kill()
        with pytest.raises(DeviceError) as caught:
            await sending
        assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN
        # Nothing that it started outlives it.
        await asyncio.to_thread(left.wait, PATIENCE_S)
    async with forked_device(console.server.url, tmp_path, TOKEN):
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
            await asyncio.to_thread(process.wait, PATIENCE_S)
        assert read_error_text((await sending).error or "").code is ErrorCode.OUTCOME_UNKNOWN


async def test_a_running_command_is_cancelled_over_the_link_and_says_so(
    console: Console, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    async with forked_device(console.server.url, tmp_path, TOKEN):
        link = await console.link()
        command = act("shell_execute", command=f"sleep 60 & echo $! > {tmp_path}/fifo; wait")
        assert command.call_id is not None
        sending = console.tasks.spawn("send", one(link, command))
        left = psutil.Process(int(await asyncio.to_thread((tmp_path / "fifo").read_text)))
        assert await link.cancel("somebody else's") is False
        assert await link.cancel(command.call_id) is True
        assert read_error_text((await sending).error or "").code is ErrorCode.CANCELLED
        await asyncio.to_thread(left.wait, PATIENCE_S)
        assert await link.cancel(command.call_id) is False
        assert (await one(link, act("shell_execute", command="echo on"))).result["stdout"] == "on\n"


async def test_it_comes_back_by_itself_when_the_link_breaks(console: Console, tmp_path: Path) -> None:
    async with forked_device(console.server.url, tmp_path, TOKEN):
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
        # Nothing listens there.
        assert await running.ended() == 5


async def test_it_looks_while_an_action_runs(console: Console, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    async with forked_device(console.server.url, tmp_path, TOKEN):
        link = await console.link()
        line = f"echo begun > {tmp_path}/fifo; read line < {tmp_path}/fifo; echo $line"
        acting = console.tasks.spawn("act", one(link, act("shell_execute", command=line)))
        await asyncio.to_thread((tmp_path / "fifo").read_text)
        assert (await one(link, act("get_system_info", info_type="memory"), timeout=5)).error is None
        assert not acting.done()
        await asyncio.to_thread((tmp_path / "fifo").write_text, "go\n")
        assert (await acting).result["stdout"] == "go\n"


async def test_attacks_over_the_wire_are_refused_on_the_device(console: Console, tmp_path: Path) -> None:
    async with forked_device(console.server.url, tmp_path, TOKEN):
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
