"""What the undo of a run would do, call by call, before it is started as a run of its own."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QWidget

from app.form_dialog import FormDialog
from app.items.table_model import Cell, Column, Kind, RowStyle, TableModel
from app.items.table_view import TableView
from app.query import Query
from app.service_client import ConsoleLink
from app.text import one_line
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.labels import Label
from core.batch.models import Run, UndoCell, UndoFate, UndoPlan
from core.errors import QuarterdeckError
from core.policy.models import Answer
from core.service.console import Console
from core.text import sentences

TABLE_HEIGHT = 260
_FATES = {
    UndoFate.UNDOES: "undone",
    UndoFate.NOTHING: "nothing to undo",
    UndoFate.CANNOT: "cannot be undone",
    UndoFate.UNKNOWN: "may have happened",
    UndoFate.UNDONE: "undone already",
    UndoFate.UNAVAILABLE: "cannot be asked now",
}
_ANSWERS = {Answer.ALLOW: "runs", Answer.ASK: "asks", Answer.DENY: "denied"}


def _why(cell: UndoCell) -> Cell:
    """Why, without the words that stand in the column before it."""
    start, colon, rest = cell.why.partition(": ")
    words = rest[:1].upper() + rest[1:] if colon and start.endswith("be undone") else cell.why
    return Cell(one_line(words or cell.what), tip=one_line(f"{cell.what} {cell.why}".strip()))


def _policy(cell: UndoCell) -> str:
    if cell.fate is not UndoFate.UNDOES:
        return ""
    return _ANSWERS[cell.answer] if cell.answer else "denied"


_COLUMNS: tuple[Column[UndoCell], ...] = (
    Column("device", "Device", Kind.NAME, 130, cell=lambda cell: one_line(cell.device)),
    Column("step", "Step", Kind.TEXT, 90, cell=lambda cell: one_line(cell.step)),
    Column("tool", "Tool", Kind.MONO, 110, cell=lambda cell: one_line(cell.tool)),
    Column("fate", "Undo", Kind.TEXT, 130, cell=lambda cell: _FATES[cell.fate]),
    Column("policy", "Policy", Kind.PLAN, 80, cell=_policy),
    Column("why", "Why", Kind.TEXT, 200, stretch=True, cell=_why),
)


class UndoDialog(FormDialog):
    """Shows the plan; its act starts exactly the calls that are shown, or is refused."""

    def __init__(
        self, window: QWidget, link: ConsoleLink, run: str, name: str, undone: Callable[[Run], None]
    ) -> None:
        """`undone` gets the run that undoes."""
        super().__init__(window, link, f"Undo {name}", width=860)
        self._run, self._plan = run, UndoPlan(run=run, summary="", digest="")
        self._started: Run | None = None
        self.summary = Label("Reading what can be undone…", "head", wrap=True)
        self.detail = Label(
            "A run of its own, in reverse order, with decisions and approvals of its own. A device undoes "
            "only what is still as it was left.",
            tone="text2",
            wrap=True,
        )
        model = TableModel(_COLUMNS, lambda cell: (cell.device, cell.step, cell.call_id), _style)
        self.table = TableView(model, "What an undo would do")
        self.place = ContentOrEmpty(self.table, "raised")
        self.place.setFixedHeight(TABLE_HEIGHT)
        self.place.say("Reading…", "The journal and the devices are asked.")
        for widget in (self.summary, self.detail, self.place):
            self.add(widget)
        self._act = self.add_act("undo", "Undo", self._undo, f"undo {run}", lambda: undone(self._new))
        self._act.set_off("What can be undone is still read.")
        self._reading = Query(self, link, self._show, self._say_not_read, f"read what of {run} can be undone")

    def begin(self) -> None:
        """Come up and read."""
        self.open(self.answer("cancel"))
        run = self._run
        self._reading.load(lambda console: console.runs.undo_plan(run), run)

    @property
    def _new(self) -> Run:
        assert self._started is not None
        return self._started

    def _show(self, plan: UndoPlan) -> None:
        self._plan = plan
        self.summary.setText(sentences(plan.summary[:1].upper() + plan.summary[1:]))
        self.table.show_rows(sorted(plan.cells, key=lambda cell: cell.fate is UndoFate.NOTHING))
        self.place.show_content()
        self._act.set_words("Start the undo")
        self._act.set_off("" if plan.calls else "There is nothing that can be undone now.")
        if plan.calls:
            self.table.setFocus()

    def _say_not_read(self, error: QuarterdeckError) -> None:
        self.summary.setText("What can be undone is not known.")
        self.place.say("It could not be read.", error.info.sentences)
        self._act.set_off("What can be undone is not known.")

    async def _undo(self) -> None:
        plan = self._plan

        async def undo(console: Console) -> Run:
            return await console.runs.undo(plan.run, plan.digest)

        self._started = await self._link.perform(undo)


def _style(cell: UndoCell) -> RowStyle:
    return RowStyle(muted=cell.fate in (UndoFate.NOTHING, UndoFate.UNDONE))
