"""Runs all hosted MCP servers and offers their tools through the router, beside the built-in tools.

The servers are those of device.toml and, where it allows that, those that a console added (`added_servers`).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pydantic_core import to_json

from core.aip.messages import ToolInfo
from core.aip.pending_requests import MOST_BYTES, weight
from core.device.config import DeviceConfig
from core.device.mcp.config import ServerConfig
from core.device.mcp.server_state import ServerState, State, Timing
from core.device.processes.child_process import Children
from core.device.tool import Contract, Tool, ToolCall, Unavailable
from core.errors import BadInput, ErrorCode
from core.hosted_names import listed_name, prefixes_of
from core.log import Logger
from core.tasks import TaskGroupOwner, set_within

if TYPE_CHECKING:
    from core.device.mcp.server import HostedServer
    from core.device.mcp.tool_listing import Definition

log = Logger(__name__)

_CLOSE_S = 6.0
# Of the list of all tools, for what is around it.
_ENVELOPE = 16 * 1024
# What a listed tool has besides its server's definition: key, name and namespace, twice as long at most.
_BESIDE_DEFINITION = 1024
_SHARE = "Host it on another device client, or switch tools off: tools_off in device.toml"
_RESTLESS = (
    "MCP server: its list of tools changes all the time; it is read again more and more seldom, at last "
    "every five minutes"
)


class ToolRegistry(Protocol):
    """The router's interface for offering tools."""

    unavailable: list[Unavailable]

    def offer(self, tool: Tool) -> bool: ...

    def withdraw(self, namespace: str) -> None: ...

    def announce(self) -> None: ...

    def tools(self) -> list[ToolInfo]: ...


class McpHost:
    """All hosted servers of a device."""

    def __init__(
        self,
        servers: Sequence[ServerConfig],
        router: ToolRegistry,
        config: DeviceConfig,
        children: Children,
        timing: Timing = Timing(),
    ) -> None:
        self._configs = {server.name: server for server in servers}
        self._prefixes = prefixes_of(self._configs)
        self._router = router
        self._config = config
        self._children = children
        self._timing = timing
        self._tasks = TaskGroupOwner("MCP servers")
        self._servers: dict[str, HostedServer] = {}
        self._runs: dict[str, asyncio.Task[None]] = {}
        # One change of the set of servers at a time.
        self._changing = asyncio.Lock()
        self._offered: dict[str, dict[str, bytes]] = {}
        self._rows: list[Unavailable] = []
        # Why the tools of a server are left out, by its name.
        self._too_large: dict[str, str] = {}
        self._settled = asyncio.Event()
        # Set when the state or the tools of a server have changed.
        self._news = asyncio.Event()

    def start(self) -> None:
        """Start every server in the background."""
        self._show_rows(self._rows_now({}))
        if not self._usable:
            self._settled.set()
        else:
            self._tasks.spawn("start", self._start())

    async def close(self) -> None:
        """End every server and all its processes; waits until they have ended, 6 s at most."""
        for server in self._servers.values():
            server.stop()
        await self._tasks.close(_CLOSE_S)

    @property
    def _usable(self) -> list[ServerConfig]:
        return [server for server in self._configs.values() if not server.problem]

    async def _start(self) -> None:
        async with self._changing:
            for config in self._usable:
                await self._run(config)

    async def _run(self, config: ServerConfig) -> None:
        server = await self._make(config, self._publish)
        self._servers[config.name] = server
        self._runs[config.name] = self._tasks.spawn(config.name, server.run())

    async def _make(self, config: ServerConfig, on_change: Callable[[], None]) -> HostedServer:
        # Imports of half a second: in a thread, and only if a server is to run.
        module = await asyncio.to_thread(importlib.import_module, "core.device.mcp.server")
        session = importlib.import_module("core.device.mcp.session")
        session.quiet_sdk()
        limits = self._config.limits
        bounds = module.Bounds(limits.max_output_bytes, limits.tool_timeout_s)
        server: HostedServer = module.HostedServer(config, self._children, bounds, self._timing, on_change)
        return server

    async def _end(self, name: str) -> None:
        """End one server and its processes; waits until they have ended, 6 s at most."""
        server, run = self._servers.pop(name, None), self._runs.pop(name, None)
        if server is None or run is None:
            return
        self._router.withdraw(name)
        server.stop()
        await _ended(run)

    async def set_servers(self, servers: Sequence[ServerConfig]) -> None:
        """Host exactly these servers from now on. Those whose configuration stays as it is go on running."""
        async with self._changing:
            wanted = {server.name: server for server in servers}
            for name, config in list(self._configs.items()):
                if wanted.get(name) != config:
                    await self._end(name)
            self._configs = wanted
            self._prefixes = prefixes_of(wanted)
            for config in self._usable:
                if config.name not in self._servers:
                    await self._run(config)
            self._publish()

    async def restart(self, name: str) -> None:
        """End a server and start it again. Calls that run on it end with an unknown outcome.

        Raises:
            BadInput: there is no such server (NOT_FOUND), or its configuration cannot be used.
        """
        async with self._changing:
            config = self._configs.get(name)
            if config is None:
                raise BadInput(f"No MCP server {name!r} is hosted here.", ErrorCode.NOT_FOUND)
            if config.problem:
                raise BadInput(f"{name} cannot be started: {config.problem}. {config.how_to_fix}.")
            await self._end(name)
            await self._run(config)
            self._publish()

    def check_addition(self, config: ServerConfig) -> None:
        """Check that one more server leaves the names of all listed tools as they are.

        Raises:
            BadInput: a tool would get another name, to which no rule, grant or batch refers.
        """
        prefixes = prefixes_of([*self._configs, config.name])
        taken = self._built_in()
        for (server, tool), name in self._names().items():
            if listed_name(prefixes[server], tool, prefixes.values(), taken) != name:
                raise BadInput(
                    f"Beside a server {config.name!r} the tool {name} of {server} would get another name; "
                    "choose another name for the new server."
                )

    async def try_out(self, config: ServerConfig, seconds: float) -> tuple[ServerState, list[str]]:
        """Start a server, list its tools, and end it; nothing of it is offered.

        Returns its state after at most `seconds`, and the names that it gives to its tools.

        Raises:
            BadInput: its configuration cannot be used.
        """
        if config.problem:
            raise BadInput(f"{config.name} cannot be started: {config.problem}. {config.how_to_fix}.")
        changed = asyncio.Event()
        server = await self._make(config, changed.set)
        run = self._tasks.spawn(f"try {config.name}", server.run())
        try:
            if server.state is State.STARTING:
                await set_within(changed, seconds)
            return server.report(), [tool.name for tool in server.listing.tools]
        finally:
            server.stop()
            await _ended(run)

    async def started(self, name: str, seconds: float) -> ServerState:
        """The state of a server once it is no longer starting, or after `seconds`.

        Raises:
            BadInput: there is no such server (NOT_FOUND).
        """
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while True:
            self._news.clear()
            state = next((state for state in self.states() if state.name == name), None)
            if state is None:
                raise BadInput(f"No MCP server {name!r} is hosted here.", ErrorCode.NOT_FOUND)
            if state.state is not State.STARTING or clock() >= until:
                return state
            await set_within(self._news, until - clock())

    def states(self) -> list[ServerState]:
        """The state of each server, in the order of the configuration."""
        states = []
        for config in self._configs.values():
            server = self._servers.get(config.name)
            if server is not None:
                states.append(server.report())
            else:
                state = State.FAILED if config.problem else State.STARTING
                states.append(
                    ServerState(
                        config.name,
                        config.kind,
                        config.location,
                        state,
                        reason=config.problem,
                        how_to_fix=config.how_to_fix,
                    )
                )
        return states

    async def settled(self, seconds: float) -> None:
        """Wait until no server is starting for the first time, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._settled.wait()

    def _publish(self) -> None:
        """Offer the tools that the servers list now, and announce it if they differ from those offered."""
        names = self._names()
        offered: dict[str, dict[str, Definition]] = {
            name: {
                names[name, definition.name]: definition
                for definition in server.listing.tools
                if not self._is_off(definition.name, names[name, definition.name])
            }
            for name, server in self._servers.items()
            if server.state is not State.FAILED
        }
        self._too_large = self._leave_out(offered)
        digests = {
            server: {name: tool.digest for name, tool in tools.items()} for server, tools in offered.items()
        }
        changed = [
            server
            for server in dict.fromkeys([*self._servers, *self._offered])
            if digests.get(server, {}) != self._offered.get(server, {})
        ]
        for server in changed:
            self._router.withdraw(server)
            for name, definition in offered.get(server, {}).items():
                self._router.offer(self._tool(self._servers[server], definition, name))
        self._offered = digests
        rows = self._rows_now(names)
        if rows != self._rows or changed:
            self._show_rows(rows)
            self._router.announce()
        self._news.set()
        if all(server.state is not State.STARTING for server in self._servers.values()):
            self._settled.set()

    def _leave_out(self, offered: dict[str, dict[str, Definition]]) -> dict[str, str]:
        """Remove the tools of servers for which one list of all tools has no room; returns why, by server.

        The largest lists go first, so that a server with an oversized list hides no other server's tools.
        """
        own = [info.model_dump() for info in self._router.tools() if info.namespace not in self._servers]
        weights = MOST_BYTES - _ENVELOPE - weight(own)
        sizes = self._config.limits.max_output_bytes - _ENVELOPE - len(to_json(own))
        heavy = {
            server: sum(tool.weight + _BESIDE_DEFINITION for tool in tools.values())
            for server, tools in offered.items()
        }
        why: dict[str, str] = {}
        for server in sorted(heavy, key=heavy.__getitem__):
            tools = offered[server]
            size = sum(len(tool.digest) + _BESIDE_DEFINITION for tool in tools.values())
            if heavy[server] <= weights and size <= sizes:
                weights, sizes = weights - heavy[server], sizes - size
                continue
            why[server] = (
                f"MCP server: its {len(tools)} tools take {size:,} bytes to list, for which there is no room "
                "beside the others"
            )
            offered[server] = {}
        return why

    def _names(self) -> dict[tuple[str, str], str]:
        """The name under which each tool of each server is listed, by server and the server's own name."""
        taken = self._built_in()
        return {
            (name, definition.name): listed_name(
                self._prefixes[name], definition.name, self._prefixes.values(), taken
            )
            for name, server in self._servers.items()
            for definition in server.listing.tools
        }

    def _built_in(self) -> set[str]:
        """The names of this device's own tools, also of those that it cannot offer now."""
        ours = {info.tool_name for info in self._router.tools() if info.namespace not in self._servers}
        return ours | {row.tool for row in self._own_unavailable()}

    def _own_unavailable(self) -> list[Unavailable]:
        """The device's own tools that are unavailable now."""
        return [row for row in self._router.unavailable if row not in self._rows]

    def _rows_now(self, names: dict[tuple[str, str], str]) -> list[Unavailable]:
        rows = [
            Unavailable(config.name, f"MCP server: {config.problem}", config.how_to_fix)
            for config in self._configs.values()
            if config.problem
        ]
        rows += [
            _row_of(ServerState(config.name, config.kind, config.location, State.STARTING))
            for config in self._usable
            if config.name not in self._servers
        ]
        for name, server in self._servers.items():
            if server.state is not State.READY:
                rows.append(_row_of(server.report()))
            elif name in self._too_large:
                rows.append(Unavailable(name, self._too_large[name], _SHARE))
            elif server.restless:
                rows.append(Unavailable(name, _RESTLESS, "Tell the server's maker"))
            for tool, reason in server.listing.refused:
                rows.append(Unavailable(tool, f"{reason} (MCP server {name})", "Tell the server's maker"))
        rows += [
            Unavailable(name, "It is switched off here", "Take it out of tools_off in device.toml")
            for (server, tool), name in names.items()
            if self._is_off(tool, name)
        ]
        return rows

    def _is_off(self, tool: str, name: str) -> bool:
        """Whether device.toml disables a server's tool, by its offered name or the server's name for it."""
        off = self._config.tools_off
        # Where this device has a built-in tool of that name, the entry refers to the built-in tool.
        return name in off or (tool in off and tool not in self._built_in())

    def _show_rows(self, rows: list[Unavailable]) -> None:
        self._router.unavailable = [*self._own_unavailable(), *rows]
        self._rows = rows

    def _tool(self, server: HostedServer, definition: Definition, name: str) -> Tool:
        async def run(call: ToolCall) -> Any:
            return await server.call(definition, call)

        claims = definition.annotations or {}
        observes = definition.tool_type == "data_collection"
        destroys = claims.get("destructiveHint", True) is not False
        return Tool(
            name=name,
            title=definition.title,
            tool_type=definition.tool_type,
            description=definition.description,
            input_schema=definition.input_schema,
            output_schema=definition.output_schema or {},
            # The server's own claims. A console judges tools itself; claims can only raise a risk.
            contract=Contract(
                effect="observe" if observes else "destroy" if destroys else "change",
                risk="low" if observes else "high",
                reversible=observes,
                idempotent=observes or claims.get("idempotentHint") is True,
                open_world=claims.get("openWorldHint", True) is not False,
            ),
            run=run,
            # A call may be cancelled; `run` then reports an unknown outcome.
            stops_with_task=True,
            namespace=server.config.name,
            declared=definition.info(name, server.config.name),
        )


async def _ended(run: asyncio.Task[None]) -> None:
    """Wait until a server's task has ended; it is cancelled after 6 s."""
    _, late = await asyncio.wait([run], timeout=_CLOSE_S)
    if late:
        run.cancel()
        await asyncio.wait([run], timeout=_CLOSE_S)


def _row_of(state: ServerState) -> Unavailable:
    """Why the tools of a server that is not ready are not available now."""
    match state.state:
        case State.STARTING:
            reason, fix = "It is starting", "Wait: its tools are offered as soon as it is ready"
        case State.RESTARTING:
            again = "asked again (try" if state.kind == "http" else "started again (start"
            reason, fix = f"{state.reason}; it is {again} {state.restarts + 2})", state.how_to_fix
        case _:
            reason, fix = state.reason, state.how_to_fix
    return Unavailable(state.name, f"MCP server: {reason}", fix)
