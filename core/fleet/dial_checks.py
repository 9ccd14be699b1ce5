"""The way to a device that listens, one step at a time: name, reach, TLS, token, first frame.

Each step is a coroutine over a `Probe` that gives what it found, or raises `CheckFailed` with the next step
for a person. The caller bounds them in time and closes the probe.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ssl
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.frames import CloseCode

from core.aip.connection import DirectConnect
from core.aip.limits import LinkLimits
from core.aip.messages import read_client_frame
from core.aip.resolve import FOR_ONE_OF_SEVERAL_S, addresses_of
from core.aip.tls import fingerprint_of, pinned_client_context
from core.errors import DeviceError
from core.fleet.registry import Known
from core.text import escape_hidden

_MOST_WORDS = 200
_LIMITS = LinkLimits()


class CheckFailed(Exception):
    """A check that failed: what was found, and the next step."""

    def __init__(self, found: str, then: str) -> None:
        super().__init__(found)
        self.found, self.then = found, then


@dataclass(slots=True)
class Probe:
    """What is known of one device that is dialled, and the connection to it once there is one.

    Its URL was checked (`DialAddress.check`). `asking` is the connection while it asks for a link; `address`
    is which of its `addresses` takes connections.
    """

    known: Known
    token: str
    host: str = field(init=False)
    port: int = field(init=False)
    secure: bool = field(init=False)
    connection: ClientConnection | None = None
    asking: ClientConnection | None = None
    addresses: list[str] = field(default_factory=list)
    address: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.known.url)
        self.secure = parts.scheme == "wss"
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.secure else 80)

    def ask(self, *args: Any, **kwargs: Any) -> ClientConnection:
        """Make the connection that asks for a link."""
        self.asking = ClientConnection(*args, **kwargs)
        return self.asking

    @property
    def answered_wrongly(self) -> bool:
        """Whether the far end said something, and it was no answer to the request for a link."""
        return self.asking is not None and self.asking.protocol.handshake_exc is not None

    @property
    def where(self) -> str:
        """The far end as `host:port`."""
        return f"{self.host}:{self.port}"

    async def close(self) -> None:
        """End the connection; the device sees a link that ended before it was acknowledged."""
        if self.connection is not None:
            await self.connection.close(1000)


async def resolve(probe: Probe) -> str:
    """Find the host's addresses."""
    try:
        rows = await addresses_of(probe.host, probe.port)
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise CheckFailed(
            f"No address is known for {probe.host} ({said}).",
            "Check the name's spelling and this computer's DNS, or pair with the address in numbers.",
        ) from error
    probe.addresses = list(dict.fromkeys(str(address[0]) for _, address in rows))
    return f"{probe.host} is {', '.join(sorted(probe.addresses))}."


async def reach(probe: Probe) -> str:
    """Open and close a TCP connection to the first address that takes one; the next checks stay with it."""
    *others, last = probe.addresses or [probe.host]
    for probe.address in others:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(FOR_ONE_OF_SEVERAL_S):
                return await _reached(probe)
    probe.address = last
    try:
        return await _reached(probe)
    except OSError as error:
        raise _unreachable(probe, error) from error


async def _reached(probe: Probe) -> str:
    _, writer = await asyncio.open_connection(probe.address, probe.port)
    await _end(writer)
    return f"{probe.where} takes connections."


async def handshake(probe: Probe) -> str:
    """See which certificate the far end shows."""
    if not probe.secure:
        return "The link stays on this computer and uses no TLS."
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # It is only looked at here: nothing is sent, whoever it is.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection(
            probe.address or probe.host, probe.port, ssl=context, server_hostname=probe.host
        )
    except ssl.SSLError as error:
        raise CheckFailed(
            f"{probe.where} speaks no TLS that we know ({error.reason or error}).",
            "Something else may listen at this port; see what the device's client prints when it starts.",
        ) from error
    except (OSError, EOFError) as error:
        raise CheckFailed(
            f"{probe.where} ended the TLS handshake ({str(error) or 'without a word'}).",
            "It may speak no TLS at all: see what the device's client prints when it starts, and its log.",
        ) from error
    shown: ssl.SSLObject = writer.get_extra_info("ssl_object")
    found = fingerprint_of(shown.getpeercert(binary_form=True) or b"")
    version = shown.version()
    await _end(writer)
    if found != probe.known.fingerprint:
        raise CheckFailed(
            f"It shows the certificate {found}; paired was {probe.known.fingerprint}.",
            f"If the device was set up anew, pair {probe.known.name} again with the string it prints now. "
            "If it was not, somebody else answers there.",
        )
    return f"{version}, with the certificate that was paired ({found})."


async def knock(probe: Probe) -> str:
    """Ask for a link, with the token."""
    context = pinned_client_context(probe.known.fingerprint) if probe.secure else None
    try:
        probe.connection = await DirectConnect(
            probe.known.url,
            host=probe.address or probe.host,
            port=probe.port,
            additional_headers={"Authorization": f"Bearer {probe.token}"},
            ssl=context,
            proxy=None,
            open_timeout=None,
            close_timeout=1,
            user_agent_header=None,
            max_size=_LIMITS.register_bytes,
            # All that asyncio wants of it is a protocol.
            create_connection=cast(Any, probe.ask),
        )
    except InvalidStatus as error:
        raise _not_let_in(probe, error.response.status_code) from error
    except InvalidHandshake as error:
        raise _no_link(probe, shown(str(error))) from error
    except asyncio.CancelledError:
        # Who answers with something else and keeps the connection is told from who says nothing at all.
        if probe.answered_wrongly:
            raise _no_link(probe, "it does not answer as one") from None
        raise
    except (OSError, ConnectionClosed) as error:
        raise CheckFailed(
            f"{probe.where} dropped the connection ({str(error) or 'without a word'}).",
            "Look at the log of the device's client.",
        ) from error
    return "Our token is accepted."


async def first_frame(probe: Probe) -> str:
    """Read the registration, which a device sends first; it is not acknowledged."""
    assert probe.connection is not None
    then = "Its client speaks another protocol or version; update the older of the two."
    try:
        hello = read_client_frame(await probe.connection.recv(decode=False))
    except ConnectionClosed as error:
        if error.sent is not None and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
            raise CheckFailed(
                f"What it says first has more than {_LIMITS.register_bytes} bytes.", then
            ) from error
        raise CheckFailed("It closed the link before it said who it is.", "Look at its log.") from error
    except DeviceError as error:
        raise CheckFailed(f"What it says first is not AIP: {error.message}", then) from error
    if hello.type != "register":
        raise CheckFailed(f"It began with {hello.type} where a registration must come first.", then)
    if hello.client_id != probe.known.name:
        raise CheckFailed(
            f"It registers as '{shown(hello.client_id or '')}', not as '{probe.known.name}'.",
            "Give it this name there, or pair it here under the name that it has there.",
        )
    ours = (hello.metadata or {}).get("quarterdeck")
    version = shown(str(ours.get("version", ""))[:_MOST_WORDS]) if isinstance(ours, dict) else ""
    return f"It registers, as {'quarterdeck-device ' + version if ours else 'a stock UFO client'}."


def shown(words: str) -> str:
    """What a far end says, so that it cannot fill a screen or play tricks on a terminal."""
    return escape_hidden(words[:_MOST_WORDS], keep_lines=False)


def _no_link(probe: Probe, why: str) -> CheckFailed:
    return CheckFailed(
        f"{probe.where} is no device link: {why}",
        "Something else listens at this port; see what the device's client prints when it starts.",
    )


def _unreachable(probe: Probe, error: OSError) -> CheckFailed:
    # Several addresses give one error of many; its text has each.
    codes = {error.errno, *(code for code in _ROUTES if errno.errorcode[code] in str(error))}
    if isinstance(error, ConnectionRefusedError) or errno.ECONNREFUSED in codes or "refused" in str(error):
        return CheckFailed(
            f"{probe.where} refuses connections: nothing listens there.",
            "Start the device's client (quarterdeck-device --listen …), and check the port.",
        )
    if codes & _ROUTES:
        return CheckFailed(
            f"There is no route to {probe.where} ({error.strerror or error}).",
            "Check this computer's network, the VPN, and whether the device is in the same one.",
        )
    return CheckFailed(f"{probe.where} cannot be reached ({error.strerror or error}).", "Check the address.")


_ROUTES = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN})


def _not_let_in(probe: Probe, status: int) -> CheckFailed:
    if status in {401, 403}:
        return CheckFailed(
            f"It does not accept our token (HTTP {status}).",
            f"Pair {probe.known.name} again with the string that its client prints.",
        )
    if status == 409:
        return CheckFailed(
            "Another console is connected to it.",
            "It takes one console at a time: disconnect the other one, or end its service.",
        )
    return CheckFailed(
        f"It answers the request for a link with HTTP {status}.",
        "Something else may listen at this port, or at another path.",
    )


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    # What ends TLS is on its way; whether the far end answers it is not what was asked.
    writer.transport.abort()
    try:
        await writer.wait_closed()
    except (OSError, ssl.SSLError):
        return
