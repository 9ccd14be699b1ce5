"""What every item view does alike, seen at one list; and that each view of the window is one of them."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QContextMenuEvent, QFocusEvent, QKeyEvent, QMouseEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractItemView, QApplication, QListView
from pytestqt.qtbot import QtBot

import app.screens
from app.items.item_view import ItemView
from app.items.keyed_model import KeyedModel
from app.overrides import subclasses
from app.theme.theme import Theme

NAMES = ["anchor", "buoy", "chart"]


class NamesView(ItemView, QListView):
    """Names; notes how often another row is under the pointer."""

    def __init__(self) -> None:
        super().__init__("Names", multiple=True)
        self.names = KeyedModel[str](str, {Qt.ItemDataRole.DisplayRole: str}, self)
        self.names.sync(NAMES)
        self.setModel(self.names)
        self.hovered: list[int] = []

    def hover_changed(self) -> None:
        self.hovered.append(self.hovered_row())


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> NamesView:
    view = NamesView()
    qtbot.addWidget(view)
    view.resize(200, 200)
    view.show()
    qtbot.waitExposed(view)
    return view


def point_at(view: NamesView, row: int, button: Qt.MouseButton = Qt.MouseButton.NoButton) -> None:
    spot = QPointF(view.visualRect(view.names.index(row, 0)).center())
    where, no_keys = view.viewport().mapToGlobal(spot), Qt.KeyboardModifier.NoModifier
    move = QMouseEvent(QEvent.Type.MouseMove, spot, where, Qt.MouseButton.NoButton, button, no_keys)
    QApplication.sendEvent(view.viewport(), move)


def test_the_row_under_the_pointer_is_followed_but_not_while_a_button_is_down(view: NamesView) -> None:
    for row, button in ((0, Qt.MouseButton.NoButton), (1, Qt.MouseButton.NoButton)):
        point_at(view, row, button)
    point_at(view, 2, Qt.MouseButton.LeftButton)
    assert (view.hovered, view.row_fill(False, 1)) == ([0, 1], "hover")
    QApplication.sendEvent(view.viewport(), QEvent(QEvent.Type.Leave))
    assert view.hovered == [0, 1, -1]
    assert view.row_fill(False, 1) == ""


def test_marked_rows_are_grey_while_the_keyboard_is_elsewhere(
    view: NamesView, monkeypatch: pytest.MonkeyPatch
) -> None:
    fills = []
    for focused in (True, False):
        monkeypatch.setattr(view, "hasFocus", lambda focused=focused: focused)
        fills.append(view.row_fill(True, 0))
    assert fills == ["selected", "sel_idle"]


@pytest.mark.parametrize(("key", "text"), [(Qt.Key.Key_B, "b"), (Qt.Key.Key_Space, " "), (Qt.Key.Key_1, "1")])
def test_what_is_typed_is_left_to_the_screen_and_searches_no_row(
    view: NamesView, key: Qt.Key, text: str
) -> None:
    view.setCurrentIndex(view.names.index_of("anchor"))
    event = QKeyEvent(QEvent.Type.KeyPress, key, Qt.KeyboardModifier.NoModifier, text)
    QApplication.sendEvent(view, event)
    assert not event.isAccepted()
    assert view.currentIndex().row() == 0
    QTest.keyClick(view, Qt.Key.Key_Down)
    assert view.currentIndex().row() == 1


def test_the_ring_shows_for_the_keyboard_alone(view: NamesView, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "hasFocus", lambda: True)
    QApplication.sendEvent(view, QFocusEvent(QEvent.Type.FocusIn, Qt.FocusReason.TabFocusReason))
    assert view.shows_ring()
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(5, 5))
    assert not view.shows_ring()
    QApplication.sendEvent(view, QFocusEvent(QEvent.Type.FocusIn, Qt.FocusReason.MouseFocusReason))
    assert not view.shows_ring()


def test_a_menu_is_for_the_marked_rows_or_for_the_row_under_the_pointer(view: NamesView) -> None:
    at = view.visualRect(view.names.index(1, 0)).center()
    pressed = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, at, view.viewport().mapToGlobal(at))
    view.selectAll()
    assert view.menu_place(pressed) is not None
    assert len(view.selectedIndexes()) == 3
    view.clearSelection()
    place = view.menu_place(pressed)
    assert place is not None
    assert (place.cell.row(), place.column) == (1, 0)
    assert [index.row() for index in view.selectedIndexes()] == [1]
    by_key = view.menu_place(QContextMenuEvent(QContextMenuEvent.Reason.Keyboard, QPoint(), QPoint()))
    assert by_key is not None
    assert (by_key.cell.row(), by_key.column) == (1, -1)
    below = QPoint(5, view.viewport().height() - 1)
    nothing = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, below, view.viewport().mapToGlobal(below))
    assert view.menu_place(nothing) is None


def test_every_item_view_of_a_screen_is_one(qapp: QApplication) -> None:
    for module in pkgutil.walk_packages(app.screens.__path__, "app.screens."):
        importlib.import_module(module.name)
    views = {cls for cls in subclasses(QAbstractItemView) if cls.__module__.startswith("app.screens.")}
    assert views
    assert {cls.__name__ for cls in views if not issubclass(cls, ItemView)} == set()
