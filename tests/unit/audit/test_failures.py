"""Disks that are full, files that may not be written: real ones, not simulated ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit import writer
from core.audit.encode import Parts, encode_parts
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.audit.store import Store
from core.audit.verify import verify_folder
from core.errors import JournalCorrupt, JournalUnavailable
from tests.fakes.awaited import until_writable
from tests.fakes.patience import PATIENCE_S
from tests.fakes.small_disk import fill, small_disk_at

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits, mounts and modes of POSIX systems")


def new(text: str, size: int = 0) -> NewEntry:
    return NewEntry(kind=Kind.COMMAND_SENT, actor="service", body={"text": text, "fill": "x" * size})


@pytest.fixture(autouse=True)
def soon_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a journal heals is tested here, not how long it rests between two tries."""
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.1)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk", "2m") as folder:
        yield folder


async def test_a_full_disk_refuses_loses_nothing_and_heals_when_there_is_space(small_disk):
    journal = await Journal.open(small_disk / "home", KEY, "desk")
    kept = [(await journal.append(new(f"before {number}"))).body["text"] for number in range(5)]
    filler = fill(small_disk)

    async def append_until_it_is_full() -> None:
        for number in range(2000):
            kept.append((await journal.append(new(f"filling {number}", 2000))).body["text"])

    with pytest.raises(JournalUnavailable, match="disk"):
        await append_until_it_is_full()
    assert not journal.state.writable
    assert "disk" in (journal.state.error or "")
    with pytest.raises(JournalUnavailable, match="disk"):
        journal.note(new("refused"))
    with pytest.raises(JournalUnavailable):
        await journal.put_blob(b"y" * 100_000)
    healed = asyncio.Event()
    filler.unlink()
    while not healed.is_set():
        try:
            kept.append((await journal.append(new("after"))).body["text"])
            healed.set()
        except JournalUnavailable:
            await asyncio.sleep(0.05)  # the journal tries again once a second, by itself
    journal.note(new("noted"))
    kept.append("noted")
    await journal.put_blob(b"y" * 100_000)
    assert journal.state.writable
    await journal.close()
    journal = await Journal.open(small_disk / "home", KEY, "desk")
    entries = (await journal.query("", after=0, limit=5000)).entries
    await journal.close()
    assert [entry.body["text"] for entry in entries] == kept
    assert verify_folder(small_disk / "home", KEY.public_key()).ok


async def test_what_was_noted_before_the_disk_was_full_is_written_when_there_is_space(
    small_disk, monkeypatch
):
    journal = await Journal.open(small_disk / "home", KEY, "desk")
    await journal.append(new("before"))
    real = Store.commit

    def commit(store: Store, entries: Sequence[Parts], spool_done: int) -> int:
        # Noted and not yet committed, when the last of the space goes.
        monkeypatch.undo()
        fill(small_disk)
        return real(store, entries, spool_done)

    monkeypatch.setattr(Store, "commit", commit)
    noted = [f"noted {number}" for number in range(100)]
    journal.note_all([new(text, 2000) for text in noted])
    with pytest.raises(JournalUnavailable, match="disk"):
        await journal.append(new("refused"))
    (small_disk / "filler").unlink()
    await until_writable(journal)
    entries = (await journal.query("", after=0)).entries
    await journal.close()
    assert [entry.body["text"] for entry in entries] == ["before", *noted]
    assert verify_folder(small_disk / "home", KEY.public_key()).ok


async def test_after_a_failed_commit_nothing_is_added_to_what_another_program_wrote(tmp_path, monkeypatch):
    journal = await Journal.open(tmp_path, KEY, "desk")
    await journal.append(new("ours"))

    def failed(store: Store, entries: Sequence[Parts], spool_done: int) -> int:
        monkeypatch.undo()
        other = Store(tmp_path / "journal.db", KEY, "desk")
        other.commit([encode_parts(new("another's"), "2099-01-01T00:00:00.000000Z")], 0)
        other.close()
        raise JournalUnavailable("the disk went away")

    monkeypatch.setattr(Store, "commit", failed)
    with pytest.raises(JournalUnavailable, match="went away"):
        await journal.append(new("in doubt"))
    told = asyncio.Event()
    journal.watch(lambda: "Another program" in (journal.state.error or "") and told.set())
    await asyncio.wait_for(told.wait(), PATIENCE_S)
    with pytest.raises(JournalUnavailable, match="Another program"):
        await journal.append(new("after"))
    with pytest.raises(JournalCorrupt, match="Another program"):
        await journal.close()


LIMITED = """
import asyncio, os, resource, sys
from pathlib import Path
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.errors import JournalUnavailable

def new(text):
    return NewEntry(kind=Kind.COMMAND_SENT, actor="service", body={"text": text})

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    folder = Path(sys.argv[1])
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    journal = await Journal.open(folder, key, "desk")
    for number in range(20):
        await journal.append(new(f"before {number}"))
    # The spool may grow up to here, SQLite's log is there already.
    limit((folder / "journal.db-wal").stat().st_size)
    journal.note(new("noted and kept"))
    waiting = asyncio.gather(*(journal.append(new(f"lost {n}")) for n in range(3)), return_exceptions=True)
    for error in await waiting:
        assert isinstance(error, JournalUnavailable), error
    assert not journal.state.writable
    try:
        journal.note(new("refused"))
    except JournalUnavailable:
        pass
    else:
        raise AssertionError("a note was taken that nobody will write")
    if sys.argv[2] == "heal":
        healed = asyncio.Event()
        journal.watch(lambda: journal.state.writable and healed.set())
        limit(resource.RLIM_INFINITY)
        await asyncio.wait_for(healed.wait(), 60)
        assert journal.state.writable
        await journal.append(new("after"))
    else:
        # Or else SQLite would make room by emptying its log, and the last try at closing succeed.
        limit(100)
    await journal.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("way", ["heal", "end"])
async def test_a_file_that_may_not_grow_keeps_what_was_noted_for_later(tmp_path, way):
    command = [sys.executable, "-c", LIMITED, str(tmp_path), way]
    done = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, capture_output=True, timeout=PATIENCE_S)
    if way == "heal":
        assert done.returncode == 0, done.stderr.decode()
    else:
        # Closing says that something could not be written.
        assert b"JournalUnavailable" in done.stderr
        assert b"AssertionError" not in done.stderr
    journal = await Journal.open(tmp_path, KEY, "desk")
    entries = (await journal.query("", after=0)).entries
    await journal.close()
    wanted = [*(f"before {number}" for number in range(20)), "noted and kept"]
    assert [entry.body["text"] for entry in entries if "text" in entry.body] == [
        *wanted,
        *(["after"] if way == "heal" else []),
    ]
    assert verify_folder(tmp_path, KEY.public_key()).ok


UNPRIVILEGED = """
import asyncio, os, sys
from pathlib import Path
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from core.audit.journal import Journal
from core.audit.verify import verify_folder
from core.errors import QuarterdeckError

key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
if os.geteuid() == 0:
    os.setuid(65534)
try:
    asyncio.run(Journal.open(Path(sys.argv[1]), key, "desk"))
except QuarterdeckError as error:
    print(error.code, error.message)
print(verify_folder(Path(sys.argv[1]), key.public_key()).ok)
"""


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that every user reaches; each session of pytest closes its own to all others."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.parametrize("what", ["journal.db", "."])
async def test_a_read_only_journal_is_refused_with_the_cause_and_can_still_be_verified(open_to_all, what):
    home = open_to_all / "home"
    journal = await Journal.open(home, KEY, "desk")
    await journal.append(new("one"))
    await journal.close()
    for path in (*home.iterdir(), home):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (home / what).chmod(0o555 if what == "." else 0o444)
    try:
        command = [sys.executable, "-c", UNPRIVILEGED, str(home)]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=ROOT, capture_output=True, timeout=PATIENCE_S
        )
    finally:
        home.chmod(0o755)
    told = done.stdout.decode()
    assert told.startswith("journal_unavailable"), (told, done.stderr.decode())
    assert "journal.db" in told
    assert "permissions" in told or "read-only" in told
    assert told.endswith("True\n")


async def test_a_folder_where_no_journal_can_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(JournalUnavailable, match=r"file.*journal\.db"):
        await Journal.open(tmp_path / "file", KEY, "desk")


async def test_a_commit_that_reached_the_disk_but_failed_to_say_so_is_not_repeated(tmp_path, monkeypatch):
    journal = await Journal.open(tmp_path, KEY, "desk")
    real = Store._transact

    def reached_but_unheard(*arguments: object) -> None:
        real(*arguments)
        monkeypatch.undo()
        raise JournalUnavailable("the disk went away")

    monkeypatch.setattr(Store, "_transact", reached_but_unheard)
    journal.note(new("noted"))
    with pytest.raises(JournalUnavailable, match="went away"):
        await journal.append(new("in doubt"))
    await until_writable(journal)
    await journal.append(new("after"))
    entries = (await journal.query("", after=0)).entries
    assert [entry.body["text"] for entry in entries] == ["noted", "in doubt", "after"]
    await journal.close()
    assert verify_folder(tmp_path, KEY.public_key()).ok


async def test_an_opening_that_is_cancelled_leaves_the_journal_to_the_next(tmp_path):
    opening = asyncio.gather(Journal.open(tmp_path, KEY, "desk"))
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    journal = await Journal.open(tmp_path, KEY, "desk")
    assert (await journal.append(new("first"))).seq == 1
    await journal.close()


async def test_who_watches_is_told_when_it_cannot_be_written_and_finds_no_entry(tmp_path):
    journal = await Journal.open(tmp_path, KEY, "desk")
    told: list[tuple[bool, int]] = []
    journal.watch(lambda: told.append((journal.state.writable, journal.state.entries)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal._store, "_connection", None)
        with pytest.raises(JournalUnavailable, match="not open"):
            await journal.append(new("lost"))
        assert told
        assert set(told) == {(False, 0)}
    assert (await journal.query("", after=0)).entries == []
    await journal.close()
