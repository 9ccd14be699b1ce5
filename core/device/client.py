"""A device that dials its console: connects, registers, serves, and connects again when the link ends."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from websockets.exceptions import InvalidProxy, WebSocketException
from websockets.proxy import get_proxy, parse_proxy
from websockets.uri import parse_uri

from core.aip.connection import open_connection
from core.aip.connection_failures import DialFault, dial_failure
from core.aip.measured_connection import MeasuredConnection
from core.aip.pairing import check_url, is_loopback
from core.aip.tls import pinned_client_context
from core.backoff import Backoff
from core.device.config import DeviceConfig
from core.device.device_session import Session, Timing
from core.device.router import Router
from core.device.runtime import DeviceRuntime
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.tasks import set_within

__all__ = ["DeviceClient", "Ending", "LinkEnd", "Timing"]

log = structlog.get_logger(__name__)


class Ending(IntEnum):
    """Why the client, or an attempt to connect, ended; also the process's exit code."""

    DONE = 0
    LOST = 1
    BAD_INPUT = 2
    REFUSED = 3
    UNKNOWN_HOST = 4
    UNREACHABLE = 5
    UNTRUSTED = 6
    PROTOCOL = 7


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """How and why an attempt ended. `registered`: the console accepted the registration."""

    registered: bool
    ending: Ending
    reason: str = ""


class DeviceClient:
    """One device and its link to one console."""

    def __init__(
        self,
        url: str,
        name: str,
        router: Router,
        config: DeviceConfig,
        token: str | None = None,
        timing: Timing = Timing(),
        *,
        fingerprint: str = "",
        state_dir: Path | None = None,
    ) -> None:
        """`fingerprint`: the SHA-256 of the only accepted certificate; without it, the system's certificate
        authorities are trusted. `state_dir`: where the record of actions is kept over restarts.

        Raises:
            BadInput: the address or the state folder cannot be used.
            DeviceError: the state folder cannot be used now, as when its disk is full.
        """
        check_url(url)
        parts = urlsplit(url)
        if fingerprint and parts.scheme != "wss":
            raise BadInput("A certificate can only be pinned for a wss:// address")
        self._url = url
        # For logs: without user and query, which may hold a token.
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._host = parts.hostname or ""
        self._secure = _trust(fingerprint) if parts.scheme == "wss" else None
        self._token = token
        self._timing = timing
        self._desk = DeviceRuntime(name, router, config, state_dir)
        self._backoff = Backoff(*timing.back_off, healthy_after=timing.good)
        self._stopping = asyncio.Event()
        self._proxied = False
        self.on_registered: Callable[[], None] | None = None

    def stop(self) -> None:
        """End the link and `run`; may be called from a signal handler."""
        self._stopping.set()

    async def run(self, once: bool = False) -> Ending:
        """Keep a link until stopped; with `once`, make a single attempt."""
        stopped = self._desk.tasks.spawn("stop", self._stopping.wait())
        try:
            while not self._stopping.is_set():
                self._backoff.begin()
                link = self._desk.tasks.spawn("link", self._one_link())
                await asyncio.wait({link, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if self._stopping.is_set():
                    break
                end = link.result()
                if end.ending is Ending.REFUSED:
                    log.error("refused for good", console=self._shown, reason=end.reason)
                    return Ending.REFUSED
                if once:
                    return Ending.DONE if end.registered else end.ending
                # A console that registers this device and closes the link at once must not be dialled in a
                # tight loop: only a link that lasted resets the wait.
                if end.registered and self._backoff.healthy:
                    self._backoff.reset()
                else:
                    self._backoff.fail()
                await self._wait()
            return Ending.DONE
        finally:
            await self._desk.close()

    async def _wait(self) -> None:
        seconds = self._backoff.wait()
        log.info("will try again", console=self._shown, seconds=round(seconds, 2))
        await set_within(self._stopping, seconds)

    async def _one_link(self) -> LinkEnd:
        """Connect, register and serve until the link ends."""
        registered = False
        try:
            async with self._connection() as connection:
                session = Session(connection, self._desk, self._timing)
                await session.register()
                registered = True
                log.info(
                    "registered",
                    console=self._shown,
                    name=self._desk.name,
                    features=sorted(session.features),
                )
                if self.on_registered is not None:
                    self.on_registered()
                await session.serve()
                ended = LinkEnd(True, Ending.LOST, "the console closed it")
        except (OSError, WebSocketException, UnicodeError, DeviceError, Refused) as error:
            ending, reason = self._ending_of(error)
            if self._proxied and ending in {Ending.UNREACHABLE, Ending.UNKNOWN_HOST}:
                reason = f"The proxy that the environment names: {reason}"
            ended = LinkEnd(registered, ending, reason)
        if ended.ending is not Ending.REFUSED:
            log.warning("no link", console=self._shown, fault=ended.ending.name.lower(), reason=ended.reason)
        return ended

    def _ending_of(self, error: Exception) -> tuple[Ending, str]:
        """The error's class and a message that tells a person where to look."""
        if isinstance(error, Refused):
            return Ending.REFUSED, error.message
        if isinstance(error, DeviceError):
            protocol = error.code is ErrorCode.PROTOCOL_ERROR
            return (Ending.PROTOCOL if protocol else Ending.LOST), error.message
        failure = dial_failure(error)
        ending, words = _WORDS[failure.fault]
        return ending, words.format(
            detail=failure.detail,
            name="Its name" if self._proxied else f"The name {self._host}",
            host=self._host[:80],
            seconds=self._timing.register,
        )

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[MeasuredConnection]:
        # Never a proxy from the environment for a console on the same machine.
        proxy = None if is_loopback(self._host) else _proxy(self._url)
        self._proxied = proxy is not None
        connection = await open_connection(
            self._url,
            self._timing.link_limits,
            self._timing.register,
            token=self._token,
            tls=self._secure,
            proxy=proxy,
        )
        try:
            yield connection
        finally:
            await connection.close(1001 if self._stopping.is_set() else 1000)


_NO_CONSOLE = "{detail}: something answers there, but no console takes devices"
_WORDS = {
    DialFault.UNKNOWN_HOST: (Ending.UNKNOWN_HOST, "{name} is not known (DNS): {detail}"),
    DialFault.INVALID_HOST: (Ending.UNKNOWN_HOST, "{host} cannot be the name of a host"),
    DialFault.NOTHING_LISTENS: (Ending.UNREACHABLE, "The connection was refused: nothing listens there"),
    DialFault.NO_ROUTE: (Ending.UNREACHABLE, "It cannot be reached: {detail}"),
    DialFault.UNREACHABLE: (Ending.UNREACHABLE, "It cannot be reached: {detail}"),
    DialFault.TIMEOUT: (Ending.UNREACHABLE, "No answer came within {seconds:g} s"),
    DialFault.CUT_OFF: (Ending.UNREACHABLE, "It cannot be reached: {detail}"),
    DialFault.STRANGER: (
        Ending.UNTRUSTED,
        "{detail}; the token was not sent. Run the console as the same user, or let it listen with TLS",
    ),
    DialFault.CERTIFICATE: (Ending.UNTRUSTED, "The certificate is not accepted: {detail}"),
    DialFault.TLS: (Ending.UNTRUSTED, "No encrypted link can be made: {detail}"),
    DialFault.TOKEN: (Ending.REFUSED, "{detail}: the token is not accepted"),
    DialFault.OCCUPIED: (Ending.PROTOCOL, _NO_CONSOLE),
    DialFault.HTTP_STATUS: (Ending.PROTOCOL, _NO_CONSOLE),
    DialFault.NO_WEBSOCKET: (Ending.PROTOCOL, "What answers there speaks no WebSocket: {detail}"),
    DialFault.PROXY: (Ending.UNREACHABLE, "The proxy refuses the connection: {detail}"),
    DialFault.CLOSED: (Ending.LOST, "{detail}"),
}


def _trust(fingerprint: str) -> ssl.SSLContext:
    return pinned_client_context(fingerprint) if fingerprint else ssl.create_default_context()


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for an address.

    Raises:
        OSError: the proxy cannot be used; the message omits its address, which may hold a password.
    """
    uri = parse_uri(url)
    try:
        proxy = get_proxy(uri)
        scheme = "" if proxy is None else parse_proxy(proxy).scheme
    except (InvalidProxy, ValueError):
        raise OSError("the proxy that the environment names has no address that can be used") from None
    if scheme.startswith("socks") and find_spec("python_socks") is None:
        raise OSError("the environment names a SOCKS proxy, which needs the package python-socks")
    return proxy
