"""What all programs of a user share, attacked by a line that runs unasked, while another program needs it.

The device client runs as a user that is not root, for root has no such limits; the other program is the same
user's, outside of the sandbox. Each hostile line takes what it can get, then holds it until the other program
has done its work.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from core.aip.device_link import DeviceLink
from core.tasks import TaskGroupOwner
from tests.fakes.device_process import TOKEN, act, device, one, running_console
from tests.fakes.plain_user import PlainUser, plain_user, why_there_is_none
from tests.fakes.read_shell import NEEDS_BUBBLEWRAP

pytestmark = [
    NEEDS_BUBBLEWRAP,
    pytest.mark.skipif(bool(why_there_is_none()), reason=why_there_is_none() or "possible"),
]

# Prints what a program gets of each pool; run in the user's folder.
BYSTANDER = """
import array, ctypes, fcntl, json, os, resource, select, signal, socket, sqlite3
libc = ctypes.CDLL(None, use_errno=True)

def watches():
    poll, files = select.epoll(), [os.eventfd(0) for _ in range(500)]
    for file in files:
        poll.register(file, select.EPOLLIN)
    return len(files)

def pipes():
    ends = [os.pipe() for _ in range(50)]
    return sorted({fcntl.fcntl(end, fcntl.F_GETPIPE_SZ) for end, _ in ends})

def database():
    connection = sqlite3.connect("home/data.db", timeout=0)
    connection.execute("update t set x = x + 1")
    connection.commit()
    return "written"

def signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
    return sum(libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), None) == 0 for _ in range(200))

def files_on_their_way():
    # What a program usually may have open; it may send no more than that on their way.
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
    here, there = socket.socketpair()
    there.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 100))])
    return 100

said = {}
for ask in (watches, pipes, database, signals, files_on_their_way):
    try:
        said[ask.__name__] = ask()
    except Exception as error:
        said[ask.__name__] = repr(error)
print(json.dumps(said))
"""
# Everything that a bystander is to get.
ENOUGH = {
    "watches": 500,
    "pipes": [65536],
    "database": "written",
    "signals": 200,
    "files_on_their_way": 100,
}

# Every line begins with this and ends in `hold()`, which returns when the test lets it.
COMMON = """
import array, ctypes, errno, fcntl, os, select, signal, socket, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
held = []

def until_refused(take, most, patience=1):
    got = refused = 0
    while got < most and refused < patience:
        try:
            held.append(take())
            got += 1
        except OSError:
            refused += 1
    return got

def in_children(number, deed):
    reading, writing = os.pipe()
    for _ in range(number):
        if os.fork() == 0:
            os.write(writing, b"%d," % deed())
            signal.pause()
    wait_for(number, reading)

def wait_for(number, reading):
    got = b""
    while got.count(b",") < number:
        got += os.read(reading, 4096)
    print(got.decode(), flush=True)

def hold():
    open(sys.argv[1]).read()
    os.kill(0, signal.SIGKILL)
"""
HOSTILE = {
    # One open file is watched under each of four hundred numbers, of which it keeps one.
    "watches": """
poll = select.epoll()
def watch():
    file = os.eventfd(0)
    for number in range(600, 1000):
        os.dup2(file, number)
        poll.register(number, select.EPOLLIN)
        os.close(number)
    return file
in_children(26, lambda: until_refused(watch, 580))
hold()
""",
    "pipes": """
in_children(8, lambda: until_refused(os.pipe, 500, 100))
hold()
""",
    "large pipes": """
def large():
    ends = os.pipe()
    fcntl.fcntl(ends[0], fcntl.F_SETPIPE_SZ, 1 << 20)
    return ends
in_children(4, lambda: until_refused(large, 60))
hold()
""",
    # It goes on as its own child all the time, so that it is never where the table of processes says.
    "pipes of a process that moves": """
for _ in range(4):
    if os.fork() == 0:
        for _ in range(480):
            until_refused(os.pipe, 1)
            if os.fork():
                os._exit(0)
        hold()
time.sleep(60)
""",
    # Of a process whose first thread has ended, /proc tells as if nothing were left of it.
    "pipes of processes without a first thread": """
import _thread
reading, writing = os.pipe()
def take():
    os.write(writing, b"%d," % until_refused(os.pipe, 500, 100))
    time.sleep(100)
for _ in range(4):
    if os.fork() == 0:
        _thread.start_new_thread(take, ())
        libc.syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
wait_for(4, reading)
hold()
""",
    "locks": """
file = os.open("data.db", os.O_RDONLY)
for command in (fcntl.F_SETLK, fcntl.F_SETLKW, 37, 38):
    try:
        fcntl.fcntl(file, command, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 0, 0))
    except OSError:
        pass
try:
    fcntl.flock(file, fcntl.LOCK_SH)
except OSError:
    pass
hold()
""",
    "signals": """
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN})
def queue():
    if libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), None):
        raise OSError
in_children(4, lambda: until_refused(queue, 1 << 20))
hold()
""",
    "files on their way": """
def send():
    here, there = socket.socketpair()
    held.append((here, there))
    there.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))])
until_refused(send, 400)
hold()
""",
}


@pytest.fixture
def user() -> Iterator[PlainUser]:
    """Somebody with a database at home, and the hostile programs."""
    with plain_user() as made:
        for name, code in HOSTILE.items():
            (made.home / f"{name}.py").write_text(COMMON + code)
        made.owns(made.home)
        made.run(
            "import sqlite3; c = sqlite3.connect('home/data.db'); c.execute('create table t (x)'); "
            "c.execute('insert into t values (1)'); c.commit()"
        )
        yield made


@asynccontextmanager
async def console_with(user: PlainUser) -> AsyncIterator[DeviceLink]:
    (user.folder / "device.toml").write_text(f'roots = ["{user.home}"]\n')
    user.owns(user.folder)
    async with (
        running_console() as console,
        device(console.server.url, user.folder, token=TOKEN, user=user),
    ):
        yield await console.link()


def program(user: PlainUser, name: str) -> str:
    return f"{user.python} -I -S '{name}.py'"


@asynccontextmanager
async def held(link: DeviceLink, user: PlainUser, name: str, number: int = 0) -> AsyncIterator[None]:
    """A hostile line that has taken what it could and holds it; it ends as its program does."""
    way = user.home / f"go{number}"
    os.mkfifo(way)
    user.owns(way)
    command = act("shell_execute_read", command=f"{program(user, name)} {way.name}", timeout=120)
    tasks = TaskGroupOwner("hostile")
    running = tasks.spawn("line", one(link, command, 150))
    # It opens when the line does, which has taken all by then.
    opening = tasks.spawn("hold", asyncio.to_thread(way.open, "w"))
    await asyncio.wait({running, opening}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        # It came to no hold; nothing else would open the other end.
        os.close(os.open(way, os.O_RDONLY | os.O_NONBLOCK))
        (await opening).close()
        raise AssertionError(running.result())
    try:
        yield
    finally:
        (await opening).close()
        await running


async def bystander(user: PlainUser) -> dict[str, Any]:
    """What a program of the user's gets now, outside of the sandbox."""
    said = json.loads(await asyncio.to_thread(user.run, BYSTANDER))
    assert isinstance(said, dict)
    return said


@pytest.mark.parametrize("name", HOSTILE)
async def test_no_line_takes_what_the_users_other_programs_need(user: PlainUser, name: str) -> None:
    async with console_with(user) as link:
        assert await bystander(user) == ENOUGH
        async with held(link, user, name):
            assert await bystander(user) == ENOUGH


async def test_several_lines_at_once_leave_enough_as_well(user: PlainUser) -> None:
    async with console_with(user) as link, AsyncExitStack() as lines:
        for number in range(8):
            name = ("pipes", "watches")[number % 2]
            await lines.enter_async_context(held(link, user, name, number))
        assert await bystander(user) == ENOUGH


KERNEL = {
    "mappings": """
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def mapped():
    start = libc.mmap(None, 65000 * 4096, 0, 0x22, -1, 0)
    return sum(libc.mprotect(start + page * 4096, 4096, 1) == 0 for page in range(0, 65000, 2))
in_children(60, mapped)
time.sleep(60)
""",
    "files": """
def opened():
    for _ in range(1000):
        file = os.open("/proc/self/numa_maps", os.O_RDONLY)
        os.read(file, 1)
    return 1000
in_children(60, opened)
time.sleep(60)
""",
}


@pytest.mark.parametrize("name", KERNEL)
async def test_the_kernels_memory_counts_as_well(user: PlainUser, name: str) -> None:
    (user.home / "kernel.py").write_text(COMMON + KERNEL[name])
    user.owns(user.home)
    async with console_with(user) as link:
        command = act("shell_execute_read", command=f"{program(user, 'kernel')}; echo survived", timeout=120)
        result = await one(link, command, 150)
    assert result.result["stderr"].endswith("MiB of the kernel's memory, and was ended\n"), result
    assert "survived" not in result.result["stdout"]


UNSEEN = {
    # Given back by the process, shared memory stays as long as anything of the mapping does.
    "shared": "x = mmap.mmap(-1, 1 << 28)",
    "shared, of a device": (
        "x = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 1 << 28, mmap.MAP_SHARED, mmap.PROT_READ)"
    ),
    "secret": "assert ctypes.CDLL(None).syscall(447, 0) >= 0",
    "in pipes": (
        "piece = (ctypes.c_void_p * 2)(id(os), 16)\n"
        "assert ctypes.CDLL(None).vmsplice(os.pipe()[1], ctypes.byref(piece), 1, 0) >= 0"
    ),
    "in the kernel's own pipes": (
        "nowhere, file = os.open('/dev/null', os.O_WRONLY), os.open('/usr/bin/env', os.O_RDONLY)\n"
        "assert os.sendfile(nowhere, file, 0, 9) == 9"
    ),
    "rules": "assert ctypes.CDLL(None).syscall(444, bytes([1] + [0] * 7), 8, 0) >= 0",
    "filters": (
        "step = ctypes.create_string_buffer(struct.pack('=HBBI', 6, 0, 0, 0x7FFF0000))\n"
        "steps = struct.pack('=H6xQ', 1, ctypes.addressof(step))\n"
        "assert ctypes.CDLL(None).prctl(22, 2, steps, 0, 0) == 0"
    ),
    "terminals": "os.open('/dev/ptmx', os.O_RDONLY)",
}


@pytest.mark.parametrize("name", UNSEEN)
async def test_memory_that_is_counted_as_nobodys_is_not_to_be_had(user: PlainUser, name: str) -> None:
    (user.home / "unseen.py").write_text(
        f"import ctypes, mmap, os, struct\n{UNSEEN[name]}\nprint('got it')\n"
    )
    user.owns(user.home)
    async with console_with(user) as link:
        result = await one(link, act("shell_execute_read", command=program(user, "unseen")), 60)
    assert "got it" not in result.result["stdout"]
    assert result.result["exit_code"] != 0


USUAL = {
    "a pipeline": ("seq 100 | sort -rn | head -1 | cat", "100\n"),
    "many of them": ("for i in $(seq 200); do echo $i | cat; done | wc -l", "200\n"),
    "substitutions": ('x=""; for i in $(seq 150); do x="$x$(echo y)"; done; echo ${#x}', "150\n"),
    "pipes opened and closed at once": (
        "python3 -c 'import os; print(len([[*map(os.close, os.pipe())] for _ in range(500)]))'", "500\n"
    ),
    "a database": ("python3 -c \"import sqlite3; print(*sqlite3.connect('file:data.db?mode=ro', uri=True)"
                   ".execute('select count(*) from t'))\"", "(1,)\n"),
    "an event loop": ("python3 -c 'import asyncio; print(asyncio.run(asyncio.sleep(0, 7)))'", "7\n"),
    "its programs": (
        "python3 -c 'import subprocess; print(len([subprocess.run([\"true\"]) for _ in range(90)]))'", "90\n"
    ),
    "a signal for process 1": ("kill -INT 1; kill -TERM 1; echo on", "on\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", USUAL)
async def test_what_programs_that_read_need_is_there(user: PlainUser, name: str) -> None:
    line, wanted = USUAL[name]
    async with console_with(user) as link:
        result = await one(link, act("shell_execute_read", command=line, timeout=60), 90)
    assert (result.error, result.result["stdout"], result.result["stderr"]) == (None, wanted, "")
