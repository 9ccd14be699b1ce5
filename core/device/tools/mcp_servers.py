"""The tools that list, restart, try, add, switch and remove the MCP servers that this device hosts.

The console may change only the servers that it added, and only where device.toml has
`servers_from_console = true`: an entry starts a program. The servers of device.toml belong to the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from core.device.mcp.added_servers import AddedServers, Entries
from core.device.mcp.config import ServerConfig, parse_servers
from core.device.mcp.host import McpHost
from core.device.mcp.server_state import ServerState, State
from core.device.tool import (
    OBSERVES,
    Contract,
    Tool,
    ToolCall,
    object_schema,
    text,
    whole_number,
    yes_or_no,
)
from core.device.tool_context import ToolContext
from core.device.undo import ID_PATTERN
from core.errors import BadInput, ErrorCode

NAMES = (
    "list_mcp_servers",
    "restart_mcp_server",
    "try_mcp_server",
    "add_mcp_server",
    "switch_mcp_server",
    "remove_mcp_server",
)

_START_S = 20.0
_NAME = text(
    "Letters, digits, _ and -; the server's tools are listed as NAME_TOOL.",
    minLength=1,
    maxLength=64,
    pattern="^[A-Za-z0-9][A-Za-z0-9_-]*$",
)
_ANY_NAME = text("The server's name.", minLength=1, maxLength=64)
_SECRETS = {
    "type": "object",
    "additionalProperties": {"type": "string", "writeOnly": True, "description": "A value; kept secret."},
}
_ENTRY = {
    **object_schema(
        {
            "command": text("The program, for a server on this device.", minLength=1),
            "args": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Its arguments. They are shown: put secrets under env.",
            },
            "env": {**_SECRETS, "description": "Its environment variables."},
            "cwd": text("Its working directory."),
            "type": text("The transport, such as http; needed where the entry has it in other programs."),
            "url": text("The address of a streamable HTTP server.", minLength=1),
            "headers": {**_SECRETS, "description": "HTTP headers, such as Authorization."},
        },
        required=(),
    ),
    "description": "An entry of `mcpServers`, as other MCP hosts have it: a command, or a url.",
}
_ROW = {
    "name": text("Its name."),
    "kind": text("stdio, http, or empty where its entry cannot be read."),
    "where": text("Its program or address, without secrets."),
    "origin": {"enum": ["device.toml", "console"], "description": "Who configured it."},
    "state": {"enum": [state.value for state in State], "description": "off: switched off."},
    "tools": whole_number("How many tools it lists."),
    "restarts": whole_number("How often it was started again."),
    "reason": text("Why it is not ready; empty where it is."),
    "how_to_fix": text("What to do about it; may be empty."),
}
_CHANGED = object_schema(
    {**_ROW, "undo": text("Undo id for the tool undo; good once, and until it expires.", pattern=ID_PATTERN)}
)


class HostedServers:
    """The servers of device.toml and the added ones, and the changes that a console may make."""

    def __init__(
        self, context: ToolContext, host: McpHost, fixed: list[ServerConfig], added: AddedServers
    ) -> None:
        """`fixed` are the servers of device.toml."""
        self._context = context
        self._host = host
        self._fixed = fixed
        self._added = added

    async def rows(self) -> list[dict[str, Any]]:
        """A row for each server, those that are switched off included."""
        entries = await self._context.in_thread(self._added.entries)
        states = self._host.states()
        running = {state.name for state in states}
        off = [ServerState(name, "", "", State.OFF) for name in entries if name not in running]
        return [self._row(state, entries) for state in [*states, *off]]

    def _row(self, state: ServerState, entries: Entries) -> dict[str, Any]:
        fixed = any(server.name == state.name for server in self._fixed)
        return {
            **asdict(state),
            "origin": "console" if state.name in entries and not fixed else "device.toml",
        }

    async def restart(self, name: str) -> dict[str, Any]:
        """Restart a server, and wait until it is ready, has failed, or some seconds have passed."""
        await self._host.restart(name)
        state = await self._host.started(name, _START_S)
        return self._row(state, await self._context.in_thread(self._added.entries))

    async def add(self, name: str, entry: dict[str, Any]) -> dict[str, Any]:
        """Add a server and start it.

        Raises:
            BadInput: the name is taken, or would rename tools of other servers; the entry is invalid.
        """
        [config] = parse_servers({name: entry}, "entry")

        def added(entries: Entries) -> Entries:
            if name in entries or any(server.name == name for server in self._fixed):
                raise BadInput(f"There is a server {name!r} already; remove it first, or take another name.")
            return {**entries, name: entry}

        # The names are looked at first, for the plainer reason; they count in `change`, in one turn.
        added(await self._context.in_thread(self._added.entries))
        self._host.check_addition(config)
        return await self._change(name, added)

    async def switch(self, name: str, on: bool) -> dict[str, Any]:
        """Switch an added server on or off."""

        def switched(entries: Entries) -> Entries:
            entry = self._entry(entries, name)
            return {**entries, name: {**entry, "disabled": not on}}

        return await self._change(name, switched)

    async def remove(self, name: str) -> dict[str, Any]:
        """Remove an added server."""

        def removed(entries: Entries) -> Entries:
            self._entry(entries, name)
            return {key: entry for key, entry in entries.items() if key != name}

        undo_id = await self._context.in_thread(self._added.change, removed)
        await self._follow()
        return {"removed": name, "undo": undo_id}

    async def undo(self, undo_id: str) -> dict[str, Any]:
        """Undo one change of the added servers."""
        await self._context.in_thread(self._added.restore, undo_id)
        await self._follow()
        for state in self._host.states():
            await self._host.started(state.name, _START_S)
        return {"servers": sorted(await self._context.in_thread(self._added.entries))}

    def _entry(self, entries: Entries, name: str) -> dict[str, Any]:
        if name in entries:
            return dict(entries[name])
        if any(server.name == name for server in self._fixed):
            raise BadInput(
                f"The server {name!r} is in this device's device.toml, which no console can change.",
                ErrorCode.DENIED_BY_DEVICE,
            )
        raise BadInput(f"No MCP server {name!r} is hosted here.", ErrorCode.NOT_FOUND)

    async def _change(self, name: str, change: Callable[[Entries], Entries]) -> dict[str, Any]:
        undo_id = await self._context.in_thread(self._added.change, change)
        await self._follow()
        state = ServerState(name, "", "", State.OFF)
        if any(hosted.name == name for hosted in self._host.states()):
            state = await self._host.started(name, _START_S)
        return {**asdict(state), "origin": "console", "undo": undo_id}

    async def _follow(self) -> None:
        """Host what the file says now."""
        configs = await self._context.in_thread(self._added.configs)
        await self._host.set_servers([*self._fixed, *configs])


def offer(servers: HostedServers, host: McpHost, may_change: bool) -> list[Tool]:
    """The tools; those that change the servers only if `may_change`."""

    async def list_mcp_servers(call: ToolCall) -> list[dict[str, Any]]:
        return await servers.rows()

    async def restart_mcp_server(call: ToolCall) -> dict[str, Any]:
        return await servers.restart(call.arguments["name"])

    async def try_mcp_server(call: ToolCall) -> dict[str, Any]:
        [config] = parse_servers({call.arguments["name"]: call.arguments["entry"]}, "entry")
        state, tools = await host.try_out(config, _START_S)
        return {
            "state": state.state.value,
            "tools": tools,
            "reason": state.reason,
            "how_to_fix": state.how_to_fix,
        }

    async def add_mcp_server(call: ToolCall) -> dict[str, Any]:
        return await servers.add(call.arguments["name"], call.arguments["entry"])

    async def switch_mcp_server(call: ToolCall) -> dict[str, Any]:
        return await servers.switch(call.arguments["name"], call.arguments["on"])

    async def remove_mcp_server(call: ToolCall) -> dict[str, Any]:
        return await servers.remove(call.arguments["name"])

    seeing = [_list(list_mcp_servers), _restart(restart_mcp_server)]
    changing = [
        _try(try_mcp_server),
        _add(add_mcp_server),
        _switch(switch_mcp_server),
        _remove(remove_mcp_server),
    ]
    return [*seeing, *changing] if may_change else seeing


def _list(run: Any) -> Tool:
    return Tool(
        name="list_mcp_servers",
        title="List MCP servers",
        tool_type="data_collection",
        description="List the MCP servers that this device hosts: state, last error, and how to mend it.",
        input_schema=object_schema({}),
        output_schema={"type": "array", "items": object_schema(_ROW)},
        contract=OBSERVES,
        run=run,
    )


def _restart(run: Any) -> Tool:
    return Tool(
        name="restart_mcp_server",
        title="Restart an MCP server",
        tool_type="action",
        description="End a hosted MCP server and start it again. Calls that run on it end as unknown.",
        input_schema=object_schema({"name": _ANY_NAME}),
        output_schema=object_schema(_ROW),
        contract=Contract("change", "medium", reversible=False, idempotent=True),
        run=run,
    )


def _try(run: Any) -> Tool:
    return Tool(
        name="try_mcp_server",
        title="Try an MCP server",
        tool_type="action",
        description="Start an MCP server, list its tools, and end it. Nothing of it is offered or kept.",
        input_schema=object_schema({"name": _NAME, "entry": _ENTRY}),
        output_schema=object_schema(
            {
                "state": {"enum": [state.value for state in State], "description": "ready: it works."},
                "tools": {"type": "array", "items": {"type": "string"}, "description": "Its tools."},
                "reason": text("Why it is not ready; empty where it is."),
                "how_to_fix": text("What to do about it; may be empty."),
            }
        ),
        contract=Contract("change", "high", reversible=False, idempotent=False, open_world=True),
        run=run,
    )


def _add(run: Any) -> Tool:
    return Tool(
        name="add_mcp_server",
        title="Add an MCP server",
        tool_type="action",
        description="Host one more MCP server: its program is started now and whenever this device starts.",
        input_schema=object_schema({"name": _NAME, "entry": _ENTRY}),
        output_schema=_CHANGED,
        contract=Contract("change", "high", reversible=True, idempotent=False, open_world=True),
        run=run,
    )


def _switch(run: Any) -> Tool:
    return Tool(
        name="switch_mcp_server",
        title="Switch an MCP server on or off",
        tool_type="action",
        description="Switch an MCP server that was added from a console on or off; its entry stays.",
        input_schema=object_schema({"name": _ANY_NAME, "on": yes_or_no("Whether it is to run.")}),
        output_schema=_CHANGED,
        contract=Contract("change", "medium", reversible=True, idempotent=False, open_world=True),
        run=run,
    )


def _remove(run: Any) -> Tool:
    return Tool(
        name="remove_mcp_server",
        title="Remove an MCP server",
        tool_type="action",
        description="End an MCP server that was added from a console, and forget its entry.",
        input_schema=object_schema({"name": _ANY_NAME}),
        output_schema=object_schema(
            {"removed": text("Its name."), "undo": text("Undo id for the tool undo.", pattern=ID_PATTERN)}
        ),
        contract=Contract("change", "medium", reversible=True, idempotent=False),
        run=run,
    )
