"""The open tickets of an agent: its runs that have not ended, and what each waits for."""

from __future__ import annotations

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from app.items.table_view import TableView
from app.screens.agents.agent_dialogs import start_cancel
from app.screens.agents.agent_rows import Ticket, ticket_model
from app.screens.screen import Navigator
from app.screens.targets import OpenApproval, OpenRun
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import one_line
from app.widgets.buttons import Button
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.layouts import STRETCH, hbox, vbox
from core.actors import AGENT_PREFIX

_NO_TICKET = "Choose a ticket first."


class TicketsTab(QWidget):
    """The list, and what can be done with the chosen one."""

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        self._state, self._link, self._nav = state, link, nav
        self._agent = ""
        self.table = TableView(ticket_model(), "Open tickets")
        self.place = ContentOrEmpty(self.table)
        self.request = Button("Show the request", icon="approvals")
        self.run = Button("Show the run", icon="runs")
        self.cancel = Button("Cancel the run…", "danger")
        self.request.clicked.connect(self._open_request)
        self.run.clicked.connect(self._open_run)
        self.cancel.clicked.connect(self._cancel)
        self.table.current_changed.connect(lambda _key: self._show_current())
        self.table.opened.connect(lambda _key: self._open_request() if self._waits() else self._open_run())
        line = hbox(self.request, self.run, STRETCH, self.cancel, margins=(16, 8, 16, 8), spacing=8)
        vbox((self.place, 1), line, parent=self)
        state.runs_changed.connect(lambda _run: self.show_tickets())
        state.approvals_changed.connect(self.show_tickets)

    def show_agent(self, name: str) -> None:
        """Show another agent's tickets."""
        self._agent = name
        self.show_tickets()

    def show_tickets(self) -> None:
        """Show the tickets that are open now."""
        if not self.isVisible():
            return  # `showEvent` shows them
        tickets = self._tickets()
        self.table.show_rows(tickets)
        if tickets:
            self.place.show_content()
            if not self.table.current_key():
                self.table.choose(tickets[0].id)
        else:
            self.place.say("It has no open ticket.", "A ticket is open until its run has ended.")
        self._show_current()

    def showEvent(self, event: QShowEvent) -> None:
        """Show what changed unseen."""
        super().showEvent(event)
        self.show_tickets()

    def _tickets(self) -> list[Ticket]:
        actor = AGENT_PREFIX + self._agent
        waiting: dict[str, list[tuple[str, str]]] = {}
        for approval in self._state.waiting():
            if approval.actor == actor and approval.run is not None:
                card = f"{one_line(approval.decision.summary)} on {one_line(approval.request.device)}"
                waiting.setdefault(approval.run, []).append((approval.id, card))
        return [
            Ticket(
                run,
                tuple(one for one, _ in waiting.get(run.id, ())),
                tuple(card for _, card in waiting.get(run.id, ())),
            )
            for run in self._state.open_runs()
            if run.actor == actor
        ]

    def current(self) -> Ticket | None:
        """The ticket under the cursor."""
        ticket: Ticket | None = self.table.rows_model.item(self.table.currentIndex().row())
        return ticket

    def _waits(self) -> bool:
        ticket = self.current()
        return ticket is not None and bool(ticket.approvals)

    def _show_current(self) -> None:
        missing = "" if self.current() is not None else _NO_TICKET
        self.run.set_off(missing)
        self.cancel.set_off(missing)
        self.request.set_off(missing or ("" if self._waits() else "It does not wait for an operator."))

    def _open_request(self) -> None:
        ticket = self.current()
        if ticket is not None and ticket.approvals:
            self._nav.open("approvals", OpenApproval(ticket.approvals[0]))

    def _open_run(self) -> None:
        if (ticket := self.current()) is not None:
            self._nav.open("runs", OpenRun(ticket.id))

    def _cancel(self) -> None:
        if (ticket := self.current()) is not None:
            start_cancel(self.window(), self._link, self._nav, ticket.run)
