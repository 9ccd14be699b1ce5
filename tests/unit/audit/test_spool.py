from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from core.audit.encode import Parts, encode_parts
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal
from core.audit.spool import Foreign, Gap, Record, Spool, Spooled, SpoolKey, next_numbers, pack, read_records
from core.audit.store import Store
from core.audit.verify import verify_folder
from core.errors import JournalCorrupt, JournalUnavailable
from tests.fakes.patience import PATIENCE_S

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SPOOL_KEY = SpoolKey(KEY)
# The first number that a journal gives at its first opening, less one.
FIRST = next_numbers(0)
records = st.lists(
    st.builds(
        Record, st.integers(1, 2**60), st.builds(Parts, st.binary(max_size=40), st.binary(max_size=40))
    ),
    max_size=6,
)


def new(text: str) -> NewEntry:
    return NewEntry(kind=Kind.COMMAND_SENT, actor="service", body={"text": text})


def note_bytes(number: int, text: str, time: str = "2026-11-01T00:00:00.000000Z") -> bytes:
    return pack(SPOOL_KEY, number, encode_parts(new(text), time))


async def texts_after_open(folder: Path) -> list[str]:
    journal = await Journal.open(folder, KEY, "desk")
    entries = (await journal.query("", after=0, limit=5000)).entries
    await journal.close()
    assert verify_folder(folder, KEY.public_key()).ok
    return [entry.body.get("text", entry.kind) for entry in entries]


def read(data: bytes) -> Spooled:
    return read_records(data, SPOOL_KEY)


@given(records)
def test_records_are_read_back_in_order(written):
    assert read(b"".join(pack(SPOOL_KEY, *record) for record in written)) == Spooled(written, [])


@given(records, records, st.binary(min_size=32, max_size=32))
def test_a_record_without_the_journals_own_mac_is_foreign_and_hides_nothing(before, behind, seed):
    other = SpoolKey(Ed25519PrivateKey.from_private_bytes(seed))
    record = Record(99, Parts(b"head", b"tail"))
    start, end = (b"".join(pack(SPOOL_KEY, *one) for one in part) for part in (before, behind))
    spooled = read(start + pack(other, *record) + end)
    if seed != KEY.private_bytes_raw():
        assert spooled == Spooled(before + behind, [], [Foreign(record, len(before))])
    # Without the journal's private key nothing tells them apart.
    assert read_records(start + pack(other, *record) + end, None).records == [*before, record, *behind]


def test_a_mac_is_of_one_number_and_one_entry():
    whole = pack(SPOOL_KEY, 7, Parts(b"head", b"tail"))
    assert read(whole).records
    for number, parts in (
        (8, Parts(b"head", b"tail")),
        (7, Parts(b"head", b"tael")),
        (7, Parts(b"hea", b"dtail")),
    ):
        other = bytearray(pack(SPOOL_KEY, number, parts))
        other[28:60] = whole[28:60]
        other[4:8] = zlib.crc32(other[8:60]).to_bytes(4, "little")
        assert [one.record for one in read(bytes(other)).foreign] == [Record(number, parts)]


@given(records, st.data())
def test_a_torn_end_never_hides_or_changes_what_is_before_it(written, data):
    last = pack(SPOOL_KEY, 99, Parts(b"head", b"tail"))
    whole = b"".join(pack(SPOOL_KEY, *record) for record in written)
    cut = data.draw(st.integers(1, len(last) - 1))
    gap = Gap(len(whole), len(whole) + cut, len(written), torn=True)
    assert read(whole + last[:cut]) == Spooled(written, [gap])
    # What a power cut leaves of a file whose length was written, and its end was not.
    zeros = Gap(len(whole), len(whole) + cut, len(written), torn=True)
    assert read(whole + bytes(cut)) == Spooled(written, [zeros])


@given(records, records, st.data())
def test_a_changed_byte_is_never_a_torn_end_and_hides_nothing_behind_it(before, behind, data):
    bad = pack(SPOOL_KEY, 99, Parts(b"head", b"tail"))
    at = data.draw(st.integers(0, len(bad) - 1))
    bad = bad[:at] + bytes([bad[at] ^ data.draw(st.integers(1, 255))]) + bad[at + 1 :]
    start = b"".join(pack(SPOOL_KEY, *record) for record in before)
    spooled = read(start + bad + b"".join(pack(SPOOL_KEY, *record) for record in behind))
    assert spooled.records == before + behind
    assert spooled.gaps == [Gap(len(start), len(start) + len(bad), len(before), torn=False)]
    assert f"byte {len(start):,}" in spooled.damage(0)


def noted(*numbers: int) -> bytes:
    return b"".join(note_bytes(number, f"x{number}") for number in numbers)


@pytest.mark.parametrize(
    ("numbers", "done", "damage"),
    [
        ((), 5, ""),
        ((1, 2, 3), 0, ""),
        ((1, 2, 3), 3, ""),
        ((4, 5), 3, ""),
        # What the journal has already may be missing.
        ((1, 4), 3, ""),
        ((1, 2, 4), 2, "records 3 to 3 are missing"),
        ((5, 6), 3, "records 4 to 4 are missing"),
        ((1, 3, 2), 3, "stands behind"),
        ((1, 1), 0, "stands behind"),
    ],
)
def test_records_that_were_taken_out_doubled_or_moved_are_noticed(numbers, done, damage):
    found = read(noted(*numbers)).damage(done)
    assert damage in found
    assert bool(found) == bool(damage)


def test_a_block_that_a_power_cut_kept_from_the_disk_is_no_damage_and_its_records_are_counted():
    data = bytearray(noted(*range(1, 21)))
    data[1024:1536] = bytes(512)
    spooled = read(bytes(data))
    assert spooled.damage(0) == ""
    assert 0 < spooled.lost(0) < 10
    assert len(spooled.records) == 20 - spooled.lost(0)
    assert spooled.records[-1].number == 20
    assert spooled.lost(20) == 0


async def test_each_point_of_a_crash_between_spool_and_journal_loses_and_doubles_nothing(memory_path):
    journal = await Journal.open(memory_path / "live", KEY, "desk")
    for number in range(1, 4):
        journal.note(new(f"n{number}"))
        await journal.append(new(f"a{number}"))
        # The spool still holds the notes, and the database their number: as after a kill right here.
        crash = memory_path / f"crash-{number}"
        shutil.copytree(memory_path / "live", crash)
        wanted = [f"{letter}{done}" for done in range(1, number + 1) for letter in "na"]
        assert await texts_after_open(crash) == wanted
    await journal.close()
    closed = (memory_path / "live" / "journal.db").read_bytes()
    for extra in range(4):
        for torn in (b"", note_bytes(9, "torn")[:-1], note_bytes(9, "torn")[:3]):
            home = memory_path / f"home-{extra}-{len(torn)}"
            home.mkdir()
            (home / "journal.db").write_bytes(closed)
            shutil.copy(memory_path / "live" / "journal.head", home)
            # Records 1 to 3 are in the journal; what is above was noted and never committed.
            spool = b"".join(note_bytes(FIRST + number, f"x{number}") for number in range(1, 4 + extra))
            (home / "journal.spool").write_bytes(spool + torn)
            found = await texts_after_open(home)
            fresh = [f"x{number}" for number in range(4, 4 + extra)]
            told = ["journal_recovered"] if extra else []
            assert found == ["n1", "a1", "n2", "a2", "n3", "a3", *fresh, *told]
            assert (home / "journal.spool").stat().st_size == 0
            # As after a crash between the commit of what was recovered and the emptying of the spool.
            (home / "journal.spool").write_bytes(spool + torn)
            assert await texts_after_open(home) == found


async def test_recovered_entries_never_go_back_in_time_and_are_counted(memory_path):
    journal = await Journal.open(memory_path, KEY, "desk")
    first = await journal.append(new("first"))
    await journal.close()
    (memory_path / "journal.spool").write_bytes(note_bytes(FIRST + 1, "early", "2020-01-01T00:00:00.000000Z"))
    journal = await Journal.open(memory_path, KEY, "desk")
    assert journal.state.recovered == 1
    assert (await journal.entry(2)).time == first.time
    told = await journal.entry(3)
    assert (told.kind, told.body) == (Kind.JOURNAL_RECOVERED, {"entries": 1, "torn_bytes": 0})
    journal.note(new("later"))
    await journal.close()
    assert await texts_after_open(memory_path) == ["first", "early", "journal_recovered", "later"]


async def test_many_spooled_entries_are_recovered_in_groups(memory_path):
    await (await Journal.open(memory_path, KEY, "desk")).close()
    (memory_path / "journal.spool").write_bytes(
        b"".join(note_bytes(FIRST + n, str(n)) for n in range(1, 4501))
    )
    assert await texts_after_open(memory_path) == [*map(str, range(1, 4501)), "journal_recovered"]


async def test_a_whole_record_that_is_no_entry_is_kept_and_named(memory_path):
    await (await Journal.open(memory_path, KEY, "desk")).close()
    data = pack(SPOOL_KEY, FIRST + 1, Parts(b"nonsense", b"here"))
    (memory_path / "journal.spool").write_bytes(data)
    with pytest.raises(JournalCorrupt, match=f"Record {FIRST + 1} of the spool"):
        await Journal.open(memory_path, KEY, "desk")
    assert (memory_path / "journal.spool").read_bytes() == data


async def test_a_block_lost_in_a_power_cut_is_told_in_the_journal(memory_path):
    await (await Journal.open(memory_path, KEY, "desk")).close()
    data = bytearray(noted(*range(FIRST + 1, FIRST + 21)))
    data[1024:1536] = bytes(512)
    (memory_path / "journal.spool").write_bytes(data)
    journal = await Journal.open(memory_path, KEY, "desk")
    told = (await journal.query("kind:journal_recovered", after=0)).entries[0]
    assert told.body["entries"] + told.body["lost"] == 20
    assert told.body["torn_bytes"] > 512
    await journal.close()


async def test_a_spool_that_was_taken_away_is_told_in_the_journal(memory_path):
    journal = await Journal.open(memory_path, KEY, "desk")
    await journal.append(new("first"))
    await journal.close()
    (memory_path / "journal.spool").unlink()
    report = verify_folder(memory_path, KEY.public_key())
    assert not report.ok
    assert "journal.spool is missing" in report.problem
    journal = await Journal.open(memory_path, KEY, "desk")
    assert (await journal.entry(2)).body == {"entries": 0, "torn_bytes": 0, "spool": "missing"}
    await journal.close()
    assert await texts_after_open(memory_path) == ["first", "journal_recovered"]


async def opened_and_killed(folder: Path, *texts: str) -> bytes:
    """Open the journal, note texts, and leave what a kill before the commit leaves; gives the spool."""
    live = folder.with_name(f"{folder.name}-live")
    with contextlib.suppress(FileNotFoundError):
        shutil.move(folder, live)
    journal = await Journal.open(live, KEY, "desk")
    shutil.copytree(live, folder)
    for text in texts:
        journal.note(new(text))
    data = (live / "journal.spool").read_bytes()
    await journal.close()
    shutil.rmtree(live)
    (folder / "journal.spool").write_bytes(data)
    return data


async def test_what_another_program_wrote_is_not_taken_but_kept_and_told(memory_path):
    home = memory_path / "home"
    own = await opened_and_killed(home, "ours")
    stranger = SpoolKey(Ed25519PrivateKey.generate())
    entry = NewEntry(kind=Kind.ALL_RESUMED, actor="operator:root")
    last = read(own).records[-1].number
    forged = pack(stranger, last + 1, encode_parts(entry, "2026-11-01T00:00:00.000000Z"))
    (home / "journal.spool").write_bytes(own + forged)
    report = verify_folder(home, KEY.public_key(), spool_key=SPOOL_KEY)
    assert not report.ok
    assert "1 record (all_resumed) that this journal's service did not write" in report.problem
    assert not report.first_bad
    journal = await Journal.open(home, KEY, "desk")
    assert journal.state.recovered == 1
    [aside] = home.glob("journal.spool.refused-*")
    assert aside.read_bytes() == own + forged
    assert aside.stat().st_mode & 0o777 == 0o600
    assert journal.notes == [
        "journal.spool has 1 record (all_resumed) that this journal's service did not write: another program"
        f" put them there. They were not taken, and are kept in {aside.name}."
    ]
    told = (await journal.query("kind:journal_recovered", after=0)).entries[-1]
    assert told.body == {"entries": 1, "torn_bytes": 0, "refused": 1, "set_aside": aside.name}
    await journal.close()
    assert await texts_after_open(home) == ["ours", "journal_recovered"]
    assert len(list(home.glob("journal.spool.refused-*"))) == 1


async def test_own_records_behind_a_foreign_one_are_taken_and_the_one_that_it_replaced_is_missed(memory_path):
    home = memory_path / "home"
    own = await opened_and_killed(home, "first", "second", "third")
    numbers = [record.number for record in read(own).records]
    at = [own.index(b"\0QM2"), own.index(b"\0QM2", 9), own.rindex(b"\0QM2")]
    other = pack(SpoolKey(Ed25519PrivateKey.generate()), numbers[1], encode_parts(new("forged"), "2026"))
    (home / "journal.spool").write_bytes(own[: at[1]] + other + own[at[2] :])
    journal = await Journal.open(home, KEY, "desk")
    told = (await journal.query("kind:journal_recovered", after=0)).entries[-1]
    assert (told.body["entries"], told.body["lost"], told.body["refused"]) == (2, 1, 1)
    await journal.close()
    assert await texts_after_open(home) == ["first", "third", "journal_recovered"]


async def test_a_spool_that_was_kept_from_an_earlier_opening_is_not_taken_again(memory_path):
    """Also where the records were never committed: another program had taken them out of the spool."""
    home = memory_path / "home"
    kept = await opened_and_killed(home, "taken out")
    (home / "journal.spool").write_bytes(b"")
    await opened_and_killed(home)
    for put in (kept, kept + kept):
        (home / "journal.spool").write_bytes(put)
        if put == kept:
            assert await texts_after_open(home) == []
        else:
            with pytest.raises(JournalCorrupt, match="stands behind"):
                await Journal.open(home, KEY, "desk")


async def test_a_spool_that_cannot_be_kept_is_not_emptied(memory_path, monkeypatch):
    await (await Journal.open(memory_path, KEY, "desk")).close()
    other = SpoolKey(Ed25519PrivateKey.generate())
    forged = pack(other, next_numbers(FIRST) + 1, encode_parts(new("x"), "2026"))
    (memory_path / "journal.spool").write_bytes(forged)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.audit.spool_recovery.create_new", full)
    with pytest.raises(JournalUnavailable, match="cannot be kept"):
        await Journal.open(memory_path, KEY, "desk")
    assert (memory_path / "journal.spool").read_bytes() == forged


async def test_a_drained_spool_is_emptied_once_it_has_grown(memory_path):
    journal = await Journal.open(memory_path, KEY, "desk")
    for _ in range(40):
        journal.note(new("x" * 10_000))
    await journal.append(new("all of them are before this one"))
    journal.note(new("next"))
    await journal.append(new("end"))
    assert (memory_path / "journal.spool").stat().st_size < 20_000
    await journal.close()
    assert len(await texts_after_open(memory_path)) == 43


def test_a_part_of_a_record_is_taken_back_and_the_spool_goes_on(memory_path, monkeypatch):
    spool = Spool(memory_path / "journal.spool", SPOOL_KEY)
    parts = encode_parts(new("x"), "2026-11-01T00:00:00.000000Z")
    assert spool.write(parts) == 1
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:10]))
    with pytest.raises(JournalUnavailable, match="only a part"):
        spool.write(parts)
    monkeypatch.setattr(os, "write", real)
    assert spool.write(parts) == 2
    spooled = read(spool.path.read_bytes())
    assert ([record.number for record in spooled.records], spooled.gaps) == ([1, 2], [])
    spool.close()


def test_a_spool_in_a_folder_that_is_not_there_is_said(memory_path):
    with pytest.raises(JournalUnavailable, match="cannot be opened"):
        Spool(memory_path / "nowhere" / "journal.spool", SPOOL_KEY)


NOTER = """
import asyncio, sys
from pathlib import Path
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from core.audit.entries import Kind, NewEntry
from core.audit.journal import Journal

async def main():
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    journal = await Journal.open(Path(sys.argv[1]), key, "desk")
    number = 0
    while True:
        number += 1
        entry = NewEntry(kind=Kind.COMMAND_SENT, actor="service", body={"text": str(number)})
        if number % 7:
            journal.note(entry)
        else:
            await journal.append(entry)
        # Told only after the call has returned: from here on it may not get lost.
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()

asyncio.run(main())
"""


def acknowledged_before_the_kill(folder: Path, after: int) -> int:
    """Kill a program that notes and appends once `after` are done; gives how many it said were written."""
    command = [sys.executable, "-c", NOTER, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3])
    assert process.stdout is not None
    with process.stdout as told:
        for _ in range(after):
            assert told.readline()
        process.send_signal(signal.SIGKILL)
        rest = told.read().splitlines(keepends=True)
    process.wait(timeout=PATIENCE_S)
    return after + sum(1 for line in rest if line.endswith(b"\n"))


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.parametrize("after", [1, 8, 63, 150, 400])
async def test_a_killed_process_loses_nothing_that_it_was_told_is_written(memory_path, after):
    acknowledged = acknowledged_before_the_kill(memory_path, after)
    found = [text for text in await texts_after_open(memory_path) if text != "journal_recovered"]
    # One more may be there: written, but killed before it could be told.
    assert found[:acknowledged] == [str(number) for number in range(1, acknowledged + 1)]
    assert len(found) <= acknowledged + 1


async def test_a_kill_keeps_what_was_noted_while_others_were_committed(memory_path, monkeypatch):
    live, killed = memory_path / "live", memory_path / "killed"
    journal = await Journal.open(live, KEY, "desk")
    real = Store.commit
    commits = 0

    def commit(store: Store, entries: Sequence[Parts], spool_done: int) -> int:
        nonlocal commits
        commits += 1
        if commits == 2:
            # What a kill leaves before the second commit.
            shutil.copytree(live, killed)
        first = real(store, entries, spool_done)
        if commits == 1:
            journal.note(new("noted meanwhile"))
        return first

    monkeypatch.setattr(Store, "commit", commit)
    await journal.append(new("committed"))
    await journal.settle()
    monkeypatch.undo()
    await journal.close()
    journal = await Journal.open(killed, KEY, "desk")
    entries = (await journal.query("", after=0)).entries
    await journal.close()
    assert [entry.body["text"] for entry in entries[:2]] == ["committed", "noted meanwhile"]


async def test_a_kill_between_making_and_naming_the_database_leaves_a_new_journal(memory_path):
    (memory_path / "journal.db.new").write_bytes(b"half")
    (memory_path / "journal.db.new-wal").write_bytes(b"half")
    journal = await Journal.open(memory_path, KEY, "desk")
    assert (await journal.append(new("first"))).seq == 1
    await journal.close()
    assert not (memory_path / "journal.db.new").exists()


def test_an_entry_that_was_committed_is_told_by_the_stores_own_number(memory_path):
    store = Store(memory_path / "journal.db", KEY, "desk")
    store.commit([encode_parts(new("x"), "2026-11-01T00:00:00.000000Z")], 41)
    store.reopen()
    assert (store.size, store.head.spool_done, store.last_time) == (1, 41, "2026-11-01T00:00:00.000000Z")
    store.close()
    assert store.head.checkpoint.origin == "desk/journal"
