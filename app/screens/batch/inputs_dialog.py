"""The inputs of a batch, asked for before it runs."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QWidget

from app.forms import FormOptions, SchemaForm
from app.screens.batch.text import one_line
from app.widgets.dialog import Dialog
from core.batch.inputs import check_inputs, inputs_schema
from core.batch.models import Batch
from core.errors import BadInput
from core.schema_forms.json_values import same_json
from core.schema_forms.validator import FieldError

GIVEN = "given"


class InputsDialog(Dialog):
    """Answers with `GIVEN` when `values` fit the batch, or empty."""

    def __init__(self, window: QWidget, batch: Batch, given: dict[str, Any]) -> None:
        """`given` are values to begin with."""
        declared = batch.inputs.values()
        words = [] if all(one.required for one in declared) else ["What is left empty has its default."]
        words += ["Secrets are neither shown nor recorded."] if any(one.secret for one in declared) else []
        super().__init__(window, f"Inputs of “{one_line(batch.name)}”", " ".join(words), width=520)
        self._batch = batch
        self.values: dict[str, Any] = {}
        # The author of the batch named the inputs: `text` may be one word.
        self.form = SchemaForm(FormOptions(names_hint=False))
        self.form.set_schema(inputs_schema(batch), given)
        self._first = self.form.value()
        self.form.changed.connect(lambda: self.say(""))
        self.add(self.form, focus_room=True)
        self.add_answer("", "Cancel")
        button = self.add_answer(GIVEN, "Go on", "primary", closes=False)
        button.clicked.connect(self._go_on)

    def ask(self) -> None:
        """Come up, with the keyboard in the first input."""
        inputs = self.form.inputs()
        self.open(focus=inputs[0] if inputs else self.answer(GIVEN))

    @property
    def holds_input(self) -> bool:
        """Whether other values stand there than at first; its fields may come later than the dialog."""
        return not same_json(self.form.value(), self._first)

    def _go_on(self) -> None:
        self.form.when_checked(self._checked, lambda: None)

    def _checked(self, problems: list[FieldError]) -> None:
        if problems:
            self.form.focus_path(problems[0].path)
            self.say(problems[0].message)
            return
        values = self.form.value()
        try:
            check_inputs(self._batch, values)
        except BadInput as error:
            self.say(error.message)
            return
        self.values = values
        self.finish(GIVEN)
