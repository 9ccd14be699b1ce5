"""A stream of events that comes over the control socket to a `RemoteConsole`.

Long frames are validated in pages, between which the loop runs other tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

from core.errors import ServiceError
from core.service.api.events import Event
from core.service.event_hub import Pending
from core.service.rpc import protocol
from core.tasks import in_turns


class Connection(Protocol):
    """The connection that a stream comes over."""

    @property
    def closed(self) -> asyncio.Event:
        """Set when the connection has ended."""

    def gone(self) -> ServiceError:
        """The error that says why it has ended."""

    def unsubscribe(self, number: int) -> None:
        """End a stream."""


class RemoteEvents(AsyncIterator[Event]):
    """A stream of events over the socket, for one reader. Raises ServiceError when the socket drops."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number
        self._pending = Pending()
        self._closed = False

    async def read(self, value: Any) -> None:
        """Validate the events of a frame and queue them. A reader that lags gets `Missed`.

        Raises:
            ValidationError: an item is not an event; the pages before it are queued.
        """
        if not isinstance(value, list):
            self._offer(value)
            return
        async for page in in_turns(protocol.pages_of(value)):
            self._offer(page)

    def _offer(self, page: Any) -> None:
        for event in protocol.decode_events(page):
            self._pending.add(event)

    def wake(self) -> None:
        """Wake the reader, so that it notices that the socket has dropped."""
        self._pending.ready.set()

    def __aiter__(self) -> RemoteEvents:
        return self

    async def __anext__(self) -> Event:
        while not self._closed:
            if (event := self._pending.pop()) is not None:
                return event
            if self._connection.closed.is_set():
                raise self._connection.gone()
            await self._pending.ready.wait()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the stream; the service stops sending it."""
        if not self._closed:
            self._closed = True
            self._pending.ready.set()
            self._connection.unsubscribe(self._number)
