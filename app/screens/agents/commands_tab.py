"""What an agent asked for, newest first, and of one command what it said beside what was sent and done."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.items.filter_rows import lead_into_table
from app.items.table_view import TableView
from app.query import Query, quietly
from app.records.asker import Quote
from app.screens.agents.agent_rows import command_model, fate_words
from app.screens.screen import Navigator
from app.screens.targets import OpenQuery, OpenRun
from app.service_client import ConsoleLink
from app.text import count_words, milliseconds, one_line
from app.theme.state_looks import cell_look
from app.widgets.badges import StateBadge
from app.widgets.code_view import CodeView
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import SearchField
from app.widgets.labels import Label, Link, separator, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.master_detail import MasterDetail
from app.widgets.property_list import Property, PropertyList, short_digest, show_facts
from app.widgets.section import SectionHead
from core.actors import AGENT_PREFIX
from core.errors import QuarterdeckError
from core.service.console import AgentCommand, AgentCommandPage, CommandFate

PAGE = 50
PAUSE_MS = 70
AGAIN_MS = 1000
_SAID_NOTHING = "It said nothing about this command."
_STATES = {
    CommandFate.OPEN: "waiting",
    CommandFate.GIVEN: "unknown",
    CommandFate.DENIED: "refused",
    CommandFate.NOT_SENT: "cancelled",
}


class SaidAndDone(QWidget):
    """One command in three columns: what the agent said, what was sent, what came of it.

    Signals:
        run_asked(run), entries_asked(call): the operator wants to see more of it.
    """

    run_asked = Signal(object)
    entries_asked = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Said and done")
        self._command: AgentCommand | None = None
        self.effect = Label("", "name", wrap=True, selectable=True)
        self.effect.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.to_run, self.to_entries = Link("Show the run"), Link("All its entries")
        self.to_run.clicked.connect(lambda *_: self.run_asked.emit(self._command))
        self.to_entries.clicked.connect(lambda *_: self.entries_asked.emit(self.call_id))
        self.said_head = SectionHead("It said it would")
        self.said, self.nothing_said = Quote(), Label(_SAID_NOTHING, tone="text3", wrap=True)
        self.sent_head = SectionHead("It sent")
        self.sent_facts = PropertyList(64, "What was sent")
        self.edited = Label("", "meta", "warn", wrap=True)
        self.sent = CodeView("Arguments", 0, numbers=False)
        self.done_head = SectionHead("It did")
        self.state = StateBadge(cell_look("queued"), "Outcome")
        self.answer = Label("", tone="text2", wrap=True, selectable=True)
        self.why = Label("", "meta", "text3", wrap=True, selectable=True)
        self.outcome = CodeView("Result", 0, numbers=False)
        links = hbox(self.to_run, self.to_entries, STRETCH, spacing=16)
        said = vbox(self.said_head, self.said, self.nothing_said, STRETCH, links, spacing=8)
        sent = vbox(self.sent_head, self.effect, self.sent_facts, self.edited, (self.sent, 1), spacing=8)
        self.no_result = QWidget()
        parts = (self.done_head, self.state, self.answer, self.why, (self.outcome, 1), (self.no_result, 1))
        done = vbox(*parts, spacing=8)
        hbox((said, 4), (sent, 5), (done, 4), parent=self, margins=(16, 12, 16, 12), spacing=16)

    @property
    def call_id(self) -> str:
        """The command on show; empty for none."""
        return self._command.call_id if self._command is not None else ""

    def show_command(self, command: AgentCommand, actor: str) -> None:
        """Show a command of the agent with this actor."""
        if command == self._command:
            return
        self._command = command
        self.effect.setText(one_line(command.effect) or "It did not become a command.")
        self.to_run.setVisible(command.run is not None)
        self.said.show_said(command.said, actor)
        self.nothing_said.setVisible(not command.said.strip())
        self._show_sent(command)
        self._show_done(command)

    def _show_sent(self, command: AgentCommand) -> None:
        self.sent_head.set_title("It sent" if command.fate is CommandFate.GIVEN else "It asked for")
        facts = [
            Property("Device", one_line(command.device)),
            Property("Tool", one_line(command.tool), mono=True),
        ]
        if command.digest:
            facts.append(Property("Digest", short_digest(command.digest), mono=True, full=command.digest))
        show_facts(self.sent_facts, facts)
        self.edited.setVisible(bool(command.asked_first))
        self.edited.setText("An operator edited the arguments. It asked first for what stands below them.")
        first = f"\n\nFirst:\n{command.asked_first}" if command.asked_first else ""
        self.sent.show_text(command.arguments + first)

    def _show_done(self, command: AgentCommand) -> None:
        state = command.verdict.value if command.verdict is not None else _STATES[command.fate]
        self.done_head.set_title("It did" if command.fate is CommandFate.GIVEN else "What came of it")
        self.state.set_look(cell_look(state))
        took = f", {milliseconds(command.duration_ms)}" if command.fate is CommandFate.GIVEN else ""
        self.answer.setText(f"{fate_words(command).capitalize()}{took}.")
        why = one_line(command.error.message) if command.error is not None else one_line(command.why)
        self.why.setText(why)
        self.why.setVisible(bool(why))
        self.outcome.show_text(command.outcome)
        self.outcome.setVisible(bool(command.outcome))
        self.no_result.setVisible(not command.outcome)


class CommandsTab(QWidget):
    """The commands of one agent, read from the journal a page at a time, above one of them in full."""

    def __init__(self, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        self._link, self._nav = link, nav
        self._agent = ""
        # By their ids, in no order: the table sorts.
        self._known: dict[str, AgentCommand] = {}
        self._next: int | None = None
        self._newest = Query(
            self, link, self._show_newest, self._say_failed, "read what it asked for", PAUSE_MS
        )
        self._older: Query[AgentCommandPage] = Query(
            self, link, self._show_older, self._say_failed, "read what it asked for"
        )
        self.field = SearchField("Filter what it asked for", "Says, effect, device, tool…", "filter")
        self.counted = Label("", "meta", "text3")
        self.older = Link("Show older", "meta_strong")
        self.older.clicked.connect(lambda *_: self.read_older())
        self.table = TableView(command_model(), "What the agent asked for")
        self.table.sort_by("at", descending=True)
        self.place = ContentOrEmpty(self.table)
        self.place.empty.acted.connect(self._act)
        self.detail = SaidAndDone()
        self.detail.run_asked.connect(self._open_run)
        self.detail.entries_asked.connect(lambda call: nav.open("journal", OpenQuery(f"call:{call}")))
        self.field.textChanged.connect(lambda _text: self._show_rows())
        lead_into_table(self.field, self.table)
        self.table.current_changed.connect(lambda _key: self._show_current())
        self.table.opened.connect(lambda _key: self._open_run(self.current()))
        above = QWidget()
        line = hbox((self.field, 1), self.counted, self.older, margins=(16, 8, 16, 8), spacing=12)
        vbox(line, separator(), (self.place, 1), parent=above)
        self.panes = MasterDetail(above, self.detail, (320, 340), orientation=Qt.Orientation.Vertical)
        vbox((self.panes, 1), parent=self)
        self.detail.hide()

    def show_agent(self, name: str) -> None:
        """Show another agent's commands; the newest are read when they are in front."""
        if name == self._agent:
            return
        self._agent = name
        self._known.clear()
        self._next = None
        self._older.forget()
        self._newest.forget()
        self.table.rows_model.reset()
        self._show_rows()
        if self.isVisible():
            self.read()

    def read(self) -> None:
        """Read the newest commands, unless they are here."""
        if self._agent:
            name = self._agent
            self._newest.ensure(lambda console: console.agents.commands(name, limit=PAGE), key=name)

    def look_again(self) -> None:
        """The journal grew: read the newest again, soon."""
        if self.isVisible() and self._agent:
            self._newest.refresh_within(AGAIN_MS)

    def read_older(self) -> None:
        """Read the next page."""
        name, before = self._agent, self._next
        if before is not None and not self._older.loading:
            self._older.load(lambda console: console.agents.commands(name, before, PAGE), key=(name, before))

    def current(self) -> AgentCommand | None:
        """The command under the cursor."""
        return self._known.get(self.table.current_key())

    def _show_newest(self, page: AgentCommandPage) -> None:
        fresh = {one.call_id: one for one in page.commands}
        if not fresh.keys() & self._known.keys():
            # So many are new that those between were not read: what was read before is read again.
            self._known, self._next = fresh, page.next_before
        self._known.update(fresh)
        self._show_rows()

    def _show_older(self, page: AgentCommandPage) -> None:
        self._known.update((one.call_id, one) for one in page.commands)
        self._next = page.next_before
        self._show_rows()

    def _show_rows(self) -> None:
        words = self.field.text().casefold().split()
        shown = [one for one in self._known.values() if all(word in _text_of(one) for word in words)]
        self.table.show_rows(shown)
        self.older.setVisible(self._next is not None)
        counted = f"{count_words(len(shown))} of {count_words(len(self._known))}" if words else ""
        self.counted.setText(counted)
        if shown:
            self.place.show_content()
            if not self.table.current_key():
                self.table.choose(self.table.rows_model.key_at(0))
        elif self._known:
            older = "; older ones were not" if self._next is not None else ""
            line = f"{count_words(len(self._known))} commands were looked through{older}."
            self.place.say("Nothing fits this filter.", line, ("clear", "Clear the filter", "clear"))
        elif self._newest.value is not None:
            self.place.say(
                "It has asked for nothing yet.", "What it asks for stands here, whatever comes of it."
            )
        else:
            self.place.say("Reading what it asked for…", "It is read from the journal.")
        self._show_current()

    def _show_current(self) -> None:
        command = self.current()
        self.detail.setVisible(command is not None)
        if command is not None:
            self.detail.show_command(command, AGENT_PREFIX + self._agent)

    def _say_failed(self, error: QuarterdeckError) -> None:
        if self._known:
            quietly(error)
            return
        again = ("again", "Read again", "refresh")
        self.place.say("What it asked for could not be read.", error.info.sentences, again)

    def _act(self, key: str) -> None:
        if key == "again":
            self._newest.refresh()
        else:
            self.field.clear()
            self.table.setFocus()

    def _open_run(self, command: AgentCommand | None) -> None:
        if command is not None and command.run is not None:
            self._nav.open("runs", OpenRun(command.run))


def _text_of(command: AgentCommand) -> str:
    parts = (command.said, command.effect, command.device, command.tool, command.run, fate_words(command))
    return " ".join(one_line(part) for part in parts).casefold()
