"""An object: its fields below each other, and rows for names of the operator's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.forms.base import Editor, FieldRow, FormOptions, NotSent
from app.forms.field_widgets import LineInput
from app.widgets.buttons import Button, IconButton
from app.widgets.labels import Label, Link, separator
from app.widgets.layouts import hbox, vbox
from core.schema_forms.form import Field, FieldKind
from core.schema_forms.json_values import UNSET, Path, is_plain, path_text
from core.schema_forms.validator import FieldError

MOST_KEYS = 60
HIDDEN = "x-hidden"
"""A property of a schema with this keyword has no row on the screen: what is chosen around it says it."""
_OPEN_DEPTH = 4


class _KeyRow(QWidget):
    """A name and its value.

    Signals:
        changed, left, regrown: as of `FieldRow`.
        removed: the operator took the row away.
    """

    changed = Signal()
    left = Signal()
    regrown = Signal()
    removed = Signal()

    def __init__(
        self, owner: Field, key: str, options: FormOptions, given: Any, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._owner = owner
        self._options = options
        layout = self._layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        top = Qt.AlignmentFlag.AlignTop
        self.key_input = LineInput(parent=self)
        self.key_input.setPlaceholderText("name")
        self.key_input.setAccessibleName(f"name of a field in {owner.where or 'the arguments'}")
        self.key_input.setText(key)
        self.key_input.textEdited.connect(self.changed)
        self.key_input.editingFinished.connect(self._renamed)
        self.row = self._make_row(key, given)
        self.remove_button = IconButton("close", "Remove this field", "text3", parent=self)
        self.remove_button.clicked.connect(self.removed)
        layout.addWidget(self.key_input, 2, top)
        layout.addWidget(self.row, 3, top)
        layout.addWidget(self.remove_button, 0, top)
        for widget in (self.key_input, self.remove_button):
            widget.setEnabled(not options.read_only)

    @property
    def key(self) -> str:
        """The name as typed."""
        return self.key_input.text()

    def _make_row(self, key: str, given: Any) -> FieldRow:
        row = FieldRow(self._owner.key_field(key), self._options, False, self, given)
        row.changed.connect(self.changed)
        row.left.connect(self.left)
        row.regrown.connect(self.regrown)
        return row

    def _renamed(self) -> None:
        # Only now, not while typing: another name can ask for another kind of value.
        fresh = self._owner.key_field(self.key)
        if (fresh.kind, fresh.keys) == (self.row.field.kind, self.row.field.keys):
            return
        old, self.row = self.row, self._make_row(self.key, self.row.value())
        self._layout.replaceWidget(old, self.row)
        old.deleteLater()
        self.regrown.emit()

    def inputs(self) -> Iterator[QWidget]:
        """Name, value, remove."""
        yield self.key_input
        yield from self.row.inputs()
        yield self.remove_button


class ObjectEditor(Editor):
    """The fields of an object. Where nothing in it is filled in, the whole object is left out."""

    def __init__(self, field: Field, options: FormOptions, parent: QWidget | None = None) -> None:
        super().__init__(field, options, parent)
        # The whole, an item of a list and a chosen alternative are there because the operator put them there;
        # only a named field can be left out.
        self._stands = not isinstance(parent, FieldRow) or not parent.labelled
        self._is_root = not isinstance(parent, FieldRow)
        self._rows: dict[str, FieldRow] = {}
        self._extra: list[_KeyRow] = []
        self._order: list[str] = []
        self._explicit = False
        self._built = False
        self._open = self._stands or (field.required and field.depth < _OPEN_DEPTH)
        outer = hbox(parent=self, spacing=12)
        self._line = separator(Qt.Orientation.Vertical, self)
        self._body = QWidget(self)
        self._lines = vbox(parent=self._body, spacing=14)
        outer.addWidget(self._line)
        outer.addWidget(self._body, 1)
        self._add_key = Button("Add field", "ghost", icon="add", parent=self._body)
        self._add_key.clicked.connect(self._key_asked)
        self._empty_link = Link("send {}", "meta", self)
        self._open_link = Link("Add", "meta", self)
        self._make_head(parent)
        if self._open:
            self._build()
        self._show_state()

    def _make_head(self, parent: QWidget | None) -> None:
        for link, act in ((self._empty_link, self._empty_asked), (self._open_link, self._open_asked)):
            link.clicked.connect(act)
            if isinstance(parent, FieldRow) and not self._stands:
                parent.add_to_head(link)
            else:
                link.hide()

    def _build(self) -> None:
        self._built = True
        beside: QHBoxLayout | None = None
        for child in self.field.properties:
            row = FieldRow(child, self.options, True, self._body)
            self._listen(row)
            self._rows[child.name] = row
            if child.keys.get(HIDDEN):
                row.hide()
                continue
            if beside is not None and child.kind not in _WIDE:
                beside.addWidget(row, 1, Qt.AlignmentFlag.AlignTop)
                beside = None
                continue
            if beside is not None:
                beside.addStretch(1)
            beside = QHBoxLayout() if row.is_narrow else None
            if beside is None:
                self._lines.addWidget(row)
                continue
            beside.setSpacing(12)
            row.setMinimumWidth(120)
            row.setMaximumWidth(150)
            beside.addWidget(row, 0, Qt.AlignmentFlag.AlignTop)
            self._lines.addLayout(beside)
        if beside is not None:
            beside.addStretch(1)
        if not self._rows and not self.field.offers_keys:
            self._lines.addWidget(Label("No arguments." if self._is_root else "No fields.", "meta", "text3"))
        self._lines.addWidget(self._add_key, 0, Qt.AlignmentFlag.AlignLeft)

    def _listen(self, row: FieldRow | _KeyRow) -> None:
        row.changed.connect(self._changed)
        row.left.connect(self.left)
        row.regrown.connect(self.regrown)

    def _changed(self) -> None:
        self._show_state()
        self.changed.emit()

    def _show_state(self) -> None:
        self._body.setVisible(self._open)
        self._line.setVisible(self._open and not self._is_root)
        can_edit = not self.options.read_only
        self._add_key.setVisible(can_edit and self.field.offers_keys)
        if self._stands:
            return
        is_empty = not self._open or not self._inner()
        self._empty_link.setText("{} is sent, leave out" if self._explicit and is_empty else "send {}")
        self._empty_link.setVisible(can_edit and self._open and is_empty)
        self._open_link.setText("Leave out" if self._open else "Add")
        self._open_link.setVisible((can_edit and not self.field.required) or not self._open)
        self._empty_link.updateGeometry()
        self._open_link.updateGeometry()

    def _open_asked(self) -> None:
        self.asked_for()
        self.open(not self._open)
        self._explicit = False
        self._show_state()
        self.changed.emit()
        self.regrown.emit()
        if self._open and (first := next(iter(self.inputs()), None)) is not None:
            first.setFocus(Qt.FocusReason.OtherFocusReason)

    def open(self, wanted: bool) -> None:
        """Show the fields, or leave the whole object out; what was typed is kept either way."""
        self._open = wanted
        if wanted and not self._built:
            self._build()

    def choose_constants(self) -> None:
        """Open the object, and choose the constants it requires."""
        self.open(True)
        for row in self._rows.values():
            if row.field.kind is FieldKind.CONST:
                row.choose_constant()
        self._show_state()

    def _empty_asked(self) -> None:
        self._explicit = not self._explicit
        self._changed()

    def _key_asked(self) -> None:
        self.asked_for()
        fresh = self._insert_key("")
        self.regrown.emit()
        fresh.key_input.setFocus(Qt.FocusReason.OtherFocusReason)

    def _insert_key(self, key: str, given: Any = UNSET) -> _KeyRow:
        fresh = _KeyRow(self.field, key, self.options, given, self._body)
        self._listen(fresh)
        fresh.removed.connect(lambda: self._key_removed(fresh))
        self._lines.insertWidget(self._lines.indexOf(self._add_key), fresh)
        self._extra.append(fresh)
        return fresh

    def _key_removed(self, row: _KeyRow) -> None:
        self._drop_key(row)
        self._changed()
        self.regrown.emit()

    def _drop_key(self, row: _KeyRow) -> None:
        self._extra.remove(row)
        self._lines.removeWidget(row)
        row.hide()
        row.deleteLater()

    def _inner(self) -> dict[str, Any]:
        found = {name: row.value() for name, row in self._rows.items()}
        for extra in self._extra:
            if extra.key and found.get(extra.key, UNSET) is UNSET:
                found[extra.key] = extra.row.value()
            elif not extra.key and self._order and "" in self._order:
                found[""] = extra.row.value()
        ordered = [*(name for name in self._order if name in found), *found]
        return {name: found[name] for name in dict.fromkeys(ordered) if found[name] is not UNSET}

    def value(self) -> Any:
        """The fields that hold something, in the order in which they were given."""
        if not self._open:
            return UNSET
        inner = self._inner()
        return inner if inner or self._explicit or self._stands else UNSET

    def can_show(self, value: Any) -> bool:
        """Objects whose names beyond the schema's are few and have nothing hidden in them."""
        if not isinstance(value, dict):
            return False
        beyond = [key for key in value if key not in (self.field.keys.get("properties") or ())]
        return len(beyond) <= MOST_KEYS and all(
            is_plain(key) and not set(key) & {"\n", "\t"} for key in beyond
        )

    def set_value(self, value: Any) -> None:
        """Show an object; rows that stay are kept as they are, focus and cursor included."""
        given: dict[str, Any] = value if isinstance(value, dict) else {}
        self._explicit = isinstance(value, dict) and not given
        if value is not UNSET or self._built:
            starts_open = self._stands or (self.field.required and self.field.depth < _OPEN_DEPTH)
            self.open(value is not UNSET or starts_open)
        self._order = list(given)
        for name, row in self._rows.items():
            row.set_value(given.get(name, UNSET))
        beyond = {key: one for key, one in given.items() if key not in self._rows}
        for extra in list(self._extra):
            if extra.key not in beyond:
                self._drop_key(extra)
        known = {extra.key: extra for extra in self._extra}
        for key, one in beyond.items():
            if key in known:
                known[key].row.set_value(one)
            else:
                self._insert_key(key, one)
        self._show_state()
        self.regrown.emit()

    def problems(self, path: Path) -> list[FieldError]:
        """Those of the fields, and names that are missing or there twice."""
        if not self._open:
            return []
        found: list[FieldError] = []
        for name, row in self._rows.items():
            found += row.problems((*path, name))
        seen = {name for name, row in self._rows.items() if row.value() is not UNSET}
        for extra in self._extra:
            here = (*path, extra.key)
            if extra.key in seen:
                found.append(NotSent(here, f"{path_text(here)} is there twice; only the first is sent."))
            if not extra.key and extra.row.value() is not UNSET and "" not in self._order:
                found.append(NotSent(here, "A field without a name is not sent; type its name."))
            seen.add(extra.key)
            found += extra.row.problems(here)
        return found

    def rows(self, path: Path) -> Iterator[tuple[Path, FieldRow]]:
        """All rows inside, in reading order."""
        if self._open:
            for name, row in self._rows.items():
                yield from row.rows((*path, name))
            for extra in self._extra:
                yield from extra.row.rows((*path, extra.key))

    def inputs(self) -> Iterator[QWidget]:
        """All inputs inside, in reading order."""
        if self._open:
            for row in self._rows.values():
                if not row.field.keys.get(HIDDEN):
                    yield from row.inputs()
            for extra in self._extra:
                yield from extra.inputs()
            yield self._add_key


_WIDE = (FieldKind.OBJECT, FieldKind.ARRAY, FieldKind.ANY_OF, FieldKind.MULTILINE, FieldKind.JSON)
