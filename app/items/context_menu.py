"""The wish for a menu of a view's chosen things, by pointer or by key."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, SignalInstance
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QAbstractItemView


def ask_for_menu(
    view: QAbstractItemView,
    event: QContextMenuEvent,
    choose: Callable[[str], object],
    asked: SignalInstance,
) -> None:
    """Emit `asked(column, point of the screen)` for what is chosen: at the pointer, or by key at the cursor.

    What is under the pointer and not chosen is chosen first, by the words of its first column. By key the
    column is -1; nothing is asked for where there is nothing under the pointer.
    """
    by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
    index = view.currentIndex() if by_key else view.indexAt(event.pos())
    if not index.isValid():
        return
    if not view.selectionModel().isSelected(index):
        choose(str(view.model().index(index.row(), 0).data(Qt.ItemDataRole.DisplayRole)))
    if by_key:
        view.scrollTo(index)
    place = view.visualRect(index).center() if by_key else event.pos()
    asked.emit(-1 if by_key else index.column(), view.viewport().mapToGlobal(place))
