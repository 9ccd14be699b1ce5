"""An editor for JSON: line numbers, colours, and at every moment whether it is valid or where it is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QSyntaxHighlighter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.theme import theme_of
from app.widgets import painting
from app.widgets.redo_key import RedoKey
from core.schema_forms.json_values import UNSET, JsonProblem, NotJson, json_text, parse_json, same_json

_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<text>"(?:[^"\\]|\\.)*"?)'
    r"|(?P<number>-?\d[\d.eE+-]*)|(?P<word>\b(?:true|false|null)\b)|(?P<open>[\[{])|(?P<close>[\]}])"
)
_TONES = {"key": "accent", "text": "text", "number": "text", "word": "text2"}
_HIGHLIGHTED_LINE = 20_000
_MAX_COMPACT_LINES = 12


class _JsonHighlighter(QSyntaxHighlighter):
    """Keys in accent, words muted; expressions in accent as well, because a batch fills them in."""

    def __init__(self, document: QTextDocument, owner: QWidget) -> None:
        super().__init__(document)
        self._owner = owner
        self.masked: frozenset[str] = frozenset()

    def highlightBlock(self, text: str) -> None:
        """Colour one line; JSON strings never span lines, but a masked list or object may.

        The state of a line is how deep its end lies in such a one.
        """
        depth = max(0, self.previousBlockState())
        if len(text) > _HIGHLIGHTED_LINE:
            self.setCurrentBlockState(depth)
            return
        key = ""
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or "text"
            if kind == "open":
                depth += 1 if depth or key in self.masked else 0
            elif kind == "close":
                depth = max(0, depth - 1)
                key = ""
            else:
                if kind == "key":
                    key = match[0]
                hidden = depth > 0 or (kind != "key" and key in self.masked)
                self.setFormat(match.start(), match.end() - match.start(), self._style(kind, hidden))
        self.setCurrentBlockState(depth)

    def _style(self, kind: str, hidden: bool) -> QTextCharFormat:
        theme, style = theme_of(self._owner), QTextCharFormat()
        # Hidden letters stay, so that the text is what is sent; they cannot be read on the screen.
        style.setForeground(theme.color("border2" if hidden else _TONES[kind]))
        if hidden:
            style.setBackground(theme.color("border2"))
        return style


class _Gutter(QWidget):
    """The line numbers; the line of a problem stands out."""

    def __init__(self, editor: JsonEdit) -> None:
        super().__init__(editor)
        self._editor = editor

    def sizeHint(self) -> QSize:
        """As wide as the numbers need."""
        return QSize(self._editor.gutter_width, 0)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the numbers that are seen."""
        self._editor.paint_gutter(self)


class JsonEdit(RedoKey):
    """JSON text. `value` is what it says while it is valid, and what it said last while it is not.

    Tab moves on when the editor is `compact` (one field of a form); else it indents by two spaces.

    Signals:
        edited: the operator typed; `problem` is up to date.
        value_edited: what was typed is valid and says something else than before.
        validity_changed: `problem` is another one.
        left: the focus went away.
    """

    edited = Signal()
    value_edited = Signal()
    validity_changed = Signal()
    left = Signal()

    def __init__(self, compact: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._compact = compact
        self._silent = False
        self.value: Any = UNSET
        self.problem: JsonProblem | None = None
        self.setAccessibleName("JSON")
        self.setFont(theme_of(self).font("mono_small"))
        self.setProperty("input", compact)
        self.setTabChangesFocus(compact)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._gutter = _Gutter(self)
        self._gutter.setVisible(not compact)
        self._colours = _JsonHighlighter(self.document(), self)
        self.blockCountChanged.connect(self._place_gutter)
        self.updateRequest.connect(self._scroll_gutter)
        self.textChanged.connect(self._changed)
        if compact:
            self.document().setDocumentMargin(2)
            self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
            self.document().documentLayout().documentSizeChanged.connect(self._fit)
            self._fit()
        self._place_gutter()

    def text(self) -> str:
        """The text exactly."""
        return self.document().toRawText().replace("\u2029", "\n")

    def set_text(self, text: str) -> None:
        """Show a text without `edited` and `value_edited`; undo can bring the earlier one back."""
        if text == self.text():
            return
        self._silent = True
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
        self._silent = False

    def read(self, text: str) -> Any:
        """What a text that is not empty says; editors of other notations read theirs.

        Raises:
            NotJson: the text cannot be read.
        """
        return parse_json(text)

    def write(self, value: Any) -> str:
        """A value as text that `read` reads back to the same."""
        return json_text(value)

    def show_value(self, value: Any) -> None:
        """Show a value, unless the text already says just that: then cursor and layout are left alone."""
        if self.problem is None and same_json(self.value, value):
            return
        place = self.textCursor().position()
        self.set_text("" if value is UNSET else self.write(value))
        cursor = self.textCursor()
        cursor.setPosition(min(place, max(0, self.document().characterCount() - 1)))
        self.setTextCursor(cursor)

    def mask_values(self, names: Iterable[str]) -> None:
        """Draw the values of these names as flat blocks: secrets."""
        masked = frozenset(json.dumps(name, ensure_ascii=False) for name in names)
        if masked != self._colours.masked:
            self._colours.masked = masked
            self._colours.rehighlight()

    def _changed(self) -> None:
        before, before_problem = self.value, self.problem
        text = self.text()
        try:
            self.value, self.problem = (self.read(text) if text.strip() else UNSET), None
        except NotJson as error:
            self.problem = error.problem
        if self.problem != before_problem:
            self._gutter.update()
            self.validity_changed.emit()
        if self._silent:
            return
        self.edited.emit()
        if self.problem is None and not same_json(before, self.value):
            self.value_edited.emit()

    def go_to_problem(self) -> None:
        """Put the cursor where the text stops being JSON."""
        if self.problem is None:
            return
        block = self.document().findBlockByNumber(self.problem.line - 1)
        cursor = QTextCursor(block)
        cursor.setPosition(block.position() + min(self.problem.column - 1, max(0, block.length() - 1)))
        self.setTextCursor(cursor)
        self.setFocus(Qt.FocusReason.ShortcutFocusReason)

    @property
    def gutter_width(self) -> int:
        """Room for the line numbers, in logical px."""
        if self._compact:
            return 0
        digits = max(2, len(str(self.blockCount())))
        return round(QFontMetricsF(self.font()).horizontalAdvance("9") * digits) + 16

    def _place_gutter(self) -> None:
        self.setViewportMargins(self.gutter_width, 0, 0 if self._compact else 16, 0)
        inside = self.contentsRect()
        self._gutter.setGeometry(QRect(inside.left(), inside.top(), self.gutter_width, inside.height()))

    def _scroll_gutter(self, rect: QRect, dy: int) -> None:
        self._gutter.update() if dy or rect.height() < 0 else self._gutter.update(
            0, rect.y(), 999, rect.height()
        )

    def paint_gutter(self, gutter: QWidget) -> None:
        """Draw the numbers of the lines that are seen into the gutter."""
        theme = theme_of(self)
        painter = QPainter(gutter)
        painter.fillRect(gutter.rect(), theme.color("sunken"))
        block = self.firstVisibleBlock()
        line_height = QFontMetricsF(self.font()).lineSpacing()
        while block.isValid():
            top = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
            if top > gutter.height():
                break
            number = block.blockNumber() + 1
            wrong = self.problem is not None and self.problem.line == number
            room = QRectF(0, top, self.gutter_width - 8, line_height)
            align = Qt.AlignmentFlag.AlignRight
            tone = "fail" if wrong else "text3"
            painting.text(painter, room, str(number), theme, "mono_hint", tone, align=align)
            block = block.next()
        painter.end()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Mark soft wraps at the right edge, so that a broken line is not taken for two."""
        super().paintEvent(event)
        if self._compact:
            return
        theme = theme_of(self)
        painter = QPainter(self.viewport())
        block = self.firstVisibleBlock()
        while block.isValid():
            place = self.blockBoundingGeometry(block).translated(self.contentOffset())
            if place.top() > self.viewport().height():
                break
            layout = block.layout()
            for at in range(layout.lineCount() - 1):
                line = layout.lineAt(at)
                room = QRectF(self.viewport().width() - 12, place.top() + line.y(), 12, line.height())
                painting.text(painter, room, "↵", theme, "hint", "text3")
            block = block.next()
        painter.end()

    def _fit(self) -> None:
        lines = min(_MAX_COMPACT_LINES, max(2, round(self.document().size().height())))
        self.setFixedHeight(round(lines * QFontMetricsF(self.font()).lineSpacing()) + 10)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the gutter beside the text."""
        super().resizeEvent(event)
        self._place_gutter()

    def changeEvent(self, event: QEvent) -> None:
        """Colour the text again for another theme."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "_colours"):
            self._colours.rehighlight()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Inside a form, leave the wheel to the form unless this text has the focus."""
        if self._compact and not self.hasFocus():
            event.ignore()
        else:
            super().wheelEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter keeps the indentation; Tab indents by two spaces where it does not move on."""
        if event.key() == Qt.Key.Key_Tab and not self._compact:
            self.textCursor().insertText("  ")
            return
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if is_enter and modifiers not in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ShiftModifier):
            event.ignore()
            return
        if is_enter:
            self._new_line()
            return
        super().keyPressEvent(event)

    def _new_line(self) -> None:
        cursor = self.textCursor()
        line = cursor.block().text()[: cursor.positionInBlock()]
        indent = len(line) - len(line.lstrip(" ")) + (2 if line.rstrip().endswith(("{", "[")) else 0)
        cursor.insertText("\n" + " " * indent)
        self.ensureCursorVisible()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Tell that the field was left; a menu that opens does not count."""
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.left.emit()
