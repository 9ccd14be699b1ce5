"""Whatever was cut, what the device knows is asked again: it runs at most once, and its answer is found.

The device is our own client as a process. Each command appends a line to a file: that is what counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from core.aip.resumable_link import ResumableLink
from core.audit.entries import Entry, Kind
from core.audit.events import LateAnswerReceived
from core.batch.models import Cell, CellState, Run, RunState, UndoFate
from core.commands.results import Basis, Verdict
from core.errors import ErrorCode, QuarterdeckError
from core.fleet import connections
from core.models.devices import Health
from core.next_steps import NO_ANSWER
from core.service.console import CellChanged, RunChanged
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.end_to_end.test_network_cuts import NAME, NEVER_RAN, Desk, open_desk
from tests.fakes.awaited import entries_when
from tests.fakes.bad_line import BadLine, bad_line
from tests.fakes.cutting_proxy import Point
from tests.fakes.desk import approve, next_approval
from tests.fakes.device_process import forked_device
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.signing import signing

CUTS = [Point.BEFORE_COMMAND, Point.IN_COMMAND, Point.AFTER_COMMAND, Point.BEFORE_RESULT, Point.IN_RESULT]
AWAY = (Health.RECONNECTING, Health.OFFLINE)


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    # A call is unknown as soon as its link is lost, whatever its timeout.
    monkeypatch.setattr(connections, "ResumableLink", partial(ResumableLink, wait_for_link=0.0))
    async with open_desk(tmp_path, tmp_path / "root" / "count") as desk:
        yield desk


@asynccontextmanager
async def device(desk: Desk, tmp_path: Path, port: int = 0) -> AsyncIterator[None]:
    """Our client as a process, online; it has the state of the one before it."""
    async with forked_device(f"ws://127.0.0.1:{port or desk.proxy.port}/ws", tmp_path, desk.token):
        await desk.online()
        yield


async def is_unknown(desk: Desk, run: str) -> None:
    assert (await desk.result(run)).verdict is Verdict.UNKNOWN
    assert (await desk.console.runs.get(run)).summary.state is RunState.UNKNOWN


async def told(desk: Desk, run: str, count: int = 1) -> tuple[Cell, list[Entry]]:
    """The cell of a run as soon as its late answer is in the journal, and the late answers."""
    query = f"kind:{Kind.LATE_ANSWER_RECEIVED} run:{run}"
    late = await entries_when(desk.service.journal, query, count)
    return await desk.cell(run), late


async def rebuilt(desk: Desk, run: str) -> Run:
    """A run as the journal alone tells of it."""
    from core.batch.run_history import rebuild_run

    return rebuild_run(await desk.service.journal.entries_of_run(run))


def told_by(cell: Cell) -> tuple[object, ...]:
    assert cell.result is not None
    result = cell.result
    return cell.state, cell.note, result.status, result.verdict, result.basis, result.error, result.result


async def check_told(desk: Desk, run: str, ran: int) -> None:
    """The outcome of a run that was unknown is told by its device, in memory and in the journal."""
    cell, late = await told(desk, run)
    assert desk.ran == ran
    assert cell.result is not None
    assert LateAnswerReceived.read(late[0].body).recalled
    if ran:
        assert (cell.state, cell.result.verdict) == (CellState.DONE, Verdict.UNVERIFIED)
        assert cell.result.result["exit_code"] == 0
    else:
        assert (cell.state, cell.result.verdict) == (CellState.FAILED, Verdict.REFUSED)
        assert cell.result.basis is Basis.NOTHING_SENT
        assert LateAnswerReceived.read(late[0].body).never_seen
    of_memory, of_journal = await desk.console.runs.get(run), await rebuilt(desk, run)
    assert of_memory.summary.state is (RunState.DONE if ran else RunState.FAILED)
    assert of_journal.summary.state is of_memory.summary.state
    assert of_journal.summary.counts == of_memory.summary.counts
    assert [told_by(cell) for cell in of_journal.cells] == [told_by(cell) for cell in of_memory.cells]
    sent = await entries_when(desk.service.journal, f"kind:{Kind.COMMAND_SENT} run:{run}")
    assert len(sent) == 1


@pytest.mark.parametrize("point", CUTS)
async def test_what_became_unknown_while_the_device_was_away_is_told_when_it_is_back(
    desk: Desk, tmp_path: Path, point: Point
) -> None:
    async with device(desk, tmp_path):
        desk.proxy.cut(point, desk.tool)
        run = await desk.begin()
        await is_unknown(desk, run)
        desk.proxy.let_in()
        await check_told(desk, run, ran=0 if point in NEVER_RAN else 1)


@pytest.mark.parametrize("point", [Point.IN_COMMAND, Point.IN_RESULT])
async def test_a_device_client_that_was_started_again_tells_what_is_on_its_disk(
    desk: Desk, tmp_path: Path, point: Point
) -> None:
    async with device(desk, tmp_path):
        desk.proxy.cut(point, desk.tool)
        run = await desk.begin()
        await is_unknown(desk, run)
    desk.proxy.let_in()
    async with device(desk, tmp_path):
        await check_told(desk, run, ran=0 if point in NEVER_RAN else 1)


@pytest.mark.parametrize("point", CUTS)
async def test_a_service_that_was_started_again_asks_for_what_its_predecessor_did_not_hear(
    desk: Desk, tmp_path: Path, point: Point
) -> None:
    async with device(desk, tmp_path):
        desk.proxy.cut(point, desk.tool)
        run = await desk.begin()
        await asyncio.wait_for(desk.proxy.has_cut.wait(), PATIENCE_S)
        async with started_again(desk):
            await is_unknown(desk, run)
            desk.proxy.let_in()
            await desk.online()
            await check_told(desk, run, ran=0 if point in NEVER_RAN else 1)


@asynccontextmanager
async def started_again(desk: Desk) -> AsyncIterator[None]:
    """The service of this home ended, and another one behind the same proxy."""
    home = desk.service.home
    await desk.service.close()
    desk.service = await Service.open(home)
    desk.console = signing(LocalConsole(desk.service, "operator:anna"), home)
    desk.proxy.carry_to(port_of(desk))
    try:
        yield
    finally:
        await desk.service.close()


def port_of(desk: Desk) -> int:
    """Where the service listens."""
    port = urlsplit(desk.service.links.listening().url).port
    assert port is not None
    return port


async def test_a_command_that_still_runs_when_the_service_is_back_is_asked_for_until_it_ends(
    desk: Desk, tmp_path: Path
) -> None:
    gate = tmp_path / "root" / "gate"
    async with device(desk, tmp_path):
        os.mkfifo(gate)
        run = await begin(desk, f"read line < {shlex.quote(str(gate))}; echo x >> '{desk.count}'")
        with gate.open("w") as opened:
            async with started_again(desk):
                await is_unknown(desk, run)
                desk.proxy.let_in()
                await desk.online()
                [call_id] = desk.service.unknown_calls.of(NAME)
                await desk.service.unknown_calls.ask([NAME], PATIENCE_S)
                assert desk.service.unknown_calls.is_running(call_id)
                with pytest.raises(QuarterdeckError, match="still runs"):
                    await desk.console.runs.resume(run)
                assert desk.ran == 0
                await asyncio.to_thread(opened.write, "go\n")
                await asyncio.to_thread(opened.flush)
                await check_told(desk, run, ran=1)


async def begin(desk: Desk, line: str, tool: str = "shell_execute", timeout: float = PATIENCE_S) -> str:
    """A command that its device has begun to run."""
    run = await desk.console.runs.call(NAME, tool, {"command": line}, timeout)
    await approve(desk.console, await next_approval(desk.console), desk.key)
    await entries_when(desk.service.journal, f"kind:{Kind.COMMAND_SENT} run:{run.summary.id}")
    return run.summary.id


async def test_a_command_that_died_with_its_device_client_stays_unknown_and_says_why(
    desk: Desk, tmp_path: Path
) -> None:
    begun = tmp_path / "root" / "begun"
    async with device(desk, tmp_path):
        os.mkfifo(begun)
        line = f"echo > {shlex.quote(str(begun))}; sleep 600; echo x >> '{desk.count}'"
        run = await begin(desk, line)
        await asyncio.to_thread(begun.read_text)
    async with started_again(desk):
        await is_unknown(desk, run)
        async with device(desk, tmp_path):
            cell, [late] = await told(desk, run)
            with pytest.raises(QuarterdeckError, match="running when the device client ended"):
                await desk.console.runs.resume(run)
        assert cell.result is not None
        assert (cell.result.verdict, late.verdict) == (Verdict.UNKNOWN, "unknown")
        assert cell.result.basis is Basis.DEVICE_DOES_NOT_KNOW
        assert desk.ran == 0


@asynccontextmanager
async def behind_a_line(desk: Desk, tmp_path: Path) -> AsyncIterator[BadLine]:
    """A device behind a line that can be cut in one direction and reset."""
    async with bad_line(port_of(desk)) as line, device(desk, tmp_path, line.port):
        yield line


async def test_a_call_made_into_a_line_that_carries_nothing_to_the_device_never_runs(
    desk: Desk, tmp_path: Path
) -> None:
    async with behind_a_line(desk, tmp_path) as line:
        line.to_device.cut()
        run = await desk.begin()
        await is_unknown(desk, run)
        line.reset()
        await stands(desk.console, NAME, *AWAY)
        line.restore()
        await desk.online()
        await check_told(desk, run, ran=0)


@pytest.mark.parametrize("both", [False, True])
async def test_an_answer_that_a_line_held_back_tells_the_outcome_when_it_comes(
    desk: Desk, tmp_path: Path, both: bool
) -> None:
    async with behind_a_line(desk, tmp_path) as line:
        run = await desk.console.runs.call(
            NAME, desk.tool, {"command": f"echo x >> '{desk.count}'"}, timeout=4.0
        )
        approval = await next_approval(desk.console)
        line.to_console.cut()
        await approve(desk.console, approval, desk.key)
        await line.to_console.is_held()
        if both:
            line.cut()
        await is_unknown(desk, run.summary.id)
        line.restore()
        cell, [late] = await told(desk, run.summary.id)
    assert desk.ran == 1
    assert cell.state is CellState.DONE
    assert not LateAnswerReceived.read(late.body).recalled


@pytest.mark.parametrize(("of_device", "of_console"), [(True, True), (True, False), (False, True)])
async def test_a_reset_in_the_middle_of_a_command_loses_nothing(
    desk: Desk, tmp_path: Path, of_device: bool, of_console: bool
) -> None:
    begun, gate = tmp_path / "root" / "begun", tmp_path / "root" / "gate"
    async with behind_a_line(desk, tmp_path) as line:
        for pipe in (begun, gate):
            os.mkfifo(pipe)
        line_ = f"echo > '{begun}'; read word < '{gate}'; echo x >> '{desk.count}'"
        run = await begin(desk, line_)
        await asyncio.to_thread(begun.read_text)
        line.reset(device=of_device, console=of_console)
        await asyncio.to_thread(gate.write_text, "go\n")
        if of_device != of_console:
            # The other end learns of it when it sends something.
            line.reset()
        await check_told(desk, run, ran=1)


async def test_a_resumed_run_asks_first_and_does_not_repeat_what_ran(desk: Desk, tmp_path: Path) -> None:
    async with device(desk, tmp_path):
        desk.proxy.cut(Point.IN_RESULT, desk.tool)
        run = await desk.begin()
        await is_unknown(desk, run)
        with pytest.raises(QuarterdeckError, match="is not connected, and is asked when it is back"):
            await desk.console.runs.resume(run)
        desk.proxy.let_in()
        await desk.online()
        with pytest.raises(QuarterdeckError, match="left to do"):
            await desk.console.runs.resume(run)
    assert desk.ran == 1


async def test_what_a_late_answer_tells_can_be_undone(desk: Desk, tmp_path: Path) -> None:
    written = tmp_path / "root" / "notes.txt"
    async with device(desk, tmp_path):
        written.write_text("before")
        desk.proxy.cut(Point.IN_RESULT, "write_file")
        arguments = {"file_path": str(written), "content": "after"}
        run = (await desk.console.runs.call(NAME, "write_file", arguments, PATIENCE_S)).summary.id
        await approve(desk.console, await next_approval(desk.console), desk.key)
        await is_unknown(desk, run)
        [cell] = (await desk.console.runs.undo_plan(run)).cells
        assert cell.fate is UndoFate.UNKNOWN
        assert cell.why.endswith(NO_ANSWER.person)
        desk.proxy.let_in()
        await desk.online()
        await told(desk, run)
        [cell] = (await desk.console.runs.undo_plan(run)).cells
        assert cell.fate is UndoFate.UNDOES
        undo = await desk.console.runs.undo(run)
        with contextlib.suppress(TimeoutError):
            await approve(desk.console, await next_approval(desk.console), desk.key)
        await desk.console.runs.wait(undo.summary.id, PATIENCE_S)
    assert written.read_text() == "before"


async def test_windows_are_told_of_a_run_that_is_not_in_memory_any_more(desk: Desk, tmp_path: Path) -> None:
    async with device(desk, tmp_path):
        desk.proxy.cut(Point.IN_RESULT, desk.tool)
        run = await desk.begin()
        await is_unknown(desk, run)
        async with started_again(desk):
            events = desk.console.events()
            desk.proxy.let_in()
            async with asyncio.timeout(PATIENCE_S):
                async for event in events:
                    assert not isinstance(event, CellChanged) or event.cell.run != run
                    if isinstance(event, RunChanged) and event.run.id == run:
                        assert event.run.state is RunState.DONE
                        break


async def test_the_device_itself_ends_a_command_at_its_timeout_so_that_its_outcome_is_known(
    desk: Desk, tmp_path: Path
) -> None:
    async with device(desk, tmp_path):
        run = await begin(desk, f"echo begun; sleep 600; echo x >> '{desk.count}'", timeout=0.5)
        cell = await desk.cell(run)
    assert cell.result is not None
    assert cell.result.error is not None
    assert (cell.result.error.code, cell.state) == (ErrorCode.TIMEOUT, CellState.FAILED)
    assert desk.ran == 0
