"""A form and its JSON side by side, two views of one value."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSplitter, QWidget

from app.forms.base import FormOptions
from app.forms.form import SchemaForm
from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.widgets.json_edit import JsonEdit
from app.widgets.labels import Label, Link, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.util import ScrollArea
from core.schema_forms.json_values import UNSET
from core.schema_forms.validator import FieldError


class _Mark(QWidget):
    """A check while the JSON is valid, an octagon while it is not."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(QSize(14, 18))
        self.good = True

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the shape."""
        painter = QPainter(self)
        name, tone = ("check", "ok") if self.good else ("cross_octagon", "fail")
        paint_glyph(painter, QRectF(0, 2, 14, 14), name, theme_of(self).color(tone))
        painter.end()


class JsonPane(QWidget):
    """The JSON editor below a line that says whether it is valid, and where it is not."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = vbox(parent=self)
        head = hbox(Label("JSON", "name", parent=self), STRETCH, margins=(14, 8, 14, 8), spacing=6)
        self._mark = _Mark(self)
        self._words = Label("valid", "body", "text2", parent=self)
        self._go = Link("valid", parent=self)
        head.addWidget(self._mark)
        head.addWidget(self._words)
        head.addWidget(self._go)
        layout.addLayout(head)
        self.editor = JsonEdit(parent=self)
        layout.addWidget(self.editor, 1)
        self.editor.validity_changed.connect(self._show_validity)
        self._go.clicked.connect(self.editor.go_to_problem)
        self._problem_count = 0
        self._show_validity()

    @property
    def state(self) -> str:
        """The words on show: `valid`, `line 4: a comma is expected here`, `2 problems`."""
        return self._words.text() if not self._words.isHidden() else self._go.text()

    def show_problem_count(self, count: int) -> None:
        """Say that the text is JSON, but not what the tool takes."""
        self._problem_count = count
        self._show_validity()

    def _show_validity(self) -> None:
        problem = self.editor.problem
        self._mark.good = problem is None and not self._problem_count
        self._mark.update()
        self._go.setVisible(problem is not None)
        self._words.setVisible(problem is None)
        if problem is not None:
            self._go.setText(f"line {problem.line}: {problem.message}")
            self._go.setAccessibleName(f"Go to line {problem.line}: {problem.message}")
            self._go.updateGeometry()
        elif self._problem_count:
            self._words.setText(f"{self._problem_count} problem{'s' if self._problem_count > 1 else ''}")
        else:
            self._words.setText("valid")


class FormWithJson(QWidget):
    """The form of a tool's arguments, and beside it the same as JSON; either can be typed in.

    While the JSON cannot be read the form keeps its value, and says so.

    Signals:
        changed: `value()` is another one.
    """

    changed = Signal()

    def __init__(self, options: FormOptions | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = SchemaForm(options)
        self.form.setContentsMargins(16, 12, 16, 16)
        set_surface(self.form, "base")
        self.json = JsonPane()
        set_surface(self.json, "sunken")
        self._scroll = ScrollArea(self.form)
        self.splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.addWidget(self._scroll)
        self.splitter.addWidget(self.json)
        self.splitter.setStretchFactor(0, 1)
        self.splitter.setSizes([360, 312])
        hbox(self.splitter, parent=self, spacing=None)
        self.form.changed.connect(self._form_changed)
        self.form.checked.connect(lambda found: self.json.show_problem_count(len(found)))
        self.json.editor.value_edited.connect(self._json_changed)

    def set_schema(self, schema: Any, value: Any = None) -> None:
        """Show a tool's form, and its arguments in both views."""
        self.form.set_schema(schema, value)
        self.json.editor.mask_values(self.form.secret_names())
        self.json.editor.show_value(self.form.value())

    def set_value(self, value: Any) -> None:
        """Show other arguments in both views, without `changed`."""
        self.form.set_value(value)
        self.json.editor.show_value(self.form.value())

    def value(self) -> Any:
        """The arguments as they would be sent; those of the last valid JSON while it is not valid."""
        return self.form.value()

    def problems(self) -> list[FieldError]:
        """Everything that is wrong, text that is no JSON included."""
        problem = self.json.editor.problem
        own = self.form.problems()
        if problem is None:
            return own
        return [FieldError((), f"The JSON cannot be read, line {problem.line}: {problem.message}."), *own]

    def _form_changed(self) -> None:
        self.json.editor.mask_values(self.form.secret_names())
        self.json.editor.show_value(self.form.value())
        self.changed.emit()

    def _json_changed(self) -> None:
        value = self.json.editor.value
        self.form.set_value({} if value is UNSET else value)
        self.changed.emit()
