"""Offers tools that this machine could not serve at the client's start, as soon as it can.

A device client often starts before the graphical session, or outlives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from core.device.tool import Tool, Unavailable
from core.log import Logger

log = Logger(__name__)

PAUSE_S = 30.0

Look = Callable[[], tuple[list[Tool], list[Unavailable]]]


class Offers(Protocol):
    """The interface of the router for offering tools."""

    unavailable: list[Unavailable]

    def offer(self, tool: Tool) -> bool: ...

    def announce(self) -> None: ...


class LateTools:
    """Probes for the missing tools again until none is missing."""

    def __init__(self, look: Look, missing: Iterable[str]) -> None:
        """`look` blocks and returns the tools that can be served now; `missing`: those not offered yet."""
        self._look = look
        self.missing = frozenset(missing)

    async def watch(self, router: Offers, pause_s: float = PAUSE_S) -> None:
        """Probe every `pause_s` seconds while tools are missing."""
        while self.missing:
            await asyncio.sleep(pause_s)
            await self.look_again(router)

    async def look_again(self, router: Offers) -> None:
        """Offer the missing tools that can be served now, and announce the change."""
        offered, _ = await asyncio.to_thread(self._look)
        come = [tool for tool in offered if tool.name in self.missing]
        if not come:
            return
        names = {tool.name for tool in come}
        self.missing -= names
        router.unavailable = [row for row in router.unavailable if row.tool not in names]
        offered_now = [tool.name for tool in come if router.offer(tool)]
        if offered_now:
            log.info("tools can be served now", tools=sorted(offered_now))
            router.announce()
