"""Agents: the programs that may ask for commands, beside what the chosen one asked for, was given, may do."""

from __future__ import annotations

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from app.items.filter_rows import lead_into_table
from app.items.table_view import TableView
from app.query import Query, quietly
from app.screens.agents.agent_dialogs import TokenDialog
from app.screens.agents.agent_panel import AgentPanel
from app.screens.agents.agent_rows import AgentRow, agent_model, fits
from app.screens.agents.client_setup import stdio_config
from app.screens.screen import Navigator, Screen, Shortcut
from app.screens.targets import OpenAgent, OpenQuery, Target
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import count_words, plural
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.copyable_text import CopyableText
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import SearchField
from app.widgets.labels import separator, set_surface
from app.widgets.layouts import hbox, vbox
from app.widgets.master_detail import MasterDetail
from app.widgets.section import ScreenHead
from core.actors import AGENT_PREFIX
from core.service.console import AgentTally

COUNT_AGAIN_MS = 1500
EXAMPLE = "night-shift"


class AgentsScreen(Screen):
    """List and details; while there is no agent, how one is added and connected."""

    name = "agents"
    title = "Agents"
    icon = "agents"

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self._wanted = ""
        self.head = ScreenHead("Agents")
        self.field = SearchField("Filter agents by name, state, program, profile or devices",
                                 "Name, program, profile…", "filter", "Ctrl+F")  # fmt: skip
        self.field.setFixedWidth(240)
        self.add_act = Action("Add an agent…", "add", self.add_agent, "A", also="token mcp gateway")
        self.add_button = ActionButton(self.add_act, "primary")
        self.table = TableView(agent_model(), "Agents")
        self.place = ContentOrEmpty(self.table)

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Build what needs the door."""
        self._link = link
        self._tallies: Query[dict[str, AgentTally]] = Query(
            self, link, lambda _tallies: self._show_agents(), quietly, "count what agents asked for"
        )
        self.panel = AgentPanel(state, link, nav)
        self._build(state.home)
        super().bind(state, link, nav)
        self.field.textChanged.connect(lambda _text: self._show_agents())
        lead_into_table(self.field, self.table)
        self.place.empty.acted.connect(lambda _key: self._clear_filter())
        self.table.current_changed.connect(lambda _key: self._show_current())
        self.table.opened.connect(lambda _key: self.panel.tabs.setFocus())
        self.panel.tab_chosen.connect(lambda tab: self.keep("tab", tab))
        state.agents_changed.connect(self._agents_changed)
        state.journal_changed.connect(self._count_again)
        state.reset.connect(self._count_again)
        self.remember("panes-v1", self.panes_beside)
        if not self.table.restore_columns(nav.layout_store, "agents/table-v1"):
            self.table.sort_by("agent")
        self.panel.show_tab(str(self.remembered("tab", "")))
        self._show_agents()

    def _build(self, home: str) -> None:
        self.head.add_left(self.field)
        self.head.add(self.add_button)
        self.setup = CopyableText(
            "How its program reaches this console (.mcp.json)",
            "The token that is made for the agent goes into the file that is named. README says more.",
        )
        self.setup.show_text(stdio_config(EXAMPLE, home))
        self.place.empty.more.addSpacing(16)
        self.place.empty.more.addWidget(self.setup)
        self.setup.hide()
        left = QWidget()
        vbox((self.place, 1), parent=left)
        self.panes_beside = MasterDetail(left, self.panel, (570, 690))
        column = QWidget()
        hbox((self.panes_beside, 1), parent=column)
        vbox(self.head, separator(), (column, 1), parent=self)

    # What the window asks

    def enter(self, target: Target | None) -> None:
        """Show an agent, if one is named."""
        if isinstance(target, OpenAgent):
            self.field.clear()
            self._wanted = target.agent
        self._show_agents()
        self._tallies.ensure(lambda console: console.agents.tallies(), key="all")
        self._tallies.refresh_within(0)
        (self.table if self.state.agents else self.place.empty.button).setFocus()

    def showEvent(self, event: QShowEvent) -> None:
        """Show what changed while another screen was in front."""
        super().showEvent(event)
        self._show_agents()

    def leave(self) -> None:
        """Count nothing behind another screen."""
        self._tallies.stop_refreshing()

    def shortcuts(self) -> list[Shortcut | Action]:
        """The keys of this screen."""
        panel = self.panel
        return [
            Shortcut("Up", "Arrows: another agent, or another of its commands"),
            self.add_act,
            *panel.actions_of_agent,
            Action("What the agent said and did", "agent", lambda: panel.show_tab("commands"), "1",
                   off=panel.why_none),
            Action("Open tickets of the agent", "time_left", lambda: panel.show_tab("tickets"), "2",
                   off=panel.why_none),
            Action("Limits and connections of the agent", "profile", lambda: panel.show_tab("limits"), "3",
                   off=panel.why_none),
            Action("Its entries in the journal", "journal", self._open_entries, "J", off=panel.why_none),
            Shortcut("Ctrl+C", "Copy the chosen rows"),
        ]  # fmt: skip

    def primary_filter(self) -> QWidget:
        """The filter field."""
        return self.field

    def panes(self) -> list[QWidget]:
        """List and details."""
        return [self.table, self.panel] if self.panel.isVisible() else [self.place]

    def escape(self) -> bool:
        """The filter goes first."""
        if self.field.text():
            self.field.clear()
            self.table.setFocus()
            return True
        return False

    def save_layout(self) -> None:
        """Keep the columns."""
        super().save_layout()
        self.table.save_columns(self.nav.layout_store, "agents/table-v1")

    # Showing

    def _agents_changed(self) -> None:
        self._show_agents()
        self._count_again()

    def _count_again(self) -> None:
        if self.isVisible():
            self._tallies.refresh_within(COUNT_AGAIN_MS)

    def _show_agents(self) -> None:
        if not self.isVisible():
            return  # `showEvent` shows what is new
        tallies, agents = self._tallies.value, self.state.agents.values()
        rows = [
            AgentRow(agent, tallies.get(agent.name, AgentTally()) if tallies is not None else None)
            for agent in agents
        ]
        shown = [row for row in rows if fits(row, self.field.text())]
        self.table.show_rows(shown)
        self._say_empty(len(rows), len(shown))
        if self._wanted and self.table.choose(self._wanted):
            self._wanted = ""
        elif shown and not self.table.current_key():
            self.table.choose(self.table.rows_model.key_at(0))
        self._show_current()

    def _say_empty(self, all_agents: int, shown: int) -> None:
        connected = sum(bool(agent.connections) for agent in self.state.agents.values())
        waiting = sum(agent.waiting for agent in self.state.agents.values())
        parts = [f"{count_words(connected)} of {count_words(all_agents)} connected"] if all_agents else []
        parts += [f"{plural(waiting, 'request waits', 'requests wait')} for you"] if waiting else []
        self.head.set_detail(", ".join(parts))
        none = self.state.loaded and not all_agents
        self.setup.setVisible(none)
        self.place.empty.set_wide(none)
        self.panel.setVisible(bool(self.table.current_key()) or shown > 0)
        if shown:
            self.place.show_content()
        elif all_agents:
            line = "Names, states, programs, profiles and devices were looked through."
            self.place.say("No agent matches this filter.", line, ("clear", "Clear the filter", "clear"))
        elif none:
            self.place.say(
                "There is no agent yet.",
                "An agent is a program, such as a coding agent, that asks for commands by MCP. Each has a "
                "token, a profile, devices and limits of its own, and approves nothing.",
                (self.add_act, "Add an agent…", "add"),
            )
        else:
            self.place.say("Reading the agents…", "They come with the state of the service.")

    def _show_current(self) -> None:
        agent = self.state.agents.get(self.table.current_key())
        self.panel.setVisible(agent is not None)
        self.panel.show_agent(agent)

    # Wishes

    def add_agent(self) -> None:
        """Ask for a name and limits, and make a token."""
        sheet = TokenDialog(self.window(), self.state, self._link, self.nav, None)
        sheet.made.connect(self._choose_added)
        sheet.open(sheet.name_field)

    def _choose_added(self, name: str) -> None:
        # It may be told of later than the dialog is.
        self._wanted = name
        self._show_agents()

    def _clear_filter(self) -> None:
        self.field.clear()
        self.table.setFocus()

    def _open_entries(self) -> None:
        if self.panel.agent is not None:
            self.nav.open("journal", OpenQuery(f'actor:"{AGENT_PREFIX}{self.panel.agent.name}"'))
