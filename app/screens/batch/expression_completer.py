"""Completes expressions while they are typed, from what they may read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtGui import QKeyEvent, QTextCursor
from PySide6.QtWidgets import QApplication, QWidget

from app.forms.field_widgets import GrowingText, LineInput
from app.items.completion_popup import CompletionPopup, Suggestion
from app.screens.batch.text import one_line
from core.batch.models import Readable
from core.batch.templates import CLOSE, OPEN, unclosed_expression

MOST_OFFERED = 12
_SERVED = "hasCompleter"
# What is read so far: names with points, and places in lists and objects.
_PIECE = re.compile(r"""[A-Za-z_](?:\w|\.|\[\d*\]?|\["[^"\]]*"?\]?)*$""")


def completions(values: Iterable[Readable], text: str) -> tuple[str, list[Suggestion]]:
    """The piece of an expression that ends a text, and what may stand there: its next names, one level on."""
    match = _PIECE.search(text)
    piece = match[0] if match else ""
    offers: dict[str, Suggestion] = {}
    for one in values:
        if not one.path.startswith(piece) or one.path == piece:
            continue
        end = re.search(r"[.\[]", one.path[len(piece) + 1 :])
        choice = one.path[: len(piece) + 1 + end.start()] if end else one.path
        note = ", ".join(filter(None, (one.type, one_line(one.value)[:40]))) if choice == one.path else ""
        if choice not in offers or (note and not offers[choice].note):
            offers[choice] = Suggestion(choice, note)
    return piece, list(offers.values())[:MOST_OFFERED]


class ExpressionCompleter(QObject):
    """The list of completions below whichever text in a part of the screen has the keyboard.

    Where `bracketed`, a text holds its expressions between `${{` and `}}`, and only there it is completed;
    Ctrl+Space elsewhere begins an expression. Otherwise the whole text is one expression.
    """

    def __init__(self, within: QWidget, bracketed: bool) -> None:
        super().__init__(within)
        self._within, self._bracketed = within, bracketed
        self.values: Sequence[Readable] = ()
        self._field: GrowingText | LineInput | None = None
        self._list: CompletionPopup | None = None
        app = QApplication.instance()
        if isinstance(app, QApplication):
            app.focusChanged.connect(self._follow)

    @property
    def list_is_open(self) -> bool:
        """Whether something is offered."""
        return self._list is not None and self._list.isVisible()

    def offered(self) -> list[str]:
        """What is offered now."""
        return self._list.choices() if self._list is not None and self.list_is_open else []

    def _follow(self, _old: QWidget | None, now: QWidget | None) -> None:
        """Serve the text that has the keyboard now; the list goes with the focus."""
        if now is self._field:
            return
        self._close_list()
        here = now is not None and (now is self._within or self._within.isAncestorOf(now))
        self._field = now if here and isinstance(now, GrowingText | LineInput) else None
        if self._field is None or self._field.property(_SERVED):
            return
        self._field.setProperty(_SERVED, True)
        self._field.installEventFilter(self)
        typed = self._field.edited if isinstance(self._field, GrowingText) else self._field.textEdited
        typed.connect(self._typed)

    def _before_cursor(self) -> str:
        if isinstance(self._field, LineInput):
            return self._field.text()[: self._field.cursorPosition()]
        assert self._field is not None
        cursor = QTextCursor(self._field.document())
        cursor.setPosition(self._field.textCursor().position(), QTextCursor.MoveMode.KeepAnchor)
        return cursor.selectedText().replace("\u2029", "\n")

    def _expression(self) -> str | None:
        """The expression up to the cursor; None where there is none."""
        before = self._before_cursor()
        return unclosed_expression(before) if self._bracketed else before

    def _typed(self) -> None:
        if self._field is None or not self._field.hasFocus():
            return
        expression = self._expression()
        begun = expression is not None and (self._bracketed and not expression.strip())
        if expression is not None and (begun or _PIECE.search(expression)):
            self._offer(expression)
        else:
            self._close_list()

    def _asked(self) -> None:
        """Offer what may stand at the cursor; where no expression is, begin one."""
        if self._expression() is None:
            self._insert(f"{OPEN}  {CLOSE}", 0, back=len(CLOSE) + 1)
        self._offer(self._expression() or "")

    def _offer(self, expression: str) -> None:
        field = self._field
        assert field is not None
        _, found = completions(self.values, expression)
        if self._list is None:
            self._list = CompletionPopup(field.window())
            self._list.picked.connect(self._pick)
        corner = field.mapTo(field.window(), QPoint(0, 0))
        self._list.offer(found, corner + QPoint(0, field.height() + 2))
        if self._list.geometry().bottom() > field.window().height():
            self._list.move(self._list.x(), corner.y() - self._list.height() - 2)

    def _close_list(self) -> None:
        if self._list is not None:
            self._list.hide()

    def _pick(self, choice: str) -> None:
        if self._field is None:
            return
        piece, _ = completions(self.values, self._expression() or "")
        self._insert(choice, len(piece.encode("utf-16-le")) // 2)
        if any(one.path == choice for one in self.values):
            self._close_list()  # else the names below it are offered already

    def _insert(self, text: str, instead: int, back: int = 0) -> None:
        """Put a text in place of so many units before the cursor, which then stands `back` before its end."""
        field = self._field
        if isinstance(field, LineInput):
            field.setSelection(field.cursorPosition() - instead, instead)
            field.insert(text)
            field.setCursorPosition(field.cursorPosition() - back)
            field.textEdited.emit(field.text())
        elif field is not None:
            cursor = field.textCursor()
            cursor.setPosition(cursor.position() - instead, QTextCursor.MoveMode.KeepAnchor)
            cursor.insertText(text)
            cursor.setPosition(cursor.position() - back)
            field.setTextCursor(cursor)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """↑↓ move in the list, Enter and Tab take from it, Esc closes it first; Ctrl+Space opens it."""
        if not isinstance(event, QKeyEvent) or watched is not self._field:
            return False
        key, shown = event.key(), self._list if self.list_is_open else None
        if event.type() == QEvent.Type.ShortcutOverride:
            if shown is not None and key == Qt.Key.Key_Escape:
                event.accept()
                return True
            return False
        if event.type() != QEvent.Type.KeyPress:
            return False
        if key == Qt.Key.Key_Space and event.modifiers() == Qt.KeyboardModifier.ControlModifier:
            self._asked()
            return True
        if shown is None:
            return False
        if key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
            shown.step(-1 if key == Qt.Key.Key_Up else 1)
            self._field.setAccessibleDescription(f"Suggestion: {shown.current()}")
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab):
            self._pick(shown.current())
        elif key == Qt.Key.Key_Escape:
            self._close_list()
        else:
            return False
        return True
