"""A device that never saw a call says how far back that is certain: before, it may have run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from core.aip.extensions import RecalledResult
from core.aip.messages import Command, Result, ResultStatus
from core.device import call_log
from core.device.call_log import CallLog
from core.device.device_store import DATABASE, DeviceStore

ROOM = 10_000_000


async def ran(calls: CallLog, call_id: str, *, action: bool = True) -> None:
    command = Command(tool_name="work", tool_type="action", call_id=call_id)
    call = calls.accept(command, None, action=action)
    await calls.begin(call)
    await calls.finish(call, Result(status=ResultStatus.SUCCESS, result="done", call_id=call_id), 10)


async def told(calls: CallLog, call_id: str) -> RecalledResult:
    answer, _ = await calls.recall([call_id], ROOM)
    return RecalledResult.model_validate(answer[call_id])


def opened(folder: Path) -> CallLog:
    return CallLog(DeviceStore(folder))


def restarted(calls: CallLog, folder: Path) -> CallLog:
    calls.close()
    return opened(folder)


def delete_database(folder: Path) -> None:
    for path in folder.glob(f"{DATABASE}*"):
        path.unlink()


async def test_a_deleted_database_promises_nothing_of_the_calls_before_it(tmp_path: Path) -> None:
    calls = opened(tmp_path)
    sent_at = time.time()
    await ran(calls, "ran")
    calls.close()
    delete_database(tmp_path)
    calls = opened(tmp_path)
    after = await told(calls, "ran")
    assert after.state == "never_seen"
    assert not after.never_ran(time.time() - sent_at, action=True)
    # What is sent from now on is known.
    sent_at = time.time()
    later = await told(calls, "later")
    assert later.never_ran(time.time() - sent_at, action=True)
    calls.close()


async def test_a_database_that_lasts_knows_the_actions_of_the_clients_before(tmp_path: Path) -> None:
    calls = opened(tmp_path)
    sent_at = time.time()
    await ran(calls, "read", action=False)
    calls = restarted(calls, tmp_path)
    never, read = await told(calls, "never"), await told(calls, "read")
    assert never.never_ran(time.time() - sent_at, action=True)
    # Of what only reads it knows nothing after a restart.
    assert read.state == "never_seen"
    assert not read.never_ran(time.time() - sent_at, action=False)
    calls.close()


async def test_a_database_that_does_not_say_when_it_was_made_counts_as_old(tmp_path: Path) -> None:
    calls = opened(tmp_path)
    calls.close()
    store = DeviceStore(tmp_path)
    store.do(lambda connection: connection.execute("DELETE FROM doubts"))
    store.close()
    calls = opened(tmp_path)
    assert (await told(calls, "c")).never_ran(1e9, action=True)
    calls.close()


async def test_without_a_store_a_restart_forgets_actions_as_well() -> None:
    sent_at = time.time()
    await ran(CallLog(), "ran")
    after = await told(CallLog(), "ran")
    assert after.state == "never_seen"
    assert not after.never_ran(time.time() - sent_at, action=True)


async def test_a_read_that_had_to_be_dropped_is_not_called_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_log, "_MOST_RESULTS", 1)
    calls = CallLog()
    sent_at = time.time()
    await ran(calls, "first", action=False)
    await ran(calls, "second", action=False)
    dropped = await told(calls, "first")
    assert dropped.state == "never_seen"
    assert not dropped.never_ran(time.time() - sent_at, action=False)
