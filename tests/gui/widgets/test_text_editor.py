"""The editor for texts that a machine reads, and the colours of TOML."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocument
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.theme.theme import Theme
from app.widgets.code_edit import CodeEdit
from app.widgets.highlighters import TomlHighlighter

TEXT = 'a = 1\n  b = "two"\nc = 3'


@pytest.fixture
def editor(theme: Theme, qtbot: QtBot) -> CodeEdit:
    made = CodeEdit("A text")
    qtbot.addWidget(made)
    made.resize(500, 300)
    made.show()
    qtbot.waitExposed(made)
    made.show_text(TEXT)
    return made


def test_the_text_comes_back_as_it_was_given(editor: CodeEdit) -> None:
    for text in ("", "\n", "a\n\n", "no\u00a0break", "\ttab\u200bzero"):
        editor.show_text(text)
        assert editor.text() == text


def test_enter_keeps_the_indent_and_tab_leaves(editor: CodeEdit) -> None:
    editor.go_to(2)
    editor.moveCursor(editor.textCursor().MoveOperation.EndOfLine)
    QTest.keyClick(editor, Qt.Key.Key_Return)
    QTest.keyClicks(editor, "x")
    assert editor.text().split("\n")[2] == "  x"
    assert editor.tabChangesFocus()


def test_lines_are_gone_to_and_faults_are_said_at_theirs(editor: CodeEdit) -> None:
    lines: list[int] = []
    editor.line_chosen.connect(lines.append)
    editor.go_to(2)
    editor.go_to(99)
    assert lines == [2, 3]
    editor.show_faults({2: "b is not known"})
    assert editor.fault_at(2) == "b is not known"
    assert editor.fault_at(1) == ""
    assert editor.line_at(30) == 2


def test_replacing_and_adding_are_one_step_each(editor: CodeEdit) -> None:
    editor.replace_text("other\n")
    assert editor.append_text("more\n") == 2
    assert editor.text() == "other\nmore\n"
    editor.undo()
    assert editor.text() == "other\n"
    editor.undo()
    assert editor.text() == TEXT


def test_words_are_found_round_the_end(editor: CodeEdit) -> None:
    editor.go_to(3)
    assert editor.find_next("two")
    assert editor.current_line() == 2
    assert not editor.find_next("nowhere")
    assert not editor.find_next("")


def test_hidden_characters_are_tinted_where_they_stand(editor: CodeEdit) -> None:
    editor.show_text("\U0001f6a2 a\u202eb")
    marked = editor.extraSelections()
    assert [one.cursor.selectionStart() for one in marked] == [4]  # type: ignore[attr-defined]
    editor.show_text("plain")
    assert editor.extraSelections() == []


def colours_of(document: QTextDocument, line: int) -> list[tuple[str, str]]:
    block = document.findBlockByNumber(line)
    return [
        (block.text()[one.start : one.start + one.length], one.format.foreground().color().name().upper())  # type: ignore[attr-defined]
        for one in block.layout().formats()
    ]


def test_toml_is_coloured_by_what_it_means(editor: CodeEdit, theme: Theme) -> None:
    colors = TomlHighlighter(editor.document(), editor)
    editor.show_text('[[rule]] # why\ndecision = "ask"\nx = """\nid = 1\n"""\n"k e" = true')
    colors.refresh()
    name = {
        role: theme.color(role).name().upper() for role in ("accent", "text", "text2", "text3", "waiting")
    }
    document = editor.document()
    assert colours_of(document, 0) == [("[[rule]]", name["text"]), ("# why", name["text3"])]
    assert colours_of(document, 1) == [("decision", name["accent"]), ('"ask"', name["waiting"])]
    # Inside a long text nothing is a key.
    assert colours_of(document, 3) == [("id = 1", name["text"])]
    assert colours_of(document, 5) == [('"k e"', name["accent"]), ("true", name["text2"])]


def test_ctrl_y_redoes(editor: CodeEdit) -> None:
    QTest.keyClicks(editor, "x")
    QTest.keyClick(editor, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    assert editor.text() == TEXT
    QTest.keyClick(editor, Qt.Key.Key_Y, Qt.KeyboardModifier.ControlModifier)
    assert editor.text() == "x" + TEXT
