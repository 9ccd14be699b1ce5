"""Drawing steps that several widgets share."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter, QPen, QPixmap, QPolygonF

from app.theme.legible import legible
from app.theme.theme import Theme

_tiles: dict[tuple[int, int, float], QPixmap] = {}
_metrics: dict[str, QFontMetricsF] = {}
_widths: dict[tuple[str, str], float] = {}
MOST_WIDTHS = 8192
STRIPE_TILE = 8


def box(
    painter: QPainter,
    rect: QRectF,
    radius: float,
    fill: QColor | None = None,
    edge: QColor | None = None,
    width: float = 1.0,
    dashed: bool = False,
) -> None:
    """Draw a rounded box whose edge lies wholly inside `rect`, so that hairlines fill one row of pixels."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, radius > 0)
    pen = QPen(Qt.PenStyle.NoPen)
    if edge is not None:
        pen = QPen(edge, width, Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        rect = rect.adjusted(width / 2, width / 2, -width / 2, -width / 2)
        radius = max(0.0, radius - width / 2)
    painter.setPen(pen)
    painter.setBrush(QBrush(fill) if fill is not None else QBrush(Qt.BrushStyle.NoBrush))
    painter.drawRoundedRect(rect, radius, radius)
    painter.restore()


def stripes(painter: QPainter, rect: QRectF, back: QColor, front: QColor) -> None:
    """Fill `rect` with stripes of 45 degrees, from one tile of 8 px, sharp at the painter's pixel ratio."""
    ratio = painter.device().devicePixelRatio()
    key = (back.rgba(), front.rgba(), ratio)
    if (tile := _tiles.get(key)) is None:
        tile = _tiles[key] = _stripe_tile(back, front, ratio)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setBrushOrigin(rect.topLeft())
    brush = QBrush(tile)
    painter.fillRect(rect, brush)
    painter.restore()


def _stripe_tile(back: QColor, front: QColor, ratio: float) -> QPixmap:
    side = STRIPE_TILE
    tile = QPixmap(round(side * ratio), round(side * ratio))
    tile.setDevicePixelRatio(ratio)
    tile.fill(back)
    painter = QPainter(tile)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(front)
    half = side / 2
    for shift in (-side, 0.0, side):
        painter.drawPolygon(
            QPolygonF(
                [
                    QPointF(shift, side),
                    QPointF(shift + side, 0),
                    QPointF(shift + side + half, 0),
                    QPointF(shift + half, side),
                ]
            )
        )
    painter.end()
    return tile


def text(
    painter: QPainter,
    rect: QRectF,
    words: str,
    theme: Theme,
    role: str = "body",
    color: str = "text",
    align: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft,
    elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
) -> float:
    """Draw one line, middled vertically; cut it to the width with an ellipsis. Returns the width it took."""
    painter.setFont(theme.font(role))
    painter.setPen(theme.color(color))
    metrics = metrics_of(theme, role)
    words = legible(words, theme.font(role))
    width = text_width(words, theme, role)
    if width > rect.width() and elide != Qt.TextElideMode.ElideNone:
        words = metrics.elidedText(words, elide, rect.width())
        width = metrics.horizontalAdvance(words)
    # One rounded base line for all texts in a row, whatever their sizes.
    base = round(rect.y() + (rect.height() + metrics.capHeight()) / 2)
    left = rect.x()
    if align & Qt.AlignmentFlag.AlignRight:
        left = rect.right() - width
    elif align & Qt.AlignmentFlag.AlignHCenter:
        left = rect.x() + (rect.width() - width) / 2
    painter.drawText(QPointF(left, base), words)
    return width


def text_width(words: str, theme: Theme, role: str = "body") -> float:
    """The width of one line in a type role."""
    key = (role, words)
    if (width := _widths.get(key)) is None:
        if len(_widths) >= MOST_WIDTHS:
            _widths.clear()
        shown = legible(words, theme.font(role))
        width = _widths[key] = metrics_of(theme, role).horizontalAdvance(shown)
    return width


def metrics_of(theme: Theme, role: str) -> QFontMetricsF:
    """The measures of a type role; they depend on neither mode nor density."""
    if (metrics := _metrics.get(role)) is None:
        metrics = _metrics[role] = QFontMetricsF(theme.font(role))
    return metrics


def ring(painter: QPainter, rect: QRectF, radius: float, color: QColor, width: float = 2.0) -> None:
    """Draw a focus ring inside `rect`."""
    box(painter, rect, radius, edge=color, width=width)
