"""The trusted state of a home, read from its journal: operators, policy, settings, devices and tools.

Any program of the user can write the files of a home. What a file loosens takes effect only if the journal
contains an operator's signature over exactly that change. The journal is read once, when a service starts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from core.approvals.operators import Operators
from core.audit.entries import Entry, Kind
from core.audit.journal import Journal
from core.changes import Change, ChangeKind, SignedChange
from core.device.config import DeviceConfig
from core.errors import BadInput, JournalError
from core.fleet.known_devices import KnownDevices
from core.fleet.tool_pins import Pins
from core.home import Home, Settings
from core.policy.agents import Agents
from core.policy.loosening import loosenings
from core.policy.policy_file import PolicyFile
from core.policy.policy_store import checked_policy, text_digest
from core.service.changes import ChangeGate, used_signatures
from core.service.held_settings import loosening_settings, settings_in_force, tightened
from core.service.trusted_agents import KINDS as AGENT_KINDS
from core.service.trusted_agents import restore_agents
from core.service.trusted_devices import read_trusted_devices

POLICY_SUBJECT = "policy.toml"
SETTINGS_SUBJECT = "settings.toml"
PAGE = 1_000
# In force if the accepted policy cannot be read: nothing runs without approval until a policy is accepted.
UNREADABLE = 'profile = "lockdown"\n'


@dataclass(slots=True)
class Trusted:
    """The state in force when a service starts. `notes` lists untrusted contents of files, with reasons."""

    operators: Operators
    gate: ChangeGate
    policy_text: str
    settings: Settings
    accepted_settings: dict[str, Any]
    registry: KnownDevices
    pins: Pins
    agents: Agents
    notes: list[str] = field(default_factory=list)


def policy_change(before: str, after: str) -> Change:
    """The change of the accepted policy from one text to another."""
    return Change(
        kind=ChangeKind.POLICY,
        subject=POLICY_SUBJECT,
        before={"sha256": text_digest(before)},
        after={"sha256": text_digest(after)},
    )


async def read_trusted(home: Home, journal: Journal) -> Trusted:
    """Read the trusted state from the journal.

    Raises:
        JournalError: the journal cannot be read.
        BadInput: settings.toml is broken.
    """
    key = journal.public_key.public_bytes_raw().hex()
    operators = Operators(home.operators)
    notes = operators.restore(
        await _entries(journal, f"kind:{Kind.OPERATOR_REGISTERED},{Kind.OPERATOR_REMOVED}")
    )
    gate = ChangeGate(operators, key)
    gate.restore(await used_signatures(journal))
    text, problem = await _accepted_policy(journal, operators, key)
    accepted = await _accepted_settings(journal, operators, key)
    settings = home.settings()
    notes += [problem] if problem else []

    def signed_in(entry: Entry, kind: ChangeKind) -> Change | None:
        return signed_change(entry, kind, operators, key)

    registry, pins = await read_trusted_devices(home, journal, signed_in, notes)
    entries = await _entries(journal, f"kind:{','.join(AGENT_KINDS)}")
    agents = restore_agents(entries, signed_in, notes)
    held = settings_in_force(settings, accepted, operators.begun)
    return Trusted(operators, gate, text, held, accepted, registry, pins, agents, notes)


def signed_change(entry: Entry, kind: ChangeKind, operators: Operators, home_key: str) -> Change | None:
    """The change of this kind in an entry that an operator of this home signed; None if there is none."""
    try:
        signed = SignedChange.model_validate(entry.body.get("signed"))
    except ValidationError:
        return None
    statement = signed.statement
    if statement.change.kind is not kind or statement.home != home_key:
        return None
    return statement.change if operators.ever_signed(signed) else None


async def _accepted_policy(journal: Journal, operators: Operators, home_key: str) -> tuple[str, str]:
    """The accepted policy text, and its problem or an empty string.

    That is the newest signed text, tightened by later unsigned texts (`_tightened`).
    """
    later: list[str] = []
    text, before = "", None
    searched = f"kind:{Kind.POLICY_SAVED},{Kind.PROFILE_CHANGED},{Kind.POLICY_LOADED} policy_pin"
    while True:
        page = await journal.query(searched, before=before, limit=PAGE)
        for entry in page.entries:
            sha = str(entry.body["policy_pin"])
            change = signed_change(entry, ChangeKind.POLICY, operators, home_key)
            if change is not None and change.after == {"sha256": sha}:
                return await _tightened(journal, sha, later)
            if entry.body.get("signed") is None:
                later.append(sha)
        before = page.next_before
        if before is None:
            return await _tightened(journal, text_digest(text), later)


async def _tightened(journal: Journal, signed_sha: str, later: list[str]) -> tuple[str, str]:
    """The signed text, replaced by each later unsigned text that is only stricter than the result so far.

    `later` is newest first. Also returns the problem if a text cannot be read.
    """
    try:
        text = await _text(journal, signed_sha)
        file: PolicyFile = checked_policy(text)
    except (JournalError, BadInput) as error:
        words = f"The accepted policy cannot be read ({error.message}), so everything asks."
        return UNREADABLE, words
    for sha in reversed(later):
        try:
            stricter = await _text(journal, sha)
            parsed = checked_policy(stricter)
        except (JournalError, BadInput) as error:
            return UNREADABLE, f"The accepted policy cannot be read ({error.message}), so everything asks."
        if not loosenings(file, parsed):
            text, file = stricter, parsed
    return text, ""


async def _text(journal: Journal, sha: str) -> str:
    if sha == text_digest(""):
        return ""
    return (await journal.get_blob(sha)).decode()


async def _accepted_settings(journal: Journal, operators: Operators, home_key: str) -> dict[str, Any]:
    """The values of settings.toml and of this computer's device.toml that were accepted last.

    What an operator signed counts as it is. Unsigned values, which the service records as it finds them,
    count where they tighten. Before the home has its first operator, who needs no signature, all of them
    count.
    """
    accepted = loosening_settings(Settings(), DeviceConfig())
    begun = False
    kinds = f"{Kind.SETTINGS_ACCEPTED},{Kind.LISTENING_CHANGED},{Kind.OPERATOR_REGISTERED}"
    for entry in await _entries(journal, f"kind:{kinds}"):
        if entry.kind is Kind.OPERATOR_REGISTERED:
            begun = True
        elif entry.kind is Kind.SETTINGS_ACCEPTED:
            if "signed" not in entry.body:
                accepted = tightened(entry.body["settings"], accepted, begun)
            elif change := signed_change(entry, ChangeKind.SETTINGS, operators, home_key):
                accepted = {**accepted, **change.after}
        elif "problem" not in entry.body:
            change = signed_change(entry, ChangeKind.LISTENING, operators, home_key)
            accepted = {**accepted, "listen": change.after["address"]} if change else accepted
    return accepted


async def _entries(journal: Journal, query: str) -> list[Entry]:
    """All entries that match, oldest first."""
    found: list[Entry] = []
    after: int | None = 0
    while after is not None:
        page = await journal.query(query, after=after, limit=PAGE)
        found.extend(page.entries)
        after = page.next_after
    return found
