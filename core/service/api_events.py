"""What the door tells of by itself: each event replaces what was to be said of the same thing before."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from core.approvals.models import Approval, Operator
from core.batch.models import Cell, RunSummary
from core.fleet.models import (
    Device,
    Plain,
)
from core.service.api_models import (
    JournalStatus,
    PolicyStatus,
)


class DeviceChanged(Plain):
    """A device's state; replaces the one of the same name."""

    event: Literal["device"] = "device"
    device: Device


class DeviceForgotten(Plain):
    """A device is known no more; replaces what was to be said of it."""

    event: Literal["device_forgotten"] = "device_forgotten"
    name: str


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


class WorkProgressed(Plain):
    """How far long work of the service has come: `done` of `total` journal entries are looked at."""

    event: Literal["work"] = "work"
    what: Literal["verify", "try_policy"]
    done: int
    total: int


class Missed(Plain):
    """This client was too slow: `count` events were dropped. Ask for `state` again."""

    event: Literal["missed"] = "missed"
    count: int


Event = Annotated[
    DeviceChanged
    | DeviceForgotten
    | ApprovalChanged
    | RunChanged
    | CellChanged
    | JournalChanged
    | ControlChanged
    | WorkProgressed
    | Missed,
    Field(discriminator="event"),
]
