"""Where the tiles and heads of a wall lie. Plain arithmetic, without Qt's widgets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRect

GAP = 12
PAD = 16
HEAD = 30
HEAD_GAP = 6
FOOT = 60
PICTURE_RATIO = 100 / 194
LEAST, USUAL, MOST, STEP = 160, 194, 320, 20


@dataclass(frozen=True, slots=True)
class TileGroup:
    """Tiles under one head. `keys` in their order; a closed group shows only its head."""

    name: str
    keys: tuple[str, ...]
    production: bool = False


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A head and the first of its tiles in the order of the whole wall."""

    group: TileGroup
    top: int
    first: int
    shown: int
    bottom: int


def kept_size(value: object) -> int:
    """A size of tiles as a file of settings gives it back, which may be text, or nothing."""
    try:
        return int(str(value))
    except ValueError:
        return USUAL


class TileLayout:
    """Tiles in rows under heads, all of one size, for one width.

    `wanted` is the width of a tile, about: tiles grow or shrink a little, so that a row fills the width.
    """

    def __init__(
        self, groups: Sequence[TileGroup], closed: frozenset[str], width: int, wanted: int, heads: bool
    ) -> None:
        self.width = width
        room = max(1, width - 2 * PAD)
        # One more column rather than tiles that are much wider than wished: a twentieth narrower will do.
        self.columns = max(1, int((room + GAP) / (wanted * 0.95 + GAP)))
        self.tile_width = (room - (self.columns - 1) * GAP) // self.columns
        self.picture_height = round(self.tile_width * PICTURE_RATIO)
        self.tile_height = self.picture_height + FOOT
        self.heads = heads
        self.placed: list[PlacedGroup] = []
        y, first = (4 if heads else PAD), 0
        for group in groups:
            top = y
            y += HEAD if heads else 0
            shown = 0 if group.name in closed and heads else len(group.keys)
            rows = -(-shown // self.columns)
            if rows:
                y += HEAD_GAP if heads else 0
                y += rows * self.tile_height + (rows - 1) * GAP
            self.placed.append(PlacedGroup(group, top, first, shown, y))
            y += GAP
            first += len(group.keys)
        self.height = y + 4 if self.placed else 0
        self._tops = [one.top for one in self.placed]
        self._firsts = [one.first for one in self.placed]

    def group_of(self, number: int) -> PlacedGroup:
        """The group of a tile by its number in the whole wall.

        Raises:
            IndexError: there is no group.
        """
        return self.placed[max(0, bisect_right(self._firsts, number) - 1)]

    def rect(self, number: int) -> QRect:
        """Where a tile lies, from the top of the wall; empty while its group is closed."""
        if not self.placed:
            return QRect()
        place = self.group_of(number)
        inside = number - place.first
        if inside >= place.shown:
            return QRect()
        row, column = divmod(inside, self.columns)
        top = place.top + ((HEAD + HEAD_GAP) if self.heads else 0)
        return QRect(
            PAD + column * (self.tile_width + GAP),
            top + row * (self.tile_height + GAP),
            self.tile_width,
            self.tile_height,
        )

    def head_rect(self, place: PlacedGroup, width: int) -> QRect:
        """Where a head lies."""
        return QRect(PAD, place.top, max(0, width - 2 * PAD), HEAD if self.heads else 0)

    def between(self, top: int, bottom: int) -> list[tuple[PlacedGroup, range]]:
        """The groups that touch a band of the wall, each with the numbers of its tiles there."""
        found = []
        start = max(0, bisect_right(self._tops, top) - 1)
        for place in self.placed[start:]:
            if place.top > bottom:
                break
            inner = place.top + ((HEAD + HEAD_GAP) if self.heads else 0)
            pitch = self.tile_height + GAP
            first_row = max(0, (top - inner) // pitch)
            last_row = max(-1, (bottom - inner) // pitch)
            first = min(place.shown, first_row * self.columns)
            last = min(place.shown, (last_row + 1) * self.columns)
            found.append((place, range(place.first + first, place.first + last)))
        return found

    def touching(self, rect: QRect) -> list[int]:
        """The numbers of the tiles that a rectangle of the wall touches, in their order."""
        return [
            number
            for _place, numbers in self.between(rect.top(), rect.bottom())
            for number in numbers
            if self.rect(number).intersects(rect)
        ]

    def chosen_by(self, rect: QRect, in_order: bool) -> list[int]:
        """The numbers of the tiles that a rectangle chooses, drawn from its first corner to its last.

        `in_order`: all from the tile at one corner to the tile at the other, as one reads. Else, and where a
        corner is beside the tiles, those that it touches.
        """
        ends = self.at(rect.left(), rect.top()), self.at(rect.right(), rect.bottom())
        if in_order and min(ends) >= 0:
            between = range(min(ends), max(ends) + 1)
            return [number for number in between if not self.rect(number).isNull()]
        return self.touching(rect.normalized())

    def at(self, x: int, y: int) -> int:
        """The number of the tile at a point of the wall; -1 when there is none."""
        return next(iter(self.touching(QRect(x, y, 1, 1))), -1)

    def head_at(self, x: int, y: int) -> PlacedGroup | None:
        """The head at a point of the wall."""
        if not self.heads:
            return None
        for place, _numbers in self.between(y, y):
            if place.top <= y < place.top + HEAD and x >= PAD:
                return place
        return None

    def next_open(self, number: int, way: int) -> int:
        """The next tile before or after one that is not in a closed group; the tile itself at an end."""
        last = self.placed[-1].first + len(self.placed[-1].group.keys) if self.placed else 0
        to = number + way
        while 0 <= to < last:
            if not self.rect(to).isNull():
                return to
            to += way
        return max(0, number)

    def step(self, number: int, rows: int) -> int:
        """The tile above or below a tile, across the heads; the tile itself at an end."""
        rect = self.rect(number)
        if rect.isNull():
            return number
        place = self.group_of(number)
        at = self.placed.index(place)
        column = (number - place.first) % self.columns
        inside = number + rows * self.columns
        if place.first <= inside < place.first + place.shown:
            return inside
        if rows > 0:
            last_row = (place.shown - 1) // self.columns
            if (number - place.first) // self.columns < last_row:
                return place.first + place.shown - 1
        way = 1 if rows > 0 else -1
        at += way
        while 0 <= at < len(self.placed):
            other = self.placed[at]
            if other.shown:
                if way > 0:
                    return other.first + min(column, other.shown - 1)
                last_row = (other.shown - 1) // self.columns
                return other.first + min(last_row * self.columns + column, other.shown - 1)
            at += way
        return number
