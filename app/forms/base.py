"""What every editor of one value can do, whatever it looks like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.forms.lazy_builder import Builder
from core.schema_forms.form import Field
from core.schema_forms.json_values import Path
from core.schema_forms.validator import FieldError

if TYPE_CHECKING:
    from app.forms.field_row import FieldRow


@dataclass(frozen=True, slots=True)
class FormOptions:
    """What a form is used for.

    `expressions`: the values of a batch step, where any of them may be `${{ … }}` instead.
    `read_only`: only to be looked at.
    `builder`: fills the rows; without one, each is filled as it is made.
    """

    expressions: bool = False
    read_only: bool = False
    builder: Builder | None = None


class NotSent(FieldError):
    """What stands in a form and is not part of its value: text that cannot be read, or has no name."""


class Editor(QWidget):
    """Asks for one value.

    Signals:
        changed: somebody typed or chose; not sent for `set_value`.
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
        """Let what somebody has just asked for be there at once."""
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
        """Fill in what the schema leaves no choice about, because somebody has just chosen this form."""

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
