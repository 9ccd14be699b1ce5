"""Open…: the saved batches and the examples, in one list to choose from, to rename and to delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QWidget

from app.items.table_model import Cell, Column, Kind, Row
from app.items.table_view import TableView
from app.screens.batch.document_io import examples
from app.text import clock, short_clock
from app.widgets.buttons import Button
from app.widgets.dialog import CANCELLED, Dialog
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import SearchField, TextField
from app.widgets.json_view import size_words
from app.widgets.labels import Label
from app.widgets.layouts import hbox, vbox
from app.widgets.primary_key import is_plain_enter
from core.batch.file_names import file_stem
from core.batch.models import SavedBatch, flatten
from core.errors import BadInput

SAVED, EXAMPLE, TEMPLATE, NEW = "saved:", "example:", "template:", "new"
_COLUMNS: tuple[Column[Row], ...] = (
    Column("name", "Batch", Kind.NAME, 260, stretch=True),
    Column("steps", "Steps", Kind.NUMBER, 70),
    Column("size", "Size", Kind.NUMBER, 90),
    Column("changed", "Changed", Kind.TIME, 130),
)
LIST_HEIGHT = 300
NOT_SAVED = "Choose a saved batch; examples stay as they are."


class FileQuestion(QWidget):
    """One question about a saved batch, asked below the list: its new name, or whether it is deleted.

    Signals:
        rename_wanted(name, new name): the new name is one that a file can have.
        delete_wanted(name): the operator confirmed it.
        closed: the question went away.
    """

    rename_wanted = Signal(str, str)
    delete_wanted = Signal(str)
    closed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._name = ""
        self._act: Literal["rename", "delete"] = "rename"
        self.words = Label("", "head", wrap=True)
        self.field = TextField("New name of the batch")
        self.problem = Label("", "meta", "fail", wrap=True)
        self.keep = Button("Cancel")
        self.go_on = Button("Rename")
        row = hbox((self.field, 1), spacing=8)
        row.addStretch(0)
        row.addWidget(self.keep)
        row.addWidget(self.go_on)
        vbox(self.words, row, self.problem, parent=self, margins=(0, 4, 0, 4), spacing=6)
        self.field.textEdited.connect(lambda _text: self._say(""))
        self.keep.clicked.connect(self.close_question)
        self.go_on.clicked.connect(self._go_on)
        self.hide()

    @property
    def batch(self) -> str:
        """The batch that is asked about; empty when nothing is asked."""
        return self._name

    def ask_new_name(self, name: str) -> None:
        """Ask for the new name of a batch."""
        self._open("rename", name, f"Rename “{name}”", "Cancel", "Rename")
        self.field.setText(name)
        self.field.selectAll()
        self.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def ask_to_delete(self, name: str) -> None:
        """Ask whether a batch is deleted. The keyboard is at the answer that keeps it."""
        words = f"Delete “{name}”? Its file is removed for good. Runs of it stay in Runs and in the journal."
        self._open("delete", name, words, "Keep it", "Delete it")
        self.keep.setFocus(Qt.FocusReason.TabFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter in the new name answers this question, not the dialog around it."""
        if is_plain_enter(event) and self.field.hasFocus():
            self._go_on()
        else:
            super().keyPressEvent(event)

    def _open(self, act: Literal["rename", "delete"], name: str, words: str, keep: str, go_on: str) -> None:
        self._act, self._name = act, name
        self.words.setText(words)
        self.setAccessibleName(words)
        self.keep.set_words(keep)
        self.go_on.set_words(go_on)
        self.go_on.set_kind("danger" if act == "delete" else "primary")
        self.go_on.set_working("")
        self.field.setVisible(act == "rename")
        self._say("")
        self.show()

    def say(self, problem: str) -> None:
        """Show why it was not done; the question stays."""
        self.go_on.set_working("")
        self._say(problem)

    def _say(self, problem: str) -> None:
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))

    def _go_on(self) -> None:
        if not self.go_on.isEnabled():
            return
        if self._act == "delete":
            self.go_on.set_working("The batch is deleted.")
            self.delete_wanted.emit(self._name)
            return
        name = self.field.text().strip()
        try:
            file_stem(name)
        except BadInput as error:
            self._say(error.message)
            return
        if name == self._name:
            self.close_question()
            return
        self.go_on.set_working("The batch is renamed.")
        self.rename_wanted.emit(self._name, name)

    def close_question(self) -> None:
        """Take the question back."""
        if self._name:
            self._name = ""
            self.hide()
            self.closed.emit()


class OpenDialog(Dialog):
    """Answers with `saved:NAME`, `example:PATH`, `template:NAME` or `new`."""

    def __init__(self, window: QWidget, saved: Sequence[SavedBatch], recent: Sequence[str] = ()) -> None:
        """`recent` are names of saved batches that stand first, the latest before the others."""
        words = "Saved in this home, and examples that come with Quarterdeck." if saved else ""
        super().__init__(window, "Open a batch", words or "Nothing is saved yet; these are examples.", 680)
        self._recent = {name: place for place, name in enumerate(recent)}
        self.dismissed.disconnect()  # of the sheet's own, which ends it
        self.dismissed.connect(self._dismissed)
        self._examples = [
            Row(
                f"{EXAMPLE}{path.name}",
                (
                    Cell(batch.name, icon="note", tip=batch.description),
                    str(len(flatten(batch.steps))),
                    "",
                    "example",
                ),
            )
            for path, batch in examples()
        ]
        self.search = SearchField("Search batches", "Name of a batch")
        self.list = TableView(_COLUMNS, "Batches", sortable=False)
        self.place = ContentOrEmpty(self.list)
        self.place.setFixedHeight(LIST_HEIGHT)
        self.place.empty.acted.connect(lambda _key: self._search_again())
        self.question = FileQuestion()
        for part in (self.search, self.place, self.question):
            self.add(part)
        self.search.textChanged.connect(lambda _text: self._show())
        self.search.down_pressed.connect(self._go_down)
        self.list.opened.connect(self._open)
        self.list.current_changed.connect(self._chosen)
        self.question.closed.connect(lambda: self.list.setFocus(Qt.FocusReason.OtherFocusReason))
        for watched in (self.search, self.list):
            watched.installEventFilter(self)
        self._rename = self.add_answer("rename", "Rename…", closes=False)
        self._delete = self.add_answer("delete", "Delete…", closes=False)
        self._rename.clicked.connect(self.ask_new_name)
        self._delete.clicked.connect(self.ask_to_delete)
        self._template = self.add_answer("template", "Use as template", closes=False)
        self._template.clicked.connect(lambda: self.finish(f"{TEMPLATE}{self._saved_name()}"))
        self.add_answer("", "Cancel")
        self.add_answer(NEW, "New batch")
        button = self.add_answer("open", "Open", "primary", closes=False)
        button.clicked.connect(lambda: self._open(self.list.current_key()))
        self.show_saved(saved)

    def show_saved(self, saved: Sequence[SavedBatch], choose: str = "") -> None:
        """List these saved batches above the examples; choose the one named `choose`."""
        lately = sorted(saved, key=lambda batch: self._recent.get(batch.name, len(self._recent)))
        self._rows = [_row(batch, batch.name in self._recent) for batch in lately] + self._examples
        self._show()
        if choose:
            self.list.choose(f"{SAVED}{choose}")

    def ask_new_name(self) -> None:
        """Ask for a new name of the chosen batch; nothing for an example."""
        if name := self._saved_name():
            self.question.ask_new_name(name)

    def ask_to_delete(self) -> None:
        """Ask whether the chosen batch is deleted; nothing for an example."""
        if name := self._saved_name():
            self.question.ask_to_delete(name)

    def _saved_name(self) -> str:
        key = self.list.current_key()
        return key.removeprefix(SAVED) if key.startswith(SAVED) else ""

    def _chosen(self, _key: str) -> None:
        off = "" if self._saved_name() else NOT_SAVED
        self._rename.set_off(off)
        self._delete.set_off(off)
        self._template.set_off("" if self._saved_name() else "An example is one: open it.")
        # A question is about the batch that is chosen.
        if self.question.batch != self._saved_name():
            self.question.close_question()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """F2 and Delete on the chosen batch; in the search field Delete is the text's."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent) and not event.modifiers():
            if event.key() == Qt.Key.Key_F2 and watched in (self.search, self.list):
                self.ask_new_name()
                return True
            if event.key() == Qt.Key.Key_Delete and watched is self.list:
                self.ask_to_delete()
                return True
        return super().eventFilter(watched, event)

    @property
    def holds_input(self) -> bool:
        """Words to search by are not kept for their own sake; a question about a batch is."""
        return bool(self.question.batch)

    def _dismissed(self) -> None:
        """Esc takes a question back first."""
        if self.question.batch:
            self.question.close_question()
        else:
            self.finish(CANCELLED)

    def _show(self) -> None:
        text = self.search.text().casefold()
        rows = [row for row in self._rows if text in row.key.casefold() or text in _name(row).casefold()]
        self._shown = [row.key for row in rows]
        self.list.show_rows(rows)
        if rows:
            self.place.show_content()
        else:
            line = "Batches are searched by name."
            self.place.say("No batch matches.", line, ("clear", "Clear the search", "clear"))
        if rows and self.list.rows_model.row_of(self.list.current_key()) < 0:
            self.list.choose(rows[0].key)
        self._chosen(self.list.current_key())

    def _search_again(self) -> None:
        self.search.clear()
        self.search.setFocus(Qt.FocusReason.OtherFocusReason)

    def _go_down(self) -> None:
        """From the search into the list: below the row that Enter would open already."""
        place = self.list.rows_model.row_of(self.list.current_key())
        if 0 <= place < len(self._shown) - 1:
            self.list.choose(self._shown[place + 1])
        self.list.setFocus()

    def _open(self, key: str) -> None:
        if key:
            self.finish(key)


def _row(batch: SavedBatch, recent: bool) -> Row:
    steps = "—" if batch.steps is None else str(batch.steps)
    tip = "Its steps are not counted: not a valid batch, or a large file." if batch.steps is None else ""
    return Row(
        f"{SAVED}{batch.name}",
        (
            Cell(batch.name, icon="batch", tip="opened lately" if recent else ""),
            Cell(steps, tip=tip),
            size_words(batch.size_bytes),
            Cell(short_clock(batch.changed_at), tip=clock(batch.changed_at)),
        ),
    )


def _name(row: Row) -> str:
    first = row.cells[0]
    return first.text if isinstance(first, Cell) else first
