"""Somebody stands between the console and a device that wants signed approvals: nothing unsigned ever runs.

The console's link, the device client's process and the operator's key are real; between them a proxy alters,
repeats, holds back, swaps and drops frames. Each command appends a line to a file: that is what counts.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from core.approvals.operator_keys import create_operator_key
from core.commands.results import Basis, Verdict
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.altering_proxy import Frame
from tests.fakes.signed_desk import Desk, action, approval, connected, demanding, open_desk, refused_by_device

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    folder = tmp_path_factory.mktemp("altered")
    home = Home(folder / "home").create()
    key = create_operator_key(home, "anna", None)
    demanding(folder, key)
    async with open_desk(home, key, folder) as desk, connected(desk):
        yield desk


@pytest.fixture
def desk(_desk: Desk) -> Desk:
    """Our own client, which pins anna, behind the proxy and online: one for all attacks."""
    _desk.begin_anew()
    return _desk


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
