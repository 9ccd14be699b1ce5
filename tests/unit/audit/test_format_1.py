"""Journals that an earlier version wrote: they open, verify and go on, and are as well watched from then on.

`tests/fakes/journals/format_1.tar.xz` holds two homes written by the version before the head file: `closed`,
used twice and closed in order, and `killed`, used a third time and ended by SIGKILL with 16 entries in the
write-ahead log and 5 more in the spool. Nothing authenticates these 5, so they are set aside.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from core.audit.checkpoint import load_or_create_journal_key, load_public_key
from core.audit.entries import Kind, NewEntry
from core.audit.head_file import HeadFile
from core.audit.journal import Journal
from core.audit.models import VerifyReport
from core.audit.store import Store
from core.audit.verify import verify_folder
from core.errors import JournalCorrupt, JournalUnavailable
from tests.fakes.kept_home import unpack

ARCHIVE = Path(__file__).parents[2] / "fakes" / "journals" / "format_1.tar.xz"
CLOSED = [f"closed {number}" for number in range(24)]
IN_THE_LOG = [
    text
    for number in range(12)
    for text in ([f"noted {number}"] if number % 3 == 0 else []) + [f"in the log {number}"]
]
EVERYTHING = [*CLOSED, *IN_THE_LOG, "journal_recovered"]
NOT_TAKEN = "journal.spool has 5 records (command_sent) that nothing shows who wrote"


@pytest.fixture
def old(memory_path: Path) -> Path:
    unpack(ARCHIVE, memory_path)
    return memory_path


def verify(home: Path) -> VerifyReport:
    return verify_folder(home, load_public_key(home / "keys" / "journal.pub"))


async def opened(home: Path) -> Journal:
    return await Journal.open(home, load_or_create_journal_key(home / "keys" / "journal.key"), "quarterdeck")


async def texts(journal: Journal) -> list[str]:
    entries = (await journal.query("", after=0, limit=5000)).entries
    return [entry.body.get("text", entry.kind) for entry in entries]


@pytest.mark.parametrize(("name", "entries", "wanted"), [("closed", 24, CLOSED), ("killed", 40, EVERYTHING)])
async def test_it_verifies_opens_and_goes_on_and_has_a_head_file_from_then_on(old, name, entries, wanted):
    home = old / name
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    report = verify(home)
    assert (report.entries, report.blobs) == (entries, 1)
    assert report.ok is (name == "closed")
    assert report.problem.startswith(NOT_TAKEN if name == "killed" else "")
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    for number in range(2):
        journal = await opened(home)
        assert len(journal.notes) == (name == "killed" and number == 0)
        assert await texts(journal) == [*wanted, *(f"later {done}" for done in range(number))]
        await journal.append(
            NewEntry(kind=Kind.COMMAND_SENT, actor="service", body={"text": f"later {number}"})
        )
        assert (await journal.verify()).ok
        await journal.close()
        assert verify(home).ok
    (home / "journal.head").unlink()
    assert "journal.head is missing" in verify(home).problem
    with pytest.raises(JournalCorrupt, match=r"journal\.head is missing"):
        await opened(home)


@pytest.mark.parametrize("name", ["closed", "killed"])
async def test_a_crash_anywhere_on_the_way_to_the_new_format_leaves_one_that_opens(old, name, monkeypatch):
    """After every commit, and before and after every write of the head file."""
    home = old / name
    moments: list[Path] = []

    def copy() -> None:
        moments.append(Path(shutil.copytree(home, old / f"moment-{len(moments)}")))

    transact, write, empty = Store._transact, HeadFile.write, Store._empty_log

    def transacting(store: Store, *arguments: object) -> None:
        copy()
        transact(store, *arguments)
        copy()

    def writing(file: HeadFile, note: str) -> None:
        copy()
        write(file, note)

    def emptying(store: Store) -> None:
        copy()
        empty(store)
        copy()

    monkeypatch.setattr(Store, "_transact", transacting)
    monkeypatch.setattr(HeadFile, "write", writing)
    monkeypatch.setattr(Store, "_empty_log", emptying)
    journal = await opened(home)
    monkeypatch.undo()
    wanted = await texts(journal)
    await journal.close()
    assert len(moments) >= 5
    for moment in moments:
        report = verify(moment)
        assert report.ok or report.problem.startswith(NOT_TAKEN), moment
        journal = await opened(moment)
        assert await texts(journal) == wanted
        await journal.close()
        assert verify(moment).ok


async def test_an_upgrade_that_fails_leaves_a_journal_of_the_old_format(old, monkeypatch):
    home = old / "closed"

    def fails(file: HeadFile, note: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.audit.store.make_head_file", fails)
    with pytest.raises(JournalUnavailable, match="No space"):
        await opened(home)
    monkeypatch.undo()
    assert verify(home).ok
    journal = await opened(home)
    assert await texts(journal) == CLOSED
    await journal.close()


async def test_a_changed_byte_in_its_log_is_noticed_but_in_the_last_commit_which_looks_torn(old):
    home = old / "killed"
    log = home / "journal.db-wal"
    whole = log.read_bytes()
    noticed = 0
    places = [17, *range(40, len(whole), len(whole) // 40)]
    for at in places:
        data = bytearray(whole)
        data[at] ^= 0x5A
        log.write_bytes(data)
        report = verify(home)
        if report.ok:
            assert report.entries == 39
            assert at > len(whole) - 12 * 4120
            continue
        noticed += 1
        assert "journal.db-wal" in report.problem
        with pytest.raises(JournalCorrupt, match=r"journal\.db-wal"):
            await opened(home)
        assert log.read_bytes() == data
    assert noticed >= len(places) - 3


async def test_a_checkpoint_damaged_before_the_upgrade_is_not_signed_for(old):
    home = old / "closed"
    connection = sqlite3.connect(home / "journal.db")
    connection.execute("UPDATE checkpoints SET note = replace(note, '12', '13') WHERE size = 12")
    connection.commit()
    connection.close()
    with pytest.raises(JournalCorrupt, match="checkpoint"):
        await opened(home)
    assert not verify(home).ok


async def test_the_old_spool_keeps_its_records_behind_a_changed_byte(old):
    home = old / "killed"
    spool = home / "journal.spool"
    data = bytearray(spool.read_bytes())
    data[data.index(b"in the spool 2")] ^= 1
    spool.write_bytes(data)
    assert "journal.spool is damaged" in verify(home).problem
    with pytest.raises(JournalCorrupt, match=r"journal\.spool is damaged"):
        await opened(home)
    assert spool.read_bytes() == data
    # As it says itself: a copy is kept, and without the file the journal opens.
    spool.unlink()
    journal = await opened(home)
    assert await texts(journal) == [*CLOSED, *IN_THE_LOG, "journal_recovered"]
    await journal.close()
