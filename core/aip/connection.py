"""Helpers for WebSocket connections: dialling without redirects, peer addresses, close reasons."""

from __future__ import annotations

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed


class DirectConnect(connect):
    """`connect` that follows no redirect: only the original address was checked."""

    def process_redirect(self, exc: Exception) -> Exception:
        """Return the redirect response itself as the error."""
        return exc


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
    if closed.sent is not None:
        return f"closed with {closed.sent.code} {closed.sent.reason}".rstrip()
    return "the connection broke"
