"""Questions before something is done to an agent: its token, its limits, its end."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.form_dialog import FormDialog
from app.query import Mutation
from app.screens.agents.agent_form import SettingsForm
from app.screens.agents.client_setup import TOKEN_FILE, http_config, stdio_config
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import one_line, plural, problem_text
from app.widgets.banner import Notice
from app.widgets.copyable_text import CopyableText
from app.widgets.dialog import CANCELLED, Dialog
from app.widgets.fields import Field, TextField
from app.widgets.labels import Label
from app.widgets.layouts import vbox
from core.batch.models import RunSummary
from core.errors import QuarterdeckError
from core.home import OPERATOR_NAME
from core.policy.agent_models import AgentSettings, NewAgent
from core.service.console import AgentState
from core.service.wishes import agent_added, agent_set


class TokenPart(QWidget):
    """A token that was made, once, and what an agent's program needs beside it."""

    def __init__(self, home: str) -> None:
        super().__init__()
        self._home = home
        once = Notice("note", "The token is shown once.", "Only its digest is stored.")
        self.token = CopyableText("Token", "Who has it acts as this agent, within its limits.", lines=1)
        self.stdio = CopyableText(
            "For a program that starts the gateway (.mcp.json)",
            f"Put the token into a file that only you can read, and that file in place of {TOKEN_FILE}.",
        )
        self.http = CopyableText("For a program that speaks HTTP", "quarterdeck gateway --http has to run.")
        vbox(once, self.token, self.stdio, self.http, parent=self, margins=(0, 4, 0, 0), spacing=12)

    def show_token(self, made: NewAgent) -> None:
        """Show what was made."""
        self.token.show_text(made.token)
        self.stdio.show_text(stdio_config(made.agent.name, self._home))
        self.http.show_text(http_config(made.token))

    def forget(self) -> None:
        """Nothing of the token stays in this window."""
        for box in (self.token, self.stdio, self.http):
            box.show_text("")


class TokenDialog(Dialog):
    """Adds an agent, or makes a new token for one; signed, and the token is shown once.

    Signals:
        made(name): the agent has its token.
    """

    made = Signal(str)

    def __init__(
        self, window: QWidget, state: AppState, link: ConsoleLink, nav: Navigator, agent: AgentState | None
    ) -> None:
        words = (
            "An agent is a program that asks for commands. The policy judges each, and you approve."
            if agent is None
            else "The token that it has now becomes worthless at once, and its connections end."
        )
        title = "Add an agent" if agent is None else f"A new token for {agent.name}"
        super().__init__(window, title, words, width=560)
        self._state, self._nav = state, nav
        self._agent = agent
        self._has_token = self._used = self._warned = False
        self.name_field = TextField("Name", "night-shift", mono=True)
        self.name_row = Field("Name", self.name_field, required=True, help_text="What it is called here.")
        self.settings_form = SettingsForm(agent.settings if agent is not None else AgentSettings())
        self._form = QWidget()
        column = vbox(parent=self._form, margins=(0, 4, 0, 0), spacing=12)
        if agent is None:
            column.addWidget(self.name_row)
            column.addWidget(self.settings_form)
        else:
            # Not laid out and never shown; they are deleted with the sheet.
            for widget in (self.name_row, self.settings_form):
                widget.setParent(self)
                widget.hide()
            self.name_field.setText(agent.name)
        self.result = TokenPart(state.home)
        self.result.hide()
        self.result.token.copied.connect(self._token_used)
        self.result.http.copied.connect(self._token_used)
        self.add(self._form)
        self.add(self.result)
        self.add_answer("cancel", "Cancel")
        self._make = self.add_answer("make", "Make the token…", "primary", closes=False)
        self._done = self.add_answer("done", "Done", "primary", closes=False)
        self._done.hide()
        self._making = Mutation(
            self, link, self._show_made, self._refused, "add the agent", self._make, declined=self._check
        )
        self._make.clicked.connect(self._ask)
        self._done.clicked.connect(lambda: self.finish("done"))
        self.settings_form.changed.connect(self._check)
        self.name_field.textChanged.connect(self._check)
        self._check()

    def _check(self) -> None:
        name = self.name_field.text().strip()
        taken = self._agent is None and name.lower() in {known.lower() for known in self._state.agents}
        problem = "There is an agent of that name already." if taken else ""
        if name and not OPERATOR_NAME.fullmatch(name):
            problem = "Letters, digits, '.', '_' and '-', at most 64."
        self.name_row.set_error(problem)
        missing = "" if name else "Give the agent a name first."
        self._make.set_off(missing or problem or self.settings_form.problem)
        self._fit()

    def _ask(self) -> None:
        name = self.name_field.text().strip()
        # Its present settings: they may have been tightened since the dialog came up.
        agent = self._state.agents.get(name) if self._agent is not None else None
        settings = agent.settings if agent is not None else self.settings_form.settings()
        self.say("")
        self._making.carry(
            lambda: self._nav.signing.carry_out(
                agent_added(name, settings),
                lambda console, signed: console.agents.add(name, settings, signed),
            )
        )

    def _refused(self, error: QuarterdeckError) -> None:
        self._check()
        self.say(problem_text(error))

    def _show_made(self, made: NewAgent) -> None:
        self._has_token = True
        self.result.show_token(made)
        self._form.hide()
        self.result.show()
        for answer in ("cancel", "make"):
            self.answer(answer).hide()
        self._done.show()
        self.setAccessibleName(f"The token of {made.agent.name}")
        self.made.emit(made.agent.name)
        self._fit()
        self.result.token.button.setFocus(Qt.FocusReason.TabFocusReason)

    def _token_used(self) -> None:
        self._used = True

    @property
    def holds_input(self) -> bool:
        """Nor does a click beside the card take away what is shown once."""
        return self._has_token or super().holds_input

    def dismiss(self) -> None:
        """Another screen was opened."""
        self._warned = True
        super().dismiss()

    def finish(self, answer: str) -> None:
        """Go away; while the token was not copied, it is asked once more."""
        if self._has_token and not (self._used or self._warned):
            self._warned = True
            again = "Press Esc once more" if answer == CANCELLED else "Press Done once more"
            self.say(f"The token was not copied, and is not shown again. {again} to leave without it.")
            return
        self.result.forget()
        super().finish(answer)


def start_limits(window: QWidget, link: ConsoleLink, nav: Navigator, agent: AgentState) -> FormDialog:
    """Ask for an agent's profile, devices and limits; what loosens is signed."""
    sheet = FormDialog(
        window, link, f"Limits of {agent.name}", "What tightens holds at once; the rest is signed.", width=520
    )
    form = SettingsForm(agent.settings)
    sheet.add(form)

    async def save() -> None:
        settings = form.settings()
        await nav.signing.carry_out(
            agent_set(agent.name, settings),
            lambda console, signed: console.agents.update(agent.name, settings, signed),
        )

    done = partial(nav.toast, f"The limits of {agent.name} are set")
    button = sheet.add_act("save", "Save", save, f"set the limits of {agent.name}", done)

    def check() -> None:
        button.set_off(form.problem)
        sheet._fit()

    form.changed.connect(check)
    sheet.open(form.profile)
    return sheet


def start_stop(window: QWidget, link: ConsoleLink, nav: Navigator, agent: AgentState) -> FormDialog:
    """Ask before an agent's runs are cancelled and its connections end."""
    ends = plural(agent.open_runs, "open ticket"), plural(len(agent.connections), "connection")
    sheet = FormDialog(
        window,
        link,
        f"Stop {agent.name}?",
        f"It is paused, {ends[0]} and the requests that wait are cancelled, {ends[1]} end. What runs on a "
        "device is asked to cancel.",
    )

    async def stop() -> None:
        nav.toast(await link.perform(lambda console: console.agents.stop(agent.name)))

    sheet.add_act("stop", "Stop", stop, f"stop {agent.name}", kind="danger")
    sheet.open()
    return sheet


def start_revoke(window: QWidget, link: ConsoleLink, nav: Navigator, agent: AgentState) -> FormDialog:
    """Ask before a token becomes worthless."""
    sheet = FormDialog(
        window,
        link,
        f"Revoke {agent.name}?",
        "Its token is worthless at once, its runs are cancelled and its connections end. It leaves the list; "
        "what it did stays in the journal.",
    )

    async def revoke() -> None:
        await link.perform(lambda console: console.agents.revoke(agent.name))

    done = partial(nav.toast, f"{agent.name} is revoked")
    sheet.add_act("revoke", "Revoke", revoke, f"revoke {agent.name}", done, "danger")
    sheet.open()
    return sheet


def start_cancel(window: QWidget, link: ConsoleLink, nav: Navigator, run: RunSummary) -> FormDialog:
    """Ask before one of an agent's runs is cancelled."""
    sheet = FormDialog(
        window,
        link,
        f"Cancel {run.id}?",
        "Nothing more of it is sent, its requests are withdrawn, and devices are asked to cancel what runs.",
    )
    sheet.add(Label(one_line(run.name), "name", wrap=True))

    async def cancel() -> None:
        await link.perform(lambda console: console.runs.stop(run.id))

    done = partial(nav.toast, f"{run.id} is cancelled")
    sheet.add_act("stop", "Cancel the run", cancel, f"cancel {run.id}", done, "danger", cancel="Keep it")
    sheet.open()
    return sheet
