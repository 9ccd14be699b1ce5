"""Controls that tell by whom they are pressed: `hand`, in slots of `clicked` and `returnPressed`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QKeySequence, QMouseEvent, QShortcut

from app.input_origin import InputOrigin, Stroke, hand_behind, stroke_of

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget as Base
else:
    Base = object  # one Qt class a widget; the control stands beside this one in its list of bases


class InputOriginMixin(Base):
    """For buttons and fields: `class Button(InputOriginMixin, RetainFocusMixin, QPushButton)`.

    The strokes of a press are the event that is being handled and, for a release, the press before it.
    Outside of an event there are none, so nothing left over from an earlier event counts.
    """

    _went_down: Stroke | None = None
    _strokes: tuple[Stroke, ...] = ()

    @property
    def hand(self) -> InputOrigin:
        """By whom the press is made that is being handled; `NONE` outside of an input event."""
        return hand_behind(self, self._strokes)

    @property
    def strokes(self) -> tuple[Stroke, ...]:
        """The input that is being handled."""
        return self._strokes

    @contextmanager
    def made_by(self, strokes: tuple[Stroke, ...]) -> Iterator[None]:
        """Count what happens inside as made by these strokes."""
        before, self._strokes = self._strokes, strokes
        try:
            yield
        finally:
            self._strokes = before

    def _ended_by(self, event: QMouseEvent | QKeyEvent) -> tuple[Stroke, ...]:
        began, self._went_down = self._went_down, None
        return (stroke_of(event),) if began is None else (began, stroke_of(event))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Remember the stroke that begins a click."""
        self._went_down = stroke_of(event)
        super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click ends here."""
        with self.made_by(self._ended_by(event)):
            super().mouseReleaseEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter presses at once, Space with its release."""
        if not event.isAutoRepeat():
            self._went_down = stroke_of(event)
        with self.made_by((stroke_of(event),)):
            super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        """A press by Space ends here."""
        with self.made_by((stroke_of(event),) if event.isAutoRepeat() else self._ended_by(event)):
            super().keyReleaseEvent(event)


class InputOriginShortcut(QShortcut):
    """A key or chord that tells by whom it is pressed. It does not repeat while it is held.

    Signals:
        pressed_by(hand): it was pressed.
        struck(strokes): it was pressed by these, for a control that is pressed by it in turn.
    """

    pressed_by = Signal(object)
    struck = Signal(object)

    def __init__(self, keys: str, parent: Base) -> None:
        super().__init__(QKeySequence(keys), parent)
        self._place = parent
        self._stroke: Stroke | None = None
        self.setAutoRepeat(False)
        self.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        # Qt gives a shortcut nothing of the key event. Right before, it sends a ShortcutOverride with all of
        # it to the widget with the focus and to its parents, `parent` among them.
        parent.installEventFilter(self)
        self.activated.connect(self._activated)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Remember the key that is about to be looked up, for this turn of the loop alone."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            self._stroke = stroke_of(event)
            QTimer.singleShot(0, self, self._forget)
        return super().eventFilter(watched, event)

    def _forget(self) -> None:
        self._stroke = None

    def _activated(self) -> None:
        stroke, self._stroke = self._stroke, None
        strokes = () if stroke is None else (stroke,)
        self.pressed_by.emit(hand_behind(self._place, strokes))
        self.struck.emit(strokes)
