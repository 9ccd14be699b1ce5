"""Reads a device's registration into a `ConnectionInfo`, and lists the tools of stock devices."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from core.aip.device_link import DeviceLink
from core.aip.messages import ToolInfo
from core.aip.tool_discovery import STOCK_AGENTS, probe_agents
from core.commands.channel import BasicCommandDispatcher, Link, WebSocketCommandDispatcher
from core.commands.permit import Gate
from core.fleet.device_state import ConnectionInfo
from core.fleet.paired_machines import machine_of
from core.machine_id import machine_mark
from core.models.devices import Unavailable

# Characters. A device's own texts are displayed, so they must not fill a screen.
MOST_WORDS = 200
MOST_UNAVAILABLE = 64
MOST_ROOTS = 64
LONGEST_ROOT = 1024


def is_stock(link: DeviceLink) -> bool:
    """Whether the far end is a plain AIP client without Quarterdeck extensions."""
    return not isinstance(link.metadata.get("quarterdeck"), dict)


class StockDevice(WebSocketCommandDispatcher):
    """A channel to a client that offers the tools of one agent at a time and cannot list its agents."""

    def __init__(self, link: DeviceLink, agent: str, line: Link, gate: Gate) -> None:
        """`agent` is the agent to address; empty to detect it."""
        super().__init__(link.name, line, gate)
        self._stock_link = link
        self._agent = agent
        self._found: list[str] = []

    async def list_tools(self, timeout: float) -> list[ToolInfo]:
        """The tools of the configured agent, else of the first to answer, which the link then addresses."""
        link = self._stock_link
        if self._agent:
            return (await probe_agents(link, [self._agent], search_s=timeout))[1]
        # First the agent that answered before: while another agent is probed, commands would go to that one.
        agent, tools = await probe_agents(link, list(dict.fromkeys([*self._found, *STOCK_AGENTS])))
        self._found = [agent]
        return tools


def arrival_of(link: DeviceLink, channel: BasicCommandDispatcher) -> ConnectionInfo:
    """The `ConnectionInfo` of a remote device, from its registration; missing or invalid values are left
    empty."""
    metadata = link.metadata
    system = _object(metadata.get("system_info"))
    ours = _object(metadata.get("quarterdeck"))
    stock = is_stock(link)
    return ConnectionInfo(
        channel=channel,
        kind="websocket",
        platform=_words(metadata.get("platform") or system.get("platform")).lower(),
        system=_system(system),
        client="UFO device client" if stock else f"quarterdeck-device {_words(ours.get('version'))}".strip(),
        unavailable=read_unavailable(ours.get("unavailable")),
        # Its paths are on another disk, and its own guard enforces its roots.
        roots=None,
        said_roots=_said_roots(ours.get("roots")),
        features=sorted(link.features),
        clock_offset_ms=link.clock_offset_ms,
        address=link.peer,
        secure=link.secure,
        ours=not stock,
        approvers=approvers_of(ours),
        own_computer=_is_own(ours, system),
        host=machine_of(metadata).host,
    )


def own_process_arrival(link: DeviceLink, channel: BasicCommandDispatcher, system: str) -> ConnectionInfo:
    """The `ConnectionInfo` of the device client that this service itself started on this computer.

    `system`: the name of this computer's operating system, as determined here.
    """
    metadata = link.metadata
    ours = _object(metadata.get("quarterdeck"))
    roots = ours.get("roots")
    return ConnectionInfo(
        channel=channel,
        kind="process",
        platform=_words(metadata.get("platform") or _object(metadata.get("system_info")).get("platform")),
        system=system,
        client=f"quarterdeck-device {_words(ours.get('version'))}".strip(),
        unavailable=read_unavailable(ours.get("unavailable")),
        roots=[Path(root) for root in roots if isinstance(root, str)]
        if isinstance(roots, list) and roots
        else None,
        features=sorted(link.features),
        approvers=approvers_of(ours),
        own_computer=True,
        shares_disk=True,
        host=machine_of(metadata).host,
    )


def approvers_of(ours: dict[str, Any]) -> int:
    """The number of operators' signatures that our client demands for an action; 0 for none or if invalid."""
    wanted = ours.get("requires_approval")
    return min(int(wanted), 16) if isinstance(wanted, int) and wanted > 0 else 0


def _is_own(ours: dict[str, Any], system: dict[str, Any]) -> bool:
    """Whether a device is this computer: by its machine mark or, without a mark, by its host name."""
    mark = ours.get("machine")
    if isinstance(mark, str) and mark:
        return mark == machine_mark()
    name = _words(system.get("hostname")).split(".")[0].lower()
    return bool(name) and name == socket.gethostname().split(".")[0].lower()


def _system(system: dict[str, Any]) -> str:
    more = _object(system.get("custom_metadata"))
    named = _words(system.get("pretty_name") or system.get("os_name") or more.get("os_name"))
    parts = [named] if named else [_words(system.get("platform")), _words(system.get("os_version"))]
    return " ".join(part for part in parts if part)[:MOST_WORDS]


def read_unavailable(rows: Any) -> list[Unavailable]:
    """The tools that a device reports as unavailable; invalid rows are skipped, texts and rows bounded."""
    return [
        Unavailable(
            tool=_words(row.get("tool")),
            reason=_words(row.get("reason")),
            how_to_fix=_words(row.get("how_to_fix")),
        )
        for row in (rows if isinstance(rows, list) else [])[:MOST_UNAVAILABLE]
        if isinstance(row, dict)
    ]


def _said_roots(rows: Any) -> list[str]:
    """The roots that a device reports; empty, as of one that reports none, if they cannot all be shown."""
    if not isinstance(rows, list) or len(rows) > MOST_ROOTS:
        return []
    fits = all(isinstance(row, str) and 0 < len(row) <= LONGEST_ROOT for row in rows)
    return list(rows) if fits else []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _words(value: Any) -> str:
    return value[:MOST_WORDS] if isinstance(value, str) else ""
