"""A field for an expression: completed from what it may read, judged and evaluated while it is typed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from PySide6.QtCore import QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QTextCursor
from PySide6.QtWidgets import QWidget

from app.forms.base import mark_input
from app.forms.field_widgets import GrowingText
from app.items.completion_popup import CompletionPopup, Suggestion
from app.screens.batch.text import inner_expression, one_line
from app.widgets.labels import Label
from app.widgets.layouts import vbox
from core.batch.expression_trial import ExpressionTrial, Readable
from core.batch.templates import CLOSE, OPEN

LONGEST_SHOWN = 300
MOST_OFFERED = 12
# What is read so far: names with points, and places in lists and objects.
_PIECE = re.compile(r"""[A-Za-z_](?:\w|\.|\[\d*\]?|\["[^"\]]*"?\]?)*$""")


def shown_expression(text: str) -> tuple[str, int]:
    """The text of a condition as the field shows it, and how many signs are left out before it.

    The brackets are left out only where putting them back gives the very same text.
    """
    inner = inner_expression(text)
    return (inner, 1) if inner != text and whole_expression(inner) == text else (text, 0)


def whole_expression(shown: str) -> str:
    """The text as the batch has it, for what the field shows; nothing for an empty field."""
    stripped = shown.strip()
    return shown if OPEN in shown or not stripped else f"{OPEN} {stripped} {CLOSE}"


def trial_words(trial: ExpressionTrial, where: str, skipped: int = 0) -> str:
    """What is wrong with an expression, or what it gives, and `where`.

    `skipped` signs of its first line are not shown.
    """
    if trial.problem:
        column = trial.column - (skipped if trial.line == 1 else 0)
        return f"Line {trial.line}, column {max(1, column)}: {trial.problem}"
    if not trial.value:
        return trial.unknown
    shown = one_line(trial.value)
    return f"Gives {shown[:LONGEST_SHOWN]}{'…' if len(shown) > LONGEST_SHOWN else ''}{where}."


def completions(values: Iterable[Readable], text: str) -> tuple[int, list[Suggestion]]:
    """Where the piece begins that ends a text, and what may stand there: its next names, one level on."""
    match = _PIECE.search(text)
    start = match.start() if match else len(text)
    piece = text[start:]
    offers: dict[str, Suggestion] = {}
    for one in values:
        if not one.path.startswith(piece) or one.path == piece:
            continue
        end = re.search(r"[.\[]", one.path[len(piece) + 1 :])
        choice = one.path[: len(piece) + 1 + end.start()] if end else one.path
        note = ", ".join(filter(None, (one.type, one_line(one.value)[:40]))) if choice == one.path else ""
        if choice not in offers or (note and not offers[choice].note):
            offers[choice] = Suggestion(choice, note)
    return start, list(offers.values())[:MOST_OFFERED]


class _Input(GrowingText):
    """The text, with the list of completions below it."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(True, 1, 6, parent)
        self.setAccessibleName(name)
        self.values: Sequence[Readable] = ()
        self._list: CompletionPopup | None = None
        self.edited.connect(self._typed)

    @property
    def list_is_open(self) -> bool:
        """Whether something is offered."""
        return self._list is not None and self._list.isVisible()

    def offered(self) -> list[str]:
        """What is offered now."""
        return self._list.choices() if self._list is not None and self.list_is_open else []

    def _before_cursor(self) -> str:
        return self.text()[: self.textCursor().position()]

    def _typed(self) -> None:
        if self.hasFocus() and _PIECE.search(self._before_cursor()):
            self.offer()
        else:
            self.close_list()

    def offer(self) -> None:
        """Show what may stand at the cursor."""
        _, found = completions(self.values, self._before_cursor())
        if self._list is None:
            self._list = CompletionPopup(self.window())
            self._list.picked.connect(self._pick)
        corner = self.mapTo(self.window(), QPoint(0, 0))
        self._list.offer(found, corner + QPoint(0, self.height() + 2))
        if self._list.geometry().bottom() > self.window().height():
            self._list.move(self._list.x(), corner.y() - self._list.height() - 2)

    def close_list(self) -> bool:
        """Take the offers away; False when there are none."""
        was_open = self.list_is_open
        if self._list is not None:
            self._list.hide()
        return was_open

    def _pick(self, choice: str) -> None:
        start, _ = completions(self.values, self._before_cursor())
        cursor = self.textCursor()
        cursor.setPosition(start, QTextCursor.MoveMode.KeepAnchor)
        cursor.insertText(choice)
        self.setTextCursor(cursor)
        self.setFocus()
        if not any(one.path == choice for one in self.values):
            return  # the names below it are offered already
        self.close_list()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """↑↓ move in the list, Enter takes from it, Esc closes it first; Ctrl+Space opens it."""
        key, shown = event.key(), self._list if self.list_is_open else None
        if shown is not None and key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            shown.step(-1 if key == Qt.Key.Key_Up else 1)
            self.setAccessibleDescription(f"Suggestion: {shown.current()}")
        elif shown is not None and key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._pick(shown.current())
        elif shown is not None and key == Qt.Key.Key_Escape:
            self.close_list()
        elif key == Qt.Key.Key_Space and event.modifiers() == Qt.KeyboardModifier.ControlModifier:
            self.offer()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Tab takes a suggestion before it goes to the next control; Esc closes only the list."""
        if isinstance(event, QKeyEvent) and self._list is not None and self.list_is_open:
            if event.type() == QEvent.Type.KeyPress and event.key() == Qt.Key.Key_Tab:
                self._pick(self._list.current())
                return True
            if event.type() == QEvent.Type.ShortcutOverride and event.key() == Qt.Key.Key_Escape:
                event.accept()
                return True
        return super().event(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The list goes with the focus."""
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.close_list()


class ExpressionField(QWidget):
    """One expression, without its brackets, and below it what is wrong with it, or its value.

    Signals:
        typed: it was changed by typing; `text()` is the text as the batch has it.
    """

    typed = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.input = _Input(name, self)
        self.message = Label("", "meta", "text3", wrap=True, selectable=True)
        self.message.hide()
        self._skipped = 0
        vbox(self.input, self.message, parent=self, spacing=4)
        self.input.edited.connect(self._edited)

    def text(self) -> str:
        """The expression as the batch has it; empty without one."""
        return whole_expression(self.input.text())

    def show_text(self, text: str) -> None:
        """Show an expression of the batch, unless it is there already."""
        if text != self.text():
            shown, self._skipped = shown_expression(text)
            self.input.set_text(shown)
            self.show_trial(None)

    def set_values(self, values: Sequence[Readable]) -> None:
        """What the expression may read."""
        self.input.values = values

    def _edited(self) -> None:
        self._skipped = 0 if OPEN in self.input.text() else 1
        self.show_trial(None)
        self.typed.emit()

    def show_trial(self, trial: ExpressionTrial | None, where: str = "") -> None:
        """Say what is wrong, or what the expression gives and `where`; None while that is not known."""
        failed = trial is not None and bool(trial.problem)
        words = trial_words(trial, where, self._skipped) if trial is not None else ""
        self.message.setText(words)
        self.message.set_tone("fail" if failed else "text3")
        self.message.setVisible(bool(words))
        self.input.setAccessibleDescription(words)
        mark_input(self.input, failed)
