"""`shell_execute_read`: a shell that the kernel keeps from changing anything and from every network."""

from __future__ import annotations

import re
import shutil
import sys
from typing import Any

from core.device.children import Finished, Job
from core.device.sandbox import bubblewrap, process_limit, seatbelt
from core.device.tool import (
    OBSERVES,
    FailedWithResult,
    Tool,
    ToolCall,
    Unavailable,
    Workshop,
    object_schema,
    text,
)
from core.device.tools.shell import (
    OUTPUT,
    TRUNCATED,
    common,
    seconds_for,
    shell_arguments,
    working_directory,
)
from core.errors import ErrorCode

NAME = "shell_execute_read"
# What the C library and common programs say when one of the sandbox's walls was in the way.
_WALLS = re.compile(
    r"read-only file system|operation not permitted|network is unreachable|could not resolve host"
    r"|temporary failure in name resolution|resource temporarily unavailable",
    re.IGNORECASE,
)
_MOST_BLOCKED = 20
_MOST_LINE = 500
# Helpers of the sandbox, beside what the command itself may start.
_OWN_PROCESSES = 3


def offer(workshop: Workshop) -> tuple[list[Tool], list[Unavailable]]:
    """The read-only shell, where this machine has a sandbox that passed its self-test."""
    if NAME in workshop.config.tools_off:
        # No self-test for what is not wanted; the router says why it is missing.
        return [_tool(workshop, None)], []
    if sys.platform == "darwin":
        missing = seatbelt.missing()
    else:
        found = bubblewrap.find(bubblewrap.on_path())
        missing = found if isinstance(found, bubblewrap.Missing) else None
    if missing is not None:
        return [], [Unavailable(NAME, missing.reason, missing.how_to_fix)]

    async def shell_execute_read(call: ToolCall) -> dict[str, Any]:
        finished = await run(workshop, call)
        answer = {
            **common(finished),
            "truncated": finished.truncated,
            "blocked": blocked_lines(finished.stderr),
        }
        if finished.exit_code is None:
            said = f"The command ran out of time after {finished.seconds:.1f} s and was killed"
            raise FailedWithResult(said, ErrorCode.TIMEOUT, answer)
        if answer["blocked"] and finished.exit_code != 0:
            said = f"This tool can only read. The system refused: {answer['blocked'][0]}"
            raise FailedWithResult(said, ErrorCode.DENIED_BY_DEVICE, answer)
        return answer

    return [_tool(workshop, shell_execute_read)], []


async def run(workshop: Workshop, call: ToolCall) -> Finished:
    """Run a call's command inside."""
    folder = await working_directory(workshop, call)
    seconds, config = seconds_for(workshop, call), workshop.config
    shell = [shutil.which("bash") or "/bin/sh", "-c", call.arguments["command"]]
    environment = bubblewrap.clean_environment()
    if sys.platform == "darwin":
        workshop.guard.process_slot(workshop.children.running)
        return await workshop.children.run(
            Job(seatbelt.command(shell), folder.path, seconds, environment, call.report)
        )
    program = bubblewrap.on_path() or "bwrap"
    sandbox = bubblewrap.Bubblewrap(program, config.closed_paths, config.roots)
    most = config.limits.read_shell_processes
    bounds = bubblewrap.Bounds(seconds, config.limits.read_shell_memory_bytes, most)
    line = await workshop.in_thread(sandbox.command, shell, folder.path, bounds)
    # Nothing is awaited from here until it counts as running, so that two cannot take one slot.
    workshop.guard.process_slot(workshop.children.running)
    with bubblewrap.filter_file() as descriptor, process_limit.limited(most + _OWN_PROCESSES) as group:
        job = Job(
            line,
            folder.path,
            seconds,
            environment,
            call.report,
            more=(descriptor,),
            contained=True,
            group=str(group or ""),
        )
        return await workshop.children.run(job, folder)


def blocked_lines(stderr: bytes) -> list[str]:
    """What the command was told when it ran into a wall."""
    lines = stderr.decode("utf-8", "replace").splitlines()
    return [line[:_MOST_LINE] for line in lines if _WALLS.search(line)][:_MOST_BLOCKED]


def _tool(workshop: Workshop, run: Any) -> Tool:
    blocked = {
        "type": "array",
        "items": text("A line of standard error."),
        "description": "Where the command ran into what the sandbox forbids.",
    }
    return Tool(
        name=NAME,
        title="Look with a shell command",
        tool_type="data_collection",
        description=(
            "Run a line in a shell that can only read: the kernel forbids it to change anything, to use any "
            "network or socket, and to leave a process behind. A command that tries gets an error. "
            "/tmp, /run and the device client's own files are hidden, but allowed roots below them are not."
        ),
        input_schema=shell_arguments(workshop),
        output_schema=object_schema({**OUTPUT, "truncated": TRUNCATED, "blocked": blocked}),
        contract=OBSERVES,
        run=run,
        platforms=("linux", "macos"),
        path_arguments=("working_directory",),
        stops_with_task=True,
    )
