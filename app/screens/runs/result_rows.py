"""Results as rows of a table, one for each object of a list; and how two results differ, in words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.items.table_model import Column, Kind
from app.text import one_line
from core.batch.models import Cell, ValueDifference
from core.batch.run_compare import OF_THE_CALL
from core.text import shorten_middle

MOST_ROWS = 5_000
MOST_COLUMNS = 24
LONGEST_VALUE = 120


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One row, with its device and its values by column; a column may have none."""

    number: int
    device: str
    step: str
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResultTable:
    """The rows of some cells; `left` rows and columns beyond the limits are not in it."""

    columns: tuple[str, ...]
    rows: list[ResultRow]
    left: int


def table_of(cells: Iterable[Cell]) -> ResultTable:
    """The results of one step as a table."""
    columns: dict[str, None] = {}
    rows: list[ResultRow] = []
    left = 0
    for cell in cells:
        for values in rows_of(cell.result.result if cell.result else None):
            if len(rows) >= MOST_ROWS:
                left += 1
                continue
            columns.update(dict.fromkeys(values))
            rows.append(ResultRow(len(rows), cell.device, cell.step, values))
    return ResultTable(tuple(columns)[:MOST_COLUMNS], rows, left + max(0, len(columns) - MOST_COLUMNS))


def rows_of(value: Any) -> list[dict[str, Any]]:
    """The rows of one result: the objects of its longest list of objects, else its members as one row."""
    if isinstance(value, list):
        return [one if isinstance(one, dict) else {"value": one} for one in value]
    if not isinstance(value, dict):
        return [] if value is None else [{"value": value}]
    lists: list[list[dict[str, Any]]] = [one for one in value.values() if _is_objects(one)]
    if lists:
        return max(lists, key=len)
    members = {name: one for name, one in value.items() if name not in OF_THE_CALL}
    return [members] if members else []


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def value_words(value: Any) -> str:
    """A value on one line: texts as they are, the rest as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten_middle(one_line(text), LONGEST_VALUE)


def difference_words(difference: ValueDifference) -> str:
    """`$.use_percent: 91 → 97`."""
    before, after = value_words(difference.before), value_words(difference.after)
    change = {"added": f"+ {after}", "removed": f"− {before}"}.get(difference.kind, f"{before} → {after}")
    return f"{one_line(difference.path)}: {change}"


def difference_columns(before: str, after: str) -> tuple[Column[ValueDifference], ...]:
    """Columns of a table of differences; `before` and `after` name the two sides."""
    return (
        Column("path", "Where", Kind.MONO, 260, cell=lambda one: one_line(one.path)),
        Column("before", before, Kind.TEXT, 220, cell=lambda one: _side(one, one.before, "added")),
        Column(
            "after", after, Kind.TEXT, 220, stretch=True, cell=lambda one: _side(one, one.after, "removed")
        ),
    )


def _side(difference: ValueDifference, value: Any, absent: str) -> str:
    return "—" if difference.kind == absent else value_words(value)
