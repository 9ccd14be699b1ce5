"""Builds the router with the tools that this machine can serve, and the list of those that it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import queue
import threading
from pathlib import Path
from typing import Protocol

from core.device.approval import ApprovalCheck
from core.device.config import DeviceConfig
from core.device.device_store import DeviceStore
from core.device.guard import Guard
from core.device.mcp.added_servers import AddedServers
from core.device.mcp.config import ServerConfig, read_servers
from core.device.mcp.host import McpHost
from core.device.observations import ObservationStore
from core.device.processes.child_process import Children
from core.device.router import Router
from core.device.tool import Tool, Unavailable
from core.device.tool_context import ToolContext
from core.device.tool_rediscovery import LateTools
from core.device.tools import (
    applications,
    files,
    listing,
    mcp_servers,
    processes,
    read_shell,
    screen,
    shell,
    system,
    ui,
    undo,
)
from core.device.undo import UndoStore
from core.device.worker_threads import WorkerThreads
from core.errors import BadInput
from core.log import Logger

log = Logger(__name__)

_THREADS = 4
_LOOK_S = 5.0
Found = tuple[list[Tool], list[Unavailable]]


class Group(Protocol):
    """A module that offers a group of tools."""

    def offer(self, workshop: ToolContext, /) -> Found: ...


# Names are listed here too, since a group that fails cannot report which tools are unavailable.
_ON_SCREEN: tuple[tuple[Group, tuple[str, ...]], ...] = (
    (screen, ("screenshot",)),
    (
        ui,
        (
            *(
                "get_ui_tree",
                "get_accessibility_tree",
                "wait_for_element",
                "list_windows",
                "activate_window",
                "click_element",
            ),
            *("click_point", "type_text", "press_key", "scroll"),
        ),
    ),
)
_OTHERS: tuple[tuple[Group, tuple[str, ...]], ...] = (
    (system, ("get_system_info", "SYS_INFO")),
    (files, ("read_file", "list_directory", "write_file", "restore_file")),
    (shell, ("shell_execute", "EXEC_CLI")),
    (read_shell, ("shell_execute_read",)),
    (processes, ("list_processes",)),
    (applications, ("launch_application", "close_application")),
    (undo, ("undo",)),
)


def build_router(config: DeviceConfig, state_dir: Path, name: str) -> Router:
    """Build the router; the device's own files are below `state_dir`.

    It probes what the machine supports, which may take a second. MCP servers that device.toml names start in
    the background, which needs a running loop.

    Raises:
        BadInput: `state_dir` or the list of MCP servers cannot be used.
        DeviceError: `state_dir` cannot be used now, but perhaps later, as when its disk is full.
    """
    config = config.closing(state_dir)
    return _started(_own_tools(config, state_dir, name))


async def build_router_aside(config: DeviceConfig, state_dir: Path, name: str) -> Router:
    """Like `build_router`, without blocking the loop."""
    config = config.closing(state_dir)
    return _started(await asyncio.to_thread(_own_tools, config, state_dir, name))


def _started(router: Router) -> Router:
    if router.hosted is not None:
        router.hosted.start()
    return router


def _host_servers(router: Router, workshop: ToolContext) -> None:
    """Give the router the hosted MCP servers and the tools for them, where device.toml wants any.

    Raises:
        BadInput: the configuration of the servers in device.toml is invalid.
    """
    config = workshop.config
    fixed = [] if config.mcp_servers is None else read_servers(config.mcp_servers)
    if not fixed and not config.servers_from_console:
        return
    taken = frozenset(server.name for server in fixed)
    added = AddedServers(workshop.store.folder, workshop.undo, taken)
    configs = _added(added) if config.servers_from_console else []
    router.hosted = McpHost([*fixed, *configs], router, config, router.children)
    servers = mcp_servers.HostedServers(workshop, router.hosted, fixed, added)
    for tool in mcp_servers.offer(servers, router.hosted, config.servers_from_console):
        router.offer(tool)
    if config.servers_from_console:
        router.offer(undo.undo_tool(workshop, {**undo.inverses(workshop), "mcp_servers": servers.undo}))


def _added(added: AddedServers) -> list[ServerConfig]:
    """The servers that a console added; none where their list is damaged, which each use of it reports."""
    try:
        return added.configs()
    except BadInput as error:
        log.warning("MCP servers that were added are not started", reason=error.message)
        return []


def _own_tools(config: DeviceConfig, state_dir: Path, name: str) -> Router:
    threads = WorkerThreads(_THREADS, f"device {name}")
    guard = Guard(config)
    store = _opened(state_dir)
    workshop = ToolContext(
        device=name,
        config=config,
        guard=guard,
        undo=UndoStore(store, config.undo),
        observations=ObservationStore(),
        threads=threads,
        children=Children(config.limits.max_output_bytes),
        store=store,
    )
    router = Router(workshop, threads, ApprovalCheck(config, name, store))
    on_screen = [_Look(group, names) for group, names in _ON_SCREEN]
    late: list[str] = []
    for look in on_screen:
        offered, missing = look.within(workshop, _LOOK_S)
        # A display or the accessibility bus may become available later.
        late += [row.tool for row in missing]
        _take(router, offered, missing)
    for group, names in _OTHERS:
        _take(router, *_Look(group, names).now(workshop))
    for tool in listing.offer(router.tools):
        router.offer(tool)
    _host_servers(router, workshop)

    def look_again() -> Found:
        found = [look.within(workshop, _LOOK_S) for look in on_screen]
        return [tool for tools, _ in found for tool in tools], [row for _, rows in found for row in rows]

    router.late = LateTools(look_again, late)
    return router


def _opened(state_dir: Path) -> DeviceStore:
    """The device's store. A disk that is read-only leaves a device that can observe, but keeps nothing.

    Raises:
        BadInput: the state folder cannot be used.
        DeviceError: it cannot be used now, but perhaps later.
    """
    store = DeviceStore(state_dir)
    try:
        store.open()
    except BadInput as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EROFS:
            raise
        log.warning("the state folder cannot be written", reason=error.message)
    return store


def _take(router: Router, offered: list[Tool], missing: list[Unavailable]) -> None:
    router.unavailable.extend(missing)
    for tool in offered:
        router.offer(tool)


class _Look:
    """Asks one group which tools the machine supports. An error makes only this group's tools unavailable."""

    def __init__(self, group: Group, names: tuple[str, ...]) -> None:
        self._group = group
        self._names = names
        self._looking: threading.Thread | None = None

    def now(self, workshop: ToolContext) -> Found:
        """The tools that the group offers, and the unavailable ones with their reasons."""
        try:
            return self._group.offer(workshop)
        except Exception as error:  # any error: the other groups' tools must still be offered
            log.exception("no look at what the machine has", tools=self._names)
            reason = f"What it needs cannot be looked at: {type(error).__name__}: {error}"
            return self._none(reason, "Give the device client what the message names, such as all of /proc")

    def within(self, workshop: ToolContext, seconds: float) -> Found:
        """Like `now`, but waits at most `seconds`: the group asks another program, which may never answer."""
        # While a thread still waits for that program, no second thread is started.
        if self._looking is None or not self._looking.is_alive():
            answers: queue.SimpleQueue[Found] = queue.SimpleQueue()
            self._looking = threading.Thread(
                target=lambda: answers.put(self.now(workshop)), name="look", daemon=True
            )
            self._looking.start()
            with contextlib.suppress(queue.Empty):
                return answers.get(timeout=seconds)
        return self._none(
            f"The desktop session did not answer within {seconds:g} s",
            "End the program that keeps it, or start the session again; this is then checked again by itself",
        )

    def _none(self, reason: str, how_to_fix: str) -> Found:
        return [], [Unavailable(name, reason, how_to_fix) for name in self._names]
