"""A name that is edited where it stands: it looks like a label until the pointer or the keyboard is on it."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLineEdit, QSizePolicy, QWidget

from app.theme.theme import theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting

PAD = 5


class InlineEdit(QLineEdit):
    """As wide as its text, between `least` and `most` px.

    Signals:
        typed(text): the operator changed the text.
        entered: Enter was pressed.
        settled(before, now): it was left, or Enter was pressed, with another text than it was entered with.
    """

    typed = Signal(str)
    entered = Signal()
    settled = Signal(str, str)

    def __init__(
        self, name: str, role: str, least: int = 48, most: int = 320, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._least, self._most = least, most
        self._before = ""
        self.setProperty("bare", "true")
        self.setFont(theme_of(self).font(role))
        self.setTextMargins(PAD, 0, PAD, 0)
        self.setAccessibleName(name)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.textEdited.connect(self.typed)
        self.textChanged.connect(self._changed)
        self.returnPressed.connect(self.entered)
        self.editingFinished.connect(self._settle)

    def show_text(self, text: str) -> None:
        """Show a text, unless it is there already: then the cursor is left alone."""
        if text != self.text():
            self.setText(text)
            self.setCursorPosition(0)

    def _settle(self) -> None:
        before, self._before = self._before, self.text()
        if before != self._before:
            self.settled.emit(before, self._before)

    def _changed(self) -> None:
        self.setToolTip("")
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        """The width of the text."""
        width = round(QFontMetricsF(self.font()).horizontalAdvance(self.text() or self.placeholderText()))
        return QSize(max(self._least, min(self._most, width + 2 * PAD + 8)), theme_of(self).metrics.control)

    def minimumSizeHint(self) -> QSize:
        """A few letters."""
        return QSize(min(self._least, self.sizeHint().width()), theme_of(self).metrics.control)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Remember what Esc brings back."""
        super().focusInEvent(event)
        self._before = self.text()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc brings back what was there before."""
        if event.key() == Qt.Key.Key_Escape and self.text() != self._before:
            self.setText(self._before)
            self.typed.emit(self._before)
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw an edge while it can be seen to be a field, or while its text is wrong."""
        theme = theme_of(self)
        failed = self.property("state") == "fail"
        if failed or self.hasFocus() or self.underMouse():
            painter = QPainter(self)
            edge = "fail" if failed else "accent" if self.hasFocus() else "control"
            fill = theme.color("sunken") if self.hasFocus() else None
            painting.box(painter, QRectF(self.rect()), RADIUS.control, fill, theme.color(edge))
            painter.end()
        super().paintEvent(event)
