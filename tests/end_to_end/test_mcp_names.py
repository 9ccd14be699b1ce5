"""Attack: a server that becomes ready later takes no rule off the tools of another one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from core.dispatch.channel import LocalCommandDispatcher
from core.dispatch.order import Order
from core.errors import ErrorCode
from core.fleet.fleet import Arrival
from core.home import Home
from tests.fakes.mcp_hosted import hosted
from tests.fakes.mcp_server import rogue
from tests.fakes.rig import open_rig

NAME = "lab"
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


async def test_a_deny_rule_holds_before_and_after_another_server_with_the_same_tool_is_ready(
    home: Home, tmp_path: Path
):
    os.mkfifo(tmp_path / "gate")
    servers = rogue("alpha", tools=["say", "cancelled"]) | rogue(
        "beta", tools=["say"], fifo=str(tmp_path / "gate")
    )
    async with hosted(tmp_path, servers, wait=False) as built, open_rig(home) as rig:
        await built.until(lambda: bool(built.names("alpha")))
        rig.use_policy(POLICY)
        rig.fleet.add(NAME, ["lab"])
        channel = LocalCommandDispatcher(NAME, built.router, rig.dispatcher.gate)
        await rig.fleet.arrived(NAME, Arrival(channel, "in-process", "linux", "test", "test", [], None))

        async def denied(tool: str) -> bool:
            order = Order(NAME, tool, {"answer": {"content": []}}, "operator:anna")
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
        result = await rig.dispatcher.dispatch(Order(NAME, "say", {}, "operator:anna"))
        assert result.error is not None
        assert result.error.code is ErrorCode.UNKNOWN_TOOL
        assert "Did you mean alpha_say or beta_say?" in result.error.message
