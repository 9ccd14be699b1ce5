"""The listener for devices that dial in: one address, with TLS unless it is a loopback address."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from core.address import split_address
from core.aip.connection_failures import ListenFailure, ListenFault, listen_failure
from core.aip.device_link import LinkEvents
from core.aip.limits import LinkLimits
from core.aip.link_server import Authorise, DeviceLinkServer
from core.aip.listener import PATH
from core.aip.pairing import hosts_of, is_loopback, link_url
from core.aip.tls import Identity, load_or_make_identity
from core.backoff import Backoff
from core.errors import BadInput
from core.fleet.models import Listening
from core.log import Logger

log = Logger(__name__)

EVERYWHERE = frozenset({"0.0.0.0", "::"})
# Delays in seconds, first and longest, before an unavailable address is tried again.
TRY_AGAIN_S = (1.0, 30.0)


class ConsoleListener:
    """One listening server, or the reason why it does not listen."""

    def __init__(self, authorise: Authorise, events: LinkEvents, tls: Path, limits: LinkLimits) -> None:
        self._authorise = authorise
        self._events = events
        self._tls = tls
        self._limits = limits
        self._server: DeviceLinkServer | None = None
        self._identity: Identity | None = None
        self._address = ""
        self._problem = "it has not begun to"
        self._taken = False
        self._trying = False
        # `move` and `keep_trying` must not bind at the same time.
        self._binding = asyncio.Lock()

    @property
    def taken(self) -> bool:
        """Whether it fails to listen for a reason that may end: another program has the port, or the
        address's network is not up yet."""
        return self._taken

    @property
    def trying(self) -> bool:
        """Whether `keep_trying` is running."""
        return self._trying

    async def start(self, address: str) -> None:
        """Listen at `host:port`; if that fails, `status` reports why."""
        self._address = address.strip()
        try:
            await self._open(self._address)
            self._problem = ""
        except BadInput as error:
            self._problem = error.message
            log.warning("devices cannot dial in", problem=error.message)

    async def keep_trying(self, on_listening: Callable[[str], None]) -> None:
        """Retry an unavailable address until it is bound, or the listener moves or closes."""
        backoff = Backoff(*TRY_AGAIN_S)
        self._trying = True
        try:
            while self._taken:
                backoff.fail()
                await asyncio.sleep(backoff.wait())
                async with self._binding:
                    if self._taken and await self._tried():
                        on_listening(self._address)
        finally:
            self._trying = False

    async def _tried(self) -> bool:
        try:
            await self._open(self._address)
        except BadInput as error:
            self._problem = error.message
            return False
        self._problem = ""
        return True

    async def move(self, address: str) -> None:
        """Listen at another address.

        Raises:
            BadInput: the address cannot be bound; the previous address is bound again.
        """
        address = address.strip()
        split_address(address)
        async with self._binding:
            await self._move(address)

    async def check(self, address: str) -> None:
        """Check that `host:port` could be bound; changes nothing.

        Raises:
            BadInput: it could not.
        """
        host, port = split_address(address.strip())
        if self._server is not None and port == self._server.port:
            # This server has the port; whether it can be bound on another host shows only after release.
            return
        try:
            look_up = asyncio.get_running_loop().getaddrinfo
            rows = [
                row
                for name in hosts_of(host, port)
                for row in await look_up(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            ]
            for family, kind, protocol, _, sockaddr in rows:
                with socket.socket(family, kind, protocol) as probe:
                    if sys.platform != "win32":
                        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    if family == socket.AF_INET6:
                        probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    probe.bind(sockaddr)
        except (OSError, UnicodeError) as error:
            raise BadInput(_why_not(address.strip(), listen_failure(error))) from error

    async def _move(self, address: str) -> None:
        # Both addresses may use the same port, so the old server must close first.
        previous, problem, taken = self._address, self._problem, self._taken
        await self._close("the console listens elsewhere now")
        try:
            await self._open(address)
        except BadInput:
            self._taken = taken
            if previous and not problem:
                await self.start(previous)
            raise
        self._address, self._problem = address, ""

    async def show(self, identity: Identity, reason: str) -> None:
        """Show another certificate from now on, and end the links.

        Raises:
            BadInput: certificate and key cannot be used together.
        """
        if self._server is not None and self._identity is not None:
            await self._server.show(identity, reason)
            self._identity = identity

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate that devices see; empty without TLS."""
        return self._identity.fingerprint if self._identity is not None else ""

    def status(self, refused: int) -> Listening:
        """The present address and problem; `refused` is passed on."""
        server = self._server
        return Listening(
            address=self._address,
            url=self._url(server) if server is not None else "",
            secure=self._identity is not None,
            fingerprint=self.fingerprint,
            problem=self._problem,
            refused=refused,
        )

    async def close(self) -> None:
        """Stop listening and end the accepted links."""
        self._taken = False
        await self._close("the console ends")

    async def _open(self, address: str) -> None:
        host, port = split_address(address)
        try:
            identity = None if is_loopback(host) else load_or_make_identity(self._tls)
            server = DeviceLinkServer(
                self._authorise,
                self._events,
                host=host,
                port=port,
                limits=self._limits,
                identity=identity,
            )
            await server.start()
        except (OSError, UnicodeError) as error:
            failure = listen_failure(error)
            self._taken = failure.may_end
            raise BadInput(_why_not(address, failure)) from error
        self._server, self._identity, self._taken = server, identity, False
        log.info("devices can dial in", url=server.url)

    async def _close(self, reason: str) -> None:
        server, self._server, self._identity = self._server, None, None
        if server is not None:
            await server.close(reason)

    def _url(self, server: DeviceLinkServer) -> str:
        host, _ = split_address(self._address)
        if host in EVERYWHERE:
            host = socket.gethostname()
        return link_url(host, server.port, PATH, secure=self._identity is not None)


def _why_not(address: str, failure: ListenFailure) -> str:
    """Why an address cannot be bound, and the operator's next step."""
    if failure.fault is ListenFault.IN_USE:
        return f"{address} is taken by another program; end that one, or listen at another port."
    if failure.fault is ListenFault.NOT_PERMITTED:
        return f"{address} may not be used by this user; ports below 1024 are the system's."
    if failure.fault is ListenFault.NOT_LOCAL:
        return f"{address} is not an address of this computer; use one that it has, or 0.0.0.0 for all."
    return f"{address} cannot be listened at: {failure.detail}."
