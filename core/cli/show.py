"""Shows runs on a terminal: a list, a run with its late answers, and the output of a command."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from core.aip.messages import ResultStatus
from core.audit.entries import Entry, Kind
from core.batch.models import result_of
from core.cli.output import (
    as_json,
    envelope_json,
    lines,
    print_text,
    result_text,
    say,
    table,
    time_cell,
    tool_cell,
)
from core.cli.run_text import cells_text, summary_text
from core.cli.saving import Saving
from core.cli.session import Session
from core.commands.results import Verdict
from core.replay.titles import KNOWS_NOTHING, NEVER_SEEN
from core.service import exit_codes
from core.service.pages import every_result, whole_run

LATE_SHOWN = 200


def _plain(models: list[Any]) -> list[dict[str, Any]]:
    return [model.model_dump(mode="json", by_alias=True) for model in models]


def _dump(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True)


async def runs(session: Session, limit: int, json_wanted: bool) -> None:
    """List the latest runs."""
    found = await session.console.runs.list(limit=limit)
    if json_wanted:
        say(as_json({"runs": _plain(found)}))
        return
    rows = [
        (one.id, one.state.value, one.name, len(one.devices), one.actor, time_cell(one.started_at), one.note)
        for one in found
    ]
    say(table(("RUN", "STATE", "NAME", "DEVICES", "ACTOR", "STARTED (UTC)", "NOTE"), rows))


async def run(session: Session, wanted: str, json_wanted: bool, saving: Saving | None = None) -> int:
    """Show a run with the result of each step on each device; with `saving`, save pictures and outputs."""
    found = await whole_run(session.console.runs, await session.console.runs.get(wanted))
    results = [result for cell in found.cells if (result := result_of(cell)) is not None]
    quoted = wanted.replace('"', "")
    page = await session.console.journal.entries(
        f'run:"{quoted}" kind:{Kind.LATE_ANSWER_RECEIVED}', None, LATE_SHOWN
    )
    if saving is not None:
        await saving.save(session, results)
    code = saving.code(exit_codes.DONE) if saving is not None else exit_codes.DONE
    if json_wanted:
        files = saving.files if saving is not None else None
        envelopes = await every_result(session.console.runs, wanted)
        told = [envelope_json(one, files) for one in envelopes if one.verdict is not None]
        late = [_dump(one) for one in page.entries]
        say(as_json({"run": _dump(found.summary), "results": told, "late_answers": late}))
        return code
    say(f"{summary_text(found)}\n\n{cells_text(found)}")
    for result in results:
        # The table above already says why a step was skipped.
        if result.status is not ResultStatus.SKIPPED:
            say(f"\n{result_text(result)}")
    if page.entries:
        say("\nAnswers that came late (`find seq:NUMBER` shows one):")
        rows = [
            (
                one.seq,
                time_cell(one.time),
                one.device or "",
                one.step or "",
                tool_cell(one.tool),
                late_answer_text(one),
            )
            for one in page.entries
        ]
        say(table(("SEQ", "TIME (UTC)", "DEVICE", "STEP", "TOOL", "SAYS"), rows))
    return code


async def output(session: Session, run: str, device: str, step: str, json_wanted: bool) -> None:
    """Print what the command of a cell has printed so far."""
    after, pieces = 0, []
    while True:
        chunk = await session.console.runs.output(run, device, step, after)
        after = chunk.next
        if json_wanted:
            pieces += _plain(chunk.pieces)
        elif chunk.pieces:
            print_text(lines(chunk.text))
        if not chunk.more:
            break
    if json_wanted:
        say(as_json({"run": run, "device": device, "step": step, "ended": chunk.ended, "output": pieces}))


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
