"""Somebody stands between the console and a device that wants signed approvals: nothing unsigned ever runs.

The console's link, the device client's process and the operator's key are real; between them a proxy alters,
repeats, holds back, swaps and drops frames. Each command appends a line to a file: that is what counts.
"""

from __future__ import annotations

import asyncio
import copy
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from core.dispatch.models import Basis, CommandResult, Verdict
from core.errors import ErrorCode
from core.fleet.models import Device as KnownDevice
from core.fleet.models import DeviceSettings, Health
from core.home import Home
from core.policy.models import ApprovalState
from core.policy.operator_keys import OperatorKey, create_operator_key
from core.policy.operators import endorsement_of
from core.service.console import Console
from core.service.service import Service
from core.statements import short_code
from tests.fakes.altering_proxy import AlteringProxy, Frame, altering_proxy
from tests.fakes.desk import PATIENCE, approve, next_approval
from tests.fakes.device_process import Device, device
from tests.fakes.remote_device import stands

NAME = "d1"
TOOL = "shell_execute"
ALLOWS_ALL = '[[rule]]\nid = "all"\ndecision = "allow"\nrisk = ["low", "medium", "high", "critical"]\n'


@dataclass
class Desk:
    """A service that listens, the operator's door to it, and whoever is in the middle."""

    service: Service
    console: Console
    key: OperatorKey
    proxy: AlteringProxy
    token: str
    folder: Path

    @property
    def count(self) -> Path:
        return self.folder / "root" / "count"

    @property
    def ran(self) -> list[str]:
        """Which commands ran on the device, in order."""
        return self.count.read_text().split() if self.count.exists() else []

    async def online(self) -> KnownDevice:
        return await stands(self.console, NAME, Health.ONLINE)

    async def begin(self, word: str = "x", timeout: float = PATIENCE) -> str:
        """Let a command start that leaves `word` in the file, and approve it."""
        run = await self.console.call(NAME, TOOL, {"command": f"echo {word} >> '{self.count}'"}, timeout)
        await approve(self.console, await next_approval(self.console), self.key)
        return run.summary.id

    async def result(self, run: str) -> CommandResult:
        [cell] = (await self.console.wait_run(run, PATIENCE)).cells
        assert cell.result is not None
        return cell.result

    async def call(self, word: str = "x", timeout: float = PATIENCE) -> CommandResult:
        return await self.result(await self.begin(word, timeout))

    async def still_works(self) -> None:
        """After an attack an honest approval is served as ever."""
        self.proxy.attack = lambda frame: [frame]
        before = self.ran
        assert (await self.call("honest")).error is None
        assert self.ran == [*before, "honest"]


def demanding(folder: Path, *keys: OperatorKey, approvers: int = 1) -> None:
    """A device.toml that pins these operators."""
    (folder / "root").mkdir(parents=True, exist_ok=True)
    pinned = "".join(
        f'[[pinned_operators]]\nname = "{key.name}"\npublic_key = "{key.public_key}"\n' for key in keys
    )
    (folder / "device.toml").write_text(
        f'roots = ["{folder}/root"]\nrequire_signed_approval = true\napprovers = {approvers}\n{pinned}'
    )


@asynccontextmanager
async def open_desk(home: Home, key: OperatorKey, folder: Path) -> AsyncIterator[Desk]:
    (home.path / "settings.toml").write_text('this_computer = "in-process"\nlisten = "127.0.0.1:0"\n')
    service = await Service.open(home)
    try:
        console = service.console("operator:anna")
        await console.register_operator(key.operator)
        pairing = await console.pair(NAME, DeviceSettings())
        address = urlsplit(pairing.stock_url)
        assert address.port
        async with altering_proxy(address.port) as proxy:
            yield Desk(service, console, key, proxy, parse_qs(address.query)["token"][0], folder)
    finally:
        await service.close()


@asynccontextmanager
async def connected(desk: Desk) -> AsyncIterator[Device]:
    async with device(desk.proxy.url, desk.folder, token=desk.token) as process:
        await desk.online()
        yield process


@pytest.fixture
async def desk(home: Home, operator: OperatorKey, tmp_path: Path) -> AsyncIterator[Desk]:
    """Our own client, which pins anna, behind the proxy and online."""
    demanding(tmp_path, operator)
    async with open_desk(home, operator, tmp_path) as desk, connected(desk):
        yield desk


def action(frame: Frame) -> dict:
    return frame["actions"][0]


def approval(frame: Frame) -> dict:
    return action(frame)["quarterdeck"]["approval"]


def refused_by_device(result: CommandResult) -> None:
    assert (result.verdict, result.basis) == (Verdict.REFUSED, Basis.DEVICE_REFUSED), result
    assert result.error is not None
    assert result.error.code is ErrorCode.DENIED_BY_DEVICE


async def test_an_approved_command_runs_and_both_sides_show_the_same_code(
    home: Home, operator: OperatorKey, tmp_path: Path
) -> None:
    demanding(tmp_path, operator)
    async with open_desk(home, operator, tmp_path) as desk, connected(desk) as process:
        known = await desk.online()
        assert (known.requires_approval, known.approvers) == (True, 1)
        result = await desk.call("x")
        assert (result.error, desk.ran) == (None, ["x"])
        signed = approval(desk.proxy.seen[0])["statements"][0]
        told = json.loads(await process.says('"approved"'))
        assert told["code"] == short_code(signed["statement"]["request_digest"])
        assert told["by"] == "anna"


async def test_nothing_lets_an_action_go_unsigned_where_the_device_wants_signatures(desk: Desk) -> None:
    desk.service.policy.path.write_text(f'profile = "trusted"\n{ALLOWS_ALL}')
    decision = await desk.console.explain(NAME, TOOL, {"command": "true"})
    assert decision.answer.value == "ask"
    assert "wants every action signed" in decision.reasons[0].text
    looked = await desk.console.call(NAME, "get_system_info", {"info_type": "memory"})
    assert (await desk.result(looked.summary.id)).error is None
    assert (await desk.call("x")).error is None
    assert desk.ran == ["x"]


def flip(frame: Frame) -> list[Frame]:
    given = action(frame)["parameters"]
    given["command"] = given["command"].replace("echo x", "echo y")
    return [frame]


def strip(frame: Frame) -> list[Frame]:
    action(frame)["quarterdeck"]["approval"] = None
    return [frame]


def strip_terms(frame: Frame) -> list[Frame]:
    action(frame)["quarterdeck"] = None
    return [frame]


def other_tool(frame: Frame) -> list[Frame]:
    action(frame)["tool_name"] = "EXEC_CLI"
    return [frame]


def other_call(frame: Frame) -> list[Frame]:
    action(frame)["call_id"] += "0"
    return [frame]


def more_arguments(frame: Frame) -> list[Frame]:
    action(frame)["parameters"]["working_directory"] = "/"
    return [frame]


def longer_life(frame: Frame) -> list[Frame]:
    statement = approval(frame)["statements"][0]["statement"]
    statement["expires"] = statement["expires"].replace("20", "29", 1)
    return [frame]


def another_approver(frame: Frame) -> list[Frame]:
    approval(frame)["statements"][0]["statement"]["approver"] = "bert"
    return [frame]


def another_digest(frame: Frame) -> list[Frame]:
    """The digest beside the approval is the console's word; it moves nobody."""
    flip(frame)
    action(frame)["quarterdeck"]["digest"] = "0" * 64
    return [frame]


def smuggle(frame: Frame) -> list[Frame]:
    """A second command in the approved one's frame, with the same approval."""
    second = copy.deepcopy(action(frame))
    second["call_id"] = "smuggled"
    frame["actions"] = [second, *frame["actions"]]
    return [frame]


@pytest.mark.parametrize(
    "attack",
    [
        flip,
        strip,
        strip_terms,
        other_tool,
        more_arguments,
        longer_life,
        another_approver,
        another_digest,
    ],
)
async def test_what_was_altered_on_its_way_is_refused_by_the_device(
    desk: Desk, attack: Callable[[Frame], list[Frame]]
) -> None:
    desk.proxy.attack = attack
    refused_by_device(await desk.call("x"))
    assert desk.ran == []
    await desk.still_works()


@pytest.mark.parametrize("attack", [other_call, smuggle])
async def test_an_approval_serves_no_other_call(desk: Desk, attack: Callable[[Frame], list[Frame]]) -> None:
    desk.proxy.attack = attack
    result = await desk.call("x", timeout=2.0)
    assert result.error is not None
    assert desk.ran == []
    await desk.still_works()


async def test_calling_an_action_an_observation_does_not_help(desk: Desk) -> None:
    def attack(frame: Frame) -> list[Frame]:
        strip(frame)
        action(frame)["tool_type"] = "data_collection"
        return [frame]

    desk.proxy.attack = attack
    assert (await desk.call("x")).verdict is Verdict.REFUSED
    assert desk.ran == []


@pytest.mark.parametrize("fresh_ids", [False, True])
async def test_frames_that_come_again_run_nothing_again(desk: Desk, fresh_ids: bool) -> None:
    def attack(frame: Frame) -> list[Frame]:
        again = copy.deepcopy(frame)
        if fresh_ids:
            again["response_id"] = "again"
        return [frame, again, again]

    desk.proxy.attack = attack
    result = await desk.call("x")
    assert (result.verdict, result.basis, desk.ran) == (Verdict.UNVERIFIED, Basis.DEVICE_CLAIM, ["x"])
    await desk.still_works()
    assert desk.ran == ["x", "honest"]


async def test_an_approval_used_before_a_restart_is_used_after_it(
    home: Home, operator: OperatorKey, tmp_path: Path
) -> None:
    demanding(tmp_path, operator)
    async with open_desk(home, operator, tmp_path) as desk:
        async with connected(desk):
            assert (await desk.call("x")).error is None
        await stands(desk.console, NAME, Health.RECONNECTING, Health.OFFLINE)
        # Not even without the record that answers repeated calls with their first result.
        shutil.rmtree(tmp_path / "state" / "calls")
        async with connected(desk):
            again = copy.deepcopy(desk.proxy.seen[0])
            again["response_id"] = "after the restart"
            await desk.proxy.inject(again)
            await desk.still_works()
        [late] = [one for one in desk.proxy.said if one["prev_response_id"] == "after the restart"]
        assert "used before" in late["action_results"][0]["error"]
        assert desk.ran == ["x", "honest"]


class Holding:
    """Holds the first frame back until the second one comes."""

    def __init__(self, then: Callable[[Frame, Frame], list[Frame]]) -> None:
        self._then = then
        self._first: Frame | None = None

    def __call__(self, frame: Frame) -> list[Frame]:
        if self._first is None:
            self._first = frame
            return []
        return self._then(self._first, frame)


async def test_frames_out_of_order_run_once_each(desk: Desk) -> None:
    desk.proxy.attack = Holding(lambda first, second: [second, first])
    runs = [await desk.begin("a"), await desk.begin("b")]
    results = [await desk.result(run) for run in runs]
    assert [result.error for result in results] == [None, None]
    assert sorted(desk.ran) == ["a", "b"]


async def test_approvals_swapped_between_commands_serve_neither(desk: Desk) -> None:
    def swap(first: Frame, second: Frame) -> list[Frame]:
        one, two = action(first)["quarterdeck"], action(second)["quarterdeck"]
        one["approval"], two["approval"] = two["approval"], one["approval"]
        return [first, second]

    desk.proxy.attack = Holding(swap)
    runs = [await desk.begin("a"), await desk.begin("b")]
    for run in runs:
        refused_by_device(await desk.result(run))
    assert desk.ran == []
    await desk.still_works()


async def test_commands_swapped_below_their_calls_serve_neither(desk: Desk) -> None:
    def swap(first: Frame, second: Frame) -> list[Frame]:
        one, two = action(first), action(second)
        one["parameters"], two["parameters"] = two["parameters"], one["parameters"]
        return [first, second]

    desk.proxy.attack = Holding(swap)
    runs = [await desk.begin("a"), await desk.begin("b")]
    for run in runs:
        refused_by_device(await desk.result(run))
    assert desk.ran == []


async def test_a_frame_that_is_dropped_is_unknown_here_and_never_ran_there(desk: Desk) -> None:
    desk.proxy.attack = lambda frame: []
    result = await desk.call("x", timeout=1.0)
    assert result.verdict is Verdict.UNKNOWN
    assert result.error is not None
    assert result.error.code is ErrorCode.OUTCOME_UNKNOWN
    assert desk.ran == []
    await desk.still_works()


@pytest.mark.parametrize("hides", ["requires_approval", "terms"])
async def test_hiding_what_the_device_wants_opens_nothing(
    home: Home, operator: OperatorKey, tmp_path: Path, hides: str
) -> None:
    """The console is led to believe in a device that asks for nothing, or cannot be sent approvals."""

    def register(frame: Frame) -> Frame:
        ours = frame["metadata"]["quarterdeck"]
        if hides == "terms":
            ours["features"] = [one for one in ours["features"] if one != "terms"]
        else:
            del ours["requires_approval"]
        return frame

    home.policy.write_text(ALLOWS_ALL)
    demanding(tmp_path, operator)
    async with open_desk(home, operator, tmp_path) as desk:
        desk.proxy.on_register = register
        async with connected(desk):
            if hides == "terms":
                result = await desk.call("x")
            else:
                run = await desk.console.call(NAME, TOOL, {"command": f"echo x >> '{desk.count}'"}, PATIENCE)
                result = await desk.result(run.summary.id)
            refused_by_device(result)
            assert desk.ran == []


async def test_an_operator_whom_the_device_does_not_know_is_told_so(
    home: Home, operator: OperatorKey, tmp_path: Path
) -> None:
    stranger = create_operator_key(Home(tmp_path / "elsewhere").create(), "eve", None)
    demanding(tmp_path, stranger)
    async with open_desk(home, operator, tmp_path) as desk, connected(desk):
        result = await desk.call("x")
        refused_by_device(result)
        assert result.error is not None
        assert "anna is not one of this device's pinned operators" in result.error.message
        assert desk.ran == []


async def test_a_device_that_wants_two_gets_two(home: Home, operator: OperatorKey, tmp_path: Path) -> None:
    bert = create_operator_key(home, "bert", None)
    demanding(tmp_path, operator, bert, approvers=2)
    async with open_desk(home, operator, tmp_path) as desk, connected(desk):
        soon = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
        vouched = operator.sign(endorsement_of(bert.operator, "anna", soon))
        await desk.console.register_operator(bert.operator, vouched)
        run = await desk.service.console("agent:test").call(
            NAME, TOOL, {"command": f"echo x >> '{desk.count}'"}, PATIENCE
        )
        asked = await next_approval(desk.console)
        assert asked.approvers == 2
        waits = await approve(desk.console, asked, operator)
        assert waits.state is ApprovalState.WAITING
        await approve(desk.service.console("operator:bert"), asked, bert)
        assert (await desk.result(run.summary.id)).error is None
        assert desk.ran == ["x"]
        assert len(approval(desk.proxy.seen[0])["statements"]) == 2


async def test_a_stock_client_is_sent_nothing_of_it(
    home: Home, operator: OperatorKey, tmp_path: Path
) -> None:
    def register(frame: Frame) -> Frame:
        del frame["metadata"]["quarterdeck"]
        return frame

    async with open_desk(home, operator, tmp_path) as desk:
        (tmp_path / "root").mkdir()
        (tmp_path / "device.toml").write_text(f'roots = ["{tmp_path}/root"]\n')
        desk.proxy.on_register = register
        async with connected(desk):
            await desk.call("x")
            await asyncio.sleep(0)
        assert "quarterdeck" not in action(desk.proxy.seen[0])
        assert desk.ran == ["x"]
