"""Lists the children of a control that are on the screen, wherever they stand among a million others.

A spreadsheet has 2^30 cells, and a list may have thousands of rows. Where a program can filter its children
itself (Collection), it is asked for those that are showing. A table that draws its own cells is asked which
cells are at the corners of its visible area, and the cells between them are taken.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any

from core.device.desktop.linux.atspi import AccessibilityBus, Gone, NotSupported, Ref
from core.device.desktop.linux.atspi_constants import (
    ACCESSIBLE,
    COLLECTION,
    COMPONENT,
    NULL,
    ROLES,
    ROOT,
    STATES,
    TABLE,
    role_word,
)
from core.device.desktop.linux.coordinates import Extents, extents_of

MOST_ON_SCREEN = 600
"""The most children of one control that are read."""
DRAWN = "manages descendants"
# A program goes through all children of a control to filter them; this many take it some milliseconds.
_MOST_FILTERED = 20_000
# Controls that draw their own rows may make an object for each that is looked at.
_MOST_DRAWN_FILTERED = 2_000
_RULE, _ALL, _ANY, _IN_ORDER = "(aiia{ss}iaiiasib)uib", 1, 2, 1
_LEVELS = 60
_CELL = re.compile(r"([A-Za-z]{1,3})([0-9]{1,7})")
_HEADERS = frozenset({"column header", "row header", "table column header", "table row header"})
# Where a cell is looked for, from the corner of the visible area: headers and borders are passed over.
_STEPS = ((4, 4), (60, 30), (120, 60), (12, 90))


async def matches(
    bus: AccessibilityBus, ref: Ref, states: list[int], roles: list[int], most: int, *, below: bool
) -> list[Ref]:
    """The children of a control that have all of `states` and one of `roles` (bit sets, 0 for any).

    `below`: also the descendants at any depth. A program that has a large table must not be asked for those.

    Raises:
        NotSupported: its program does not filter.
        Silent: its program hangs.
        Gone: it does not exist.
    """
    rule = [states, _ALL, {}, _ALL, roles, _ANY if any(roles) else _ALL, [], _ALL, False]
    (told,) = await bus.call(ref, COLLECTION, "GetMatches", _RULE, (rule, _IN_ORDER, most, below))
    return [Ref(str(name), str(path)) for name, path in told[:most]]


def bits(number: int, words: int) -> list[int]:
    """A bit set with a single bit, in words of 32 bits."""
    return [1 << number % 32 if at == number // 32 else 0 for at in range(words)]


SHOWING_BITS = bits(STATES.index("showing"), 2)
ANY_ROLE = [0] * (len(ROLES) // 32 + 1)


async def children_on_screen(
    bus: AccessibilityBus, ref: Ref, count: int, *, is_drawn: bool, can_filter: bool, coordinates: int
) -> list[Ref] | None:
    """The children of a control that are showing, in their order; None where its program cannot tell.

    `is_drawn`: the control manages its descendants, as tables do that draw their own cells. `can_filter`: its
    program can filter the children of a control.

    Raises:
        Silent: its program hangs.
        Gone: it does not exist.
    """
    try:
        if can_filter and count <= (_MOST_DRAWN_FILTERED if is_drawn else _MOST_FILTERED):
            # A browser that is busy with a large page leaves this unanswered, and is not asked for a while.
            return await matches(bus, ref, SHOWING_BITS, ANY_ROLE, MOST_ON_SCREEN, below=False)
        return await _Sheet(bus, ref, count, coordinates).on_screen()
    except NotSupported:
        return None


async def cell_at(bus: AccessibilityBus, table: Ref, row: int, column: int) -> Ref | None:
    """A cell of a table by its row and column, from 0; None where there is none.

    Raises:
        NotSupported: the control is no table.
        Silent: its program hangs.
        Gone: it does not exist.
    """
    (told,) = await bus.call(table, TABLE, "GetAccessibleAt", "ii", (row, column))
    return _ref(told)


def cell_place(name: str) -> tuple[int, int] | None:
    """Row and column, from 0, of a spreadsheet cell by its name, such as B2; None for any other name."""
    if (fit := _CELL.fullmatch(name.strip())) is None:
        return None
    column = 0
    for letter in fit[1].upper():
        column = 26 * column + ord(letter) - ord("A") + 1
    row = int(fit[2])
    return (row - 1, column - 1) if row else None


class _Sheet:
    """The visible area of a list or table, by the cells at its corners."""

    def __init__(self, bus: AccessibilityBus, ref: Ref, count: int, coordinates: int) -> None:
        self._bus = bus
        self._ref = ref
        self._count = count
        self._coordinates = coordinates

    async def on_screen(self) -> list[Ref] | None:
        """The children in the visible area; None where its corners are not known."""
        area = await self._area()
        if area is None:
            return None
        left, top, right, bottom = area
        first = await self._index_at((left + x, top + y) for x, y in _STEPS)
        if first is None:
            return None
        last = await self._index_at((right - x, bottom - y) for x, y in _STEPS)
        try:
            return await self._cells(first, last, area)
        except NotSupported:
            end = self._count - 1 if last is None else last
            return await self._range(first, min(end, first + MOST_ON_SCREEN - 1))

    async def _cells(self, first: int, last: int | None, area: Extents) -> list[Ref]:
        """The cells between two corners; an empty corner means that the table ends before it."""
        top, left = await self._row_column(first)
        rows, columns = await self._size()
        if last is not None:
            bottom, right = await self._row_column(last)
        else:
            x0, y0, x1, y1 = area
            below = await self._index_at((x0 + x, y1 - y) for x, y in _STEPS)
            beside = await self._index_at((x1 - x, y0 + y) for x, y in _STEPS)
            bottom = rows - 1 if below is None else (await self._row_column(below))[0]
            right = columns - 1 if beside is None else (await self._row_column(beside))[1]
        if bottom < top or right < left:
            raise NotSupported("the corners contradict each other")
        places = [(row, column) for row in range(top, bottom + 1) for column in range(left, right + 1)]
        asked = (cell_at(self._bus, self._ref, *place) for place in places[:MOST_ON_SCREEN])
        return [one for one in await asyncio.gather(*asked) if one is not None]

    async def _range(self, first: int, last: int) -> list[Ref]:
        asked = (
            self._bus.call(self._ref, ACCESSIBLE, "GetChildAtIndex", "i", (at,))
            for at in range(first, max(first, last) + 1)
        )
        found = (_ref(told) for (told,) in await asyncio.gather(*asked))
        return [one for one in found if one is not None]

    async def _area(self) -> Extents | None:
        """Left, top, right and bottom of the visible part, in the program's own coordinates."""
        x, y, width, height = await extents_of(self._bus, self._ref, self._coordinates)
        left, top, right, bottom = x, y, x + width, y + height
        above = self._ref
        for _ in range(_LEVELS):
            above = Ref(*(str(part) for part in await self._bus.get(above, ACCESSIBLE, "Parent")))
            if above.path in (ROOT, NULL):
                break
            try:
                x, y, width, height = await extents_of(self._bus, above, self._coordinates)
            except NotSupported:
                continue
            if width > 0 and height > 0:
                left, top = max(left, x), max(top, y)
                right, bottom = min(right, x + width), min(bottom, y + height)
        return (left, top, right, bottom) if right > left and bottom > top else None

    async def _index_at(self, points: Iterable[tuple[int, int]]) -> int | None:
        """The index of the child at the first of some points that has one."""
        for x, y in points:
            body = (x, y, self._coordinates)
            (told,) = await self._bus.call(self._ref, COMPONENT, "GetAccessibleAtPoint", "iiu", body)
            found = await self._child_of(_ref(told))
            if found is not None:
                (index,) = await self._bus.call(found, ACCESSIBLE, "GetIndexInParent")
                if 0 <= int(index) < self._count:
                    return int(index)
        return None

    async def _child_of(self, ref: Ref | None) -> Ref | None:
        """The child of this control that contains an object; None for a header and for the control itself."""
        for _ in range(_LEVELS):
            if ref is None or ref.path in (ROOT, NULL) or ref == self._ref:
                return None
            try:
                above = Ref(*(str(part) for part in await self._bus.get(ref, ACCESSIBLE, "Parent")))
                if above == self._ref:
                    (role,) = await self._bus.call(ref, ACCESSIBLE, "GetRole")
                    return None if role_word(int(role)) in _HEADERS else ref
            except Gone:
                return None
            ref = above
        return None

    async def _row_column(self, index: int) -> tuple[int, int]:
        (row,), (column,) = await asyncio.gather(
            self._bus.call(self._ref, TABLE, "GetRowAtIndex", "i", (index,)),
            self._bus.call(self._ref, TABLE, "GetColumnAtIndex", "i", (index,)),
        )
        if int(row) < 0 or int(column) < 0:
            raise NotSupported("the child is not a cell")
        return int(row), int(column)

    async def _size(self) -> tuple[int, int]:
        rows, columns = await asyncio.gather(
            self._bus.get(self._ref, TABLE, "NRows"), self._bus.get(self._ref, TABLE, "NColumns")
        )
        return int(rows), int(columns)


def _ref(told: Any) -> Ref | None:
    name, path = (str(part) for part in told)
    return None if path == NULL or not name.startswith(":") else Ref(name, path)
