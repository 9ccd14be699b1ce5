"""A copy of a journal in use has a prefix of it, byte for byte, and takes nothing of the original's spool."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from core.audit import writer
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.encode import encode_parts
from core.audit.events import HomeRestored
from core.audit.journal import Journal
from core.audit.journal_copy import CopiedHead, continue_copy, copy_journal
from core.audit.spool import SPOOL
from core.audit.store import DATABASE, check_header
from core.audit.verify import verify_folder
from core.errors import JournalCorrupt
from core.home import Home
from core.ids import now_utc
from tests.fakes.backups import entry, open_journal

RESTORED = HomeRestored(backup_made_at="", entries=0, checkpoint="").entry("cli:anna")


def rows(folder: Path) -> list[tuple[int, bytes]]:
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        return database.execute("SELECT seq, entry FROM entries ORDER BY seq").fetchall()


def copied(journal: Journal, folder: Path, step=lambda count: None) -> CopiedHead:
    folder.mkdir()
    return copy_journal(journal.folder / DATABASE, journal.public_key, folder, step)


async def test_entries_that_are_written_meanwhile_are_not_in_the_copy(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("core.audit.journal_copy._PAGES_AT_ONCE", 2)
    journal = await open_journal(home)
    await journal.append_many([entry(number) for number in range(300)])
    steps: list[int] = []

    def step(count: int) -> None:
        """Commit an entry between two steps of the copying, as the writer's thread does."""
        steps.append(count)
        assert len(steps) < 500, "it begins again with each commit"
        journal._store.commit([encode_parts(entry(300 + len(steps)), now_utc())], 0)

    head = copied(journal, tmp_path / "copy", step)
    assert len(steps) > 5
    assert head.checkpoint.size == 300
    assert journal.state.entries == 300 + len(steps)
    await journal.close()
    report = verify_folder(tmp_path / "copy", journal.public_key)
    assert (report.problem, report.entries, report.checkpoint) == ("", 300, head.note)
    assert rows(tmp_path / "copy") == rows(home.path)[:300]
    check_header(tmp_path / "copy" / DATABASE)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "copy").iterdir()} == {0o600}


async def test_an_error_of_a_step_ends_the_copying(home: Home, tmp_path: Path):
    journal = await open_journal(home)

    def step(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copied(journal, tmp_path / "copy", step)
    await journal.close()


async def test_a_head_that_was_changed_is_not_copied(home: Home, tmp_path: Path):
    journal = await open_journal(home)
    await journal.append(entry(1))
    await journal.close()
    with closing(sqlite3.connect(home.path / DATABASE)) as database:
        database.execute("UPDATE head SET note = replace(note, 'spool', 'spoon')")
        database.commit()
    with pytest.raises(JournalCorrupt):
        copied(journal, tmp_path / "copy")


async def test_a_copy_goes_on_with_its_own_entry_and_verifies(home: Home, tmp_path: Path):
    journal = await open_journal(home)
    await journal.append_many([entry(number) for number in range(3)])
    copied(journal, tmp_path / "copy")
    key = load_or_create_journal_key(home.keys / "journal.key")
    assert continue_copy(tmp_path / "copy", key, "quarterdeck", RESTORED) == 4
    assert verify_folder(tmp_path / "copy", journal.public_key).ok
    await journal.close()


@pytest.mark.parametrize("openings", [1, 3])
async def test_a_record_of_the_original_s_spool_does_not_get_into_the_copy(
    home: Home, tmp_path: Path, openings: int, monkeypatch: pytest.MonkeyPatch
):
    journal = await open_journal(home)
    await journal.append(entry(1))
    copied(journal, tmp_path / "copy")
    key = load_or_create_journal_key(home.keys / "journal.key")
    continue_copy(tmp_path / "copy", key, "quarterdeck", RESTORED)
    await journal.close()
    # What is noted stays in the spool.
    monkeypatch.setattr(writer, "NOTE_DELAY", 3600)
    monkeypatch.setattr(writer, "DELAY_OF_MANY", 3600)
    for _ in range(openings):
        journal = await open_journal(home)
        journal.note(entry(2))
        spool = (home.path / SPOOL).read_bytes()
        await journal.close()
    assert b"line 2" in spool
    before = rows(tmp_path / "copy")
    (tmp_path / "copy" / SPOOL).write_bytes(spool)
    shutil.copytree(home.keys, tmp_path / "copy" / "keys")
    taken = await Journal.open(tmp_path / "copy", key, "quarterdeck")
    assert taken.state.recovered == 0
    await taken.close()
    assert rows(tmp_path / "copy") == before
