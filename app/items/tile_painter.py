"""How one tile of the wall of devices is painted: picture, name, how it is, load."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QImage, QPainter, QPainterPath, QPixmap

from app.theme.icons import paint_icon
from app.theme.shapes import paint_glyph
from app.theme.state_looks import health_look
from app.theme.theme import Theme
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.badges import HEALTH_SHAPE, paint_production_band, paint_production_tag
from app.widgets.charts import paint_meter

PAD = 8
EDGE = 5


@dataclass(frozen=True, slots=True)
class TileItem:
    """One device, ready to be painted. `picture` names an image; `age` makes it grey and is said on a plate.

    `live`: its picture is kept fresh. `no_picture` says why there is none. `waiting` marks a tile that waits
    for the operator; `load` says why CPU and memory are not shown.
    """

    key: str
    icon: str
    health: str
    line: str = ""
    waiting: bool = False
    picture: str = ""
    age: str = ""
    live: bool = False
    no_picture: str = "no picture"
    production: bool = False
    cpu: tuple[float, ...] = ()
    memory: tuple[float, ...] = ()
    load: str = ""
    spoken: str = ""

    @property
    def muted(self) -> bool:
        """Whether the device cannot be reached."""
        return self.health == "offline"


def fit_picture(image: QImage, size: QSize, ratio: float, grey: bool) -> QPixmap:
    """An image that fills `size`, cut at its edges, at the screen's own pixels; grey when it is old."""
    wanted = size * ratio
    # Halving first is several times faster than smooth scaling of a whole screen, and looks the same.
    small = image
    while small.width() > 4 * wanted.width() and small.height() > 4 * wanted.height():
        small = small.scaled(
            small.width() // 2, small.height() // 2, mode=Qt.TransformationMode.FastTransformation
        )
    scaled = small.scaled(
        wanted, Qt.AspectRatioMode.KeepAspectRatioByExpanding, Qt.TransformationMode.SmoothTransformation
    )
    left, top = (scaled.width() - wanted.width()) // 2, (scaled.height() - wanted.height()) // 2
    cut = scaled.copy(max(0, left), max(0, top), wanted.width(), wanted.height())
    if grey:
        cut = cut.convertToFormat(QImage.Format.Format_Grayscale8)
    pixmap = QPixmap.fromImage(cut)
    pixmap.setDevicePixelRatio(ratio)
    return pixmap


def paint_tile(
    painter: QPainter,
    rect: QRectF,
    picture_height: int,
    tile: TileItem,
    picture: QPixmap,
    theme: Theme,
    fill: str = "raised",
) -> None:
    """Draw a tile without what the view adds (ring and mark); `fill` is the token below its words."""
    painting.box(painter, rect, RADIUS.card, theme.color(fill))
    top = QRectF(rect.x(), rect.y(), rect.width(), picture_height)
    painter.save()
    clip = QPainterPath()
    clip.addRoundedRect(rect, RADIUS.card, RADIUS.card)
    painter.setClipPath(clip)
    if picture.isNull():
        _paint_no_picture(painter, top, tile, theme)
    else:
        painter.drawPixmap(top.topLeft(), picture)
        if tile.age:
            _paint_wash(painter, top, theme)
    if tile.production:
        paint_production_band(painter, QRectF(rect.x(), rect.y(), rect.width(), EDGE), theme)
    painter.restore()
    painter.fillRect(QRectF(rect.x(), top.bottom(), rect.width(), 1), theme.color("border"))
    _paint_plates(painter, top, tile, theme)
    _paint_foot(
        painter, QRectF(rect.x(), top.bottom(), rect.width(), rect.height() - picture_height), tile, theme
    )
    painting.box(painter, rect, RADIUS.card, edge=theme.color("border2"))


def _paint_wash(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    wash = theme.color("sunken")
    painter.setOpacity(0.45)
    painter.fillRect(rect, wash)
    painter.setOpacity(1.0)


def _paint_no_picture(painter: QPainter, rect: QRectF, tile: TileItem, theme: Theme) -> None:
    painter.fillRect(rect, theme.color("sunken"))
    middle = rect.center()
    icon = "no_picture" if tile.muted else "picture"
    paint_icon(painter, QRectF(middle.x() - 11, middle.y() - 22, 22, 22), icon, theme.color("text3"))
    words = QRectF(rect.x() + PAD, middle.y() + 6, rect.width() - 2 * PAD, 18)
    painting.text(painter, words, tile.no_picture, theme, "body", "text3", Qt.AlignmentFlag.AlignHCenter)


def _paint_plates(painter: QPainter, rect: QRectF, tile: TileItem, theme: Theme) -> None:
    """What is said on the picture, from its lower left corner."""
    left, bottom = rect.x() + 7, rect.bottom() - 7
    if tile.production:
        width = painting.text_width("Production", theme, "label") + 10
        paint_production_tag(painter, QRectF(left, bottom - 16, width, 16), "Production", theme)
        bottom -= 20
    if tile.live:
        _paint_live(painter, rect, theme)
    if tile.age:
        width = painting.text_width(tile.age, theme, "label") + 12
        plate = QRectF(left, bottom - 18, width, 18)
        painting.box(painter, plate, RADIUS.badge, theme.color("warn_tint"), theme.color("warn"))
        painting.text(painter, plate, tile.age, theme, "label", "warn", Qt.AlignmentFlag.AlignHCenter)


def _paint_live(painter: QPainter, rect: QRectF, theme: Theme) -> None:
    """A word and a dot, in the corner that nothing else is painted in."""
    width = painting.text_width("Live", theme, "label") + 24
    plate = QRectF(rect.right() - 7 - width, rect.bottom() - 25, width, 18)
    painting.box(painter, plate, RADIUS.badge, theme.color("ok_tint"), theme.color("ok"))
    paint_glyph(painter, QRectF(plate.x() + 6, plate.y() + 5, 8, 8), "circle", theme.color("ok"))
    painting.text(painter, plate.adjusted(18, 0, 0, 0), "Live", theme, "label", "ok")


def _paint_foot(painter: QPainter, rect: QRectF, tile: TileItem, theme: Theme) -> None:
    look = health_look(tile.health)
    inner = rect.adjusted(PAD, 3, -PAD, -3)
    first = QRectF(inner.x(), inner.y() + 2, inner.width(), 18)
    ink = "text3" if tile.muted else "text"
    paint_icon(painter, QRectF(first.x() - 1, first.y() + 1, 16, 16), tile.icon, theme.color("text2"))
    shape = QRectF(first.right() - HEALTH_SHAPE, first.y() + 3, HEALTH_SHAPE, HEALTH_SHAPE)
    name = QRectF(first.x() + 21, first.y(), first.width() - 21 - HEALTH_SHAPE - 6, first.height())
    painting.text(painter, name, tile.key, theme, "name", ink, elide=_name_elide(name, tile.key, theme))
    paint_glyph(painter, shape, look.glyph, theme.color(look.color))
    second = QRectF(inner.x(), first.bottom(), inner.width(), 17)
    taken = painting.text_width(look.word, theme, "meta")
    painting.text(painter, second, look.word, theme, "meta", look.word_color, Qt.AlignmentFlag.AlignRight)
    words = second.adjusted(0, 0, -taken - 8, 0)
    if tile.waiting:
        paint_glyph(painter, QRectF(words.x(), words.y() + 2, 13, 13), "sand", theme.color("waiting"))
        words = words.adjusted(18, 0, 0, 0)
    painting.text(painter, words, tile.line, theme, "meta", "waiting" if tile.waiting else "text3")
    third = QRectF(inner.x(), second.bottom(), inner.width(), 16)
    if not tile.cpu and not tile.memory:
        painting.text(painter, third, tile.load, theme, "meta", "text3")
        return
    half = (third.width() - 10) / 2
    paint_meter(painter, QRectF(third.x(), third.y(), half, 16), "CPU", list(tile.cpu), theme)
    place = QRectF(third.x() + half + 10, third.y(), half, 16)
    paint_meter(painter, place, "Mem", list(tile.memory), theme)


def _name_elide(room: QRectF, name: str, theme: Theme) -> Qt.TextElideMode:
    # Only where even a whole tile is too narrow; the middle of a name tells least.
    fits = painting.text_width(name, theme, "name") <= room.width()
    return Qt.TextElideMode.ElideNone if fits else Qt.TextElideMode.ElideMiddle
