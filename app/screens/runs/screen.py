"""Runs: the list, one run as a matrix of devices and steps, and a drawer for one cell of it."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QWidget

from app.query import Query
from app.records.run_text import inputs_words, rules_of, step_of
from app.screens.runs.actions import RunActions
from app.screens.runs.cell_details import CellDetails
from app.screens.runs.export_bar import ExportBar
from app.screens.runs.header import RunHeader, rules_words, show_notice
from app.screens.runs.held_cells import HeldCells
from app.screens.runs.inline_confirm import InlineConfirm
from app.screens.runs.layout import RunsLayout
from app.screens.runs.matrix_view import RunMatrix
from app.screens.runs.run_list_view import RunList
from app.screens.runs.run_views import RunViews
from app.screens.runs.status_filter import StatusFilter
from app.screens.runs.view_bar import VIEWS
from app.screens.screen import Navigator, Screen, Shortcut
from app.screens.targets import OpenApproval, OpenRun, Target
from app.service_client import ConsoleLink
from app.state import AppState
from app.widgets.action import Action
from app.widgets.banner import Banner
from app.widgets.labels import separator, set_surface
from app.widgets.layouts import hbox
from app.widgets.util import debounce
from core.batch.models import Cell, CellState, Run, RunSummary
from core.errors import QuarterdeckError
from core.service.console import Console
from core.service.pages import cell_pages

TICK_MS = 1000
# Moving through the list with a held key must not ask for every run it passes.
READ_PAUSE_MS = 70


class RunsScreen(Screen):
    """List, matrix and drawer."""

    name = "runs"
    title = "Runs"
    icon = "runs"

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self._run: Run | None = None
        # The cells of the run that is being read, as far as they have come.
        self._coming = HeldCells()
        self._summary: RunSummary | None = None
        self._wanted_cell: tuple[str, str] | None = None
        self._undo_wanted = False
        self._asked_older = False
        self._narrow = False
        # The operator's wish for runs of many devices; a run of one has its drawer until that is closed.
        self._drawer_open = True
        self._closed_for = ""
        self._count_soon = debounce(self, 0, self._say_counts)
        self._settle_soon = debounce(self, 0, self._settle)
        self._uncover_soon = debounce(self, 0, self._uncover)
        self._clock = QTimer(self)
        self._clock.setInterval(TICK_MS)
        self._clock.timeout.connect(self._tick)

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Build what needs the door."""
        self._reading = Query(self, link, self._show_run, self._say_no_run, "read the run", READ_PAUSE_MS)
        self.list = RunList(link)
        self.ask = InlineConfirm()
        self.export = ExportBar(link, self.ask)
        self.wishes = RunActions(link, nav, self.ask, self.export)
        self.head = RunHeader(self.wishes)
        self.notice = Banner()
        self.matrix = RunMatrix()
        self.views = RunViews(link, self.matrix)
        self.counts = StatusFilter(self.views.bar)
        self.drawer = CellDetails(link, nav, self.wishes)
        self._build()
        super().bind(state, link, nav)
        self.offer(*self.wishes.others)
        self._connect()
        self.remember("panes-v1", self.pages.across)
        self.pages.set_share(float(str(self.remembered("matrix_share", 0)) or 0))
        self.pages.divided.connect(lambda share: self.keep("matrix_share", share))
        self._drawer_open = str(self.remembered("drawer_open", "true")).lower() == "true"
        self.drawer.output.show_numbers(str(self.remembered("output_numbers", "")).lower() == "true")
        self.drawer.output.numbers_chosen.connect(lambda shown: self.keep("output_numbers", shown))
        self.drawer.want_tab(str(self.remembered("tab", "")))
        self._take_runs("")
        self._show_head()

    def _build(self) -> None:
        above = [self.head, separator(), self.ask, self.export, self.notice]
        self.pages = RunsLayout(self.list, above, self.counts, self.views, self.drawer)
        self.message, self.split, self.empty = self.pages.message, self.pages.split, self.pages.empty
        hbox(self.pages, parent=self, spacing=None)

    def _connect(self) -> None:
        state = self.state
        state.runs_changed.connect(self._take_runs)
        state.cell_changed.connect(self._take_cell)
        state.devices_changed.connect(self._names_changed)
        state.journal_changed.connect(self.drawer.look_again)
        state.reset.connect(self._read_run)
        self.matrix.cells.is_production = self.drawer.is_production = self._is_production
        self.matrix.cells.counted.connect(self._count_soon.start)
        self.matrix.cell_changed.connect(self._show_cell)
        self.matrix.opened.connect(self._open_cell)
        self.views.opened.connect(self._go_to_cell)
        self.views.currentChanged.connect(lambda _view: self.pages.divide())
        self.matrix.clicked_cell.connect(lambda _cell: self._open_drawer())
        self.list.chosen.connect(self._choose_run)
        self.list.opened.connect(self._enter_run)
        self.list.clicked.connect(self._click_run)
        self.counts.chosen.connect(self._filter_cells)
        self.head.list_wanted.connect(self._toggle_list)
        self.ask.closed.connect(self._focus_matrix)
        self.wishes.changed.connect(self._reading.refresh)
        self.wishes.renamed.connect(self._say_notice)
        self.notice.acted.connect(self._act_on_notice)
        self.drawer.closed.connect(self._close_drawer)
        self.drawer.tab_chosen.connect(lambda tab: self.keep("tab", tab))
        self.pages.hint.clicked.connect(lambda *_: self._open_drawer())
        self.empty.acted.connect(lambda _key: self.nav.open("batch"))
        self.message.acted.connect(lambda _key: self._reading.refresh())

    # What the window asks

    def enter(self, target: Target | None) -> None:
        """Show a run and perhaps one of its cells."""
        self._clock.start()
        if isinstance(target, OpenRun):
            self._wanted_cell = (target.device, target.step) if target.device and target.step else None
            self._undo_wanted = target.undo
            if self._wanted_cell:
                self._open_drawer()
            if self.list.model.row_of(target.run) < 0:
                self.list.forget_filter()
            self._choose_run(target.run)
            self.list.choose(target.run)
        self._choose_page()
        self._show_first()
        self._focus_matrix()

    def leave(self) -> None:
        """Stop counting seconds."""
        self._clock.stop()

    def shortcuts(self) -> list[Shortcut | Action]:
        """The keys of comp 07, as far as there is something behind them."""
        return [
            Shortcut("Up", "Cell above; in the list the run above"),
            Shortcut("Down", "Cell below; in the list the run below"),
            Shortcut("Return", "Drawer of the cell, or the request that waits"),
            Action("Next cell that needs a look", "runs", self._next_needing, "N"),
            Shortcut(
                "Ctrl+F", "Filter of the list; search of an output or of the results, while those are open"
            ),
            Action("Matrix, results or comparison", "table", self._next_view, "V"),
            self.drawer.picture.full_act,
            Action(
                "Follow the output, or stay where it is read",
                "down",
                self.drawer.live.toggle_follow,
                "Ctrl+L",
                off=self._why_no_live,
            ),
            Shortcut("Space", "Pause the run, or let it go on"),
            *self.wishes.keys,
        ]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Space pauses, where it presses no button."""
        if event.key() == Qt.Key.Key_Space and not event.modifiers() and not event.isAutoRepeat():
            self.wishes.pause.trigger()
        else:
            super().keyPressEvent(event)

    def primary_filter(self) -> QWidget:
        """The search in the output while the keyboard is there, else the field above the list."""
        focus = QApplication.focusWidget()
        if self.drawer.tab == "output" and focus is not None and self.drawer.isAncestorOf(focus):
            return self.drawer.shown_output.open_search()
        if self.views.currentWidget() is self.views.results:
            return self.views.results.field
        if self.list.isHidden():
            self._toggle_list()
        return self.list.field

    def panes(self) -> list[QWidget]:
        """List, matrix and drawer."""
        if self.pages.currentIndex():
            return [self.empty if self.pages.currentIndex() == 1 else self.pages.reading]
        return [self.list.view, self.views, self.drawer]

    def escape(self) -> bool:
        """First a question, then the output's search, the list's filter, the matrix' filter, the drawer."""
        if self.ask.isVisible():
            self.ask.close_question()
        elif self.drawer.isVisible() and self.drawer.shown_output.search.isVisible():
            self.drawer.shown_output.search.close_search()
        elif self.list.field.hasFocus() and self.list.field.text():
            self.list.field.clear()
        elif not self.views.shows_matrix:
            self.views.show_view("matrix")
        elif self._narrow and self.list.isVisible():
            self._toggle_list()
        elif self.matrix.cells.chosen:
            self._filter_cells("")
        elif self.drawer.isVisible():
            self._close_drawer()
        else:
            return False
        return True

    def set_compact(self, narrow: bool, low: bool) -> None:
        """Below 1360 the list hides behind the title, and the facts become a tab."""
        del low
        self._narrow = narrow
        self.list.setVisible(not narrow)
        self.head.show_list.setVisible(narrow)
        self.counts.set_short(narrow)
        self.drawer.set_narrow(narrow)
        self.pages.set_narrow(narrow)

    # Runs

    @property
    def run(self) -> Run | None:
        """The run on show, once it was read."""
        return self._run

    def _take_runs(self, run: str) -> None:
        self.list.show_runs(list(self.state.runs.values()))
        self._choose_page()
        self._show_first()
        current = self.list.current
        if (run in ("", current)) and (summary := self.state.runs.get(current)) is not None:
            self._take_summary(summary)

    def _read_older_once(self) -> None:
        """The first page of older runs comes without being asked for; it tells whether there are more."""
        if self.isVisible() and self.state.runs and not self._asked_older:
            self._asked_older = True
            self.list.read_older()

    def _take_summary(self, summary: RunSummary) -> None:
        ended = summary.state.ended and self._run is not None and not self._run.summary.state.ended
        self._summary = summary
        self._show_head()
        self.matrix.cells.take_summary(summary)
        if self._run is not None:
            self.views.show_run(summary)
        if ended:
            # Whatever was missed on the way: at its end a run is read whole once more.
            self._read_run()

    def _show_first(self) -> None:
        self._read_older_once()
        if self.list.current or not self.isVisible():
            return
        kept = str(self.remembered("run", ""))
        first = kept if self.list.model.find(kept) else self.list.model.newest()
        open_runs = self.state.open_runs()
        if open_runs:
            first = open_runs[0].id
        if first:
            self._choose_run(first)
            self.list.choose(first)

    def _choose_page(self) -> None:
        some = self.state.runs or self.list.model.known or self._run or self.list.current
        self.pages.choose(self.state.loaded, not some)

    def _choose_run(self, run: str) -> None:
        self.keep("run", run)
        if self._summary is not None and self._summary.id == run and self._run is not None:
            if (summary := self.state.runs.get(run)) is not None:
                self._take_summary(summary)
            self._go_to_wanted()
            return
        self._run = None
        self.ask.close_question()
        self.matrix.cells.clear()
        self.counts.show_chosen("")
        self.drawer.hide()
        self.pages.show_hint(False)
        self.list.choose(run)
        self._summary = self.state.runs.get(run) or self.list.model.find(run)
        self.pages.say("Reading the run…", "It is shown as soon as the service answers.")
        self._show_head()
        self._read_run()

    def _enter_run(self, run: str) -> None:
        self._choose_run(run)
        if self._narrow:
            self._toggle_list()
        self._focus_matrix()

    def _click_run(self, run: str) -> None:
        """The arrow keys go on through the list, unless it lies over what was chosen in it."""
        if self._narrow:
            self._enter_run(run)

    def _read_run(self) -> None:
        if run := self.list.current:
            self._reading.load(lambda console: self._read(console, run), run)

    async def _read(self, console: Console, run: str) -> tuple[Run, HeldCells]:
        # In pages: a cell that changes after its own page was read, and before the last one, is taken again.
        held = self._coming = HeldCells()
        read = await console.runs.get(run)
        async for summary, cells in cell_pages(console.runs, read):
            for cell in cells:
                held.put(cell)
            read = read.model_copy(update={"summary": summary})
        return read.model_copy(update={"cells": list(held.cells.values()), "next": None}), held

    def _show_run(self, read: tuple[Run, HeldCells]) -> None:
        run, held = read
        first = self._run is None
        self._run, self._summary, self._coming = run, run.summary, HeldCells()
        self.list.model.take([run.summary])
        if first:
            self.list.choose(run.summary.id)
        self._choose_page()
        self.matrix.cells.show_run(run, held)
        self._show_head()
        self.views.show_run(run.summary)
        if first:
            # A thousand rows, then the drawer, then the first look at both, each in a turn of the loop of its
            # own: together they would be a visible stall. Until then all is covered.
            self._settle_soon.start()
        else:
            self.pages.say("")
            self._show_cell(self.matrix.current_cell())

    def _settle(self) -> None:
        if self._run is not None:
            self._go_to_wanted()
            self._uncover_soon.start()

    def _uncover(self) -> None:
        if self._run is not None:
            self.pages.uncover()

    def _say_no_run(self, error: QuarterdeckError) -> None:
        self._choose_page()
        self.pages.say("This run cannot be shown.", error.info.sentences, ("again", "Read again", "refresh"))

    def _go_to_wanted(self) -> None:
        if self._undo_wanted:
            self._undo_wanted = False
            self.wishes.undo.trigger()
        wanted, self._wanted_cell = self._wanted_cell, None
        if wanted is not None:
            if self.matrix.cells.chosen:
                self._filter_cells("")
            if self.matrix.go_to_cell(*wanted):
                self._open_drawer()
                return
        if self.matrix.current_cell() is None and not self.matrix.go_to_next_needing():
            self.matrix.go_to(self.matrix.cells.index(0, 0))

    # The run on show

    def _show_head(self) -> None:
        summary, batch = self._summary, self._run.batch if self._run else None
        self.head.setVisible(summary is not None)
        self.wishes.show_run(summary, self._run)
        if summary is None:
            return
        self.head.show_run(summary, batch.rollout.parallel if batch else None, self._wave_words())
        known = map(self.state.devices.get, summary.devices)
        self.head.show_production(sum(1 for device in known if device is not None and device.production))
        if self._run is not None:
            self.counts.say_rules(rules_words(self._run))

    def _say_notice(self) -> None:
        if self._summary is not None:
            show_notice(self.notice, self._summary, self.wishes.resume)

    def _wave_words(self) -> str:
        cells = self.matrix.cells
        known = self._run is not None and cells.wave_count > 1
        return f"wave {max(1, cells.present_wave)} of {cells.wave_count}" if known else ""

    def _act_on_notice(self, key: str) -> None:
        self.nav.open("runs", OpenRun(key.removeprefix("run:")))

    def _say_counts(self) -> None:
        cells = self.matrix.cells
        self.counts.show_counts(cells.counts, cells.total(), cells.needing())

    def _filter_cells(self, group: str) -> None:
        self.counts.show_chosen(group)
        self.matrix.cells.choose(group)
        if self.matrix.current_cell() is None:
            self.matrix.go_to(self.matrix.cells.first_match())

    def _is_production(self, device: str) -> bool:
        known = self.state.devices.get(device)
        return known is not None and known.production

    def _names_changed(self) -> None:
        if self.isVisible():
            self.matrix.look_at_bands()

    def _tick(self) -> None:
        if self._summary is not None and not self._summary.state.ended and self.isVisible():
            self.head.tick(self._summary)
            self.matrix.tick()
            self.drawer.tick()

    # Cells

    def _take_cell(self, cell: Cell) -> None:
        place = (cell.device, cell.step)
        if (known := self._coming.cells.get(place)) is not None and known.run == cell.run:
            self._coming.put(cell)
        if self._run is None or cell.run != self._run.summary.id:
            return
        self.matrix.cells.put(cell)
        self.views.take_cell()
        shown = self.drawer.cell
        if shown is not None and (shown.device, shown.step) == (cell.device, cell.step):
            self._show_cell(self.matrix.current_cell())

    def _show_cell(self, cell: Cell | None) -> None:
        self.wishes.show_cell(cell)
        self.views.show_step(cell)
        if cell is None or self._run is None:
            self.drawer.hide()
            self.pages.show_hint(False)
            return
        wanted = self._drawer_wanted()
        self.drawer.setVisible(wanted)
        self.pages.show_hint(not wanted)
        if wanted:
            step = step_of(self._run, cell.step)
            look = self.matrix.cells.look_at(self.matrix.currentIndex())
            rules = rules_of(self._run, cell.step)
            if inputs := inputs_words(self._run):
                rules.append(("Inputs", inputs))
            self.drawer.show_cell(cell, look, step.timeout if step else None, rules)

    def _open_cell(self, cell: Cell) -> None:
        if cell.state is CellState.WAITING and cell.approval and not self._ended():
            self.nav.open("approvals", OpenApproval(cell.approval))
            return
        self._open_drawer()
        self.drawer.focus_first()

    def _ended(self) -> bool:
        return self._summary is not None and self._summary.state.ended

    def _drawer_wanted(self) -> bool:
        if self._run is not None and len(self._run.summary.devices) == 1:
            return self._closed_for != self._run.summary.id
        return self._drawer_open

    def _open_drawer(self) -> None:
        self._drawer_open = True
        self._closed_for = ""
        self.keep("drawer_open", "true")
        self._show_cell(self.matrix.current_cell())

    def _close_drawer(self) -> None:
        if self._run is not None and len(self._run.summary.devices) == 1:
            self._closed_for = self._run.summary.id
        else:
            self._drawer_open = False
            self.keep("drawer_open", "false")
        self.drawer.hide()
        self.pages.show_hint(True)
        self._focus_matrix()

    def _focus_matrix(self) -> None:
        if self.pages.currentIndex() == 0 and not self.ask.isVisible():
            self.views.take_keyboard()

    def _go_to_cell(self, device: str, step: str) -> None:
        """Show a cell that was found in the results or in a comparison."""
        self._wanted_cell = (device, step)
        self._go_to_wanted()
        self._focus_matrix()

    def _next_view(self) -> None:
        view = VIEWS[(self.views.currentIndex() + 1) % len(VIEWS)]
        self.views.show_view(view)

    def _next_needing(self) -> None:
        if self.matrix.go_to_next_needing():
            self._focus_matrix()

    def _why_no_live(self) -> str:
        return "" if self.drawer.live.isVisible() else "No output that comes is open."

    # Wishes

    def _toggle_list(self) -> None:
        self.list.setVisible(self.list.isHidden())
        if self.list.isVisible():
            self.list.view.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self._focus_matrix()
