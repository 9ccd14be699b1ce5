"""The MCP servers that a device hosts: how each is, what is wrong with it, and one more, tried or added.

Everything is done by the device's own tools, in calls that are decided and journalled as all others.
"""

from __future__ import annotations

from operator import attrgetter

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.items.filter_rows import lead_into_table
from app.items.table_view import TableModel, TableView
from app.query import Buttons, Mutation, Query
from app.screens.fleet.call_outcome import CallOutcome
from app.screens.fleet.hosted_servers import (
    ADD,
    FROM_CONSOLE,
    LIST,
    PERMISSION,
    READY,
    REMOVE,
    RESTART,
    SERVER_COLUMNS,
    SWITCH,
    UNDO,
    AsksFirst,
    HostedServer,
    ServerCall,
    can_be_undone,
    outcome_words,
    read_servers,
    servers_of,
    why_not_allowed,
)
from app.screens.fleet.server_editor import ServerEditor
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import one_line, plural, with_nothing_sent
from app.widgets.banner import Notice
from app.widgets.buttons import Button, IconButton
from app.widgets.copyable_text import CopyableText
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import SearchField
from app.widgets.labels import Label, Link, separator
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.line_breaks import breakable
from app.widgets.master_detail import MasterDetail
from app.widgets.property_list import Property, PropertyList, show_facts
from app.widgets.util import ScrollArea
from core.batch.models import Run, RunSummary
from core.errors import QuarterdeckError
from core.models.devices import Device, Health
from core.models.tools import Tool

# Changes of a device come in bursts, such as while a server starts again and again.
AGAIN_MS = 1000
MANY = 15
_NOT_YET = "The device's tools are not known yet."
_IN_FILE = "It is set up in the device's own device.toml, which no console can change."


class ServerDetails(ScrollArea):
    """One server: what is wrong with it and how to mend it, what it runs, and what can be done with it.

    Signals:
        called(call): the operator wants this done.
        tools_wanted(name): the operator wants to see what it offers.
    """

    called = Signal(object)
    tools_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__(name="Details of the server")
        self._server: HostedServer | None = None
        self.notice = Notice("fail", "")
        self.facts = PropertyList(name="Facts of the server")
        self.restart = Button("Restart", icon="refresh")
        self.switch = Button("Switch off")
        self.remove = Button("Remove", "danger")
        self.tools = Link("Its tools")
        self.restart.clicked.connect(lambda: self._call(RESTART))
        self.switch.clicked.connect(lambda: self._call(SWITCH, on=self._is_off()))
        self.remove.clicked.connect(lambda: self._call(REMOVE))
        self.tools.clicked.connect(self._want_tools)
        inner = QWidget()
        inner.setProperty("clear", "true")
        vbox(
            hbox(self.restart, self.switch, self.remove, STRETCH, self.tools, spacing=8),
            self.notice,
            self.facts,
            STRETCH,
            parent=inner,
            margins=(12, 10, 12, 12),
            spacing=10,
        )
        self.setWidget(inner)
        self.show_server(None, {}, "")

    @property
    def buttons(self) -> tuple[Button, ...]:
        """What starts a call."""
        return self.restart, self.switch, self.remove

    def show_server(self, server: HostedServer | None, offered: dict[str, Tool], why_off: str) -> None:
        """Show a server; nothing when there is none. `offered` are the device's tools by name.

        `why_off` says why the device can be asked for nothing now.
        """
        self._server = server
        self.setVisible(server is not None)
        if server is None:
            return
        name, is_ready = one_line(server.name), server.state == READY
        look = "fail" if server.state == "failed" else "warn"
        self.notice.say(look, f"{name} {'has a problem' if is_ready else 'is not ready'}.", server.problem)
        self.notice.setVisible(bool(server.problem))
        restarts = plural(server.restarts, "time") if server.restarts else ""
        facts = [
            Property("Server", name),
            Property("Runs", one_line(server.where), mono=True),
            Property("Transport", one_line(server.kind)),
            Property("Set up in", one_line(server.origin)),
            Property("Started again", restarts),
        ]
        show_facts(self.facts, [fact for fact in facts if fact.value])
        self.switch.set_words("Switch on" if self._is_off() else "Switch off")
        fixed = "" if server.origin == FROM_CONSOLE else _IN_FILE
        off = "It is switched off." if self._is_off() else ""
        for button, tool, why in (
            (self.restart, RESTART, off),
            (self.switch, SWITCH, fixed),
            (self.remove, REMOVE, fixed),
        ):
            button.set_off(why_off or why or ("" if tool in offered else f"The device offers no {tool}."))
        self.tools.setVisible(server.tools > 0)

    def _want_tools(self) -> None:
        if self._server is not None:
            self.tools_wanted.emit(self._server.name)

    def _is_off(self) -> bool:
        return self._server is not None and self._server.state == "off"

    def _call(self, tool: str, **arguments: object) -> None:
        if self._server is not None:
            name = self._server.name
            self.called.emit(ServerCall(tool, name, {"name": name, **arguments}))


class ServersTab(QWidget):
    """The list of servers above the details of one, or the form for another one; below them the last call.

    Signals:
        tools_wanted(server): show what a server offers.
    """

    tools_wanted = Signal(str)

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        self._state = state
        self._device: Device | None = None
        self._tools: dict[str, Tool] | None = None
        self._servers: dict[str, HostedServer] = {}
        self._call: ServerCall | None = None
        self._wanted = ""
        self._shown = False
        self._seen: tuple[object, ...] = ()
        self.search = SearchField("Find a server", "Find by name, program or address")
        self.search.textChanged.connect(lambda _: self._show_rows())
        self.count = Label("", "meta", "text3")
        self.refresh = IconButton("refresh", "Read the list again")
        self.add = Button("Add a server…", icon="add")
        self.forbidden = Notice("note", "")
        self.line = CopyableText("The line for device.toml")
        self.line.show_text(PERMISSION)
        self.table = TableView(TableModel(SERVER_COLUMNS, attrgetter("name")), "MCP servers of the device")
        self.place = ContentOrEmpty(self.table)
        self.details = ServerDetails()
        self.editor = ServerEditor()
        self.outcome = CallOutcome(state, link, nav, self)
        self.undo = Link("Undo")
        self.undo.setAccessibleName("Undo the call")
        self.query: Query[list[HostedServer]] = Query(
            self, link, self._show_servers, self._say_failed, "read the servers"
        )
        self._ended_run: Query[Run] = Query(self, link, self._show_outcome, self._no_outcome)
        triggers = Buttons(*self.details.buttons, self.editor.add, self.editor.try_out)
        self._calling: Mutation[Run] = Mutation(self, link, self._called, self._refused, trigger=triggers)
        self._build()
        self._connect()
        self._forget()

    def _build(self) -> None:
        head = hbox(self.count, STRETCH, self.refresh, self.add, margins=(12, 8, 12, 8), spacing=8)
        self._finding = QWidget()
        vbox(self.search, parent=self._finding, margins=(12, 0, 12, 8), spacing=None)
        self._finding.hide()
        self._not_allowed = QWidget()
        vbox(self.forbidden, self.line, parent=self._not_allowed, margins=(12, 0, 12, 8), spacing=8)
        self._split = MasterDetail(self.place, self.details, (200, 260), orientation=Qt.Orientation.Vertical)
        self._list = QWidget()
        vbox(head, self._not_allowed, self._finding, (self._split, 1), parent=self._list)
        self.pages = QStackedWidget()
        self.pages.addWidget(self._list)
        self.pages.addWidget(self.editor)
        self._foot = QWidget()
        links = hbox(*self.outcome.links, self.undo, STRETCH, spacing=12)
        said = vbox(self.outcome.words, links, margins=(12, 8, 12, 10), spacing=6)
        vbox(separator(), said, parent=self._foot)
        vbox((self.pages, 1), self._foot, parent=self)

    def _connect(self) -> None:
        self.refresh.clicked.connect(self._read)
        self.add.clicked.connect(self.open_editor)
        lead_into_table(self.search, self.table)
        self.table.current_changed.connect(lambda _key: self._show_details())
        self.table.opened.connect(lambda _key: self._enter_details())
        self.place.empty.acted.connect(self._act)
        self.details.called.connect(self._start)
        self.details.tools_wanted.connect(self.tools_wanted)
        self.editor.called.connect(self._start)
        self.editor.closed.connect(self.escape)
        self.outcome.ended.connect(self._run_ended)
        self.undo.clicked.connect(self._undo)

    # What the panel says

    def show_device(self, device: Device, tools: list[Tool] | None) -> None:
        """Show what is known of a device; what changed there is read again while the tab is in front."""
        other = self._device is None or self._device.name != device.name
        self._device = device
        self._tools = None if tools is None else {tool.tool_name: tool for tool in tools}
        if other:
            self._forget()
        self._show_what_can_be_done()
        # A device is busy also while it is asked for this list: that is no reason to ask again.
        news = (self._can_ask(), device.since, device.tool_count, tuple(device.unavailable), tools is None)
        if news != self._seen:
            self._seen = news
            if self.query.value is None or self.query.error is not None:
                self._read()
            elif self._shown:
                self.query.refresh_within(AGAIN_MS)

    def set_shown(self, shown: bool) -> None:
        """The tab came to the front, or left it."""
        self._shown = shown
        if shown:
            self._read()
        else:
            self.query.cancel()

    def escape(self) -> bool:
        """Go back from the form to the list; what was typed stays. False where the list is in front."""
        if self.pages.currentWidget() is self._list:
            return False
        self.pages.setCurrentWidget(self._list)
        self.add.setFocus(Qt.FocusReason.OtherFocusReason)
        return True

    def focus_first(self) -> None:
        """Put the focus on the list, or on what can be done without one."""
        if self.pages.currentWidget() is self.editor:
            return
        wanted = self.table if self.table.isVisible() else self.add if self.add.isEnabled() else self.refresh
        wanted.setFocus(Qt.FocusReason.TabFocusReason)

    def open_editor(self) -> None:
        """Ask for one more server."""
        if self.add.isEnabled():
            if not self.outcome.is_open:
                self._say("")
            self.pages.setCurrentWidget(self.editor)

    def _forget(self) -> None:
        self._servers, self._call, self._seen = {}, None, ()
        for query in (self.query, self._ended_run):
            query.forget()
        self.search.clear()
        self.table.show_rows([])
        self.pages.setCurrentWidget(self._list)
        self._say("")
        self._show_details()

    # The list

    def _can_ask(self) -> bool:
        return self._device is not None and self._device.health in (Health.ONLINE, Health.BUSY)

    def _why_off(self) -> str:
        if self._device is None or self._tools is None:
            return _NOT_YET
        return "" if self._can_ask() else f"{self._device.name} is not connected."

    def _show_what_can_be_done(self) -> None:
        device = self._device
        why_off = self._why_off()
        fact, what_to_do = "", ""
        if device is not None and not why_off:
            fact, what_to_do = why_not_allowed(device, list((self._tools or {}).values()), self._state.home)
        self.forbidden.say("note", fact, what_to_do)
        self.line.setVisible("device.toml" in what_to_do)
        self._not_allowed.setVisible(bool(fact))
        self.add.set_off(why_off or fact)
        self.editor.set_off(why_off or fact)
        adder = (self._tools or {}).get(ADD)
        if device is not None and adder is not None:
            self.editor.set_device(device.name, adder.input_schema, frozenset(self._servers))
        self._show_details()

    def _read(self) -> None:
        device, why_off = self._device, self._why_off()
        if device is None or not self._shown:
            return
        if why_off or LIST not in (self._tools or {}):
            # What was read is what is known, also of a device that has lost its link.
            if not self._servers:
                self.place.say(
                    "Its servers are not known." if why_off else "It hosts no MCP server.", why_off
                )
            return
        if self.query.value is None:
            self.place.say("Reading the servers…", "They are shown as soon as the device answers.")
        name = device.name
        self.query.load(lambda console: read_servers(console, name), name)

    def _show_servers(self, servers: list[HostedServer]) -> None:
        self._servers = {server.name: server for server in servers}
        self._show_rows()
        if self._wanted in self._servers:
            self.table.choose(self._wanted)
            self._wanted = ""
        self._show_what_can_be_done()

    def _show_rows(self) -> None:
        self._finding.setVisible(len(self._servers) > MANY)
        words = self.search.text().casefold().split()
        found = [
            server
            for server in self._servers.values()
            if all(word in f"{server.name} {server.where}".casefold() for word in words)
        ]
        self.table.show_rows(found)
        self.count.setText(plural(len(self._servers), "server"))
        if found:
            self.place.show_content()
            if not self.table.current_key():
                self.table.choose(self.table.rows_model.key_at(0))
        elif self._servers:
            self.place.say("No server matches.", "", ("clear", "Clear the search", "clear"))
        else:
            allowed = ADD in (self._tools or {})
            action = ("add", "Add the first…", "add") if allowed else None
            self.place.say("It hosts no MCP server.", "Their tools are offered beside its own.", action)
        self._show_details()

    def _say_failed(self, error: QuarterdeckError) -> None:
        if isinstance(error, AsksFirst):
            ask = ("ask", "Ask for the list…")
            self.place.say("Reading the list needs an approval.", error.message, ask)
        else:
            again = ("again", "Read again", "refresh")
            self.place.say("The servers cannot be read.", breakable(error.info.sentences), again)

    def _act(self, key: str) -> None:
        if key == "add":
            self.open_editor()
        elif key == "clear":
            self.search.clear()
        elif key == "ask":
            self._start(ServerCall(LIST, ""))
        else:
            self._read()

    def _show_details(self) -> None:
        server = self._servers.get(self.table.current_key())
        self.details.show_server(server, self._tools or {}, self._why_off())

    def _enter_details(self) -> None:
        for button in self.details.buttons:
            if button.isEnabled():
                button.setFocus(Qt.FocusReason.TabFocusReason)
                return

    # Calls

    def _start(self, call: ServerCall) -> None:
        """Call a tool of the device, as every other call."""
        assert self._device is not None
        device = self._device.name
        self._call = call
        self._say("Asking the service …")
        self._calling.run(
            lambda console: console.runs.call(device, call.tool, call.arguments), f"call {call.tool}"
        )

    def _called(self, run: Run) -> None:
        self.undo.hide()
        self._foot.show()
        self.outcome.follow(run.summary)

    def _refused(self, error: QuarterdeckError) -> None:
        self._say(with_nothing_sent(error.info.sentences), "fail")

    def _run_ended(self, summary: RunSummary) -> None:
        run = summary.id
        self._ended_run.load(lambda console: console.runs.get(run), run)

    def _show_outcome(self, run: Run) -> None:
        call = self._call
        if call is None or run.summary.id != self.outcome.run:
            return
        if call.tool == LIST:
            self._show_asked_list(run)
            return
        words, well = outcome_words(call, run)
        self.outcome.say(breakable(words), "text2" if well else "fail")
        undoable = can_be_undone(call, run)
        self.undo.setVisible(undoable)
        if call.tool == ADD and undoable:
            self._added(call.server)
        self._read()

    def _added(self, server: str) -> None:
        # It is in the list as soon as that was read.
        self._wanted = server
        if not self.editor.was_added(server) and self.escape() and self.isVisible():
            self.table.setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_asked_list(self, run: Run) -> None:
        try:
            self._show_servers(servers_of(run))
        except QuarterdeckError as error:
            self._say_failed(error)

    def _no_outcome(self, error: QuarterdeckError) -> None:
        self.outcome.say(f"How it went cannot be read. {error.info.sentences}", "fail")

    def _undo(self) -> None:
        run = self.outcome.run
        self._call = ServerCall(UNDO, self._call.server if self._call else "")
        self._calling.run(lambda console: console.runs.undo(run), f"undo {run}")

    def _say(self, words: str, tone: str = "text2") -> None:
        self.outcome.clear(words, tone)
        self.undo.hide()
        self._foot.setVisible(bool(words))
