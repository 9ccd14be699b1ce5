"""The list below a filter or query that completes it: names of fields, or values with their counts."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPoint, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from app.text import count_words, one_line
from app.theme.theme import theme_of
from app.widgets import painting

ROW = 26
LEAST_WIDTH, MOST_WIDTH = 236, 460
MOST_ROWS = 12
_NOTE = Qt.ItemDataRole.UserRole + 1
_CHOICE = Qt.ItemDataRole.UserRole


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One line: what is put in, and what is known about it."""

    choice: str
    note: str = ""

    @classmethod
    def counted(cls, value: str, count: int) -> Suggestion:
        """A value that so many entries have."""
        return cls(value, count_words(count))


class _RowPainter(QStyledItemDelegate):
    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        return QSize(100, ROW)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        theme = theme_of()
        rect = QRectF(option.rect)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(rect, theme.color("selected"))
        elif option.state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(rect, theme.color("hover"))
        room = rect.adjusted(10, 0, -10, 0)
        note = str(index.data(_NOTE))
        taken = painting.text_width(note, theme, "body")
        painting.text(painter, room, note, theme, "body", "text3", Qt.AlignmentFlag.AlignRight)
        words = room.adjusted(0, 0, -taken - 12, 0)
        middle = Qt.TextElideMode.ElideMiddle
        painting.text(painter, words, str(index.data()), theme, "mono_small", "text", elide=middle)


class CompletionPopup(QFrame):
    """A list that never takes the focus; the field moves through it.

    Signals:
        picked: the operator chose this one.
    """

    picked = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("suggestions")
        theme = theme_of(self)
        self._model = QStandardItemModel(self)
        self.view = QListView()
        self.view.setModel(self._model)
        self.view.setItemDelegate(_RowPainter(self.view))
        self.view.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.view.setMouseTracking(True)
        self.view.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.view.setAccessibleName("Suggestions")
        self.view.clicked.connect(lambda index: self.picked.emit(str(index.data(_CHOICE))))
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 5, 1, 5)
        column.addWidget(self.view)
        self.setAccessibleName("Suggestions")
        self.moved = False
        self._dress()
        theme.changed.connect(self._dress)
        self.hide()

    def _dress(self) -> None:
        theme = theme_of(self)
        raised, border = theme.color("raised").name(), theme.color("border2").name()
        self.setStyleSheet(
            f"#suggestions {{ background: {raised}; border: 1px solid {border}; border-radius: 6px; }}"
            f"QListView {{ background: {raised}; }}"
        )

    def offer(self, suggestions: list[Suggestion], at: QPoint) -> None:
        """Show these, with the upper left corner at `at` (in the parent); nothing hides the list."""
        kept = self.current() if self.isVisible() and self.moved else ""
        self.moved = bool(kept)
        self._model.clear()
        for one in suggestions[:MOST_ROWS]:
            item = QStandardItem(one_line(one.choice))
            item.setData(one.choice, _CHOICE)
            item.setData(one.note, _NOTE)
            item.setAccessibleText(
                f"{one_line(one.choice)}, {one.note}" if one.note else one_line(one.choice)
            )
            self._model.appendRow(item)
        if not self._model.rowCount():
            self.hide()
            return
        theme = theme_of(self)
        widest = max(
            painting.text_width(one.choice, theme, "mono_small") + painting.text_width(one.note, theme)
            for one in suggestions[:MOST_ROWS]
        )
        width = min(MOST_WIDTH, max(LEAST_WIDTH, round(widest) + 56))
        height = self._model.rowCount() * ROW + 12
        left = min(at.x(), self.window().width() - width - 8)
        self.setGeometry(left, at.y(), width, height)
        self._choose(next((n for n, one in enumerate(suggestions[:MOST_ROWS]) if one.choice == kept), 0))
        self.show()
        self.raise_()

    def _choose(self, row: int) -> None:
        self.view.setCurrentIndex(self._model.index(row, 0))

    def step(self, by: int) -> None:
        """Move the choice."""
        count = self._model.rowCount()
        if count:
            self.moved = True
            self._choose((self.view.currentIndex().row() + by) % count)

    def current(self) -> str:
        """The chosen one; empty when none is."""
        index = self.view.currentIndex()
        return str(index.data(_CHOICE)) if index.isValid() else ""

    def choices(self) -> list[str]:
        """All that are offered."""
        return [str(self._model.index(row, 0).data(_CHOICE)) for row in range(self._model.rowCount())]
