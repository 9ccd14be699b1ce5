"""A list or tuple: numbered rows that can be added, moved and removed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QWidget

from app.forms.base import Editor, FieldRow, FormOptions, NotSent
from app.widgets.buttons import Button, IconButton
from app.widgets.labels import Label, Link
from app.widgets.layouts import hbox, vbox
from core.schema_forms.form import Field
from core.schema_forms.json_values import UNSET, Path, path_text
from core.schema_forms.validator import FieldError

MOST_ROWS = 60


class _ItemRow(QWidget):
    """One item with its number and what can be done to it.

    Signals:
        moved: up (-1) or down (+1) was asked for.
        removed: the item is to go.
    """

    moved = Signal(int)
    removed = Signal()

    def __init__(self, field: Field, options: FormOptions, given: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = hbox(parent=self, spacing=4)
        top = Qt.AlignmentFlag.AlignTop
        self._number = Label("", "mono_hint", "text3", parent=self)
        self._number.setMinimumWidth(20)
        self._number.setMinimumHeight(28)
        self.row = FieldRow(field, options, False, self, given)
        layout.addWidget(self._number, 0, top)
        layout.addWidget(self.row, 1, top)
        self._buttons = [
            IconButton("up", "Move up", "text3", key="Alt+Up", parent=self),
            IconButton("down", "Move down", "text3", key="Alt+Down", parent=self),
            IconButton("close", "Remove", "text3", parent=self),
        ]
        self._buttons[0].clicked.connect(lambda: self.moved.emit(-1))
        self._buttons[1].clicked.connect(lambda: self.moved.emit(1))
        self._buttons[2].clicked.connect(self.removed)
        for button in self._buttons:
            button.setVisible(not options.read_only)
            layout.addWidget(button, 0, top)

    def show_place(self, at: int, count: int) -> None:
        """Show the item's number, and which moves there are."""
        self._number.setText(str(at))
        self._buttons[0].setEnabled(at > 0)
        self._buttons[1].setEnabled(at < count - 1)
        for button, verb in zip(self._buttons, ("Move up", "Move down", "Remove"), strict=True):
            button.setAccessibleName(f"{verb}: item {at}")

    def inputs(self) -> Iterator[QWidget]:
        """The value, then the buttons."""
        yield from self.row.inputs()
        yield from self._buttons


class ArrayEditor(Editor):
    """The items of a list. No items means left out, unless an empty list was given or asked for."""

    def __init__(self, field: Field, options: FormOptions, parent: QWidget | None = None) -> None:
        super().__init__(field, options, parent)
        self._items: list[_ItemRow] = []
        self._explicit = False
        self._lines = vbox(parent=self, spacing=6)
        self._add = Button("Add item", "ghost", icon="add", parent=self)
        self._add.clicked.connect(self._add_asked)
        self._lines.addWidget(self._add, 0, Qt.AlignmentFlag.AlignLeft)
        self._empty_link = Link("send []", "meta", self)
        self._empty_link.clicked.connect(self._empty_asked)
        if isinstance(parent, FieldRow):
            parent.add_to_head(self._empty_link)
        self._show_state()

    def _insert(self, at: int, given: Any = UNSET) -> _ItemRow:
        fresh = _ItemRow(self.field.item_field(at), self.options, given, self)
        fresh.row.changed.connect(self.changed)
        fresh.row.left.connect(self.left)
        fresh.row.regrown.connect(self.regrown)
        fresh.moved.connect(lambda by: self._moved(fresh, by))
        fresh.removed.connect(lambda: self._removed(fresh))
        self._items.insert(at, fresh)
        self._lines.insertWidget(at, fresh)
        return fresh

    def _drop(self, item: _ItemRow) -> None:
        self._items.remove(item)
        self._lines.removeWidget(item)
        item.hide()
        item.deleteLater()

    def _show_state(self) -> None:
        limit = self.field.item_limit
        full = limit is not None and len(self._items) >= limit
        can_edit = not self.options.read_only
        self._add.setVisible(can_edit)
        self._add.set_off(f"The list may have at most {limit} items." if full else "")
        self._empty_link.setText("[] is sent, leave out" if self._explicit else "send []")
        self._empty_link.setVisible(can_edit and not self._items)
        self._empty_link.updateGeometry()
        for at, item in enumerate(self._items):
            item.show_place(at, len(self._items))

    def _add_asked(self) -> None:
        self.asked_for()
        fresh = self._insert(len(self._items))
        self._explicit = False
        self._after_change()
        if (first := next(iter(fresh.inputs()), None)) is not None:
            first.setFocus(Qt.FocusReason.OtherFocusReason)

    def _removed(self, item: _ItemRow) -> None:
        at = self._items.index(item)
        self._drop(item)
        self._after_change()
        next_item = self._items[min(at, len(self._items) - 1)] if self._items else None
        target = next(iter(next_item.inputs()), self._add) if next_item else self._add
        target.setFocus(Qt.FocusReason.OtherFocusReason)

    def _moved(self, item: _ItemRow, by: int) -> None:
        at = self._items.index(item)
        to = at + by
        if not 0 <= to < len(self._items):
            return
        self._items.insert(to, self._items.pop(at))
        self._lines.removeWidget(item)
        self._lines.insertWidget(to, item)
        self._after_change()

    def _after_change(self) -> None:
        self._show_state()
        self.changed.emit()
        self.regrown.emit()

    def _empty_asked(self) -> None:
        self._explicit = not self._explicit
        self._after_change()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Alt with an arrow moves the item that has the focus."""
        steps = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}
        step = steps.get(Qt.Key(event.key()), 0)
        if step and event.modifiers() & Qt.KeyboardModifier.AltModifier and not self.options.read_only:
            for item in self._items:
                if item.isAncestorOf(self.window().focusWidget() or self):
                    self._moved(item, step)
                    return
        super().keyPressEvent(event)

    def value(self) -> Any:
        """The items that hold something."""
        if not self._items:
            return [] if self._explicit else UNSET
        return [value for value in (item.row.value() for item in self._items) if value is not UNSET]

    def can_show(self, value: Any) -> bool:
        """Lists that are short enough for rows."""
        return isinstance(value, list) and len(value) <= MOST_ROWS

    def set_value(self, value: Any) -> None:
        """Show a list; rows that stay are kept as they are."""
        given: list[Any] = value if isinstance(value, list) else []
        self._explicit = isinstance(value, list) and not given
        for item in self._items[len(given) :]:
            self._drop(item)
        for at, one in enumerate(given):
            if at < len(self._items):
                self._items[at].row.set_value(one)
            else:
                self._insert(at, one)
        self._show_state()
        self.regrown.emit()

    def _numbered(self, path: Path) -> Iterator[tuple[Path, _ItemRow]]:
        """Items with the path that their value has: empty ones are not sent, so they take no number."""
        at = 0
        for item in self._items:
            yield (*path, at), item
            at += item.row.value() is not UNSET

    def problems(self, path: Path) -> list[FieldError]:
        """Those of the items, and items that hold nothing."""
        found: list[FieldError] = []
        for here, item in self._numbered(path):
            found += item.row.problems(here)
            if item.row.value() is UNSET:
                words = f"{path_text(path)} has an empty item, which is not sent; fill it in or remove it."
                found.append(NotSent(here, words))
        return found

    def rows(self, path: Path) -> Iterator[tuple[Path, FieldRow]]:
        """All rows inside, in reading order."""
        for here, item in self._numbered(path):
            yield from item.row.rows(here)

    def inputs(self) -> Iterator[QWidget]:
        """All inputs inside, in reading order."""
        for item in self._items:
            yield from item.inputs()
        yield self._add
