"""Data models of batch files, saved batches, plans (dry runs), runs, and what is read of runs."""

from __future__ import annotations

from collections import Counter
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from core.aip.messages import ResultStatus
from core.commands.results import Basis, CommandResult, Verdict
from core.errors import ErrorCode, ErrorInfo
from core.models.frozen import FrozenModel
from core.models.tools import Risk
from core.policy.models import Answer
from core.text import sentences

RunKind = Literal["batch", "call", "undo"]
STEP_ID = r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$"
INPUT_NAME = r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"
LONGEST_QUESTION = 2000
PERCENT = r"^(100|[1-9][0-9]?)%$"


class Absent(Enum):
    """The type of `ABSENT`, which stands for a value that a file does not give. `null` is a value."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


def _is_empty(value: object) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _optional(default: Any = None, **constraints: Any) -> Any:
    """A field that is left out of journal entries and frames while it is empty."""
    return Field(default=default, exclude_if=_is_empty, **constraints)


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


class _FileModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)


class Input(_FileModel):
    """A value that is given when a batch starts. Without a `default` it must be given.

    The value of a `secret` input is journalled and shown only as its commitment.
    """

    type: Literal["string", "integer", "number", "boolean", "list", "object"]
    default: Any = Field(default=ABSENT, exclude_if=lambda value: value is ABSENT)
    secret: bool = False
    description: str = _optional("")
    one_of: list[Any] | None = _optional(None, min_length=1)

    @property
    def required(self) -> bool:
        """Whether a run needs a value for this input."""
        return self.default is ABSENT


class Retry(_FileModel):
    """When and how often a failed step is tried again on its device.

    The first wait takes `backoff` seconds, each further one twice as long; `jitter` is the largest part of a
    wait by which it is randomly made shorter or longer. `on` has the error codes that are tried again; empty
    means each failure of the tool and each code that is retryable. Reads and calls whose contract is
    idempotent are tried again; others only if `not_idempotent` says in a sentence why repeating is right.
    """

    times: int = Field(ge=1, le=10)
    backoff: float = Field(default=1.0, ge=0, le=3600)
    jitter: float = Field(default=0.1, ge=0, le=1)
    on: list[ErrorCode] = Field(default_factory=list)
    not_idempotent: str | None = Field(default=None, min_length=10, max_length=500)


class Step(_FileModel):
    """One call in a batch. `parameters` is written `with` in the file; `timeout` is in seconds.

    `when` and each text of `expect` are CEL expressions (`core.batch.expressions`); the step is skipped where
    `when` is false, and fails where an expectation is. `on_failure` None means `recover` where there are
    recovery steps, and otherwise the batch's. The `recover` steps run in order after this one failed; it
    counts as recovered if all of them succeed that do not say `on_failure: continue`. With `allow_failure` a
    failure of its tool counts as done.
    """

    id: str = Field(pattern=STEP_ID)
    tool: str = Field(min_length=1)
    parameters: dict[str, Any] = Field(default_factory=dict, alias="with")
    timeout: float | None = Field(default=None, gt=0, le=86_400)
    enabled: bool = True
    when: str | None = _optional(None, min_length=1)
    expect: Annotated[list[str], BeforeValidator(_as_list)] = _optional([], max_length=20)
    retry: Retry | None = _optional(None)
    on_failure: Literal["stop", "continue", "recover"] | None = _optional(None)
    recover: list[Step] = _optional([], max_length=20)
    allow_failure: bool = Field(default=False, exclude_if=lambda allowed: not allowed)
    note: str = _optional("")

    @model_validator(mode="after")
    def _recovery_is_whole(self) -> Step:
        if self.on_failure == "recover" and not self.recover:
            raise ValueError("on_failure: recover needs recover steps")
        if self.recover and self.on_failure not in (None, "recover"):
            raise ValueError(f"a step with recover steps cannot say on_failure: {self.on_failure}")
        if self.allow_failure and self.on_failure == "stop":
            raise ValueError("a step that allows its failure cannot say on_failure: stop")
        if any(step.recover for step in self.recover):
            raise ValueError("a recovery step cannot have recovery steps of its own")
        return self


class Parallel(BaseModel):
    """A group of steps that may run at the same time on one device."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    parallel: list[Step] = Field(min_length=1)


class Question(_FileModel):
    """The question of an approval step; its text may have expressions over inputs.

    `approvers` is how many operators must approve; `deadline` in seconds.
    """

    question: str = Field(min_length=1, max_length=LONGEST_QUESTION)
    approvers: int = Field(default=1, ge=1, le=10)
    deadline: float = Field(default=3600.0, gt=0, le=604_800)


class ApprovalStep(_FileModel):
    """A question to operators that is asked once for each wave, not once for each device.

    It is asked when all that stands before it has ended on all devices of the wave.
    """

    id: str = Field(pattern=STEP_ID)
    approval: Question
    when: str | None = _optional(None, min_length=1)
    note: str = _optional("")


Entry = Step | Parallel | ApprovalStep
"""A member of a batch's list of steps."""

Limit = Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=PERCENT)]
"""A number of devices, or a part of them as `N%`."""

Canary = Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=PERCENT + "|:", max_length=500)]
"""A number of devices, a part of them, or a filter of devices with a key, such as `tag:canary`."""


class StopAt(_FileModel):
    """How many devices may end in each way before nothing further is begun. None: any number."""

    failed: Limit | None = _optional(None)
    offline: Limit | None = _optional(None)
    unknown: Limit | None = _optional(None)
    denied: Limit | None = _optional(None)


class Stop(_FileModel):
    """When a run stops: counted over all its devices, and over the devices of each wave."""

    run: StopAt | None = _optional(None)
    wave: StopAt | None = _optional(None)


class Rollout(BaseModel):
    """How a run proceeds over its devices: `parallel` is the number of devices that run at the same time.

    The first wave is the `canary`: so many devices, a part of them, or those of a filter, as `tag:canary`.
    The others follow in waves of `wave` devices. A wave begins when the wave before it has ended. Without
    them all devices are one wave. `core.batch.waves` says which devices are in which wave.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    parallel: int = Field(default=5, ge=1, le=1000)
    canary: Canary | None = _optional(None)
    wave: Limit | None = _optional(None)
    order: Literal["production_last", "as_listed"] = Field(
        default="production_last", exclude_if=lambda value: value == "production_last"
    )
    stop: Stop | None = _optional(None)


class Batch(BaseModel):
    """A batch file: steps and the devices they are meant for, in the format `quarterdeck.batch/1`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    format: Literal["quarterdeck.batch/1"] = "quarterdeck.batch/1"
    name: str = Field(min_length=1, max_length=200)
    description: str = ""
    targets: str = "name:this-computer"
    inputs: dict[Annotated[str, Field(pattern=INPUT_NAME)], Input] = _optional({}, max_length=100)
    on_failure: Literal["stop", "continue"] = "stop"
    rollout: Rollout = Rollout()
    notes: str = _optional("")
    steps: list[Entry] = Field(min_length=1)

    @field_validator("steps")
    @classmethod
    def _ids_are_unique(cls, steps: list[Entry]) -> list[Entry]:
        for step, number in Counter(_ids(steps)).items():
            if number > 1:
                raise ValueError(f"two steps have the id {step!r}")
        return steps


def _ids(entries: list[Entry]) -> list[str]:
    approvals = [entry.id for entry in entries if isinstance(entry, ApprovalStep)]
    return [step.id for step in flatten(entries)] + approvals


def calls(entry: Entry) -> list[Step]:
    """The steps of one entry without their recovery steps; none for an approval step."""
    if isinstance(entry, Parallel):
        return entry.parallel
    return [entry] if isinstance(entry, Step) else []


def flatten(entries: list[Entry]) -> list[Step]:
    """All steps in the order of the file: those of parallel groups in place of the groups, and recovery steps
    after the step that they recover. Approval steps call no tool and are left out."""
    return [step for entry in entries for call in calls(entry) for step in (call, *call.recover)]


class Row(NamedTuple):
    """A step of a run with its tool, `APPROVAL` for an approval step."""

    id: str
    tool: str


APPROVAL = "approval"


def rows(entries: list[Entry]) -> list[Row]:
    """The steps that have cells in a run, in the order of the file: all of `flatten`, and approval steps."""
    return [
        row
        for entry in entries
        for row in (
            [Row(entry.id, APPROVAL)]
            if isinstance(entry, ApprovalStep)
            else [Row(step.id, step.tool) for step in flatten([entry])]
        )
    ]


def with_parameters(batch: Batch, parameters: dict[str, dict[str, Any]]) -> Batch:
    """A copy of the batch with other arguments in each step. `parameters` maps step ids to arguments."""

    def changed(step: Step) -> Step:
        recover = [changed(inner) for inner in step.recover]
        return step.model_copy(update={"parameters": parameters[step.id], "recover": recover})

    def changed_entry(entry: Entry) -> Entry:
        if isinstance(entry, Parallel):
            return entry.model_copy(update={"parallel": [changed(step) for step in entry.parallel]})
        return changed(entry) if isinstance(entry, Step) else entry

    return batch.model_copy(update={"steps": [changed_entry(entry) for entry in batch.steps]})


class PlannedCell(FrozenModel):
    """The predicted outcome of one step on one device.

    `not_known`: the outcome depends on results of the steps in `because`, which no run has yet. `skipped`:
    `when` is false by what is known. `question`: an approval step, which is asked once for each wave.
    `recovers`: a recovery step, which runs only if the step in `because` fails. `approvers`: how many
    operators must approve a step that asks.
    """

    device: str
    step: str
    outcome: Literal[
        "runs",
        "asks",
        "denied",
        "no_such_tool",
        "invalid",
        "offline",
        "off",
        "not_known",
        "skipped",
        "question",
        "recovers",
    ]
    because: list[str] = _optional([])
    answer: Answer | None = None
    risk: Risk | None = None
    approvers: int = 1
    summary: str = ""
    why: str = ""


class Plan(FrozenModel):
    """The result of a dry run: nothing was sent. `took_ms` is the planning time in milliseconds.

    `devices` are in the order in which they begin; `waves` has them wave by wave, where there are several.
    """

    devices: list[str]
    steps: list[str]
    cells: list[PlannedCell]
    production: list[str] = Field(default_factory=list)
    waves: list[list[str]] = _optional([])
    took_ms: float = 0.0


class CellState(StrEnum):
    """The state of one step on one device. `retrying`: it failed and waits for its next attempt."""

    QUEUED = "queued"
    RUNNING = "running"
    RETRYING = "retrying"
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


OPEN_STATES = frozenset(
    {
        CellState.QUEUED,
        CellState.RUNNING,
        CellState.RETRYING,
        CellState.WAITING,
        CellState.CANCEL_ASKED,
    }
)
"""States of a cell that has not ended."""


class Cell(FrozenModel):
    """One step on one device in one run. Times are UTC, ISO 8601. `result` is set when the command has ended.

    `progress` describes the progress in words; `output_tail` is the end of the output so far, of
    `output_size` characters, which `console.runs.output` has. Only some devices report these; they keep the
    last reported value.

    `attempts` counts the commands of this cell; the other fields are those of the last one. `recovered_by`
    are the steps by whose success a failed step counts as done. `settled` is an operator's word about a step
    that had ended: it was done by hand, or it was not done. `carried_from` is the earlier run that did or
    skipped the step; its result is there.
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
    output_size: int = Field(default=0, exclude_if=lambda size: size == 0)
    result: CommandResult | None = None
    attempts: int = Field(default=0, exclude_if=lambda count: count <= 1)
    recovered_by: list[str] = _optional([])
    settled: Literal["", "done", "not_done"] = _optional("")
    settled_by: str = _optional("")
    carried_from: str = _optional("")


def result_of(cell: Cell) -> CommandResult | None:
    """The result of a cell; None while the cell has not ended, and for a cell that an earlier run has done.

    A step that was not started gets a result with the AIP status `skipped`, no call id, and the reason as
    its error.
    """
    if cell.result is not None or cell.state not in (CellState.NOT_STARTED, CellState.SKIPPED):
        return cell.result
    why = cell.note or "the run ended before it was its turn"
    return CommandResult(
        call_id="",
        device=cell.device,
        tool_name=cell.tool,
        status=ResultStatus.SKIPPED,
        verdict=Verdict.CANCELLED,
        basis=Basis.NOTHING_SENT,
        error=ErrorInfo.of(ErrorCode.SKIPPED, sentences(f"Not begun: {why}")),
    )


class RunState(StrEnum):
    """The state of a run. `interrupted`: the service stopped before the run ended."""

    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        """Whether the run has ended."""
        return self not in (RunState.RUNNING, RunState.WAITING, RunState.PAUSED)


class RunSummary(FrozenModel):
    """A run without its cells. `counts` maps each cell state to the number of cells in it.

    `effect` is the decision's summary for the first step, in the batch's order, that has been decided; empty
    before any decision. `resumes` is the ended run that this run continues, `resumed_by` the run that
    continues this one, and `undoes` the run that an undo run undoes. `devices` are in the order in which they
    begin; `waves` is the number of devices in each wave, empty where all are one.
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
    resumes: str = _optional("")
    resumed_by: str = _optional("")
    undoes: str = _optional("")
    waves: list[int] = _optional([])


class CellPage(FrozenModel):
    """The cells of some devices of a run. `next` requests those of further devices; None at the end."""

    run: RunSummary
    cells: list[Cell]
    next: int | None


class Run(FrozenModel):
    """A run with its cells, the batch that it executes, and the values of its inputs, both redacted.

    Of a large run a client gets the cells of the first devices; `next` requests the others, as in `CellPage`.
    """

    summary: RunSummary
    batch: Batch
    cells: list[Cell]
    inputs: dict[str, Any] = _optional({})
    next: int | None = _optional(None)


OutputStream = Literal["stdout", "stderr"]


class OutputPiece(FrozenModel):
    """Output of one stream; `at` is the position of its first character, `time` is UTC, ISO 8601.

    Text between the end of a piece and the next `at` was not kept.
    """

    at: int
    stream: OutputStream
    text: str
    time: str = ""

    @property
    def end(self) -> int:
        """The position after its last character."""
        return self.at + len(self.text)

    def since(self, after: int) -> OutputPiece:
        """The part of this piece from position `after` on."""
        if after <= self.at:
            return self
        return self.model_copy(update={"at": after, "text": self.text[after - self.at :]})


class OutputChunk(FrozenModel):
    """Output from a position on, in order. The next call asks from `next`.

    `more`: further output is kept already. `ended`: the command has ended, so no more will come after that.
    """

    pieces: list[OutputPiece]
    next: int
    more: bool = False
    ended: bool = False

    @property
    def text(self) -> str:
        """The text of both streams, in the order of arrival."""
        return "".join(piece.text for piece in self.pieces)


class ValueDifference(FrozenModel):
    """A place at which two JSON values differ. `path` is a JSON path such as `$.filesystems[0].use_percent`.

    `kind` says whether `before` or `after` is absent there; an absent side is None.
    """

    path: str
    kind: Literal["changed", "added", "removed"] = "changed"
    before: Any = None
    after: Any = None


class CellSide(FrozenModel):
    """One side of a comparison: a cell in one run. `duration_ms` is None without a result."""

    state: CellState
    status: str = ""
    verdict: str = ""
    error: ErrorCode | None = None
    duration_ms: float | None = None


class CellComparison(FrozenModel):
    """One step on one device in two runs. `before` or `after` is None if that run has no such cell.

    `equal`: state, status, verdict, error code, value and pictures are the same; the duration may differ.
    `more` is the number of differences beyond those listed.
    """

    device: str
    step: str
    equal: bool
    before: CellSide | None
    after: CellSide | None
    differences: list[ValueDifference] = Field(default_factory=list)
    more: int = 0


class RunComparison(FrozenModel):
    """Two runs, cell by cell, in the order of the first. `notes` state what makes them hard to compare."""

    before: str
    after: str
    cells: list[CellComparison]
    notes: list[str] = Field(default_factory=list)

    @property
    def equal(self) -> int:
        """The number of cells that are equal."""
        return sum(cell.equal for cell in self.cells)


class UndoFate(StrEnum):
    """The action of an undo run for one call."""

    UNDOES = "undoes"
    NOTHING = "nothing"
    CANNOT = "cannot"
    UNKNOWN = "unknown"
    UNDONE = "undone"
    UNAVAILABLE = "unavailable"


class UndoCell(FrozenModel):
    """The fate of one call of a run, or of a cell without a call, and why.

    `what` describes the call in a sentence. With the fate `undoes`, the call `inverse` with `undo_id` undoes
    it, and `answer` is the policy's decision about that call now; None if it would be refused, as `why` says.
    """

    device: str
    step: str
    tool: str
    fate: UndoFate
    why: str = ""
    what: str = ""
    call_id: str | None = None
    inverse: str = ""
    undo_id: str = ""
    answer: Answer | None = None


class UndoPlan(FrozenModel):
    """The calls of a run's undo, in the order in which each device would be asked; nothing is sent.

    `summary` states it in one sentence. `digest` identifies the calls that would be made.
    """

    run: str
    summary: str
    digest: str
    cells: list[UndoCell] = Field(default_factory=list)

    @property
    def calls(self) -> list[UndoCell]:
        """The cells that would be undone."""
        return [cell for cell in self.cells if cell.fate is UndoFate.UNDOES]


MOST_ASKED = 50
"""Maximum number of expressions that are tried at once."""

LONGEST_VALUE = 2_000
"""Maximum number of characters of a value that is shown, as JSON."""

Place = Literal["when", "expect", "with"]
"""Which part of a step an expression stands in; `with` is a text in its arguments."""


class Readable(FrozenModel):
    """A value that an expression may read.

    `path` is what an expression writes: `steps.disk.result.free_bytes`. `type` is its type in words; `value`
    its value in an earlier run as JSON, shortened. Both are empty where they are not known.
    """

    path: str
    type: str = ""
    value: str = ""


class AskedExpression(FrozenModel):
    """A text with expressions at a place of a step."""

    place: Place
    text: str


class ExpressionTrial(FrozenModel):
    """An expression's place, type and value.

    `problem` says what is wrong with it, at `line` and `column`, which count from 1 in the text between the
    brackets. `value` is JSON, at most `LONGEST_VALUE` characters of it; `unknown` says why there is none.
    """

    problem: str = ""
    line: int = 1
    column: int = 1
    type: str = ""
    value: str = ""
    unknown: str = ""


class ExpressionTrials(FrozenModel):
    """The values that conditions of a step may read, and a trial of each asked expression, in order.

    Results are those of the earlier run `run` on `device`; both are empty without one.
    """

    readable: list[Readable]
    trials: list[ExpressionTrial]
    run: str = ""
    device: str = ""
