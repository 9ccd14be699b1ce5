"""Text fields with label and help, fields for passphrases, the search field, the drop-down, the check box."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QInputMethodEvent, QKeyEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QLineEdit,
    QSizePolicy,
    QWidget,
)

from app.theme.icons import ICONS, paint_icon
from app.theme.shapes import paint_glyph
from app.theme.theme import theme_of
from app.theme.tokens import FRAME, RADIUS, SPACE
from app.widgets import painting
from app.widgets.accessible_combo import show_combos_by_name
from app.widgets.buttons import IconButton
from app.widgets.input_origin import InputOriginMixin
from app.widgets.labels import Label
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.shortcut_label import ShortcutLabel
from app.widgets.util import set_visible


def mark_failed(widget: QWidget, failed: bool) -> None:
    """Give an input the failed edge, or take it away."""
    state = "fail" if failed else ""
    if (widget.property("state") or "") != state:
        widget.setProperty("state", state)
        widget.style().unpolish(widget)
        widget.style().polish(widget)


class TextField(InputOriginMixin, QLineEdit):
    """One line of text; `mono` for what a machine will read. `hand` tells who presses Enter in it."""

    def __init__(
        self, name: str, placeholder: str = "", mono: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setFont(theme_of(self).font("mono" if mono else "body"))
        self.setAccessibleName(name)
        self.setPlaceholderText(placeholder)


class Field(QWidget):
    """An input with its label above, and help or an error below.

    The error says what to do; it is coloured, has a shape, and is read as the input's description.
    """

    def __init__(
        self,
        label: str,
        control: QWidget,
        required: bool = False,
        help_text: str = "",
        mono_label: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.control = control
        self._help, self._error = help_text, ""
        self.label = Label(label, "name")
        if mono_label:
            self.label.setFont(theme_of(self).font("mono_small"))
        self.label.setBuddy(control)
        self._required = Label("required", "meta", "text3")
        set_visible(self._required, required)
        head = hbox(self.label, self._required, STRETCH, spacing=SPACE.tight)
        self._message = _Message()
        vbox(head, control, self._message, parent=self, spacing=SPACE.tight)
        if not control.accessibleName():
            control.setAccessibleName(label)
        self._show_message()

    @property
    def error(self) -> str:
        """The error shown; empty when the value is fine."""
        return self._error

    def set_help(self, text: str) -> None:
        """Change the help line, shown while there is no error."""
        self._help = text
        self._show_message()

    def set_error(self, text: str) -> None:
        """Show what is wrong and what to do; empty takes it away."""
        self._error = text
        mark_failed(self.control, bool(text))
        self._show_message()

    def _show_message(self) -> None:
        self._message.say(self._error or self._help, failed=bool(self._error))
        self.control.setAccessibleDescription(self._error or self._help)


class _Message(QWidget):
    """The line below an input; an error has a shape before it."""

    def __init__(self) -> None:
        super().__init__()
        self._failed = False
        self._words = Label("", "meta", "text3", wrap=True)
        self._row = hbox((self._words, 1), parent=self, spacing=None)

    def say(self, words: str, failed: bool) -> None:
        self._failed = failed
        self._words.setText(words)
        self._words.set_tone("fail" if failed else "text3")
        self._row.setContentsMargins(18 if failed else 0, 0, 0, 0)
        self.setVisible(bool(words))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._failed:
            theme = theme_of(self)
            painter = QPainter(self)
            paint_glyph(painter, QRectF(0, 2, 13, 13), "cross_octagon", theme.color("fail"))
            painter.end()


class SearchField(QLineEdit):
    """A field with a looking glass or funnel, a key hint while it is empty, and a way to clear it.

    Signals:
        down_pressed: the operator wants to go on into the results.
    """

    down_pressed = Signal()

    def __init__(
        self,
        name: str,
        placeholder: str = "",
        icon: str = "search",
        keys: str = "",
        mono: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        ICONS[icon]
        self._icon = icon
        self.setFont(theme_of(self).font("mono" if mono else "body"))
        self.setAccessibleName(name)
        self.setPlaceholderText(placeholder)
        self._hint = ShortcutLabel(keys, parent=self) if keys else None
        self._clear = IconButton("clear", "Clear", parent=self)
        self._clear.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._clear.hide()
        self._clear.clicked.connect(self.clear)
        self.textChanged.connect(lambda *_: self._place())
        self._place()

    def _place(self) -> None:
        filled = bool(self.text())
        self._clear.setVisible(filled)
        right = 24
        if self._hint is not None:
            self._hint.setVisible(not filled)
            size = self._hint.sizeHint()
            if not filled:
                right = size.width() + 4
            left = self.width() - size.width() - 4
            self._hint.setGeometry(left, (self.height() - size.height()) // 2, size.width(), size.height())
        self._clear.setGeometry(self.width() - 26, (self.height() - 24) // 2, 24, 24)
        self.setTextMargins(FRAME.icon + 8, 0, right, 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep hint and cross at the right end."""
        super().resizeEvent(event)
        self._place()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc clears first and leaves the field to others when it is empty; Down goes to the results."""
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            return
        if event.key() == Qt.Key.Key_Down:
            self.down_pressed.emit()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the field, then the icon."""
        super().paintEvent(event)
        painter = QPainter(self)
        role = "text2" if self.isEnabled() else "text3"
        place = QRectF(9, (self.height() - FRAME.icon) / 2, FRAME.icon, FRAME.icon)
        paint_icon(painter, place, self._icon, theme_of(self).color(role))
        painter.end()


class DropDown(QComboBox):
    """A choice of words. The wheel over a closed one scrolls the pane: nothing changes by accident."""

    def __init__(self, name: str, ghost: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        show_combos_by_name()
        self._ghost = ghost
        self.setAccessibleName(name)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the pane."""
        event.ignore()

    def _widest(self) -> float:
        theme = theme_of(self)
        words = [self.itemText(number) for number in range(self.count())] + [self.placeholderText()]
        return max((painting.text_width(word, theme, "name") for word in words), default=0.0)

    def sizeHint(self) -> QSize:
        """As wide as the widest choice."""
        return QSize(round(self._widest()) + 20 + 14 + 10, theme_of(self).metrics.control)

    def minimumSizeHint(self) -> QSize:
        """May be narrower than its widest choice."""
        return QSize(min(64, self.sizeHint().width()), theme_of(self).metrics.control)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw box, choice and chevron."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        hot = self.isEnabled() and self.underMouse()
        fill = theme.color("hover") if hot else None if self._ghost else theme.color("sunken")
        failed = self.property("state") == "fail"
        edge_role = "border" if not self.isEnabled() else "fail" if failed else "control"
        edge = None if self._ghost else theme.color(edge_role)
        painting.box(painter, rect, RADIUS.control, fill if self.isEnabled() else None, edge)
        words = self.currentText()
        ink = "text" if words and self.isEnabled() else "text3"
        room = rect.adjusted(8, 0, -24, 0)
        painting.text(painter, room, words or self.placeholderText(), theme, "body", ink)
        mark = QRectF(rect.right() - 21, 0, 13, rect.height())
        paint_glyph(painter, mark, "chevron_down", theme.color("text2" if self.isEnabled() else "text3"))
        painter.end()


class CheckBox(QCheckBox):
    """A box to tick, painted: 16 px, its edge told apart on every surface."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self.setAccessibleName(text)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)

    def sizeHint(self) -> QSize:
        """Box and words, at least as high as the least hit area."""
        width = 16 + (8 + round(painting.text_width(self.text(), theme_of(self))) + 2 if self.text() else 8)
        return QSize(width, FRAME.hit_area)

    def minimumSizeHint(self) -> QSize:
        """Words are not cut."""
        return self.sizeHint()

    def hitButton(self, pos: object) -> bool:
        """The words can be pressed, too."""
        return True

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw box, check and words."""
        theme = theme_of(self)
        painter = QPainter(self)
        place = QRectF(0, (self.height() - 16) / 2, 16, 16)
        state = self.checkState()
        on = state != Qt.CheckState.Unchecked
        if not self.isEnabled():
            painting.box(painter, place, 4, None, theme.color("border2"))
            mark = "text3"
        elif on:
            painting.box(painter, place, 4, theme.color("accent_fill"))
            mark = "on_accent"
        else:
            painting.box(painter, place, 4, theme.color("sunken"), theme.color("control"))
            mark = "text"
        if on:
            glyph = "minus" if state == Qt.CheckState.PartiallyChecked else "check"
            paint_glyph(painter, place.adjusted(2.5, 2.5, -2.5, -2.5), glyph, theme.color(mark))
        room = QRectF(24, 0, self.width() - 24, self.height())
        painting.text(painter, room, self.text(), theme, "body", "text" if self.isEnabled() else "text3")
        painter.end()


class TypedField(TextField):
    """Takes what keys write or paste. Text that a program sets through accessibility is taken out again.

    Signals:
        was_set: a program set the text, and it is empty now.
    """

    was_set = Signal()

    def __init__(
        self, name: str, placeholder: str = "", mono: bool = False, parent: QWidget | None = None
    ) -> None:
        super().__init__(name, placeholder, mono, parent)
        self._composes = self._sets = False
        # "Paste" in a menu, and a drop, change the text without a key.
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.setAcceptDrops(False)
        # Connected first, so that every other slot reads the field after the text was taken out.
        self.textChanged.connect(lambda *_: self._changed())

    def setText(self, text: str | None) -> None:
        """Show a text of this window's own; accessibility goes past this method."""
        self._sets = True
        super().setText(text)
        self._sets = False

    def clear(self) -> None:
        """Take the text out."""
        self.setText("")

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """What an input method composes of keys is typed as well."""
        self._composes = True
        super().inputMethodEvent(event)
        self._composes = False

    def _changed(self) -> None:
        if not (self.strokes or self._composes or self._sets):
            self.clear()
            self.was_set.emit()
