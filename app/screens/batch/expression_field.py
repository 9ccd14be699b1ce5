"""A field for an expression: completed from what it may read, judged and evaluated while it is typed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from app.forms.base import mark_input
from app.forms.field_widgets import GrowingText
from app.screens.batch.expression_completer import ExpressionCompleter
from app.screens.batch.text import inner_expression, one_line
from app.widgets.labels import Label
from app.widgets.layouts import vbox
from core.batch.models import ExpressionTrial, Readable
from core.batch.templates import CLOSE, OPEN
from core.text import at_place

LONGEST_SHOWN = 300


def shown_expression(text: str) -> tuple[str, int]:
    """The text of a condition as the field shows it, and how many signs are left out before it.

    The brackets are left out only where putting them back gives the very same text.
    """
    inner = inner_expression(text)
    return (inner, 1) if inner != text and whole_expression(inner) == text else (text, 0)


def whole_expression(shown: str) -> str:
    """The text as the batch has it, for what the field shows; nothing for an empty field."""
    stripped = shown.strip()
    return shown if OPEN in shown or not stripped else f"{OPEN} {stripped} {CLOSE}"


def trial_words(trial: ExpressionTrial, where: str, skipped: int = 0) -> str:
    """What is wrong with an expression, or what it gives, and `where`.

    `skipped` signs of its first line are not shown.
    """
    if trial.problem:
        column = trial.column - (skipped if trial.line == 1 else 0)
        return at_place(trial.problem, max(1, column), trial.line)
    if not trial.value:
        return trial.unknown
    shown = one_line(trial.value)
    return f"Gives {shown[:LONGEST_SHOWN]}{'…' if len(shown) > LONGEST_SHOWN else ''}{where}."


class ExpressionField(QWidget):
    """One expression, without its brackets, and below it what is wrong with it, or its value.

    Signals:
        typed: it was changed by typing; `text()` is the text as the batch has it.
    """

    typed = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.input = GrowingText(True, 1, 6, self)
        self.input.setAccessibleName(name)
        self.completer = ExpressionCompleter(self.input, bracketed=False)
        self.message = Label("", "meta", "text3", wrap=True, selectable=True)
        self.message.hide()
        self._skipped = 0
        vbox(self.input, self.message, parent=self, spacing=4)
        self.input.edited.connect(self._edited)

    def text(self) -> str:
        """The expression as the batch has it; empty without one."""
        return whole_expression(self.input.text())

    def show_text(self, text: str) -> None:
        """Show an expression of the batch, unless it is there already."""
        if text != self.text():
            shown, self._skipped = shown_expression(text)
            self.input.set_text(shown)
            self.show_trial(None)

    def set_values(self, values: Sequence[Readable]) -> None:
        """What the expression may read."""
        self.completer.values = values

    def _edited(self) -> None:
        self._skipped = 0 if OPEN in self.input.text() else 1
        self.show_trial(None)
        self.typed.emit()

    def show_trial(self, trial: ExpressionTrial | None, where: str = "") -> None:
        """Say what is wrong, or what the expression gives and `where`; None while that is not known."""
        failed = trial is not None and bool(trial.problem)
        words = trial_words(trial, where, self._skipped) if trial is not None else ""
        self.message.setText(words)
        self.message.set_tone("fail" if failed else "text3")
        self.message.setVisible(bool(words))
        self.input.setAccessibleDescription(words)
        mark_input(self.input, failed)
