"""A damaged journal: the service does not start, nothing is sent, nothing more is lost, and it is named."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import pytest_asyncio

from core.errors import ErrorCode
from core.home import Home
from tests.fakes.kept_home import contents, copy_of
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import make_home, run
from tests.fakes.service_process import service_process, until_online

READ = ("call", "this-computer", "get_system_info", "info_type=memory")
# What a start may touch: who owns the home, its log, its door, and SQLite's shared memory.


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that was used and closed in order."""
    home = make_home(tmp_path_factory.mktemp("kept") / "home")
    for _ in range(2):
        assert run(home, *READ).code == 0
    return home.path


@pytest.fixture
def closed(kept: Path, tmp_path: Path) -> Home:
    return copy_of(kept, tmp_path / "home")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kept_killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose service was killed: much of its journal is still in the log beside it."""
    home = make_home(tmp_path_factory.mktemp("kept") / "killed")
    async with service_process(home) as service:
        console = await service.console()
        await until_online(console)
        for _ in range(3):
            run = await console.runs.call("this-computer", "get_system_info", {"info_type": "memory"})
            await console.runs.wait(run.summary.id, PATIENCE_S)
        assert (await console.journal.verify()).ok
        await service.kill()
    assert (home.path / "journal.db-wal").stat().st_size > 0
    return home.path


@pytest.fixture
def killed(kept_killed: Path, tmp_path: Path) -> Home:
    return copy_of(kept_killed, tmp_path / "killed")


def overwrite_the_beginning(path: Path) -> None:
    path.write_bytes(b"\xa5" * 4096 + path.read_bytes()[4096:])


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 77])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_text(path: Path) -> None:
    path.write_text("Dear diary, nothing happened today.\n" * 500)


def replace_by_another_database(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE notes (text)")
    other.close()


def remove(path: Path) -> None:
    path.unlink()


def say_an_earlier_format(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(60)
        file.write((1).to_bytes(4, "big"))


def say_a_later_format(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(60)
        file.write((3).to_bytes(4, "big"))


DAMAGES: list[Callable[[Path], None]] = [
    overwrite_the_beginning,
    empty,
    replace_by_text,
    replace_by_another_database,
    remove,
    say_an_earlier_format,
    say_a_later_format,
]
# With its log beside it SQLite can make a cut database whole again, so that is another test.
CASES = [("closed", truncate), *((how, damage) for how in ("closed", "killed") for damage in DAMAGES)]


@pytest.mark.parametrize(("how", "damage"), CASES, ids=[f"{how}-{one.__name__}" for how, one in CASES])
async def test_a_damaged_journal_is_not_opened_and_nothing_more_of_it_is_lost(
    how, damage, tmp_path, closed, killed
):
    home: Home = closed if how == "closed" else killed
    damage(home.path / "journal.db")
    before = contents(home)
    async with service_process(home) as service:
        code, error = await service.ends()
    assert code == 8
    assert error is not None
    assert error.code is ErrorCode.JOURNAL_CORRUPT
    assert "journal.db" in error.message
    assert error.next
    assert contents(home) == before

    target = tmp_path / "never"
    done = run(home, "call", "this-computer", "write_file", f"file_path={target}", "content=x", "--json")
    assert done.code == 8, done
    assert done.json["error"]["code"] == "journal_corrupt"
    assert not target.exists()
    assert contents(home) == before

    verified = run(home, "audit", "verify", "--json")
    assert verified.code == 8, verified
    assert verified.json["error"]["message"]
    assert contents(home) == before


async def test_what_the_log_still_has_of_a_cut_journal_is_brought_back_whole_or_not_at_all(killed):
    truncate(killed.path / "journal.db")
    before = contents(killed)
    async with service_process(killed) as service:
        try:
            console = await service.console()
        except AssertionError:
            assert service.process.returncode == 8
            assert contents(killed) == before
            return
        state = await console.service.state()
        assert len(state.runs) == 3
        assert (await console.journal.verify()).ok


async def test_a_journal_of_another_home_is_not_taken_for_this_one(closed, tmp_path):
    home = closed
    other = make_home(tmp_path / "other")
    assert run(other, *READ).code == 0
    shutil.copy(other.path / "journal.db", home.path / "journal.db")
    before = contents(home)
    async with service_process(home) as service:
        code, error = await service.ends()
    assert (code, error.code if error else None) == (8, ErrorCode.JOURNAL_CORRUPT)
    assert contents(home) == before
    assert run(home, "audit", "verify").code == 8
    assert run(home, *READ).code == 8


def rows(home: Home, column: str) -> list[tuple[int, bytes]]:
    with sqlite3.connect(f"file:{home.path / 'journal.db'}?mode=ro&immutable=1", uri=True) as database:
        found = database.execute(f"SELECT seq, {column} FROM entries ORDER BY seq").fetchall()
    database.close()
    return [(int(seq), bytes(value)) for seq, value in found]


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x01
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("column", ["entry", "leaf"])
@pytest.mark.parametrize("which", [0, -1, 6])
def test_a_flipped_byte_of_a_row_is_named_by_its_entry(closed, column, which):
    path = closed.path / "journal.db"
    data = path.read_bytes()
    # A row has its entry right before its leaf, except where it is too long for a page of the database. The
    # newest leaves stand at the tree's right edge, too, so that a leaf alone is not found.
    both = zip(rows(closed, "entry"), rows(closed, "leaf"), strict=True)
    on_a_page = [(seq, entry, leaf) for (seq, entry), (_, leaf) in both if entry + leaf in data]
    seq, entry, leaf = on_a_page[which]
    row, value = entry + leaf, entry if column == "entry" else leaf
    assert data.count(row) == 1
    start = data.index(row) + (len(row) - len(value) if column == "leaf" else 0)
    flip(path, start + len(value) // 2)
    done = run(closed, "audit", "verify", "--json")
    assert done.code == 8, done
    assert done.json["first_bad"] == seq
    assert f"ntry {seq} " in done.json["problem"]
    plain = run(closed, "audit", "verify")
    assert plain.code == 8
    assert f"ntry {seq} " in plain.out


def test_a_row_that_was_taken_out_or_put_in_is_named(closed):
    path = closed.path / "journal.db"
    whole = path.read_bytes()
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM entries WHERE seq = 4")
    database.close()
    assert run(closed, "audit", "verify", "--json").json["first_bad"] == 4
    path.write_bytes(whole)
    last = rows(closed, "entry")[-1][0]
    with sqlite3.connect(path) as database:
        database.execute(
            "INSERT INTO entries (seq, entry, leaf) SELECT ?, entry, leaf FROM entries WHERE seq = 1",
            (last + 1,),
        )
    database.close()
    added = run(closed, "audit", "verify", "--json")
    assert (added.code, added.json["first_bad"]) == (8, last + 1)
    assert run(closed, *READ).code == 8


def test_a_flipped_byte_of_a_blob_is_named_by_the_entry_that_has_it(tmp_path, on_display):
    home = make_home(tmp_path / "home")
    shot = run(home, "call", "this-computer", "screenshot", "--json")
    assert shot.code == 0, shot
    blob = shot.json["evidence"][0]["blob"]
    found = run(home, "audit", "find", f"call:{shot.json['call_id']} kind:result_recorded", "--json")
    seq = found.json["entries"][0]["seq"]
    assert run(home, "audit", "verify").code == 0
    (file,) = [path for path in (home.path / "blobs").rglob("*") if path.is_file() and blob in path.name]
    flip(file, file.stat().st_size // 2)
    done = run(home, "audit", "verify", "--json")
    assert done.code == 8
    assert done.json["first_bad"] == seq
    assert blob[:12] in done.json["problem"]
    flip(file, file.stat().st_size // 2)
    assert run(home, "audit", "verify").code == 0
    file.unlink()
    assert run(home, "audit", "verify", "--json").json["first_bad"] == seq


async def test_a_running_service_finds_damage_too_and_says_so_to_everybody(killed):
    async with service_process(killed) as service:
        console = await service.console()
        assert (await console.journal.verify()).ok
        path = killed.path / "journal.db"
        with sqlite3.connect(path) as database:
            # It stays JSON, which the columns made from it need.
            text = "replace(CAST(entry AS TEXT), '\"service\"', '\"servicf\"')"
            changed = f"UPDATE entries SET entry = CAST({text} AS BLOB) WHERE seq = 3"
            assert database.execute(changed).rowcount == 1
        database.close()
        report = await console.journal.verify()
        assert not report.ok
        assert report.first_bad == 3
        assert (await console.service.state()).journal.first_bad == 3
        assert run(killed, "audit", "verify").code == 8
