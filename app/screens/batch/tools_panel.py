"""The column of tools: search, groups by effect, and three ways to add one: drag, Enter, plus."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import (
    Qt,
    Signal,
)
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QVBoxLayout,
)

from app.query import Query
from app.screens.batch.text import one_line
from app.screens.batch.tool_catalog import CatalogState
from app.screens.batch.tools_view import ToolsView
from app.service_client import ConsoleLink
from app.text import plural
from app.theme.theme import theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.action import Action
from app.widgets.action_buttons import ActionLink
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import SearchField
from app.widgets.labels import Label, set_surface
from app.widgets.layouts import STRETCH, hbox
from core.errors import QuarterdeckError
from core.fleet.models import ToolHit

PAUSE_MS = 90
MOST_FOUND = 60


class ToolsPanel(QFrame):
    """Search and list; in narrow windows it is a pop-up above the steps.

    Signals:
        add_wanted(tool_name): the pointer asked for it.
        typed(tool_name): a key asked for it.
        proposal_wanted(words): a batch is wanted for what was typed into the search.
    """

    add_wanted = Signal(str)
    typed = Signal(str)
    proposal_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Tools")
        self.propose_act = Action(
            "Make a batch of the words in the search", "search", self._ask_proposal, "Alt+Return",
            label="Make a batch of these words",
            tip="Words joined by “and”, “then” or commas become steps; nothing is sent.",
            off=lambda: "" if self.search.text().strip() else "The search of the tools is empty.",
        )  # fmt: skip
        self._offer = CatalogState()
        self._floating = False
        self._found: Query[list[ToolHit]] | None = None
        self._targets: Callable[[], str] = str
        self._adds_first = False
        self.search = SearchField("Search tools", "Tools")
        self.list = ToolsView()
        self.note = Label("", "meta", "text3", wrap=True)
        self.note.setContentsMargins(12, 4, 8, 4)
        column = QVBoxLayout(self)
        column.setContentsMargins(1, 10, 1, 1)
        column.setSpacing(8)
        top = QVBoxLayout()
        top.setContentsMargins(9, 0, 9, 0)
        top.addWidget(self.search)
        column.addLayout(top)
        column.addWidget(self.note)
        self.place = ContentOrEmpty(self.list)
        self.place.empty.acted.connect(lambda _key: self.search.clear())
        column.addWidget(self.place, 1)
        self.propose = ActionLink(self.propose_act, role="meta")
        self.propose.hide()
        column.addLayout(hbox(self.propose, STRETCH, margins=(12, 0, 8, 8)))
        self.search.textChanged.connect(lambda _text: self._look())
        self.search.returnPressed.connect(self._add_first)
        self.search.down_pressed.connect(self._go_down)
        self.list.add_wanted.connect(self.add_wanted)
        self.list.typed.connect(self.typed)

    def set_floating(self, floating: bool) -> None:
        """Draw an edge of its own while it lies above other panes."""
        self._floating = floating
        set_surface(self, "raised" if floating else "base")
        self.style().unpolish(self)
        self.style().polish(self)
        self.update()

    def show_offer(self, offer: CatalogState) -> None:
        """Show the tools of the matched devices."""
        self._offer = offer
        self.search.setPlaceholderText(
            f"Tools on all {offer.matched}" if offer.matched > 1 else "Search tools"
        )
        self._show()

    def bind(self, link: ConsoleLink, targets: Callable[[], str]) -> None:
        """Where to search; `targets` gives the filter of the devices."""
        self._targets = targets
        self._found = Query(
            self, link, lambda _hits: self._show_found(), self._fail, "search the tools", PAUSE_MS
        )

    def _ask_proposal(self) -> None:
        self.proposal_wanted.emit(self.search.text().strip())

    def _look(self) -> None:
        """What is searched for is another thing."""
        words, self._adds_first = self.search.text().strip(), False
        self.propose.setVisible(len(words.split()) > 1)
        if self._found is None or not words:
            if self._found is not None:
                self._found.forget()
            self._show()
            return
        targets = self._targets()
        self._found.load(lambda console: console.devices.search(words, targets, MOST_FOUND), (words, targets))

    def _show_found(self) -> None:
        self._show()
        if self._adds_first:
            self._adds_first = False
            self._add_first()

    def _fail(self, _error: QuarterdeckError) -> None:
        self._adds_first = False
        self._show()

    @property
    def searching(self) -> bool:
        """Whether what was typed is still looked for."""
        return self._found is not None and self._found.loading

    def _show(self) -> None:
        found = self._found
        if found is not None and found.loading and found.value is None:
            return  # what was shown before stays until there is an answer
        searched = found is not None and bool(self.search.text().strip())
        self.list.tools.show(self._offer, (found.value or []) if found is not None and searched else None)
        offer = self._offer
        part = bool(self.list.tools.items) and offer.asked < offer.matched and not offer.reading
        self.note.setText(f"Read from {offer.asked} of {plural(offer.matched, 'device')}." if part else "")
        self.note.setVisible(part)
        self._say_nothing()
        first = self.list.tools.first()
        if self.search.text() and first >= 0:
            self.list.setCurrentIndex(self.list.tools.index(first, 0))

    def _say_nothing(self) -> None:
        offer = self._offer
        if not offer.matched:
            self.place.say("There are no tools to show.", "No device matches the filter: change it above.")
        elif not offer.tools and offer.reading:
            self.place.say("Reading the tools…", "They are shown as soon as the devices answer.")
        elif not offer.tools:
            why = one_line(offer.problem) or "The matched devices offer none now: look at them in Fleet."
            self.place.say("There are no tools to show.", why)
        elif not self.list.tools.items and self._found is not None and self._found.error is not None:
            self.place.say("The tools cannot be searched.", one_line(self._found.error.message))
        elif not self.list.tools.items:
            line = "Tools are searched by name, argument, and by what they do."
            self.place.say("No tool matches.", line, ("clear", "Clear the search", "clear"))
        else:
            self.place.show_content()

    def _add_first(self) -> None:
        named = self._offer.find(self.search.text().strip())
        if named is not None:
            self.typed.emit(named.tool.tool_name)
            return
        if self._found is not None and self._found.loading:
            self._adds_first = True  # as soon as it is known which one that is
            self._found.refresh()
            return
        one = self.list.current() if self.search.text() else None
        if one is not None:
            self.typed.emit(one.tool.tool_name)

    def _go_down(self) -> None:
        """From the search into the list: to the tool below the one that Enter would take already."""
        if self.search.text() and self.list.current() is not None:
            row = self.list.tools.step_from(self.list.currentIndex().row())
            self.list.setCurrentIndex(self.list.tools.index(row, 0))
        self.list.setFocus(Qt.FocusReason.TabFocusReason)

    def focus_search(self) -> None:
        """Begin to type a tool's name."""
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the edge of a pop-up."""
        super().paintEvent(event)
        if self._floating:
            painter = QPainter(self)
            edge = theme_of(self).color("border2")
            painting.box(painter, self.rect().toRectF(), RADIUS.control, None, edge)
            painter.end()
