"""WebSocket connections of both ends: opening one, the peer's address, why one closed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed

from core.aip.connection_failures import DialStage, StageTimeout, StrangerListens
from core.aip.limits import LinkLimits
from core.aip.measured_connection import SILENT, MeasuredClientConnection
from core.aip.pairing import is_loopback
from core.aip.resolve import addresses_of, first_connection
from core.tcp_owners import stranger_at


class _DirectConnect(connect):
    """`connect` that follows no redirect: the token goes only to the address that was checked."""

    def process_redirect(self, exc: Exception) -> Exception:
        """Return the redirect response itself as the error."""
        return exc


class _Progress:
    """How far the opening of a connection has come; each stage has the same time of its own."""

    def __init__(self, seconds: float | None) -> None:
        """`seconds` bound each stage; None if the caller bounds the whole."""
        self.stage = DialStage.LOOKUP
        self.bound = asyncio.timeout(seconds)
        self._seconds = seconds

    def reached(self, stage: DialStage) -> None:
        """Begin a stage, with its whole time."""
        self.stage = stage
        if self._seconds is not None:
            self.bound.reschedule(asyncio.get_running_loop().time() + self._seconds)


async def open_connection(
    url: str,
    limits: LinkLimits,
    timeout: float | None,
    *,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    proxy: str | None = None,
    address: str = "",
    make: Callable[..., MeasuredClientConnection] = MeasuredClientConnection,
    **options: Any,
) -> MeasuredClientConnection:
    """Open a WebSocket connection and follow no redirect.

    `timeout` bounds each stage, in seconds: look-up, TCP, TLS and upgrade; None if the caller bounds it.
    `tls` belongs to `wss://`, and pins the peer's certificate unless authorities are trusted. Without a
    `proxy` the host is looked up here, or the connection goes to `address`. `make` makes the connection's
    object. `options` are those of `connect`.

    Raises:
        OSError, UnicodeError, InvalidURI, InvalidHandshake, ConnectionClosed: it cannot be opened; see
            `core.aip.connection_failures.dial_failure`. `StrangerListens` (an OSError): the token was not
            sent, because another user of this computer listens there and no certificate proves the peer.
            `StageTimeout` (an OSError): names the stage that took too long.
    """
    parts = urlsplit(url)
    progress = _Progress(timeout)

    def made(*args: Any, **kwargs: Any) -> MeasuredClientConnection:
        connection = make(*args, **kwargs)
        # asyncio tells the protocol of its transport once TLS is set up.
        connection.on_transport = lambda: progress.reached(DialStage.UPGRADE)
        return connection

    try:
        async with progress.bound:
            if proxy is None:
                port = parts.port or (443 if parts.scheme == "wss" else 80)
                addresses = await addresses_of(address or parts.hostname or "", port)
                progress.reached(DialStage.TCP)
                options["sock"] = await first_connection(addresses)
            progress.reached(DialStage.PROXY if proxy is not None else DialStage.TLS)
            try:
                # Without TLS the peer proves nothing, and the token is in the first request (or in the
                # address).
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
                    # asyncio needs a function; websockets asks for a class.
                    create_connection=cast(Any, made),
                    **options,
                )
                assert isinstance(connection, MeasuredClientConnection)
                return connection
            except BaseException:
                if "sock" in options:
                    options["sock"].close()
                raise
    except TimeoutError as error:
        if not progress.bound.expired():
            # The system's own, of TCP.
            raise
        raise StageTimeout(progress.stage, timeout or 0.0) from error


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
