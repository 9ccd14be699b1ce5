"""The service's lifetime: it ends on a signal, at a client's request, or when it is no longer needed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Protocol

from core.errors import QuarterdeckError
from core.service.event_hub import EventHub
from core.service.rpc.server import ControlServer
from core.tasks import TaskGroupOwner

GRACE = 5.0
LOOK_AGAIN = 60.0


class Working(Protocol):
    """The part of a service that its lifetime depends on."""

    on_shutdown_asked: asyncio.Event
    hub: EventHub

    @property
    def busy(self) -> bool:
        """Whether a run is active."""
        ...


async def until_not_needed(service: Working, server: ControlServer, grace: float = GRACE) -> None:
    """Return when no client has been attached for `grace` seconds and no run is active."""
    while True:
        await server.unattended.wait()
        if await _happens(server.attached.wait(), grace):
            continue
        if not service.busy:
            return
        # A run is active: check again at the next event. The timeout is needed because a run's last event can
        # come shortly before the service is idle.
        events = service.hub.subscribe()
        try:
            await _first_of(server.attached.wait(), _one(events), timeout=LOOK_AGAIN)
        finally:
            events.close()


async def until_told_or_not_needed(
    service: Working, server: ControlServer, signalled: asyncio.Event, stay: bool, grace: float = GRACE
) -> str:
    """Wait for the first reason to end; returns it as text."""
    waits: dict[str, Awaitable[Any]] = {
        "a signal": signalled.wait(),
        "a client asked for it": service.on_shutdown_asked.wait(),
    }
    if not stay:
        waits["no client is attached and nothing runs"] = until_not_needed(service, server, grace)
    done = await _first_of(*waits.values(), timeout=None)
    return list(waits)[done] if done is not None else "nothing"


async def _one(events: AsyncIterator[Any]) -> None:
    with contextlib.suppress(StopAsyncIteration, QuarterdeckError):
        await anext(events)


async def _happens(what: Awaitable[Any], timeout: float) -> bool:
    return await _first_of(what, timeout=timeout) is not None


async def _first_of(*whats: Awaitable[Any], timeout: float | None) -> int | None:
    """The index of the first awaitable that ends; the others are cancelled. None if none ends in time."""
    owner = TaskGroupOwner("lifetime")

    async def wait(what: Awaitable[Any]) -> None:
        await what

    tasks = [owner.spawn(f"wait {index}", wait(what)) for index, what in enumerate(whats)]
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return min((tasks.index(task) for task in done), default=None)
    finally:
        await owner.close()
