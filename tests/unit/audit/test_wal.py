"""The write-ahead log as this reader sees it, beside what SQLite itself takes from the same bytes."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import struct
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.audit.wal import WriteAheadLog, read_log

PAGE = 512
FRAME = 24 + PAGE
HEADER = 32


class Database:
    """A database in WAL mode; `copy` is what a kill would leave of it at this moment."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "live.db"
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        self.connection.execute(f"PRAGMA page_size={PAGE}")
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA wal_autocheckpoint=0")
        self.connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT)")

    def add(self, count: int, *, rows: int = 1) -> None:
        for _ in range(count):
            self.connection.execute("BEGIN")
            self.connection.executemany("INSERT INTO rows (text) VALUES (?)", [("x" * 300,)] * rows)
            self.connection.execute("COMMIT")

    @property
    def log(self) -> bytes:
        return Path(f"{self.path}-wal").read_bytes()


@pytest.fixture
def database(memory_path: Path) -> Iterator[Database]:
    made = Database(memory_path)
    yield made
    made.connection.close()


def taken_by_sqlite(database: Database, log: bytes) -> int:
    """How many frames SQLite's own recovery takes from these bytes."""
    copy = database.path.with_name("copy.db")
    shutil.copyfile(database.path, copy)
    Path(f"{copy}-wal").write_bytes(log)
    with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        # A read begins with the recovery.
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        return max(connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1], 0)


def flipped(data: bytes, at: int, by: int = 0x10) -> bytes:
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]


def test_a_whole_log_is_taken_whole(database):
    database.add(20)
    read = read_log(database.log, PAGE)
    assert (
        read.taken
        == read.frames
        == (len(database.log) - HEADER) // FRAME
        == taken_by_sqlite(database, database.log)
    )
    assert (read.broken, read.continues, read.foreign, read.damage("log")) == (None, False, False, "")
    assert read.size == database.connection.execute("PRAGMA page_count").fetchone()[0]


def test_the_newest_content_of_each_page_is_found(database):
    database.add(40, rows=2)
    log = database.log
    read = read_log(log, PAGE)
    database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = database.path.read_bytes()
    assert len(read.pages) > 20
    for page, at in read.pages.items():
        assert log[at : at + PAGE] == whole[(page - 1) * PAGE : page * PAGE]


def test_frames_from_before_a_restart_of_the_log_are_no_part_of_it(database):
    database.add(20)
    database.connection.execute("PRAGMA wal_checkpoint(RESTART)")
    database.add(2)
    log = database.log
    read = read_log(log, PAGE)
    assert 0 < read.taken < read.frames
    assert read.taken == taken_by_sqlite(database, log)
    assert (read.broken, read.damage("log")) == (None, "")
    # What is behind the end is not looked at.
    end = HEADER + read.taken * FRAME
    assert read_log(flipped(log, end + 100), PAGE) == read


def test_what_a_transaction_that_was_rolled_back_left_in_the_log_is_no_damage(database):
    database.add(3)
    connection = database.connection
    connection.execute("PRAGMA cache_size=5")
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO rows (text) VALUES (?)", [("y" * 300,)] * 60)
    spilled = len(database.log)
    connection.execute("ROLLBACK")
    database.add(1)
    log = database.log
    assert len(log) == spilled, "nothing was written before the end of the transaction"
    read = read_log(log, PAGE)
    assert read.taken == taken_by_sqlite(database, log) < read.frames
    assert not read.continues


def test_every_cut_of_a_log_is_an_end_as_a_crash_leaves_it(database):
    database.add(4)
    log = database.log
    for length in range(0, len(log), 37):
        read = read_log(log[:length], PAGE)
        assert read.taken == taken_by_sqlite(database, log[:length])
        assert (read.broken, read.damage("log")) == (None, "")


def test_sqlite_and_this_reader_stop_at_the_same_frame_wherever_a_byte_is_changed(database):
    database.add(12)
    log = database.log
    pick = random.Random(11)
    frames = read_log(log, PAGE).frames
    for at in [*range(HEADER), *(pick.randrange(HEADER, len(log)) for _ in range(150))]:
        changed = flipped(log, at, pick.randrange(1, 256))
        read = read_log(changed, PAGE)
        if 4 <= at < 8:
            # Of another version of the log SQLite says that it cannot open it.
            assert read.taken == 0
        else:
            assert read.taken == taken_by_sqlite(database, changed), at
        frame = (at - HEADER) // FRAME + 1 if at >= HEADER else 0
        assert read.damage("log")
        assert read.broken == frame
        # The last frames' commits have none behind them that could tell.
        assert read.continues or frame > frames - 6


def test_a_log_with_big_endian_checksums_is_read_as_well(database):
    database.add(5)
    log = database.log
    if sys.byteorder != "little":
        pytest.skip("this machine writes such logs itself")
    swapped = bytearray(struct.pack(">I", 0x377F0683) + log[4:24])
    first, second = checksum(bytes(swapped), 0, 0)
    swapped += struct.pack(">II", first, second)
    for at in range(HEADER, len(log), FRAME):
        frame = log[at : at + FRAME]
        first, second = checksum(frame[:8] + frame[24:], first, second)
        swapped += frame[:16] + struct.pack(">II", first, second) + frame[24:]
    read = read_log(bytes(swapped), PAGE)
    assert read.taken == read.frames == taken_by_sqlite(database, bytes(swapped)) > 0
    assert read_log(flipped(bytes(swapped), HEADER + FRAME + 90), PAGE).broken == 2


def checksum(data: bytes, first: int, second: int) -> tuple[int, int]:
    """SQLite's checksum over big-endian words, word by word."""
    words = array("I", data)
    words.byteswap()
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) % 2**32
        second = (second + words[at + 1] + first) % 2**32
    return first, second


@pytest.mark.parametrize("junk", [b"x", bytes(31), bytes(9000)])
def test_a_log_whose_header_was_never_written_is_empty(junk):
    assert read_log(junk, PAGE) == WriteAheadLog()


def test_what_is_no_log_is_called_so():
    read = read_log(b"Dear diary, nothing happened today.\n" * 300, PAGE)
    assert (read.foreign, read.taken) == (True, 0)
    assert read.damage("journal.db-wal") == "journal.db-wal is not a write-ahead log"
