"""The main job over both channels: which one it is changes nothing above the channel."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.aip.messages import ResultStatus
from core.approvals.models import ApprovalState
from core.approvals.operator_keys import OperatorKey
from core.audit.entries import Kind
from core.batch.models import Batch, CellState, Run, RunState
from core.dispatch.models import Verdict
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.desk import PATIENCE, approve, choose_channel, deny, next_approval, open_service
from tests.fakes.pace import slowness
from tests.fakes.signing import signing

CHANNELS = ["process", "in-process"]


def three_steps(target: Path) -> Batch:
    return Batch.model_validate(
        {
            "name": "First steps",
            "targets": "name:this-computer",
            "steps": [
                {"id": "memory", "tool": "get_system_info", "with": {"info_type": "memory"}},
                {"id": "picture", "tool": "screenshot", "with": {"region": "fullscreen"}},
                {"id": "write", "tool": "shell_execute", "with": {"command": f"printf hello > '{target}'"}},
            ],
        }
    )


def told(run: Run) -> dict[str, object]:
    """A run without its times: in memory they are the runner's, in the journal the entries'."""
    cells = {"__all__": {"started_at", "ended_at"}}
    return run.model_dump(exclude={"summary": {"started_at", "ended_at"}, "cells": cells})


@pytest.mark.parametrize("channel", CHANNELS)
async def test_an_operator_runs_a_batch_approves_its_shell_line_and_finds_it_again_after_a_restart(
    channel: str, home: Home, operator: OperatorKey, tmp_path: Path, on_display: str
):
    choose_channel(home, channel)
    target = tmp_path / "written by the shell"
    async with open_service(home) as service:
        console = signing(service.console("operator:anna"), service.home)
        await console.approvals.register_operator(operator.operator)
        plan = await console.runs.plan(three_steps(target))
        assert [cell.outcome for cell in plan.cells] == ["runs", "runs", "asks"]

        run = await console.runs.start(three_steps(target), ["this-computer"])
        approval = await next_approval(console)
        assert approval.request.parameters == {"command": f"printf hello > '{target}'"}
        assert approval.decision.risk.value == "high"
        assert not target.exists()
        states = {cell.step: cell.state for cell in (await console.runs.get(run.summary.id)).cells}
        assert states == {
            "memory": CellState.DONE,
            "picture": CellState.DONE,
            "write": CellState.WAITING,
        }

        decided = await approve(console, approval, operator)
        assert decided.state is ApprovalState.APPROVED
        ended = await console.runs.wait(run.summary.id, PATIENCE)
        assert ended.summary.state is RunState.DONE
        assert target.read_text() == "hello"
        memory, picture, write = ended.cells
        assert memory.result
        assert memory.result.verdict is Verdict.CONFIRMED
        assert memory.result.result["total_bytes"] > 0
        assert write.result
        assert write.result.verdict is Verdict.UNVERIFIED
        assert picture.result
        [shot] = picture.result.evidence
        assert (shot.media_type, shot.width, shot.height) == ("image/png", 1280, 800)
        assert (await console.journal.blob(shot.blob)).startswith(b"\x89PNG")
        assert (await console.journal.verify()).ok

    async with open_service(home) as service:
        console = signing(service.console("operator:anna"), service.home)
        again = await console.runs.get(run.summary.id)
        assert told(again) == told(ended)
        [summary] = [one for one in await console.runs.list() if one.id == run.summary.id]
        assert summary.state is RunState.DONE
        timeline = await console.journal.timeline(run.summary.id)
        assert [frame.blob for frame in timeline.frames if frame.tool == "screenshot"] == [shot.blob]
        assert any(mark.kind == "approved" for mark in timeline.marks)


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_denied_command_is_never_sent_and_says_so_everywhere(
    channel: str, home: Home, operator: OperatorKey, tmp_path: Path, on_display: str
):
    choose_channel(home, channel)
    target = tmp_path / "never"
    async with open_service(home) as service:
        console = signing(service.console("operator:anna"), service.home)
        await console.approvals.register_operator(operator.operator)
        run = await console.runs.start(three_steps(target))
        approval = await next_approval(console)
        await deny(console, approval, operator, "not today")
        ended = await console.runs.wait(run.summary.id, PATIENCE)
        refused = ended.cells[-1]
        assert refused.state is CellState.REFUSED
        assert refused.result
        assert refused.result.verdict is Verdict.REFUSED
        assert refused.result.status is ResultStatus.FAILURE
        assert refused.result.error
        assert refused.result.error.code == "denied_by_operator"
        assert "not today" in refused.result.error.message
        assert ended.summary.state is RunState.REFUSED
        assert not target.exists()
        record = await console.journal.command(refused.call_id or "")
        kinds = [entry.kind for entry in record.entries]
        assert Kind.APPROVAL_DENIED in kinds
        assert Kind.COMMAND_REFUSED in kinds
        assert Kind.INTENT_RECORDED not in kinds
        assert Kind.COMMAND_SENT not in kinds


@pytest.mark.parametrize("channel", CHANNELS)
async def test_each_stage_of_an_approved_command_is_in_the_journal_in_order(
    channel: str, home: Home, operator: OperatorKey, tmp_path: Path
):
    choose_channel(home, channel)
    async with open_service(home) as service:
        console = signing(service.console("operator:anna"), service.home)
        await console.approvals.register_operator(operator.operator)
        run = await console.runs.call("this-computer", "shell_execute", {"command": "true"})
        await approve(console, await next_approval(console), operator)
        ended = await console.runs.wait(run.summary.id, PATIENCE)
        record = await console.journal.command(ended.cells[0].call_id or "")
    assert [entry.kind for entry in record.entries] == [
        Kind.COMMAND_PREPARED,
        Kind.COMMAND_DECIDED,
        Kind.APPROVAL_REQUESTED,
        Kind.APPROVAL_GIVEN,
        Kind.INTENT_RECORDED,
        Kind.COMMAND_SENT,
        Kind.RESULT_RECORDED,
    ]
    assert record.decision == ended.cells[0].result.decision


@pytest.mark.parametrize("given", [{"timeout": 0.5}, {}])
@pytest.mark.parametrize("tool", ["shell_execute", "EXEC_CLI"])
@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_command_that_runs_out_of_time_is_the_same_failure_with_what_it_printed(
    channel: str, tool: str, given: dict[str, float], home: Home, operator: OperatorKey
):
    """The tool's own time-out, or else the deadline that was given to the call."""
    choose_channel(home, channel)
    line = "echo begun; sleep 600"
    async with open_service(home) as service:
        console = signing(service.console("operator:anna"), service.home)
        await console.approvals.register_operator(operator.operator)
        # Over a link the answer must come before the console gives up: a tenth of the deadline is for that.
        deadline = None if given else 1.0 if channel == "in-process" else 4.0 * slowness()
        run = await console.runs.call("this-computer", tool, {"command": line, **given}, deadline)
        await approve(console, await next_approval(console), operator)
        [cell] = (await console.runs.wait(run.summary.id, PATIENCE + (deadline or 0))).cells
    assert cell.result is not None
    assert cell.result.error is not None
    assert cell.result.error.code is ErrorCode.TIMEOUT
    assert (cell.result.status, cell.state) == (ResultStatus.FAILURE, CellState.FAILED)
    assert (cell.result.result["stdout"], cell.result.result["exit_code"]) == ("begun\n", 124)
    asked = "after 0.5 s, the time-out that was asked for" if given else "the deadline of the call"
    assert asked in cell.result.error.message
    assert cell.result.result.get("status", "TIMEOUT") == "TIMEOUT"


async def test_a_secret_in_a_run_reaches_no_file_of_the_home_and_no_screen(home: Home):
    secret = "correct horse battery staple"
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = signing(service.console("operator:anna"), service.home)
        run = await console.runs.call(
            "this-computer", "get_system_info", {"info_type": "os", "password": secret}
        )
        ended = await console.runs.wait(run.summary.id, PATIENCE)
        assert secret not in ended.model_dump_json()
        await console.journal.entries()
    for path in home.path.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
