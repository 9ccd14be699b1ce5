"""The bytes box: all of it seen, none of it hidden, exactly it copied."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QTextCursor
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QScrollArea, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.theme.theme import Theme
from app.widgets.code_view import CodeView, Highlight
from app.widgets.visible_text import visible_text

MUCH = b"".join(b"%05d: a line of twenty kilobytes\n" % n for n in range(560))


@pytest.fixture
def box(theme: Theme, qtbot: QtBot) -> CodeView:
    box = CodeView()
    qtbot.addWidget(box)
    box.resize(600, 200)
    return box


def settle(qtbot: QtBot) -> None:
    """Everything that was put off to the next idle moment has happened after this."""
    for _ in range(3):
        with qtbot.waitCallback() as idle:
            from PySide6.QtCore import QTimer

            QTimer.singleShot(0, idle)


def test_bytes_that_fit_are_seen_at_once(box: CodeView, qtbot: QtBot) -> None:
    with qtbot.waitSignal(box.end_seen):
        box.show_bytes(b"df -h /srv | tail -n 1")
        box.show()
    assert box.end_was_seen


def test_the_end_of_twenty_kilobytes_is_seen_only_after_scrolling_there(box: CodeView, qtbot: QtBot) -> None:
    assert len(MUCH) > 19_000
    box.show()
    box.show_bytes(MUCH)
    with qtbot.assertNotEmitted(box.end_seen):
        settle(qtbot)
        box.verticalScrollBar().setValue(box.verticalScrollBar().maximum() - 2)
        box.grab()
        settle(qtbot)
    assert not box.end_was_seen
    with qtbot.waitSignal(box.end_seen):
        box.verticalScrollBar().setValue(box.verticalScrollBar().maximum())


def test_the_end_of_one_long_line_is_seen_only_after_scrolling_there(box: CodeView, qtbot: QtBot) -> None:
    box.show()
    with qtbot.assertNotEmitted(box.end_seen):
        box.show_bytes(b"x" * 20_000)
        settle(qtbot)
    with qtbot.waitSignal(box.end_seen):
        QTest.keyClick(box, Qt.Key.Key_End, Qt.KeyboardModifier.ControlModifier)
    assert box.verticalScrollBar().value() == box.verticalScrollBar().maximum()


def test_a_box_below_the_fold_of_its_pane_was_not_seen(theme: Theme, qtbot: QtBot) -> None:
    area, pane, box = QScrollArea(), QWidget(), CodeView()
    qtbot.addWidget(area)
    column = QVBoxLayout(pane)
    column.addSpacing(900)
    column.addWidget(box)
    area.setWidget(pane)
    area.setWidgetResizable(True)
    area.resize(400, 300)
    area.show()
    with qtbot.assertNotEmitted(box.end_seen):
        box.show_bytes(b"rm -rf /srv")
        settle(qtbot)
    with qtbot.waitSignal(box.end_seen):
        area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())


def test_a_box_that_is_not_shown_was_not_seen(box: CodeView, qtbot: QtBot) -> None:
    with qtbot.assertNotEmitted(box.end_seen):
        box.show_bytes(b"short")
        settle(qtbot)


def test_nothing_at_all_is_never_seen(box: CodeView, qtbot: QtBot) -> None:
    box.show()
    with qtbot.assertNotEmitted(box.end_seen):
        box.show_bytes(b"")
        settle(qtbot)


def test_other_bytes_have_to_be_seen_again(box: CodeView, qtbot: QtBot) -> None:
    box.show()
    with qtbot.waitSignal(box.end_seen):
        box.show_bytes(b"short")
    box.show_bytes(MUCH)
    settle(qtbot)
    assert not box.end_was_seen


@pytest.mark.parametrize(
    "data",
    [
        MUCH,
        "a\u200bb\u202ec".encode(),
        b"line\r\nends\rmixed\n",
        b"nul\x00 and tab\t",
        "שלום 日本語 😀".encode(),
        "\u2028\u2029 nbsp\u00a0".encode(),
    ],
)
def test_copying_gives_exactly_the_bytes(box: CodeView, data: bytes) -> None:
    box.show_bytes(data)
    assert box.copy_bytes() == data
    clipboard = QGuiApplication.clipboard()
    assert bytes(clipboard.mimeData().data("application/octet-stream").data()) == data
    assert clipboard.text().encode() == data
    box.selectAll()
    box.copy()
    assert bytes(clipboard.mimeData().data("application/octet-stream").data()) == data


def test_bytes_that_are_no_text_are_named_and_copied_exactly(box: CodeView) -> None:
    data = b"\xff\xfe\x00"
    box.show_bytes(data)
    assert box.toPlainText() == "\\xFF\\xFEU+0000"
    box.copy_bytes()
    mime = QGuiApplication.clipboard().mimeData()
    assert bytes(mime.data("application/octet-stream").data()) == data


@pytest.mark.parametrize(
    "char",
    "\u200b\u200d\u202e\u2066\u2069\u061c\ufeff\u00ad\u00a0\u3000\u2028\u0085\x00\x1b\x7f\r\u3164\ufe0f\u115f\U000e0041",
)
def test_characters_that_hide_or_reorder_are_shown_by_name_and_flagged(box: CodeView, char: str) -> None:
    box.show_bytes(f"a{char}b".encode())
    name = f"U+{ord(char):04X}"
    assert box.toPlainText() == f"a{name}b"
    assert [(mark.start, mark.name) for mark in box.marks] == [(1, name)]
    assert box.shown.describe_hidden() == "1 hidden character"


def test_a_name_written_in_the_bytes_is_not_flagged(box: CodeView) -> None:
    box.show_bytes(b"echo U+200B")
    assert box.marks == ()
    assert box.shown.describe_hidden() == "no hidden characters"


def test_right_to_left_letters_are_counted_below_the_box() -> None:
    shown = visible_text("rm שלום".encode())
    assert (
        shown.describe_hidden() == "no hidden characters   4 right-to-left letters, in the order of the bytes"
    )
    assert visible_text("rm 日本語 é".encode()).right_to_left == 0


@given(st.binary(max_size=200) | st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=300, deadline=None)
def test_the_way_back_from_the_shown_text_gives_all_bytes(data: bytes) -> None:
    shown = visible_text(data)
    units = len(shown.text.encode("utf-16-le")) // 2
    assert shown.bytes_between(0, units) == data
    assert shown.place_of(len(data)) == units
    assert not any(ord(c) < 32 and c not in "\n\t" for c in shown.text)
    for mark in shown.marks:
        # At the beginning of a line with right-to-left letters stands what keeps their order.
        assert mark.start - shown.place_of(shown.offset_of(mark.start)) in (0, 1)


@pytest.mark.parametrize(
    ("data", "lines"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2), (b"a\r\nb", 2)]
)
def test_lines_are_counted_as_a_person_counts_them(data: bytes, lines: int) -> None:
    assert visible_text(data).lines == lines


def test_findings_stand_under_their_bytes_also_after_wide_characters(box: CodeView) -> None:
    data = "😀 \u200b rm -rf é".encode()
    start = data.index(b"rm -rf")
    box.show_bytes(data, [Highlight(start, start + 6, "high", 1)])
    (first, last, _risk) = box.underlines()[0]
    cursor = QTextCursor(box.document())
    cursor.setPosition(first)
    cursor.setPosition(last, QTextCursor.MoveMode.KeepAnchor)
    assert cursor.selectedText() == "rm -rf"


def test_the_box_grows_to_fourteen_lines_and_no_further(box: CodeView, qtbot: QtBot) -> None:
    box.show()
    heights = []
    for lines in (1, 4, 14, 40):
        box.show_bytes(b"\n".join(b"line" for _ in range(lines)))
        settle(qtbot)
        heights.append(box.height())
    assert heights == [22 + 8, 4 * 22 + 8, 14 * 22 + 8, 14 * 22 + 8]


def test_lines_are_twenty_two_pixels_apart_also_when_they_wrap(box: CodeView, qtbot: QtBot) -> None:
    box.show_bytes(b"w" * 300 + b"\nnext")
    box.show()
    settle(qtbot)
    cursor = QTextCursor(box.document())
    tops = []
    for position in (0, 299, 301):
        cursor.setPosition(position)
        tops.append(box.cursorRect(cursor).top())
    assert (tops[1] - tops[0]) % 22 == 0
    assert tops[1] > tops[0]
    assert tops[2] - tops[1] == 22


def test_it_cannot_be_edited(box: CodeView, qtbot: QtBot) -> None:
    box.show_bytes(b"rm")
    QTest.keyClicks(box, "x")
    box.paste()
    assert box.toPlainText() == "rm"
    assert box.exact_bytes == b"rm"


def test_markup_is_shown_as_it_is(box: CodeView) -> None:
    box.show_bytes(b"<b>bold</b>")
    assert box.toPlainText() == "<b>bold</b>"
