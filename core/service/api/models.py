"""Result models of the console API that belong to no other package."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from core.approvals.models import Approval, Operator
from core.audit.entries import Entry
from core.batch.models import RunSummary
from core.dispatch.models import CommandResult
from core.fleet.models import Contract, Device, FrozenModel
from core.policy.models import Decision, Profile


class JournalStatus(FrozenModel):
    """The journal's status. `verified_at` is None until this service has completed a verification."""

    entries: int
    writable: bool
    problem: str = ""
    verified_at: str | None = None
    verified_ok: bool | None = None
    verified_entries: int = 0
    first_bad: int | None = None


class PolicyStatus(FrozenModel):
    """The profile in force and the health of policy.toml.

    `problem` is the fault because of which every call needs approval. `pending` and `pending_settings` list
    what policy.toml and settings.toml would loosen, which has no effect until an operator accepts it. `notes`
    lists contents of other files of the home that are not trusted. `accepted` is the digest of the accepted
    text, `file` the digest of the text in the file.
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
    """The state of a live picture: kept fresh, waiting for its next attempt, or refused (not retried)."""

    LIVE = "live"
    WAITING = "waiting"
    REFUSED = "refused"


class LivePicture(FrozenModel):
    """The state of a device's live picture; `why` is what it waits for, or the reason of the refusal."""

    device: str
    state: LiveState
    why: str = ""


class ConsoleState(FrozenModel):
    """The snapshot that a client starts from. Later events replace parts of it.

    `home_key` is the public key of the home's journal, hexadecimal; signed statements contain it.
    `secret_names` are the names of secret arguments that settings.toml adds to the built-in names.
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


class EntryPage(FrozenModel):
    """Journal entries, newest first. `more`: older entries match too. `total` is the number of matches, a
    lower bound if `total_exact` is false."""

    entries: list[Entry]
    more: bool
    total: int
    total_exact: bool
    took_ms: float


class NumberPage(FrozenModel):
    """Numbers of journal entries, highest first. `next_before` requests the next page; None at the end."""

    numbers: list[int]
    next_before: int | None


class RunPage(FrozenModel):
    """Runs that match a search, newest first. `next_before` requests the next page; None at the end."""

    runs: list[RunSummary]
    next_before: int | None


class Bucket(FrozenModel):
    """The number of entries in an interval (UTC, ISO 8601), and how many of them failed or are unknown."""

    start: str
    end: str
    count: int
    failed: int = 0
    unknown: int = 0


class Facet(FrozenModel):
    """A value of a query field, and the number of entries with it."""

    value: str
    count: int


class VerifyReport(FrozenModel):
    """The findings of a verification. `first_bad` is the number of the first entry that does not verify.

    `checkpoint` is the newest checkpoint, a C2SP signed note, if the journal is intact.
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


class Proof(FrozenModel):
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


class CommandRecord(FrozenModel):
    """All journal entries of a command, with its decision and result."""

    call_id: str
    entries: list[Entry]
    decision: Decision | None = None
    result: CommandResult | None = None


class ContractChange(FrozenModel):
    """A tool that has changed since it was trusted. `before` is None if that definition was not stored.

    `before` and `after` hold the definition and, if known, `claimed_risk` (the risk that the device claims)
    and `client` (the name that the device's client gives itself). `before_contract` is the contract that the
    trusted definition would have now, so that any difference to the present contract is due to the device. It
    is None if that is not known.
    """

    device: str
    tool_key: str
    before: dict[str, Any] | None
    before_contract: Contract | None = None
    after: dict[str, Any]
    changed: list[str]
