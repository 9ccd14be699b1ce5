"""A hosted MCP tool that calls itself read-only: its word makes no verdict better, and no loss a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.aip.messages import ResultStatus
from core.approvals.operator_keys import statement_for
from core.audit.entries import Kind
from core.commands.request import CommandRequest
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.hosting_console import CHANNELS, NAME, hosting_console
from tests.fakes.mcp_hosted import Hosted
from tests.fakes.mcp_server import rogue
from tests.fakes.rig import Rig

pytestmark = pytest.mark.parametrize("channel", CHANNELS)
OBSERVES = """
[[contract]]
tool = "rogue_{tool}"
effect = "observe"
risk = "low"
why = "Its source was read."
"""


@asynccontextmanager
async def hosting(home: Home, tmp_path: Path, channel: str, *tools: str) -> AsyncIterator[tuple[Rig, Hosted]]:
    """A dispatcher with a real device behind it, which hosts a server whose tools all claim to look only."""
    async with hosting_console(home, tmp_path, rogue(tools=list(tools)), channel) as (rig, built):
        assert all(built.tool(name).tool_type == "data_collection" for name in tools)
        yield rig, built


async def call(rig: Rig, tool: str, timeout: float | None = None) -> CommandResult:
    order = CommandRequest(
        NAME, f"rogue_{tool}", {"answer": {"content": []}}, "operator:anna", timeout=timeout
    )
    task = rig.tasks.spawn("call", rig.dispatcher.dispatch(order))
    asked = rig.tasks.spawn("asked", rig.asked.get())
    await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
    if asked.done():
        approval = asked.result()
        await rig.approvals.decide(rig.key.sign(statement_for(approval, "approve", "anna")))
    asked.cancel()
    return await task


async def test_an_answer_of_a_tool_that_only_calls_itself_read_only_is_its_claim(
    home: Home, tmp_path: Path, channel: str
):
    async with hosting(home, tmp_path, channel, "cancelled") as (rig, _):
        result = await call(rig, "cancelled")
        assert (result.status, result.verdict) == (ResultStatus.SUCCESS, Verdict.UNVERIFIED)
        assert result.basis is Basis.DEVICE_CLAIM
        # An operator's word makes it a look.
        rig.use_policy(OBSERVES.format(tool="cancelled"))
        result = await call(rig, "cancelled")
        assert (result.verdict, result.basis) == (Verdict.CONFIRMED, Basis.READ_RESPONSE)


@pytest.mark.parametrize("tool", ["die_reading", "hang_reading"])
async def test_a_lost_answer_is_unknown_until_an_operator_says_that_it_only_looks(
    home: Home, tmp_path: Path, channel: str, tool: str
):
    deadline = 0.3 if tool == "hang_reading" else None
    async with hosting(home, tmp_path, channel, tool) as (rig, _):
        result = await call(rig, tool, deadline)
        assert (result.status, result.verdict) == (ResultStatus.NONE, Verdict.UNKNOWN)
        assert result.error is not None
        assert result.error.code is ErrorCode.OUTCOME_UNKNOWN
        rig.use_policy(OBSERVES.format(tool=tool))
        result = await call(rig, tool, deadline)
        assert result.status is ResultStatus.FAILURE
        assert result.error is not None
        assert result.error.code is ErrorCode.TIMEOUT


async def test_what_only_calls_itself_a_look_is_on_disk_before_it_leaves(
    home: Home, tmp_path: Path, channel: str, monkeypatch: pytest.MonkeyPatch
):
    async with hosting(home, tmp_path, channel, "cancelled") as (rig, built):
        on_disk: list[Kind] = []
        run = built.router.run

        async def looking(command, *words, **more):  # type: ignore[no-untyped-def]
            on_disk.extend(rig.on_disk(command.call_id))
            return await run(command, *words, **more)

        monkeypatch.setattr(built.router, "run", looking)
        await call(rig, "cancelled")
        assert Kind.INTENT_RECORDED in on_disk
