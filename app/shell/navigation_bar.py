"""The navigation at the left: one line per screen, a count of what waits, 176 or 52 wide."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QButtonGroup, QSizePolicy, QWidget

from app.shell.screen_registry import ScreenEntry
from app.theme.icons import paint_icon
from app.theme.theme import theme_of
from app.theme.tokens import FRAME, RADIUS
from app.widgets import painting
from app.widgets.badges import paint_pill
from app.widgets.labels import set_surface
from app.widgets.layouts import vbox

LINE_HEIGHT = 34
PILL = 16


class NavLine(QAbstractButton):
    """One screen in the navigation."""

    def __init__(self, entry: ScreenEntry, key: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.entry = entry
        self._count = 0
        self._key = key
        self._narrow = False
        self.setCheckable(True)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._name_it()

    def set_count(self, count: int) -> None:
        """How many wait for the operator here; none hides the pill."""
        if count != self._count:
            self._count = count
            self._name_it()
            self.update()

    def set_narrow(self, narrow: bool) -> None:
        """Icons only, with the word as tooltip."""
        self._narrow = narrow
        self.updateGeometry()
        self._name_it()

    def _name_it(self) -> None:
        words = self.entry.title + (f", {self._count} waiting for you" if self._count else "")
        self.setAccessibleName(words)
        self.setToolTip(f"{words} ({self._key})" if self._narrow or self._key else words)

    def sizeHint(self) -> QSize:
        """As wide as the navigation."""
        return QSize(36 if self._narrow else FRAME.nav - 16, LINE_HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw selection, icon, word and count."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        on = self.isChecked()
        if on or self.underMouse():
            painting.box(painter, rect, RADIUS.control, theme.color("selected" if on else "hover"))
        if on:
            painting.box(painter, QRectF(0, 8, 3, rect.height() - 16), 1.5, theme.color("accent"))
        icon = FRAME.nav_icon
        left = (rect.width() - icon) / 2 if self._narrow else 10.0
        place = QRectF(left, (rect.height() - icon) / 2, icon, icon)
        if self._narrow and self._count:
            place.translate(-5, 6)  # out of the way of the pill in the corner
        paint_icon(painter, place, self.entry.icon, theme.color("text" if on else "text2"))
        if not self._narrow:
            room = QRectF(left + icon + 10, 0, rect.width() - 70, rect.height())
            painting.text(painter, room, self.entry.title, theme, "name", "text" if on else "text2")
        if self._count:
            self._paint_count(painter, rect, place)
        painter.end()

    def _paint_count(self, painter: QPainter, rect: QRectF, icon: QRectF) -> None:
        theme = theme_of(self)
        words = str(self._count) if self._count < 1000 else "999+"
        width = max(PILL, painting.text_width(words, theme, "badge") + 10)
        if self._narrow:
            left = min(icon.right() - 4, rect.right() - width)
            place = QRectF(left, 0, width, PILL)
        else:
            place = QRectF(rect.right() - width - 10, (rect.height() - PILL) / 2, width, PILL)
        paint_pill(painter, place, words, theme)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens; the arrows move between the lines."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        elif event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Up):
            self.focusNextPrevChild(event.key() == Qt.Key.Key_Down)
        else:
            super().keyPressEvent(event)


class NavigationBar(QWidget):
    """All screens; the last one stands at the bottom.

    Signals:
        chosen(screen): the operator chose a screen by its name.
    """

    chosen = Signal(str)

    def __init__(self, entries: Sequence[ScreenEntry], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_surface(self, "app")
        self.setAccessibleName("Screens")
        self._narrow = False
        self._group = QButtonGroup(self)
        self._lines: dict[str, NavLine] = {}
        column = vbox(parent=self, margins=8, spacing=2)
        for number, entry in enumerate(entries, 1):
            if entry is entries[-1]:
                column.addStretch(1)
            line = NavLine(entry, f"Alt+{number}", self)
            line.clicked.connect(lambda _checked=False, name=entry.name: self.chosen.emit(name))
            self._group.addButton(line)
            self._lines[entry.name] = line
            column.addWidget(line)
        self.set_narrow(False)

    @property
    def narrow(self) -> bool:
        """Whether only icons are shown."""
        return self._narrow

    def set_narrow(self, narrow: bool) -> None:
        """Show icons only, or words too."""
        self._narrow = narrow
        self.setFixedWidth(FRAME.nav_collapsed if narrow else FRAME.nav)
        for line in self._lines.values():
            line.set_narrow(narrow)

    def show_current(self, screen: str) -> None:
        """Mark the screen that is in front."""
        self._lines[screen].setChecked(True)

    def set_count(self, screen: str, count: int) -> None:
        """How many wait for the operator on a screen."""
        self._lines[screen].set_count(count)

    def paintEvent(self, event: QPaintEvent) -> None:
        """A hairline towards the screen."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.fillRect(self.width() - 1, 0, 1, self.height(), theme_of(self).color("border"))
        painter.end()
