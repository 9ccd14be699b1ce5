"""The tools `shell_execute` and `EXEC_CLI`; the latter has the result format that UFO's LinuxAgent expects.

A command that exceeds its own time limit or the deadline of its call fails with the code `timeout`. Its
result then has exit code 124 and the output up to that moment.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any

from core.device.fs.safe_path import SafePath
from core.device.processes.job import POLITE_S, CompletedProcess
from core.device.tool import (
    Contract,
    FailedWithResult,
    Tool,
    ToolCall,
    Unavailable,
    number,
    object_schema,
    text,
    whole_number,
    yes_or_no,
)
from core.device.tool_context import ToolContext
from core.errors import BadInput, ErrorCode
from core.ids import now_in_ms

DEFAULT_TIMEOUT_S = 30
# The exit code of `timeout(1)`; LinuxAgent expects it.
TIMED_OUT = 124
# A call's deadline on the device is nine tenths of the console's; half of the last tenth is for ending it.
_HASTE = 20
_RUNS_ANYTHING = Contract("destroy", "high", reversible=False, idempotent=False, open_world=True)


async def working_directory(workshop: ToolContext, call: ToolCall) -> SafePath:
    """The folder in which a call starts: its argument, checked, or the first allowed root.

    Raises:
        BadInput: the folder does not exist.
    """
    root = workshop.first_root
    held = call.paths.get("working_directory", SafePath(root, root))
    if not await workshop.in_thread(os.path.isdir, held.path):
        raise BadInput(f"working_directory {held.path} is not a folder.", ErrorCode.NOT_FOUND)
    return held


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How long a call may run, in seconds: `asked` by its argument, `left` until its deadline."""

    asked: float
    left: float

    @property
    def seconds(self) -> float:
        """The shorter of the two limits, in seconds from now."""
        return max(0.0, min(self.asked, self.left))

    @property
    def polite(self) -> float:
        """Seconds that a command has to end by itself after its limit.

        Shorter after the deadline of the call, because the console then waits only a tenth of the deadline
        longer, a second at most.
        """
        return POLITE_S if self.asked <= self.left else min(POLITE_S, self.left / _HASTE)

    def words(self, finished: CompletedProcess) -> str:
        """The error message for a command that exceeded this limit."""
        if self.asked <= self.left:
            why = f"after {self.asked:g} s, the time-out that was asked for"
        else:
            why = f"after {finished.seconds:.3g} s, when the deadline of the call had passed"
        said = f"The command ran out of time {why}; its process group was killed"
        if finished.left:
            said += f", but not these of its processes: {', '.join(map(str, finished.left))}"
        return said


def time_limit(workshop: ToolContext, call: ToolCall) -> TimeLimit:
    """The time limit of a call that starts now."""
    longest = workshop.config.limits.shell_timeout_s
    asked = float(call.arguments.get("timeout", min(DEFAULT_TIMEOUT_S, longest)))
    return TimeLimit(asked, call.until - asyncio.get_running_loop().time())


def shell_arguments(workshop: ToolContext, **more: Any) -> dict[str, Any]:
    """The input schema of a tool that runs a line; `more` are further arguments."""
    longest = workshop.config.limits.shell_timeout_s
    return object_schema(
        {
            "command": text("The line for the shell.", minLength=1),
            "timeout": number(
                "Seconds until the whole process group is killed.",
                exclusiveMinimum=0,
                maximum=longest,
                default=min(DEFAULT_TIMEOUT_S, longest),
            ),
            "working_directory": text("Where it starts; the first allowed root when left out."),
            **more,
        },
        required=("command",),
    )


ENV = {
    "type": "object",
    "description": (
        'Variables for the line, by name. In the line "$NAME" is the value as one word, whatever it contains.'
    ),
    "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": 200},
    "additionalProperties": {"type": "string"},
    "maxProperties": 100,
}
OUTPUT = {
    "stdout": text("Standard output; bytes that are not UTF-8 are replaced."),
    "stderr": text("Standard error, likewise."),
    "exit_code": whole_number("Exit code; 128 + N after signal N; 124 after a time-out."),
    "execution_time": number("Seconds it ran."),
}
TRUNCATED = yes_or_no("Whether output beyond the device's limit was dropped.")


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """Both shell tools; on a supported platform they need nothing that could be missing."""
    children = workshop.children

    async def run(call: ToolCall) -> tuple[CompletedProcess, TimeLimit]:
        folder = await working_directory(workshop, call)
        workshop.guard.process_slot(children.running)
        limit = time_limit(workshop, call)
        line, variables = call.arguments["command"], call.arguments.get("env", {})
        finished = await children.run_shell(line, folder, limit.seconds, call.report, limit.polite, variables)
        return finished, limit

    async def shell_execute(call: ToolCall) -> dict[str, Any]:
        finished, limit = await run(call)
        answer = {**common(finished), "truncated": finished.truncated}
        return ended_in_time(answer, finished, limit)

    async def exec_cli(call: ToolCall) -> dict[str, Any]:
        finished, limit = await run(call)
        timed_out = finished.exit_code is None
        answer = {
            **common(finished),
            "command": call.arguments["command"],
            "timestamp": now_in_ms(),
            "status": "TIMEOUT" if timed_out else "SUCCESS" if finished.exit_code == 0 else "ERROR",
            **({"truncated": True} if finished.truncated else {}),
        }
        return ended_in_time(answer, finished, limit)

    return [_shell_execute(workshop, shell_execute), _exec_cli(workshop, exec_cli)], []


def _shell_execute(workshop: ToolContext, run: Any) -> Tool:
    return Tool(
        name="shell_execute",
        title="Run a shell command",
        tool_type="action",
        description=(
            "Run a line in this machine's shell, in its own process group, and wait for it. "
            "A background process that keeps writing must redirect its output."
        ),
        input_schema=shell_arguments(workshop, env=ENV),
        output_schema=object_schema({**OUTPUT, "truncated": TRUNCATED}),
        contract=_RUNS_ANYTHING,
        run=run,
        path_arguments=("working_directory",),
        stops_with_task=True,
        keeps_deadline=True,
    )


def _exec_cli(workshop: ToolContext, run: Any) -> Tool:
    shape = {
        **OUTPUT,
        "command": text("The line that ran."),
        "timestamp": text("When it ended, ISO 8601, UTC, to the millisecond."),
        "status": {"enum": ["SUCCESS", "ERROR", "TIMEOUT"]},
        "truncated": TRUNCATED,
    }
    return Tool(
        name="EXEC_CLI",
        title="Run a shell command (LinuxAgent)",
        tool_type="action",
        description=(
            "Run a line in this machine's shell and answer in the shape of UFO's LinuxAgent. "
            "A time-out kills the whole process group and gives exit code 124."
        ),
        input_schema=shell_arguments(workshop, env=ENV),
        output_schema=object_schema(shape, required=tuple(key for key in shape if key != "truncated")),
        contract=_RUNS_ANYTHING,
        run=run,
        platforms=("linux",),
        path_arguments=("working_directory",),
        stops_with_task=True,
        keeps_deadline=True,
    )


def ended_in_time(answer: dict[str, Any], finished: CompletedProcess, limit: TimeLimit) -> dict[str, Any]:
    """Return the answer of a command that ended within its time.

    Raises:
        FailedWithResult: the command timed out (code `timeout`); the answer has its output until then.
    """
    if finished.exit_code is None:
        raise FailedWithResult(limit.words(finished), ErrorCode.TIMEOUT, answer)
    return answer


def common(finished: CompletedProcess) -> dict[str, Any]:
    return {
        "stdout": finished.output_text(),
        "stderr": finished.error_text(),
        "exit_code": TIMED_OUT if finished.exit_code is None else finished.exit_code,
        "execution_time": round(finished.seconds, 4),
    }
