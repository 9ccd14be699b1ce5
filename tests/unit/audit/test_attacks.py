"""What a program that can write the home's files, but has no key, tries with a journal: all is noticed."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit.checkpoint import read_checkpoint
from core.audit.encode import encode_parts
from core.audit.entries import Kind, NewEntry
from core.audit.head_file import read_head_file
from core.audit.journal import Journal
from core.audit.merkle import leaf_hash
from core.audit.spool import SpoolKey, pack
from core.audit.verify import verify_folder
from core.errors import JournalCorrupt

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
CLOSED, IN_THE_LOG = 20, 15
_MISSING = re.compile(r"(\d+) entr(?:y is|ies are) missing after (\d+)")


def new(text: str, **fields) -> NewEntry:
    return NewEntry(**{"kind": Kind.COMMAND_SENT, "actor": "service", "body": {"text": text}, **fields})


async def make(folder: Path) -> None:
    """`closed`: twice used and closed in order. `killed`: used again since, and as a kill leaves it."""
    live = folder / "live"
    for start in (0, CLOSED // 2):
        journal = await Journal.open(live, KEY, "desk")
        for number in range(start, start + CLOSED // 2):
            await journal.append(new(f"closed {number}"))
        await journal.close()
    shutil.copytree(live, folder / "closed")
    journal = await Journal.open(live, KEY, "desk")
    for number in range(IN_THE_LOG):
        await journal.append(new(f"in the log {number}"))
    shutil.copytree(live, folder / "killed")
    (folder / "killed" / "journal.db-shm").unlink()
    await journal.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attacks")
    asyncio.run(make(folder))
    return folder


@pytest.fixture
def closed(made: Path, memory_path: Path) -> Path:
    return Path(shutil.copytree(made / "closed", memory_path / "closed"))


@pytest.fixture
def killed(made: Path, memory_path: Path) -> Path:
    return Path(shutil.copytree(made / "killed", memory_path / "killed"))


def contents(folder: Path) -> dict[str, bytes]:
    """All files but SQLite's shared memory, which it makes anew whenever it opens a database."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }


def flip(path: Path, at: int, by: int = 0x5A) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= by
    path.write_bytes(data)


def change(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "journal.db")
    connection.execute("PRAGMA writable_schema=ON")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


async def refused(folder: Path) -> str:
    """What a start says that refuses the journal and leaves every file as it lies."""
    before = contents(folder)
    try:
        journal = await Journal.open(folder, KEY, "desk")
    except JournalCorrupt as error:
        assert contents(folder) == before
        return error.message
    await journal.close()
    raise AssertionError("the journal was opened")


def problem(folder: Path, **options: object) -> str:
    """What verification finds; it changes nothing."""
    before = contents(folder)
    report = verify_folder(folder, KEY.public_key(), **options)
    assert contents(folder) == before
    assert report.ok == (not report.problem)
    return report.problem


async def test_wherever_a_byte_of_the_log_is_changed_what_is_lost_is_said_and_nothing_is_signed_over_it(
    killed,
):
    log = killed / "journal.db-wal"
    whole = log.read_bytes()
    pick = random.Random(846)
    for at in [*range(0, 32, 3), *(pick.randrange(len(whole)) for _ in range(40))]:
        flip(log, at)
        for words in (problem(killed), await refused(killed)):
            missing, have = map(int, _MISSING.search(words).groups())
            assert missing + have == CLOSED + IN_THE_LOG, at
            assert "journal.db-wal" in words
        log.write_bytes(whole)
    assert problem(killed) == ""


async def test_the_number_of_lost_entries_is_exact(killed):
    log = killed / "journal.db-wal"
    flip(log, 100)
    total = CLOSED + IN_THE_LOG
    wanted = f"{IN_THE_LOG} entries are missing after {CLOSED}"
    report = verify_folder(killed, KEY.public_key())
    assert (report.ok, report.first_bad, report.entries) == (False, CLOSED + 1, CLOSED)
    assert wanted in report.problem
    assert "frame 1 of" in report.problem
    said = await refused(killed)
    assert wanted in said
    assert f"{total}" in said
    # The last frame is the last commit, of one entry.
    flip(log, 100)
    flip(log, log.stat().st_size - 1)
    assert f"1 entry is missing after {total - 1}" in problem(killed)
    assert f"1 entry is missing after {total - 1}" in await refused(killed)


@pytest.mark.parametrize(
    "statement",
    [
        f"DELETE FROM entries WHERE seq = {CLOSED + IN_THE_LOG}",
        "DELETE FROM checkpoints",
        "UPDATE head SET edge = zeroblob(length(edge))",
        f"UPDATE entries SET leaf = zeroblob(32) WHERE seq = {CLOSED + IN_THE_LOG}",
    ],
)
async def test_a_row_changed_through_the_log_is_refused_with_the_log_left_as_it_is(killed, statement):
    connection = sqlite3.connect(killed / "journal.db", isolation_level=None)
    connection.execute(statement)
    copied = killed.with_name("copied")
    # Before the connection ends, and with it the log.
    shutil.copytree(killed, copied)
    connection.close()
    (copied / "journal.db-shm").unlink()
    assert (copied / "journal.db-wal").stat().st_size > 0
    assert await refused(copied)
    assert problem(copied)


def remove_log(folder: Path, made: Path) -> None:
    (folder / "journal.db-wal").unlink()


def empty_log(folder: Path, made: Path) -> None:
    (folder / "journal.db-wal").write_bytes(b"")


def cut_log(folder: Path, made: Path) -> None:
    log = folder / "journal.db-wal"
    log.write_bytes(log.read_bytes()[: 32 + 4120 * 3])


def old_database(folder: Path, made: Path) -> None:
    remove_log(folder, made)
    shutil.copy(made / "closed" / "journal.db", folder)


def log_of_text(folder: Path, made: Path) -> None:
    (folder / "journal.db-wal").write_text("Dear diary, nothing happened today.\n" * 500)


@pytest.mark.parametrize("attack", [remove_log, empty_log, cut_log, old_database, log_of_text])
async def test_a_log_or_database_of_another_day_is_noticed(made, killed, attack):
    attack(killed, made)
    assert "missing after" in problem(killed)
    assert "missing after" in await refused(killed)


async def test_the_log_of_another_day_beside_a_journal_that_was_closed_is_noticed(made, memory_path):
    home = Path(shutil.copytree(made / "live", memory_path / "home"))
    assert problem(home) == ""
    shutil.copy(made / "killed" / "journal.db-wal", home)
    assert problem(home)
    assert await refused(home)


async def test_junk_in_place_of_the_log_of_a_journal_that_was_closed_is_noticed(closed):
    log = closed / "journal.db-wal"
    for junk in (b"x" * 40, b"Dear diary\n" * 2000, bytes(31) + b"\1" + bytes(5000)):
        log.write_bytes(junk)
        assert "not a write-ahead log" in problem(closed)
        assert "not a write-ahead log" in await refused(closed)
    log.unlink()
    assert problem(closed) == ""


async def test_the_head_file_cannot_be_taken_away_or_put_back_to_another_one(made, closed, memory_path):
    head = closed / "journal.head"
    whole = head.read_bytes()
    head.unlink()
    assert "journal.head is missing" in problem(closed)
    assert "journal.head is missing" in await refused(closed)
    other = await Journal.open(memory_path / "other", KEY, "other")
    await other.close()
    shutil.copy(memory_path / "other" / "journal.head", head)
    assert "another journal" in problem(closed)
    assert "another journal" in await refused(closed)
    for data in (b"", bytes(len(whole)), whole[:-1], whole + b"\0"):
        head.write_bytes(data)
        assert "journal.head is damaged" in problem(closed)
        assert "journal.head is damaged" in await refused(closed)
    # One of an earlier day claims less than the database has: it is brought up to date.
    older = made / "killed" / "journal.head"
    home = Path(shutil.copytree(made / "live", memory_path / "home"))
    shutil.copy(older, home)
    journal = await Journal.open(home, KEY, "desk")
    assert journal.state.entries == CLOSED + IN_THE_LOG
    await journal.close()
    assert problem(home) == ""


@pytest.mark.parametrize("database", ["kept", "gone"])
async def test_a_journal_cannot_be_begun_anew_beside_what_is_left_of_one(closed, database):
    for path in closed.iterdir():
        if path.name != "journal.head" and not (database == "kept" and path.name == "journal.db"):
            path.unlink()
    if database == "kept":
        assert "journal.spool is missing" in problem(closed)
    else:
        assert "journal.head" in await refused(closed)


def head_row_as_checkpoint(folder: Path) -> None:
    """Put another signed note of the same journal in the place of one that is kept."""
    connection = sqlite3.connect(folder / "journal.db")
    (note,) = connection.execute("SELECT note FROM head").fetchone()
    connection.execute("UPDATE checkpoints SET note = ? WHERE size = ?", (note, CLOSED))
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "attack",
    [
        lambda folder: change(folder, f"DELETE FROM checkpoints WHERE size = {CLOSED}"),
        lambda folder: change(folder, f"DELETE FROM checkpoints WHERE size = {CLOSED // 2}"),
        lambda folder: change(folder, "DELETE FROM checkpoints"),
        head_row_as_checkpoint,
    ],
    ids=["last", "first", "all", "exchanged"],
)
def test_a_checkpoint_signed_at_an_orderly_close_cannot_be_taken_away_or_exchanged(closed, attack):
    attack(closed)
    assert "checkpoint" in problem(closed)


SCHEMA_ATTACKS: list[tuple[str, ...]] = [
    ("UPDATE sqlite_schema SET name = 'by_time' WHERE name = 'by_run'",),
    ("UPDATE sqlite_schema SET tbl_name = 'head' WHERE name = 'by_run'",),
    ("UPDATE sqlite_schema SET rowid = 99 WHERE name = 'by_duration_ms'",),
    ("UPDATE sqlite_schema SET sql = CAST(sql AS BLOB) WHERE name = 'by_run'",),
    ("PRAGMA user_version = 1",),
    ("PRAGMA user_version = 7",),
    ("PRAGMA schema_version = 99",),
]


@pytest.mark.parametrize("statements", SCHEMA_ATTACKS, ids=[words[0][-40:] for words in SCHEMA_ATTACKS])
def test_a_changed_name_in_the_schema_is_noticed(closed, statements):
    change(closed, *statements)
    assert problem(closed)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (18, 1),
        (19, 1),
        (27, 0xEE),
        (31, 0x77),
        (43, 0x77),
        (59, 2),
        (59, 3),
        (63, 1),
        (67, 1),
        (80, 1),
        (95, 0xEE),
    ],
)
def test_a_changed_byte_of_the_databases_header_is_noticed(closed, at, value):
    path = closed / "journal.db"
    data = bytearray(path.read_bytes())
    assert data[at] != value
    data[at] = value
    path.write_bytes(data)
    assert problem(closed)


@pytest.mark.parametrize("more", [b"x", b"x" * 4096, bytes(4096)])
def test_bytes_behind_the_last_page_are_noticed(closed, more):
    path = closed / "journal.db"
    path.write_bytes(path.read_bytes() + more)
    assert "its pages take" in problem(closed) or "pages, and it has" in problem(closed)


def noted(folder: Path, *numbers: int) -> bytes:
    """The journal's own records, numbered from its head on."""
    time = "2026-11-01T00:00:00.000000Z"
    known = read_head_file(folder / "journal.head", KEY.public_key())
    assert known is not None
    key, done = SpoolKey(KEY), known.checkpoint.spool or 0
    return b"".join(
        pack(key, done + number, encode_parts(new(f"noted {number}"), time)) for number in numbers
    )


async def test_a_changed_byte_of_a_spool_drops_no_record_in_silence(closed):
    spool = closed / "journal.spool"
    data = noted(closed, *range(1, 6))
    spool.write_bytes(data)
    assert problem(closed) == ""
    for at in range(0, len(data), 7):
        spool.write_bytes(data)
        flip(spool, at)
        assert "journal.spool is damaged" in problem(closed), at
        assert "journal.spool is damaged" in await refused(closed), at
    spool.write_bytes(data)
    journal = await Journal.open(closed, KEY, "desk")
    assert journal.state.recovered == 5
    await journal.close()


@pytest.mark.parametrize("numbers", [(1, 2, 4, 5), (2, 3), (1, 3, 2), (1, 2, 2, 3)])
async def test_records_taken_out_of_a_spool_doubled_or_moved_are_noticed(closed, numbers):
    (closed / "journal.spool").write_bytes(noted(closed, *numbers))
    assert "journal.spool is damaged" in problem(closed)
    assert "journal.spool is damaged" in await refused(closed)


async def test_a_home_rolled_back_as_a_whole_is_found_by_a_checkpoint_that_was_kept_elsewhere(made, closed):
    newest = verify_folder(made / "live", KEY.public_key()).checkpoint
    earlier = verify_folder(closed, KEY.public_key()).checkpoint
    # Without it there is nothing to tell: all files are those of one earlier day.
    assert problem(closed) == ""
    against = read_checkpoint(newest, KEY.public_key())
    wanted = f"{IN_THE_LOG} entries are missing after {CLOSED}"
    assert wanted in problem(closed, against=against)
    assert problem(made / "live", against=against) == ""
    assert problem(made / "live", against=read_checkpoint(earlier, KEY.public_key())) == ""


async def test_a_journal_written_anew_with_the_same_key_is_found_by_a_checkpoint_kept_elsewhere(
    closed, memory_path
):
    earlier = read_checkpoint(verify_folder(closed, KEY.public_key()).checkpoint, KEY.public_key())
    journal = await Journal.open(memory_path / "anew", KEY, "desk")
    await journal.append_many([new(f"another {number}") for number in range(CLOSED + 9)])
    await journal.close()
    assert f"first {CLOSED} entries are not those" in problem(memory_path / "anew", against=earlier)
    other = await Journal.open(memory_path / "other", KEY, "other")
    await other.append_many([new(f"closed {number}") for number in range(CLOSED)])
    await other.close()
    assert problem(memory_path / "other", against=earlier)


def exchange(folder: Path, seq: int) -> None:
    """What a program does that knows how leaf hashes are made, but has no key."""
    connection = sqlite3.connect(folder / "journal.db")
    (data,) = connection.execute("SELECT entry FROM entries WHERE seq = ?", (seq,)).fetchone()
    changed = data.replace(b"line", b"lime")
    assert changed != data
    connection.execute(
        "UPDATE entries SET entry = ?, leaf = ? WHERE seq = ?", (changed, leaf_hash(changed), seq)
    )
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("seq", "first", "last"),
    # 3,600 leaves are 2048 + 1024 + 512 + 16; runs of 1,024 are stored, and checkpoints kept each thousand.
    [(7, 1, 1000), (1010, 1001, 1024), (1500, 1025, 2000), (2500, 2049, 3000), (3590, 3585, 3600)],
)
async def test_an_exchanged_entry_is_named_by_the_shortest_run_that_is_known(memory_path, seq, first, last):
    journal = await Journal.open(memory_path, KEY, "desk")
    await journal.append_many([new(f"line {number}") for number in range(3600)])
    await journal.close()
    exchange(memory_path, seq)
    report = verify_folder(memory_path, KEY.public_key(), indexes=False)
    assert report.first_bad == first
    assert f"Entries {first} to {last} do not lead" in report.problem


async def test_a_picture_changed_on_the_disk_is_not_what_a_later_entry_names(closed):
    journal = await Journal.open(closed, KEY, "desk")
    sha = await journal.put_blob(b"a picture")
    (closed / "blobs" / sha[:2] / sha).write_bytes(b"A picture")
    assert await journal.put_blob(b"a picture") == sha
    await journal.append(new("names it", blobs=[sha]))
    assert await journal.get_blob(sha) == b"a picture"
    await journal.close()
    assert problem(closed) == ""


async def test_a_last_entry_from_the_future_does_not_set_the_time_of_those_after_it(closed):
    later = """replace(CAST(entry AS TEXT), '"time":"20', '"time":"90')"""
    change(closed, f"UPDATE entries SET entry = CAST({later} AS BLOB) WHERE seq = {CLOSED}")
    assert f"Entry {CLOSED}" in await refused(closed)


LIVE_ATTACKS: dict[str, Callable[[Path], None]] = {
    "the log's header": lambda home: flip(home / "journal.db-wal", 17),
    "a frame's checksum": lambda home: flip(home / "journal.db-wal", 32 + 16),
    "a page in the log": lambda home: flip(home / "journal.db-wal", 32 + 24 + 4000),
    "the last frame": lambda home: flip(
        home / "journal.db-wal", (home / "journal.db-wal").stat().st_size - 9
    ),
    "the head file gone": lambda home: (home / "journal.head").unlink(),
    "the newest record of the head file": lambda home: flip(home / "journal.head", 30),
    "the other record of the head file": lambda home: flip(home / "journal.head", 4096 + 30),
    "the spool": lambda home: flip(home / "journal.spool", 50),
    "the text encoding": lambda home: flip(home / "journal.db", 59, 3),
}


@pytest.mark.parametrize("attack", LIVE_ATTACKS)
async def test_verification_of_an_open_journal_looks_at_every_file_too(memory_path, attack):
    journal = await Journal.open(memory_path, KEY, "desk")
    for number in range(5):
        journal.note(new(f"noted {number}"))
        await journal.append(new(f"line {number}"))
    report = await journal.verify()
    assert report.ok, report.problem
    LIVE_ATTACKS[attack](memory_path)
    assert not (await journal.verify()).ok
    await journal.close()
