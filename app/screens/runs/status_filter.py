"""How many cells are in which state: a bar of segments, and a chip for each that filters the matrix."""

from __future__ import annotations

from collections import Counter

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from app.records.run_text import GROUPS, LOOK_FILTER, Group
from app.text import count_words
from app.theme.shapes import paint_glyph
from app.theme.state_looks import cell_look
from app.theme.theme import theme_of
from app.theme.tokens import RADIUS, SPACE
from app.widgets import painting
from app.widgets.animation_timer import animation_timer_of
from app.widgets.badges import Chip
from app.widgets.labels import ElidedLabel, set_surface
from app.widgets.layouts import hbox, vbox

BAR = 8


class SegmentBar(QWidget):
    """One segment for each group, in the groups' order, at least 3 px wide; the words are in the chips."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._counts: Counter[str] = Counter()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(BAR)

    def show_counts(self, counts: Counter[str]) -> None:
        """Show other counts."""
        self._counts = counts.copy()
        said = ", ".join(f"{counts[group.key]} {group.words}" for group in GROUPS if counts[group.key])
        self.setAccessibleName(f"Cells: {said}" if said else "No cells")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the segments with gaps of one px."""
        theme = theme_of(self)
        painter = QPainter(self)
        shown = [(group, self._counts[group.key]) for group in GROUPS if self._counts[group.key] > 0]
        total = sum(count for _, count in shown)
        if total:
            room = self.width() - 3 * len(shown) - (len(shown) - 1)
            left = 0.0
            for group, count in shown:
                width = 3 + room * count / total
                painter.fillRect(QRectF(left, 0, width, BAR), theme.color(group.bar))
                left += width + 1
        painter.end()


class CountChip(QAbstractButton):
    """One group's count as shape and words; pressed, only its cells are shown."""

    def __init__(self, group: Group, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.counted = group
        self._look = cell_look(group.looks[0])
        self._count, self._short = 0, False
        self._pulse = animation_timer_of(self)
        self.setCheckable(True)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.hide()

    @property
    def _plain(self) -> bool:
        return self.counted.key in ("to_go", "idle")

    def show_count(self, count: int) -> None:
        """Show a count; none hides the chip, unless it is the chosen one."""
        if count != self._count:
            self._count = count
            self.setAccessibleName(self._words())
            self.setToolTip(f"Show only these: {self._words()}")
            self.updateGeometry()
            self.update()
        self.setVisible(count > 0 or self.isChecked())

    def set_short(self, short: bool) -> None:
        """Use the short word."""
        self._short = short
        self.updateGeometry()

    def _words(self) -> str:
        words = self.counted.short if self._short else self.counted.words
        if self.counted.key == "waiting" and self._count != 1 and not self._short:
            words = "wait for you"
        return f"{count_words(self._count)} {words}"

    def still_turns(self) -> bool:
        """Asked by the shared timer."""
        return self._look.turning and self.isVisible()

    def sizeHint(self) -> QSize:
        """Shape and words in a hit area of 24."""
        width = painting.text_width(self._words(), theme_of(self)) + (12 if self._plain else 32)
        return QSize(round(width), 24)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter presses, as Space does."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw shape and words; chosen with an accent edge."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        if self.isChecked() or self.underMouse():
            fill = theme.color("hover") if self.underMouse() else None
            edge = theme.color("accent") if self.isChecked() else None
            painting.box(painter, rect.adjusted(0, 1, 0, -1), RADIUS.badge, fill, edge)
        x = 6.0
        if not self._plain:
            if self._look.turning:
                self._pulse.keep_turning(self)
            place = QRectF(x, (rect.height() - 14) / 2, 14, 14)
            paint_glyph(painter, place, self._look.glyph, theme.color(self._look.color), self._pulse.step)
            x += 20
        tone = "text2" if self._plain else self._look.word_color
        painting.text(
            painter, QRectF(x, 0, rect.width() - x, rect.height()), self._words(), theme, color=tone
        )
        painter.end()


class StatusFilter(QWidget):
    """Bar, chips, and the choice between all cells and those that need a look.

    Signals:
        chosen(group): show only this group's cells; all when empty.
    """

    chosen = Signal(str)

    def __init__(self, views: QWidget, parent: QWidget | None = None) -> None:
        """`views` stands beside the choice of cells."""
        super().__init__(parent)
        set_surface(self, "base")
        self.setAccessibleName("Counts")
        self.bar = SegmentBar()
        self.chips = {group.key: CountChip(group) for group in GROUPS}
        self.all = Chip("All", checkable=True)
        self.look = Chip("Needs a look", checkable=True)
        self.rule_words = ElidedLabel("", "body", "text2")
        self.rule_words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        for key, chip in self.chips.items():
            chip.clicked.connect(lambda checked, key=key: self._press(key if checked else ""))
        self.all.clicked.connect(lambda *_: self._press(""))
        self.look.clicked.connect(lambda checked: self._press(LOOK_FILTER if checked else ""))
        self.all.setChecked(True)
        chips = hbox(margins=(SPACE.pane - 6, 0, SPACE.pane, 0), spacing=SPACE.tight)
        for chip in self.chips.values():
            chips.addWidget(chip)
        chips.addSpacing(SPACE.large)
        chips.addWidget(self.rule_words, 1)
        below = hbox(
            (views, 1),
            self.all,
            self.look,
            margins=(SPACE.pane, 0, SPACE.pane, 0),
            spacing=SPACE.small,
        )
        top = hbox(self.bar, margins=(SPACE.pane, 0, SPACE.pane, 0), spacing=None)
        vbox(top, chips, below, parent=self, margins=(0, 9, 0, 4), spacing=SPACE.tight)

    def show_counts(self, counts: Counter[str], total: int, needing: int) -> None:
        """Show how many cells are where."""
        self.bar.show_counts(counts)
        for key, chip in self.chips.items():
            chip.show_count(counts[key])
        _say(self.all, f"All {count_words(total)}")
        _say(self.look, f"Needs a look {count_words(needing)}")
        self.look.setEnabled(needing > 0 or self.look.isChecked())
        self.look.setToolTip("" if needing else "No cell of this run needs a look.")

    def say_rules(self, words: str) -> None:
        """Say what the run does with its devices: targets, what happens on failure."""
        if self.rule_words.text() != words:
            self.rule_words.set_text(words)

    def show_chosen(self, group: str) -> None:
        """Mark the filter that holds, without telling."""
        self.all.setChecked(not group)
        self.look.setChecked(group == LOOK_FILTER)
        for key, chip in self.chips.items():
            chip.setChecked(key == group)

    def _press(self, group: str) -> None:
        self.show_chosen(group)
        self.chosen.emit(group)

    def set_short(self, short: bool) -> None:
        """Short words where there is little room."""
        for chip in self.chips.values():
            chip.set_short(short)


def _say(chip: Chip, words: str) -> None:
    if chip.text() != words:
        chip.set_words(words)
