"""A form as a person works it: links that open and leave out, items that are added and removed."""

from __future__ import annotations

from PySide6.QtWidgets import QAbstractButton, QWidget

from app.forms import SchemaForm
from app.forms.array_editor import ArrayEditor
from app.widgets.labels import Label
from tests.gui.page import button_named, visible


def is_being_checked(form: SchemaForm) -> bool:
    """Whether it is said that the arguments are being checked."""
    return any(label.text() == "Checking the arguments…" for label in visible(form, Label))


def words_in(row: QWidget) -> list[str]:
    """What a row says beside its input, from top to bottom."""
    return [label.text() for label in visible(row, Label) if label.text()]


def row_of(form: SchemaForm, *path: str | int) -> QWidget:
    """The row of a field, its label and links included."""
    row = form.row(path)
    assert row is not None, path
    return row


def add_or_leave_out(inside: QWidget) -> QAbstractButton:
    """The link of an object that may be left out."""
    return button_named(inside, "Add", "Leave out")


def add_item(array: ArrayEditor) -> QAbstractButton:
    """The button below the items of a list."""
    return button_named(array, "Add item")
