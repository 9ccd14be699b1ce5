"""Data models of batch files, saved batches, plans (dry runs) and runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from core.dispatch.models import CommandResult
from core.fleet.models import FrozenModel, Risk
from core.policy.models import Answer

RunKind = Literal["batch", "call", "undo"]
STEP_ID = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"


class Step(BaseModel):
    """One call in a batch. `parameters` is written `with` in the file; `timeout` is in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    id: str = Field(pattern=STEP_ID)
    tool: str = Field(min_length=1)
    parameters: dict[str, Any] = Field(default_factory=dict, alias="with")
    timeout: float | None = Field(default=None, gt=0, le=86_400)
    enabled: bool = True


class Parallel(BaseModel):
    """A group of steps that may run at the same time on one device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parallel: list[Step] = Field(min_length=1)


class Rollout(BaseModel):
    """How a run proceeds over its devices: `parallel` is the number of devices that run at the same time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parallel: int = Field(default=5, ge=1, le=1000)


class Batch(BaseModel):
    """A batch file: steps and the devices they are meant for, in the format `quarterdeck.batch/1`."""

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
    """All steps in the order of the file, with the steps of parallel groups in place of the groups."""
    return [one for step in steps for one in (step.parallel if isinstance(step, Parallel) else [step])]


class PlannedCell(FrozenModel):
    """The predicted outcome of one step on one device."""

    device: str
    step: str
    outcome: Literal["runs", "asks", "denied", "no_such_tool", "invalid", "offline", "off"]
    answer: Answer | None = None
    risk: Risk | None = None
    summary: str = ""
    why: str = ""


class Plan(FrozenModel):
    """The result of a dry run: nothing was sent. `took_ms` is the planning time in milliseconds."""

    devices: list[str]
    steps: list[str]
    cells: list[PlannedCell]
    production: list[str] = Field(default_factory=list)
    took_ms: float = 0.0


class CellState(StrEnum):
    """The state of one step on one device."""

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


class SavedBatch(FrozenModel):
    """A batch saved in a home folder. `changed_at` is UTC, ISO 8601. `steps` is the number of steps; None if
    the file is not a valid batch, or larger than `core.batch.saved.COUNTED_BYTES`."""

    name: str
    changed_at: str
    size_bytes: int
    steps: int | None


class Cell(FrozenModel):
    """One step on one device in one run. Times are UTC, ISO 8601. `result` is set when the command has ended.

    `progress` describes the progress in words; `output_tail` is the end of the output so far, of
    `output_size` characters, which `console.runs.output` has. Only some devices report these; they keep the
    last reported value.
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
    output_size: int = 0
    result: CommandResult | None = None


class RunState(StrEnum):
    """The state of a run. `interrupted`: the service stopped before the run ended."""

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
        """Whether the run has ended."""
        return self not in (RunState.RUNNING, RunState.WAITING)


class RunSummary(FrozenModel):
    """A run without its cells. `counts` maps each cell state to the number of cells in it.

    `effect` is the decision's summary for the first step, in the batch's order, that has been decided; empty
    before any decision. `undoes` is the run that an undo run undoes.
    """

    id: str
    name: str
    kind: RunKind
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
    undoes: str = ""


class Run(FrozenModel):
    """A run with its cells and the batch that it executes, redacted."""

    summary: RunSummary
    batch: Batch
    cells: list[Cell]
