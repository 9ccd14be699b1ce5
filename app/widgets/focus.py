"""The keyboard focus: the ring around the widget that has it, and what keeps it from being lost.

Qt hands the focus of a disabled or hidden widget on to its neighbour and never back, so that the operator
who presses "Create key" and presses again would press the neighbour. A button that is disabled with the focus
on it is therefore off in all but Qt's own eyes (`RetainFocusMixin`): it takes no press by pointer, key or
assistive technology, looks and is described as off, and Tab goes on from it; Qt is told as soon as the focus
moves elsewhere. Other widgets get the focus back when they can have it again (`FocusRestorer`).

Tab goes through widgets in the order in which they were made; `put_in_tab_order` mends it for later ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import shiboken6
from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt
from PySide6.QtGui import QFocusEvent, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QFocusFrame,
    QLineEdit,
    QPlainTextEdit,
    QProxyStyle,
    QStyle,
    QStyleHintReturn,
    QStyleOption,
    QTabBar,
    QTextEdit,
    QWidget,
)

from app.theme.theme import theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting

OUTSIDE = 4
_TEXT_INPUTS = (QLineEdit, QPlainTextEdit, QTextEdit, QAbstractSpinBox)


class _RingStyle(QProxyStyle):
    """Places the frame outside the widget, above its siblings, and cuts no hole: only a ring is drawn."""

    def pixelMetric(
        self, metric: QStyle.PixelMetric, option: QStyleOption | None = None, widget: QWidget | None = None
    ) -> int:
        if metric in (QStyle.PixelMetric.PM_FocusFrameHMargin, QStyle.PixelMetric.PM_FocusFrameVMargin):
            return OUTSIDE
        return super().pixelMetric(metric, option, widget)

    def styleHint(
        self,
        hint: QStyle.StyleHint,
        option: QStyleOption | None = None,
        widget: QWidget | None = None,
        returnData: QStyleHintReturn | None = None,  # noqa: N803  # Qt's name
    ) -> int:
        if hint == QStyle.StyleHint.SH_FocusFrame_AboveWidget:
            return 1
        if hint == QStyle.StyleHint.SH_FocusFrame_Mask:
            return 0
        return super().styleHint(hint, option, widget, returnData)


class _Ring(QFocusFrame):
    """The ring itself. Qt puts it into whatever scrolls the widget, so that it is cut off with it."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._style = _RingStyle()
        self.setStyle(self._style)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()  # else the window shows it with its other children, around nothing

    def leave(self) -> None:
        """Surround nothing, and stand in the window again: what it stood in may be deleted next."""
        self.setWidget(None)  # type: ignore[arg-type]  # the stubs do not know that no widget is allowed
        if shiboken6.isValid(self._window):
            self.setParent(self._window)
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take the ring away from a control that the pointer uses; keep it when the theme changes."""
        if event.type() == QEvent.Type.MouseButtonPress and not isinstance(watched, _TEXT_INPUTS):
            self.leave()
            return False
        answer = super().eventFilter(watched, event)
        if event.type() == QEvent.Type.StyleChange and watched == self.widget():
            # Qt hides a focus frame then, and shows it only with the next widget that has the focus.
            self.setVisible(self.widget().isVisible())
        return answer

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the ring."""
        painter = QPainter(self)
        painting.ring(painter, self.rect().toRectF(), RADIUS.control + 3, theme_of(self).color("accent"))
        painter.end()


class FocusFrame(QObject):
    """Follows the focus in one window, which keeps it, and draws the ring there.

    The ring is for the keyboard: a press of the pointer moves the focus without it, except into text inputs.
    Lists and tables mark their current row within themselves.
    """

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._ring = _Ring(window)
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._moved)

    def _moved(self, before: QWidget | None, now: QWidget | None) -> None:
        del before
        if not shiboken6.isValid(self._ring):
            # It was deleted with a sheet or a list in which it stood.
            self._ring = _Ring(self._window)
        if now is None or now.window() is not self._window or not self._wants_ring(now):
            self._ring.leave()
            return
        self._ring.setWidget(now)

    def _wants_ring(self, widget: QWidget) -> bool:
        if isinstance(widget, _TEXT_INPUTS):
            plain = isinstance(widget, QPlainTextEdit | QTextEdit) and widget.isReadOnly()
            return widget.property("bare") != "true" and not (plain and self._pressed())
        if isinstance(widget, QAbstractItemView | QTabBar) or widget.property("own_ring"):
            return False
        # Where the keyboard only waits there is nothing to press.
        return bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) and not self._pressed()

    def _pressed(self) -> bool:
        return QApplication.mouseButtons() != Qt.MouseButton.NoButton

    def widget(self) -> QWidget | None:
        """What the ring is around."""
        return self._ring.widget() if shiboken6.isValid(self._ring) else None

    def ring_rect(self) -> QRect:
        """Where the ring is, in the window's coordinates; empty when there is none."""
        if self.widget() is None or not self._ring.isVisible():
            return QRect()
        return QRect(self._ring.mapTo(self._window, QPoint()), self._ring.size())


if TYPE_CHECKING:
    from PySide6.QtWidgets import QAbstractButton as Base
else:
    Base = object  # one Qt class a widget; the button stands beside this one in its list of bases

_PRESSES = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space, Qt.Key.Key_Select)
_POINTER = (
    QEvent.Type.MouseButtonPress,
    QEvent.Type.MouseButtonRelease,
    QEvent.Type.MouseButtonDblClick,
    QEvent.Type.TouchBegin,
    QEvent.Type.Shortcut,
)


class RetainFocusMixin(Base):
    """For buttons of all kinds: `class Button(RetainFocusMixin, QPushButton)`."""

    _kept = False

    def isEnabled(self) -> bool:
        """False while it is off, also while it still has the keyboard."""
        return super().isEnabled() and not self._kept

    def setEnabled(self, on: bool) -> None:
        """Switch on or off; off, it keeps the keyboard until that goes elsewhere by itself."""
        if on:
            self._end_keeping()
            super().setEnabled(True)
        elif not self._kept:
            if self.isVisible() and self.window().focusWidget() is self and super().isEnabled():
                self._begin_keeping()
            else:
                super().setEnabled(False)

    def take_keyboard_back(self) -> None:
        """Have the keyboard again after what covered it is gone, also while it is off."""
        off = not self.isEnabled()
        if off and not self._kept:
            super().setEnabled(True)
        self.setFocus(Qt.FocusReason.OtherFocusReason)
        if off and not self._kept:
            self.setEnabled(False)

    def click(self) -> None:
        """Press it, unless it is off."""
        if not self._kept:
            super().click()

    def nextCheckState(self) -> None:
        """One that is off stays as it is."""
        if not self._kept:
            super().nextCheckState()

    def _begin_keeping(self) -> None:
        self._kept = True
        self.setDown(False)
        # A press through accessibility comes as no event: no signal may tell of it.
        self.blockSignals(True)
        self.installEventFilter(self)
        self.update()

    def _end_keeping(self) -> None:
        if self._kept:
            self._kept = False
            self.blockSignals(False)
            self.removeEventFilter(self)
            self.setDown(False)
            self.update()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """What would press it has no effect; every other key goes its way."""
        if self._kept and watched is self:
            kind = event.type()
            if kind in _POINTER:
                return True
            if kind in (QEvent.Type.KeyPress, QEvent.Type.KeyRelease):
                return isinstance(event, QKeyEvent) and event.key() in _PRESSES
        return super().eventFilter(watched, event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Now it may be off in Qt's eyes, too. A window that only loses the front still has it."""
        super().focusOutEvent(event)
        if self._kept and self.window().focusWidget() is not self:
            self._end_keeping()
            super().setEnabled(False)


_BACK = (QEvent.Type.Show, QEvent.Type.EnabledChange)


class FocusRestorer(QObject):
    """Where the keyboard of one window waits; the window asks from its `focusNextPrevChild`.

    It waits in the innermost part of the window that is left of where it was: the keys of the screen work
    there, Tab goes on from there, and no ring is drawn. If it is moved meanwhile, it stays there.
    """

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._left: QWidget | None = None
        self._place: QWidget | None = None

    def hold(self) -> bool:
        """Keep the keyboard here when what has it was hidden or switched off; False when it was not."""
        left = self._window.focusWidget()
        if left is None or left is self._window or (left.isVisible() and left.isEnabled()):
            return False
        place = left.parentWidget()
        while place is not None and not (place.isVisible() and place.isEnabled()):
            place = place.parentWidget()
        # Without a part of it left, as after a question, the window says where the keyboard goes.
        if place is None or place is self._window or place.window() is not self._window:
            return False
        self._forget()
        self._left, self._place = left, place
        left.installEventFilter(self)
        place.setFocus(Qt.FocusReason.OtherFocusReason)
        return True

    def _forget(self) -> None:
        if self._left is not None and shiboken6.isValid(self._left):
            self._left.removeEventFilter(self)
        self._left = self._place = None

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Give the keyboard back to what is shown again, unless it was moved on."""
        left, place = self._left, self._place
        if event.type() in _BACK and watched is left and left is not None and place is not None:
            if not shiboken6.isValid(place) or self._window.focusWidget() is not place:
                self._forget()
            elif left.isVisible() and left.isEnabled():
                self._forget()
                left.setFocus(Qt.FocusReason.OtherFocusReason)
        return super().eventFilter(watched, event)


def within(parent: QWidget) -> list[QWidget]:
    """What lies within a widget and was made together with it, in the order that it has so far."""
    found: list[QWidget] = []
    one = parent.nextInFocusChain()
    while one is not None and parent.isAncestorOf(one):
        found.append(one)
        one = one.nextInFocusChain()
    return found


def put_in_tab_order(before: QWidget, widgets: Iterable[QWidget]) -> None:
    """Let Tab go from `before` through these that take the keyboard, each once."""
    for one in widgets:
        if one.focusPolicy() != Qt.FocusPolicy.NoFocus:
            QWidget.setTabOrder(before, one)
            before = one


def in_reading_order(parent: QWidget) -> list[QWidget]:
    """What takes the keyboard within a widget, from top to bottom and from left to right."""
    found = [one for one in parent.findChildren(QWidget) if one.focusPolicy() & Qt.FocusPolicy.TabFocus]

    def place(one: QWidget) -> tuple[int, int]:
        corner = one.mapTo(parent, one.rect().topLeft())
        return corner.y(), corner.x()

    return sorted((one for one in found if one.isVisibleTo(parent)), key=place)
