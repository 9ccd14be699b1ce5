"""The tool `shell_execute_read`: a shell in a sandbox without write access and without a network."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import asdict
from typing import Any

from core.device.config import DeviceConfig
from core.device.fs.safe_path import SafePath
from core.device.private_places import outermost, private_places, shown_place
from core.device.processes.child_process import CompletedProcess, Job, shell_running
from core.device.sandbox import bubblewrap, cgroup, sandbox_init, seatbelt
from core.device.sandbox.sight import unseen
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
    time_limit,
    working_directory,
)
from core.errors import BadInput, DeviceError, ErrorCode
from core.text import sentences

NAME = "shell_execute_read"
# Messages of the C library and common programs when the sandbox denied an operation.
_WALLS = re.compile(
    r"read-only file system|operation not permitted|network is unreachable|could not resolve host"
    r"|temporary failure in name resolution|resource temporarily unavailable",
    re.IGNORECASE,
)
_MOST_BLOCKED = 20
_MOST_LINE = 500
# The sandbox's own processes, in addition to those that the command may start.
_OWN_PROCESSES = 3
# A folder to be hidden, such as an agent's below /tmp, may vanish before bubblewrap mounts over it.
# bubblewrap then fails before the command starts, so a retry is safe.
_TRIES = 3


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """The read-only shell, if this machine has a sandbox that passes its self-test."""
    config = workshop.config
    if NAME in config.tools_off:
        # No self-test for a disabled tool; the router reports that it is disabled.
        return [_tool(workshop, None)], []
    if sys.platform == "darwin":
        missing = seatbelt.missing()
    else:
        program = bubblewrap.on_path()
        sandbox = _sandbox(config, program, private_places(config)) if program else None
        missing = bubblewrap.find(sandbox)
    if missing is not None:
        return [], [Unavailable(NAME, missing.reason, missing.how_to_fix)]

    async def shell_execute_read(call: ToolCall) -> dict[str, Any]:
        private = [] if call.approved else await workshop.in_thread(private_places, config)
        finished, limit = await run(workshop, call, private)
        answer = {
            **common(finished),
            "truncated": finished.truncated,
            "blocked": blocked_lines(finished.stderr),
            "hidden": await workshop.in_thread(_hidden, private),
            "not_seen": await workshop.in_thread(_not_seen, config, private, call, finished),
        }
        ended_in_time(answer, finished, limit)
        if finished.exit_code != 0:
            if (place := named_place(finished.stderr, answer["hidden"])) is not None:
                said = f"{place} is private: it is shown only to a line that an operator approved"
                raise FailedWithResult(said, ErrorCode.DENIED_BY_DEVICE, answer)
            if answer["blocked"]:
                said = (
                    "This tool can only read. shell_execute runs a line that changes something. The system "
                    f"refused: {answer['blocked'][0]}"
                )
                raise FailedWithResult(said, ErrorCode.DENIED_BY_DEVICE, answer)
        return answer

    return [_tool(workshop, shell_execute_read)], []


async def run(
    workshop: ToolContext, call: ToolCall, private: list[str]
) -> tuple[CompletedProcess, TimeLimit]:
    """Run a call's command in the sandbox, where neither private nor closed paths can be read.

    Raises:
        BadInput: the folder to start in is missing, or was replaced since it was checked.
        DeviceError: the sandbox cannot be created now, or a closed path changed while the command ran.
    """
    folder = await working_directory(workshop, call)
    config = workshop.config
    shell = shell_running(call.arguments["command"])
    environment = bubblewrap.clean_environment()
    if sys.platform == "darwin":
        workshop.guard.process_slot(workshop.children.running)
        line = seatbelt.command(shell, _closed(config, private))
        limit = time_limit(workshop, call)
        job = Job(line, folder.path, limit.seconds, environment, call.report, polite=limit.polite)
        return await workshop.children.run(job), limit
    return await _run_on_linux(workshop, call, private, folder, shell)


async def _run_on_linux(
    workshop: ToolContext, call: ToolCall, private: list[str], folder: SafePath, shell: list[str]
) -> tuple[CompletedProcess, TimeLimit]:
    """As `run`, in bubblewrap's sandbox; tried again where it could not be made."""
    config, environment = workshop.config, bubblewrap.clean_environment()
    sandbox = _sandbox(config, bubblewrap.on_path() or "bwrap", private)
    limits = config.limits
    bounds = bubblewrap.Bounds(
        time_limit(workshop, call).seconds,
        limits.read_shell_memory_bytes,
        limits.read_shell_processes,
        limits.max_processes,
    )
    place = await workshop.in_thread(_place, folder)
    for tries_left in range(_TRIES - 1, -1, -1):
        begun = await workshop.in_thread(sandbox.command, shell, place, bounds)
        # No await from here until the process counts as running, so that two calls cannot take the same slot.
        workshop.guard.process_slot(workshop.children.running)
        with (
            begun.files() as files,
            cgroup.limited(limits.read_shell_processes + _OWN_PROCESSES) as group,
        ):
            limit = time_limit(workshop, call)
            job = Job(
                begun.line(),
                folder.path,
                limit.seconds,
                environment,
                call.report,
                more=files,
                contained=True,
                group=str(group or ""),
                polite=limit.polite,
            )
            finished = await workshop.children.run(job, folder)
            report = files.said()
        if report or finished.exit_code is None or not tries_left:
            break
    _check(report, finished, folder)
    return finished, limit


def _check(report: bytes, finished: CompletedProcess, folder: SafePath) -> None:
    if sandbox_init.OTHER_FOLDER in report:
        raise BadInput(
            f"working_directory {folder.path} changed while it was being opened.", ErrorCode.PATH_NOT_ALLOWED
        )
    if sandbox_init.CLOSED_CHANGED in report:
        raise DeviceError(
            "A protected path was replaced while the command ran, so the command was ended; output that it "
            "had not yet written is not shown. Run it again.",
            ErrorCode.CANCELLED,
        )
    if not report and finished.exit_code is not None:
        lines = finished.stderr.decode("utf-8", "replace").strip().splitlines() or ["bubblewrap says nothing"]
        raise DeviceError(
            sentences(f"The sandbox could not be made: {lines[-1][:_MOST_LINE]}"), ErrorCode.TOOL_FAILED
        )


def _place(folder: SafePath) -> bubblewrap.Place:
    descriptor = folder.open()
    try:
        facts = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return bubblewrap.Place(folder.path, (facts.st_dev, facts.st_ino))


def _sandbox(config: DeviceConfig, program: str, private: list[str]) -> bubblewrap.Bubblewrap:
    return bubblewrap.Bubblewrap(program, _closed(config, private), tuple(map(str, config.roots)))


def _closed(config: DeviceConfig, private: list[str]) -> tuple[str, ...]:
    """The paths hidden from a call. An operator's approval opens private paths, never closed ones."""
    return (*map(str, config.closed_paths), *private)


def _hidden(private: list[str]) -> list[str]:
    """The existing private places, in display form (with ~)."""
    return [shown_place(place) for place in outermost(private) if os.path.lexists(place)]


def _not_seen(
    config: DeviceConfig, private: list[str], call: ToolCall, finished: CompletedProcess
) -> list[dict[str, Any]]:
    """The places that the command line needs and the sandbox hides, each with a tool to use instead."""
    if sys.platform != "linux":
        # Seatbelt denies access with an error; it does not show empty folders in place of hidden ones.
        return []
    folder = call.paths["working_directory"].path if "working_directory" in call.paths else config.roots[0]
    sight = _sandbox(config, "", private).sight(str(folder))
    return [asdict(one) for one in unseen(call.arguments["command"], sight, finished.stdout)]


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
