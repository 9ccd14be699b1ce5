"""A choice between several forms; what was typed in one is kept while another is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from app.forms.base import Editor, FieldRow, FormOptions
from app.forms.field_widgets import ChoiceBox
from app.widgets.layouts import vbox
from core.schema_forms.form import Field, best_alternative
from core.schema_forms.json_values import UNSET, Path
from core.schema_forms.validator import FieldError


class UnionEditor(Editor):
    """A list of the alternatives, and below it the form of the chosen one."""

    def __init__(self, field: Field, options: FormOptions, parent: QWidget | None = None) -> None:
        super().__init__(field, options, parent)
        self._lines = vbox(parent=self, spacing=6)
        first = "choose…" if field.required else "left out"
        labels = [first, *(one.title for one in field.alternatives)]
        notes = ["", *(one.description for one in field.alternatives)]
        self.input = ChoiceBox(labels, notes, 1, self)
        self.input.setEnabled(not options.read_only)
        self.input.setAccessibleName(f"kind of {field.where or 'arguments'}")
        self.input.activated.connect(self._chosen_by_hand)
        self.input.left.connect(self.left)
        self._lines.addWidget(self.input)
        self._forms: dict[int, FieldRow] = {}
        self._at: int | None = None

    @property
    def _form(self) -> FieldRow | None:
        return None if self._at is None else self._forms[self._at]

    def _chosen_by_hand(self, index: int) -> None:
        self.asked_for()
        fresh = index > 0 and index - 1 not in self._forms
        self._show(index - 1 if index > 0 else None)
        if self._form is not None and fresh:
            self._form.editor.choose_constants()
        self.changed.emit()
        self.regrown.emit()

    def _show(self, at: int | None) -> None:
        if at is not None and at not in self._forms:
            form = FieldRow(self.field.alternatives[at], self.options, False, self)
            form.changed.connect(self.changed)
            form.left.connect(self.left)
            form.regrown.connect(self.regrown)
            self._forms[at] = form
            self._lines.addWidget(form, 0, Qt.AlignmentFlag.AlignTop)
        self._at = at
        self.input.setCurrentIndex(0 if at is None else at + 1)
        for place, form in self._forms.items():
            form.setVisible(place == at)

    def value(self) -> Any:
        """What the form on show holds."""
        return self._form.value() if self._form is not None else UNSET

    def can_show(self, value: Any) -> bool:
        """Values that fit one of the alternatives."""
        return best_alternative(self.field, value) is not None

    def set_value(self, value: Any) -> None:
        """Show a value in the form it fits; the form on show stays when it fits there too."""
        if value is UNSET:
            self._show(None)
            self.regrown.emit()
            return
        # While the JSON beside the form is typed, a value can pass through states that fit another
        # alternative better; the one on show is only left when it cannot hold the value at all.
        current = self._form
        at = best_alternative(self.field, value)
        if current is not None and not isinstance(value, dict) and current.editor.can_show(value):
            at = self._at
        self._show(at)
        if self._form is not None:
            self._form.set_value(value)
        self.regrown.emit()

    def problems(self, path: Path) -> list[FieldError]:
        """Those of the form on show."""
        return self._form.problems(path) if self._form is not None else []

    def rows(self, path: Path) -> Iterator[tuple[Path, FieldRow]]:
        """The rows of the form on show."""
        if self._form is not None:
            yield from self._form.rows(path)

    def inputs(self) -> Iterator[QWidget]:
        """The list, then the form on show."""
        yield self.input
        if self._form is not None:
            yield from self._form.inputs()
