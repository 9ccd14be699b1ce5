"""A JSON value as a tree to read: folded texts, counts, search, and copying of paths and values."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QAction,
    QContextMenuEvent,
    QFontMetricsF,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QLineEdit,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTreeView,
    QWidget,
)

from app.theme.shapes import paint_glyph
from app.theme.theme import Theme, theme_of
from app.widgets import painting
from app.widgets.json_model import NODE_ROLE, JsonModel, JsonNode
from core.schema_forms.json_values import Path, json_text

Index = QModelIndex | QPersistentModelIndex
INDENT = 14
_CHEVRON = 13
_FOLDED_LINES = 3
_MOST_LINES = 400
_LEAST_COLUMNS = 12


def fold(text: str, columns: int, most: int) -> tuple[list[str], int]:
    """Wrap a text at `columns`; gives at most `most` lines, and how many characters come after them."""
    lines: list[str] = []
    start = 0
    while start <= len(text) and len(lines) < most:
        end = text.find("\n", start, start + columns + 1)
        if end >= 0:
            lines.append(text[start:end])
            start = end + 1
            continue
        lines.append(text[start : start + columns])
        start += columns
        if start >= len(text):
            return lines, 0
    return lines, max(0, len(text) - start)


def size_words(count: int) -> str:
    """A number of bytes in words: `40 bytes`, `1.2 kB`, `3.4 MB`."""
    if count < 1_000:
        return f"{count} bytes"
    return f"{count / 1_000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


class _RowPainter(QStyledItemDelegate):
    """Draws name, value, count and what was folded away."""

    def __init__(self, view: JsonView) -> None:
        super().__init__(view)
        self._view = view

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """As high as the lines that are shown."""
        row = theme_of(self._view).metrics.tree_row
        node: JsonNode = index.data(NODE_ROLE)
        if not isinstance(node.value, str):
            return QSize(100, row)
        lines, rest = self._view.lines_of(node)
        return QSize(100, row * max(1, len(lines) + (rest > 0)))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one row."""
        theme = theme_of(self._view)
        node: JsonNode = index.data(NODE_ROLE)
        rect: QRect = option.rect
        height = theme.metrics.tree_row
        first = QRectF(rect.x() + 2, rect.y(), rect.width() - 2, height)
        painter.save()
        if fill := self._background(option):
            painter.fillRect(rect, theme.color(fill))
        x = first.x()
        if node.label:
            tone = "accent" if isinstance(node.key, str) else "text3"
            label = node.label if node.is_group else f"{node.label}:"
            x += painting.text(painter, first, label, theme, "mono_small", tone)
            x += self._view.char_width
        room = QRectF(x, first.y(), first.right() - x, height)
        if not isinstance(node.value, str):
            words, tone = (node.text, "text") if not node.count else (node.count, "text3")
            painting.text(painter, room, words, theme, "mono_small", tone)
        else:
            self._paint_text(painter, room, node, theme)
        painter.restore()

    def _background(self, option: QStyleOptionViewItem) -> str:
        state: QStyle.StateFlag = option.state
        if state & QStyle.StateFlag.State_Selected:
            return "selected" if self._view.hasFocus() else "sel_idle"
        return "hover" if state & QStyle.StateFlag.State_MouseOver else ""

    def _paint_text(self, painter: QPainter, room: QRectF, node: JsonNode, theme: Theme) -> None:
        lines, rest = self._view.lines_of(node)
        for line in lines:
            painting.text(painter, room, line, theme, "mono_small", "text")
            room.translate(0, room.height())
        if rest:
            more = f"{size_words(rest)} more"
            painting.text(painter, room, more, theme, "meta_strong", "accent")


class JsonView(QTreeView):
    """Shows any JSON value. Nodes are made as they are opened, so size does not matter.

    Arrow keys walk and open, Enter opens or unfolds, Ctrl+C copies the value, Ctrl+Shift+C its path,
    Ctrl+F searches, F3 and Shift+F3 go through what was found.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        # Before all else: the view watches its own parts, and asks from the first on.
        self._find = QLineEdit(self)
        self._model = JsonModel(self)
        self._found: list[Path] = []
        self._at = -1
        self.setModel(self._model)
        self.setItemDelegate(_RowPainter(self))
        self.setHeaderHidden(True)
        self.setIndentation(INDENT)
        self.setFont(theme_of(self).font("mono_small"))
        self.setAccessibleName("JSON")
        # Rows differ in height; only with whole-row scrolling does Qt measure just those that are seen.
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setExpandsOnDoubleClick(True)
        self.char_width = QFontMetricsF(self.font()).horizontalAdvance("0")
        self._find.setPlaceholderText("Find in this value")
        self._find.setAccessibleName("Find in this value")
        self._find.hide()
        self._find.textChanged.connect(self._search_typed)
        self._find.installEventFilter(self)
        self._make_actions()

    def _make_actions(self) -> None:
        self._actions: list[QAction] = []
        for words, keys, act in (
            ("Copy value", QKeySequence(QKeySequence.StandardKey.Copy), self.copy_value),
            ("Copy path", QKeySequence("Ctrl+Shift+C"), self.copy_path),
            ("Find…", QKeySequence(QKeySequence.StandardKey.Find), self.show_find),
        ):
            action = QAction(words, self)
            action.setShortcut(keys)
            action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            action.triggered.connect(act)
            self.addAction(action)
            self._actions.append(action)

    @property
    def value(self) -> Any:
        """The value on show."""
        return self._model.value

    def json_model(self) -> JsonModel:
        """The model, to find indexes and paths in."""
        return self._model

    def set_value(self, value: Any) -> None:
        """Show another value; small objects and lists at the top are open."""
        self._found, self._at = [], -1
        self._model.set_value(value)
        for row in range(min(50, self._model.rowCount())):
            index = self._model.index(row, 0)
            if 0 < self._model.rowCount(index) <= 8 and not self._model.node(index).count.endswith(
                "pictures]"
            ):
                self.expand(index)

    def lines_of(self, node: JsonNode) -> tuple[list[str], int]:
        """The lines of a text that are shown, and how many bytes are folded away."""
        depth = len(node.path)
        used = depth * INDENT + (len(node.label) + 2) * self.char_width + 16
        columns = max(_LEAST_COLUMNS, int((self.viewport().width() - used) / self.char_width))
        most = _MOST_LINES if node.is_whole else _FOLDED_LINES
        text = node.text
        lines, rest = fold(text, columns, most)
        return lines, len(text[len(text) - rest :].encode("utf-8", "replace")) if rest else 0

    def drawBranches(self, painter: QPainter, rect: QRect, index: Index) -> None:
        """Draw the chevron of rows that open."""
        if not self._model.hasChildren(index):
            return
        theme = theme_of(self)
        height = theme.metrics.tree_row
        name = "chevron_down" if self.isExpanded(index) else "chevron_right"
        place = QRectF(rect.right() - _CHEVRON, rect.y() + (height - _CHEVRON) / 2, _CHEVRON, _CHEVRON)
        paint_glyph(painter, place, name, theme.color("text2"))

    def toggle(self, index: Index) -> None:
        """Open or close a row; fold or unfold a long text."""
        node = self._model.node(index)
        if self._model.hasChildren(index):
            self.setExpanded(index, not self.isExpanded(index))
        elif isinstance(node.value, str) and (node.is_whole or self.lines_of(node)[1]):
            node.is_whole = not node.is_whole
            self.scheduleDelayedItemsLayout()

    def event(self, event: QEvent) -> bool:
        """Take Ctrl+F, and Escape in the search line, before the window does with meanings of its own."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            closes = event.key() == Qt.Key.Key_Escape and self._find.hasFocus()
            if closes or event.matches(QKeySequence.StandardKey.Find):
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter toggles; Ctrl+F searches, F3 goes on."""
        if event.matches(QKeySequence.StandardKey.Find):
            self.show_find()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.toggle(self.currentIndex())
        elif event.key() == Qt.Key.Key_F3:
            back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.find_next(-1 if back else 1)
        else:
            super().keyPressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Unfold a text when "… more" is clicked."""
        super().mouseReleaseEvent(event)
        index = self.indexAt(event.position().toPoint())
        if not index.isValid() or event.button() != Qt.MouseButton.LeftButton:
            return
        node = self._model.node(index)
        row = theme_of(self).metrics.tree_row
        below = self.visualRect(index).bottom() - event.position().y()
        if isinstance(node.value, str) and not node.is_whole and below <= row and self.lines_of(node)[1]:
            self.toggle(index)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Offer copying, folding, and opening of everything below."""
        menu = QMenu(self)
        menu.addActions(self._actions)
        index = self.currentIndex()
        if self._model.hasChildren(index):
            menu.addSeparator()
            menu.addAction("Open all below", lambda: self.expandRecursively(index, 4))
        menu.exec(event.globalPos())
        menu.deleteLater()

    def copy_value(self) -> None:
        """Put the current value on the clipboard: text as it is, everything else as JSON."""
        index = self.currentIndex()
        if index.isValid():
            value = self._model.node(index).value
            QGuiApplication.clipboard().setText(value if isinstance(value, str) else json_text(value))

    def copy_path(self) -> None:
        """Put the current value's path on the clipboard, as expressions write it."""
        index = self.currentIndex()
        if index.isValid():
            QGuiApplication.clipboard().setText(self._model.path_words(index))

    def search(self, text: str) -> int:
        """Find names and values that hold `text`, and go to the first; gives how many there are."""
        self._found, self._at = self._model.find(text), -1
        if self._found:
            self.find_next(1)
        return len(self._found)

    def find_next(self, step: int = 1) -> None:
        """Go to the next thing found, or the one before with -1; around at the ends."""
        if not self._found:
            return
        self._at = (self._at + step) % len(self._found)
        index = self._model.index_of(self._found[self._at])
        above = self._model.parent(index)
        while above.isValid():
            self.expand(above)
            above = self._model.parent(above)
        self.setCurrentIndex(index)
        self.scrollTo(index)

    def show_find(self) -> None:
        """Open the line to search in, at the bottom."""
        self._find.show()
        self._place_find()
        self._find.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._find.selectAll()

    def _search_typed(self, text: str) -> None:
        count = self.search(text)
        self._find.setAccessibleDescription(f"{count} found")
        self._find.setProperty("state", "fail" if text and not count else "")
        self._find.style().unpolish(self._find)
        self._find.style().polish(self._find)

    def eventFilter(self, watched: Any, event: Any) -> bool:
        """In the search line: Enter and F3 go on, Escape closes."""
        if (
            watched is not self._find
            or not isinstance(event, QKeyEvent)
            or event.type() != event.Type.KeyPress
        ):
            return bool(super().eventFilter(watched, event))
        if event.key() == Qt.Key.Key_Escape:
            self._find.hide()
            self._place_find()
            self.setFocus(Qt.FocusReason.OtherFocusReason)
            return True
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_F3):
            back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.find_next(-1 if back else 1)
            return True
        return False

    def _place_find(self) -> None:
        height = 0 if self._find.isHidden() else theme_of(self).metrics.control
        self.setViewportMargins(0, 0, 0, height)
        inside = self.contentsRect()
        self._find.setGeometry(inside.x(), inside.bottom() + 1 - height, inside.width(), height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Wrap texts for the new width."""
        super().resizeEvent(event)
        self._place_find()
        if event.oldSize().width() != event.size().width():
            self.scheduleDelayedItemsLayout()
