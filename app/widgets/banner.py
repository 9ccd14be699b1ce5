"""A line across a pane that says one fact: all is well, look at this, or this went wrong."""

from __future__ import annotations

from typing import ClassVar, Literal

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.theme.icons import paint_icon
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets import painting
from app.widgets.action import Action
from app.widgets.buttons import IconButton
from app.widgets.labels import ElidedLabel, Label, Link
from app.widgets.layouts import hbox, vbox
from app.widgets.util import set_visible

BannerKind = Literal["ok", "warn", "fail", "info"]
# What a link does, and its words. A key is what `acted` tells.
LinkOffer = tuple[str | Action, str]
_ICONS = {"ok": "verified", "warn": "warn", "fail": "failed", "info": "info"}
_TINTS = {"ok": "ok_tint", "warn": "warn_tint", "fail": "fail_tint", "info": "accent_tint"}
_INKS = {"ok": "ok", "warn": "warn", "fail": "fail", "info": "accent"}


class Banner(QWidget):
    """A bold fact, a detail, and what can be done about it. Hidden until it has something to say.

    Signals:
        acted: the operator followed the link with this key.
        closed: the operator closed the banner.
    """

    acted = Signal(str)
    closed = Signal()

    def __init__(self, closable: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kind: BannerKind = "ok"
        self.setMinimumHeight(40)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._row = hbox(parent=self, margins=(SPACE.pane + 28, 0, SPACE.pane, 0), spacing=SPACE.small)
        self._fact = Label("", "head")
        self._detail = ElidedLabel("", "body", "text2")
        self._detail.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._row.addWidget(self._fact)
        self._row.addWidget(self._detail, 1)
        self._links: list[Link] = []
        self._close = IconButton("close", "Close this notice")
        set_visible(self._close, closable)
        self._close.clicked.connect(self._closed)
        self._row.addWidget(self._close)
        self.hide()

    @property
    def kind(self) -> BannerKind:
        """ok, warn, fail or info."""
        return self._kind

    def words(self) -> str:
        """Fact and detail, as read aloud."""
        return f"{self._fact.text()} {self._detail.text()}".strip()

    def say(self, kind: BannerKind, fact: str, detail: str = "", offers: tuple[LinkOffer, ...] = ()) -> None:
        """Show a fact. `offers` are (key or action, words) of links at the right."""
        self._kind = kind
        self._fact.setText(fact)
        self._detail.set_text(detail)
        for link in self._links:
            self._row.removeWidget(link)
            link.deleteLater()
        self._links = []
        for key, words in offers:
            link = Link(words)
            if isinstance(key, Action):
                link.addAction(key)
                link.clicked.connect(key.trigger)
            else:
                link.clicked.connect(lambda *_, key=key: self.acted.emit(key))
            self._row.insertWidget(self._row.count() - 1, link)
            self._links.append(link)
        self.setAccessibleName(self.words())
        self.show()
        self.update()

    def _closed(self) -> None:
        self.hide()
        self.closed.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the tint over the full width, and the icon."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        painter.fillRect(rect, theme.color(_TINTS[self._kind]))
        painter.fillRect(QRectF(0, rect.height() - 1, rect.width(), 1), theme.color("border"))
        place = QRectF(SPACE.pane, (rect.height() - 18) / 2, 18, 18)
        paint_icon(painter, place, _ICONS[self._kind], theme.color(_INKS[self._kind]))
        painter.end()


class Notice(QWidget):
    """A boxed notice within a pane: icon, bold fact, a wrapped detail, perhaps one link.

    Looks: `can_undo` (ok icon), `no_undo` (quiet icon), `cannot_undo` (high), warn, fail, waiting, note.

    Signals:
        acted: the operator followed the link.
    """

    acted = Signal()
    LOOKS: ClassVar[dict[str, tuple[str, str, str, str]]] = {
        "can_undo": ("raised", "border2", "undo", "ok"),
        "no_undo": ("raised", "border2", "undo", "text3"),
        "cannot_undo": ("high_tint", "high", "undo", "high"),
        "warn": ("warn_tint", "warn", "warn", "warn"),
        "fail": ("fail_tint", "fail", "failed", "fail"),
        "note": ("raised", "border", "info", "text3"),
        "waiting": ("waiting_tint", "waiting", "time_left", "waiting"),
    }

    def __init__(
        self, look: str, fact: str, detail: str = "", action: str = "", parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._fact = Label("", "head", wrap=True)
        self._detail = Label("", "body", "text2", wrap=True)
        self._link = Link(action)
        self._link.clicked.connect(lambda *_: self.acted.emit())
        words = QWidget(self)
        vbox(self._fact, self._detail, parent=words)
        hbox(
            (words, 1),
            (self._link, 0, Qt.AlignmentFlag.AlignTop),
            parent=self,
            margins=(38, 10, 12, 10),
            spacing=SPACE.small,
        )
        self.say(look, fact, detail, action)

    def say(self, look: str, fact: str, detail: str = "", action: str = "") -> None:
        """Change what it says.

        Raises:
            KeyError: there is no such look.
        """
        self.LOOKS[look]
        self.look = look
        self._fact.setText(fact)
        self._fact.setVisible(bool(fact))
        self._detail.setText(detail)
        self._detail.setVisible(bool(detail))
        self._link.setText(action)
        self._link.setAccessibleName(action)
        self._link.setVisible(bool(action))
        self.setAccessibleName(f"{fact} {detail}".strip())
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the box and the icon beside the first line."""
        theme = theme_of(self)
        fill, edge, icon, ink = self.LOOKS[self.look]
        painter = QPainter(self)
        painting.box(painter, self.rect().toRectF(), 6, theme.color(fill), theme.color(edge))
        paint_icon(painter, QRectF(12, 11, 16, 16), icon, theme.color(ink))
        painter.end()
