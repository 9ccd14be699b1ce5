"""The MCP servers that a device hosts: read and changed through its tools, and described in words. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.items.table_model import Cell, Column, Kind
from app.text import one_line
from app.theme.state_looks import server_look
from core.batch.models import Run
from core.errors import BadInput, DeviceError, Refused
from core.models.devices import Device
from core.models.tools import Tool
from core.policy.models import Answer
from core.service.console import Console
from core.text import escape_hidden, plural, sentences, short_line, shorten_middle, some_names

LIST, TRY, ADD = "list_mcp_servers", "try_mcp_server", "add_mcp_server"
SWITCH, RESTART, REMOVE = "switch_mcp_server", "restart_mcp_server", "remove_mcp_server"
UNDO = "undo"
# The line that allows it, and the state of a server that works.
PERMISSION = "servers_from_console = true"
READY = "ready"
FROM_CONSOLE = "console"
_READ_S = 30.0
_LONGEST_NAME = 64
_MOST_WORDS = 2_000
_UNDOABLE = (ADD, SWITCH, REMOVE)
_FIELDS = {
    **dict.fromkeys(("name", "kind", "where", "origin", "state", "reason", "how_to_fix"), str),
    **dict.fromkeys(("tools", "restarts"), int),
}


@dataclass(frozen=True, slots=True)
class HostedServer:
    """One server, as its device says: `where` is its program or address, `origin` who configured it."""

    name: str
    kind: str = ""
    where: str = ""
    origin: str = ""
    state: str = ""
    tools: int = 0
    restarts: int = 0
    reason: str = ""
    how_to_fix: str = ""

    @property
    def problem(self) -> str:
        """Why it is not ready and what to do, in sentences; empty when there is nothing to say."""
        words = (shorten_middle(text, _MOST_WORDS) for text in (self.reason, self.how_to_fix))
        return escape_hidden(sentences(*words))


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A call of a tool for one server."""

    tool: str
    server: str
    arguments: dict[str, Any] = field(default_factory=dict)


class AsksFirst(Refused):
    """The policy wants an approval before even the list is read, so that it is read only when asked for."""


SERVER_COLUMNS: tuple[Column[HostedServer], ...] = (
    Column("server", "Server", Kind.NAME, 130, stretch=True, cell=lambda one: Cell(one_line(one.name))),
    Column(
        "state", "State", Kind.SERVER, 112,
        cell=lambda one: Cell(one_line(one.state), tip=one_line(one.problem)),
    ),
    Column("tools", "Tools", Kind.NUMBER, 48, cell=lambda one: str(one.tools), sort=lambda one: one.tools),
    Column("origin", "Set up in", Kind.TEXT, 92, tone="text3", cell=lambda one: one_line(one.origin)),
)  # fmt: skip


async def read_servers(console: Console, device: str) -> list[HostedServer]:
    """The servers of a device, by a call that is decided and journalled as any other.

    Raises:
        AsksFirst: an operator would have to approve the call; nothing was sent.
        QuarterdeckError: the list cannot be read.
    """
    decision = await console.policy.explain(device, LIST, {})
    if decision.answer is Answer.ASK:
        raise AsksFirst(decision.summary)
    run = await console.runs.call(device, LIST, {})
    return servers_of(await console.runs.wait(run.summary.id, _READ_S))


def servers_of(run: Run) -> list[HostedServer]:
    """The servers in the result of a run of `list_mcp_servers`.

    Raises:
        DeviceError: there is no list in it.
    """
    value, problem = _result(run)
    if problem:
        raise DeviceError(problem)
    if not isinstance(value, list):
        raise DeviceError("The device's answer has no list of servers.")
    rows = [_server(row) for row in value if isinstance(row, dict)]
    return list({server.name: server for server in rows if 0 < len(server.name) <= _LONGEST_NAME}.values())


def _server(row: Mapping[str, Any]) -> HostedServer:
    """A row of a result. It is a device's word: what has another type is left out."""
    kept = {key: row[key] for key, kind in _FIELDS.items() if type(row.get(key)) is kind}
    return HostedServer(**{"name": "", **kept})


def _result(run: Run) -> tuple[Any, str]:
    """The value that the run's one command returned, and why there is none."""
    cell = run.cells[0] if run.cells else None
    result = cell.result if cell is not None else None
    if result is not None and result.error is not None:
        return None, escape_hidden(shorten_middle(result.error.sentences, _MOST_WORDS))
    if result is None or result.result is None:
        note = (result.note if result is not None else "") or (cell.note if cell is not None else "")
        return None, note or f"{run.summary.id} is {run.summary.state.value}."
    return result.result, ""


def outcome_words(call: ServerCall, run: Run) -> tuple[str, bool]:
    """What became of an ended call, in sentences, and whether it went well."""
    value, problem = _result(run)
    if problem:
        return problem, False
    name = one_line(call.server)
    if call.tool == UNDO:
        return "The change is undone.", True
    if call.tool == REMOVE:
        return f"{name} is removed.", True
    if call.tool == TRY:
        return _tried(name, value)
    server = _server({"name": name, **value}) if isinstance(value, dict) else HostedServer(name)
    added = "is added, and " if call.tool == ADD else ""
    if server.state == "off":
        return f"{name} is switched off.", True
    if not server.state:
        return f"{name} {added or 'was called: '}its state is not known.", False
    well = server.state == READY
    tools = f" with {plural(server.tools, 'tool')}" if well else ""
    return sentences(
        f"{name} {added}is {short_line(server_look(server.state).word)}{tools}", server.problem
    ), well


def _tried(name: str, value: Any) -> tuple[str, bool]:
    found = value if isinstance(value, dict) else {}
    server = _server({"name": name, **found})
    if server.state != READY:
        return sentences(f"{name} does not work", server.problem, "Nothing of it is kept"), False
    listed_tools = found.get("tools")
    tools = [short_line(str(tool)) for tool in listed_tools] if isinstance(listed_tools, list) else []
    listed = f"{name} works and lists {plural(len(tools), 'tool')}"
    return sentences(f"{listed}: {some_names(tools)}" if tools else listed, "Nothing of it is kept"), True


def can_be_undone(call: ServerCall, run: Run) -> bool:
    """Whether the device has kept how it was before the call."""
    value, _ = _result(run)
    return call.tool in _UNDOABLE and isinstance(value, dict) and isinstance(value.get("undo"), str)


def why_not_allowed(device: Device, tools: list[Tool], home: str) -> tuple[str, str]:
    """Why a console cannot add servers to a connected device, and what to do; empty where it can.

    `home` is the folder of this console's service.
    """
    names = {tool.tool_name for tool in tools}
    if ADD in names:
        return "", ""
    for missing in device.unavailable:
        if missing.tool == ADD:
            return one_line(missing.reason), one_line(missing.how_to_fix)
    if not device.features and LIST not in names:
        return "Its client hosts no MCP servers.", "Only Quarterdeck's own device client does."
    if device.direction == "local":
        file, then = f"{home}/{device.name}/device.toml", "Start the service again afterwards."
    else:
        file, then = "its device.toml, on the device", "Start its device client again afterwards."
    return (
        "It takes no servers from a console.",
        f"Only the device itself can allow it. Put this line into {file}, above the first line that begins "
        f"with [. {then}",
    )


def entries_in(value: Any) -> dict[str, dict[str, Any]]:
    """The entries in pasted JSON by server name: `mcpServers`, `servers` as in VS Code, or one bare entry.

    The name of a bare entry is empty.

    Raises:
        BadInput: there is none in it.
    """
    if isinstance(value, dict):
        if isinstance(value.get("mcp"), dict):
            value = value["mcp"]
        if "command" in value or "url" in value:
            return {"": value}
        servers = value.get("mcpServers", value.get("servers", value))
        if isinstance(servers, dict) and servers and all(isinstance(one, dict) for one in servers.values()):
            return servers
    raise BadInput('Write {"mcpServers": {"NAME": {"command": …}}}, as other MCP hosts have it.')


def known_part(entry: dict[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What a device takes of an entry, and the names that it does not know; `schema` is that of the tool."""
    properties = schema.get("properties", {})
    described = properties.get("entry", {}) if isinstance(properties, dict) else {}
    known = described.get("properties", {}) if isinstance(described, dict) else {}
    return {key: entry[key] for key in entry if key in known}, [key for key in entry if key not in known]
