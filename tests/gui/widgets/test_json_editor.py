"""The JSON editor says at every moment whether its text is JSON, and where it stops being so."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.theme.theme import Theme
from app.widgets.json_edit import JsonEdit
from core.schema_forms.json_values import UNSET, NotJson, json_text, parse_json
from tests.fakes.window import apply_to_parts


@pytest.fixture(scope="module", autouse=True)
def _themed(qapp: QApplication) -> Theme:
    """One theme for this file: nothing in it switches."""
    theme = Theme("dark", "comfortable", reduced_motion=True, parent=qapp)
    apply_to_parts(theme, qapp)
    return theme


@pytest.fixture
def editor(qtbot: QtBot) -> JsonEdit:
    editor = JsonEdit()
    qtbot.addWidget(editor)
    return editor


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('{\n "a": 1\n "b": 2}', 3, "a comma"),
        ('{"a": }', 1, "a value"),
        ('{"a": 1, "a": 2}', 1, "twice"),
        ("[1, NaN]", 1, "NaN"),
        ("[1] 2", 1, "after the end"),
        ("1" * 5_000, 1, "too many digits"),
        ("[" * 100_000, 1, "nested too deeply"),
    ],
)
def test_a_problem_has_a_line_and_words(editor: JsonEdit, text: str, line: int, words: str) -> None:
    with pytest.raises(NotJson):
        parse_json(text)
    if len(text) < 10_000:
        editor.set_text(text)
        assert editor.problem is not None
        assert editor.problem.line == line
        assert words in editor.problem.message


def test_invalid_text_keeps_the_last_value_and_no_text_is_no_value(editor: JsonEdit) -> None:
    editor.set_text('{"a": 1}')
    editor.set_text('{"a": ')
    assert editor.value == {"a": 1}
    editor.set_text("  ")
    assert editor.value is UNSET
    assert editor.problem is None


@pytest.mark.parametrize(
    "value", [{}, [], None, "\u202e\u0000\u2028", 10**40, 1e5, {"ü": ["\n", {"": True}]}]
)
def test_what_is_shown_reads_back_exactly(editor: JsonEdit, value: Any) -> None:
    editor.show_value(value)
    assert parse_json(editor.text()) == value
    assert "\u202e" not in json_text(value)


def test_the_cursor_stays_when_the_same_value_is_shown(editor: JsonEdit) -> None:
    editor.set_text('{"a":   1}')
    cursor = editor.textCursor()
    cursor.setPosition(5)
    editor.setTextCursor(cursor)
    editor.show_value({"a": 1})
    assert editor.textCursor().position() == 5
    assert editor.text() == '{"a":   1}'


def test_enter_keeps_the_indentation_and_goes_deeper_after_a_brace(editor: JsonEdit) -> None:
    QTest.keyClicks(editor, "{")
    QTest.keyClick(editor, Qt.Key.Key_Return)
    QTest.keyClicks(editor, '"a": 1')
    assert editor.text() == '{\n  "a": 1'


def test_typing_emits_only_for_another_value(editor: JsonEdit, qtbot: QtBot) -> None:
    editor.set_text('{"a": 1}')
    heard: list[Any] = []
    editor.value_edited.connect(lambda: heard.append(editor.value))
    editor.moveCursor(editor.textCursor().MoveOperation.End)
    QTest.keyClicks(editor, "  ")
    assert heard == []
    editor.moveCursor(editor.textCursor().MoveOperation.Start)
    QTest.keyClicks(editor, "[")
    QTest.keyClick(editor, Qt.Key.Key_End)
    QTest.keyClicks(editor, "]")
    assert heard == [[{"a": 1}]]


def test_ctrl_y_redoes_in_the_text_and_reaches_no_shortcut_of_the_screen(qtbot: QtBot) -> None:
    holder = QWidget()
    editor = JsonEdit(parent=holder)
    pressed: list[bool] = []
    QShortcut(QKeySequence("Ctrl+Y"), holder).activated.connect(lambda: pressed.append(True))
    qtbot.addWidget(holder)
    holder.show()
    qtbot.waitExposed(holder)
    editor.setFocus()
    QTest.keyClicks(editor, "12")
    QTest.keyClick(editor, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert editor.toPlainText() == ""
    QTest.keyClick(editor, Qt.Key.Key_Y, Qt.KeyboardModifier.ControlModifier)
    assert editor.toPlainText() == "12"
    assert not pressed
