"""Follows a run to its end: shows its progress and output, asks for its approvals, cancels it on Ctrl+C."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from core.batch.models import Cell, CellState, Run, RunSummary
from core.cli.answer import Answer
from core.cli.asking import ask_here
from core.cli.output import note
from core.cli.prompt import TerminalClosed, is_terminal
from core.cli.results import failure
from core.cli.run_display import Display, display_for
from core.cli.session import Session
from core.cli.signing import KeySource
from core.commands.results import CommandStage
from core.errors import ErrorCode, ErrorInfo, QuarterdeckError, Refused, ServiceError
from core.service import exit_codes
from core.service.console import ApprovalChanged, CellChanged, Event, Missed, RunChanged
from core.service.envelope import cell_envelope, lost_envelope, refused_envelope
from core.service.pages import whole_run

LOOK_AGAIN = 5.0
TOGETHER = 0.05

CellKey = tuple[str, str]
# What has not asked yet, and may.
_MAY_ASK = (CellState.QUEUED, CellState.RUNNING)


@dataclass(frozen=True, slots=True)
class HowToFollow:
    """`wait`: seconds to wait for an approval where this is not a terminal.

    With `json_wanted`, what commands print goes to standard error, because standard output is the answer's.
    """

    wait: float
    json_wanted: bool
    unlocking: KeySource


async def follow(
    session: Session, run: Run, events: AsyncIterator[Event], how: HowToFollow, nothing_more: str = ""
) -> Run | Answer:
    """Follow a run, whose `events` have been subscribed to before it started, and close them.

    Returns the run as it ended; or the answer, where it goes on or what became of it is not known.

    Raises:
        Refused: the terminal was closed instead of an answer; the run was cancelled.
    """
    number = run.summary.id
    display = display_for(run, how.json_wanted)
    following = _Following(session, run, display, how)
    try:
        return await following.to_the_end(events)
    except asyncio.CancelledError:
        await session.console.runs.stop(number)
        display.close()
        note(f"Interrupted: run {number} was cancelled; what a device has begun may still happen.")
        raise
    except TerminalClosed as closed:
        # If it stayed in the queue, it could be approved after its caller has gone.
        await session.console.runs.stop(number)
        said = f"{closed.message} Run {number} was cancelled; {nothing_more or 'nothing more is sent'}."
        raise Refused(said, ErrorCode.APPROVAL_EXPIRED) from closed
    except ServiceError as error:
        if error.code is not ErrorCode.SERVICE_UNAVAILABLE:
            raise
        return await _after_the_service(session, run)
    finally:
        display.close()
        if close := getattr(events, "aclose", None):
            await close()


@dataclass(slots=True)
class _Following:
    """The state of a run as this terminal has seen it."""

    session: Session
    run: Run
    display: Display
    how: HowToFollow
    summary: RunSummary = field(init=False)
    cells: dict[CellKey, Cell] = field(init=False)
    # By call id, the position in its output up to which it has been printed.
    printed: dict[str, int] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._take(self.run)

    async def to_the_end(self, events: AsyncIterator[Event]) -> Run | Answer:
        clock = asyncio.get_running_loop().time
        give_up: float | None = None
        self.display.show(self.cells, list(self.cells.values()))
        while not self.summary.state.ended:
            waiting = self._waiting()
            if waiting is not None and is_terminal():
                self.asked.add(str(waiting.approval))
                self.display.pause()
                more = any(
                    cell.step == waiting.step and cell.state in _MAY_ASK for cell in self.cells.values()
                )
                self.asked |= await ask_here(
                    self.session, str(waiting.approval), self.how.unlocking, more_may_come=more
                )
                await self._look_again()
                continue
            if waiting is None:
                give_up = None
            elif self.session.hosted or (give_up := give_up or clock() + self.how.wait) <= clock():
                return await self._not_approved(waiting)
            changed = await self._changes(events, give_up - clock() if give_up else LOOK_AGAIN)
            if changed is None:
                changed = await self._look_again()
            for cell in changed:
                await self._print_output(cell)
            self.display.show(self.cells, changed)
        # The result of a run is read once more: an event is no promise that none was dropped.
        for cell in await self._look_again():
            await self._print_output(cell)
        self.display.show(self.cells, list(self.cells.values()))
        return self.run

    def _waiting(self) -> Cell | None:
        """A cell whose request for approval this terminal has not asked about."""
        waiting = (cell for cell in self.cells.values() if cell.state is CellState.WAITING and cell.approval)
        return next((cell for cell in waiting if cell.approval not in self.asked), None)

    def _take(self, run: Run) -> None:
        self.run, self.summary = run, run.summary
        self.cells = {(cell.device, cell.step): cell for cell in run.cells}

    async def _look_again(self) -> list[Cell]:
        runs = self.session.console.runs
        self._take(await whole_run(runs, await runs.get(self.summary.id)))
        return list(self.cells.values())

    async def _changes(self, events: AsyncIterator[Event], timeout: float) -> list[Cell] | None:
        """Wait for changes of this run, at most `timeout` or `LOOK_AGAIN` seconds; None to look again.

        Of several cells the changes of a moment come together: a run over a thousand devices has thousands.
        """
        changed: dict[CellKey, Cell] = {}
        together = False
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(max(0.0, min(timeout, LOOK_AGAIN))) as limit:
                async for event in events:
                    match event:
                        case CellChanged(cell=cell) if cell.run == self.summary.id:
                            self.cells[cell.device, cell.step] = changed[cell.device, cell.step] = cell
                        case RunChanged(run=run) if run.id == self.summary.id:
                            self.summary = run
                        case ApprovalChanged() if event.approval.run == self.summary.id:
                            return None
                        case Missed():
                            return None
                        case _:
                            continue
                    if len(self.cells) == 1 or self.summary.state.ended:
                        break
                    if not together:
                        together = True
                        limit.reschedule(clock() + TOGETHER)
        except TimeoutError:
            return list(changed.values()) or None
        return list(changed.values())

    async def _print_output(self, cell: Cell) -> None:
        """Print what the command of a cell has printed since the last time."""
        call = cell.call_id or ""
        after = self.printed.get(call, 0)
        while after < cell.output_size:
            missing = cell.output_size - after
            if missing <= len(cell.output_tail):
                self.display.output(cell, cell.output_tail[-missing:])
                after = cell.output_size
                break
            chunk = await self.session.console.runs.output(cell.run, cell.device, cell.step, after)
            if not chunk.pieces:
                break
            self.display.output(cell, chunk.text)
            after = chunk.next
        self.printed[call] = after

    async def _not_approved(self, cell: Cell) -> Answer:
        """End without an approval: the request stays queued, or is cancelled if the core is hosted here."""
        number = self.summary.id
        if self.session.hosted:
            await self.session.console.runs.stop(number)
            code = exit_codes.NOT_APPROVED
            error = ErrorInfo(
                code=ErrorCode.APPROVAL_EXPIRED,
                message="This needs an operator's approval, and none can be given: no service runs for this "
                f"home and this is not a terminal. {self._sent_words()}",
                next="Run quarterdeck service start, then call again; or call from a terminal.",
            )
        else:
            code = exit_codes.APPROVAL_PENDING
            error = ErrorInfo(
                code=ErrorCode.APPROVAL_PENDING,
                message=f"Not approved yet: request {cell.approval} of run {number} stays in the queue.",
                next=f"quarterdeck approvals show {cell.approval}, then approve or deny it.",
            )
        refused = refused_envelope(cell.device, cell.tool, error, CommandStage.APPROVE)
        refused = refused.model_copy(update={"call_id": cell.call_id, "run": number})
        return failure(refused if self.session.hosted else cell_envelope(cell), error, code)

    def _sent_words(self) -> str:
        ended = sum(cell.result is not None for cell in self.cells.values())
        return "Nothing was sent." if not ended else f"The run was cancelled after {ended} of its steps."


async def _after_the_service(session: Session, run: Run) -> Run | Answer:
    """The run as the journal has it, once the service has ended; the exit code if that cannot be read.

    What this terminal saw last is too old: a request that waited may have been approved and sent meanwhile.
    """
    note(f"The service ended while run {run.summary.id} was going on; reading what became of it.")
    try:
        await session.reconnect()
        runs = session.console.runs
        found = await whole_run(runs, await runs.get(run.summary.id))
    except QuarterdeckError as error:
        note(error.message)
        return _service_lost(run)
    return found if found.summary.state.ended else _service_lost(run)


def _service_lost(run: Run) -> Answer:
    """Say that the service was lost during a run: sent commands may have taken effect."""
    number = run.summary.id
    error = ErrorInfo(
        code=ErrorCode.OUTCOME_UNKNOWN,
        message=f"The service ended while run {number} was going on: what was sent may have happened.",
        next=f"quarterdeck runs show {number} says what is known of it; look before you run this again.",
    )
    first = run.cells[0]
    lost = lost_envelope(first.device, first.tool, error, number)
    return failure(lost, error, exit_codes.OUTCOME_UNKNOWN)
