"""`python -m tests.tour.device_app NAME MARK`: what a device of the tour shows on its screen.

A program with a button that does something: pressed, it writes the file MARK. So the tour can tell whether a
click that was approved really arrived.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QLinearGradient, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QApplication, QPushButton, QWidget

WIDTH, HEIGHT = 1280, 800
BUTTON = (700, 560, 200, 52)
"""Left, top, width and height of the button, in pixels of the screen."""
_HUES = {"db-4": 320, "crane-2": 30, "build-7": 205}
_LINES = {
    "db-4": (
        "orders-primary   role primary   lag 0 ms",
        "wal archived     00000001000000A4",
        "connections      42 of 200",
        "vacuum           3 tables, 2 min ago",
        "backup           yesterday 23:10, 18.4 GB",
    ),
    "crane-2": (
        "hoist            idle, brake set",
        "trolley          12.40 m",
        "wind             6.1 m/s, limit 20.0",
        "load cell        0.0 t",
        "last lift        14 min ago",
    ),
    "build-7": (
        "queue            2 waiting",
        "main             passed in 4 min 12 s",
        "release/1.4      building, 61 %",
        "cache            31 GB of 64 GB",
        "runner           3 of 4 busy",
    ),
}


class DemoApp(QWidget):
    """The whole screen of one device, painted; one button in it."""

    def __init__(self, name: str, mark: Path) -> None:
        super().__init__()
        self._name, self._mark = name, mark
        self._hue = _HUES.get(name, 180)
        self.setWindowTitle(name)
        self.setWindowFlag(Qt.WindowType.FramelessWindowHint)
        self.setGeometry(0, 0, WIDTH, HEIGHT)
        self.button = QPushButton("Start self-test", self)
        self.button.setGeometry(*BUTTON)
        self.button.setStyleSheet(
            f"font: 600 16px; border-radius: 6px; color: white; background: hsl({self._hue}, 55%, 42%)"
        )
        self.button.clicked.connect(self._press)

    def _press(self) -> None:
        self._mark.write_text("pressed\n", "utf-8")
        self.button.setText("Self-test runs")

    def paintEvent(self, event: QPaintEvent) -> None:
        """A desktop, a window on it, and its figures."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ground = QLinearGradient(0, 0, WIDTH, HEIGHT)
        ground.setColorAt(0, QColor.fromHsl(self._hue, 70, 40))
        ground.setColorAt(1, QColor.fromHsl(self._hue, 60, 18))
        painter.fillRect(self.rect(), ground)
        frame = QRectF(200, 110, 880, 560)
        painter.setPen(QPen(QColor(0, 0, 0, 120), 1))
        painter.setBrush(QColor(246, 247, 249))
        painter.drawRoundedRect(frame, 10, 10)
        painter.setPen(QColor(40, 44, 52))
        painter.setFont(_font("Inter", 30, bold=True))
        painter.drawText(QRectF(240, 140, 800, 50), f"{self._name}")
        painter.setFont(_font("JetBrains Mono", 19))
        for place, line in enumerate(_LINES.get(self._name, ("ready",))):
            painter.drawText(QRectF(240, 220 + place * 46, 800, 40), line)
        _chart(painter, QRectF(240, 470, 400, 160), self._hue)
        painter.end()


def _font(family: str, px: int, bold: bool = False) -> QFont:
    font = QFont(family)
    font.setPixelSize(px)
    font.setBold(bold)
    return font


def _chart(painter: QPainter, place: QRectF, hue: int) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    count = 24
    step = place.width() / count
    for number in range(count):
        part = 0.25 + 0.7 * ((number * 37 + hue * 11) % 100) / 100
        high = place.height() * part
        painter.setBrush(QColor.fromHsl(hue, 90, 120 + number * 3))
        painter.drawRect(QRectF(place.left() + number * step, place.bottom() - high, step - 4, high))


def main() -> int:
    """Show it until the process is ended."""
    app = QApplication(sys.argv[:1])
    desk = DemoApp(sys.argv[1], Path(sys.argv[2]))
    desk.show()
    return app.exec()


if __name__ == "__main__":
    sys.exit(main())
