"""The record of calls: what outlives a process, what is forgotten, and what is never made up."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sqlite3
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from core.aip.extensions import CommandOptions
from core.aip.messages import Command, Result, ResultStatus
from core.device.call_log import Call, CallLog
from core.device.device_store import DATABASE, EXPIRY_S, SET_ASIDE, DeviceStore
from core.device.tool import NAMESPACE
from core.device.worker_threads import WorkerThreads
from core.errors import BadInput, DeviceError
from tests.fakes.run_size import examples
from tests.fakes.small_disk import fill, small_disk_at
from tests.fakes.watched_syncs import watching_syncs

ROOM = 10_000_000


def command(call_id: str, tool: str = "work") -> Command:
    return Command(tool_name=tool, tool_type="action", call_id=call_id)


def result(call_id: str, value: Any = "done") -> Result:
    return Result(status=ResultStatus.SUCCESS, result=value, call_id=call_id)


async def ran(
    calls: CallLog, call_id: str, value: Any = "done", size: int = 10, *, action: bool = True
) -> Call:
    call = calls.accept(command(call_id), None, action=action)
    await calls.begin(call)
    await calls.finish(call, result(call_id, value), size)
    return call


async def state(calls: CallLog, call_id: str) -> tuple[str, str]:
    answer, _ = await calls.recall([call_id], ROOM)
    found = answer[call_id]
    return found["state"], str((found["result"] or {}).get("error") or "").partition(":")[0]


def opened(folder: Path) -> CallLog:
    return CallLog(DeviceStore(folder))


def reborn(tmp_path: Path, before: CallLog) -> CallLog:
    before.close()
    return opened(tmp_path)


async def test_a_new_process_knows_what_ended_what_was_cut_and_what_never_came(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await ran(store, "small")
    await ran(store, "large", "x" * 100_000)
    await store.begin(store.accept(command("cut"), None, action=True))
    store.accept(command("waiting"), None, action=True)
    await ran(store, "looked", action=False)
    assert await state(store, "asked") == ("never_seen", "")
    store = reborn(tmp_path, store)
    assert await state(store, "small") == ("done", "")
    # However large its result was, that it succeeded is known.
    assert await state(store, "large") == ("done", "")
    assert await state(store, "cut") == ("done", "outcome_unknown")
    assert await state(store, "waiting") == ("never_seen", "")
    assert store.result_of(store._calls["asked"]).error is not None
    store.close()


SECRET = "tr0ub4dor&3-hunter2"
SPELLINGS = [
    SECRET.encode(),
    base64.b64encode(SECRET.encode()),
    SECRET.encode().hex().encode(),
    base64.b64encode(f"x{SECRET}".encode())[4:],
    base64.b64encode(f"xx{SECRET}".encode())[4:],
]


def stored(folder: Path) -> bytes:
    """All bytes of the store's files."""
    return b"".join(path.read_bytes() for path in folder.glob(f"{DATABASE}*"))


def unsaid(folder: Path) -> None:
    """The secret is nowhere in the store, in any spelling."""
    held = stored(folder)
    assert len(held) > 4096
    assert not [spelling for spelling in SPELLINGS if spelling in held]


ENDS = {
    "a text": Result(status=ResultStatus.SUCCESS, result={"stdout": SECRET, "exit_code": 0}),
    "a name of a member": Result(status=ResultStatus.SUCCESS, result={SECRET: 1}),
    "base64": Result(status=ResultStatus.SUCCESS, result=[SPELLINGS[1].decode(), SPELLINGS[2].decode()]),
    "a failure": Result(status=ResultStatus.FAILURE, error=f"tool_failed: no login with {SECRET}"),
    "a failure without a code": Result(status=ResultStatus.FAILURE, error=SECRET),
    "a form that an undo id never has": Result(
        status=ResultStatus.SUCCESS,
        namespace=NAMESPACE,
        result={"undo": f"{SECRET} {SECRET}", "exit_code": SECRET},
    ),
    "a hosted tool's field of that name": Result(
        status=ResultStatus.SUCCESS, namespace="vault", result={"undo": "tr0ub4dor-3-hunter2-"}
    ),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_neither_arguments_nor_what_a_call_answers_is_stored(tmp_path: Path, end: Result) -> None:
    calls = opened(tmp_path)
    given = Command(
        tool_name="work", tool_type="action", call_id="c1", parameters={"token": SECRET, SECRET: [SECRET]}
    )
    call = calls.accept(given, None, action=True)
    await calls.begin(call)
    unsaid(tmp_path)
    await calls.finish(call, end.model_copy(update={"call_id": "c1"}), 10)
    unsaid(tmp_path)
    # The client that ran it answers with all of it, however late it is asked.
    answer, _ = await calls.recall(["c1"], ROOM)
    assert answer["c1"]["result"]["result"] == end.result
    assert answer["c1"]["result"]["error"] == end.error
    calls = reborn(tmp_path, calls)
    answer, _ = await calls.recall(["c1"], ROOM)
    assert answer["c1"]["result"]["status"] == end.status
    calls.close()
    unsaid(tmp_path)
    assert b"tr0ub4dor-3" not in stored(tmp_path)


async def test_after_a_restart_a_late_answer_says_how_it_ended_and_how_it_is_undone(tmp_path: Path) -> None:
    calls = opened(tmp_path)
    ends = {
        "wrote": Result(
            status=ResultStatus.SUCCESS,
            namespace=NAMESPACE,
            result={"undo": "AbCdEfGhIjKlMnOpQrSt", "path": "/srv/x"},
        ),
        "ran": Result(
            status=ResultStatus.FAILURE,
            namespace=NAMESPACE,
            error="tool_failed: it ended with exit code 3",
            result={"exit_code": 3, "stderr": "words"},
        ),
    }
    for call_id, end in ends.items():
        call = calls.accept(command(call_id), None, action=True)
        await calls.begin(call)
        await calls.finish(call, end.model_copy(update={"call_id": call_id}), 10)
    calls = reborn(tmp_path, calls)
    answer, _ = await calls.recall(["wrote", "ran"], ROOM)
    wrote, failed = answer["wrote"]["result"], answer["ran"]["result"]
    assert (wrote["status"], wrote["error"]) == ("success", None)
    assert wrote["result"]["undo"] == "AbCdEfGhIjKlMnOpQrSt"
    assert failed["status"] == "failure"
    assert failed["error"].startswith("tool_failed: The device client that ran it has ended")
    assert failed["result"]["exit_code"] == 3
    assert all("results are not stored" in told["result"]["not_kept"] for told in (wrote, failed))
    assert "path" not in wrote["result"]
    calls.close()


async def test_a_record_that_cannot_be_kept_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "calls").write_text("a file where the folder should be")
    with pytest.raises(BadInput, match="cannot keep"):
        opened(tmp_path / "calls")


async def test_a_disk_that_is_full_costs_no_record_and_runs_nothing(tmp_path: Path) -> None:
    with small_disk_at(tmp_path / "disk", "512k") as disk:
        store = opened(disk)
        await ran(store, "before")
        store.close()
        filler = fill(disk)
        with pytest.raises(DeviceError, match="No space left"):
            opened(disk)
        filler.unlink()
        store = opened(disk)
        assert await state(store, "before") == ("done", "")
        filler = fill(disk)
        faults: list[DeviceError] = []
        for number in range(1000):
            try:
                await store.begin(store.accept(command(f"{number:0199}"), None, action=True))
            except DeviceError as error:
                faults.append(error)
                break
        assert "No space left" in faults[0].message
        filler.unlink()
        await ran(store, "after")
        store = reborn(disk, store)
        assert not store._forgetful_until
        assert await state(store, "after") == ("done", "")
        assert await state(store, f"{number:0199}") == ("never_seen", "")
        store.close()


async def test_two_clients_keep_their_own_records_and_the_survivor_takes_over(tmp_path: Path) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    await ran(first, "c1")
    await second.adopt()
    # The first one lives, so its calls are its own.
    assert second.find("c1") is None
    first.close()
    await second.adopt()
    assert await state(second, "c1") == ("done", "")
    second = reborn(tmp_path, second)
    assert await state(second, "c1") == ("done", "")
    second.close()


@pytest.mark.parametrize("noted", ["begun", "buried"])
async def test_a_call_that_waits_does_not_run_when_what_another_client_noted_of_it_is_taken_over(
    tmp_path: Path, noted: str
) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    if noted == "begun":
        await ran(first, "c1")
    else:
        assert await state(first, "c1") == ("never_seen", "")
    again = second.accept(command("c1"), None, action=True)
    first.close()
    await second.adopt()
    with pytest.raises(DeviceError, match="nother client"):
        await second.begin(again)
    second = reborn(tmp_path, second)
    assert await state(second, "c1") == (("done" if noted == "begun" else "never_seen"), "")
    second.close()


@pytest.mark.parametrize("survivor", ["first", "second"])
async def test_clients_with_one_folder_never_run_one_call_twice_nor_deny_what_the_other_began(
    tmp_path: Path, survivor: str
) -> None:
    first, second = opened(tmp_path), opened(tmp_path)
    running = first.accept(command("runs"), None, action=True)
    await first.begin(running)
    assert await state(second, "runs") == ("running", "")
    with pytest.raises(DeviceError, match="not run again"):
        await second.begin(second.accept(command("runs"), None, action=True))
    assert await state(first, "runs") == ("running", "")
    # Nor after a restart.
    second = reborn(tmp_path, second)
    assert await state(second, "runs") == ("running", "")
    with pytest.raises(DeviceError, match="not run again"):
        await second.begin(second.accept(command("runs"), None, action=True))
    second = reborn(tmp_path, second)
    await first.finish(running, result("runs"), 10)
    await ran(first, "ended")
    assert await state(second, "ended") == ("done", "")
    # What waits is nobody's yet: it is either refused from then on, or it has run.
    waiting = first.accept(command("waits"), None, action=True)
    assert await state(second, "waits") == ("never_seen", "")
    with pytest.raises(DeviceError, match="never came"):
        await first.begin(waiting)
    # What one was refused does not hide what the other did, when that takes it over, nor later.
    stays = second
    if survivor == "first":
        second.close()
        await first.adopt()
        stays = first
    first.close()
    stays = reborn(tmp_path, stays)
    for ended in ("ended", "runs"):
        assert await state(stays, ended) == ("done", "")
    assert await state(stays, "waits") == ("never_seen", "")
    stays.close()


def copied(folder: Path, to: Path, log_bytes: int | None = None) -> Path:
    """A state folder after a power failure: the log's bytes after `log_bytes` never reached the disk."""
    to.mkdir()
    (to / DATABASE).write_bytes((folder / DATABASE).read_bytes())
    (to / f"{DATABASE}-wal").write_bytes((folder / f"{DATABASE}-wal").read_bytes()[:log_bytes])
    return to


async def test_after_a_power_cut_what_began_is_unknown_and_what_never_came_is_never_seen(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path / "before")
    await ran(store, "kept")
    await store.begin(store.accept(command("lost"), None, action=True))
    log = tmp_path / "before" / f"{DATABASE}-wal"
    on_disk = await asyncio.to_thread(lambda: log.stat().st_size)
    await store.finish(store._calls["lost"], result("lost"), 10)
    # Only that it ended may be lost.
    assert log.stat().st_size > on_disk
    after = opened(copied(tmp_path / "before", tmp_path / "after", on_disk))
    assert await state(after, "kept") == ("done", "")
    assert await state(after, "lost") == ("done", "outcome_unknown")
    assert await state(after, "never came") == ("never_seen", "")
    with pytest.raises(DeviceError, match="not run again"):
        await after.begin(Call("lost", "", "waiting", time.time(), action=True))
    after.close()
    store.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel that counts is Linux")
def test_that_a_call_began_is_on_the_disk_before_it_begins_and_its_end_waits_for_no_disk(
    memory_path: Path,
) -> None:
    store = opened(memory_path)

    def syncs_of(work: Callable[[], Coroutine[Any, Any, Any]]) -> list[str]:
        # Only threads that are started from the watched one are watched, and until they end.
        assert store._records is not None
        store._records._store._threads = threads = WorkerThreads(1, "watched")

        def watched() -> None:
            asyncio.run(work())
            threads.shutdown()

        return watching_syncs(watched)[1]

    asyncio.run(ran(store, "first"))
    call = store.accept(command("c"), None, action=True)
    assert syncs_of(lambda: store.begin(call)) == [f"{DATABASE}-wal"]
    assert syncs_of(lambda: store.finish(call, result("c"), 10)) == []
    assert syncs_of(lambda: state(store, "never came")) == [f"{DATABASE}-wal"]
    store.close()


async def test_where_records_may_be_missing_no_call_is_said_never_to_have_come(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await ran(store, "kept")
    await ran(store, "lost")
    store.close()
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        connection.execute("UPDATE calls SET call_id = ? WHERE call_id = ?", (b"lo\xf3t", b"lost"))
    store = opened(tmp_path)
    for _ in range(2):
        assert await state(store, "kept") == ("done", "")
        assert await state(store, "lost") == ("done", "outcome_unknown")
        store = reborn(tmp_path, store)
    store.close()


@pytest.mark.parametrize("damage", [b"", b"not a database"])
async def test_after_a_damaged_file_no_call_is_said_never_to_have_come(tmp_path: Path, damage: bytes) -> None:
    store = opened(tmp_path)
    await ran(store, "lost")
    store.close()
    (tmp_path / DATABASE).write_bytes(damage)
    store = opened(tmp_path)
    assert (tmp_path / SET_ASIDE).exists()
    for number in range(2):
        assert await state(store, "lost") == ("done", "outcome_unknown")
        await ran(store, f"new {number}")
        assert await state(store, f"new {number}") == ("done", "")
        store = reborn(tmp_path, store)
    store.close()


@settings(max_examples=examples(25, quick=10))
@given(
    at=some.floats(0, 1, exclude_max=True),
    junk=some.binary(min_size=1, max_size=2000),
    of_log=some.booleans(),
)
def test_no_damage_makes_a_call_that_ran_one_that_never_came(
    tmp_path_factory: pytest.TempPathFactory, at: float, junk: bytes, of_log: bool
) -> None:
    """Bytes of the file that say nothing true; in the log they end it, which SQLite's checksums notice."""

    async def attack() -> None:
        folder = tmp_path_factory.mktemp("state")
        store = opened(folder)
        for number in range(30):
            await ran(store, f"c{number}", "x" * 300)
        store.close()
        data = bytearray((folder / DATABASE).read_bytes())
        start = int(at * len(data))
        data[start : start + len(junk)] = junk
        (folder / DATABASE).write_bytes(data)
        if of_log:
            (folder / f"{DATABASE}-wal").write_bytes(junk * 100)
        try:
            store = opened(folder)
        except (BadInput, DeviceError):
            return
        states = [await state(store, f"c{number}") for number in range(30)]
        store.close()
        assert all(said == "done" for said, _ in states) or b"c" in junk

    asyncio.run(attack())


_CLAIMS = """
import asyncio, sys
from pathlib import Path
from core.aip.messages import Command
from core.device.call_log import CallLog
from core.device.device_store import DeviceStore
from core.errors import DeviceError

async def main():
    log = CallLog(DeviceStore(Path(sys.argv[1])))
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(100):
        name = f"c{number}"
        call = log.accept(Command(tool_name="t", tool_type="action", call_id=name), None, action=True)
        try:
            await log.begin(call)
        except DeviceError:
            continue
        print(name, flush=True)
    print("end", flush=True)
    sys.stdin.readline()

asyncio.run(main())
"""


async def test_of_several_processes_at_once_one_begins_each_call_and_none_is_forgotten_when_they_are_killed(
    tmp_path: Path,
) -> None:
    clients = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _CLAIMS, str(tmp_path)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(3)
    ]
    ends = [(client.stdin, client.stdout) for client in clients]
    try:
        for _, output in ends:
            assert output is not None
            assert await output.readline() == b"ready\n"
        for source, _ in ends:
            assert source is not None
            source.write(b"go\n")
        begun: list[str] = []
        for _, output in ends:
            assert output is not None
            begun += (await output.readuntil(b"end\n")).decode().split()[:-1]
        assert sorted(begun) == sorted(f"c{number}" for number in range(100))
        survivor = opened(tmp_path)
        # Each client still lives, so its calls are its own.
        assert await state(survivor, "c7") == ("running", "")
    finally:
        for client in clients:
            client.kill()
            await client.wait()
    for number in range(100):
        assert await state(survivor, f"c{number}") == ("done", "outcome_unknown")
    survivor.close()


async def test_a_clock_that_jumps_makes_nothing_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = [0.0]
    monkeypatch.setattr("time.time", lambda: wall[0])
    store = opened(tmp_path)
    # The year 1970, until the network says better; and once the other way round.
    for number, now in enumerate((1_800_000_000.0, 1_000_000_000.0)):
        call_id = f"c{number}"
        await ran(store, call_id)
        wall[0] = now
        await ran(store, f"{call_id} later")
        assert await state(store, call_id) == ("done", "")
        store = reborn(tmp_path, store)
        assert (await state(store, call_id))[0] == "done"
    store.close()


async def test_old_calls_expire_where_there_are_many_and_young_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.device.call_log.KEPT_ANYWAY", 1)
    now = [1_000_000_000.0]
    store = CallLog(None, lambda: now[0])
    await ran(store, "old")
    now[0] += EXPIRY_S + 1
    await ran(store, "young")
    assert store.find("old") is None
    assert store.find("young") is not None


async def test_results_are_bounded_in_bytes_and_ids_outlive_them() -> None:
    store = CallLog()
    for number in range(100):
        await ran(store, f"a{number}", "x", 1_000_000)
        await ran(store, f"o{number}", "x", 1_000_000, action=False)
        assert store.bytes_held <= 25_000_000
    assert await state(store, "a0") == ("done", "outcome_unknown")
    assert await state(store, "a99") == ("done", "")
    # To look again does no harm, so observations are simply forgotten.
    assert store.find("o0") is None


async def test_what_had_to_be_forgotten_is_never_called_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.device.call_log._MOST_CALLS", 10)
    store = CallLog()
    for number in range(30):
        await ran(store, f"a{number}")
    assert len(store) == 10
    assert await state(store, "a0") == ("done", "outcome_unknown")
    assert await state(store, "who knows") == ("done", "outcome_unknown")
    assert len(store) <= 12


async def test_a_flood_of_recalls_does_not_make_the_store_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.device.call_log._MOST_CALLS", 100)
    store = CallLog()
    running = store.accept(command("running"), None, action=True)
    await store.begin(running)
    for number in range(1000):
        await store.recall([f"{number}-{one}" for one in range(10)], ROOM)
    assert len(store) <= 101
    # What is at work is never forgotten, however old.
    assert await state(store, "running") == ("running", "")


async def test_the_file_stays_small_and_facts_go_before_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.device.call_records._MOST_FACT_BYTES", 1_000)
    monkeypatch.setattr("core.device.call_records._NOTES_BETWEEN_TRIMS", 16)
    store = opened(tmp_path)
    for number in range(400):
        await ran(store, f"call-{number}", "x" * 500)
    store.close()
    assert (tmp_path / DATABASE).stat().st_size < 150_000
    store = opened(tmp_path)
    assert await state(store, "call-0") == ("done", "outcome_unknown")
    assert await state(store, "call-399") == ("done", "")
    store.close()


async def test_records_that_had_to_be_dropped_are_never_called_never_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.device.call_records._MOST_RECORDS", 10)
    monkeypatch.setattr("core.device.call_records._NOTES_BETWEEN_TRIMS", 4)
    store = opened(tmp_path)
    for number in range(50):
        await state(store, f"never came {number}")
    store = reborn(tmp_path, store)
    assert len(store) < 20
    # Those that never ran are dropped without a doubt.
    assert await state(store, "another") == ("never_seen", "")
    running = store.accept(command("running"), None, action=True)
    await store.begin(running)
    for number in range(50):
        await ran(store, f"a{number}")
    beside = opened(tmp_path)
    # What runs is never dropped, however old.
    assert await state(beside, "running") == ("running", "")
    beside.close()
    store = reborn(tmp_path, store)
    assert len(store) < 20
    assert await state(store, "a0") == ("done", "outcome_unknown")
    store.close()


async def test_old_records_expire_where_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.device.call_records.KEPT_ANYWAY", 1)
    now = [1_000_000_000.0]

    def at() -> CallLog:
        return CallLog(DeviceStore(tmp_path), lambda: now[0])

    store = at()
    await ran(store, "old")
    now[0] += EXPIRY_S - 1
    await ran(store, "young")
    store.close()
    store = at()
    assert store.find("old") is not None
    store.close()
    now[0] += 2
    store = at()
    assert store.find("old") is None
    assert store.find("young") is not None
    store.close()


async def test_a_call_id_that_is_too_long_is_not_kept() -> None:
    with pytest.raises(DeviceError, match="at most"):
        CallLog().accept(command("x" * 201), None, action=True)


async def test_records_say_what_was_permitted(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await store.begin(store.accept(command("c1"), CommandOptions(deadline_s=5, digest="ab12"), action=True))
    store.close()
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
        [what] = connection.execute("SELECT what FROM calls").fetchone()
    # After the tool: the beginning of a SHA-256 of the call id and {}, then the permitted request's digest.
    given = hashlib.sha256(b'["c1", {}]').hexdigest()[:16]
    assert what == f"action::work {given} ab12".encode()


@pytest.mark.parametrize(
    "call_id", ["", "\x00", "\ud800", "\U0001f600", "'); DROP TABLE calls; --", "a\x00b"]
)
async def test_any_text_can_be_an_id(tmp_path: Path, call_id: str) -> None:
    store = opened(tmp_path)
    assert await state(store, f"{call_id}+") == ("never_seen", "")
    await ran(store, call_id)
    store = reborn(tmp_path, store)
    assert await state(store, call_id) == ("done", "")
    assert await state(store, f"{call_id}+") == ("never_seen", "")
    store.close()


async def test_a_call_that_comes_while_it_is_looked_up_is_never_seen_and_never_runs(tmp_path: Path) -> None:
    store = opened(tmp_path)

    async def comes() -> Call:
        return store.accept(command("c"), None, action=True)

    looked, late = await asyncio.gather(state(store, "c"), comes())
    assert looked == ("never_seen", "")
    with pytest.raises(DeviceError, match="never came"):
        await store.begin(late)
    store.close()
