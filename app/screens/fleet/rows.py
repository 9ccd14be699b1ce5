"""Devices and tools as rows of tables: words, order, colours."""

from __future__ import annotations

from collections.abc import Iterable

from app.components.rows import Cell, Column, Kind, Row
from app.shell.words import last_heard, parse_time
from core.fleet.models import Device, Health, Tool, Unavailable

PLATFORM_ICONS = {
    "linux": "linux",
    "windows": "windows",
    "win32": "windows",
    "macos": "macos",
    "darwin": "macos",
}

DEVICE_COLUMNS = (
    Column("device", "Device", Kind.NAME, 166),
    Column("health", "Health", Kind.HEALTH, 126),
    Column("tags", "Tags", Kind.TEXT, 112, drop=1),
    Column("tools", "Tools", Kind.NUMBER, 56),
    Column("round_trip", "Round trip, ms", Kind.SPARK, 112, drop=2),
    Column("doing", "Doing now", Kind.TEXT, 138, stretch=True),
    Column("heard", "Last heard", Kind.TIME, 126),
)

TOOL_COLUMNS = (
    Column("tool", "Tool", Kind.MONO, 160, stretch=True),
    Column("effect", "Effect", Kind.TEXT, 76),
    Column("risk", "Risk", Kind.RISK, 92),
    Column("source", "Source", Kind.TEXT, 72, tone="text3"),
)


def platform_icon(platform: str) -> str:
    """The icon of a platform; a plain device where it is not known."""
    return PLATFORM_ICONS.get(platform.lower(), "device")


def device_row(device: Device) -> Row:
    """One device, ready to be painted; production sorts before the rest within the names."""
    plain_tags = [tag for tag in device.tags if tag != "prod"]
    bold = "prod" if "prod" in device.tags else "production" if device.production else ""
    tags = ", ".join(plain_tags) + ("," if plain_tags and bold else "")
    trip = f"{device.round_trip_ms:.0f}" if device.round_trip_ms is not None else "—"
    needs_answer = "approval" in device.doing or "waits" in device.doing
    doing = (
        Cell(device.doing, glyph="sand", tone="waiting")
        if device.doing and needs_answer
        else Cell(device.doing, tip=device.reason)
    )
    if not device.doing and device.health is not Health.ONLINE:
        doing = Cell(device.reason, tip=device.reason, tone="text3")
    heard = parse_time(device.last_heard).timestamp() if device.last_heard else 0.0
    return Row(
        key=device.name,
        cells=(
            Cell(device.name, icon=platform_icon(device.platform)),
            Cell(device.health.value, tip=device.reason),
            Cell(tags, bold=bold),
            str(device.tool_count),
            Cell(trip, spark=tuple(device.round_trips_ms[-24:])),
            doing,
            last_heard(device.last_heard),
        ),
        production=device.production,
        muted=device.health is Health.OFFLINE,
        order=(
            f"{0 if device.production else 1} {device.name}",
            list(Health).index(device.health),
            None,
            device.tool_count,
            device.round_trip_ms,
            None,
            -heard,
        ),
    )


def tool_title(tool: Tool) -> str:
    """A tool's name, with its namespace where it is not one of our own device client's."""
    if tool.namespace in (None, "", "builtin"):
        return tool.tool_name
    return f"{tool.namespace}.{tool.tool_name}"


def tool_rows(tools: Iterable[Tool]) -> list[Row]:
    """One row a tool; one whose definition changed is tinted, because it is blocked."""
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
        words = f"{one.reason} {one.how_to_fix}".strip()
        rows.append(Row(one.tool, (Cell(one.tool, tone="text2"), Cell(words, tip=words))))
    return rows
