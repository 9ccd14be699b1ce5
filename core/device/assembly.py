"""Puts this machine's tools together: what it can serve is offered, what it cannot is said."""

from __future__ import annotations

import asyncio
from pathlib import Path

from core.device.approval import ApprovalCheck
from core.device.children import Children
from core.device.config import DeviceConfig
from core.device.guard import Guard
from core.device.late_tools import LateTools
from core.device.mcp.host import host_for
from core.device.observations import ObservationStore
from core.device.router import Router
from core.device.tool import Tool, Unavailable, Workshop
from core.device.tools import (
    applications,
    files,
    listing,
    processes,
    read_shell,
    screen,
    shell,
    system,
    ui,
    undoing,
)
from core.device.undo import UndoStore
from core.device.worker_threads import WorkerThreads

_THREADS = 4


def build_router(config: DeviceConfig, state_dir: Path, name: str) -> Router:
    """Put this machine's tools together; files that the device keeps live below `state_dir`.

    It looks what the machine has, which may take a second. MCP servers that device.toml names start in the
    background, which needs a running loop.

    Raises:
        BadInput: `state_dir` or the list of MCP servers cannot be used.
    """
    config = config.closing(state_dir)
    return _with_hosted(_own_tools(config, state_dir, name), config)


async def build_router_aside(config: DeviceConfig, state_dir: Path, name: str) -> Router:
    """Like `build_router`, for a loop that has other things to do meanwhile."""
    config = config.closing(state_dir)
    return _with_hosted(await asyncio.to_thread(_own_tools, config, state_dir, name), config)


def _with_hosted(router: Router, config: DeviceConfig) -> Router:
    router.hosted = hosted = host_for(config, router)
    if hosted is not None:
        hosted.start()
    return router


def _own_tools(config: DeviceConfig, state_dir: Path, name: str) -> Router:
    threads = WorkerThreads(_THREADS, f"device {name}")
    guard = Guard(config)
    workshop = Workshop(
        device=name,
        config=config,
        guard=guard,
        undo=UndoStore(state_dir / "undo", config.undo),
        observations=ObservationStore(),
        threads=threads,
        children=Children(config.limits.max_output_bytes),
    )
    router = Router(workshop, threads, ApprovalCheck(config, name, state_dir / "approvals"))
    late: list[str] = []
    for group in (screen, ui, system, files, shell, read_shell, processes, applications, undoing):
        offered, missing = group.offer(workshop)
        router.unavailable.extend(missing)
        if group in (screen, ui):
            # A display, or the accessibility bus, may come yet.
            late += [row.tool for row in missing]
        for tool in offered:
            router.offer(tool)
    for tool in listing.offer(router.tools):
        router.offer(tool)

    def look_again() -> tuple[list[Tool], list[Unavailable]]:
        found = [group.offer(workshop) for group in (screen, ui)]
        return [tool for tools, _ in found for tool in tools], [row for _, rows in found for row in rows]

    router.late = LateTools(look_again, late)
    return router
