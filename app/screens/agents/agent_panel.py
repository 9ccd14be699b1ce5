"""One agent: how it stands, what can be done with it, and its commands, tickets and limits."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.query import Mutation
from app.screens.agents.agent_dialogs import TokenDialog, start_limits, start_revoke, start_stop
from app.screens.agents.agent_rows import program_words, standing_words
from app.screens.agents.commands_tab import CommandsTab
from app.screens.agents.limits_tab import LimitsTab
from app.screens.agents.tickets_tab import TicketsTab
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import problem_text
from app.theme.state_looks import StateLook
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.badges import StateBadge
from app.widgets.buttons import Segmented
from app.widgets.icon_label import IconLabel
from app.widgets.labels import ElidedLabel, Label, separator, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from core.errors import QuarterdeckError
from core.policy.agent_models import Agent
from core.service.console import AgentState
from core.service.wishes import agent_set

TABS = (("commands", "Said and done"), ("tickets", "Open tickets"), ("limits", "Limits and connections"))
_PAUSED = StateLook("Paused", "pause", "warn", "warn")
_CONNECTED = StateLook("Connected", "circle", "ok")
_AWAY = StateLook("Not connected", "circle_off", "text3", "text3")


class AgentPanel(QWidget):
    """The details beside the list.

    Signals:
        tab_chosen(tab): the operator chose another part.
    """

    tab_chosen = Signal(str)

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Agent")
        self._state, self._link, self._nav = state, link, nav
        self.agent: AgentState | None = None
        self.name = Label("", "title", selectable=True)
        self.name.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.standing = StateBadge(_AWAY, "State", role="name")
        self.program = ElidedLabel("", tone="text3")
        self._make_actions()
        self.pause = ActionButton(self.pause_act, words="Pause")
        self.stop = ActionButton(self.stop_act, "danger", icon="")
        self.revoke = ActionButton(self.revoke_act, "danger", icon="")
        self.problem = Label("", "meta", "fail", wrap=True)
        self.problem.setContentsMargins(16, 0, 16, 8)
        self.problem.hide()
        self._acting: Mutation[Agent] = Mutation(
            self, link, lambda _agent: self.say(""), self._say_error, "pause the agent", self.pause,
            declined=lambda: self.say(""),
        )  # fmt: skip
        self.tabs = Segmented(TABS, "Of the agent")
        self.stack = QStackedWidget()
        self.commands = CommandsTab(link, nav)
        self.tickets = TicketsTab(state, link, nav)
        self.limits = LimitsTab(state.home, self.limits_act, self.token_act)
        for tab in (self.commands, self.tickets, self.limits):
            self.stack.addWidget(tab)
        self._connect()
        head = hbox(
            IconLabel("agent", size=18), self.name, self.standing, STRETCH,
            self.pause, self.stop, self.revoke, margins=(16, 10, 16, 6), spacing=8,
        )  # fmt: skip
        bar = hbox(self.tabs, STRETCH, margins=(16, 2, 16, 10))
        # Below the name, where there is room for what a program calls itself.
        about = hbox((self.program, 1), margins=(42, 0, 16, 4))
        vbox(head, about, self.problem, bar, separator(), (self.stack, 1), parent=self)

    def _make_actions(self) -> None:
        self.pause_act = Action(
            "Pause the agent, or let it go on",
            "pause",
            self._pause_or_resume,
            "P",
            acts_at_once=True,
            off=self.why_none,
        )
        self.stop_act = Action(
            "Stop the agent…", "stop", self._ask_to_stop, "S", label="Stop…", off=self._why_not_stop
        )
        self.limits_act = Action(
            "Limits of the agent…",
            "edit",
            self._ask_for_limits,
            "L",
            label="Change the limits…",
            off=self.why_none,
        )
        self.token_act = Action(
            "New token for the agent…",
            "key",
            self._ask_for_token,
            "T",
            label="New token…",
            off=self.why_none,
        )
        self.revoke_act = Action(
            "Revoke the agent…", "remove", self._ask_to_revoke, label="Revoke…", off=self.why_none
        )

    @property
    def actions_of_agent(self) -> tuple[Action, ...]:
        """What can be done with the agent on show."""
        return (self.pause_act, self.stop_act, self.limits_act, self.token_act, self.revoke_act)

    def _connect(self) -> None:
        self.tabs.chosen.connect(self._choose_tab)
        self.stack.currentChanged.connect(lambda _row: self._show_tab())
        self._state.journal_changed.connect(self.commands.look_again)
        self._state.reset.connect(self.commands.look_again)

    @property
    def tab(self) -> str:
        """The part in front."""
        return TABS[self.stack.currentIndex()][0]

    def show_tab(self, tab: str) -> None:
        """Bring a part to the front; one that is not there changes nothing."""
        for row, (key, _words) in enumerate(TABS):
            if key == tab:
                self.tabs.choose(key)
                self.stack.setCurrentIndex(row)

    def _choose_tab(self, tab: str) -> None:
        self.show_tab(tab)
        self.tab_chosen.emit(tab)

    def show_agent(self, agent: AgentState | None) -> None:
        """Show an agent as it stands now."""
        if agent is None:
            self.agent = None
            self._refresh_actions()
            return
        if self.agent is None or self.agent.name != agent.name:
            self.say("")
        self.agent = agent
        self.name.setText(agent.name)
        paused = agent.settings.paused
        self.standing.set_look(_PAUSED if paused else _CONNECTED if agent.connections else _AWAY)
        self.standing.setAccessibleName(f"State: {standing_words(agent)}")
        words = program_words(agent.connections)
        profile = f"profile {agent.settings.profile.value}"
        self.program.set_text(f"{profile}, calls itself {words}" if words else profile)
        self.pause.set_words("Let it go on…" if paused else "Pause", "run" if paused else "pause")
        self._refresh_actions()
        self.commands.show_agent(agent.name)
        self.limits.show_agent(agent)
        self._show_tab()

    def _show_tab(self) -> None:
        if self.agent is None or not self.isVisible():
            return
        if self.tab == "commands":
            self.commands.read()
        elif self.tab == "tickets":
            self.tickets.show_agent(self.agent.name)

    def showEvent(self, event: QShowEvent) -> None:
        """Read what is in front."""
        super().showEvent(event)
        self._show_tab()

    def _refresh_actions(self) -> None:
        for action in self.actions_of_agent:
            action.refresh()

    def why_none(self) -> str:
        """Why nothing can be done with an agent; empty when it can."""
        return "" if self.agent is not None else "Choose an agent first."

    def _why_not_stop(self) -> str:
        agent = self.agent
        if agent is None or not agent.settings.paused or agent.connections or agent.open_runs:
            return self.why_none()
        return "It is stopped: paused, not connected, without an open ticket."

    # Acts

    def _pause_or_resume(self) -> None:
        """Pause the agent at once; letting it go on is signed."""
        agent = self.agent
        assert agent is not None
        if not agent.settings.paused:
            self._acting.run(lambda console: console.agents.pause(agent.name), f"pause {agent.name}")
            return
        settings = agent.settings.model_copy(update={"paused": False})
        self._acting.carry(
            lambda: self._nav.signing.carry_out(
                agent_set(agent.name, settings),
                lambda console, signed: console.agents.update(agent.name, settings, signed),
            ),
            f"let {agent.name} go on",
        )

    def _ask_to_stop(self) -> None:
        assert self.agent is not None
        start_stop(self.window(), self._link, self._nav, self.agent)

    def _ask_to_revoke(self) -> None:
        assert self.agent is not None
        start_revoke(self.window(), self._link, self._nav, self.agent)

    def _ask_for_limits(self) -> None:
        assert self.agent is not None
        start_limits(self.window(), self._link, self._nav, self.agent)

    def _ask_for_token(self) -> None:
        sheet = TokenDialog(self.window(), self._state, self._link, self._nav, self.agent)
        sheet.open(sheet.answer("make"))

    def say(self, problem: str) -> None:
        """Say what could not be done; empty takes it back."""
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))

    def _say_error(self, error: QuarterdeckError) -> None:
        self.say(problem_text(error))
