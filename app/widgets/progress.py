"""Progress: a bar with words and Cancel, and the turning ring."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.theme.tokens import SPACE, TURN_STEPS
from app.widgets import painting
from app.widgets.animation_timer import animation_timer_of
from app.widgets.buttons import Button
from app.widgets.labels import Label
from app.widgets.layouts import hbox

BAR = 6


class ProgressBar(QWidget):
    """A bar of 6 px; a travelling block of 30 % while the length is not known."""

    def __init__(self, name: str = "Progress", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._share: float | None = 0.0
        self._name = name
        self._pulse = animation_timer_of(self)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.set_share(0.0)

    def set_share(self, share: float | None) -> None:
        """How much is done, 0.0 to 1.0; None when that is not known."""
        self._share = None if share is None else min(1.0, max(0.0, share))
        said = "length not known" if self._share is None else f"{self._share:.0%}"
        self.setAccessibleName(f"{self._name}: {said}")
        if self._share is None:
            self._pulse.keep_turning(self)
        self.update()

    def share(self) -> float | None:
        """How much is done."""
        return self._share

    def still_turns(self) -> bool:
        """Asked by the shared timer."""
        return self._share is None and self.isVisible()

    def sizeHint(self) -> QSize:
        """6 high, as wide as there is room."""
        return QSize(120, BAR)

    def minimumSizeHint(self) -> QSize:
        """Still to be told apart from a dot."""
        return QSize(24, BAR)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw groove and filling."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = QRectF(0, (self.height() - BAR) / 2, self.width(), BAR)
        painting.box(painter, rect, BAR / 2, theme.color("sunken"), theme.color("border2"))
        if self._share is None:
            if not self._pulse.running and not theme.reduced_motion:
                self._pulse.keep_turning(self)
            block = rect.width() * 0.3
            # Still, the block stands in the middle: at the left it would say 30 %.
            at = 0.5 if theme.reduced_motion else self._pulse.step / (TURN_STEPS - 1)
            left = (rect.width() - block) * at
            painting.box(painter, QRectF(left, rect.y(), block, BAR), BAR / 2, theme.color("accent"))
        elif self._share > 0:
            width = max(float(BAR), rect.width() * self._share)
            painting.box(painter, QRectF(0, rect.y(), width, BAR), BAR / 2, theme.color("accent"))
        painter.end()


class Progress(QWidget):
    """A bar, the words for it, and Cancel.

    Signals:
        cancelled: the operator pressed Cancel.
    """

    cancelled = Signal()

    def __init__(
        self, name: str = "Progress", cancellable: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.bar = ProgressBar(name)
        self.words = Label("", "meta", "text2")
        self.cancel = Button("Cancel", "ghost")
        self.cancel.clicked.connect(lambda *_: self.cancelled.emit())
        hbox((self.bar, 1), self.words, self.cancel, parent=self, spacing=SPACE.small)
        # Only now: shown without a parent it would be a window of its own, and take the keyboard.
        self.cancel.setVisible(cancellable)

    def show_progress(self, share: float | None, words: str) -> None:
        """Say how far it is, in both ways."""
        self.bar.set_share(share)
        self.words.setText(words)


class Spinner(QWidget):
    """The ring that turns while something runs; still with reduced motion."""

    def __init__(self, name: str = "Working", size: int = 14, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._size = size
        self._pulse = animation_timer_of(self)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def still_turns(self) -> bool:
        """Asked by the shared timer."""
        return self.isVisible()

    def sizeHint(self) -> QSize:
        """A square."""
        return QSize(self._size, self._size)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the ring; ask for the next step."""
        theme = theme_of(self)
        self._pulse.keep_turning(self)
        painter = QPainter(self)
        paint_glyph(painter, self.rect().toRectF(), "ring", theme.color("accent"), self._pulse.step)
        painter.end()
