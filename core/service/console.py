"""The one door: what a window, a terminal or an agent can ask for, and what it is told.

`LocalConsole` answers in the process that owns the home; `RemoteConsole` is the same interface over the
control socket. Everything that crosses is a plain pydantic model, so that both are equal by construction:
the wire form of a call is its name and its arguments by name, read back through the annotations below.
No screen, command or agent tool reaches past this class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from pydantic import Field

from core.audit.entries import Entry
from core.batch.models import Batch, Cell, Plan, Run, RunSummary
from core.dispatch.models import CommandResult
from core.fleet.models import Device, Plain, Tool
from core.policy.models import Approval, Decision, Operator, Profile, SignedStatement
from core.replay.models import Timeline

API_VERSION = 1


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
    """Which profile holds, and whether policy.toml could be read; `problem` says why everything asks."""

    profile: Profile
    problem: str = ""
    path: str = ""


class ConsoleState(Plain):
    """Everything a client needs to draw its first picture. Later events only replace parts of it."""

    service_started_at: str
    service_pid: int
    version: str
    home: str
    stopped: bool
    stopped_note: str = ""
    policy: PolicyStatus
    journal: JournalStatus
    operators: list[Operator]
    devices: list[Device]
    approvals: list[Approval]
    runs: list[RunSummary]


class EntryPage(Plain):
    """Journal entries, newest first. `more` says that older ones match too; `total` counts matches, at most
    `total_bound` of them."""

    entries: list[Entry]
    more: bool
    total: int
    total_exact: bool
    took_ms: float


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
    """What verification found. `first_bad` is the number of the first entry that does not verify."""

    ok: bool
    entries: int
    blobs: int
    checkpoints: int
    first_bad: int | None = None
    problem: str = ""
    took_s: float = 0.0
    checked_at: str = ""
    root: str = ""


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


class DeviceChanged(Plain):
    """A device's state; replaces the one of the same name."""

    event: Literal["device"] = "device"
    device: Device


class ApprovalChanged(Plain):
    """A request for approval; replaces the one of the same id, and leaves the queue when it is final."""

    event: Literal["approval"] = "approval"
    approval: Approval


class RunChanged(Plain):
    """A run's summary; replaces the one of the same id."""

    event: Literal["run"] = "run"
    run: RunSummary


class CellChanged(Plain):
    """One cell of a run; replaces the one of the same run, device and step."""

    event: Literal["cell"] = "cell"
    cell: Cell


class JournalChanged(Plain):
    """The journal grew, was verified, or became unwritable."""

    event: Literal["journal"] = "journal"
    journal: JournalStatus


class ControlChanged(Plain):
    """Profile, policy, operators or Stop all changed."""

    event: Literal["control"] = "control"
    stopped: bool
    stopped_note: str
    policy: PolicyStatus
    operators: list[Operator]


class Missed(Plain):
    """This client was too slow: `count` events were dropped. Ask for `state` again."""

    event: Literal["missed"] = "missed"
    count: int


Event = Annotated[
    DeviceChanged | ApprovalChanged | RunChanged | CellChanged | JournalChanged | ControlChanged | Missed,
    Field(discriminator="event"),
]


class Console(ABC):
    """The door itself. Every method raises `QuarterdeckError` with a code from the closed list."""

    @abstractmethod
    async def state(self) -> ConsoleState:
        """Everything needed for a first picture; call it again after `Missed`."""

    @abstractmethod
    def events(self) -> AsyncIterator[Event]:
        """What happens from now on: bounded, newest state per thing, `Missed` when the client lags."""

    @abstractmethod
    async def tools(self, device: str) -> list[Tool]:
        """The tools of one device with their contracts. UNKNOWN_DEVICE, DEVICE_OFFLINE."""

    @abstractmethod
    async def match_devices(self, targets: str) -> list[Device]:
        """The devices that a filter such as `os:linux tag:lab !name:db-*` means now."""

    @abstractmethod
    async def review_contract(self, device: str, tool_key: str, digest: str) -> Tool:
        """Trust a tool's changed definition, which must still be the one with this contract digest."""

    @abstractmethod
    async def explain(self, device: str, tool: str, parameters: dict[str, Any]) -> Decision:
        """What the policy would say of one call; nothing is sent."""

    @abstractmethod
    async def plan(self, batch: Batch) -> Plan:
        """What a run of this batch would do on each device now; nothing is sent."""

    @abstractmethod
    async def start_run(self, batch: Batch, expected_devices: list[str] | None = None) -> Run:
        """Start a run and return at once. Refused when the targets are no longer `expected_devices`."""

    @abstractmethod
    async def call(
        self, device: str, tool: str, parameters: dict[str, Any], timeout: float | None = None, said: str = ""
    ) -> Run:
        """Start a run of one step and return at once. `said` is what the asker says about it, unchecked."""

    @abstractmethod
    async def wait_run(self, run: str, timeout: float) -> Run:
        """The run when it has ended, or as it stands after `timeout` seconds."""

    @abstractmethod
    async def run(self, run: str) -> Run:
        """One run with its cells, from memory or from the journal. NOT_FOUND."""

    @abstractmethod
    async def runs(self, before: str | None = None, limit: int = 50) -> list[RunSummary]:
        """Runs, newest first, older than the run `before`."""

    @abstractmethod
    async def cancel_run(self, run: str) -> RunSummary:
        """Start no further step of this run, withdraw what waits, and ask devices to cancel."""

    @abstractmethod
    async def approvals(self) -> list[Approval]:
        """What waits for an operator: highest risk first, then oldest."""

    @abstractmethod
    async def approval(self, approval: str) -> Approval:
        """One request for approval, waiting or lately decided. NOT_FOUND."""

    @abstractmethod
    async def decide(self, signed: SignedStatement) -> Approval:
        """Answer one request with an operator's signed statement. APPROVAL_INVALID says what is wrong."""

    @abstractmethod
    async def hold(self, approval: str, reading: bool) -> Approval:
        """Say that somebody reads this card: its expiry pauses (at most five minutes in all)."""

    @abstractmethod
    async def register_operator(
        self, operator: Operator, signed_by: SignedStatement | None = None
    ) -> Operator:
        """Make an operator known. The first one needs nobody's leave; later ones are refused for now."""

    @abstractmethod
    async def set_profile(self, profile: Profile) -> PolicyStatus:
        """Choose the profile for every device that has none of its own; written to policy.toml."""

    @abstractmethod
    async def stop_all(self) -> str:
        """Let nothing leave the dispatcher from now on; returns what was stopped, in words."""

    @abstractmethod
    async def resume(self) -> None:
        """Let commands leave again. What was stopped stays stopped."""

    @abstractmethod
    async def entries(self, query: str = "", before: int | None = None, limit: int = 200) -> EntryPage:
        """Journal entries that match a query, newest first, with numbers below `before`."""

    @abstractmethod
    async def entry(self, seq: int) -> Entry:
        """One journal entry. NOT_FOUND."""

    @abstractmethod
    async def histogram(self, query: str = "", buckets: int = 80) -> list[Bucket]:
        """Matching entries over time, in at most `buckets` slices."""

    @abstractmethod
    async def facets(self, field: str, prefix: str = "", limit: int = 12) -> list[Facet]:
        """Values of a query field that begin with `prefix`, most frequent first."""

    @abstractmethod
    async def proof(self, seq: int) -> Proof:
        """That an entry is in the journal, as anyone can check it."""

    @abstractmethod
    async def command(self, call_id: str) -> CommandRecord:
        """One command from beginning to end. NOT_FOUND."""

    @abstractmethod
    async def verify(self) -> VerifyReport:
        """Recompute the whole journal, blobs included."""

    @abstractmethod
    async def blob(self, sha256: str) -> bytes:
        """A stored picture or output. NOT_FOUND, JOURNAL_CORRUPT when its bytes are not what they were."""

    @abstractmethod
    async def timeline(self, run: str | None = None, around: int | None = None) -> Timeline:
        """A run, or the entries around one entry, laid out for replay."""

    @abstractmethod
    async def batches(self) -> list[str]:
        """Names of the batches saved in this home."""

    @abstractmethod
    async def load_batch(self, name: str) -> Batch:
        """A saved batch. NOT_FOUND, or INVALID_ARGUMENTS with line numbers."""

    @abstractmethod
    async def save_batch(self, name: str, batch: Batch) -> None:
        """Save a batch under a name of letters, digits, space, `-`, `_` and `.`."""

    @abstractmethod
    async def shut_down(self, cancel_work: bool) -> str:
        """End the service in order. Without `cancel_work` it stays until running work has ended."""

    @abstractmethod
    async def close(self) -> None:
        """Leave; the service goes on."""
