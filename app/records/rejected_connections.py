"""Rejected connections as rows of a table: when, from where, why, how often."""

from __future__ import annotations

from app.items.table_view import Cell, Column, Kind, Row
from app.text import clock, count_words, plural
from core.fleet.models import Refusal

REFUSED_COLUMNS: tuple[Column[Row], ...] = (
    Column("time", "Time", Kind.TIME, 118, drop=2),
    Column("peer", "From", Kind.MONO, 140),
    Column("reason", "Why refused", Kind.TEXT, 150, stretch=True, tone="text"),
    Column("count", "Count", Kind.NUMBER, 84, drop=1),
)


def refusal_rows(refusals: list[Refusal], named: bool = False) -> list[Row]:
    """Refused attempts, newest first; with `named`, whose name they used stands before the reason."""
    rows = []
    newest = sorted(refusals, key=lambda one: one.at, reverse=True)
    for place, one in enumerate(newest):
        reason = f"{one.name}: {one.reason}" if named and one.name else one.reason
        times = plural(one.count, "time")
        rows.append(
            Row(
                key=f"{one.at} {one.peer} {place}",
                cells=(
                    clock(one.at),
                    one.peer,
                    Cell(reason, tip=f"{clock(one.at)}, {one.peer}, {times}: {reason}"),
                    count_words(one.count),
                ),
                order=(place, None, None, one.count),
            )
        )
    return rows
