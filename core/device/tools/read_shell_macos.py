"""The read-only shell on macOS: a line under `sandbox-exec`. Not yet tested on a machine."""

from __future__ import annotations

import sys
from typing import Any

from core.device.config import DeviceConfig
from core.device.fs.safe_path import SafePath
from core.device.private_places import closed_to
from core.device.processes import posix
from core.device.processes.job import CompletedProcess, Job
from core.device.sandbox import seatbelt
from core.device.sandbox.interface import Missing, clean_environment
from core.device.tool import ToolCall
from core.device.tool_context import ToolContext
from core.device.tools.shell import TimeLimit, time_limit

assert sys.platform != "win32"


def missing(config: DeviceConfig) -> Missing | None:
    """Why this machine has no sandbox; None where a test write was denied."""
    return seatbelt.missing()


async def run(
    workshop: ToolContext, call: ToolCall, private: list[str], folder: SafePath
) -> tuple[CompletedProcess, TimeLimit]:
    """Run a call's line in the sandbox."""
    workshop.guard.process_slot(workshop.children.running)
    shell = posix.shell_running(call.arguments["command"])
    line = seatbelt.command(shell, closed_to(workshop.config, private))
    limit = time_limit(workshop, call)
    job = Job(line, folder.path, limit.seconds, clean_environment(), call.report, polite=limit.polite)
    return await workshop.children.run(job), limit


def not_seen(
    config: DeviceConfig, private: list[str], call: ToolCall, finished: CompletedProcess
) -> list[dict[str, Any]]:
    """Nothing: this sandbox denies access with an error, and shows no empty folder for a hidden one."""
    return []
