"""Why? Which rules and grants speak of one call, which nearly do, and what would happen."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.forms import SchemaForm
from app.query import Query
from app.records.decision import DecisionView, ReasonRow, line_link
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.banner import Notice
from app.widgets.empty_state import EmptyState
from app.widgets.fields import DropDown, Field, TextField
from app.widgets.labels import Label, Link, set_surface
from app.widgets.layouts import hbox, vbox
from app.widgets.master_detail import MasterDetail
from app.widgets.section import Section
from app.widgets.util import ScrollArea, clear_layout, debounce
from core.errors import QuarterdeckError
from core.models.tools import Tool
from core.policy.models import Reason
from core.service.console import Explanation

PAUSE_MS = 250


class ExplainTab(QWidget):
    """A call that is not made, and what the policy in force says of it.

    Signals:
        line_wanted(line, go): show this line of policy.toml in the editor.
        grant_wanted(grant): show this grant.
    """

    line_wanted = Signal(int, bool)
    grant_wanted = Signal(str)

    def __init__(self, state: AppState, link: ConsoleLink) -> None:
        super().__init__()
        self._state = state
        self._tools: dict[str, Tool] = {}
        self._device = ""
        self._wanted: tuple[str, dict[str, Any] | None] = ("", None)
        self._device_tools = Query(
            self, link, self._take_tools, self._say_no_tools, "read the device's tools"
        )
        self._soon = debounce(self, PAUSE_MS, self.ask)
        self.device = DropDown("Device")
        self.device.activated.connect(lambda _place: self._device_chosen())
        self.tool = DropDown("Tool")
        self.tool.activated.connect(lambda _place: self._tool_chosen())
        self.actor = TextField("Asked by", "you; or agent:night-shift")
        self.actor.textChanged.connect(lambda _text: self._soon.start())
        self.form = SchemaForm()
        self.form.changed.connect(self._soon.start)
        self.answer = Answering()
        self._explanation = Query(
            self, link, self.answer.show_explanation, lambda error: self.answer.say(error.info.sentences)
        )
        self.answer.line_wanted.connect(self.line_wanted)
        self.answer.grant_wanted.connect(self.grant_wanted)
        self._build()
        state.devices_changed.connect(self._show_devices)

    def _build(self) -> None:
        asked = QWidget()
        set_surface(asked, "base")
        column = vbox(parent=asked, margins=(SPACE.pane, 12, SPACE.pane, 12), spacing=SPACE.small)
        first = hbox((Field("Device", self.device), 1), (Field("Tool", self.tool), 1), spacing=SPACE.medium)
        column.addLayout(first)
        column.addWidget(Field("Asked by", self.actor))
        column.addWidget(self.form)
        column.addStretch(1)
        call, answer = _scrolled(asked, "The call"), _scrolled(self.answer, "What the policy says")
        self.split = MasterDetail(call, answer, (300, 360), orientation=Qt.Orientation.Vertical)
        vbox(self.split, parent=self, spacing=None)

    def begin(self) -> None:
        """The tab comes to the front."""
        self._show_devices()
        self._soon.start()

    def set_edited(self, edited: bool) -> None:
        """Say that the text in the editor is not the policy that answers here."""
        self.answer.edited.setVisible(edited)

    def choose(self, device: str, tool_name: str = "", parameters: dict[str, Any] | None = None) -> None:
        """Ask about this call."""
        self._show_devices()
        self.device.setCurrentIndex(self.device.findData(device))
        self._device_chosen(tool_name, parameters)

    # Choosing

    def _show_devices(self) -> None:
        names = list(self._state.devices)
        if [self.device.itemData(n) for n in range(self.device.count())] == names:
            return
        kept = str(self.device.currentData() or "")
        self.device.clear()
        for name in names:
            self.device.addItem(name, name)
        place = self.device.findData(kept or "this-computer")
        self.device.setCurrentIndex(max(0, place))
        if self.isVisible() and str(self.device.currentData() or "") != self._device:
            self._device_chosen()

    def _device_chosen(self, tool_name: str = "", parameters: dict[str, Any] | None = None) -> None:
        name = str(self.device.currentData() or "")
        self._device, self._wanted = name, (tool_name, parameters)
        self._device_tools.cancel()
        if name:
            self._device_tools.load(lambda console: console.devices.tools(name))

    def _take_tools(self, tools: list[Tool]) -> None:
        self._show_tools(tools, *self._wanted)

    def _say_no_tools(self, error: QuarterdeckError) -> None:
        self._show_tools([], "", None)
        self.answer.say(error.info.sentences)

    def _show_tools(self, tools: list[Tool], wanted: str, parameters: dict[str, Any] | None) -> None:
        kept = wanted or str(self.tool.currentText())
        before = self._tools.get(str(self.tool.currentData() or ""))
        self._tools = {tool.tool_key: tool for tool in tools}
        self.tool.clear()
        for tool in tools:
            self.tool.addItem(tool.tool_name, tool.tool_key)
        self.tool.updateGeometry()
        if (place := self.tool.findText(kept)) >= 0:
            self.tool.setCurrentIndex(place)
        now = self._tools.get(str(self.tool.currentData() or ""))
        same = before is not None and now is not None and before.input_schema == now.input_schema
        if (
            not same
            or parameters is not None
            or before is None
            or before.tool_key != getattr(now, "tool_key", "")
        ):
            self._tool_chosen(parameters)
        else:
            self._soon.start()

    def _tool_chosen(self, parameters: dict[str, Any] | None = None) -> None:
        tool = self._tools.get(str(self.tool.currentData() or ""))
        self.form.set_schema(tool.input_schema if tool is not None else {"type": "object"}, parameters)
        self._soon.start()

    # Asking

    def ask(self) -> None:
        """Ask what the policy says of the call as it stands."""
        self._soon.stop()
        tool = self._tools.get(str(self.tool.currentData() or ""))
        if tool is None or not self.isVisible():
            return
        name, arguments, actor = tool.tool_name, self.form.value(), self.actor.text().strip()
        self._explanation.load(
            lambda console: console.policy.explanation(tool.device, name, arguments, actor)
        )


class Answering(QWidget):
    """An explanation: the decision, the rules that matched too, and what nearly did.

    Signals:
        line_wanted(line, go), grant_wanted(grant): as `ExplainTab`.
    """

    line_wanted = Signal(int, bool)
    grant_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("What the policy says")
        self.edited = Notice(
            "note", "Answered by the policy that is in force.", "What you typed at the left is not saved yet."
        )
        self.edited.hide()
        self.decision = DecisionView(beforehand=True)
        self.decision.line_wanted.connect(self._want_line)
        self.nothing = EmptyState()
        self._parts = QVBoxLayout()
        self._parts.setSpacing(SPACE.section)
        column = vbox(
            self.edited,
            self.decision,
            self._parts,
            (self.nothing, 1),
            parent=self,
            margins=(SPACE.pane, 12, SPACE.pane, 12),
            spacing=SPACE.section,
        )
        self._stretch = QWidget()
        column.addWidget(self._stretch, 1)
        self.say("Choose a device and a tool.")

    def say(self, problem: str) -> None:
        """There is no answer, and why."""
        self.nothing.say("Nothing is answered.", problem)
        self._show_answer(False)

    def _show_answer(self, shown: bool) -> None:
        clear_layout(self._parts)
        for widget in (self.decision, self._stretch):
            widget.setVisible(shown)
        self.nothing.setVisible(not shown)

    def words(self) -> str:
        """Everything that is said, as one text."""
        found = [one.text() for one in self.findChildren(Label) if one.isVisible()]
        found.extend(one.text() for one in self.links())
        return "\n".join(found)

    def links(self) -> list[Link]:
        """The links to lines and grants, from top to bottom."""
        return [one for one in self.findChildren(Link) if one.isVisible()]

    def show_explanation(self, found: Explanation) -> None:
        """Show what was answered."""
        decision = found.decision
        self._show_answer(True)
        self.decision.show_decision(decision)
        if decision.grant:
            self._add("Grant", [self._grant(decision.grant, "allows this")])
        spoken = {reason.origin for reason in decision.reasons}
        silent = [
            self._rule(hit.reason or f"Rule {hit.id}", f"rule {hit.id}", hit.line)
            for hit in decision.rules
            if f"rule {hit.id}, policy.toml line {hit.line}" not in spoken
        ]
        self._add("Rules that matched too", silent)
        near = [
            self._rule(f"Rule {one.id} would {one.decision.value}, but {one.fault}", "", one.line)
            for one in found.near
        ]
        self._add("Rules that nearly matched", near)
        grants = [self._grant(one.id, f"but {one.fault}") for one in found.near_grants]
        self._add("Grants that nearly covered it", grants)

    def _add(self, title: str, lines: list[QWidget]) -> None:
        if not lines:
            return
        section = Section(title)
        for line in lines:
            section.add(line)
        self._parts.addWidget(section)

    def _rule(self, words: str, origin: str, line: int) -> QWidget:
        link = line_link(line, self._want_line) if line else None
        return ReasonRow(Reason(text=words, origin=origin), link=link)

    def _grant(self, grant: str, words: str) -> QWidget:
        holder = QWidget()
        row = hbox(parent=holder, spacing=SPACE.small)
        link = Link(f"Grant {grant}")
        link.clicked.connect(lambda: self.grant_wanted.emit(grant))
        row.addWidget(link, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(Label(one_line(words), wrap=True), 1)
        return holder

    def _want_line(self, line: int) -> None:
        self.line_wanted.emit(line, True)


def _scrolled(widget: QWidget, name: str) -> ScrollArea:
    area = ScrollArea(widget, name)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    return area
