"""The undo of a run: a real service, and device clients that keep what their tools replaced."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from core.approvals.models import ApprovalState
from core.batch.models import Batch, CellState, Run, RunState, UndoFate, UndoPlan
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.fleet.models import DeviceSettings
from core.models.devices import Health
from core.policy.models import Answer, Profile
from core.service.console import Console
from tests.fakes.agents import add_agent
from tests.fakes.desk import approve, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import make_listening_home, paired, stands
from tests.fakes.service_process import service_process
from tests.fakes.signing import accepted, anna

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Lab:
    """A console, and the folders in which two devices may write."""

    console: Console
    home: Any
    roots: dict[str, Path]
    devices: dict[str, Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    folder = tmp_path_factory.mktemp("undo")
    home = make_listening_home(folder / "home")
    await accepted(home, 'profile = "trusted"\n')
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(service_process(home))
        console = await service.console()
        roots, devices = {}, {}
        for name in ("alpha", "beta"):
            pairing = await console.devices.pair(name, DeviceSettings(tags=["lab"]))
            roots[name] = folder / "roots" / name
            roots[name].mkdir(parents=True)
            (folder / name).mkdir()
            config = f'roots = ["{roots[name]}"]\ntools_off = ["shell_execute_read"]\n'
            (folder / name / "device.toml").write_text(config)
            devices[name] = await stack.enter_async_context(paired(folder / name, pairing.string))
        for name in roots:
            await stands(console, name, Health.ONLINE)
        yield Lab(console, home, roots, devices)


def write(step: str, path: Path, content: str, **more: Any) -> dict[str, Any]:
    return {"id": step, "tool": "write_file", "with": {"file_path": str(path), "content": content, **more}}


async def ended(console: Console, run: Run) -> Run:
    run = await console.runs.wait(run.summary.id, PATIENCE_S)
    assert run.summary.state.ended
    return run


async def ran(lab: Lab, targets: str, *steps: dict[str, Any]) -> Run:
    batch = Batch.model_validate(
        {"name": "changes", "targets": targets, "on_failure": "continue", "steps": list(steps)}
    )
    return await ended(lab.console, await lab.console.runs.start(batch))


def fates(plan: UndoPlan) -> dict[tuple[str, str], UndoFate]:
    return {(cell.device, cell.step): cell.fate for cell in plan.cells}


async def test_what_a_run_wrote_on_two_devices_is_put_back_in_reverse_order(lab):
    kept, new = lab.roots["alpha"] / "kept.txt", lab.roots["beta"] / "new.txt"
    kept.write_text("as it was")
    run = await ran(
        lab,
        "tag:lab",
        write("first", kept, "one"),
        write("second", kept, "two"),
        write("beta-only", new, "three"),
        {"id": "look", "tool": "get_system_info", "with": {"info_type": "memory"}},
    )
    assert (kept.read_text(), new.read_text()) == ("two", "three")
    plan = await lab.console.runs.undo_plan(run.summary.id)
    assert plan.summary == "3 files restored"
    assert [(cell.device, cell.step) for cell in plan.calls if cell.device == "alpha"] == [
        ("alpha", "second"),
        ("alpha", "first"),
    ]
    assert {cell.answer for cell in plan.calls} == {Answer.ALLOW}
    assert fates(plan)["alpha", "look"] is UndoFate.NOTHING
    undo = await ended(lab.console, await lab.console.runs.undo(run.summary.id, plan.digest))
    assert (undo.summary.kind, undo.summary.undoes) == ("undo", run.summary.id)
    assert undo.summary.state is RunState.DONE
    assert kept.read_text() == "as it was"
    assert not new.exists()
    done = {(cell.device, cell.step) for cell in undo.cells if cell.state is CellState.DONE}
    assert done == {("alpha", "first"), ("alpha", "second"), ("beta", "beta-only")}


async def test_the_journal_names_the_run_that_was_undone_and_rebuilds_the_undo(lab):
    path = lab.roots["alpha"] / "journalled.txt"
    run = await ran(lab, "name:alpha", write("only", path, "x"))
    undo = await ended(lab.console, await lab.console.runs.undo(run.summary.id))
    page = await lab.console.journal.entries(f'run:"{undo.summary.id}" kind:run_started')
    assert page.entries[0].body["undoes"] == run.summary.id
    assert page.entries[0].body["kind"] == "undo"


async def test_writes_at_the_same_time_are_undone_in_the_order_in_which_they_ended(lab):
    path = lab.roots["alpha"] / "raced.txt"
    path.write_text("before")
    group = {"parallel": [write(f"w{number}", path, str(number), mode="append") for number in range(4)]}
    run = await ran(lab, "name:alpha", group)
    written = [cell for cell in run.cells if cell.state is CellState.DONE]
    assert written
    undo = await ended(lab.console, await lab.console.runs.undo(run.summary.id))
    assert undo.summary.state is RunState.DONE
    assert path.read_text() == "before"


async def test_a_shell_command_is_said_not_to_be_undoable(lab):
    path = lab.roots["alpha"] / "beside-shell.txt"
    shell = {"id": "shell", "tool": "shell_execute", "with": {"command": "true"}}
    batch = Batch.model_validate(
        {"name": "both", "targets": "name:alpha", "steps": [write("file", path, "x"), shell]}
    )
    run = await lab.console.runs.start(batch)
    await approve(lab.console, await next_approval(lab.console), anna(lab.home))
    await ended(lab.console, run)
    plan = await lab.console.runs.undo_plan(run.summary.id)
    assert plan.summary == "1 file restored, 1 shell command cannot be undone"
    [shell] = [cell for cell in plan.cells if cell.step == "shell"]
    assert shell.why == "Cannot be undone: what a shell line changes is not recorded."


async def test_a_second_undo_says_which_run_undid_it_and_starts_nothing(lab):
    path = lab.roots["beta"] / "twice.txt"
    run = await ran(lab, "name:beta", write("only", path, "x"))
    undo = await ended(lab.console, await lab.console.runs.undo(run.summary.id))
    plan = await lab.console.runs.undo_plan(run.summary.id)
    assert fates(plan) == {("beta", "only"): UndoFate.UNDONE}
    assert undo.summary.id in plan.cells[0].why
    with pytest.raises(BadInput, match="1 undone already"):
        await lab.console.runs.undo(run.summary.id)


async def test_a_file_that_changed_since_is_left_alone_and_the_undo_says_so(lab):
    changed, other = lab.roots["alpha"] / "changed.txt", lab.roots["alpha"] / "other.txt"
    run = await ran(lab, "name:alpha", write("one", other, "x"), write("two", changed, "x"))
    changed.write_text("by another program")
    undo = await ended(lab.console, await lab.console.runs.undo(run.summary.id))
    states = {cell.step: cell.state for cell in undo.cells}
    assert states == {"one": CellState.DONE, "two": CellState.FAILED}
    assert changed.read_text() == "by another program"
    [note] = [cell.note for cell in undo.cells if cell.step == "two"]
    assert "changed" in note
    # It can be tried again: only what is still there to be undone is in the plan.
    plan = await lab.console.runs.undo_plan(run.summary.id)
    assert fates(plan) == {("alpha", "one"): UndoFate.UNDONE, ("alpha", "two"): UndoFate.UNDOES}


async def test_an_undo_id_that_the_device_no_longer_keeps_is_said(lab):
    path = lab.roots["beta"] / "expired.txt"
    run = await ran(lab, "name:beta", write("only", path, "x"))
    [cell] = (await lab.console.runs.undo_plan(run.summary.id)).calls
    # As an operator by hand, whose call the undo's plan knows as well.
    by_hand = await lab.console.runs.call("beta", "undo", {"undo_id": cell.undo_id})
    assert (await ended(lab.console, by_hand)).summary.state is RunState.DONE
    plan = await lab.console.runs.undo_plan(run.summary.id)
    assert by_hand.summary.id in plan.cells[0].why
    again = await ended(
        lab.console, await lab.console.runs.call("beta", "restore_file", {"undo_id": cell.undo_id})
    )
    assert "used, expired" in again.cells[0].note


async def test_an_undo_has_approvals_of_its_own(lab):
    path = lab.roots["alpha"] / "asked.txt"
    run = await ran(lab, "name:alpha", write("only", path, "x"))
    await lab.console.policy.set_profile(Profile.GUARDED)
    try:
        plan = await lab.console.runs.undo_plan(run.summary.id)
        assert [cell.answer for cell in plan.calls] == [Answer.ASK]
        undo = await lab.console.runs.undo(run.summary.id)
        approval = await next_approval(lab.console)
        assert (approval.run, approval.request.tool_name) == (undo.summary.id, "restore_file")
        assert path.exists()
        with pytest.raises(Refused, match=f"is being undone by {undo.summary.id}"):
            await lab.console.runs.undo(run.summary.id)
        with pytest.raises(Refused, match="has not ended"):
            await lab.console.runs.undo_plan(undo.summary.id)
        assert (await approve(lab.console, approval, anna(lab.home))).state is ApprovalState.APPROVED
        assert (await ended(lab.console, undo)).summary.state is RunState.DONE
        assert not path.exists()
    finally:
        await lab.console.policy.set_profile(Profile.TRUSTED)


async def test_a_plan_that_is_another_one_since_it_was_shown_is_refused(lab):
    path = lab.roots["alpha"] / "shown.txt"
    run = await ran(lab, "name:alpha", write("only", path, "x"))
    with pytest.raises(Refused, match="has changed since it was shown"):
        await lab.console.runs.undo(run.summary.id, "0" * 64)
    assert path.exists()


async def test_a_run_that_changed_nothing_has_nothing_to_undo(lab):
    run = await ran(
        lab, "name:alpha", {"id": "look", "tool": "get_system_info", "with": {"info_type": "memory"}}
    )
    with pytest.raises(BadInput, match="there is nothing to undo") as caught:
        await lab.console.runs.undo(run.summary.id)
    assert caught.value.code is ErrorCode.NOT_FOUND
    with pytest.raises(QuarterdeckError, match="There is no run r-9999"):
        await lab.console.runs.undo_plan("r-9999")


async def test_an_agent_does_not_undo_what_an_operator_ran(lab):
    from core.service.rpc.client import RemoteConsole

    path = lab.roots["alpha"] / "agent.txt"
    run = await ran(lab, "name:alpha", write("only", path, "x"))
    token = await add_agent(lab.console, anna(lab.home), "clerk")
    agent = await RemoteConsole.connect(lab.home, "agent", "agent:clerk", token=token)
    try:
        with pytest.raises(BadInput, match="There is no run"):
            await agent.runs.undo(run.summary.id)
    finally:
        await agent.close()
    assert path.exists()


async def test_a_device_that_is_gone_is_said_in_the_plan(lab):
    """The last test of the file: it ends a device."""
    path = lab.roots["beta"] / "gone.txt"
    run = await ran(lab, "name:beta", write("only", path, "x"))
    await lab.devices["beta"].stop()
    await stands(lab.console, "beta", Health.OFFLINE, Health.RECONNECTING)
    plan = await lab.console.runs.undo_plan(run.summary.id)
    assert fates(plan) == {("beta", "only"): UndoFate.UNAVAILABLE}
    assert "beta" in plan.cells[0].why
    assert plan.summary == "1 cannot be asked for now"
    with pytest.raises(BadInput, match="cannot be asked for now"):
        await lab.console.runs.undo(run.summary.id)
