"""The box of an output: plain text, read only, with line numbers beside it that are not part of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from PySide6.QtCore import QMimeData, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent, QResizeEvent, QTextBlock
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from app.theme.theme import theme_of
from app.widgets import painting
from core.text import without_override

_PAD = 8


class OutputBox(QPlainTextEdit):
    """Shows streams one below the other; each has its own line numbers, from 1."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._first_blocks = [0]
        self._numbers = False
        self.setReadOnly(True)
        self.setProperty("code", "true")
        self.setFont(theme_of(self).font("mono_small"))
        self.setAccessibleName("Output")
        self.setUndoRedoEnabled(False)
        self.document().setDocumentMargin(8)
        self.setTabStopDistance(8 * QFontMetricsF(self.font()).horizontalAdvance("0"))
        self._gutter = _Gutter(self)
        self._gutter.hide()
        self.updateRequest.connect(lambda *_: self._gutter.update())

    def show_streams(self, texts: list[str]) -> None:
        """Show these texts, each from a line of its own."""
        self.setPlainText("\n".join(texts))
        self._first_blocks = [0]
        for text in texts[:-1]:
            self._first_blocks.append(self._first_blocks[-1] + text.count("\n") + 1)
        self._place_gutter()

    def set_numbers(self, shown: bool) -> None:
        """Show line numbers, or not."""
        self._numbers = shown
        self._gutter.setVisible(shown)
        self._place_gutter()

    def number_of(self, block: int) -> int:
        """The number of a line in its stream, from 1; `block` counts all lines of the box, from 0."""
        return block - self._first_blocks[bisect_right(self._first_blocks, block) - 1] + 1

    def numbers_in_sight(self) -> list[tuple[int, float]]:
        """Numbers of the lines on the screen, each with the height in the viewport where it begins."""
        return [(self.number_of(block.blockNumber()), top) for block, top in self.lines_in_sight()]

    def lines_in_sight(self) -> Iterator[tuple[QTextBlock, float]]:
        """The lines on the screen, each with the height in the viewport where it begins."""
        block = self.firstVisibleBlock()
        while block.isValid():
            top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
            if top > self.viewport().height():
                break
            yield block, top
            block = block.next()

    def gutter_words(self) -> list[tuple[str, float]]:
        """What stands beside the lines on the screen, each with the height where it begins."""
        return [(str(number), top) for number, top in self.numbers_in_sight()]

    def gutter_width(self) -> int:
        """How many characters the widest of them has."""
        return len(str(max(99, self.blockCount())))

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy the text without the signs that keep the order of right-to-left letters."""
        copied = QMimeData()
        # Qt ends the lines of a selection with U+2029.
        copied.setText(without_override(self.textCursor().selectedText().replace("\u2029", "\n")))
        return copied

    def _place_gutter(self) -> None:
        width = QFontMetricsF(self.font()).horizontalAdvance("0") * self.gutter_width() + 2 * _PAD
        self.setViewportMargins(int(width) if self._numbers else 0, 0, 0, 0)
        view = self.viewport().geometry()
        self._gutter.setGeometry(1, view.y(), max(0, view.x() - 1), view.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the numbers beside the text."""
        super().resizeEvent(event)
        self._place_gutter()


class _Gutter(QWidget):
    """Draws the numbers, or the times."""

    def __init__(self, box: OutputBox) -> None:
        super().__init__(box)
        self._box = box

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw what belongs to it at the first row of each line in sight."""
        theme = theme_of(self)
        painter = QPainter(self)
        height = QFontMetricsF(self._box.font()).lineSpacing()
        for words, top in self._box.gutter_words():
            rect = QRectF(0, top, self.width() - _PAD, height)
            painting.text(painter, rect, words, theme, "mono_small", "text3", Qt.AlignmentFlag.AlignRight)
        painter.end()
