"""What is drawn around the text of a code box: numbers, findings, line ends, wraps, underlines, boxes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QPainter,
    QPaintEvent,
    QTextBlock,
    QTextDocument,
    QTextLine,
)
from PySide6.QtWidgets import QPlainTextDocumentLayout, QPlainTextEdit, QWidget

from app.theme.shapes import paint_glyph
from app.theme.status_styles import risk_look
from app.theme.theme import Theme, theme_of
from app.theme.tokens import TYPE
from app.widgets import painting

if TYPE_CHECKING:
    from app.widgets.code_view import CodeBox

LINE = TYPE["mono"].line
NUMBERS = 26
FINDINGS = 44
FINDING = 18
MOST_COLUMNS = 8
MARKS = 16


class RoomyLayout(QPlainTextDocumentLayout):
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
class SeenLine:
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


def lines_in_sight(box: QPlainTextEdit) -> Iterator[SeenLine]:
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
                yield SeenLine(block, line, top, rect.left(), number == 0, last)
        block = block.next()


class NumberGutter(QWidget):
    """Numbers of lines, at the left."""

    def __init__(self, box: CodeBox) -> None:
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

    def __init__(self, box: CodeBox) -> None:
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

    def _paint_numbers(self, painter: QPainter, seen: SeenLine, theme: Theme) -> None:
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


def paint_over(box: CodeBox, painter: QPainter, theme: Theme) -> None:
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
