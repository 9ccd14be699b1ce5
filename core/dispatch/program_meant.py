"""Binds a call that closes a program by its name to one process, before it is judged and approved.

A name fits other programs a moment later, and `close_application` closes what it fits. So the device is
asked which programs have the name, and the id of the only one goes into the arguments: it is on the card,
approved, recorded and sent, and the device closes that process or none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from core.commands.request import CommandRequest, Purpose
from core.commands.results import CommandResult
from core.controls import program_of, program_text, several_programs
from core.dispatch.command import DispatchedCommand
from core.errors import BadInput, ErrorCode, QuarterdeckError, Refused
from core.models.tool_names import CLOSE_APPLICATION, LIST_PROCESSES
from core.models.tools import BUILT_IN_NAMESPACE, Tool
from core.text import clause

MOST_NAMED = 10
"""The most programs that a refusal lists."""
LOOK_TIMEOUT = 20.0

Dispatch = Callable[[CommandRequest], Awaitable[CommandResult]]


async def with_process(command: DispatchedCommand, dispatch: Dispatch) -> CommandRequest | None:
    """The request with the id of the process that it means; None if it needs none.

    The look is a read of the same actor, judged like any other; it never waits for an operator.

    Raises:
        BadInput: no program has the name, or several have.
        QuarterdeckError: the device cannot be asked.
    """
    name = _only_name(command)
    if name is None:
        return None
    request = command.request
    wish = CommandRequest(
        request.device,
        LIST_PROCESSES,
        {"program": name, "max_rows": MOST_NAMED},
        request.actor,
        run=request.run,
        timeout=LOOK_TIMEOUT,
        purpose=Purpose.PREVIEW,
        operators=request.operators,
        cancelled=request.cancelled,
    )
    result = await dispatch(wish)
    if result.error is not None:
        if result.error.code in (ErrorCode.STOPPED, ErrorCode.CANCELLED, ErrorCode.JOURNAL_UNAVAILABLE):
            raise Refused(result.error.message, result.error.code)
        words = clause(result.error.message)
        raise QuarterdeckError(
            f"Which program is called {name!r} was not found out: {words}. Name its pid.", result.error.code
        )
    found = result.result if isinstance(result.result, dict) else {}
    rows = [row for row in found.get("processes", ()) if isinstance(row, dict)]
    pids = [row["pid"] for row in rows if isinstance(row.get("pid"), int)]
    total = found.get("total")
    if not pids or len(pids) != len(rows):
        raise BadInput(f"No program is called {name!r}.", ErrorCode.NOT_FOUND)
    if total != 1:
        listed = [program_text(row["pid"], _titles(row)) for row in rows]
        raise BadInput(several_programs(name, total if isinstance(total, int) else len(rows), listed) + ".")
    return replace(request, parameters={**request.parameters, "pid": pids[0]})


def _only_name(command: DispatchedCommand) -> str | None:
    """The program's name, if the call names a program of our own device client by that alone."""
    tool = command.tool
    if tool.tool_name != CLOSE_APPLICATION or tool.namespace != BUILT_IN_NAMESPACE:
        return None
    sent = command.arguments.sent
    lister = command.target.tools.get(LIST_PROCESSES)
    if sent.get("pid") is not None or not _tells_programs(lister):
        # A device that cannot be asked refuses a name that fits several programs by itself.
        return None
    return program_of(sent)


def _tells_programs(lister: Tool | None) -> bool:
    if lister is None or lister.namespace != BUILT_IN_NAMESPACE:
        return False
    properties: Any = (lister.input_schema or {}).get("properties")
    return isinstance(properties, dict) and "program" in properties


def _titles(row: dict[str, Any]) -> list[str]:
    titles = row.get("windows")
    return [title for title in titles if isinstance(title, str)] if isinstance(titles, list) else []
