"""Banners of the whole window, under the top bar: what was stopped, what went wrong, a broken policy file.

Not modal, and never gone by themselves while they say something true. Of failures, the newest three stand.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from app.components.buttons import IconButton
from app.components.label import ElidedLabel, Label, Link
from app.look.icons import paint_icon
from app.look.theme import theme_of

MOST = 3
HEIGHT = 40
_ICONS = {"ok": "check", "warn": "warn", "fail": "failed"}


class Notice(QWidget):
    """One banner: tint, icon, a bold fact, a detail, links, and a cross when it may be put away."""

    def __init__(
        self, kind: str, fact: str, detail: str, closes: bool, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.kind, self.closes = kind, closes
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName(f"{fact} {detail}")
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(42, 0, 10, 0)
        self._row.setSpacing(10)
        self._fact = Label(fact, "head")
        self._fact.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._detail = ElidedLabel(detail, tone="text2")
        self._detail.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._row.addWidget(self._fact)
        self._row.addWidget(self._detail, 1)
        self.cross = IconButton("close", "Put this away", parent=self)
        self.cross.setVisible(closes)
        self._row.addWidget(self.cross)

    def words(self) -> str:
        """What it says."""
        return f"{self._fact.text()} {self._detail.text()}".strip()

    def set_words(self, fact: str, detail: str) -> None:
        """Say something else."""
        self._fact.setText(fact)
        self._detail.set_text(detail)
        self.setAccessibleName(f"{fact} {detail}")

    def add_link(self, words: str, act: Callable[[], None]) -> Link:
        """Offer something to do."""
        link = Link(words)
        link.clicked.connect(act)
        self._row.insertWidget(self._row.count() - 1, link)
        return link

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the tint, the icon and a hairline."""
        theme = theme_of(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.color(f"{self.kind}_tint"))
        painter.fillRect(0, self.height() - 1, self.width(), 1, theme.color(self.kind))
        paint_icon(painter, QRectF(16, 12, 16, 16), _ICONS[self.kind], theme.color(self.kind))
        painter.end()


class Notices(QWidget):
    """The stack of banners, newest at the top."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self._standing: dict[str, Notice] = {}
        self.hide()

    @property
    def shown(self) -> list[Notice]:
        """The banners from top to bottom."""
        items = (self._column.itemAt(place) for place in range(self._column.count()))
        found = (item.widget() for item in items if item is not None)
        return [one for one in found if isinstance(one, Notice)]

    def standing(self, key: str, kind: str = "fail", fact: str = "", detail: str = "") -> Notice | None:
        """Show a banner for as long as something is true; an empty fact takes it away. Returns a new one."""
        there = self._standing.get(key)
        if not fact:
            if there is not None:
                del self._standing[key]
                self._remove(there)
            return None
        if there is not None:
            there.set_words(fact, detail)
            return None
        self._standing[key] = self._add(Notice(kind, fact, detail, closes=False))
        return self._standing[key]

    def fail(self, fact: str, detail: str, details_to_copy: str = "") -> Notice:
        """Show what went wrong; it stays until it is put away, or three newer ones came."""
        for old in self.shown:
            if old.closes and old.words() == f"{fact} {detail}".strip():
                return old
        notice = self._add(Notice("fail", fact, detail, closes=True))
        if details_to_copy:
            notice.add_link("Copy details", lambda: QGuiApplication.clipboard().setText(details_to_copy))
        closable = [one for one in self.shown if one.closes]
        for one in closable[MOST:]:
            self._remove(one)
        return notice

    def dismiss_newest(self) -> bool:
        """Put the newest banner away that may be; False when there is none."""
        for one in self.shown:
            if one.closes:
                self._remove(one)
                return True
        return False

    def _add(self, notice: Notice) -> Notice:
        notice.cross.clicked.connect(lambda: self._remove(notice), Qt.ConnectionType.QueuedConnection)
        self._column.insertWidget(0, notice)
        self.show()
        return notice

    def _remove(self, notice: Notice) -> None:
        if self._column.indexOf(notice) < 0:
            return
        self._column.removeWidget(notice)
        notice.hide()
        notice.deleteLater()
        self.setVisible(bool(self.shown))
