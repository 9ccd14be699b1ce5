"""Every byte of a killed home's journal files is watched, or means nothing to the format it is written in."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.fakes.flips import SHARES, KilledHome
from tests.fakes.run_size import examples
from tests.fakes.sqlite_space import NULL_TYPE, UNUSED, Space

POSITIONS = examples(200, quick=60)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, _in_memory: Path) -> KilledHome:
    folder = _in_memory / tmp_path_factory.mktemp("flips").name
    folder.mkdir()
    yield KilledHome(folder)
    shutil.rmtree(folder)


def test_no_changed_byte_of_a_killed_home_passes_unseen(home):
    flips = list(home.flips(POSITIONS, seed=20_261_122))
    assert [flip for flip in flips if flip.unnoticed] == []
    assert len(flips) >= POSITIONS - len(SHARES)
    used = [flip for flip in flips if flip.used]
    assert len(used) > POSITIONS / 2
    # All of the log counts here, and none of it may be passed over by a start either.
    assert all(
        flip.refused for flip in flips if flip.file in ("journal.db-wal", "journal.head", "journal.spool")
    )
    assert {flip.file.split("/")[0] for flip in used} == set(SHARES)


def test_what_is_said_to_be_unused_means_nothing_to_sqlite(memory_path):
    """The other way round: with every unused byte changed at once, each row reads as it did."""
    path = memory_path / "some.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, text TEXT, data BLOB)")
    connection.execute("CREATE INDEX by_text ON rows (text)")
    connection.executemany(
        "INSERT INTO rows (text, data) VALUES (?, ?)",
        [
            (f"text {number * 7919 % 400}", bytes([number % 256]) * (number % 30 * 400))
            for number in range(400)
        ],
    )
    connection.execute("DELETE FROM rows WHERE number % 5 = 2")
    connection.commit()
    wanted = connection.execute("SELECT * FROM rows").fetchall()
    connection.close()
    whole = path.read_bytes()
    used = Space(whole).database
    assert 0.1 < used.count(UNUSED) / len(used) < 0.7
    other = {UNUSED: 0x5A, NULL_TYPE: 0x08}
    path.write_bytes(bytes(byte ^ other.get(mark, 0) for byte, mark in zip(whole, used, strict=True)))
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT * FROM rows").fetchall() == wanted
    in_order = sorted(wanted, key=lambda row: (row[1], row[0]))
    assert connection.execute("SELECT * FROM rows INDEXED BY by_text ORDER BY text").fetchall() == in_order
    connection.close()
