"""One numbered step of the first run: done, current, or still to come."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLineEdit, QSizePolicy, QVBoxLayout, QWidget

from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.labels import Label

StepState = Literal["done", "current", "later"]
CIRCLE = 20


class StepNumber(QWidget):
    """A number in a circle; a check once the step is done."""

    def __init__(self, number: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._number = number
        self._state: StepState = "later"
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def set_state(self, state: StepState) -> None:
        """Show how far the step is."""
        self._state = state
        self.setAccessibleName(f"Step {self._number}, {state}")
        self.update()

    def sizeHint(self) -> QSize:
        """A small square."""
        return QSize(CIRCLE, CIRCLE)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw circle and number, or the check."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        if self._state == "done":
            paint_glyph(painter, rect, "check_disc", theme.color("ok"))
        else:
            current = self._state == "current"
            fill = theme.color("accent_fill") if current else None
            edge = None if current else theme.color("text3")
            painting.box(painter, rect.adjusted(1, 1, -1, -1), (CIRCLE - 2) / 2, fill, edge, 1.5)
            ink = "on_accent" if current else "text2"
            middle = Qt.AlignmentFlag.AlignHCenter
            painting.text(painter, rect, str(self._number), theme, "badge", ink, middle)
        painter.end()


class Step(QWidget):
    """Number, title, words, and what the step needs below them."""

    def __init__(self, number: int, title: str, wrap: bool = True, parent: QWidget | None = None) -> None:
        """`wrap` off keeps the words in one line, so that something can stand right after them."""
        super().__init__(parent)
        self.number = StepNumber(number)
        self.title = Label(title, "step")
        self.words = Label("", tone="text2", wrap=wrap)
        self.state: StepState = "later"
        self.body = QVBoxLayout()
        self.body.setContentsMargins(0, 6, 0, 0)
        self.body.setSpacing(8)
        column = QVBoxLayout()
        column.setSpacing(1)
        column.addWidget(self.title)
        self.words_row = QHBoxLayout()
        self.words_row.setSpacing(6)
        self.words_row.addWidget(self.words)
        column.addLayout(self.words_row)
        column.addLayout(self.body)
        row = QHBoxLayout(self)
        row.setContentsMargins(20, 16, 20, 16)
        row.setSpacing(14)
        row.addWidget(self.number, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(column, 1)
        self.set_state("later", "")

    def set_state(self, state: StepState, words: str, title: str = "") -> None:
        """Show how far it is, and say so."""
        self.state = state
        self.number.set_state(state)
        if title:
            self.title.setText(title)
        self.words.setText(words)
        self.words.setVisible(bool(words))
        # The style sheet gives fields another background on the tint; polishing is what makes it look again.
        self.setProperty("surface", "accent_tint" if state == "current" else "base")
        for field in self.findChildren(QLineEdit):
            field.style().unpolish(field)
            field.style().polish(field)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The current step stands on the accent's tint."""
        if self.state == "current":
            painter = QPainter(self)
            painter.fillRect(self.rect().adjusted(1, 1, -1, -1), theme_of(self).color("accent_tint"))
            painter.end()


class StepList(QFrame):
    """The steps in one box, with hairlines between them."""

    def __init__(self, steps: list[Step], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._steps = steps
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for step in steps:
            column.addWidget(step)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the box; the steps draw themselves on it."""
        theme = theme_of(self)
        painter = QPainter(self)
        edge = theme.color("border2")
        rect = QRectF(self.rect())
        painting.box(painter, rect, RADIUS.card, theme.color("base"), edge)
        for step in self._steps[1:]:
            painter.fillRect(1, step.y(), self.width() - 2, 1, theme.color("border"))
        painter.end()
