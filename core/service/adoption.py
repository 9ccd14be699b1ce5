"""Adoption: a one-time migration of the trust in devices from an earlier version's files to the journal.

An earlier version trusted the contents of `devices.json` and `contracts.json`. From the entries written here
on, only the journal is trusted: a `trust_adopted` entry for each device, then a final one without a device,
which is written even if there is nothing to adopt. Devices and tools in the files that were never paired or
pinned according to the journal are not adopted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from core.aip.connector import DialAddress
from core.audit.entries import Entry, Kind
from core.audit.events import ContractPinned, DevicePaired, TrustAdopted
from core.audit.journal import Journal
from core.errors import BadInput, JournalCorrupt, JournalError
from core.files import read_own_text
from core.fleet.known_devices import KnownDevice, read_copy, read_dial_token
from core.fleet.tool_pins import Claims, Pin, Rows, read_rows
from core.home import Home
from core.models.tools import Risk
from core.tokens import token_digest

PAGE = 1_000
KINDS = (Kind.CONTRACT_PINNED, Kind.DEVICE_PAIRED, Kind.DEVICE_REVOKED, Kind.DEVICE_FORGOTTEN)
_LARGEST_FILE = 64 << 20


async def adopt_earlier(home: Home, journal: Journal) -> int:
    """The number of the first `trust_adopted` entry; adopts the earlier trust now if there is none.

    Raises:
        JournalCorrupt: an earlier version paired devices, and its `devices.json` is damaged.
        JournalUnavailable: the journal cannot be written.
    """
    page = await journal.query(f"kind:{Kind.TRUST_ADOPTED}", after=0, limit=1)
    if page.entries:
        return page.entries[0].seq
    earlier = _Earlier()
    after: int | None = 0
    while after is not None:
        page = await journal.query(f"kind:{','.join(KINDS)}", after=after, limit=PAGE)
        for entry in page.entries:
            earlier.take(entry)
        after = page.next_after
    devices = _known(home, earlier)
    pins = await _named(home, journal, earlier)
    entries = [
        TrustAdopted(pins=pins.get(name, {}), known=_known_json(devices.get(name))).entry(
            "service", device=name
        )
        for name in sorted({*devices, *pins})
    ]
    end = TrustAdopted(devices=len(devices), tools=sum(map(len, pins.values())))
    # Written atomically, so that a partial adoption is never taken for a complete one.
    written = await journal.append_many([*entries, end.entry("service")])
    return written[0].seq


def _known_json(known: KnownDevice | None) -> dict[str, Any] | None:
    return None if known is None else known.model_dump(mode="json", exclude_defaults=True)


@dataclass(slots=True)
class _Earlier:
    """Pairings and pins (by tool key) in the journal of an earlier version."""

    paired: dict[str, DevicePaired] = field(default_factory=dict)
    revoked: dict[str, str] = field(default_factory=dict)
    pinned: dict[str, dict[str, Pin]] = field(default_factory=dict)
    # Names of reviewed tools, by device and key: only the entries of reviews contain the tool's name.
    names: dict[tuple[str, str], str] = field(default_factory=dict)

    def take(self, entry: Entry) -> None:
        """Apply an entry."""
        name = entry.device or ""
        if entry.kind is Kind.DEVICE_PAIRED:
            self.paired[name] = DevicePaired.read(entry.body)
            self.revoked.pop(name, None)
        elif entry.kind is Kind.DEVICE_REVOKED:
            self.revoked[name] = entry.time
        elif entry.kind is Kind.DEVICE_FORGOTTEN:
            self.paired.pop(name, None)
            self.pinned.pop(name, None)
        else:
            event = ContractPinned.read_with(entry.body, "tools")
            for key, digest in event.tools.items():
                self.pinned.setdefault(name, {})[key] = Pin(str(digest), _claims(event, key))
                if entry.tool:
                    self.names[name, key] = entry.tool


def _claims(event: ContractPinned, key: str) -> Claims | None:
    if event.ours is None:
        return None
    risk = event.claims.get(key)
    return Claims(Risk(risk) if risk else None, event.ours)


def _known(home: Home, earlier: _Earlier) -> dict[str, KnownDevice]:
    """The paired devices in `devices.json`, the only file with the digests of their tokens.

    Raises:
        JournalCorrupt: the file is damaged, and a device was paired.
    """
    copy = read_copy(home.devices)
    if copy.problem and earlier.paired:
        raise JournalCorrupt(
            f"{home.devices} is damaged ({copy.problem}). "
            "Put a copy back, or move it away and pair every device anew."
        )
    known: dict[str, KnownDevice] = {}
    for name, row in copy.devices.items():
        paired = earlier.paired.get(name)
        if paired is None or row.direction != paired.direction:
            continue
        if row.direction == "out":
            address = DialAddress(name, row.url, "", row.fingerprint)
            if (address.shown, row.fingerprint) != (paired.url, paired.fingerprint):
                continue
        revoked_at = row.revoked_at or earlier.revoked.get(name)
        dialled = _dial_digest(home, name) if row.direction == "out" else ""
        known[name] = row.model_copy(update={"revoked_at": revoked_at, "dial_token_sha256": dialled})
    return known


def _dial_digest(home: Home, name: str) -> str:
    try:
        return token_digest(read_dial_token(home.dial_tokens, name))
    except BadInput:
        # The earlier version could not dial this device either; its status asks to pair it again.
        return ""


async def _named(home: Home, journal: Journal, earlier: _Earlier) -> Rows:
    """The pins by tool name, which most pinning entries lack.

    The name is derived from the tool's key if `contracts.json` confirms it for that definition. Otherwise it
    is read from the stored definition; if there is none, the name derived from the key is used.
    """
    copied = _copied_names(home)
    kept: dict[str, str] = {}
    rows: Rows = {}
    for device, pins in earlier.pinned.items():
        named = rows.setdefault(device, {})
        for key, pin in pins.items():
            name = earlier.names.get((device, key)) or _name_in(key)
            if (device, name, pin.definition) not in copied:
                if pin.definition not in kept:
                    kept[pin.definition] = await _kept_name(journal, pin.definition)
                name = kept[pin.definition] or name
            named[name] = pin.row
    return rows


def _copied_names(home: Home) -> set[tuple[str, str, str]]:
    """Device, tool name and digest of each definition in `contracts.json`; saves reading every definition."""
    try:
        text = read_own_text(home.contracts, _LARGEST_FILE)
        rows = read_rows(text) if text is not None else {}
    except BadInput:
        return set()
    return {
        (device, name, row.partition(" ")[0]) for device, tools in rows.items() for name, row in tools.items()
    }


async def _kept_name(journal: Journal, digest: str) -> str:
    try:
        definition = json.loads(await journal.get_blob(digest))
    except (JournalError, BadInput, ValueError):
        return ""
    name = definition.get("tool_name") if isinstance(definition, dict) else None
    return name if isinstance(name, str) else ""


def _name_in(key: str) -> str:
    """The tool's name in a key as device clients build it, such as `action::click`."""
    return key.partition("::")[2] or key
