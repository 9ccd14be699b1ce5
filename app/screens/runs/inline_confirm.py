"""One question across the pane, asked where the wish was made: words, perhaps a field, two answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.theme.tokens import SPACE
from app.widgets.buttons import Button, Kind
from app.widgets.fields import TextField
from app.widgets.labels import Label, separator, set_surface
from app.widgets.layouts import hbox, vbox


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is asked, and `act`, which gets what is in the field when the operator goes on."""

    words: str
    detail: str
    keep: str
    go_on: str
    act: Callable[[str], object]
    kind: Kind = "danger"
    field: str | None = None


class InlineConfirm(QWidget):
    """Asks one question at a time.

    Signals:
        closed: the question went away, in whichever way.
    """

    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_surface(self, "raised")
        self.question: Question | None = None
        self.words = Label("", "head")
        self.detail = Label("", "body", "text2", wrap=True)
        self.field = TextField("Name of the batch")
        self.field.setMinimumWidth(200)
        self.field.returnPressed.connect(self._go_on)
        self.problem = Label("", "meta", "fail", wrap=True)
        self.problem.hide()
        self.keep = Button("")
        self.keep.clicked.connect(lambda *_: self.close_question())
        self.go_on = Button("", "danger")
        self.go_on.clicked.connect(lambda *_: self._go_on())
        row = hbox(self.words, self.field, (self.detail, 1), self.keep, self.go_on, spacing=SPACE.small)
        inside = vbox(row, self.problem, margins=(SPACE.pane, 8, SPACE.pane, 8), spacing=SPACE.tight)
        vbox(inside, separator(), parent=self)
        self.hide()

    def ask(self, question: Question) -> None:
        """Ask; an earlier question is forgotten."""
        self.question = question
        self.words.setText(question.words)
        self.detail.setText(question.detail)
        self.problem.hide()
        self.keep.set_words(question.keep)
        self.go_on.set_words(question.go_on)
        self.go_on.set_kind(question.kind)
        self.field.setVisible(question.field is not None)
        self.setAccessibleName(question.words)
        self.go_on.set_working("")
        self.show()
        if question.field is not None:
            self.field.setText(question.field)
            self.field.selectAll()
            self.field.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            self.keep.setFocus(Qt.FocusReason.TabFocusReason)

    def say(self, problem: str, go_on: str = "") -> None:
        """Say what is in the way; `go_on` are new words for going on all the same."""
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        if go_on:
            self.go_on.set_words(go_on)

    def _go_on(self) -> None:
        if self.go_on.isEnabled() and self.question is not None:
            self.question.act(self.field.text().strip())

    def done(self, question: Question | None) -> None:
        """What a question led to is done: it goes, unless another one is asked by now."""
        if question is self.question:
            self.close_question()

    def close_question(self) -> None:
        """Take the question back."""
        self.question = None
        if self.isVisible():
            self.hide()
            self.closed.emit()
