"""What an agent may do, how it is connected, and what its program needs in order to be."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.screens.agents.agent_rows import NO_NAME, transport_words
from app.screens.agents.client_setup import http_command, stdio_config
from app.text import clock, one_line
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.copyable_text import CopyableText
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.property_list import Property, PropertyList, show_facts
from app.widgets.section import Section
from app.widgets.util import ScrollArea
from core.policy.agent_models import targets_words
from core.service.console import AgentState


class LimitsTab(QWidget):
    """Limits, connections, and the configuration of its program."""

    def __init__(self, home: str, change: Action, token: Action) -> None:
        super().__init__()
        self._home = home
        self.limits = PropertyList(168, "Limits")
        self.change = ActionButton(change)
        self.token = ActionButton(token)
        self.connections = PropertyList(168, "Connections")
        self.stdio = CopyableText(
            "For a program that starts the gateway (.mcp.json)",
            "Its token is in the file that is named; a new token is shown once, when it is made.",
        )
        self.http = CopyableText("Serves every agent over HTTP; its token goes into the header Authorization")
        limits = Section("Limits", "What tightens holds at once; the rest is signed.")
        limits.add(self.limits)
        limits.body.addLayout(hbox(self.change, self.token, STRETCH, spacing=8))
        connections = Section("Connections", "What a program calls itself is not checked.")
        connections.add(self.connections)
        setup = Section("Its program")
        setup.add(self.stdio)
        setup.add(self.http)
        inside = QWidget()
        vbox(limits, connections, setup, STRETCH, parent=inside, margins=16, spacing=20)
        vbox((ScrollArea(inside, "Limits and connections"), 1), parent=self)

    def show_agent(self, agent: AgentState) -> None:
        """Show an agent's limits and connections."""
        settings = agent.settings
        show_facts(
            self.limits,
            [
                Property("Profile", settings.profile.value),
                Property("Devices", targets_words(settings.targets), mono=bool(settings.targets)),
                Property("Commands a minute", str(settings.per_minute)),
                Property("Requests that may wait", str(settings.waiting)),
                Property("May ask", "no, it is paused" if settings.paused else "yes",
                         tone="warn" if settings.paused else "text"),
                Property("Its token was made", clock(agent.added_at)),
            ],
        )  # fmt: skip
        facts = [
            Property(
                f"{number}. since {clock(one.since)}",
                f"{one_line(one.program.words) or NO_NAME}, over {transport_words(one)}",
            )
            for number, one in enumerate(agent.connections, 1)
        ]
        show_facts(self.connections, facts or [Property("Now", "not connected", tone="text3")])
        self.stdio.show_text(stdio_config(agent.name, self._home))
        self.http.show_text(http_command(self._home))
