"""What a device keeps from one link to the next: its tools, the work at hand and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

import structlog

from core.aip.extensions import FEATURE_PROGRESS
from core.device.call_log import Deliveries
from core.device.config import DeviceConfig
from core.device.executor import BatchRunner
from core.device.ledger import Ledger
from core.device.router import Router
from core.tasks import TaskGroupOwner

log = structlog.get_logger(__name__)

_LAST_WORDS_S = 2.0


class Voice(Protocol):
    """The link there is now."""

    features: frozenset[str]

    async def say(self, text: str) -> None: ...
    def announce_tools(self) -> None: ...


class Desk:
    """One device's commands, over all its links. Work goes on when a link ends."""

    def __init__(
        self, name: str, router: Router, config: DeviceConfig, state_dir: Path | None = None
    ) -> None:
        """`state_dir`: where the record of actions is kept; without it, it ends with the process.

        Raises:
            BadInput: the record cannot be kept there.
            DeviceError: not now, but later it may.
        """
        self.name = name
        self.router = router
        self.deliveries = Deliveries(None if state_dir is None else Ledger(state_dir / "calls"))
        self.batches = BatchRunner(router, config.limits, self.deliveries)
        self.tasks = TaskGroupOwner(f"device {name}")
        self._serving: set[asyncio.Task[None]] = set()
        self._link: Voice | None = None
        self._watching = False
        router.on_tools_changed = self._tools_changed

    def begin(self, link: Voice) -> None:
        """A link has registered; what is said unasked goes over it from now on."""
        self._link = link
        if self.router.late is not None and not self._watching:
            self._watching = True
            self.tasks.spawn("late tools", self.router.late.watch(self.router))
        # A client that shared our state folder may have ended and left work for us to answer for.
        self.deliveries.adopt()

    def end(self, link: Voice) -> None:
        """A link has ended."""
        if self._link is link:
            self._link = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Serve commands beside whatever else goes on, also past the end of the link they came over."""
        task = self.tasks.spawn("commands", work)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def tell_progress(self, text: str) -> None:
        """Say how far a call is, where somebody wants to know now."""
        link = self._link
        if link is not None and FEATURE_PROGRESS in link.features:
            await link.say(text)

    async def close(self) -> None:
        """Stop the work, let it give its answers, and end."""
        await self.router.close()
        if self._serving:
            # What was just cancelled still has its answer to give; a dead link gives up at once.
            await asyncio.wait(self._serving, timeout=_LAST_WORDS_S)
        await self.tasks.close()
        self.deliveries.close()

    def _tools_changed(self) -> None:
        if self._link is not None:
            self._link.announce_tools()
