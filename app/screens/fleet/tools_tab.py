"""All tools of a device; below the table the contract of one, fact by fact, and what is not available."""

from __future__ import annotations

from operator import attrgetter

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.items.filter_rows import lead_into_table
from app.items.table_view import TableModel, TableView
from app.query import Query, quietly
from app.screens.fleet.contract_review_dialog import start_review
from app.screens.fleet.contract_view import ContractFacts, DefinitionBox, ScopeFacts
from app.screens.fleet.device_columns import UNAVAILABLE_COLUMNS, no_tools_words, tool_model, tool_title
from app.screens.screen import Navigator
from app.screens.targets import OpenTool
from app.service_client import ConsoleLink
from app.text import count_words
from app.widgets.badges import RiskBadge
from app.widgets.banner import Notice
from app.widgets.buttons import Button
from app.widgets.empty_state import ContentOrEmpty
from app.widgets.fields import SearchField
from app.widgets.labels import Label
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.line_breaks import breakable
from app.widgets.master_detail import MasterDetail
from app.widgets.property_list import copies_whole
from app.widgets.util import ScrollArea
from core.fleet.models import ToolDescription
from core.models.devices import Device
from core.models.tools import OTHERWISE, Tool

# Below this the contract would be cut beside the table, and the names of the tools in it.
LEAST_BESIDE = 720
LEAST_PART = 340
# From so many on they are not looked through one by one.
MANY = 15
_BLOCKED = "Calls are blocked until it is reviewed."


class ToolsTab(QWidget):
    """The table of tools and the details of the chosen one.

    Signals:
        reviewed: a changed tool was accepted.
    """

    reviewed = Signal()

    def __init__(self, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        self._link, self._nav = link, nav
        self._tools: dict[str, Tool] = {}
        self._device = ""
        self._no_tools = ("", "")
        self._known = False
        self._why = ""
        self.search = SearchField("Find a tool", "Find by name, server or description")
        self.search.textChanged.connect(lambda _: self._show_rows())
        self.found = Label("", "meta", "text3")
        self._finding = QWidget()
        hbox((self.search, 1), self.found, parent=self._finding, margins=(12, 8, 12, 8), spacing=None)
        self._finding.hide()
        self.table = TableView(tool_model(), "All tools of the device")
        self.place = ContentOrEmpty(self.table)
        self.place.empty.acted.connect(lambda _key: self.search.clear())
        lead_into_table(self.search, self.table)
        self.table.current_changed.connect(self._show_tool)
        self.table.opened.connect(self._call)
        self.missing = TableView(
            TableModel(UNAVAILABLE_COLUMNS, attrgetter("tool")), "Tools that are not available"
        )
        self.details = ToolDetails()
        self._described: Query[ToolDescription] = Query(
            self, link, self.details.show_description, quietly, "describe the tool"
        )
        self.details.called.connect(self._call)
        self.details.review_asked.connect(self._review)
        self._upper = upper = QWidget()
        vbox(self._finding, (self.place, 1), self.missing, parent=upper)
        self._split = MasterDetail(upper, self.details, (320, 260), orientation=Qt.Orientation.Vertical)
        self._wide = False
        vbox(self._split, parent=self, spacing=None)

    def set_wide(self, wide: bool) -> None:
        """Details beside the table, or below it."""
        self._wide = wide
        self._arrange()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Details go below the table where both have no room beside each other."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        beside = self._wide and self.width() >= LEAST_BESIDE
        turned = Qt.Orientation.Horizontal if beside else Qt.Orientation.Vertical
        if turned != self._split.orientation():
            for part in (self._upper, self.details):
                part.setMinimumWidth(LEAST_PART if beside else 0)
            self._split.setOrientation(turned)
            self._split.setSizes([400, 400] if beside else [320, 260])

    def show_tools(self, device: Device, tools: list[Tool] | None) -> None:
        """Show what the device offers, and what it does not."""
        if device.name != self._device:
            self._device = device.name
            self.search.clear()
        self._tools = {tool.tool_key: tool for tool in tools or []}
        self._known, self._why = tools is not None, ""
        self._no_tools = no_tools_words(device)
        self._finding.setVisible(len(self._tools) > MANY)
        self._show_rows()
        missing = device.unavailable
        self.missing.show_rows(missing)
        self.missing.setVisible(bool(missing))
        self.missing.setFixedHeight(self.missing.row_height() * (min(len(missing), 5) + 1) + 4)

    def _show_rows(self) -> None:
        """Show the tools that are looked for, one of them always chosen."""
        words = self.search.text().casefold().split() if len(self._tools) > MANY else []
        found = [tool for tool in self._tools.values() if all(word in _searched(tool) for word in words)]
        self.table.show_rows(found)
        self._say_nothing(bool(found))
        self.found.setText(f"{count_words(len(found))} of {count_words(len(self._tools))}" if words else "")
        if found and not self.table.current_key():
            self.table.choose(self.table.rows_model.key_at(0))
        self._show_tool(self.table.current_key())

    def say_no_tools(self, why: str) -> None:
        """The tools cannot be read."""
        self._why = why
        self._say_nothing(bool(self.table.rows_model.rowCount()))

    def _say_nothing(self, has_rows: bool) -> None:
        if has_rows:
            self.place.show_content()
        elif self._why:
            self.place.say("The tools cannot be read.", breakable(self._why))
        elif not self._known:
            self.place.say("Reading the tools…", "They are shown as soon as the device answers.")
        elif self._tools:
            line = "Tools are searched by name, server and description."
            self.place.say("No tool matches.", line, ("clear", "Clear the search", "clear"))
        else:
            self.place.say(*self._no_tools)

    def choose(self, tool_key: str) -> None:
        """Move to one tool, whatever is looked for."""
        if not self.table.choose(tool_key) and tool_key in self._tools:
            self.search.clear()
            self.table.choose(tool_key)

    def chosen(self) -> Tool | None:
        """The tool under the cursor."""
        return self._tools.get(self.table.current_key())

    def _show_tool(self, key: str) -> None:
        tool = self._tools.get(key)
        self.details.show_tool(tool)
        if tool is not None:
            self._described.ensure(
                lambda console: console.devices.describe(tool.device, tool.tool_key),
                (tool.device, tool.tool_key, tool.contract.digest, tool.changed),
            )

    def _call(self, key: str) -> None:
        if (tool := self._tools.get(key)) is not None:
            self._nav.open("batch", OpenTool(tool.device, tool.tool_name))

    def _review(self) -> None:
        if (tool := self.chosen()) is not None and tool.changed:
            start_review(self.window(), self._link, self._nav.signing, tool, self.reviewed.emit)


def _searched(tool: Tool) -> str:
    return f"{tool_title(tool)} {tool.description}".casefold()


class ToolDetails(ScrollArea):
    """One tool: its own words as plain text, the contract with its sources, the schema.

    Signals:
        called(tool_key): open its form.
        review_asked: look at what changed of it.
    """

    called = Signal(str)
    review_asked = Signal()

    def __init__(self) -> None:
        super().__init__(name="Details of the tool")
        self._key = ""
        self._described = ("", "")
        self._name = Label("", "mono", wrap=True, selectable=True)
        self._risk = RiskBadge("low")
        self.call = Button("Call…", icon="run")
        self.call.clicked.connect(lambda: self.called.emit(self._key))
        self.notice = Notice("warn", "It is not what was trusted.", _BLOCKED, "Review")
        self.notice.acted.connect(self.review_asked)
        self._description = Label("", tone="text2", wrap=True, selectable=True)
        for label in (self._name, self._description):
            copies_whole(label)
        self._facts = ContractFacts()
        self._scope = ScopeFacts()
        self._undo = Label("", "meta", "text2", wrap=True)
        self._schema = DefinitionBox("Schema of the arguments")
        head = hbox((self._name, 1), self._risk, self.call, spacing=None)
        self._inner = QWidget()
        self._inner.setProperty("clear", "true")
        vbox(
            head,
            self.notice,
            self._description,
            self._facts,
            self._scope,
            self._undo,
            Label("Schema of the arguments", "label", "text3"),
            self._schema,
            STRETCH,
            parent=self._inner,
            margins=(14, 10, 14, 12),
            spacing=10,
        )
        self.setWidget(self._inner)
        self.show_tool(None)

    def show_tool(self, tool: Tool | None) -> None:
        """Show one tool; nothing when there is none."""
        self._inner.setVisible(tool is not None)
        if tool is None:
            return
        if (tool.device, tool.tool_key) != self._described:
            # Of another tool; what is known of this one comes with its description.
            self._described = (tool.device, tool.tool_key)
            self._scope.show_scope(None)
            self._undo.setText("")
        self._key = tool.tool_key
        self._name.setText(breakable(tool_title(tool)))
        self._name.setAccessibleName(tool_title(tool))
        self._risk.set_risk(tool.contract.risk.value.value)
        self.call.set_off("Review what changed of it first." if tool.changed else "")
        self.notice.say("warn", f"It {tool.change or OTHERWISE}.", _BLOCKED, "Review")
        self.notice.setVisible(tool.changed)
        # The device wrote this: plain text, quoted as the device's words.
        self._description.setText(breakable(tool.description) or "The device gives no description.")
        self._facts.show_contract(tool)
        self._schema.show_json(tool.input_schema)

    def show_description(self, described: ToolDescription) -> None:
        """Show what is known of the tool besides its contract, if it is still the one that is shown."""
        if (described.tool.device, described.tool.tool_key) == self._described:
            self._scope.show_scope(described.scope)
            self._undo.setText(breakable(described.undo))
