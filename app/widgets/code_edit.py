"""An editor for texts that a machine reads: line numbers, the current line, faults underlined, undo."""

from __future__ import annotations

import re
from collections.abc import Mapping

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextBlock,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextOption,
)
from PySide6.QtWidgets import QFrame, QTextEdit, QToolTip, QWidget

from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.widgets import painting
from app.widgets.code_view import LINE, FixedPitchLayout, lines_in_sight
from app.widgets.labels import escaped_tooltip
from app.widgets.redo_key import RedoKey
from core.text import hidden_characters

_PAD = 4
_MARK = 16
MOST_HIDDEN_MARKED = 200
_UNUSUAL = re.compile(r"[^\t\n\x20-\x7e]")


class CodeEdit(RedoKey):
    """Long lines wrap, so that nothing is out of sight. Tab leaves it, Enter keeps the line's indent.

    Signals:
        line_chosen(line): the cursor is in another line, counted from 1.
    """

    line_chosen = Signal(int)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._faults: dict[int, str] = {}
        self._line = 0
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self._layout = FixedPitchLayout(self.document())
        self.document().setDocumentLayout(self._layout)
        self.document().setDocumentMargin(0)
        self.setFont(theme_of(self).font("mono"))
        self.setTabChangesFocus(True)
        self.setCursorWidth(2)
        self.setTabStopDistance(4 * self.fontMetrics().horizontalAdvance(" "))
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        option = self.document().defaultTextOption()
        # A line that begins with right-to-left letters would otherwise be turned round as a whole.
        option.setTextDirection(Qt.LayoutDirection.LeftToRight)
        self.document().setDefaultTextOption(option)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._gutter = _Gutter(self)
        self.blockCountChanged.connect(lambda *_: self._set_margins())
        self.updateRequest.connect(lambda *_: self._gutter.update())
        self.cursorPositionChanged.connect(self._moved)
        self.textChanged.connect(self._mark_hidden)
        self._set_margins()

    # what screens ask

    def text(self) -> str:
        """The text as it stands; unlike `toPlainText`, other blanks than the plain one stay what they are."""
        return self.document().toRawText().replace("\u2029", "\n").replace("\u2028", "\n")

    def show_text(self, text: str) -> None:
        """Show another text from its beginning; there is nothing to undo then."""
        self.setPlainText(text)
        self.moveCursor(QTextCursor.MoveOperation.Start)

    def replace_text(self, text: str) -> None:
        """Put another text in the place of this one, as one step that can be undone."""
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
        cursor.endEditBlock()
        self.moveCursor(QTextCursor.MoveOperation.Start)

    def append_text(self, text: str) -> int:
        """Add lines at the end, as one step that can be undone; returns the first one's number."""
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        before = "" if not cursor.block().text() else "\n"
        cursor.beginEditBlock()
        cursor.insertText(before)
        line = cursor.blockNumber() + 1
        cursor.insertText(text)
        cursor.endEditBlock()
        return line

    def show_faults(self, faults: Mapping[int, str]) -> None:
        """Underline these lines (counted from 1) and say in a tooltip what is wrong there."""
        if dict(faults) != self._faults:
            self._faults = dict(faults)
            self.viewport().update()
            self._gutter.update()

    def fault_at(self, line: int) -> str:
        """What is wrong in a line; empty when nothing is."""
        return self._faults.get(line, "")

    def current_line(self) -> int:
        """The line of the cursor, counted from 1."""
        return self.textCursor().blockNumber() + 1

    def go_to(self, line: int, keyboard: bool = True) -> None:
        """Put the cursor at the beginning of a line and show it; beyond the end, of the last one.

        With `keyboard` the focus comes along.
        """
        block = self.document().findBlockByNumber(max(0, line - 1))
        cursor = QTextCursor(block if block.isValid() else self.document().lastBlock())
        self.setTextCursor(cursor)
        self.centerCursor()
        if keyboard:
            self.setFocus(Qt.FocusReason.OtherFocusReason)

    def find_next(self, words: str, backwards: bool = False) -> bool:
        """Select the next place where these words are, going round at the end; False when there is none."""
        if not words:
            return False
        flags = QTextDocument.FindFlag.FindBackward if backwards else QTextDocument.FindFlag(0)
        if self.find(words, flags):
            return True
        cursor = self.textCursor()
        end = QTextCursor.MoveOperation.End if backwards else QTextCursor.MoveOperation.Start
        self.moveCursor(end)
        if self.find(words, flags):
            return True
        self.setTextCursor(cursor)
        return False

    # how it behaves

    def _moved(self) -> None:
        line = self.current_line()
        if line != self._line:
            self._line = line
            self.viewport().update()
            self._gutter.update()
            self.line_chosen.emit(line)

    def _mark_hidden(self) -> None:
        """Tint what cannot be seen, or is not what it looks like."""
        text = self.text()
        found = hidden_characters(text) if _UNUSUAL.search(text) else []
        theme = theme_of(self)
        selections = []
        # Qt counts in UTF-16: signs beyond the first plane are two places each.
        wide = 0 if text.isascii() else 1
        for offset, _name in found[:MOST_HIDDEN_MARKED]:
            place = len(text[:offset].encode("utf-16-le")) // 2 if wide else offset
            selection = QTextEdit.ExtraSelection()
            cursor = QTextCursor(self.document())
            cursor.setPosition(place)
            cursor.movePosition(QTextCursor.MoveOperation.NextCharacter, QTextCursor.MoveMode.KeepAnchor)
            look = QTextCharFormat()
            look.setBackground(theme.color("warn_tint"))
            look.setForeground(theme.color("warn"))
            selection.cursor, selection.format = cursor, look
            selections.append(selection)
        if selections or self.extraSelections():
            self.setExtraSelections(selections)

    def _set_margins(self) -> None:
        digits = len(str(max(99, self.blockCount())))
        self.setViewportMargins(_MARK + 12 + 8 * digits, _PAD, 10, _PAD)
        self._place_gutter()

    def _place_gutter(self) -> None:
        view = self.viewport().geometry()
        self._gutter.setGeometry(1, view.y(), view.x() - 1, view.height())

    def line_at(self, y: float) -> int:
        """The line that is drawn at this height of the viewport; 0 below the last one."""
        for seen in lines_in_sight(self):
            if seen.top <= y < seen.top + LINE:
                return seen.block.blockNumber() + 1
        return 0

    def sizeHint(self) -> QSize:
        """Some lines; a layout gives more."""
        return QSize(320, 12 * LINE)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the current line underneath, the text, and the underlines of faults."""
        theme = theme_of(self)
        painter = QPainter(self.viewport())
        self._paint_current(painter)
        painter.end()
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        for seen in lines_in_sight(self):
            if seen.block.blockNumber() + 1 in self._faults and seen.line.textLength():
                first = seen.start + _indent(seen.block) if seen.first else seen.start
                x = seen.x(min(first, seen.end))
                bar = QRectF(x, seen.top + LINE - 3, max(8.0, seen.x(seen.end) - x), 2)
                painter.fillRect(bar, theme.color("fail"))
        painter.end()

    def _paint_current(self, painter: QPainter) -> None:
        block = self.textCursor().block()
        rect = self.blockBoundingGeometry(block).translated(self.contentOffset())
        role = "hover" if self.hasFocus() else "raised"
        line = QRectF(0, rect.top(), self.viewport().width(), rect.height())
        painter.fillRect(line, theme_of(self).color(role))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Other wraps; the gutter stays beside the text."""
        super().resizeEvent(event)
        self._place_gutter()

    def changeEvent(self, event: QEvent) -> None:
        """Take the other mode's colours."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "_gutter"):
            self._mark_hidden()
            self._gutter.update()

    def viewportEvent(self, event: QEvent) -> bool:
        """Say what is wrong with the line under the pointer."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            fault = self.fault_at(self.line_at(event.pos().y()))
            QToolTip.showText(event.globalPos(), escaped_tooltip(fault) if fault else "", self)
            return True
        return super().viewportEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter begins the next line below this one's beginning."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.modifiers():
            cursor = self.textCursor()
            text = cursor.block().text()[: cursor.positionInBlock()]
            cursor.insertText("\n" + text[: len(text) - len(text.lstrip(" \t"))])
            self.ensureCursorVisible()
            return
        super().keyPressEvent(event)


def _indent(block: QTextBlock) -> int:
    text = block.text()
    return len(text) - len(text.lstrip())


class _Gutter(QWidget):
    """Line numbers, and a mark at each line with a fault."""

    def __init__(self, editor: CodeEdit) -> None:
        super().__init__(editor)
        self._editor = editor
        self.setCursor(Qt.CursorShape.ArrowCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A press on a number goes to its line."""
        if line := self._editor.line_at(event.position().y()):
            self._editor.go_to(line)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a number at each line's first row."""
        theme = theme_of(self)
        painter = QPainter(self)
        current = self._editor.current_line()
        right = Qt.AlignmentFlag.AlignRight
        for seen in lines_in_sight(self._editor):
            number = seen.block.blockNumber() + 1
            if not seen.first:
                continue
            fault = self._editor.fault_at(number)
            tone = "fail" if fault else "text" if number == current else "text3"
            rect = QRectF(0, seen.top + 1, self.width() - 9, LINE)
            painting.text(painter, rect, str(number), theme, "mono_small", tone, right)
            if fault:
                paint_glyph(painter, QRectF(6, seen.top + 5, 12, 12), "cross_octagon", theme.color("fail"))
        painter.end()
