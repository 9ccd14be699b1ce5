"""Small helpers for widgets: visibility without a parent, and timers that fire once after a pause."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QWidget


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
