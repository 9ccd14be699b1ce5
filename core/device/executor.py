"""Runs tools: actions one at a time, observations beside them, each call until its deadline.

Every call that has arrived is in one table until its result is made, so that it can be cancelled by its id
whether it waits or runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from core.device.tool import Tool, ToolCall
from core.errors import DeviceError, ErrorCode

_CLOSE_S = 5.0
# The time after its deadline that a tool with `keeps_deadline` has to end by itself.
_OWN_END_S = 5.0


def _nothing() -> None:
    pass


@dataclass(slots=True, eq=False)
class Execution:
    """One call from its arrival to its result.

    It is `waiting` until nothing but its tool decides whether it happens. `cancelled`: a cancel request keeps
    it from starting, or has stopped it. `has_turn`: its caller holds the turn of actions. `on_cancel` is
    called when it is cancelled before it started.
    """

    call_id: str | None
    on_cancel: Callable[[], None] = _nothing
    waiting: bool = True
    cancelled: bool = False
    has_turn: bool = False
    # The running tool, the task that runs it, and whether the tool has begun.
    tool: Tool | None = None
    task: asyncio.Task[Any] | None = None
    begun: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def cancel(self) -> bool:
        """Keep it from starting, or stop its tool; False where neither is possible now."""
        if self.waiting:
            self.cancelled = True
            self.on_cancel()
            return True
        if self.task is None or self.tool is None:
            return False
        if self.begun and not self.tool.stops_with_task and self.tool.tool_type == "action":
            return False
        if not self.cancelled:
            self.cancelled = True
            self.task.cancel()
        return True


class Executor:
    """The calls of one device that wait or run, and the turn that its actions take."""

    def __init__(self) -> None:
        # In the order of their arrival; a console may use an id again.
        self._calls: dict[str | None, list[Execution]] = {}
        # Held by a running action, or by a frame that has an action: no other action starts.
        self.turn = asyncio.Lock()
        self.closed = False

    def __len__(self) -> int:
        return sum(map(len, self._calls.values()))

    def admit(self, call_id: str | None, on_cancel: Callable[[], None] = _nothing) -> Execution:
        """Enter a call that has arrived; it can be cancelled from now on. `release` must follow."""
        execution = Execution(call_id, on_cancel)
        self._calls.setdefault(call_id, []).append(execution)
        return execution

    def release(self, execution: Execution) -> None:
        """Remove a call that has its result."""
        same_id = self._calls[execution.call_id]
        same_id.remove(execution)
        if not same_id:
            del self._calls[execution.call_id]

    def cancel(self, call_id: str) -> bool:
        """Cancel the calls with this id, child processes included; False where none can be stopped.

        The result of a cancelled call has the error `cancelled`.
        """
        results = [execution.cancel() for execution in self._calls.get(call_id, ())]
        return any(results)

    async def run(
        self,
        execution: Execution,
        tool: Tool,
        call: ToolCall,
        seconds: float,
        prepare: Callable[[Tool, ToolCall], Awaitable[ToolCall]],
    ) -> Any:
        """Run a tool within `seconds`; an action waits for its turn. `prepare` is awaited before the tool.

        Raises:
            DeviceError: the deadline has passed (`timeout`, or `outcome_unknown` where the tool may still be
                at work), or what the tool raised.
        """
        if seconds <= 0:
            # A tool that never suspends would run to its end before a timer could stop it.
            raise DeviceError(f"{tool.name} was not started before its deadline.", ErrorCode.TIMEOUT)
        waits = tool.tool_type == "action" and not execution.has_turn
        until = asyncio.get_running_loop().time() + seconds
        execution.tool, execution.task = tool, asyncio.current_task()
        try:
            async with (
                asyncio.timeout_at(until) as deadline,
                self.turn if waits else contextlib.nullcontext(),
            ):
                call = await prepare(tool, call)
                execution.begun = True
                if tool.keeps_deadline:
                    # The tool ends by itself and returns its partial result, which a cancelled tool cannot;
                    # the timer stops it only if it does not end.
                    deadline.reschedule(until + _OWN_END_S)
                return await tool.run(replace(call, until=until))
        except TimeoutError:
            if not deadline.expired():
                raise
            raise _too_late(tool, seconds, execution.begun) from None
        finally:
            execution.task = None
            execution.ended.set()

    async def close(self) -> None:
        """Stop all running calls, child processes included, and wait until they have ended."""
        self.closed = True
        running = [each for same_id in self._calls.values() for each in same_id if each.task is not None]
        for execution in running:
            if execution.task is not None:
                execution.task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                for execution in running:
                    await execution.ended.wait()


def _too_late(tool: Tool, seconds: float, begun: bool) -> DeviceError:
    # Rounded: the rest of a deadline has many meaningless digits.
    shown = f"{seconds:.3g}" if seconds < 1 else f"{round(seconds, 1):g}"
    if not begun:
        return DeviceError(f"{tool.name} was not started within {shown} s.", ErrorCode.TIMEOUT)
    if tool.tool_type == "action" and not tool.stops_with_task:
        return DeviceError(
            f"{tool.name} did not end within {shown} s, and may still do so.", ErrorCode.OUTCOME_UNKNOWN
        )
    end = "was stopped" if tool.stops_with_task else "is not waited for any more"
    return DeviceError(f"{tool.name} did not end within {shown} s and {end}.", ErrorCode.TIMEOUT)
