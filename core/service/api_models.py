"""What the door answers with, beyond what the packages behind it have words for."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from core.approvals.models import Approval, Operator
from core.audit.entries import Entry
from core.batch.models import RunSummary
from core.dispatch.models import CommandResult
from core.fleet.models import Contract, Device, Plain
from core.policy.models import Decision, Profile


class JournalStatus(Plain):
    """The journal in one line. `verified_at` is None until a verification has ended in this service."""

    entries: int
    writable: bool
    problem: str = ""
    verified_at: str | None = None
    verified_ok: bool | None = None
    verified_entries: int = 0
    first_bad: int | None = None


class PolicyStatus(Plain):
    """Which profile holds, and whether policy.toml could be read; `problem` says why everything asks.

    `pending` says what policy.toml and settings.toml would loosen and do not until an operator accepts it;
    `notes`, what stands in other files of the home and does not count. `accepted` is the digest of the
    accepted text, `file` that of the text in the file.
    """

    profile: Profile
    problem: str = ""
    path: str = ""
    pending: list[str] = Field(default_factory=list)
    pending_settings: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    accepted: str = ""
    file: str = ""


class LiveState(StrEnum):
    """How a live picture stands: kept fresh, about to come by itself, or not tried again."""

    LIVE = "live"
    WAITING = "waiting"
    REFUSED = "refused"


class LivePicture(Plain):
    """How one device of a live wall stands; `why` says what it waits for, or who refused it."""

    device: str
    state: LiveState
    why: str = ""


class ConsoleState(Plain):
    """Everything a client needs to draw its first picture. Later events only replace parts of it.

    `home_key` is the public key of the home's journal, hexadecimal: what is signed names it.
    `secret_names` are the names of arguments that settings.toml adds to the known secret ones.
    """

    service_started_at: str
    service_pid: int
    version: str
    home: str
    home_key: str = ""
    stopped: bool
    stopped_note: str = ""
    policy: PolicyStatus
    journal: JournalStatus
    operators: list[Operator]
    devices: list[Device]
    approvals: list[Approval]
    runs: list[RunSummary]
    secret_names: tuple[str, ...] = ()


class EntryPage(Plain):
    """Journal entries, newest first. `more` says that older ones match too; `total` counts matches, at most
    `total_bound` of them."""

    entries: list[Entry]
    more: bool
    total: int
    total_exact: bool
    took_ms: float


class NumberPage(Plain):
    """The numbers of journal entries, highest first. `next_before` asks for those below; None at the end."""

    numbers: list[int]
    next_before: int | None


class RunPage(Plain):
    """Runs that a search found, newest first. `next_before` asks for the ones before them; None when all
    runs were looked at."""

    runs: list[RunSummary]
    next_before: int | None


class Bucket(Plain):
    """Entries in one slice of time: UTC, ISO 8601 start, how many, and how many of them failed or unknown."""

    start: str
    end: str
    count: int
    failed: int = 0
    unknown: int = 0


class Facet(Plain):
    """A value that a query field takes, and how many entries have it."""

    value: str
    count: int


class VerifyReport(Plain):
    """What verification found. `first_bad` is the number of the first entry that does not verify.

    `checkpoint` is the newest one, a C2SP signed note, when all is well.
    """

    ok: bool
    entries: int
    blobs: int
    checkpoints: int
    first_bad: int | None = None
    problem: str = ""
    took_s: float = 0.0
    checked_at: str = ""
    root: str = ""
    checkpoint: str = ""


class Proof(Plain):
    """An inclusion proof (RFC 6962): `path` holds the sibling hashes from the leaf up. Hexadecimal.

    `entry` is the canonical text whose leaf hash is `leaf`; `checkpoint` is a C2SP signed note over root and
    size; `public_key` is the raw Ed25519 key of this home's journal.
    """

    seq: int
    entry: str = ""
    leaf: str
    path: list[str]
    root: str
    size: int
    checkpoint: str = ""
    public_key: str = ""


class CommandRecord(Plain):
    """One command from beginning to end, as the journal has it."""

    call_id: str
    entries: list[Entry]
    decision: Decision | None = None
    result: CommandResult | None = None


class ContractChange(Plain):
    """A tool that is not the trusted one any more. `before` is None where its definition was not kept.

    Beside the definition stand the risk that the device claims and the client that it calls itself, as
    `claimed_risk` and `client`, where it is known what they were. `before_contract` is what would be held to
    be true of the tool now had nothing changed: what differs from its contract is the device's doing. It is
    None where that is not known.
    """

    device: str
    tool_key: str
    before: dict[str, Any] | None
    before_contract: Contract | None = None
    after: dict[str, Any]
    changed: list[str]
