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
from core.fleet.certificates import CertificateRecord
from core.fleet.known_devices import KnownDevices
from core.fleet.tool_pins import Pins
from core.home import Home
from core.models.devices import Machine
from core.policy.agents import Agents
from core.policy.loosening import loosenings
from core.policy.policy_file import PolicyFile
from core.policy.policy_store import checked_policy, text_digest
from core.service.changes import ChangeGate, SignatureHistory, SignedIn
from core.service.held_settings import loosening_settings, settings_in_force, tightened
from core.service.trusted_agents import KINDS as AGENT_KINDS
from core.service.trusted_agents import restore_agents
from core.service.trusted_devices import read_trusted_devices
from core.service.trusted_marks import marks_looked_at
from core.settings import Settings
from core.text import clause

POLICY_SUBJECT = "policy.toml"
SETTINGS_SUBJECT = "settings.toml"
# The entries that may accept a policy.
POLICIES = f"kind:{Kind.POLICY_SAVED},{Kind.PROFILE_CHANGED},{Kind.POLICY_LOADED} policy_pin"
# In force if the accepted policy cannot be read: nothing runs without approval until a policy is accepted.
UNREADABLE = 'profile = "lockdown"\n'


@dataclass(slots=True)
class Trusted:
    """The state in force when a service starts. `notes` lists untrusted contents of files, with reasons.

    `stopped` is the note about a Stop all that still stands; empty if there is none.
    """

    operators: Operators
    gate: ChangeGate
    policy_text: str
    settings: Settings
    accepted_settings: dict[str, Any]
    registry: KnownDevices
    pins: Pins
    machines: dict[str, Machine]
    certificates: CertificateRecord
    agents: Agents
    stopped: str
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
    history = await SignatureHistory.read(journal)
    operators = Operators(home.operators)
    of_operators = journal.entries(f"kind:{Kind.OPERATOR_REGISTERED},{Kind.OPERATOR_REMOVED}")
    notes = journal.notes + operators.restore([entry async for entry in of_operators], history.holds)
    gate = ChangeGate(operators, history)

    def signed_in(entry: Entry, kind: ChangeKind) -> Change | None:
        return signed_change(entry, kind, operators, history)

    text, problem = await _accepted_policy(journal, signed_in, notes)
    accepted = await _accepted_settings(journal, signed_in, notes)
    settings = Settings.read(home.settings)
    notes += [problem] if problem else []
    stopped = await _standing_stop(journal, signed_in, notes)
    of_agents = [entry async for entry in journal.entries(f"kind:{','.join(AGENT_KINDS)}")]
    policies = [entry async for entry in journal.entries(POLICIES)]
    looked_at = await marks_looked_at(journal, signed_in, policies, of_agents)
    async for entry in journal.entries(f"kind:{Kind.LOSS_ACCEPTED}"):
        if signed_in(entry, ChangeKind.LOSS_ACCEPTED) is None:
            notes.append(f"The loss of entries before entry {entry.seq} has no operator's valid signature.")
    certificates = CertificateRecord()
    registry, pins, machines = await read_trusted_devices(
        home, journal, signed_in, looked_at, notes, certificates
    )
    agents = restore_agents(of_agents, signed_in, notes)
    held = settings_in_force(settings, accepted, operators.begun)
    return Trusted(
        operators=operators,
        gate=gate,
        policy_text=text,
        settings=held,
        accepted_settings=accepted,
        registry=registry,
        pins=pins,
        machines=machines,
        certificates=certificates,
        agents=agents,
        stopped=stopped,
        notes=notes,
    )


def signed_change(
    entry: Entry, kind: ChangeKind, operators: Operators, history: SignatureHistory
) -> Change | None:
    """The change of this kind in an entry, if its signature counts there; else None.

    It is checked as when the change was made: an operator of that time signed it for this home, used it once,
    and in its time.
    """
    try:
        signed = SignedChange.model_validate(entry.body.get("signed"))
    except ValidationError:
        return None
    statement = signed.statement
    if statement.change.kind is not kind or not history.holds(entry, statement):
        return None
    return statement.change if operators.signed_at(signed, entry.seq) else None


async def _standing_stop(journal: Journal, signed_in: SignedIn, notes: list[str]) -> str:
    """The note about an earlier service's Stop all that is still in force; empty if there is none.

    An unsigned entry that ends it does not count, and is added to `notes`.
    """
    page = await journal.query(f"kind:{Kind.ALL_STOPPED}", limit=1)
    if not page.entries:
        return ""
    [stop] = page.entries
    async for entry in journal.entries(f"kind:{Kind.ALL_RESUMED}", stop.seq):
        if signed_in(entry, ChangeKind.RESUME) is not None:
            return ""
        notes.append(f"All was resumed without a valid signature (entry {entry.seq}): it stays stopped.")
    when = stop.time[:19].replace("T", " ")
    return f"Everything was stopped by {stop.actor} at {when} UTC; resume to go on."


async def _accepted_policy(journal: Journal, signed_in: SignedIn, notes: list[str]) -> tuple[str, str]:
    """The accepted policy text, and its problem or an empty string.

    That is the newest signed text, tightened by later unsigned texts (`_tightened`).
    """
    later: list[str] = []
    async for entry in journal.newest(POLICIES):
        sha = str(entry.body["policy_pin"])
        change = signed_in(entry, ChangeKind.POLICY)
        if change is not None and change.after == {"sha256": sha}:
            return await _tightened(journal, sha, later)
        if entry.body.get("signed") is None:
            later.append(sha)
        else:
            notes.append(_not_counted("A policy was accepted", entry))
    return await _tightened(journal, text_digest(""), later)


async def _tightened(journal: Journal, signed_sha: str, later: list[str]) -> tuple[str, str]:
    """The signed text, replaced by each later unsigned text that is only stricter than the result so far.

    `later` is newest first. Also returns the problem if a text cannot be read.
    """
    try:
        text = await _text(journal, signed_sha)
        file: PolicyFile = checked_policy(text)
    except (JournalError, BadInput) as error:
        words = f"The accepted policy cannot be read ({clause(error.message)}), so everything asks."
        return UNREADABLE, words
    for sha in reversed(later):
        try:
            stricter = await _text(journal, sha)
            parsed = checked_policy(stricter)
        except (JournalError, BadInput) as error:
            return (
                UNREADABLE,
                f"The accepted policy cannot be read ({clause(error.message)}), so everything asks.",
            )
        if not loosenings(file, parsed):
            text, file = stricter, parsed
    return text, ""


async def _text(journal: Journal, sha: str) -> str:
    if sha == text_digest(""):
        return ""
    return (await journal.get_blob(sha)).decode()


async def _accepted_settings(journal: Journal, signed_in: SignedIn, notes: list[str]) -> dict[str, Any]:
    """The values of settings.toml and of this computer's device.toml that were accepted last.

    What an operator signed counts as it is. Unsigned values, which the service records as it finds them,
    count where they tighten. Before the home has its first operator, who needs no signature, all of them
    count.
    """
    accepted = loosening_settings(Settings(), DeviceConfig())
    begun = False
    kinds = f"{Kind.SETTINGS_ACCEPTED},{Kind.LISTENING_CHANGED},{Kind.OPERATOR_REGISTERED}"
    async for entry in journal.entries(f"kind:{kinds}"):
        if entry.kind is Kind.OPERATOR_REGISTERED:
            begun = True
            continue
        is_settings = entry.kind is Kind.SETTINGS_ACCEPTED
        if is_settings and "signed" not in entry.body:
            accepted = tightened(entry.body["settings"], accepted, begun)
            continue
        if "signed" not in entry.body or (not is_settings and "problem" in entry.body):
            continue
        change = signed_in(entry, ChangeKind.SETTINGS if is_settings else ChangeKind.LISTENING)
        if change is None:
            notes.append(_not_counted("A setting was accepted", entry))
        else:
            accepted |= change.after if is_settings else {"listen": change.after["address"]}
    return accepted


def _not_counted(what: str, entry: Entry) -> str:
    return f"{what} without a valid signature (entry {entry.seq}): that does not count."
