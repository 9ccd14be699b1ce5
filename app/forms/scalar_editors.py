"""Editors for text, numbers, choices, and values that nothing but JSON can express."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtGui import QAction, QContextMenuEvent
from PySide6.QtWidgets import QWidget

from app.forms.base import Editor, FormOptions, fill_with
from app.forms.field_widgets import ChoiceBox, GrowingText, LineInput
from core.schema_forms.form import NUMBER_KINDS, Choice, Field, FieldKind
from core.schema_forms.json_values import (
    UNSET,
    Path,
    is_expression,
    is_plain,
    parse_number,
    path_text,
    same_json,
    shown,
)
from core.schema_forms.validator import FieldError


class _TextOrEmpty(GrowingText):
    """Text whose context menu has one action more, which is off while there is text."""

    def __init__(self, action: QAction, mono: bool, least: int, most: int, parent: QWidget) -> None:
        super().__init__(mono, least, most, parent)
        self._action = action

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Add the action to Qt's own menu."""
        menu = self.createStandardContextMenu()
        menu.addSeparator()
        self._action.setEnabled(not self.text() and not self.isReadOnly())
        menu.addAction(self._action)
        menu.exec(event.globalPos())
        menu.deleteLater()


class TextEditor(Editor):
    """Text. Empty means left out, unless empty text was given or asked for in the menu."""

    def __init__(self, field: Field, options: FormOptions, parent: QWidget | None = None) -> None:
        super().__init__(field, options, parent)
        long = field.states_lines or (field.kind is FieldKind.MULTILINE and options.names_hint)
        self._long = long
        mono = field.is_mono or long
        self.empty_action = QAction("Send empty text", self)
        self.input = _TextOrEmpty(self.empty_action, mono, 3 if long else 1, 10 if long else 3, self)
        self.input.setReadOnly(options.read_only)
        self.input.edited.connect(self._edited)
        self.input.left.connect(self.left)
        self.empty_action.setCheckable(True)
        self.empty_action.toggled.connect(self._empty_toggled)
        fill_with(self, self.input)
        self._show_hint()

    def _edited(self) -> None:
        if self.input.text():
            self._set_empty(False)
        self.changed.emit()

    def _empty_toggled(self) -> None:
        self._show_hint()
        self.changed.emit()

    def _set_empty(self, wanted: bool) -> None:
        self.empty_action.blockSignals(True)
        self.empty_action.setChecked(wanted)
        self.empty_action.blockSignals(False)
        self._show_hint()

    def _show_hint(self) -> None:
        examples = [one for one in self.field.examples if isinstance(one, str)]
        hint = f"for example {shown(examples[0], 50)}" if examples else ""
        self.input.setPlaceholderText("empty text" if self.empty_action.isChecked() else hint)

    def value(self) -> Any:
        """The text exactly."""
        text = self.input.text()
        return text if text or self.empty_action.isChecked() else UNSET

    def can_show(self, value: Any) -> bool:
        """Only text in which nothing hides: the rest is shown as JSON, with escapes."""
        return isinstance(value, str) and is_plain(value)

    def set_value(self, value: Any) -> None:
        """Show text; one with line ends is one of several lines, whatever the schema says."""
        text = value if isinstance(value, str) else ""
        self.input.set_text(text)
        self.input.takes_lines = self._long or "\n" in text
        self._set_empty(value == "")

    def inputs(self) -> Iterator[QWidget]:
        """The one input."""
        yield self.input


class LineEditor(Editor):
    """A number exactly as typed, or a secret that is masked."""

    def __init__(self, field: Field, options: FormOptions, parent: QWidget | None = None) -> None:
        super().__init__(field, options, parent)
        self._is_number = field.kind in NUMBER_KINDS
        self.input = LineInput(field.unit, not self._is_number or field.is_secret, self)
        self.input.setReadOnly(options.read_only)
        self.input.textEdited.connect(self.changed)
        self.input.left.connect(self.left)
        self._given: Any = UNSET
        self._given_text = ""
        fill_with(self, self.input)

    def value(self) -> Any:
        """The number; text that is no number stays text, and `problems` says so."""
        text = self.input.text()
        if self._given is not UNSET and text == self._given_text:
            return self._given
        if not self._is_number:
            return text or UNSET
        stripped = text.strip()
        if not stripped:
            return UNSET
        try:
            return parse_number(stripped, self.field.kind is FieldKind.INTEGER)
        except ValueError:
            return text

    def can_show(self, value: Any) -> bool:
        """Numbers, expressions where the form allows them; secrets of one line."""
        if self._is_number:
            return self.field.fits(value) or (self.options.expressions and is_expression(value))
        return isinstance(value, str)

    def set_value(self, value: Any) -> None:
        """Show a value, and keep the very object until the operator types."""
        self._given = value
        text = "" if value is UNSET else value if isinstance(value, str) else shown(value, 2_000)
        try:
            self.input.setText(text)
        except UnicodeEncodeError:  # a lone surrogate in a secret; the given object is kept all the same
            self.input.setText("?")
        self._given_text = self.input.text()
        self.input.setCursorPosition(0)

    def problems(self, path: Path) -> list[FieldError]:
        """Text that is no number."""
        text = self.input.text()
        if not self._is_number or not isinstance(self.value(), str):
            return []
        if self.options.expressions and is_expression(text):
            return []
        try:
            parse_number(text.strip(), self.field.kind is FieldKind.INTEGER)
        except ValueError as error:
            words = "must be a number" if self.field.is_secret else str(error)
            return [FieldError(path, f"{path_text(path)} {words}.")]
        return []

    def inputs(self) -> Iterator[QWidget]:
        """The one input."""
        yield self.input


_BOOLEANS = (Choice(True, "true"), Choice(False, "false"))


class ChoiceEditor(Editor):
    """An enum, a constant, a boolean or null: a list whose first entry says that nothing is chosen."""

    def __init__(self, field: Field, options: FormOptions, parent: QWidget | None = None) -> None:
        super().__init__(field, options, parent)
        self._choices = self._choices_of(field)
        first = "choose…" if field.required else "left out"
        labels = [first, *(choice.label for choice in self._choices)]
        notes = ["", *(choice.description for choice in self._choices)]
        self.input = ChoiceBox(labels, notes, 1, self)
        self.input.setEnabled(not options.read_only)
        self.input.activated.connect(self._activated)
        self.input.left.connect(self.left)
        self.input.searched.connect(self._searched)
        self._chosen = 0
        fill_with(self, self.input)

    @staticmethod
    def _choices_of(field: Field) -> tuple[Choice, ...]:
        if field.kind is FieldKind.BOOLEAN:
            return (*_BOOLEANS, Choice(None, "null")) if field.nullable else _BOOLEANS
        return (Choice(None, "null"),) if field.kind is FieldKind.NULL else field.choices

    def _activated(self, index: int) -> None:
        self._chosen = index
        self.changed.emit()

    def _searched(self, text: str) -> None:
        # Typed letters only search; an entry counts when it is there letter by letter.
        exact = self.input.findText(text)
        self._chosen = -1 if exact < 0 and text else max(0, exact)
        self.changed.emit()

    def value(self) -> Any:
        """The chosen value; letters that match no entry stay text, and `problems` says so."""
        if self._chosen < 0:
            return self.input.currentText()
        return self._choices[self._chosen - 1].value if self._chosen else UNSET

    def can_show(self, value: Any) -> bool:
        """One of the entries."""
        return any(same_json(choice.value, value) for choice in self._choices)

    def set_value(self, value: Any) -> None:
        """Choose the entry of a value."""
        places = [at for at, choice in enumerate(self._choices, 1) if same_json(choice.value, value)]
        self._chosen = places[0] if value is not UNSET and places else 0
        self.input.setCurrentIndex(self._chosen)

    def problems(self, path: Path) -> list[FieldError]:
        """Letters that match no entry."""
        if self._chosen >= 0:
            return []
        typed = shown(self.input.currentText())
        return [FieldError(path, f"{path_text(path)} must be one of the listed values, not {typed}.")]

    def choose_constants(self) -> None:
        """Choose the only entry there is."""
        if self.field.kind is FieldKind.CONST and self.field.required and self._chosen == 0:
            self.set_value(self._choices[0].value)

    def inputs(self) -> Iterator[QWidget]:
        """The one input."""
        yield self.input
