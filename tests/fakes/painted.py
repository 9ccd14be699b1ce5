"""What of a widget is painted, and whether what stands on the screen is what it would paint now."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QImage, QPaintEvent, QRegion
from PySide6.QtWidgets import QWidget

_PIXELS = QImage.Format.Format_RGB32


class Painted(QObject):
    """Notes what is painted of a widget from now on."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.regions: list[QRegion] = []
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint and isinstance(event, QPaintEvent):
            self.regions.append(event.region())
        return False

    def most_height(self) -> int:
        """The height of the highest that was painted at once, in logical px."""
        return max(region.boundingRect().height() for region in self.regions)

    def take(self) -> QRegion:
        """All that was painted since the last time."""
        whole = QRegion()
        for region in self.regions:
            whole += region
        self.regions = []
        return whole


def on_screen(window: QWidget) -> QImage:
    """What was really painted, by whatever was told to be painted anew."""
    return window.screen().grabWindow(window.winId()).toImage().convertToFormat(_PIXELS)


def painted_anew(window: QWidget) -> QImage:
    """What the window would paint now."""
    return window.grab().toImage().convertToFormat(_PIXELS)
