"""From a filter into its rows: Down and Enter lead there, and Enter on the only row opens it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractItemView

from app.items.table_view import TableView
from app.widgets.fields import SearchField


def go_to_rows(view: QAbstractItemView) -> int:
    """Give the keyboard to the rows, with the first one chosen where none is; how many there are.

    Without any row in sight the keyboard stays where the filter can be changed.
    """
    count = view.model().rowCount() if view.isVisible() else 0
    if count:
        if not view.currentIndex().isValid():
            view.setCurrentIndex(view.model().index(0, 0))
        view.setFocus(Qt.FocusReason.OtherFocusReason)
    return count


def lead_into_rows(field: SearchField, view: QAbstractItemView, open_row: Callable[[], object]) -> None:
    """Connect a field whose filter holds with each letter; `open_row` opens the row that is chosen."""

    def enter() -> None:
        if go_to_rows(view) == 1:
            open_row()

    field.down_pressed.connect(lambda: go_to_rows(view))
    field.returnPressed.connect(enter)


def lead_into_table(field: SearchField, table: TableView) -> None:
    """The same for a table, whose rows are opened as by Enter in it."""
    lead_into_rows(field, table, lambda: table.opened.emit(table.current_key()))
