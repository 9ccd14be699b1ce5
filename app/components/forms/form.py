"""A form for the arguments of any tool, made from its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QSizePolicy, QVBoxLayout, QWidget

from app.components.forms.editor import Editor, FormOptions
from app.components.forms.factory import editor_for
from app.components.forms.row import ErrorLine, FieldRow
from app.components.timers import once
from core.schema_forms.fields import form_for
from core.schema_forms.json_values import UNSET, Path, is_expression, value_at
from core.schema_forms.validate import FieldError, validator_for

_CHECK_AFTER_MS = 200


class SchemaForm(QWidget):
    """Asks for the arguments of one tool.

    `value()` holds only what was typed, chosen or given: a default is shown, never sent. Nothing is rebuilt
    while somebody types, so the focus stays where it is.

    Signals:
        changed: somebody typed or chose something; `value()` is up to date.
        checked: what is wrong was looked up anew, a moment after typing; a list of `FieldError`.
    """

    changed = Signal()
    checked = Signal(list)

    def __init__(self, options: FormOptions | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._options = options or FormOptions()
        self._schema: Any = True
        self._editor: Editor | None = None
        self._outside: list[FieldError] = []
        self._lines = QVBoxLayout(self)
        self._lines.setContentsMargins(0, 0, 0, 0)
        self._lines.setSpacing(8)
        self._error = ErrorLine(self)
        self._lines.addWidget(self._error)
        self._lines.addStretch(1)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self._check_soon = once(self, _CHECK_AFTER_MS, self._show_touched)
        self._order_soon = once(self, 0, self._set_tab_order)

    def set_schema(self, schema: Any, value: Any = None) -> None:
        """Build the form for a schema and show a value in it; None stands for no arguments."""
        self._schema = schema
        self._outside = []
        self._error.show_text("")
        if self._editor is not None:
            self._lines.removeWidget(self._editor)
            self._editor.hide()
            self._editor.deleteLater()
        self._editor = editor_for(form_for(schema), self._options, self)
        self._editor.changed.connect(self._changed)
        self._editor.left.connect(self._check_soon.start)
        self._editor.regrown.connect(self._order_soon.start)
        self._lines.insertWidget(0, self._editor)
        self.set_value({} if value is None else value)
        self._order_soon.start()

    def set_value(self, value: Any) -> None:
        """Show other arguments, without `changed`; fields that already hold theirs are not touched."""
        if self._editor is None:
            return
        if not self._editor.can_show(value):
            self._editor = self._as_json()
        self._editor.set_value(value)
        self._check_soon.start()

    def _as_json(self) -> Editor:
        """Give up on fields for a value that fits none of them; it is kept and shown as JSON."""
        from app.components.forms.scalars import RawEditor

        old = self._editor
        fresh = RawEditor(form_for(self._schema), self._options, self)
        fresh.changed.connect(self._changed)
        fresh.left.connect(self._check_soon.start)
        self._lines.insertWidget(0, fresh)
        if old is not None:
            self._lines.removeWidget(old)
            old.hide()
            old.deleteLater()
        return fresh

    def value(self) -> Any:
        """The arguments as they would be sent."""
        found = self._editor.value() if self._editor is not None else UNSET
        return {} if found is UNSET else found

    def problems(self) -> list[FieldError]:
        """Everything that is wrong now: what can be no value, and what the schema forbids."""
        if self._editor is None:
            return []
        own = self._editor.problems(())
        seen = {error.path for error in own}
        value = self.value()
        found = [error for error in validator_for(self._schema).errors(value) if error.path not in seen]
        if self._options.expressions:
            found = [error for error in found if not is_expression(value_at(value, error.path))]
        return own + found

    def show_problems(self) -> list[FieldError]:
        """Show everything that is wrong, also in fields nobody has been to yet; returns it."""
        for _, row in self._all_rows():
            row.touched = True
        found = self.problems()
        self._show(found)
        return found

    def set_errors(self, errors: Iterable[FieldError]) -> None:
        """Show what somebody else found, a device for example, until the form changes."""
        self._outside = list(errors)
        self._show([*self.problems(), *self._outside], only_touched=not self._outside)

    @property
    def errors(self) -> dict[Path, str]:
        """The errors on show, by the path of their field."""
        found = {path: row.error.text() for path, row in self._all_rows() if row.error.text()}
        return {(): self._error.text(), **found} if self._error.text() else found

    def focus_first(self) -> None:
        """Put the focus on the first input."""
        first = next(iter(self.inputs()), None)
        if first is not None:
            first.setFocus()

    def focus_path(self, path: Path) -> bool:
        """Put the focus on the field of a path, or the nearest one around it; False when there is none."""
        row = self._row_for(path, dict(self._all_rows()))
        inputs = list(row.inputs()) if row is not None else []
        if inputs:
            inputs[0].setFocus()
        return bool(inputs)

    def inputs(self) -> list[QWidget]:
        """Everything that can have the focus, in the order of the Tab key."""
        return list(self._editor.inputs()) if self._editor is not None else []

    def row(self, path: Path) -> FieldRow | None:
        """The row that asks for the value at a path now."""
        return dict(self._all_rows()).get(path)

    def secret_names(self) -> set[str]:
        """The names whose values are masked."""
        rows = self._all_rows()
        return {str(path[-1]) for path, row in rows if path and row.field.is_secret}

    def _all_rows(self) -> list[tuple[Path, FieldRow]]:
        if self._editor is None:
            return []
        rows = list(self._editor.rows(()))
        # An alternative shares its path with the row that offers it; the outer one shows the errors of both.
        return rows[::-1]

    def _changed(self) -> None:
        self._outside = []
        self._error.show_text("")
        self._check_soon.start()
        self.changed.emit()

    def _show_touched(self) -> None:
        self._show([*self.problems(), *self._outside])

    def _show(self, errors: list[FieldError], only_touched: bool = True) -> None:
        rows = dict(self._all_rows())
        texts: dict[Path, str] = {}
        rest: list[str] = []
        for error in errors:
            row = self._row_for(error.path, rows)
            if row is None:
                rest.append(error.message)
            elif row.touched or not only_touched or self._is_typed(error):
                place = next(path for path, one in rows.items() if one is row)
                texts.setdefault(place, error.message)
        for path, row in rows.items():
            row.show_error(texts.get(path, ""))
        self._error.show_text(" ".join(rest[:3]))
        self.checked.emit(errors)

    def _is_typed(self, error: FieldError) -> bool:
        """Whether an error is about something that is there; what is missing waits until it is touched."""
        return value_at(self.value(), error.path) is not UNSET

    @staticmethod
    def _row_for(path: Path, rows: dict[Path, FieldRow]) -> FieldRow | None:
        return next((rows[path[:end]] for end in range(len(path), -1, -1) if path[:end] in rows), None)

    def _set_tab_order(self) -> None:
        inputs = self.inputs()
        for before, after in pairwise(inputs):
            QWidget.setTabOrder(before, after)
