"""Plans a batch, or follows a run from its beginning to its end, and answers with the plan or the results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from core.batch.models import Batch, Run, result_of
from core.cli import run_text, show
from core.cli.answer import Answer
from core.cli.follow import HowToFollow, follow
from core.cli.output import Block, note
from core.cli.run_text import plan_json, plan_text
from core.cli.saving import Saving
from core.cli.session import Session
from core.cli.signing import KeySource, identify_if_possible
from core.commands.results import CommandResult
from core.errors import QuarterdeckError
from core.models.device_filter import no_match
from core.service import exit_codes, result_codes
from core.service.pages import whole_run
from core.text import plural


async def plan_answer(
    session: Session, batch: Batch, inputs: dict[str, Any], *, literal: bool = False
) -> Answer:
    """What a run of this batch would do; nothing is sent.

    Raises:
        BadInput: no device matches its targets.
    """
    found = await session.console.runs.plan(batch, inputs, literal)
    if not found.devices:
        raise no_match(batch.targets, await session.console.devices.match(""))
    invalid = any(cell.outcome == "invalid" for cell in found.cells)
    code = exit_codes.PLAN_INVALID if invalid else exit_codes.DONE
    return Answer(plan_json(batch.name, found), plan_text(batch.name, found), code)


async def identify_where_several_approve(
    session: Session, batch: Batch, inputs: dict[str, Any], unlocking: KeySource, *, literal: bool = False
) -> None:
    """Identify the asker where a question or a rule wants several operators: the asker does not count then.

    Of arguments that results give, no rule is known to want several before the run.
    """
    try:
        planned = await session.console.runs.plan(batch, inputs, literal)
    except QuarterdeckError:
        # The start itself will fail with this error.
        return
    if any(cell.approvers > 1 for cell in planned.cells):
        await identify_if_possible(session, unlocking)


async def run_to_end(
    session: Session, begin: Callable[[], Awaitable[Run]], how: HowToFollow, saving: Saving | None = None
) -> Answer:
    """Begin a run and follow it to its end; the answer is the run with its results."""
    events = session.console.events()
    started = await whole_run(session.console.runs, await begin())
    note(f"Run {started.summary.id} on {plural(len(started.summary.devices), 'device')}.")
    ended = await follow(session, started, events, how)
    return ended if isinstance(ended, Answer) else await _ended(session, ended, saving)


async def _ended(session: Session, run: Run, saving: Saving | None) -> Answer:
    results = [result for cell in run.cells if (result := result_of(cell)) is not None]
    code = result_codes.of_run(run)
    if saving is not None:
        await saving.save(session, results)
        code = saving.code(code)
    files = saving.files if saving is not None else None
    return Answer(lambda: show.results_json(session, run, files), _end_text(run, results), code)


def _end_text(run: Run, results: list[CommandResult]) -> Iterator[Block]:
    yield from (run_text.summary_text(run), "")
    if len(run.summary.devices) > 1:
        yield run_text.groups_text(run)
        return
    yield run_text.cells_text(run)
    yield from show.results_text(run, [result for result in results if result.call_id])
