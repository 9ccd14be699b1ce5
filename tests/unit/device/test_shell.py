"""Shell commands with real processes: output bounds, time-outs, children that stay behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from core.aip.messages import Command, Result, ResultStatus
from core.device import DeviceConfig, Router, build_router
from core.device.config import Limits
from core.device.guard import Guard
from core.device.processes import child_process, windows
from core.device.processes.job import OutputBudget
from core.errors import BadInput
from core.tasks import TaskGroupOwner
from tests.fakes.ended import all_ended
from tests.fakes.patience import PATIENCE_S


@pytest.fixture
async def router(tmp_path: Path) -> AsyncIterator[Router]:
    (tmp_path / "root").mkdir()
    limits = Limits(max_output_bytes=64 * 1024, max_processes=2)
    config = DeviceConfig(roots=(tmp_path / "root",), limits=limits)
    built = build_router(config, tmp_path / "state", "shell")
    yield built
    await built.close()


def command(tool: str, line: str, **more: Any) -> Command:
    return Command(tool_name=tool, tool_type="action", parameters={"command": line, **more}, call_id="c")


async def shell(router: Router, line: str, **more: Any) -> Result:
    return await router.run(command("shell_execute", line, **more), deadline_s=30)


async def line_of(fifo: Path) -> str:
    return await asyncio.to_thread(fifo.read_text)


async def is_gone(pid: int) -> None:
    """Wait until a process has ended; fails after twenty seconds."""
    with contextlib.suppress(psutil.NoSuchProcess):
        await all_ended([psutil.Process(pid)], 20)


@pytest.mark.parametrize("line", ["-n foo", "--version", "-c 'touch x'", "--", "-"])
@pytest.mark.parametrize("tool", ["shell_execute", "EXEC_CLI"])
async def test_a_line_that_begins_with_a_dash_is_a_line_and_no_option(
    router: Router, tool: str, line: str
) -> None:
    result = await router.run(command(tool, line), deadline_s=30)
    shown = result.result
    assert shown["exit_code"] == 127
    assert f"{line.split(maxsplit=1)[0]}: command not found" in shown["stderr"]


async def test_output_exit_code_and_folder_come_back(router: Router, tmp_path: Path) -> None:
    result = await shell(router, "pwd; echo bad >&2; exit 3")
    assert result.status is ResultStatus.SUCCESS
    assert result.result["stdout"] == f"{tmp_path / 'root'}\n"
    assert result.result["stderr"] == "bad\n"
    assert result.result["exit_code"] == 3
    assert result.result["truncated"] is False


async def test_a_command_killed_by_a_signal_gives_128_and_the_signal(router: Router) -> None:
    assert (await shell(router, "kill -9 $$")).result["exit_code"] == 128 + signal.SIGKILL


async def test_exec_cli_answers_in_linux_agents_shape(router: Router) -> None:
    result = await router.run(command("EXEC_CLI", "echo hi"), 30)
    assert set(result.result) == {
        "stdout",
        "stderr",
        "exit_code",
        "command",
        "execution_time",
        "timestamp",
        "status",
    }
    assert (result.result["status"], result.result["command"]) == ("SUCCESS", "echo hi")
    failed = await router.run(command("EXEC_CLI", "false"), 30)
    assert (failed.result["status"], failed.result["exit_code"]) == ("ERROR", 1)


@pytest.mark.parametrize("tool", ["EXEC_CLI", "shell_execute"])
async def test_a_time_out_kills_the_whole_process_group(router: Router, tmp_path: Path, tool: str) -> None:
    pids = tmp_path / "pids"
    # One child of the shell, and one that ignores the polite signal.
    line = f"sleep 60 & echo $! >> {pids}; (trap '' TERM; echo $BASHPID >> {pids}; sleep 60) & wait"
    seconds = 0.5
    result = await router.run(command(tool, f"echo begun; {line}", timeout=seconds), 30)
    assert result.result["exit_code"] == 124
    assert result.result["stdout"] == "begun\n"
    assert result.status is ResultStatus.FAILURE
    assert (result.error or "").startswith("timeout: ")
    assert f"after {seconds:g} s, the time-out that was asked for" in (result.error or "")
    assert result.result.get("status", "TIMEOUT") == "TIMEOUT"
    for pid in pids.read_text().split():
        await is_gone(int(pid))


async def test_a_background_child_that_keeps_the_pipes_does_not_hang_the_answer(
    router: Router, tmp_path: Path
) -> None:
    async with asyncio.timeout(PATIENCE_S):
        result = await shell(router, f"sleep 60 & echo $! > {tmp_path}/pid; echo done")
    assert result.result["stdout"] == "done\n"
    pid = int((tmp_path / "pid").read_text())
    assert psutil.pid_exists(pid)
    os.kill(pid, signal.SIGKILL)


async def test_endless_output_is_bounded_while_it_is_read(router: Router) -> None:
    before = psutil.Process().memory_info().rss
    result = await shell(router, "head -c 300000000 /dev/zero | tr '\\0' x; echo late >&2; exit 5")
    assert psutil.Process().memory_info().rss - before < 50_000_000
    assert result.result["truncated"]
    assert result.result["exit_code"] == 5
    assert 60_000 < len(result.result["stdout"]) <= 64 * 1024
    assert len(result.model_dump_json()) < 66_000


async def test_output_that_grows_when_it_is_encoded_stays_within_the_limit(router: Router) -> None:
    result = await shell(router, "head -c 60000 /dev/zero")
    assert result.status is ResultStatus.SUCCESS
    assert result.result["truncated"]
    assert len(result.model_dump_json()) < 66_000


async def test_a_working_directory_outside_the_roots_is_refused(router: Router, tmp_path: Path) -> None:
    (tmp_path / "root" / "out").symlink_to(tmp_path)
    for folder in ("/", str(tmp_path / "root" / "out"), str(tmp_path / "root" / "..")):
        result = await shell(router, f"touch {tmp_path}/ran", working_directory=folder)
        assert (result.error or "").startswith("path_not_allowed: ")
    missing = await shell(router, f"touch {tmp_path}/ran", working_directory=str(tmp_path / "root" / "no"))
    assert (missing.error or "").startswith("not_found: ")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "more", [{"timeout": 0}, {"timeout": -1}, {"timeout": 1e9}, {"timeout": "5"}, {"shell": "zsh"}]
)
async def test_arguments_beyond_the_limits_run_nothing(
    router: Router, tmp_path: Path, more: dict[str, Any]
) -> None:
    result = await shell(router, f"touch {tmp_path}/ran", **more)
    assert (result.error or "").startswith("invalid_arguments: ")
    assert next(iter(more)) in (result.error or "")
    assert not (tmp_path / "ran").exists()


async def test_a_nul_in_a_command_runs_nothing(router: Router, tmp_path: Path) -> None:
    result = await shell(router, f"touch {tmp_path}/ran\0")
    assert result.error == "invalid_arguments: command holds a NUL character."
    assert not (tmp_path / "ran").exists()


async def test_closing_the_router_kills_what_runs_and_answers(router: Router, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    line = f"sleep 60 & echo $$ $! > {tmp_path}/fifo; wait"
    running = TaskGroupOwner("test").spawn("shell", shell(router, line))
    pids = (await line_of(tmp_path / "fifo")).split()
    await router.close()
    result = await running
    # Nobody asked to cancel it, and part of it may have happened.
    assert (result.error or "").startswith("outcome_unknown: ")
    for pid in pids:
        await is_gone(int(pid))
    assert (await shell(router, "true")).status is ResultStatus.FAILURE


async def test_a_command_cancelled_at_any_moment_of_its_start_leaves_no_child(
    router: Router, tmp_path: Path
) -> None:
    for turns in range(12):
        marker = f"{100_000 + os.getpid()}.{turns}"
        task = TaskGroupOwner("test").spawn("shell", shell(router, f"sleep {marker} & wait"))
        for _ in range(turns):
            # Each turn of the loop is another moment of the start.
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        # Not a moment later: whoever is told that it was stopped may go on at once.
        assert not [one for one in psutil.process_iter(["cmdline"]) if marker in (one.info["cmdline"] or [])]


async def test_a_command_that_waits_for_its_turn_can_be_cancelled_and_a_past_one_cannot(
    router: Router, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    tasks = TaskGroupOwner("test")
    holding = tasks.spawn("first", shell(router, f"echo > {tmp_path}/fifo; read x < {tmp_path}/fifo"))
    await line_of(tmp_path / "fifo")
    turn = command("shell_execute", f"touch {tmp_path}/ran").model_copy(update={"call_id": "turn"})
    waiting = tasks.spawn("second", router.run(turn, 30))
    # One turn of the loop takes the second command to the queue behind the first.
    await asyncio.sleep(0)
    assert router.executor.cancel("turn") is True
    assert ((await waiting).error or "").startswith("cancelled: ")
    assert router.executor.cancel("turn") is False
    await asyncio.to_thread((tmp_path / "fifo").write_text, "\n")
    assert (await holding).status is ResultStatus.SUCCESS
    assert not (tmp_path / "ran").exists()


async def test_a_deadline_kills_the_group_and_is_called_a_time_out(router: Router, tmp_path: Path) -> None:
    line = f"sleep 60 & echo $$ $! > {tmp_path}/pids; wait"
    result = await router.run(command("shell_execute", line), deadline_s=0.5)
    assert (result.error or "").startswith("timeout: ")
    for pid in (tmp_path / "pids").read_text().split():
        await is_gone(int(pid))


@pytest.mark.parametrize("tool", ["EXEC_CLI", "shell_execute"])
async def test_what_was_printed_before_the_deadline_of_the_call_is_answered(
    router: Router, tmp_path: Path, tool: str
) -> None:
    # It does not end when it is asked to; a shell that waited for it could add that it was killed.
    line = f"trap '' TERM; echo begun; echo bad >&2; echo $$ > {tmp_path}/pid; exec sleep 60"
    result = await router.run(command(tool, line), deadline_s=0.5)
    assert (result.error or "").startswith("timeout: ")
    assert "the deadline of the call" in (result.error or "")
    assert (result.result["stdout"], result.result["stderr"]) == ("begun\n", "bad\n")
    assert result.result["exit_code"] == 124
    assert result.result.get("status", "TIMEOUT") == "TIMEOUT"
    await is_gone(int((tmp_path / "pid").read_text()))


async def test_what_its_turn_comes_too_late_for_is_not_started(router: Router, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    tasks = TaskGroupOwner("test")
    holding = tasks.spawn("first", shell(router, f"read < {tmp_path}/fifo"))
    await asyncio.sleep(0)
    late = await router.run(command("shell_execute", f"touch {tmp_path}/ran"), deadline_s=0.2)
    assert (late.error or "").startswith("timeout: shell_execute was not started")
    await asyncio.to_thread((tmp_path / "fifo").write_text, "\n")
    assert (await holding).status is ResultStatus.SUCCESS
    assert not (tmp_path / "ran").exists()
    await tasks.close()


async def test_actions_run_one_after_another(router: Router, tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines = [f"echo in >> {log}; sleep 0.05; echo out >> {log}" for _ in range(3)]
    await asyncio.gather(*(shell(router, line) for line in lines))
    assert log.read_text().split() == ["in", "out"] * 3


async def test_a_shell_inherits_no_open_file_of_the_device(router: Router) -> None:
    result = await shell(router, "ls /proc/self/fd")
    # Its own three, and the one `ls` reads the folder with.
    assert result.result["stdout"].split() == ["0", "1", "2", "3"]


async def test_the_windows_way_bounds_output_and_kills_the_tree_too(tmp_path: Path) -> None:
    """It runs here as well, on the same asyncio pipes; Windows itself has not seen it yet."""
    budget = OutputBudget(1000)
    ended = await windows.run_windows("head -c 5000 /dev/zero; exit 3", tmp_path, 10, budget)
    assert (len(ended.stdout), ended.exit_code, ended.truncated) == (1000, 3, True)
    line = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    late = await windows.run_windows(line, tmp_path, 0.5, OutputBudget(1000))
    assert late.exit_code is None
    await is_gone(int((tmp_path / "pid").read_text()))


async def test_windows_output_is_read_in_the_code_page_in_which_it_is_written(tmp_path: Path) -> None:
    told: list[str] = []
    # As cmd.exe writes it under the code page 850, the second half of a line in another piece than the first.
    line = r"printf 'h\204l'; sleep 0.05; printf 'lo \201\n'; printf '\341' >&2"

    def report(text: str = "", **more: Any) -> None:
        told.append(text)

    ended = await windows.run_windows(line, tmp_path, 10, OutputBudget(1000), report, encoding="cp850")
    assert (ended.output_text(), ended.error_text()) == ("hällo ü\n", "ß")
    assert sorted("".join(told)) == sorted("hällo ü\nß")


async def test_output_is_told_while_the_command_runs_and_never_cut_inside_a_character(
    router: Router, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    told: list[tuple[str, str]] = []
    heard = asyncio.Event()

    def report(text: str = "", *, stream: str = "note", **more: Any) -> None:
        told.append((stream, text))
        heard.set()

    # Half of a two-byte character, and the other half only after we have answered.
    line = f"printf 'gr\\303'; read x < {tmp_path}/fifo; printf '\\274n'; echo bad >&2"
    running = TaskGroupOwner("test").spawn(
        "shell", router.run(command("shell_execute", line), 30, report=report)
    )
    async with asyncio.timeout(PATIENCE_S):
        await heard.wait()
    assert told == [("stdout", "gr")]
    await asyncio.to_thread((tmp_path / "fifo").write_text, "on\n")
    result = await running
    assert result.result["stdout"] == "grün"
    assert "".join(text for stream, text in told if stream == "stdout") == "grün"
    assert "".join(text for stream, text in told if stream == "stderr") == "bad\n"


async def test_no_more_is_told_than_is_kept(router: Router) -> None:
    told: list[str] = []

    def report(text: str = "", **more: Any) -> None:
        told.append(text)

    line = "head -c 5000000 /dev/zero | tr '\\0' x"
    result = await router.run(command("shell_execute", line), 30, report=report)
    assert result.result["truncated"]
    assert sum(map(len, told)) == 64 * 1024


async def test_a_folder_swapped_for_a_link_between_check_and_start_is_noticed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / "work", outside):
        folder.mkdir(parents=True)
    held = Guard(DeviceConfig(roots=(root,))).hold(str(root / "work"))
    (root / "work").rmdir()
    (root / "work").symlink_to(outside)
    running = child_process.Children(1000)
    with pytest.raises(BadInput, match="changed while it was being opened"):
        await running.run_shell("touch here", held, 5)
    await running.close()
    assert os.listdir(outside) == []


NASTY = "'; touch x; echo \" $(touch y) `touch z` \\ \n *"


@pytest.mark.parametrize("tool", ["shell_execute", "EXEC_CLI"])
async def test_a_variable_of_the_call_is_one_word_of_the_line_whatever_it_contains(
    router: Router, tmp_path: Path, tool: str
) -> None:
    line = 'printf "%s|" "$A" "$B" "${HOME:+home}"'
    result = await router.run(command(tool, line, env={"A": NASTY, "B": ""}), 30)
    assert result.status is ResultStatus.SUCCESS
    assert result.result["stdout"] == f"{NASTY}||home|"
    assert list((tmp_path / "root").iterdir()) == []


@pytest.mark.parametrize("name", ["", "A=B", "1A", "A B"])
async def test_a_variable_needs_a_name_that_a_shell_can_read(
    router: Router, tmp_path: Path, name: str
) -> None:
    result = await shell(router, "touch ran", env={name: "x"})
    assert result.status is ResultStatus.FAILURE
    assert list((tmp_path / "root").iterdir()) == []
