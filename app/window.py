"""The main window: top bar, navigation, one screen at a time, status bar, and the keys that hold everywhere.

It composes; what it shows comes from `AppState`, what it wants goes through `ConsoleLink`. Closing only asks:
`close_asked` is answered by `app.shell.close_guard`, and the end itself is `app.main`'s.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QMargins, QObject, QPoint, QRect, QSettings, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAction,
    QCloseEvent,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
    QShortcut,
    QWindow,
)
from PySide6.QtWidgets import QApplication, QStackedWidget, QWidget

from app.input_origin import InputSource
from app.screens.screen import Screen
from app.screens.targets import Target
from app.service_client import ConsoleLink
from app.shell.actions import WindowActions
from app.shell.identity import Identity
from app.shell.message_bars import MessageBars
from app.shell.navigation_bar import NavigationBar
from app.shell.screen_registry import SCREENS, ScreenEntry
from app.shell.session_controller import SessionController
from app.shell.shell_window import ShellWindow
from app.shell.status_bar import StatusBar
from app.shell.top_bar import TopBar
from app.shell.typing_filter import TypingFilter
from app.signing.change_signing import ChangeSigning
from app.signing.press_guard import PressGuard
from app.signing.signing_session import SigningSession
from app.state import AppState
from app.theme.theme import theme_of
from app.theme.tokens import FRAME, Density
from app.widgets.action_buttons import trigger_by
from app.widgets.dialog import Overlay
from app.widgets.focus import FocusFrame, FocusRestorer
from app.widgets.labels import set_surface
from app.widgets.layouts import hbox, vbox
from core.errors import QuarterdeckError
from core.policy.models import Profile

USUAL_SIZE = QSize(1440, 900)


class MainWindow(ShellWindow):
    """The window of one home; it is the `Navigator` of its screens.

    Signals:
        close_asked: the operator wants to leave; nothing has been closed yet.
        screen_changed(name): another screen came to the front.
    """

    close_asked = Signal()
    screen_changed = Signal(str)

    def __init__(
        self,
        state: AppState,
        link: ConsoleLink,
        keys: SigningSession,
        layout_store: QSettings,
        input_source: InputSource,
        screens: tuple[ScreenEntry, ...] = SCREENS,
    ) -> None:
        """`input_source` tells by whom presses are made; `app.input_origin` looks for it here."""
        super().__init__()
        self.input_source = input_source
        self._by_hand = PressGuard(link, keys, self)
        self._state, self._link, self._keys, self._store = state, link, keys, layout_store
        self._entries = {entry.name: entry for entry in screens}
        self._made: dict[str, Screen] = {}
        self._current = ""
        self._may_close = False
        self._was_active = False
        self._compact: tuple[bool, bool] | None = None
        self._nav_wanted: bool | None = None
        self._first_size: QSize | None = None
        self.setWindowTitle("Quarterdeck")
        self.setMinimumSize(FRAME.least_width, FRAME.least_height)
        self._build(screens)
        self._signing = ChangeSigning(self, state, link, keys, self._by_hand)
        self.identity = Identity(state, link, keys, self)
        self.control = SessionController(self, state, link, keys, self._signing, self.notices)
        self.commands = WindowActions(self, state, link, keys, self.control, screens)
        self._connect()
        self._bind_keys()
        self._restore_geometry()
        theme_of(self).dress(self)

    def _build(self, screens: tuple[ScreenEntry, ...]) -> None:
        self.top_bar = TopBar(self._state)
        self.notices = MessageBars()
        self.navigation = NavigationBar(screens)
        self.stack = QStackedWidget()
        self.status_bar = StatusBar(self._state)
        self._focus_frame = FocusFrame(self)
        self._keyboard_keeper = FocusRestorer(self)
        self._typing = TypingFilter(self)
        middle = hbox(self.navigation, (self.stack, 1))
        whole = QWidget()
        set_surface(whole, "app")
        vbox(self.top_bar, self.notices, (middle, 1), self.status_bar, parent=whole)
        self.setCentralWidget(whole)

    def _connect(self) -> None:
        self.navigation.chosen.connect(self.open)
        self.top_bar.palette_asked.connect(self._open_palette)
        self.top_bar.profile_asked.connect(self.control.choose_profile)
        for button, action in (
            (self.top_bar.key, self.commands.key),
            (self.top_bar.stop, self.commands.stop),
            (self.status_bar.lost, self.commands.attach),
        ):
            trigger_by(button, action)
        self.status_bar.opened.connect(self.open)
        self._link.failed.connect(self._say_wish_failed)
        self._state.approvals_changed.connect(self._show_waiting)
        self._state.control_changed.connect(self._show_key)
        self._keys.changed.connect(self._show_key)
        self._show_key()
        _application().focusWindowChanged.connect(self._watch_other_window)
        self._keyboard_lost = QTimer(self)
        self._keyboard_lost.setSingleShot(True)
        self._keyboard_lost.setInterval(0)
        self._keyboard_lost.timeout.connect(self._find_keyboard_a_place)
        _application().focusChanged.connect(self._look_after_keyboard)

    def _bind_keys(self) -> None:
        # The other keys that hold everywhere are those of `commands`.
        self._key("Ctrl+K", self._open_palette)
        self._key("F6", lambda: self._next_pane(1))
        self._key("Shift+F6", lambda: self._next_pane(-1))
        self._key("Esc", self._escape)

    def _key(self, keys: str, act: Callable[[], object]) -> None:
        shortcut = QShortcut(QKeySequence(keys), self)
        shortcut.setAutoRepeat(False)
        shortcut.activated.connect(act)

    def _watch_other_window(self, focused: QWindow | None) -> None:
        # Our shortcut sleeps while a dialog or a menu of this program has the keyboard; Stop all must not.
        if focused is not None and focused is not self.windowHandle():
            focused.removeEventFilter(self)
            focused.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stop all acts also while a dialog or a menu has the keyboard."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            chord = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
            if event.key() == Qt.Key.Key_X and event.modifiers() == chord:
                if not event.isAutoRepeat():
                    self.commands.stop.trigger()
                return True
        return super().eventFilter(watched, event)

    # What screens may ask for

    @property
    def keys(self) -> SigningSession:
        """The operator's keys."""
        return self._keys

    @property
    def signing(self) -> ChangeSigning:
        """Has what loosens signed."""
        return self._signing

    @property
    def by_hand(self) -> PressGuard:
        """Whether a press counts."""
        return self._by_hand

    @property
    def layout_store(self) -> QSettings:
        """`window.ini` of this home."""
        return self._store

    @property
    def screen_names(self) -> list[str]:
        """The screens in the order of the navigation."""
        return list(self._entries)

    @property
    def current(self) -> Screen:
        """The screen in front."""
        return self._made[self._current]

    def screen_actions(self) -> list[QAction]:
        """What the screen in front can do; nothing before there is one."""
        return self._made[self._current].actions() if self._current in self._made else []

    def open(self, screen: str, target: Target | None = None) -> None:
        """Bring a screen to the front and let it show `target`; what covers the window gives way."""
        for cover in self._covers():
            cover.dismiss()
        if screen != self._current and self._current:
            leaving = self._made[self._current]
            leaving.leave()
            leaving.save_layout()
        shown = self._made.get(screen) or self._make(screen)
        self._current = screen
        self.stack.setCurrentWidget(shown)
        self.navigation.show_current(screen)
        self._store.setValue("window/screen", screen)
        shown.enter(target)
        self._take_keyboard(shown)
        self.screen_changed.emit(screen)

    def _take_keyboard(self, shown: Screen) -> None:
        """The keys of a screen work once it is opened, also when a pointer opened it.

        A question that the screen opened at once has the keyboard already, and keeps it.
        """
        focus = QApplication.focusWidget()
        covers = self._covers()
        inside = focus is not None and any(one.isAncestorOf(focus) for one in (*covers, shown))
        if not self.isActiveWindow() or (inside and focus is not None and focus.isVisible()):
            return
        if covers:
            covers[-1].take_keyboard()
            return
        home = shown.home_of_keyboard()
        if home is shown:
            shown.setFocus(Qt.FocusReason.OtherFocusReason)
            return
        for pane in (*((home,) if home is not None else ()), *shown.panes(), shown):
            if pane.isVisible() and (inner := _place_for_keyboard(pane)) is not None:
                # Not as by Tab: no ring is drawn for a place that was not walked to.
                inner.setFocus(Qt.FocusReason.OtherFocusReason)
                return
        # It is still being read: the keyboard waits with it, and not in the field for searching.
        shown.setFocus(Qt.FocusReason.OtherFocusReason)

    def changeEvent(self, event: QEvent) -> None:
        """The first time that the window is active, its screen gets the keyboard: it was opened before."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange:
            self._look_after_keyboard(None, QApplication.focusWidget())
        if event.type() == QEvent.Type.ActivationChange and (handle := self.windowHandle()) is not None:
            self.fit_frame(handle.frameMargins())
        first = event.type() == QEvent.Type.ActivationChange and not self._was_active
        if first and self.isActiveWindow() and self._current:
            self._was_active = True
            self._take_keyboard(self.current)

    def _look_after_keyboard(self, _before: QWidget | None, focus: QWidget | None) -> None:
        # Not at once: what had the keyboard may only be on its way to another place.
        if focus is None and self.isActiveWindow():
            self._keyboard_lost.start()
        elif focus is not None and self.stack.isAncestorOf(focus) and (covers := self._covers()):
            # Something behind a question asked for it; what is typed is meant for the question.
            covers[-1].take_keyboard()

    def _find_keyboard_a_place(self) -> None:
        """What had the keyboard is gone, and nothing took it: the screen, or the question over it, does."""
        if self._current and QApplication.focusWidget() is None and QApplication.activePopupWidget() is None:
            self._take_keyboard(self.current)

    def focusNextPrevChild(self, forward: bool) -> bool:
        """Tab goes on; what is hidden or switched off under the keyboard gets it back instead."""
        return self._keyboard_keeper.hold() or super().focusNextPrevChild(forward)

    def toast(self, text: str) -> None:
        """Say that something is done."""
        self.status_bar.toast.say(text)

    def fail(self, what: str, detail: str) -> None:
        """Show the window's fail banner, with the details to copy."""
        self.notices.fail(what, detail)

    def choose_profile(self, profile: Profile) -> None:
        """Set the profile; one under which more runs is signed first."""
        self.control.choose_profile(profile)

    def accept_changes(self) -> None:
        """Look at what another program changed in this home's files, and accept it signed."""
        self.control.start_accept()

    def start_unlock(self) -> None:
        """Ask the operator to unlock a key, or to make one."""
        self.control.start_unlock()

    def _make(self, name: str) -> Screen:
        screen = self._entries[name].make()
        self.stack.addWidget(screen)
        self._made[name] = screen
        screen.bind(self._state, self._link, self)
        screen.set_compact(*(self._compact or (False, False)))
        return screen

    # Keys that hold everywhere

    def open_palette(self, query: str = "") -> None:
        """Open the palette; it finds and opens, and never sends."""
        from app.shell.command_palette import CommandPalette  # with rapidfuzz, so not at start-up

        CommandPalette.open_in(self, self, self._state, self._link, query)

    def _open_palette(self) -> None:
        # A signal's own argument must not become the query.
        self.open_palette()

    def toggle_nav(self) -> None:
        """Make the navigation narrow or wide, whatever the window's width asks for."""
        self._nav_wanted = not self.navigation.narrow
        self.navigation.set_narrow(self._nav_wanted)
        self._store.setValue("window/nav_narrow", self._nav_wanted)

    def focus_filter(self) -> None:
        """Put the keyboard into the filter of the screen in front."""
        field = None if self._covers() else self.current.primary_filter()
        if field is not None:
            field.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _next_pane(self, step: int) -> None:
        panes = [
            self.navigation,
            *(pane for pane in self.current.panes() if pane.isVisible()),
            self.status_bar,
        ]
        focus = QApplication.focusWidget()
        at = next(
            (i for i, pane in enumerate(panes) if focus and (pane is focus or pane.isAncestorOf(focus))), 0
        )
        pane = panes[(at + step) % len(panes)]
        inner = _place_for_keyboard(pane)
        if inner is not None:
            inner.setFocus(Qt.FocusReason.TabFocusReason)

    def _covers(self) -> list[Overlay]:
        direct = Qt.FindChildOption.FindDirectChildrenOnly
        return [one for one in self.findChildren(Overlay, options=direct) if one.isVisible()]

    def _escape(self) -> None:
        covers = self._covers()
        if covers:
            covers[-1].dismissed.emit()
        elif not self.current.escape():
            self.notices.dismiss_newest()

    def show_keys(self) -> None:
        """List the keys of the screen in front, and those that hold everywhere."""
        from app.shell.shortcuts_dialog import ShortcutsDialog

        ShortcutsDialog(self, self.current.title, self.current.listed_keys).open()

    # State

    def _show_waiting(self) -> None:
        count = len(self._state.approvals)
        self.navigation.set_count("approvals", count)
        # The count in the title is what a task bar shows; the window is never raised for it.
        self.setWindowTitle(f"({count}) Quarterdeck" if count else "Quarterdeck")

    def _show_key(self) -> None:
        name = self._keys.unlocked
        self.top_bar.key.show_key(
            name or self._keys.only_name, name is not None, bool(self._state.operators or self._keys.listed)
        )

    def _say_wish_failed(self, what: str, error: QuarterdeckError) -> None:
        self.notices.fail(f"Could not {what}. {error.message}", error.info.next)

    # Size and end

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Compact below 1360 wide or 800 high."""
        super().resizeEvent(event)
        compact = (self.width() < FRAME.compact_width, self.height() < FRAME.compact_height)
        if compact == self._compact:
            return
        self._compact = compact
        narrow, low = compact
        self.navigation.set_narrow(narrow if self._nav_wanted is None else self._nav_wanted)
        self.top_bar.search.set_compact(narrow)
        self.apply_density()
        for screen in self._made.values():
            screen.set_compact(narrow, low)

    def apply_density(self) -> None:
        """Compact rows where the operator chose them, and always while the window is low."""
        chosen = str(self._store.value("appearance/density", "comfortable"))
        low = self._compact is not None and self._compact[1]
        density: Density = "compact" if low or chosen == "compact" else "comfortable"
        theme_of(self).set_density(density)

    def _restore_geometry(self) -> None:
        kept = self._store.value("window/geometry")
        if kept is None or not self.restoreGeometry(kept):
            room = QGuiApplication.primaryScreen().availableGeometry()
            self.resize(fitted(USUAL_SIZE, room, QMargins()).size())
            self._first_size = self.size()
        if self._store.contains("window/nav_narrow"):
            self._nav_wanted = str(self._store.value("window/nav_narrow")).lower() == "true"

    def fit_frame(self, frame: QMargins) -> None:
        """Keep title bar and edges on the screen, too; how large they are is known once it is shown.

        Only of the size that the window gave itself: another one is the operator's.
        """
        if self.size() == self._first_size and not frame.isNull():
            self._first_size = None
            self.setGeometry(fitted(self.geometry(), self.screen().availableGeometry(), frame))

    def save_layout(self) -> None:
        """Remember geometry and every screen's splitters and columns."""
        self._store.setValue("window/geometry", self.saveGeometry())
        for screen in self._made.values():
            screen.save_layout()
        self._store.sync()

    def allow_close(self) -> None:
        """The next close event closes."""
        self._may_close = True

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask instead of closing, until the operator has answered."""
        if self._may_close:
            if self._current:
                self.current.leave()
            self.save_layout()
            _application().focusWindowChanged.disconnect(self._watch_other_window)
            _application().focusChanged.disconnect(self._look_after_keyboard)
            self._keyboard_lost.stop()
            event.accept()
        else:
            event.ignore()
            self.close_asked.emit()


def fitted(window: QRect | QSize, room: QRect, frame: QMargins) -> QRect:
    """Where a window's contents lie so that they fit a screen's room together with the frame around them."""
    wanted = window if isinstance(window, QRect) else QRect(room.topLeft(), window)
    inside = room.marginsRemoved(frame)
    size = wanted.size().boundedTo(inside.size())
    left = max(inside.left(), min(wanted.left(), inside.right() + 1 - size.width()))
    top = max(inside.top(), min(wanted.top(), inside.bottom() + 1 - size.height()))
    return QRect(QPoint(left, top), size)


def _application() -> QApplication:
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        raise RuntimeError("There is no application.")
    return app


def _place_for_keyboard(pane: QWidget) -> QWidget | None:
    """The pane itself, or the first thing in it that takes keys."""
    if pane.focusPolicy() & Qt.FocusPolicy.TabFocus:
        return pane
    for widget in pane.findChildren(QWidget):
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isVisible() and widget.isEnabled():
            return widget
    return None
