"""This console's certificates: which one devices see, the next one, and which devices accept which.

An operator signs the next certificate. It is then announced to each connected device over the link that the
present certificate authenticates, and to others when they connect. Once the devices have it, an operator
switches: the console shows it from then on, and devices drop the earlier pin (`core.device.console_pins`).

The journal has what was signed, what was taken and which certificate is shown. The files of the next
certificate are in a folder of its fingerprint beside the present one's until the switch is complete.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from core.aip.device_link import DeviceLink
from core.aip.extensions import FEATURE_NEXT_PIN, NextPin
from core.aip.tls import (
    Identity,
    NewIdentity,
    fingerprint_in,
    load_or_make_identity,
    make_identity,
    read_identity,
    valid_until,
    write_identity,
)
from core.audit.entries import Entry, NewEntry
from core.audit.events import CertificateTaken
from core.changes import Change
from core.errors import BadInput, DeviceError
from core.fleet.known_devices import KnownDevice, KnownDevices
from core.fleet.models import Certificates, DeviceCertificates
from core.log import Logger
from core.text import escape_hidden, plural, shorten_middle, some_names

log = Logger(__name__)

_MOST_OFFERED = 8
# How many devices are told at a time: each has `cancel_s` seconds for its answer.
_TOLD_AT_ONCE = 200
_LONGEST_REASON = 200
_NOT_TOLD = "not told yet; it is when it connects"
_CANNOT = "its client takes no certificate over its link"


@dataclass(slots=True)
class CertificateRecord:
    """The certificates in the journal: the signed next one, which was shown last, and who accepts which.

    `accepted` has, by device, the time of its pairing and the certificates that it accepts, the oldest first.
    """

    next: NextPin | None = None
    shown: str = ""
    accepted: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def made(self, entry: Entry, change: Change) -> None:
        """Take over the signed next certificate of an entry."""
        self.next = NextPin(
            before=change.before["certificate_sha256"],
            fingerprint=change.after["certificate_sha256"],
            number=entry.seq,
            approval=entry.body["signed"],
        )

    def switched(self, fingerprint: str) -> None:
        """Note that the console shows this certificate from now on."""
        self.shown = fingerprint
        if self.next is not None and self.next.fingerprint == fingerprint:
            self.next = None

    def of(self, known: KnownDevice) -> tuple[str, ...]:
        """The certificates that a device accepts; none where that is not known."""
        paired_at, accepted = self.accepted.get(known.name, ("", ()))
        if paired_at == known.paired_at:
            return accepted
        return (known.certificate_sha256,) if known.certificate_sha256 else ()

    def taken(self, known: KnownDevice, fingerprint: str, *, used: bool) -> bool:
        """Note that a device accepts a certificate, or has connected by it; False if that was known."""
        before = self.of(known)
        if used:
            # A device drops the pins that are older than the one it uses.
            after = before[before.index(fingerprint) :] if fingerprint in before else (fingerprint,)
        else:
            after = before if fingerprint in before else (*before[:1], fingerprint)
        self.accepted[known.name] = known.paired_at, after
        return after != before


class ConsoleCertificates:
    """The certificates of one console that listens."""

    def __init__(
        self,
        folder: Path,
        record: CertificateRecord,
        registry: KnownDevices,
        write: Callable[[list[NewEntry]], None],
        present: Callable[[], str],
    ) -> None:
        """`write` journals entries as soon as it can; `present` returns the certificate shown now, if any."""
        self._folder = folder
        self._record = record
        self._registry = registry
        self._write = write
        self._present = present
        self._offered: dict[str, NewIdentity] = {}
        # Why a device has not taken the next certificate.
        self._refusals: dict[str, str] = {}

    @property
    def present(self) -> str:
        """The SHA-256 of the certificate that devices see now; empty if the console listens without TLS."""
        return self._present()

    def offer(self) -> str:
        """Make a certificate that may become the next one; returns its SHA-256, which an operator signs."""
        identity = make_identity()
        self._offered[identity.fingerprint] = identity
        while len(self._offered) > _MOST_OFFERED:
            self._offered.pop(next(iter(self._offered)))
        return identity.fingerprint

    def take_offered(self, fingerprint: str) -> NewIdentity:
        """Take the certificate that was offered, once; if there is none, a new one that no signature fits."""
        return self._offered.pop(fingerprint, None) or make_identity()

    def keep(self, identity: NewIdentity) -> None:
        """Write a next certificate to the disk, before the journal has it.

        Raises:
            BadInput: it cannot be written.
        """
        folder = self._folder_of(identity.fingerprint)
        try:
            write_identity(folder, identity)
        except OSError as error:
            raise BadInput(f"{folder} cannot be written: {error.strerror}.") from error

    def made(self, entry: Entry, change: Change) -> None:
        """Use the next certificate of this entry, which has an operator's signature."""
        self._record.made(entry, change)
        self._refusals.clear()

    def pending(self) -> NextPin | None:
        """The next certificate, if one is signed, follows the present one, and its files are there."""
        pin = self._record.next
        if pin is None or pin.before != self.present:
            return None
        try:
            identity = read_identity(self._folder_of(pin.fingerprint))
            return pin if fingerprint_in(identity.certificate) == pin.fingerprint else None
        except (OSError, ValueError):
            return None

    def connected(self, link: DeviceLink, known: KnownDevice) -> None:
        """Note that a device has connected by the present certificate."""
        if link.direction != "in" or not link.secure or not self.present:
            return
        if self._record.taken(known, self.present, used=True):
            self._note(known, self.present, used=True)

    async def announce(self, links: Iterable[DeviceLink]) -> None:
        """Announce the next certificate to those of these devices that have not taken it yet."""
        pin = self.pending()
        if pin is None:
            return
        room = asyncio.Semaphore(_TOLD_AT_ONCE)

        async def tell(link: DeviceLink) -> None:
            async with room:
                await self._tell(link, pin)

        waiting = [
            link for link in links if link.direction == "in" and link.secure and self._lacks(link, pin)
        ]
        await asyncio.gather(*map(tell, waiting))

    def _lacks(self, link: DeviceLink, pin: NextPin) -> bool:
        known = self._registry.find(link.name)
        return known is not None and pin.fingerprint not in self._record.of(known)

    async def _tell(self, link: DeviceLink, pin: NextPin) -> None:
        if FEATURE_NEXT_PIN not in link.features:
            self._refusals[link.name] = _CANNOT
            return
        try:
            await link.announce_pin(pin)
        except (DeviceError, BadInput) as error:
            # The reason may be the device's own text.
            why = escape_hidden(shorten_middle(error.message, _LONGEST_REASON), keep_lines=False)
            self._refusals[link.name] = why
            log.warning("a device has not taken the next certificate", device=link.name, why=why)
            return
        self._refusals.pop(link.name, None)
        known = self._registry.find(link.name)
        # The device may have been paired again meanwhile.
        same = known is not None and link.token_sha256 == known.token_sha256
        if known is not None and same and self._record.taken(known, pin.fingerprint, used=False):
            self._note(known, pin.fingerprint, used=False)

    def status(self) -> Certificates:
        """The certificates, and what each device that dials in accepts."""
        pin, present = self.pending(), self.present
        rows = []
        for known in self._dialling_in():
            accepted = self._record.of(known)
            takes_next = pin is not None and pin.fingerprint in accepted
            rows.append(
                DeviceCertificates(
                    device=known.name,
                    accepted=list(accepted),
                    takes_present=not accepted or present in accepted,
                    takes_next=takes_next,
                    why=self._refusals.get(known.name, _NOT_TOLD) if pin and not takes_next else "",
                )
            )
        announced = pin.fingerprint if pin else ""
        return Certificates(
            present=present,
            present_until=_end_of(self._folder, present),
            next=announced,
            next_until=_end_of(self._folder_of(announced), announced) if announced else "",
            devices=rows,
        )

    def why_not_accepted(self, name: str) -> str:
        """Why a device cannot connect by the present certificate; empty if it can, as far as is known."""
        known = self._registry.find(name)
        if known is None or known.direction != "in" or not known.paired or not self.present:
            return ""
        accepted = self._record.of(known)
        if not accepted or self.present in accepted:
            return ""
        return (
            f"paired with certificate {short_fingerprint(accepted[-1])}, this console shows "
            f"{short_fingerprint(self.present)}: pair it again (quarterdeck pair {name})"
        )

    def warning(self) -> str:
        """A sentence about the devices that do not accept the present certificate; empty without any."""
        names = [known.name for known in self._dialling_in() if self.why_not_accepted(known.name)]
        if not names:
            return ""
        return (
            f"{plural(len(names), 'device')} do not accept the certificate {short_fingerprint(self.present)} "
            f"that this console shows, because they were paired with another one: {some_names(names)}. Pair "
            f"them again, or put the earlier certificate and its key back into {self._folder}."
        )

    def accepted_by(self, name: str) -> list[str]:
        """The certificates that a device accepts, the oldest first; none where that is not known."""
        known = self._registry.find(name)
        return [] if known is None else list(self._record.of(known))

    def switch(self, fingerprint: str) -> Identity:
        """Put the next certificate in the place of the present one; the journal has the switch already.

        Raises:
            BadInput: the files cannot be read or written; the next start of the service tries again.
        """
        self._record.switched(fingerprint)
        self.complete()
        return load_or_make_identity(self._folder)

    def complete(self) -> None:
        """Complete a switch that the journal has, if its files are still to be moved.

        Raises:
            BadInput: the files cannot be read or written.
        """
        folder = self._folder_of(self._record.shown)
        if not self._record.shown or not folder.is_dir():
            return
        try:
            identity = read_identity(folder)
            if fingerprint_in(identity.certificate) != self._record.shown:
                raise BadInput(f"{folder} does not hold the certificate that was signed; remove it.")
            write_identity(self._folder, identity)
            shutil.rmtree(folder)
        except (OSError, ValueError) as error:
            raise BadInput(f"The next certificate in {folder} cannot be put in place: {error}.") from error

    def _folder_of(self, fingerprint: str) -> Path:
        return self._folder / fingerprint

    def _dialling_in(self) -> list[KnownDevice]:
        return [known for known in self._registry.devices() if known.direction == "in" and known.paired]

    def _note(self, known: KnownDevice, fingerprint: str, *, used: bool) -> None:
        taken = CertificateTaken(fingerprint=fingerprint, paired_at=known.paired_at, used=used)
        self._write([taken.entry("service", device=known.name)])


def _end_of(folder: Path, fingerprint: str) -> str:
    """The end of the validity of the certificate in a folder; empty if it is another one, or not readable."""
    try:
        certificate = read_identity(folder).certificate
        same = fingerprint_in(certificate) == fingerprint
        return valid_until(certificate).isoformat() if same else ""
    except (OSError, ValueError):
        return ""


def short_fingerprint(fingerprint: str) -> str:
    """The first digits of a fingerprint, as people compare them."""
    return f"{fingerprint[:8]}…"
