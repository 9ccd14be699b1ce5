"""Programs with pipes to their standard streams: the same to their caller, supervised or not."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from core.device.processes import piped_process
from core.device.processes.piped_process import PipedProcess
from core.device.processes.supervised import start_supervised
from core.device.processes.supervisor_client import SupervisorClient
from core.device.processes.unsupervised import start_unsupervised
from tests.fakes.ended import all_ended
from tests.fakes.patience import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="one of the two is for Linux")

Start = Callable[[str], Awaitable[PipedProcess]]
# It says `up` when it runs, and then does what follows.
UP = "import os, signal, sys, time; print('up', os.getpid(), flush=True); "


@pytest.fixture(params=["supervised", "unsupervised"])
async def start(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Start]:
    supervisor = SupervisorClient()
    started: list[PipedProcess] = []

    async def start(code: str) -> PipedProcess:
        program = [sys.executable, "-c", code]
        environment = {"ONLY": "this"}
        process = (
            await start_supervised(supervisor, program, environment, str(tmp_path))
            if request.param == "supervised"
            else await start_unsupervised(program, environment, str(tmp_path))
        )
        started.append(process)
        return process

    yield start
    for process in started:
        await process.stop()
        process.close()
    await supervisor.close()


@pytest.fixture
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that end only by a signal are not waited for as long as others."""
    monkeypatch.setattr(piped_process, "_CLOSE_POLITE_S", 0.1)
    monkeypatch.setattr(piped_process, "_TERM_POLITE_S", 0.1)


async def pid_of(process: PipedProcess) -> psutil.Process:
    async with asyncio.timeout(PATIENCE_S):
        return psutil.Process(int((await process.stdout.readline()).split()[1]))


async def test_a_program_has_its_streams_its_folder_and_only_its_own_variables(
    start: Start, tmp_path: Path
) -> None:
    told = "print(os.getcwd(), os.environ['ONLY'], len(os.environ)); sys.stderr.write('e' * 200_000)"
    process = await start(f"import os, sys; line = input(); {told}; print(line)")
    process.stdin.write(b"word\n")
    async with asyncio.timeout(PATIENCE_S):
        output, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
    count = output.decode().split()[2]
    assert output.decode() == f"{tmp_path} this {count}\nword\n"
    # Python itself may add LC_CTYPE.
    assert int(count) <= 2
    assert errors == b"e" * 200_000
    assert await process.wait(PATIENCE_S)


async def test_a_program_that_ends_at_the_end_of_its_input_gets_no_signal(
    start: Start, tmp_path: Path
) -> None:
    process = await start(f"{UP} sys.stdin.read(); open('ended', 'w').write('in order')")
    own = await pid_of(process)
    assert not await process.wait(0)
    await process.stop()
    await all_ended([own], 20)
    assert (tmp_path / "ended").read_text() == "in order"


async def test_a_program_that_ignores_its_input_gets_sigterm(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(piped_process, "_CLOSE_POLITE_S", 0.1)
    handler = "def end(*_): open('ended', 'w').write('on request'); os._exit(0)"
    process = await start(
        f"import os, signal, time\n{handler}\nsignal.signal({int(signal.SIGTERM)}, end)\n{UP}time.sleep(1000)"
    )
    own = await pid_of(process)
    await process.stop()
    await all_ended([own], 20)
    assert (tmp_path / "ended").read_text() == "on request"


@pytest.mark.usefixtures("little_patience")
async def test_a_program_that_ignores_sigterm_is_killed_with_its_group(start: Start) -> None:
    process = await start(
        f"import signal; signal.signal(15, signal.SIG_IGN); import os; os.fork(); {UP} time.sleep(1000)"
    )
    own, child = await pid_of(process), await pid_of(process)
    await process.stop()
    await all_ended([own, child], 20)


@pytest.mark.usefixtures("little_patience")
async def test_closing_does_not_wait_for_input_that_the_program_does_not_read(start: Start) -> None:
    process = await start(f"{UP} signal.signal(15, signal.SIG_IGN); time.sleep(1000)")
    own = await pid_of(process)
    before = len(os.listdir("/proc/self/fd"))
    process.stdin.write(b"x" * 1_000_000)
    await process.stop()
    process.close()
    await all_ended([own], 20)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(os.listdir("/proc/self/fd")) <= before - 3


async def test_the_end_of_a_program_is_known_while_a_child_holds_its_pipes(start: Start) -> None:
    process = await start(f"import os, time; os.fork() or (os.setsid(), time.sleep(3)); {UP}")
    async with asyncio.timeout(PATIENCE_S):
        assert await process.wait()
