"""What the device keeps so that a write can be undone."""

from __future__ import annotations

import errno
import sqlite3
import stat
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from core.device import undo
from core.device.config import Undo
from core.device.device_store import DATABASE, DeviceStore
from core.device.undo import UndoStore, temporary_name
from core.errors import BadInput, Refused
from tests.fakes.patience import PATIENCE_S
from tests.fakes.watched_syncs import watching_syncs

DAY = 86_400.0


def rows(folder: Path, change: str = "") -> list[tuple[str, str]]:
    """The id and state of each entry, after a change to the rows."""
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        if change:
            connection.execute(change)
        return connection.execute("SELECT undo_id, state FROM undo_entries ORDER BY seq").fetchall()


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_an_entry_is_gone_after_seven_days(tmp_path: Path) -> None:
    clock = Clock()
    store = UndoStore(DeviceStore(tmp_path), Undo(), clock)
    undo_id = store.keep(Path("/x"), b"old", 0o644, "0" * 64)
    clock.now += 7 * DAY + 1
    with pytest.raises(BadInput, match="expired"):
        store.claim(undo_id)
    assert list((tmp_path / "undo").iterdir()) == []


def test_the_oldest_entries_make_room_for_new_ones(tmp_path: Path) -> None:
    clock = Clock()
    store = UndoStore(DeviceStore(tmp_path), Undo(max_bytes=100), clock)
    ids = []
    for _ in range(3):
        clock.now += 1
        ids.append(store.keep(Path("/x"), b"x" * 40, 0o644, "0" * 64))
    with pytest.raises(BadInput):
        store.claim(ids[0])
    assert store.claim(ids[1])[1] == b"x" * 40
    assert store.claim(ids[2])[1] == b"x" * 40


def test_two_clients_share_the_quota(tmp_path: Path) -> None:
    clock = Clock()
    stores = [UndoStore(DeviceStore(tmp_path), Undo(max_bytes=100), clock) for _ in range(2)]
    ids = []
    for number in range(6):
        clock.now += 1
        ids.append(stores[number % 2].keep(Path("/x"), b"x" * 40, 0o644, "0" * 64))
    assert {path.stem for path in (tmp_path / "undo").iterdir()} == set(ids[-2:])


def test_content_larger_than_the_quota_is_refused(tmp_path: Path) -> None:
    store = UndoStore(DeviceStore(tmp_path), Undo(max_bytes=10))
    with pytest.raises(Refused):
        store.keep(Path("/x"), b"x" * 11, 0o644, "0" * 64)


def test_two_claims_of_one_entry_cannot_both_succeed(tmp_path: Path) -> None:
    first, second = (UndoStore(DeviceStore(tmp_path), Undo()) for _ in range(2))
    undo_id = first.keep(Path("/x"), b"old", 0o644, "0" * 64)
    second.claim(undo_id)
    with pytest.raises(BadInput, match="used"):
        first.claim(undo_id)


def test_kept_content_is_private_and_its_damage_is_noticed(tmp_path: Path) -> None:
    store = UndoStore(DeviceStore(tmp_path), Undo())
    undo_id = store.keep(Path("/x"), b"old", 0o644, "0" * 64)
    kept = tmp_path / "undo" / f"{undo_id}.old"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "undo").stat().st_mode) == 0o700
    kept.write_bytes(b"odd")
    with pytest.raises(BadInput, match="digest"):
        store.claim(undo_id)


@pytest.mark.parametrize("undo_id", ["../../etc/passwd", "x" * 15, "a/b" * 8, "x" * 65])
def test_what_is_not_an_undo_id_never_becomes_a_path(tmp_path: Path, undo_id: str) -> None:
    store = UndoStore(DeviceStore(tmp_path), Undo())
    with pytest.raises(BadInput, match="not an undo id"):
        store.claim(undo_id)
    with pytest.raises(BadInput, match="not an undo id"):
        store.entry(undo_id)


def test_what_a_crash_left_behind_is_cleared_away(tmp_path: Path) -> None:
    store = UndoStore(DeviceStore(tmp_path), Undo())
    kept, cut = (store.keep(Path("/x"), b"old", 0o644, "0" * 64) for _ in range(2))
    del store
    rows(tmp_path, f"UPDATE undo_entries SET state = 'writing' WHERE undo_id = '{cut}'")
    (tmp_path / "undo" / f"{'o' * 24}.old").write_bytes(b"no entry")
    store = UndoStore(DeviceStore(tmp_path), Undo())
    assert rows(tmp_path) == [(kept, "kept")]
    assert [path.name for path in (tmp_path / "undo").iterdir()] == [f"{kept}.old"]
    assert store.claim(kept)[1] == b"old"


def test_what_could_not_be_kept_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = UndoStore(DeviceStore(tmp_path), Undo())

    def full(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(undo, "sync_folder", full)
    with pytest.raises(OSError, match="No space"):
        store.keep(Path("/x"), b"old", 0o644, "0" * 64)
    assert list((tmp_path / "undo").iterdir()) == []


def test_what_cannot_be_read_now_is_kept_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undo_id = UndoStore(DeviceStore(tmp_path), Undo()).keep(Path("/x"), b"old", 0o644, "0" * 64)

    def too_many(path: Path) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", too_many)
        store = UndoStore(DeviceStore(tmp_path), Undo())
        with pytest.raises(BadInput, match="Too many open files"):
            store.claim(undo_id)
    assert store.claim(undo_id)[1] == b"old"


def test_what_a_later_version_kept_is_left_alone(tmp_path: Path) -> None:
    undo_id = UndoStore(DeviceStore(tmp_path), Undo()).keep(Path("/x"), b"old", 0o644, "0" * 64)
    rows(tmp_path, "UPDATE undo_entries SET entry = replace(entry, 'write_file', 'write_registry')")
    store = UndoStore(DeviceStore(tmp_path), Undo())
    with pytest.raises(BadInput):
        store.entry(undo_id)
    with pytest.raises(BadInput, match="cannot be read"):
        store.claim(undo_id)
    assert rows(tmp_path) == [(undo_id, "kept")]
    assert (tmp_path / "undo" / f"{undo_id}.old").exists()


def test_no_client_takes_for_left_over_what_another_is_at(tmp_path: Path) -> None:
    first = UndoStore(DeviceStore(tmp_path), Undo(max_bytes=100))
    restoring = first.keep(tmp_path / "file", b"x" * 40, 0o644, "0" * 64)
    first.claim(restoring)
    writing = first.keep(tmp_path / "file", b"x" * 40, 0o644, "0" * 64)
    rows(tmp_path, f"UPDATE undo_entries SET state = 'writing' WHERE undo_id = '{writing}'")
    temporary = [tmp_path / temporary_name(undo_id) for undo_id in (restoring, writing)]
    for path in temporary:
        path.write_text("at work")
    second = UndoStore(DeviceStore(tmp_path), Undo(max_bytes=100))
    # Nor to make room.
    second.keep(Path("/x"), b"x" * 40, 0o644, "0" * 64)
    assert rows(tmp_path)[:2] == [(restoring, "claimed"), (writing, "writing")]
    assert all((tmp_path / "undo" / f"{undo_id}.old").exists() for undo_id in (restoring, writing))
    assert all(path.exists() for path in temporary)
    del first, second
    last = UndoStore(DeviceStore(tmp_path), Undo())
    assert (writing, "writing") not in rows(tmp_path)
    for thread in threading.enumerate():
        if thread.name == "undo":
            thread.join(PATIENCE_S)
    assert not temporary[0].exists()
    assert last.claim(restoring)[1] == b"x" * 40


def test_of_many_clients_one_claims_an_entry(tmp_path: Path) -> None:
    stores = [UndoStore(DeviceStore(tmp_path), Undo()) for _ in range(6)]
    undo_id = stores[0].keep(Path("/x"), b"old", 0o644, "0" * 64)

    def claims(store: UndoStore) -> bool:
        try:
            store.claim(undo_id)
        except BadInput:
            return False
        return True

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(claims, stores)) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel that counts is Linux")
def test_kept_content_and_its_entry_are_on_the_disk_before_the_file_is_changed(memory_path: Path) -> None:
    store = UndoStore(DeviceStore(memory_path), Undo())
    store.keep(Path("/x"), b"old", 0o644, "0" * 64)
    undo_id, syncs = watching_syncs(lambda: store.keep(Path("/x"), b"old", 0o644, "0" * 64))
    assert syncs == [f"{undo_id}.old", "undo", f"{DATABASE}-wal"]
    _, syncs = watching_syncs(lambda: store.keep(Path("/x"), None, 0, "0" * 64))
    assert syncs == [f"{DATABASE}-wal"]


def test_the_oldest_make_room_also_when_the_clock_was_set_back(tmp_path: Path) -> None:
    clock = Clock()
    store = UndoStore(DeviceStore(tmp_path), Undo(max_bytes=100), clock)
    first = store.keep(Path("/x"), b"x" * 40, 0o644, "0" * 64)
    clock.now -= DAY
    second = store.keep(Path("/x"), b"x" * 40, 0o644, "0" * 64)
    store.keep(Path("/x"), b"x" * 40, 0o644, "0" * 64)
    with pytest.raises(BadInput):
        store.claim(first)
    store.claim(second)


def test_what_was_kept_while_the_clock_was_ahead_expires_all_the_same(tmp_path: Path) -> None:
    clock = Clock()
    clock.now += 3650 * DAY
    undo_id = UndoStore(DeviceStore(tmp_path), Undo(), clock).keep(Path("/x"), b"old", 0o644, "0" * 64)
    clock.now -= 3650 * DAY
    store = UndoStore(DeviceStore(tmp_path), Undo(), clock)
    clock.now += 7 * DAY + 1
    with pytest.raises(BadInput, match="expired"):
        store.claim(undo_id)


def test_a_disk_that_became_read_only_does_not_keep_the_device_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    UndoStore(DeviceStore(tmp_path), Undo(), clock).keep(Path("/x"), b"old", 0o644, "0" * 64)

    def read_only(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    clock.now += 8 * DAY
    UndoStore(DeviceStore(tmp_path), Undo(), clock)
