"""A batch as a file, a plan of it, and a run of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from core.dispatch.models import CommandResult
from core.fleet.models import Plain, Risk
from core.policy.models import Answer

STEP_ID = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"


class Step(BaseModel):
    """One call in a batch. `with` in the file; `timeout` in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    id: str = Field(pattern=STEP_ID)
    tool: str = Field(min_length=1)
    parameters: dict[str, Any] = Field(default_factory=dict, alias="with")
    timeout: float | None = Field(default=None, gt=0, le=86_400)
    enabled: bool = True


class Parallel(BaseModel):
    """Steps that may run at the same time on one device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parallel: list[Step] = Field(min_length=1)


class Rollout(BaseModel):
    """How a run spreads over its devices."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parallel: int = Field(default=5, ge=1, le=1000)


class Batch(BaseModel):
    """A file of steps, format `quarterdeck.batch/1`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["quarterdeck.batch/1"] = "quarterdeck.batch/1"
    name: str = Field(min_length=1, max_length=200)
    description: str = ""
    targets: str = "name:this-computer"
    on_failure: Literal["stop", "continue"] = "stop"
    rollout: Rollout = Rollout()
    steps: list[Step | Parallel] = Field(min_length=1)

    @field_validator("steps")
    @classmethod
    def _ids_are_unique(cls, steps: list[Step | Parallel]) -> list[Step | Parallel]:
        seen: set[str] = set()
        for step in flatten(steps):
            if step.id in seen:
                raise ValueError(f"two steps have the id {step.id!r}")
            seen.add(step.id)
        return steps


def flatten(steps: list[Step | Parallel]) -> list[Step]:
    """All steps in the order they are written, groups opened."""
    return [one for step in steps for one in (step.parallel if isinstance(step, Parallel) else [step])]


class PlannedCell(Plain):
    """What would happen to one step on one device."""

    device: str
    step: str
    outcome: Literal["runs", "asks", "denied", "no_such_tool", "invalid", "offline", "off"]
    answer: Answer | None = None
    risk: Risk | None = None
    summary: str = ""
    why: str = ""


class Plan(Plain):
    """A dry run: nothing was sent. `took_ms` is how long planning took."""

    devices: list[str]
    steps: list[str]
    cells: list[PlannedCell]
    production: list[str] = Field(default_factory=list)
    took_ms: float = 0.0


class CellState(StrEnum):
    """Where one step on one device stands."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    CANCEL_ASKED = "cancel_asked"
    SKIPPED = "skipped"
    NOT_STARTED = "not_started"
    NO_SUCH_TOOL = "no_such_tool"


class SavedBatch(Plain):
    """A batch saved in a home. `changed_at` is UTC, ISO 8601; `steps` is None for a file that is not a valid
    batch, or too large to be counted for a list."""

    name: str
    changed_at: str
    size_bytes: int
    steps: int | None


class Cell(Plain):
    """One step on one device in one run. Times are UTC, ISO 8601; `result` is set when it has ended.

    `progress` says in words how far it has come, `output_tail` is the last of what it printed; both are only
    of devices that tell, and stay as they were last heard.
    """

    run: str
    device: str
    step: str
    tool: str
    state: CellState
    call_id: str | None = None
    approval: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    note: str = ""
    progress: str = ""
    output_tail: str = ""
    result: CommandResult | None = None


class RunState(StrEnum):
    """Where a run stands. `interrupted`: the service ended under it."""

    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen in this run."""
        return self not in (RunState.RUNNING, RunState.WAITING)


class RunSummary(Plain):
    """A run in one line. `counts` maps cell states to how many cells are in them.

    `effect` says what the first step that was decided on does, in the decision's words; empty before that.
    """

    id: str
    name: str
    kind: Literal["batch", "call"]
    actor: str
    state: RunState
    devices: list[str]
    devices_hash: str
    steps: list[str]
    tools: list[str]
    counts: dict[CellState, int]
    started_at: str
    ended_at: str | None = None
    note: str = ""
    effect: str = ""


class Run(Plain):
    """A run with all its cells and the batch that it executes."""

    summary: RunSummary
    batch: Batch
    cells: list[Cell]
