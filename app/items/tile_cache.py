"""Tiles of a wall as pixmaps, painted again only when something on them is different; heads of groups."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPixmap

from app.items.tile_layout import PlacedGroup, TileLayout
from app.items.tile_painter import TileItem, fit_picture, paint_tile
from app.theme.shapes import paint_glyph
from app.theme.theme import Theme
from app.theme.tokens import RADIUS
from app.widgets import painting

MOST_KEPT = 240
UNREADABLE = "picture cannot be read"


class TileCache:
    """Some hundred tiles, the latest seen.

    `picture_of(picture, px)` gives an image at least so wide, None while it has not come, a null one when it
    cannot be read.
    """

    def __init__(self, picture_of: Callable[[str, int], QImage | None]) -> None:
        self._picture_of = picture_of
        self._kept: OrderedDict[tuple[object, ...], QPixmap] = OrderedDict()
        self._fitted: OrderedDict[tuple[object, ...], QPixmap] = OrderedDict()

    def clear(self) -> None:
        """Other colours or sizes hold from now on."""
        self._kept.clear()
        self._fitted.clear()

    def rendered(self, tile: TileItem, fill: str, layout: TileLayout, ratio: float, theme: Theme) -> QPixmap:
        """A tile at the screen's own pixels; `fill` is the token below its words."""
        width, high = layout.tile_width, layout.picture_height
        image = self._picture_of(tile.picture, round(width * ratio)) if tile.picture else None
        shown = 0 if image is None else image.cacheKey()
        key = (tile, fill, shown, width, ratio, theme.mode)
        if (kept := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return kept
        size = QSize(width, layout.tile_height)
        pixmap = QPixmap(size * ratio)
        pixmap.setDevicePixelRatio(ratio)
        pixmap.fill(Qt.GlobalColor.transparent)
        picture = QPixmap()
        if tile.picture and image is None:
            tile = replace(tile, no_picture="")
        elif image is not None and image.isNull():
            tile = replace(tile, no_picture=UNREADABLE)
        elif image is not None:
            picture = self._fit(image, QSize(width, high), ratio, grey=bool(tile.age))
        painter = QPainter(pixmap)
        paint_tile(painter, QRectF(0, 0, width, size.height()), high, tile, picture, theme, fill)
        painter.end()
        self._kept[key] = pixmap
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return pixmap

    def _fit(self, image: QImage, size: QSize, ratio: float, grey: bool) -> QPixmap:
        """A picture cut to its place; the words of a tile change more often than its picture."""
        key = (image.cacheKey(), size.width(), size.height(), ratio, grey)
        if (fitted := self._fitted.get(key)) is not None:
            self._fitted.move_to_end(key)
            return fitted
        fitted = self._fitted[key] = fit_picture(image, size, ratio, grey)
        while len(self._fitted) > MOST_KEPT:
            self._fitted.popitem(last=False)
        return fitted


def paint_head(painter: QPainter, rect: QRectF, place: PlacedGroup, closed: bool, theme: Theme) -> None:
    """Draw the head of a group: a mark that says whether it is open, its name, how many, a line."""
    mark = QRectF(rect.x() + 1, rect.y(), 13, rect.height())
    paint_glyph(painter, mark, "chevron_right" if closed else "chevron_down", theme.color("text2"))
    words = rect.adjusted(23, 0, 0, 0)
    tone = "prod" if place.group.production else "text"
    taken = painting.text(painter, words, place.group.name, theme, "head", tone)
    rest = words.adjusted(taken + 8, 0, 0, 0)
    taken = painting.text(painter, rest, f"{len(place.group.keys):,}", theme, "body", "text3")
    line = QRectF(rest.x() + taken + 8, round(rect.center().y()), rest.width() - taken - 8, 1)
    painter.fillRect(line, theme.color("border"))


def paint_ring(painter: QPainter, rect: QRectF, focused: bool, current: bool, theme: Theme) -> None:
    """Draw the ring round a chosen tile; that of the tile under the cursor is twice as thick."""
    edge = theme.color("accent" if focused else "control")
    around = rect.adjusted(-2, -2, 2, 2)
    painting.box(painter, around, RADIUS.card + 2, edge=edge, width=2.0 if current else 1.0)


def paint_mark(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    """Draw the plate that says that a tile is marked."""
    plate = QRectF(rect.right() - 26, rect.y() + 9, 18, 18)
    painting.box(painter, plate, RADIUS.badge, theme.color("accent_fill"), theme.color("base"))
    paint_glyph(painter, plate.adjusted(3, 3, -3, -3), "check", theme.color("on_accent"))
