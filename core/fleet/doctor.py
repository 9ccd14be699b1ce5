"""The doctor: checks why a device cannot be reached; each check has a finding and the operator's next step.

A device that the console dials is checked in the order in which a link is opened: name, reach, TLS, token,
first frame. After the first check that fails, the others are skipped. Each of these steps is a coroutine over
a `Probe` that returns its finding or raises `CheckFailed`. `Doctor` bounds each step in time and closes the
probe. For a device that dials in, the console can only examine its own listener and the rejected connections.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.frames import CloseCode

from core import __version__
from core.aip.acceptor import AT_TLS
from core.aip.connection import open_connection
from core.aip.connection_failures import MTU_HINT, DialFault, StrangerListens, dial_failure, peer_text
from core.aip.connector import DialAddress
from core.aip.device_link import DeviceLink
from core.aip.limits import LinkLimits
from core.aip.measured_connection import MeasuredClientConnection
from core.aip.messages import read_client_frame
from core.aip.registration import CLAIMS, WRONG_NAME
from core.aip.resolve import Address, addresses_of, first_connection
from core.aip.tls import fingerprint_of, pinned_client_context
from core.aip.transfers import kilobytes
from core.errors import BadInput, DeviceError
from core.fleet.known_devices import KnownDevice, KnownDevices
from core.fleet.models import Check, CheckName, CheckState, Listening, Refusal
from core.fleet.paired_machines import ANOTHER
from core.fleet.rejected_connections import RejectedConnections
from core.models.devices import UNLISTED, Device, Health
from core.text import escape_hidden, sentences, shorten_middle

# The doctor reads the registration and nothing else.
_LIMITS = LinkLimits(close_s=1.0, max_incoming_bytes=LinkLimits().register_bytes)


class CheckFailed(Exception):
    """Raised by a failed check, with the finding and the operator's next step."""

    def __init__(self, finding: str, next_step: str) -> None:
        super().__init__(finding)
        self.finding, self.next_step = finding, next_step


@dataclass(slots=True)
class Probe:
    """The state of the checks on one dialled device, with the connection to it once it is open.

    The device's URL was checked (`DialAddress.check`). `asking` is the connection during the WebSocket
    handshake; `address` is the first of `addresses` that accepts connections.
    """

    known: KnownDevice
    token: str
    host: str = field(init=False)
    port: int = field(init=False)
    secure: bool = field(init=False)
    connection: MeasuredClientConnection | None = None
    asking: MeasuredClientConnection | None = None
    addresses: list[tuple[int, Address]] = field(default_factory=list)
    address: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.known.url)
        self.secure = parts.scheme == "wss"
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.secure else 80)

    def ask(self, *args: Any, **kwargs: Any) -> MeasuredClientConnection:
        """Create the connection for the WebSocket handshake."""
        self.asking = MeasuredClientConnection(*args, **kwargs)
        return self.asking

    @property
    def answered_wrongly(self) -> bool:
        """Whether the far end has sent an invalid answer to the WebSocket handshake."""
        return self.asking is not None and self.asking.protocol.handshake_exc is not None

    @property
    def where(self) -> str:
        """The far end, as `host:port`."""
        return f"{self.host}:{self.port}"

    async def close(self) -> None:
        """Close the connection; to the device, the link ends before its registration is acknowledged."""
        if self.connection is not None:
            await self.connection.close(1000)


async def resolve(probe: Probe) -> str:
    """Resolve the host's addresses."""
    try:
        probe.addresses = await addresses_of(probe.host, probe.port)
    except (OSError, UnicodeError) as error:
        raise CheckFailed(
            f"No address is known for {probe.host} ({dial_failure(error).detail}).",
            "Check the name's spelling and this computer's DNS, or pair with the address in numbers.",
        ) from error
    found = {str(address[0]) for _, address in probe.addresses}
    return f"{probe.host} is {', '.join(sorted(found))}."


async def reach(probe: Probe) -> str:
    """Open and close a TCP connection; the next checks use the address that accepted it first."""
    try:
        accepted = await first_connection(probe.addresses)
    except OSError as error:
        raise _unreachable(probe, error) from error
    with accepted:
        probe.address = str(accepted.getpeername()[0])
    return f"{probe.where} takes connections."


async def check_certificate(probe: Probe) -> str:
    """Compare the far end's certificate with the paired fingerprint."""
    if not probe.secure:
        return "The link stays on this computer and uses no TLS."
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # No verification: nothing is sent here, and the fingerprint is compared below.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        _, writer = await asyncio.open_connection(
            probe.address or probe.host, probe.port, ssl=context, server_hostname=probe.host
        )
    except ssl.SSLError as error:
        raise CheckFailed(
            f"The TLS handshake with {probe.where} failed ({dial_failure(error).detail}).",
            "Something else may listen at this port; see what the device's client prints when it starts.",
        ) from error
    except (OSError, EOFError) as error:
        raise CheckFailed(
            f"{probe.where} ended the TLS handshake ({str(error) or 'without a word'}).",
            "It may speak no TLS at all: see what the device's client prints when it starts, and its log.",
        ) from error
    tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
    fingerprint = fingerprint_of(tls.getpeercert(binary_form=True) or b"")
    version = tls.version()
    await _end(writer)
    if fingerprint != probe.known.fingerprint:
        raise CheckFailed(
            f"It shows the certificate {fingerprint}; paired was {probe.known.fingerprint}.",
            f"If the device was set up again, pair {probe.known.name} again with the string it prints now. "
            "If it was not, another program answers there.",
        )
    return f"{version}, with the certificate that was paired ({fingerprint})."


async def knock(probe: Probe) -> str:
    """Open the WebSocket connection with the token."""
    context = pinned_client_context(probe.known.fingerprint) if probe.secure else None
    try:
        probe.connection = await open_connection(
            probe.known.url,
            _LIMITS,
            None,
            token=probe.token,
            tls=context,
            address=probe.address,
            user_agent_header=None,
            make=probe.ask,
        )
    except InvalidHandshake as error:
        raise _not_let_in(probe, error) from error
    except asyncio.CancelledError:
        # On a timeout, tell a far end that answered wrongly from a silent one.
        if probe.answered_wrongly:
            raise _no_link(probe, "it does not answer as one") from None
        raise
    except StrangerListens as error:
        raise CheckFailed(
            f"The token was not sent: {error}.",
            "Look which program has taken the device's port; it may want to pass for the device.",
        ) from error
    except (OSError, ConnectionClosed) as error:
        raise CheckFailed(
            f"{probe.where} dropped the connection ({str(error) or 'without a word'}).",
            "Look at the log of the device's client.",
        ) from error
    return "Our token is accepted."


async def read_registration_frame(probe: Probe) -> str:
    """Read the registration, which is a device's first frame, without acknowledging it."""
    assert probe.connection is not None
    next_step = "Its client speaks another protocol or version; update the older of the two."
    try:
        hello = read_client_frame(await probe.connection.recv(decode=False))
    except ConnectionClosed as error:
        if error.sent is not None and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
            raise CheckFailed(
                f"What it says first has more than {_LIMITS.register_bytes} bytes.", next_step
            ) from error
        raise CheckFailed("It closed the link before it said who it is.", "Look at its log.") from error
    except DeviceError as error:
        raise CheckFailed(f"What it says first is not AIP: {error.message}", next_step) from error
    if hello.type != "register":
        raise CheckFailed(f"It began with {hello.type} where a registration must come first.", next_step)
    if hello.client_id != probe.known.name:
        raise CheckFailed(
            f"It registers as '{peer_text(hello.client_id or '')}', not as '{probe.known.name}'.",
            "Give it this name there, or pair it here under the name that it has there.",
        )
    ours = (hello.metadata or {}).get("quarterdeck")
    version = peer_text(str(ours.get("version", ""))) if isinstance(ours, dict) else ""
    return f"It registers, as {'quarterdeck-device ' + version if ours else 'a stock UFO client'}."


def _no_link(probe: Probe, why: str) -> CheckFailed:
    return CheckFailed(
        f"{probe.where} is not a device link: {why}",
        "Something else listens at this port; see what the device's client prints when it starts.",
    )


def _unreachable(probe: Probe, error: OSError) -> CheckFailed:
    failure = dial_failure(error)
    if failure.fault is DialFault.NOTHING_LISTENS:
        return CheckFailed(
            f"{probe.where} refuses connections: nothing listens there.",
            "Start the device's client (quarterdeck-device --listen …), and check the port.",
        )
    if failure.fault is DialFault.NO_ROUTE:
        return CheckFailed(
            f"There is no route to {probe.where} ({failure.detail}).",
            "Check this computer's network, the VPN, and whether the device is in the same one.",
        )
    return CheckFailed(f"{probe.where} cannot be reached ({failure.detail}).", "Check the address.")


def _not_let_in(probe: Probe, error: InvalidHandshake) -> CheckFailed:
    failure = dial_failure(error)
    if failure.fault is DialFault.TOKEN:
        return CheckFailed(
            f"It does not accept our token ({failure.detail}).",
            f"Pair {probe.known.name} again with the string that its client prints.",
        )
    if failure.fault is DialFault.OCCUPIED:
        return CheckFailed(
            "Another console is connected to it.",
            "It takes one console at a time: disconnect the other one, or end its service.",
        )
    if failure.fault is DialFault.HTTP_STATUS:
        return CheckFailed(
            f"It answers the request for a link with {failure.detail}.",
            "Something else may listen at this port, or at another path.",
        )
    return _no_link(probe, failure.detail)


async def _end(writer: asyncio.StreamWriter) -> None:
    writer.close()
    # Do not wait for the far end's TLS close_notify; it is not part of the check.
    writer.transport.abort()
    try:
        await writer.wait_closed()
    except (OSError, ssl.SSLError):
        return


CHECK_WITHIN_S = 5.0
CLOCK_MATTERS_MS = 2000.0

_Step = Callable[[Probe], Awaitable[str]]
_STEPS: tuple[tuple[CheckName, _Step], ...] = (
    ("dns", resolve),
    ("reach", reach),
    ("tls", check_certificate),
    ("token", knock),
    ("protocol", read_registration_frame),
)
_TOO_LATE = {
    "dns": ("No name server answered", "Check this computer's DNS, or pair with the address in numbers."),
    "reach": (
        "Nothing answered",
        "The device may be off or behind a firewall that swallows connections; check it from there.",
    ),
    "tls": (
        "The TLS handshake did not end",
        f"Something that is not a device client may listen there. Or: {MTU_HINT}.",
    ),
    "token": (
        "The request for a link was not answered",
        "Its client hangs, or something else listens there.",
    ),
    "protocol": ("It did not say who it is", "Something that is not a device client may listen there."),
}


_ANSWERS = (Health.ONLINE, Health.BUSY, Health.STALE)
# The prefix of the device client's reason for a hosted server that is not ready.
HOSTED = "MCP server:"
_MOST_WORDS = 400


class Doctor:
    """Runs the checks on one console's devices."""

    def __init__(
        self,
        registry: KnownDevices,
        refusals: RejectedConnections,
        listening: Callable[[], Listening],
        within_s: float = CHECK_WITHIN_S,
        other_certificate: Callable[[str], str] = lambda name: "",
        flaps: Callable[[str], str] = lambda name: "",
    ) -> None:
        """`other_certificate` says of a device that it does not accept this console's certificate, `flaps`
        what the recent losses of its links have in common. `within_s` bounds each check.
        """
        self._registry = registry
        self._refusals = refusals
        self._listening = listening
        self._other_certificate = other_certificate
        self._flaps = flaps
        self._within_s = within_s

    async def examine(self, device: Device, link: DeviceLink | None) -> list[Check]:
        """Run every check that applies to this device."""
        checks = await self._checks_of(device, link)
        if flaps := self._flaps(device.name):
            next_step = "See what is between (a firewall, address translation, a VPN, a poor radio link)."
            checks.append(_failed("flapping", f"It was {flaps}.", next_step))
        return checks

    async def _checks_of(self, device: Device, link: DeviceLink | None) -> list[Check]:
        known = self._registry.find(device.name)
        if known is None:
            process = _of_this_computer(device)
            tools = [_tools_of(device)] if process.state is CheckState.PASSED else []
            return [*([await self._ping(link)] if link else []), process, *tools]
        if not known.paired:
            finding = f"{device.name} was revoked at {known.revoked_at}; nothing it shows is accepted."
            return [_failed("pairing", finding, f"Pair it again: quarterdeck pair {device.name}.")]
        if link is not None and link.is_open:
            return [
                await self._ping(link),
                _machine_of(device),
                _protocol_of(link, device),
                *_version_of(link),
                _tools_of(device, link),
                *_clock(device),
            ]
        if known.direction == "out":
            return [*await self._dialled(known), *_held(device)]
        checks = [self._listens(), *self._certificate(known), self._refused(device, known)]
        return [*checks, _heard(device, known, self._listening().url), *_clock(device), *_held(device)]

    async def _ping(self, link: DeviceLink) -> Check:
        started = time.perf_counter()
        before = link.received_bytes
        connected = f"It is connected from {link.peer}"
        try:
            took = await link.ping(self._within_s)
        except DeviceError as error:
            if not (link.is_open and (came := link.received_bytes - before)):
                return _failed(
                    "reach", error.message, "The link hangs: reconnect, or restart its client.", started
                )
            rate = f"{kilobytes(came)} kB in {self._within_s:g} s"
            return _passed("reach", f"{connected} and sends: {rate}, and its answer waits behind.", started)
        under_way = "".join(f"; it {transfer.words}" for transfer in link.transfers)
        return _passed("reach", f"{connected} and answers in {took * 1000:.1f} ms{under_way}.", started)

    async def _dialled(self, known: KnownDevice) -> list[Check]:
        again = f"Pair {known.name} again with the string it prints."
        try:
            # The checks must not send anything to an address that a link would not use.
            DialAddress(known.name, known.url, "", known.fingerprint).check()
        except BadInput as error:
            return [_failed("address", error.message, again)]
        try:
            probe = Probe(known, self._registry.dial_token(known.name))
        except BadInput as error:
            return [_failed("token", error.message, again)]
        checks: list[Check] = []
        try:
            for name, step in _STEPS:
                if checks and checks[-1].state is not CheckState.PASSED:
                    checks.append(_skipped(name))
                else:
                    checks.append(await self._step(name, step, probe))
        finally:
            await probe.close()
        return checks

    async def _step(self, name: CheckName, step: _Step, probe: Probe) -> Check:
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._within_s):
                return _passed(name, await step(probe), started)
        except CheckFailed as failed:
            return _failed(name, failed.finding, failed.next_step, started)
        except TimeoutError:
            finding, next_step = _TOO_LATE[name]
            return _failed(name, f"{finding} within {self._within_s:g} s.", next_step, started)

    def _listens(self) -> Check:
        heard_at = self._listening()
        if heard_at.problem or not heard_at.url:
            next_step = "Free the port, or choose another address: quarterdeck devices listen HOST:PORT."
            return _failed("listening", f"This console does not listen: {heard_at.problem}", next_step)
        how = "with TLS" if heard_at.secure else "without TLS, for this computer only"
        return _passed("listening", f"Devices can dial {heard_at.url}, {how}.")

    def _certificate(self, known: KnownDevice) -> list[Check]:
        """A failed check if the device was paired with another certificate than this console's."""
        why = self._other_certificate(known.name)
        if not why:
            return []
        closed = [one for one in self._refusals.newest() if AT_TLS in one.reason.lower() and not one.name]
        seen = f" {_sentence_of(closed[0])}" if closed else ""
        return [
            _failed(
                "tls",
                f"It was {why}.{seen}",
                f"Pair it again: quarterdeck pair {known.name}, and paste the new line on the device; its "
                "client takes it without a restart. Or put the earlier certificate back (keys/tls in the "
                "home). Next time, renew by quarterdeck devices certificate renew.",
            )
        ]

    def _refused(self, device: Device, known: KnownDevice) -> Check:
        """The last rejected connection in this device's name since it was paired and last heard.

        An attempt without a device name counts as this device's only until the device has been heard since
        pairing. Later it is as likely another program's, and is reported as such.
        """
        since = max(known.paired_at, device.last_heard or "")
        mine = [refusal for refusal in self._refusals.of(known.name) if refusal.at >= since]
        unknown = [refusal for refusal in self._refusals.newest() if not refusal.name and refusal.at >= since]
        if mine:
            return _failed(_kind_of(mine[-1]), _sentence_of(mine[-1]), _advice(mine[-1], known.name))
        if unknown and (device.last_heard or "") < known.paired_at:
            sentence = _sentence_of(unknown[0])
            finding = f"An attempt that names no device was refused, perhaps of this one. {sentence}"
            return _failed(_kind_of(unknown[0]), finding, _advice(unknown[0], known.name))
        if unknown:
            other = f"One that names no device, perhaps of another program: {_sentence_of(unknown[0])}"
            return _passed("refused", f"No attempt in its name was refused since it was last heard. {other}")
        return _passed("refused", "No attempt was refused.")


def _heard(device: Device, known: KnownDevice, url: str) -> Check:
    """When a device that dials in was last heard; `url` is where devices can dial this console now."""
    if device.last_heard is None:
        return _failed(
            "heard",
            "It has not connected since it was paired, as far as the journal is remembered.",
            "Start its client with the string from pairing; quarterdeck-device --check says what it lacks.",
        )
    finding = f"It was last heard at {device.last_heard[:19].replace('T', ' ')} UTC"
    return _failed(
        "heard",
        sentences(f"{finding}: {device.reason}" if device.reason else finding),
        f"See on the device whether its client runs and reaches {url or 'this console'}; it was paired at "
        f"{known.paired_at[:19].replace('T', ' ')} UTC. If this console had another address then, the device "
        f"dials that one still: pair it again (quarterdeck pair {known.name}).",
    )


def _held(device: Device) -> list[Check]:
    """A failed check if another machine shows the same pairing."""
    if device.other_machine is None:
        return []
    finding = (
        f"Two machines use this pairing: {device.machine.words} was paired, and "
        f"{device.other_machine.words} is held."
    )
    return [_failed("machine", finding, _NEXT_FOR_ANOTHER.format(name=device.name))]


def _machine_of(device: Device) -> Check:
    """Whether a connected device is the machine that was paired, as far as its client tells."""
    if held := _held(device):
        return held[0]
    if device.machine.identity:
        return _passed("machine", f"It is the machine that was paired: {device.machine.words}.")
    finding = "Its client does not tell its machine: a copy of it with the same pairing would go unnoticed."
    return Check(name="machine", state=CheckState.SKIPPED, found=finding)


def _tools_of(device: Device, link: DeviceLink | None = None) -> Check:
    """Whether the device's tools are listed; names hosted servers that are not ready, with the reason."""
    if device.health not in _ANSWERS:
        # Before the first list, only the link knows which client it is.
        stock = not (device.features if link is None else isinstance(link.metadata.get("quarterdeck"), dict))
        next_step = (
            "Start the MCP server of its agent on the device, or name another agent: quarterdeck devices set "
            f"{device.name} --agent AGENT. Then: quarterdeck devices reconnect {device.name}."
            if stock
            else "Its tools are asked for again while the link lives. See the log of its client; to ask now: "
            f"quarterdeck devices reconnect {device.name}."
        )
        return _failed("tools", f"{_bounded(device.reason) or 'Its tools are not listed'}.", next_step)
    servers = [row for row in device.unavailable if row.reason.startswith(HOSTED) or row.tool == UNLISTED]
    if servers:
        tools = _bounded("; ".join(f"{row.tool}: {row.reason}" for row in servers))
        fixes = dict.fromkeys(row.how_to_fix for row in servers if row.how_to_fix)
        finding = f"It offers {device.tool_count} tools, but not all: {tools}."
        return _failed("tools", finding, _bounded(". ".join(fixes)) or "See the log of its client.")
    return _passed("tools", f"It offers {device.tool_count} tools.")


def _bounded(words: str) -> str:
    """A device's own text, escaped, shortened and on one line."""
    return shorten_middle(escape_hidden(words, keep_lines=False), _MOST_WORDS)


def _protocol_of(link: DeviceLink, device: Device) -> Check:
    ours = link.metadata.get("quarterdeck")
    if not isinstance(ours, dict):
        # Until an agent has answered, the link addresses its initial agent, which may not exist.
        agent = device.agent or (link.agent_name if device.health in _ANSWERS else "")
        as_whom = f"addressed as {agent}" if agent else "none of whose agents has answered"
        return _passed("protocol", f"A stock UFO client, {as_whom}; no extensions.")
    finding = f"quarterdeck-device {_shown_version(ours)}; this console is {__version__}; agreed: "
    return _passed("protocol", finding + (", ".join(sorted(link.features)) or "nothing beyond AIP"))


def _version_of(link: DeviceLink) -> list[Check]:
    """Whether both ends have the same major and minor version; no check for a stock client."""
    ours = link.metadata.get("quarterdeck")
    if not isinstance(ours, dict):
        return []
    version = _shown_version(ours)
    if version.split(".")[:2] == __version__.split(".")[:2]:
        return [_passed("version", f"Its client is {version}, this console {__version__}.")]
    return [
        _failed(
            "version",
            f"Its client is {version}, this console {__version__}.",
            "Update the older of the two; until then they use only what both know.",
        )
    ]


def _shown_version(ours: dict[str, Any]) -> str:
    """The version that a device claims, escaped and shortened."""
    return escape_hidden(str(ours.get("version", "unknown"))[:40], keep_lines=False)


def _clock(device: Device) -> list[Check]:
    offset = device.clock_offset_ms
    if offset is None:
        return []
    finding = f"Its clock is {abs(offset) / 1000:.1f} s {'ahead' if offset > 0 else 'behind'}."
    if abs(offset) < CLOCK_MATTERS_MS:
        return [_passed("clock", finding)]
    return [_failed("clock", finding, "Set the device's clock (NTP): its times will not fit the journal's.")]


def _of_this_computer(device: Device) -> Check:
    if device.health in (Health.ONLINE, Health.BUSY):
        return _passed("process", "It runs on this computer and answers.")
    return _failed("process", device.reason or "It is not there.", "See device.toml and the service's log.")


def _sentence_of(refusal: Refusal) -> str:
    times = f", {refusal.count} times" if refusal.count > 1 else ""
    when = refusal.at[:19].replace("T", " ")
    return sentences(f"Refused at {when} UTC from {refusal.peer}{times}: {refusal.reason}")


# A word in the reason, the check that it belongs to, and the next step.
_NEXT_FOR_ANOTHER = (
    "If the machine was replaced or renamed, let it in: quarterdeck devices accept {name}. "
    "If it is a copy, pair it under a name of its own."
)
_KINDS: tuple[tuple[str, CheckName, str], ...] = (
    (ANOTHER, "machine", _NEXT_FOR_ANOTHER),
    (
        "already registered",
        "duplicate",
        "Two clients use this name: end one of them, or pair the other under its own name.",
    ),
    # Before "token": the reason for a wrong name also contains that word.
    (WRONG_NAME, "name", "Start its client with --name {name}, the name it was paired under."),
    (
        "token",
        "token",
        "Pair {name} again and paste the new string on the device: what it shows is not accepted.",
    ),
    (
        AT_TLS,
        "tls",
        "Its client may know another certificate of this console than it shows now: its log says so. Then "
        "pair it again: quarterdeck pair {name}.",
    ),
    (
        "did not finish its tls handshake",
        "tls",
        "Its client hangs, or large packets are lost on the way: " + MTU_HINT + ".",
    ),
    ("origin", "browser", "A web page tried to connect; nothing has to be done for {name}."),
    ("tls", "tls", "Its client does not speak TLS as this console does; pair it again with a fresh string."),
    ("register", "protocol", "Its client speaks another protocol or version; update the older of the two."),
)


def _own_reason(refusal: Refusal) -> str:
    """The console's part of the reason, without the client's claimed name, which could contain any word."""
    return refusal.reason.partition(CLAIMS)[0].lower()


def _kind_of(refusal: Refusal) -> CheckName:
    reason = _own_reason(refusal)
    return next((kind for word, kind, _ in _KINDS if word in reason), "refused")


def _advice(refusal: Refusal, name: str) -> str:
    reason = _own_reason(refusal)
    advice = next((step for word, _, step in _KINDS if word in reason), "See the log of its client.")
    return advice.format(name=name)


def _passed(name: CheckName, finding: str, started: float | None = None) -> Check:
    return Check(name=name, state=CheckState.PASSED, found=finding, took_ms=_ms(started))


def _failed(name: CheckName, finding: str, next_step: str, started: float | None = None) -> Check:
    return Check(name=name, state=CheckState.FAILED, found=finding, next=next_step, took_ms=_ms(started))


def _skipped(name: CheckName) -> Check:
    return Check(name=name, state=CheckState.SKIPPED, found="An earlier check failed.")


def _ms(started: float | None) -> float:
    return round((time.perf_counter() - started) * 1000, 1) if started is not None else 0.0
