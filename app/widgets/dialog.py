"""A question inside the window: it covers everything but the top bar, so that Stop all stays in reach.

A modal QDialog would block the whole window, Stop all with it. A sheet is a child of the window below the top
bar, with `open` and `finished` as a dialog has them; the keyboard stays inside it. In a window too low for it
what is asked scrolls; what is wrong and the answers stay.

Each dialog names its primary answer. Ctrl+Enter gives it, and Enter does in a line of text; Esc closes. A
click beside the card closes only what nothing was typed into.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QFrame,
    QGridLayout,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)
from shiboken6 import isValid

from app.theme.theme import theme_of
from app.theme.tokens import FRAME, RADIUS, SCRIM_OPACITY
from app.widgets import painting
from app.widgets.buttons import Button, Kind
from app.widgets.focus import RetainFocusMixin
from app.widgets.labels import Label
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.primary_key import PrimaryKey
from app.widgets.util import ScrollArea

CANCELLED = ""
EDGE = 20
FOCUS_ROOM = 4  # how far a focus ring stands out


class DialogCard(QFrame):
    """The raised card of a sheet or of the palette, drawn whole so that its corners are round."""

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the card."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        painting.box(painter, rect, RADIUS.dialog, theme.color("raised"), theme.color("border2"))
        painter.end()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A click on the card does not reach the overlay, which would dismiss."""
        event.accept()


class Overlay(QWidget):
    """Covers a window between top bar and status bar with the scrim; keeps the keyboard focus inside.

    Signals:
        dismissed: the operator clicked beside the card or pressed Esc.
    """

    dismissed = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._focus_before: QWidget | None = None
        window.installEventFilter(self)
        self.hide()

    def cover(self) -> None:
        """Come up; what had the focus gets it back in `uncover`."""
        self._focus_before = QApplication.focusWidget()
        self._fit()
        self.show()
        self.raise_()

    def uncover(self) -> None:
        """Go away."""
        self.hide()
        before, self._focus_before = self._focus_before, None
        # What was pressed to open it may have gone meanwhile, as a banner does.
        if before is None or not isValid(before) or not before.isVisible():
            return
        if isinstance(before, RetainFocusMixin):
            # What it was pressed for still goes on: it is off until that has ended.
            before.take_keyboard_back()
        else:
            before.setFocus(Qt.FocusReason.OtherFocusReason)

    def take_keyboard(self) -> None:
        """Have the keyboard inside, when what had it there is gone."""
        if (focus := QApplication.focusWidget()) is None or not self.isAncestorOf(focus):
            self.setFocus(Qt.FocusReason.OtherFocusReason)
            self.focusNextPrevChild(True)

    def dismiss(self) -> None:
        """Give way to another screen, as if the operator had put it away."""
        self.uncover()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as the window."""
        if watched is self._window and event.type() == QEvent.Type.Resize and self.isVisible():
            self._fit()
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        top = FRAME.top_bar
        height = self._window.height() - top - FRAME.status_bar
        self.setGeometry(0, top, self._window.width(), height)

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Tab goes round inside."""
        step = QWidget.nextInFocusChain if forward else QWidget.previousInFocusChain
        start = QApplication.focusWidget() or self
        widget = step(start)
        while widget is not None and widget is not start:
            reachable = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) and widget.isEnabled()
            if reachable and widget.isVisible() and self.isAncestorOf(widget):
                reason = Qt.FocusReason.TabFocusReason if forward else Qt.FocusReason.BacktabFocusReason
                widget.setFocus(reason)
                self._focus_walked(widget)
                return True
            widget = step(widget)
        return True

    def _focus_walked(self, widget: QWidget) -> None:
        """The Tab key came to this widget."""

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A click beside the card dismisses."""
        event.accept()
        self.dismissed.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc dismisses."""
        if event.key() == Qt.Key.Key_Escape:
            self.dismissed.emit()
        else:
            event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the scrim; over another question only its card, since the rest is dimmed already."""
        scrim = QColor(theme_of(self).color("scrim"))
        scrim.setAlphaF(SCRIM_OPACITY)
        painter = QPainter(self)
        below = [card for card in self._window.findChildren(DialogCard) if self._is_below(card)]
        for card in below:
            painting.box(painter, card.geometry().toRectF(), RADIUS.dialog, scrim)
        if not below:
            painter.fillRect(self.rect(), scrim)
        painter.end()

    def _is_below(self, card: DialogCard) -> bool:
        """Whether a card is one of another question that was open when this one came up."""
        overlay = card.parentWidget()
        if not isinstance(overlay, Overlay) or overlay is self or not overlay.isVisible():
            return False
        siblings = self._window.children()
        return siblings.index(overlay) < siblings.index(self)


class _Inside(QWidget):
    """What a sheet asks. Signals: resized: it wants another height than before."""

    resized = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("clear", "true")
        self.body = QGridLayout(self)
        self.body.setContentsMargins(EDGE - FOCUS_ROOM, 18, EDGE, FOCUS_ROOM)
        self.body.setHorizontalSpacing(0)
        self.body.setVerticalSpacing(8)
        self.body.setColumnMinimumWidth(0, FOCUS_ROOM)
        self.body.setColumnStretch(1, 1)

    def add(self, widget: QWidget, focus_room: bool = False) -> None:
        """Put something below the rest."""
        row = self.body.rowCount()
        self.body.addWidget(widget, row, 0 if focus_room else 1, 1, 2 if focus_room else 1)

    def event(self, event: QEvent) -> bool:
        """Tell when something in here was shown, hidden or given other words."""
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self.resized.emit()
        return done

    def wanted(self, width: int) -> int:
        """The height for a width. A plain size hint does not know how words wrap there."""
        return self.body.totalHeightForWidth(width)


class Dialog(Overlay):
    """A question with a title, words, optional fields and some answers.

    Signals:
        finished(answer): the key of the button that was pressed; empty when the question was dismissed.
            The sheet deletes itself afterwards.
    """

    finished = Signal(str)

    def __init__(self, window: QWidget, title: str, words: str = "", width: int = 460) -> None:
        super().__init__(window)
        self.setObjectName("sheet")
        self.setAccessibleName(title)
        self._answered = False
        self.dismissed.connect(lambda: self.finish(CANCELLED))
        self.card = DialogCard(self)
        self.card.setFixedWidth(width)
        self._inside = _Inside()
        self._scroller = ScrollArea(self._inside, title)
        self._scroller.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._inside.resized.connect(self._fit)
        self._inside.add(Label(title, "title", wrap=True))
        if words:
            self._inside.add(Label(words, tone="text2", wrap=True))
        self._problem = Label("", "meta", "fail", wrap=True)
        self._problem.hide()
        self._buttons: dict[str, Button] = {}
        self._primary: list[Button] = []
        self._blamed: Button | None = None
        self._given: list[object] = []
        self._row = hbox(STRETCH, spacing=8)
        self._foot = vbox(self._problem, self._row, margins=(EDGE, 8 - FOCUS_ROOM, EDGE, 16), spacing=16)
        vbox((self._scroller, 1), self._foot, parent=self.card)
        vbox(
            (self.card, 0, Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop),
            STRETCH,
            parent=self,
            margins=(24, 48, 24, 24),
            spacing=None,
        )
        PrimaryKey(self, lambda: self.primary, self._say_why_off)

    def add(self, widget: QWidget, focus_room: bool = False) -> None:
        """Put a field or a picture between the words and the answers.

        With `focus_room` it begins `FOCUS_ROOM` further left: for what scrolls by itself, and would cut the
        focus ring off that stands outside its fields.
        """
        self._inside.add(widget, focus_room)

    def add_answer(
        self, key: str, words: str, kind: Kind = "normal", closes: bool = True, primary: bool = False
    ) -> Button:
        """A button; with `closes` off its `clicked` is the caller's, who ends with `finish`.

        What is of the kind "primary" is the primary answer, and so is another one that is named as such.
        """
        button = Button(words, kind)
        if closes:
            button.clicked.connect(lambda: self.finish(key))
        self.add_button(key, button, primary or kind == "primary")
        return button

    def add_button(self, key: str, button: Button, primary: bool = False) -> None:
        """A button of the caller's own as an answer."""
        button.setObjectName(f"answer-{key}")
        self._row.addWidget(button)
        self._buttons[key] = button
        if primary:
            self._primary.append(button)
            button.installEventFilter(self)

    @property
    def primary(self) -> Button | None:
        """The primary answer; where one follows on another, that which is on the screen."""
        return next((button for button in self._primary if not button.isHidden()), None)

    def answer(self, key: str) -> Button:
        """The button of an answer."""
        return self._buttons[key]

    def say(self, problem: str) -> None:
        """Show what is wrong, above the answers; empty takes it back."""
        self._blamed = None
        self._problem.setText(problem)
        self._problem.setVisible(bool(problem))
        self._fit()

    def _say_why_off(self, reason: str) -> None:
        """The primary answer was wanted while it is off: say why, until it is on."""
        self.say(reason)
        self._blamed = self.primary

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Take back what was said of the primary answer once it can be given."""
        if event.type() == QEvent.Type.EnabledChange and watched is self._blamed and self._blamed.isEnabled():
            self.say("")
        return super().eventFilter(watched, event)

    def keep_room_for_problem(self) -> None:
        """Leave the line of `say` free while nothing is wrong, where a fault comes and goes with each key."""
        policy = self._problem.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self._problem.setSizePolicy(policy)
        self._problem.setMinimumHeight(self._problem.fontMetrics().lineSpacing())

    def _fit(self) -> None:
        super()._fit()
        width, most = self.card.width(), max(80, self.height() - 72)
        inside, foot = self._inside.wanted(width), self._foot.totalHeightForWidth(width)
        if foot < 0:  # nothing in it wraps
            foot = self._foot.totalSizeHint().height()
        # Where it scrolls, the scroll area itself gives what is inside the height that it wants.
        too_high = inside + foot > most
        # A way for the arrow keys to what no field of the sheet leads to.
        self._scroller.setFocusPolicy(Qt.FocusPolicy.TabFocus if too_high else Qt.FocusPolicy.NoFocus)
        self.card.setFixedHeight(min(max(inside + foot, 80), most))

    def _focus_walked(self, widget: QWidget) -> None:
        if self._inside.isAncestorOf(widget):
            self._scroller.ensureWidgetVisible(widget)

    def open(self, focus: QWidget | None = None) -> None:
        """Come up and return at once; `finished` brings the answer."""
        assert self._primary, f"{self.accessibleName()}: a dialog names its primary answer"
        self.cover()
        self._fit()
        self.note_given()
        first = focus or next(iter(self._buttons.values()), None)
        if first is not None:
            first.setFocus(Qt.FocusReason.TabFocusReason)
            self._focus_walked(first)
        # What is off or hidden takes no keyboard, and it must not stay behind the dialog.
        self.take_keyboard()

    def note_given(self) -> None:
        """What stands in the fields now was not typed by the operator."""
        self._given = self._in_fields()

    @property
    def holds_input(self) -> bool:
        """Whether something was typed or chosen that would be lost with the dialog."""
        return self._in_fields() != self._given

    def _in_fields(self) -> list[object]:
        return [value for one in self.card.findChildren(QWidget) if (value := _value_of(one)) is not None]

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A click beside the card dismisses; it does not take away what was typed."""
        if self.holds_input:
            event.accept()
        else:
            super().mousePressEvent(event)

    def read_from_the_top(self) -> None:
        """Where not all of it is in sight, begin with what stands first, whatever wants to be typed below."""
        if self._scroller.focusPolicy() is not Qt.FocusPolicy.NoFocus:
            self._scroller.verticalScrollBar().setValue(0)
            self._scroller.setFocus(Qt.FocusReason.TabFocusReason)

    def dismiss(self) -> None:
        """Another screen was opened: no answer."""
        self.finish(CANCELLED)

    def finish(self, answer: str) -> None:
        """Go away with an answer; only the first one counts."""
        if self._answered:
            return
        self._answered = True
        self.uncover()
        self.finished.emit(answer)
        self.deleteLater()


def _value_of(widget: QWidget) -> object:
    """What an operator has typed into a widget or chosen in it; None for what takes neither."""
    match widget:
        case QLineEdit() if not widget.isReadOnly():
            return widget.text()
        case QPlainTextEdit() if not widget.isReadOnly():
            return widget.toPlainText()
        case QComboBox():
            return widget.currentText()
        case QAbstractButton() if widget.isCheckable():
            return widget.isChecked()
    return None
