"""What a device offers: `list_tools`, and finding out which agent of a stock device to ask.

No wire call lists a device's agents, and a stock device answers a question to an agent it does not have with
silence. So each likely agent is asked, and silence is the answer no. Silence is told from slowness by a frame
without commands: a device answers that one whatever agents it has, and a stock one reads it only when it is
done with the frame before. So this answer ends every question asked earlier: nobody needs to wait any longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import structlog
from pydantic import ValidationError

from core.aip.extensions import CommandProof
from core.aip.messages import Command, Result, ResultStatus, ToolInfo, ToolType
from core.errors import DeviceError, ErrorCode

if TYPE_CHECKING:
    from core.aip.device_link import DeviceLink

log = structlog.get_logger(__name__)

STOCK_AGENTS = ("LinuxAgent", "HardwareAgent", "MobileAgent", "HostAgent", "AppAgent")
# What a stock device takes for a listing, with some room; whether a slower one is at work is asked then.
QUESTION_S = 0.5
SEARCH_S = 8.0
_MOST_TOOLS = 2_000
_TYPES: tuple[ToolType, ...] = ("action", "data_collection")


class Sends(Protocol):
    """A link, or the line of a device."""

    async def send_commands(
        self, commands: Sequence[Command], timeout: float, grounds: Sequence[CommandProof] = ()
    ) -> list[Result]: ...


async def list_tools(
    link: Sends, timeout: float, tool_type: ToolType = "action", with_meta: bool = False
) -> list[ToolInfo]:
    """Ask for every tool of the agent that the link addresses, asking as a command of `tool_type`.

    A stock device answers only under a type which its agent has; what it lists is of both types. `with_meta`
    asks for the listing tools themselves too, which AIP leaves out unless they are asked for.

    Raises:
        DeviceError: it did not answer, would not say, or listed what are no tools.
        BadInput, Refused: as `DeviceLink.send_commands`.
    """
    parameters: dict[str, object] = {"tool_type": None, **({"remove_meta": False} if with_meta else {})}
    ask = Command(tool_name="list_tools", tool_type=tool_type, parameters=parameters)
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
    link: DeviceLink,
    candidates: Sequence[str] = STOCK_AGENTS,
    question_s: float = QUESTION_S,
    search_s: float = SEARCH_S,
) -> tuple[str, list[ToolInfo]]:
    """Find the first agent that answers, and its tools of both types; the link addresses it from then on.

    The device has one question at a time. A candidate that it does not have costs twice `question_s` seconds,
    and one that is slow to answer is waited for; all silences together last at most `search_s`.

    Raises:
        DeviceError: no candidate answered (code `protocol_error`), the device is still at work on what it was
            asked (`timeout`), or the link ended.
    """
    addressed, search = link.agent_name, _Search(link, question_s, search_s)
    try:
        for agent in candidates:
            link.agent_name = agent
            found = await search.tools()
            if found is not None:
                log.info("agent found", device=link.name, agent=agent, tools=len(found))
                addressed = agent
                return agent, found
    finally:
        link.agent_name = addressed
    raise DeviceError(
        f"{link.name} answers for none of the agents {', '.join(candidates)}: "
        "it has no such agent, or the MCP server of that agent is not running there",
        ErrorCode.PROTOCOL_ERROR,
    )


class _Search:
    """The questions to one device, and how long it may still be waited for: `search_s` seconds in all."""

    def __init__(self, link: DeviceLink, question_s: float, search_s: float) -> None:
        self._link = link
        self._question_s = question_s
        self._search_s = self._left = search_s

    async def tools(self) -> list[ToolInfo] | None:
        """The tools of the link's agent; None when it stays silent under either type."""
        merged: dict[str, ToolInfo] = {}
        answered = False
        for tool_type in _TYPES:
            try:
                tools = await self._hear(tool_type)
            except DeviceError as error:
                if not self._link.is_open or error.code is ErrorCode.TIMEOUT:
                    raise
                self._say_none(tool_type, error.message)
                continue
            if tools is None:
                self._say_none(tool_type, "silence")
                continue
            answered = True
            for tool in tools:
                merged.setdefault(tool.tool_key, tool)
            if merged:
                # Asked without a filter, one answer names the tools of both types.
                break
        return list(merged.values()) if answered else None

    def _say_none(self, tool_type: ToolType, why: str) -> None:
        log.info("no tools", device=self._link.name, agent=self._link.agent_name, type=tool_type, why=why)

    async def _hear(self, tool_type: ToolType) -> list[ToolInfo] | None:
        """What the device answers to one question; None when it says nothing to it."""
        if self._left <= 0:
            raise self._still_at_work()
        owed = self._link.held["given_up"]
        try:
            return await list_tools(self._link, self._question_s, tool_type)
        except DeviceError as error:
            if not self._is_silence(error):
                raise
        self._left -= self._question_s
        try:
            await self._wait_until_idle()
            if self._link.held["given_up"] > owed:
                return None
            # It did answer, but too late to be heard; what kept it (an agent to start, say) is done by now.
            return await list_tools(self._link, max(self._left, self._question_s), tool_type)
        except DeviceError as error:
            if self._is_silence(error):
                raise self._still_at_work() from None
            raise

    async def _wait_until_idle(self) -> None:
        """Wait for the device to be done with all it was asked."""
        others = self._link.waiting
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._link.send_commands([], max(self._left, self._question_s))
        if not others:
            # Waiting for others' turns is no silence of the device.
            self._left -= loop.time() - began

    def _is_silence(self, error: DeviceError) -> bool:
        return error.code is ErrorCode.OUTCOME_UNKNOWN and self._link.is_open

    def _still_at_work(self) -> DeviceError:
        return DeviceError(
            f"{self._link.name} is silent for {self._search_s:g} s: it is still at work, or it hangs",
            ErrorCode.TIMEOUT,
        )
