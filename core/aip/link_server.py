"""The console's WebSocket server for devices: accepts and registers them, and makes a `DeviceLink` for each.

device ── upgrade (token, no Origin) ──► server    `core.aip.acceptor`
device ── register ────────────────────► server    `core.aip.registration`: role, name; no duplicates here
device ◄─ heartbeat/ok ───────────────── server    before anything else; then on_connected(link)
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import Mapping
from types import MappingProxyType

from websockets.exceptions import ConnectionClosed

from core.aip import registration
from core.aip.acceptor import Authorise, ConnectionGate, HandshakeConnection
from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.frames import acknowledgement
from core.aip.limits import LinkLimits
from core.aip.link_events import RefusedAttempt
from core.aip.listener import PATH, Listener
from core.aip.messages import ClientMessage
from core.aip.pairing import is_loopback, link_url
from core.aip.tls import Identity, server_context, show_identity
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError, Refused
from core.token_bucket import TokenBucket

__all__ = ["Authorise", "DeviceLinkServer", "LinkEvents", "RefusedAttempt", "acknowledgement", "token_table"]

_BACKLOG = 1024
CAME_BACK = "the device came back over another connection"
"""The reason of a link whose loss only the device noticed."""


def token_table(tokens: Mapping[str, str]) -> Authorise:
    """Make an `Authorise` function over tokens by device name; it follows later changes of `tokens`.

    The given token is compared with every known token in constant time, so timing reveals neither which token
    matched nor how much of it was right.
    """

    def authorise(given: str | None) -> str | None:
        digest = _digest(given or "")
        owner: str | None = None
        for name, token in tokens.items():
            if hmac.compare_digest(digest, _digest(token)) and given:
                owner = name
        return owner

    return authorise


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


class DeviceLinkServer:
    """Listens for devices. `links` holds the links of the registered devices, by name."""

    def __init__(
        self,
        authorise: Authorise,
        events: LinkEvents = LinkEvents(),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        path: str = PATH,
        agent_name: str = "LinuxAgent",
        limits: LinkLimits = LinkLimits(),
        identity: Identity | None = None,
    ) -> None:
        """`authorise` returns the name of the device that a token belongs to, or None.

        It may raise `core.aip.acceptor.TokenRefused` for a token that it knows. With an `identity` the server
        accepts TLS only.

        Raises:
            BadInput: the host is not loopback and there is no TLS identity, or the identity cannot be used.
        """
        if identity is None and not is_loopback(host):
            raise BadInput(f"Links from other computers are encrypted; listening on {host} needs TLS.")
        self._identity = identity
        self._events = events
        secure = server_context(identity) if identity is not None else None
        self._gate = ConnectionGate(authorise, path, limits, secure, events.on_refused)
        self._listener = Listener(self._gate, self._serve, host, port, backlog=_BACKLOG)
        self._host = host
        self._path = path
        self._agent_name = agent_name
        self._limits = limits
        self._links: dict[str, DeviceLink] = {}
        # The keys are names that have tokens, so the number of tokens bounds this dictionary.
        self._returns: dict[str, TokenBucket] = {}

    @property
    def links(self) -> Mapping[str, DeviceLink]:
        """The registered links by device name; a live view."""
        return MappingProxyType(self._links)

    @property
    def unregistered(self) -> int:
        """The number of connections that have not registered yet."""
        return self._gate.waiting

    @property
    def port(self) -> int:
        """The port that the server listens on; 0 before `start`."""
        return self._listener.port

    @property
    def url(self) -> str:
        """The address for a device's `--connect`."""
        return link_url(self._host, self.port, self._path, secure=self._identity is not None)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the certificate that devices pin; empty without TLS."""
        return self._identity.fingerprint if self._identity is not None else ""

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            OSError: the address cannot be listened on.
        """
        await self._listener.start()

    async def show(self, identity: Identity, reason: str) -> None:
        """Show another certificate from now on, and end the links, which devices open again by it.

        Raises:
            BadInput: certificate and key cannot be used together; nothing has changed.
        """
        assert self._gate.secure is not None
        # Tried first: a context that refuses a key has its certificate already.
        server_context(identity)
        show_identity(self._gate.secure, identity)
        self._identity = identity
        await asyncio.gather(*(link.close(reason) for link in list(self._links.values())))

    async def close(self, reason: str = "the console ends") -> None:
        """Close every link and stop listening; pending commands fail with an unknown outcome."""

        async def end_links() -> None:
            # In parallel: each unresponsive link takes the whole close timeout.
            await asyncio.gather(*(link.close(reason) for link in list(self._links.values())))

        await self._listener.close(end_links)

    async def _serve(self, connection: HandshakeConnection) -> None:
        owner, peer = connection.owner, connection.pre_tls.peer
        try:
            hello = await registration.read_registration(connection, owner, self._limits)
            self._events.admit(owner, hello.metadata or {})
            link = await self._claim(connection, owner, hello)
        except QuarterdeckError as error:
            self._gate.refused(error.message, peer, owner)
            await registration.reject(connection, error)
            return
        except ConnectionClosed as closed:
            too_large = closed.sent is not None and closed.sent.code == 1009
            why = "its first frame is too large" if too_large else "it closed before it had registered"
            if not connection.pre_tls.aborted:
                self._gate.refused(why, peer, owner)
            return
        self._gate.leave(connection.pre_tls)
        try:
            await registration.serve(link, hello, connection, self._events, self._limits)
        finally:
            if self._links.get(owner) is link:
                del self._links[owner]

    async def _claim(self, connection: HandshakeConnection, name: str, hello: ClientMessage) -> DeviceLink:
        """Register a link under `name`, unless the name has a live link.

        No `await` separates the last check from the assignment, so two connections cannot both take the name.
        """
        limits = self._limits
        returns = self._returns.setdefault(name, TokenBucket(limits.returns_burst, limits.returns_per_s))
        if not returns.spend():
            raise Refused(
                "it comes back too often.",
                ErrorCode.DENIED_BY_POLICY,
                "See why its link ends again and again; it is let in again a while later.",
            )
        while (holder := self._links.get(name)) is not None:
            if holder.is_open and await holder.is_alive(self._limits.takeover_s):
                raise Refused(
                    f"client_id {name!r} is already registered.",
                    ErrorCode.DENIED_BY_POLICY,
                    "End the other client of this name, or pair this one under a name of its own.",
                )
            # The device reconnected before the console noticed that the old connection was dead.
            if self._links.get(name) is holder:
                del self._links[name]
                await holder.close(CAME_BACK)
        if self._gate.closed:
            raise DeviceError("The console ends.", ErrorCode.DEVICE_OFFLINE)
        link = DeviceLink(
            connection,
            name,
            hello.metadata or {},
            agent_name=self._agent_name,
            limits=self._limits,
            events=self._events,
        )
        link.token_sha256 = connection.token_sha256
        self._links[name] = link
        return link
