"""The one timer behind everything that turns. It runs only while something on the screen turns."""

from __future__ import annotations

from typing import Protocol, cast, runtime_checkable
from weakref import WeakSet

from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication, QWidget
from shiboken6 import isValid

from app.theme.theme import theme_of
from app.theme.tokens import TURN_INTERVAL_MS, TURN_STEPS

_PROPERTY = "quarterdeck_pulse"


@runtime_checkable
class Turning(Protocol):
    """A widget with something that turns."""

    def still_turns(self) -> bool:
        """False once nothing in it turns any more."""
        ...


class AnimationTimer(QObject):
    """Counts eighths of a turn, four a second, for all widgets that show something running."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.step = 0
        self._widgets: WeakSet[QWidget] = WeakSet()
        self._timer = QTimer(self)
        self._timer.setInterval(TURN_INTERVAL_MS)
        self._timer.timeout.connect(self._tick)

    @property
    def running(self) -> bool:
        """True while the timer ticks."""
        return self._timer.isActive()

    def keep_turning(self, widget: QWidget) -> None:
        """Repaint `widget` at each step until it says that nothing in it turns; it has `still_turns()`."""
        if theme_of(widget).reduced_motion:
            return
        self._widgets.add(widget)
        if not self._timer.isActive():
            self._timer.start()

    def _tick(self) -> None:
        self.step = (self.step + 1) % TURN_STEPS
        for widget in list(self._widgets):
            # Python may keep a widget that Qt has deleted with its window.
            alive = isValid(widget) and not theme_of(widget).reduced_motion
            if alive and cast("Turning", widget).still_turns():
                if widget.isVisible():
                    widget.update()
            else:
                self._widgets.discard(widget)
        if not self._widgets:
            self._timer.stop()


def animation_timer_of(widget: QWidget) -> AnimationTimer:
    """The application's pulse, made at first use."""
    del widget
    app = QApplication.instance()
    if app is None:
        raise RuntimeError("There is no application.")
    pulse = app.property(_PROPERTY)
    if not isinstance(pulse, AnimationTimer):
        pulse = AnimationTimer(app)
        app.setProperty(_PROPERTY, pulse)
    return pulse
