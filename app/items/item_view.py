"""What every list, table, matrix and wall of the window does alike, and what their delegates draw alike.

A view names `ItemView` before Qt's class: `class RunListView(ItemView, QListView)`. It follows the pointer
with the hovered row, keeps the ring of the keyboard's cursor, greys its marked rows while the keyboard is
elsewhere, leaves letters to the actions of its screen, measures its rows again when the density changes, and
knows what a menu is wanted for. One in which something turns takes `AnimatedItemView` instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import QEvent, QItemSelectionModel, QModelIndex, QPoint, QRect, Qt
from PySide6.QtGui import (
    QContextMenuEvent,
    QEnterEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QListView, QStyledItemDelegate, QTableView, QWidget

from app.theme.theme import Theme
from app.widgets.animation_timer import animation_timer_of

if TYPE_CHECKING:
    _View = QAbstractItemView
else:
    _View = object

ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_BY_KEYBOARD = (
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
    Qt.FocusReason.ShortcutFocusReason,
)


class MenuPlace(NamedTuple):
    """A cell that a menu is wanted for; its column, -1 by key; a point of the screen."""

    cell: QModelIndex
    column: int
    point: QPoint


class ItemView(_View):
    """Mixed into one of Qt's item views."""

    # Of the class: Qt calls some of the methods below before a view's own constructor has ended.
    _hovered = -1
    _ring = False

    def __init__(self, name: str, parent: QWidget | None = None, multiple: bool = False) -> None:
        """`name` is what the view lists, for assistive technology."""
        super().__init__(parent)
        mode = QAbstractItemView.SelectionMode
        self.setAccessibleName(name)
        self.setMouseTracking(True)
        self.setSelectionMode(mode.ExtendedSelection if multiple else mode.SingleSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        if isinstance(self, QListView):
            self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
            self.setResizeMode(QListView.ResizeMode.Adjust)
        elif isinstance(self, QTableView):
            self.setShowGrid(False)
            self.setWordWrap(False)
            self.setTabKeyNavigation(False)
            self.setCornerButtonEnabled(False)

    # what delegates ask

    def hovered_row(self) -> int:
        """The row under the pointer; -1 when it is elsewhere."""
        return self._hovered

    def shows_ring(self) -> bool:
        """Whether the keyboard brought the focus here, so that its cursor needs a ring."""
        return self._ring and self.hasFocus()

    def row_fill(self, marked: bool, row: int) -> str:
        """The token behind a row; empty for one that is neither marked nor under the pointer."""
        if marked:
            return "selected" if self.hasFocus() else "sel_idle"
        return "hover" if row == self.hovered_row() else ""

    # what views may do otherwise

    def row_under(self, at: QPoint) -> int:
        """The row at a point of the viewport; -1 for none."""
        return self.indexAt(at).row()

    def hover_changed(self) -> None:
        """The pointer is over another row, or over none."""

    def measure(self) -> None:
        """Take the heights of the new density."""
        self.scheduleDelayedItemsLayout()

    # what all do

    def rows_in_sight(self) -> range:
        """The rows that can be seen, the ones cut at the edges included."""
        left = self.viewport().rect().topLeft()
        top, bottom = self.row_under(left), self.row_under(QPoint(left.x(), self.viewport().height() - 1))
        last = bottom if bottom >= 0 else self.model().rowCount() - 1
        return range(max(0, top), last + 1)

    def viewportEvent(self, event: QEvent) -> bool:
        """Follow the pointer; while a button is down it marks or drags, and hovers over nothing new."""
        if event.type() == QEvent.Type.Leave:
            self._hover(-1)
        elif isinstance(event, QMouseEvent | QEnterEvent) and not event.buttons():
            self._hover(self.row_under(event.position().toPoint()))
        return super().viewportEvent(event)

    def _hover(self, row: int) -> None:
        before = self._hovered
        if row == before:
            return
        self._hovered = row
        for one in (before, row):
            if one >= 0:
                self._repaint_row(one)
        self.hover_changed()

    def _repaint_row(self, row: int) -> None:
        rect = self.visualRect(self.model().index(row, 0))
        self.viewport().update(QRect(0, rect.y(), self.viewport().width(), rect.height()))

    def menu_place(self, event: QContextMenuEvent) -> MenuPlace | None:
        """What a menu is wanted for: at the pointer, or by key at the cursor; None where there is nothing.

        What is under the pointer and not marked is marked first.
        """
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        if not index.isValid():
            return None
        if not self.selectionModel().isSelected(index):
            flags = QItemSelectionModel.SelectionFlag
            self.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        if by_key:
            self.scrollTo(index)
        at = self.visualRect(index).center() if by_key else event.pos()
        return MenuPlace(index, -1 if by_key else index.column(), self.viewport().mapToGlobal(at))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Letters are keys of the screen, never a search in the rows."""
        if event.text() and event.text().isprintable():
            event.ignore()
            return
        super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A pointer needs no ring."""
        self._ring = False
        super().mousePressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Colour the marked rows, and show where the cursor is when the focus came by keyboard."""
        super().focusInEvent(event)
        self._ring = event.reason() in _BY_KEYBOARD
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Marked rows go grey."""
        super().focusOutEvent(event)
        self.viewport().update()

    def changeEvent(self, event: QEvent) -> None:
        """Measure again when colours or density change."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.measure()


class AnimatedItemView(ItemView):
    """A view with rings that turn while they are in sight."""

    def __init__(self, name: str, parent: QWidget | None = None, multiple: bool = False) -> None:
        super().__init__(name, parent, multiple)
        self._pulse = animation_timer_of(self)

    def turning(self) -> Iterator[QModelIndex]:
        """The cells in sight in which something turns."""
        raise NotImplementedError

    def turn(self) -> int:
        """How far rings have turned."""
        return self._pulse.step

    def still_turns(self) -> bool:
        """Asked by the shared timer."""
        return self.isVisible() and any(True for _ in self.turning())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the rows; keep rings turning."""
        super().paintEvent(event)
        if not self._pulse.running and any(True for _ in self.turning()):
            self._pulse.keep_turning(self)

    def update(self, *args: object) -> None:
        """The shared timer asks for a repaint: of the cells in which something turns."""
        if args:
            super().update(*args)
            return
        for index in self.turning():
            super().update(index)


class ItemDelegate(QStyledItemDelegate):
    """Draws rows of an `ItemView`; a subclass says which, by its own annotation of `_view`."""

    def __init__(self, view: ItemView) -> None:
        super().__init__(view)
        self._view = view

    def paint_card_back(self, painter: QPainter, rect: QRect, row: int, theme: Theme) -> None:
        """Draw ground, line below and, of the row under the cursor, the bar at the edge to its details."""
        current = self._view.currentIndex().row() == row
        painter.fillRect(rect, theme.color(self._view.row_fill(current, row) or "base"))
        painter.fillRect(rect.x(), rect.bottom(), rect.width(), 1, theme.color("border"))
        if current:
            painter.fillRect(rect.right() - 1, rect.y(), 2, rect.height() - 1, theme.color("accent"))
