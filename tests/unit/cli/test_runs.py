"""`runs show`: each step on each device has a result when the run has ended, also where it was not begun."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

from core.batch.models import Batch, result_of
from core.batch.run_history import rebuild_run
from core.cli import runs, saving, show
from core.cli.answer import print_answer
from core.cli.session import Session
from core.errors import BadInput, ErrorCode
from core.models.device_filter import parse_filter
from core.service.console import Console
from core.service.service import Service
from tests.fakes.fleet_data import make_devices
from tests.fakes.patience import PATIENCE_S

BATCH = Batch.model_validate(
    {
        "name": "fails first",
        "steps": [
            {"id": "first", "tool": "read_file", "with": {"file_path": "/no/such/file"}},
            {"id": "second", "tool": "get_system_info", "with": {"info_type": "memory"}},
            {"id": "off", "tool": "get_system_info", "enabled": False},
        ],
    }
)


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_step_that_was_not_begun_is_skipped_with_why(
    service: Service, console: Console, capsys: pytest.CaptureFixture[str], wanted: bool
):
    run = await console.runs.start(BATCH)
    await console.runs.wait(run.summary.id, PATIENCE_S)
    answer = await show.run(Session(service.home, console, hosted=True), run.summary.id)
    await print_answer(answer, wanted)
    told = capsys.readouterr().out
    if not wanted:
        assert "an earlier step did not succeed" in told
        return
    results = json.loads(told)["results"]
    assert [result["status"] for result in results] == ["failure", "skipped", "skipped"]
    assert results[1]["error"] == {
        "code": "skipped",
        "message": "Not begun: an earlier step did not succeed.",
        "next": results[1]["error"]["next"],
        "retryable": True,
        "alternatives": [],
    }
    assert [result["stage"] for result in results] == ["harden", None, None]
    assert [result["basis"] for result in results] == ["nothing_sent"] * 3
    assert (results[1]["call_id"], results[1]["tool_name"]) == (None, "get_system_info")
    assert results[2]["error"]["message"] == "Not begun: switched off."


async def test_the_journal_alone_says_the_same(service: Service, console: Console):
    started = await console.runs.start(BATCH)
    run = await console.runs.wait(started.summary.id, PATIENCE_S)
    await service.journal.settle()
    again = rebuild_run(await service.journal.entries_of_run(run.summary.id))
    assert [result_of(cell) for cell in again.cells[1:]] == [result_of(cell) for cell in run.cells[1:]]
    assert [found.error.code for cell in again.cells[1:] if (found := result_of(cell)) and found.error] == [
        ErrorCode.SKIPPED
    ] * 2


async def test_a_step_that_is_still_to_come_has_no_result(service: Service, console: Console):
    run = await console.runs.start(BATCH)
    assert [result_of(cell) for cell in run.cells[:2]] == [None, None]
    await console.runs.wait(run.summary.id, PATIENCE_S)


@pytest.mark.parametrize(("answer", "replaces"), [("y", True), ("YES", True), ("", False), ("n", False)])
async def test_a_terminal_is_asked_before_a_file_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, replaces: bool
):
    asked: list[str] = []

    async def ask(question: str, secret: bool = False) -> str:
        asked.append(question)
        return answer

    monkeypatch.setattr(saving, "ask_line", ask)
    monkeypatch.setattr(saving, "is_terminal", lambda: True)
    await saving.check_not_there(tmp_path / "new.csv")
    assert not asked
    (tmp_path / "old.csv").write_text("kept")
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere")
    for name in ("old.csv", "link.csv"):
        with contextlib.nullcontext() if replaces else pytest.raises(BadInput, match="nothing was written"):
            await saving.check_not_there(tmp_path / name)
    assert len(asked) == 2


@pytest.mark.parametrize("targets", [{"targets": "name:lab-*,build-*"}, {}])
async def test_a_pattern_of_devices_narrows_the_targets_of_a_batch(
    service: Service, console: Console, targets: dict[str, str]
):
    await console.runs.save_batch("both", BATCH.model_copy(update=targets))
    session = Session(service.home, console, hosted=True)
    narrowed = parse_filter((await runs.batch_of(session, "both", "lab-*,db-*")).targets)
    chosen = {device.name for device in make_devices() if narrowed.matches(device)}
    wanted = [device.name for device in make_devices() if device.name.startswith(("lab-", "db-"))]
    assert chosen == {name for name in wanted if not targets or name.startswith("lab-")}
    assert len({name.split("-")[0] for name in wanted}) == 2


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("tok\n", "tok"),
        ("tok\r\n", "tok"),
        ("tok", "tok"),
        ("tok\n\n", "tok\n"),
        ("tok\r", "tok\r"),
        ("a\r\nb\n", "a\r\nb"),
        ("\n", ""),
    ],
)
async def test_a_file_and_standard_input_give_the_same_value_without_one_last_line_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, value: str
):
    batch = Batch.model_validate({**BATCH.model_dump(by_alias=True), "inputs": {"tok": {"type": "string"}}})
    file = tmp_path / "tok"
    file.write_bytes(written.encode())
    assert runs.input_values(batch, [f"tok=@{file}"]) == {"tok": value}
    with file.open(encoding="utf-8") as end:
        monkeypatch.setattr(sys, "stdin", end)
        assert await runs.value_from_stdin(batch, "tok") == {"tok": value}
