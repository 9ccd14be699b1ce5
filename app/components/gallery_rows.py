"""The table of the gallery: a column and some rows for each kind of cell."""

from __future__ import annotations

from app.components.tables import Cell, Column, Kind, Row

COLUMNS = (
    Column("device", "Device", Kind.NAME, 165),
    Column("health", "Health", Kind.HEALTH, 125),
    Column("tags", "Tags", width=115),
    Column("tools", "Tools", Kind.NUMBER, 60),
    Column("trip", "Round trip, ms", Kind.SPARK, 115),
    Column("doing", "Doing now", stretch=True),
    Column("tool", "Tool", Kind.MONO, 130),
    Column("risk", "Risk", Kind.RISK, 95),
    Column("outcome", "Outcome", Kind.VERDICT, 120),
)


def sample_rows() -> list[Row]:
    """Rows that show each kind of cell."""
    made = []
    for number, (name, icon, health, risk, outcome) in enumerate(
        [
            ("build-lnx-03", "linux", "busy", "high", "running"),
            ("db-primary", "linux", "online", "low", "confirmed"),
            ("label-win-02", "windows", "busy", "medium", "unverified"),
            ("kiosk-hall-2", "windows", "stale", "critical", "unknown"),
            ("kiosk-yard", "linux", "offline", "low", "refused"),
            ("lab-mac-01", "macos", "reconnecting", "medium", "no_effect"),
            ("lab-lnx-01", "linux", "online", "low", "waiting"),
            ("lab-lnx-02", "linux", "online", "low", "failed"),
            ("this-computer", "linux", "online", "low", "queued"),
        ]
    ):
        production = number < 3
        line = tuple(float((number * 7 + step * step * 3) % 11) for step in range(8))
        cells: tuple[str | Cell, ...] = (
            Cell(name, icon=icon),
            health,
            Cell("build,", bold="prod") if production else "lab",
            str(17 + number),
            Cell("—") if health in ("stale", "offline") else Cell(str(9 + number), spark=line),
            Cell("approval waits", glyph="sand", tone="waiting") if number == 0 else "",
            "shell_execute",
            risk,
            outcome,
        )
        made.append(Row(name, cells, production=production, muted=health == "offline"))
    return made
