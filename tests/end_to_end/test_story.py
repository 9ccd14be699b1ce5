"""The main job over both channels: which one it is changes nothing above the channel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from core.aip.messages import ResultStatus
from core.approvals.models import ApprovalState
from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.audit.entries import Kind
from core.batch.models import Batch, CellState, Run, RunState
from core.commands.results import Verdict
from core.errors import ErrorCode
from core.home import Home
from core.service.console import Console
from core.service.local_console import LocalConsole
from tests.fakes.desk import approve, choose_channel, deny, next_approval, open_service
from tests.fakes.pace import slowness
from tests.fakes.patience import PATIENCE_S
from tests.fakes.signing import signing

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANNELS = ["process", "in-process"]


@dataclass
class Desk:
    """A service whose device is reached over one channel, and an operator of it."""

    console: Console
    operator: OperatorKey
    channel: str


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=CHANNELS)
async def desk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, display: str
) -> AsyncIterator[Desk]:
    home = Home(tmp_path_factory.mktemp("story") / "home").create()
    choose_channel(home, request.param)
    operator = create_operator_key(home, "anna", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DISPLAY", display)
        async with open_service(home) as service:
            console = signing(LocalConsole(service, "operator:anna"), home)
            await console.approvals.register_operator(operator.operator)
            yield Desk(console, operator, request.param)


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
    """A run without its times: the service has its own, the journal those of the entries."""
    cells = {"__all__": {"started_at", "ended_at"}}
    return run.model_dump(exclude={"summary": {"started_at", "ended_at"}, "cells": cells})


@pytest.mark.story
@pytest.mark.parametrize("channel", CHANNELS)
async def test_an_operator_runs_a_batch_approves_its_shell_line_and_finds_it_again_after_a_restart(
    channel: str, home: Home, operator: OperatorKey, tmp_path: Path, on_display: str
):
    choose_channel(home, channel)
    target = tmp_path / "written by the shell"
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
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
        ended = await console.runs.wait(run.summary.id, PATIENCE_S)
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

    # Whatever the device is reached over now: what happened stands in the journal.
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        again = await console.runs.get(run.summary.id)
        assert told(again) == told(ended)
        [summary] = [one for one in await console.runs.list() if one.id == run.summary.id]
        assert summary.state is RunState.DONE
        timeline = await console.journal.timeline(run.summary.id)
        assert [frame.blob for frame in timeline.frames if frame.tool == "screenshot"] == [shot.blob]
        assert any(mark.kind == "approved" for mark in timeline.marks)


async def test_a_denied_command_is_never_sent_and_says_so_everywhere(desk: Desk, tmp_path: Path):
    target = tmp_path / "never"
    console = desk.console
    run = await console.runs.start(three_steps(target))
    approval = await next_approval(console)
    await deny(console, approval, desk.operator, "not today")
    ended = await console.runs.wait(run.summary.id, PATIENCE_S)
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


async def test_each_stage_of_an_approved_command_is_in_the_journal_in_order(desk: Desk):
    console = desk.console
    run = await console.runs.call("this-computer", "shell_execute", {"command": "true"})
    await approve(console, await next_approval(console), desk.operator)
    ended = await console.runs.wait(run.summary.id, PATIENCE_S)
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


async def why_out_of_time(desk: Desk, tool: str, deadline: float | None, **given: float) -> str:
    """The error of a command that prints something and then sleeps."""
    console = desk.console
    line = "echo begun; sleep 600"
    run = await console.runs.call("this-computer", tool, {"command": line, **given}, deadline)
    await approve(console, await next_approval(console), desk.operator)
    [cell] = (await console.runs.wait(run.summary.id, PATIENCE_S + (deadline or 0))).cells
    assert cell.result is not None
    assert cell.result.error is not None
    assert cell.result.error.code is ErrorCode.TIMEOUT
    assert (cell.result.status, cell.state) == (ResultStatus.FAILURE, CellState.FAILED)
    assert (cell.result.result["stdout"], cell.result.result["exit_code"]) == ("begun\n", 124)
    assert cell.result.result.get("status", "TIMEOUT") == "TIMEOUT"
    return cell.result.error.message


@pytest.mark.parametrize("tool", ["shell_execute", "EXEC_CLI"])
async def test_a_command_that_runs_out_of_its_own_time_is_the_same_failure_with_what_it_printed(
    desk: Desk, tool: str
):
    why = await why_out_of_time(desk, tool, None, timeout=0.5)
    assert "after 0.5 s, the time-out that was asked for" in why


async def test_a_command_that_runs_past_the_deadline_of_its_call_is_that_failure_too(desk: Desk):
    inside = desk.channel == "in-process"
    # Over a link the answer must come before the console gives up: a tenth of the deadline is for that. Both
    # tools have their deadline from the frame alike, so the longer wait is for one of them.
    for tool in ("shell_execute", "EXEC_CLI") if inside else ("shell_execute",):
        deadline = 1.0 if inside else 3.0 * slowness()
        assert "the deadline of the call" in await why_out_of_time(desk, tool, deadline)


async def test_a_secret_in_a_run_reaches_no_file_of_the_home_and_no_screen(home: Home):
    secret = "correct horse battery staple"
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        run = await console.runs.call(
            "this-computer", "get_system_info", {"info_type": "os", "password": secret}
        )
        ended = await console.runs.wait(run.summary.id, PATIENCE_S)
        assert secret not in ended.model_dump_json()
        await console.journal.entries()
    for path in home.path.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
