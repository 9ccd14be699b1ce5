"""A device that dials its console: connects, registers, serves, and connects again when the link ends."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import IntEnum
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    InvalidHandshake,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
    ProxyError,
    WebSocketException,
)
from websockets.proxy import get_proxy, parse_proxy
from websockets.uri import parse_uri

from core.aip.pairing import check_url, is_loopback
from core.aip.tls import pinned_client_context
from core.device.config import DeviceConfig
from core.device.device_session import Session, Timing
from core.device.router import Router
from core.device.runtime import DeviceRuntime
from core.errors import BadInput, DeviceError, ErrorCode, Refused

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


class _Connect(connect):
    """A connection that follows no redirect: the token must go only to the address that was paired."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


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
        self._stopping = asyncio.Event()
        self._proxied = False
        self.on_registered: Callable[[], None] | None = None

    def stop(self) -> None:
        """End the link and `run`; may be called from a signal handler."""
        self._stopping.set()

    async def run(self, once: bool = False) -> Ending:
        """Keep a link until stopped; with `once`, make a single attempt."""
        loop = asyncio.get_running_loop()
        attempt = 0
        stopped = self._desk.tasks.spawn("stop", self._stopping.wait())
        try:
            while not self._stopping.is_set():
                began = loop.time()
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
                good = end.registered and loop.time() - began >= self._timing.good
                attempt = 0 if good else attempt + 1
                await self._wait_a_little(max(0, attempt - 1))
            return Ending.DONE
        finally:
            await self._desk.close()

    async def _wait_a_little(self, attempt: int) -> None:
        low, high = self._timing.back_off
        # Random jitter, so that a hundred devices do not connect again at the same moment.
        seconds = min(high, low * 2 ** min(attempt, 16)) * random.uniform(0.5, 1.0)
        log.info("will try again", console=self._shown, seconds=round(seconds, 2))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

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
            ending, reason = self._in_words(error)
            if self._proxied and ending in {Ending.UNREACHABLE, Ending.UNKNOWN_HOST}:
                reason = f"The proxy that the environment names: {reason}"
            ended = LinkEnd(registered, ending, reason)
        if ended.ending is not Ending.REFUSED:
            log.warning("no link", console=self._shown, fault=ended.ending.name.lower(), reason=ended.reason)
        return ended

    def _in_words(self, error: Exception) -> tuple[Ending, str]:
        """The error's class and a message that tells a person where to look."""
        if isinstance(error, Refused):
            return Ending.REFUSED, error.message
        if isinstance(error, InvalidStatus):
            status = error.response.status_code
            if status in {401, 403}:
                return Ending.REFUSED, f"HTTP {status}: the token is not accepted"
            return Ending.PROTOCOL, f"HTTP {status}: something answers there, but no console takes devices"
        if isinstance(error, ProxyError):
            return Ending.UNREACHABLE, f"The proxy refuses the connection: {error}"
        if isinstance(error, InvalidHandshake):
            return Ending.PROTOCOL, f"What answers there speaks no WebSocket: {error}"
        if isinstance(error, DeviceError):
            protocol = error.code is ErrorCode.PROTOCOL_ERROR
            return (Ending.PROTOCOL if protocol else Ending.LOST), error.message
        if isinstance(error, socket.gaierror):
            whose = "Its name" if self._proxied else f"The name {self._host}"
            return Ending.UNKNOWN_HOST, f"{whose} is not known (DNS): {error.strerror}"
        if isinstance(error, UnicodeError | InvalidURI):
            return Ending.UNKNOWN_HOST, f"{self._host[:80]} cannot be the name of a host"
        if isinstance(error, ssl.SSLCertVerificationError):
            return Ending.UNTRUSTED, f"The certificate is not accepted: {_certificate_fault(error)}"
        if isinstance(error, ssl.SSLError):
            return Ending.UNTRUSTED, f"No encrypted link can be made: {error.reason or error}"
        if isinstance(error, ConnectionRefusedError):
            return Ending.UNREACHABLE, "The connection was refused: nothing listens there"
        if isinstance(error, TimeoutError):
            return Ending.UNREACHABLE, f"No answer came within {self._timing.register:g} s"
        if isinstance(error, OSError):
            return Ending.UNREACHABLE, f"It cannot be reached: {error.strerror or error}"
        return Ending.LOST, str(error) or type(error).__name__

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[ClientConnection]:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else None
        loopback = is_loopback(self._host)
        # Never a proxy from the environment for a console on the same machine.
        proxy = None if loopback else _proxy(self._url)
        self._proxied = proxy is not None
        connection = await _Connect(
            self._url,
            additional_headers=headers,
            ssl=self._secure,
            proxy=proxy,
            compression=None if loopback else "deflate",
            max_size=self._timing.max_frame_bytes,
            open_timeout=self._timing.register,
            ping_interval=self._timing.ping,
            ping_timeout=self._timing.ping,
            close_timeout=2.0,
        )
        try:
            yield connection
        finally:
            await connection.close(1001 if self._stopping.is_set() else 1000)


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


def _certificate_fault(error: ssl.SSLCertVerificationError) -> str:
    return str(getattr(error, "verify_message", "") or error.args[-1])
