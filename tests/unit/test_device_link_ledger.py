"""The record of calls: what outlives a process, what is forgotten, and what is never made up."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from core.aip.extensions import CommandOptions
from core.aip.messages import Command, Result, ResultStatus
from core.device.call_log import Call, CallLog
from core.device.ledger import Ledger, Line
from core.device.ledger_lines import EXPIRY_S
from core.errors import BadInput, DeviceError
from tests.fakes.small_disk import fill, small_disk_at

ROOM = 10_000_000


def command(call_id: str, tool: str = "work") -> Command:
    return Command(tool_name=tool, tool_type="action", call_id=call_id)


def result(call_id: str, value: Any = "done") -> Result:
    return Result(status=ResultStatus.SUCCESS, result=value, call_id=call_id)


def ran(store: CallLog, call_id: str, value: Any = "done", size: int = 10, *, action: bool = True) -> Call:
    call = store.accept(command(call_id), None, action=action)
    store.begin(call)
    store.finish(call, result(call_id, value), size)
    return call


def state(store: CallLog, call_id: str) -> tuple[str, str]:
    answer, _ = store.recall([call_id], ROOM)
    found = answer[call_id]
    return found["state"], str((found["result"] or {}).get("error") or "").partition(":")[0]


def reborn(tmp_path: Path, before: CallLog) -> CallLog:
    before.close()
    return CallLog(Ledger(tmp_path))


def test_a_new_process_knows_what_ended_what_was_cut_and_what_never_came(tmp_path: Path) -> None:
    store = CallLog(Ledger(tmp_path))
    ran(store, "small")
    ran(store, "large", "x" * 100_000)
    store.begin(store.accept(command("cut"), None, action=True))
    store.accept(command("waiting"), None, action=True)
    ran(store, "looked", action=False)
    assert state(store, "asked") == ("never_seen", "")
    store = reborn(tmp_path, store)
    assert state(store, "small") == ("done", "")
    assert state(store, "large") == ("done", "outcome_unknown")
    assert state(store, "cut") == ("done", "outcome_unknown")
    assert state(store, "waiting") == ("never_seen", "")
    assert store.result_of(store._calls["asked"]).error is not None
    store.close()


def test_the_files_are_for_this_user_alone(tmp_path: Path) -> None:
    store = CallLog(Ledger(tmp_path / "calls"))
    ran(store, "c")
    for path in (tmp_path / "calls").iterdir():
        assert path.stat().st_mode & 0o077 == 0
    store.close()


@settings(max_examples=30, deadline=None)
@given(junk=some.binary(max_size=300))
def test_a_damaged_file_costs_its_damaged_lines_only(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes
) -> None:
    folder = tmp_path_factory.mktemp("calls")
    store = CallLog(Ledger(folder))
    ran(store, "before")
    store.close()
    with open(folder / "calls-0.jsonl", "ab") as file:
        file.write(junk.replace(b"before", b"") + b"\n[]\n{}\n" + b"[" * 5000 + b"\n")
    store = CallLog(Ledger(folder))
    assert state(store, "before") == ("done", "")
    ran(store, "after")
    store = reborn(folder, store)
    assert state(store, "after") == ("done", "")
    store.close()


def test_a_torn_line_does_not_swallow_the_next(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.open()
    assert ledger._file is not None
    os.write(ledger._file, b'{"c": "torn", "s": "sta')
    ledger._torn = True
    ledger.write(Line("next", "started", "w", 4e9))
    ledger.close()
    again = Ledger(tmp_path)
    assert [line.call_id for line in again.open()] == ["next"]
    again.close()


def test_what_is_taken_over_does_not_become_a_part_of_a_torn_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = CallLog(Ledger(tmp_path)), CallLog(Ledger(tmp_path))
    ran(second, "taken over")
    first.close()
    second.close()
    with open(tmp_path / "calls-0.jsonl", "ab") as file:
        file.write(b'{"c": "torn"')

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "rewrite", full)
        with pytest.raises(DeviceError, match="No space left"):
            CallLog(Ledger(tmp_path))
    store = CallLog(Ledger(tmp_path))
    assert state(store, "taken over") == ("done", "")
    store.close()


def test_a_record_that_cannot_be_kept_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "calls").write_text("a file where the folder should be")
    with pytest.raises(BadInput, match="cannot keep"):
        CallLog(Ledger(tmp_path / "calls"))


def test_a_disk_that_is_full_at_the_start_costs_no_line_and_may_be_tried_again(tmp_path: Path) -> None:
    with small_disk_at(tmp_path / "disk", "64k") as disk:
        store = CallLog(Ledger(disk))
        ran(store, "before")
        store.close()
        filler = fill(disk)
        with pytest.raises(DeviceError, match="No space left"):
            CallLog(Ledger(disk))
        filler.unlink()
        store = CallLog(Ledger(disk))
        assert state(store, "before") == ("done", "")
        # Of a line that half fits, nothing stays.
        filler = fill(disk)
        size = filler.stat().st_size
        os.truncate(filler, size - 4096)
        late = store.accept(command("c" * 199), None, action=True)
        faults: list[DeviceError] = []
        while not faults:
            try:
                store.begin(late)
            except DeviceError as error:
                faults.append(error)
        filler.unlink()
        ran(store, "after")
        store = reborn(disk, store)
        assert not store._forgetful_until
        assert state(store, "after") == ("done", "")
        store.close()


def test_two_clients_keep_their_own_files_and_the_survivor_takes_over(tmp_path: Path) -> None:
    first, second = CallLog(Ledger(tmp_path)), CallLog(Ledger(tmp_path))
    ran(first, "c1")
    second.adopt()
    # The first one lives, so its calls are its own.
    assert second.find("c1") is None
    first.close()
    second.adopt()
    assert state(second, "c1") == ("done", "")
    second = reborn(tmp_path, second)
    assert state(second, "c1") == ("done", "")
    assert [path.name for path in tmp_path.glob("*.jsonl")] == ["calls-0.jsonl"]
    second.close()


@pytest.mark.parametrize("noted", ["begun", "buried"])
def test_a_call_that_waits_does_not_run_when_what_another_client_noted_of_it_is_taken_over(
    tmp_path: Path, noted: str
) -> None:
    first, second = CallLog(Ledger(tmp_path)), CallLog(Ledger(tmp_path))
    if noted == "begun":
        ran(first, "c1")
    else:
        assert state(first, "c1") == ("never_seen", "")
    again = second.accept(command("c1"), None, action=True)
    first.close()
    second.adopt()
    with pytest.raises(DeviceError, match="nother client"):
        second.begin(again)
    second = reborn(tmp_path, second)
    assert state(second, "c1") == (("done" if noted == "begun" else "never_seen"), "")
    second.close()


@pytest.mark.parametrize("survivor", ["first", "second"])
def test_clients_with_one_folder_never_run_one_call_twice_nor_deny_what_the_other_began(
    tmp_path: Path, survivor: str
) -> None:
    first, second = CallLog(Ledger(tmp_path)), CallLog(Ledger(tmp_path))
    running = first.accept(command("runs"), None, action=True)
    first.begin(running)
    assert state(second, "runs") == ("running", "")
    with pytest.raises(DeviceError, match="not run again"):
        second.begin(second.accept(command("runs"), None, action=True))
    assert state(first, "runs") == ("running", "")
    # Nor after a restart.
    second = reborn(tmp_path, second)
    assert state(second, "runs") == ("running", "")
    assert str(second.result_of(second._calls["runs"]).error).startswith("outcome_unknown: ")
    first.finish(running, result("runs"), 10)
    ran(first, "ended")
    assert state(second, "ended") == ("done", "")
    # What waits is nobody's yet: it is either refused from then on, or it has run.
    waiting = first.accept(command("waits"), None, action=True)
    assert state(second, "waits") == ("never_seen", "")
    with pytest.raises(DeviceError, match="never came"):
        first.begin(waiting)
    # What one was refused does not hide what the other did, when that takes it over, nor later.
    stays = second
    if survivor == "first":
        second.close()
        first.adopt()
        stays = first
    first.close()
    stays = reborn(tmp_path, stays)
    for ended in ("ended", "runs"):
        assert state(stays, ended) == ("done", "")
    assert state(stays, "waits") == ("never_seen", "")
    stays.close()


@pytest.mark.parametrize("fault", ["a flipped bit", "a power cut"])
def test_where_lines_may_be_missing_no_call_is_said_never_to_have_come(tmp_path: Path, fault: str) -> None:
    store = CallLog(Ledger(tmp_path))
    ran(store, "kept")
    lock, lines = (tmp_path / f"calls-0.{kind}" for kind in ("lock", "jsonl"))
    mark = lock.read_text()
    assert len(mark) == 64
    store.begin(store.accept(command("lost"), None, action=True))
    data = lines.read_bytes()
    store.close()
    assert lock.read_text() == ""
    if fault == "a power cut":
        lines.write_bytes(b"".join(data.splitlines(keepends=True)[:-1]))
        lock.write_text("f" * 64)
    else:
        lines.write_bytes(data.replace(b"lost", b"lo\xf3t"))
    store = CallLog(Ledger(tmp_path))
    assert state(store, "kept") == ("done", "")
    assert state(store, "lost") == ("done", "outcome_unknown")
    store.close()


def test_a_clock_that_jumps_makes_nothing_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wall = [0.0]
    monkeypatch.setattr("time.time", lambda: wall[0])
    store = CallLog(Ledger(tmp_path))
    # The year 1970, until the network says better; and once the other way round.
    for number, now in enumerate((1_800_000_000.0, 1_000_000_000.0)):
        call_id = f"c{number}"
        ran(store, call_id)
        wall[0] = now
        ran(store, f"{call_id} later")
        assert state(store, call_id) == ("done", "")
        store = reborn(tmp_path, store)
        assert state(store, call_id)[0] == "done"
    store.close()


def test_old_calls_expire_where_there_are_many_and_young_ones_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.device.call_log.KEPT_ANYWAY", 1)
    now = [1_000_000_000.0]
    store = CallLog(None, lambda: now[0])
    ran(store, "old")
    now[0] += EXPIRY_S + 1
    ran(store, "young")
    assert store.find("old") is None
    assert store.find("young") is not None


def test_results_are_bounded_in_bytes_and_ids_outlive_them() -> None:
    store = CallLog()
    for number in range(100):
        ran(store, f"a{number}", "x", 1_000_000)
        ran(store, f"o{number}", "x", 1_000_000, action=False)
        assert store.bytes_held <= 25_000_000
    assert state(store, "a0") == ("done", "outcome_unknown")
    assert state(store, "a99") == ("done", "")
    # To look again does no harm, so observations are simply forgotten.
    assert store.find("o0") is None


def test_what_had_to_be_forgotten_is_never_called_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.device.call_log._MOST_CALLS", 10)
    store = CallLog()
    for number in range(30):
        ran(store, f"a{number}")
    assert len(store) == 10
    assert state(store, "a0") == ("done", "outcome_unknown")
    assert state(store, "who knows") == ("done", "outcome_unknown")
    assert len(store) <= 12


def test_a_flood_of_recalls_does_not_make_the_store_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.device.call_log._MOST_CALLS", 100)
    store = CallLog()
    running = store.accept(command("running"), None, action=True)
    store.begin(running)
    for number in range(1000):
        store.recall([f"{number}-{one}" for one in range(10)], ROOM)
    assert len(store) <= 101
    # What is at work is never forgotten, however old.
    assert state(store, "running") == ("running", "")


def test_the_file_is_written_anew_before_it_grows_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.device.ledger._MOST_BYTES", 50_000)
    store = CallLog(Ledger(tmp_path))
    for number in range(400):
        ran(store, f"call-{number}", "x" * 500)
        assert (tmp_path / "calls-0.jsonl").stat().st_size < 60_000
    store = reborn(tmp_path, store)
    assert state(store, "call-0")[0] == "done"
    assert state(store, "call-399") == ("done", "")
    store.close()


def test_a_call_id_that_is_too_long_is_not_kept() -> None:
    with pytest.raises(DeviceError, match="at most"):
        CallLog().accept(command("x" * 201), None, action=True)


def test_lines_say_what_was_permitted(tmp_path: Path) -> None:
    store = CallLog(Ledger(tmp_path))
    store.begin(store.accept(command("c1"), CommandOptions(deadline_s=5, digest="ab12"), action=True))
    [line] = (tmp_path / "calls-0.jsonl").read_text().splitlines()
    # After the tool: the beginning of the SHA-256 of {}, then the permitted request's digest.
    assert json.loads(line)["w"] == "action::work 44136fa355b3678a ab12"
    store.close()
