"""What assistive technology is told of drop-downs: the label as the name, what is chosen as the value."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QComboBox, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.forms import SchemaForm
from app.shell.command_palette import CommandPalette
from app.theme.theme import Theme
from app.widgets.fields import DropDown, Field
from tests.fakes.story import story
from tests.fakes.window import open_window, seen

NAME, VALUE = QAccessible.Text.Name, QAccessible.Text.Value


def access(widget: QWidget) -> QAccessibleInterface:
    return QAccessible.queryAccessibleInterface(widget)


def labels(widget: QWidget) -> list[str]:
    related = access(widget).relations(QAccessible.RelationFlag.Label)
    return [other.text(NAME) for other, kind in related if kind == QAccessible.RelationFlag.Label]


def test_a_choice_of_a_form_is_named_and_labelled_by_its_field(theme: Theme, qtbot: QtBot) -> None:
    form = SchemaForm()
    qtbot.addWidget(form)
    many = [f"zone-{number}" for number in range(40)]
    properties = {
        "region": {"enum": ["fullscreen", "window"]},
        "info_type": {"enum": ["memory", "disk"]},
        "zone": {"enum": many},
        "deep": {"type": "object", "properties": {"flag": {"type": "boolean"}}},
    }
    form.set_schema({"properties": properties, "required": ["info_type"]}, {"info_type": "disk", "deep": {}})
    form.show()
    qtbot.waitUntil(lambda: len(form.findChildren(QComboBox)) == 4)
    shown = [(access(box).text(NAME), labels(box)) for box in form.findChildren(QComboBox)]
    assert shown == [
        ("region", ["region"]),
        ("info_type, required", ["info_type"]),
        ("zone", ["zone"]),
        ("deep.flag", ["flag"]),
    ]
    assert access(form.findChildren(QComboBox)[1]).text(VALUE) == "disk"


def test_a_drop_down_with_a_label_above_is_named_and_labelled_by_it(theme: Theme, qtbot: QtBot) -> None:
    choice = DropDown("Theme")
    choice.addItems(["Dark", "Light"])
    field = Field("Theme", choice)
    qtbot.addWidget(field)
    field.show()
    assert (access(choice).text(NAME), access(choice).text(VALUE)) == ("Theme", "Dark")
    assert labels(choice) == ["Theme"]
    choice.setCurrentIndex(1)
    assert access(choice).text(VALUE) == "Light"


@pytest.mark.qt_log_ignore("This plugin does not support")  # the list that opens, off screen
def test_a_drop_down_is_still_one_whose_list_can_be_opened_and_read(theme: Theme, qtbot: QtBot) -> None:
    choice = DropDown("Theme")
    choice.addItems(["Dark", "Light"])
    qtbot.addWidget(choice)
    choice.show()
    own = access(choice)
    assert own.role() == QAccessible.Role.ComboBox
    listed = own.child(0)
    assert [listed.child(row).text(NAME) for row in range(listed.childCount())] == ["Dark", "Light"]
    assert own.indexOfChild(listed) == 0
    assert own.indexOfChild(access(QLabel("no child", choice))) == -1
    assert own.child(5) is None
    assert not own.state().expanded
    own.actionInterface().doAction("ShowMenu")
    qtbot.waitUntil(lambda: access(choice).state().expanded)
    own.actionInterface().doAction("Press")
    qtbot.waitUntil(lambda: not access(choice).state().expanded)
    choice.setEnabled(False)
    assert "ShowMenu" not in own.actionInterface().actionNames()


async def test_nothing_in_a_closed_palette_is_told_to_be_showing(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        desk.window.open_palette("lab")
        (palette,) = desk.window.findChildren(CommandPalette)
        lines = access(palette.view)
        await seen(lambda: lines.childCount() > 3)
        first = lines.child(1)
        assert not lines.state().invisible
        assert not first.state().invisible
        palette.dismiss()
        assert lines.state().invisible
        assert lines.childCount() == 0
        assert not first.isValid() or first.state().invisible
