"""The console's other direction: it dials a device that listens. The device still speaks first.

console ── TLS, certificate checked ──► device
console ── upgrade (token) ───────────► device
console ◄─ register ─────────────────── device     from here on as in `core.aip.registration`
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import urlsplit

import structlog
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from core.aip.connection import DirectConnect, peer_of
from core.aip.device_link import DeviceLink
from core.aip.limits import LinkLimits
from core.aip.link_events import LinkEvents, RefusedAttempt
from core.aip.pairing import check_url, is_loopback
from core.aip.registration import read_registration, reject, serve
from core.aip.resolve import tcp_connection
from core.aip.tls import pinned_client_context
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError, Refused
from core.tasks import TaskGroupOwner
from core.text import escape_hidden

log = structlog.get_logger(__name__)

FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
# A link that lived this long was well; its end starts the waits anew.
WELL_AFTER = 30.0
_MOST_WORDS = 200


@dataclass(frozen=True, slots=True)
class DialAddress:
    """Where a device listens, and what both sides prove: our token, its certificate's SHA-256.

    `ws://` is for this computer only; `wss://` needs the fingerprint.
    """

    name: str
    url: str
    token: str = field(repr=False)
    fingerprint: str = ""

    def check(self) -> None:
        """See that it can be dialled.

        Raises:
            BadInput: it cannot, whatever the device does.
        """
        check_url(self.url)
        if urlsplit(self.url).scheme == "wss" and not self.fingerprint:
            raise BadInput(f"{self.name} is dialled with TLS, so its certificate's fingerprint is needed")

    @property
    def shown(self) -> str:
        """The address without anything that could be secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


async def dial(
    address: DialAddress,
    events: LinkEvents = LinkEvents(),
    *,
    agent_name: str = "LinuxAgent",
    limits: LinkLimits = LinkLimits(),
) -> str:
    """Connect to a device once and serve the link to its end; returns why it ended.

    `events.on_connected` gets the link; `on_refused` gets an attempt that we refused.

    Raises:
        BadInput: the address cannot be dialled, or something else than this device answered there.
        Refused: the device does not accept our token (code `denied_by_device`), or shows another certificate
            than the pinned one (code `denied_by_policy`); our token was not sent then.
        DeviceError: nobody answers (`device_offline`, `timeout`), or not as a device would
            (`protocol_error`).
    """
    address.check()
    async with _connected(address, limits) as connection:
        try:
            hello = await read_registration(connection, address.name, limits)
        except QuarterdeckError as error:
            events.on_refused(RefusedAttempt(error.message, peer_of(connection), address.name))
            await reject(connection, error)
            raise
        except ConnectionClosed:
            raise DeviceError(f"{address.name} closed the link before it registered") from None
        link = DeviceLink(
            connection,
            address.name,
            hello.metadata or {},
            agent_name=agent_name,
            limits=limits,
            events=events,
            direction="out",
        )
        return await serve(link, hello, connection, events, limits)


@contextlib.asynccontextmanager
async def _connected(address: DialAddress, limits: LinkLimits) -> AsyncIterator[ClientConnection]:
    parts = urlsplit(address.url)
    loopback = is_loopback(parts.hostname)
    secure = pinned_client_context(address.fingerprint) if parts.scheme == "wss" else None
    headers = {"Authorization": f"Bearer {address.token}"} if address.token else None
    port = parts.port or (443 if secure else 80)
    try:
        async with asyncio.timeout(limits.register_s):
            sock = await tcp_connection(parts.hostname or "", port)
            try:
                connection = await DirectConnect(
                    address.url,
                    sock=sock,
                    additional_headers=headers,
                    ssl=secure,
                    # A proxy would see the token of an unencrypted link, and a device is reached directly.
                    proxy=None,
                    compression=None if loopback else "deflate",
                    max_size=limits.max_incoming_bytes,
                    open_timeout=None,
                    ping_interval=limits.ping_s,
                    ping_timeout=limits.pong_s,
                    close_timeout=limits.close_s,
                    user_agent_header=None,
                )
            except BaseException:
                sock.close()
                raise
    except (OSError, UnicodeError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
        raise _in_words(address, error, limits) from error
    try:
        yield connection
    finally:
        await connection.close(1000)


def _in_words(address: DialAddress, error: Exception, limits: LinkLimits) -> QuarterdeckError:
    where = f"{address.name} at {address.shown}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refused(f"{where}: {error.args[-1]}", ErrorCode.DENIED_BY_POLICY)
    if isinstance(error, ssl.SSLError):
        why = error.reason or error
        return DeviceError(f"{where} speaks no TLS that we know: {why}", ErrorCode.PROTOCOL_ERROR)
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        if status in {401, 403}:
            return Refused(f"{where} does not accept our token", ErrorCode.DENIED_BY_DEVICE)
        if status == 409:
            return DeviceError(f"{where}: another console is connected to it", ErrorCode.DEVICE_OFFLINE)
        return DeviceError(f"{where} answers with HTTP {status}", ErrorCode.PROTOCOL_ERROR)
    if isinstance(error, InvalidHandshake):
        # Part of it may be the far end's own words.
        why = escape_hidden(str(error)[:_MOST_WORDS], keep_lines=False)
        return DeviceError(f"{where} is no device link: {why}", ErrorCode.PROTOCOL_ERROR)
    if isinstance(error, TimeoutError):
        return DeviceError(f"{where} did not answer within {limits.register_s:g} s", ErrorCode.TIMEOUT)
    if isinstance(error, ConnectionResetError | ConnectionAbortedError):
        hint = "; perhaps it speaks no TLS" if urlsplit(address.url).scheme == "wss" else ""
        return DeviceError(f"{where} closed the connection at once{hint}", ErrorCode.PROTOCOL_ERROR)
    if isinstance(error, OSError):
        return DeviceError(f"{where} cannot be reached: {error.strerror or error}")
    if isinstance(error, UnicodeError | InvalidURI):
        return DeviceError(f"{where} cannot be reached: its address is not one")
    return DeviceError(f"{where} closed the connection at once", ErrorCode.PROTOCOL_ERROR)


class ConnectorState(StrEnum):
    """What a dialler is doing."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    WAITING = "waiting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A dialler's news. `attempt` counts from 1 since the last good link; `wait_s` is until the next one."""

    state: ConnectorState
    attempt: int
    reason: str = ""
    wait_s: float = 0.0


class Connector:
    """Keeps a link to one listening device: dials, waits longer after each failure, dials again."""

    def __init__(
        self,
        address: DialAddress,
        events: LinkEvents,
        on_state: Callable[[ConnectorStatus], None],
        *,
        agent_name: str = "LinuxAgent",
        limits: LinkLimits = LinkLimits(),
        back_off: tuple[float, float] = (FIRST_WAIT, LONGEST_WAIT),
    ) -> None:
        """`back_off`: the first and the longest wait in seconds. `on_state` may not block."""
        address.check()
        self._address = address
        self._events = replace(events, on_connected=self._connected)
        self._tell_connected = events.on_connected
        self._on_state = on_state
        self._agent_name = agent_name
        self._limits = limits
        self._back_off = back_off
        self._tasks = TaskGroupOwner(f"dial {address.name}")
        self._dialling: asyncio.Task[tuple[bool, str]] | None = None
        self._nudged = asyncio.Event()
        self._stopped = False
        self._link: DeviceLink | None = None
        self._attempt = 0

    @property
    def link(self) -> DeviceLink | None:
        """The link, while there is one."""
        return self._link

    def retry_now(self) -> None:
        """Do not wait any longer: dial now. Nothing happens while a link is up."""
        self._nudged.set()

    def stop(self) -> None:
        """End `run`; a link that is up is closed."""
        self._stopped = True
        self._nudged.set()
        if self._dialling is not None:
            self._dialling.cancel()

    async def run(self) -> None:
        """Keep the link until stopped. What goes wrong is told by `on_state`, never raised."""
        loop = asyncio.get_running_loop()
        failures = 0
        try:
            while not self._stopped:
                self._attempt = failures + 1
                self._nudged.clear()
                self._on_state(ConnectorStatus(ConnectorState.CONNECTING, self._attempt))
                began = loop.time()
                was_linked, reason = await self._once()
                # A device that takes us and drops us at once is not dialled at full speed either.
                failures = 0 if was_linked and loop.time() - began > WELL_AFTER else failures + 1
                if not self._stopped:
                    await self._wait(failures, reason)
        finally:
            await self._tasks.close()
            self._on_state(ConnectorStatus(ConnectorState.STOPPED, self._attempt))

    async def _once(self) -> tuple[bool, str]:
        self._dialling = self._tasks.spawn("one attempt", self._attempt_once())
        try:
            return await self._dialling
        except asyncio.CancelledError:
            if self._stopped:
                return False, "stopped"
            raise
        finally:
            self._dialling = None
            self._link = None

    async def _attempt_once(self) -> tuple[bool, str]:
        """Whether there was a link, and how the attempt or the link ended."""
        try:
            return True, await dial(
                self._address, self._events, agent_name=self._agent_name, limits=self._limits
            )
        except QuarterdeckError as error:
            return False, error.message
        # The edge: a fault of ours in one attempt must not be the last attempt.
        except Exception as error:
            log.exception("dialling failed", device=self._address.name)
            return False, f"{self._address.name} cannot be dialled: {type(error).__name__}"

    def _connected(self, link: DeviceLink) -> None:
        self._link = link
        self._on_state(ConnectorStatus(ConnectorState.CONNECTED, self._attempt))
        self._tell_connected(link)

    async def _wait(self, failures: int, reason: str) -> None:
        first, longest = self._back_off
        # Jitter keeps a hundred devices from being dialled in the same instant after a cut.
        seconds = min(longest, first * 2 ** min(max(failures - 1, 0), 16)) * random.uniform(0.5, 1.0)
        self._on_state(ConnectorStatus(ConnectorState.WAITING, self._attempt, reason, seconds))
        log.info("will dial again", device=self._address.name, reason=reason, seconds=round(seconds, 2))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._nudged.wait()
