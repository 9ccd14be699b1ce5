"""Shows runs on a terminal: a list, a run with its late answers, and the output of a command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from core.aip.messages import ResultStatus
from core.audit.entries import Entry, Kind
from core.batch.models import Cell, Run, RunSummary, result_of
from core.cli.answer import Answer
from core.cli.output import (
    Block,
    Exact,
    lines,
    state_cell,
    table,
    time_cell,
    tool_cell,
)
from core.cli.results import envelope_json, result_text
from core.cli.run_course import Course, attempts_of
from core.cli.run_text import cells_text, groups_text, summary_text
from core.cli.saving import Saving
from core.cli.session import Session
from core.commands.results import CommandResult, Verdict
from core.replay.titles import KNOWS_NOTHING, NEVER_SEEN
from core.service import exit_codes
from core.service.pages import every_result, whole_run

LATE_SHOWN = 200


async def runs(session: Session, limit: int, words: str = "") -> Answer:
    """List the latest runs, or those that contain all of these words."""
    found = await session.console.runs.list(limit=limit) if not words else await _found(session, words, limit)
    rows = [
        (
            one.id,
            state_cell(one.state),
            one.name,
            len(one.devices),
            one.actor,
            time_cell(one.started_at),
            one.note,
        )
        for one in found
    ]
    head = ("RUN", "STATE", "NAME", "DEVICES", "ACTOR", "STARTED (UTC)", "NOTE")
    none = "No run has all of these words." if words else "No run yet."
    return Answer({"runs": found}, [table(head, rows)] if found else none)


async def _found(session: Session, words: str, limit: int) -> list[RunSummary]:
    """The latest runs with these words. A page may be empty although more follow."""
    found: list[RunSummary] = []
    before: int | None = None
    while len(found) < limit:
        page = await session.console.runs.find(words, before, limit - len(found))
        found += page.runs
        before = page.next_before
        if before is None:
            break
    return found


async def run(session: Session, wanted: str, saving: Saving | None = None, grouped: bool = False) -> Answer:
    """Show a run with the result of each step on each device; with `saving`, save pictures and outputs."""
    found = await whole_run(session.console.runs, await session.console.runs.get(wanted))
    results = [result for cell in found.cells if (result := result_of(cell)) is not None]
    quoted = wanted.replace('"', "")
    page = await session.console.journal.entries(
        f'run:"{quoted}" kind:{Kind.LATE_ANSWER_RECEIVED}', None, LATE_SHOWN
    )
    if saving is not None:
        await saving.save(session, results)
    files = saving.files if saving is not None else None

    async def told() -> dict[str, Any]:
        return {**await results_json(session, found, files), "late_answers": page.entries}

    return Answer(
        told,
        [summary_text(found), "", groups_text(found)] if grouped else _run_text(found, results, page.entries),
        saving.code(exit_codes.DONE) if saving is not None else exit_codes.DONE,
    )


async def results_json(session: Session, run: Run, files: dict[str, str] | None) -> dict[str, Any]:
    """A run with all its results; `files` maps the digest of saved evidence to its file.

    Each result has the `step` of the batch and the `state` of its cell, the number of `attempts`, the steps
    by which it was `recovered`, and the `wave` of its device.
    """
    envelopes = await every_result(session.console.runs, run.summary.id)
    # Both are in the order of the run's cells.
    course = Course.of(run)
    results = [
        _cell_json(cell, course) | envelope_json(envelope, files)
        for cell, envelope in zip(run.cells, envelopes, strict=True)
        if envelope.verdict is not None
    ]
    return {"run": run.summary, "results": results}


def _cell_json(cell: Cell, course: Course) -> dict[str, Any]:
    """What a cell adds to the envelope of its result."""
    return {
        "step": cell.step,
        "state": cell.state.value,
        "attempts": attempts_of(cell),
        "recovered": cell.recovered_by,
        "wave": course.wave_of(cell.device),
    }


def results_text(run: Run, results: list[CommandResult]) -> Iterator[Block]:
    """The results of a run, each with its step where there are several."""
    steps = {cell.call_id: cell.step for cell in run.cells} if len(run.cells) > 1 else {}
    for result in results:
        # The table of cells already says why a step was skipped.
        if result.status is not ResultStatus.SKIPPED:
            yield ""
            yield from result_text(result, steps.get(result.call_id, ""))


def _run_text(run: Run, results: list[CommandResult], late: list[Entry]) -> Iterator[Block]:
    yield from (summary_text(run), "", cells_text(run))
    yield from results_text(run, results)
    if late:
        yield "\nAnswers that came late (`find seq:NUMBER` shows one):"
        rows = [
            (
                one.seq,
                time_cell(one.time),
                one.device or "",
                one.step or "",
                tool_cell(one.tool),
                late_answer_text(one),
            )
            for one in late
        ]
        yield table(("SEQ", "TIME (UTC)", "DEVICE", "STEP", "TOOL", "SAYS"), rows)


async def output(session: Session, run: str, device: str, step: str) -> Answer:
    """Show what the command of a cell has printed so far."""
    after, pieces = 0, []
    while True:
        chunk = await session.console.runs.output(run, device, step, after)
        after = chunk.next
        pieces += chunk.pieces
        if not chunk.more:
            break
    told = {"run": run, "device": device, "step": step, "ended": chunk.ended, "output": pieces}
    return Answer(told, [Exact(lines("".join(piece.text for piece in pieces)))])


def late_answer_text(entry: Entry) -> str:
    """A late answer and its change as text."""
    # The models of all events, 30 ms: few runs have a late answer.
    from core.audit.events import LateAnswerReceived

    event = LateAnswerReceived.read(entry.body)
    said = entry.status or "nothing readable"
    if event.never_seen:
        said = KNOWS_NOTHING if entry.verdict == Verdict.UNKNOWN.value else NEVER_SEEN
    asked = " when asked" if event.recalled else ""
    if event.outcome is None:
        return f"{said}{asked}; it counts for nothing"
    return f"{said}{asked}; now {entry.verdict}"
