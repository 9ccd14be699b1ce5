"""The trusted state of devices, read from a home's journal: pairings, settings and pinned tools.

The journal is read once, when a service starts. `devices.json` and `contracts.json` are only copies: if they
are removed or edited, they are written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from core.audit.entries import Entry, Kind, NewEntry
from core.audit.events import CertificateSwitched, CertificateTaken, DeviceBound, DeviceRevoked
from core.audit.journal import Journal
from core.changes import ChangeKind
from core.errors import BadInput, JournalCorrupt, first_fault
from core.fleet.certificates import CertificateRecord
from core.fleet.known_devices import Copy, KnownDevice, KnownDevices, paired_by, read_copy, with_settings
from core.fleet.models import DeviceSettings
from core.fleet.tool_pins import Pin, Pins, Rows, pin_of
from core.fleet.updated_tools import is_update
from core.home import Home
from core.models.devices import NO_MACHINE, Machine
from core.service.changes import SignedIn
from core.service.trusted_marks import Marks
from core.text import escape_hidden

KINDS = (
    Kind.TRUST_ADOPTED,
    Kind.DEVICE_PAIRED,
    Kind.DEVICE_BOUND,
    Kind.DEVICE_SET,
    Kind.DEVICE_REVOKED,
    Kind.DEVICE_FORGOTTEN,
    Kind.CONTRACT_PINNED,
    Kind.CERTIFICATE_MADE,
    Kind.CERTIFICATE_TAKEN,
    Kind.CERTIFICATE_SWITCHED,
)


async def read_trusted_devices(
    home: Home,
    journal: Journal,
    signed_in: SignedIn,
    looked_at: Mapping[int, Marks],
    notes: list[str],
    certificates: CertificateRecord | None = None,
) -> tuple[KnownDevices, Pins, dict[str, Machine]]:
    """Read the trusted state of devices: pairings, pins and the machines of pairings.

    What the journal has of this console's certificates is added to `certificates`.

    Revocations that only `devices.json` contains are recorded.

    `looked_at` has the marks that scopes looked at, by the number of the unsigned entry that sets marks.
    Untrusted contents of the copies, and unsigned entries of the journal, are added to `notes`. A pairing's
    signature is checked when the device first connects, so that its note may be added later.

    Raises:
        JournalError: the journal cannot be read or written, or holds an entry that no service wrote.
    """
    record = CertificateRecord() if certificates is None else certificates
    reading = _Reading(signed_in, looked_at, notes, record)
    async for entry in journal.entries(f"kind:{','.join(KINDS)}"):
        reading.take(entry)
    copy = read_copy(home.devices)
    for entry in await journal.append_many(_revoked_in(copy, reading.devices)):
        reading.take(entry)
    registry, pins = KnownDevices(home.devices, home.dial_tokens), Pins(home.contracts)
    notes += registry.restore(reading.devices.values(), reading.proofs, copy)
    notes += pins.restore(reading.pins)
    return registry, pins, reading.machines


def _revoked_in(copy: Copy, devices: dict[str, KnownDevice]) -> list[NewEntry]:
    """Entries for revocations that are in the copy only, because the journal could not be written then.

    A reduction of trust is accepted from the copy too, if it is of the same pairing.
    """
    return [
        DeviceRevoked(paired_at=row.paired_at, revoked_at=row.revoked_at, in_="devices.json").entry(
            "service", device=row.name
        )
        for row in copy.devices.values()
        if not row.paired
        and (known := devices.get(row.name)) is not None
        and known.paired
        and known.paired_at == row.paired_at
    ]


@dataclass(slots=True)
class _Reading:
    """The trusted state at a point of the journal. `proofs` check whether a device's pairing is signed."""

    signed_in: SignedIn
    looked_at: Mapping[int, Marks]
    notes: list[str]
    certificates: CertificateRecord
    devices: dict[str, KnownDevice] = field(default_factory=dict)
    proofs: dict[str, Callable[[], bool]] = field(default_factory=dict)
    pins: Rows = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)

    def take(self, entry: Entry) -> None:
        """Apply an entry.

        Raises:
            JournalCorrupt: no service of this version wrote this entry.
        """
        try:
            if entry.kind is Kind.TRUST_ADOPTED:
                _check_adopted_nothing(entry)
            elif entry.kind is Kind.CONTRACT_PINNED:
                self._pinned(entry)
            elif entry.kind in (Kind.CERTIFICATE_MADE, Kind.CERTIFICATE_SWITCHED):
                self._certificate(entry)
            else:
                self._of_device(entry)
        except (BadInput, ValidationError, KeyError, TypeError, AttributeError) as error:
            raise JournalCorrupt(
                f"Entry {entry.seq} of the journal, about the trust in a device, cannot be read by this"
                f" version of Quarterdeck ({first_fault(error)}). Open this home with the version that wrote"
                " it, or move the home away to begin a new one."
            ) from error

    def _certificate(self, entry: Entry) -> None:
        if entry.kind is Kind.CERTIFICATE_SWITCHED:
            self.certificates.switched(CertificateSwitched.read(entry.body).to)
            return
        change = self.signed_in(entry, ChangeKind.CERTIFICATE)
        if change is None:
            self.notes.append(
                f"A certificate of this console was made without a valid signature (entry {entry.seq}): "
                "that does not count."
            )
        else:
            self.certificates.made(entry, change)

    def _of_device(self, entry: Entry) -> None:
        name = entry.device or ""
        if entry.kind is Kind.DEVICE_PAIRED:
            self.devices[name] = paired_by(entry)
            self.proofs[name] = lambda: self._is_paired(entry)
            self.machines.pop(name, None)
            return
        known = self.devices.get(name)
        if entry.kind is Kind.DEVICE_FORGOTTEN and (known is None or _is_of(entry, known)):
            for kept in (self.devices, self.proofs, self.pins, self.machines):
                kept.pop(name, None)
        elif known is None:
            return
        elif entry.kind is Kind.DEVICE_SET:
            self.devices[name] = self._set(known, entry)
        elif entry.kind is Kind.CERTIFICATE_TAKEN and _is_of(entry, known):
            taken = CertificateTaken.read(entry.body)
            self.certificates.taken(known, taken.fingerprint, used=taken.used)
        elif entry.kind is Kind.DEVICE_BOUND and _is_of(entry, known):
            self._bound(name, entry)
        elif entry.kind is Kind.DEVICE_REVOKED and known.paired and _is_of(entry, known):
            at = str(entry.body.get("revoked_at") or entry.time)
            self.devices[name] = known.model_copy(update={"revoked_at": at})

    def _is_paired(self, entry: Entry) -> bool:
        change = self.signed_in(entry, ChangeKind.DEVICE_PAIRED)
        if change is not None and change.subject == entry.device:
            return True
        self._not_counted(entry, "was paired")
        return False

    def _bound(self, name: str, entry: Entry) -> None:
        """Bind a pairing to a machine: the first one by the service's word, another one only if it is signed.

        A signed change names the machine that it replaces, so that an earlier one cannot be put back.
        """
        before = self.machines.get(name, NO_MACHINE)
        if "signed" in entry.body:
            change = self.signed_in(entry, ChangeKind.DEVICE_BOUND)
            if change is None or change.subject != name or change.before.get("identity") != before.identity:
                self._not_counted(entry, "was bound to another machine")
            else:
                self.machines[name] = Machine.model_validate(change.after)
            return
        bound = DeviceBound.read(entry.body)
        if before.identity:
            self._not_counted(entry, "was bound to another machine")
        else:
            self.machines[name] = Machine(identity=bound.machine, host=bound.host)

    def _set(self, known: KnownDevice, entry: Entry) -> KnownDevice:
        """The device with the entry's settings; from the signed change if the entry is signed.

        Without a signature, marks that a scope looked at stay as they are.
        """
        words = entry.body
        if "signed" in words:
            change = self.signed_in(entry, ChangeKind.DEVICE_SET)
            if change is None or change.subject != entry.device:
                self._not_counted(entry, "was set")
                return known
            words = change.after
        fields = {name: words[name] for name in DeviceSettings.model_fields if name in words}
        changed = with_settings(known, DeviceSettings.model_validate(fields))
        kept: dict[str, object] = {}
        if "signed" not in entry.body and (looked_at := self.looked_at.get(entry.seq)):
            if "tag" in looked_at and changed.tags != known.tags:
                kept["tags"] = known.tags
            if "production" in looked_at and bool(changed.production) is not bool(known.production):
                kept["production"] = known.production
        if kept:
            self._not_counted(entry, f"got other {' and '.join(kept)}")
        return changed.model_copy(update=kept)

    def _pinned(self, entry: Entry) -> None:
        """Apply pins of new tools, known updates (`is_update`) and raised risks; others only if signed."""
        device = entry.device or ""
        trusted = self.pins.setdefault(device, {})
        if entry.body.get("reviewed"):
            change = self.signed_in(entry, ChangeKind.CONTRACT)
            [(tool, row)] = entry.body["pins"].items()
            [key] = entry.body["tools"]
            if change is None or (change.subject, change.after.get("pin")) != (f"{device}/{key}", row):
                self._not_counted(entry, f"had {tool} trusted again")
            else:
                trusted[tool] = pin_of(row).row
            return
        for tool, row in entry.body["pins"].items():
            pin = pin_of(row)
            before = pin_of(trusted[tool]) if tool in trusted else None
            other = before is not None and before.definition != pin.definition
            if before is not None and other and not is_update(tool, before.definition, pin.definition):
                self._not_counted(entry, f"had {tool} trusted again")
            elif before is None:
                trusted[tool] = row
            else:
                trusted[tool] = Pin(pin.definition, before.claims.with_care(pin.claims)).row

    def _not_counted(self, entry: Entry, what: str) -> None:
        words = f"{entry.device} {escape_hidden(what, keep_lines=False)}"
        self.notes.append(f"{words} without a valid signature (entry {entry.seq}): that does not count.")


def _check_adopted_nothing(entry: Entry) -> None:
    """Check that a home began with its own journal, and not with the files of an earlier version.

    Raises:
        BadInput: a device's trust came from the files of an earlier version.
    """
    if entry.device is not None:
        raise BadInput("it adopts what an earlier version trusted by its files.")


def _is_of(entry: Entry, known: KnownDevice) -> bool:
    """Whether the entry ends or binds this pairing of the device, not an earlier pairing."""
    return bool(entry.body.get("paired_at", known.paired_at) == known.paired_at)
