"""Icons by concept, from the Material Design icons in qtawesome.

Importing qtawesome and its fonts costs about 180 ms, so it happens after the first paint. Until then icons
are blank; then everything that is on the screen is painted once more.
"""

from __future__ import annotations

from types import ModuleType
from typing import Protocol

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, QTimer
from PySide6.QtGui import QColor, QIcon, QIconEngine, QPainter, QPixmap
from PySide6.QtWidgets import QApplication

ICONS: dict[str, str] = {
    "brand": "ship-wheel",
    "fleet": "server",
    "device": "server",
    "linux": "linux",
    "windows": "microsoft-windows",
    "macos": "apple",
    "tool": "wrench-outline",
    "call": "wrench-outline",
    "batch": "playlist-play",
    "approvals": "gavel",
    "runs": "table",
    "replay": "filmstrip",
    "journal": "notebook-outline",
    "agents": "robot-outline",
    "settings": "cog-outline",
    "run": "play",
    "pause": "pause",
    "stop": "stop",
    "stop_all": "octagon",
    "approve": "check-bold",
    "check": "check",
    "deny": "cancel",
    "refused": "cancel",
    "edit": "pencil-outline",
    "rule": "gavel",
    "why": "gavel",
    "grant": "key-chain",
    "key": "key-variant",
    "agent": "robot-outline",
    "operator": "account-outline",
    "profile": "shield-outline",
    "verified": "shield-check-outline",
    "not_verified": "shield-alert-outline",
    "undo": "undo-variant",
    "redo": "redo-variant",
    "time_left": "timer-sand",
    "picture": "camera-outline",
    "screenshot": "camera-outline",
    "live": "access-point",
    "click": "cursor-default-click-outline",
    "type": "keyboard-outline",
    "element_tree": "file-tree-outline",
    "shell": "console",
    "write_file": "file-document-edit-outline",
    "read_file": "file-search-outline",
    "compare": "compare",
    "export": "export-variant",
    "bookmark": "bookmark-outline",
    "saved": "star-outline",
    "parallel": "call-split",
    "waves": "layers-triple-outline",
    "drag": "drag-vertical",
    "more": "dots-horizontal",
    "pair": "server-plus",
    "no_picture": "lan-disconnect",
    "link_lost": "lan-disconnect",
    "search": "magnify",
    "filter": "filter-variant",
    "close": "close",
    "clear": "close-circle-outline",
    "failed": "close-octagon",
    "warn": "alert-outline",
    "info": "information-outline",
    "copy": "content-copy",
    "add": "plus",
    "remove": "minus",
    "refresh": "refresh",
    "eye": "eye-outline",
    "down": "chevron-down",
    "up": "chevron-up",
    "right": "chevron-right",
    "left": "chevron-left",
    "table": "format-list-bulleted",
    "wall": "view-grid-outline",
    "note": "comment-text-outline",
    "save": "content-save-outline",
    "open": "folder-open-outline",
    "fit": "fit-to-page-outline",
    "widen": "arrow-expand",
    "previous": "skip-previous",
    "next": "skip-next",
}
"""Concept → name in the mdi6 family."""

_Key = tuple[str, int, int, float]
_qtawesome: ModuleType | None = None
_asked = False
_pixmaps: dict[_Key, QPixmap] = {}
_MOST_PIXMAPS = 2048


def _load_soon() -> None:
    """Load the icon font once the paint that asked for an icon is over."""
    global _asked
    app = QApplication.instance()
    if not _asked and app is not None:
        _asked = True
        QTimer.singleShot(0, app, _load_and_repaint)


def _load_and_repaint() -> None:
    if load_icons():
        for widget in QApplication.allWidgets():
            widget.update()


def load_icons() -> bool:
    """Load the icon font now; True when it was not loaded before."""
    global _qtawesome
    if _qtawesome is not None:
        return False
    import qtawesome  # 180 ms with its fonts, so not at start-up

    _qtawesome = qtawesome
    return True


def icon_pixmap(concept: str, color: QColor, size: int, ratio: float) -> QPixmap:
    """The icon in `size` logical px for screens with `ratio` device px each; null until the font is there."""
    if _qtawesome is None:
        _load_soon()
        return QPixmap()
    key = (concept, color.rgba(), size, ratio)
    if (pixmap := _pixmaps.get(key)) is None:
        if len(_pixmaps) >= _MOST_PIXMAPS:
            _pixmaps.clear()
        pixmap = _pixmaps[key] = _render(_qtawesome, ICONS[concept], color, size, ratio)
    return pixmap


def _render(qtawesome: ModuleType, name: str, color: QColor, size: int, ratio: float) -> QPixmap:
    device_px = round(size * ratio)
    pixmap = QPixmap(device_px, device_px)
    pixmap.fill(Qt.GlobalColor.transparent)
    # 8 / 7 undoes qtawesome's margin: Material icons carry their own.
    icon: QIcon = qtawesome.icon(f"mdi6.{name}", color=color, scale_factor=8 / 7)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    icon.paint(painter, QRect(0, 0, device_px, device_px))
    painter.end()
    pixmap.setDevicePixelRatio(ratio)
    return pixmap


def paint_icon(painter: QPainter, rect: QRectF, concept: str, color: QColor) -> None:
    """Paint an icon in the middle of `rect`, on whole device pixels."""
    size = round(min(rect.width(), rect.height()))
    ratio = painter.device().devicePixelRatio()
    pixmap = icon_pixmap(concept, color, size, ratio)
    if pixmap.isNull():
        return
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
