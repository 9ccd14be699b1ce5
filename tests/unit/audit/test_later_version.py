"""A journal of another version: one with entries of an unknown kind, and one of an unknown format."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit.encode import UnknownKind, decode
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.audit.verify import verify_folder
from core.errors import JournalCorrupt

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
LATER = "agent_suspended"


def entry(kind: str) -> NewEntry:
    return NewEntry(kind=kind, actor="service")  # type: ignore[arg-type]  # a kind of a later version


async def written(folder: Path, *kinds: str) -> Journal:
    """A journal as the later version writes it, still open."""
    journal = await Journal.open(folder, KEY, "desk")
    for kind in kinds:
        await journal.append(entry(kind))
    return journal


def contents(folder: Path) -> dict[str, bytes]:
    """The journal's own files, without those that SQLite makes beside a database that is open."""
    return {name: (folder / name).read_bytes() for name in ("journal.db", "journal.head", "journal.spool")}


@pytest.mark.parametrize(
    "kinds", [[LATER], [LATER, Kind.SERVICE_STARTED], [Kind.AGENT_ADDED, LATER, *Kind], ["", LATER], ["zzz"]]
)
async def test_it_is_not_opened_and_not_changed_and_verifies(memory_path: Path, kinds: list[str]) -> None:
    """Whatever comes after the entry: what it forbids would be passed over."""
    await (await written(memory_path, *kinds)).close()
    before = contents(memory_path)
    for _ in range(2):
        with pytest.raises(UnknownKind, match=r"a later version wrote it.* left as it is"):
            await Journal.open(memory_path, KEY, "desk")
    assert contents(memory_path) == before
    report = verify_folder(memory_path, KEY.public_key())
    assert (report.ok, report.entries) == (True, len(kinds))


async def test_neither_is_one_with_such_an_entry_in_its_spool(memory_path: Path) -> None:
    """The service of the later version was killed before the entry came into the database."""
    journal = await written(memory_path / "live", Kind.SERVICE_STARTED)
    shutil.copytree(memory_path / "live", memory_path / "killed")
    journal.note(entry(LATER))
    shutil.copy(memory_path / "live" / "journal.spool", memory_path / "killed")
    await journal.close()
    before = contents(memory_path / "killed")["journal.spool"]
    with pytest.raises(UnknownKind, match=rf"journal\.spool has an entry of the kind '{LATER}'"):
        await Journal.open(memory_path / "killed", KEY, "desk")
    assert contents(memory_path / "killed")["journal.spool"] == before


@pytest.mark.parametrize(("format_", "which"), [(1, "an earlier"), (0, "an earlier"), (3, "a later")])
async def test_another_format_is_named_with_what_to_do_and_not_changed(memory_path, format_: int, which: str):
    await (await written(memory_path, Kind.SERVICE_STARTED)).close()
    with closing(sqlite3.connect(memory_path / "journal.db")) as connection:
        connection.execute(f"PRAGMA user_version = {format_}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    before = contents(memory_path)
    wanted = (
        f"The journal {memory_path / 'journal.db'} has format {format_}, of {which} version of Quarterdeck;"
        " this version opens format 2 only. It was not changed: open this home with the version that wrote"
        " it, or move the home away to begin a new one."
    )
    with pytest.raises(JournalCorrupt) as refused:
        await Journal.open(memory_path, KEY, "desk")
    assert refused.value.message == wanted
    assert verify_folder(memory_path, KEY.public_key()).problem == wanted
    assert contents(memory_path) == before


async def test_every_kind_that_is_listed_opens(memory_path: Path) -> None:
    await (await written(memory_path, *Kind)).close()
    journal = await Journal.open(memory_path, KEY, "desk")
    entries = (await journal.query("", after=0, limit=500)).entries
    assert [one.kind for one in entries] == list(Kind)
    await journal.close()


def test_other_faults_of_an_entry_are_no_later_version() -> None:
    good = '{"actor":"a","blobs":[],"body":{},"kind":"KIND","seq":1,"time":"t"}'
    assert decode(good.replace("KIND", "command_sent").encode()).seq == 1
    with pytest.raises(UnknownKind, match="'nova'"):
        decode(good.replace("KIND", "nova").encode())
    for bad in (good.replace('"KIND"', "7"), good.replace('"seq":1', '"seq":"x"'), good[:-1]):
        with pytest.raises(JournalCorrupt) as refused:
            decode(bad.encode())
        assert not isinstance(refused.value, UnknownKind)
