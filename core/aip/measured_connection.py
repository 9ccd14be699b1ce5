"""WebSocket connections that count their bytes, and are alive as long as bytes arrive.

The keepalive of the `websockets` library accepts nothing but a pong as a sign of life. On a slow line the
pong waits behind a large frame, so that a transfer of more than 20 to 40 s would end a link that works.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from core.tasks import set_within

SILENT = "nothing was heard for "


class MeasuredConnection(Connection):
    """A connection that counts bytes of both directions, and whose keepalive accepts any byte as an answer.

    `received_bytes` and `sent_bytes` are those on the wire, without TLS; what was sent may still wait in this
    computer. `last_heard` is when bytes arrived last, by the system clock. `on_received` is called after
    bytes arrived.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.received_bytes = 0
        self.sent_bytes = 0
        self.last_heard = datetime.now(UTC)
        self.on_received: Callable[[], None] | None = None
        self._heard = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self.last_heard = datetime.now(UTC)
        self._heard.set()
        super().data_received(data)
        if self.on_received is not None:
            self.on_received()

    def send_data(self) -> None:
        self.sent_bytes += sum(map(len, self.protocol.writes))
        super().send_data()

    async def heard_within(self, seconds: float) -> bool:
        """Wait until bytes arrive, at most `seconds`; returns whether any did."""
        before = self.received_bytes
        self._heard.clear()
        await set_within(self._heard, seconds)
        return self.received_bytes != before

    async def keepalive(self) -> None:
        """Send a ping every `ping_interval`; close the connection if `ping_timeout` passes without a byte.

        Replaces the method of the library, which starts it after the handshake.
        """
        interval, patience = self.ping_interval, self.ping_timeout
        assert interval is not None
        assert patience is not None
        pong: Awaitable[float] | None = None
        with contextlib.suppress(ConnectionClosed):
            while True:
                await asyncio.sleep(interval)
                heard = self.received_bytes
                if not isinstance(pong, asyncio.Future) or pong.done():
                    # Sending waits while the buffer is full, as it is on a line that is cut.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(patience):
                            pong = await self.ping()
                if self.received_bytes == heard and not await self.heard_within(patience):
                    await self._end_silent(interval + patience)
                    return

    async def _end_silent(self, seconds: float) -> None:
        self.protocol.fail(CloseCode.INTERNAL_ERROR, f"{SILENT}{seconds:g} s")
        # The peer may still hear, when only the direction from it is cut.
        self.send_data()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.close_timeout):
                await asyncio.shield(self.connection_lost_waiter)
        self.transport.abort()


class MeasuredClientConnection(MeasuredConnection, ClientConnection):
    """The connection of the side that dialled. `on_transport` is called when TLS, if any, is set up."""

    on_transport: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.on_transport is not None:
            self.on_transport()
