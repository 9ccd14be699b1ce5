"""A hosted server that means something else by its tool once that is approved: nothing runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from core.approvals.models import Approval
from core.approvals.operator_keys import create_operator_key, statement_for
from core.audit.entries import Kind
from core.commands.request import CommandRequest
from core.commands.results import Basis, CommandResult, Verdict
from core.device.config import PinnedOperator
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.hosting_console import CHANNELS, NAME, hosting_console
from tests.fakes.mcp_hosted import QUICK, Hosted
from tests.fakes.mcp_server import rogue
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import Rig

pytestmark = pytest.mark.parametrize("channel", CHANNELS)
SELDOM = replace(QUICK, relist_s=(300, 300))


@asynccontextmanager
async def hosting(home: Home, tmp_path: Path, channel: str) -> AsyncIterator[tuple[Rig, Hosted]]:
    """A device that wants signatures and hosts a server; the console hears of no change by itself."""
    key = create_operator_key(home, "anna", None)
    pinned = (PinnedOperator(name="anna", public_key=key.public_key),)
    servers = rogue(tools=["versioned", "redefine"])
    more = {"timing": SELDOM, "signed_by": pinned}
    async with hosting_console(home, tmp_path, servers, channel, **more) as (rig, built):
        yield rig, built


async def ask(rig: Rig, tool: str, **given: str) -> tuple[asyncio.Task[CommandResult], Approval]:
    task = rig.tasks.spawn(
        "call", rig.dispatcher.dispatch(CommandRequest(NAME, f"rogue_{tool}", given, "operator:anna"))
    )
    return task, await asyncio.wait_for(rig.asked.get(), PATIENCE_S)


async def approve(rig: Rig, asked: tuple[asyncio.Task[CommandResult], Approval]) -> CommandResult:
    task, approval = asked
    await rig.approvals.decide(rig.key.sign(statement_for(approval, "approve", "anna")))
    return await task


@pytest.mark.parametrize("listed", [True, False])
async def test_a_tool_that_changes_between_approval_and_arrival_does_not_run(
    home: Home, tmp_path: Path, channel: str, listed: bool
):
    ran = tmp_path / "ran"
    async with hosting(home, tmp_path, channel) as (rig, built):
        if not listed:
            # It is listed anew at once, and for the next five minutes no more.
            assert (await approve(rig, await ask(rig, "redefine"))).error is None
            await built.until(lambda: "version 1" in (built.tool("versioned").description or ""))
            await rig.fleet.relist(NAME)
            [tool] = [one for one in rig.fleet.tools(NAME) if one.changed]
            await rig.fleet.review(NAME, tool.tool_key, tool.contract.digest, "operator:anna")
        asked = await ask(rig, "versioned", ran=str(ran))
        assert (await approve(rig, await ask(rig, "redefine"))).error is None
        if listed:
            await built.until(lambda: "version 1" in (built.tool("versioned").description or ""))
        result = await approve(rig, asked)
        assert result.error is not None
        assert result.error.code is ErrorCode.CONTRACT_CHANGED
        assert (result.verdict, result.basis) == (Verdict.REFUSED, Basis.DEVICE_REFUSED)
        kinds = [one.kind for one in await rig.entries() if one.call_id == result.call_id]
        assert Kind.COMMAND_SENT in kinds
        assert not ran.exists()


async def test_a_tool_that_is_what_was_approved_runs(home: Home, tmp_path: Path, channel: str):
    ran = tmp_path / "ran"
    async with hosting(home, tmp_path, channel) as (rig, _):
        result = await approve(rig, await ask(rig, "versioned", ran=str(ran)))
        assert result.error is None
        assert ran.read_text() == "version 0"
