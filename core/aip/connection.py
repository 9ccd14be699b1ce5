"""Who is at the far end of a connection, and why it ended."""

from __future__ import annotations

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed


class DirectConnect(connect):
    """`connect` that never goes where the far end sends it: the address was checked, another one is not."""

    def process_redirect(self, exc: Exception) -> Exception:
        """No redirect is followed; the answer itself is what went wrong."""
        return exc


def peer_of(connection: Connection) -> str:
    """A connection's far address as `host:port`."""
    return shown_address(connection.remote_address)


def shown_address(address: object) -> str:
    """A socket's address as `host:port`."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address or "unknown")


def why_closed(closed: ConnectionClosed) -> str:
    """Why a connection closed, in words."""
    if closed.rcvd is not None:
        return f"the device closed it ({closed.rcvd.code} {closed.rcvd.reason})".replace(" )", ")")
    if closed.sent is not None:
        return f"closed with {closed.sent.code} {closed.sent.reason}".rstrip()
    return "the connection broke"
