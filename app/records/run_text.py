"""Runs and their cells in words and looks: what they count as, how long they took, who said no."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from app.text import count_words, left_words, one_line, parse_time, person_words, plural, with_nothing_sent
from app.theme.state_looks import StateLook, cell_look
from core.batch.models import ApprovalStep, Cell, CellState, Run, RunState, RunSummary, Step, flatten
from core.commands.results import Basis, CommandResult, Verdict
from core.commitments import marked_objects
from core.errors import ErrorCode
from core.text import shorten_middle

_OPEN = (CellState.RUNNING, CellState.RETRYING, CellState.WAITING, CellState.CANCEL_ASKED)
NEEDS_A_LOOK = frozenset({"waiting", "failed", "refused", "unknown", "no_effect", "interrupted"})
SECRET_DOTS = "•••"
LOOK_FILTER = "needs_a_look"


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that are counted together; `looks` are the keys of `look_key`, the first one gives the shape."""

    key: str
    words: str
    short: str
    looks: tuple[str, ...]
    bar: str


GROUPS = (
    Group(
        "done",
        "done",
        "done",
        ("confirmed", "unverified", "done", "done_by_hand", "recovered", "done_before"),
        "ok",
    ),
    Group("running", "running", "running", ("running", "retrying", "cancel_asked"), "accent_fill"),
    Group("waiting", "waits for you", "waits", ("waiting",), "waiting"),
    Group("unknown", "unknown", "unknown", ("unknown",), "unknown"),
    Group("failed", "failed", "failed", ("failed",), "fail"),
    Group("interrupted", "interrupted", "interrupted", ("interrupted",), "fail"),
    Group("refused", "refused", "refused", ("refused",), "fail"),
    Group("no_effect", "no effect", "no effect", ("no_effect",), "warn"),
    Group("cancelled", "cancelled", "cancelled", ("cancelled",), "text3"),
    Group("to_go", "to go", "to go", ("queued",), "border2"),
    Group(
        "idle", "skipped or not started", "not started", ("skipped", "not_started", "no_such_tool"), "border"
    ),
)
_GROUP_OF = {look: group.key for group in GROUPS for look in group.looks}

BASIS_WORDS: dict[Basis, str] = {
    Basis.READ_RESPONSE: "the device answered the question",
    Basis.POSTCONDITION: "observed",
    Basis.DEVICE_CLAIM: "the device says so",
    Basis.DEVICE_REPORTED_FAILURE: "the device says that it failed",
    Basis.DEVICE_REFUSED: "the device refused it",
    Basis.NOTHING_SENT: "nothing was sent",
    Basis.NO_ANSWER: "no answer came: look before running again",
    Basis.UNUSABLE_ANSWER: "the answer could not be used: look before running again",
    Basis.DEVICE_DOES_NOT_KNOW: "the device does not know: look before running again",
    Basis.DEVICE_CONFIRMED_CANCEL: "the device confirmed that it stopped",
}


def look_key(cell: Cell, run_ended: bool) -> str:
    """What the cell looks like: a verdict or a cell state of `app.theme.state_looks`.

    In a run that has ended, what was still under way was interrupted by the end of the service.
    """
    if cell.state is CellState.DONE:
        if cell.settled or cell.recovered_by or cell.carried_from:
            # The result, if there is one, is that of the command which failed.
            return "done_by_hand" if cell.settled else "recovered" if cell.recovered_by else "done_before"
        verdict = cell.result.verdict if cell.result else None
        claimed = (Verdict.CONFIRMED, Verdict.UNVERIFIED, Verdict.NO_EFFECT)
        return verdict.value if verdict in claimed and verdict is not None else "done"
    if cell.state is CellState.FAILED and cell.result and cell.result.verdict is Verdict.UNKNOWN:
        # A read whose answer was lost counts as failed for what the run does next; what it says is that
        # nothing is known, here as in the journal and in a replay.
        return "unknown"
    if run_ended and cell.state in _OPEN:
        return "interrupted"
    if run_ended and cell.state is CellState.QUEUED:
        return "not_started"
    return cell.state.value


def group_of(look: str) -> str:
    """The group that a look is counted in."""
    return _GROUP_OF.get(look, "unknown")


def matches(look: str, chosen: str) -> bool:
    """Whether a cell of this look belongs to the chosen filter: a group, or what needs a look."""
    return look in NEEDS_A_LOOK if chosen == LOOK_FILTER else group_of(look) == chosen


def run_look(state: RunState) -> StateLook:
    """The look of a run's state; a waiting one is short, for the list."""
    look = cell_look(state.value)
    return StateLook("waits", look.glyph, look.color, look.word_color) if state is RunState.WAITING else look


def cells_words(summary: RunSummary) -> str:
    """How much is done: `18 of 42`."""
    total = len(summary.devices) * len(summary.steps)
    done = summary.counts.get(CellState.DONE, 0)
    return f"{count_words(done)} of {count_words(total)}"


def actor_words(actor: str) -> str:
    """Who started it."""
    return one_line(person_words(actor))


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Seconds from one stamp to another, to now when there is no second; None without a first."""
    if not start:
        return None
    finish = parse_time(end) if end else datetime.now(UTC)
    return max(0.0, (finish - parse_time(start)).total_seconds())


def short_time(seconds: float | None) -> str:
    """`12 ms`, `0.2 s`, `41 s`, `1:12`, `1:02:09`; nothing for None."""
    if seconds is None:
        return ""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else left_words(seconds)


def whole_seconds(seconds: float | None) -> str:
    """As `short_time`, for what still goes on: `9 s`, not `9.4 s`."""
    if seconds is None:
        return ""
    return f"{int(seconds)} s" if seconds < 10 else short_time(float(int(seconds)))


def cell_time(cell: Cell, look: str) -> str:
    """How long the cell took, or has been running or waiting so far."""
    if look in ("running", "waiting", "cancel_asked"):
        return whole_seconds(seconds_between(cell.started_at, None))
    if look in ("refused", "no_such_tool") or cell.started_at is None:
        return ""
    if cell.result is not None and cell.result.duration_ms:
        return short_time(cell.result.duration_ms / 1000)
    return short_time(seconds_between(cell.started_at, cell.ended_at)) if cell.ended_at else ""


def cell_words(cell: Cell, look: str) -> str:
    """The cell as it is read aloud and shown as a tooltip."""
    parts = [f"{one_line(cell.device)}, {one_line(cell.step)}: {cell_look(look).word}", cell_time(cell, look)]
    if cell.note:
        parts.append(one_line(cell.note))
    return ", ".join(part for part in parts if part)


def elapsed_words(summary: RunSummary) -> str:
    """How long the run went on, or has been going on so far."""
    if not summary.started_at or (summary.state.ended and not summary.ended_at):
        return ""
    seconds = seconds_between(summary.started_at, summary.ended_at)
    return short_time(seconds) if summary.state.ended else whole_seconds(seconds)


def verdict_words(result: CommandResult) -> str:
    """The verdict and what it rests on: `unverified: the device says so`."""
    return f"{cell_look(result.verdict.value).word}: {BASIS_WORDS[result.basis]}"


def who_refused(cell: Cell, decided_by: str = "") -> tuple[str, str]:
    """A refusal as a fact (by whom) and a detail (why). Nothing was sent, unless the device said no."""
    error = cell.result.error if cell.result else None
    why = one_line(error.message if error else cell.note)
    basis = cell.result.basis if cell.result else Basis.NOTHING_SENT
    if basis is Basis.DEVICE_REFUSED or (error and error.code is ErrorCode.DENIED_BY_DEVICE):
        return f"Refused by the device {one_line(cell.device)}.", why
    by = {
        ErrorCode.DENIED_BY_OPERATOR: f"Refused by {one_line(decided_by) or 'an operator'}.",
        ErrorCode.DENIED_BY_POLICY: "Refused by the policy.",
        ErrorCode.APPROVAL_EXPIRED: "Refused: the request expired.",
        ErrorCode.STOPPED: "Refused: everything was stopped.",
        ErrorCode.CONTRACT_CHANGED: "Refused: the tool is not what was trusted.",
    }.get(error.code if error else ErrorCode.DENIED_BY_POLICY, "Refused.")
    return by, with_nothing_sent(why)


def step_of(run: Run, step: str) -> Step | None:
    """A step of the run's batch by its id."""
    return next((one for one in flatten(run.batch.steps) if one.id == step), None)


def rules_of(run: Run, step: str) -> list[tuple[str, str]]:
    """What the batch says of a step beside its call, as labels and words: when it runs, what is expected."""
    entry = next((one for one in run.batch.steps if isinstance(one, ApprovalStep) and one.id == step), None)
    if entry is not None:
        asked = [("Asks", one_line(entry.approval.question)), ("When", one_line(entry.when or ""))]
        return [(label, words) for label, words in asked if words]
    found = step_of(run, step)
    if found is None:
        return []
    retry = ""
    if found.retry is not None:
        codes = f" on {', '.join(code.value for code in found.retry.on)}" if found.retry.on else ""
        retry = f"up to {plural(found.retry.times, 'time')}{codes}, {found.retry.backoff:g} s apart at first"
    recovers = next((one.id for one in flatten(run.batch.steps) if step in [r.id for r in one.recover]), "")
    rules = [
        ("When", one_line(found.when or "")),
        ("Expects", one_line("; ".join(found.expect))),
        ("Retried", retry),
        ("Recovered by", one_line(", ".join(inner.id for inner in found.recover))),
        ("Recovers", one_line(recovers)),
        ("Step says", one_line(found.note)),
    ]
    return [(label, words) for label, words in rules if words]


def inputs_words(run: Run) -> str:
    """The values of the run's inputs on one line; secret ones as dots."""
    return ", ".join(f"{name} = {_input_words(value)}" for name, value in run.inputs.items())


def _input_words(value: object) -> str:
    if next(marked_objects(value), None) is not None:
        return SECRET_DOTS
    return shorten_middle(one_line(value if isinstance(value, str) else json.dumps(value)), 60)


def effect_words(summary: RunSummary) -> str:
    """What the first step does, and how many steps there are beside it; empty until that is known."""
    if not summary.effect:
        return ""
    more = len(summary.steps) - 1
    return one_line(summary.effect) + (f" and {plural(more, 'more step')}" if more > 0 else "")


def list_time(stamp: str) -> str:
    """When a run began, for the list: the time today, else month and day; empty when that is not known."""
    if not stamp:
        return ""
    moment = parse_time(stamp)
    return (
        f"{moment:%H:%M}" if moment.date() == datetime.now().astimezone().date() else f"{moment:%m-%d %H:%M}"
    )


def devices_words(summary: RunSummary) -> str:
    """`7 devices`; the one device by its name."""
    return (
        one_line(summary.devices[0]) if len(summary.devices) == 1 else plural(len(summary.devices), "device")
    )


def size_words(size: int) -> str:
    """A size in bytes: `71 B`, `2.1 kB`, `3.4 MB`."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
