"""The drawer: one cell in full, below the matrix."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QWidget

from app.query import Query, quietly
from app.records.command import Command, read_command
from app.records.run_text import cell_time
from app.screens.runs.actions import RunActions
from app.screens.runs.cell_banner import CellBanner
from app.screens.runs.command_facts import CommandFacts
from app.screens.runs.decision_tab import DecisionTab
from app.screens.runs.entries_tab import EntriesTab
from app.screens.runs.live_output import LiveOutput
from app.screens.runs.output_streams import streams_of
from app.screens.runs.output_tab import OutputTab
from app.screens.runs.picture_tab import PictureTab, pictures_of
from app.screens.runs.result_tab import ResultTab
from app.screens.screen import Navigator
from app.screens.targets import OpenApproval, OpenEntry, OpenRun, OpenTool
from app.service_client import ConsoleLink
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.action_buttons import ActionButton
from app.widgets.badges import ProductionTag, VerdictBadge
from app.widgets.buttons import IconButton, Segmented
from app.widgets.labels import ElidedLabel, Label, separator, set_surface
from app.widgets.layouts import hbox, vbox
from core.batch.live_run import with_result
from core.batch.models import Cell, CellState
from core.errors import ErrorCode, QuarterdeckError
from core.service.console import CommandRecord
from core.service.envelope import Alternative

TABS = ("result", "output", "picture", "decision", "entries", "facts")
FACTS_WIDTH = 296
# Moving through the matrix with a held key must not ask about every cell it passes.
READ_PAUSE_MS = 90
# A busy journal changes many times a second.
READ_AGAIN_MS = 1000


class CellDetails(QWidget):
    """Shows one cell; reads what the journal has of its command.

    Signals:
        closed: the operator closed it.
        tab_chosen(tab): the operator chose a tab by hand.
    """

    closed = Signal()
    tab_chosen = Signal(str)

    def __init__(
        self, link: ConsoleLink, nav: Navigator, actions: RunActions, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        set_surface(self, "base")
        self.setAccessibleName("Cell")
        self._nav, self._actions = nav, actions
        self._cell: Cell | None = None
        self._look = ""
        self._deadline: float | None = None
        self._rules: list[tuple[str, str]] = []
        self._known = Command()
        self._known_for = ""
        self._missing = ""
        self._wanted = ""
        self._narrow = False
        self._record = Query(
            self, link, self._show_record, self._say_no_record, "read this command", READ_PAUSE_MS
        )
        self.is_production: Callable[[str], bool] = lambda _device: False
        self.result = ResultTab(link, nav)
        self.output = OutputTab(link, nav)
        self.live = LiveOutput(link, nav)
        self._outputs = QStackedWidget()
        self._outputs.addWidget(self.output)
        self._outputs.addWidget(self.live)
        self.output.as_it_came_wanted.connect(lambda: self._show_output(True))
        self.live.streams_wanted.connect(lambda: self._show_output(False))
        self.picture = PictureTab(link, nav)
        self.decision = DecisionTab()
        self.entries = EntriesTab()
        self.facts = CommandFacts()
        self.banner = CellBanner((actions.settle_done, actions.settle_not_done))
        self._others = Query(
            self, link, self.result.show_alternatives, quietly, "find other ways", READ_PAUSE_MS
        )
        self.result.alternative_wanted.connect(self._build_alternative)
        self.result.picture_wanted.connect(lambda: self.choose_tab("picture"))
        self.entries.opened.connect(lambda seq: self._nav.open("journal", OpenEntry(seq)))
        self.banner.acted.connect(self._follow_link)
        self._build()
        actions.renamed.connect(self._show_offers)

    def _build(self) -> None:
        self.title = Label("", "head")
        self.production = ProductionTag(0)
        self.tool = ElidedLabel("", "mono_small", "text2")
        self.tool.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.badge = VerdictBadge("queued")
        self.time = ElidedLabel("", "body", "text2")
        self.time.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        words = [(tab, tab.capitalize()) for tab in TABS]
        self.tabs = Segmented(words, "What to show of this cell", in_bar=True)
        self.tabs.chosen.connect(self._tab_pressed)
        self.cancel = ActionButton(self._actions.cancel_step)
        close = IconButton("close", "Close the drawer", key="Esc")
        close.clicked.connect(lambda *_: self.closed.emit())
        head = QWidget()
        head.setFixedHeight(40)
        hbox(
            self.title,
            self.production,
            self.tool,
            self.badge,
            (self.time, 1),
            self.tabs,
            self.cancel,
            close,
            parent=head,
            margins=(SPACE.pane, 0, SPACE.small, 0),
            spacing=SPACE.small,
        )
        self.stack = QStackedWidget()
        for page in (self.result, self._outputs, self.picture, self.decision, self.entries):
            self.stack.addWidget(page)
        self._line = separator(Qt.Orientation.Vertical)
        self._beside = hbox((self.stack, 1), self._line, self.facts)
        self.facts.setFixedWidth(FACTS_WIDTH)
        vbox(head, separator(), self.banner, (self._beside, 1), parent=self)
        self._place_facts()

    # What is shown

    @property
    def cell(self) -> Cell | None:
        """The cell on show."""
        return self._cell

    def show_cell(self, cell: Cell, look: str, deadline: float | None, rules: list[tuple[str, str]]) -> None:
        """Show a cell; `deadline` is how many seconds its step may take, when the batch says so.

        `rules` are what the batch says of the step beside that.
        """
        other = self._cell is None or _place(cell) != _place(self._cell)
        stale = other or cell.state is not (self._cell.state if self._cell else None)
        self._cell, self._look, self._deadline, self._rules = cell, look, deadline, rules
        if other or cell.call_id != self._known_for:
            self._known, self._known_for = Command(), cell.call_id or ""
            self._missing = "" if cell.call_id else "This step has not been a command yet."
            self._record.forget()
        if stale and (call_id := cell.call_id):
            self._missing = self._missing if self._known.entries else "Reading…"
            self._record.load(lambda console: console.journal.command(call_id), call_id)
        self._show(other)

    def _known_cell(self) -> Cell | None:
        """The cell on show, with the result or the value that only the journal has."""
        cell, known = self._cell, self._known.result
        if cell is None or known is None:
            return cell
        if cell.result is None:
            return cell.model_copy(update={"result": known})
        if cell.result.result is None and known.result is not None:
            return with_result(cell, result=known.result, note=known.note)
        return cell

    def _show_offers(self) -> None:
        """Offer what can be done with the cell now; this depends on its run, too, which may have ended."""
        if (cell := self._known_cell()) is not None:
            self.cancel.setVisible(not self._actions.cancel_step.reason)
            self.banner.show_cell(cell, self._look, self._known.denied_by, self._known.late)

    def _show(self, other: bool) -> None:
        cell = self._known_cell()
        if cell is None:
            return
        self.title.setText(f"{one_line(cell.device)}, {one_line(cell.step)}")
        self.production.set_count(None if self.is_production(cell.device) else 0)
        self.tool.set_text(one_line(cell.tool))
        self.badge.set_verdict(self._look)
        self.tick()
        self._show_offers()
        self.result.show_cell(cell, self._look in ("unknown", "refused", "waiting"))
        self._look_for_alternatives(cell)
        output = self._show_outputs(cell, other)
        self.picture.show_result(cell.result)
        self.decision.show_known(self._known, self._missing)
        self.entries.show_entries(self._known.entries, self._missing)
        self.facts.show_cell(cell, self._look, self._known, self._rules)
        self._offer(output, len(pictures_of(cell.result)), other)

    def _look_for_alternatives(self, cell: Cell) -> None:
        """Ask what could be called instead of what failed."""
        failed = cell.state in (CellState.FAILED, CellState.NO_SUCH_TOOL) and cell.result is not None
        if failed:
            self._others.ensure(
                lambda console: console.runs.alternatives(cell.run, cell.device, cell.step),
                (cell.run, cell.call_id),
            )
            if self._others.value is not None:
                self.result.show_alternatives(self._others.value)
        else:
            self._others.forget()

    def _build_alternative(self, other: Alternative) -> None:
        known = self._known.parameters
        self._nav.open("batch", OpenTool(other.device, other.tool, known if isinstance(known, dict) else {}))

    def _show_outputs(self, cell: Cell, other: bool) -> bool:
        """Show the output by streams, or as it came; whether there is some.

        While there are no streams, it is shown as it comes, and stays so when they are there. The journal
        has it where the cell does not tell of it any more, as of one that a restart of the service ended.
        """
        streams, came = bool(streams_of(cell.result)), cell.output_size > 0 or self._known.has_output
        self.output.show_result(cell.result)
        self.output.came.setVisible(came)
        self.live.show_streams_link(streams)
        if came:
            self.live.show_cell(cell)
        if other or not (streams and came):
            self._show_output(came and not streams)
        return streams or came

    def _show_output(self, as_it_came: bool) -> None:
        self._outputs.setCurrentWidget(self.live if as_it_came else self.output)

    @property
    def shown_output(self) -> OutputTab | LiveOutput:
        """The output on show: by streams, or as it came."""
        return self.live if self._outputs.currentWidget() is self.live else self.output

    def _offer(self, output: bool, pictures: int, other: bool) -> None:
        self.tabs.set_part_enabled("output", output, "" if output else "This step wrote no output")
        self.tabs.set_part_enabled("picture", pictures > 0, "" if pictures else "There is no picture")
        self.tabs.set_words("picture", f"Pictures {pictures}" if pictures > 1 else "Picture")
        count = len(self._known.entries)
        self.tabs.set_words("entries", f"Entries {count}" if count else "Entries")
        usable = {"output": output, "picture": pictures > 0, "facts": self._narrow}
        best = "picture" if pictures else "output" if output else "result"
        wanted = self._wanted if usable.get(self._wanted, bool(self._wanted)) else best
        now = self.tabs.current()
        if other or not usable.get(now, True) or (not self._wanted and wanted != now):
            self.choose_tab(wanted)

    def tick(self) -> None:
        """Show the time again."""
        if self._cell is None:
            return
        words = cell_time(self._cell, self._look)
        if words and self._look == "running" and self._deadline:
            words = f"{words} of {self._deadline:g} s"
        self.time.set_text(words)

    # Tabs

    @property
    def tab(self) -> str:
        """The tab on show."""
        return self.tabs.current()

    def want_tab(self, tab: str) -> None:
        """Show this tab whenever the cell has it."""
        self._wanted = tab if tab in TABS else ""

    def _tab_pressed(self, tab: str) -> None:
        self._wanted = tab
        self.choose_tab(tab)
        self.tab_chosen.emit(tab)

    def choose_tab(self, tab: str) -> None:
        """Show a tab."""
        self.tabs.choose(tab)
        self.stack.setCurrentIndex(TABS.index(tab))

    def set_narrow(self, narrow: bool) -> None:
        """Where there is little room the facts are a tab."""
        if narrow != self._narrow:
            self._narrow = narrow
            self._place_facts()

    def _place_facts(self) -> None:
        now = self.tabs.current()
        if self._narrow:
            self.facts.setMinimumWidth(0)
            self.facts.setMaximumWidth(16_777_215)
            self.stack.addWidget(self.facts)
        else:
            self._beside.addWidget(self.facts)
            self.facts.setFixedWidth(FACTS_WIDTH)
            self.facts.show()
        self._line.setVisible(not self._narrow)
        self.tabs.set_part_shown("facts", self._narrow)
        if now == "facts" and not self._narrow:
            self.choose_tab("result")

    def focus_first(self) -> None:
        """Take the keyboard."""
        inner: dict[str, QWidget] = {
            "result": self.result.json,
            "output": self.shown_output.box,
            "picture": self.picture.view,
            "entries": self.entries.table,
        }
        target = inner.get(self.tab, self.tabs)
        if not target.isVisible():
            target = self.tabs
        target.setFocus(Qt.FocusReason.TabFocusReason)

    # The journal's side

    def _show_record(self, record: CommandRecord) -> None:
        self._known, self._missing = read_command(record.entries, record.decision, record.result), ""
        self._show(False)

    def look_again(self) -> None:
        """Read the journal again where more may come: a device can answer after its command was given up."""
        if self.isVisible() and self._look == "unknown" and self._known.late is None:
            self._record.refresh_within(READ_AGAIN_MS)

    def _say_no_record(self, error: QuarterdeckError) -> None:
        # A command that has just begun may not be in the journal yet.
        words = "The journal has nothing of it yet." if error.code is ErrorCode.NOT_FOUND else ""
        self._missing = words or error.info.sentences
        self._show(False)

    def _follow_link(self) -> None:
        cell = self._cell
        if cell is not None and cell.carried_from:
            self._nav.open("runs", OpenRun(cell.carried_from, cell.device, cell.step))
        elif cell is not None and cell.approval:
            self._nav.open("approvals", OpenApproval(cell.approval))


def _place(cell: Cell) -> tuple[str, str, str]:
    return cell.run, cell.device, cell.step
