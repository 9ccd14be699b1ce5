"""What the window knows, as plain data, and fine-grained signals that say which part of it is new.

State comes down from the service through `ConsoleLink`, which is the only writer. Screens read the plain
attributes and connect to signals; they never change anything here. Signals are coalesced: however many events
arrive, each signal is emitted at most 30 times a second, and always after the data is complete. A burst of
cells goes out in slices, so that no turn of the loop is long.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from PySide6.QtCore import QObject, QTimer, Signal

from core.approvals.models import Approval, ApprovalState, Operator
from core.approvals.queue_order import in_queue_order
from core.batch.models import Cell, RunSummary
from core.models.devices import Device, Health
from core.secret_rule import KNOWN_NAMES, SecretNames
from core.service.console import (
    AgentChanged,
    AgentRemoved,
    AgentState,
    ApprovalChanged,
    CellChanged,
    ConsoleState,
    ControlChanged,
    DeviceChanged,
    DeviceForgotten,
    Event,
    JournalChanged,
    JournalStatus,
    PolicyStatus,
    RunChanged,
    WorkProgressed,
)

UPDATE_INTERVAL_MS = 33
# A thousand cells at once would hold the window for longer than a frame: so many go out in one turn of its
# loop.
CELLS_A_TURN = 150
# A card or a row may still show a request that has ended: so many ends are known without asking for each.
ENDS_KEPT = 1000
NEXT_CELLS_MS = 1


class Link(StrEnum):
    """How the window stands to its service."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The line to the service. `problem` is words for the operator; `attempt` counts tries since the loss.

    `next_try_s` is the pause before the next try; `round_trip_ms` the time of the latest answer.
    """

    link: Link = Link.CONNECTING
    problem: str = ""
    attempt: int = 0
    next_try_s: float = 0.0
    round_trip_ms: float | None = None


class AppState(QObject):
    """The window's copy of the service's state.

    Signals:
        devices_changed: a device came, went or is different; read `devices`.
        agents_changed: an agent came, went or stands otherwise; read `agents`.
        approvals_changed: the queue is different; read `approvals`, and `ended_approvals` for what left it.
        runs_changed(run): this run's summary is different; an empty name means that any may be.
        cell_changed(cell): one cell of a run, as a `Cell`; the newest of each cell since the last signal.
            Many come over several turns of the loop; `runs_changed` waits until all of them are out.
        journal_changed: read `journal`.
        control_changed: profile, policy, operators or Stop all; read `policy`, `operators`, `stopped`.
        service_changed: read `service`.
        work_changed: long work of the service has come further; read `work`.
        reset: everything was read again (start, reconnect, missed events). Screens that show things read
            through the door (a run's cells, journal rows) read them again. The signals above follow it.
    """

    devices_changed = Signal()
    agents_changed = Signal()
    approvals_changed = Signal()
    runs_changed = Signal(str)
    cell_changed = Signal(object)
    journal_changed = Signal()
    control_changed = Signal()
    service_changed = Signal()
    work_changed = Signal()
    reset = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.service = ServiceStatus()
        self.loaded = False
        self.version = ""
        self.home = ""
        self.home_key = ""
        self.service_started_at = ""
        self.service_pid = 0
        self.devices: dict[str, Device] = {}
        self.agents: dict[str, AgentState] = {}
        self.approvals: dict[str, Approval] = {}
        self.ended_approvals: dict[str, Approval] = {}
        self.runs: dict[str, RunSummary] = {}
        self.journal: JournalStatus | None = None
        self.policy: PolicyStatus | None = None
        self.operators: list[Operator] = []
        self.secret_names = KNOWN_NAMES
        self.stopped = False
        self.stopped_note = ""
        # Of `verify` and `try_policy`: how many of how many entries have been looked at.
        self.work: dict[str, tuple[int, int]] = {}
        self._dirty: set[str] = set()
        self._dirty_runs: set[str] = set()
        self._cells: dict[tuple[str, str, str], Cell] = {}
        self._last_flush = 0.0
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.flush)
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(NEXT_CELLS_MS)
        self._rest.timeout.connect(self._emit_cells)

    def health_counts(self) -> dict[Health, int]:
        """How many devices are in each health, zero included."""
        counts = dict.fromkeys(Health, 0)
        for device in self.devices.values():
            counts[device.health] += 1
        return counts

    def waiting(self) -> list[Approval]:
        """What waits for an operator, in the order of the queue."""
        return in_queue_order(self.approvals.values())

    def runs_newest_first(self) -> list[RunSummary]:
        """The runs that are known here; older ones are read through the door."""
        return sorted(self.runs.values(), key=lambda run: (run.started_at, run.id), reverse=True)

    def open_runs(self) -> list[RunSummary]:
        """The runs that have not ended."""
        return [run for run in self.runs_newest_first() if not run.state.ended]

    def replace(self, state: ConsoleState) -> None:
        """Take over a first picture, or one that was read again after events were missed."""
        self.version, self.home, self.home_key = state.version, state.home, state.home_key
        self.service_started_at, self.service_pid = state.service_started_at, state.service_pid
        self.devices = {device.name: device for device in sorted(state.devices, key=lambda one: one.name)}
        self.agents = {agent.name: agent for agent in state.agents}
        self.approvals = {one.id: one for one in state.approvals if one.state is ApprovalState.WAITING}
        self.runs = {run.id: run for run in state.runs}
        self.journal, self.policy = state.journal, state.policy
        self.operators = list(state.operators)
        self.secret_names = SecretNames(state.secret_names)
        self.stopped, self.stopped_note = state.stopped, state.stopped_note
        self.loaded = True
        self._cells.clear()
        self._dirty_runs = {""}
        self._mark("reset", "devices", "agents", "approvals", "runs", "journal", "control")

    def apply(self, event: Event) -> None:
        """Take over one event; `Missed` is the link's business."""
        match event:
            case DeviceChanged(device=device):
                known = device.name in self.devices
                self.devices[device.name] = device
                if not known:
                    self.devices = dict(sorted(self.devices.items()))
                self._mark("devices")
            case DeviceForgotten(name=name):
                self.devices.pop(name, None)
                self._mark("devices")
            case AgentChanged(agent=agent):
                self.agents[agent.name] = agent
                self._mark("agents")
            case AgentRemoved(name=name):
                self.agents.pop(name, None)
                self._mark("agents")
            case ApprovalChanged(approval=approval):
                self._take_approval(approval)
                self._mark("approvals")
            case RunChanged(run=run):
                self.runs[run.id] = run
                self._dirty_runs.add(run.id)
                self._mark("runs")
            case CellChanged(cell=cell):
                self._cells[cell.run, cell.device, cell.step] = cell
                self._mark("cells")
            case JournalChanged(journal=journal):
                self.journal = journal
                self._mark("journal")
            case ControlChanged():
                self.stopped, self.stopped_note = event.stopped, event.stopped_note
                self.policy, self.operators = event.policy, list(event.operators)
                self._mark("control")
            case WorkProgressed(what=what, done=done, total=total):
                self.work[what] = (done, total)
                self._mark("work")
            case _:
                pass

    def _take_approval(self, approval: Approval) -> None:
        if approval.state is ApprovalState.WAITING:
            self.approvals[approval.id] = approval
            self.ended_approvals.pop(approval.id, None)
            return
        self.approvals.pop(approval.id, None)
        self.ended_approvals[approval.id] = approval
        for oldest in list(islice(self.ended_approvals, max(0, len(self.ended_approvals) - ENDS_KEPT))):
            del self.ended_approvals[oldest]

    def set_service(self, status: ServiceStatus) -> None:
        """Say how the line to the service is."""
        if status != self.service:
            self.service = status
            self._mark("service")

    def _mark(self, *parts: str) -> None:
        self._dirty.update(parts)
        if not self._timer.isActive():
            since = (time.monotonic() - self._last_flush) * 1000
            self._timer.start(max(0, round(UPDATE_INTERVAL_MS - since)))

    def flush(self) -> None:
        """Emit what is due now; of many cells only the first, the rest follows in turns of its own."""
        self._timer.stop()
        self._last_flush = time.monotonic()
        self._emit_parts()
        self._emit_cells()

    def _emit_parts(self) -> None:
        dirty, self._dirty = self._dirty, set()
        if "reset" in dirty:
            self.reset.emit()
        for part, signal in (
            ("service", self.service_changed),
            ("control", self.control_changed),
            ("devices", self.devices_changed),
            ("agents", self.agents_changed),
            ("approvals", self.approvals_changed),
            ("journal", self.journal_changed),
            ("work", self.work_changed),
        ):
            if part in dirty:
                signal.emit()

    def _emit_cells(self) -> None:
        for place in list(islice(self._cells, CELLS_A_TURN)):
            # A slot may have the state read again.
            if (cell := self._cells.pop(place, None)) is not None:
                self.cell_changed.emit(cell)
        if self._cells:
            self._rest.start()
            return
        # After the cells: the end of a run makes `interrupted` of every cell that is not known to have ended.
        runs, self._dirty_runs = self._dirty_runs, set()
        for run in [""] if "" in runs else sorted(runs):
            self.runs_changed.emit(run)
