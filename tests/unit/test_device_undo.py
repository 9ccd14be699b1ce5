"""What the device keeps so that a write can be undone."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from core.device import undo
from core.device.config import Undo
from core.device.undo import UndoStore, temporary_name
from core.errors import BadInput, Refused

DAY = 86_400.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_an_entry_is_gone_after_seven_days(tmp_path: Path) -> None:
    clock = Clock()
    store = UndoStore(tmp_path / "undo", Undo(), clock)
    undo_id = store.keep(Path("/x"), b"old", 0o644, "0" * 64)
    clock.now += 7 * DAY + 1
    with pytest.raises(BadInput, match="expired"):
        store.claim(undo_id)
    assert list((tmp_path / "undo").iterdir()) == []


def test_the_oldest_entries_make_room_for_new_ones(tmp_path: Path) -> None:
    clock = Clock()
    store = UndoStore(tmp_path / "undo", Undo(max_bytes=100), clock)
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
    stores = [UndoStore(tmp_path / "undo", Undo(max_bytes=100), clock) for _ in range(2)]
    ids = []
    for number in range(6):
        clock.now += 1
        ids.append(stores[number % 2].keep(Path("/x"), b"x" * 40, 0o644, "0" * 64))
    assert {path.stem for path in (tmp_path / "undo").iterdir()} == set(ids[-2:])


def test_content_larger_than_the_quota_is_refused(tmp_path: Path) -> None:
    store = UndoStore(tmp_path / "undo", Undo(max_bytes=10))
    with pytest.raises(Refused):
        store.keep(Path("/x"), b"x" * 11, 0o644, "0" * 64)


def test_two_claims_of_one_entry_cannot_both_succeed(tmp_path: Path) -> None:
    first, second = (UndoStore(tmp_path / "undo", Undo()) for _ in range(2))
    undo_id = first.keep(Path("/x"), b"old", 0o644, "0" * 64)
    second.claim(undo_id)
    with pytest.raises(BadInput, match="used"):
        first.claim(undo_id)


def test_kept_content_is_private_and_its_damage_is_noticed(tmp_path: Path) -> None:
    store = UndoStore(tmp_path / "undo", Undo())
    undo_id = store.keep(Path("/x"), b"old", 0o644, "0" * 64)
    kept = tmp_path / "undo" / f"{undo_id}.old"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "undo").stat().st_mode) == 0o700
    kept.write_bytes(b"odd")
    with pytest.raises(BadInput, match="digest"):
        store.claim(undo_id)


@pytest.mark.parametrize("undo_id", ["../../etc/passwd", "x" * 15, "a/b" * 8, "x" * 65])
def test_what_is_not_an_undo_id_never_becomes_a_path(tmp_path: Path, undo_id: str) -> None:
    store = UndoStore(tmp_path / "undo", Undo())
    with pytest.raises(BadInput, match="not an undo id"):
        store.claim(undo_id)
    with pytest.raises(BadInput, match="not an undo id"):
        store.entry(undo_id)


def test_what_a_crash_left_behind_is_cleared_away(tmp_path: Path) -> None:
    folder = tmp_path / "undo"
    kept = UndoStore(folder, Undo()).keep(Path("/x"), b"old", 0o644, "0" * 64)
    (folder / f"{'o' * 24}.old").write_bytes(b"no entry")
    (folder / f"{'b' * 24}.json").write_bytes(b"{broken")
    store = UndoStore(folder, Undo())
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".old"]
    assert store.claim(kept)[1] == b"old"


def test_what_could_not_be_kept_takes_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = UndoStore(tmp_path / "undo", Undo())

    def full(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(undo, "sync_folder", full)
    with pytest.raises(OSError, match="No space"):
        store.keep(Path("/x"), b"old", 0o644, "0" * 64)
    assert list((tmp_path / "undo").iterdir()) == []


def test_what_cannot_be_read_now_is_kept_for_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    undo_id = UndoStore(tmp_path / "undo", Undo()).keep(Path("/x"), b"old", 0o644, "0" * 64)

    def too_many(path: Path) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", too_many)
        store = UndoStore(tmp_path / "undo", Undo())
        with pytest.raises(BadInput, match="Too many open files"):
            store.claim(undo_id)
    assert store.claim(undo_id)[1] == b"old"


def test_what_a_later_version_kept_is_left_alone(tmp_path: Path) -> None:
    undo_id = UndoStore(tmp_path / "undo", Undo()).keep(Path("/x"), b"old", 0o644, "0" * 64)
    entry = tmp_path / "undo" / f"{undo_id}.json"
    entry.write_text(entry.read_text().replace("write_file", "write_registry"))
    UndoStore(tmp_path / "undo", Undo())
    assert sorted(path.suffix for path in (tmp_path / "undo").iterdir()) == [".json", ".old"]


def test_who_comes_second_takes_nothing_for_left_over_that_another_client_is_at(tmp_path: Path) -> None:
    folder, file = tmp_path / "undo", tmp_path / "file"
    first = UndoStore(folder, Undo())
    restoring = first.keep(file, b"old", 0o644, "0" * 64)
    first.claim(restoring)
    at_work = {folder / f"{'w' * 24}{end}" for end in (".old", ".json")} | {
        tmp_path / temporary_name(restoring)
    }
    for path in at_work:
        path.write_text("at work")
    UndoStore(folder, Undo()).close()
    assert all(path.exists() for path in {*at_work, folder / f"{restoring}.claimed"})
    first.close()
    last = UndoStore(folder, Undo())
    assert not any(path.exists() for path in at_work - {tmp_path / temporary_name(restoring)})
    assert last.claim(restoring)[1] == b"old"


def test_the_oldest_make_room_also_when_the_clock_was_set_back(tmp_path: Path) -> None:
    clock = Clock()
    store = UndoStore(tmp_path / "undo", Undo(max_bytes=100), clock)
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
    undo_id = UndoStore(tmp_path / "undo", Undo(), clock).keep(Path("/x"), b"old", 0o644, "0" * 64)
    clock.now -= 3650 * DAY
    store = UndoStore(tmp_path / "undo", Undo(), clock)
    clock.now += 7 * DAY + 1
    with pytest.raises(BadInput, match="expired"):
        store.claim(undo_id)


def test_a_disk_that_became_read_only_does_not_keep_the_device_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    UndoStore(tmp_path / "undo", Undo(), clock).keep(Path("/x"), b"old", 0o644, "0" * 64)

    def read_only(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "unlink", read_only)
    clock.now += 8 * DAY
    UndoStore(tmp_path / "undo", Undo(), clock)
