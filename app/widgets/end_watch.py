"""Whether the end of what a view shows has been on the screen."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPoint, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QWindow
from PySide6.QtWidgets import QAbstractScrollArea, QWidget


class EndWatch(QObject):
    """Looks for the end of a view's content, whenever it may have come into sight.

    Signals:
        seen: the end is on the screen; once after each `start`.
    """

    seen = Signal()

    def __init__(self, view: QAbstractScrollArea, end: Callable[[], QPoint | None]) -> None:
        """`end` is the place of the end in the viewport; None where there is nothing to see."""
        super().__init__(view)
        self._view, self._end = view, end
        self._window: QWindow | None = None
        self._waits = False
        self.was_seen = False
        for changed in (view.verticalScrollBar().valueChanged, view.verticalScrollBar().rangeChanged):
            changed.connect(self.look_soon)

    def start(self) -> None:
        """Other content is shown, whose end counts as not seen."""
        self.was_seen = False
        self.look_soon()

    def look_soon(self) -> None:
        """Look once the layout has settled: while it is being made, a scroll bar may have no range yet."""
        if not self.was_seen and not self._waits:
            self._waits = True
            QTimer.singleShot(0, self, self._look)

    def _look(self) -> None:
        self._waits = False
        view = self._view
        if self.was_seen or not view.isVisible() or view.window().isMinimized():
            return
        self._follow(view.window().windowHandle())
        end = self._end()
        if end is not None and is_in_sight(view.viewport(), end):
            self.was_seen = True
            self.seen.emit()

    def _follow(self, window: QWindow | None) -> None:
        # A window that is moved onto the screen is not painted again.
        if window is not None and window is not self._window:
            self._window = window
            window.xChanged.connect(self.look_soon)
            window.yChanged.connect(self.look_soon)


def is_in_sight(widget: QWidget, point: QPoint) -> bool:
    """Whether a point of the widget is on a screen, and neither scrolled away nor under a panel.

    The visible region knows about every scroll area around the widget, but nothing of the screen's edge.
    Where windows are not told their place (Wayland), a window that is larger than the screen is noticed.
    """
    at = widget.mapToGlobal(point)
    screen = QGuiApplication.screenAt(at)
    on_screen = screen is not None and screen.availableGeometry().contains(at)
    return on_screen and widget.visibleRegion().contains(point)
