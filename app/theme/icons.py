"""The window's icons: SVG files of our own in `resources/icons/actions`, by what they stand for.

A file is drawn on a grid of 24 with lines of 1.9 in `currentColor`, which becomes the colour asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QByteArray, QPoint, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QIconEngine, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

_FOLDER = Path(__file__).resolve().parents[2] / "resources" / "icons" / "actions"

ICONS: dict[str, str] = {
    "brand": "helm",
    "fleet": "server",
    "device": "server",
    "linux": "penguin",
    "windows": "panes",
    "macos": "command-key",
    "tool": "wrench",
    "call": "wrench",
    "batch": "batch",
    "approvals": "gavel",
    "runs": "table",
    "replay": "film",
    "journal": "notebook",
    "agents": "robot",
    "settings": "gear",
    "run": "play",
    "pause": "pause",
    "stop": "stop",
    "stop_all": "octagon",
    "approve": "check-bold",
    "check": "check",
    "deny": "forbidden",
    "refused": "forbidden",
    "edit": "pencil",
    "rule": "gavel",
    "why": "gavel",
    "grant": "keys",
    "key": "key",
    "agent": "robot",
    "operator": "person",
    "profile": "shield",
    "verified": "shield-check",
    "not_verified": "shield-alert",
    "undo": "undo",
    "redo": "redo",
    "time_left": "hourglass",
    "picture": "camera",
    "screenshot": "camera",
    "live": "broadcast",
    "click": "click",
    "type": "keyboard",
    "element_tree": "tree",
    "shell": "terminal",
    "write_file": "file-edit",
    "read_file": "file-search",
    "compare": "compare",
    "export": "export",
    "bookmark": "bookmark",
    "saved": "star",
    "parallel": "split",
    "waves": "layers",
    "drag": "grip",
    "more": "more",
    "pair": "server-add",
    "no_picture": "disconnected",
    "link_lost": "disconnected",
    "search": "search",
    "filter": "filter",
    "close": "close",
    "clear": "clear",
    "failed": "octagon-cross",
    "warn": "alert",
    "info": "info",
    "copy": "copy",
    "add": "plus",
    "remove": "minus",
    "refresh": "refresh",
    "eye": "eye",
    "down": "chevron-down",
    "up": "chevron-up",
    "right": "chevron-right",
    "left": "chevron-left",
    "table": "list",
    "wall": "tiles",
    "note": "comment",
    "save": "disk",
    "open": "folder-open",
    "fit": "fit",
    "widen": "expand",
    "previous": "skip-previous",
    "next": "skip-next",
}
"""What an icon stands for → the name of its file."""

_Key = tuple[str, int, int, float]
_pixmaps: dict[_Key, QPixmap] = {}
_MOST_PIXMAPS = 2048


def icon_pixmap(concept: str, color: QColor, size: int, ratio: float) -> QPixmap:
    """The icon in `size` logical px for screens with `ratio` device px each.

    Raises:
        KeyError: nothing is drawn for the concept.
    """
    key = (concept, color.rgba(), size, ratio)
    if (pixmap := _pixmaps.get(key)) is None:
        if len(_pixmaps) >= _MOST_PIXMAPS:
            _pixmaps.clear()
        pixmap = _pixmaps[key] = _render(ICONS[concept], color, size, ratio)
    return pixmap


def _render(name: str, color: QColor, size: int, ratio: float) -> QPixmap:
    drawing = (_FOLDER / f"{name}.svg").read_bytes()
    device_px = round(size * ratio)
    pixmap = QPixmap(device_px, device_px)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    # Lines that cross would be seen through each other if they were drawn in a colour that is not opaque.
    painter.setOpacity(color.alphaF())
    renderer = QSvgRenderer(QByteArray(drawing.replace(b"currentColor", color.name().encode())))
    renderer.render(painter, QRectF(0, 0, device_px, device_px))
    painter.end()
    pixmap.setDevicePixelRatio(ratio)
    return pixmap


def paint_icon(painter: QPainter, rect: QRectF, concept: str, color: QColor) -> None:
    """Paint an icon in the middle of `rect`, on whole device pixels."""
    size = round(min(rect.width(), rect.height()))
    ratio = painter.device().devicePixelRatio()
    pixmap = icon_pixmap(concept, color, size, ratio)
    x = round((rect.x() + (rect.width() - size) / 2) * ratio) / ratio
    y = round((rect.y() + (rect.height() - size) / 2) * ratio) / ratio
    painter.drawPixmap(QRectF(x, y, size, size), pixmap, QRectF(0, 0, pixmap.width(), pixmap.height()))


class Colors(Protocol):
    """Where an icon's colours come from: the theme."""

    def color(self, role: str) -> QColor:
        """The colour of a role now."""


class ThemedIcon(QIconEngine):
    """Paints a concept in the theme's colours of the moment of painting."""

    def __init__(self, theme: Colors, concept: str, role: str, disabled_role: str) -> None:
        super().__init__()
        self._theme, self._concept = theme, concept
        self._role, self._disabled_role = role, disabled_role

    @staticmethod
    def make(theme: Colors, concept: str, role: str, disabled_role: str) -> QIcon:
        """An icon for Qt's own widgets: menus, line edits, tabs.

        Raises:
            KeyError: the concept has no icon.
        """
        ICONS[concept]
        return QIcon(ThemedIcon(theme, concept, role, disabled_role))

    def _color(self, mode: QIcon.Mode) -> QColor:
        return self._theme.color(self._disabled_role if mode == QIcon.Mode.Disabled else self._role)

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        """Paint at the painter's own pixel ratio."""
        paint_icon(painter, QRectF(rect), self._concept, self._color(mode))

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        """A pixmap of `size` device px."""
        return self.scaledPixmap(size, mode, state, 1.0)

    def scaledPixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State, scale: float) -> QPixmap:
        """A pixmap of `size` device px for a screen with `scale` device px to the logical one."""
        pixmap = QPixmap(size)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        self.paint(painter, QRect(QPoint(0, 0), size), mode, state)
        painter.end()
        pixmap.setDevicePixelRatio(scale)
        return pixmap

    def clone(self) -> QIconEngine:
        """Qt copies icons now and then."""
        return ThemedIcon(self._theme, self._concept, self._role, self._disabled_role)
