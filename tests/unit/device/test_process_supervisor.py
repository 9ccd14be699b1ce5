"""The supervisor and its monitors: what comes of a command ends with its time, or with the device client."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from core.aip.messages import Result
from core.device import DeviceConfig, Router, build_router
from core.device.processes import supervisor
from core.device.processes.supervisor import ProcessSupervisor
from core.device.processes.supervisor_client import ProcessHandle
from core.device.sandbox import cgroup
from core.tasks import TaskGroupOwner
from tests.fakes.ended import all_ended, still_running
from tests.fakes.patience import PATIENCE_S
from tests.fakes.read_shell import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the supervisor is for Linux")


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Router]:
    built = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "supervisor")
    yield built
    await built.close()


async def shell(router: Router, line: str, **more: float) -> Result:
    return await run(router, line, inside=False, **{"timeout": 30, **more})


async def line_of(fifo: Path) -> str:
    return await asyncio.to_thread(fifo.read_text)


async def is_gone(pid: int) -> None:
    """Wait until a process has ended; fails after twenty seconds."""
    with contextlib.suppress(psutil.NoSuchProcess):
        await all_ended([psutil.Process(pid)], 20)


async def test_who_left_the_group_and_the_session_is_killed_with_the_rest(
    router: Router, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    escape = (
        f"setsid sh -c 'echo $$ >> {pids}; (setsid sh -c \"echo \\$\\$ >> {pids}; sleep 61\" &) ; sleep 61' &"
    )
    result = await shell(router, f"{escape} sleep 61", timeout=1)
    assert (result.error or "").startswith("timeout: ")
    left = pids.read_text().split()
    assert len(left) == 2
    for pid in left:
        await is_gone(int(pid))


# Goes on as its own child again and again, each time with another process id; for some seconds.
HOPPER = "trap '' TERM; hop() { [ $1 -eq 0 ] || hop $(($1 - 1)) & }; hop 6000"


async def test_who_is_never_the_same_process_for_long_is_killed_with_the_rest(
    router: Router, tmp_path: Path
) -> None:
    (tmp_path / "hopper").write_text(HOPPER)
    os.mkfifo(tmp_path / "held")
    # What they hold open tells whether one is left; a table of processes would not.
    reading = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    hoppers = f"setsid sh {tmp_path}/hopper &" * 8
    result = await shell(router, f"exec 5> {tmp_path}/held; {hoppers} sleep 61", timeout=0.3)
    assert (result.error or "").startswith("timeout: ")
    try:
        assert os.read(reading, 1) == b""
    finally:
        os.close(reading)


def test_what_cannot_be_killed_is_named() -> None:
    # In a process of its own: a monitor takes all children for its own.
    code = """
import os, supervisor
def not_permitted(pid, number):
    raise PermissionError
child = os.fork() or os.execlp("sleep", "sleep", "61")
kill, os.kill = os.kill, not_permitted
supervisor._KILL_FOR_S = 0
monitor = supervisor.ChildMonitor(None, supervisor.StartRequest([], {}), child)
print(monitor.kill() == {child})
os.kill = kill
supervisor._KILL_FOR_S = 20
print(monitor.kill(), monitor.code)
"""
    here = Path(supervisor.__file__).parent
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=here, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "True\nset() -9\n"


def test_a_parent_is_killed_before_its_child() -> None:
    """A shell that saw its command killed would print that, as if the command had."""
    code = """
import os, supervisor
child = os.fork() or os.execlp("sleep", "sleep", "61")
# Older processes have lower numbers only until the numbers begin anew.
supervisor._parents = lambda: {20: 30, 10: 20, 30: os.getpid()}
monitor = supervisor.ChildMonitor(None, supervisor.StartRequest([], {}), child)
def record(pid, number):
    killed.append(pid)
    if len(killed) == 3:
        kill(child, number)
killed, kill, os.kill = [], os.kill, record
monitor.kill()
print(killed[:3])
"""
    here = Path(supervisor.__file__).parent
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=here, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "[30, 20, 10]\n"


async def test_who_stops_what_watches_over_it_is_killed_all_the_same(router: Router, tmp_path: Path) -> None:
    stop = "kill -STOP $PPID $(cut -d ' ' -f 4 /proc/$PPID/stat)"
    result = await shell(router, f"echo $$ > {tmp_path}/pid; {stop}; sleep 65", timeout=0.3)
    assert (result.error or "").startswith("timeout: ")
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))
    assert (await shell(router, "echo again")).result["stdout"] == "again\n"


async def test_who_watches_over_a_command_is_known_before_there_is_a_command_that_could_stop_it(
    router: Router, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nothing could wake it, and the command would outlive its time."""
    known: list[tuple[bool, bool]] = []
    receive = ProcessHandle._receive

    def received(started: ProcessHandle) -> None:
        receive(started)
        known.append((started._monitor != 0, started._pid.done()))

    monkeypatch.setattr(ProcessHandle, "_receive", received)
    await shell(router, "true")
    assert known[:2] == [(True, False), (True, True)]


async def test_what_an_earlier_shell_left_running_is_not_killed_with_a_later_one(
    router: Router, tmp_path: Path
) -> None:
    """Nor what it starts while the later one runs, and leaves behind in turn."""
    kept, grandchild = tmp_path / "kept", tmp_path / "grandchild"
    os.mkfifo(tmp_path / "go")
    os.mkfifo(grandchild)
    leaves = f"read x < {tmp_path}/go; setsid sh -c 'echo \\$\\$ > {grandchild}; exec sleep 62' &"
    line = f"setsid sh -c 'echo $$ > {kept}; exec sleep 62' > /dev/null 2>&1 &"
    await shell(router, f'{line} sh -c "{leaves}" > /dev/null 2>&1 & sleep 0.2')
    later = f"echo > {tmp_path}/go; cat {grandchild}; sleep 62"
    result = await shell(router, later, timeout=0.5)
    for pid in (int(kept.read_text()), int(result.result["stdout"])):
        assert psutil.Process(pid).status() == psutil.STATUS_SLEEPING
    await router.close()
    for pid in (int(kept.read_text()), int(result.result["stdout"])):
        assert psutil.pid_exists(pid)
        os.kill(pid, signal.SIGKILL)


async def test_a_killed_supervisor_is_replaced_and_a_killed_monitor_takes_its_shell_with_it(
    router: Router, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    running = TaskGroupOwner("test").spawn(
        "shell", shell(router, f"echo $$ > {tmp_path}/fifo; exec sleep 63")
    )
    killed = psutil.Process(int(await line_of(tmp_path / "fifo")))
    monitor = killed.parent()
    assert monitor is not None
    parent = monitor.parent()
    assert parent is not None
    parent.kill()
    monitor.kill()
    result = await running
    assert (result.error or "").startswith("outcome_unknown: ")
    # Blocks: the loop does not learn of the supervisor's end before the next command comes.
    assert still_running([killed, parent], within=PATIENCE_S) == []
    assert (await shell(router, "echo again")).result["stdout"] == "again\n"


def test_a_device_client_that_is_killed_leaves_none_of_its_children(tmp_path: Path) -> None:
    """Not even those that left the shell's group and session, or that the read-only shell runs."""
    os.mkfifo(tmp_path / "fifo")
    lines = [
        f"setsid sh -c 'echo $$ > {tmp_path}/fifo; exec sleep 64' & sleep 64",
        "sleep 64.5",
    ]
    code = f"""
import asyncio, sys
from pathlib import Path
from core.aip.messages import Command
from core.device import DeviceConfig, build_router
async def main():
    root = Path({str(tmp_path)!r})
    router = build_router(DeviceConfig(roots=(root,)), root / "state", "x")
    await asyncio.gather(*(
        router.run(Command(tool_name=tool, tool_type=kind, parameters={{"command": line}}), 60)
        for tool, kind, line in (
            ("shell_execute", "action", {lines[0]!r}), ("shell_execute_read", "data_collection", {lines[1]!r})
        )
    ))
asyncio.run(main())
"""
    here = Path(__file__).parents[3]
    device = subprocess.Popen([sys.executable, "-c", code], cwd=here)
    escaped = int((tmp_path / "fifo").read_text())
    children = psutil.Process(device.pid).children(recursive=True)
    assert escaped in {one.pid for one in children}
    device.kill()
    device.wait()
    assert still_running(children, within=PATIENCE_S) == []
    until = time.monotonic() + PATIENCE_S
    while left := _groups_of(device.pid):
        assert time.monotonic() < until, left
        time.sleep(0.01)


def _groups_of(pid: int) -> list[Path]:
    """The control groups that bound a device's read-only shells."""
    parent = cgroup.parent() if cgroup.is_needed() else None
    return [] if parent is None else list(parent.glob(f"quarterdeck-{pid}-*"))


def test_a_supervisor_that_gets_no_process_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    request = tmp_path / "request"
    request.write_text(json.dumps({"program": ["true"], "environment": {}}))
    before = set(os.listdir("/proc/self/fd"))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        serving = ProcessSupervisor(theirs)
        line, run = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptors = [run.detach(), os.open(request, os.O_RDONLY), os.open(tmp_path, os.O_RDONLY)]
        monkeypatch.setattr(os, "fork", none_left)
        serving.start(descriptors)
        with line:
            assert json.loads(line.recv(100)) == {"error": errno.EAGAIN}
    assert set(os.listdir("/proc/self/fd")) == before
