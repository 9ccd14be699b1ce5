"""How the open step goes on: condition, expectations, retries, what follows a failure; or its question."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from app.forms import SchemaForm
from app.screens.batch.document import DraftStep
from app.screens.batch.expression_field import ExpressionField, whole_expression
from app.screens.batch.expression_query import Asked
from app.screens.batch.flow_schema import approval_schema, recovery_schema, step_schema
from app.screens.batch.tool_catalog import ToolEntry
from app.widgets.banner import Notice
from app.widgets.buttons import IconButton
from app.widgets.labels import Label, Link
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.section import Section
from core.batch.models import ExpressionTrial, Place, Readable
from core.models.tools import Effect
from core.schema_forms.json_values import same_json

MOST_EXPECTATIONS = 20
MOST_OFFERED = 20
NOT_REPEATED = "Its tool is not known to be idempotent: say in not_idempotent why repeating is right."
_WHEN_RUN = "The step is skipped where this is false. CEL, as steps.disk.result.free_bytes > 1000."
_WHEN_ASKED = "Operators are asked only where this is true. CEL that reads inputs only."


class _Expectations(QWidget):
    """The expectations of a step, each an expression that can be taken out.

    Signals:
        typed: one was changed, added or taken out.
    """

    typed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.fields: list[ExpressionField] = []
        self._rows: list[QWidget] = []
        self._values: Sequence[Readable] = ()
        self._lines = vbox(spacing=6)
        self.add = Link("Add an expectation", "meta")
        self.add.clicked.connect(self._add_by_hand)
        self.from_result = Link("Make one from the last result…", "meta")
        self.from_result.clicked.connect(self._offer_results)
        help_text = Label(
            "What must hold after the step, which fails otherwise. It reads result.", "meta", "text3", True
        )
        links = hbox(self.add, self.from_result, STRETCH, spacing=16)
        vbox(Label("expect", "name"), self._lines, links, help_text, parent=self, spacing=4)

    def texts(self) -> list[str]:
        """The expectations as the batch has them."""
        return [text for field in self.fields if (text := field.text())]

    def show_texts(self, texts: Sequence[str], anew: bool) -> None:
        """Show these; an empty field that is being typed into stays, unless they are of another step."""
        if list(texts) == self.texts() and not anew:
            return
        while len(self.fields) > len(texts):
            self._drop(len(self.fields) - 1)
        for place, text in enumerate(texts):
            if place == len(self.fields):
                self._append()
            self.fields[place].show_text(text)

    def _append(self) -> ExpressionField:
        field = ExpressionField(f"expect {len(self.fields) + 1}")
        field.set_values(self._values)
        field.typed.connect(self.typed)
        remove = IconButton("close", "Remove this expectation", "text3")
        row = QWidget(self)
        remove.clicked.connect(lambda: self._remove(row))
        hbox((field, 1), (remove, 0, Qt.AlignmentFlag.AlignTop), parent=row, spacing=4)
        self.fields.append(field)
        self._rows.append(row)
        self._lines.addWidget(row)
        return field

    def _drop(self, place: int) -> None:
        self.fields.pop(place)
        row = self._rows.pop(place)
        self._lines.removeWidget(row)
        row.hide()
        row.deleteLater()

    def _remove(self, row: QWidget) -> None:
        self._drop(self._rows.index(row))
        self.add.setFocus(Qt.FocusReason.OtherFocusReason)
        self.typed.emit()

    def _add_by_hand(self) -> None:
        if len(self.fields) < MOST_EXPECTATIONS:
            self._append().input.setFocus(Qt.FocusReason.OtherFocusReason)

    def set_values(self, values: Sequence[Readable]) -> None:
        """What they may read."""
        self._values = values
        for field in self.fields:
            field.set_values(values)
        self.from_result.setEnabled(bool(from_results(values)))
        why = (
            ""
            if self.from_result.isEnabled()
            else "No run of a batch of this name has a result of this step."
        )
        self.from_result.setToolTip(why)

    def _offer_results(self) -> None:
        menu = QMenu(self)
        for expression in from_results(self._values):
            action = QAction(expression.replace("&", "&&"), menu)
            action.triggered.connect(lambda _on=False, text=expression: self.add_expression(text))
            menu.addAction(action)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.from_result.mapToGlobal(self.from_result.rect().bottomLeft()))

    def add_expression(self, text: str) -> None:
        """Add one that is written already."""
        if len(self.fields) < MOST_EXPECTATIONS:
            self._append().show_text(whole_expression(text))
            self.typed.emit()


def from_results(values: Sequence[Readable]) -> list[str]:
    """Expectations that the last result of a step itself would meet, its fields in their order."""
    made: list[str] = []
    for one in values:
        if not one.path.startswith("result.") or "[0]" in one.path or not one.value:
            continue
        if one.type == "list":
            made.append(f"size({one.path}) {'==' if one.value == '[]' else '>'} 0")
        elif one.type != "object" and _is_whole(one.value):
            made.append(f"{one.path} == {one.value}")
    return made[:MOST_OFFERED]


def _is_whole(text: str) -> bool:
    try:
        return not isinstance(json.loads(text), dict | list)
    except ValueError:  # it was shortened
        return False


class FlowForm(Section):
    """Asks how the open step goes on.

    Signals:
        typed(flow): the `flow` of the step is another one.
        recovery_wanted: a step is to be added that runs if this one fails.
    """

    typed = Signal(object)
    recovery_wanted = Signal()

    def __init__(self) -> None:
        super().__init__("Flow")
        self._key = 0
        self._flow: dict[str, Any] = {}
        self._schema: dict[str, Any] | None = None
        self.when = ExpressionField("when")
        self.when.typed.connect(self._changed)
        self._when_help = Label(_WHEN_RUN, "meta", "text3", wrap=True)
        when = QWidget()
        vbox(Label("when", "name"), self.when, self._when_help, parent=when, spacing=4)
        self.expect = _Expectations()
        self.expect.typed.connect(self._changed)
        self.form = SchemaForm()
        self.form.changed.connect(self._changed)
        self.recover = Link("Add a recovery step…", "meta")
        self.recover.setToolTip("A step that runs if this one fails; R makes one of a step below it.")
        self.recover.clicked.connect(self.recovery_wanted)
        self.repeating = Notice("warn", "It is not tried again once the device has begun it.", NOT_REPEATED)
        for part in (when, self.expect, self.repeating, self.form):
            self.add(part)
        self.body.addLayout(hbox(self.recover, STRETCH, spacing=0))
        self.body.setSpacing(14)

    def show_step(self, step: DraftStep, offered: ToolEntry | None = None) -> None:
        """Show how a step goes on; what is typed just now is left alone."""
        self._show_repeating(step, offered)
        self._flow = step.flow
        asks = step.is_approval
        self.head.set_title("Question to operators" if asks else "Flow")
        self._when_help.setText(_WHEN_ASKED if asks else _WHEN_RUN)
        self.expect.setVisible(not asks)
        self.recover.setVisible(not asks and not step.recovers)
        schema = approval_schema() if asks else recovery_schema() if step.recovers else step_schema()
        given = {name: value for name, value in step.flow.items() if name not in ("when", "expect")}
        if schema is not self._schema or step.key != self._key:
            # Of another step nothing stays: no text that could not be read, and nothing that was said of it.
            self._schema = schema
            self.form.set_schema(schema, given)
        elif not same_json(self.form.value(), given):
            self.form.set_value(given)
        when, expect = step.flow.get("when", ""), step.flow.get("expect", [])
        self.when.show_text(when if isinstance(when, str) else "")
        texts = [str(one) for one in expect] if isinstance(expect, list) else []
        self.expect.show_texts(texts, anew=step.key != self._key)
        self._key = step.key

    def _show_repeating(self, step: DraftStep, offered: ToolEntry | None) -> None:
        """Say where a retry does nothing, because repeating is not known to be safe."""
        retry = step.flow.get("retry")
        contract = offered.tool.contract if offered is not None else None
        unsafe = (
            isinstance(retry, dict)
            and not retry.get("not_idempotent")
            and contract is not None
            and contract.effect.value is not Effect.OBSERVE
            and not contract.idempotent.value
        )
        self.repeating.setVisible(unsafe)

    def focus_question(self) -> bool:
        """Go on to what an approval step asks; False for another step."""
        return "approval" in self._flow and self.form.focus_path(("approval", "question"))

    def _changed(self) -> None:
        flow = dict(self.form.value())
        if text := self.when.text():
            flow["when"] = text
        if texts := self.expect.texts():
            flow["expect"] = texts
        if "approval" in self._flow:
            flow.setdefault("approval", {})
        self.typed.emit(flow)

    # What the service says of the expressions

    def expressions(self) -> list[tuple[ExpressionField, Place, str]]:
        """The fields that hold an expression, each with its place in the step and its text."""
        fields: list[tuple[ExpressionField, Place]] = [(self.when, "when")]
        fields += [(field, "expect") for field in self.expect.fields]
        return [(field, place, text) for field, place in fields if (text := field.text())]

    def show_trials(
        self, readable: Sequence[Readable], trials: Mapping[Asked, ExpressionTrial], where: str
    ) -> None:
        """What the expressions may read, and what those give that still say the same.

        A condition cannot read the step's own result.
        """
        self.when.set_values([one for one in readable if not one.path.startswith("result")])
        self.expect.set_values(readable)
        for field, place, text in self.expressions():
            field.show_trial(trials.get((place, text)), where)

    # What is wrong

    def problem(self) -> str:
        """The first thing that is known to be wrong; empty when nothing is."""
        found = self.form.problems()
        return found[0].message if found else ""

    def unsent(self) -> str:
        """What stands here and is not in the step: text that could not be read."""
        found = self.form.not_sent()
        return found.message if found is not None else ""
