"""Finds the tool a command names, lets the guard look at it, runs it, and always answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from core.aip.extensions import CANCEL_COMMAND, CommandOptions
from core.aip.frames import error_text
from core.aip.messages import Command, Result, ResultStatus, ToolInfo
from core.device.approval import ApprovalCheck
from core.device.binary_values import BinaryResult, Blobs, as_base64, base64_size, has_bytes, plain, take_out
from core.device.mcp.host import McpHost
from core.device.observations import ObservationStore
from core.device.tool import (
    NAMESPACE,
    FailedWithResult,
    Report,
    Tool,
    ToolCall,
    Unavailable,
    Workshop,
    tell_nobody,
)
from core.device.tool_rediscovery import LateTools
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError

log = structlog.get_logger(__name__)

_CLOSE_S = 5.0
# How long a tool that keeps its deadline itself may take to end what it has begun.
_OWN_END_S = 5.0
# Tools that do under another name, or in another shape, what the second one does.
_SAME_AS = {
    "EXEC_CLI": "shell_execute",
    "SYS_INFO": "get_system_info",
    "get_accessibility_tree": "get_ui_tree",
    "undo": "restore_file",
}
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

    def __init__(
        self,
        workshop: Workshop,
        threads: concurrent.futures.Executor,
        approvals: ApprovalCheck | None = None,
    ) -> None:
        """`approvals`: this device's own look at what operators have signed; None asks for nothing."""
        self.unavailable: list[Unavailable] = []
        self.on_tools_changed: Callable[[], None] = lambda: None
        self._workshop = workshop
        self._guard = workshop.guard
        self._approvals = approvals
        self._threads = threads
        self._tools: dict[str, Tool] = {}
        self._by_name: dict[str, Tool] = {}
        self._one_action = asyncio.Lock()
        self._running: dict[asyncio.Task[Any], _Run] = {}
        self._cancelled: set[asyncio.Task[Any]] = set()
        self._closed = False
        # The MCP servers whose tools are offered beside our own, where device.toml names any.
        self.hosted: McpHost | None = None
        # What may be served later on; whoever has a loop watches it.
        self.late: LateTools | None = None

    def offer(self, tool: Tool) -> bool:
        """Add a tool, and say whether; not one that device.toml switches off or another platform has."""
        off = self._workshop.config.tools_off
        if tool.name in off or (tool.namespace == NAMESPACE and _SAME_AS.get(tool.name) in off):
            self.unavailable.append(
                Unavailable(tool.name, "It is switched off here", "Take it out of tools_off in device.toml")
            )
            return False
        if PLATFORM not in tool.platforms:
            return False
        self._tools[tool.key] = self._by_name[tool.name] = tool
        return True

    def withdraw(self, namespace: str) -> None:
        """Stop offering what one hosted server offered; calls of it that run go on."""
        self._tools = {key: tool for key, tool in self._tools.items() if tool.namespace != namespace}
        self._by_name = {tool.name: tool for tool in self._tools.values()}

    def announce(self) -> None:
        """Say that what is offered is not what was listed before."""
        self.on_tools_changed()

    def tools(self) -> list[ToolInfo]:
        """Every tool that is offered, the listing tools included."""
        return [tool.info() for tool in self._tools.values()]

    @property
    def approvers(self) -> int:
        """How many operators must have signed for an action; 0 where no approval is asked for."""
        config = self._workshop.config
        return config.approvers if config.require_signed_approval else 0

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders that paths must be below."""
        return self._workshop.config.roots

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

    async def run(
        self,
        command: Command,
        deadline_s: float,
        max_result_bytes: int | None = None,
        report: Report = tell_nobody,
        terms: CommandOptions | None = None,
        binary: bool = False,
    ) -> Result:
        """Serve one command within `deadline_s` seconds from now.

        Every fault becomes a result with status `failure`, whose error begins with its code. Only
        cancelling the task leaves without an answer. Bytes in a result come as base64 or, with `binary`, as
        the blobs of a `BinaryResult`.
        """
        result = await self._answer(command, deadline_s, max_result_bytes, report, terms)
        if (tool := self._by_name.get(command.tool_name)) is not None:
            # Of whose tool it is a failure, too.
            result.namespace = tool.namespace
        return result if binary else plain(result)

    async def _answer(
        self,
        command: Command,
        deadline_s: float,
        max_result_bytes: int | None,
        report: Report,
        terms: CommandOptions | None,
    ) -> Result:
        if (meta := self._meta(command)) is not None:
            return meta
        try:
            return await self._serve(command, deadline_s, max_result_bytes, report, terms)
        except FailedWithResult as error:
            return failure(error, command.call_id, await self._shown(error.result, max_result_bytes))
        except QuarterdeckError as error:
            # A tool that was told to stop may have its own word for what became of it.
            self._cancelled.difference_update({asyncio.current_task()})
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

    def _meta(self, command: Command) -> Result | None:
        """The answer to what is no tool's: an empty name, as stock devices have it, or a wish to cancel."""
        if not command.tool_name:
            return Result(
                status=ResultStatus.SUCCESS, error="", result="No action taken.", call_id=command.call_id
            )
        if command.tool_name != CANCEL_COMMAND:
            return None
        wanted = (command.parameters or {}).get("call_id")
        answer = {"cancelled": isinstance(wanted, str) and self.cancel(wanted)}
        return Result(
            status=ResultStatus.SUCCESS, result=answer, namespace=NAMESPACE, call_id=command.call_id
        )

    async def _serve(
        self,
        command: Command,
        deadline_s: float,
        max_result_bytes: int | None,
        report: Report,
        terms: CommandOptions | None,
    ) -> Result:
        tool = self._find(command)
        leave = self._approvals.check(tool, command, terms) if self._approvals is not None else None
        arguments = self._guard.check(tool, command.parameters)
        if self._approvals is not None and leave is not None:
            await self._workshop.in_thread(self._approvals.use, leave)
        if tool.is_instant(arguments):
            value = await tool.run(ToolCall(arguments, report=report))
        else:
            seconds = min(deadline_s, self._longest)
            approved = leave is not None or await self._approved_look(tool, command, terms)
            call = ToolCall(arguments, report=report, room=max_result_bytes, approved=approved)
            value = await self._within(tool, command, call, seconds)
        value, blobs = await self._bound(value, max_result_bytes)
        answer = {
            "status": ResultStatus.SUCCESS,
            "result": value,
            "namespace": tool.namespace,
            "call_id": command.call_id,
        }
        return BinaryResult(**answer, blobs=blobs) if blobs else Result(**answer)

    async def _approved_look(self, tool: Tool, command: Command, terms: CommandOptions | None) -> bool:
        """Whether an operator approved this very call of a tool that needs no approval."""
        if self._approvals is None or tool.tool_type == "action" or tool.namespace != NAMESPACE:
            return False
        leave = self._approvals.leave_to_look(tool, command, terms)
        if leave is not None and self._workshop.config.pinned_operators:
            # A recorded frame must not show it a second time.
            await self._workshop.in_thread(self._approvals.use, leave)
        return leave is not None

    async def _shown(self, value: Any, most: int | None) -> Any:
        """What a failed tool has to show, as JSON; nothing where it is none."""
        try:
            return as_base64(*await self._bound(value, most))
        except QuarterdeckError as error:
            log.warning("nothing to show of a failure", reason=error.message)
            return None

    async def _bound(self, value: Any, most: int | None) -> tuple[Any, Blobs]:
        """The value within this device's limits, and the bytes that were in it.

        Raises:
            DeviceError: it is not JSON but for bytes, or has more bytes than the limit.
        """
        if not has_bytes(value):
            bounded, _ = self._guard.bound(value, most)
            return bounded, {}
        blobs: Blobs = {}
        # Digests of megabytes are not for the loop.
        skeleton = await self._workshop.in_thread(take_out, value, blobs)
        allowed = min(self._workshop.config.limits.max_output_bytes, most or sys.maxsize)
        size = base64_size(blobs)
        if size > allowed:
            raise DeviceError(
                f"The result has {size} bytes of pictures or data; this device sends at most {allowed}",
                ErrorCode.BAD_RESULT,
            )
        bounded, _ = self._guard.bound(skeleton, max(1024, allowed - size))
        return bounded, blobs

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
        if self.hosted is not None:
            await self.hosted.close()
        await self._workshop.children.close()
        await self._workshop.desktop.close()
        # What writes a file just now may come to its end; for a disk that does not answer nobody waits.
        end_threads = functools.partial(self._threads.shutdown, wait=True, cancel_futures=True)
        await asyncio.to_thread(end_threads)
        self._workshop.undo.close()

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

    async def _within(self, tool: Tool, command: Command, call: ToolCall, seconds: float) -> Any:
        if seconds <= 0:
            # What does not suspend would run to its end before a timer could stop it.
            raise DeviceError(f"{tool.name} was not started before its deadline", ErrorCode.TIMEOUT)
        task = asyncio.current_task()
        assert task is not None, "Router.run is awaited inside a task"
        end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run = self._running[task] = _Run(tool, command.call_id, end)
        until = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(until) as deadline:
                async with self._one_action if tool.tool_type == "action" else contextlib.nullcontext():
                    if tool.path_arguments:
                        hold = self._guard.hold_paths
                        paths = await self._workshop.in_thread(hold, tool, call.arguments, call.approved)
                        call = replace(call, paths=paths)
                    run.started = True
                    if tool.keeps_deadline:
                        # Only in case that it does not: cancelled, it could not say what it had until then.
                        deadline.reschedule(until + _OWN_END_S)
                    return await tool.run(replace(call, until=until))
        except TimeoutError:
            if not deadline.expired():
                raise
            raise _too_late(tool, seconds, run.started) from None
        finally:
            del self._running[task]
            end.set_result(None)


def _too_late(tool: Tool, seconds: float, started: bool) -> DeviceError:
    # What is left of a deadline has many digits, which say nothing.
    shown = f"{seconds:.3g}" if seconds < 1 else f"{round(seconds, 1):g}"
    if not started:
        return DeviceError(f"{tool.name} was not started within {shown} s", ErrorCode.TIMEOUT)
    if tool.tool_type == "action" and not tool.stops_with_task:
        return DeviceError(
            f"{tool.name} did not end within {shown} s, and may still do so", ErrorCode.OUTCOME_UNKNOWN
        )
    end = "was stopped" if tool.stops_with_task else "is not waited for any more"
    return DeviceError(f"{tool.name} did not end within {shown} s and {end}", ErrorCode.TIMEOUT)


def failure(error: QuarterdeckError, call_id: str | None, result: Any = None) -> Result:
    """An error as AIP's result; `result` is what there is to show all the same."""
    return Result(
        status=ResultStatus.FAILURE,
        error=error_text(error),
        result=result,
        namespace=NAMESPACE,
        call_id=call_id,
    )
