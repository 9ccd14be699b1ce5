"""Parts of a pane: a head with a hint at the right, and what follows."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QWidget

from app.theme.theme import theme_of
from app.theme.tokens import RADIUS, SPACE
from app.widgets import painting
from app.widgets.labels import Label
from app.widgets.layouts import STRETCH, hbox, vbox


class SectionHead(QWidget):
    """A head at the left, a hint or a control at the right."""

    def __init__(self, title: str, hint: str = "", role: str = "head", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = Label(title, role)
        self.hint = Label(hint, "meta", "text3")
        self.hint.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._row = hbox(self.title, STRETCH, self.hint, parent=self, spacing=SPACE.small)
        self.setAccessibleName(title)

    def set_title(self, title: str) -> None:
        """Change the head."""
        self.title.setText(title)
        self.setAccessibleName(title)

    def set_hint(self, hint: str) -> None:
        """Change the hint."""
        self.hint.setText(hint)

    def add(self, widget: QWidget) -> None:
        """Put a control at the right end."""
        self._row.addWidget(widget)

    def add_beside_title(self, widget: QWidget) -> None:
        """Put something right after the title: a count, a path, a state."""
        self._row.insertWidget(self._row.count() - 2, widget)


class Section(QWidget):
    """A head and the widgets below it."""

    def __init__(self, title: str, hint: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.head = SectionHead(title, hint)
        self.body = vbox(spacing=SPACE.small)
        vbox(self.head, self.body, parent=self, spacing=SPACE.snug)
        self.setAccessibleName(title)

    def add(self, widget: QWidget) -> None:
        """Put a widget below the others."""
        self.body.addWidget(widget)


class Card(QFrame):
    """A box: raised, outline, tinted high, warn or fail; `quote`, dashed, is for an agent's words."""

    def __init__(self, look: str = "raised", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._look = look
        self.setProperty("card", "true" if look == "raised" else look)
        self.body = vbox(parent=self, margins=(SPACE.card, 10, SPACE.card, 10), spacing=SPACE.tight)

    def add(self, widget: QWidget) -> None:
        """Put a widget below the others."""
        self.body.addWidget(widget)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the dashes of a quotation; style sheets can only do dots in this width."""
        if self._look != "quote":
            super().paintEvent(event)
            return
        painter = QPainter(self)
        edge = theme_of(self).color("control")
        painting.box(painter, self.rect().toRectF(), RADIUS.card, None, edge, dashed=True)
        painter.end()


class ScreenHead(QWidget):
    """The line at the top of a screen or pane: title, a quiet count beside it, controls at the right."""

    def __init__(self, title: str, detail: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(48)
        self.setProperty("surface", "base")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.title = Label(title, "title")
        self.detail = Label(detail, "body", "text3")
        self._row = hbox(
            self.title,
            self.detail,
            STRETCH,
            parent=self,
            margins=(SPACE.pane, 0, SPACE.pane, 0),
            spacing=SPACE.small,
        )
        self._stretch = self._row.count() - 1

    def set_detail(self, detail: str) -> None:
        """Change the words beside the title."""
        self.detail.setText(detail)

    def add_left(self, widget: QWidget) -> None:
        """Put a control after the title."""
        self._row.insertWidget(self._stretch, widget)
        self._stretch += 1

    def add(self, widget: QWidget) -> None:
        """Put a control at the right end."""
        self._row.addWidget(widget)
