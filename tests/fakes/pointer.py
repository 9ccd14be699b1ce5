"""A pointer that drags, for window tests."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication, QWidget


def move_pointer(widget: QWidget, point: QPoint) -> None:
    """Move over a widget with the left button held.

    `QTest.mouseMove` knows no held button, and runs a nested event loop, which loses tasks under qasync.
    """

    event = QMouseEvent(
        QEvent.Type.MouseMove,
        QPointF(point),
        QPointF(widget.mapToGlobal(point)),
        Qt.MouseButton.NoButton,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(widget, event)
