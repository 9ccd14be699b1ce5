"""Small helpers for widgets: visibility without a parent, timers that fire once, layouts, scroll areas."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QLayout, QScrollArea, QWidget


def set_visible(widget: QWidget, shown: bool) -> None:
    """Like `setVisible`, but a widget without a parent is left to appear with its parent later.

    `setVisible(True)` would make it a window of its own until then, which takes the activation from ours.
    """
    if shown and widget.parentWidget() is None and not widget.isVisible():
        widget.setAttribute(Qt.WidgetAttribute.WA_WState_ExplicitShowHide, False)
    else:
        widget.setVisible(shown)


def debounce(owner: QObject, pause_ms: int, act: Callable[[], object]) -> QTimer:
    """A timer of `owner` that calls `act` once, `pause_ms` milliseconds after the last `start()`."""
    timer = QTimer(owner)
    timer.setSingleShot(True)
    timer.setInterval(pause_ms)
    timer.timeout.connect(act)
    return timer


def clear_layout(layout: QLayout) -> None:
    """Take everything out of a layout; its widgets are deleted."""
    while (item := layout.takeAt(0)) is not None:
        if (widget := item.widget()) is not None:
            widget.hide()
            widget.setParent(None)
            widget.deleteLater()


class ScrollArea(QScrollArea):
    """Scrolls what is inside up and down, never sideways."""

    def __init__(self, inner: QWidget | None = None, name: str = "") -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        if name:
            self.setAccessibleName(name)
        if inner is not None:
            self.setWidget(inner)
