"""The form of the open step: id, tool, arguments, timeout, what the policy says, how it goes on.

While the batch itself is open, its form stands here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QWidget

from app.forms import SchemaForm
from app.forms.base import FormOptions
from app.forms.field_widgets import LineInput
from app.records.decision import DecisionCard
from app.screens.batch.batch_form import BatchForm
from app.screens.batch.document import DraftStep
from app.screens.batch.expression_completer import ExpressionCompleter
from app.screens.batch.expression_field import trial_words
from app.screens.batch.expression_query import Asked
from app.screens.batch.flow_form import FlowForm
from app.screens.batch.inline_edit import InlineEdit
from app.screens.batch.step_source import StepSource
from app.screens.batch.tool_catalog import CatalogState, ToolEntry
from app.widgets.badges import RiskBadge
from app.widgets.banner import Notice
from app.widgets.buttons import Segmented
from app.widgets.empty_state import EmptyState
from app.widgets.fields import Field, mark_failed
from app.widgets.labels import ElidedLabel, Label, escaped_tooltip, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.util import ScrollArea
from core.batch.models import STEP_ID, ExpressionTrials, Readable
from core.models.tools import OTHERWISE, Effect
from core.schema_forms.json_values import Path, same_json

LONGEST_TIMEOUT_S = 86_400


class StepForm(QWidget):
    """The open step; nothing but a hint while there is none.

    Signals:
        parameters_typed(parameters): the arguments are others.
        id_typed(text), timeout_typed(seconds or None): as they say.
        id_settled(before, now): the id is another one than before it was typed into.
        problems_found(words): the first thing that is wrong with what was typed; empty when nothing is.
    """

    parameters_typed = Signal(object)
    id_typed = Signal(str)
    id_settled = Signal(str, str)
    timeout_typed = Signal(object)
    problems_found = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("The open step")
        self._key = 0
        self._offered = False
        self._schema: Any = None
        self.id_field = InlineEdit("Id of the step", "head", least=40, most=200)
        self.id_field.typed.connect(self.id_typed)
        self.id_field.settled.connect(self.id_settled)
        # Other things give way before the name does.
        self.id_field.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.tool = ElidedLabel("", "mono_small", "text2")
        self.risk = RiskBadge("low")
        self.undo = ElidedLabel("", "meta", "text3")
        self.undo_below = Label("", "meta", "text3")
        self.id_error = Label("", "meta", "fail", wrap=True)
        self.notice = Notice("warn", "")
        self.form = SchemaForm(FormOptions(expressions=True))
        self.form.changed.connect(lambda: self.parameters_typed.emit(self.form.value()))
        self.form.checked.connect(lambda found: self.problems_found.emit(found[0].message if found else ""))
        self.completer = ExpressionCompleter(self.form, bracketed=True)
        self.timeout = LineInput("s")
        self.timeout_field = Field("step timeout", self.timeout, help_text="Left out when empty.")
        self.timeout_field.setMaximumWidth(180)
        self.timeout.textEdited.connect(self._timeout_edited)
        self.judgement = DecisionCard()
        self.flow = FlowForm()
        self.batch = BatchForm()
        self._shows_batch = False
        self._text: StepSource | None = None
        self.pages = Segmented([("form", "Form"), ("text", "JSON")], "Form or text", in_bar=True)
        self.pages.chosen.connect(lambda _key: self._choose_page())
        self._build()
        self.set_compact_text(None)
        self.show_step(None, None)

    def _build(self) -> None:
        head = hbox(
            self.id_field,
            self.tool,
            self.risk,
            self.undo,
            STRETCH,
            self.pages,
            margins=(11, 8, 16, 0),
            spacing=8,
        )
        self._head = QWidget()
        whole_head = vbox(head, parent=self._head, margins=(0, 0, 0, 4), spacing=2)
        self.undo_below.setContentsMargins(16, 0, 16, 0)
        whole_head.addWidget(self.undo_below)
        self.id_error.setContentsMargins(16, 0, 16, 0)
        whole_head.addWidget(self.id_error)
        inside = QWidget()
        set_surface(inside, "base")
        vbox(
            self.notice,
            self.form,
            self.timeout_field,
            self.judgement,
            self.flow,
            STRETCH,
            parent=inside,
            margins=(16, 6, 16, 16),
            spacing=12,
        )
        self.scroller = ScrollArea(inside)
        self.scroller.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hint = EmptyState("No step is chosen.", "Choose a step to see its form.")
        self.stack = QStackedWidget()
        self.stack.addWidget(self.scroller)
        self.stack.addWidget(self.hint)
        about = QWidget()
        set_surface(about, "base")
        vbox(self.batch, STRETCH, parent=about, margins=(16, 10, 16, 16))
        self.batch_scroller = ScrollArea(about)
        self.batch_scroller.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.stack.addWidget(self.batch_scroller)
        vbox(self._head, (self.stack, 1), parent=self)

    # Form or text, where both have not enough room side by side

    def set_compact_text(self, text: StepSource | None) -> None:
        """Take in the text of the step as a second page, or give it up."""
        if self._text is not None:
            self.stack.removeWidget(self._text)
        self._text = text
        if text is not None:
            self.stack.addWidget(text)
        self.pages.setVisible(text is not None)
        self.pages.choose("form")
        self._choose_page()

    def _choose_page(self) -> None:
        if not (self._key or self._shows_batch):
            self.stack.setCurrentWidget(self.hint)
        elif self.pages.current() == "text" and self._text is not None:
            self.stack.setCurrentWidget(self._text)
        else:
            self.stack.setCurrentWidget(self.batch_scroller if self._shows_batch else self.scroller)

    # The step

    def show_step(self, step: DraftStep | None, offered: ToolEntry | None, missing: str = "") -> None:
        """Show a step; what is typed in just now is left alone. `missing` says why the tool is not known."""
        self._head.setVisible(step is not None)
        self._shows_batch = False
        if step is None:
            self._key = 0
            self._choose_page()
            return
        calls = not step.is_approval
        for part in (self.form, self.timeout_field, self.judgement):
            part.setVisible(calls)
        schema = offered.tool.input_schema if offered and calls else True
        other = step.key != self._key
        if other or not (schema is self._schema or same_json(schema, self._schema)):
            self._key, self._schema = step.key, schema
            self.form.set_schema(schema, step.parameters)
            self.judgement.say("")
            if other:
                self.scroller.verticalScrollBar().setValue(0)
        elif not same_json(self.form.value(), step.parameters):
            self.form.set_value(step.parameters)
        self.id_field.show()
        self.id_field.show_text(step.id)
        self.flow.show_step(step, offered)
        self._show_timeout(step)
        self._show_tool(step, offered, missing)
        self._choose_page()

    def show_batch(self, settings: dict[str, Any]) -> None:
        """Show the form of the batch itself."""
        self._key, self._shows_batch = 0, True
        self._offered = False
        for part in (self.id_field, self.tool, self.risk, self.undo, self.undo_below):
            part.hide()
        self._head.setVisible(self._text is not None)
        self.batch.show_settings(settings)
        self._choose_page()

    def _show_tool(self, step: DraftStep, offered: ToolEntry | None, missing: str) -> None:
        tool = "approval" if step.is_approval else offered.title if offered else step.tool
        self.tool.set_text(tool)
        self.tool.setVisible(tool != step.id)
        self.risk.setVisible(offered is not None)
        self.notice.setVisible(bool(missing))
        if missing:
            self.notice.say("warn", "", missing)
        if offered is not None:
            contract = offered.tool.contract
            self.risk.set_risk(contract.risk.value.value)
            reads = contract.effect.value is Effect.OBSERVE
            undo = "can be undone" if contract.reversible.value else "cannot be undone"
            words = "changes nothing" if reads else undo
            self.undo.set_text(words)
            self.undo_below.setText(words)
            self.undo_below.setToolTip("" if reads else escaped_tooltip(contract.reversible.why))
        self._offered = offered is not None
        self._arrange_head()

    def _arrange_head(self) -> None:
        """Put what can be undone below the names where it would cut them."""
        parts = [self.id_field, self.risk, self.undo]
        parts += [self.tool] if not self.tool.isHidden() else []
        parts += [self.pages] if not self.pages.isHidden() else []
        wanted = sum(part.sizeHint().width() + 8 for part in parts) + 11 + 16
        below = wanted > self.width()
        self.undo.setVisible(self._offered and not below)
        self.undo_below.setVisible(self._offered and below)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange the head for the new width."""
        super().resizeEvent(event)
        self._arrange_head()

    def show_trials(
        self,
        arguments: Sequence[tuple[Path, str]],
        trials: ExpressionTrials,
        asked: Sequence[Asked],
        secret_inputs: Sequence[str],
    ) -> None:
        """Say what expressions give, and complete them.

        `arguments` has the paths of arguments with the texts that hold expressions; only these may read the
        `secret_inputs`.
        """
        where = f" on {trials.device} in {trials.run}" if trials.run else ""
        known = dict(zip(asked, trials.trials, strict=True))
        self.flow.show_trials(trials.readable, known, where)
        secrets = [Readable(path=f"inputs.{name}", type="secret") for name in secret_inputs]
        before = [one for one in trials.readable if one.path.split(".")[0] != "result"]
        self.completer.values = [*before, *secrets]
        found = {path: known["with", text] for path, text in arguments if ("with", text) in known}
        self.form.show_notes(
            {path: (trial_words(trial, where), bool(trial.problem)) for path, trial in found.items()}
        )

    def show_id_error(self, words: str) -> None:
        """Say what is wrong with the id."""
        mark_failed(self.id_field, bool(words))
        self.id_error.setText(words)
        self.id_error.setVisible(bool(words))

    def _show_timeout(self, step: DraftStep) -> None:
        words = "" if step.timeout is None else f"{step.timeout:g}"
        if self.timeout_field.error and self.timeout.hasFocus():
            return
        if _seconds(self.timeout.text()) != step.timeout or self.timeout_field.error:
            self.timeout.setText(words)
            self.timeout_field.set_error("")

    def _timeout_edited(self, text: str) -> None:
        try:
            seconds = _seconds(text, strict=True)
        except ValueError:
            self.timeout_field.set_error("Write seconds, above 0 and at most 86400, or leave it empty.")
            self.problems_found.emit("step timeout is not a number of seconds")
            return
        self.timeout_field.set_error("")
        self.timeout_typed.emit(seconds)

    def problem(self) -> str:
        """The first thing that is known to be wrong with what stands in the form; empty when nothing is."""
        if not self._key:
            return ""
        if self.timeout_field.error:
            return "step timeout is not a number of seconds"
        found = self.form.problems() if not self.form.isHidden() else []
        return found[0].message if found else self.flow.problem()

    def unsent(self) -> str:
        """What stands in the form and is not what would be sent: text that could not be read."""
        if not self._key:
            return self.batch.unsent() if self._shows_batch else ""
        if self.timeout_field.error:
            return "step timeout is not a number of seconds."
        found = self.form.not_sent() if not self.form.isHidden() else None
        return found.message if found is not None else self.flow.unsent()

    def focus_first(self) -> None:
        """Go on into the form."""
        inputs: list[QWidget] = []
        if self._shows_batch:
            inputs = self.batch.form.inputs()
        elif self.stack.currentWidget() is self.scroller:
            if self.flow.focus_question():
                return
            inputs = self.form.inputs() or [self.timeout]
        if inputs:
            inputs[0].setFocus(Qt.FocusReason.TabFocusReason)


def why_no_form(step: DraftStep | None, offered: ToolEntry | None, offer: CatalogState) -> str:
    """Why the form is not the tool's own, or the tool cannot be called; empty when all is well."""
    if offered is not None:
        tool = offered.tool
        changed = f"This tool {tool.change or OTHERWISE}; calls are blocked until it is reviewed in Fleet."
        return changed if tool.changed else ""
    if step is None or step.is_approval or offer.reading or not offer.matched:
        return ""
    return f"No matched device offers {step.tool} now. Its arguments can be edited as JSON."


def _seconds(text: str, strict: bool = False) -> float | None:
    """What a timeout's field says; None when it is empty.

    Raises:
        ValueError: it is no number of seconds; without `strict`, None is returned instead.
    """
    stripped = text.strip()
    if not stripped:
        return None
    try:
        seconds = float(stripped)
        if not 0 < seconds <= LONGEST_TIMEOUT_S:
            raise ValueError(stripped)
    except ValueError:
        if strict:
            raise
        return None
    return seconds


def id_error(step: DraftStep, others: list[str]) -> str:
    """What is wrong with a step's id; empty when nothing is."""
    if not step.id:
        return "A step needs an id: letters, digits, _ and -."
    if re.fullmatch(STEP_ID.strip("^$"), step.id) is None:
        return "An id has letters, digits, _ and -, begins with a letter or _, and has at most 64 of them."
    return f"Another step has the id {step.id} already." if step.id in others else ""
