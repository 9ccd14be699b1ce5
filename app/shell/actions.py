"""What the window itself can do, one `Action` for each: its key, its button and the palette trigger the same
object. The window keeps them as its own Qt actions, so `window.actions()` is the list of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from PySide6.QtCore import QObject, Qt

from app.screens.settings.section_names import SECTIONS
from app.screens.targets import OpenBatch, OpenPairing, OpenSection, OpenVerification
from app.service_client import ConsoleLink
from app.shell.screen_registry import ScreenEntry
from app.shell.session_controller import SessionController
from app.shell.shell_window import ShellWindow
from app.signing.signing_session import SigningSession
from app.state import AppState, Link
from app.theme.theme import theme_of
from app.theme.tokens import Mode
from app.widgets.action import Action

STOP_KEYS = "Ctrl+Shift+X"
NO_SERVICE = "The service does not answer."


class WindowActions(QObject):
    """Makes the window's actions, and switches off what cannot be done now."""

    def __init__(
        self,
        window: ShellWindow,
        state: AppState,
        link: ConsoleLink,
        keys: SigningSession,
        control: SessionController,
        screens: Iterable[ScreenEntry],
    ) -> None:
        super().__init__(window)
        self._window, self._state, self._keys = window, state, keys
        self._theme = theme_of(window)
        go_to, go_to_section = window.open, partial(window.open, "settings")
        self.stop = Action(
            "Stop all", "stop_all", control.stop_all, STOP_KEYS, "halt abort emergency", acts_at_once=True
        )
        self.stop.setShortcutContext(Qt.ShortcutContext.ApplicationShortcut)
        self.resume = Action("Resume…", "run", control.start_resume, also="continue")
        self.key = Action("", "key", control.toggle_key, also="operator passphrase lock unlock")
        self.verify = Action(
            "Verify the journal",
            "verified",
            partial(go_to, "journal", OpenVerification()),
            also="check proof entries",
        )
        self.accept = Action(
            "Look at changes of other programs and accept them…",
            "profile",
            control.start_accept,
            also="policy settings toml pending",
        )
        self.attach = Action("Try the service now", "refresh", link.try_now, also="connect reconnect lost")
        self.dark = Action("Dark theme", "settings", partial(self._show_in, "dark"), also="mode night")
        self.light = Action("Light theme", "settings", partial(self._show_in, "light"), also="mode day")
        self._offer(
            *(
                Action(
                    f"Go to {entry.title}", entry.icon, partial(go_to, entry.name), f"Alt+{number}", "screen"
                )
                for number, entry in enumerate(screens, 1)
            ),
            Action("Pair a device…", "pair", partial(go_to, "fleet", OpenPairing()), also="add new token"),
            Action("New batch", "batch", partial(go_to, "batch", OpenBatch())),
            self.verify,
            self.key,
            self.dark,
            self.light,
            Action("Narrow or wide navigation", "widen", window.toggle_nav, "Ctrl+B", "sidebar"),
            Action("Filter of this screen", "filter", window.focus_filter, "Ctrl+F", "search query"),
            Action("Keys of this screen", "info", window.show_keys, "F1", "help shortcuts keyboard"),
            *(
                Action(
                    f"Settings: {title}", "settings", partial(go_to_section, OpenSection(key)), also="open"
                )
                for key, title in SECTIONS
            ),
            self.accept,
            self.attach,
            self.resume,
            self.stop,
        )
        state.control_changed.connect(self.show_state)
        state.service_changed.connect(self.show_state)
        state.reset.connect(self.show_state)
        keys.changed.connect(self.show_state)
        self._theme.changed.connect(self.show_state)
        self.show_state()

    def _offer(self, *actions: Action) -> None:
        for action in actions:
            action.setParent(self)
            self._window.addAction(action)

    def show_state(self) -> None:
        """Words of what toggles, and the reason of each action that cannot be triggered now."""
        state, keys = self._state, self._keys
        answers = state.loaded and state.service.link is Link.CONNECTED
        self.key.set_label(
            "Lock the key" if keys.unlocked else "Unlock a key…" if keys.listed else "Make your operator key…"
        )
        self.verify.set_off("" if answers else NO_SERVICE)
        self.attach.set_off("" if state.service.link is Link.LOST else "The service is not lost.")
        self.resume.set_off(("" if state.stopped else "Nothing is stopped.") if answers else NO_SERVICE)
        policy = state.policy
        pending = policy is not None and bool(policy.pending or policy.pending_settings)
        self.accept.set_off("" if pending else "Nothing waits to be accepted.")
        self.dark.set_off("It is dark already." if self._theme.mode == "dark" else "")
        self.light.set_off("It is light already." if self._theme.mode == "light" else "")

    def _show_in(self, mode: Mode) -> None:
        self._window.layout_store.setValue("appearance/mode", mode)
        self._theme.set_mode(mode)
