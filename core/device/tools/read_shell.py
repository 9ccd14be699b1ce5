"""The tool `shell_execute_read`: a shell in a sandbox without write access and without a network."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from core.device.private_places import outermost, private_places, shown_place
from core.device.processes.job import CompletedProcess
from core.device.sandbox.interface import Missing
from core.device.tool import (
    OBSERVES,
    FailedWithResult,
    Tool,
    ToolCall,
    Unavailable,
    nullable,
    object_schema,
    text,
)
from core.device.tool_context import ToolContext
from core.device.tools.shell import (
    OUTPUT,
    TRUNCATED,
    TimeLimit,
    common,
    ended_in_time,
    shell_arguments,
    working_directory,
)
from core.errors import ErrorCode

if sys.platform == "linux":
    from core.device.tools import read_shell_linux as sandbox
elif sys.platform == "darwin":
    from core.device.tools import read_shell_macos as sandbox

NAME = "shell_execute_read"
# Messages of the C library and common programs when the sandbox denied an operation.
_WALLS = re.compile(
    r"read-only file system|operation not permitted|network is unreachable|could not resolve host"
    r"|temporary failure in name resolution|resource temporarily unavailable",
    re.IGNORECASE,
)
_MOST_BLOCKED = 20
_MOST_LINE = 500
NOT_FOR_WINDOWS = Missing(
    "It is not for Windows: there is no sandbox for it",
    "Look with list_directory, read_file and list_processes, or have shell_execute approved",
)


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """The read-only shell, if this machine has a sandbox that passes its self-test."""
    if NAME in workshop.config.tools_off:
        # No self-test for a disabled tool; the router reports that it is disabled.
        return [_tool(workshop, None)], []
    if sys.platform == "win32":
        return [], [Unavailable(NAME, NOT_FOR_WINDOWS.reason, NOT_FOR_WINDOWS.how_to_fix)]
    else:
        if (missing := sandbox.missing(workshop.config)) is not None:
            return [], [Unavailable(NAME, missing.reason, missing.how_to_fix)]
        return [_tool(workshop, _runner(workshop))], []


if sys.platform != "win32":

    def _runner(workshop: ToolContext) -> Callable[[ToolCall], Awaitable[dict[str, Any]]]:
        """The function that serves calls, where there is a sandbox."""

        async def shell_execute_read(call: ToolCall) -> dict[str, Any]:
            private = [] if call.approved else await workshop.in_thread(private_places, workshop.config)
            folder = await working_directory(workshop, call)
            finished, limit = await sandbox.run(workshop, call, private, folder)
            hidden = await workshop.in_thread(_hidden, private)
            not_seen = await workshop.in_thread(sandbox.not_seen, workshop.config, private, call, finished)
            return _answer(finished, limit, hidden, not_seen)

        return shell_execute_read


def _answer(
    finished: CompletedProcess, limit: TimeLimit, hidden: list[str], not_seen: list[dict[str, Any]]
) -> dict[str, Any]:
    """The result of a line that has ended.

    Raises:
        FailedWithResult: it ran out of time, or failed where the sandbox denied it something.
    """
    answer = {
        **common(finished),
        "truncated": finished.truncated,
        "blocked": blocked_lines(finished.stderr),
        "hidden": hidden,
        "not_seen": not_seen,
    }
    ended_in_time(answer, finished, limit)
    if finished.exit_code != 0:
        if (place := named_place(finished.stderr, hidden)) is not None:
            said = f"{place} is private: it is shown only to a line that an operator approved"
            raise FailedWithResult(said, ErrorCode.DENIED_BY_DEVICE, answer)
        if answer["blocked"]:
            said = (
                "This tool can only read. shell_execute runs a line that changes something. The system "
                f"refused: {answer['blocked'][0]}"
            )
            raise FailedWithResult(said, ErrorCode.DENIED_BY_DEVICE, answer)
    return answer


def _hidden(private: list[str]) -> list[str]:
    """The existing private places, in display form (with ~)."""
    return [shown_place(place) for place in outermost(private) if os.path.lexists(place)]


def named_place(stderr: bytes, hidden: list[str]) -> str | None:
    """The first hidden place that the error output names; None where it names none."""
    lines = stderr.decode("utf-8", "replace")
    for place in hidden:
        # Searched relative to the home, because programs print a path as it was given to them.
        name = re.escape(place.removeprefix("~").lstrip("/"))
        if re.search(rf"(?:^|[\s/'\"‘“:]){name}(?:$|[\s/'\"’”:])", lines, re.MULTILINE):
            return place
    return None


def blocked_lines(stderr: bytes) -> list[str]:
    """The lines of standard error that report an operation denied by the sandbox."""
    lines = stderr.decode("utf-8", "replace").splitlines()
    return [line[:_MOST_LINE] for line in lines if _WALLS.search(line)][:_MOST_BLOCKED]


def _tool(workshop: ToolContext, run: Any) -> Tool:
    blocked = {
        "type": "array",
        "items": text("A line of standard error."),
        "description": "Where the command ran into what the sandbox forbids.",
    }
    hidden = {
        "type": "array",
        "items": text("A file or folder; ~ is the home."),
        "description": "What is there but private, and was not shown to this line.",
    }
    not_seen = {
        "type": "array",
        "items": object_schema(
            {
                "what": text("Such as processes, sockets, network, services or folders."),
                "why": text("Which program or path it is about, and what the sandbox shows instead."),
                "instead": nullable(text("The tool that can tell.")),
            }
        ),
        "description": "What the line asked for and was not shown: its output is not the whole truth.",
    }
    return Tool(
        name=NAME,
        title="Look with a shell command",
        tool_type="data_collection",
        description=(
            "Run a line in a shell that can only read: the kernel forbids it to change anything, to use any "
            "network or socket, and to leave a process behind. A command that tries gets an error. "
            "/tmp, /run and the device client's own files are hidden, but allowed roots there are not: of an "
            "allowed /tmp only other programs' sockets and credentials are. "
            "It does not see the machine's processes (list_processes does), sockets, network or services; "
            "`not_seen` in the result says what of that the line asked for. "
            "Keys, passwords, browser data and histories are shown only to a line that an operator approved."
        ),
        input_schema=shell_arguments(workshop),
        output_schema=object_schema(
            {**OUTPUT, "truncated": TRUNCATED, "blocked": blocked, "hidden": hidden, "not_seen": not_seen}
        ),
        contract=OBSERVES,
        run=run,
        platforms=("linux", "macos"),
        path_arguments=("working_directory",),
        stops_with_task=True,
        keeps_deadline=True,
    )
