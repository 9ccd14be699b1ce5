"""The verifier is itself tested by mutation: whatever byte of whatever row is flipped, it must notice."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit import store
from core.audit.checkpoint import Signer
from core.audit.encode import Parts, encode_parts
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.audit.merkle import leaf_hash
from core.audit.verify import verify_folder
from tests.fakes.run_size import examples, spread

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
TABLES = ("entries", "head", "checkpoints", "subtrees")


def entry(number: int, blobs: list[str]) -> NewEntry:
    return NewEntry(
        kind=Kind.RESULT_RECORDED if number % 2 else Kind.COMMAND_SENT,
        actor="agent:clerk",
        run=f"r-{number // 4}",
        device=f"lab-{number % 3}",
        call_id=f"c-{number}",
        tool="type_text",
        status="success" if number % 2 else None,
        duration_ms=number * 1.5,
        body={"text": f"line {number}"},
        blobs=blobs,
    )


async def write(folder: Path, count: int) -> None:
    journal = await Journal.open(folder, KEY, "desk")
    sha = await journal.put_blob(b"a screenshot")
    await journal.append_many([entry(number, [sha] if number == 7 else []) for number in range(1, count + 1)])
    await journal.close()


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A closed journal of 30 entries; entry 7 names a blob. Copy it before you change it."""
    folder = tmp_path_factory.mktemp("original") / "home"
    asyncio.run(write(folder, 30))
    return folder


@pytest.fixture
def home(original, memory_path) -> Path:
    return Path(shutil.copytree(original, memory_path / "home"))


def change(home: Path, sql: str, *parameters: object) -> None:
    with sqlite3.connect(home / "journal.db") as connection:
        assert connection.execute(sql, parameters).rowcount == 1
    connection.close()


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]


def rows_of(database: Path) -> object:
    """Every value of every row, with its type and as bytes; what the verifier promises to watch."""
    connection = sqlite3.connect(f"file:{database}?immutable=1", uri=True)
    connection.text_factory = lambda data: ("text", data)
    try:
        rows: list[object] = [connection.execute("SELECT * FROM sqlite_schema").fetchall()]
        columns = {"entries": ("seq", "entry", "leaf", *store.COLUMNS)}
        for table in TABLES:
            names = ", ".join(columns.get(table, ("*",)))
            rows.append(connection.execute(f"SELECT {names} FROM {table} NOT INDEXED").fetchall())
        for column in store.COLUMNS:
            by = f"INDEXED BY by_{column} WHERE {column} IS NOT NULL ORDER BY {column}, seq"
            rows.append(connection.execute(f"SELECT seq FROM entries {by}").fetchall())
        return rows
    except (sqlite3.Error, OverflowError):
        return None
    finally:
        connection.close()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_untouched_journal_verifies_and_stays_untouched(home):
    before = contents(home)
    report = verify_folder(home, KEY.public_key())
    assert (report.ok, report.problem, report.entries, report.blobs) == (True, "", 30, 1)
    assert report.checkpoints == 2
    assert contents(home) == before


@pytest.mark.parametrize("seq", [1, 7, 30])
def test_each_flipped_byte_of_an_entry_and_its_leaf_names_that_entry(home, seq):
    database = home / "journal.db"
    connection = sqlite3.connect(database)
    values = connection.execute("SELECT entry, leaf FROM entries WHERE seq = ?", (seq,)).fetchone()
    connection.close()
    # In the file itself: SQL would refuse to store what is not JSON, and would mend the indexes.
    whole = database.read_bytes()
    for value in values:
        assert whole.count(value) == 1
        start = whole.index(value)
        for at in spread(range(start, start + len(value)), 40):
            database.write_bytes(flipped(whole, at, at % 8))
            report = verify_folder(home, KEY.public_key())
            assert (report.ok, report.first_bad) == (False, seq), at - start


def test_no_flipped_byte_of_the_file_that_changes_a_value_goes_unnoticed(home):
    database = home / "journal.db"
    whole = database.read_bytes()
    truth = rows_of(database)
    pick = random.Random(20_261_101)
    missed, noticed, named = [], 0, 0
    each = examples(60, quick=12)
    # Every page gets its share: header, b-tree headers, cells, free space.
    places = [page + pick.randrange(4096) for page in range(0, len(whole), 4096) for _ in range(each)]
    places += [page + at for page in range(0, len(whole), 4096) for at in range(0, 16, 3)]
    places += pick.sample(range(100), 50)
    for at in places:
        database.write_bytes(flipped(whole, at, pick.randrange(8)))
        report = verify_folder(home, KEY.public_key())
        if report.ok and rows_of(database) != truth:
            missed.append(at)
        noticed += not report.ok
        named += report.first_bad is not None
        assert report.ok or report.problem
    assert missed == []
    assert noticed > len(places) / 5
    assert named > len(places) / 50
    database.write_bytes(whole)
    assert verify_folder(home, KEY.public_key()).ok


def test_each_flipped_byte_of_a_blob_names_the_entry_that_names_it(home):
    sha = hashlib.sha256(b"a screenshot").hexdigest()
    path = home / "blobs" / sha[:2] / sha
    for at in range(len(b"a screenshot")):
        path.write_bytes(flipped(b"a screenshot", at))
        report = verify_folder(home, KEY.public_key())
        assert (report.ok, report.first_bad) == (False, 7)
        assert sha in report.problem
    path.unlink()
    report = verify_folder(home, KEY.public_key())
    assert (report.ok, report.first_bad) == (False, 7)


def test_a_changed_blob_that_no_entry_names_is_found_too(home):
    sha = hashlib.sha256(b"loose").hexdigest()
    (home / "blobs" / sha[:2]).mkdir(exist_ok=True)
    (home / "blobs" / sha[:2] / sha).write_bytes(b"Loose")
    report = verify_folder(home, KEY.public_key())
    assert not report.ok
    assert sha in report.problem


def exchange(home: Path, seq: int) -> None:
    """What somebody does who knows how leaf hashes are made, but has no key."""
    connection = sqlite3.connect(home / "journal.db")
    (data,) = connection.execute("SELECT entry FROM entries WHERE seq = ?", (seq,)).fetchone()
    connection.close()
    changed = data.replace(b"line 12", b"line 99")
    assert changed != data
    change(home, "UPDATE entries SET entry = ?, leaf = ? WHERE seq = ?", changed, leaf_hash(changed), seq)


def test_an_entry_exchanged_together_with_its_hash_is_found_by_the_signature(home):
    exchange(home, 12)
    report = verify_folder(home, KEY.public_key())
    assert (report.ok, report.first_bad) == (False, 1)
    assert "Entries 1 to 16 do not lead to the signed root" in report.problem


async def test_entries_after_the_last_kept_checkpoint_are_covered_by_the_head(memory_path):
    journal = await Journal.open(memory_path / "live", KEY, "desk")
    await journal.append_many([entry(number, []) for number in range(1, 1011)])
    await journal.append_many([entry(12, [])])
    shutil.copytree(memory_path / "live", memory_path / "home")
    await journal.close()
    exchange(memory_path / "home", 1011)
    report = verify_folder(memory_path / "home", KEY.public_key())
    # The tree's right edge has the last of 1,011 leaves by itself.
    assert (report.ok, report.first_bad, report.checkpoints) == (False, 1011, 1)


def test_an_entry_older_than_the_one_before_it_is_noticed_even_when_it_was_signed(memory_path):
    written = store.Store(memory_path / "journal.db", KEY, "desk")
    times = [f"2026-11-0{day}T00:00:00.000000Z" for day in (1, 3, 2)]
    written.commit([encode_parts(entry(1, []), time) for time in times], 0)
    written.close()
    report = verify_folder(memory_path, KEY.public_key())
    assert (report.ok, report.first_bad) == (False, 3)
    assert "older" in report.problem


@pytest.mark.parametrize(
    ("sql", "first_bad"),
    [
        ("DELETE FROM entries WHERE seq = 30", 30),
        ("DELETE FROM entries WHERE seq = 5", 5),
        ("UPDATE entries SET seq = 31 WHERE seq = 30", 30),
        ("INSERT INTO entries (seq, entry, leaf) SELECT 31, entry, leaf FROM entries WHERE seq = 30", 31),
        ("DELETE FROM head", None),
        ("UPDATE head SET note = replace(note, '30', '31')", None),
        ("UPDATE head SET edge = zeroblob(length(edge))", None),
        ("UPDATE checkpoints SET note = note || ' '", None),
        ("UPDATE checkpoints SET size = 29", None),
        ("UPDATE checkpoints SET note = CAST(note AS BLOB)", None),
        ("INSERT INTO subtrees VALUES (0, zeroblob(32))", None),
        ("INSERT INTO checkpoints SELECT 99, note FROM checkpoints", None),
        ("UPDATE entries SET entry = CAST(entry AS TEXT) WHERE seq = 9", 9),
    ],
)
def test_rows_that_were_removed_added_moved_or_retyped_are_noticed(home, sql, first_bad):
    change(home, sql)
    report = verify_folder(home, KEY.public_key())
    assert not report.ok
    assert report.first_bad == first_bad
    assert report.problem


def test_a_journal_cut_back_to_an_older_head_row_is_noticed(home):
    connection = sqlite3.connect(home / "journal.db")
    connection.execute("DELETE FROM entries WHERE seq > 20")
    connection.commit()
    connection.close()
    report = verify_folder(home, KEY.public_key())
    assert (report.ok, report.first_bad) == (False, 21)


def test_an_entry_that_carries_another_number_is_noticed_even_when_it_was_signed(memory_path):
    written = store.Store(memory_path / "journal.db", KEY, "desk")
    good = encode_parts(entry(1, []), "2026-11-01T00:00:00.000000Z")
    written.commit([good, Parts(good.head + b"9", good.tail)], 0)
    written.close()
    report = verify_folder(memory_path, KEY.public_key())
    assert (report.ok, report.first_bad) == (False, 2)
    assert "another number" in report.problem


def test_an_entry_that_was_added_after_the_signed_ones_is_noticed(home):
    added = encode_parts(entry(31, []), "2099-01-01T00:00:00.000000Z").with_seq(31)
    change(home, "INSERT INTO entries (seq, entry, leaf) VALUES (31, ?, ?)", added, leaf_hash(added))
    report = verify_folder(home, KEY.public_key())
    assert (report.ok, report.first_bad) == (False, 31)
    assert "never signed" in report.problem


def test_a_checkpoint_of_another_journal_is_noticed_even_when_the_same_key_signed_it(home):
    root = bytes.fromhex(verify_folder(home, KEY.public_key()).root)
    change(home, "UPDATE checkpoints SET note = ?", Signer(KEY, "other/journal").sign(30, root))
    report = verify_folder(home, KEY.public_key())
    assert not report.ok
    assert "another journal" in report.problem


def test_an_index_that_hides_an_entry_is_noticed(home):
    connection = sqlite3.connect(home / "journal.db")
    connection.execute("PRAGMA writable_schema=ON")
    sql = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'by_device'").fetchone()[0]
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'IS NOT NULL', '= ''lab-1''') WHERE name = 'by_device'"
    )
    connection.execute("PRAGMA schema_version = 900")
    connection.commit()
    connection.close()
    connection = sqlite3.connect(home / "journal.db")
    connection.execute("REINDEX by_device")
    connection.execute("PRAGMA writable_schema=ON")
    connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'by_device'", (sql,))
    connection.commit()
    connection.close()
    report = verify_folder(home, KEY.public_key())
    assert not report.ok
    assert "by_device" in report.problem


def test_another_key_and_a_changed_schema_are_noticed(home):
    report = verify_folder(home, Ed25519PrivateKey.generate().public_key())
    assert "another key" in report.problem
    connection = sqlite3.connect(home / "journal.db")
    connection.execute("CREATE VIEW extra AS SELECT 1")
    connection.commit()
    connection.close()
    assert "tables or indexes" in verify_folder(home, KEY.public_key()).problem


@pytest.mark.parametrize("damage", ["empty", "noise", "half", "missing", "folder", "other"])
def test_a_mangled_database_gives_a_report_and_no_traceback(home, damage):
    database = home / "journal.db"
    data = database.read_bytes()
    database.unlink()
    if damage == "folder":
        database.mkdir()
    elif damage == "other":
        sqlite3.connect(database).execute("CREATE TABLE notes (text)").connection.close()
    elif damage != "missing":
        kinds = {"empty": b"", "noise": os.urandom(8192), "half": data[: len(data) // 2 // 4096 * 4096]}
        database.write_bytes(kinds[damage])
    report = verify_folder(home, KEY.public_key())
    assert not report.ok
    assert "journal" in report.problem


def test_a_home_that_a_crash_left_open_is_verified_without_changing_it(memory_path):
    async def crash() -> None:
        journal = await Journal.open(memory_path / "live", KEY, "desk")
        await journal.append_many([entry(number, []) for number in range(1, 11)])
        # What a kill would leave: database, log and spool as they are now.
        shutil.copytree(memory_path / "live", memory_path / "home")
        await journal.close()

    asyncio.run(crash())
    (memory_path / "home" / "journal.db-shm").unlink()
    before = contents(memory_path / "home")
    assert any(name.endswith("-wal") for name in before)
    report = verify_folder(memory_path / "home", KEY.public_key())
    assert (report.ok, report.entries, report.problem) == (True, 10, "")
    assert contents(memory_path / "home") == before


async def test_a_live_journal_is_verified_while_it_is_written(memory_path):
    journal = await Journal.open(memory_path, KEY, "desk")
    await journal.append_many([entry(number, []) for number in range(1, 2501)])
    seen: list[tuple[int, int]] = []
    checking = asyncio.gather(journal.verify(progress=lambda done, total: seen.append((done, total))))
    for number in range(50):
        await journal.append(entry(number, []))
    (report,) = await checking
    assert report.ok, report.problem
    assert report.entries >= 2500
    assert report.checkpoints == 3
    assert seen[-1] == (report.entries, report.entries)
    await journal.close()


async def test_a_verification_that_is_stopped_does_not_say_that_all_is_well(memory_path):
    journal = await Journal.open(memory_path, KEY, "desk")
    await journal.append_many([entry(number, []) for number in range(1, 20)])
    stop = threading.Event()
    stop.set()
    report = await journal.verify(stop=stop)
    assert not report.ok
    assert "Stopped" in report.problem
    await journal.close()


async def test_a_wrong_stored_subtree_is_noticed_and_the_entries_are_cleared(memory_path):
    journal = await Journal.open(memory_path, KEY, "desk")
    await journal.append_many([entry(number, []) for number in range(1, 2101)])
    await journal.close()
    change(memory_path, "UPDATE subtrees SET root = zeroblob(32) WHERE number = 1")
    report = verify_folder(memory_path, KEY.public_key())
    assert "subtree 1" in report.problem
    assert "sound" in report.problem
