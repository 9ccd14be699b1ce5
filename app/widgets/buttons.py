"""Buttons: primary, normal, danger, ghost; icon buttons; the segmented control; and their accessibility.

A key hint stands inside the button. A label that ends in "…" promises a question, not an act.

A button that works stays enabled in Qt's eyes, so that it keeps the focus (`focus.RetainFocusMixin`), and
Qt's own accessible interface would go on to call it so. Qt's "Toggle" only changes whether a button is
checked: the rail, a choice or a filter would then show as chosen what is not. Here it presses. In all else
these are Qt's own interfaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from PySide6.QtCore import QEvent, QObject, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleInterface,
    QAccessibleStateChangeEvent,
    QColor,
    QKeyEvent,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import (
    QAbstractButton,
    QAccessibleWidget,
    QButtonGroup,
    QCheckBox,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from app.input_origin import Stroke, stroke_of
from app.theme.icons import ICONS, paint_icon
from app.theme.shapes import paint_glyph
from app.theme.theme import Theme, theme_of
from app.theme.tokens import FRAME, RADIUS
from app.widgets import painting
from app.widgets.accessible_interfaces import install_factory
from app.widgets.focus import RetainFocusMixin
from app.widgets.input_origin import InputOriginMixin
from app.widgets.labels import escaped_tooltip
from app.widgets.layouts import hbox

Kind = Literal["primary", "normal", "danger", "ghost"]
PAD = 10
GAP = 6
OFF_OPACITY = 0.45


class Button(InputOriginMixin, RetainFocusMixin, QPushButton):
    """A push button that paints itself. Its `hand` tells who presses it, while `clicked` is emitted.

    Never Qt's default button. `app.widgets.primary_key` has Enter in a line of text press the primary button
    of a form; one with `takes_enter` off is pressed by the pointer and by its chord alone.
    """

    takes_enter = True

    def __init__(
        self,
        text: str,
        kind: Kind = "normal",
        icon: str = "",
        key: str = "",
        menu_mark: bool = False,
        large: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        """`icon` is a concept, `key` a hint such as "Ctrl+Enter", `large` the height of a decision bar."""
        super().__init__(text, parent)
        show_buttons_as_they_are()
        if icon:
            ICONS[icon]
        self._kind: Kind = kind
        self._icon, self._key = icon, key
        self._menu_mark, self._large = menu_mark, large
        self._icon_role = self._off = self._working = self._tip = ""
        self.setAutoDefault(False)
        self.setDefault(False)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)
        self._name_it()

    @property
    def kind(self) -> Kind:
        """primary, normal, danger or ghost."""
        return self._kind

    @property
    def icon_concept(self) -> str:
        """What its icon stands for; empty without one."""
        return self._icon

    @property
    def key_hint(self) -> str:
        """The key that stands in it; empty without one."""
        return self._key

    def set_kind(self, kind: Kind) -> None:
        """Change what the button looks like; Approve is normal instead of primary for Critical."""
        self._kind = kind
        self.update()

    def set_words(self, text: str, icon: str | None = None, key: str | None = None) -> None:
        """Change label, icon and key hint; what is None stays."""
        self.setText(text)
        self._icon = self._icon if icon is None else icon
        self._key = self._key if key is None else key
        self._name_it()
        self.updateGeometry()
        self.update()

    def set_icon_role(self, role: str) -> None:
        """Colour the icon by a token of its own, for icons that carry a state."""
        self._icon_role = role
        self.update()

    def set_tip(self, tip: str) -> None:
        """What it says beyond its words, while it can be pressed."""
        self._tip = tip
        self._show_off()

    def set_off(self, reason: str) -> None:
        """Disable the button and say why in its tooltip; an empty reason enables it, unless it is working."""
        if reason != self._off or self.isEnabled() == bool(reason or self._working):
            self._off = reason
            self._show_off()

    def set_working(self, words: str) -> None:
        """What it was pressed for goes on, and a second press would be one too many; empty when it has ended.

        `words` say what goes on. If the keyboard is here, it stays here, and `set_off` holds afterwards.
        """
        self._working = words
        self._show_off()

    @property
    def reason(self) -> str:
        """Why it is off; empty while it can be pressed, and while what it was pressed for goes on."""
        return "" if self._working else self._off

    @property
    def is_working(self) -> bool:
        """True from `set_working` with words to the one without."""
        return bool(self._working)

    def _show_off(self) -> None:
        why = self._working or self._off
        self.setEnabled(not why)
        self.setToolTip(escaped_tooltip(why or self._tip))
        self.setAccessibleDescription(why or self._tip)
        tell_of_change(self)

    def _name_it(self) -> None:
        self.setAccessibleName(self.text().replace("…", "").replace("...", "").strip())

    def sizeHint(self) -> QSize:
        """Wide enough for all parts; the height of a control."""
        metrics = theme_of(self).metrics
        height = metrics.decision_control if self._large else metrics.control
        return QSize(max(FRAME.hit_area, round(self._content_width() + 2 * PAD)), height)

    def minimumSizeHint(self) -> QSize:
        """Words on buttons are never cut."""
        return self.sizeHint()

    def _content_width(self) -> float:
        theme = theme_of(self)
        parts = []
        if self._icon:
            parts.append(float(FRAME.icon))
        if self.text():
            parts.append(painting.text_width(self.text(), theme, self._text_role()))
        if self._key:
            parts.append(painting.text_width(self._key, theme, "hint") + 4)
        if self._menu_mark:
            parts.append(14.0)
        return sum(parts) + GAP * max(0, len(parts) - 1)

    def _text_role(self) -> str:
        return "head" if self._kind == "primary" else "name"

    def _ink(self) -> str:
        if not self.isEnabled():
            return "text3"
        return {"primary": "on_accent", "danger": "fail"}.get(self._kind, "text")

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw box, icon, words, key hint and menu mark, as one group in the middle."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        self._paint_box(painter, rect, theme)
        x = rect.x() + (rect.width() - self._content_width()) / 2
        ink = self._ink()
        if self._icon:
            role = self._icon_role if self._icon_role and self.isEnabled() else ink
            paint_icon(painter, QRectF(x, 0, FRAME.icon, rect.height()), self._icon, theme.color(role))
            x += FRAME.icon + GAP
        if self.text():
            room = QRectF(x, 0, rect.width() - x, rect.height())
            x += painting.text(painter, room, self.text(), theme, self._text_role(), ink) + GAP
        if self._key:
            room = QRectF(x + 4, 0, rect.width() - x, rect.height())
            hint = ink if self._kind in ("primary", "danger") or not self.isEnabled() else "text2"
            x += painting.text(painter, room, self._key, theme, "hint", hint) + 4 + GAP
        if self._menu_mark:
            paint_glyph(painter, QRectF(x, 0, 14, rect.height()), "chevron_down", theme.color(ink))
        painter.end()

    def _paint_box(self, painter: QPainter, rect: QRectF, theme: Theme) -> None:
        hot = self.isEnabled() and (self.underMouse() or self.isDown())
        fill: QColor | None = None
        edge: QColor | None = None
        if not self.isEnabled():
            edge = None if self._kind == "ghost" else theme.color("border")
        elif self.isCheckable() and self.isChecked():
            fill, edge = theme.color("selected"), theme.color("accent")
        elif self._kind == "primary":
            fill = theme.color("accent_hover" if hot else "accent_fill")
        elif self._kind == "normal":
            fill, edge = theme.color("hover" if hot else "raised"), theme.color("border2")
        elif self._kind == "danger":
            fill, edge = theme.color("fail_tint") if hot else None, theme.color("fail")
        elif hot:
            fill = theme.color("hover")
        if self.isEnabled() and self.isDown() and self._kind in ("normal", "ghost"):
            fill = theme.color("selected")
        painting.box(painter, rect, RADIUS.control, fill, edge)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter presses the button that has the focus, as Space does; held keys press once."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if not event.isAutoRepeat():
                with self.made_by((stroke_of(event),)):
                    self.click()
            return
        super().keyPressEvent(event)

    def press_by(self, strokes: tuple[Stroke, ...]) -> None:
        """Press it by a key that something else was given: Enter in a form is a press of its button."""
        with self.made_by(strokes):
            self.click()


class IconButton(RetainFocusMixin, QAbstractButton):
    """An icon without a word; its name is the tooltip and what assistive technology reads."""

    def __init__(
        self,
        icon: str,
        name: str,
        role: str = "text2",
        framed: bool = False,
        key: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        ICONS[icon]
        self._icon, self._role, self._framed = icon, role, framed
        self._key, self._off = key, ""
        self.set_name(name)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def set_icon(self, icon: str, name: str | None = None) -> None:
        """Change the picture, and the name with it when the meaning changes."""
        ICONS[icon]
        self._icon = icon
        if name is not None:
            self.set_name(name)
        self.update()

    @property
    def key_hint(self) -> str:
        """The key that its tooltip names; empty without one."""
        return self._key

    def set_name(self, name: str) -> None:
        """Name it, for the tooltip and for assistive technology."""
        self.setAccessibleName(name)
        words = f"{name} ({self._key})" if self._key else name
        self.setToolTip(escaped_tooltip(self._off or words))

    def set_off(self, reason: str) -> None:
        """Disable the button and say why in its tooltip; an empty reason enables it."""
        if reason != self._off or self.isEnabled() == bool(reason):
            self._off = reason
            self.setEnabled(not reason)
            self.setAccessibleDescription(reason)
            self.set_name(self.accessibleName())
            tell_of_change(self)

    def sizeHint(self) -> QSize:
        """A square as high as a control."""
        side = theme_of(self).metrics.control
        return QSize(side, side)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter presses, as Space does."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.isAutoRepeat():
            self.click()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the icon; a box when framed, hovered or switched on."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        hot = self.isEnabled() and (self.underMouse() or self.isDown())
        on = self.isCheckable() and self.isChecked()
        fill = theme.color("selected" if on else "hover") if on or hot else None
        if self._framed and fill is None and self.isEnabled():
            fill = theme.color("raised")
        edge = theme.color("border2" if self.isEnabled() else "border") if self._framed else None
        painting.box(painter, rect, RADIUS.control, fill, edge)
        # By its color alone, an icon that is off looks like a quiet one: both must be told from the ground.
        painter.setOpacity(1.0 if self.isEnabled() else OFF_OPACITY)
        role = self._role if self.isEnabled() else "text3"
        side = FRAME.icon
        place = QRectF((rect.width() - side) / 2, (rect.height() - side) / 2, side, side)
        paint_icon(painter, place, self._icon, theme.color(role))
        painter.end()


class _Segment(QAbstractButton):
    """One part of a segmented control."""

    def __init__(self, text: str, icon: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setText(text)
        self.setAccessibleName(text)
        self.icon_concept = icon
        self.first = self.last = False
        self.setCheckable(True)
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        theme = theme_of(self)
        width = painting.text_width(self.text(), theme, "name") + 2 * PAD
        if self.icon_concept:
            width += FRAME.icon + GAP
        group = self.parentWidget()
        return QSize(round(width), group.part_height() if isinstance(group, Segmented) else 28)

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = theme_of(self)
        painter = QPainter(self)
        whole = self.rect().toRectF()
        # Inner ends reach beyond the clip, so that only the group's outer corners are round.
        box = whole.adjusted(0 if self.first else -9, 0, 0 if self.last else 10, 0)
        hot = self.isEnabled() and self.underMouse()
        fill = "selected" if self.isChecked() else "hover" if hot else "raised"
        edge = theme.color("border2" if self.isEnabled() else "border")
        painting.box(painter, box, RADIUS.control, theme.color(fill), edge)
        if not self.last:
            painter.fillRect(QRectF(whole.right() - 1, 0, 1, whole.height()), edge)
        x = float(PAD)
        ink = "text3" if not self.isEnabled() else "text" if self.isChecked() else "text2"
        if self.icon_concept:
            paint_icon(painter, QRectF(x, 0, FRAME.icon, whole.height()), self.icon_concept, theme.color(ink))
            x += FRAME.icon + GAP
        painting.text(painter, QRectF(x, 0, whole.width(), whole.height()), self.text(), theme, "name", ink)
        painter.end()


class Segmented(QWidget):
    """A few choices side by side, one of them chosen; arrow keys move the choice.

    Signals:
        chosen: the operator chose the part with this key.
    """

    chosen = Signal(str)

    def __init__(
        self,
        parts: Sequence[tuple[str, str] | tuple[str, str, str]],
        name: str,
        in_bar: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        """`parts` are (key, words) or (key, words, icon concept); `name` is what the choice is about."""
        super().__init__(parent)
        self._in_bar = in_bar
        self._keys = [part[0] for part in parts]
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        layout = hbox(parent=self)
        self._group = QButtonGroup(self)
        self._group.setExclusive(True)
        for number, part in enumerate(parts):
            button = _Segment(part[1], part[2] if len(part) > 2 else "", self)
            button.first, button.last = number == 0, number == len(parts) - 1
            self._group.addButton(button, number)
            layout.addWidget(button)
        if parts:
            self._group.button(0).setChecked(True)
        self._group.idClicked.connect(self._clicked)

    def part_height(self) -> int:
        """24 in a bar, else a control's height."""
        metrics = theme_of(self).metrics
        return metrics.bar_segment if self._in_bar else metrics.control

    def _clicked(self, number: int) -> None:
        self.chosen.emit(self._keys[number])

    def current(self) -> str:
        """The key of the chosen part."""
        return self._keys[self._group.checkedId()]

    def choose(self, key: str) -> None:
        """Show `key` as chosen without emitting.

        Raises:
            ValueError: no part has this key.
        """
        self._group.button(self._keys.index(key)).setChecked(True)

    def set_words(self, key: str, words: str) -> None:
        """Change a part's words, for counts in them.

        Raises:
            ValueError: no part has this key.
        """
        button = self._group.button(self._keys.index(key))
        button.setText(words)
        button.setAccessibleName(words)
        button.updateGeometry()

    def set_part_enabled(self, key: str, enabled: bool, reason: str = "") -> None:
        """Enable or disable one part; the reason becomes its tooltip."""
        button = self._group.button(self._keys.index(key))
        button.setEnabled(enabled)
        button.setToolTip(escaped_tooltip(reason))

    def set_off(self, reason: str) -> None:
        """Disable all parts and say why; an empty reason enables them."""
        for key in self._keys:
            self.set_part_enabled(key, not reason, reason)

    def set_part_shown(self, key: str, shown: bool) -> None:
        """Show or hide one part; the ends of what is left are round.

        Raises:
            ValueError: no part has this key.
        """
        self._group.button(self._keys.index(key)).setVisible(shown)
        left = [part for part in self._group.buttons() if isinstance(part, _Segment) and not part.isHidden()]
        for part in left:
            part.first, part.last = part is left[0], part is left[-1]
            part.update()

    def changeEvent(self, event: QEvent) -> None:
        """Measure the parts again when the density changes."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            for button in self._group.buttons():
                button.updateGeometry()


PRESS, TOGGLE = "Press", "Toggle"
_PROPERTY = "quarterdeck_button_access"


class PressInterface(QAccessibleWidget):
    """A button of this program as assistive technology sees it: each of its own actions is a press."""

    def __init__(self, button: QAbstractButton, role: QAccessible.Role = QAccessible.Role.CheckBox) -> None:
        super().__init__(button, role, "")

    @property
    def _button(self) -> QAbstractButton:
        return cast(QAbstractButton, self.object())

    def state(self) -> QAccessible.State:
        """Qt's own, and what the button says of itself."""
        state, button = super().state(), self._button
        state.checkable, state.checked = button.isCheckable(), button.isChecked()
        state.pressed = button.isDown()
        state.disabled = not button.isEnabled()
        return state

    def text(self, which: QAccessible.Text) -> str:
        """Its name is its label, where it has no other."""
        return super().text(which) or (self._button.text() if which == QAccessible.Text.Name else "")

    def actionNames(self) -> list[str]:
        """It can be pressed, unless it is off or works."""
        own = self._presses() if self._button.isEnabled() else ()
        return [*own, *super().actionNames()]

    def _presses(self) -> tuple[str, ...]:
        return TOGGLE, PRESS

    def doAction(self, name: str) -> None:
        """Press it, or do what any widget can be told to."""
        if name not in (PRESS, TOGGLE):
            super().doAction(name)
        elif self._button.isEnabled():
            self._button.click()


class ButtonInterface(PressInterface):
    """A push button: busy while it works."""

    def __init__(self, button: Button) -> None:
        super().__init__(button, QAccessible.Role.Button)

    def state(self) -> QAccessible.State:
        """As for any, and whether it works."""
        state = super().state()
        state.busy = cast("Button", self.object()).is_working
        return state

    def _presses(self) -> tuple[str, ...]:
        return (TOGGLE if self._button.isCheckable() else PRESS,)


def _interface_of(thing: QObject) -> QAccessibleInterface | None:
    # Buttons say when they work, and this says what a button is: one of the two has to be looked up late.
    from app.widgets.buttons import Button

    if isinstance(thing, Button):
        return ButtonInterface(thing)
    if isinstance(thing, QAbstractButton) and thing.isCheckable() and not isinstance(thing, QCheckBox):
        return PressInterface(thing)
    return None


def show_buttons_as_they_are() -> None:
    """Give assistive technology this view of buttons; once for an application."""
    install_factory(_PROPERTY, _interface_of)


def tell_of_change(button: QObject) -> None:
    """A button is off or works, or no longer."""
    if QAccessible.isActive():
        changed = QAccessible.State()
        changed.disabled = changed.busy = True
        QAccessible.updateAccessibility(QAccessibleStateChangeEvent(button, changed))
