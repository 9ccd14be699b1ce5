"""The focus ring: 2 px accent, 2 px outside the control, around whatever has the keyboard."""

from __future__ import annotations

import shiboken6
from PySide6.QtCore import QEvent, QObject, QPoint, QRect
from PySide6.QtGui import QPainter, QPaintEvent, Qt
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

from app.components import paint
from app.look.theme import theme_of
from app.look.tokens import RADIUS

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
        paint.ring(painter, self.rect().toRectF(), RADIUS.control + 3, theme_of(self).color("accent"))
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
