"""The table of entries: never jumps, says what is new above, copies, and filters by what is pointed at."""

from __future__ import annotations

import math
from functools import partial

from PySide6.QtCore import QEvent, QItemSelectionModel, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QAbstractButton, QMenu, QWidget

from app.items.table_view import TableView
from app.screens.journal.entry_model import EntryModel
from app.screens.journal.entry_text import (
    ACTOR,
    BY,
    COLUMN_FIELDS,
    COLUMNS,
    DEVICE,
    ENTRY,
    TIME,
    TOOK,
    TOOL,
    field_value,
    kind_words,
)
from app.screens.journal.query_terms import quoted_value
from app.text import one_line
from app.theme.theme import theme_of
from app.theme.tokens import FRAME
from app.widgets import painting
from core.audit.entries import Entry
from core.text import shorten_middle

MOST_COPIED = 5_000
# So many chosen rows stay chosen when another query brings other rows.
MOST_KEPT = 500
# What the other columns take, and room for the name of a tool; the same for both in one column.
_JOINED_BELOW = 870
_WITHOUT_TOOK_BELOW = 790


class NewAbove(QAbstractButton):
    """The line over the first row: so many new entries above."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setToolTip("Go to the newest entries (Home)")
        self.hide()

    def show_count(self, count: int) -> None:
        """Say how many; nothing when there are none."""
        words = f"{count:,} new above"
        self.setText(words)
        self.setAccessibleName(words)
        self.setVisible(count > 0)
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter goes there, as Space does."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the line; opaque, because rows pass below it."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        painter.fillRect(rect, theme.color("accent_tint"))
        painter.fillRect(0, self.height() - 1, self.width(), 1, theme.color("border"))
        centered = Qt.AlignmentFlag.AlignHCenter
        painting.text(painter, rect, self.text(), theme, "meta_strong", "accent", centered)
        if self.hasFocus():
            painting.ring(painter, rect, 0, theme.color("accent"))
        painter.end()


class EntryTable(TableView):
    """Rows of an `EntryModel`.

    Signals:
        top_left: the view left the top, or (False) came back to it.
        looked: the view shows the rows from first to last now.
        newest_wanted: the operator wants the newest entries.
        oldest_wanted: the operator wants the oldest entry that matches.
        copy_wanted: copy the marked rows as tab-separated lines.
        json_wanted: copy the marked rows as JSON Lines.
        filter_wanted: add this term to the query.
    """

    top_left = Signal(bool)
    looked = Signal(int, int)
    newest_wanted = Signal()
    oldest_wanted = Signal()
    copy_wanted = Signal()
    json_wanted = Signal()
    filter_wanted = Signal(str)

    def __init__(self) -> None:
        self.entries = EntryModel()
        super().__init__(self.entries, "Entries", rows="journal", multiple=True, sortable=False)
        self.above = NewAbove(self)
        self.above.clicked.connect(self.newest_wanted)
        self._joined = False
        self._away = False
        self._kept: tuple[str, list[str]] = ("", [])
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.entries.modelAboutToBeReset.connect(self._keep_choice)
        self.entries.modelReset.connect(self._restore_choice)
        self.entries.modelReset.connect(self._scrolled)
        self.entries.rowsInserted.connect(lambda *_: self._scrolled())
        self.entries.dataChanged.connect(lambda *_: self._fit_soon.start())
        self.arrange()

    # what the screen asks

    def at_top(self) -> bool:
        """Whether the first row is in sight."""
        return self.verticalScrollBar().value() == 0

    def current_entry(self) -> Entry | None:
        """The entry under the cursor, if it is here."""
        return self.entries.entry_at(self.currentIndex().row())

    def marked_places(self) -> list[int]:
        """The marked rows from top to bottom, at most one more than may be copied."""
        chosen = self.selectionModel().selection()
        places: set[int] = set()
        for number in range(chosen.count()):
            part = chosen.at(number)
            places.update(range(part.top(), min(part.bottom(), part.top() + MOST_COPIED) + 1))
        return sorted(places)[: MOST_COPIED + 1]

    def fit_anew(self) -> None:
        """Fit the columns to the rows of another query; only then does one become narrower."""
        self._needed.clear()
        self.fit_widths()

    def _fit_anew(self) -> None:
        # Rows come all the time here: what columns needed before stays.
        self._fit_soon.start()

    def fit_widths(self) -> None:
        """Make room for long numbers, for days and names, and share the rest."""
        self.arrange()
        super().fit_widths()

    def needed_width(self, number: int) -> int:
        """As of every table; digits of an entry's number are never cut, whichever row comes next."""
        needed = super().needed_width(number)
        if number != ENTRY:
            return needed
        longest = painting.text_width(f"{self.entries.newest:,}", theme_of(self)) + FRAME.first_column + 9
        return max(needed, COLUMNS[ENTRY].width, math.ceil(longest))

    def least_width(self, number: int, needed: int) -> int:
        """As of every table; numbers and days have all their room."""
        return needed if number in (ENTRY, TIME) else super().least_width(number, needed)

    def choose_seq(self, seq: int) -> bool:
        """Move the cursor to this entry; False when it is not in the rows."""
        return self.choose(str(seq))

    # how it behaves

    def _keep_choice(self) -> None:
        # Everything may be chosen, a million rows: a row of each of them took 24 s to make.
        places = self.marked_places()
        kept = places if len(places) <= MOST_KEPT else []
        self._kept = (self.current_key(), [self.entries.key_at(place) for place in kept])

    def _restore_choice(self) -> None:
        current, marked = self._kept
        flags = QItemSelectionModel.SelectionFlag
        if current and self.choose(current):
            for key in marked:
                if (index := self.entries.index_of(key)).isValid():
                    self.selectionModel().select(index, flags.Select | flags.Rows)

    def arrange(self) -> None:
        """Hide what narrow panes have no room for: actor and tool share a column first, then Took goes."""
        # What days and long names take beyond the usual is missing for the others.
        width = self.viewport().width() - sum(
            max(0, self.least_width(column, self.needed_width(column)) - COLUMNS[column].width)
            for column in (TIME, DEVICE)
        )
        joined = width < _JOINED_BELOW
        no_room = {ACTOR, TOOL} if joined else {BY}
        self.take_room(no_room | ({TOOK} if width < _WITHOUT_TOOK_BELOW else set()))
        head = self.horizontalHeader()
        stretch, fixed = head.ResizeMode.Stretch, head.ResizeMode.Interactive
        head.setSectionResizeMode(BY, stretch if joined else fixed)

    def _scrolled(self) -> None:
        away = not self.at_top()
        if away != self._away:
            self._away = away
            self.top_left.emit(away)
        self.look()

    def look(self) -> None:
        """Tell the model which rows are in sight."""
        count = self.entries.rowCount()
        if not count:
            return
        sight = self.rows_in_sight()
        top, bottom = sight.start, sight.stop - 1
        self.entries.look_at(top, bottom)
        self.looked.emit(top, bottom)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the line over the first row and the columns fitting."""
        super().resizeEvent(event)
        self.arrange()
        self._place_line()
        self.look()

    def _place_line(self) -> None:
        place = self.viewport().geometry()
        self.above.setGeometry(place.x(), place.y(), place.width(), 24)

    def changeEvent(self, event: QEvent) -> None:
        """The head's height follows the density, and the line with it."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "above"):
            self._place_line()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+C copies through the screen: rows may have to be read for it. Home goes to the newest."""
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_wanted.emit()
            return
        if event.key() == Qt.Key.Key_Home and self.above.isVisible():
            self.newest_wanted.emit()
            return
        if event.key() in (Qt.Key.Key_Home, Qt.Key.Key_End) and not event.modifiers():
            # Qt's own Home and End move between columns, which rows chosen whole do not have.
            if event.key() == Qt.Key.Key_End:
                self.oldest_wanted.emit()
            elif (seq := self.entries.seq_at(0)) is not None:
                self.choose_seq(seq)
            return
        super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Copy, filter, exclude: for the cell under the pointer, or the row under the cursor."""
        if (place := self.menu_place(event)) is None:
            return
        menu = self.menu_for(place.cell.row(), place.cell.column())
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(place.point)

    def menu_for(self, row: int, column: int) -> QMenu:
        """The context menu of one cell."""
        menu = QMenu(self)
        menu.addAction("Copy rows", self.copy_wanted.emit)
        menu.addAction("Copy as JSON Lines", self.json_wanted.emit)
        entry = self.entries.entry_at(row)
        if entry is None:
            return menu
        for at in self._filterable(entry, column):
            field, value = COLUMN_FIELDS[at], field_value(entry, at)
            term = f"{field}:{quoted_value(value)}"
            words = kind_words(value) if field == "kind" else shorten_middle(one_line(value), 48)
            words = words.replace("&", "&&")  # a single one would mark the next letter as a key
            menu.addSeparator()
            menu.addAction(f"Only {field} {words}", partial(self.filter_wanted.emit, term))
            menu.addAction(f"Without {field} {words}", partial(self.filter_wanted.emit, f"!{term}"))
        return menu

    def _filterable(self, entry: Entry, column: int) -> list[int]:
        """The pointed column first; by key, or on a column without a value, those that say most."""
        if column not in (ENTRY,) and column in COLUMN_FIELDS and field_value(entry, column):
            return [column]
        return [at for at in (DEVICE, TOOL) if field_value(entry, at)]
