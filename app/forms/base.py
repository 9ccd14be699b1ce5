"""Editors of one value; the row that one stands in, with label, help and error; JSON for the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QComboBox, QSizePolicy, QWidget

from app.forms.field_widgets import GrowingText, LineInput
from app.forms.lazy_builder import LazyBuilder
from app.forms.wrapping_label import WrappingLabel
from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.widgets.accessible_combo import label_combo
from app.widgets.json_edit import JsonEdit
from app.widgets.labels import Label, Link, escaped_tooltip
from app.widgets.layouts import hbox, vbox
from core.schema_forms.form import NUMBER_KINDS, Field, FieldKind
from core.schema_forms.json_values import (
    UNSET,
    NotJson,
    Path,
    is_plain,
    json_text,
    parse_json,
    path_text,
    same_json,
    type_word,
)
from core.schema_forms.validator import FieldError

EditorFactory: TypeAlias = Callable[[Field, "FormOptions", QWidget | None], "Editor"]


def _no_editor(field: Field, options: FormOptions, parent: QWidget | None) -> Editor:
    raise NotImplementedError(f"no form says which editor asks for a {field.kind}")


@dataclass(frozen=True, slots=True)
class FormOptions:
    """What a form is used for.

    `expressions`: the values of a batch step, where any of them may be `${{ … }}` instead.
    `read_only`: only to be looked at.
    `names_hint`: an argument called `script` or `content` has several lines, also where its schema does not
    say so. Off where a person has named the values.
    `builder`: fills the rows; without one, each is filled as it is made.
    `editor_for`: makes the editor of a field. The form sets it: editors hold rows, and rows hold editors.
    """

    expressions: bool = False
    read_only: bool = False
    names_hint: bool = True
    builder: LazyBuilder | None = None
    editor_for: EditorFactory = _no_editor


class NotSent(FieldError):
    """What stands in a form and is not part of its value: text that cannot be read, or has no name."""


class Editor(QWidget):
    """Asks for one value.

    Signals:
        changed: the operator typed or chose; not sent for `set_value`.
        left: the focus went away from an input.
        regrown: rows came or went, so the keyboard order is another one.
    """

    changed = Signal()
    left = Signal()
    regrown = Signal()

    def __init__(self, field: Field, options: FormOptions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.field = field
        self.options = options
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)

    def asked_for(self) -> None:
        """Let what the operator has just asked for be there at once."""
        if self.options.builder is not None:
            self.options.builder.allow_some()

    def value(self) -> Any:
        """What was typed, chosen or given; `UNSET` when that is nothing."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Show a value that `can_show` accepts, or `UNSET`, without `changed`."""
        raise NotImplementedError

    def can_show(self, value: Any) -> bool:
        """Whether this editor can show a value and give it back untouched."""
        return self.field.fits(value)

    def problems(self, path: Path) -> list[FieldError]:
        """What was typed and can be no value at all; what the schema forbids is not looked at here."""
        return []

    def rows(self, path: Path) -> Iterator[tuple[Path, FieldRow]]:
        """The rows inside, each with the path its value has now."""
        yield from ()

    def inputs(self) -> Iterator[QWidget]:
        """What can have the keyboard focus, in reading order."""
        raise NotImplementedError

    def choose_constants(self) -> None:
        """Fill in what the schema leaves no choice about, because the operator has just chosen this form."""

    def mark(self, failed: bool) -> None:
        """Draw the edge of the inputs as wrong, or as usual."""
        for widget in self.inputs():
            mark_input(widget, failed)


def mark_input(widget: QWidget, failed: bool) -> None:
    """Set the state that the style sheet draws a red edge for."""
    state = "fail" if failed else ""
    if (widget.property("state") or "") != state:
        widget.setProperty("state", state)
        widget.style().unpolish(widget)
        widget.style().polish(widget)
        widget.update()


def fill_with(editor: Editor, widget: QWidget) -> None:
    """Lay out an editor that is one widget."""
    vbox(widget, parent=editor, spacing=None)


class RawEditor(Editor):
    """Any value, as JSON. Text that is no JSON keeps the last value that was."""

    def __init__(self, field: Field, options: FormOptions, parent: QWidget | None = None) -> None:
        super().__init__(field, options, parent)
        self.input = JsonEdit(compact=True, parent=self)
        self.input.setReadOnly(options.read_only)
        self.input.edited.connect(self.changed)
        self.input.left.connect(self.left)
        self._value: Any = UNSET
        fill_with(self, self.input)

    def value(self) -> Any:
        """The value of the text; the last one that could be read while it is no JSON."""
        if not self.input.text().strip():
            self._value = UNSET
        elif self.input.problem is None and not same_json(self._value, self.input.value):
            self._value = self.input.value
        return self._value

    def can_show(self, value: Any) -> bool:
        """Everything."""
        return True

    def set_value(self, value: Any) -> None:
        """Show a value as JSON text."""
        self._value = value
        self.input.set_text("" if value is UNSET else json_text(value))

    def problems(self, path: Path) -> list[FieldError]:
        """Text that is no JSON."""
        problem = self.input.problem
        if problem is None or not self.input.text().strip():
            return []
        where = path_text(path) or "This"
        return [NotSent(path, f"{where} is not JSON yet, line {problem.line}: {problem.message}.")]

    def inputs(self) -> Iterator[QWidget]:
        """The one input."""
        yield self.input


class MaskedEditor(Editor):
    """A secret that is no text or number, as JSON in a line that cannot be read on the screen."""

    def __init__(self, field: Field, options: FormOptions, parent: QWidget | None = None) -> None:
        super().__init__(field, options, parent)
        self.input = LineInput(secret=True, parent=self)
        self.input.setReadOnly(options.read_only)
        self.input.setPlaceholderText("JSON")
        self.input.textEdited.connect(self.changed)
        self.input.left.connect(self.left)
        self._value: Any = UNSET
        self._text = ""
        fill_with(self, self.input)

    def value(self) -> Any:
        """The value of the text; the last one that could be read while it is no JSON."""
        if self.input.text() != self._text:
            with contextlib.suppress(NotJson):
                self._value = parse_json(self.input.text()) if self.input.text().strip() else UNSET
                self._text = self.input.text()
        return self._value

    def can_show(self, value: Any) -> bool:
        """Everything."""
        return True

    def set_value(self, value: Any) -> None:
        """Show a value as dots."""
        self._value = value
        self.input.setText("" if value is UNSET else json_text(value).replace("\n", " "))
        self._text = self.input.text()

    def problems(self, path: Path) -> list[FieldError]:
        """Text that is no JSON; nothing of it is repeated."""
        self.value()
        if self.input.text() == self._text:
            return []
        return [NotSent(path, f"{path_text(path) or 'This'} is not JSON yet.")]

    def inputs(self) -> Iterator[QWidget]:
        """The one input."""
        yield self.input


class ExpressionEditor(Editor):
    """A text with expressions, in place of a choice or of rows, which could not show one."""

    def __init__(self, field: Field, options: FormOptions, parent: QWidget | None = None) -> None:
        super().__init__(field, options, parent)
        self.input = GrowingText(True, 1, 6, self)
        self.input.setReadOnly(options.read_only)
        self.input.edited.connect(self.changed)
        self.input.left.connect(self.left)
        fill_with(self, self.input)

    def value(self) -> Any:
        """The text exactly."""
        return self.input.text() or UNSET

    def set_value(self, value: Any) -> None:
        """Show a text."""
        self.input.set_text(value if isinstance(value, str) else "")

    def begin(self) -> None:
        """Wait for an expression to be typed between the brackets."""
        cursor = self.input.textCursor()
        cursor.setPosition(len(_OPEN))
        self.input.setTextCursor(cursor)
        self.input.setFocus(Qt.FocusReason.OtherFocusReason)

    def inputs(self) -> Iterator[QWidget]:
        """The one input."""
        yield self.input


_OPEN, _CLOSE = "${{ ", " }}"
_BY_EXPRESSION = "by expression"
_LONGEST_HELP = 220
_SELF_SAYING = (FieldKind.ENUM, FieldKind.CONST, FieldKind.BOOLEAN, FieldKind.NULL, FieldKind.ANY_OF)
_NO_TEXT = (FieldKind.ENUM, FieldKind.BOOLEAN, FieldKind.ARRAY, FieldKind.OBJECT, FieldKind.ANY_OF)
_OWN_NULL = (FieldKind.ENUM, FieldKind.CONST, FieldKind.BOOLEAN, FieldKind.NULL)


class _FailMark(QWidget):
    """The painted octagon before an error."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(QSize(12, 16))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the shape."""
        painter = QPainter(self)
        paint_glyph(painter, QRectF(0, 2, 12, 12), "cross_octagon", theme_of(self).color("fail"))
        painter.end()


class ErrorLine(QWidget):
    """What is wrong, and what would be right; hidden while nothing is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        layout = hbox((_FailMark(self), 0, Qt.AlignmentFlag.AlignTop), parent=self, spacing=6)
        self._words = WrappingLabel("", "meta", "fail", selectable=True, parent=self)
        self._words.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        layout.addWidget(self._words, 1)
        self.hide()

    def text(self) -> str:
        """The error on show, or nothing."""
        return self._words.text() if not self.isHidden() else ""

    def show_text(self, text: str) -> None:
        """Show an error, or hide the line for an empty one."""
        if text:
            self._words.setText(text)
        self.setVisible(bool(text))


class FieldRow(QWidget):
    """Asks for one named value.

    Signals:
        changed: the value may be another one.
        left: the focus went away from it.
        regrown: inputs came or went.
    """

    changed = Signal()
    left = Signal()
    regrown = Signal()

    def __init__(
        self,
        field: Field,
        options: FormOptions,
        labelled: bool = True,
        parent: QWidget | None = None,
        given: Any = UNSET,
    ) -> None:
        """Without `labelled`, what stands around it says what this is: a list its number, a choice its name.

        The row holds `given` from now on, and is filled with widgets when the form's builder comes to it.
        """
        super().__init__(parent)
        self.field = field
        self.options = options
        self.touched = False
        self.labelled = labelled
        self._given = given
        self._wrong = ""
        self._note = ("", False)
        self._note_label: Label | None = None
        self._is_null = False
        self._editor: Editor | None = None
        self._raw: RawEditor | MaskedEditor | ExpressionEditor | None = None
        self._expression_link: Link | None = None
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        if options.builder is None:
            self.fill()
        elif not labelled and given is UNSET:
            # An item or an alternative is there because the operator has just asked for it.
            options.builder.fill_now(self)
        else:
            options.builder.add(self)

    @property
    def is_filled(self) -> bool:
        """Whether the row has its widgets."""
        return self._editor is not None

    @property
    def weight(self) -> int:
        """How many ordinary rows it is as much work as."""
        named = self.field.keys.get("properties")
        parts = len(self.field.values) + len(self.field.normal.branches) + len(named or ())
        return 1 + parts // 20

    def fill(self) -> None:
        """Make the widgets, and show what the row was given."""
        if self._editor is not None:
            return
        self.error = ErrorLine()
        self._layout = vbox(parent=self, spacing=4)
        self._null_link: Link | None = None
        self._label: Label | None = None
        self._build_head()
        self._editor = self.options.editor_for(self.field, self.options, self)
        self._listen(self._editor)
        self._layout.addWidget(self._editor)
        self._odd = WrappingLabel("", "meta", "warn", parent=self)
        self._odd.hide()
        self._layout.addWidget(self._odd)
        self._layout.addWidget(self.error)
        self.show_note(*self._note)
        self._build_help()
        self._name_inputs()
        given, self._given = self._given, UNSET
        if given is not UNSET:
            self.set_value(given)
        for _, row in self.rows(()):
            row.touched = row.touched or self.touched
        if self._wrong:
            self.show_error(self._wrong)

    @property
    def error_text(self) -> str:
        """What is said to be wrong, or nothing."""
        return self._wrong

    @property
    def editor(self) -> Editor:
        """The editor of the field's kind."""
        self.fill()
        assert self._editor is not None
        return self._editor

    def _build_head(self) -> None:
        head = self._head_box = QWidget(self)
        self._head_links: list[QWidget] = []
        layout = hbox(parent=head, spacing=6)
        if self.labelled:
            self._label = Label(self.field.label, "name", parent=head)
            layout.addWidget(self._label)
            words = ["required"] if self.field.required else []
            words += ["deprecated"] if self.field.is_deprecated else []
            if words:
                layout.addWidget(Label(", ".join(words), "meta", "text3", parent=head))
        layout.addStretch(1)
        self._head = layout
        if self.field.nullable and self.field.kind not in _OWN_NULL and not self.options.read_only:
            self._null_link = Link("send null", "meta", head)
            self._null_link.clicked.connect(self._toggle_null)
            layout.addWidget(self._null_link)
            self._head_links.append(self._null_link)
        if self.options.expressions and self.labelled and self.field.kind in _NO_TEXT:
            self._expression_link = Link(_BY_EXPRESSION, "meta", head)
            self._expression_link.clicked.connect(self._toggle_expression)
            layout.addWidget(self._expression_link)
        if not self.labelled and self._null_link is None:
            head.hide()
        self._layout.addWidget(head)

    def _build_help(self) -> None:
        # What is going to be shown is not told to show itself: Qt would lay out the whole form each time.
        self._help = WrappingLabel(self._help_text(), "meta", "text3", parent=self)
        if not self._help.text():
            self._help.hide()
        whole = self.field.description
        if len(whole) > _LONGEST_HELP:
            self._help.setToolTip(escaped_tooltip(whole))
        self._layout.addWidget(self._help)

    def _show_help(self) -> None:
        text = self._help_text()
        if text != self._help.text():
            self._help.setText(text)
            self._help.setVisible(bool(text))

    def _hint(self) -> str:
        """What leaving it empty means; lists and objects say so only while they are, choices themselves."""
        if not self.labelled or (self.field.kind in _SELF_SAYING and self.field.default is UNSET):
            return ""
        is_container = self.field.kind in (FieldKind.OBJECT, FieldKind.ARRAY)
        return "" if is_container and self.value() is not UNSET else self.field.hint

    def _help_text(self) -> str:
        field = self.field
        said = " ".join(field.description.split())
        if len(said) > _LONGEST_HELP:
            said = said[:_LONGEST_HELP].rsplit(" ", 1)[0] + "…"
        facts = [field.limits, self._hint()]
        if field.kind is FieldKind.JSON:
            facts.insert(
                0, f"written as JSON, because {field.reason}" if field.reason else "any value, as JSON"
            )
        tail = ", ".join(fact for fact in facts if fact)
        if not tail:
            return said
        tail = f"{tail[:1].upper()}{tail[1:]}."
        return f"{said.rstrip('.')}. {tail}" if said else tail

    def _name_inputs(self) -> None:
        name = self.field.where or "arguments"
        for widget in self.own_inputs():
            widget.setAccessibleName(f"{name}{', required' if self.field.required else ''}")
            widget.setAccessibleDescription(self._help_text()[:300])
            if isinstance(widget, QComboBox) and self._label is not None:
                label_combo(widget, self._label)

    def own_inputs(self) -> list[QWidget]:
        """The inputs of this row itself, not of rows inside it."""
        own = self.shown_editor
        has_rows = self.field.kind in (FieldKind.OBJECT, FieldKind.ARRAY, FieldKind.ANY_OF)
        return (
            []
            if has_rows and not isinstance(own, RawEditor | MaskedEditor | ExpressionEditor)
            else list(own.inputs())
        )

    def add_to_head(self, widget: QWidget) -> None:
        """Put a control of the editor at the right end of the label's line."""
        self._head.addWidget(widget)
        self._head_links.append(widget)
        if not self.labelled:
            self._head_box.show()

    def _listen(self, editor: Editor) -> None:
        editor.changed.connect(self._changed)
        editor.left.connect(self._left)
        editor.regrown.connect(self.regrown)

    def _changed(self) -> None:
        self._wrong = ""
        self.error.show_text("")
        self.show_note("")
        self._show_help()
        self.changed.emit()

    def _left(self) -> None:
        self.touched = True
        self.left.emit()

    @property
    def shown_editor(self) -> Editor:
        """The editor on show: the kind's own, or JSON while the value fits no other."""
        return self._raw or self.editor

    def choose_constant(self) -> None:
        """Take the only value there is, where the field is required and can have but one."""
        if self.is_filled:
            self.editor.choose_constants()
        elif self.field.required and self._given is UNSET:
            self._given = self.field.values[0]

    @property
    def is_narrow(self) -> bool:
        """Whether the row needs little width, so that another one can stand beside it."""
        return (
            self.field.kind in NUMBER_KINDS and not self.field.nullable and len(self.field.description) < 60
        )

    def value(self) -> Any:
        """What is sent for this field; `UNSET` when it is left out."""
        if self._editor is None:
            return self._given
        return None if self._is_null else self.shown_editor.value()

    def set_value(self, value: Any) -> None:
        """Show a value, or `UNSET`; the same value changes nothing on the screen."""
        if self._editor is None:
            self._given = value
            return
        if same_json(value, self.value()) and not self.shown_editor.problems(()):
            return
        own_null = value is None and self.field.nullable and self.field.kind not in _OWN_NULL
        self._show_null(own_null)
        if own_null:
            return
        if value is UNSET or self.editor.can_show(value):
            self._leave_raw()
            self.editor.set_value(value)
        else:
            self._enter_raw(value)
        self._show_help()

    def _enter_raw(self, value: Any) -> Editor:
        in_json = MaskedEditor if self.field.is_secret else RawEditor
        kind = ExpressionEditor if self._is_by_expression(value) else in_json
        if not isinstance(self._raw, kind):
            self._leave_raw()
            self._raw = kind(self.field, self.options, self)
            self._listen(self._raw)
            self._layout.insertWidget(self._layout.indexOf(self.editor), self._raw)
            self._name_inputs()
        self.editor.hide()
        self._raw.set_value(value)
        if not isinstance(self._raw, ExpressionEditor):
            self._odd.setText(f"Shown as JSON: {self._why_odd(value)}.")
            self._odd.show()
        self._show_expression_link()
        self.regrown.emit()
        return self._raw

    def _is_by_expression(self, value: Any) -> bool:
        """Whether a value that the editor cannot show is shown as the text of an expression."""
        if not self.options.expressions or not isinstance(value, str) or not is_plain(value):
            return False
        return _OPEN.strip() in value or isinstance(self._raw, ExpressionEditor)

    def _toggle_expression(self) -> None:
        if isinstance(self._raw, ExpressionEditor):
            self._leave_raw()
            self.editor.set_value(UNSET)
            next(iter(self.editor.inputs()), self.editor).setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self._show_null(False)
            instead = self._enter_raw(_OPEN + _CLOSE)
            if isinstance(instead, ExpressionEditor):
                instead.begin()
        self._changed()

    def _show_expression_link(self) -> None:
        if self._expression_link is not None:
            on = isinstance(self._raw, ExpressionEditor)
            self._expression_link.setText(f"not {_BY_EXPRESSION}" if on else _BY_EXPRESSION)
            self._expression_link.updateGeometry()

    def _why_odd(self, value: Any) -> str:
        word = type_word(value)
        if word == "string" and self.field.kind in (FieldKind.STRING, FieldKind.PATH, FieldKind.MULTILINE):
            return "this text has hidden characters, written as escapes"
        if self.field.fits(value) and word in ("array", "object"):
            return "it is too long for rows"
        return f"the field asks for something else than this {word}"

    def _leave_raw(self) -> None:
        if self._raw is None:
            return
        self._layout.removeWidget(self._raw)
        self._raw.deleteLater()
        self._raw = None
        self._odd.hide()
        self.editor.show()
        self._show_expression_link()
        self.regrown.emit()

    def _toggle_null(self) -> None:
        self._show_null(not self._is_null)
        self._changed()

    def _show_null(self, is_null: bool) -> None:
        if self._is_null == is_null:
            return
        self._is_null = is_null
        self.shown_editor.setEnabled(not is_null)
        if self._null_link is not None:
            self._null_link.setText("null is sent, change" if is_null else "send null")
            self._null_link.updateGeometry()

    def problems(self, path: Path) -> list[FieldError]:
        """What was typed here or inside and can be no value."""
        return [] if self._is_null or self._editor is None else self.shown_editor.problems(path)

    def rows(self, path: Path) -> Iterator[tuple[Path, FieldRow]]:
        """This row and those inside it."""
        yield path, self
        if self._editor is not None and not self._is_null:
            yield from self.shown_editor.rows(path)

    def inputs(self) -> Iterator[QWidget]:
        """Everything that can have the focus here, in reading order."""
        if self._editor is not None:
            yield from self._head_links
            yield from self.shown_editor.inputs()
        if self._expression_link is not None:
            yield self._expression_link

    @property
    def note(self) -> str:
        """What is said of the value beside its errors."""
        return self._note[0]

    def show_note(self, text: str, failed: bool = False) -> None:
        """Say something of the value below the editor, as what its expressions give; empty for nothing."""
        self._note = (text, failed)
        if self._editor is None or (self._note_label is None and not text):
            return
        if self._note_label is None:
            self._note_label = WrappingLabel("", "meta", "text3", selectable=True, parent=self)
            self._layout.insertWidget(self._layout.indexOf(self.error) + 1, self._note_label)
        self._note_label.setText(text)
        self._note_label.set_tone("fail" if failed else "text3")
        self._note_label.setVisible(bool(text))

    def show_error(self, text: str) -> None:
        """Show what is wrong below the editor; an empty text takes it away."""
        self._wrong = text
        if self._editor is None:
            return
        self.error.show_text(text)
        for widget in self.own_inputs():
            mark = "fail" if text else ""
            if (widget.property("state") or "") != mark:
                self.shown_editor.mark(bool(text))
                break
