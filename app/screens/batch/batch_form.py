"""The form of the batch itself: description, inputs, what follows a failure, rollout, notes."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Signal

from app.forms import SchemaForm
from app.screens.batch.flow_schema import settings_schema
from app.widgets.section import Section
from core.schema_forms.json_values import same_json


class BatchForm(Section):
    """Asks for what a batch says beside its name, its devices and its steps.

    Signals:
        typed(settings): they are others.
    """

    typed = Signal(object)

    def __init__(self) -> None:
        super().__init__("The batch", "inputs are asked for when it runs")
        self.form = SchemaForm()
        self.form.changed.connect(lambda: self.typed.emit(self.form.value()))
        self.add(self.form)
        self._is_built = False

    def show_settings(self, settings: dict[str, Any]) -> None:
        """Show what the batch says; what is typed just now is left alone."""
        if not self._is_built:
            self._is_built = True
            self.form.set_schema(settings_schema(), settings)
        elif not same_json(self.form.value(), settings):
            self.form.set_value(settings)

    def unsent(self) -> str:
        """What stands here and is not in the batch: text that could not be read."""
        found = self.form.not_sent()
        return found.message if found is not None else ""
