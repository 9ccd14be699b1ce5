"""The top bar: brand, the field that opens the palette, operator key, profile, Stop all."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractButton, QMenu, QSizePolicy, QWidget

from app.state import AppState
from app.text import PROFILE_WORDS
from app.theme.icons import paint_icon
from app.theme.theme import theme_of
from app.theme.tokens import FRAME, RADIUS
from app.widgets import painting
from app.widgets.buttons import Button
from app.widgets.labels import set_surface
from app.widgets.layouts import STRETCH, hbox
from app.widgets.shortcut_label import paint_key_cap
from core.policy.models import Profile

PLACEHOLDER = "Find devices, tools, runs, entries, commands"


class _Brand(QWidget):
    """The ship's wheel and the name."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(FRAME.brand, FRAME.top_bar)
        self.setAccessibleName("Quarterdeck")

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = theme_of(self)
        painter = QPainter(self)
        paint_icon(painter, QRectF(14, 12, 20, 20), "brand", theme.color("accent"))
        painting.text(painter, QRectF(43, 0, 130, self.height()), "Quarterdeck", theme, "step")
        painter.end()


class SearchField(QAbstractButton):
    """Looks like a field and opens the palette, where the typing happens."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Find or do something")
        self.setAccessibleDescription("Opens the palette, Ctrl+K")
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._width = FRAME.search

    def set_compact(self, compact: bool) -> None:
        """400 wide instead of 520."""
        self._width = FRAME.search_compact if compact else FRAME.search
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        """A control's height."""
        return QSize(self._width, 28)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a field with its key caps."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        fill = theme.color("hover" if self.underMouse() else "base")
        painting.box(painter, rect, RADIUS.control, fill, theme.color("border2"))
        paint_icon(painter, QRectF(9, 6, 16, 16), "search", theme.color("text2"))
        room = rect.adjusted(34, 0, -90, 0)
        painting.text(painter, room, PLACEHOLDER, theme, "body", "text3")
        paint_key_cap(painter, QRectF(rect.right() - 28, 5, 20, 18), "K")
        paint_key_cap(painter, QRectF(rect.right() - 62, 5, 31, 18), "Ctrl")
        painter.end()


class KeyState(QAbstractButton):
    """Which operator's key is unlocked; pressing it locks or unlocks."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name, self._words = "", "no operator yet"
        self._role = "text2"
        self.setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.show_key("", False, False)

    def show_key(self, name: str, unlocked: bool, known: bool) -> None:
        """`name` is the operator, `known` whether the service knows any operator at all."""
        self._name = name
        self._words = ("unlocked" if unlocked else "locked") if name else "no operator yet"
        if known and not name:
            self._words = "key locked"
        self._role = "ok" if unlocked else "text2"
        self.setAccessibleName(f"Operator key: {self._name} {self._words}".replace("  ", " "))
        tip = "Lock the key" if unlocked else "Unlock a key" if known or name else "Make your operator key"
        self.setToolTip(tip)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Icon and words."""
        theme = theme_of(self)
        width = 8 + 16 + 7 + painting.text_width(self._words, theme, "body") + 8
        if self._name:
            width += painting.text_width(self._name, theme, "name") + 5
        return QSize(round(width), 28)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the key, the name, and whether it is unlocked."""
        theme = theme_of(self)
        painter = QPainter(self)
        rect = self.rect().toRectF()
        if self.underMouse():
            painting.box(painter, rect, RADIUS.control, theme.color("hover"))
        paint_icon(painter, QRectF(8, (rect.height() - 16) / 2, 16, 16), "key", theme.color(self._role))
        x = 31.0
        if self._name:
            room = QRectF(x, 0, rect.width(), rect.height())
            x += painting.text(painter, room, self._name, theme, "name") + 5
        painting.text(painter, QRectF(x, 0, rect.width(), rect.height()), self._words, theme, "body", "text2")
        painter.end()


class TopBar(QWidget):
    """Always whole and always on top.

    Signals:
        palette_asked: open the palette.
        profile_asked(profile): the operator chose another profile.
    """

    palette_asked = Signal()
    profile_asked = Signal(object)

    def __init__(self, state: AppState, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_surface(self, "app")
        self.setFixedHeight(FRAME.top_bar)
        self._state = state
        self.search = SearchField(self)
        self.search.clicked.connect(self.palette_asked)
        self.key = KeyState(self)
        self.profile = Button("guarded", icon="profile", menu_mark=True)
        self.profile.setToolTip("How much runs without asking")
        self.profile.clicked.connect(self._show_profiles)
        self.stop = Button("Stop all", "danger", icon="stop_all", key="Ctrl+Shift+X")
        self.stop.setObjectName("stop-all")
        hbox(
            _Brand(self),
            self.search,
            STRETCH,
            self.key,
            self.profile,
            self.stop,
            parent=self,
            margins=(0, 0, 10, 0),
            spacing=8,
        )
        state.control_changed.connect(self.show_control)
        self.show_control()

    def show_control(self) -> None:
        """Show the profile, and whether policy.toml could be read."""
        policy = self._state.policy
        self.profile.set_off("" if policy else "Not known until the service answers.")
        if policy is None:
            return
        self.profile.set_words(policy.profile.value)
        self.profile.set_icon_role("warn" if policy.problem else "")
        words = policy.problem or f"Profile {policy.profile.value}: {PROFILE_WORDS[policy.profile]}"
        self.profile.setToolTip(words)
        self.profile.setAccessibleName(f"Profile {policy.profile.value}")

    def _show_profiles(self) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setAccessibleName("Profile")
        current = self._state.policy.profile if self._state.policy else None
        for profile in Profile:
            action = menu.addAction(f"{profile.value}: {PROFILE_WORDS[profile]}")
            action.setCheckable(True)
            action.setChecked(profile is current)
            action.triggered.connect(lambda _checked=False, chosen=profile: self.profile_asked.emit(chosen))
        # popup(), not exec(): a nested loop would lose the tasks that are running.
        menu.popup(self.profile.mapToGlobal(self.profile.rect().bottomLeft()))

    def paintEvent(self, event: QPaintEvent) -> None:
        """A hairline below."""
        super().paintEvent(event)
        painter = QPainter(self)
        painter.fillRect(0, self.height() - 1, self.width(), 1, theme_of(self).color("border"))
        painter.end()
