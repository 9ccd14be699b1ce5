"""The tool `list_processes`: lists the processes of this machine."""

from __future__ import annotations

import contextlib
from typing import Any

from core.device import applications, process_table
from core.device.tool import (
    OBSERVES,
    Tool,
    ToolCall,
    Unavailable,
    nullable,
    number,
    object_schema,
    text,
    whole_number,
    yes_or_no,
)
from core.device.tool_context import ToolContext
from core.errors import DeviceError

DEFAULT_ROWS = 200
_MOST_ROWS = 5000
_LONGEST_TITLE = 200

_ALWAYS = (
    "pid",
    "parent_pid",
    "name",
    "user",
    "status",
    "cpu_percent",
    "memory_bytes",
    "started_at",
    "command_line",
)
_ROW = object_schema(
    {
        "pid": whole_number("Process id."),
        "parent_pid": whole_number("Process id of its parent; 0 for none."),
        "name": text("Name of its program."),
        "user": nullable(text("Who runs it; null where that is not told.")),
        "status": text("What it does now, such as running, sleeping or zombie."),
        "cpu_percent": number("Share of one processor over the last tenth of a second."),
        "memory_bytes": whole_number("Resident memory."),
        "started_at": text("ISO 8601."),
        "command_line": text("With values that look like secrets replaced; empty where it is not told."),
        "windows": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Titles of its windows, where it has any and they can be listed.",
        },
    },
    required=_ALWAYS,
)


def offer(workshop: ToolContext) -> tuple[list[Tool], list[Unavailable]]:
    """The tool, which is available on every platform."""

    async def list_processes(call: ToolCall) -> dict[str, Any]:
        given = call.arguments
        wanted = {given["pid"]} if "pid" in given else None
        if "program" in given:
            meant = await workshop.in_thread(applications.programs, given["program"])
            pids = {one.pid for one in meant}
            wanted = pids if wanted is None else wanted & pids
        found = await workshop.in_thread(
            process_table.rows,
            given.get("name"),
            given.get("user"),
            float(given.get("min_cpu_percent", 0)),
            int(given.get("min_memory_bytes", 0)),
            wanted,
        )
        titles = await window_titles(workshop)
        for row in found:
            if row["pid"] in titles:
                row["windows"] = titles[row["pid"]]
        most = int(given.get("max_rows", DEFAULT_ROWS))
        return {"processes": found[:most], "total": len(found), "truncated": len(found) > most}

    return [_list_processes(list_processes)], []


async def window_titles(workshop: ToolContext) -> dict[int, list[str]]:
    """The titles of each process's windows; empty where windows cannot be listed."""
    titles: dict[int, list[str]] = {}
    with contextlib.suppress(DeviceError):
        for window in await workshop.desktop.windows():
            if window.process_id is not None and window.title:
                titles.setdefault(window.process_id, []).append(window.title[:_LONGEST_TITLE])
    return titles


def _list_processes(run: Any) -> Tool:
    return Tool(
        name="list_processes",
        title="List processes",
        tool_type="data_collection",
        description="List running processes, those that use most first. Filters are combined.",
        input_schema=object_schema(
            {
                "name": text("Only programs with this in their name; case does not matter.", minLength=1),
                "program": text(
                    "Only programs that close_application can mean by this name: the first process of each.",
                    minLength=1,
                ),
                "pid": whole_number("Only the process with this id.", minimum=1, maximum=2**31 - 1),
                "user": text("Only this user's.", minLength=1),
                "min_cpu_percent": number("Only those that use at least this.", minimum=0, default=0),
                "min_memory_bytes": whole_number(
                    "Only those that use at least this.", minimum=0, maximum=2**53 - 1, default=0
                ),
                "max_rows": whole_number(
                    "Most rows to return.", minimum=1, maximum=_MOST_ROWS, default=DEFAULT_ROWS
                ),
            },
            required=(),
        ),
        output_schema=object_schema(
            {
                "processes": {"type": "array", "items": _ROW},
                "total": whole_number("How many match."),
                "truncated": yes_or_no("Whether some that match were left out."),
            }
        ),
        contract=OBSERVES,
        run=run,
    )
