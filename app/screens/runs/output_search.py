"""Search in one output: all places counted, the next and the previous one, without regard to case."""

from __future__ import annotations

import re

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QTextCursor
from PySide6.QtWidgets import QTextEdit, QWidget

from app.screens.runs.output_box import OutputBox
from app.text import count_words
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets.buttons import IconButton
from app.widgets.fields import SearchField
from app.widgets.labels import Label
from app.widgets.layouts import hbox

# Each costs the text view a selection; all places are counted and can be gone to.
MOST_MARKED = 2_000


class OutputSearch(QWidget):
    """A field, a count and two buttons above the box.

    Signals:
        marks_changed: other places are marked now.
    """

    marks_changed = Signal()

    def __init__(self, box: OutputBox) -> None:
        super().__init__()
        self._box = box
        self._text = ""
        self._places: list[tuple[int, int]] = []
        self._at = -1
        self.field = SearchField("Search this output", "Search this output")
        self.field.textChanged.connect(lambda _text: self._search())
        self.field.installEventFilter(self)
        self.count = Label("", "meta", "text2")
        self.previous = IconButton("up", "Previous place", key="Shift+Enter")
        self.previous.clicked.connect(lambda *_: self.step(-1))
        self.next = IconButton("down", "Next place", key="Enter")
        self.next.clicked.connect(lambda *_: self.step(1))
        self.close_button = IconButton("close", "Close the search", key="Esc")
        self.close_button.clicked.connect(lambda *_: self.close_search())
        hbox(
            (self.field, 1),
            self.count,
            self.previous,
            self.next,
            self.close_button,
            parent=self,
            spacing=SPACE.small,
        )
        self.hide()

    def open_search(self) -> QWidget:
        """Come up, and return the field that takes the keyboard."""
        self.show()
        self.field.selectAll()
        return self.field

    def close_search(self) -> None:
        """Go away; the keyboard goes to the output, at the place that was shown last."""
        self.hide()
        self.field.clear()
        self._box.setFocus(Qt.FocusReason.OtherFocusReason)

    def show_text(self, text: str) -> None:
        """Search another text: the one that the box shows."""
        self._text = text
        self._search()

    def show_more(self, text: str) -> None:
        """The text has grown, or lost its beginning; the place that is shown stays."""
        self._text = text
        if self.field.text() and self.isVisible():
            self._find()
            self._at = min(self._at, len(self._places) - 1)
            self._say()

    def marks(self) -> list[QTextEdit.ExtraSelection]:
        """The places, the first `MOST_MARKED` of them and the current one."""
        theme = theme_of(self)
        marks = []
        at = seen = 0
        for number, (start, end) in enumerate(self._places[:MOST_MARKED]):
            begin = at + units(self._text[seen:start])
            at, seen = begin + units(self._text[start:end]), end
            if number != self._at:
                marks.append(self._mark(begin, at, theme.color("warn_tint")))
        if self._at >= 0:
            start, end = self._places[self._at]
            begin = units(self._text[:start])
            last = begin + units(self._text[start:end])
            marks.append(self._mark(begin, last, theme.color("warn"), theme.color("base")))
        return marks

    def _mark(
        self, begin: int, end: int, ground: QColor, ink: QColor | None = None
    ) -> QTextEdit.ExtraSelection:
        mark = QTextEdit.ExtraSelection()
        mark.cursor = self._cursor(begin, end)
        mark.format.setBackground(ground)
        if ink is not None:
            mark.format.setForeground(ink)
        return mark

    def _cursor(self, begin: int, end: int) -> QTextCursor:
        cursor = QTextCursor(self._box.document())
        cursor.setPosition(begin)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        return cursor

    def _search(self) -> None:
        self._at = -1
        self._find()
        if self._places:
            self.step(1)
        else:
            self._say()

    def _find(self) -> None:
        words = self.field.text()
        found = re.finditer(re.escape(words), self._text, re.IGNORECASE) if words else ()
        self._places = [match.span() for match in found]

    def step(self, by: int) -> None:
        """Go to the next place, or with -1 to the previous one; round at the ends."""
        if not self._places:
            return
        self._at = (self._at + by) % len(self._places)
        start, _end = self._places[self._at]
        begin = units(self._text[:start])
        # Only the beginning: a selection would be what Ctrl+C copies, and hides the mark.
        self._box.setTextCursor(self._cursor(begin, begin))
        self._box.ensureCursorVisible()
        self._say()

    def _say(self) -> None:
        count = len(self._places)
        words = f"{count_words(self._at + 1)} of {count_words(count)}" if count else "No match in this output"
        self.count.setText(words if self.field.text() else "")
        for button in (self.previous, self.next):
            button.set_off("" if count else "Nothing of this output matches.")
        self.marks_changed.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Enter goes on, Shift+Enter back."""
        enter = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress and event.key() in enter:
            self.step(-1 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1)
            return True
        return super().eventFilter(watched, event)


def units(text: str) -> int:
    """The length of a text as Qt counts it, in units of UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
