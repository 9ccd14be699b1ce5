"""A journal that cannot be written: no action leaves, everybody is told, and space alone heals it."""

from __future__ import annotations

import os
import resource
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.approvals.operator_keys import statement_for
from core.audit.entries import Kind
from core.batch.models import CellState, Run, RunState
from core.errors import ErrorCode, JournalUnavailable, QuarterdeckError
from core.home import Home
from core.policy.models import Profile
from core.service.console import Console, JournalChanged
from tests.fakes.desk import Whistle, choose_channel, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import environment
from tests.fakes.program import program as words_of
from tests.fakes.program import run as command
from tests.fakes.service_process import obey_modes, service_process, until, until_online
from tests.fakes.signing import accepted, anna
from tests.fakes.small_disk import fill, small_disk_at
from tests.fakes.warm import ROOT, Warm

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits, mounts and modes of POSIX systems")
Give = Callable[[], None]
Take = Callable[[int], Give]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk", "8m") as folder:
        yield folder


@pytest.fixture(params=["a full disk", "a limit on files"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Home, Take]:
    """A home, and a way to take its space away; what that gives brings the space back."""
    if request.param == "a full disk":
        folder: Path = request.getfixturevalue("small_disk")

        def take(pid: int) -> Give:
            return fill(folder).unlink

        home = Home(folder / "home").create()
        # The state of the device is on that disk as well, whichever process it is in.
        choose_channel(home, "in-process")
        return home, take
    home = Home(tmp_path / "home").create()

    def limit(pid: int) -> Give:
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        # The log beside the journal, and the spool, cannot grow any more.
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, before[1]))
        return lambda: resource.prlimit(pid, resource.RLIMIT_FSIZE, before) and None

    return home, limit


async def entries(console: Console, query: str) -> list[Kind]:
    return [entry.kind for entry in reversed((await console.journal.entries(query)).entries)]


async def test_without_space_no_action_is_sent_and_afterwards_everything_works_without_a_restart(
    place, tmp_path
):
    home, take = place
    target, count = tmp_path / "written", tmp_path / "count"
    operator = await accepted(home, 'profile = "trusted"\n')
    async with service_process(home) as service:
        console = await service.console()
        await console.approvals.register_operator(operator.operator)
        await until_online(console)
        waiting = await console.runs.call("this-computer", "shell_execute", {"command": f"echo x >> {count}"})
        approval = await next_approval(console)

        give = take(service.pid)
        told = console.events()
        with pytest.raises(JournalUnavailable) as failed:
            await console.policy.set_profile(Profile.TRUSTED)
        assert failed.value.info.next
        for needle in ("journal",):
            assert needle in failed.value.message
        # An approval that cannot be recorded does not count, and the request still waits.
        with pytest.raises(JournalUnavailable):
            await console.approvals.decide(operator.sign(statement_for(approval, "approve", "anna", "")))
        assert [one.id for one in await console.approvals.list()] == [approval.id]
        # Neither does a new action start, whether it would ask or not.
        writes = {"file_path": str(target), "content": "x"}
        with pytest.raises(JournalUnavailable):
            await console.runs.call("this-computer", "write_file", writes)
        state = await console.service.state()
        assert not state.journal.writable
        assert "space" in state.journal.problem or "limit" in state.journal.problem, state.journal.problem
        await until(console, lambda: anext_says(told, writable=False), told)
        shown = command(home, "call", "this-computer", "write_file", f"file_path={target}", "content=x")
        assert shown.code not in (0, 4), shown
        assert "journal" in shown.err
        assert not target.exists()
        assert not count.exists()

        give()
        # A try that wrote next to nothing may have succeeded before, with what little room was left.
        while (await console.service.state()).journal.problem:
            await until(console, lambda: anext_says(told, writable=True), told)
        await console.approvals.decide(operator.sign(statement_for(approval, "approve", "anna", "")))
        ended = await console.runs.wait(waiting.summary.id, PATIENCE_S)
        assert ended.summary.state is RunState.DONE
        assert count.read_text() == "x\n"
        again = await console.runs.call("this-computer", "write_file", writes)
        assert (await console.runs.wait(again.summary.id, PATIENCE_S)).summary.state is RunState.DONE
        assert target.read_text() == "x"
        assert (await console.journal.verify()).ok
    assert command(home, "audit", "verify").code == 0


async def anext_says(told: object, writable: bool) -> bool:
    """Whether the next event about the journal says so."""
    async for event in told:  # type: ignore[attr-defined]
        if isinstance(event, JournalChanged) and event.journal.writable is writable:
            return True
    return False


async def ends_without_space(
    home: Home, console: Console, take: Callable[[], Give], whistle: Whistle
) -> tuple[Run, Give]:
    """The run of a command that began before the space went and ended after; what brings the space back."""
    gate = whistle.path.with_name("gate")
    os.mkfifo(gate)
    operator = anna(home)
    await console.approvals.register_operator(operator.operator)
    await until_online(console)
    line = f"echo x > {shlex.quote(str(whistle.path))}; cat {shlex.quote(str(gate))}"
    started = await console.runs.call("this-computer", "shell_execute", {"command": line})
    approval = await next_approval(console)
    await console.approvals.decide(operator.sign(statement_for(approval, "approve", "anna", "")))
    await whistle.blown()
    give = take()
    with pytest.raises(JournalUnavailable):
        await console.policy.set_profile(Profile.GUARDED)
    gate.write_text("through\n")
    return await console.runs.wait(started.summary.id, PATIENCE_S), give


async def test_what_happened_while_the_disk_was_full_is_recorded_late_and_nothing_is_missing(
    place, whistle: Whistle
):
    home, take = place
    async with service_process(home) as service:
        console = await service.console()
        ended, give = await ends_without_space(home, console, lambda: take(service.pid), whistle)
        [cell] = ended.cells
        assert cell.state is CellState.DONE
        told = console.events()
        call = f"call:{cell.call_id}"
        give()

        async def recorded() -> bool:
            return Kind.RESULT_RECORDED in await entries(console, call)

        await until(console, recorded, told)
        # What it printed is reported on the way, if the device has a moment for that before it ends.
        kinds = [kind for kind in await entries(console, call) if kind is not Kind.PROGRESS_REPORTED]
        assert kinds[-3:] == [Kind.INTENT_RECORDED, Kind.COMMAND_SENT, Kind.RESULT_RECORDED]

        async def finished() -> bool:
            return Kind.RUN_FINISHED in await entries(console, f"run:{ended.summary.id}")

        await until(console, finished, told)
    choose_channel(home, "in-process")
    async with service_process(home) as service:
        console = await service.console()
        again = await console.runs.get(ended.summary.id)
        assert again.summary.state is RunState.DONE
        assert again.summary.ended_at
        assert again.cells[0].result
        assert again.cells[0].result.result["stdout"] == "through\n"
        assert (await console.journal.verify()).ok


async def test_a_result_that_could_not_be_recorded_before_the_end_is_unknown_afterwards_never_lost(
    place, whistle: Whistle
):
    home, take = place
    async with service_process(home) as service:
        console = await service.console()
        ended, give = await ends_without_space(home, console, lambda: take(service.pid), whistle)
        # Space comes back in the very moment of the end: the journal heals before the result is tried again.
        give()
        await console.service.shut_down(True)
        code, _ = await service.ends()
        assert code == 0
    choose_channel(home, "in-process")
    async with service_process(home) as service:
        console = await service.console()
        [cell] = (await console.runs.get(ended.summary.id)).cells
        assert cell.state in (CellState.DONE, CellState.UNKNOWN)
        assert cell.result
        assert cell.result.error is None or cell.result.error.code is ErrorCode.OUTCOME_UNKNOWN


class Obeying:
    """Our programs in processes that cannot pass by the modes of files, root or not."""

    def __init__(self) -> None:
        self.services, self._commands = Warm("core.service", obey_modes), Warm("app", obey_modes)
        for warm in (self.services, self._commands):
            warm.loaded_in(environment())

    def run(self, home: Home, *words: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a command."""
        return self._commands.run(words_of(home, *words)[3:], environment(), ROOT)

    def close(self) -> None:
        """End what they are forked from."""
        self.services.close()
        self._commands.close()


@pytest.fixture(scope="module")
def obeying() -> Iterator[Obeying]:
    made = Obeying()
    yield made
    made.close()


@pytest.mark.parametrize("closed", ["journal.db", "the home"])
async def test_a_journal_that_may_not_be_written_stops_the_start_and_says_what_to_do(
    closed, tmp_path, obeying: Obeying
):
    home = Home(tmp_path / "home").create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    assert command(home, "devices").code == 0
    target = tmp_path / "never"
    before = (home.path / "journal.db").read_bytes()
    if closed == "the home":
        (home.path / "journal.db").chmod(0o400)
        home.path.chmod(0o500)
    else:
        (home.path / "journal.db").chmod(0o400)
    try:
        async with service_process(home, warm=obeying.services) as service:
            code, error = await service.ends()
        assert error is not None
        assert code == 8 if closed == "journal.db" else code in (2, 8), (code, error)
        assert "permission" in (error.message + error.next).lower() or "allow" in error.message
        words = ("call", "this-computer", "write_file", f"file_path={target}", "content=x")
        done, _, why = obeying.run(home, *words)
        assert done in (2, 8), why
        assert why.startswith("Error: ")
        assert obeying.run(home, "audit", "verify")[0] == 0
    finally:
        home.path.chmod(0o700)
        (home.path / "journal.db").chmod(0o600)
    assert not target.exists()
    assert (home.path / "journal.db").read_bytes() == before
    assert command(home, "devices").code == 0


async def test_a_journal_that_becomes_read_only_under_the_service_sends_nothing(tmp_path):
    """What an administrator, or a disk that fails, does to a service that runs."""
    home = Home(tmp_path / "home").create()
    (home.path / "settings.toml").write_text('this_computer = "in-process"\n')
    await accepted(home, 'profile = "trusted"\n')
    target = tmp_path / "written"
    async with service_process(home) as service:
        console = await service.console()
        await until_online(console)
        before = resource.prlimit(service.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (0, before[1]))
        for _ in range(5):
            with pytest.raises(QuarterdeckError) as refused:
                await console.runs.call(
                    "this-computer", "write_file", {"file_path": str(target), "content": "x"}
                )
            assert refused.value.code is ErrorCode.JOURNAL_UNAVAILABLE
        assert not target.exists()
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, before)
