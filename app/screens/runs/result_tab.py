"""Result: what went wrong with what to do, what came back, and the evidence that was kept."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.records.run_text import size_words
from app.screens.runs.save_as import Saver
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.banner import Notice
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.json_view import JsonView
from app.widgets.labels import Label, Link
from app.widgets.layouts import hbox, vbox
from app.widgets.property_list import short_digest
from app.widgets.util import clear_layout
from core.batch.models import Cell, CellState
from core.commands.results import CommandResult, Evidence
from core.errors import ErrorInfo, QuarterdeckError
from core.service.console import Console
from core.service.envelope import Alternative

MOST_EVIDENCE = 8
_NOT_YET = {
    CellState.QUEUED: "It has not started yet.",
    CellState.RUNNING: "It runs; the device has not answered yet.",
    CellState.RETRYING: "It failed and is tried again after a wait.",
    CellState.WAITING: "It waits for an operator; nothing was sent.",
    CellState.CANCEL_ASKED: "The device was asked to cancel and has not answered yet.",
    CellState.SKIPPED: "It was skipped.",
    CellState.NOT_STARTED: "It was not started.",
    CellState.NO_SUCH_TOOL: "The device has no such tool.",
    CellState.CANCELLED: "It was cancelled.",
}


class ResultTab(QWidget):
    """One cell's result.

    Signals:
        picture_wanted: the operator wants to see the picture.
        alternative_wanted(alternative): the operator wants to build this call.
    """

    picture_wanted = Signal()
    alternative_wanted = Signal(object)

    def __init__(self, link: ConsoleLink, nav: Navigator, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._saver = Saver(self, link, nav.toast)
        self._shown: tuple[CommandResult | None, str] | None = None
        self.error = Notice("fail", "")
        self.error.hide()
        self.json = JsonView()
        self.place = ContentOrEmpty(self.json)
        self.nothing = self.place.empty
        self.json.setAccessibleName("Result")
        self.alternatives = QWidget()
        self._ways = vbox(parent=self.alternatives, spacing=SPACE.tight)
        self.alternatives.hide()
        self.evidence = QWidget()
        self._lines = vbox(parent=self.evidence)
        self.problem = Label("", "meta", "fail", wrap=True)
        self.problem.hide()
        column = vbox(
            self.error,
            self.alternatives,
            (self.place, 1),
            self.evidence,
            self.problem,
            parent=self,
            margins=(SPACE.pane, SPACE.medium, SPACE.pane, SPACE.small),
            spacing=SPACE.small,
        )
        column.addStretch(0)

    def show_cell(self, cell: Cell, said_above: bool) -> None:
        """Show what the cell came to; what is shown already stays as it was opened.

        `said_above`: the drawer's banner says what went wrong or waits, so only what to do is left to say.
        """
        result = cell.result
        words = _NOT_YET.get(cell.state, "Nothing came back.")
        if result is not None and result.note:
            words = one_line(result.note)
        if cell.state is CellState.WAITING and said_above:
            words = ""
        elif cell.note and result is None:
            words = f"{words} {one_line(cell.note)}."
        if (result, words) == self._shown:
            return
        self._shown = (result, words)
        self.show_alternatives([])
        self._show_error(result.error if result else None, said_above)
        value = result.result if result else None
        nothing = words if result is None or result.error is None else "Nothing came back."
        self.place.setVisible(value is not None or bool(nothing))
        if value is None:
            # The first sentence says how it stands, what follows why.
            heading, _, rest = nothing.partition(". ")
            self.place.say(
                heading.rstrip(".") + ".", rest or "What was decided and recorded stands beside this."
            )
        else:
            self.place.show_content()
            # A bare text or number has no name of its own to stand under.
            self.json.set_value(value if isinstance(value, dict | list) else {"result": value})
        self._show_evidence(result.evidence if result else [])
        # Where nothing is shown at all, what follows stays at the top.
        self.layout().setStretch(5, 0 if self.place.isVisibleTo(self) else 1)  # type: ignore[union-attr]

    def show_alternatives(self, others: Sequence[Alternative]) -> None:
        """Say which calls could be made instead of the one that failed."""
        clear_layout(self._ways)
        self.alternatives.setVisible(bool(others))
        if others:
            self._ways.addWidget(Label("Could be called now", "label", "text3"))
        for other in others:
            line = QWidget()
            words = f"{one_line(other.tool)} on {one_line(other.device)}"
            build = Link("Build it", "meta_strong")
            build.setAccessibleName(f"Build a call of {words}")
            build.clicked.connect(lambda *_, other=other: self.alternative_wanted.emit(other))
            hbox(
                Label(words, "name"),
                (Label(one_line(other.why), "body", "text2", wrap=True), 1),
                build,
                parent=line,
                spacing=SPACE.medium,
            )
            self._ways.addWidget(line)

    def _show_error(self, error: ErrorInfo | None, said_above: bool) -> None:
        self.error.setVisible(error is not None)
        if error is not None and said_above:
            self.error.say("note", one_line(error.next) or one_line(error.message), error.code.value)
        elif error is not None:
            self.error.say("fail", one_line(error.message), f"{error.code.value}: {one_line(error.next)}")

    def _show_evidence(self, evidence: list[Evidence]) -> None:
        clear_layout(self._lines)
        self.problem.hide()
        self.evidence.setVisible(bool(evidence))
        if evidence:
            self._lines.addWidget(Label("Evidence", "label", "text3"))
        for one in evidence[:MOST_EVIDENCE]:
            self._lines.addWidget(self._line(one))
        if len(evidence) > MOST_EVIDENCE:
            left = len(evidence) - MOST_EVIDENCE
            self._lines.addWidget(Label(f"{left} more are named in the result above", "meta", "text2"))

    def _line(self, one: Evidence) -> QWidget:
        line = QWidget()
        row = hbox(
            Label(one_line(one.what) or "output", "name"),
            Label(f"{one_line(one.media_type)}, {size_words(one.size)}", "meta", "text2"),
            parent=line,
            spacing=SPACE.medium,
        )
        digest = Label(short_digest(one.blob), "mono_small", "text2", selectable=True)
        digest.setToolTip(one.blob)
        row.addWidget(digest)
        row.addStretch(1)
        if one.media_type.startswith("image/"):
            show = Link("Show", "meta_strong")
            show.setAccessibleName(f"Show {one_line(one.what)}")
            show.clicked.connect(lambda *_: self.picture_wanted.emit())
            row.addWidget(show)
        save = Link("Save as…", "meta_strong")
        save.setAccessibleName(f"Save {one_line(one.what)} as…")
        save.clicked.connect(lambda *_: self._save(one))
        row.addWidget(save, 0, Qt.AlignmentFlag.AlignRight)
        return line

    def _save(self, one: Evidence) -> None:
        async def get(console: Console) -> bytes:
            return await console.journal.blob(one.blob)

        ending = {"text/plain": "txt", "image/png": "png", "image/jpeg": "jpg"}.get(one.media_type, "bin")
        self._saver.save(f"{one.blob[:12]}.{ending}", get, self._failed)

    def _failed(self, error: QuarterdeckError) -> None:
        self.problem.setText(error.info.sentences)
        self.problem.show()
