"""The ledger of earlier versions: taken over once, with everything that it promised."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from core.aip.messages import Result, ResultStatus
from core.device.call_log import CallLog
from core.device.device_store import DeviceStore
from core.machine_id import machine_mark

ROOM = 10_000_000


def line(call_id: str, state: str, at: float = 0.0, **more: Any) -> bytes:
    row = {"c": call_id, "s": state, "w": "action::work 44136fa355b3678a", "t": at or time.time(), **more}
    return json.dumps(row).encode() + b"\n"


def done(call_id: str, at: float = 0.0) -> bytes:
    result = Result(status=ResultStatus.SUCCESS, result="done", call_id=call_id)
    return line(call_id, "done", at, r=result.model_dump(mode="json"))


def written(folder: Path, *lines: bytes, slot: int = 0, mark: str = "") -> Path:
    (folder / "calls").mkdir(exist_ok=True)
    (folder / "calls" / f"calls-{slot}.lock").write_text(mark)
    path = folder / "calls" / f"calls-{slot}.jsonl"
    path.write_bytes(b"".join(lines))
    return path


def states(folder: Path, *call_ids: str) -> list[tuple[str, str]]:
    """What a new client says of these calls."""

    async def look() -> list[tuple[str, str]]:
        calls = CallLog(DeviceStore(folder))
        answer, _ = await calls.recall(list(call_ids), ROOM)
        calls.close()
        rows = [answer[call_id] for call_id in call_ids]
        return [(row["state"], str((row["result"] or {}).get("error") or "")) for row in rows]

    return asyncio.run(look())


def test_what_ended_what_was_cut_and_what_never_came_are_taken_over_once(tmp_path: Path) -> None:
    written(
        tmp_path,
        *(line("ended", "started"), done("ended"), line("cut", "started"), line("asked", "gone")),
        mark=machine_mark(),
    )
    for _ in range(2):
        ended, cut, asked, new = states(tmp_path, "ended", "cut", "asked", "new")
        assert ended == ("done", "")
        assert cut == ("done", "outcome_unknown: It was running when the device client ended")
        assert asked == new == ("never_seen", "")
        # A second look would find what the store has dropped since.
        assert not (tmp_path / "calls").exists()


def test_what_one_client_was_refused_does_not_hide_what_another_did(tmp_path: Path) -> None:
    written(tmp_path, done("c", time.time() - 10))
    written(tmp_path, line("c", "gone"), slot=3)
    assert states(tmp_path, "c") == [("done", "")]


def test_lines_of_an_earlier_version_that_still_runs_are_left_to_it(tmp_path: Path) -> None:
    written(tmp_path, done("c"))
    with open(tmp_path / "calls" / "calls-0.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        states(tmp_path, "another")
        assert (tmp_path / "calls" / "calls-0.jsonl").exists()
    assert states(tmp_path, "c") == [("done", "")]
    assert not (tmp_path / "calls").exists()


def test_an_interruption_after_the_lines_were_taken_over_costs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, done("c"))
    with monkeypatch.context() as patch:
        patch.setattr("core.device.call_records.remove_old_lines", lambda _: None)
        assert states(tmp_path, "c") == [("done", "")]
    assert (tmp_path / "calls" / "calls-0.jsonl").exists()
    assert states(tmp_path, "c") == [("done", "")]
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize("fault", ["a flipped bit", "a power cut"])
def test_where_lines_may_be_missing_no_call_is_said_never_to_have_come(tmp_path: Path, fault: str) -> None:
    if fault == "a power cut":
        written(tmp_path, done("kept"), mark="f" * 64)
    else:
        written(tmp_path, done("kept"), done("lost").replace(b"lost", b"lo\xf3t"))
    for _ in range(2):
        [kept, (state, error)] = states(tmp_path, "kept", "lost")
        assert kept == ("done", "")
        assert (state, error.partition(":")[0]) == ("done", "outcome_unknown")


@settings(max_examples=30)
@given(junk=some.binary(max_size=300))
def test_damage_costs_the_damaged_lines_only(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    folder = tmp_path_factory.mktemp("state")
    junk = junk.replace(b"before", b"")
    written(folder, done("before"), junk, b"\n[]\n{}\n", b"[" * 5000, b'\n{"c": "torn"')
    [before, (state, _)] = states(folder, "before", "never came")
    assert before == ("done", "")
    assert state == "done"


def test_a_file_that_cannot_be_read_starts_no_client_that_denies_its_calls(tmp_path: Path) -> None:
    path = written(tmp_path, done("c"))
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match="directory"):
        states(tmp_path, "c")
    os.rmdir(path)
