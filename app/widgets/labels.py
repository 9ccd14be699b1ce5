"""Labels: plain text in a type role and a colour of the theme, text links, titles, rules, surfaces."""

from __future__ import annotations

import re

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QFrame, QLabel, QSizePolicy, QToolTip, QWidget

from app.input_origin import stroke_of
from app.theme.legible import legible
from app.theme.theme import theme_of
from app.theme.tokens import TYPE
from app.widgets import painting
from app.widgets.focus import RetainFocusMixin
from app.widgets.input_origin import InputOriginMixin


class Label(QLabel):
    """Text that is never taken for markup, in a type role (`tokens.TYPE`) and a tone (a token's name)."""

    def __init__(
        self,
        text: str = "",
        role: str = "body",
        tone: str = "text",
        wrap: bool = False,
        selectable: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setFont(theme_of(self).font(role))
        self.setMinimumHeight(TYPE[role].line)
        self.setWordWrap(wrap)
        if wrap:
            policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
            policy.setHeightForWidth(True)
            self.setSizePolicy(policy)
        if selectable:
            self.setTextInteractionFlags(
                Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
            )
        self.set_tone(tone)
        self.setText(text)

    def text(self) -> str:
        """The text, as it was given."""
        return self._text

    def setText(self, text: str) -> None:
        """Show another text, in the order of its characters; what no font draws is named."""
        self._text = text
        super().setText(legible(text, self.font()))

    def set_tone(self, tone: str) -> None:
        """Change the colour; a token's name."""
        if self.property("tone") != tone:
            self.setProperty("tone", tone)
            self.style().unpolish(self)
            self.style().polish(self)


class ElidedLabel(QWidget):
    """One line that gives way: cut with an ellipsis, whole in its tooltip. Not for names of devices."""

    def __init__(
        self,
        text: str = "",
        role: str = "body",
        tone: str = "text",
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._text, self._role, self._tone, self._mode = "", role, tone, mode
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.set_text(text)

    def text(self) -> str:
        """The whole text."""
        return self._text

    def set_text(self, text: str) -> None:
        """Show another text; line breaks become spaces."""
        self._text = " ".join(text.split("\n"))
        self.setAccessibleName(text)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """As wide as the text."""
        width = painting.text_width(self._text, theme_of(self), self._role)
        return QSize(int(width) + 1, TYPE[self._role].line)

    def minimumSizeHint(self) -> QSize:
        """A few letters."""
        return QSize(min(48, self.sizeHint().width()), TYPE[self._role].line)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the line, and offer the whole of it as a tooltip when it is cut."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        painting.text(painter, rect, self._text, theme, self._role, self._tone, elide=self._mode)
        painter.end()
        cut = painting.text_width(self._text, theme, self._role) > rect.width()
        tip = escaped_tooltip(self._text) if cut else ""
        if self.toolTip() != tip:
            self.setToolTip(tip)


def escaped_tooltip(text: str) -> str:
    """A tooltip that shows `text` as it is: Qt would take `<b>` in it for markup, and reorder its letters."""
    text = legible(text, QToolTip.font())
    if "<" not in text:
        return text
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\n", "<br>")
    return f"<span>{escaped}</span>"


class Link(InputOriginMixin, RetainFocusMixin, QAbstractButton):
    """Accent words that do something; underlined while hovered or focused."""

    def __init__(self, text: str, role: str = "name", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._role = role
        self.setText(text)
        self.setAccessibleName(text)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def set_off(self, reason: str, tip: str = "") -> None:
        """Disable the link and say why in its tooltip; an empty reason enables it, and `tip` stands there."""
        self.setEnabled(not reason)
        self.setToolTip(escaped_tooltip(reason or tip))
        self.setAccessibleDescription(reason)

    def sizeHint(self) -> QSize:
        """The words' width, and never less than the least hit area high."""
        return QSize(int(painting.text_width(self.text(), theme_of(self), self._role)) + 2, 24)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter follows the link, as Space does."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.isEnabled():
            with self.made_by((stroke_of(event),)):
                self.click()
            return
        super().keyPressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Repaint the underline at the edge."""
        self.update()
        super().mouseMoveEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the words."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        color = "accent" if self.isEnabled() else "text3"
        width = painting.text(painter, rect, self.text(), theme, self._role, color)
        if (self.underMouse() or self.hasFocus()) and self.isEnabled():
            middle = rect.center().y() + TYPE[self._role].px * 0.55
            painter.fillRect(0, round(middle), round(width), 1, theme.color(color))
        painter.end()


def separator(
    orientation: Qt.Orientation = Qt.Orientation.Horizontal, parent: QWidget | None = None
) -> QFrame:
    """A hairline between parts."""
    line = QFrame(parent)
    line.setProperty("line", "h" if orientation == Qt.Orientation.Horizontal else "v")
    return line


def set_surface(widget: QWidget, name: str) -> QWidget:
    """Give a plain container one of the surface colours: app, base, raised, sunken, accent_tint."""
    widget.setProperty("surface", name)
    widget.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
    return widget


_BREAK = "\N{ZERO WIDTH SPACE}"
# A name is one word to Qt. What is longer than this between two signs may be broken anywhere.
_LONGEST_PART = 8


class DeviceName(Label):
    """A name that may be broken after its signs; `accessibleName` is the name itself."""

    def __init__(self) -> None:
        super().__init__("", "title", wrap=True)

    def set_name(self, name: str) -> None:
        """Show another name."""
        parts = re.findall(r"[^-_.]*[-_.]|[^-_.]+", name)
        self.setText(_BREAK.join(_BREAK.join(part) if len(part) > _LONGEST_PART else part for part in parts))
        self.setAccessibleName(name)
        self.setToolTip(escaped_tooltip(name))
