"""The services that the tools of one device share."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from core.device.config import DeviceConfig
from core.device.desktop import Desktop, local_desktop
from core.device.device_store import DeviceStore
from core.device.guard import Guard
from core.device.observations import ObservationStore
from core.device.processes.child_process import Children
from core.device.undo import UndoStore

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The services that all tools of one device share."""

    device: str
    config: DeviceConfig
    guard: Guard
    undo: UndoStore
    observations: ObservationStore
    threads: concurrent.futures.Executor
    children: Children
    store: DeviceStore
    desktop: Desktop = field(default_factory=local_desktop)

    async def in_thread(self, work: Callable[..., Answer], *arguments: Any) -> Answer:
        """Run blocking work in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments)

    @property
    def first_root(self) -> Path:
        """The folder in which a shell starts when no working directory is given."""
        return self.config.roots[0]
