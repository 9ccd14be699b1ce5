"""The read-only shell on Linux: a line in bubblewrap's sandbox, and what that hides from the line."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from typing import Any

from core.device.config import DeviceConfig
from core.device.fs.safe_path import SafePath
from core.device.private_places import closed_to, private_places
from core.device.processes import posix
from core.device.processes.job import CompletedProcess, Job
from core.device.sandbox import bubblewrap, cgroup, sandbox_init
from core.device.sandbox.interface import Missing, clean_environment
from core.device.sandbox.sight import unseen
from core.device.tool import ToolCall
from core.device.tool_context import ToolContext
from core.device.tools.shell import TimeLimit, time_limit
from core.errors import BadInput, DeviceError, ErrorCode
from core.text import sentences

assert sys.platform == "linux"

_MOST_LINE = 500
# The sandbox's own processes, in addition to those that the command may start.
_OWN_PROCESSES = 3
# A folder to be hidden, such as an agent's below /tmp, may vanish before bubblewrap mounts over it.
# bubblewrap then fails before the command starts, so a retry is safe.
_TRIES = 3


def missing(config: DeviceConfig) -> Missing | None:
    """Why this machine has no sandbox; None where it passes its self-test."""
    program = bubblewrap.on_path()
    sandbox = _sandbox(config, program, private_places(config)) if program else None
    return bubblewrap.find(sandbox)


async def run(
    workshop: ToolContext, call: ToolCall, private: list[str], folder: SafePath
) -> tuple[CompletedProcess, TimeLimit]:
    """Run a call's line in the sandbox, which is tried again where it could not be made.

    Raises:
        BadInput: the folder to start in was replaced since it was checked.
        DeviceError: the sandbox cannot be created now, or a closed path changed while the command ran.
    """
    config, environment = workshop.config, clean_environment()
    sandbox = _sandbox(config, bubblewrap.on_path() or "bwrap", private)
    shell = posix.shell_running(call.arguments["command"])
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
    return bubblewrap.Bubblewrap(program, closed_to(config, private), tuple(map(str, config.roots)))


def not_seen(
    config: DeviceConfig, private: list[str], call: ToolCall, finished: CompletedProcess
) -> list[dict[str, Any]]:
    """The places that the command line needs and the sandbox hides, each with a tool to use instead."""
    folder = call.paths["working_directory"].path if "working_directory" in call.paths else config.roots[0]
    sight = _sandbox(config, "", private).sight(str(folder))
    return [asdict(one) for one in unseen(call.arguments["command"], sight, finished.stdout)]
