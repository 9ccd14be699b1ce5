"""What the fake console knows, and how a test changes it; the other modules answer out of this."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from core.approvals.fatigue import FatigueMeter
from core.approvals.models import Approval, ApprovalState, Operator
from core.approvals.preview_models import Helper, Preview
from core.approvals.queue_order import in_queue_order
from core.audit.entries import Entry, Kind
from core.batch.models import Batch
from core.changes import Proposal, SignedChange
from core.errors import BadInput, ErrorCode
from core.fleet.models import Check, DeviceCertificates, Listening
from core.models.devices import Device
from core.models.tools import Contract, Tool
from core.policy.agents import Agents
from core.policy.grant_book import GrantBook
from core.policy.grants import Grant
from core.policy.models import Profile
from core.policy.policy_file import with_profile
from core.service.console import (
    AgentCommand,
    AgentConnection,
    AgentTally,
    ApprovalChanged,
    ControlChanged,
    DeviceChanged,
    JournalChanged,
    PolicyStatus,
)
from core.service.held_settings import loosening_settings
from core.settings import Settings
from tests.fakes.fleet_data import CHANGED_KEY, FINGERPRINT, make_devices, make_tools
from tests.fakes.journal import FakeJournal
from tests.fakes.policy_data import RULES
from tests.fakes.runs import FakeRuns
from tests.fakes.table_console import TableConsole
from tests.fakes.tool_changes import trusted_definition


class KnownState(TableConsole):
    """The state of one console, in attributes that a test may read and change."""

    def __init__(
        self,
        devices: list[Device] | None = None,
        operators: list[Operator] | None = None,
        profile: Profile = Profile.GUARDED,
        first_seq: int = 1,
    ) -> None:
        """`first_seq` is the number of the journal's first entry."""
        super().__init__()
        chosen = make_devices() if devices is None else devices
        self.tools_of: dict[str, list[Tool]] = {device.name: make_tools(device) for device in chosen}
        self.fleet = {
            device.name: device.model_copy(update={"tool_count": len(self.tools_of[device.name])})
            for device in chosen
        }
        self._know_devices()
        self._know_agents()
        self._know_requests()
        self._know_policy(profile)
        self.operators = list(operators or [])
        # The operator that the client proved to be; every signature that was taken, oldest first.
        self.proved = ""
        self.signed: list[SignedChange] = []
        # A function that alters what `propose` answers.
        self.answer_proposal: Callable[[Proposal], Proposal] | None = None
        self.stopped, self.stopped_note = False, ""
        self.fake_journal = FakeJournal(first_seq)
        self.saved: dict[str, Batch] = {}
        # A tool's result from now on, by device and tool.
        self.answer_with: dict[tuple[str, str], Any] = {}
        self.work = FakeRuns(self)

    def _know_devices(self) -> None:
        self.listens = Listening(
            address="0.0.0.0:5000",
            url="wss://harbour.lan:5000/ws",
            secure=True,
            fingerprint=FINGERPRINT,
            refused=14,
        )
        self.next_certificate = ""
        # Rows with a `why` have not taken the next certificate.
        self.certificate_rows: list[DeviceCertificates] = []
        # What the doctor finds; None: what fits the device's health.
        self.checks: list[Check] | None = None
        # Of devices that give no live pictures, why.
        self.unwatchable: dict[str, str] = {}
        # Trusted definitions of changed tools by device and key (missing: not kept), and their contracts.
        self.definitions_before: dict[tuple[str, str], dict[str, Any]] = {
            (device, CHANGED_KEY): trusted_definition(tool)
            for device, tools in self.tools_of.items()
            for tool in tools
            if tool.tool_key == CHANGED_KEY
        }
        self.contracts_before: dict[tuple[str, str], Contract] = {}

    def _know_agents(self) -> None:
        self.fake_agents = Agents()
        self.agent_connections: defaultdict[str, list[AgentConnection]] = defaultdict(list)
        self.agent_commands: defaultdict[str, list[AgentCommand]] = defaultdict(list)
        self.agent_tallies: dict[str, AgentTally] = {}
        self.agent_waiting: dict[str, int] = {}
        self.agent_open_runs: dict[str, int] = {}

    def _know_requests(self) -> None:
        self.queue: dict[str, Approval] = {}
        # By request; else made from the arguments, and `files` by device and path.
        self.previews: dict[str, Preview] = {}
        self.helpful: dict[str, list[Helper]] = {}
        self.files: dict[tuple[str, str], str] = {}
        # Older grants, newest first, and those that are given now.
        self.given: list[Grant] = []
        self.grant_book = GrantBook()
        # The warning about hasty answers; how long each answer takes, in seconds.
        self.tired, self.took_s = "", 6.0
        self.meter = FatigueMeter()

    def _know_policy(self, profile: Profile) -> None:
        self.policy_status = PolicyStatus(
            profile=profile, path="/home/harbour/.local/share/quarterdeck/policy.toml"
        )
        self.policy_on_disk = with_profile(RULES, profile)
        # The text that was accepted last, where policy.toml is another one.
        self.accepted_policy: str | None = None
        # How many pictures of live walls the journal has, and how many of them a trial would refuse.
        self.live_pictures = (1240, 0)
        # settings.toml as it stands, and what of it was accepted.
        self.settings = Settings()
        self.accepted_settings = loosening_settings(Settings())

    @property
    def actor(self) -> str:  # type: ignore[override]  # a client becomes an operator by proving it
        """As whom the journal has what this client asks for."""
        return f"operator:{self.proved}" if self.proved else "window:harbour"

    @property
    def accepted_text(self) -> str:
        """The policy that was accepted last."""
        return self.policy_on_disk if self.accepted_policy is None else self.accepted_policy

    def device(self, name: str) -> Device:
        """A device by its name. UNKNOWN_DEVICE."""
        if name not in self.fleet:
            raise BadInput(f"There is no device {name!r}.", ErrorCode.UNKNOWN_DEVICE)
        return self.fleet[name]

    def tool_named(self, device: str, tool: str) -> Tool:
        """A device's tool by its name, `namespace.name` or key. UNKNOWN_DEVICE, UNKNOWN_TOOL."""
        self.device(device)
        for one in self.tools_of[device]:
            if tool in (one.tool_name, f"{one.namespace}.{one.tool_name}", one.tool_key):
                return one
        raise BadInput(f"{device} has no tool {tool!r}.", ErrorCode.UNKNOWN_TOOL)

    def waiting(self) -> list[Approval]:
        """The requests that wait, highest risk first, then oldest."""
        waiting = [one for one in self.queue.values() if one.state is ApprovalState.WAITING]
        return in_queue_order(waiting)

    # What changes it, and says so by an event

    def change_device(self, name: str, **changes: Any) -> Device:
        """Change fields of a device."""
        return self.put_device(self.fleet[name].model_copy(update=changes))

    def put_device(self, device: Device) -> Device:
        """Let there be a device, or change it."""
        self.fleet[device.name] = device
        self.emit(DeviceChanged(device=device))
        return device

    def write(self, kind: Kind, actor: str, **fields: Any) -> Entry:
        """Add a journal entry."""
        entry = self.fake_journal.write(kind, actor, **fields)
        self.emit(JournalChanged(journal=self.fake_journal.status))
        return entry

    def request(self, approval: Approval) -> None:
        """Put a request into the queue, or replace it there."""
        self.queue[approval.id] = approval
        self.emit(ApprovalChanged(approval=approval))

    def tell_control(self) -> None:
        """Tell every listener how policy, operators and Stop all stand."""
        self.emit(
            ControlChanged(
                stopped=self.stopped,
                stopped_note=self.stopped_note,
                policy=self.policy_status,
                operators=list(self.operators),
            )
        )
