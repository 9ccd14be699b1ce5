"""Which editor asks for which kind of field."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.forms.array_editor import ArrayEditor
from app.forms.base import Editor, FormOptions, MaskedEditor, RawEditor
from app.forms.object_editor import ObjectEditor
from app.forms.scalar_editors import ChoiceEditor, LineEditor, TextEditor
from app.forms.union_editor import UnionEditor
from core.schema_forms.form import Field, FieldKind

_EDITORS: dict[FieldKind, type[Editor]] = {
    FieldKind.STRING: TextEditor,
    FieldKind.MULTILINE: TextEditor,
    FieldKind.PATH: TextEditor,
    FieldKind.SECRET: LineEditor,
    FieldKind.INTEGER: LineEditor,
    FieldKind.NUMBER: LineEditor,
    FieldKind.BOOLEAN: ChoiceEditor,
    FieldKind.ENUM: ChoiceEditor,
    FieldKind.CONST: ChoiceEditor,
    FieldKind.NULL: ChoiceEditor,
    FieldKind.JSON: RawEditor,
}
_NESTED: dict[FieldKind, type[Editor]] = {
    FieldKind.OBJECT: ObjectEditor,
    FieldKind.ARRAY: ArrayEditor,
    FieldKind.ANY_OF: UnionEditor,
}
# What a secret of these kinds is would be read in a list to choose from, in rows or in JSON.
_READABLE = (FieldKind.BOOLEAN, FieldKind.ARRAY, FieldKind.OBJECT, FieldKind.JSON)
MOST_FIELDS = 120


def editor_for(field: Field, options: FormOptions, parent: QWidget | None = None) -> Editor:
    """Make the editor for a field."""
    kind = field.kind
    if field.is_secret and kind in _READABLE:
        return MaskedEditor(field, options, parent)
    is_full = options.builder is not None and options.builder.is_full
    if kind in _NESTED and (is_full or len(field.keys.get("properties") or ()) > MOST_FIELDS):
        return RawEditor(field, options, parent)
    return (_NESTED.get(kind) or _EDITORS[kind])(field, options, parent)
