"""Open…: the saved batches and the examples, in one list to choose from."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.components.inputs import SearchField
from app.components.label import Label
from app.components.rows import Cell, Column, Kind, Row
from app.components.tables import DataTable
from app.screens.batch.files import examples
from app.shell.sheet import Sheet
from app.shell.words import plural
from core.batch.models import flatten

SAVED, EXAMPLE, NEW = "saved:", "example:", "new"
_COLUMNS = (
    Column("name", "Batch", Kind.NAME, 260),
    Column("what", "", Kind.TEXT, 220, stretch=True),
)
LIST_HEIGHT = 300


class OpenSheet(Sheet):
    """Answers with `saved:NAME`, `example:PATH` or `new`."""

    def __init__(self, window: QWidget, saved: list[str]) -> None:
        words = "Saved in this home, and examples that come with Quarterdeck." if saved else ""
        super().__init__(window, "Open a batch", words or "Nothing is saved yet; these are examples.", 620)
        self._rows = [Row(f"{SAVED}{name}", (Cell(name, icon="batch"), "saved")) for name in saved]
        self._rows += [
            Row(
                f"{EXAMPLE}{path.name}",
                (
                    Cell(batch.name, icon="note"),
                    Cell(f"example, {plural(len(flatten(batch.steps)), 'step')}", tip=batch.description),
                ),
            )
            for path, batch in examples()
        ]
        self.search = SearchField("Search batches", "Name of a batch")
        self.list = DataTable(_COLUMNS, "Batches", sortable=False)
        self.list.setFixedHeight(LIST_HEIGHT)
        self._none = Label("No batch matches.", tone="text2")
        self.add(self.search)
        self.add(self.list)
        self.add(self._none)
        self.search.textChanged.connect(lambda _text: self._show())
        self.search.returnPressed.connect(lambda: self._open(self.list.current_key()))
        self.search.down_pressed.connect(self._go_down)
        self.list.opened.connect(self._open)
        self.add_answer("", "Cancel")
        self.add_answer(NEW, "New batch")
        button = self.add_answer("open", "Open", "primary", closes=False)
        button.clicked.connect(lambda: self._open(self.list.current_key()))
        self._show()

    def _show(self) -> None:
        text = self.search.text().casefold()
        rows = [row for row in self._rows if text in row.key.casefold() or text in _name(row).casefold()]
        self._shown = [row.key for row in rows]
        self.list.show_rows(rows)
        self._none.setVisible(not rows)
        if rows and self.list.rows_model.place_of(self.list.current_key()) < 0:
            self.list.choose(rows[0].key)

    def _go_down(self) -> None:
        """From the search into the list: below the row that Enter would open already."""
        place = self.list.rows_model.place_of(self.list.current_key())
        if 0 <= place < len(self._shown) - 1:
            self.list.choose(self._shown[place + 1])
        self.list.setFocus()

    def _open(self, key: str) -> None:
        if key:
            self.finish(key)


def _name(row: Row) -> str:
    first = row.cells[0]
    return first.text if isinstance(first, Cell) else first
