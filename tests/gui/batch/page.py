"""Batch as a person sees it: cards, the form of a step, its text, the form of the batch."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.forms.base import FieldRow
from app.main import ConsoleApplication
from app.screens.batch.expression_field import ExpressionField
from app.screens.batch.screen import BatchScreen
from app.widgets.dialog import Dialog
from app.widgets.labels import ElidedLabel
from core.batch.models import Batch
from tests.fakes.batch_screen import batch_of, sheet_of
from tests.fakes.pointer import move_pointer
from tests.fakes.window import seen
from tests.gui.page import button_named

Key, Mod = Qt.Key, Qt.KeyboardModifier


def words_on_text(screen: BatchScreen) -> str:
    """What is said of the text, as it is read aloud: `The text: valid`, or what is wrong."""
    names = [label.accessibleName() for label in screen.text.findChildren(ElidedLabel)]
    return next(name for name in names if name.startswith("The text: "))


def is_ticked(screen: BatchScreen) -> bool:
    """Whether the mark beside the words is a tick."""
    [mark] = [one for one in screen.text.findChildren(QWidget) if hasattr(one, "good")]
    return bool(mark.good)


def hidden_in_text(screen: BatchScreen) -> list[str]:
    """The pieces of the text that are drawn as flat blocks, in which no letter can be read."""
    hidden: list[str] = []
    block = screen.text.editor.document().begin()
    while block.isValid():
        for piece in block.layout().formats():
            look = piece.format  # type: ignore[attr-defined]  # a field that the stubs have as a method
            if look.foreground() == look.background():
                hidden.append(block.text()[piece.start : piece.start + piece.length])  # type: ignore[attr-defined]
        block = block.next()
    return hidden


class BatchPage:
    """The Batch screen in a window, worked by keys and read by what its parts say."""

    def __init__(self, desk: ConsoleApplication, screen: BatchScreen) -> None:
        self.desk, self.screen = desk, screen

    @classmethod
    async def on(cls, desk: ConsoleApplication, batch: Batch | None = None) -> BatchPage:
        """The screen, opened on a batch."""
        return cls(desk, await batch_of(desk, batch))

    # Keys

    def press(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = Mod.NoModifier) -> None:
        """A key, to whatever has the focus."""
        QTest.keyClick(QApplication.focusWidget() or self.desk.window, key, modifiers)

    def type_text(self, text: str) -> None:
        """Letters, to whatever has the focus."""
        focus = QApplication.focusWidget()
        assert focus is not None
        QTest.keyClicks(focus, text)

    def paste(self, text: str) -> None:
        """A text that has no keys, to whatever has the focus."""
        QApplication.clipboard().setText(text)
        self.press(Key.Key_V, Mod.ControlModifier)

    def in_steps(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = Mod.NoModifier) -> None:
        """A key, while the list of steps has the keyboard."""
        self.screen.steps.view.setFocus()
        self.press(key, modifiers)

    # Cards

    def cards(self) -> list[str]:
        """Each card as it is read aloud."""
        model = self.screen.steps.view.steps
        return [str(model.data(model.index(row, 0))) for row in range(len(model.items))]

    def card(self, step: str) -> str:
        """The card of a step as it is read aloud."""
        [words] = [words for words in self.cards() if f", {step}, " in words]
        return words

    def ids(self) -> list[str]:
        """The ids of the steps, those of recovery steps in brackets behind an arrow."""
        return [f"→{step.id}" if step.recovers else step.id for step in self.screen.editor.content.steps]

    def open_step(self, step: str) -> None:
        """Open a step, as a click on its card does."""
        self.screen.editor.choose_id(step)

    def drag_card(self, place: int, above: int) -> None:
        """Press on a card, move past the drag distance, and let go above another one."""
        view = self.screen.steps.view
        rects = [view.visualRect(view.steps.index(row, 0)) for row in (place, above)]
        start, end = rects[0].center(), QPoint(60, rects[1].top() + 3)
        QTest.mousePress(view.viewport(), Qt.MouseButton.LeftButton, Mod.NoModifier, start)
        for point in ((start + end) / 2, end):
            move_pointer(view.viewport(), point)
        QTest.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, Mod.NoModifier, end)

    # Forms

    @property
    def when(self) -> ExpressionField:
        """The field of the condition."""
        return self.screen.step.flow.when

    @property
    def expectations(self) -> list[ExpressionField]:
        """The fields of the expectations."""
        return self.screen.step.flow.expect.fields

    def write(self, field: ExpressionField, text: str) -> None:
        """Write an expression in the place of what stands there."""
        field.input.setFocus()
        field.input.selectAll()
        self.press(Key.Key_Delete)
        self.type_text(text)

    def argument_row(self, *path: str | int) -> FieldRow:
        """A row of the form of the tool's arguments."""
        return _row_of(self.screen.step.form.row(path), path)

    def offered(self) -> list[str]:
        """What is offered below the argument that is being typed."""
        return self.screen.step.completer.offered()

    def flow_row(self, *path: str | int) -> FieldRow:
        """A row of the form below the expressions."""
        return _row_of(self.screen.step.flow.form.row(path), path)

    def batch_row(self, *path: str | int) -> FieldRow:
        """A row of the form of the batch."""
        return _row_of(self.screen.step.batch.form.row(path), path)

    async def add_part(self, row: FieldRow) -> None:
        """Press the `Add` of a part that is left out."""
        button_named(row, "Add").click()
        await seen(lambda: row.value() is not None)

    def fill(self, row: FieldRow, text: str) -> None:
        """Type into the input of a row."""
        [field] = row.own_inputs()
        field.setFocus()
        QTest.keyClicks(field, text)

    def fill_first_kind(self, row: FieldRow, text: str) -> None:
        """Choose the first of the kinds that a row has, and type into its input."""
        kinds, *_ = row.inputs()
        kinds.setFocus()
        QTest.keyClick(kinds, Qt.Key.Key_Down)
        *_, field = row.inputs()
        field.setFocus()
        QTest.keyClicks(field, text)

    def batch_line(self) -> str:
        """What stands above the cards about the batch itself."""
        return self.screen.steps.about.accessibleName()

    # Opening and saving

    async def open_named(self, words: str) -> None:
        """Open what is listed under this name in Open…"""
        self.in_window(Key.Key_O, Mod.ControlModifier)
        await seen(self.sheet)
        self.type_text(words)
        self.press(Key.Key_Return)
        await seen(lambda: self.sheet() is None and self.screen.editor.content.name == words)

    async def save(self) -> None:
        """Save, and wait until it is done."""
        self.in_window(Key.Key_S, Mod.ControlModifier)
        await seen(lambda: not self.screen.files.saving and not self.screen.editor.dirty)

    def in_window(self, key: Qt.Key, modifiers: Qt.KeyboardModifier) -> None:
        """A key of the screen."""
        QTest.keyClick(self.screen.steps.view, key, modifiers)

    def sheet(self) -> Dialog | None:
        """The question on the screen."""
        return sheet_of(self.desk)


def _row_of(row: FieldRow | None, path: tuple[str | int, ...]) -> FieldRow:
    assert row is not None, path
    return row
