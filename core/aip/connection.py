"""WebSocket connections of both ends: opening one, the peer's address, why one closed."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from core.aip.connection_failures import StrangerListens
from core.aip.limits import LinkLimits
from core.aip.measured_connection import SILENT, MeasuredClientConnection
from core.aip.pairing import is_loopback
from core.aip.resolve import tcp_connection
from core.tcp_owners import stranger_at


class _DirectConnect(connect):
    """`connect` that follows no redirect: the token goes only to the address that was checked."""

    def process_redirect(self, exc: Exception) -> Exception:
        """Return the redirect response itself as the error."""
        return exc


async def open_connection(
    url: str,
    limits: LinkLimits,
    timeout: float | None,
    *,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    proxy: str | None = None,
    address: str = "",
    **options: Any,
) -> MeasuredClientConnection:
    """Open a WebSocket connection and follow no redirect.

    `timeout` bounds the whole, in seconds: look-up, TCP, TLS and upgrade; None if the caller bounds it. `tls`
    belongs to `wss://`, and pins the peer's certificate unless authorities are trusted. Without a `proxy` the
    host is looked up here, or the connection goes to `address`. `options` are those of `connect`.

    Raises:
        OSError, UnicodeError, InvalidURI, InvalidHandshake, ConnectionClosed: it cannot be opened; see
            `core.aip.connection_failures.dial_failure`. `StrangerListens` (an OSError): the token was not
            sent, because another user of this computer listens there and no certificate proves the peer.
    """
    parts = urlsplit(url)
    async with asyncio.timeout(timeout):
        if proxy is None:
            port = parts.port or (443 if parts.scheme == "wss" else 80)
            options["sock"] = await tcp_connection(address or parts.hostname or "", port)
        try:
            # Without TLS the peer proves nothing, and the token is in the first request (or in the address).
            if tls is None and proxy is None and (stranger := stranger_at(options["sock"])) is not None:
                raise StrangerListens(f"user {stranger} of this computer listens at port {port}, not you")
            connection = await _DirectConnect(
                url,
                additional_headers={"Authorization": f"Bearer {token}"} if token else None,
                ssl=tls,
                proxy=proxy,
                # On loopback, compression costs more time than it saves.
                compression=None if is_loopback(parts.hostname) else "deflate",
                max_size=limits.max_incoming_bytes,
                open_timeout=None,
                ping_interval=limits.ping_s,
                ping_timeout=limits.pong_s,
                close_timeout=limits.close_s,
                **{"create_connection": MeasuredClientConnection, **options},
            )
            assert isinstance(connection, MeasuredClientConnection)
            return connection
        except BaseException:
            if "sock" in options:
                options["sock"].close()
            raise


def peer_of(connection: Connection) -> str:
    """The address of a connection's peer as `host:port`."""
    return shown_address(connection.remote_address)


def shown_address(address: object) -> str:
    """A socket's address as `host:port`."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "unknown")


def why_closed(closed: ConnectionClosed) -> str:
    """Describe why a connection closed."""
    if closed.rcvd is not None:
        return f"the device closed it ({closed.rcvd.code} {closed.rcvd.reason})".replace(" )", ")")
    if closed.sent is not None and closed.sent.reason.startswith(SILENT):
        return closed.sent.reason
    if closed.sent is not None:
        return f"closed with {closed.sent.code} {closed.sent.reason}".rstrip()
    return "the connection broke"
