"""A device that wants signed approvals serves what its operators signed, whatever the console believes of it.

The console's link, the device client's process and the operator's key are real; between them is a proxy. Each
command appends a line to a file: that is what counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.approvals.models import ApprovalState
from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.home import Home
from core.models.devices import Health
from core.service.local_console import LocalConsole
from core.statements import short_code
from tests.fakes.altering_proxy import Frame
from tests.fakes.desk import approve, next_approval
from tests.fakes.device_process import device
from tests.fakes.patience import PATIENCE_S
from tests.fakes.remote_device import stands
from tests.fakes.signed_desk import (
    ALLOWS_ALL,
    NAME,
    TOOL,
    Desk,
    action,
    approval,
    connected,
    demanding,
    open_desk,
    refused_by_device,
)
from tests.fakes.signing import accepted, identify, signing


@pytest.fixture
async def desk(home: Home, operator: OperatorKey, tmp_path: Path) -> AsyncIterator[Desk]:
    """Our own client, which pins anna, behind the proxy and online."""
    demanding(tmp_path, operator)
    async with open_desk(home, operator, tmp_path) as desk, connected(desk):
        yield desk


@pytest.mark.story
async def test_an_approved_command_runs_and_both_sides_show_the_same_code(
    home: Home, operator: OperatorKey, tmp_path: Path
) -> None:
    demanding(tmp_path, operator)
    async with (
        open_desk(home, operator, tmp_path) as desk,
        device(desk.proxy.url, tmp_path, token=desk.token) as process,
    ):
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
    decision = await desk.console.policy.explain(NAME, TOOL, {"command": "true"})
    assert decision.answer.value == "ask"
    assert "wants every action signed" in decision.reasons[0].text
    looked = await desk.console.runs.call(NAME, "get_system_info", {"info_type": "memory"})
    assert (await desk.result(looked.summary.id)).error is None
    assert (await desk.call("x")).error is None
    assert desk.ran == ["x"]


async def test_an_approval_used_before_a_restart_is_used_after_it(
    home: Home, operator: OperatorKey, tmp_path: Path
) -> None:
    demanding(tmp_path, operator)
    async with open_desk(home, operator, tmp_path) as desk:
        async with connected(desk):
            assert (await desk.call("x")).error is None
        await stands(desk.console, NAME, Health.RECONNECTING, Health.OFFLINE)
        # Not even without the record that answers repeated calls with their first result.
        with contextlib.closing(sqlite3.connect(tmp_path / "state" / "device.db")) as store:
            store.executescript("DELETE FROM calls; DELETE FROM results;")
        async with connected(desk):
            again = copy.deepcopy(desk.proxy.seen[0])
            again["response_id"] = "after the restart"
            await desk.proxy.inject(again)
            await desk.still_works()
        [late] = [one for one in desk.proxy.said if one["prev_response_id"] == "after the restart"]
        assert "used before" in late["action_results"][0]["error"]
        assert desk.ran == ["x", "honest"]


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

    await accepted(home, ALLOWS_ALL)
    demanding(tmp_path, operator)
    async with open_desk(home, operator, tmp_path) as desk:
        desk.proxy.on_register = register
        async with connected(desk):
            if hides == "terms":
                result = await desk.call("x")
            else:
                run = await desk.console.runs.call(
                    NAME, TOOL, {"command": f"echo x >> '{desk.count}'"}, PATIENCE_S
                )
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
        carl = create_operator_key(home, "carl", None)
        console = signing(desk.console, home)
        for known in (bert, carl):
            await console.approvals.register_operator(known.operator)
        asker = LocalConsole(desk.service, "window:carl")
        await identify(asker, carl)
        run = await asker.runs.call(NAME, TOOL, {"command": f"echo x >> '{desk.count}'"}, PATIENCE_S)
        asked = await next_approval(desk.console)
        assert asked.approvers == 2
        waits = await approve(desk.console, asked, operator)
        assert waits.state is ApprovalState.WAITING
        await approve(LocalConsole(desk.service, "operator:bert"), asked, bert)
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
