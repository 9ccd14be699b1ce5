"""What the parts of the shell need of the main window; `app.window.MainWindow` is it."""

from __future__ import annotations

from PySide6.QtCore import QSettings
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMainWindow

from app.screens.screen import Screen
from app.screens.targets import Target


class ShellWindow(QMainWindow):
    """The main window as actions, session controller and tray know it."""

    @property
    def layout_store(self) -> QSettings:
        """`window.ini` of this home."""
        raise NotImplementedError

    @property
    def current(self) -> Screen:
        """The screen in front."""
        raise NotImplementedError

    def screen_actions(self) -> list[QAction]:
        """What the screen in front can do; nothing before there is one."""
        raise NotImplementedError

    def open(self, screen: str, target: Target | None = None) -> None:
        """Bring a screen to the front and let it show `target`."""
        raise NotImplementedError

    def toast(self, text: str) -> None:
        """Say for four seconds that something is done."""
        raise NotImplementedError

    def toggle_nav(self) -> None:
        """Make the navigation narrow or wide."""
        raise NotImplementedError

    def focus_filter(self) -> None:
        """Put the focus into the filter of the screen in front."""
        raise NotImplementedError

    def show_keys(self) -> None:
        """List the keys of the screen in front."""
        raise NotImplementedError
