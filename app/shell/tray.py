"""A note beside the clock when a request comes in unseen. It opens a card and never decides.

Where the desktop has no tray there is none, and nothing else is different: nothing is raised, nothing rings.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QMenu, QSystemTrayIcon, QWidget

from app.screens.targets import OpenApproval
from app.shell.shell_window import ShellWindow
from app.state import AppState
from app.theme.state_looks import risk_look
from core.approvals.models import Approval
from core.text import escape_hidden, left_to_right, shorten_middle

MOST_NAME = 60
SHOWN_MS = 10_000


class TrayIcon(QObject):
    """The desktop's tray, as far as notes need it.

    Signals:
        pressed: the operator clicked the note or the icon.
    """

    pressed = Signal()

    def __init__(self, parent: QWidget, icon: QIcon) -> None:
        super().__init__(parent)
        self._menu = QMenu(parent)
        self._menu.addAction("Open Quarterdeck", self.pressed.emit)
        self._icon = QSystemTrayIcon(icon, parent)
        self._icon.setContextMenu(self._menu)
        self._icon.messageClicked.connect(self.pressed)
        self._icon.activated.connect(self._activated)
        self._icon.show()

    def say(self, title: str, words: str) -> None:
        """Show a note; it has no buttons that could decide anything."""
        self._icon.showMessage(title, left_to_right(words), QSystemTrayIcon.MessageIcon.NoIcon, SHOWN_MS)

    def tell(self, waiting: int) -> None:
        """Say at the icon how many requests wait."""
        self._icon.setToolTip(f"Quarterdeck, {waiting} waiting" if waiting else "Quarterdeck")

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason == QSystemTrayIcon.ActivationReason.Trigger:
            self.pressed.emit()

    def hide(self) -> None:
        """Take the icon away."""
        self._icon.hide()


class Tray(QObject):
    """Watches the queue and says what came in while the window was not looked at."""

    def __init__(self, window: ShellWindow, state: AppState, icon: TrayIcon) -> None:
        super().__init__(window)
        self._window, self._state, self._icon = window, state, icon
        self._known: set[str] | None = None
        self._about = ""
        state.approvals_changed.connect(self._queue_changed)
        icon.pressed.connect(self._open)

    def _queue_changed(self) -> None:
        waiting = self._state.waiting()
        now = {one.id for one in waiting}
        # What waited before this window was opened is on its screen already.
        new = [one for one in waiting if self._known is not None and one.id not in self._known]
        self._known = now
        self._icon.tell(len(waiting))
        if new and not self._window.isActiveWindow():
            self._about = new[0].id
            self._icon.say(*note_words(new))

    def _open(self) -> None:
        """The note or the icon was clicked: to the card, or to what waits now."""
        about = self._about if self._about in self._state.approvals else ""
        target = OpenApproval(about) if about else None
        self._window.open("approvals", target)
        self._window.setWindowState(self._window.windowState() & ~Qt.WindowState.WindowMinimized)
        self._window.show()
        self._window.raise_()
        self._window.activateWindow()


def note_words(new: list[Approval]) -> tuple[str, str]:
    """Title and words of a note about requests that came in, the riskiest first."""
    first = new[0]
    risk = risk_look(first.decision.risk.value).word
    title = f"{risk} risk on {_short(first.request.device)}"
    words = f"{_short(first.request.tool_name)} waits for an operator."
    if first.production:
        words = f"Production. {words}"
    if len(new) > 1:
        words += f" {len(new) - 1} more came in with it."
    return title, words


def make_tray(window: ShellWindow, state: AppState, icon: Callable[[], QIcon]) -> Tray | None:
    """A tray where the desktop has one; None where it has not, and nothing is shown there."""
    if not QSystemTrayIcon.isSystemTrayAvailable():
        return None
    return Tray(window, state, TrayIcon(window, icon()))


def _short(text: str) -> str:
    return shorten_middle(escape_hidden(text, keep_lines=False), MOST_NAME)
