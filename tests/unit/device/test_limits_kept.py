"""Limits that hold also for a console that tries to use up what they do not name by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from core.aip.messages import Command, Result
from core.device import frame_runner, undo
from core.device.build import build_router
from core.device.config import DeviceConfig, Limits, Undo
from core.device.credentials import CredentialStore
from core.device.device_store import DATABASE, DeviceStore
from core.device.frame_runner import STOCK, FrameRunner
from core.device.frames import Step
from core.device.fs import listing
from core.device.self_check import facts, report
from core.device.undo import UndoStore
from core.device.worker_threads import WorkerThreads
from core.errors import BadInput
from tests.fakes.patience import PATIENCE_S


def test_writes_of_new_files_leave_a_bounded_number_of_undo_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "MOST_ENTRIES", 5)
    store = UndoStore(DeviceStore(tmp_path), Undo())
    ids = [store.keep(Path("/x"), None, 0, "0" * 64) for _ in range(12)]
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        assert connection.execute("SELECT count(*) FROM undo_entries").fetchone()[0] <= 5
    assert store.claim(ids[-1])[0].undo_id == ids[-1]
    with pytest.raises(BadInput):
        store.claim(ids[0])


async def test_frames_that_wait_are_bounded_in_bytes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_runner, "MOST_WAITING_BYTES", 1_000)
    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "limits")
    runner = FrameRunner(router, Limits())
    steps = [Step("1", Command(tool_name="", tool_type="action", call_id="1"))]
    assert runner.refusal("large", steps, size=5_000) is None
    large = runner.admit(steps, STOCK, 0.0, 5_000)
    refusal = runner.refusal("next", steps, size=10)
    assert refusal is not None
    assert "bytes" in refusal.message
    await runner.serve(large)
    assert runner.refusal("next", steps, size=10) is None
    await router.close()


@pytest.mark.parametrize(
    ("off", "other"),
    [("shell_execute", "EXEC_CLI"), ("restore_file", "undo"), ("get_system_info", "SYS_INFO")],
)
async def test_what_is_switched_off_is_not_to_be_had_under_another_name(
    tmp_path: Path, off: str, other: str
) -> None:
    config = DeviceConfig(roots=(tmp_path,), tools_off=frozenset({off}))
    router = build_router(config, tmp_path / "state", "limits")
    offered = {info.tool_name for info in router.tools()}
    assert offered.isdisjoint({off, other})
    assert {off, other} <= {row.tool for row in router.unavailable}
    await router.close()


async def test_programs_that_go_on_by_themselves_count_against_the_number_allowed(tmp_path: Path) -> None:
    config = DeviceConfig(roots=(tmp_path,), limits=Limits(max_processes=2))
    router = build_router(config, tmp_path / "state", "limits")

    async def launch() -> Result:
        parameters = {"app_name": "sleep", "args": ["300"]}
        return await router.run(
            Command(tool_name="launch_application", tool_type="action", parameters=parameters), 10
        )

    started = [(await launch()).result["pid"] for _ in range(2)]
    try:
        assert "denied_by_device" in ((await launch()).error or "")
        first = psutil.Process(started[0])
        first.kill()
        await asyncio.to_thread(first.wait, PATIENCE_S)
        started.append((await launch()).result["pid"])
    finally:
        for pid in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        await router.close()


def test_work_that_never_ends_keeps_neither_other_work_nor_the_process_waiting() -> None:
    never = threading.Event()
    threads = WorkerThreads(2, "never", stuck_after_s=0.02)
    hung = [threads.submit(never.wait) for _ in range(5)]
    try:
        assert threads.submit(lambda: "served").result(5) == "served"
        assert all(one.daemon for one in threading.enumerate() if one.name == "never")
        threads.shutdown(wait=True, cancel_futures=True)
    finally:
        never.set()
    assert all(one.result(5) for one in hung)


async def test_who_waits_no_longer_for_a_folder_leaves_no_thread_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = threading.Event()

    @contextlib.contextmanager
    def endless(folder: int) -> Iterator[Iterator[SimpleNamespace]]:
        yield (SimpleNamespace(name="x") for _ in range(10**8))
        left.set()

    router = build_router(DeviceConfig(roots=(tmp_path,)), tmp_path / "state", "limits")
    monkeypatch.setattr(listing, "os", SimpleNamespace(**{**vars(os), "scandir": endless}))
    parameters = {"path": str(tmp_path), "glob": "no*"}
    wanted = Command(tool_name="list_directory", tool_type="data_collection", parameters=parameters)
    answer = await router.run(wanted, 0.05)
    assert "did not end within 0.05 s and is not waited for any more" in (answer.error or "")
    assert await asyncio.to_thread(left.wait, PATIENCE_S)
    await router.close()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_the_device_clients_memory_is_in_no_core_dump_and_its_programs_are_as_ever() -> None:
    asked = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)"
    code = (
        "import subprocess, sys; from core.environment import keep_memory_private; "
        f"keep_memory_private(); {asked}; subprocess.run([sys.executable, '-c', {asked!r}], check=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == ["0", "1"]


async def test_check_says_which_names_in_tools_off_switch_nothing_off(tmp_path: Path) -> None:
    config = DeviceConfig(roots=(tmp_path,), tools_off=frozenset({"shell_excute", "write_file"}))
    router = build_router(config, tmp_path / "state", "limits")
    found = facts("limits", config, router, CredentialStore(tmp_path / "state"))
    assert found["tools_off_unknown"] == ["shell_excute"]
    assert "shell_excute" in report(found)
    await router.close()
