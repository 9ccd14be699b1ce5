"""The device's store: private, atomic between clients, durable, and never silent about lost rows."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from core.aip.messages import Command
from core.device import device_store
from core.device.build import build_router
from core.device.config import DeviceConfig
from core.device.device_store import DATABASE, EXPIRY_S, SET_ASIDE, DeviceStore, doubtful_until
from core.errors import BadInput, DeviceError
from tests.fakes.small_disk import fill, small_disk_at
from tests.fakes.watched_syncs import watching_syncs


def note(connection: sqlite3.Connection, approval: str) -> None:
    connection.execute("INSERT INTO used_approvals VALUES (?, 'now', 'then')", (approval,))


def noted(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT approval FROM used_approvals")}


def filled(folder: Path, rows: int = 1) -> Path:
    """A store's file with so many rows, its client ended."""
    store = DeviceStore(folder)
    for number in range(rows):
        store.do(lambda connection, number=number: note(connection, f"row {number:06}"))
    store.close()
    return folder / DATABASE


def reopened(folder: Path) -> tuple[set[str], float]:
    """The rows that the next client finds, and until when it doubts that they are all."""
    store = DeviceStore(folder)
    answer = store.do(lambda connection: (noted(connection), doubtful_until(connection, "calls")))
    store.close()
    return answer


def test_files_are_for_this_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = DeviceStore(tmp_path / "state")
        store.do(lambda connection: note(connection, "a"))
        paths = list((tmp_path / "state").rglob("*"))
        assert {path.name for path in paths} >= {DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"}
        assert not [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077]
    finally:
        os.umask(before)
    store.close()


def test_rights_that_others_were_given_are_taken_away(tmp_path: Path) -> None:
    path = filled(tmp_path)
    path.chmod(0o666)
    assert reopened(tmp_path) == ({"row 000000"}, 0.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", [DATABASE, f"{DATABASE}-wal", "clients"])
def test_a_link_in_place_of_a_file_is_not_followed(tmp_path: Path, name: str) -> None:
    elsewhere = filled(tmp_path / "elsewhere")
    filled(tmp_path / "state")
    path = tmp_path / "state" / name
    if name == "clients":
        elsewhere = tmp_path / "elsewhere" / "clients"
        for lock in path.iterdir():
            lock.unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    path.symlink_to(elsewhere)
    before = elsewhere.stat().st_mtime_ns
    with pytest.raises(BadInput):
        DeviceStore(tmp_path / "state").open()
    assert elsewhere.stat().st_mtime_ns == before


def test_a_name_that_leads_nowhere_makes_no_file_there(tmp_path: Path) -> None:
    (tmp_path / DATABASE).symlink_to(tmp_path / "made by a link")
    with pytest.raises(BadInput, match="not a regular file"):
        DeviceStore(tmp_path).open()
    assert not (tmp_path / "made by a link").exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", [DATABASE, "clients"])
def test_what_another_user_made_in_a_shared_folder_is_refused(tmp_path: Path, name: str) -> None:
    path = filled(tmp_path).with_name(name)
    os.chown(path, 12345, 12345)
    with pytest.raises(BadInput, match="another user"):
        DeviceStore(tmp_path).open()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel that counts is Linux")
def test_a_durable_transaction_is_on_the_disk_before_it_returns_and_no_other_waits_for_it(
    memory_path: Path,
) -> None:
    store = DeviceStore(memory_path)
    store.do(lambda connection: note(connection, "first"), durable=True)
    _, syncs = watching_syncs(lambda: store.do(lambda connection: note(connection, "a"), durable=True))
    assert syncs == [f"{DATABASE}-wal"]
    _, syncs = watching_syncs(lambda: store.do(lambda connection: note(connection, "b")))
    assert syncs == []
    store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel that counts is Linux")
def test_the_databases_name_is_on_the_disk_before_anything_is_noted(memory_path: Path) -> None:
    store = DeviceStore(memory_path / "state")
    _, syncs = watching_syncs(store.open)
    assert "state" in syncs
    store.close()


def test_an_error_takes_the_whole_transaction_back(tmp_path: Path) -> None:
    store = DeviceStore(tmp_path)

    def half(connection: sqlite3.Connection) -> None:
        note(connection, "half")
        raise KeyError("half")

    with pytest.raises(KeyError):
        store.do(half)
    assert store.do(noted) == set()
    store.close()


async def test_work_is_done_in_its_order_and_off_the_loop(tmp_path: Path) -> None:
    store = DeviceStore(tmp_path)
    order: list[int] = []
    await asyncio.gather(*(store.run(lambda _, number=number: order.append(number)) for number in range(20)))
    assert order == list(range(20))
    store.close()
    with pytest.raises(DeviceError, match="closed"):
        await store.run(noted)
    with pytest.raises(DeviceError, match="closed"):
        store.do(noted)


def test_a_client_that_keeps_the_file_locked_is_waited_for_and_then_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path)
    monkeypatch.setattr(device_store, "_BUSY_S", 0.05)
    store = DeviceStore(tmp_path)
    store.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DeviceError, match="another client has kept it locked"):
            store.do(noted)
        other.execute("ROLLBACK")
    assert store.do(noted) == {"row 000000"}
    store.close()


def test_a_disk_that_does_not_answer_is_not_waited_for_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_store, "_TURN_S", 0.05)
    store = DeviceStore(tmp_path)
    store.open()

    def inside(_: sqlite3.Connection) -> None:
        with pytest.raises(DeviceError, match="does not answer"):
            store.do(noted)

    store.do(inside)
    store.close()


def test_a_client_is_alive_until_it_ends(tmp_path: Path) -> None:
    first, second = DeviceStore(tmp_path), DeviceStore(tmp_path)
    first.open()
    second.open()
    assert first.is_alive(first.client)
    assert second.is_alive(first.client)
    first.close()
    assert not second.is_alive(first.client)
    assert not second.is_alive("0123456789abcdef")
    second.close()
    assert [path.name for path in (tmp_path / "clients").iterdir()] == ["opening"]


def test_a_client_of_which_nothing_can_be_learnt_now_counts_as_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = DeviceStore(tmp_path), DeviceStore(tmp_path)
    first.open()
    second.open()

    def without_a_free_number(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", without_a_free_number)
        assert second.is_alive(first.client)
    first.close()
    assert not second.is_alive(first.client)
    second.close()


def test_lock_files_of_killed_clients_do_not_pile_up(tmp_path: Path) -> None:
    filled(tmp_path)
    for number in range(5):
        (tmp_path / "clients" / f"{number}.lock").write_text("0" * 64)
    reopened(tmp_path)
    assert [path.name for path in (tmp_path / "clients").iterdir()] == ["opening"]


def test_a_client_on_another_machine_keeps_this_one_out(tmp_path: Path) -> None:
    first = DeviceStore(tmp_path)
    first.open()
    (tmp_path / "clients" / f"{first.client}.lock").write_text("0" * 64)
    with pytest.raises(BadInput, match="another machine"):
        DeviceStore(tmp_path).open()
    first.close()
    assert reopened(tmp_path) == (set(), 0.0)


DAMAGES = {
    "its end is gone": lambda data: data[: len(data) // 2],
    "nothing is left": lambda data: b"",
    "no database": lambda data: b"What a pity." * 1000,
    "zeros": lambda data: bytes(len(data)),
    "another database": lambda data: data[:68] + b"QJNL" + data[72:],
    "pages of zeros": lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_set_aside_and_what_is_missing_is_doubted(tmp_path: Path, damage: str) -> None:
    path = filled(tmp_path, 2000)
    damaged = DAMAGES[damage](path.read_bytes())
    path.write_bytes(damaged)
    started = time.time()
    rows, until = reopened(tmp_path)
    assert until >= started + EXPIRY_S
    assert (tmp_path / SET_ASIDE).read_bytes() == damaged
    assert damage != "pages of zeros" or rows
    # The doubt lasts, and the new file is a sound one.
    assert reopened(tmp_path) == (rows, until)


def test_damage_is_not_set_aside_under_a_client_that_still_writes_there(tmp_path: Path) -> None:
    path = filled(tmp_path)
    other = DeviceStore(tmp_path)
    other.open()
    path.write_bytes(b"What a pity." * 1000)
    with pytest.raises(DeviceError, match="another client uses it"):
        DeviceStore(tmp_path).open()
    other.close()
    assert reopened(tmp_path)[1] > 0


def test_damage_that_is_met_later_refuses_work(tmp_path: Path) -> None:
    filled(tmp_path, 2000)
    store = DeviceStore(tmp_path)
    store.do(lambda connection: connection.execute("PRAGMA cache_size = 1").fetchall())
    with open(tmp_path / DATABASE, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(DeviceError, match="damaged; start"):
        store.do(noted)
    store.close()
    assert reopened(tmp_path)[1] > 0


@pytest.mark.parametrize("at", range(12))
def test_an_interruption_while_damage_is_set_aside_leaves_no_file_without_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    path = filled(tmp_path, 2000)
    path.write_bytes(DAMAGES["pages of zeros"](path.read_bytes()))
    left, replace, unlink = [at], os.replace, Path.unlink

    def step() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.EIO, "the power went")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *paths: (step(), replace(*paths)))
        patch.setattr(Path, "unlink", lambda path, missing_ok=False: (step(), unlink(path, missing_ok)))
        store = DeviceStore(tmp_path)
        with suppress(DeviceError):
            store.open()
        store.close()
    assert reopened(tmp_path)[1] > 0


def test_the_log_of_a_killed_client_is_not_lost(tmp_path: Path) -> None:
    store = DeviceStore(tmp_path / "killed")
    store.do(lambda connection: note(connection, "in the log"))
    (tmp_path / "next" / "clients").mkdir(parents=True)
    for end in ("", "-wal"):
        (tmp_path / "next" / f"{DATABASE}{end}").write_bytes(
            (tmp_path / "killed" / f"{DATABASE}{end}").read_bytes()
        )
    assert reopened(tmp_path / "next") == ({"in the log"}, 0.0)
    store.close()


@pytest.mark.parametrize("version", [1, 3])
def test_another_versions_file_is_named_with_what_to_do_and_left_alone(tmp_path: Path, version: int) -> None:
    path = filled(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    words = f"has format {version}, and this version opens format 2 only.* move the state folder away"
    with pytest.raises(BadInput, match=words):
        DeviceStore(tmp_path).open()
    assert path.read_bytes() == before
    assert not (tmp_path / SET_ASIDE).exists()


@pytest.mark.parametrize("name", ["calls", "approvals"])
def test_records_of_a_version_before_the_store_are_not_passed_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "calls-0.jsonl").write_text("{}")
    with pytest.raises(
        BadInput, match=r"records that this version does not read.* move the state folder away"
    ):
        DeviceStore(tmp_path).open()
    assert not (tmp_path / DATABASE).exists()


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(BadInput, match="cannot keep the record of actions"):
        DeviceStore(tmp_path / "state").open()


def test_a_folder_with_too_long_a_path_is_named_before_anything_is_made(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 200) / ("b" * 200) / ("c" * 200)
    with pytest.raises(BadInput, match="longer than SQLite opens"):
        DeviceStore(folder).open()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_refuses_work_and_costs_no_row(tmp_path: Path) -> None:
    with small_disk_at(tmp_path / "disk", "512k") as disk:
        filled(disk)
        store = DeviceStore(disk)
        store.open()
        filler = fill(disk)
        with pytest.raises(DeviceError, match="No space left"):
            store.do(lambda connection: [note(connection, f"{n}" * 1000) for n in range(100)])
        store.close()
        filler.unlink()
        filler = fill(disk)
        with pytest.raises(DeviceError, match="No space left"):
            DeviceStore(disk).open()
        filler.unlink()
        assert reopened(disk) == ({"row 000000"}, 0.0)


async def test_no_tool_reads_or_writes_the_store(tmp_path: Path) -> None:
    """Not even where a root holds the state folder, nor by a link or another name of the file."""
    state = tmp_path / "state"
    filled(state)
    router = build_router(DeviceConfig(roots=(tmp_path,)), state, "d1")
    (tmp_path / "link").symlink_to(state)
    (tmp_path / "name.db").symlink_to(state / DATABASE)
    names = [state / name for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "clients/opening")]
    before = (state / DATABASE).stat().st_mtime_ns
    try:
        for path in (*names, tmp_path / "link" / DATABASE, tmp_path / "name.db"):
            for tool, kind, more in (
                ("read_file", "data_collection", {}),
                ("write_file", "action", {"content": "x"}),
            ):
                command = Command(tool_name=tool, tool_type=kind, call_id="c")
                command.parameters = {"file_path": str(path), **more}
                result = await router.run(command, 20)
                assert (result.error or "").startswith("path_not_allowed: "), (path, tool, result)
        look = Command(tool_name="shell_execute_read", tool_type="data_collection", call_id="c")
        look.parameters = {"command": f"cat {state / DATABASE}; ls {state}; echo x >> {state / DATABASE}"}
        seen = await router.run(look, 20)
        assert "SQLite format" not in str(seen.result)
        assert DATABASE not in str((seen.result or {}).get("stdout", ""))
        assert (state / DATABASE).stat().st_mtime_ns == before
    finally:
        await router.close()


async def test_a_read_only_disk_leaves_a_device_that_observes(tmp_path: Path) -> None:
    with small_disk_at(tmp_path / "disk", "2m") as disk:
        filled(disk / "state")
        (disk / "state" / "undo").mkdir()
        (tmp_path / "a").write_text("seen")
        remount = ["mount", "-o", "remount,ro", str(disk)]
        await asyncio.to_thread(subprocess.run, remount, check=True)
        router = build_router(DeviceConfig(roots=(tmp_path,)), disk / "state", "d1")
        try:
            look = Command(tool_name="read_file", tool_type="data_collection", call_id="c")
            look.parameters = {"file_path": str(tmp_path / "a")}
            assert (await router.run(look, 20)).error is None
            write = Command(tool_name="write_file", tool_type="action", call_id="d")
            write.parameters = {"file_path": str(tmp_path / "a"), "content": "new"}
            assert "cannot keep the record" in ((await router.run(write, 20)).error or "")
            assert (tmp_path / "a").read_text() == "seen"
        finally:
            await router.close()
