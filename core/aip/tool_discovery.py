"""Lists a device's tools (`list_tools`), and finds the agent of a stock device that has them.

AIP has no call that lists a device's agents, and a stock device does not answer a request to an agent that it
does not have. So each likely agent is asked, and no answer means no such agent. A frame without commands
distinguishes a missing agent from a slow agent: every device answers it, and a stock device reads it only
after it has finished the previous frame. Once it is answered, no answer to an earlier request can still come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pydantic import ValidationError

from core.aip.extensions import CommandProof
from core.aip.messages import Command, Result, ResultStatus, ToolInfo
from core.errors import DeviceError, ErrorCode, first_fault
from core.log import Logger
from core.models.tools import ToolType
from core.text import sentences

if TYPE_CHECKING:
    from core.aip.device_link import DeviceLink

log = Logger(__name__)

STOCK_AGENTS = ("LinuxAgent", "HardwareAgent", "MobileAgent", "HostAgent", "AppAgent")
# Enough for a stock device's tool listing, with a margin; then an empty frame shows if the device is busy.
QUESTION_S = 0.5
SEARCH_S = 8.0
_MOST_TOOLS = 2_000
_TYPES: tuple[ToolType, ...] = ("action", "data_collection")


class Sends(Protocol):
    """A link, or another object that sends commands to a device."""

    async def send_commands(
        self, commands: Sequence[Command], timeout: float, grounds: Sequence[CommandProof] = ()
    ) -> list[Result]: ...


async def list_tools(
    link: Sends, timeout: float, tool_type: ToolType = "action", with_meta: bool = False
) -> list[ToolInfo]:
    """List all tools of the agent that the link addresses, with a command of `tool_type`.

    A stock device answers only if its agent has tools of that type, but it lists tools of both types.
    `with_meta` includes the listing tools themselves, which AIP omits by default.

    Raises:
        DeviceError: the device did not answer, refused, or answered with something that is not a tool list.
        BadInput, Refused: as `DeviceLink.send_commands`.
    """
    parameters: dict[str, object] = {"tool_type": None, **({"remove_meta": False} if with_meta else {})}
    ask = Command(tool_name="list_tools", tool_type=tool_type, parameters=parameters)
    [result] = await link.send_commands([ask], timeout)
    if result.status is not ResultStatus.SUCCESS:
        raise DeviceError(sentences(f"It would not list its tools: {result.error}"), ErrorCode.PROTOCOL_ERROR)
    # A stock device sends an empty list as null.
    rows = [] if result.result is None else result.result
    if not isinstance(rows, list) or len(rows) > _MOST_TOOLS:
        raise DeviceError("Its list of tools is malformed.", ErrorCode.PROTOCOL_ERROR)
    try:
        return [ToolInfo.model_validate(row) for row in rows]
    except ValidationError as error:
        raise DeviceError(
            sentences(f"A tool in its list is malformed: {first_fault(error)}"), ErrorCode.PROTOCOL_ERROR
        ) from error


async def probe_agents(
    link: DeviceLink,
    candidates: Sequence[str] = STOCK_AGENTS,
    question_s: float = QUESTION_S,
    search_s: float = SEARCH_S,
) -> tuple[str, list[ToolInfo]]:
    """Find the first agent that answers, and its tools of both types; the link addresses it from then on.

    The device gets one request at a time. An agent that it does not have costs twice `question_s` seconds; a
    slow agent is waited for. The time without any answer is at most `search_s` seconds in total.

    Raises:
        DeviceError: no candidate answered (code `protocol_error`), the device is still busy with a request
            (`timeout`), or the link ended.
    """
    addressed, search = link.agent_name, _Search(link, question_s, search_s)
    try:
        for agent in candidates:
            link.agent_name = agent
            tools = await search.tools()
            if tools is not None:
                log.info("agent found", device=link.name, agent=agent, tools=len(tools))
                addressed = agent
                return agent, tools
    finally:
        link.agent_name = addressed
    raise DeviceError(
        f"{link.name} answers for none of the agents {', '.join(candidates)}: "
        "it has no such agent, or the MCP server of that agent is not running there.",
        ErrorCode.PROTOCOL_ERROR,
    )


class _Search:
    """The listing requests to one device; all waits without an answer take at most `search_s` seconds."""

    def __init__(self, link: DeviceLink, question_s: float, search_s: float) -> None:
        self._link = link
        self._question_s = question_s
        self._search_s = self._left = search_s

    async def tools(self) -> list[ToolInfo] | None:
        """The tools of the link's agent; None when it answers neither type."""
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
                # The request has no filter, so one answer lists the tools of both types.
                break
        return list(merged.values()) if answered else None

    def _say_none(self, tool_type: ToolType, why: str) -> None:
        log.info("no tools", device=self._link.name, agent=self._link.agent_name, type=tool_type, why=why)

    async def _hear(self, tool_type: ToolType) -> list[ToolInfo] | None:
        """The device's answer to one listing request; None when it does not answer."""
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
            # The device did answer, but late. The cause (such as the start of an agent) is over; ask again.
            return await list_tools(self._link, max(self._left, self._question_s), tool_type)
        except DeviceError as error:
            if self._is_silence(error):
                raise self._still_at_work() from None
            raise

    async def _wait_until_idle(self) -> None:
        """Wait until the device has finished all earlier requests."""
        others = self._link.waiting
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._link.send_commands([], max(self._left, self._question_s))
        if not others:
            # Time spent in the queue behind other requests does not count as silence of the device.
            self._left -= loop.time() - began

    def _is_silence(self, error: DeviceError) -> bool:
        return error.code is ErrorCode.OUTCOME_UNKNOWN and self._link.is_open

    def _still_at_work(self) -> DeviceError:
        return DeviceError(
            f"{self._link.name} is silent for {self._search_s:g} s: it is still at work, or it hangs.",
            ErrorCode.TIMEOUT,
        )
