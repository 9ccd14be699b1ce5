"""The order in which Tab goes through what is made later than its neighbours."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget


def within(parent: QWidget) -> list[QWidget]:
    """What lies within a widget and was made together with it, in the order that it has so far."""
    found: list[QWidget] = []
    one = parent.nextInFocusChain()
    while one is not None and parent.isAncestorOf(one):
        found.append(one)
        one = one.nextInFocusChain()
    return found


def put_in_tab_order(before: QWidget, widgets: Iterable[QWidget]) -> None:
    """Let Tab go from `before` through these that take the keyboard, each once."""
    for one in widgets:
        if one.focusPolicy() != Qt.FocusPolicy.NoFocus:
            QWidget.setTabOrder(before, one)
            before = one


def as_they_stand(parent: QWidget) -> list[QWidget]:
    """What takes the keyboard within a widget, from top to bottom and from left to right."""
    found = [one for one in parent.findChildren(QWidget) if one.focusPolicy() & Qt.FocusPolicy.TabFocus]

    def place(one: QWidget) -> tuple[int, int]:
        corner = one.mapTo(parent, one.rect().topLeft())
        return corner.y(), corner.x()

    return sorted((one for one in found if one.isVisibleTo(parent)), key=place)
