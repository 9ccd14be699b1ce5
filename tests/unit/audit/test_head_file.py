"""The head file: it never says more than the database has, nor less than callers were told."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit import head_file
from core.audit.checkpoint import Kept, Signer
from core.audit.encode import encode_parts
from core.audit.entries import Kind, NewEntry
from core.audit.head_file import RECORD, HeadFile, make_head_file, read_head_file
from core.audit.journal import Journal
from core.audit.store import Store
from core.audit.verify import verify_folder
from core.audit.wal import read_log
from core.errors import BadInput, JournalCorrupt, JournalUnavailable
from tests.fakes.awaited import until_writable

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SIGNER = Signer(KEY, "desk/journal")
TIME = "2026-11-01T00:00:00.000000Z"


def note(size: int) -> str:
    return SIGNER.sign(size, bytes([size]) * 32, 0, Kept())


def new(text: str) -> NewEntry:
    return NewEntry(kind=Kind.COMMAND_SENT, actor="service", body={"text": text})


async def texts(folder: Path) -> list[str]:
    journal = await Journal.open(folder, KEY, "desk")
    entries = (await journal.query("", after=0, limit=5000)).entries
    await journal.close()
    assert verify_folder(folder, KEY.public_key()).ok
    return [entry.body.get("text", entry.kind) for entry in entries]


async def append(folder: Path, text: str) -> None:
    """Open a journal for one entry."""
    journal = await Journal.open(folder, KEY, "desk")
    await journal.append(new(text))
    await journal.close()


def size_in(folder: Path) -> int:
    known = read_head_file(folder / "journal.head", KEY.public_key())
    assert known is not None
    return known.checkpoint.size


def test_the_records_are_written_in_turn_and_the_newest_is_read(memory_path):
    path = memory_path / "journal.head"
    assert read_head_file(path, KEY.public_key()) is None
    make_head_file(path, note(0))
    file = HeadFile(path, 0)
    for size in range(1, 6):
        file.write(note(size))
        known = read_head_file(path, KEY.public_key())
        assert known is not None
        assert (known.note, known.checkpoint.size, known.torn) == (note(size), size, None)
        assert known.older is not None
        assert known.older.size == size - 1
        assert path.stat().st_size == 2 * RECORD
    file.close()
    # Another program's handle goes on with the older record too.
    known = read_head_file(path, KEY.public_key())
    assert known is not None
    file = HeadFile(path, known.record)
    file.write(note(6))
    file.close()
    known = read_head_file(path, KEY.public_key())
    assert known is not None
    assert known.older is not None
    assert (known.checkpoint.size, known.older.size) == (6, 5)
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_write_that_fails_leaves_the_newest_record(memory_path, monkeypatch):
    path = memory_path / "journal.head"
    make_head_file(path, note(0))
    file = HeadFile(path, 0)
    file.write(note(1))
    real = os.write
    for cut in (0, 1, 100, RECORD - 1):
        monkeypatch.setattr(os, "write", lambda handle, data, cut=cut: real(handle, data[:cut]))
        with pytest.raises(OSError, match="only a part"):
            file.write(note(2))
        monkeypatch.setattr(os, "write", real)
        known = read_head_file(path, KEY.public_key())
        assert known is not None
        assert known.checkpoint.size in (1, 2)
    file.write(note(3))
    file.close()
    known = read_head_file(path, KEY.public_key())
    assert known is not None
    assert known.checkpoint.size == 3


def test_a_disk_that_fails_to_keep_it_is_reported_with_the_next_write_and_costs_no_record(
    memory_path, monkeypatch
):
    path = memory_path / "journal.head"
    make_head_file(path, note(0))
    file = HeadFile(path, 0)
    file.write(note(1))
    file.wait()

    def fails(handle: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(head_file, "_sync", fails)
    file.write(note(2))
    with pytest.raises(OSError, match="Input/output"):
        file.write(note(3))
    monkeypatch.undo()
    # The record that the disk is sure to have is not the one that is written next.
    file.write(note(4))
    known = read_head_file(path, KEY.public_key())
    assert known is not None
    assert known.older is not None
    assert (known.checkpoint.size, known.older.size) == (4, 1)
    file.close()


def test_a_name_that_does_not_fit_a_record_is_refused_before_there_is_a_journal(memory_path):
    with pytest.raises(BadInput, match="so long"):
        Store(memory_path / "journal.db", KEY, "x" * RECORD)
    assert not (memory_path / "journal.db").exists()


async def test_it_says_at_any_moment_at_least_what_was_acknowledged_and_at_most_what_is_durable(
    memory_path, monkeypatch
):
    """A kill before, in and after every write of the head file."""
    live = memory_path / "live"
    journal = await Journal.open(live, KEY, "desk")
    moments: list[tuple[Path, int]] = []
    acknowledged = 0
    real = HeadFile.write

    def copy() -> None:
        copied = memory_path / f"moment-{len(moments)}"
        shutil.copytree(live, copied)
        moments.append((copied, acknowledged))

    def write(file: HeadFile, note: str) -> None:
        copy()
        real(file, note)
        copy()

    monkeypatch.setattr(HeadFile, "write", write)
    for number in range(6):
        await journal.append(new(str(number)))
        acknowledged = number + 1
        copy()
    monkeypatch.undo()
    await journal.close()
    assert len(moments) == 18
    for folder, told in moments:
        assert size_in(folder) >= told
        assert verify_folder(folder, KEY.public_key()).ok
        found = await texts(folder)
        assert found == [str(number) for number in range(len(found))]
        assert told <= len(found) <= told + 1
        assert size_in(folder) == len(found)


async def test_a_write_of_it_that_a_power_cut_tore_anywhere_needs_no_human(memory_path, monkeypatch):
    live = memory_path / "live"
    journal = await Journal.open(live, KEY, "desk")
    await journal.append(new("first"))
    await journal.append(new("second"))
    before = (live / "journal.head").read_bytes()
    await journal.append(new("third"))
    after = (live / "journal.head").read_bytes()
    torn = memory_path / "torn"
    shutil.copytree(live, torn)
    await journal.close()
    changed = [at for at in range(len(after)) if before[at] != after[at]]
    start = changed[0] // RECORD * RECORD
    # A disk writes sectors of 512 bytes; this one even tears those, from either end.
    for at in range(start, start + 400, 19):
        for data in (after[:at] + before[at:], before[:at] + after[at:]):
            if sum(left != right for left, right in zip(data, after, strict=True)) == 1:
                continue
            home = memory_path / "home"
            shutil.rmtree(home, ignore_errors=True)
            shutil.copytree(torn, home)
            (home / "journal.head").write_bytes(data)
            assert verify_folder(home, KEY.public_key()).ok, at
            assert await texts(home) == ["first", "second", "third"]
            assert size_in(home) == 3


async def test_each_changed_byte_of_either_record_is_noticed(memory_path):
    journal = await Journal.open(memory_path / "live", KEY, "desk")
    for number in range(3):
        await journal.append(new(str(number)))
    shutil.copytree(memory_path / "live", memory_path / "home")
    await journal.close()
    head = memory_path / "home" / "journal.head"
    whole = head.read_bytes()
    for record in (0, 1):
        for at in (*range(0, 330, 5), 2000, RECORD - 1):
            data = bytearray(whole)
            data[record * RECORD + at] ^= 0x10
            head.write_bytes(data)
            assert not verify_folder(memory_path / "home", KEY.public_key(), indexes=False).ok, (record, at)
            with pytest.raises(JournalCorrupt, match=r"journal\.head is damaged"):
                await Journal.open(memory_path / "home", KEY, "desk")
    head.write_bytes(whole)
    assert await texts(memory_path / "home") == ["0", "1", "2"]


async def test_a_head_file_that_cannot_be_written_refuses_the_entry_and_heals(memory_path, monkeypatch):
    journal = await Journal.open(memory_path, KEY, "desk")
    await journal.append(new("before"))

    def fails(file: HeadFile, note: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(HeadFile, "write", fails)
    journal.note(new("noted"))
    with pytest.raises(JournalUnavailable, match=r"journal\.head cannot be used: No space"):
        await journal.append(new("in doubt"))
    assert not journal.state.writable
    monkeypatch.undo()
    await until_writable(journal)
    await journal.append(new("after"))
    assert size_in(memory_path) == journal.state.entries
    assert (await journal.verify()).ok
    await journal.close()
    # The database had it, though its caller was told that it may not.
    assert await texts(memory_path) == ["before", "noted", "in doubt", "after"]


async def test_a_crash_while_a_journal_was_made_leaves_the_next_start_to_make_it(memory_path):
    make_head_file(memory_path / "journal.head", note(0))
    (memory_path / "journal.db.new").write_bytes(b"half")
    journal = await Journal.open(memory_path, KEY, "desk")
    assert (await journal.append(new("first"))).seq == 1
    await journal.close()
    assert await texts(memory_path) == ["first"]


async def test_an_orderly_end_leaves_the_head_file_level_with_the_database(memory_path):
    for number in range(3):
        journal = await Journal.open(memory_path, KEY, "desk")
        await journal.append(new(str(number)))
        await journal.close()
        report = verify_folder(memory_path, KEY.public_key())
        known = read_head_file(memory_path / "journal.head", KEY.public_key())
        assert known is not None
        assert (report.ok, known.note) == (True, report.checkpoint)
        assert known.checkpoint.kept is not None
        assert known.checkpoint.kept.count == number + 1


async def test_an_older_copy_of_the_database_is_not_opened_as_the_newest(memory_path):
    live = memory_path / "live"
    await append(live, "first")
    older = (live / "journal.db").read_bytes()
    await append(live, "second")
    (live / "journal.db").write_bytes(older)
    with pytest.raises(JournalCorrupt, match=r"missing after .* journal\.head was signed at 2"):
        await Journal.open(live, KEY, "desk")


async def test_the_head_of_a_copy_that_went_on_by_itself_is_another_head(memory_path):
    """Both have as many entries, signed with the same key."""
    live, copy = memory_path / "live", memory_path / "copy"
    await append(live, "first")
    shutil.copytree(live, copy)
    await append(live, "second")
    await append(copy, "instead")
    shutil.copy(copy / "journal.head", live)
    with pytest.raises(JournalCorrupt, match="another head at 2 entries"):
        await Journal.open(live, KEY, "desk")


async def test_the_head_of_another_journal_of_the_same_key_is_refused(memory_path):
    await append(memory_path, "first")
    (memory_path / "journal.head").unlink()
    make_head_file(memory_path / "journal.head", Signer(KEY, "lab/journal").sign(0, bytes(32), 0, Kept()))
    with pytest.raises(JournalCorrupt, match="'lab/journal', another journal"):
        await Journal.open(memory_path, KEY, "desk")


async def test_a_head_of_another_key_is_refused(memory_path):
    await (await Journal.open(memory_path, KEY, "desk")).close()
    other = Signer(Ed25519PrivateKey.generate(), "desk/journal")
    (memory_path / "journal.head").unlink()
    make_head_file(memory_path / "journal.head", other.sign(0, bytes(32), 0, Kept()))
    with pytest.raises(JournalCorrupt, match="another key"):
        await Journal.open(memory_path, KEY, "desk")


async def test_frames_that_a_failed_commit_left_behind_a_later_one_need_no_human(memory_path):
    """SQLite leaves in its log what a transaction wrote that was rolled back, and writes over it in part."""
    live = memory_path / "live"
    store = Store(live / "journal.db", KEY, "desk")
    store.commit([encode_parts(new("first"), TIME)], 0)
    assert store._connection is not None
    store._connection.execute("PRAGMA cache_size=5")
    head = store.head
    store.head = head._replace(note="another")
    with pytest.raises(JournalCorrupt, match="Another program"):
        store.commit([encode_parts(new(f"failed {number}"), TIME) for number in range(500)], 0)
    store.head = head
    store.commit([encode_parts(new("second"), TIME)], 0)
    shutil.copytree(live, memory_path / "home")
    store.close()
    log = read_log((memory_path / "home" / "journal.db-wal").read_bytes(), 4096)
    assert log.broken is not None
    assert log.frames > log.taken + 10
    (memory_path / "home" / "journal.spool").touch()
    assert verify_folder(memory_path / "home", KEY.public_key()).ok
    assert await texts(memory_path / "home") == ["first", "second"]
