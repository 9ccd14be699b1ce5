"""Attack: a server that becomes ready later takes no rule off the tools of another one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from core.commands.request import CommandRequest
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.hosting_console import CHANNELS, NAME, hosting_console
from tests.fakes.mcp_server import rogue

POLICY = """
[[rule]]
id = "broad"
decision = "allow"
risk = ["low", "medium", "high"]

[[rule]]
id = "no-saying"
decision = "deny"
tool = "say"
"""


@pytest.mark.parametrize("channel", CHANNELS)
async def test_a_deny_rule_holds_before_and_after_another_server_with_the_same_tool_is_ready(
    home: Home, tmp_path: Path, channel: str
):
    os.mkfifo(tmp_path / "gate")
    servers = rogue("alpha", tools=["say", "cancelled"]) | rogue(
        "beta", tools=["say"], fifo=str(tmp_path / "gate")
    )
    async with hosting_console(home, tmp_path, servers, channel, wait=False) as (rig, built):
        await built.until(lambda: bool(built.names("alpha")))
        await rig.fleet.relist(NAME)
        rig.use_policy(POLICY)

        async def denied(tool: str) -> bool:
            order = CommandRequest(NAME, tool, {"answer": {"content": []}}, "operator:anna")
            result = await rig.dispatcher.dispatch(order)
            return result.error is not None and result.error.code is ErrorCode.DENIED_BY_POLICY

        before = {tool.tool_name for tool in rig.fleet.tools(NAME) if tool.namespace == "alpha"}
        assert before == {"alpha_say", "alpha_cancelled"}
        assert await denied("alpha_say")
        assert not await denied("alpha_cancelled")
        await asyncio.to_thread((tmp_path / "gate").write_text, "go")
        await built.until(lambda: bool(built.names("beta")))
        await rig.fleet.relist(NAME)
        after = {tool.tool_name for tool in rig.fleet.tools(NAME) if tool.namespace == "alpha"}
        assert after == before
        assert not [tool for tool in rig.fleet.tools(NAME) if tool.changed]
        for tool in ("alpha_say", "beta_say"):
            assert await denied(tool)
        result = await rig.dispatcher.dispatch(CommandRequest(NAME, "say", {}, "operator:anna"))
        assert result.error is not None
        assert result.error.code is ErrorCode.UNKNOWN_TOOL
        assert "Did you mean alpha_say or beta_say?" in result.error.message
