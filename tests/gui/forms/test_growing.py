"""Text fields that grow: every line that fits is seen, whatever made the lines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.forms.field_widgets import GrowingText
from app.theme.theme import Theme
from tests.fakes.window import apply_to_parts

COMMAND = "printf 'written by an approved command\\n' > /tmp/tour/here/note.txt && cat note.txt"


@pytest.fixture(params=[("comfortable", True), ("comfortable", False), ("compact", True), ("compact", False)])
def box(request: pytest.FixtureRequest, qapp: QApplication, qtbot: QtBot) -> Iterator[GrowingText]:
    density, mono = request.param
    apply_to_parts(Theme("dark", density, reduced_motion=True, parent=qapp), qapp)
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    box = GrowingText(mono)
    column.addWidget(box)
    column.addStretch(1)
    window.resize(300, 300)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    box.setFocus()
    yield box
    window.close()


def lines_of(box: GrowingText) -> int:
    """The number of lines as they are drawn."""
    return round(box.document().size().height())


def shows_all(box: GrowingText) -> bool:
    """Whether the first and the last line are inside the field, with nothing to scroll and no empty line."""
    block = box.document().lastBlock()
    end = box.blockBoundingGeometry(block).translated(box.contentOffset()).bottom()
    start = box.blockBoundingGeometry(box.document().firstBlock()).translated(box.contentOffset()).top()
    bar = box.verticalScrollBar()
    spare = box.viewport().height() - end
    return bar.maximum() == 0 and bar.value() == 0 and start >= 0 and 0 <= spare < 6


def test_all_of_one_to_three_lines_is_seen_whether_set_typed_or_wrapped(
    box: GrowingText, qtbot: QtBot
) -> None:
    assert shows_all(box)
    for text in ("one", "one\ntwo", "one\ntwo\nthree", "one", COMMAND[:30]):
        box.set_text(text)
        QApplication.processEvents()
        assert shows_all(box), text
    box.set_text("")
    for at, letter in enumerate(COMMAND[:70]):
        QTest.keyClicks(box, letter)
        assert lines_of(box) > 3 or shows_all(box), COMMAND[: at + 1]
    assert lines_of(box) > 1
    for width in (560, 320, 420, 900, 300):
        box.window().resize(width, 300)
        qtbot.waitUntil(lambda: lines_of(box) > 3 or shows_all(box))


def test_text_over_three_lines_starts_at_its_beginning_and_scrolls(box: GrowingText) -> None:
    box.set_text("\n".join("abcdef"))
    QApplication.processEvents()
    assert box.verticalScrollBar().maximum() > 0
    assert box.verticalScrollBar().value() == 0
    box.set_text("a\nb\nc")
    QApplication.processEvents()
    assert shows_all(box)
