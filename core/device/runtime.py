"""The device's runtime: the state that outlives a link, that is its tools, running work and results."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

from core.aip.extensions import FEATURE_PROGRESS
from core.device.call_log import CallLog
from core.device.config import DeviceConfig
from core.device.device_store import DeviceStore
from core.device.frame_runner import FrameRunner
from core.device.router import Router
from core.log import Logger
from core.tasks import TaskGroupOwner

log = Logger(__name__)

_LAST_WORDS_S = 2.0


class LinkSender(Protocol):
    """The interface of the present link, over which the runtime sends."""

    features: frozenset[str]

    async def say(self, text: str, *, bulk: bool = False) -> None: ...
    def announce_tools(self) -> None: ...


class DeviceRuntime:
    """The runtime of one device over all its links. Work continues when a link ends."""

    def __init__(
        self, name: str, router: Router, config: DeviceConfig, state_dir: Path | None = None
    ) -> None:
        """`state_dir`: where the record of actions is kept; without it, it is lost when the process ends.

        Raises:
            BadInput: the record cannot be kept there.
            DeviceError: it cannot be kept there now, but perhaps later.
        """
        self.name = name
        self.router = router
        self.deliveries = CallLog(None if state_dir is None else DeviceStore(state_dir))
        self.batches = FrameRunner(router, config.limits, self.deliveries)
        self.tasks = TaskGroupOwner(f"device {name}")
        self._serving: set[asyncio.Task[None]] = set()
        self._link: LinkSender | None = None
        self._watching = False
        router.on_tools_changed = self._tools_changed

    async def begin(self, link: LinkSender) -> None:
        """Use a newly registered link for progress and announcements from now on."""
        self._link = link
        if self.router.late is not None and not self._watching:
            self._watching = True
            self.tasks.spawn("late tools", self.router.late.watch(self.router))
        # A client with the same state folder may have ended; this device answers for its calls now.
        await self.deliveries.adopt()

    def end(self, link: LinkSender) -> None:
        """Stop using a link that has ended."""
        if self._link is link:
            self._link = None

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Serve commands in a task that continues after the end of their link."""
        task = self.tasks.spawn("commands", work)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def tell_progress(self, text: str) -> None:
        """Send a progress frame, if a link with the feature `progress` exists now."""
        link = self._link
        if link is not None and FEATURE_PROGRESS in link.features:
            await link.say(text, bulk=True)

    async def close(self) -> None:
        """Stop all work, wait briefly for its results to be sent, and close the record."""
        await self.router.close()
        if self._serving:
            # Cancelled work still sends its results; on a dead link this fails at once.
            await asyncio.wait(self._serving, timeout=_LAST_WORDS_S)
        await self.tasks.close()
        self.deliveries.close()

    def _tools_changed(self) -> None:
        if self._link is not None:
            self._link.announce_tools()
