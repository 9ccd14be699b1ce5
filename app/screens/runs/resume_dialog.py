"""Resuming an ended run: what is done, what goes on, what is not known yet, and secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from app.form_dialog import FormDialog
from app.query import Mutation, Query, quietly
from app.screens.runs.remainder_text import Left, done_words, left_of, remainder_lines
from app.service_client import ConsoleLink
from app.text import count_words, one_line, plural
from app.theme.tokens import SPACE
from app.widgets.buttons import Button
from app.widgets.fields import Field, TextField
from app.widgets.labels import Label
from app.widgets.layouts import hbox, vbox
from app.widgets.section import Section
from app.widgets.util import clear_layout
from core.batch.models import Batch, Cell, Run
from core.errors import ErrorCode, QuarterdeckError
from core.service.console import Console
from core.service.pages import whole_run

# Each has a row with two buttons.
MOST_ROWS = 40
Outcome = Literal["done", "not_done"]


class ResumeDialog(FormDialog):
    """Says what a resumed run takes over and where it goes on; unknown outcomes are asked for or settled.

    Signals:
        settled: an operator's word about a step was recorded; the run is another one now.
    """

    settled = Signal()

    def __init__(self, window: QWidget, link: ConsoleLink, run: Run, resumed: Callable[[Run], None]) -> None:
        """`resumed` gets the run that goes on."""
        super().__init__(window, link, f"Resume {run.summary.id}", width=620)
        self._run, self._left = run, left_of(run)
        self._answer: Run | None = None
        self.done = Label("", wrap=True)
        self.kept = Label(
            f"The batch, its inputs and its {plural(len(run.summary.devices), 'device')} are those of "
            f"{run.summary.id}.",
            tone="text2",
            wrap=True,
        )
        self.changed = Label("", tone="warn", wrap=True)
        self.changed.hide()
        self.goes_on = Section("It goes on at")
        self.inspect = Section(
            "Not known yet",
            "Their devices are asked when this is resumed, and it then says of each why it is not known",
        )
        self._rows = vbox(spacing=SPACE.tight)
        self.inspect.body.addLayout(self._rows)
        self._lines = vbox(spacing=SPACE.hair)
        self.goes_on.body.addLayout(self._lines)
        for widget in (self.done, self.kept, self.changed, self.goes_on, self.inspect):
            self.add(widget)
        self.secrets = self._secret_fields()
        self._act = self.add_act(
            "resume", self._left.words, self._resume, f"resume {run.summary.id}", lambda: resumed(self._new)
        )
        self._settling = Mutation(self, link, self._was_settled, self.say_error, "record it")
        self._reading = Query(self, link, self._show, self.say_error, f"read {run.summary.id}")
        self.saved = Query(self, link, self._compare_saved, quietly, "read the saved batch")
        self._show(run)
        name = run.batch.name
        self.saved.load(lambda console: console.runs.load_batch(name))

    def begin(self) -> None:
        """Come up; the keyboard is where something is to be done first."""
        field = next(iter(self.secrets.values()), None)
        first = next(iter(self.inspect.findChildren(Button)), None) if self._left.remainder.unknown else None
        self.open(first or field or self.answer("cancel"))

    @property
    def _new(self) -> Run:
        assert self._answer is not None
        return self._answer

    def _secret_fields(self) -> dict[str, TextField]:
        """A field for each secret input: their values are not stored, so they are given again."""
        declared = self._run.batch.inputs
        fields = {}
        for name in (name for name in declared if declared[name].secret and name in self._run.inputs):
            field = fields[name] = TextField(name, "Not stored: type it again")
            field.setEchoMode(QLineEdit.EchoMode.Password)
            field.textChanged.connect(lambda _text: self._allow())
            self.add(Field(name, field, required=True, help_text=one_line(declared[name].description)))
        return fields

    def _show(self, run: Run) -> None:
        self._run, self._left = run, left_of(run)
        remainder = self._left.remainder
        self.done.setText(done_words(remainder))
        clear_layout(self._lines)
        for line in remainder_lines(remainder):
            self._lines.addWidget(Label(line, wrap=True))
        self.goes_on.setVisible(bool(remainder.first))
        clear_layout(self._rows)
        for cell in remainder.unknown[:MOST_ROWS]:
            self._rows.addWidget(self._row_of(cell))
        if (more := len(remainder.unknown) - MOST_ROWS) > 0:
            self._rows.addWidget(Label(f"and {count_words(more)} more", "meta", "text2"))
        self.inspect.setVisible(bool(remainder.unknown))
        self._act.set_words(self._left.words)
        self._allow()

    def _row_of(self, cell: Cell) -> QWidget:
        row = QWidget()
        place = f"{one_line(cell.step)} on {one_line(cell.device)}"
        done, not_done = Button("It is done"), Button("It was not done")
        for button, outcome in ((done, "done"), (not_done, "not_done")):
            button.setAccessibleName(f"{place}: {button.text()}")
            button.clicked.connect(lambda *_, outcome=outcome: self._settle(cell, outcome))
        hbox((Label(place, wrap=True), 1), done, not_done, parent=row, spacing=SPACE.small)
        return row

    def _settle(self, cell: Cell, outcome: Outcome) -> None:
        self.say("")
        self._settling.run(
            lambda console: console.runs.settle(cell.run, cell.device, cell.step, outcome),
            f"record that {cell.step} on {cell.device} is settled",
        )

    def _read_again(self) -> None:
        number = self._run.summary.id

        async def read(console: Console) -> Run:
            return await whole_run(console.runs, await console.runs.get(number))

        self._reading.load(read, number)

    def _was_settled(self, _cell: Cell) -> None:
        self._read_again()
        self.settled.emit()
        # The row that was pressed goes with the answer.
        self.answer("cancel").setFocus()

    def _compare_saved(self, saved: Batch) -> None:
        if saved != self._run.batch:
            self.changed.setText(
                f"The saved batch {one_line(saved.name)} is another one now; the batch of "
                f"{self._run.summary.id} goes on, as it was."
            )
            self.changed.show()

    def _allow(self) -> None:
        missing = next((name for name, field in self.secrets.items() if not field.text()), "")
        self._act.set_off(_why_off(self._left, missing))

    async def _resume(self) -> None:
        run, secrets = self._run, {name: field.text() for name, field in self.secrets.items()}

        async def resume(console: Console) -> Run:
            return await console.runs.resume(run.summary.id, secrets or None)

        try:
            self._answer = await self._link.perform(resume)
        except QuarterdeckError as error:
            if error.code is ErrorCode.OUTCOME_UNKNOWN:
                # The devices were asked, and some of them may have told.
                self._read_again()
            raise


def _why_off(left: Left, missing: str) -> str:
    if left.off:
        return left.off
    return f"{missing} is missing." if missing else ""
