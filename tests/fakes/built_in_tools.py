"""The definitions of all built-in tools of a device with a display, whatever this machine has."""

from __future__ import annotations

from pathlib import Path

from core.device.config import DeviceConfig
from core.device.desktop import local_desktop
from core.device.desktop.ui_tools import UiTools
from core.device.device_store import DeviceStore
from core.device.guard import Guard
from core.device.observations import ObservationStore
from core.device.processes.child_process import Children
from core.device.tool_context import ToolContext
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
    undo,
)
from core.device.undo import UndoStore
from core.device.worker_threads import WorkerThreads
from core.fleet.contracts import read_tool, tool_of
from core.models.tools import Tool


def built_in_tools(folder: Path, device: str = "this-computer") -> dict[str, Tool]:
    """The tools by name, as the console holds them; `folder` is the device's, and stays empty."""
    config = DeviceConfig(roots=(folder,))
    store = DeviceStore(folder)
    workshop = ToolContext(
        device=device,
        config=config,
        guard=Guard(config),
        undo=UndoStore(store, config.undo),
        observations=ObservationStore(),
        threads=WorkerThreads(1, f"device {device}"),
        children=Children(config.limits.max_output_bytes),
        store=store,
    )
    desktop = ui._tools(UiTools(local_desktop(), workshop.observations))
    groups = (system, files, shell, processes, applications, undo)
    offered = [tool for group in groups for tool in group.offer(workshop)[0]]
    # These two are offered only where there is a sandbox or a display.
    offered += [read_shell._tool(workshop, None), screen._tool(None), *(tool for tool, _ in desktop)]
    offered += listing.offer(list)
    return {
        tool.name: tool_of(device, read_tool(tool.info()), change="")
        for tool in sorted(offered, key=lambda tool: tool.name)
    }
