"""Dials devices that listen and keeps a link to each. The device still sends the first frame.

console ── TLS, certificate checked ──► device
console ── upgrade (token) ───────────► device
console ◄─ register ─────────────────── device     then as in `core.aip.registration`
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidURI

from core.aip.connection import open_connection, peer_of
from core.aip.connection_failures import MTU_HINT, DialFault, dial_failure
from core.aip.device_link import DeviceLink, LinkEvents
from core.aip.limits import LinkLimits
from core.aip.link_events import RefusedAttempt
from core.aip.measured_connection import MeasuredConnection
from core.aip.pairing import check_url
from core.aip.registration import read_registration, reject, serve
from core.aip.tls import pinned_client_context
from core.backoff import Backoff
from core.errors import BadInput, DeviceError, ErrorCode, ErrorInfo, QuarterdeckError, error_from
from core.log import Logger
from core.tasks import TaskGroupOwner, set_within
from core.text import sentences

log = Logger(__name__)

FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
# A link that lasted this many seconds was healthy: after its end the back-off starts again at `FIRST_WAIT`.
WELL_AFTER = 30.0


@dataclass(frozen=True, slots=True)
class DialAddress:
    """A listening device's URL, the console's token, and the SHA-256 of the device's certificate.

    `ws://` is allowed on loopback only; `wss://` needs the fingerprint.
    """

    name: str
    url: str
    token: str = field(repr=False)
    fingerprint: str = ""

    def check(self) -> None:
        """Check that the address can be dialled.

        Raises:
            BadInput: the URL is not allowed, or a `wss://` URL has no fingerprint.
        """
        check_url(self.url)
        if urlsplit(self.url).scheme == "wss" and not self.fingerprint:
            raise BadInput(f"{self.name} is dialled with TLS, so its certificate's fingerprint is needed.")

    @property
    def shown(self) -> str:
        """The URL without its query and user name, which could contain secrets."""
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

    `events.on_connected` receives the link; `on_refused` receives a registration that the console refused.

    Raises:
        BadInput: the address cannot be dialled, or its peer did not register as this device.
        Refused: the device does not accept the token (code `denied_by_device`), or its certificate differs
            from the pinned certificate (code `denied_by_policy`; the token was not sent).
        DeviceError: the device does not answer (`device_offline`, `timeout`), or its answer is not AIP
            (`protocol_error`).
    """
    address.check()
    async with _connected(address, limits) as connection:
        try:
            hello = await read_registration(connection, address.name, limits)
            events.admit(address.name, hello.metadata or {})
        except QuarterdeckError as error:
            events.on_refused(RefusedAttempt(error.message, peer_of(connection), address.name))
            await reject(connection, error)
            raise
        except ConnectionClosed:
            raise DeviceError(f"{address.name} closed the link before it registered.") from None
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
async def _connected(address: DialAddress, limits: LinkLimits) -> AsyncIterator[MeasuredConnection]:
    secure = urlsplit(address.url).scheme == "wss"
    try:
        # Devices are reached without a proxy, which would see the token of an unencrypted link.
        connection = await open_connection(
            address.url,
            limits,
            limits.register_s,
            token=address.token,
            tls=pinned_client_context(address.fingerprint) if secure else None,
            user_agent_header=None,
        )
    except (OSError, UnicodeError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
        raise _why_not(address, error, limits) from error
    try:
        yield connection
    finally:
        await connection.close(1000)


_OFFLINE, _PROTOCOL = ErrorCode.DEVICE_OFFLINE, ErrorCode.PROTOCOL_ERROR
_WORDS = {
    DialFault.UNKNOWN_HOST: (_OFFLINE, "{where} cannot be reached: {detail}"),
    DialFault.INVALID_HOST: (_OFFLINE, "{where} cannot be reached: its address is not one"),
    DialFault.NOTHING_LISTENS: (_OFFLINE, "{where} cannot be reached: {detail}"),
    DialFault.NO_ROUTE: (_OFFLINE, "{where} cannot be reached: {detail}"),
    DialFault.UNREACHABLE: (_OFFLINE, "{where} cannot be reached: {detail}"),
    DialFault.TIMEOUT: (ErrorCode.TIMEOUT, "{where} did not answer within {seconds:g} s"),
    DialFault.LOOKUP_TIMEOUT: (
        ErrorCode.TIMEOUT,
        "{where}: no name server answered within {seconds:g} s (DNS of this computer)",
    ),
    DialFault.TCP_TIMEOUT: (
        ErrorCode.TIMEOUT,
        "{where} did not answer within {seconds:g} s (TCP): it is off, or a firewall is between",
    ),
    DialFault.TLS_TIMEOUT: (ErrorCode.TIMEOUT, "{where}: TLS was not set up within {seconds:g} s. {mtu}"),
    DialFault.UPGRADE_TIMEOUT: (
        ErrorCode.TIMEOUT,
        "{where} is connected, but did not answer the request for a link within {seconds:g} s",
    ),
    DialFault.CUT_OFF: (_PROTOCOL, "{where} closed the connection at once{hint}"),
    DialFault.STRANGER: (
        ErrorCode.DENIED_BY_POLICY,
        "{where}: {detail}; the token was not sent. See what that program is, then pair the device again",
    ),
    DialFault.CERTIFICATE: (ErrorCode.DENIED_BY_POLICY, "{where}: {detail}"),
    DialFault.TLS: (_PROTOCOL, "{where}: the TLS handshake failed: {detail}"),
    DialFault.TOKEN: (ErrorCode.DENIED_BY_DEVICE, "{where} does not accept our token"),
    DialFault.OCCUPIED: (_OFFLINE, "{where}: another console is connected to it"),
    DialFault.HTTP_STATUS: (_PROTOCOL, "{where} answers with {detail}"),
    DialFault.NO_WEBSOCKET: (_PROTOCOL, "{where} is not a device link: {detail}"),
    DialFault.PROXY: (_PROTOCOL, "{where} is not a device link: {detail}"),
    DialFault.CLOSED: (_PROTOCOL, "{where} closed the connection at once"),
}


# Of faults whose code gives another advice.
_NEXT = {
    DialFault.STRANGER: "Stop that program, then pair the device again.",
    DialFault.CERTIFICATE: "If its certificate was changed on purpose, pair the device again; if not, see "
    "who answers there.",
}


def _why_not(address: DialAddress, error: Exception, limits: LinkLimits) -> QuarterdeckError:
    failure = dial_failure(error)
    code, words = _WORDS[failure.fault]
    hint = "; perhaps it does not use TLS" if urlsplit(address.url).scheme == "wss" else ""
    message = words.format(
        where=f"{address.name} at {address.shown}",
        detail=failure.detail,
        seconds=limits.register_s,
        hint=hint,
        mtu=MTU_HINT,
    )
    return error_from(ErrorInfo.of(code, sentences(message), _NEXT.get(failure.fault, "")))


class ConnectorState(StrEnum):
    """The state of a `Connector`."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    WAITING = "waiting"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A change of a `Connector`'s state.

    `attempt` counts from 1 since the last healthy link; `wait_s` is the time to the next attempt in seconds.
    """

    state: ConnectorState
    attempt: int
    reason: str = ""
    wait_s: float = 0.0


class Connector:
    """Keeps a link to one listening device: dials, waits longer after each failure, and dials again."""

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
        """`back_off` is the first and the longest wait in seconds. `on_state` must not block.

        Raises:
            BadInput: the address cannot be dialled.
        """
        address.check()
        self._address = address
        self._events = replace(events, on_connected=self._link_up)
        self._on_connected = events.on_connected
        self._on_state = on_state
        self._agent_name = agent_name
        self._limits = limits
        self._backoff = Backoff(*back_off, healthy_after=WELL_AFTER)
        self._tasks = TaskGroupOwner(f"dial {address.name}")
        self._dial_task: asyncio.Task[tuple[bool, str]] | None = None
        self._retry = asyncio.Event()
        self._stopped = False
        self._link: DeviceLink | None = None
        self._attempt = 0

    @property
    def link(self) -> DeviceLink | None:
        """The present link, or None."""
        return self._link

    def retry_now(self) -> None:
        """End the present wait and dial now. While a link is up, this has no effect."""
        self._retry.set()

    def stop(self) -> None:
        """End `run` and close the present link, if any."""
        self._stopped = True
        self._retry.set()
        if self._dial_task is not None:
            self._dial_task.cancel()

    async def run(self) -> None:
        """Keep the link until `stop`. Failures are reported to `on_state`, never raised."""
        try:
            while not self._stopped:
                self._attempt = self._backoff.failures + 1
                self._retry.clear()
                self._on_state(ConnectorStatus(ConnectorState.CONNECTING, self._attempt))
                self._backoff.begin()
                was_connected, reason = await self._once()
                # A link that ends early counts as a failure: it must not be dialled again without a wait.
                if was_connected and self._backoff.healthy:
                    self._backoff.reset()
                else:
                    self._backoff.fail()
                if not self._stopped:
                    await self._wait(reason)
        finally:
            await self._tasks.close()
            self._on_state(ConnectorStatus(ConnectorState.STOPPED, self._attempt))

    async def _once(self) -> tuple[bool, str]:
        self._dial_task = self._tasks.spawn("one attempt", self._attempt_once())
        try:
            return await self._dial_task
        except asyncio.CancelledError:
            if self._stopped:
                return False, "stopped"
            raise
        finally:
            self._dial_task = None
            self._link = None

    async def _attempt_once(self) -> tuple[bool, str]:
        """Returns whether a link was up, and why the attempt or the link ended."""
        try:
            return True, await dial(
                self._address, self._events, agent_name=self._agent_name, limits=self._limits
            )
        except QuarterdeckError as error:
            return False, error.message
        # A bug in one attempt must not end the dialling of this device.
        except Exception as error:
            log.exception("dialling failed", device=self._address.name)
            return False, f"{self._address.name} cannot be dialled: {type(error).__name__}"

    def _link_up(self, link: DeviceLink) -> None:
        self._link = link
        self._on_state(ConnectorStatus(ConnectorState.CONNECTED, self._attempt))
        self._on_connected(link)

    async def _wait(self, reason: str) -> None:
        seconds = self._backoff.wait()
        self._on_state(ConnectorStatus(ConnectorState.WAITING, self._attempt, reason, seconds))
        log.info("will dial again", device=self._address.name, reason=reason, seconds=round(seconds, 2))
        await set_within(self._retry, seconds)
