"""A device that dials its console: connects, registers, serves, and connects again when the link ends."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import InvalidProxy, WebSocketException
from websockets.proxy import get_proxy, parse_proxy
from websockets.uri import parse_uri

from core.aip.connection import open_connection
from core.aip.connection_failures import MTU_HINT, DialFault, dial_failure
from core.aip.measured_connection import MeasuredConnection
from core.aip.pairing import check_url, is_loopback
from core.aip.tls import OtherCertificate, fingerprint_of, pinned_client_context
from core.backoff import Backoff
from core.device.config import DeviceConfig
from core.device.console_pins import ConsolePins
from core.device.device_session import Session, Timing
from core.device.ending import Ending
from core.device.router import Router
from core.device.runtime import DeviceRuntime
from core.errors import BadInput, DeviceError, ErrorCode, Refused
from core.log import Logger
from core.tasks import set_within

__all__ = ["DeviceClient", "Ending", "LinkEnd", "Timing"]

log = Logger(__name__)


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
        pins: ConsolePins | None = None,
    ) -> None:
        """`fingerprint`: the SHA-256 of the only accepted certificate; without it, the system's certificate
        authorities are trusted. `state_dir`: where the record of actions is kept over restarts. `pins`: the
        saved pairing, which replaces address, token and certificate at each attempt, when it was saved again.

        Raises:
            BadInput: the address or the state folder cannot be used.
            DeviceError: the state folder cannot be used now, as when its disk is full.
        """
        self._aim(url, token, (fingerprint,) if fingerprint else ())
        self._timing = timing
        self._pins = pins
        self._pairing = pins.pairing() if pins is not None else None
        self._desk = DeviceRuntime(name, router, config, state_dir)
        self._backoff = Backoff(*timing.back_off, healthy_after=timing.good)
        self._stopping = asyncio.Event()
        self._proxied = False
        self.on_registered: Callable[[], None] | None = None

    def _aim(self, url: str, token: str | None, fingerprints: tuple[str, ...]) -> None:
        """Dial this address from now on.

        Raises:
            BadInput: it cannot be used.
        """
        check_url(url)
        parts = urlsplit(url)
        if fingerprints and parts.scheme != "wss":
            raise BadInput("A certificate can only be pinned for a wss:// address.")
        self._secure = _trust(fingerprints) if parts.scheme == "wss" else None
        self._url, self._token, self._fingerprints = url, token, fingerprints
        # For logs: without user and query, which may hold a token.
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._host = parts.hostname or ""

    def _read_pairing(self) -> bool:
        """Take over what was paired since the last attempt; False if this client cannot.

        A pairing of another name needs another router, and without any there is nothing to dial.
        """
        if self._pins is None or self._pairing is None:
            return True
        try:
            pairing = self._pins.pairing()
            if pairing is None or pairing.name != self._pairing.name:
                return False
            if pairing != self._pairing:
                self._backoff.reset()
            self._aim(pairing.url, pairing.token, self._pins.fingerprints(pairing))
            self._pairing = pairing
        except BadInput as error:
            log.warning("the saved pairing cannot be read; the earlier one is used", reason=error.message)
        return True

    def stop(self) -> None:
        """End the link and `run`; may be called from a signal handler."""
        self._stopping.set()

    async def run(self, once: bool = False) -> Ending:
        """Keep a link until stopped; with `once`, make a single attempt."""
        stopped = self._desk.tasks.spawn("stop", self._stopping.wait())
        try:
            while not self._stopping.is_set():
                if not self._read_pairing():
                    return Ending.PAIRED_ANEW
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
                session = Session(connection, self._desk, self._timing, self._pin_taker(connection))
                await session.register()
                registered = True
                self._certificate_used(connection)
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

    def _pin_taker(self, connection: MeasuredConnection) -> Callable[[Mapping[str, Any]], None] | None:
        """The receiver of the console's next certificate, on a link that pins the present one."""
        pins, pairing, seen = self._pins, self._pairing, _fingerprint_seen(connection)
        if pins is None or pairing is None or not self._fingerprints or not seen:
            return None
        # Read at the call: the pin may have been renewed over this very link.
        return lambda parameters: pins.take(parameters, self._pairing or pairing, seen)

    def _certificate_used(self, connection: MeasuredConnection) -> None:
        if self._pins is None or self._pairing is None or not self._fingerprints:
            return
        try:
            self._pairing = self._pins.used(self._pairing, _fingerprint_seen(connection))
        except BadInput as error:
            log.warning("the console's earlier certificate could not be dropped", reason=error.message)

    def _ending_of(self, error: Exception) -> tuple[Ending, str]:
        """The error's class and a message that tells a person where to look."""
        if isinstance(error, Refused):
            return Ending.REFUSED, error.message
        if isinstance(error, DeviceError):
            protocol = error.code is ErrorCode.PROTOCOL_ERROR
            return (Ending.PROTOCOL if protocol else Ending.LOST), error.message
        if isinstance(error, OtherCertificate) and self._fingerprints:
            paired = " or ".join(_short(fingerprint) for fingerprint in self._fingerprints)
            return Ending.UNTRUSTED, (
                f"This device is paired with the certificate {paired}, and what answers there shows "
                f"{_short(error.fingerprint)}. If the console's certificate was changed, pair this device "
                f"again: quarterdeck pair {self._desk.name} there, quarterdeck-device --pair - here"
            )
        failure = dial_failure(error)
        ending, words = _WORDS[failure.fault]
        return ending, words.format(
            detail=failure.detail,
            name="Its name" if self._proxied else f"The name {self._host}",
            host=self._host[:80],
            seconds=self._timing.connect,
            mtu=MTU_HINT,
        )

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[MeasuredConnection]:
        # Never a proxy from the environment for a console on the same machine.
        proxy = None if is_loopback(self._host) else _proxy(self._url)
        self._proxied = proxy is not None
        connection = await open_connection(
            self._url,
            self._timing.link_limits,
            self._timing.connect,
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
    DialFault.LOOKUP_TIMEOUT: (
        Ending.UNKNOWN_HOST,
        "{name} was looked up, and no name server answered within {seconds:g} s (DNS of this machine)",
    ),
    DialFault.TCP_TIMEOUT: (
        Ending.UNREACHABLE,
        "No address of {host} answered within {seconds:g} s (TCP): the console is off, or a firewall is "
        "between",
    ),
    DialFault.TLS_TIMEOUT: (Ending.UNREACHABLE, "TLS was not set up within {seconds:g} s. {mtu}"),
    DialFault.UPGRADE_TIMEOUT: (
        Ending.UNREACHABLE,
        "It is connected, but the request for a link was not answered within {seconds:g} s: the console "
        "hangs, or something else listens there",
    ),
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


def _trust(fingerprints: tuple[str, ...]) -> ssl.SSLContext:
    return pinned_client_context(*fingerprints) if fingerprints else ssl.create_default_context()


def _fingerprint_seen(connection: MeasuredConnection) -> str:
    """The SHA-256 of the certificate that the console showed; empty without TLS."""
    tls = connection.transport.get_extra_info("ssl_object")
    return fingerprint_of(tls.getpeercert(True) or b"") if tls is not None else ""


def _short(fingerprint: str) -> str:
    return f"{fingerprint[:8]}…"


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
