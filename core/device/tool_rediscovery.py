"""Tools that this machine could not serve at the start: offered as soon as it can.

A device client often starts before the graphical session does, or outlives one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

import structlog

from core.device.tool import Tool, Unavailable

log = structlog.get_logger(__name__)

PAUSE_S = 30.0

Look = Callable[[], tuple[list[Tool], list[Unavailable]]]


class Offers(Protocol):
    """Where tools are offered: the router."""

    unavailable: list[Unavailable]

    def offer(self, tool: Tool) -> bool: ...

    def announce(self) -> None: ...


class LateTools:
    """Looks again for what is missing, until nothing is."""

    def __init__(self, look: Look, missing: Iterable[str]) -> None:
        """`look` blocks, and says what can be served now; `missing` are the tools it could not offer yet."""
        self._look = look
        self.missing = frozenset(missing)

    async def watch(self, router: Offers, pause_s: float = PAUSE_S) -> None:
        """Look every `pause_s` seconds while something is missing."""
        while self.missing:
            await asyncio.sleep(pause_s)
            await self.look_again(router)

    async def look_again(self, router: Offers) -> None:
        """Offer what can be served now and could not be before, and say so."""
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
