"""A form for the arguments of any tool, made from its JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.forms.base import Editor, ErrorLine, FieldRow, FormOptions, NotSent, RawEditor
from app.forms.factory import editor_for
from app.forms.lazy_builder import LazyBuilder
from app.forms.validator import STILL_CHECKED, Validator
from app.widgets.labels import Label
from app.widgets.layouts import vbox
from app.widgets.util import debounce
from core.schema_forms.form import form_for
from core.schema_forms.json_values import UNSET, Path, holds_expression, path_text, same_json, value_at
from core.schema_forms.secrets import secret_arguments
from core.schema_forms.validator import FieldError

_CHECK_AFTER_MS = 200
_SAY_CHECKING_AFTER_MS = 400


@dataclass(frozen=True, slots=True)
class _Wait:
    """A caller that waits for `value` to be checked."""

    value: Any
    act: Callable[[list[FieldError]], None]
    changed: Callable[[], None]


class SchemaForm(QWidget):
    """Asks for the arguments of one tool.

    `value()` holds only what was typed, chosen or given: a default is shown, never sent. Nothing is rebuilt
    while the operator types, so the focus stays where it is. Neither reading a schema nor holding the
    arguments against it ever stops the window: what is not known yet is said to be checked, and
    `when_checked` waits.

    Signals:
        changed: the operator typed or chose something; `value()` is up to date.
        checked: what is wrong is known again, a moment after typing; a list of `FieldError`.
    """

    changed = Signal()
    checked = Signal(list)

    def __init__(self, options: FormOptions | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._builder = LazyBuilder(self)
        self._options = replace(options or FormOptions(), builder=self._builder, editor_for=editor_for)
        self._check = Validator(parent=self)
        self._schema: Any = True
        self._secrets: frozenset[str] = frozenset()
        self._editor: Editor | None = None
        self._outside: list[FieldError] = []
        self._shown: tuple[list[FieldError], bool] = ([], True)
        self._notes: dict[Path, tuple[str, bool]] = {}
        self._waits: _Wait | None = None
        self._lines = vbox(parent=self, spacing=8)
        self._error = ErrorLine(self)
        self._checking = Label("Checking the arguments…", "meta", "text3", parent=self)
        self._checking.hide()
        self._lines.addWidget(self._error)
        self._lines.addWidget(self._checking)
        self._lines.addStretch(1)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self._check_soon = debounce(self, _CHECK_AFTER_MS, self._show_touched)
        self._order_soon = debounce(self, 0, self._set_tab_order)
        self._say_checking_soon = debounce(self, _SAY_CHECKING_AFTER_MS, self._checking.show)
        self._check.known.connect(self._known)
        self._builder.built.connect(self._show_again)

    def set_schema(self, schema: Any, value: Any = None) -> None:
        """Build the form for a schema and show a value in it; None stands for no arguments."""
        self._schema = schema
        self._check.set_schema(schema)
        self._secrets = secret_arguments(schema)
        self._builder.begin()
        self._changes()
        self._shown = ([], True)
        self._notes = {}
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
        if self._waits is not None and not same_json(value, self._waits.value):
            self._give_up_waiting()
        self._builder.allow_some()
        if not self._editor.can_show(value):
            self._editor = self._as_json()
        self._editor.set_value(value)
        self._check_soon.start()

    def _as_json(self) -> Editor:
        """Give up on fields for a value that fits none of them; it is kept and shown as JSON."""
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

    @property
    def is_built(self) -> bool:
        """Whether all of its rows are there."""
        return self._builder.is_done

    @property
    def is_checked(self) -> bool:
        """Whether it is known what is wrong with `value()`; asks for it, if not."""
        return self._editor is None or self._check.errors(self.value()) is not None

    def problems(self) -> list[FieldError]:
        """Everything that is known to be wrong now: what can be no value, and what the schema forbids."""
        if self._editor is None:
            return []
        own = self._editor.problems(())
        seen = {error.path for error in own}
        value = self.value()
        found = [error for error in self._check.errors(value) or () if error.path not in seen]
        if self._options.expressions:
            found = [error for error in found if not holds_expression(value_at(value, error.path))]
        return own + found

    def not_sent(self) -> FieldError | None:
        """The first thing that stands in the form and is not in `value()`; needs no schema."""
        own = self._editor.problems(()) if self._editor is not None else []
        return next((error for error in own if isinstance(error, NotSent)), None)

    def show_problems(self) -> list[FieldError]:
        """Show everything that is wrong, also in fields that the focus was never in; returns it.

        While that is not known, the arguments are wrong as a whole: they may not be sent.
        """
        found = self._all_problems()
        if not self.is_checked:
            found = [*found, FieldError((), STILL_CHECKED)]
        self._show(found)
        return found

    def _all_problems(self) -> list[FieldError]:
        for _, row in self.all_rows():
            row.touched = True
        self._check.try_again()
        return self.problems()

    def when_checked(self, act: Callable[[list[FieldError]], None], changed: Callable[[], None]) -> None:
        """Call `act` with all that is wrong as soon as it is known, at once where it is; shows it as well.

        Where the form changes before that, `changed` is called instead, and never both.
        """
        self._give_up_waiting()
        found = self._all_problems()
        if self.is_checked:
            self._show(found)
            act(found)
        else:
            self._waits = _Wait(self.value(), act, changed)
            self._say_checking_soon.start()

    def _give_up_waiting(self) -> None:
        waits, self._waits = self._waits, None
        if waits is not None:
            waits.changed()

    def _known(self) -> None:
        """What was asked of the schema is answered."""
        found = self.problems()
        if not self.is_checked:
            return  # of arguments that are others by now
        self._show([*found, *self._outside])
        waits, self._waits = self._waits, None
        if waits is not None:
            waits.act(found)

    def set_errors(self, errors: Iterable[FieldError]) -> None:
        """Show what was found elsewhere, by a device for example, until the form changes."""
        self._outside = list(errors)
        self._show([*self.problems(), *self._outside], only_touched=not self._outside)

    def show_notes(self, notes: dict[Path, tuple[str, bool]]) -> None:
        """Say something below the fields of these paths: words, and whether they tell of a mistake."""
        self._notes = notes
        rows = dict(self.all_rows())
        lines: dict[FieldRow, list[str]] = {}
        failed: set[FieldRow] = set()
        for path, (words, wrong) in notes.items():
            row = self._row_for(path, rows)
            if row is not None:
                own = rows.get(path) is row
                lines.setdefault(row, []).append(words if own else f"{path_text(path)}: {words}")
                failed |= {row} if wrong else set()
        for row in rows.values():
            row.show_note("\n".join(lines.get(row, ())), row in failed)

    @property
    def notes(self) -> dict[Path, str]:
        """What is said below the fields beside their errors, by the path of the field."""
        return {path: row.note for path, row in self.all_rows() if row.note}

    @property
    def errors(self) -> dict[Path, str]:
        """The errors on show, by the path of their field."""
        found = {path: row.error_text for path, row in self.all_rows() if row.error_text}
        return {(): self._error.text(), **found} if self._error.text() else found

    def focus_first(self) -> None:
        """Put the focus on the first input."""
        first = next(iter(self.inputs()), None)
        if first is not None:
            first.setFocus()

    def focus_path(self, path: Path) -> bool:
        """Put the focus on the field of a path, or the nearest one around it; False when there is none."""
        self._fill_towards(path)
        row = self._row_for(path, dict(self.all_rows()))
        inputs = list(row.inputs()) if row is not None else []
        if inputs:
            inputs[0].setFocus()
        return bool(inputs)

    def inputs(self) -> list[QWidget]:
        """Everything that can have the focus, in the order of the Tab key."""
        return list(self._editor.inputs()) if self._editor is not None else []

    def row(self, path: Path) -> FieldRow | None:
        """The row that asks for the value at a path now."""
        self._fill_towards(path)
        return dict(self.all_rows()).get(path)

    def _fill_towards(self, path: Path) -> None:
        for end in range(len(path) + 1):
            if (row := dict(self.all_rows()).get(path[:end])) is not None:
                row.fill()

    def secret_names(self) -> set[str]:
        """The names whose values are masked."""
        deep = {str(path[-1]) for path, row in self.all_rows() if path and row.field.is_secret}
        return deep | self._secrets

    def all_rows(self) -> list[tuple[Path, FieldRow]]:
        if self._editor is None:
            return []
        rows = list(self._editor.rows(()))
        # An alternative shares its path with the row that offers it; the outer one shows the errors of both.
        return rows[::-1]

    def _changed(self) -> None:
        self._changes()
        self._check_soon.start()
        self.changed.emit()

    def _changes(self) -> None:
        """What was said of the form before is said of another one."""
        self._outside = []
        self._error.show_text("")
        self._give_up_waiting()

    def _show_touched(self) -> None:
        found = self.problems()
        if self.is_checked:
            self._show([*found, *self._outside])
        elif self._checking.isHidden() and not self._say_checking_soon.isActive():
            # What was wrong before stays to be read until more is known.
            self._say_checking_soon.start()

    def _show_again(self) -> None:
        """Rows were filled: they show their errors, too."""
        self._order_soon.start()
        if self._shown[0]:
            self._show_in_rows(*self._shown)
        if self._notes:
            self.show_notes(self._notes)

    def _show(self, errors: list[FieldError], only_touched: bool = True) -> None:
        self._shown = (errors, only_touched)
        self._show_in_rows(errors, only_touched)
        if self.is_checked:
            self._say_checking_soon.stop()
            self._checking.hide()
        self.checked.emit(errors)

    def _show_in_rows(self, errors: list[FieldError], only_touched: bool) -> None:
        rows, value = dict(self.all_rows()), self.value()
        texts: dict[Path, str] = {}
        rest: list[str] = []
        for error in errors:
            row = self._row_for(error.path, rows)
            if row is None:
                rest.append(error.message)
            # What is missing is said once the focus was there.
            elif row.touched or not only_touched or value_at(value, error.path) is not UNSET:
                place = next(path for path, one in rows.items() if one is row)
                texts.setdefault(place, error.message)
        for path, row in rows.items():
            row.show_error(texts.get(path, ""))
        self._error.show_text(" ".join(rest[:3]))

    @staticmethod
    def _row_for(path: Path, rows: dict[Path, FieldRow]) -> FieldRow | None:
        return next((rows[path[:end]] for end in range(len(path), -1, -1) if path[:end] in rows), None)

    def _set_tab_order(self) -> None:
        inputs = self.inputs()
        for before, after in pairwise(inputs):
            QWidget.setTabOrder(before, after)
