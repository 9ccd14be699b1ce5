"""A wall of tiles in groups: one view with one paint, however many tiles there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import (
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPoint,
    QRect,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QImage,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QRegion,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QWidget

from app.items.item_view import ENTER, ItemView
from app.items.keyed_model import Index, KeyedModel
from app.items.tile_cache import TileCache, paint_head, paint_mark, paint_ring
from app.items.tile_layout import LEAST, MOST, STEP, USUAL, TileGroup, TileLayout
from app.items.tile_painter import TileItem
from app.theme.theme import Theme, theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.labels import escaped_tooltip

Flag = QItemSelectionModel.SelectionFlag
Action = QAbstractItemView.CursorAction


class TileModel(KeyedModel[str]):
    """One row a tile. `tile_of` makes a tile of a key, None when there is none any more."""

    def __init__(self, tile_of: Callable[[str], TileItem | None], parent: QObject | None = None) -> None:
        def spoken(key: str) -> str:
            tile = tile_of(key)
            return tile.spoken if tile is not None else key

        super().__init__(
            str,
            {
                Qt.ItemDataRole.DisplayRole: str,
                Qt.ItemDataRole.AccessibleTextRole: spoken,
                Qt.ItemDataRole.ToolTipRole: lambda key: escaped_tooltip(spoken(key)),
            },
            parent,
        )
        self.groups: tuple[TileGroup, ...] = ()

    def set_groups(self, groups: Sequence[TileGroup]) -> None:
        """Take other keys; the view restores its cursor after the reset."""
        self.groups = tuple(groups)
        self.reset(key for group in groups for key in group.keys)

    def key_at(self, row: int) -> str:
        """The key of a row; empty outside."""
        return self.item(row) or ""


class TileView(ItemView, QAbstractItemView):
    """Tiles under heads; arrows move through them across the heads.

    Signals:
        current_changed(key): the tile under the cursor is another one.
        opened(key): Enter or a double click.
        mark_asked(key): Space: mark this tile, or take its mark away.
        marked_changed: other tiles are chosen.
        size_changed(px): another size of tile was chosen by key or wheel.
        copy_asked: Ctrl+C: copy the chosen tiles.
        menu_asked(column, point): the menu of the chosen tiles is wanted at a point of the screen.
    """

    current_changed = Signal(str)
    opened = Signal(str)
    mark_asked = Signal(str)
    marked_changed = Signal()
    size_changed = Signal(int)
    copy_asked = Signal()
    menu_asked = Signal(int, object)

    def __init__(
        self,
        name: str,
        tile_of: Callable[[str], TileItem | None],
        picture_of: Callable[[str, int], QImage | None],
        parent: QWidget | None = None,
    ) -> None:
        """`picture_of(picture, px)` gives an image at least so wide, or None while it has not come."""
        # Qt asks for places before its own constructor has ended.
        self.wall_model = TileModel(tile_of)
        self._tile_of = tile_of
        self._tiles = TileCache(picture_of)
        self._size, self._heads = USUAL, True
        self._closed: frozenset[str] = frozenset()
        self._marks: frozenset[str] = frozenset()
        self.tile_layout = TileLayout((), frozenset(), 1, USUAL, True)
        super().__init__(name, parent, multiple=True)
        self.wall_model.setParent(self)
        self.painted_keys: list[str] = []
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setModel(self.wall_model)
        self.selectionModel().currentChanged.connect(self._current_moved)
        self.selectionModel().selectionChanged.connect(lambda *_: self.marked_changed.emit())
        self.doubleClicked.connect(lambda index: self.opened.emit(self.wall_model.key_at(index.row())))

    # what screens ask

    def show_groups(self, groups: Sequence[TileGroup], heads: bool = True) -> None:
        """Show these tiles; cursor, choice and scroll position stay where their tiles are still here."""
        if tuple(groups) == self.wall_model.groups and heads == self._heads:
            self.viewport().update()
            return
        self._heads = heads
        current, marked = self.current_key(), self.marked_keys()
        scrolled = self.verticalScrollBar().value()
        self.wall_model.set_groups(groups)
        self._lay_out()
        self.verticalScrollBar().setValue(scrolled)
        if (index := self.wall_model.index_of(current)).isValid():
            self.selectionModel().setCurrentIndex(index, Flag.ClearAndSelect)
            for key in marked:
                self.selectionModel().select(self.wall_model.index_of(key), Flag.Select)

    def set_marks(self, keys: frozenset[str]) -> None:
        """The tiles that carry a mark."""
        if keys != self._marks:
            self._marks = keys
            self.viewport().update()

    def current_key(self) -> str:
        """The key of the tile under the cursor; empty when there is none."""
        return self.wall_model.key_at(self.currentIndex().row())

    def marked_keys(self) -> list[str]:
        """The keys of the chosen tiles in their order."""
        rows = sorted(index.row() for index in self.selectionModel().selectedIndexes())
        return [self.wall_model.key_at(row) for row in rows]

    def seen_keys(self) -> list[str]:
        """The keys of the tiles in sight, in their order; none while the wall is not shown."""
        if not self.isVisible():
            return []
        sight = self.viewport().rect().translated(0, self.verticalOffset())
        return [self.wall_model.key_at(number) for number in self.tile_layout.touching(sight)]

    def choose(self, key: str) -> bool:
        """Move the cursor to a tile; False when it is not here."""
        index = self.wall_model.index_of(key)
        if not index.isValid():
            return False
        self.selectionModel().setCurrentIndex(index, Flag.ClearAndSelect)
        self.scrollTo(index)
        return True

    @property
    def tile_size(self) -> int:
        """The least width of a tile in logical px."""
        return self._size

    def set_tile_size(self, px: int) -> None:
        """Choose another size, without `size_changed`."""
        px = max(LEAST, min(MOST, px))
        if px != self._size:
            self._size = px
            self._tiles.clear()
            self._lay_out()
            if self.currentIndex().isValid():
                self.scrollTo(self.currentIndex())

    def toggle_group(self, name: str = "") -> None:
        """Close or open a group; without a name that of the current tile."""
        if not name and self.currentIndex().isValid() and self.tile_layout.placed:
            name = self.tile_layout.group_of(self.currentIndex().row()).group.name
        if name and self._heads:
            self._closed = self._closed ^ {name}
            self._lay_out()

    @property
    def closed_groups(self) -> frozenset[str]:
        """The names of closed groups."""
        return self._closed

    # geometry, as QAbstractItemView asks for it

    def _lay_out(self) -> None:
        self.tile_layout = self._new_layout()
        self.updateGeometries()
        self.viewport().update()

    def updateGeometries(self) -> None:
        """Give the scroll bar the wall's height."""
        if self.tile_layout.width != self.viewport().width():
            self.tile_layout = self._new_layout()
        bar = self.verticalScrollBar()
        bar.setRange(0, max(0, self.tile_layout.height - self.viewport().height()))
        bar.setPageStep(self.viewport().height())
        bar.setSingleStep(max(1, self.tile_layout.tile_height // 3))
        super().updateGeometries()

    def _new_layout(self) -> TileLayout:
        width = self.viewport().width()
        return TileLayout(self.wall_model.groups, self._closed, width, self._size, self._heads)

    def visualRect(self, index: Index) -> QRect:
        """Where a tile is in the viewport."""
        if not index.isValid():
            return QRect()
        return self.tile_layout.rect(index.row()).translated(0, -self.verticalOffset())

    def scrollTo(
        self, index: Index, hint: QAbstractItemView.ScrollHint = QAbstractItemView.ScrollHint.EnsureVisible
    ) -> None:
        """Bring a tile into sight, with its group's head where it is the first row."""
        rect = self.tile_layout.rect(index.row())
        if rect.isNull():
            return
        bar, height = self.verticalScrollBar(), self.viewport().height()
        if rect.top() - 40 < bar.value():
            bar.setValue(rect.top() - 40)
        elif rect.bottom() + 12 > bar.value() + height:
            bar.setValue(rect.bottom() + 12 - height)

    def indexAt(self, point: QPoint) -> QModelIndex:
        """The tile at a point of the viewport."""
        number = self.tile_layout.at(point.x(), point.y() + self.verticalOffset())
        return self.wall_model.index(number, 0) if number >= 0 else QModelIndex()

    def moveCursor(self, action: Action, modifiers: Qt.KeyboardModifier) -> QModelIndex:
        """Where an arrow leads: across heads, past closed groups."""
        at, count = self.currentIndex().row(), self.wall_model.rowCount()
        if not count or at < 0:
            return self.wall_model.index(0, 0)
        to = at
        page = max(1, self.viewport().height() // max(1, self.tile_layout.tile_height))
        match action:
            case Action.MoveLeft | Action.MovePrevious:
                to = self.tile_layout.next_open(at, -1)
            case Action.MoveRight | Action.MoveNext:
                to = self.tile_layout.next_open(at, 1)
            case Action.MoveUp:
                to = self.tile_layout.step(at, -1)
            case Action.MoveDown:
                to = self.tile_layout.step(at, 1)
            case Action.MovePageUp | Action.MovePageDown:
                for _ in range(page):
                    to = self.tile_layout.step(to, 1 if action is Action.MovePageDown else -1)
            case Action.MoveHome:
                to = self.tile_layout.next_open(-1, 1)
            case Action.MoveEnd:
                to = self.tile_layout.next_open(count, -1)
        return self.wall_model.index(to, 0)

    def horizontalOffset(self) -> int:
        """A wall never scrolls sideways."""
        return 0

    def verticalOffset(self) -> int:
        """How far the wall is scrolled."""
        return self.verticalScrollBar().value()

    def isIndexHidden(self, index: Index) -> bool:
        """Tiles of closed groups are hidden."""
        return self.tile_layout.rect(index.row()).isNull()

    def setSelection(self, rect: QRect, command: QItemSelectionModel.SelectionFlag) -> None:
        """Choose all tiles from where a rectangle begins to where it ends."""
        moved = rect.translated(0, self.verticalOffset())
        numbers = self.tile_layout.chosen_by(moved, in_order=bool(command & Flag.Current))
        chosen = QItemSelection()
        for number in numbers:
            index = self.wall_model.index(number, 0)
            chosen.select(index, index)
        self.selectionModel().select(chosen, command)

    def visualRegionForSelection(self, selection: QItemSelection) -> QRegion:
        """Where the chosen tiles are."""
        region = QRegion()
        for index in selection.indexes():
            region += QRegion(self.visualRect(index))
        return region

    # painting

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the heads and tiles that are seen, and nothing else."""
        theme, offset, seen = theme_of(self), self.verticalOffset(), event.rect()
        painter = QPainter(self.viewport())
        painter.fillRect(seen, theme.color("base"))
        self.painted_keys = []
        for place, numbers in self.tile_layout.between(seen.top() + offset, seen.bottom() + offset):
            head = self.tile_layout.head_rect(place, self.viewport().width()).translated(0, -offset)
            if self._heads and head.intersects(seen):
                paint_head(painter, QRectF(head), place, place.group.name in self._closed, theme)
            for number in numbers:
                self._paint_number(painter, number, offset, theme)
        painter.end()

    def _paint_number(self, painter: QPainter, number: int, offset: int, theme: Theme) -> None:
        key = self.wall_model.key_at(number)
        tile = self._tile_of(key)
        if tile is None:
            return
        self.painted_keys.append(key)
        rect = self.tile_layout.rect(number).translated(0, -offset)
        current = number == self.currentIndex().row()
        chosen = current or self.selectionModel().isSelected(self.wall_model.index(number, 0))
        fill = self.row_fill(True, number) if chosen else "raised"
        image = self._tiles.rendered(tile, fill, self.tile_layout, self.devicePixelRatioF(), theme)
        painter.drawPixmap(rect.topLeft(), image)
        whole = QRectF(rect)
        if chosen:
            paint_ring(painter, whole, self.hasFocus(), current, theme)
        elif number == self.hovered_row():
            painting.box(painter, whole, RADIUS.card, edge=theme.color("control"))
        if key in self._marks:
            paint_mark(painter, whole, theme)

    # how it behaves

    def _current_moved(self, now: QModelIndex, before: QModelIndex) -> None:
        del before
        self.viewport().update()
        self.current_changed.emit(self.wall_model.key_at(now.row()) if now.isValid() else "")

    def selectionChanged(self, selected: QItemSelection, deselected: QItemSelection) -> None:
        """Other tiles are chosen; their rings lie outside of their own rectangles."""
        super().selectionChanged(selected, deselected)
        self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens, Space marks, + and − change the size; letters are keys of the screen."""
        key = event.key()
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self.selectAll()
        elif event.matches(QKeySequence.StandardKey.Copy):
            self.copy_asked.emit()
        elif key == Qt.Key.Key_Space or (key in ENTER and not event.modifiers()):
            if current := self.current_key():
                (self.mark_asked if key == Qt.Key.Key_Space else self.opened).emit(current)
        elif event.text() in ("+", "-", "\N{MINUS SIGN}"):
            self._change_size(STEP if event.text() == "+" else -STEP)
        else:
            super().keyPressEvent(event)

    def _change_size(self, by: int) -> None:
        self.set_tile_size(self._size + by)
        self.size_changed.emit(self._size)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Ctrl and the wheel change the size."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._change_size(STEP if event.angleDelta().y() > 0 else -STEP)
            return
        super().wheelEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A press on a head opens or closes its group."""
        point = event.position().toPoint()
        head = self.tile_layout.head_at(point.x(), point.y() + self.verticalOffset())
        if head is not None:
            self.toggle_group(head.group.name)
            return
        super().mousePressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """The menu of the chosen tiles, or of the one under the pointer."""
        if (place := self.menu_place(event)) is not None:
            self.menu_asked.emit(place.column, place.point)

    def _repaint_row(self, row: int) -> None:
        # The edge of a tile under the pointer lies outside of its rectangle.
        del row
        self.viewport().update()

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        """Kept tiles are drawn again at their new places."""
        self.viewport().update()

    def measure(self) -> None:
        """Other colours, other fonts: every tile is painted again."""
        self._tiles.clear()
