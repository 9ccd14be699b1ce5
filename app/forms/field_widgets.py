"""The inputs that forms are made of: text that grows, numbers as typed, choices no wheel can change."""

from __future__ import annotations

from math import ceil

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QFontMetricsF,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QComboBox, QCompleter, QLineEdit, QPlainTextEdit, QSizePolicy, QWidget

from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.theme.tokens import RADIUS
from app.widgets import painting
from app.widgets.accessible_combo import show_combos_by_name

_PARAGRAPH = "\u2029"
# What the style sheet gives a text input above and below its text.
_EDGE, _PAD = 1, 2


class GrowingText(QPlainTextEdit):
    """Text that is always whole: wraps instead of scrolling sideways, and grows line by line up to a limit.

    Enter makes a line only while `takes_lines`, and is left to the form else; Shift+Enter does everywhere.
    Tab moves on.

    Signals:
        edited: the operator typed, or undid.
        left: the focus went away.
    """

    edited = Signal()
    left = Signal()

    def __init__(self, mono: bool, least: int = 1, most: int = 3, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._role = "mono" if mono else "body"
        self._least, self._most = least, most
        self.takes_lines = least > 1
        self._silent = False
        self.setProperty("input", True)
        self.setFont(theme_of(self).font(self._role))
        self.setTabChangesFocus(True)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        # After a change of width Qt lays lines out as late as they are painted.
        self._fit_later = QTimer(self)
        self._fit_later.setSingleShot(True)
        self._fit_later.timeout.connect(self._fit_laid_out)
        self.horizontalScrollBar().rangeChanged.connect(self._stay_at_left)
        self.textChanged.connect(self._announce)
        self._fit()

    def text(self) -> str:
        """The text exactly; Qt's own `toPlainText` would turn no-break spaces into spaces."""
        return self.document().toRawText().replace(_PARAGRAPH, "\n")

    def set_text(self, text: str) -> None:
        """Show `text` without `edited`; undo can bring the earlier text back."""
        if text == self.text():
            return
        self._silent = True
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
        self.moveCursor(QTextCursor.MoveOperation.Start)
        self._silent = False

    def _announce(self) -> None:
        if not self._silent:
            self.edited.emit()

    def _stay_at_left(self) -> None:
        # Qt counts a part of the letter after a break to the line and would scroll a wrapped text by it.
        if self.horizontalScrollBar().maximum():
            self.horizontalScrollBar().setMaximum(0)

    def _line_heights(self, most: int) -> list[float]:
        """The heights of the first lines as wrapped, as far as Qt has laid them out."""
        block, heights = self.document().begin(), list[float]()
        while block.isValid() and len(heights) < most:
            lines = block.layout()
            heights += [lines.lineAt(at).height() for at in range(min(lines.lineCount(), most))]
            block = block.next()
        return heights[:most] + [self._plain_line()] * (most - len(heights))

    def _fit_laid_out(self) -> None:
        layout, block = self.document().documentLayout(), self.document().begin()
        for _ in range(self._most + 1):
            if block.isValid():
                layout.blockBoundingRect(block)
                block = block.next()
        self._fit()

    def _plain_line(self) -> float:
        """A line without letters from another font: Qt rounds its ascent and its descent up."""
        metrics = QFontMetricsF(self.font())
        return ceil(metrics.ascent()) + ceil(metrics.descent())

    def _fit(self) -> None:
        """As high as the lines that are shown: with a pixel less, Qt would scroll the first one away."""
        count = round(self.document().size().height())
        control, plain = theme_of(self).metrics.control, self._plain_line()
        room = control - 2 * (_EDGE + _PAD) - plain
        margin = max(0.0, min(2.0, room // 2 - 1))
        if self.document().documentMargin() != margin:
            self.document().setDocumentMargin(margin)
        over = count > self._most
        bars = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(bars.ScrollBarAsNeeded if over else bars.ScrollBarAlwaysOff)
        shown = sum(self._line_heights(min(self._most, max(self._least, count))))
        height = max(control, ceil(shown - plain) + control)
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def sizeHint(self) -> QSize:
        """As high as its lines."""
        return QSize(160, self.minimumHeight())

    def minimumSizeHint(self) -> QSize:
        """Narrow enough for a side panel."""
        return QSize(64, self.minimumHeight())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave Enter to the form where text has one line."""
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        shifted = modifiers == Qt.KeyboardModifier.ShiftModifier
        plain = modifiers == Qt.KeyboardModifier.NoModifier
        if is_enter and (shifted or (plain and self.takes_lines)):
            self.textCursor().insertText("\n")
            self.ensureCursorVisible()
            return
        if is_enter:
            event.ignore()
            return
        super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Tell that the field was left; a menu that opens does not count."""
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.left.emit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll the form, unless this text has the focus and more lines than it shows."""
        if self.hasFocus() and self.verticalScrollBar().maximum() > 0:
            super().wheelEvent(event)
        else:
            event.ignore()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Wrap again, and take the height that this needs."""
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self._fit()
            self._fit_later.start()

    def changeEvent(self, event: QEvent) -> None:
        """Measure again when the density changes."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit()


class LineInput(QLineEdit):
    """One line: a number with its unit, a name, or a secret that is masked.

    Signals:
        left: the focus went away.
    """

    left = Signal()

    def __init__(self, unit: str = "", secret: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._unit = unit
        self.setFont(theme_of(self).font("mono"))
        if secret:
            self.setEchoMode(QLineEdit.EchoMode.Password)
        if unit:
            self.setTextMargins(0, 0, round(self._unit_width()) + 6, 0)

    def _unit_width(self) -> float:
        return painting.text_width(self._unit, theme_of(self), "meta")

    def sizeHint(self) -> QSize:
        """Room for a dozen digits."""
        return QSize(96, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Room for a few digits."""
        return QSize(64, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Write the unit at the right end."""
        super().paintEvent(event)
        if self._unit:
            painter = QPainter(self)
            width = self._unit_width()
            room = QRectF(self.width() - width - 9, 0, width + 2, self.height())
            painting.text(painter, room, self._unit, theme_of(self), "meta", "text3")
            painter.end()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Tell that the field was left; a menu that opens does not count."""
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.left.emit()


class ChoiceBox(QComboBox):
    """A list to choose from, which a turning wheel never changes while the form scrolls.

    With many entries it can be searched by typing any part of one.

    Signals:
        left: the focus went away.
        searched: letters were typed to find an entry.
    """

    left = Signal()
    searched = Signal(str)
    SEARCHED_FROM = 30

    def __init__(
        self, labels: list[str], notes: list[str], muted: int, parent: QWidget | None = None
    ) -> None:
        """`muted` entries at the top (`left out`) are shown as hints, not as values."""
        super().__init__(parent)
        show_combos_by_name()
        self._muted = muted
        self.setFont(theme_of(self).font("body"))
        self.addItems(labels)
        for at, note in enumerate(notes):
            if note:
                self.setItemData(at, note, Qt.ItemDataRole.ToolTipRole)
        self.setMaxVisibleItems(14)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(6)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        if len(labels) > self.SEARCHED_FROM:
            self._make_searchable()

    def _make_searchable(self) -> None:
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        search = QLineEdit(self)
        search.setProperty("bare", True)
        search.setFont(self.font())
        search.textEdited.connect(self.searched)
        self.setLineEdit(search)
        completer = QCompleter(self.model(), self)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setCompletionMode(QCompleter.CompletionMode.PopupCompletion)
        self.setCompleter(completer)

    def sizeHint(self) -> QSize:
        """As high as a control."""
        return QSize(super().sizeHint().width(), theme_of(self).metrics.control)

    def minimumSizeHint(self) -> QSize:
        """As high as a control, and narrow enough for a side panel."""
        return QSize(72, theme_of(self).metrics.control)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the form."""
        event.ignore()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Tell that the field was left; the list that opens does not count."""
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.left.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the box, the chosen words and the mark that there are more."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        failed = self.property("state") == "fail"
        edge = (
            "accent" if self.hasFocus() else "fail" if failed else "control" if self.isEnabled() else "border"
        )
        fill = theme.color("sunken") if self.isEnabled() else None
        painting.box(painter, rect, RADIUS.control, fill, theme.color(edge))
        if not self.isEditable():
            muted = self.currentIndex() < self._muted or not self.isEnabled()
            room = rect.adjusted(8, 0, -24, 0)
            words = self.currentText()
            elide = Qt.TextElideMode.ElideRight
            painting.text(painter, room, words, theme, "body", "text3" if muted else "text", elide=elide)
        mark = QRectF(rect.right() - 21, 0, 13, rect.height())
        paint_glyph(painter, mark, "chevron_down", theme.color("text2"))
        painter.end()
