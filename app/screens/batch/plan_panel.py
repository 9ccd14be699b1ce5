"""The plan below the steps: counts in one line, the matrix under it, and that nothing was sent."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Signal
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.screens.batch.plan_matrix import ROW, PlanMatrix
from app.screens.batch.text import count_outcomes, counted, one_line, outcome_look, plan_as_text
from app.text import milliseconds, plural
from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.widgets import painting
from app.widgets.buttons import Button, IconButton
from app.widgets.empty_state import ContentOrEmpty, Offer
from app.widgets.labels import ElidedLabel, Label, separator, set_surface
from core.batch.models import Plan
from core.batch.waves import wave_lines
from core.text import some_names

HEAD = 36
LOW_HEIGHT = 140
MOST_ROWS = 9


class PlanCounts(QWidget):
    """How many cells have each outcome, with its shape."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}
        self._old = False
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_counts(self, counts: dict[str, int], old: bool) -> None:
        """Show counts; those of an `old` plan are grey."""
        self._counts, self._old = counts, old
        self.setAccessibleName(self.words())
        self.updateGeometry()
        self.update()

    def words(self) -> str:
        """27 run, 11 ask."""
        return ", ".join(f"{number} {counted(outcome)}" for outcome, number in self._counts.items())

    def sizeHint(self) -> QSize:
        theme = theme_of(self)
        parts = (f"{number:,} {counted(outcome)}" for outcome, number in self._counts.items())
        return QSize(sum(20 + round(painting.text_width(part, theme)) + 14 for part in parts), 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = theme_of(self)
        painter = QPainter(self)
        x = 0.0
        for outcome, number in self._counts.items():
            look = outcome_look(outcome)
            glyph = theme.color("text3" if self._old else look.color)
            paint_glyph(painter, QRectF(x, 3, 14, 14), look.glyph, glyph)
            tone = "text3" if self._old else look.word_color
            room = QRectF(x + 20, 0, self.width() - x, 20)
            x += 34 + painting.text(painter, room, f"{number:,} {counted(outcome)}", theme, "body", tone)
        painter.end()


NO_DEVICE = "No device matches the filter."
CHANGE_FILTER = "Change the filter above: the plan shows what each step would do on each device."


class PlanPanel(QWidget):
    """The docked plan.

    Signals:
        folded(is_folded): only the line of counts is left, or the matrix is back.
        copied: the plan is on the clipboard.
        step_chosen(place): a cell of this step was chosen.
    """

    folded = Signal(bool)
    copied = Signal()
    step_chosen = Signal(int)
    acted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Plan")
        self.plan: Plan | None = None
        self._name = ""
        self._is_folded = False
        self.fold = IconButton("down", "Fold the plan away")
        self.fold.clicked.connect(lambda: self.set_folded(not self._is_folded))
        self.what = Label("", tone="text2")
        self.counts = PlanCounts()
        self.state = ElidedLabel("", "body", "text3")
        self.as_text = Button("As text", "ghost")
        self.as_text.setToolTip("Copy the plan as text")
        self.as_text.clicked.connect(self._copy)
        head = QWidget()
        set_surface(head, "raised")
        head.setFixedHeight(HEAD)
        row = QHBoxLayout(head)
        row.setContentsMargins(8, 0, 16, 0)
        row.setSpacing(10)
        row.addWidget(self.fold)
        row.addWidget(Label("Plan", "head"))
        row.addWidget(self.what)
        row.addWidget(self.counts)
        row.addStretch(1)
        row.addWidget(self.state)
        row.addWidget(self.as_text)
        self.matrix = PlanMatrix()
        self.matrix.step_chosen.connect(self.step_chosen)
        self.place = ContentOrEmpty(self.matrix, "base")
        self.nothing = self.place.empty
        self.nothing.acted.connect(self.acted)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(head)
        column.addWidget(separator())
        column.addWidget(self.place, 1)
        self.show_no_plan("No plan yet.")

    @property
    def is_folded(self) -> bool:
        """Whether only the line of counts is shown."""
        return self._is_folded

    def set_folded(self, is_folded: bool) -> None:
        """Show only the line of counts, or the matrix too."""
        self._is_folded = is_folded
        words = "Unfold the plan" if is_folded else "Fold the plan away"
        self.fold.set_icon("right" if is_folded else "down", words)
        self._choose()
        self.folded.emit(is_folded)

    def wanted_height(self, low: bool) -> int:
        """36 and 24 a device, within bounds; one line when folded."""
        if self._is_folded:
            return HEAD + 1
        if low:
            return LOW_HEIGHT
        if not self._has_cells():
            return HEAD + 1 + self.nothing.needed_height(self.width())
        rows = max(2, min(MOST_ROWS, len(self.plan.devices) if self.plan else 2))
        return HEAD + 1 + self.matrix.head_height() + ROW * rows + 2

    def show_plan(self, plan: Plan, name: str) -> None:
        """Show a plan."""
        self.plan, self._name = plan, name
        self.matrix.show_plan(plan)
        self.as_text.show()
        cells = plural(len(plan.cells), "cell")
        waves = (
            f" in {len(plan.waves)} waves, first {one_line(some_names(plan.waves[0], 2))}"
            if plan.waves
            else ""
        )
        self.what.setText(f"{plural(len(plan.devices), 'device')}{waves}, {cells}")
        self.what.setToolTip("\n".join(map(one_line, wave_lines(plan.waves, plan.production))))
        self.counts.show_counts(count_outcomes(plan.cells), False)
        self.state.set_text(f"nothing was sent, {milliseconds(plan.took_ms)}")
        if not plan.devices:
            self.nothing.say(NO_DEVICE, CHANGE_FILTER, ("filter", "Change the filter", "edit"))
        self._choose()

    def show_no_plan(self, heading: str, sentence: str = "", offer: Offer | None = None) -> None:
        """Say why there is no plan, and what to do."""
        self.plan = None
        self.matrix.show_plan(None)
        self.as_text.hide()
        self.what.setText("")
        self.counts.show_counts({}, False)
        self.state.set_text("")
        self.nothing.say(heading, sentence, offer)
        self._choose()

    def say_old(self, words: str) -> None:
        """The batch changed since; `words` say whether a new plan is on its way."""
        self.state.set_text(words)
        if self.plan is not None:
            self.counts.show_counts(count_outcomes(self.plan.cells), True)

    def _choose(self) -> None:
        self.place.setCurrentWidget(self.matrix if self._has_cells() else self.nothing)
        self.place.setVisible(not self._is_folded)

    def _has_cells(self) -> bool:
        return self.plan is not None and bool(self.plan.devices)

    def _copy(self) -> None:
        if self.plan is not None:
            QGuiApplication.clipboard().setText(plan_as_text(self._name, self.plan))
            self.copied.emit()
