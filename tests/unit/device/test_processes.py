"""Listing, starting and closing programs, with real ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.aip.messages import Command, Result, ResultStatus
from core.device import DeviceConfig, Router, applications, build_router
from core.device.process_table import masked
from core.errors import BadInput
from core.tasks import TaskGroupOwner
from tests.fakes.patience import PATIENCE_S
from tests.fakes.window_program import window_programs

ACTIONS = {"launch_application", "close_application", "shell_execute"}
PYTHON = sys.executable


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Router]:
    built = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "programs")
    yield built
    await built.close()


async def call(router: Router, tool: str, **arguments: Any) -> Result:
    kind = "action" if tool in ACTIONS else "data_collection"
    command = Command.model_validate({"tool_name": tool, "tool_type": kind, "parameters": arguments})
    return await router.run(command, 30)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program with a name of its own, found on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    name = folder / f"qd-{os.getpid()}"
    name.symlink_to("/bin/sleep")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return name


@pytest.fixture
def stubborn() -> Iterator[psutil.Process]:
    """A program that does not end when it is asked."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(300)"
    process = subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield psutil.Process(process.pid)
    process.kill()
    process.wait()
    process.stdout.close()


async def test_this_process_is_listed_with_what_it_uses(router: Router) -> None:
    result = await call(router, "list_processes", max_rows=5000)
    assert result.status is ResultStatus.SUCCESS, result.error
    me = psutil.Process()
    (row,) = [row for row in result.result["processes"] if row["pid"] == me.pid]
    assert row["name"] == me.name()
    assert row["user"] == me.username()
    assert row["memory_bytes"] > 1_000_000
    assert row["started_at"].endswith("+00:00")
    assert result.result["total"] == len(result.result["processes"])
    assert result.result["truncated"] is False


async def test_filters_are_combined_and_rows_are_bounded(router: Router) -> None:
    mine = psutil.Process().username()
    large = (await call(router, "list_processes", user=mine, min_memory_bytes=1_000_000)).result
    assert large["processes"]
    assert all(row["user"] == mine and row["memory_bytes"] >= 1_000_000 for row in large["processes"])
    assert (await call(router, "list_processes", name="no such program")).result["processes"] == []
    first = (await call(router, "list_processes", max_rows=1)).result
    assert (len(first["processes"]), first["truncated"]) == (1, True)
    refused = await call(router, "list_processes", max_rows=0)
    assert (refused.error or "").startswith("invalid_arguments: ")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (["mysql", "--password=hunter2", "-u", "me"], ["mysql", "--password=***", "-u", "me"]),
        (["x", "--token", "abc", "file"], ["x", "--token", "***", "file"]),
        (["x", "--api-key", "--verbose"], ["x", "--api-key", "--verbose"]),
        (["curl", "https://me:hunter2@host/x"], ["curl", "https://me:***@host/x"]),
        (["curl", "-H", "Authorization: Bearer abcdefgh.1234"], ["curl", "-H", "Authorization: ***"]),
        (["env", "AWS_SECRET_ACCESS_KEY=abc", "run"], ["env", "AWS_SECRET_ACCESS_KEY=***", "run"]),
        (["sh", "-c", "DB_PASSWORD='a b' run --x"], ["sh", "-c", "DB_PASSWORD=*** run --x"]),
        (["x", "ghp_" + "a" * 36], ["x", "***"]),
        (["python", "-m", "core.device", "--token-stdin"], ["python", "-m", "core.device", "--token-stdin"]),
        (["ls", "author=me", "/etc/passwd"], ["ls", "author=me", "/etc/passwd"]),
    ],
)
def test_what_looks_like_a_secret_is_not_shown(given: list[str], shown: list[str]) -> None:
    assert masked(given) == shown


async def test_a_started_program_gets_its_arguments_and_outlives_the_device(
    router: Router, program: Path
) -> None:
    result = await call(router, "launch_application", app_name=program.name, args=["271.5"])
    assert result.status is ResultStatus.SUCCESS, result.error
    process = psutil.Process(result.result["pid"])
    assert process.cmdline()[1:] == ["271.5"]
    assert os.getsid(process.pid) == process.pid
    await router.close()
    assert process.is_running()
    process.kill()
    await asyncio.to_thread(process.wait, PATIENCE_S)


async def test_a_menu_entry_is_found_by_its_name_and_by_its_file(
    router: Router, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    menu = tmp_path / "data" / "applications"
    menu.mkdir(parents=True)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (menu / "org.example.Notes.desktop").write_text(
        "[Desktop Entry]\nType=Application\nName=My Notes\nIcon=x\nExec=notes %i '%c' --open %F --100%%\n"
    )
    # Nobody writes to it, so whoever opened it would wait.
    os.mkfifo(menu / "a.desktop")
    line = applications.command_for("my notes", ["a b", "c"])
    assert line == ["notes", "My Notes", "--open", "a b", "c", "--100%"]
    assert applications.command_for("org.example.Notes", []) == applications.command_for("My Notes", [])
    (menu / "top.desktop").write_text("[Desktop Entry]\nName=Top\nExec=top\nTerminal=true\n")
    assert "needs a terminal" in ((await call(router, "launch_application", app_name="top")).error or "")
    (menu / "broken.desktop").write_text("no section\n")
    (menu / "gone.desktop").write_text("[Desktop Entry]\nName=Gone\nExec=x\nTryExec=/no/such\n")
    for name in ("gone", "broken", "no-such-program", "/bin/sh", "../bin/sh"):
        assert ((await call(router, "launch_application", app_name=name)).error or "").startswith(
            "not_found: "
        )
    assert "is a path" in ((await call(router, "launch_application", app_name="/bin/sh")).error or "")


async def test_a_program_is_closed_by_its_id_or_its_name(router: Router, program: Path) -> None:
    pids = [
        (await call(router, "launch_application", app_name=program.name, args=["272.5"])).result["pid"]
        for _ in range(3)
    ]
    one = await call(router, "close_application", pid=pids[0])
    assert one.result == {"closed": [pids[0]]}
    two = await call(router, "close_application", pid=pids[1], process_name=program.name)
    assert two.result == {"closed": [pids[1]]}
    # A symlink's process goes by the name of the link.
    rest = await call(router, "close_application", process_name=program.name.upper())
    assert rest.result == {"closed": [pids[2]]}
    again = await call(router, "close_application", process_name=program.name)
    assert (again.error or "").startswith("not_found: ")


@pytest.mark.usefixtures("on_display")
async def test_a_name_that_fits_several_programs_closes_none_and_names_their_windows(
    router: Router, tmp_path: Path
) -> None:
    with window_programs(tmp_path) as programs:
        mine = await asyncio.to_thread(programs.start, "work")
        stranger = await asyncio.to_thread(programs.start, "not yours\x1b[2J")
        refused = await call(router, "close_application", process_name=programs.name, force=True)
        assert (refused.error or "").startswith("invalid_arguments: 2 programs are called")
        for process, title in ((mine, "work"), (stranger, "not yours")):
            assert f"process {process.pid} with the window “{title}" in (refused.error or "")
        assert mine.poll() is None
        assert stranger.poll() is None
        closed = await call(router, "close_application", process_name=programs.name, pid=mine.pid)
        assert closed.result == {"closed": [mine.pid]}
        assert await asyncio.to_thread(mine.wait, PATIENCE_S) == 0
        assert stranger.poll() is None


async def test_an_id_that_is_another_programs_now_closes_nothing(
    router: Router, stubborn: psutil.Process
) -> None:
    named = {"pid": stubborn.pid, "process_name": "xterm", "force": True}
    result = await call(router, "close_application", **named)
    assert (result.error or "").startswith(f"not_found: Process {stubborn.pid} is not called 'xterm'")
    assert stubborn.is_running()


@pytest.mark.usefixtures("on_display")
async def test_the_programs_that_a_name_means_are_listed_with_their_windows(
    router: Router, tmp_path: Path
) -> None:
    with window_programs(tmp_path) as programs:
        for title in ("one", "two"):
            await asyncio.to_thread(programs.start, title)
        listed = (await call(router, "list_processes", program=programs.name)).result
        assert [listed["total"], listed["truncated"]] == [2, False]
        shown = {row["pid"]: row["windows"] for row in listed["processes"]}
        assert shown == {
            process.pid: [title] for process, title in zip(programs.started, ("one", "two"), strict=True)
        }
        pid = programs.started[0].pid
        assert [
            row["pid"] for row in (await call(router, "list_processes", pid=pid)).result["processes"]
        ] == [pid]
    gone = await call(router, "list_processes", program=programs.name)
    assert (gone.error or "").startswith("not_found: ")


@pytest.fixture
def nested(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program with a child of the same name."""
    shell = tmp_path / f"qd-sh-{os.getpid()}"
    shell.symlink_to("/bin/bash")
    # The second command keeps the outer shell from becoming the inner one.
    line = f"{shell} -c 'echo up; read x'; true"
    with subprocess.Popen([shell, "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as outer:
        assert outer.stdout is not None
        outer.stdout.readline()
        yield outer
        outer.kill()


async def test_a_process_whose_parent_has_the_same_name_belongs_to_its_program(
    router: Router, nested: subprocess.Popen[bytes]
) -> None:
    outer = psutil.Process(nested.pid)
    assert [one.name() for one in outer.children()] == [outer.name()]
    listed = (await call(router, "list_processes", program=outer.name())).result["processes"]
    assert [row["pid"] for row in listed] == [outer.pid]
    closed = await call(router, "close_application", process_name=outer.name())
    assert closed.result == {"closed": [outer.pid]}


@pytest.fixture
def no_text(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program whose name is no Unicode."""
    path = tmp_path / f"caf\udce9-{os.getpid()}"
    path.symlink_to("/bin/sleep")
    with subprocess.Popen([path, "300"]) as process:
        yield process
        process.kill()


async def test_a_process_with_a_name_that_is_no_text_is_listed_and_closed_like_any_other(
    router: Router, no_text: subprocess.Popen[bytes]
) -> None:
    listed = await call(router, "list_processes", name="caf?-")
    (row,) = listed.result["processes"]
    assert (row["pid"], row["name"]) == (no_text.pid, f"caf?-{os.getpid()}")
    assert f"/{row['name']} 300" in row["command_line"]
    closed = await call(router, "close_application", process_name=row["name"])
    assert closed.result == {"closed": [no_text.pid]}


async def test_only_force_kills_what_does_not_want_to_end(router: Router, stubborn: psutil.Process) -> None:
    asked = await call(router, "close_application", pid=stubborn.pid, wait=0.3)
    assert asked.status is ResultStatus.FAILURE
    assert str(stubborn.pid) in (asked.error or "")
    assert stubborn.is_running()
    forced = await call(router, "close_application", pid=stubborn.pid, wait=0.3, force=True)
    assert forced.result == {"closed": [stubborn.pid]}


def _line_of(process: psutil.Process) -> str:
    # A child of another test's may be gone and not yet collected.
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


async def test_the_first_process_and_the_device_and_its_ancestors_are_never_closed(router: Router) -> None:
    await call(router, "launch_application", app_name="true")
    me = psutil.Process()
    (supervisor,) = [one for one in me.children() if "supervisor.py" in _line_of(one)]
    for pid in {1, me.pid, me.ppid(), supervisor.pid}:
        result = await call(router, "close_application", pid=pid, force=True)
        assert (result.error or "").startswith("denied_by_device: "), pid
    assert supervisor.is_running()
    # Nor through one of its threads, whose id the kernel takes for the whole process.
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    with pytest.raises(BadInput, match="There is no process"):
        applications.process_of(thread.native_id, None)
    over.set()
    thread.join()


async def test_who_watches_over_a_command_is_never_closed(router: Router, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    running = TaskGroupOwner("test").spawn(
        "shell",
        call(router, "shell_execute", command=f"echo $PPID > {tmp_path}/fifo; read x < {tmp_path}/fifo"),
    )
    monitor = int(await asyncio.to_thread((tmp_path / "fifo").read_text))
    assert monitor in applications.protected()
    await asyncio.to_thread((tmp_path / "fifo").write_text, "on\n")
    assert (await running).result["exit_code"] == 0


@pytest.fixture
def uncollected() -> Iterator[int]:
    """A child of ours that has ended, and that nobody has asked how."""
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    yield ended.pid
    ended.wait()


async def test_the_supervisor_is_kept_also_beside_a_child_that_was_not_collected(
    router: Router, uncollected: int
) -> None:
    await call(router, "launch_application", app_name="true")
    (supervisor,) = [one for one in psutil.Process().children() if "supervisor.py" in _line_of(one)]
    listed = (await call(router, "list_processes", name="true")).result["processes"]
    assert [row["status"] for row in listed if row["pid"] == uncollected] == [psutil.STATUS_ZOMBIE]
    result = await call(router, "close_application", pid=supervisor.pid, force=True)
    assert (result.error or "").startswith("denied_by_device: ")
    assert supervisor.is_running()


async def test_a_name_or_an_id_is_needed(router: Router) -> None:
    assert "process_name or pid" in ((await call(router, "close_application")).error or "")
    for pid in (0, -1, 2**40):
        error = (await call(router, "close_application", pid=pid)).error or ""
        assert error.startswith("invalid_arguments: ")


@pytest.mark.usefixtures("on_display")
async def test_a_window_is_asked_before_its_process_is(router: Router, tmp_path: Path) -> None:
    code = f"""
import os
from Xlib import X, Xatom, display
screen = display.Display()
window = screen.screen().root.create_window(0, 0, 50, 50, 0, X.CopyFromParent)
delete = screen.intern_atom("WM_DELETE_WINDOW")
window.set_wm_protocols([delete])
window.change_property(screen.intern_atom("_NET_WM_PID"), Xatom.CARDINAL, 32, [os.getpid()])
window.map()
screen.sync()
print("up", flush=True)
while True:
    said = screen.next_event()
    if said.type == X.ClientMessage and said.data[1][0] == delete:
        open({str(tmp_path / "saved")!r}, "w").write("saved first")
        break
"""
    process = await asyncio.create_subprocess_exec(PYTHON, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    await process.stdout.readline()
    result = await call(router, "close_application", pid=process.pid)
    assert result.result == {"closed": [process.pid]}
    # A signal would have given another code.
    assert (await process.wait(), (tmp_path / "saved").read_text()) == (0, "saved first")


def test_a_program_that_is_only_called_as_the_supervisor_is_not_protected(tmp_path: Path) -> None:
    script = tmp_path / "supervisor.py"
    script.write_text("input()")
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE) as program:
        assert program.pid not in applications.protected()


class Refusing:
    """The system's side of a process, which refuses one fact by an error that is none of psutil's."""

    def __init__(self, real: Any, fact: str) -> None:
        self._real = real
        self._fact = fact

    def __getattr__(self, name: str) -> Any:
        if name == self._fact:
            raise OSError(22, "[WinError 87] The parameter is incorrect")
        return getattr(self._real, name)


def odd_process(fact: str) -> psutil.Process:
    """This process, one of whose facts is refused."""
    odd = psutil.Process()
    odd._proc = Refusing(odd._proc, fact)
    return odd


@pytest.mark.parametrize("fact", ["cpu_times", "status", "ppid", "memory_info"])
async def test_a_process_that_cannot_be_read_does_not_spoil_the_list(
    router: Router, monkeypatch: pytest.MonkeyPatch, fact: str
) -> None:
    odd, whole = odd_process(fact), psutil.Process(os.getppid())
    monkeypatch.setattr(psutil, "process_iter", lambda: iter([odd, whole]))
    result = await call(router, "list_processes")
    assert [row["pid"] for row in result.result["processes"]] == [whole.pid]


@pytest.mark.parametrize(
    ("fact", "field", "value"), [("cmdline", "command_line", ""), ("uids", "user", None)]
)
async def test_what_alone_is_refused_of_a_process_is_left_out(
    router: Router, monkeypatch: pytest.MonkeyPatch, fact: str, field: str, value: str | None
) -> None:
    odd = odd_process(fact)
    monkeypatch.setattr(psutil, "process_iter", lambda: iter([odd]))
    [row] = (await call(router, "list_processes")).result["processes"]
    assert (row["pid"], row[field]) == (os.getpid(), value)


@pytest.mark.parametrize("fact", ["name", "status", "exe", "ppid"])
def test_a_process_that_cannot_be_read_is_not_in_the_way_of_closing_another(
    monkeypatch: pytest.MonkeyPatch, stubborn: psutil.Process, fact: str
) -> None:
    odd = odd_process(fact)
    monkeypatch.setattr(psutil, "process_iter", lambda: iter([odd, stubborn]))
    assert [one.pid for one in applications.programs(stubborn.name())] == [stubborn.pid]
