"""Serves commands: finds the named tool, checks approval and arguments, has it run; always answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.aip.extensions import CANCEL_COMMAND, CommandOptions
from core.aip.frames import error_text
from core.aip.messages import Command, Result, ResultStatus, ToolInfo
from core.broken_text import valid_text
from core.device.approval import ApprovalCheck
from core.device.binary_values import BinaryResult, Blobs, as_base64, base64_size, has_bytes, plain, take_out
from core.device.executor import Execution, Executor
from core.device.mcp.host import McpHost
from core.device.observations import ObservationStore
from core.device.processes.child_process import Children
from core.device.progress import Report, no_progress
from core.device.tool import NAMESPACE, FailedWithResult, Tool, ToolCall, Unavailable
from core.device.tool_context import ToolContext
from core.device.tool_rediscovery import LateTools
from core.errors import BadInput, DeviceError, ErrorCode, QuarterdeckError
from core.log import Logger
from core.text import sentences

log = Logger(__name__)

# Tool: the tool that does the same. Switching the second off in `tools_off` switches off the first.
_SAME_AS = {
    "EXEC_CLI": "shell_execute",
    "SYS_INFO": "get_system_info",
    "get_accessibility_tree": "get_ui_tree",
    "undo": "restore_file",
}
PLATFORM = {"linux": "linux", "win32": "windows", "darwin": "macos"}.get(sys.platform, sys.platform)


def _stopped(tool: str, execution: Execution) -> DeviceError:
    """Why a call that was cancelled while it ran has no result."""
    if execution.cancelled or execution.tool is None or execution.tool.tool_type != "action":
        return DeviceError(f"{tool} was stopped; part of it may have happened.", ErrorCode.CANCELLED)
    # Its caller did not ask for that, and a run that is resumed would repeat what was only cancelled.
    return DeviceError(
        f"{tool} ended with the device client; part of it may have happened.", ErrorCode.OUTCOME_UNKNOWN
    )


class Router:
    """This device's tools by key."""

    def __init__(
        self,
        context: ToolContext,
        threads: concurrent.futures.Executor,
        approvals: ApprovalCheck | None = None,
    ) -> None:
        """`approvals`: this device's check of operators' signed approvals; None requires none."""
        self.executor = Executor()
        self.unavailable: list[Unavailable] = []
        self.on_tools_changed: Callable[[], None] = lambda: None
        self._context = context
        self._guard = context.guard
        self._approvals = approvals
        self._threads = threads
        self._tools: dict[str, Tool] = {}
        self._by_name: dict[str, Tool] = {}
        # The MCP servers that device.toml names, whose tools are offered beside the built-in ones.
        self.hosted: McpHost | None = None
        # Tools that may become available later; `DeviceRuntime` and `InProcessDevice` run its `watch`.
        self.late: LateTools | None = None

    def offer(self, tool: Tool) -> bool:
        """Add a tool, unless device.toml switches it off or it is for another platform; True if added."""
        off = self._context.config.tools_off
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
        """Stop offering the tools of one hosted server; running calls continue."""
        self._tools = {key: tool for key, tool in self._tools.items() if tool.namespace != namespace}
        self._by_name = {tool.name: tool for tool in self._tools.values()}

    def announce(self) -> None:
        """Report that the list of offered tools has changed."""
        self.on_tools_changed()

    def tools(self) -> list[ToolInfo]:
        """Every tool that is offered, the listing tools included."""
        return [tool.info() for tool in self._tools.values()]

    @property
    def approvers(self) -> int:
        """How many operators must have signed for an action; 0 where no approval is required."""
        config = self._context.config
        return config.approvers if config.require_signed_approval else 0

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders that paths must be below."""
        return self._context.config.roots

    @property
    def children(self) -> Children:
        """The programs that this device runs, hosted servers included."""
        return self._context.children

    @property
    def observations(self) -> ObservationStore:
        """The observation refs of this device's screenshots."""
        return self._context.observations

    def is_observation(self, command: Command) -> bool:
        """Whether a command can run beside an action: it names an observation tool, or no known tool."""
        tool = self._by_name.get(command.tool_name)
        return tool is None or tool.tool_type == "data_collection"

    def is_instant(self, command: Command) -> bool:
        """Whether a command can be served without waiting."""
        tool = self._tools.get(f"{command.tool_type}::{command.tool_name}")
        return tool is not None and tool.is_instant(command.parameters or {})

    async def run(
        self,
        command: Command,
        deadline_s: float,
        max_result_bytes: int | None = None,
        report: Report = no_progress,
        terms: CommandOptions | None = None,
        binary: bool = False,
        execution: Execution | None = None,
    ) -> Result:
        """Serve one command within `deadline_s` seconds from now.

        `execution`: the command's entry in the executor, if the caller made one when the command arrived.
        Every error becomes a result with status `failure`, whose error text begins with the error code. Only
        a cancelled task returns no result. Bytes in a result come as base64 or, with `binary`, as the blobs
        of a `BinaryResult`.
        """
        if execution is not None:
            result = await self._answer(command, deadline_s, max_result_bytes, report, terms, execution)
        else:
            execution = self.executor.admit(command.call_id)
            try:
                result = await self._answer(command, deadline_s, max_result_bytes, report, terms, execution)
            finally:
                self.executor.release(execution)
        if (tool := self._by_name.get(command.tool_name)) is not None:
            # Failures name the tool's namespace too.
            result.namespace = tool.namespace
        return result if binary else plain(result)

    async def _answer(
        self,
        command: Command,
        deadline_s: float,
        max_result_bytes: int | None,
        report: Report,
        terms: CommandOptions | None,
        execution: Execution,
    ) -> Result:
        if (meta := self._meta(command)) is not None:
            return meta
        execution.waiting = False
        try:
            return await self._serve(command, deadline_s, max_result_bytes, report, terms, execution)
        except FailedWithResult as error:
            return failure(error, command.call_id, await self._shown(error.result, max_result_bytes))
        except QuarterdeckError as error:
            # A cancelled tool may raise its own error, which says more than `cancelled`.
            return failure(error, command.call_id)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not (self.executor.closed or execution.cancelled):
                raise
            task.uncancel()
            return failure(_stopped(command.tool_name, execution), command.call_id)
        except Exception as error:  # any error of a tool: the console must get a result
            log.exception("tool failed", tool=command.tool_name)
            fault = DeviceError(
                sentences(f"{command.tool_name}: {type(error).__name__}: {error}"), ErrorCode.TOOL_FAILED
            )
            return failure(fault, command.call_id)

    def _meta(self, command: Command) -> Result | None:
        """The result of a command without a tool: an empty name, as on stock devices, or a cancel request."""
        if not command.tool_name:
            return Result(
                status=ResultStatus.SUCCESS, error="", result="No action taken.", call_id=command.call_id
            )
        if command.tool_name != CANCEL_COMMAND:
            return None
        wanted = (command.parameters or {}).get("call_id")
        answer = {"cancelled": isinstance(wanted, str) and self.executor.cancel(wanted)}
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
        execution: Execution,
    ) -> Result:
        tool = self._find(command)
        approval = self._approvals.check(tool, command, terms) if self._approvals is not None else None
        arguments = self._guard.check(tool, command.parameters)
        if self._approvals is not None and approval is not None:
            await self._context.in_thread(self._approvals.use, approval)
        if tool.is_instant(arguments):
            value = await tool.run(ToolCall(arguments, report=report))
        else:
            seconds = min(deadline_s, self._longest)
            approved = approval is not None or await self._approved_look(tool, command, terms)
            call = ToolCall(arguments, report=report, room=max_result_bytes, approved=approved)
            value = await self.executor.run(execution, tool, call, seconds, self._hold_paths)
        value, blobs = await self._bound(value, max_result_bytes)
        answer = {
            "status": ResultStatus.SUCCESS,
            "result": value,
            "namespace": tool.namespace,
            "call_id": command.call_id,
        }
        return BinaryResult(**answer, blobs=blobs) if blobs else Result(**answer)

    async def _approved_look(self, tool: Tool, command: Command, terms: CommandOptions | None) -> bool:
        """Whether an operator approved exactly this call of a tool that needs no approval."""
        if self._approvals is None or tool.tool_type == "action" or tool.namespace != NAMESPACE:
            return False
        approval = self._approvals.approval_of_look(tool, command, terms)
        if approval is not None and self._context.config.pinned_operators:
            # Used up, so that a replayed frame does not return the private content again.
            await self._context.in_thread(self._approvals.use, approval)
        return approval is not None

    async def _shown(self, value: Any, most: int | None) -> Any:
        """A failed tool's partial result as JSON; None where it is not JSON."""
        try:
            return as_base64(*await self._bound(value, most))
        except QuarterdeckError as error:
            log.warning("nothing to show of a failure", reason=error.message)
            return None

    async def _bound(self, value: Any, most: int | None) -> tuple[Any, Blobs]:
        """The value shortened to this device's limits, and the blobs taken out of it.

        Raises:
            DeviceError: the value is not JSON apart from its bytes, or its bytes exceed the limit.
        """
        if not has_bytes(value):
            bounded, _ = self._guard.bound(value, most)
            return bounded, {}
        blobs: Blobs = {}
        # In a thread: hashing megabytes would block the loop.
        skeleton = await self._context.in_thread(take_out, value, blobs)
        allowed = min(self._context.config.limits.max_output_bytes, most or sys.maxsize)
        size = base64_size(blobs)
        if size > allowed:
            raise DeviceError(
                f"The result has {size} bytes of pictures or data; this device sends at most {allowed}.",
                ErrorCode.BAD_RESULT,
            )
        bounded, _ = self._guard.bound(skeleton, max(1024, allowed - size))
        return bounded, blobs

    async def close(self) -> None:
        """Stop all running calls, child processes included, and wait until they have ended."""
        await self.executor.close()
        if self.hosted is not None:
            await self.hosted.close()
        await self._context.children.close()
        await self._context.desktop.close()
        # A file that is being written is finished first; a disk that does not answer is not waited for.
        end_threads = functools.partial(self._threads.shutdown, wait=True, cancel_futures=True)
        await asyncio.to_thread(end_threads)
        self._context.store.close()

    @property
    def _longest(self) -> float:
        return self._context.config.limits.tool_timeout_s

    def _find(self, command: Command) -> Tool:
        if self.executor.closed:
            raise DeviceError("The device client is ending.", ErrorCode.CANCELLED)
        tool = self._tools.get(f"{command.tool_type}::{command.tool_name}")
        if tool is not None:
            return tool
        named = self._by_name.get(command.tool_name)
        if named is not None:
            if named.meta_tool:
                # Stock servers request the list under the tool type of their agent.
                return named
            raise BadInput(
                f"{command.tool_name} is offered as {named.tool_type}, not as {command.tool_type}.",
                ErrorCode.UNKNOWN_TOOL,
            )
        for missing in self.unavailable:
            if missing.tool == command.tool_name:
                raise BadInput(
                    sentences(f"{missing.tool} is not offered: {missing.reason}", missing.how_to_fix),
                    ErrorCode.UNKNOWN_TOOL,
                )
        offered = ", ".join(sorted(self._by_name))
        raise BadInput(
            f"This device has no tool {command.tool_name[:120]!r}. It has: {offered}.", ErrorCode.UNKNOWN_TOOL
        )

    async def _hold_paths(self, tool: Tool, call: ToolCall) -> ToolCall:
        """The call with its paths opened below the roots, so that what was checked is what is used."""
        if not tool.path_arguments:
            return call
        paths = await self._context.in_thread(self._guard.hold_paths, tool, call.arguments, call.approved)
        return replace(call, paths=paths)


def failure(error: QuarterdeckError, call_id: str | None, result: Any = None) -> Result:
    """An error as an AIP result; `result` is a partial result, if any."""
    return Result(
        status=ResultStatus.FAILURE,
        # A path in it may hold any bytes.
        error=valid_text(error_text(error)),
        result=result,
        namespace=NAMESPACE,
        call_id=call_id,
    )
