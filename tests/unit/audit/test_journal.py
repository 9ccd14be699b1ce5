from __future__ import annotations

import asyncio
import gc
import itertools
import os
import sqlite3
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from core.audit import store, writer
from core.audit.checkpoint import read_checkpoint
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.journal import Journal
from core.audit.prove import verify_inclusion
from core.audit.store import CHECKPOINT_EVERY
from core.audit.verify import verify_folder
from core.errors import BadInput, ErrorCode, JournalCorrupt, JournalUnavailable
from tests.fakes.patience import PATIENCE_S

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def new(text: str = "", **fields) -> NewEntry:
    return NewEntry(**{"kind": Kind.COMMAND_SENT, "actor": "service", "body": {"text": text}, **fields})


def texts(entries: list[Entry]) -> list[str]:
    return [entry.body["text"] for entry in entries]


async def everything(journal: Journal) -> list[Entry]:
    return (await journal.query("", after=0, limit=5000)).entries


@pytest.fixture
async def journal(memory_path):
    opened = await Journal.open(memory_path / "home", KEY, "desk")
    yield opened
    await opened.close()


async def test_an_appended_entry_has_a_number_and_a_time_and_is_on_disk(journal):
    first = await journal.append(new("one"))
    second = await journal.append(new("two", run="r-1", duration_ms=1.5))
    assert (first.seq, second.seq) == (1, 2)
    assert first.time <= second.time
    other = sqlite3.connect(journal.folder / "journal.db")
    assert other.execute("SELECT count(*) FROM entries").fetchone() == (2,)
    other.close()
    assert await journal.entry(2) == second


async def test_groups_of_every_size_are_written_whole_and_in_order(journal):
    wanted: list[str] = []
    for size in (1, 2, 3, 4, 5, 15, 17, 63, 65, 255, 256, 257, 341, 600):
        group = [new(f"{size}, {number}") for number in range(size)]
        wanted += [entry.body["text"] for entry in group]
        written = await journal.append_many(group)
        assert [entry.seq for entry in written] == list(range(len(wanted) - size + 1, len(wanted) + 1))
    assert texts(await everything(journal)) == wanted
    assert (await journal.verify()).ok


async def test_notes_and_appends_keep_the_order_of_the_calls(journal):
    for number in range(50):
        journal.note(new(f"note {number}"))
        await journal.append(new(f"append {number}"))
    wanted = [f"{word} {number}" for number in range(50) for word in ("note", "append")]
    entries = await everything(journal)
    assert texts(entries) == wanted
    assert [entry.seq for entry in entries] == list(range(1, 101))
    times = [entry.time for entry in entries]
    assert times == sorted(times)


async def test_a_noted_entry_is_in_the_spool_before_note_returns_and_in_the_journal_soon(journal):
    committed = asyncio.Event()
    journal.watch(committed.set)
    journal.note(new("seen at once"))
    assert b"seen at once" in (journal.folder / "journal.spool").read_bytes()
    await asyncio.wait_for(committed.wait(), PATIENCE_S)
    assert texts(await everything(journal)) == ["seen at once"]


async def test_time_never_goes_back_when_the_clock_is_set_back(journal, monkeypatch):
    stamps = itertools.chain(["2027-01-01T00:00:00.000000Z"], itertools.repeat("2026-01-01T00:00:00.000000Z"))
    monkeypatch.setattr(writer, "now_utc", lambda: next(stamps))
    entries = [await journal.append(new()) for _ in range(3)]
    assert {entry.time for entry in entries} == {"2027-01-01T00:00:00.000000Z"}


async def test_many_callers_share_commits_and_each_gets_its_own_entries(journal):
    groups = await asyncio.gather(
        *(journal.append_many([new(f"{caller}.{number}") for number in range(3)]) for caller in range(40))
    )
    for caller, group in enumerate(groups):
        assert texts(group) == [f"{caller}.{number}" for number in range(3)]
        assert [entry.seq for entry in group] == list(range(group[0].seq, group[0].seq + 3))
    assert sorted(entry.seq for group in groups for entry in group) == list(range(1, 121))


async def test_a_list_with_one_bad_entry_writes_none_of_it(journal):
    with pytest.raises(BadInput):
        await journal.append_many([new("good"), new("bad", body={"x": float("nan")})])
    assert await journal.append_many([]) == []
    assert (await journal.append(new("next"))).seq == 1


async def test_a_caller_that_gives_up_waiting_does_not_disturb_the_others(journal):
    waiting = asyncio.gather(journal.append(new("given up")))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await journal.append(new("stayed"))).seq == 2


async def test_who_watches_is_told_of_each_commit_until_they_leave(journal):
    seen: list[int] = []
    leave = journal.watch(lambda: seen.append(journal.state.entries))
    for number in range(30):
        journal.note(new(str(number)))
    last = await journal.append(new("last"))
    assert seen == sorted(seen)
    assert seen[-1] == last.seq == 31
    entries = await everything(journal)
    assert texts(entries) == [*map(str, range(30)), "last"]
    assert entries[-1] == last
    leave()
    told = len(seen)
    await journal.append(new("unseen"))
    assert len(seen) == told


async def test_all_who_watch_are_told_also_when_one_leaves_while_it_is(journal):
    told: list[str] = []
    leave = journal.watch(lambda: (told.append("one"), leave()))
    journal.watch(lambda: told.append("other"))
    for _ in range(2):
        await journal.append(new())
    assert told == ["one", "other", "other"]
    leave()


async def test_the_state_says_what_is_there(journal):
    assert journal.state.writable
    await journal.append(new())
    assert (journal.state.entries, journal.state.error, journal.state.queued) == (1, None, 0)


async def test_closing_writes_what_was_noted_and_leaves_no_thread_and_no_log(memory_path):
    before = set(threading.enumerate())
    journal = await Journal.open(memory_path, KEY, "desk")
    for number in range(100):
        journal.note(new(str(number)))
    await journal.query("")
    await journal.close()
    await journal.close()
    assert {thread for thread in threading.enumerate() if thread.name.startswith("journal")} - before == set()
    names = ["journal.db", "journal.head", "journal.spool"]
    assert sorted(path.name for path in memory_path.iterdir()) == names
    assert (memory_path / "journal.spool").stat().st_size == 0
    assert verify_folder(memory_path, KEY.public_key()).entries == 100
    for refused in (journal.append(new()), journal.query(""), journal.verify()):
        with pytest.raises(JournalUnavailable, match="closed"):
            await refused
    with pytest.raises(JournalUnavailable, match="closed"):
        journal.note(new())
    assert not journal.state.writable


async def test_a_journal_goes_on_where_it_was_closed(memory_path):
    for start in range(3):
        journal = await Journal.open(memory_path, KEY, f"name-{start}")
        assert (await journal.append(new(str(start)))).seq == start + 1
        await journal.close()
    report = verify_folder(memory_path, KEY.public_key())
    assert (report.ok, report.entries, report.checkpoints) == (True, 3, 4)


async def test_a_checkpoint_is_kept_every_thousand_entries_at_exactly_that_size(journal):
    for _ in range(3):
        await journal.append_many([new() for _ in range(900)])
    db = sqlite3.connect(journal.folder / "journal.db")
    notes = dict(db.execute("SELECT size, note FROM checkpoints"))
    db.close()
    assert sorted(notes) == [CHECKPOINT_EVERY, 2 * CHECKPOINT_EVERY]
    assert read_checkpoint(notes[1000], KEY.public_key(), "desk/journal").size == 1000


@pytest.mark.parametrize("count", [1, 2, 5, 1023, 1024, 1025, 2500])
async def test_every_kind_of_place_in_the_tree_can_be_proven(memory_path, count):
    journal = await Journal.open(memory_path, KEY, "desk")
    await journal.append_many([new(str(number)) for number in range(count)])
    for seq in {1, 2, count // 2 or 1, 1023, 1024, 1025, 2049, count - 1 or 1, count} & set(
        range(1, count + 1)
    ):
        proof = await journal.prove(seq)
        assert verify_inclusion(proof, KEY.public_key())
        assert not verify_inclusion(proof.model_copy(update={"entry": proof.entry + " "}), KEY.public_key())
        assert not verify_inclusion(proof.model_copy(update={"seq": seq + 1}), KEY.public_key())
        assert not verify_inclusion(proof.model_copy(update={"path": [*proof.path, "zz"]}), KEY.public_key())
        assert not verify_inclusion(proof, Ed25519PrivateKey.generate().public_key())
    with pytest.raises(BadInput) as caught:
        await journal.prove(count + 1)
    assert caught.value.code is ErrorCode.NOT_FOUND
    await journal.close()


async def test_a_proof_holds_only_with_the_leaf_the_size_and_the_root_that_were_signed(memory_path):
    proofs = []
    for name, count in (("desk", 3), ("forged", 3)):
        journal = await Journal.open(memory_path / name, KEY, "desk")
        await journal.append_many([new(f"{name} {number}") for number in range(count)])
        proofs.append(await journal.prove(1))
        await journal.close()
    proof, forged = proofs
    assert verify_inclusion(proof, KEY.public_key())
    assert verify_inclusion(forged, KEY.public_key())
    # The same path leads from the first leaf to the same root in a tree of four.
    for changes in ({"leaf": forged.leaf}, {"size": 4}):
        assert not verify_inclusion(proof.model_copy(update=changes), KEY.public_key()), changes
    # Another tree of this size, whole in itself.
    signed = forged.model_copy(update={"checkpoint": proof.checkpoint})
    assert not verify_inclusion(signed, KEY.public_key())


async def test_an_entry_that_is_not_there_is_not_found(journal):
    with pytest.raises(BadInput) as caught:
        await journal.entry(99)
    assert caught.value.code is ErrorCode.NOT_FOUND


async def test_blobs_are_stored_once_and_read_back(journal):
    sha = await journal.put_blob(b"\x89PNG" * 1000)
    assert await journal.put_blob(b"\x89PNG" * 1000) == sha
    assert await journal.get_blob(sha) == b"\x89PNG" * 1000
    stored = [path.name for path in (journal.folder / "blobs").rglob("*") if path.is_file()]
    assert stored == [sha]


async def test_a_blob_that_was_changed_is_never_handed_out(journal):
    sha = await journal.put_blob(b"evidence")
    (journal.folder / "blobs" / sha[:2] / sha).write_bytes(b"Evidence")
    with pytest.raises(JournalCorrupt, match=sha):
        await journal.get_blob(sha)


@pytest.mark.parametrize("name", ["../journal.db", "", "AB" * 32, "ab" * 31 + "/."])
async def test_a_blob_name_cannot_lead_out_of_the_folder(journal, name):
    with pytest.raises(BadInput, match="not the name of a blob"):
        await journal.get_blob(name)


async def test_an_unknown_blob_is_not_found(journal):
    with pytest.raises(BadInput) as caught:
        await journal.get_blob("0" * 64)
    assert caught.value.code is ErrorCode.NOT_FOUND


def damaged(home: Path, how: str) -> None:
    database = home / "journal.db"
    if how == "truncated":
        os.truncate(database, 0)
    elif how == "noise":
        database.write_bytes(os.urandom(20_000))
    elif how == "deleted":
        database.unlink()
    else:
        db = sqlite3.connect(database)
        db.execute(how)
        db.commit()
        db.close()


@pytest.mark.parametrize(
    "how",
    [
        "truncated",
        "noise",
        "deleted",
        "DELETE FROM head",
        "DELETE FROM entries WHERE seq = 3",
        "UPDATE head SET edge = zeroblob(64)",
        "UPDATE head SET note = 'desk'",
        "DROP INDEX by_run",
        "CREATE TABLE more (x)",
        "PRAGMA user_version = 3",
        "PRAGMA user_version = 1",
        "DELETE FROM checkpoints",
    ],
)
async def test_a_damaged_journal_is_refused_by_name_and_left_as_it_is(memory_path, how):
    journal = await Journal.open(memory_path, KEY, "desk")
    await journal.append_many([new(), new(), new()])
    await journal.close()
    damaged(memory_path, how)
    before = {path.name: path.read_bytes() for path in memory_path.iterdir() if path.suffix == ".db"}
    with pytest.raises(JournalCorrupt, match=r"journal\.db|checkpoint"):
        await Journal.open(memory_path, KEY, "desk")
    assert {path.name: path.read_bytes() for path in memory_path.iterdir() if path.suffix == ".db"} == before


async def test_a_journal_of_another_key_is_refused(memory_path):
    await (await Journal.open(memory_path, KEY, "desk")).close()
    with pytest.raises(JournalCorrupt, match="another key"):
        await Journal.open(memory_path, Ed25519PrivateKey.generate(), "desk")


async def test_a_second_journal_on_the_same_folder_is_refused_and_the_first_goes_on(journal):
    journal.note(new("mine"))
    with pytest.raises(JournalUnavailable, match="Another program"):
        await Journal.open(journal.folder, KEY, "desk")
    assert (await journal.append(new())).seq == 2


async def test_a_stranger_that_holds_the_database_is_named_as_the_cause(memory_path, monkeypatch):
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.1)
    journal = await Journal.open(memory_path, KEY, "desk")
    stranger = sqlite3.connect(journal.folder / "journal.db", isolation_level=None)
    stranger.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalUnavailable, match="another program is writing"):
        await journal.append(new("refused"))
    stranger.execute("ROLLBACK")
    stranger.close()
    await journal.close()


async def test_after_a_strangers_write_nothing_more_is_written(memory_path):
    journal = await Journal.open(memory_path, KEY, "desk")
    await journal.append(new())
    stranger = sqlite3.connect(memory_path / "journal.db")
    stranger.execute("UPDATE head SET note = note || ' '")
    stranger.commit()
    stranger.close()
    for _ in range(2):
        with pytest.raises(JournalUnavailable, match="Another program has written"):
            await journal.append(new())
    assert not journal.state.writable
    with pytest.raises(JournalCorrupt, match="Another program"):
        await journal.close()


async def test_reading_goes_on_while_a_large_group_is_written(journal):
    await journal.append(new("first"))
    writing = asyncio.gather(*(journal.append_many([new() for _ in range(500)]) for _ in range(6)))
    for _ in range(20):
        page = await journal.query("first")
        assert page.count == 1
    await writing


async def test_a_page_that_left_matches_unread_does_not_keep_the_next_one_in_the_past(journal):
    await journal.append_many([new(str(number)) for number in range(10)])
    gc.disable()  # the collector would hide it, now and then
    try:
        for number in range(20):
            await journal.query("", after=0, limit=1)
            written = await journal.append(new(f"later {number}"))
            page = await journal.query("", limit=1)
            assert page.entries == [written]
    finally:
        gc.enable()
