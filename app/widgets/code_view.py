"""The bytes box: exactly what will be sent, whole, nothing hidden, nothing drawn between the bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QMimeData, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import (
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
    QTextCharFormat,
    QTextCursor,
    QTextOption,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QTextEdit, QWidget

from app.theme.status_styles import risk_look
from app.theme.theme import theme_of
from app.widgets.code_gutters import (
    FINDING,
    FINDINGS,
    LINE,
    MARKS,
    MOST_COLUMNS,
    NUMBERS,
    FindingGutter,
    Highlight,
    NumberGutter,
    RoomyLayout,
    SeenLine,
    paint_over,
)
from app.widgets.visible_text import Mark, show_bytes

__all__ = ["CodeBox", "Highlight"]

MOST_LINES = 14
_PAD = 3


class CodeBox(QPlainTextEdit):
    """Shows bytes as plain text that can be selected and copied, never changed.

    Grows with its content up to `most_lines`, then scrolls. Long lines wrap, with a mark.

    Signals:
        end_seen: the last byte was on the screen; once for each `show_bytes`. At once when all of it fits,
            never for nothing at all.
    """

    end_seen = Signal()

    def __init__(
        self,
        name: str = "Exactly what will be sent",
        most_lines: int = MOST_LINES,
        numbers: bool = True,
        parent: QWidget | None = None,
    ) -> None:
        """`most_lines` of 0 leaves the height to the layout."""
        super().__init__(parent)
        self.shown = show_bytes(b"")
        self._highlights: tuple[Highlight, ...] = ()
        self.finding_columns = 2
        self._underlines: list[tuple[int, int, str]] = []
        self._most_lines, self._with_numbers = most_lines, numbers
        self._seen = False
        self._check_waits = False
        self.setAccessibleName(name)
        self.setProperty("code", "true")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self._layout = RoomyLayout(self.document())
        self.document().setDocumentLayout(self._layout)
        self.document().setDocumentMargin(0)
        self.setFont(theme_of(self).font("mono"))
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setTabChangesFocus(True)
        self.setTabStopDistance(4 * self.fontMetrics().horizontalAdvance(" "))
        self.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        option = self.document().defaultTextOption()
        # A line that begins with right-to-left letters would otherwise be turned round as a whole.
        option.setTextDirection(Qt.LayoutDirection.LeftToRight)
        self.document().setDefaultTextOption(option)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        flags = Qt.TextInteractionFlag
        self.setTextInteractionFlags(flags.TextSelectableByMouse | flags.TextSelectableByKeyboard)
        self._left, self._right = NumberGutter(self), FindingGutter(self)
        self._left.setVisible(numbers)
        self.updateRequest.connect(self._scrolled)
        self.verticalScrollBar().valueChanged.connect(self._look_soon)
        self.verticalScrollBar().rangeChanged.connect(self._look_soon)
        self._set_margins()

    # what screens ask

    def show_bytes(self, data: bytes, highlights: Sequence[Highlight] = ()) -> None:
        """Show `data`, from its beginning; the end counts as not seen."""
        self.shown = show_bytes(data)
        self._highlights = tuple(highlights)
        self._seen = False
        places = self.shown.place_of
        self._underlines = [(places(h.start), places(h.end), h.risk) for h in self._highlights]
        self.setPlainText(self.shown.text)
        self.moveCursor(QTextCursor.MoveOperation.Start)
        self.verticalScrollBar().setValue(0)
        self.finding_columns = self._count_columns()
        self._set_margins()
        self._color()
        self._fit()
        self._look_soon()

    def show_text(self, text: str) -> None:
        """Show text, as its UTF-8 bytes."""
        self.show_bytes(text.encode("utf-8", "surrogatepass"))

    @property
    def exact_bytes(self) -> bytes:
        """The bytes, as they were given."""
        return self.shown.data

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The characters that were replaced by their names."""
        return self.shown.marks

    @property
    def end_was_seen(self) -> bool:
        """True after `end_seen`."""
        return self._seen

    def copy_bytes(self) -> bytes:
        """Put exactly the original bytes on the clipboard, and return them."""
        QGuiApplication.clipboard().setMimeData(_mime(self.shown.data))
        return self.shown.data

    def reveal(self, number: int) -> bool:
        """Scroll to the finding with this number; False when there is none."""
        for highlight in self._highlights:
            if highlight.number == number:
                cursor = self.textCursor()
                cursor.setPosition(self.shown.place_of(highlight.start))
                self.setTextCursor(cursor)
                self.ensureCursorVisible()
                return True
        return False

    # what the painting asks

    def has_numbers(self) -> bool:
        """True when findings are numbered, so that the right gutter is there."""
        return any(highlight.number for highlight in self._highlights)

    def underlines(self) -> list[tuple[int, int, str]]:
        """Start, end and risk of each finding, as places in the shown text."""
        return self._underlines

    def marks_within(self, start: int, end: int) -> list[Mark]:
        """The replaced characters whose names touch this part of the shown text."""
        marks = self.shown.marks
        at = max(0, bisect_left(marks, start, key=lambda mark: mark.end))
        found = []
        while at < len(marks) and marks[at].start < end:
            if marks[at].end > start:
                found.append(marks[at])
            at += 1
        return found

    def findings_starting(self, seen: SeenLine) -> list[Highlight]:
        """The numbered findings that begin in this line."""
        pairs = zip(self._underlines, self._highlights, strict=True)
        return [
            highlight
            for (start, _, _), highlight in pairs
            if highlight.number and (seen.start <= start < seen.end or (seen.last and start == seen.end))
        ]

    def _count_columns(self) -> int:
        """How many numbers of findings stand beside one line: as many as begin in any line, within bounds."""
        document = self.document()
        lines = Counter(
            document.findBlock(start).blockNumber()
            for (start, _, _), highlight in zip(self._underlines, self._highlights, strict=True)
            if highlight.number
        )
        return min(MOST_COLUMNS, max(2, *lines.values())) if lines else 2

    def _finding_room(self) -> int:
        return FINDINGS + (self.finding_columns - 2) * FINDING if self.has_numbers() else 0

    def line_break_after(self, seen: SeenLine) -> bool:
        """True when a line break follows this line."""
        return seen.last and seen.block.next().isValid()

    def break_fits(self, seen: SeenLine) -> bool:
        """True when there is room for the mark right after the text."""
        return seen.x(seen.end) + 14 <= self.viewport().width()

    # how it behaves

    def _set_margins(self) -> None:
        left = max(NUMBERS, 18 + 8 * len(str(self.shown.lines))) if self._with_numbers else 10
        right = MARKS + self._finding_room()
        self.setViewportMargins(left, _PAD, right, _PAD)
        self._place_gutters()

    def _place_gutters(self) -> None:
        view = self.viewport().geometry()
        self._left.setGeometry(1, view.y(), view.x() - 1, view.height())
        width = MARKS + self._finding_room() - 1
        self._right.setGeometry(view.right() + 1, view.y(), width, view.height())

    def _color(self) -> None:
        selections = []
        for start, end, risk in self._underlines:
            selections.append(self._selection(start, end, risk_look(risk).tint, ""))
        for mark in self.shown.marks[:2000]:
            selections.append(self._selection(mark.start, mark.end, "warn_tint", "warn"))
        self.setExtraSelections(selections)

    def _selection(self, start: int, end: int, back: str, ink: str) -> QTextEdit.ExtraSelection:
        theme = theme_of(self)
        selection = QTextEdit.ExtraSelection()
        cursor = QTextCursor(self.document())
        cursor.setPosition(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        look = QTextCharFormat()
        look.setBackground(theme.color("high_tint" if back == "critical_fill" else back))
        if ink:
            look.setForeground(theme.color(ink))
        selection.cursor, selection.format = cursor, look
        return selection

    def _fit(self) -> None:
        if self._most_lines <= 0:
            return
        lines, block = 0, self.document().firstBlock()
        while block.isValid() and lines < self._most_lines:
            self._layout.blockBoundingRect(block)
            lines += max(1, block.layout().lineCount())
            block = block.next()
        height = min(max(1, lines), self._most_lines) * LINE + 2 * _PAD + 2
        if self.height() != height or self.maximumHeight() != height:
            self.setFixedHeight(height)

    def _scrolled(self) -> None:
        self._left.update()
        self._right.update()

    def _look_soon(self) -> None:
        # Once the layout has settled: while it is being made, a scroll bar may have no range yet.
        if not self._seen and not self._check_waits:
            self._check_waits = True
            QTimer.singleShot(0, self, self._look_for_the_end)

    def _look_for_the_end(self) -> None:
        self._check_waits = False
        if self._seen or not self.shown.data or not self.isVisible() or self.window().isMinimized():
            return
        end = QTextCursor(self.document())
        end.movePosition(QTextCursor.MoveOperation.End)
        rect = self.cursorRect(end)
        last = QPoint(max(0, rect.left() - 1), rect.center().y())
        # The visible region knows about every scroll area around this box, too.
        if self.viewport().visibleRegion().contains(last):
            self._seen = True
            self.end_seen.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the text, then the marks around it."""
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        paint_over(self, painter, theme_of(self))
        painter.end()
        if not self._seen:
            self._look_soon()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Other wraps, another height."""
        super().resizeEvent(event)
        self._place_gutters()
        self._fit()
        self._look_soon()

    def showEvent(self, event: QShowEvent) -> None:
        """Short bytes are seen as soon as they are shown."""
        super().showEvent(event)
        self._place_gutters()
        self._fit()
        self._look_soon()

    def changeEvent(self, event: QEvent) -> None:
        """Take the other mode's colours."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "_right"):
            self._color()
            self._left.update()
            self._right.update()

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copying a selection gives the bytes, not the names shown for some of them."""
        cursor = self.textCursor()
        return _mime(self.shown.bytes_between(cursor.selectionStart(), cursor.selectionEnd()))


def _mime(data: bytes) -> QMimeData:
    mime = QMimeData()
    mime.setData("application/octet-stream", data)
    mime.setText(data.decode("utf-8", "replace"))
    return mime
