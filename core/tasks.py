"""Background tasks: each has a name, an owner that waits for its end, and a reporter of its errors.

`asyncio.create_task` alone can lose tasks to the garbage collector and drop their errors; ruff forbids it
elsewhere and refers to this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from core.log import Logger

log = Logger(__name__)

Reporter = Callable[[str, BaseException], None]
Value = TypeVar("Value")

TURN_S = 0.005
"""Seconds after which long work on the loop lets others go on."""


def report_to_log(name: str, error: BaseException) -> None:
    """Log the error that ended a task; the default reporter."""
    log.error("background task failed", task=name, exc_info=error)


class TaskGroupOwner:
    """Starts tasks for one owner and, at the owner's end, cancels and awaits all of them."""

    def __init__(self, name: str, report: Reporter = report_to_log) -> None:
        self._name = name
        self._report = report
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` in the background under `name` until it ends or the owner closes."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._report(task.get_name(), error)

    @property
    def names(self) -> list[str]:
        """The names of the tasks that are still running."""
        return sorted(task.get_name() for task in self._tasks)

    async def close(self, timeout: float = 5.0) -> None:
        """Cancel every task and wait, at most `timeout` seconds, until they have ended."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout)
            for task in late:
                log.error("task did not end in time", task=task.get_name(), seconds=timeout)


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait until the event is set, at most `seconds`; returns whether it is set."""
    # Not `asyncio.wait_for`: in Python 3.11 it loses a cancellation that arrives together with the event.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def in_turns(values: Iterable[Value]) -> AsyncIterator[Value]:
    """The values; other tasks have a turn whenever the caller has spent `TURN_S` on them.

    For work that must be done on the loop itself, because what it reads or changes belongs to the loop.
    """
    began = time.perf_counter()
    for value in values:
        yield value
        if time.perf_counter() - began >= TURN_S:
            await asyncio.sleep(0)
            began = time.perf_counter()


class Throttle:
    """Lets some tasks go on in each iteration of the event loop, and the others in later ones, in order.

    Without it, what a thousand tasks do after answers that came together is one iteration, and nothing else
    is served meanwhile.
    """

    def __init__(self, at_a_time: int) -> None:
        """`at_a_time` tasks go on in one iteration; up to twice as many in one after a quiet one."""
        self._at_a_time = at_a_time
        self._left = at_a_time
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next: asyncio.Handle | None = None

    async def take(self) -> None:
        """Go on at once, or in the first iteration that has room. Costs nothing while few tasks come."""
        loop = asyncio.get_running_loop()
        if self._next is None:
            self._next = loop.call_soon(self._begin_iteration)
        if self._left:
            self._left -= 1
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _begin_iteration(self) -> None:
        self._next = None
        self._left = self._at_a_time
        while self._waiting and self._left:
            turn = self._waiting.popleft()
            # Not that of a task which was cancelled meanwhile.
            if not turn.done():
                turn.set_result(None)
                self._left -= 1
        if self._waiting or self._left < self._at_a_time:
            self._next = asyncio.get_running_loop().call_soon(self._begin_iteration)
