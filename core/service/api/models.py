"""Result models of the console API that belong to no other package; the others are the packages' own."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from core.approvals.models import Approval, Operator
from core.audit.entries import Entry
from core.audit.models import InclusionProof
from core.batch.models import RunSummary
from core.commands.results import CommandResult, Verdict
from core.errors import ErrorInfo
from core.models.devices import Device
from core.models.frozen import FrozenModel
from core.policy.agent_models import Agent, ClientProgram
from core.policy.models import Decision, Profile
from core.service.envelope import Envelope


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


class AgentConnection(FrozenModel):
    """A connection of an agent, since its first call.

    `transport` is `stdio` or `http` for the gateway's, and empty for a program that speaks to the control
    socket itself. `since` is UTC, ISO 8601.
    """

    transport: str
    program: ClientProgram
    since: str


class AgentState(Agent):
    """An agent as it stands: its connections, its runs that have not ended, its requests that wait."""

    connections: list[AgentConnection] = Field(default_factory=list)
    open_runs: int = 0
    waiting: int = 0


class AgentTally(FrozenModel):
    """How many commands an agent has asked for, in the whole journal, and how many of them were

    - `given`: sent to a device;
    - `denied` by the policy, an operator, the device, or because the agent was paused.

    The others have not ended, or were not sent for another reason.
    """

    asked: int = 0
    given: int = 0
    denied: int = 0


class CommandFate(StrEnum):
    """The outcome of an agent's command. `not_sent`: it was not denied, and not sent either."""

    OPEN = "open"
    GIVEN = "given"
    DENIED = "denied"
    NOT_SENT = "not_sent"


class AgentCommand(FrozenModel):
    """One command of an agent: what it said it would do, what was sent for it, and what came of that.

    `arguments` are redacted, as JSON text; `asked_first` are those before an operator edited them, empty if
    none did. `effect` is the policy's sentence about what the arguments do. `by` is the operator or grant
    that decided last; empty if the policy did. `outcome` is the result as text. All texts are cut at some
    thousand characters. `seq` is the number of its first entry.
    """

    call_id: str
    seq: int
    at: str
    run: str | None
    device: str
    tool: str
    said: str = ""
    digest: str = ""
    arguments: str = ""
    asked_first: str = ""
    effect: str = ""
    fate: CommandFate = CommandFate.OPEN
    by: str = ""
    why: str = ""
    verdict: Verdict | None = None
    error: ErrorInfo | None = None
    outcome: str = ""
    duration_ms: float | None = None


class AgentCommandPage(FrozenModel):
    """Commands of an agent, newest first. `next_before` requests the next page; None at the end."""

    commands: list[AgentCommand]
    next_before: int | None


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
    agents: list[AgentState] = Field(default_factory=list)
    secret_names: tuple[str, ...] = ()


class EntryPage(FrozenModel):
    """Journal entries, newest first. `more`: older entries match too. `total` is the number of matches, a
    lower bound if `total_exact` is false."""

    entries: list[Entry]
    more: bool
    total: int
    total_exact: bool
    took_ms: float


class RunPage(FrozenModel):
    """Runs that match a search, newest first. `next_before` requests the next page; None at the end."""

    runs: list[RunSummary]
    next_before: int | None


class ResultPage(FrozenModel):
    """The outcomes of some devices' commands. `next` requests those of further devices; None at the end."""

    results: list[Envelope]
    next: int | None = None


class Proof(InclusionProof):
    """An inclusion proof with the raw Ed25519 public key of this home's journal, in hexadecimal."""

    public_key: str


class CommandRecord(FrozenModel):
    """All journal entries of a command, with its decision and result."""

    call_id: str
    entries: list[Entry]
    decision: Decision | None = None
    result: CommandResult | None = None
