"""The columns of the tables of devices and tools: what each shows, and what it is sorted by."""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from PySide6.QtCore import QObject, Qt

from app.items.keyed_model import Index
from app.items.table_model import Cell, Column, Kind, RowStyle, TableModel
from app.text import last_heard, one_line, parse_time
from app.widgets.charts import HOT_PERCENT, PERCENT
from core.models.devices import Device, Health, Unavailable
from core.models.tools import Tool

_NUMBER = re.compile(r"[0-9]+")
_DIGITS = 20
_HEALTH_ORDER = {health: place for place, health in enumerate(Health)}

_MEASURED = (Health.ONLINE, Health.BUSY, Health.STALE)

PLATFORM_ICONS = {
    "linux": "linux",
    "windows": "windows",
    "win32": "windows",
    "macos": "macos",
    "darwin": "macos",
}


def is_measured(device: Device) -> bool:
    """Whether what was measured last is so now; it is not once the link was lost."""
    return device.health in _MEASURED


def knows_tool_count(device: Device) -> bool:
    """Whether the number of a device's tools is known; not where it has no link and listed none before."""
    return is_measured(device) or device.tool_count > 0


def no_tools_words(device: Device) -> tuple[str, str]:
    """Why a list of tools is empty, and what to do: it may only be unknown."""
    if knows_tool_count(device):
        return "The device offers no tools.", "Reconnect it in Link, or look at its settings."
    return "Its tools are not known.", "They are listed once it is connected; Link says why it is not."


def platform_icon(platform: str) -> str:
    """The icon of a platform; a plain device where it is not known."""
    return PLATFORM_ICONS.get(platform.lower(), "device")


def trip_scale(values: Sequence[float]) -> tuple[float, float] | None:
    """What the edges of a line of round trips stand for: nothing, and half more than the middle one or more.

    A line that fills its height with whatever it has makes a wild saw of 14 and 15 ms.
    """
    if not values:
        return None
    return 0.0, 1.05 * max(*values, sorted(values)[len(values) // 2] * 1.5)


def natural(name: str) -> str:
    """A name as it sorts among others: `lab-2` before `lab-10`."""
    return _NUMBER.sub(lambda found: found[0].zfill(_DIGITS), name)


NONE = Cell("—", tone="text3")


def _name(device: Device) -> Cell:
    return Cell(device.name, icon=platform_icon(device.platform))


def _tags(device: Device) -> Cell:
    plain = tuple(tag for tag in device.tags if tag != "prod")
    bold = "prod" if "prod" in device.tags else "production" if device.production else ""
    words = ", ".join(plain) + ("," if plain and bold else "")
    return Cell(words, bold=bold, tip=", ".join(device.tags), parts=plain)


def _tools(device: Device) -> str | Cell:
    # What was measured before the link was lost is not so now.
    return str(device.tool_count) if knows_tool_count(device) else NONE


def _trip(device: Device) -> Cell:
    if not is_measured(device):
        return NONE
    ms, trips = device.round_trip_ms, tuple(device.round_trips_ms[-24:])
    # As exact as `milliseconds` is, under a head that names the unit.
    words = "—" if ms is None else f"{ms:.1f}" if ms < 10 else f"{ms:.0f}"
    return Cell(words, spark=trips, scale=trip_scale(trips))


def _percents(device: Device, values: Sequence[float]) -> Cell:
    if not values or not is_measured(device):
        return NONE
    tone = "warn" if values[-1] >= HOT_PERCENT else ""
    return Cell(f"{values[-1]:.0f}", spark=tuple(values[-24:]), scale=PERCENT, tone=tone)


def _last(device: Device, values: Sequence[float]) -> float | None:
    return values[-1] if values and is_measured(device) else None


def _doing(device: Device) -> Cell:
    reason = one_line(device.reason)
    if device.doing and ("approval" in device.doing or "waits" in device.doing):
        return Cell(one_line(device.doing), glyph="sand", tone="waiting")
    if not device.progress and not device.doing and device.health is not Health.ONLINE:
        return Cell(reason, tip=reason, tone="text3")
    return Cell(one_line(device.progress or device.doing), tip=one_line(device.progress) or reason)


# The load and the trip say how a device is, its tags what it is for; how many tools it has its panel tells.
# Production sorts before the rest within the names.
DEVICE_COLUMNS: tuple[Column[Device], ...] = (
    Column(
        "device", "Device", Kind.NAME, 148,
        cell=_name, sort=lambda one: f"{0 if one.production else 1} {natural(one.name)}",
    ),
    Column(
        "health", "Health", Kind.HEALTH, 124,
        cell=lambda one: Cell(one.health.value, tip=one_line(one.reason)),
        sort=lambda one: _HEALTH_ORDER[one.health],
    ),
    Column("tags", "Tags", Kind.TEXT, 116, drop=1, cell=_tags),
    Column("tools", "Tools", Kind.NUMBER, 48, drop=5, cell=_tools, sort=lambda one: one.tool_count),
    Column(
        "round_trip", "Trip, ms", Kind.SPARK, 72, drop=4,
        cell=_trip, sort=lambda one: one.round_trip_ms if is_measured(one) else None,
    ),
    Column(
        "cpu", "CPU, %", Kind.SPARK, 66, drop=2,
        cell=lambda one: _percents(one, one.cpu_percents), sort=lambda one: _last(one, one.cpu_percents),
    ),
    Column(
        "memory", "Mem, %", Kind.SPARK, 66, drop=3,
        cell=lambda one: _percents(one, one.memory_percents),
        sort=lambda one: _last(one, one.memory_percents),
    ),
    Column("doing", "Doing now", Kind.TEXT, 110, stretch=True, cell=_doing),
    Column(
        "heard", "Last heard", Kind.TIME, 120, cell=lambda one: last_heard(one.last_heard),
        sort=lambda one: -parse_time(one.last_heard).timestamp() if one.last_heard else 0.0,
    ),
)  # fmt: skip
NAME = 0


class DeviceModel(TableModel[Device]):
    """Devices by name. A marked one has a check before its name instead of its platform."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(DEVICE_COLUMNS, attrgetter("name"), self._look_of, parent)
        self._marks: frozenset[str] = frozenset()

    def set_marks(self, marks: frozenset[str]) -> None:
        """Mark exactly these."""
        changed, self._marks = marks ^ self._marks, marks
        self.refresh(changed)

    def _look_of(self, device: Device) -> RowStyle:
        tint = "accent_tint" if device.name in self._marks else ""
        muted = device.health is Health.OFFLINE
        return RowStyle(production=device.production, muted=muted, tint=tint)

    def cell_of(self, item: Device, column: int) -> str | Cell:
        """As its column says, but for the check."""
        if column == NAME and item.name in self._marks:
            return Cell(item.name, glyph="check_disc", tone="accent")
        return super().cell_of(item, column)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """As of every table; a name is read aloud with what its band and its check say."""
        words = super().data(index, role)
        if role == Qt.ItemDataRole.AccessibleTextRole and index.column() == NAME and words:
            device = self.items[index.row()]
            more = ("production" if device.production else "", "marked" if device.name in self._marks else "")
            return ", ".join(filter(None, (words, *more)))
        return words


def tool_title(tool: Tool) -> str:
    """A tool's name as it is shown, with its namespace where it is not one of our own device client's."""
    return title_of(tool.tool_name, tool.namespace)


def title_of(tool_name: str, namespace: str | None) -> str:
    """`tool_title` of a tool of this name and namespace."""
    if namespace in (None, "", "builtin"):
        return one_line(tool_name)
    return one_line(f"{namespace}.{tool_name}")


TOOL_COLUMNS: tuple[Column[Tool], ...] = (
    Column(
        "tool", "Tool", Kind.MONO, 150, stretch=True,
        cell=lambda tool: Cell(tool_title(tool), tip=tool.contract.effect.why),
    ),
    Column("effect", "Effect", Kind.TEXT, 76, cell=lambda tool: tool.contract.effect.value.value),
    Column(
        "risk", "Risk", Kind.RISK, 92,
        cell=lambda tool: tool.contract.risk.value.value, sort=lambda tool: tool.contract.risk.value.rank,
    ),
    Column(
        "source", "Source", Kind.TEXT, 72, tone="text3", drop=1,
        cell=lambda tool: tool.contract.effect.source.value,
    ),
)  # fmt: skip


def tool_model() -> TableModel[Tool]:
    """Tools by their keys; one that changed is tinted, because it is blocked."""
    return TableModel(
        TOOL_COLUMNS,
        attrgetter("tool_key"),
        lambda tool: RowStyle(tint="warn_tint" if tool.changed else ""),
    )


def _reason(tool: Unavailable) -> Cell:
    words = one_line(f"{tool.reason} {tool.how_to_fix}".strip())
    return Cell(words, tip=words)


# Tools that a device could offer but does not.
UNAVAILABLE_COLUMNS: tuple[Column[Unavailable], ...] = (
    Column("tool", "Not available", Kind.MONO, 150, cell=lambda one: Cell(one_line(one.tool), tone="text2")),
    Column("reason", "Why, and how to get it", Kind.TEXT, 220, stretch=True, cell=_reason),
)
