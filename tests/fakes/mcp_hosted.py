"""A real router with MCP servers behind it, impatient enough for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.aip.frames import read_error_text
from core.aip.messages import Command, Result, ResultStatus, ToolInfo
from core.device import DeviceConfig, Router, build_router
from core.device.config import Limits, PinnedOperator
from core.device.mcp.config import parse_servers
from core.device.mcp.host import McpHost
from core.device.mcp.server_state import State, Timing
from core.errors import ErrorCode
from core.hosted_names import own_name
from tests.fakes.patience import PATIENCE_S
from tests.fakes.read_shell import NO_READ_SHELL

QUICK = Timing(
    start_s=15,
    back_off=(0.05, 0.1),
    give_up_after=3,
    after_giving_up_s=300,
    ping_s=0.2,
    ping_answer_s=5,
    call_waits_s=15,
)
TOKEN = "token-that-nobody-may-see"


@dataclass
class Hosted:
    """A router with servers behind it."""

    router: Router
    host: McpHost
    config: DeviceConfig
    announced: asyncio.Event = field(default_factory=asyncio.Event)
    announcements: int = 0
    progress: list[tuple[str, float | None, float | None]] = field(default_factory=list)

    def tool(self, name: str) -> ToolInfo:
        """A tool by the name under which it is listed, or by the one that its server gave it."""
        tools = self.router.tools()
        listed = [info for info in tools if info.tool_name == name]
        own = (info for info in tools if own_name(info.tool_name, info.namespace) == name)
        return next(iter(listed), None) or next(own)

    def names(self, namespace: str) -> set[str]:
        """The names that a server gave to its tools."""
        listed = [info.tool_name for info in self.router.tools() if info.namespace == namespace]
        return {own_name(name, namespace) or name for name in listed}

    async def call(
        self, tool: str, deadline_s: float = PATIENCE_S, call_id: str = "c", **given: Any
    ) -> Result:
        """Call a tool, by either of its names."""
        info = self.tool(tool)
        command = Command(
            tool_name=info.tool_name, tool_type=info.tool_type, parameters=given, call_id=call_id
        )
        return await self.router.run(command, deadline_s, report=self._report)

    def _report(
        self, text: str = "", *, done: float | None = None, total: float | None = None, **more: Any
    ) -> None:
        self.progress.append((text, done, total))

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not true():
                self.announced.clear()
                await self.announced.wait()

    def state(self, name: str) -> State:
        return next(state.state for state in self.host.states() if state.name == name)


@asynccontextmanager
async def hosted(
    tmp_path: Path,
    servers: dict[str, Any],
    timing: Timing = QUICK,
    wait: bool = True,
    signed_by: tuple[PinnedOperator, ...] = (),
    **limits: Any,
) -> AsyncIterator[Hosted]:
    """`signed_by`: whose signature each action needs; where it is empty, none."""
    config = DeviceConfig(
        roots=(tmp_path,),
        limits=Limits(**limits),
        tools_off=NO_READ_SHELL,
        require_signed_approval=bool(signed_by),
        pinned_operators=signed_by,
    )
    router = build_router(config, tmp_path / "state", "hosting")
    router.hosted = McpHost(parse_servers(servers, "test"), router, config, router.children, timing)
    built = Hosted(router, router.hosted, config)

    def announced() -> None:
        built.announcements += 1
        built.announced.set()

    router.on_tools_changed = announced
    router.hosted.start()
    try:
        if wait:
            await router.hosted.settled(PATIENCE_S)
        yield built
    finally:
        await router.close()


def code(result: Result) -> ErrorCode:
    assert result.status is ResultStatus.FAILURE, result
    return read_error_text(result.error or "").code
