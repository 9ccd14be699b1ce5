"""The tools of the matched devices, read through the door once for each device and state of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from PySide6.QtCore import QObject, Signal

from app.query import Query
from app.screens.batch.text import effect_group
from app.service_client import ConsoleLink
from core.errors import QuarterdeckError
from core.models.devices import Device, Health
from core.models.tools import Tool
from core.service.console import Console

Answer: TypeAlias = list[tuple[Device, list[Tool] | str]]

MOST_DEVICES = 50
"""Of how many matched devices the tools are read; the plan still looks at all of them."""


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool by its name, as the first matched device has it, and on which of them it is."""

    tool: Tool
    devices: tuple[str, ...]
    group: str
    title: str


@dataclass(frozen=True, slots=True)
class CatalogState:
    """What can be called on the matched devices. `problem` says why nothing is known."""

    tools: tuple[ToolEntry, ...] = ()
    asked: int = 0
    matched: int = 0
    reading: bool = False
    problem: str = ""

    def find(self, name: str) -> ToolEntry | None:
        """The tool of that name."""
        return next((one for one in self.tools if name in (one.tool.tool_name, one.title)), None)


def tool_title(tool: Tool) -> str:
    """A tool's name, with its namespace where it is not one of our own device client's."""
    plain = tool.namespace in (None, "", "builtin")
    return tool.tool_name if plain else f"{tool.namespace}.{tool.tool_name}"


class ToolCatalog(QObject):
    """Keeps the offer for the devices that are matched now.

    Signals:
        changed: `offer` is another one.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.offer = CatalogState()
        self._link: ConsoleLink | None = None
        self._tools: Query[Answer] | None = None
        self._matched: list[Device] = []
        self._known: dict[str, tuple[tuple[object, ...], list[Tool]]] = {}
        self._problem = ""

    def bind(self, link: ConsoleLink) -> None:
        """Where to ask."""
        self._link = link
        self._tools = Query(self, link, self._take, self._fail, "read the tools")

    def show_devices(self, matched: Sequence[Device]) -> None:
        """These are matched now; reads the tools of those that are new or changed."""
        self._matched = list(matched)
        self._read()

    def forget(self) -> None:
        """The service is another one: read everything again."""
        self._known.clear()

    def _missing(self) -> list[Device]:
        return [
            one
            for one in self._matched[:MOST_DEVICES]
            if one.health is not Health.OFFLINE
            and (one.name not in self._known or self._known[one.name][0] != _signature(one))
        ]

    def _read(self) -> None:
        missing = self._missing()
        if not missing or self._tools is None or self._link is None or not self._link.connected:
            self._tell(reading=bool(missing))
            return
        self._tell(reading=True)
        if not self._tools.loading:  # the answer under way looks again when it is here
            self._tools.load(_reader(missing))

    def _take(self, answer: Answer) -> None:
        self._problem = ""
        for device, found in answer:
            if isinstance(found, str):
                # It is not asked again until it is in another state.
                self._known[device.name] = (_signature(device), [])
                self._problem = found
            else:
                self._known[device.name] = (_signature(device), found)
        self._read()

    def _fail(self, error: QuarterdeckError) -> None:
        self._problem = error.message
        self._tell(reading=False)

    def _tell(self, reading: bool) -> None:
        on: dict[str, list[str]] = {}
        first: dict[str, Tool] = {}
        asked = 0
        for device in self._matched[:MOST_DEVICES]:
            if device.name not in self._known:
                continue
            tools = self._known[device.name][1]
            asked += bool(tools)
            for tool in tools:
                on.setdefault(tool.tool_name, []).append(device.name)
                first.setdefault(tool.tool_name, tool)
        offered = [
            ToolEntry(tool, tuple(on[name]), effect_group(tool), tool_title(tool))
            for name, tool in first.items()
        ]
        offered.sort(key=lambda one: (one.tool.contract.risk.value.rank, one.title))
        offer = CatalogState(tuple(offered), asked, len(self._matched), reading, self._problem)
        if offer != self.offer:
            self.offer = offer
            self.changed.emit()


def _signature(device: Device) -> tuple[object, ...]:
    alive = device.health not in (Health.OFFLINE, Health.RECONNECTING)
    return (alive, device.tool_count, tuple(device.changed_tools), device.restarts)


def _reader(devices: Sequence[Device]) -> Callable[[Console], Awaitable[Answer]]:
    async def read(console: Console) -> Answer:
        found: Answer = []
        for device in devices:
            try:
                found.append((device, await console.devices.tools(device.name)))
            except QuarterdeckError as error:
                found.append((device, error.message))
        return found

    return read
