"""The choice between matrix, results and comparison, beside how the results of a step stand to each other."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.tokens import SPACE
from app.widgets.buttons import Segmented
from app.widgets.labels import ElidedLabel, set_surface
from app.widgets.layouts import hbox

VIEWS = ("matrix", "results", "compare")


class ViewBar(QWidget):
    """A segmented choice and a line of words.

    Signals:
        chosen(view): one of `VIEWS`.
    """

    chosen = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("View")
        words = [(view, view.capitalize()) for view in VIEWS]
        self.views = Segmented(words, "What to show of the run", in_bar=True)
        self.views.chosen.connect(self.chosen)
        self.alike = ElidedLabel("", "body", "text2")
        self.alike.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        hbox(self.views, (self.alike, 1), parent=self, spacing=SPACE.medium)

    def say_alike(self, words: str) -> None:
        """Such as `disk: 5 alike, 2 differ`; nothing when there is nothing to compare."""
        if self.alike.text() != words:
            self.alike.set_text(words)
