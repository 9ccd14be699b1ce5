"""Typing into forms: what is sent, what is said, where the focus stays."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from app.forms import FormOptions, FormWithJson, SchemaForm
from app.forms.array_editor import ArrayEditor
from app.forms.field_widgets import ChoiceBox, GrowingText, LineInput
from app.forms.union_editor import UnionEditor
from app.theme.theme import Theme
from core.schema_forms.validator import FieldError
from tests.fakes.window import apply_to_parts
from tests.gui.forms.page import add_item, add_or_leave_out, row_of, words_in
from tests.gui.page import button_named


@pytest.fixture(scope="module", autouse=True)
def _themed(qapp: QApplication) -> Theme:
    """One theme for this file: nothing in it switches."""
    theme = Theme("dark", "comfortable", reduced_motion=True, parent=qapp)
    apply_to_parts(theme, qapp)
    return theme


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string"},
        "timeout": {"type": "integer", "default": 30, "minimum": 1, "description": "Seconds"},
        "working_directory": {"type": "string"},
        "ratio": {"type": "number"},
        "force": {"type": "boolean", "default": True},
        "mode": {"enum": ["create", "append"], "default": "create"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "target": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "title": "Point",
                    "properties": {"kind": {"const": "point"}, "x": {"type": "integer"}},
                    "required": ["kind"],
                },
            ]
        },
        "options": {"type": "object", "properties": {"depth": {"type": "integer", "default": 3}}},
        "note": {"type": ["string", "null"]},
        "password": {"type": "string", "format": "password"},
    },
    "required": ["command"],
}


@pytest.fixture
def form(qtbot: QtBot) -> SchemaForm:
    return shown(qtbot, SCHEMA)


def shown(qtbot: QtBot, schema: Any, options: FormOptions | None = None) -> SchemaForm:
    form = SchemaForm(options)
    form.set_schema(schema)
    pane = QScrollArea()
    pane.setWidgetResizable(True)
    pane.setWidget(form)
    pane.resize(380, 700)
    qtbot.addWidget(pane)
    pane.show()
    qtbot.waitExposed(pane)
    form.__dict__["pane"] = pane  # or Python would end it here, and Qt the form with it
    return form


def of(form: SchemaForm, *path: str | int) -> Any:
    row = form.row(path)
    assert row is not None
    return row.own_inputs()[0] if row.own_inputs() else row.editor


def type_into(widget: QWidget, text: str) -> None:
    widget.setFocus()
    QTest.keyClicks(widget, text)


def test_nothing_is_sent_until_something_is_typed_and_nothing_again_when_it_is_deleted(
    form: SchemaForm,
) -> None:
    assert form.value() == {}
    type_into(of(form, "command"), "ls")
    assert form.value() == {"command": "ls"}
    QTest.keyClick(of(form, "command"), Qt.Key.Key_Backspace)
    QTest.keyClick(of(form, "command"), Qt.Key.Key_Backspace)
    assert form.value() == {}


def test_a_default_is_said_and_never_sent(form: SchemaForm) -> None:
    row = form.row(("timeout",))
    assert row is not None
    assert "default 30" in " ".join(words_in(row))
    directory = form.row(("working_directory",))
    assert directory is not None
    assert words_in(directory)[-1] == "Left out when empty.", "as below a field that says more"
    assert "timeout" not in form.value()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("timeout", "5", 5),
        ("timeout", "1e5", 100_000),
        ("timeout", "9007199254740993", 2**53 + 1),
        ("timeout", "123456789012345678901234567890", 123456789012345678901234567890),
        ("ratio", "1e5", 1e5),
        ("ratio", "7", 7),
        ("ratio", "-0.25", -0.25),
    ],
)
def test_a_number_is_what_was_typed(form: SchemaForm, name: str, text: str, value: Any) -> None:
    type_into(of(form, name), text)
    assert form.value() == {name: value}
    assert type(form.value()[name]) is type(value)
    assert of(form, name).text() == text


@pytest.mark.parametrize("text", ["abc", "1.5", "1e5000", "0x10", "007", "1,5", "NaN", "--1"])
def test_text_that_is_no_number_stays_and_is_flagged(form: SchemaForm, text: str) -> None:
    type_into(of(form, "timeout"), text)
    assert form.value() == {"timeout": text}
    assert ("timeout",) in [error.path for error in form.problems()]
    assert of(form, "timeout").text() == text


def test_errors_are_shown_below_the_field_and_missing_ones_only_when_asked(
    form: SchemaForm, qtbot: QtBot
) -> None:
    form.set_value({"timeout": 0})
    qtbot.waitUntil(lambda: bool(form.errors))
    assert form.errors == {("timeout",): "timeout must be at least 1, not 0."}
    form.show_problems()
    assert form.errors[("command",)] == "command is required."


def test_errors_from_outside_stand_at_their_field_until_something_changes(form: SchemaForm) -> None:
    form.set_errors([FieldError(("options", "depth"), "The device says no."), FieldError((), "Too large.")])
    assert form.errors[("options",)] == "The device says no."
    assert form.errors[()] == "Too large."
    type_into(of(form, "command"), "x")
    assert () not in form.errors


def test_a_boolean_that_is_not_required_has_three_states(form: SchemaForm) -> None:
    box = of(form, "force")
    assert isinstance(box, ChoiceBox)
    assert [box.itemText(at) for at in range(box.count())] == ["left out", "true", "false"]
    box.setFocus()
    for expected in ({"force": True}, {"force": False}):
        QTest.keyClick(box, Qt.Key.Key_Down)
        assert form.value() == expected
    QTest.keyClick(box, Qt.Key.Key_Home)
    assert form.value() == {}


def test_turning_the_wheel_over_a_choice_changes_nothing(form: SchemaForm) -> None:
    box = of(form, "mode")
    box.setFocus()
    none = Qt.MouseButton.NoButton
    wheel = QWheelEvent(
        QPointF(5, 5), QPointF(5, 5), QPoint(0, -120), QPoint(0, -120), none,
        Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(box, wheel)
    assert form.value() == {}


def test_items_are_added_moved_and_removed_by_keyboard(form: SchemaForm) -> None:
    array = of(form, "tags")
    assert isinstance(array, ArrayEditor)
    for number, word in enumerate(("a", "b", "c")):
        QTest.keyClick(add_item(array), Qt.Key.Key_Return)
        type_into(form.row(("tags", number)).own_inputs()[0], word)  # type: ignore[union-attr]
    assert form.value() == {"tags": ["a", "b", "c"]}
    last = of(form, "tags", 2)
    last.setFocus()
    QTest.keyClick(last, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert form.value() == {"tags": ["a", "c", "b"]}
    assert form.window().focusWidget() is last
    button_named(array, "Remove: item 0", "Remove: item 1").click()
    assert form.value() == {"tags": ["c", "b"]}


def test_an_empty_item_is_flagged_and_an_empty_list_can_be_sent(form: SchemaForm) -> None:
    array = of(form, "tags")
    add_item(array).click()
    assert form.value() == {"tags": []}
    assert "empty item" in form.show_problems()[0].message or len(form.problems()) > 1
    button_named(array, "Remove: item 0", "Remove: item 1").click()
    assert form.value() == {}
    button_named(row_of(form, "tags"), "send []").click()
    assert form.value() == {"tags": []}


def test_switching_an_alternative_keeps_what_was_typed_in_each(form: SchemaForm) -> None:
    row = form.row(("target",))
    assert row is not None
    choice = row.editor
    assert isinstance(choice, UnionEditor)
    box = choice.input
    assert [box.itemText(at) for at in range(box.count())] == ["left out", "text", "Point"]
    choose(box, 1)
    type_into(list(choice.inputs())[1], "here")
    assert form.value() == {"target": "here"}
    choose(box, 2)
    assert form.value() == {"target": {"kind": "point"}}
    type_into(of(form, "target", "x"), "7")
    assert form.value() == {"target": {"kind": "point", "x": 7}}
    choose(box, 1)
    assert form.value() == {"target": "here"}
    choose(box, 2)
    assert form.value() == {"target": {"kind": "point", "x": 7}}
    choose(box, 0)
    assert form.value() == {}


def choose(box: ChoiceBox, at: int) -> None:
    box.setCurrentIndex(at)
    box.activated.emit(at)


def test_an_object_is_left_out_while_nothing_in_it_is_filled_in(form: SchemaForm) -> None:
    add_or_leave_out(row_of(form, "options")).click()
    assert form.value() == {}
    type_into(of(form, "options", "depth"), "2")
    assert form.value() == {"options": {"depth": 2}}
    add_or_leave_out(row_of(form, "options")).click()
    assert form.value() == {}
    add_or_leave_out(row_of(form, "options")).click()
    assert form.value() == {"options": {"depth": 2}}
    QTest.keyClick(of(form, "options", "depth"), Qt.Key.Key_Backspace)
    assert form.value() == {}
    button_named(row_of(form, "options"), "send {}").click()
    assert form.value() == {"options": {}}


def test_null_is_sent_only_when_asked_for(form: SchemaForm) -> None:
    row = form.row(("note",))
    assert row is not None
    button_named(row, "send null").click()
    assert form.value() == {"note": None}
    button_named(row, "null is sent, change").click()
    assert form.value() == {}


def test_a_secret_is_masked_in_the_form_and_beside_it(qtbot: QtBot) -> None:
    both = FormWithJson()
    qtbot.addWidget(both)
    both.set_schema(SCHEMA, {"password": "hunter2"})
    box = of(both.form, "password")
    assert isinstance(box, QLineEdit)
    assert box.echoMode() == QLineEdit.EchoMode.Password
    block = both.json.editor.document().findBlockByNumber(1)
    assert any(
        part.format.foreground().color() == part.format.background().color()
        for part in block.layout().formats()
    )


def test_undo_brings_text_back(form: SchemaForm) -> None:
    box = of(form, "command")
    type_into(box, "rm -rf")
    form.set_value({"command": "ls"})
    assert box.text() == "ls"
    QTest.keyClick(box, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert box.text() == "rm -rf"
    assert form.value() == {"command": "rm -rf"}


def test_a_long_command_grows_to_three_lines_and_never_scrolls_sideways(form: SchemaForm) -> None:
    box = of(form, "command")
    assert isinstance(box, GrowingText)
    heights = [box.height()]
    for count in (60, 60, 400):
        type_into(box, "x" * count)
        heights.append(box.height())
        assert box.horizontalScrollBar().maximum() == 0
    assert heights[0] == 28
    assert heights[0] < heights[1] < heights[2] == heights[3]


def test_machine_text_is_monospace(form: SchemaForm) -> None:
    for name in ("command", "working_directory", "timeout"):
        assert of(form, name).font().fixedPitch()
    assert not of(form, "note").font().fixedPitch()


def test_the_tab_key_goes_through_the_fields_in_reading_order(form: SchemaForm, qtbot: QtBot) -> None:
    qtbot.wait(20)
    of(form, "command").setFocus()
    seen: list[Any] = []
    for _ in range(4):
        seen.append(form.window().focusWidget())
        QTest.keyClick(form.window().focusWidget(), Qt.Key.Key_Tab)
    assert seen == [of(form, name) for name in ("command", "timeout", "working_directory", "ratio")]


def test_the_focus_and_the_cursor_stay_while_typing(form: SchemaForm) -> None:
    box = of(form, "command")
    type_into(box, "ab")
    QTest.keyClick(box, Qt.Key.Key_Left)
    form.set_value(form.value())
    QTest.keyClicks(box, "X")
    assert form.value() == {"command": "aXb"}
    assert form.window().focusWidget() is box


def test_own_names_are_typed_in_rows(qtbot: QtBot) -> None:
    schema = {"properties": {"env": {"type": "object", "additionalProperties": {"type": "string"}}}}
    form = shown(qtbot, schema)
    env = of(form, "env")
    add_or_leave_out(row_of(form, "env")).click()
    button_named(env, "Add field").click()
    name = next(one for one in env.findChildren(LineInput) if one.accessibleName().startswith("name of a"))
    type_into(name, "PATH")
    type_into(name.parentWidget().row.own_inputs()[0], "/bin")
    assert form.value() == {"env": {"PATH": "/bin"}}
    button_named(env, "Remove this field").click()
    assert form.value() == {}


@pytest.mark.qt_log_ignore("This plugin does not support")  # the list that opens, off screen
def test_a_search_in_a_huge_list_only_counts_whole_entries(qtbot: QtBot) -> None:
    form = shown(qtbot, {"properties": {"city": {"enum": [f"city-{at}" for at in range(2_000)]}}})
    box = of(form, "city")
    assert isinstance(box, ChoiceBox)
    search = box.lineEdit()
    assert search is not None
    search.selectAll()
    QTest.keyClicks(search, "city-19")
    assert form.value() == {"city": "city-19"}
    QTest.keyClicks(search, "x")
    assert [error.path for error in form.problems()] == [("city",)]


def test_expressions_may_stand_for_any_value_where_the_form_allows_them(qtbot: QtBot) -> None:
    form = shown(qtbot, SCHEMA, FormOptions(expressions=True))
    type_into(of(form, "timeout"), "${{ inputs.t }}")
    form.set_value({**form.value(), "command": "x", "force": "${{ inputs.f }}", "tags": "${{ inputs.l }}"})
    assert form.value()["timeout"] == "${{ inputs.t }}"
    assert form.problems() == []


def test_every_input_has_a_name_for_assistive_technology(form: SchemaForm) -> None:
    for widget in form.inputs():
        if isinstance(widget, GrowingText | LineInput | ChoiceBox):
            assert widget.accessibleName()


def test_form_and_json_are_kept_in_step_and_broken_json_destroys_nothing(qtbot: QtBot) -> None:
    both = FormWithJson()
    qtbot.addWidget(both)
    both.set_schema(SCHEMA, {"command": "ls"})
    type_into(of(both.form, "timeout"), "5")
    assert both.json.editor.value == {"command": "ls", "timeout": 5}
    editor = both.json.editor
    editor.selectAll()
    QTest.keyClicks(editor, '{"command": "df", "tags": ["a"]')
    assert both.json.state.startswith("line 1")
    assert both.value() == {"command": "ls", "timeout": 5}
    assert both.problems()
    QTest.keyClicks(editor, "}")
    assert both.value() == {"command": "df", "tags": ["a"]}
    assert both.json.editor.text() == '{"command": "df", "tags": ["a"]}'
    qtbot.waitUntil(lambda: both.json.state == "valid")


def test_the_json_says_how_many_problems_the_tool_would_have_with_it(qtbot: QtBot) -> None:
    both = FormWithJson()
    qtbot.addWidget(both)
    both.set_schema(SCHEMA, {"timeout": 0})
    qtbot.waitUntil(lambda: both.json.state == "2 problems")
