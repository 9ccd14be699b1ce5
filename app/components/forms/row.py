"""One row of a form: label, editor, help line, error; null and odd values are handled here for every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.components.forms.editor import Editor, FormOptions
from app.components.forms.factory import editor_for
from app.components.forms.scalars import RawEditor
from app.components.label import Label, Link, plain_tip
from app.look.glyphs import paint_glyph
from app.look.theme import theme_of
from core.schema_forms.fields import Field
from core.schema_forms.json_values import UNSET, Path, same_json, type_word
from core.schema_forms.kinds import NUMBER_KINDS, FieldKind
from core.schema_forms.validate import FieldError

_LONGEST_HELP = 220
_SELF_SAYING = (FieldKind.ENUM, FieldKind.CONST, FieldKind.BOOLEAN, FieldKind.NULL, FieldKind.ANY_OF)
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
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        layout.addWidget(_FailMark(self), 0, Qt.AlignmentFlag.AlignTop)
        self._words = Label(role="meta", tone="fail", wrap=True, selectable=True, parent=self)
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
        self, field: Field, options: FormOptions, labelled: bool = True, parent: QWidget | None = None
    ) -> None:
        """Without `labelled`, somebody else says what this is: a list its number, a choice its name."""
        super().__init__(parent)
        self.field = field
        self.options = options
        self.touched = False
        self.labelled = labelled
        self._is_null = False
        self._raw: RawEditor | None = None
        self.error = ErrorLine()
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(4)
        self._null_link: Link | None = None
        self._build_head()
        self.editor = editor_for(field, options, self)
        self._listen(self.editor)
        self._layout.addWidget(self.editor)
        self._odd = Label(role="meta", tone="warn", wrap=True, parent=self)
        self._odd.hide()
        self._layout.addWidget(self._odd)
        self._layout.addWidget(self.error)
        self._build_help()
        self._name_inputs()

    def _build_head(self) -> None:
        head = self._head_box = QWidget(self)
        self._head_links: list[QWidget] = []
        layout = QHBoxLayout(head)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        if self.labelled:
            layout.addWidget(Label(self.field.name, "name", parent=head))
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
        head.setVisible(self.labelled or self._null_link is not None)
        self._layout.addWidget(head)

    def _build_help(self) -> None:
        self._help = Label("", "meta", "text3", wrap=True, parent=self)
        self._show_help()
        whole = self.field.description
        if len(whole) > _LONGEST_HELP:
            self._help.setToolTip(plain_tip(whole[:4_000]))
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

    def own_inputs(self) -> list[QWidget]:
        """The inputs of this row itself, not of rows inside it."""
        if self.field.kind in (FieldKind.OBJECT, FieldKind.ARRAY, FieldKind.ANY_OF) and self._raw is None:
            return []
        return list(self.shown_editor.inputs())

    def add_to_head(self, widget: QWidget) -> None:
        """Put a control of the editor at the right end of the label's line."""
        self._head.addWidget(widget)
        self._head_links.append(widget)
        self._head_box.show()

    def _listen(self, editor: Editor) -> None:
        editor.changed.connect(self._changed)
        editor.left.connect(self._left)
        editor.regrown.connect(self.regrown)

    def _changed(self) -> None:
        self.error.show_text("")
        self._show_help()
        self.changed.emit()

    def _left(self) -> None:
        self.touched = True
        self.left.emit()

    @property
    def shown_editor(self) -> Editor:
        """The editor on show: the kind's own, or JSON while the value fits no other."""
        return self._raw or self.editor

    @property
    def is_narrow(self) -> bool:
        """Whether the row needs little width, so that another one can stand beside it."""
        return (
            self.field.kind in NUMBER_KINDS and not self.field.nullable and len(self.field.description) < 60
        )

    def value(self) -> Any:
        """What is sent for this field; `UNSET` when it is left out."""
        return None if self._is_null else self.shown_editor.value()

    def set_value(self, value: Any) -> None:
        """Show a value, or `UNSET`; the same value changes nothing on the screen."""
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

    def _enter_raw(self, value: Any) -> None:
        if self._raw is None:
            self._raw = RawEditor(self.field, self.options, self)
            self._listen(self._raw)
            self._layout.insertWidget(self._layout.indexOf(self.editor), self._raw)
            self._name_inputs()
        self.editor.hide()
        self._raw.set_value(value)
        self._odd.setText(f"Shown as JSON: {self._why_odd(value)}.")
        self._odd.show()
        self.regrown.emit()

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
        return [] if self._is_null else self.shown_editor.problems(path)

    def rows(self, path: Path) -> Iterator[tuple[Path, FieldRow]]:
        """This row and those inside it."""
        yield path, self
        if not self._is_null:
            yield from self.shown_editor.rows(path)

    def inputs(self) -> Iterator[QWidget]:
        """Everything that can have the focus here, in reading order."""
        yield from self._head_links
        yield from self.shown_editor.inputs()

    def show_error(self, text: str) -> None:
        """Show what is wrong below the editor; an empty text takes it away."""
        self.error.show_text(text)
        for widget in self.own_inputs():
            mark = "fail" if text else ""
            if (widget.property("state") or "") != mark:
                self.shown_editor.mark(bool(text))
                break
