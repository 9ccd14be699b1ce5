"""No fake: a real service on a test's home, and what tests wait for and do with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from core.approvals.models import Approval
from core.approvals.operator_keys import OperatorKey, statement_for
from core.home import Home
from core.models.devices import Health
from core.service.console import ApprovalChanged, Console, DeviceChanged
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.patience import PATIENCE_S


def choose_channel(home: Home, channel: str) -> None:
    """Write which way this computer is reached: `process` or `in-process`."""
    (home.path / "settings.toml").write_text(f'this_computer = "{channel}"\n')


@asynccontextmanager
async def open_service(home: Home) -> AsyncIterator[Service]:
    """The service of a home with this computer online; ended in order afterwards."""
    service = await Service.open(home)
    try:
        await online(service)
        yield service
    finally:
        await service.close()


async def online(service: Service, health: Health = Health.ONLINE) -> None:
    """Wait until this computer has that health."""
    console = LocalConsole(service, "operator:test")
    async with asyncio.timeout(PATIENCE_S):
        events = console.events()
        if (await console.service.state()).devices[0].health is health:
            return
        async for event in events:
            if isinstance(event, DeviceChanged) and event.device.health is health:
                return


async def next_approval(console: Console) -> Approval:
    """The request for approval that waits, or the next one that comes."""
    async with asyncio.timeout(PATIENCE_S):
        events = console.events()
        if waiting := await console.approvals.list():
            return waiting[0]
        async for event in events:
            if isinstance(event, ApprovalChanged):
                return event.approval
    raise AssertionError("no request for approval came")


async def approve(console: Console, approval: Approval, key: OperatorKey) -> Approval:
    """Sign and send an approval."""
    return await console.approvals.decide(key.sign(statement_for(approval, "approve", key.name, "")))


async def deny(console: Console, approval: Approval, key: OperatorKey, reason: str) -> Approval:
    """Sign and send a denial."""
    return await console.approvals.decide(key.sign(statement_for(approval, "deny", key.name, reason)))


class Whistle:
    """A named pipe that another process writes to when it has come to a point: something to await."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        # Opened for both, so that no writer ever waits for us and we never see an end of file.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    async def blown(self) -> None:
        """Wait until somebody has written to it."""
        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._descriptor, heard.set)
        try:
            await asyncio.wait_for(heard.wait(), PATIENCE_S)
        finally:
            loop.remove_reader(self._descriptor)
        os.read(self._descriptor, 65536)

    def close(self) -> None:
        """Give the pipe back."""
        os.close(self._descriptor)
