"""The tools `launch_application` and `close_application`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psutil

from core.controls import program_of, program_text, several_programs
from core.device import applications
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
from core.device.tools.processes import window_titles
from core.device.tools.ui import ALSO_PROGRAM
from core.errors import BadInput, ErrorCode

DEFAULT_WAIT_S = 5.0
_LONGEST_WAIT_S = 60.0
# The programs that a refusal lists.
_MOST_NAMED = 10
_PIDS = {"type": "array", "items": {"type": "integer"}, "description": "Process ids."}


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """Both tools, which are available on every platform."""

    async def launch_application(call: ToolCall) -> dict[str, Any]:
        name, given = call.arguments["app_name"], call.arguments.get("args", [])
        line = await workshop.in_thread(applications.command_for, name, given)
        children = workshop.children
        # Launched programs count towards this limit while they live, but not towards that of the shells.
        workshop.guard.process_slot(children.running + children.launched())
        # A desktop program starts in the user's home, not in the device client's working directory.
        return {"pid": await children.launch(line, dict(os.environ), Path.home())}

    async def close_application(call: ToolCall) -> dict[str, Any]:
        name, pid = program_of(call.arguments), call.arguments.get("pid")
        process = await _meant(workshop, name, pid)
        seconds = float(call.arguments.get("wait", DEFAULT_WAIT_S))

        def close() -> tuple[list[int], list[int]]:
            return applications.close([process], seconds, call.arguments.get("force", False))

        closed, remaining = await workshop.in_thread(close)
        if remaining:
            listed = ", ".join(map(str, remaining))
            said = f"Still running {seconds:g} s after being asked: {listed}. With force it would be killed"
            code = ErrorCode.PARTIAL_FAILURE if closed else ErrorCode.TOOL_FAILED
            raise FailedWithResult(said, code, {"closed": closed})
        return {"closed": closed}

    return [_launch_application(launch_application), _close_application(close_application)], []


async def _meant(workshop: ToolContext, name: str | None, pid: int | None) -> psutil.Process:
    """The process to close.

    Raises:
        BadInput: there is none, or the name alone fits several programs.
        Refused: it is protected.
    """
    if pid is not None:
        return await workshop.in_thread(applications.process_of, pid, name)
    if name is None:
        raise BadInput("close_application needs process_name or pid.")
    found = await workshop.in_thread(applications.programs, name)
    if len(found) > 1:
        titles = await window_titles(workshop)
        rows = [program_text(one.pid, titles.get(one.pid, ())) for one in found[:_MOST_NAMED]]
        rows += ["…"] if len(found) > _MOST_NAMED else []
        raise BadInput(several_programs(name, len(found), rows))
    return found[0]


def _launch_application(run: Any) -> Tool:
    return Tool(
        name="launch_application",
        title="Start an application",
        tool_type="action",
        description=(
            "Start an application by the name it has in the desktop's menu, or a program on PATH. It goes on "
            "by itself, also when the device client ends; its output is thrown away."
        ),
        input_schema=object_schema(
            {
                "app_name": text("Name in the menu, of its .desktop file, or of a program.", minLength=1),
                "args": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Arguments, each as it is; no shell looks at them.",
                    "default": [],
                },
            },
            required=("app_name",),
        ),
        output_schema=object_schema({"pid": whole_number("Process id.")}),
        contract=Contract("change", "high", reversible=False, idempotent=False, open_world=True),
        run=run,
    )


def _close_application(run: Any) -> Tool:
    return Tool(
        name="close_application",
        title="Close an application",
        tool_type="action",
        description=(
            "Ask one program to end: through its windows where it has any, then with SIGTERM. With force, "
            "it is killed if it has not ended, and what it had not saved is lost. The device client and what "
            "it hangs from are never closed."
        ),
        input_schema=object_schema(
            {
                "process_name": text(
                    "The program of this user with this name; where there are several, pid says which.",
                    minLength=1,
                ),
                "app_root_name": ALSO_PROGRAM,
                "pid": whole_number(
                    "The process with this id, which must be called process_name if that is given.",
                    minimum=1,
                    maximum=2**31 - 1,
                ),
                "force": yes_or_no("Kill what does not end by itself.", default=False),
                "wait": number(
                    "Seconds to wait for it to end.",
                    exclusiveMinimum=0,
                    maximum=_LONGEST_WAIT_S,
                    default=DEFAULT_WAIT_S,
                ),
            },
            required=(),
        ),
        output_schema=object_schema({"closed": _PIDS}),
        contract=Contract("destroy", "high", reversible=False, idempotent=True),
        run=run,
    )
