"""The field a query is typed into: terms painted as tokens, a list to complete from, earlier queries."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QLineEdit, QWidget

from app.items.completion_popup import CompletionPopup
from app.screens.journal.query_terms import TermSpan, terms_of
from app.theme.icons import paint_icon
from app.theme.theme import Theme, theme_of
from app.theme.tokens import FRAME, RADIUS
from app.widgets import painting
from app.widgets.buttons import IconButton
from app.widgets.shortcut_label import ShortcutLabel

HEIGHT = 30
_LEFT = 34
# Qt's cursor rectangle begins this far left of where the next letter is drawn.
_CURSOR_PAD = 5


class QueryEdit(QLineEdit):
    """One line of query. What it offers and when it is applied is its owner's business.

    Signals:
        submitted: the operator pressed Enter.
        completion_wanted: the cursor is somewhere else, or the text changed: offer something.
        picked: the operator chose this suggestion.
        down_pressed: the operator goes on into the rows.
        left: the focus went elsewhere.
    """

    submitted = Signal()
    completion_wanted = Signal()
    picked = Signal(str)
    down_pressed = Signal()
    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("bare", "true")
        self.setFont(theme_of(self).font("mono_small"))
        self.setFixedHeight(HEIGHT)
        self.setMaxLength(2000)
        self.setAccessibleName("Query")
        self.setPlaceholderText("tool:type_text status:failure device:lab-* since:1h")
        self._count = ""
        # The place from which the text is underlined as wrong; see `mark_error`.
        self.error_at: int | None = None
        self._history: list[str] = []
        self._history_at = -1
        self.suggestions: CompletionPopup | None = None
        self._clear = IconButton("clear", "Clear the query", parent=self)
        self._clear.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._clear.clicked.connect(self._clear_pressed)
        self._hint = ShortcutLabel("/", parent=self)
        self.textChanged.connect(self._place)
        self.textEdited.connect(lambda _: self.completion_wanted.emit())
        self._place()

    # what the bar asks

    def show_count(self, words: str) -> None:
        """How many entries match, at the right end."""
        self._count = words
        self.setAccessibleDescription(words)
        self._place()
        self.update()

    def mark_error(self, place: int | None) -> None:
        """Underline what is wrong from this place on; None takes the mark away."""
        if place != self.error_at:
            self.error_at = place
            self.update()

    def set_history(self, history: list[str]) -> None:
        """Earlier queries, newest first; ↑ in the empty field goes through them."""
        self._history = history
        self._history_at = -1

    def list_is_open(self) -> bool:
        """Whether suggestions are offered."""
        return self.suggestions is not None and self.suggestions.isVisible()

    def close_list(self) -> bool:
        """Take the suggestions away; False when there are none."""
        was_open = self.list_is_open()
        if self.suggestions is not None:
            self.suggestions.hide()
        return was_open

    def x_of(self, place: int) -> float:
        """Where the letter at `place` is drawn."""
        metrics = QFontMetricsF(self.font())
        here = self.cursorRect().x() + _CURSOR_PAD
        text = self.text()
        before_cursor = metrics.horizontalAdvance(text[: self.cursorPosition()])
        return here + metrics.horizontalAdvance(text[:place]) - before_cursor

    # how it behaves

    def _clear_pressed(self) -> None:
        self.clear()
        self.setFocus()
        self.submitted.emit()

    def _place(self) -> None:
        filled = bool(self.text())
        theme = theme_of(self)
        right = 28 if filled else self._hint.sizeHint().width() + 8
        self._clear.setVisible(filled)
        self._hint.setVisible(not filled)
        self._clear.setGeometry(self.width() - 28, (self.height() - 24) // 2, 24, 24)
        hint = self._hint.sizeHint()
        self._hint.setGeometry(
            self.width() - hint.width() - 6, (self.height() - hint.height()) // 2, hint.width(), hint.height()
        )
        self._right = right
        words = round(painting.text_width(self._count, theme)) + 14 if self._count else 0
        if self.width() - _LEFT - right - words < 160:
            words = 0
        self._count_shown = words > 0
        self.setTextMargins(_LEFT, 0, right + words, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep count and cross at the right end."""
        super().resizeEvent(event)
        self._place()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The list goes with the focus."""
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.close_list()
            self.left.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """↑↓ go through suggestions, earlier queries or into the rows.

        As in every field that completes: Tab takes what is offered, Enter only what an arrow chose.
        """
        key = event.key()
        open_list = self.suggestions if self.list_is_open() else None
        if (
            key in (Qt.Key.Key_Up, Qt.Key.Key_Down)
            and not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        ):
            self._arrow(-1 if key == Qt.Key.Key_Up else 1)
            return
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if open_list is not None and open_list.moved:
                self.picked.emit(open_list.current())
            else:
                self.close_list()
                self.submitted.emit()
            return
        if key == Qt.Key.Key_Escape and (open_list is not None or self.text()):
            if not self.close_list():
                self.clear()
                self.submitted.emit()
            return
        if key == Qt.Key.Key_Space and event.modifiers() == Qt.KeyboardModifier.ControlModifier:
            self.completion_wanted.emit()
            return
        super().keyPressEvent(event)
        if (
            key in (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_End)
            and self.list_is_open()
        ):
            self.completion_wanted.emit()

    def event(self, event: object) -> bool:
        """Tab takes a suggestion before it goes to the next control."""
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QKeyEvent.Type.KeyPress
            and event.key() == Qt.Key.Key_Tab
            and self.suggestions is not None
            and self.list_is_open()
        ):
            self.picked.emit(self.suggestions.current())
            return True
        return bool(super().event(event))  # type: ignore[arg-type]  # Qt hands in a QEvent

    def _arrow(self, by: int) -> None:
        at = self._history[self._history_at] if self._history_at >= 0 else ""
        if self.text() == at and (self._history_at >= 0 or by < 0):
            self._go_through_history(-by)
            return
        if self.suggestions is not None and self.list_is_open():
            self.suggestions.step(by)
            # The list has no focus of its own: what is chosen in it is said of the field.
            self.setAccessibleDescription(f"Suggestion: {self.suggestions.current()}")
        elif by > 0:
            self.down_pressed.emit()

    def _go_through_history(self, by: int) -> None:
        self._history_at = min(max(self._history_at + by, -1), len(self._history) - 1)
        self.close_list()
        self.setText(self._history[self._history_at] if self._history_at >= 0 else "")

    # painting

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw box and tokens, Qt's text over them, then coloured keys, the error mark and the count."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        edge = "fail" if self.error_at is not None else "accent" if self.hasFocus() else "control"
        painting.box(painter, rect, RADIUS.control, theme.color("sunken"), theme.color(edge))
        tokens = self._tokens()
        clip = QRectF(_LEFT, 2, self.width() - _LEFT - self.textMargins().right(), self.height() - 4)
        painter.setClipRect(clip.adjusted(-4, 0, 4, 0))
        for span in tokens:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painting.box(painter, self._token_rect(span), 3, theme.color("accent_tint"))
        painter.end()
        super().paintEvent(event)
        painter = QPainter(self)
        painter.setClipRect(clip)
        for span in tokens:
            self._paint_key(painter, span, theme)
        self._paint_error(painter, theme)
        painter.setClipping(False)
        place = QRectF(10, (rect.height() - FRAME.icon) / 2, FRAME.icon, FRAME.icon)
        paint_icon(painter, place, "search", theme.color("text2"))
        if self._count and self._count_shown:
            room = rect.adjusted(0, 0, -self._right - 4, 0)
            painting.text(painter, room, self._count, theme, "body", "text3", Qt.AlignmentFlag.AlignRight)
        painter.end()

    def _tokens(self) -> list[TermSpan]:
        """The finished terms; the one being typed is still plain text."""
        cursor = self.cursorPosition() if self.hasFocus() else -1
        return [span for span in terms_of(self.text()) if span.field and not span.start <= cursor <= span.end]

    def _token_rect(self, span: TermSpan) -> QRectF:
        left, right = self.x_of(span.start), self.x_of(span.end)
        return QRectF(left - 3, 5, right - left + 6, self.height() - 10)

    def _paint_key(self, painter: QPainter, span: TermSpan, theme: Theme) -> None:
        first = self.selectionStart()
        if first >= 0 and first < span.end and self.selectionEnd() > span.start:
            return  # selected letters keep the selection's colours
        metrics = QFontMetricsF(self.font())
        left, right = self.x_of(span.start), self.x_of(span.value_start)
        line = self.cursorRect()
        painter.fillRect(QRectF(left, line.top(), right - left, line.height()), theme.color("accent_tint"))
        painter.setFont(self.font())
        painter.setPen(theme.color("accent"))
        base = line.top() + metrics.ascent()
        painter.drawText(QPointF(left, base), self.text()[span.start : span.value_start])

    def _paint_error(self, painter: QPainter, theme: Theme) -> None:
        if self.error_at is None:
            return
        start = min(self.error_at, len(self.text()))
        end = next((span.end for span in terms_of(self.text()) if span.start <= start < span.end), start + 1)
        left, right = self.x_of(start), max(self.x_of(end), self.x_of(start) + 7)
        painter.setPen(QPen(theme.color("fail"), 2))
        y = self.height() - 6.0
        painter.drawLine(QPointF(left, y), QPointF(right, y))
