"""What the guard keeps files and folders from, attacked through the router."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from core.aip.messages import Command, Result, ResultStatus
from core.device import DeviceConfig, Router, build_router
from core.device.config import Limits
from core.device.device_store import DATABASE
from tests.fakes.patience import PATIENCE_S
from tests.fakes.work import bytes_read, most_calls

READS = {"read_file", "list_directory", "list_processes", "shell_execute_read", "get_system_info", "SYS_INFO"}
HAS_SANDBOX = shutil.which("bwrap") is not None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return tmp_path / "outside"


@pytest.fixture
async def router(root: Path, tmp_path: Path) -> AsyncIterator[Router]:
    built = build_router(DeviceConfig(roots=(root,)), tmp_path / "state", "files")
    yield built
    await built.close()


async def call(router: Router, tool: str, **arguments: Any) -> Result:
    kind = "data_collection" if tool in READS else "action"
    command = Command.model_validate({"tool_name": tool, "tool_type": kind, "parameters": arguments})
    return await router.run(command, 20)


async def error_of(router: Router, tool: str, **arguments: Any) -> str:
    result = await call(router, tool, **arguments)
    assert result.status is ResultStatus.FAILURE, result.result
    return result.error or ""


def content_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


async def test_a_folder_is_listed_by_name_with_what_each_entry_is(router: Router, root: Path) -> None:
    (root / "b.log").write_bytes(b"12345")
    (root / "b.log").chmod(0o640)
    (root / "a").mkdir()
    (root / "c").symlink_to("/etc/shadow")
    os.mkfifo(root / "d")
    found = (await call(router, "list_directory", path=str(root))).result
    assert [(row["name"], row["kind"]) for row in found["entries"]] == [
        *(("a", "folder"), ("b.log", "file"), ("c", "link"), ("d", "fifo")),
    ]
    (row,) = (await call(router, "list_directory", path=str(root), glob="*.log")).result["entries"]
    assert (row["size_bytes"], row["mode"], row["target"]) == (5, "0640", None)
    (link,) = (await call(router, "list_directory", path=str(root), glob="c")).result["entries"]
    assert link["target"] == "/etc/shadow"
    assert (await call(router, "list_directory", path=str(root), glob="*.none")).result["entries"] == []


async def test_a_name_that_is_not_text_is_listed_all_the_same(router: Router, root: Path) -> None:
    os.close(os.open(os.fsencode(root) + b"/bad\xff", os.O_CREAT | os.O_WRONLY))
    found = (await call(router, "list_directory", path=str(root))).result
    assert [row["name"] for row in found["entries"]] == ["bad\\xff"]


async def test_a_large_folder_is_cut_and_says_so(router: Router, root: Path) -> None:
    for number in range(30):
        (root / f"{number:02}").touch()
    found = (await call(router, "list_directory", path=str(root), max_rows=10)).result
    assert [row["name"] for row in found["entries"]] == [f"{number:02}" for number in range(10)]
    assert (found["total"], found["truncated"]) == (30, True)


async def test_what_is_no_folder_is_not_listed(router: Router, root: Path) -> None:
    (root / "file").touch()
    assert "not a folder" in await error_of(router, "list_directory", path=str(root / "file"))
    assert (await error_of(router, "list_directory", path=str(root / "no"))).startswith("not_found: ")
    assert (await error_of(router, "list_directory", path=str(root), glob="../*")).startswith("invalid_arg")


WAYS = ["plain", "dots", "link", "proc_root", "proc_cwd", "proc_fd", "chain", "double_slash"]


def way_out(way: str, root: Path, outside: Path) -> str:
    (root / "out").symlink_to(outside)
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("out")
    ways = {
        "plain": str(outside),
        "dots": f"{root}/x/../../outside",
        "link": f"{root}/out",
        "proc_root": f"/proc/self/root{outside}",
        "proc_cwd": f"/proc/self/cwd/{os.path.relpath(outside)}",
        "proc_fd": f"/proc/{os.getpid()}/root{outside}",
        "chain": f"{root}/one",
        "double_slash": f"/{outside}",
    }
    return ways[way]


@pytest.mark.parametrize("way", WAYS)
async def test_no_way_leads_any_tool_out_of_the_roots(
    router: Router, root: Path, outside: Path, way: str
) -> None:
    path = way_out(way, root, outside)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"file_path": f"{path}/secret"}),
        ("write_file", {"file_path": f"{path}/secret", "content": "owned"}),
        ("write_file", {"file_path": f"{path}/new", "content": "owned"}),
        ("list_directory", {"path": path}),
        ("shell_execute", {"command": "touch owned", "working_directory": path}),
        ("EXEC_CLI", {"command": "touch owned", "working_directory": path}),
    ]
    if HAS_SANDBOX:
        calls.append(("shell_execute_read", {"command": "cat secret", "working_directory": path}))
    for tool, arguments in calls:
        assert (await error_of(router, tool, **arguments)).startswith("path_not_allowed: "), tool
    assert content_of(outside) == {"secret": "secret"}


@pytest.mark.parametrize("tool", ["read_file", "write_file", "list_directory"])
async def test_a_folder_swapped_back_and_forth_never_leads_out(
    router: Router, root: Path, outside: Path, tool: str
) -> None:
    (root / "real").mkdir()
    (root / "real" / "secret").write_text("harmless")
    (root / "link").symlink_to(outside)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            os.rename(root / "real", root / "target")
            os.rename(root / "target", root / "real")
            os.rename(root / "link", root / "target")
            os.rename(root / "target", root / "link")

    swapping = threading.Thread(target=swap)
    swapping.start()
    path = str(root / "target")
    arguments: dict[str, dict[str, Any]] = {
        "read_file": {"file_path": f"{path}/secret"},
        "write_file": {"file_path": f"{path}/secret", "content": "harmless"},
        "list_directory": {"path": path},
    }
    try:
        for _ in range(60):
            result = await call(router, tool, **arguments[tool])
            if result.status is ResultStatus.SUCCESS and tool == "read_file":
                assert result.result["content"] == "harmless"
    finally:
        over.set()
        swapping.join()
    assert content_of(outside) == {"secret": "secret"}


async def test_writing_to_a_hard_link_leaves_the_other_name_alone(
    router: Router, root: Path, outside: Path
) -> None:
    os.link(outside / "secret", root / "same")
    written = await call(router, "write_file", file_path=str(root / "same"), content="new")
    assert written.error is None
    assert ((outside / "secret").read_text(), (root / "same").read_text()) == ("secret", "new")
    # And says so: who writes /etc/hosts may mean the file under all of its names.
    assert written.result["note"] == "The file had 1 other name, which keeps the content from before"
    again = await call(router, "write_file", file_path=str(root / "same"), content="newer")
    assert "note" not in again.result
    os.link(root / "same", root / "third")
    restored = await call(router, "restore_file", undo_id=again.result["undo"])
    assert "1 other name" in restored.result["note"]


async def test_a_hard_link_to_a_closed_file_is_as_closed(root: Path, tmp_path: Path) -> None:
    (root / "device.toml").write_text("roots = []")
    os.link(root / "device.toml", root / "innocent")
    config = DeviceConfig(roots=(root,)).closing(root / "device.toml")
    router = build_router(config, tmp_path / "state", "files")
    try:
        for name in ("device.toml", "innocent"):
            error = await error_of(router, "read_file", file_path=str(root / name))
            assert error.startswith("path_not_allowed: ")
    finally:
        await router.close()


async def test_what_would_block_or_never_end_is_refused_at_once(router: Router, root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "loop").symlink_to("loop")
    (root / "zero").symlink_to("/dev/zero")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(root / "socket"))
    if os.getuid() == 0:
        os.mknod(root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    try:
        for name in ("fifo", "loop", "zero", "socket", *(("device",) if os.getuid() == 0 else ())):
            for tool, more in (("read_file", {}), ("write_file", {"content": "x"})):
                async with asyncio.timeout(PATIENCE_S):
                    assert await error_of(router, tool, file_path=str(root / name), **more)
    finally:
        listening.close()
    assert stat.S_ISFIFO((root / "fifo").stat().st_mode)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="makes another user's link")
async def test_another_users_link_in_a_shared_folder_is_not_followed(router: Router, root: Path) -> None:
    mine, shared = root / "mine", root / "shared"
    mine.write_text("old")
    shared.mkdir()
    shared.chmod(0o1777)
    for name, owner in (("planted", 65534), ("own", os.geteuid())):
        (shared / name).symlink_to(mine)
        os.lchown(shared / name, owner, owner)
    (root / "around").symlink_to("shared/../shared/planted")
    for path in (shared / "planted", root / "around"):
        said = await error_of(router, "write_file", file_path=str(path), content="new")
        assert "a link that another user put" in said
    assert mine.read_text() == "old"
    assert (await call(router, "write_file", file_path=str(shared / "own"), content="new")).error is None
    assert mine.read_text() == "new"


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("read_file", {}),
        ("list_directory", {}),
        ("write_file", {"content": ""}),
        ("shell_execute", {"command": "true"}),
    ],
)
async def test_a_path_of_a_megabyte_is_refused_before_it_is_resolved(
    router: Router, root: Path, tool: str, more: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved: list[str] = []
    real = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda path, **how: resolved.append(path) or real(path, **how))
    name = {"list_directory": "path", "shell_execute": "working_directory"}.get(tool, "file_path")
    with most_calls(2_000):
        said = await error_of(router, tool, **{name: str(root) + "/a" * 500_000}, **more)
    assert "1000" in said
    assert len(said) < 400
    assert max(map(len, resolved), default=0) < 10_000


async def test_a_huge_sparse_file_is_read_in_bounded_parts(router: Router, root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    before = bytes_read()
    part = (await call(router, "read_file", file_path=str(root / "huge"), offset=(1 << 40) - 10)).result
    assert (len(part["content"]), part["size"], part["truncated"]) == (10, 1 << 40, False)
    first = (await call(router, "read_file", file_path=str(root / "huge"), max_bytes=5)).result
    assert (first["content"], first["truncated"]) == ("\0" * 5, True)
    wide = {"file_path": str(root / "huge"), "content": "x", "mode": "append"}
    assert (await error_of(router, "write_file", **wide)).startswith("denied_by_device: ")
    assert bytes_read() - before < 1 << 20


async def test_every_limit_of_the_device_holds_for_every_console(root: Path, tmp_path: Path) -> None:
    limits = Limits(max_argument_bytes=1024, max_output_bytes=2048, max_processes=1, shell_timeout_s=5)
    config = DeviceConfig(roots=(root,), limits=limits, tools_off=frozenset({"EXEC_CLI", "undo"}))
    router = build_router(config, tmp_path / "state", "limited")
    try:
        assert "switched off" in await error_of(router, "EXEC_CLI", command="true")
        assert "switched off" in await error_of(router, "undo", undo_id="x" * 20)
        huge = await error_of(router, "write_file", file_path=f"{root}/x", content="y" * 2000)
        assert huge.startswith("too_large: ")
        for seconds in (6, float("nan"), float("inf")):
            late = await error_of(router, "shell_execute", command="touch x", timeout=seconds)
            assert late.startswith("invalid_arguments: timeout")
        for number in range(100):
            (root / f"{number:0100}").touch()
        listed = await call(router, "list_directory", path=str(root))
        assert listed.result["truncated"] is True
        assert listed.result["total"] == 100
        rows = listed.result["entries"]
        assert [row["name"] for row in rows] == [f"{number:0100}" for number in range(len(rows))] != []
        assert len(listed.model_dump_json()) < 2500
        assert not (root / "x").exists()
    finally:
        await router.close()


@pytest.mark.skipif(not HAS_SANDBOX, reason="needs bubblewrap")
async def test_no_more_processes_run_at_once_than_the_device_allows(root: Path, tmp_path: Path) -> None:
    config = DeviceConfig(roots=(root,), limits=Limits(max_processes=2))
    router = build_router(config, tmp_path / "state", "limited")
    try:
        ended = await asyncio.gather(
            *(call(router, "shell_execute_read", command="sleep 0.7") for _ in range(4))
        )
        refused = [one.error for one in ended if one.error]
        assert len(refused) == 2
        assert all("this device allows 2 at once" in one for one in refused)
        assert (await call(router, "shell_execute_read", command="true")).error is None
    finally:
        await router.close()


async def test_undo_runs_the_recorded_inverse(router: Router, root: Path) -> None:
    (root / "a").write_text("old")
    undo_id = (await call(router, "write_file", file_path=str(root / "a"), content="new")).result["undo"]
    (root / "a").write_text("edited")
    assert "has changed since" in await error_of(router, "undo", undo_id=undo_id)
    (root / "a").write_text("new")
    done = await call(router, "undo", undo_id=undo_id)
    assert done.result["undone"] == "write_file"
    assert done.result["result"]["file_path"] == str(root / "a")
    assert (root / "a").read_text() == "old"
    for tool in ("undo", "restore_file"):
        assert (await error_of(router, tool, undo_id=undo_id)).startswith("not_found: ")


async def test_a_crash_between_keeping_and_writing_leaves_the_file_and_refuses_the_undo(
    root: Path, tmp_path: Path
) -> None:
    (root / "a").write_text("old")
    code = f"""
import os, sys
from pathlib import Path
from core.device import DeviceConfig
from core.device.fs import file_ops
from core.device.config import Undo
from core.device.device_store import DeviceStore
from core.device.guard import Guard
from core.device.undo import UndoStore
undo = UndoStore(DeviceStore(Path({str(tmp_path)!r}) / "state"), Undo())
held = Guard(DeviceConfig(roots=(Path({str(root)!r}),))).hold({str(root / "a")!r})
file_ops.DirHandle.replace = lambda *words: os._exit(9)
file_ops.write(held, b"new", "overwrite", undo)
"""
    here = Path(__file__).parents[3]
    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], cwd=here, timeout=PATIENCE_S
    )
    assert ended.returncode == 9
    router = build_router(DeviceConfig(roots=(root,)), tmp_path / "state", "files")
    try:
        (entry,) = (tmp_path / "state" / "undo").glob("*.old")
        # The new content that never got its file's name is cleared away beside the start.
        for thread in threading.enumerate():
            if thread.name == "undo":
                await asyncio.to_thread(thread.join, PATIENCE_S)
        assert os.listdir(root) == ["a"]
        assert "has changed since" in await error_of(router, "undo", undo_id=entry.stem)
        assert (root / "a").read_text() == "old"
    finally:
        await router.close()


async def test_a_crash_in_the_middle_of_an_undo_leaves_it_possible(root: Path, tmp_path: Path) -> None:
    first = build_router(DeviceConfig(roots=(root,)), tmp_path / "state", "files")
    (root / "a").write_text("old")
    undo_id = (await call(first, "write_file", file_path=str(root / "a"), content="new")).result["undo"]
    await first.close()
    # What a process that ended right after claiming leaves.
    with closing(sqlite3.connect(tmp_path / "state" / DATABASE)) as connection, connection:
        connection.execute("UPDATE undo_entries SET state = 'claimed'")
    second = build_router(DeviceConfig(roots=(root,)), tmp_path / "state", "files")
    try:
        assert (await call(second, "undo", undo_id=undo_id)).error is None
        assert (root / "a").read_text() == "old"
    finally:
        await second.close()


async def test_every_answer_has_the_shape_that_its_tool_declares(router: Router, root: Path) -> None:
    (root / "file").write_text("x")
    kinds = ("memory", "disk", "cpu", "network", "hardware", "os")
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("get_system_info", {"info_type": kind}) for kind in kinds),
        *(("SYS_INFO", {"info_type": kind}) for kind in kinds),
        ("list_processes", {}),
        ("list_directory", {"path": str(root)}),
        ("read_file", {"file_path": str(root / "file")}),
        ("write_file", {"file_path": str(root / "file"), "content": "y"}),
        ("shell_execute", {"command": "echo x"}),
        ("EXEC_CLI", {"command": "false"}),
        ("launch_application", {"app_name": "true"}),
    ]
    if HAS_SANDBOX:
        calls.append(("shell_execute_read", {"command": "echo x > no; true"}))
    schemas = {info.tool_name: info.output_schema for info in router.tools()}
    for tool, arguments in calls:
        result = await call(router, tool, **arguments)
        assert result.error is None, (tool, result.error)
        jsonschema.validate(result.result, schemas[tool] or {})
