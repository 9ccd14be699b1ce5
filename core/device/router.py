"""Finds the tool a command names, lets the guard look at it, runs it, and always answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from core.aip.error_text import error_text
from core.aip.extras import CANCEL_COMMAND
from core.aip.messages import Command, Result, ResultStatus, ToolInfo
from core.device.config import DeviceConfig
from core.device.guard import Guard
from core.device.observations import ObservationStore
from core.device.tool import NAMESPACE, FailedWithResult, Tool, ToolCall, Unavailable, Workshop
from core.device.tools import files, listing, screen, shell, system
from core.device.undo import UndoStore
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError

log = structlog.get_logger(__name__)

_THREADS = 4
_CLOSE_S = 5.0
PLATFORM = {"linux": "linux", "win32": "windows", "darwin": "macos"}.get(sys.platform, sys.platform)


@dataclass(slots=True)
class _Run:
    """One run. Its `end` comes with the run's; its task may go on with other things of its own."""

    tool: Tool
    call_id: str | None
    end: asyncio.Future[None]
    started: bool = False


class Router:
    """This device's tools by key. Actions run one at a time; observations may run beside them."""

    def __init__(self, workshop: Workshop, threads: concurrent.futures.ThreadPoolExecutor) -> None:
        self.unavailable: list[Unavailable] = []
        self._workshop = workshop
        self._guard = workshop.guard
        self._threads = threads
        self._tools: dict[str, Tool] = {}
        self._by_name: dict[str, Tool] = {}
        self._one_action = asyncio.Lock()
        self._running: dict[asyncio.Task[Any], _Run] = {}
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._closed = False

    def offer(self, tool: Tool) -> None:
        """Add a tool, unless device.toml switches it off or it is not for this platform."""
        if tool.name in self._workshop.config.tools_off:
            self.unavailable.append(
                Unavailable(tool.name, "It is switched off here", "Take it out of tools_off in device.toml")
            )
        elif PLATFORM in tool.platforms:
            self._tools[tool.key] = tool
            self._by_name[tool.name] = tool

    def tools(self) -> list[ToolInfo]:
        """Every tool that is offered, the listing tools included."""
        return [tool.info() for tool in self._tools.values()]

    @property
    def observations(self) -> ObservationStore:
        """The refs that this device's pictures came with."""
        return self._workshop.observations

    def is_observation(self, command: Command) -> bool:
        """Whether a command can run beside an action: it names a tool that only looks, or none at all."""
        tool = self._by_name.get(command.tool_name)
        return tool is None or tool.tool_type == "data_collection"

    def is_instant(self, command: Command) -> bool:
        """Whether serving a command waits for nothing."""
        tool = self._tools.get(f"{command.tool_type}::{command.tool_name}")
        return tool is not None and tool.is_instant(command.parameters or {})

    async def run(self, command: Command, deadline_s: float, max_result_bytes: int | None = None) -> Result:
        """Serve one command within `deadline_s` seconds from now.

        Every fault becomes a result with status `failure`, whose error begins with its code. Only
        cancelling the task leaves without an answer.
        """
        if not command.tool_name:
            # Stock devices answer so, and agents written for them send empty names on purpose.
            return Result(
                status=ResultStatus.SUCCESS, error="", result="No action taken.", call_id=command.call_id
            )
        if command.tool_name == CANCEL_COMMAND:
            wanted = (command.parameters or {}).get("call_id")
            answer = {"cancelled": isinstance(wanted, str) and self.cancel(wanted)}
            return Result(
                status=ResultStatus.SUCCESS, result=answer, namespace=NAMESPACE, call_id=command.call_id
            )
        try:
            tool = self._find(command)
            arguments = self._guard.check(tool, command.parameters)
            if tool.is_instant(arguments):
                value = await tool.run(ToolCall(arguments))
            else:
                value = await self._within(tool, command, arguments, min(deadline_s, self._longest))
            value, _ = self._guard.bound(value, max_result_bytes)
        except FailedWithResult as error:
            value, _ = self._guard.bound(error.result, max_result_bytes)
            return failure(error, command.call_id, value)
        except QuarterdeckError as error:
            return failure(error, command.call_id)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not (self._closed or task in self._cancelled):
                raise
            self._cancelled.discard(task)
            task.uncancel()
            told = DeviceError(
                f"{command.tool_name} was stopped; part of it may have happened", ErrorCode.CANCELLED
            )
            return failure(told, command.call_id)
        except Exception as error:  # the edge: a tool's fault is an answer, not silence
            log.exception("tool failed", tool=command.tool_name)
            fault = DeviceError(
                f"{command.tool_name}: {type(error).__name__}: {error}", ErrorCode.TOOL_FAILED
            )
            return failure(fault, command.call_id)
        return Result(status=ResultStatus.SUCCESS, result=value, namespace=NAMESPACE, call_id=command.call_id)

    def cancel(self, call_id: str) -> bool:
        """Stop a running command, child processes included; it answers with the error `cancelled`.

        False when it does not run (any more), or is in the middle of something that cannot be stopped.
        """
        for task, run in self._running.items():
            if run.call_id == call_id:
                stoppable = (
                    not run.started or run.tool.stops_with_task or run.tool.tool_type == "data_collection"
                )
                if stoppable and task not in self._cancelled:
                    self._cancelled.add(task)
                    task.cancel()
                return stoppable
        return False

    async def close(self) -> None:
        """Stop what is running, child processes included, and wait until it has ended."""
        self._closed = True
        ends = [run.end for run in self._running.values()]
        for task in list(self._running):
            task.cancel()
        if ends:
            await asyncio.wait(ends, timeout=_CLOSE_S)
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def _longest(self) -> float:
        return self._workshop.config.limits.tool_timeout_s

    def _find(self, command: Command) -> Tool:
        if self._closed:
            raise DeviceError("The device client is ending", ErrorCode.CANCELLED)
        tool = self._tools.get(f"{command.tool_type}::{command.tool_name}")
        if tool is not None:
            return tool
        named = self._by_name.get(command.tool_name)
        if named is not None:
            if named.meta_tool:
                # Stock servers ask for the list under whichever type their agent has.
                return named
            raise BadInput(
                f"{command.tool_name} is offered as {named.tool_type}, not as {command.tool_type}",
                ErrorCode.UNKNOWN_TOOL,
            )
        for missing in self.unavailable:
            if missing.tool == command.tool_name:
                raise BadInput(
                    f"{missing.tool} is not offered: {missing.reason}. {missing.how_to_fix}",
                    ErrorCode.UNKNOWN_TOOL,
                )
        offered = ", ".join(sorted(self._by_name))
        raise BadInput(
            f"This device has no tool {command.tool_name[:120]!r}. It has: {offered}", ErrorCode.UNKNOWN_TOOL
        )

    async def _within(self, tool: Tool, command: Command, arguments: dict[str, Any], seconds: float) -> Any:
        task = asyncio.current_task()
        assert task is not None, "Router.run is awaited inside a task"
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run = self._running[task] = _Run(tool, command.call_id, end)
        try:
            async with asyncio.timeout(max(seconds, 0.0)) as deadline:
                async with self._one_action if tool.tool_type == "action" else contextlib.nullcontext():
                    call = ToolCall(arguments)
                    if tool.path_arguments:
                        call = await self._workshop.in_thread(self._guard.hold_paths, tool, arguments)
                    run.started = True
                    return await tool.run(call)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise _too_late(tool, seconds, run.started) from None
        finally:
            del self._running[task]
            end.set_result(None)


def _too_late(tool: Tool, seconds: float, started: bool) -> DeviceError:
    if not started:
        return DeviceError(f"{tool.name} was not started within {seconds:g} s", ErrorCode.TIMEOUT)
    if tool.tool_type == "action" and not tool.stops_with_task:
        return DeviceError(
            f"{tool.name} did not end within {seconds:g} s, and may still do so", ErrorCode.OUTCOME_UNKNOWN
        )
    return DeviceError(f"{tool.name} did not end within {seconds:g} s and was stopped", ErrorCode.TIMEOUT)


def failure(error: QuarterdeckError, call_id: str | None, result: Any = None) -> Result:
    """An error as AIP's result; `result` is what there is to show all the same."""
    return Result(
        status=ResultStatus.FAILURE,
        error=error_text(error),
        result=result,
        namespace=NAMESPACE,
        call_id=call_id,
    )


def build_router(config: DeviceConfig, state_dir: Path, name: str) -> Router:
    """Put this machine's tools together; files that the device keeps live below `state_dir`.

    Raises:
        BadInput: `state_dir` cannot be used.
    """
    config = config.closing(state_dir)
    threads = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix=f"device {name}")
    guard = Guard(config)
    workshop = Workshop(
        device=name,
        config=config,
        guard=guard,
        undo=UndoStore(state_dir / "undo", config.undo),
        observations=ObservationStore(),
        threads=threads,
    )
    router = Router(workshop, threads)
    for group in (screen, system, files, shell):
        offered, missing = group.offer(workshop)
        router.unavailable.extend(missing)
        for tool in offered:
            router.offer(tool)
    for tool in listing.offer(router.tools):
        router.offer(tool)
    return router
