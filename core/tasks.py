"""Background tasks: each has a name, an owner that waits for its end, and a reporter of its errors.

`asyncio.create_task` alone can lose tasks to the garbage collector and drop their errors; ruff forbids it
elsewhere and refers to this module.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

log = structlog.get_logger(__name__)

Reporter = Callable[[str, BaseException], None]


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
