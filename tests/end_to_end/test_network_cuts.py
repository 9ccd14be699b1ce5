"""The network breaks at every point of a command's way: it runs at most once, and the journal says the truth.

The device is our own client as a process, or a stock client's stand-in; between it and the console's real
listener stands a proxy that cuts exactly there. Each command appends a line to a file: that is what counts.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage

from core.aip.pairing import decode_pairing, encode_pairing
from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.audit.entries import Kind
from core.batch.models import Cell
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import ErrorCode
from core.fleet.models import DeviceSettings
from core.home import Home
from core.ids import new_id
from core.models.devices import Health
from core.service.console import Console, DeviceChanged
from core.service.local_console import LocalConsole
from core.service.service import Service
from core.tasks import TaskGroupOwner
from tests.fakes.awaited import entries_when
from tests.fakes.cutting_proxy import CuttingProxy, Point, cutting_proxy
from tests.fakes.desk import approve, next_approval
from tests.fakes.device_process import forked_device
from tests.fakes.patience import PATIENCE_S
from tests.fakes.ports import free_port
from tests.fakes.remote_device import expecting, make_listening_home, running, stands, told
from tests.fakes.signing import signing

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "d1"
# The command did not reach the device whole: it can tell that it never saw it.
NEVER_RAN = {Point.BEFORE_COMMAND, Point.IN_COMMAND}
IN_THE_MIDDLE = [0.0, 0.02, 0.5, 0.98, 1.0]
PLACES = [
    *[(point, 0.5) for point in Point if not point.name.startswith("IN_")],
    *[(point, part) for point in (Point.IN_COMMAND, Point.IN_RESULT) for part in IN_THE_MIDDLE],
]


@dataclass
class Desk:
    """A service that listens, the operator's door to it, and the network in front of it."""

    service: Service
    console: Console
    key: OperatorKey
    proxy: CuttingProxy
    token: str
    count: Path
    tool: str = "shell_execute"
    runs: list[str] = field(default_factory=list)

    @property
    def ran(self) -> int:
        """How often a command ran on the device."""
        return len(self.count.read_text().splitlines()) if self.count.exists() else 0

    def begin_anew(self) -> None:
        """For another test: nothing is broken, and nothing was counted."""
        self.proxy.heal()
        self.count = self.count.with_name(f"count-{new_id()}")

    async def online(self) -> None:
        """Wait until the device can be asked."""
        events = self.console.events()
        async with asyncio.timeout(PATIENCE_S):
            if self.service.fleet.get(NAME).health is Health.ONLINE:
                return
            async for event in events:
                changed = event.device if isinstance(event, DeviceChanged) else None
                if changed is not None and (changed.name, changed.health) == (NAME, Health.ONLINE):
                    return

    async def begin(self, timeout: float = PATIENCE_S) -> str:
        """Let one counting command start; it is approved, and goes on in the background."""
        line = f"echo x >> '{self.count}'"
        run = await self.console.runs.call(NAME, self.tool, {"command": line}, timeout)
        await approve(self.console, await next_approval(self.console), self.key)
        return run.summary.id

    async def result(self, run: str) -> CommandResult:
        """What came of it."""
        cell = await self.cell(run)
        assert cell.result is not None, cell
        return cell.result

    async def cell(self, run: str) -> Cell:
        [cell] = (await self.console.runs.wait(run, PATIENCE_S)).cells
        return cell

    async def journalled(self, result: CommandResult) -> list[Kind]:
        """The kinds of the command's entries; the last is about the same result as was shown."""
        record = await self.console.journal.command(result.call_id)
        assert record.result is not None
        assert (record.result.verdict, record.result.basis) == (result.verdict, result.basis)
        return [entry.kind for entry in record.entries]


@asynccontextmanager
async def open_desk(folder: Path, count: Path) -> AsyncIterator[Desk]:
    home = Home(folder / "home").create()
    key = create_operator_key(home, "anna", None)
    async with expecting(home, key, NAME) as device, cutting_proxy(device.port) as proxy:
        yield Desk(device.service, device.console, key, proxy, device.token, count)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    folder = tmp_path_factory.mktemp("ours")
    async with open_desk(folder, folder / "root" / "count") as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def ours(_desk: Desk) -> AsyncIterator[Desk]:
    """Our own client behind the proxy, online. It begins anew: after each cut it would come back later."""
    _desk.begin_anew()
    folder = _desk.count.parent.parent
    async with forked_device(f"ws://127.0.0.1:{_desk.proxy.port}/ws", folder, _desk.token):
        await _desk.online()
        yield _desk
    await stands(_desk.console, NAME, Health.RECONNECTING, Health.OFFLINE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _desk_that_dials(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    folder = tmp_path_factory.mktemp("dialled")
    home = make_listening_home(folder / "home")
    key = create_operator_key(home, "anna", None)
    port, state = free_port(), folder / "state"
    said = await told(state, "--listen", f"127.0.0.1:{port}", "--pair", "--name", NAME)
    line = decode_pairing(said.strip())
    service = await Service.open(home)
    try:
        console = signing(LocalConsole(service, "operator:anna"), service.home)
        await console.approvals.register_operator(key.operator)
        async with running(state, "--name", NAME), cutting_proxy(port, console_dials=True) as proxy:
            through = dataclasses.replace(line, url=line.url.replace(str(port), str(proxy.port)))
            await console.devices.pair_listening(NAME, encode_pairing(through), DeviceSettings())
            yield Desk(service, console, key, proxy, "", state / "root" / "count")
    finally:
        await service.close()


@pytest_asyncio.fixture(loop_scope="module")
async def dialled(_desk_that_dials: Desk) -> Desk:
    """Our own client, which the console dials through the proxy."""
    _desk_that_dials.begin_anew()
    await _desk_that_dials.online()
    return _desk_that_dials


@pytest.mark.parametrize(("point", "part"), PLACES)
async def test_wherever_the_network_breaks_our_device_runs_it_at_most_once_and_the_truth_is_found(
    ours: Desk, point: Point, part: float
):
    ours.proxy.cut(point, ours.tool, part)
    run = await ours.begin()
    await asyncio.wait_for(ours.proxy.has_cut.wait(), PATIENCE_S)
    ours.proxy.let_in()
    result = await ours.result(run)
    kinds = await ours.journalled(result)
    assert kinds.count(Kind.COMMAND_SENT) == 1
    if point in NEVER_RAN:
        assert ours.ran == 0
        assert (result.verdict, result.basis) == (Verdict.REFUSED, Basis.NOTHING_SENT)
        assert result.error is not None
        assert result.error.code is ErrorCode.DEVICE_OFFLINE
    else:
        assert ours.ran == 1
        assert (result.verdict, result.basis) == (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM)
        assert result.result["exit_code"] == 0
    before = ours.ran
    await ours.online()
    assert (await ours.result(await ours.begin())).error is None
    assert ours.ran == before + 1


@pytest.mark.parametrize("point", [Point.IN_COMMAND, Point.AFTER_COMMAND, Point.IN_RESULT])
async def test_while_our_device_stays_away_a_change_is_unknown_and_nothing_is_tried_again(
    ours: Desk, point: Point
):
    ours.proxy.cut(point, ours.tool)
    result = await ours.result(await ours.begin(timeout=1.0))
    assert result.verdict is Verdict.UNKNOWN
    assert result.error is not None
    assert result.error.code is ErrorCode.OUTCOME_UNKNOWN
    assert (await ours.journalled(result)).count(Kind.COMMAND_SENT) == 1
    ran = ours.ran
    assert ran <= 1
    ours.proxy.let_in()
    await ours.online()
    assert (await ours.result(await ours.begin())).error is None
    assert ours.ran == ran + 1


@pytest.mark.parametrize("point", [Point.BEFORE_COMMAND, Point.AFTER_COMMAND, Point.IN_RESULT])
async def test_a_line_that_stalls_ends_at_our_own_deadline_as_unknown_until_it_carries_again(
    ours: Desk, point: Point
):
    ours.proxy.cut(point, ours.tool, stalls=True)
    run = await ours.begin(timeout=1.0)
    assert (await ours.result(run)).verdict is Verdict.UNKNOWN
    ours.proxy.flow()
    # The line carries again: what follows is answered, and what was late is not taken for its answer.
    again = await ours.result(await ours.begin())
    assert (again.error, again.result["exit_code"]) == (None, 0)
    assert ours.ran == 2
    await entries_when(ours.service.journal, f"kind:{Kind.LATE_ANSWER_RECEIVED} run:{run}")
    result = await ours.result(run)
    assert (result.verdict, result.basis) == (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM)
    assert (await ours.journalled(result)).count(Kind.COMMAND_SENT) == 1


@pytest.mark.story
async def test_a_slow_line_only_takes_longer(ours: Desk):
    ours.proxy.delay_s = 0.05
    assert (await ours.result(await ours.begin())).error is None
    assert ours.ran == 1


@pytest.mark.parametrize("point", [Point.IN_COMMAND, Point.AFTER_COMMAND, Point.IN_RESULT])
async def test_a_device_that_is_dialled_is_dialled_again_and_tells_what_became_of_it(
    dialled: Desk, point: Point
):
    dialled.proxy.cut(point, dialled.tool)
    run = await dialled.begin()
    await asyncio.wait_for(dialled.proxy.has_cut.wait(), PATIENCE_S)
    dialled.proxy.let_in()
    result = await dialled.result(run)
    reached = point not in NEVER_RAN
    assert result.basis is (Basis.DEVICE_CLAIM if reached else Basis.NOTHING_SENT)
    assert dialled.ran == reached


@dataclass
class StockDevice:
    """Answers as a stock client does: serial, no memory of calls, and a lost result is not sent again."""

    url: str

    async def run(self) -> None:
        while True:
            try:
                async with connect(self.url, compression=None) as link:
                    await link.send(
                        json.dumps(_frame("register", client_id=NAME, metadata={"platform": "linux"}))
                    )
                    await link.recv()
                    await self._serve(link)
            except (OSError, ConnectionClosed, InvalidHandshake, InvalidMessage, EOFError):
                # Not before the loop has turned: a refused try must not keep everybody else waiting.
                await asyncio.sleep(0.02)

    async def _serve(self, link: ClientConnection) -> None:
        async for data in link:
            asked = json.loads(data)
            if asked["type"] != "command":
                continue
            results = [self._result(action) for action in asked["actions"]]
            answer = _frame("command_results", client_id=NAME, action_results=results)
            answer.update(prev_response_id=asked["response_id"], session_id=asked["session_id"])
            await link.send(json.dumps(answer))

    def _result(self, action: dict[str, Any]) -> dict[str, Any]:
        answer: Any = [STOCK_TOOL]
        if action["tool_name"] == STOCK_TOOL["tool_name"]:
            # `echo x >> 'FILE'`
            with Path(shlex.split(action["parameters"]["command"])[-1]).open("a") as file:
                file.write("x\n")
            answer = {"success": True, "exit_code": 0, "stdout": "", "stderr": ""}
        return {
            "status": "success",
            "error": None,
            "result": answer,
            "namespace": "BashExecutor",
            "call_id": action.get("call_id"),
        }


STOCK_TOOL = {
    "tool_key": "action::execute_command",
    "tool_name": "execute_command",
    "title": None,
    "namespace": "BashExecutor",
    "tool_type": "action",
    "description": "Execute a shell command.",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
    "output_schema": {},
    "meta": None,
    "annotations": None,
}


def _frame(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": "ok", "client_type": "device", **more}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _stock_desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    folder = tmp_path_factory.mktemp("stock")
    async with open_desk(folder, folder / "count") as desk:
        desk.tool = str(STOCK_TOOL["tool_name"])
        tasks = TaskGroupOwner("stock device")
        url = f"ws://127.0.0.1:{desk.proxy.port}/ws?token={desk.token}"
        tasks.spawn("stock device", StockDevice(url).run())
        try:
            yield desk
        finally:
            await tasks.close()


@pytest_asyncio.fixture(loop_scope="module")
async def stock(_stock_desk: Desk) -> Desk:
    """A stock client's stand-in behind the proxy, online."""
    _stock_desk.begin_anew()
    await _stock_desk.online()
    return _stock_desk


@pytest.mark.parametrize(("point", "part"), PLACES)
async def test_wherever_the_network_breaks_a_stock_device_is_never_asked_twice(
    stock: Desk, point: Point, part: float
):
    stock.proxy.cut(point, stock.tool, part)
    result = await stock.result(await stock.begin())
    if point is Point.AFTER_RESULT:
        assert (result.verdict, result.basis) == (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM)
    else:
        # Nobody can say what a stock client saw: not even where nothing but a byte was left.
        assert (result.verdict, result.basis) == (Verdict.UNKNOWN, Basis.NO_ANSWER)
        assert result.error is not None
        assert result.error.code is ErrorCode.OUTCOME_UNKNOWN
    assert (await stock.journalled(result)).count(Kind.COMMAND_SENT) == 1
    await asyncio.wait_for(stock.proxy.has_cut.wait(), PATIENCE_S)
    stock.proxy.let_in()
    await stock.online()
    assert stock.ran == (0 if point in NEVER_RAN else 1)
    assert (await stock.result(await stock.begin())).error is None
    assert stock.ran == (1 if point in NEVER_RAN else 2)
