"""Devices that are known without a console that pairs them: in a registry alone, or in a home's journal."""

from __future__ import annotations

from core.approvals.operator_keys import OperatorKey
from core.approvals.operators import Operators
from core.audit.checkpoint import load_or_create_journal_key
from core.audit.entries import Entry, Kind, NewEntry
from core.audit.journal import Journal
from core.changes import Change, ChangeKind, Proposal
from core.fleet.known_devices import KnownDevice, KnownDevices
from core.fleet.tool_pins import Pins
from core.home import Home
from core.ids import now_utc
from core.service.changes import SignatureHistory
from core.service.trusted import signed_change
from core.service.trusted_devices import read_trusted_devices
from core.tokens import new_token, token_digest
from tests.fakes.signing import accepted, signed_by


def pair(registry: KnownDevices, known: KnownDevice) -> str:
    """Know a device that dials in, as it is once the journal has it; gives its token."""
    token = new_token()
    fresh = {"token_sha256": token_digest(token), "paired_at": now_utc(), "revoked_at": None}
    registry.pair(known.model_copy(update={"direction": "in", "dial_token_sha256": "", **fresh}))
    return token


def dialled(known: KnownDevice, url: str, token: str, fingerprint: str) -> KnownDevice:
    """The device as one that is dialled there."""
    where = {"direction": "out", "url": url, "fingerprint": fingerprint, "token_sha256": ""}
    proof = {"dial_token_sha256": token_digest(token), "paired_at": now_utc(), "revoked_at": None}
    return known.model_copy(update={**where, **proof})


def pair_listening(
    registry: KnownDevices, known: KnownDevice, url: str, token: str, fingerprint: str
) -> None:
    """Know a device that is dialled, as it is once the journal has it."""
    with registry.staged_dial_token(known.name, token) as put_in_place:
        registry.pair(dialled(known, url, token, fingerprint))
        put_in_place()


async def pins_in(home: Home, journal: Journal, operators: Operators) -> Pins:
    """What is trusted of tools, as a service reads it that starts with this journal.

    `operators` become those of the journal.
    """
    history = await SignatureHistory.read(journal)
    operators.restore((await journal.query(f"kind:{Kind.OPERATOR_REGISTERED}")).entries, history.holds)

    def signed_in(entry: Entry, kind: ChangeKind) -> Change | None:
        return signed_change(entry, kind, operators, history)

    _, pins, _ = await read_trusted_devices(home, journal, signed_in, {}, [])
    return pins


async def put_trusted(home: Home, *devices: KnownDevice) -> None:
    """Let anna have paired these devices, in a home that no service owns."""
    key = await accepted(home)
    journal_key = load_or_create_journal_key(home.keys / "journal.key")
    journal = await Journal.open(home.path, journal_key, "quarterdeck")
    home_key = journal.public_key.public_bytes_raw().hex()
    try:
        await journal.append_many([_pairing(known, key, home_key) for known in devices])
    finally:
        await journal.close()


def _pairing(known: KnownDevice, key: OperatorKey, home_key: str) -> NewEntry:
    after = known.model_dump(mode="json", exclude={"name", "paired_at", "revoked_at"})
    change = Change(kind=ChangeKind.DEVICE_PAIRED, subject=known.name, after=after)
    proposal = Proposal(home=home_key, change=change, needs_signature=True)
    body = {"direction": known.direction, "signed": signed_by(key, proposal).model_dump(mode="json")}
    return NewEntry(kind=Kind.DEVICE_PAIRED, actor="operator:anna", device=known.name, body=body)
