"""A sheet in a low window: what is asked scrolls whole, the answers and what is wrong stay."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPlainTextEdit, QWidget
from shiboken6 import isValid

from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from app.widgets.fields import Field, TextField
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame, open_window, seen

SMALLEST = (1024, 640)
FIELDS = 12


def fields_of(sheet: Dialog) -> list[TextField]:
    made = []
    for number in range(FIELDS):
        field = TextField(f"Field {number}")
        sheet.add(Field(f"Field {number}", field, help_text="What belongs here."))
        made.append(field)
    return made


def in_sight(sheet: Dialog, widget: QWidget) -> bool:
    """Whether all of it is on the card, above the answers."""
    top = widget.mapTo(sheet.card, QPoint(0, 0)).y()
    shown = widget.visibleRegion().boundingRect()
    return top >= 0 and shown.height() == widget.height()


async def test_what_does_not_fit_scrolls_and_nothing_is_cut_or_squeezed(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, FakeConsole(), size=SMALLEST) as desk:
        sheet = Dialog(desk.window, "Many fields", "More than a low window has room for.")
        fields = fields_of(sheet)
        sheet.add_answer("", "Cancel")
        sheet.add_answer("go", "Go", "primary")
        sheet.open(fields[0])
        await seen(lambda: in_sight(sheet, fields[0]))
        assert sheet.card.geometry().bottom() <= sheet.height()
        assert in_sight(sheet, sheet.answer("go"))
        wanted = fields[0].parentWidget().sizeHint().height()
        assert all(field.parentWidget().height() >= wanted for field in fields)
        assert not in_sight(sheet, fields[-1])
        for _ in range(FIELDS - 1):
            QTest.keyClick(desk.window.focusWidget(), Qt.Key.Key_Tab)
        assert fields[-1].hasFocus()
        await seen(lambda: in_sight(sheet, fields[-1]))
        sheet.say("This will not do.")
        await seen(lambda: in_sight(sheet, sheet.answer("go")))
        sheet.finish("")


async def test_a_sheet_that_fits_does_not_scroll_and_grows_with_its_words(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, FakeConsole()) as desk:
        sheet = Dialog(desk.window, "A question", "Short.")
        more = QPlainTextEdit()
        more.setFixedHeight(120)
        more.hide()
        sheet.add(more)
        sheet.add_answer("", "Cancel", primary=True)
        sheet.open()
        before = sheet.card.height()
        bar = sheet.card.findChildren(QWidget, "qt_scrollarea_vcontainer")
        assert not any(one.isVisible() for one in bar)
        more.show()
        await seen(lambda: sheet.card.height() >= before + 120)
        assert in_sight(sheet, more)
        sheet.finish("")


async def test_an_answer_is_told_also_when_what_opened_the_sheet_is_gone(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        opener = QPlainTextEdit(desk.window)
        opener.show()
        opener.setFocus()
        assert opener.hasFocus()
        sheet = Dialog(desk.window, "A question", "Short.")
        sheet.add_answer("go", "Go", "primary")
        answers: list[str] = []
        sheet.finished.connect(answers.append)
        sheet.open()
        opener.deleteLater()
        await seen(lambda: not isValid(opener))
        sheet.answer("go").click()
        assert answers == ["go"]
