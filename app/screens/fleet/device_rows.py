"""Devices and tools as rows of tables: words, order, colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from app.items.table_model import Cell, Column, Kind, Row, cell_text, spoken
from app.text import last_heard, one_line, parse_time
from app.widgets.charts import HOT_PERCENT, PERCENT
from core.fleet.models import Device, Health, Tool, Unavailable

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

# The load and the trip say how a device is, its tags what it is for; how many tools it has its panel tells.
DEVICE_COLUMNS = (
    Column("device", "Device", Kind.NAME, 148),
    Column("health", "Health", Kind.HEALTH, 124),
    Column("tags", "Tags", Kind.TEXT, 116, drop=1),
    Column("tools", "Tools", Kind.NUMBER, 48, drop=5),
    Column("round_trip", "Trip, ms", Kind.SPARK, 72, drop=4),
    Column("cpu", "CPU, %", Kind.SPARK, 66, drop=2),
    Column("memory", "Mem, %", Kind.SPARK, 66, drop=3),
    Column("doing", "Doing now", Kind.TEXT, 110, stretch=True),
    Column("heard", "Last heard", Kind.TIME, 120),
)
NAME = 0

TOOL_COLUMNS = (
    Column("tool", "Tool", Kind.MONO, 150, stretch=True),
    Column("effect", "Effect", Kind.TEXT, 76),
    Column("risk", "Risk", Kind.RISK, 92),
    Column("source", "Source", Kind.TEXT, 72, tone="text3", drop=1),
)


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


def _percents(values: list[float]) -> Cell:
    if not values:
        return Cell("—", tone="text3")
    hot = values[-1] >= HOT_PERCENT
    return Cell(f"{values[-1]:.0f}", spark=tuple(values[-24:]), scale=PERCENT, tone="warn" if hot else "")


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


def said_aloud(row: Row) -> str:
    """A device's name, and what else only colours and shapes say of its row."""
    cell = row.cells[NAME]
    said = [cell_text(cell)]
    if row.production:
        said.append("production")
    if row.tint:
        said.append("marked")
    return f"{DEVICE_COLUMNS[NAME].title}: {', '.join(said)}"


def row_words(row: Row) -> str:
    """A device's row as one line of words between tabs, for other programs."""
    words = (
        spoken(column.kind, cell_text(cell)) for column, cell in zip(DEVICE_COLUMNS, row.cells, strict=True)
    )
    # A tab or line break within a cell would move what follows into other cells.
    return "\t".join(word.translate({9: " ", 10: " ", 13: " "}) for word in words)


def _trip_words(ms: float | None) -> str:
    """As exact as `milliseconds` is, under a head that names the unit."""
    if ms is None:
        return "—"
    return f"{ms:.1f}" if ms < 10 else f"{ms:.0f}"


def device_row(device: Device, marked: bool = False) -> Row:
    """One device, ready to be painted; production sorts before the rest within the names.

    A marked device has a check before its name instead of its platform.
    """
    plain_tags = [tag for tag in device.tags if tag != "prod"]
    bold = "prod" if "prod" in device.tags else "production" if device.production else ""
    trip, trips = _trip_words(device.round_trip_ms), tuple(device.round_trips_ms[-24:])
    reason = one_line(device.reason)
    needs_answer = "approval" in device.doing or "waits" in device.doing
    doing = (
        Cell(one_line(device.doing), glyph="sand", tone="waiting")
        if device.doing and needs_answer
        else Cell(one_line(device.progress or device.doing), tip=one_line(device.progress) or reason)
    )
    if not device.progress and not device.doing and device.health is not Health.ONLINE:
        doing = Cell(reason, tip=reason, tone="text3")
    measured = is_measured(device)
    none = Cell("—", tone="text3")
    heard = parse_time(device.last_heard).timestamp() if device.last_heard else 0.0
    return Row(
        key=device.name,
        cells=(
            Cell(device.name, glyph="check_disc", tone="accent")
            if marked
            else Cell(device.name, icon=platform_icon(device.platform)),
            Cell(device.health.value, tip=reason),
            Cell(
                ", ".join(plain_tags) + ("," if plain_tags and bold else ""),
                bold=bold,
                tip=", ".join(device.tags),
                parts=tuple(plain_tags),
            ),
            # What was measured before the link was lost is not so now.
            str(device.tool_count) if knows_tool_count(device) else none,
            Cell(trip, spark=trips, scale=trip_scale(trips)) if measured else none,
            _percents(device.cpu_percents) if measured else none,
            _percents(device.memory_percents) if measured else none,
            doing,
            last_heard(device.last_heard),
        ),
        production=device.production,
        muted=device.health is Health.OFFLINE,
        tint="accent_tint" if marked else "",
        order=(
            f"{0 if device.production else 1} {natural(device.name)}",
            _HEALTH_ORDER[device.health],
            None,
            device.tool_count,
            device.round_trip_ms if measured else None,
            device.cpu_percents[-1] if measured and device.cpu_percents else None,
            device.memory_percents[-1] if measured and device.memory_percents else None,
            None,
            -heard,
        ),
    )


def tool_title(tool: Tool) -> str:
    """A tool's name as it is shown, with its namespace where it is not one of our own device client's."""
    return title_of(tool.tool_name, tool.namespace)


def title_of(tool_name: str, namespace: str | None) -> str:
    """`tool_title` of a tool of this name and namespace."""
    if namespace in (None, "", "builtin"):
        return one_line(tool_name)
    return one_line(f"{namespace}.{tool_name}")


def tool_rows(tools: Iterable[Tool]) -> list[Row]:
    """One row a tool; one that changed is tinted, because it is blocked."""
    return [
        Row(
            key=tool.tool_key,
            cells=(
                Cell(tool_title(tool), tip=tool.contract.effect.why),
                tool.contract.effect.value.value,
                tool.contract.risk.value.value,
                tool.contract.effect.source.value,
            ),
            tint="warn_tint" if tool.changed else "",
            order=(None, None, tool.contract.risk.value.rank, None),
        )
        for tool in tools
    ]


UNAVAILABLE_COLUMNS = (
    Column("tool", "Not available", Kind.MONO, 150),
    Column("reason", "Why, and how to get it", Kind.TEXT, 220, stretch=True),
)


def unavailable_rows(unavailable: Iterable[Unavailable]) -> list[Row]:
    """Tools that a device could offer but does not."""
    rows = []
    for one in unavailable:
        words = one_line(f"{one.reason} {one.how_to_fix}".strip())
        rows.append(Row(one.tool, (Cell(one_line(one.tool), tone="text2"), Cell(words, tip=words))))
    return rows
