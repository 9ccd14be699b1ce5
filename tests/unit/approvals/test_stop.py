"""Stop all is quick however much waits and runs, and what was on its way stays away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from core.aip.messages import Command
from core.audit.entries import Kind
from core.batch.models import Batch, Parallel, Step
from core.commands.channel import LocalCommandDispatcher
from core.errors import ErrorCode
from core.fleet.fleet import ConnectionInfo
from core.home import Home
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, ScriptedTools
from tests.fakes.signing import signing
from tests.fakes.work import most_calls

RUNS, OF_A_RUN = 8, 50
RUNNING = 50
CALLS_FOR_A_REQUEST = 200


@pytest.fixture
async def service(home: Home) -> AsyncIterator[Service]:
    choose_channel(home, "in-process")
    async with open_service(home) as service:
        yield service


def batch(tool: str, count: int, **parameters: str) -> Batch:
    steps = [Step(id=f"s{number}", tool=tool, parameters=parameters) for number in range(count)]
    return Batch(name=tool, targets=f"name:{DEVICE}", steps=[Parallel(parallel=steps)])


async def until(service: Service, wanted: Callable[[], bool]) -> None:
    events = service.hub.subscribe()
    async with asyncio.timeout(PATIENCE_S):
        while not wanted():
            await anext(events)
    events.close()


class Crowd:
    """A device with commands that hang on it, and requests that wait for an operator."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.console = signing(LocalConsole(service, "operator:anna"), service.home)
        self.tools = ScriptedTools()
        self.tools.answers["get_system_info"] = self._hangs
        self._never = asyncio.Event()

    async def _hangs(self, command: Command) -> dict[str, bool]:
        await self._never.wait()
        return {"ok": True}

    async def connect(self) -> None:
        self.service.fleet.add(DEVICE, [])
        channel = LocalCommandDispatcher(DEVICE, self.tools, self.service.dispatcher.gate)
        arrival = ConnectionInfo(channel, "in-process", "linux", "t", "t", [], None)
        await self.service.fleet.arrived(DEVICE, arrival)

    async def fill(self, of_requests: int = RUNS) -> list[str]:
        """Start everything and wait until it hangs or waits; the runs, of which so many wait."""
        self._never = asyncio.Event()
        runs = [await self.console.runs.start(batch("get_system_info", RUNNING, info_type="disk"))]
        for _ in range(of_requests):
            runs.append(await self.console.runs.start(batch("shell_execute", OF_A_RUN, command="true")))
        queue, dispatcher = self.service.approvals, self.service.dispatcher
        waiting = of_requests * OF_A_RUN
        await until(
            self.service, lambda: len(queue.list()) == waiting and len(dispatcher.in_flight) == RUNNING
        )
        await self.service.journal.settle()
        return [run.summary.id for run in runs]

    async def empty(self, runs: list[str]) -> None:
        """Let what hangs end."""
        self._never.set()
        for run in runs:
            assert (await self.console.runs.wait(run, PATIENCE_S)).summary.state.ended


async def test_everything_stops_after_little_work_for_each_request(service: Service):
    crowd = Crowd(service)
    await crowd.connect()
    console, tools = crowd.console, crowd.tools
    watchers = [service.hub.subscribe() for _ in range(3)]
    runs = await crowd.fill()
    with most_calls((RUNS * OF_A_RUN + RUNNING) * CALLS_FOR_A_REQUEST):
        words = await console.service.stop_all()
    await service.journal.settle()

    assert f"{RUNS * OF_A_RUN} requests were withdrawn" in words
    assert f"{RUNNING} commands" in words
    assert service.approvals.list() == []
    # Who watches hears of each thing once, however often it changed.
    assert all(len(one._pending) < 4_096 for one in watchers)

    await crowd.empty(runs)
    assert len(tools.seen) == RUNNING
    assert sorted(tools.cancelled) == sorted(one.call_id for one in tools.seen)
    await console.service.resume()
    crowd.tools.answers.clear()
    again = await console.runs.call(DEVICE, "get_system_info", {"info_type": "disk"})
    result = (await console.runs.wait(again.summary.id, PATIENCE_S)).cells[0].result
    assert result is not None
    assert result.error is None
    page = await console.journal.entries(f"kind:{Kind.COMMAND_REFUSED} tool:shell_execute", limit=200)
    assert page.total >= 200
    assert page.entries[0].body["result"]["error"]["code"] == ErrorCode.STOPPED
