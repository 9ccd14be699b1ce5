"""Try a tool: its form, what the policy would say, and one call through the same way as every other call."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QScrollArea, QWidget

from app.forms import SchemaForm
from app.query import Mutation, Query
from app.records.decision import answer_look
from app.screens.fleet.call_outcome import CallOutcome
from app.screens.fleet.device_columns import tool_title
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import with_nothing_sent
from app.widgets.badges import PlanBadge, RiskBadge
from app.widgets.buttons import Button
from app.widgets.fields import DropDown
from app.widgets.focus import in_reading_order, put_in_tab_order
from app.widgets.labels import Label, separator, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.line_breaks import breakable
from app.widgets.property_list import copies_whole
from app.widgets.util import debounce
from core.batch.models import Run
from core.errors import QuarterdeckError
from core.models.devices import Device
from core.models.tools import OTHERWISE, Tool
from core.policy.models import Answer, Decision
from core.schema_forms.validator import FieldError

EXPLAIN_PAUSE_MS = 250
LONG_NAME = 24
NO_TOOLS = "The tools are not known yet."
_BUTTON = {Answer.ALLOW: "Call", Answer.ASK: "Ask for approval…", Answer.DENY: "Call"}


class CallTab(QWidget):
    """Calls one tool with typed arguments. What may run, asks or is denied is decided as always."""

    def __init__(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        super().__init__()
        self._tools: dict[str, Tool] = {}
        self._device = ""
        self.chooser = DropDown("Tool")
        self.chooser.activated.connect(lambda place: self.choose(str(self.chooser.itemData(place))))
        self.risk = RiskBadge("low")
        self.whole_name = Label("", "mono_small", "text2", wrap=True, selectable=True)
        self.whole_name.setContentsMargins(12, 0, 12, 4)
        self.whole_name.hide()
        copies_whole(self.whole_name)
        self.form = SchemaForm()
        self.form.setContentsMargins(12, 8, 12, 12)
        set_surface(self.form, "base")
        self.form.changed.connect(self._form_changed)
        self.answer = PlanBadge("not_known")
        self.why = Label("", "meta", "text2", wrap=True)
        self.call = Button("Call", "primary", icon="run")
        self.call.clicked.connect(self._call)
        self.outcome = CallOutcome(state, link, nav, self)
        self._explain_soon = debounce(self, EXPLAIN_PAUSE_MS, self._explain)
        self._decision = Query(self, link, self._show_decision, self._say_not_explained, "explain")
        self._calling = Mutation(self, link, self._called, self._refused, trigger=self.call)
        self._build()
        self._show_tool()

    def _build(self) -> None:
        head = hbox((self.chooser, 1), self.risk, margins=(12, 10, 12, 6), spacing=8)
        self._fields = scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setAccessibleName("Arguments of the call")
        scroll.setWidget(self.form)
        said = hbox(self.answer, (self.why, 1), spacing=8)
        links = hbox(*self.outcome.links, STRETCH, spacing=12)
        foot = vbox(
            said, self.outcome.words, links, hbox(self.call, STRETCH), margins=(12, 8, 12, 10), spacing=8
        )
        vbox(head, self.whole_name, (scroll, 1), separator(), foot, parent=self)

    # What is shown

    def show_tools(self, device: Device, tools: list[Tool] | None) -> None:
        """Offer a device's tools; what was typed stays while its tool stays."""
        if device.name != self._device:
            self._device = device.name
            self._tools = {}
            self._decision.cancel()
            self.chooser.clear()
            self.outcome.clear()
            self.form.set_schema({"type": "object"})
        if tools is None:
            return
        before = self.chosen()
        self._tools = {tool.tool_key: tool for tool in tools}
        kept = before.tool_key if before is not None else ""
        if [self.chooser.itemData(n) for n in range(self.chooser.count())] != list(self._tools):
            self.chooser.clear()
            for tool in tools:
                self.chooser.addItem(tool_title(tool), tool.tool_key)
            self.chooser.updateGeometry()
            if kept in self._tools:
                self.chooser.setCurrentIndex(self.chooser.findData(kept))
        now = self.chosen()
        if now is not None and (before is None or now.contract.digest != before.contract.digest):
            self.choose(now.tool_key)
        else:
            self._show_tool()

    def choose(self, tool_key: str) -> None:
        """Show the form of one tool."""
        tool = self._tools.get(tool_key)
        if tool is None:
            return
        self._decision.cancel()
        self.chooser.setCurrentIndex(self.chooser.findData(tool_key))
        self.form.set_schema(tool.input_schema)
        self.outcome.clear()
        self._show_tool()

    def chosen(self) -> Tool | None:
        """The tool whose form is shown."""
        return self._tools.get(str(self.chooser.currentData() or ""))

    def _show_tool(self) -> None:
        tool = self.chosen()
        # The list cuts what is too long for it, and two tools must never look like one.
        long = tool_title(tool) if tool is not None and len(tool_title(tool)) > LONG_NAME else ""
        self.whole_name.setText(breakable(long))
        self.whole_name.setVisible(bool(long))
        self.risk.setVisible(tool is not None)
        self.answer.setVisible(tool is not None)
        if tool is None:
            self.why.setText(NO_TOOLS)
            self.call.set_off("There is no tool to call.")
            return
        self.risk.set_risk(tool.contract.risk.value.value)
        if self.why.text() == NO_TOOLS:
            self.why.setText("")
            self.answer.hide()
        changed = f"It {tool.change or OTHERWISE}: review it first, on the tab Tools."
        self.call.set_off(changed if tool.changed else "")
        self._explain_soon.start()

    def focusNextPrevChild(self, to_next: bool) -> bool:
        """Tab goes through the fields, which come and go with the tools, before it comes to the call."""
        put_in_tab_order(self._fields, [*in_reading_order(self.form), *self.outcome.links, self.call])
        return super().focusNextPrevChild(to_next)

    def _form_changed(self) -> None:
        self._explain_soon.start()

    def _explain(self) -> None:
        tool = self.chosen()
        if tool is None or not self.isVisible():
            return
        arguments = self.form.value()
        self._decision.load(lambda console: console.policy.explain(tool.device, tool.tool_name, arguments))

    def _say_not_explained(self, error: QuarterdeckError) -> None:
        self.answer.hide()
        self.why.setText(error.message)

    def _show_decision(self, decision: Decision) -> None:
        self.answer.set_look(answer_look(decision.answer))
        self.answer.show()
        self.risk.set_risk(decision.risk.value)
        self.why.setText(decision.reasons[0].text if decision.reasons else decision.summary)
        self.call.set_words(_BUTTON[decision.answer])

    # The call

    def _call(self) -> None:
        tool = self.chosen()
        if tool is None:
            return
        self.call.set_working("The arguments are being checked.")
        self.outcome.clear()
        self.form.when_checked(lambda problems: self._checked(tool, problems), self._changed_meanwhile)

    def _changed_meanwhile(self) -> None:
        self._come_back()
        self.outcome.clear("Nothing was sent: the arguments are others than when they were to be checked.")

    def _checked(self, tool: Tool, problems: list[FieldError]) -> None:
        """What is wrong with the arguments is known; they are the ones that stand in the form."""
        if problems:
            self._come_back()
            self.form.focus_path(problems[0].path)
            self.outcome.clear("Nothing was sent: a field needs another value.", "fail")
            return
        arguments: dict[str, Any] = self.form.value()
        self.outcome.clear("Asking the service …")
        self._calling.run(
            lambda console: console.runs.call(tool.device, tool.tool_name, arguments),
            f"call {tool.tool_name}",
        )

    def _called(self, run: Run) -> None:
        self._show_tool()
        self.outcome.follow(run.summary)

    def _come_back(self) -> None:
        self.call.set_working("")
        self._show_tool()

    def _refused(self, error: QuarterdeckError) -> None:
        self._show_tool()
        self.outcome.clear(with_nothing_sent(error.info.sentences), "fail")
