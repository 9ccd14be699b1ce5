"""Taking pictures of devices: an ordinary call of `screenshot`, of one device or of all that are marked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from PySide6.QtCore import QObject, Signal

from app.query import Mutation
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.text import plural
from core.batch.models import Run, RunState
from core.errors import QuarterdeckError
from core.service.console import Console

PICTURE_TIMEOUT_S = 30.0
MOST_PICTURES = 40
AT_ONCE = 4


async def shoot(console: Console, device: str) -> Run:
    """Ask one device for a screenshot and wait for it; the new picture comes with the device's next state."""
    run = await console.runs.call(device, "screenshot", {})
    return await console.runs.wait(run.summary.id, PICTURE_TIMEOUT_S)


def picture_problem(run: Run) -> str:
    """Why there is no picture, in words; empty when there is one."""
    if run.summary.state is RunState.DONE:
        return ""
    if run.summary.state is RunState.WAITING:
        return "The picture waits for your approval."
    return f"No picture was taken: {_why(run)}"


def _why(run: Run) -> str:
    for cell in run.cells:
        if cell.result is not None and cell.result.error is not None:
            return cell.result.error.sentences
        if cell.note:
            return cell.note
    return f"the run is {run.summary.state.value}."


@dataclass
class Taken:
    """How taking several pictures went: how many there are, and of the others why not, by device."""

    count: int = 0
    problems: dict[str, str] = field(default_factory=dict)


class BulkScreenshot(QObject):
    """Takes pictures of several devices, a few at a time; one round after the other.

    Signals:
        progressed(words): how far it is; empty when all have answered.
    """

    progressed = Signal(str)

    def __init__(self, link: ConsoleLink, nav: Navigator, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._nav = nav
        self._devices: list[str] = []
        self._taking = Mutation(self, link, self._end, self._none_taken, "take pictures")

    def start(self, devices: list[str]) -> None:
        """Begin; says so where it cannot."""
        if self._taking.running:
            self._nav.toast("Pictures are being taken already")
            return
        if len(devices) > MOST_PICTURES:
            self._nav.fail(
                f"{len(devices)} devices are marked.", f"T takes at most {MOST_PICTURES} pictures."
            )
            return
        self._devices = devices
        done = 0

        def one_more() -> None:
            nonlocal done
            done += 1
            self.progressed.emit(f"{done} of {plural(len(devices), 'picture')}")

        self.progressed.emit(f"taking {plural(len(devices), 'picture')}…")
        self._taking.run(lambda console: take_pictures(console, devices, one_more))

    def _none_taken(self, error: QuarterdeckError) -> None:
        self._end(Taken(problems=dict.fromkeys(self._devices, error.message)))

    def _end(self, taken: Taken) -> None:
        self.progressed.emit("")
        if not taken.problems:
            self._nav.toast(f"{plural(taken.count, 'picture')} taken")
            return
        first, why = next(iter(taken.problems.items()))
        total = taken.count + len(taken.problems)
        more = f" and {len(taken.problems) - 1} more" if len(taken.problems) > 1 else ""
        self._nav.fail(f"{taken.count} of {plural(total, 'picture')} taken.", f"{first}{more}: {why}")


async def take_pictures(console: Console, devices: list[str], one_more: Callable[[], None]) -> Taken:
    """Take a picture of each, at most `AT_ONCE` at a time; what one device refuses stops no other."""
    room = asyncio.Semaphore(AT_ONCE)
    taken = Taken()

    async def take(name: str) -> None:
        async with room:
            try:
                problem = picture_problem(await shoot(console, name))
            except QuarterdeckError as error:
                problem = error.info.sentences
        if problem:
            taken.problems[name] = problem
        else:
            taken.count += 1
        one_more()

    async with asyncio.TaskGroup() as group:
        for name in devices:
            group.create_task(take(name))
    return taken
