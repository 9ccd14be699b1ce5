"""What assistive technology selects in a table of one choice is what the window then shows."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QItemSelectionModel
from pytestqt.qtbot import QtBot

from app.items.table_view import Column, Kind, Row, TableView
from app.theme.theme import Theme


def make(qtbot: QtBot, multiple: bool) -> TableView:
    view = TableView((Column("name", "Name", Kind.TEXT, 100),), "Sections", multiple=multiple)
    qtbot.addWidget(view)
    view.show_rows([Row(key, (key,)) for key in ("look", "policy", "grants")])
    view.choose("look")
    view.show()
    qtbot.waitExposed(view)
    return view


def select(view: TableView, row: int) -> None:
    """As Qt does for an AT-SPI client that adds a row to the selection."""
    flags = QItemSelectionModel.SelectionFlag
    view.selectionModel().select(view.rows_model.index(row, 0), flags.ClearAndSelect | flags.Rows)


@pytest.mark.parametrize("row", [1, 2])
def test_the_cursor_follows_a_row_that_assistive_technology_selects(
    theme: Theme, qtbot: QtBot, row: int
) -> None:
    view = make(qtbot, multiple=False)
    with qtbot.waitSignal(view.current_changed) as moved:
        select(view, row)
    assert moved.args == [view.current_key()] == view.marked_keys()


def test_where_several_may_be_chosen_a_selection_leaves_the_cursor(theme: Theme, qtbot: QtBot) -> None:
    view = make(qtbot, multiple=True)
    moves: list[str] = []
    view.current_changed.connect(moves.append)
    with qtbot.waitSignal(view.marked_changed):
        select(view, 2)
    qtbot.wait(0)
    assert "grants" in view.marked_keys()
    assert moves == []
