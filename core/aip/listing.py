"""What a device offers: `list_tools`, and finding out which agent of a stock device to ask.

No wire call lists a device's agents, and a stock device answers a question to an agent it does not have with
silence. So each likely agent is asked, and silence is the answer no.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import structlog
from pydantic import ValidationError

from core.aip.extras import Grounds
from core.aip.messages import Command, Result, ResultStatus, ToolInfo, ToolType
from core.errors import DeviceError, ErrorCode

if TYPE_CHECKING:
    from core.aip.link import DeviceLink

log = structlog.get_logger(__name__)

STOCK_AGENTS = ("LinuxAgent", "HardwareAgent", "MobileAgent", "HostAgent", "AppAgent")
PROBE_TIMEOUT = 3.0
_MOST_TOOLS = 2_000
_TYPES: tuple[ToolType, ...] = ("action", "data_collection")


class Sends(Protocol):
    """A link, or the line of a device."""

    async def send_commands(
        self, commands: Sequence[Command], timeout: float, grounds: Sequence[Grounds] = ()
    ) -> list[Result]: ...


async def list_tools(link: Sends, timeout: float, tool_type: ToolType = "action") -> list[ToolInfo]:
    """Ask for every tool of the agent that the link addresses, asking as a command of `tool_type`.

    A stock device answers only under a type which its agent has; what it lists is of both types.

    Raises:
        DeviceError: it did not answer, would not say, or listed what are no tools.
        BadInput, Refused: as `DeviceLink.send_commands`.
    """
    ask = Command(tool_name="list_tools", tool_type=tool_type, parameters={"tool_type": None})
    [result] = await link.send_commands([ask], timeout)
    if result.status is not ResultStatus.SUCCESS:
        raise DeviceError(f"It would not list its tools: {result.error}", ErrorCode.PROTOCOL_ERROR)
    # An empty list arrives from a stock device as null.
    rows = [] if result.result is None else result.result
    if not isinstance(rows, list) or len(rows) > _MOST_TOOLS:
        raise DeviceError("What it lists is no list of tools", ErrorCode.PROTOCOL_ERROR)
    try:
        return [ToolInfo.model_validate(row) for row in rows]
    except ValidationError as error:
        raise DeviceError(
            f"One of the tools it lists is none: {error.errors()[0]['msg']}", ErrorCode.PROTOCOL_ERROR
        ) from error


async def probe_agents(
    link: DeviceLink, candidates: Sequence[str] = STOCK_AGENTS, timeout_each: float = PROBE_TIMEOUT
) -> tuple[str, list[ToolInfo]]:
    """Find the first agent that answers, and its tools of both types; the link addresses it from then on.

    Each candidate costs at most twice `timeout_each` seconds, and leaves at most two questions without an
    answer, which is all that silence can be told by.

    Raises:
        DeviceError: no candidate answered (code `protocol_error`), or the link ended.
    """
    before = link.agent_name
    for agent in candidates:
        link.agent_name = agent
        found = await _tools_of(link, timeout_each)
        if found is not None:
            log.info("agent found", device=link.name, agent=agent, tools=len(found))
            return agent, found
    link.agent_name = before
    raise DeviceError(f"{link.name} has none of the agents {', '.join(candidates)}", ErrorCode.PROTOCOL_ERROR)


async def _tools_of(link: DeviceLink, timeout: float) -> list[ToolInfo] | None:
    """The tools of the link's agent; None when it stays silent under either type."""
    merged: dict[str, ToolInfo] = {}
    answered = False
    for tool_type in _TYPES:
        try:
            tools = await list_tools(link, timeout, tool_type)
        except DeviceError as error:
            if not link.is_open:
                raise
            log.info("no tools", device=link.name, agent=link.agent_name, type=tool_type, why=error.message)
            continue
        answered = True
        for tool in tools:
            merged.setdefault(tool.tool_key, tool)
        if merged:
            # Asked without a filter, one answer names the tools of both types.
            break
    return list(merged.values()) if answered else None
