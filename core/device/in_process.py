"""The device's tools inside the console's process, with the features of a link but without a link.

Bytes in results, progress, the load and changes of the offered tools reach the console as they do over AIP,
so that no code above the channel sees a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.aip.binary_frames import PendingBinaryFrames
from core.aip.extensions import (
    FEATURE_BINARY,
    FEATURE_CANCEL,
    FEATURE_METRICS,
    FEATURE_PROGRESS,
    FEATURE_TERMS,
    FEATURE_TOOLS_CHANGED,
    CommandOptions,
    Metrics,
    Progress,
    unpack_blob,
)
from core.aip.limits import LinkLimits
from core.aip.messages import Command, Result, ToolInfo
from core.device.binary_values import BinaryResult
from core.device.metrics import LoadMeter
from core.device.progress import no_progress
from core.device.progress_sender import CallProgress
from core.device.router import Router
from core.device.tool import Unavailable
from core.tasks import TaskGroupOwner

# The features of a device in the console's process, named as in a link's negotiation.
FEATURES = (
    FEATURE_BINARY,
    FEATURE_CANCEL,
    FEATURE_METRICS,
    FEATURE_PROGRESS,
    FEATURE_TERMS,
    FEATURE_TOOLS_CHANGED,
)
# Changes within this time are announced once, as over a link.
_SETTLE_S = 0.1
_FIRST_LOAD_S = 1.0
_LOAD_EVERY_S = 20.0
# Up to this many bytes are hashed on the loop; more in a thread.
_SMALL = 64 * 1024


def _nothing(*_: object) -> None:
    pass


async def _nothing_to_do() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Told:
    """The console's callbacks for events. `on_changed` is awaited: it lists the tools again."""

    on_progress: Callable[[Progress], None] = _nothing
    on_load: Callable[[Metrics], None] = _nothing
    on_changed: Callable[[], Awaitable[None]] = _nothing_to_do


class InProcessDevice:
    """A router behind the interface that the console's local channel uses."""

    def __init__(self, router: Router, told: Told) -> None:
        self._router = router
        self._told = told
        self._tasks = TaskGroupOwner("tools in this process")
        self._announcing: asyncio.Task[None] | None = None
        self._changed = False

    def start(self) -> None:
        """Begin to report changed tools and the load."""
        self._router.on_tools_changed = self._announce_soon
        if self._router.late is not None:
            self._tasks.spawn("late tools", self._router.late.watch(self._router))
        self._tasks.spawn("load", self._measure())

    async def close(self) -> None:
        """Stop the tools and their child processes, and report nothing more."""
        self._router.on_tools_changed = lambda: None
        await self._router.close()
        await self._tasks.close()

    @property
    def unavailable(self) -> list[Unavailable]:
        """The tools that are not offered now, with the reasons."""
        return self._router.unavailable

    def tools(self) -> list[ToolInfo]:
        """All tools that are offered now."""
        return self._router.tools()

    async def run(
        self, command: Command, deadline_s: float, *, terms: CommandOptions | None = None
    ) -> Result:
        """Serve one command within `deadline_s` seconds; bytes are in its result as `data_bytes`."""
        if command.call_id is None or self._router.is_instant(command):
            result = await self._router.run(command, deadline_s, None, no_progress, terms, binary=True)
        else:
            progress = CallProgress(command.call_id, self._tell_progress, self._tasks)
            try:
                result = await self._router.run(command, deadline_s, None, progress, terms, binary=True)
            finally:
                await progress.close()
        if not isinstance(result, BinaryResult):
            return result
        if sum(map(len, result.blobs.values())) > _SMALL:
            return await asyncio.to_thread(_filled, result)
        return _filled(result)

    def cancel(self, call_id: str) -> bool:
        """Stop a running command; False if it does not run or cannot be stopped."""
        return self._router.executor.cancel(call_id)

    async def _tell_progress(self, frame: str) -> bool:
        self._told.on_progress(Progress.model_validate_json(frame))
        return True

    def _announce_soon(self) -> None:
        self._changed = True
        if self._announcing is None or self._announcing.done():
            self._announcing = self._tasks.spawn("tools changed", self._announce())

    async def _announce(self) -> None:
        while self._changed:
            await asyncio.sleep(_SETTLE_S)
            self._changed = False
            await self._told.on_changed()

    async def _measure(self) -> None:
        wait = _FIRST_LOAD_S
        try:
            meter = LoadMeter()
        except OSError:
            # The load cannot be read, as with a restricted /proc.
            return
        while True:
            await asyncio.sleep(wait)
            wait = _LOAD_EVERY_S
            try:
                load = await asyncio.to_thread(meter.read)
            except OSError:
                continue
            self._told.on_load(load)


def _filled(result: BinaryResult) -> Result:
    """A result with its bytes put back in place of the references, as at the end of a link."""
    held = PendingBinaryFrames(LinkLimits())
    for frame in result.blobs.values():
        held.keep(*unpack_blob(frame))
    whole = Result(**result.model_dump(exclude={"result"}), result=result.result)
    held.put_back([whole])
    return whole
