"""The read-only shell attacked: other processes, the kernel, the machine's strength, what stays behind."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from core.device import DeviceConfig, Router, build_router
from core.device.config import Limits
from core.device.sandbox import cgroup
from tests.fakes.cage import Cage, cage, why_impossible
from tests.fakes.patience import PATIENCE_S
from tests.fakes.read_shell import NEEDS_BUBBLEWRAP, PYTHON, read, run, snapshot, succeeding

pytestmark = NEEDS_BUBBLEWRAP
on_the_files_loop = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def bystander() -> Iterator[psutil.Process]:
    process = subprocess.Popen(["sleep", "300"])
    yield psutil.Process(process.pid)
    process.kill()
    process.wait()


@on_the_files_loop
@pytest.mark.parametrize(
    "line",
    [
        "kill -9 {pid}",
        "pkill -9 sleep",
        "kill -9 -1",
        "kill -STOP {pid}",
        "renice 19 {pid}",
        "cat /proc/{pid}/environ",
        "echo 1000 > /proc/{pid}/oom_score_adj",
    ],
)
async def test_a_process_outside_is_neither_seen_nor_touched(
    router: Router, bystander: psutil.Process, line: str
) -> None:
    before = (bystander.nice(), read(f"/proc/{bystander.pid}/oom_score_adj"))
    result = await run(router, line.format(pid=bystander.pid))
    # It may still be on its way to sleep; what counts is that it was neither stopped nor killed.
    assert bystander.status() in {psutil.STATUS_SLEEPING, psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP}
    assert (bystander.nice(), read(f"/proc/{bystander.pid}/oom_score_adj")) == before
    assert result.result["exit_code"] != 0


@on_the_files_loop
async def test_the_same_signal_without_the_sandbox_kills(router: Router, bystander: psutil.Process) -> None:
    await run(router, f"kill -9 {bystander.pid}", inside=False)
    assert await asyncio.to_thread(bystander.wait, PATIENCE_S) == -9


KERNEL = (
    "echo 1 > /proc/sys/kernel/panic",
    "echo '|/bin/true' > /proc/sys/kernel/core_pattern",
    "echo h > /proc/sysrq-trigger",
    "for f in $(find /sys/devices /sys/module -name parameters | head -3); do : > $f/x; done; false",
    f'{PYTHON} -c \'open("/proc/self/mem", "r+b")\'',
    f'{PYTHON} -c \'open("/proc/1/mem", "r+b")\'',
    "echo 5 > /proc/self/oom_score_adj",
    "mount -t tmpfs none folder",
    "mount -o remount,rw /",
    "unshare -Urm true",
    "unshare -rn true",
    "bwrap --dev-bind / / sh -c 'echo x > file'",
    "chroot / true",
    "mknod disk b 254 0",
    "cat /dev/vda /dev/sda /dev/nvme0n1",
    "head -c 1 /dev/mem || head -c 1 /proc/kcore",
    "echo x > /dev/tty",
    "dmesg",
    "date -s 2001-01-01",
    "hostname other",
    f"{PYTHON} -c 'import ctypes; exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0))'",
    f"{PYTHON} -c 'import ctypes; exit(ctypes.CDLL(None).syscall(250, 0, -3, 1))'",
    f"{PYTHON} -c 'import ctypes; exit(ctypes.CDLL(None).syscall(425, 1, bytes(120)))'",
    f"{PYTHON} -c 'import ctypes; exit(ctypes.CDLL(None).syscall(321, 0, bytes(64), 64))'",
    f"{PYTHON} -c 'import ctypes; exit(ctypes.CDLL(None).syscall(56, 0x10000011, 0, 0, 0, 0))'",
    f"{PYTHON} -c 'import ctypes; exit(ctypes.CDLL(None).syscall(435, bytes(88), 88))'",
    "flock -n file true",
    f"{PYTHON} -c 'import fcntl, os; fcntl.fcntl(os.open(\"file\", 0), 1024, 0)'",
    "renice 19 1",
    "su nobody -s /bin/sh -c true < /dev/null",
    "sudo -n true",
    "ulimit -u 100000",
    "echo x > /dev/shm/x",
    "echo x > /tmp/x",
    "echo x > /run/x",
    "mkdir /dev/x",
)


@on_the_files_loop
async def test_the_system_itself_is_not_touched(router: Router, tree: Path) -> None:
    watched = ("/proc/sys/kernel/panic", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname")
    before = (snapshot(tree), [read(path) for path in watched])
    assert await succeeding(router, KERNEL) == []
    assert (snapshot(tree), [read(path) for path in watched]) == before
    assert abs(time.time() - psutil.boot_time()) < 10 * 365 * 86_400


@on_the_files_loop
async def test_no_program_gets_more_rights_than_it_had(router: Router) -> None:
    line = "grep -E 'CapEff|CapPrm|CapBnd|CapAmb|NoNewPrivs|Seccomp:' /proc/self/status"
    said = dict(one.split(":") for one in (await run(router, line)).result["stdout"].splitlines())
    capabilities = {name: int(value, 16) for name, value in said.items() if name.startswith("Cap")}
    assert set(capabilities.values()) == {0}
    assert (said["NoNewPrivs"].strip(), said["Seccomp"].strip()) == ("1", "2")


@on_the_files_loop
@pytest.mark.parametrize(
    "line",
    [
        "sleep 312.5 & disown",
        "setsid nohup sleep 312.5 > /dev/null 2>&1 &",
        "(setsid sh -c 'trap \"\" TERM HUP INT; sleep 312.5 & wait' &) ; true",
        f"{PYTHON} -c 'import os; os.fork() or os.setsid() or os.fork() or os.system(\"sleep 312.5\")'",
    ],
)
async def test_no_child_survives_the_answer(router: Router, line: str) -> None:
    await run(router, line)
    alive = [one.pid for one in psutil.process_iter(["cmdline"]) if "312.5" in (one.info["cmdline"] or [])]
    assert alive == []


@on_the_files_loop
async def test_a_time_out_kills_everything_inside(router: Router) -> None:
    line = "trap '' TERM; setsid sleep 313.5 & (trap '' TERM; sleep 313.5) & echo begun; wait"
    async with asyncio.timeout(HANGS_S):
        result = await run(router, line, timeout=0.5)
    assert (result.error or "").startswith("timeout: ")
    assert (result.result["stdout"], result.result["exit_code"]) == ("begun\n", 124)
    assert not [one for one in psutil.process_iter(["cmdline"]) if "313.5" in (one.info["cmdline"] or [])]


# A fifth of how long its children would sleep.
HANGS_S = 60.0
BOMB = "bomb() { bomb | bomb & }; bomb; wait; sleep 3"
# What the read-only shell lets a command have; beside it are its helpers, our Python, threads and the warden.
INSIDE, BESIDE = 48, 40
in_a_cage = pytest.mark.skipif(bool(why_impossible()), reason=why_impossible() or "possible")


def caged(made: Cage, *words: str) -> subprocess.Popen[str]:
    """The shell of `tests.fakes.caged_shell`."""
    line = [PYTHON, "-m", "tests.fakes.caged_shell", *made.arguments(), *words]
    # A bomb complains thousands of times.
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(line, stdout=pipe, stderr=nowhere, text=True, start_new_session=True)


@in_a_cage
@pytest.mark.skipif(cgroup.parent() is None, reason="needs a control group")
def test_a_fork_bomb_without_the_sandbox_fills_its_cage_and_the_keeper_ends_it() -> None:
    with cage(INSIDE + BESIDE, 30) as made:
        process = caged(made, "-", "-", BOMB, "0")
        filled = made.wait_until_full(20)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert filled, "the attack does nothing even without the sandbox"


@in_a_cage
@pytest.mark.skipif(cgroup.parent() is None, reason="needs a control group")
def test_what_stays_in_its_cage_too_long_is_ended_and_fails_its_test() -> None:
    with (
        pytest.raises(AssertionError, match="the keeper had to"),
        cage(8, 3) as made,
        caged(made, "-", "-", "echo in; sleep 314.5", "0") as process,
    ):
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert (said, process.returncode) == ("in\n", -signal.SIGKILL)


@in_a_cage
def test_a_fork_bomb_ends_and_leaves_the_machine_usable(tree: Path, tmp_path: Path) -> None:
    most = 0
    over = threading.Event()
    with cage(300, 60) as made:
        before = made.count()

        def watch() -> None:
            nonlocal most
            while not over.wait(0.02):
                most = max(most, made.count() - before)

        watcher = threading.Thread(target=watch)
        watcher.start()
        with caged(made, str(tree), str(tmp_path / "state"), BOMB, "2") as process:
            said, _ = process.communicate()
            over.set()
            watcher.join()
        left = made.count() - before
    assert process.returncode == 0
    bombed, after = json.loads(said)
    assert bombed["error"].startswith("timeout: "), bombed
    assert after["result"]["stdout"] == "alive\n"
    # It did run into the bound, and the bound held.
    assert INSIDE / 2 < most < INSIDE + BESIDE
    if made.group is not None:
        assert left == 0


@on_the_files_loop
async def test_a_hungry_command_is_stopped_before_the_machine_suffers(router: Router) -> None:
    result = await run(router, f"{PYTHON} -c 'x = bytearray(6 << 30)'")
    assert result.result["exit_code"] != 0
    assert "MemoryError" in result.result["stderr"]
    # Many that stay below that limit are the first to go when memory runs out.
    assert (await run(router, "cat /proc/self/oom_score_adj")).result["stdout"] == "1000\n"


HEADLESS = """
import ctypes, platform, threading
os.fork()
def hog():
    while ") Z " not in open(f"/proc/{os.getpid()}/stat").read():
        pass
    x = b"x" * (40 << 20)
    time.sleep(25)
threading.Thread(target=hog).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""
# Beyond the 64 MiB that they get, but no process takes them as memory of its own.
HUNGRY = {
    "children": "os.fork(); os.fork(); x = b'x' * (18 << 20); time.sleep(25)",
    # The first thread ends alone, and with it what the process's own place in /proc tells.
    "headless": f"exec({HEADLESS!r})",
    # As many as could hold all of it, whether they do or not.
    "sockets": "x = [socket.socketpair() for _ in range(90)]; time.sleep(25)",
}


async def test_what_processes_take_together_is_bounded_and_what_they_share_counts_once(
    tree: Path, tmp_path: Path
) -> None:
    limits = Limits(read_shell_memory_bytes=64 << 20)
    small = build_router(DeviceConfig(roots=(tree,), limits=limits), tmp_path / "state", "small")

    async def hungry(code: str) -> tuple[str, str]:
        line = f"{PYTHON} -I -S -c {shlex.quote(f'import os, socket, time; {code}')}; echo survived"
        answer = (await run(small, line, timeout=25)).result
        return answer["stdout"], answer["stderr"]

    try:
        ended = await asyncio.gather(*map(hungry, HUNGRY.values()))
        shared = await hungry("x = b'x' * (18 << 20); os.fork(); os.fork(); time.sleep(0.2)")
    finally:
        await small.close()
    assert ended == [("", "The command took more than 64 MiB of memory, and was ended\n")] * 3
    assert shared == ("survived\n", "")


async def test_endless_output_is_bounded(tree: Path, tmp_path: Path) -> None:
    small = build_router(
        DeviceConfig(roots=(tree,), limits=Limits(max_output_bytes=20_000)), tmp_path / "state", "small"
    )
    try:
        result = await run(small, "head -c 50000000 /dev/zero | tr '\\0' x")
    finally:
        await small.close()
    assert result.result["truncated"]
    assert len(result.model_dump_json()) < 21_000
