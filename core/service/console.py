"""The one door: what a window, a terminal or an agent can ask for, and what it is told.

`LocalConsole` answers in the process that owns the home; `RemoteConsole` is the same interface over the
control socket. Everything that crosses is a plain pydantic model, so that both are equal by construction:
the wire form of a call is its name and its arguments by name, read back through the annotations below.
No screen, command or agent tool reaches past this class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any

from core.approvals.grants import Grant, SignedGrant
from core.approvals.models import Approval, Fatigue, Operator
from core.approvals.preview_models import Helper, Preview
from core.audit.entries import Entry
from core.batch.models import Batch, Plan, Run, RunSummary, SavedBatch
from core.changes import Change, Proposal, SignedChange, SignedIdentity
from core.dispatch.models import CommandResult
from core.fleet.models import (
    Check,
    Device,
    DeviceDetails,
    DeviceSettings,
    Listening,
    Pairing,
    Refusal,
    Tool,
)
from core.policy.models import Decision, Profile
from core.policy.policy_check import PolicyCheck, PolicyText, Trial
from core.policy.policy_store import Explanation
from core.replay.models import Timeline
from core.replay.result_search import ContentHits
from core.service.api_events import (
    ApprovalChanged,
    CellChanged,
    ControlChanged,
    DeviceChanged,
    DeviceForgotten,
    Event,
    JournalChanged,
    Missed,
    RunChanged,
    WorkProgressed,
)
from core.service.api_models import (
    Bucket,
    CommandRecord,
    ConsoleState,
    ContractChange,
    EntryPage,
    Facet,
    JournalStatus,
    LivePicture,
    LiveState,
    NumberPage,
    PolicyStatus,
    Proof,
    RunPage,
    VerifyReport,
)
from core.statements import SignedStatement

API_VERSION = 3

# The door's own words stand beside it; whoever comes through it finds all of them here.
__all__ = [
    "API_VERSION",
    "ApprovalChanged",
    "Bucket",
    "CellChanged",
    "CommandRecord",
    "Console",
    "ConsoleState",
    "ContractChange",
    "ControlChanged",
    "DeviceChanged",
    "DeviceForgotten",
    "EntryPage",
    "Event",
    "Explanation",
    "Facet",
    "JournalChanged",
    "JournalStatus",
    "LivePicture",
    "LiveState",
    "Missed",
    "NumberPage",
    "PolicyStatus",
    "Proof",
    "RunChanged",
    "RunPage",
    "VerifyReport",
    "WorkProgressed",
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
    async def propose(self, wish: Change, text: str = "") -> Proposal:
        """What a change would come to, and what an operator has to sign for it; nothing changes.

        `text` is the policy's text, or the string of a device that listens, where the wish is about one.
        """

    @abstractmethod
    async def identify(self, signed: SignedIdentity) -> Operator:
        """Prove which operator is at this client: what it asks for from now on is asked by them."""

    @abstractmethod
    async def challenge(self) -> str:
        """What an operator signs to `identify` on this connection, and on no other."""

    @abstractmethod
    async def review_contract(
        self, device: str, tool_key: str, digest: str, signed: SignedChange | None = None
    ) -> Tool:
        """Trust a tool that changed, which must still be the one with this contract digest; signed."""

    @abstractmethod
    async def listening(self) -> Listening:
        """Where this console listens for devices."""

    @abstractmethod
    async def listen(self, address: str, signed: SignedChange | None = None) -> Listening:
        """Listen at `host:port` from now on; kept in settings.toml. Beyond loopback with TLS, signed."""

    @abstractmethod
    async def pair(self, name: str, settings: DeviceSettings, signed: SignedChange | None = None) -> Pairing:
        """Make a device known and give it a new token, which replaces an older one of that name. Signed."""

    @abstractmethod
    async def pair_listening(
        self, name: str, string: str, settings: DeviceSettings, signed: SignedChange | None = None
    ) -> Device:
        """Make a device known that listens, from the string it printed, and dial it from now on. Signed."""

    @abstractmethod
    async def set_device(
        self, name: str, settings: DeviceSettings, signed: SignedChange | None = None
    ) -> Device:
        """Change a device's tags, colour band or agent; signed where the policy looks at what changes."""

    @abstractmethod
    async def revoke(self, name: str) -> Device:
        """Make a device's token worthless at once and end its link; the device stays known."""

    @abstractmethod
    async def forget(self, name: str) -> None:
        """Revoke a device and take it off the list; what it did stays in the journal."""

    @abstractmethod
    async def reconnect(self, name: str) -> Device:
        """Dial a device now instead of after its wait, or list its tools again where it is connected."""

    @abstractmethod
    async def device_details(self, name: str) -> DeviceDetails:
        """History, refused attempts and trust of one device."""

    @abstractmethod
    async def refusals(self) -> list[Refusal]:
        """Refused attempts, newest first, of nobody we know too; like ones are counted together."""

    @abstractmethod
    async def doctor(self, name: str) -> list[Check]:
        """Look for why a device cannot be reached: each check with what was found and what to do."""

    @abstractmethod
    async def watch_pictures(self, devices: list[str], anew: bool = False) -> list[LivePicture]:
        """Keep small pictures of these devices fresh for 15 seconds more, instead of what was wished before.

        They come as `glimpse` of each device. An empty list ends it; `anew` tries again what was refused.
        """

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
    async def find_runs(self, words: str, before: int | None = None, limit: int = 50) -> RunPage:
        """Runs that have all of these words, newest first: in their id, name, devices, tools, actor, state or
        effect, or as `device:lab` in the named one. Nothing in a word is a wildcard or a quote.

        `before` is the `next_before` of the page before. A page may have few runs, and more after it.
        """

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
    async def decide(self, signed: SignedStatement, grant: SignedGrant | None = None) -> Approval:
        """Answer one request with an operator's signed statement; `grant` lets like ones run from now on.

        APPROVAL_INVALID says what is wrong. Where several must approve, it still waits for the others.
        """

    @abstractmethod
    async def edit_approval(self, approval: str, parameters: dict[str, Any]) -> Approval:
        """End this request and ask again with other arguments; the new one names it as `edited_from`."""

    @abstractmethod
    async def preview(self, approval: str) -> Preview:
        """What is there now, beside what this request would do; read through the dispatcher."""

    @abstractmethod
    async def helpers(self, approval: str) -> list[Helper]:
        """Read-only calls that help to decide this request."""

    @abstractmethod
    async def run_helper(self, approval: str, helper: str) -> CommandResult:
        """Make one of those calls now, through the dispatcher like any other."""

    @abstractmethod
    async def fatigue(self, operator: str) -> Fatigue:
        """How this operator has been deciding in the last hour."""

    @abstractmethod
    async def grants(self) -> list[Grant]:
        """Every grant, newest first, with its last use; those that are over too."""

    @abstractmethod
    async def revoke_grant(self, grant: str) -> Grant:
        """Take a grant back at once."""

    @abstractmethod
    async def explanation(
        self, device: str, tool: str, parameters: dict[str, Any], actor: str = ""
    ) -> Explanation:
        """What would be decided of one call, which rules spoke and which nearly did; nothing is sent."""

    @abstractmethod
    async def contract_change(self, device: str, tool_key: str) -> ContractChange:
        """A changed tool as it was trusted, and as it is now: what defines it, and what its device claims."""

    @abstractmethod
    async def policy_text(self) -> PolicyText:
        """policy.toml as it stands."""

    @abstractmethod
    async def check_policy(self, text: str) -> PolicyCheck:
        """What is wrong with a policy's text, and what came of its examples."""

    @abstractmethod
    async def try_policy(self, text: str, limit: int = 200) -> Trial:
        """What this text would have said of the journal's commands; nothing changes."""

    @abstractmethod
    async def save_policy(self, text: str, digest: str, signed: SignedChange | None = None) -> PolicyStatus:
        """Make this text the policy; signed unless it only tightens the accepted one. Refused when it has a
        fault, or the file is not that of `digest`."""

    @abstractmethod
    async def accept_policy(self, digest: str, signed: SignedChange | None = None) -> PolicyStatus:
        """Accept policy.toml as another program left it, which must still be the text of this digest."""

    @abstractmethod
    async def accept_settings(self, signed: SignedChange | None = None) -> PolicyStatus:
        """Accept what settings.toml loosens; it holds when the service starts next."""

    @abstractmethod
    async def hold(self, approval: str, reading: bool) -> Approval:
        """Say that somebody reads this card: its expiry pauses (at most five minutes in all)."""

    @abstractmethod
    async def register_operator(self, operator: Operator, signed: SignedChange | None = None) -> Operator:
        """Make an operator known. The first of a home needs no signature, once; every later one does."""

    @abstractmethod
    async def remove_operator(self, name: str, signed: SignedChange | None = None) -> None:
        """Let an operator decide nothing any more; their grants end. Signed, and never the last one."""

    @abstractmethod
    async def set_profile(self, profile: Profile, signed: SignedChange | None = None) -> PolicyStatus:
        """Choose the profile for every device that has none of its own; written to policy.toml. A laxer one
        is signed."""

    @abstractmethod
    async def stop_all(self) -> str:
        """Let nothing leave the dispatcher from now on; returns what was stopped, in words."""

    @abstractmethod
    async def resume(self, signed: SignedChange | None = None) -> None:
        """Let commands leave again; signed. What was stopped stays stopped."""

    @abstractmethod
    async def entries(self, query: str = "", before: int | None = None, limit: int = 200) -> EntryPage:
        """Journal entries that match a query, newest first, with numbers below `before`."""

    @abstractmethod
    async def entry_numbers(
        self, query: str = "", before: int | None = None, limit: int = 10_000
    ) -> NumberPage:
        """The numbers alone of the entries that match, highest first: at most 10,000 at a time."""

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
    async def verify(self, checkpoint: str | None = None) -> VerifyReport:
        """Recompute the whole journal, blobs included; compare it with a checkpoint that was kept elsewhere.

        JOURNAL_CORRUPT when the checkpoint (a C2SP signed note) is not one of this journal.
        """

    @abstractmethod
    async def blob(self, sha256: str) -> bytes:
        """A stored picture or output. NOT_FOUND, JOURNAL_CORRUPT when its bytes are not what they were."""

    @abstractmethod
    async def timeline(self, run: str | None = None, around: int | None = None) -> Timeline:
        """A run, or the entries around one entry, laid out for replay."""

    @abstractmethod
    async def find_in_results(
        self, words: list[str], run: str | None = None, around: int | None = None
    ) -> ContentHits:
        """Which results of a timeline (as `timeline` lays it out) hold each of these words."""

    @abstractmethod
    async def batches(self) -> list[str]:
        """Names of the batches saved in this home."""

    @abstractmethod
    async def saved_batches(self) -> list[SavedBatch]:
        """The batches saved in this home, by name, with time, size and number of steps."""

    @abstractmethod
    async def load_batch(self, name: str) -> Batch:
        """A saved batch. NOT_FOUND, or INVALID_ARGUMENTS with line numbers."""

    @abstractmethod
    async def save_batch(self, name: str, batch: Batch) -> None:
        """Save a batch. Its name has at most 100 characters, none of them hidden (else INVALID_ARGUMENTS)."""

    @abstractmethod
    async def rename_batch(self, name: str, to: str) -> None:
        """Rename a saved batch. NOT_FOUND; INVALID_ARGUMENTS where `to` is refused as a name or is taken."""

    @abstractmethod
    async def delete_batch(self, name: str) -> None:
        """Delete a saved batch; runs of it stay as they are. NOT_FOUND."""

    @abstractmethod
    async def shut_down(self, cancel_work: bool) -> str:
        """End the service in order. Without `cancel_work` it stays until running work has ended."""

    @abstractmethod
    async def close(self) -> None:
        """Leave; the service goes on."""
