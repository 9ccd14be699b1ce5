"""The view of bytes: exactly what will be sent, whole; numbers and findings are painted beside them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShowEvent,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextLine,
    QTextOption,
)
from PySide6.QtWidgets import QFrame, QPlainTextDocumentLayout, QPlainTextEdit, QTextEdit, QWidget

from app.theme.legible import is_drawn
from app.theme.shapes import paint_glyph
from app.theme.state_looks import risk_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import TYPE
from app.widgets import painting
from app.widgets.end_watch import EndWatch
from app.widgets.visible_text import Mark, visible_text

__all__ = ["CodeView", "Highlight"]

MOST_LINES = 14
_PAD = 3


class CodeView(QPlainTextEdit):
    """Shows bytes as plain text that can be selected and copied, never changed.

    Grows with its content up to `most_lines`, then scrolls. Long lines wrap, with a mark.

    Signals:
        end_seen: the last byte was on the screen; once for each `visible_text`. At once when all of it fits,
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
        self.shown = visible_text(b"")
        self._highlights: tuple[Highlight, ...] = ()
        self.finding_columns = 2
        self._underlines: list[tuple[int, int, str]] = []
        self._most_lines, self._with_numbers = most_lines, numbers
        self.setAccessibleName(name)
        self.setProperty("code", "true")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self._layout = FixedPitchLayout(self.document())
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
        self._watch = EndWatch(self, self._end)
        self._watch.seen.connect(self.end_seen)
        self._set_margins()

    # what screens ask

    def show_bytes(self, data: bytes, highlights: Sequence[Highlight] = ()) -> None:
        """Show `data`, from its beginning; the end counts as not seen."""
        font = self.font()
        self.shown = visible_text(data, lambda sign: is_drawn(sign, font))
        self._highlights = tuple(highlights)
        places = self.shown.place_of
        self._underlines = [(places(h.start), places(h.end), h.risk) for h in self._highlights]
        self.setPlainText(self.shown.text)
        self.moveCursor(QTextCursor.MoveOperation.Start)
        self.verticalScrollBar().setValue(0)
        self.finding_columns = self._count_columns()
        self._set_margins()
        self._color()
        self._fit()
        self._watch.start()

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
        return self._watch.was_seen

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

    def findings_starting(self, seen: VisibleLine) -> list[Highlight]:
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

    def line_break_after(self, seen: VisibleLine) -> bool:
        """True when a line break follows this line."""
        return seen.last and seen.block.next().isValid()

    def break_fits(self, seen: VisibleLine) -> bool:
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

    def _end(self) -> QPoint | None:
        if not self.shown.data:
            return None
        end = QTextCursor(self.document())
        end.movePosition(QTextCursor.MoveOperation.End)
        rect = self.cursorRect(end)
        return QPoint(max(0, rect.left() - 1), rect.center().y())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the text, then the marks around it."""
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        paint_over(self, painter, theme_of(self))
        painter.end()
        self._watch.look_soon()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Other wraps, another height."""
        super().resizeEvent(event)
        self._place_gutters()
        self._fit()
        self._watch.look_soon()

    def showEvent(self, event: QShowEvent) -> None:
        """Short bytes are seen as soon as they are shown."""
        super().showEvent(event)
        self._place_gutters()
        self._fit()
        self._watch.look_soon()

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


LINE = TYPE["mono"].line
NUMBERS = 26
FINDINGS = 44
FINDING = 18
MOST_COLUMNS = 8
MARKS = 16


class FixedPitchLayout(QPlainTextDocumentLayout):
    """Sets lines of text 22 px apart, whatever the font asks for."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)

    def blockBoundingRect(self, block: QTextBlock) -> QRectF:
        """Move the lines Qt laid out to our pitch, and answer with the room they take then."""
        rect = super().blockBoundingRect(block)
        layout = block.layout()
        count = layout.lineCount()
        if count == 0 or not block.isVisible():
            return rect
        first = layout.lineAt(0)
        if first.y() != LINE - first.height():
            for number in range(count):
                line = layout.lineAt(number)
                # The bottom of each line is on the grid: Qt scrolls by these bottoms.
                line.setPosition(QPointF(line.x(), (number + 1) * LINE - line.height()))
        return QRectF(rect.x(), rect.y(), rect.width(), count * LINE)


@dataclass(frozen=True, slots=True)
class Highlight:
    """A finding in the text: bytes `start` to `end`, its risk, its number in the list below (0: none)."""

    start: int
    end: int
    risk: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class VisibleLine:
    """One drawn line: its block, its place in it, and where it is in the viewport."""

    block: QTextBlock
    line: QTextLine
    top: float
    left: float
    first: bool
    last: bool

    @property
    def start(self) -> int:
        """The document position of its first character."""
        return self.block.position() + self.line.textStart()

    @property
    def end(self) -> int:
        """The document position after its last character."""
        return self.start + self.line.textLength()

    def x(self, position: int) -> float:
        """Where in the viewport a document position of this line is."""
        at = self.line.cursorToX(position - self.block.position())
        # The binding gives the place and the cursor, whatever its stubs say.
        return self.left + float(at[0] if isinstance(at, tuple) else cast("float", at))


def lines_in_sight(box: QPlainTextEdit) -> Iterator[VisibleLine]:
    """The drawn lines of the box that are in its viewport, from top to bottom."""
    block = box.firstVisibleBlock()
    offset = box.contentOffset()
    bottom = box.viewport().height()
    while block.isValid():
        rect = box.blockBoundingGeometry(block).translated(offset)
        if rect.top() > bottom:
            return
        layout = block.layout()
        for number in range(layout.lineCount()):
            line = layout.lineAt(number)
            top = rect.top() + number * LINE
            if top + LINE >= 0 and top <= bottom:
                last = number == layout.lineCount() - 1
                yield VisibleLine(block, line, top, rect.left(), number == 0, last)
        block = block.next()


class NumberGutter(QWidget):
    """Numbers of lines, at the left."""

    def __init__(self, box: CodeView) -> None:
        super().__init__(box)
        self._box = box
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a number at each line's first row."""
        theme = theme_of(self)
        painter = QPainter(self)
        count = self._box.shown.lines
        for seen in lines_in_sight(self._box):
            number = seen.block.blockNumber() + 1
            if seen.first and number <= count:
                rect = QRectF(0, seen.top + 1, self.width() - 8, LINE)
                align = Qt.AlignmentFlag.AlignRight
                painting.text(painter, rect, str(number), theme, "mono_small", "text3", align)
        painter.end()


class FindingGutter(QWidget):
    """Marks of wraps, and the numbers of findings, at the right."""

    def __init__(self, box: CodeView) -> None:
        super().__init__(box)
        self._box = box
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw wraps in the first 16 px, findings after a hairline."""
        theme = theme_of(self)
        painter = QPainter(self)
        findings = self._box.has_numbers()
        if findings:
            painter.fillRect(QRectF(MARKS, 0, 1, self.height()), theme.color("border"))
        for seen in lines_in_sight(self._box):
            place = QRectF(1, seen.top + 5, 12, 12)
            if not seen.last:
                paint_glyph(painter, place, "soft_wrap", theme.color("text3"))
            elif self._box.line_break_after(seen) and not self._box.break_fits(seen):
                paint_glyph(painter, place, "line_end", theme.color("text3"))
            if findings:
                self._paint_numbers(painter, seen, theme)
        painter.end()

    def _paint_numbers(self, painter: QPainter, seen: VisibleLine, theme: Theme) -> None:
        found = self._box.findings_starting(seen)
        room = self._box.finding_columns
        for place, highlight in enumerate(found[:room]):
            rect = QRectF(MARKS + 6 + place * FINDING, seen.top + 4, 15, 15)
            if place == room - 1 and len(found) > room:
                painting.text(painter, rect, "…", theme, "label", "text2", Qt.AlignmentFlag.AlignHCenter)
            else:
                paint_finding_number(painter, rect, highlight.number, highlight.risk, theme)


def paint_finding_number(painter: QPainter, rect: QRectF, number: int, risk: str, theme: Theme) -> None:
    """Draw the number of a finding on its risk's colour; the same in the gutter and in the list below."""
    look = risk_look(risk)
    painting.box(painter, rect, 3, theme.color(look.color))
    painting.text(painter, rect, str(number), theme, "label", "app", Qt.AlignmentFlag.AlignHCenter)


def paint_over(box: CodeView, painter: QPainter, theme: Theme) -> None:
    """Draw what lies around the bytes: underlines, boxes of replaced characters, line ends."""
    for seen in lines_in_sight(box):
        for start, end, risk in box.underlines():
            first, last = max(start, seen.start), min(end, seen.end)
            if first < last:
                x = seen.x(first)
                bar = QRectF(x, seen.top + LINE - 3, seen.x(last) - x, 2)
                painter.fillRect(bar, theme.color(risk_look(risk).color))
        for mark in box.marks_within(seen.start, seen.end):
            first, last = max(mark.start, seen.start), min(mark.end, seen.end)
            x = seen.x(first)
            around = QRectF(x + 0.5, seen.top + 3, seen.x(last) - x - 1, LINE - 5)
            painting.box(painter, around, 3, None, theme.color("warn"))
        if seen.last and box.line_break_after(seen) and box.break_fits(seen):
            place = QRectF(seen.x(seen.end) + 2, seen.top + 6, 11, 11)
            paint_glyph(painter, place, "line_end", theme.color("text3"))
