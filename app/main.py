"""Starts the window of one home and ends it in order."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from PySide6.QtCore import QSettings
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

from app.input_origin import InputSource
from app.overrides import install_guard
from app.qt_loop import ErrorReporter, run_on_qt
from app.service_client import ConsoleLink
from app.shell.close_guard import CloseGuard
from app.shell.tray import Tray, make_tray
from app.signing.signing_session import SigningSession
from app.state import AppState
from app.theme.theme import Theme
from app.window import MainWindow
from app.x11_input import platform_source
from core.errors import QuarterdeckError
from core.home import Home
from core.service.console import Console
from core.user import user_name

DEFAULT_SCREEN = "fleet"
LAST_OPERATOR = "operator/last"
WINDOW_ICON = Path(__file__).resolve().parents[1] / "resources" / "icons" / "quarterdeck.svg"


class ConsoleApplication:
    """The parts of one running window: made together, ended together."""

    def __init__(
        self,
        home: Home,
        theme: Theme,
        open_console: Callable[[], Awaitable[Console]],
        input_source: InputSource | None = None,
    ) -> None:
        """`input_source` stands in for what the window system tells of the origin of input."""
        self.theme = theme
        self.store = layout_store(home)
        self.state = AppState()
        self.keys = SigningSession(home, str(self.store.value(LAST_OPERATOR, "")), user_name())
        self.keys.changed.connect(self._remember_operator)
        self.reporter = ErrorReporter()
        self.link = ConsoleLink(open_console, self.state, report=self.reporter.report)
        self.input_source = input_source or platform_source()
        self.window = MainWindow(self.state, self.link, self.keys, self.store, self.input_source)
        self.leaving = CloseGuard(self.window, self.state, self.link)
        self.window.close_asked.connect(self.leaving.start)
        self.tray: Tray | None = None
        self.reporter.setParent(self.window)
        self.reporter.happened.connect(self._show_error)

    def _remember_operator(self) -> None:
        if self.keys.unlocked:
            self.store.setValue(LAST_OPERATOR, self.keys.unlocked)

    def _show_error(self, words: str, details: str) -> None:
        self.window.notices.fail("Something went wrong in the window.", words, details)

    def begin(self) -> None:
        """Show the window and start to attach; needs the running loop."""
        self.reporter.install(asyncio.get_running_loop())
        self.window.setWindowIcon(QIcon(str(WINDOW_ICON)))
        self.tray = make_tray(self.window, self.state, lambda: self.theme.icon("brand", "accent"))
        kept = str(self.store.value("window/screen", DEFAULT_SCREEN))
        self.window.open(kept if kept in self.window.screen_names else DEFAULT_SCREEN)
        self.window.show()
        self.link.start()
        self.link.spawn("read the operator keys", self._read_keys())
        self.link.spawn("listen to who makes input", self.input_source.begin())

    async def _read_keys(self) -> None:
        try:
            await self.keys.refresh()
        except QuarterdeckError as error:
            self.window.notices.fail(f"The operator keys cannot be read. {error.message}", error.info.next)

    async def end(self) -> None:
        """Close the window and leave the door; nothing of it is left."""
        # The link first: locked while it is open, the window would open another connection.
        await self.link.close()
        self.keys.lock()
        await self.input_source.end()
        self.window.allow_close()
        self.window.close()
        self.reporter.remove()
        # Awaited: a window that were still to be deleted when the loop stops would be taken apart by the
        # garbage collector instead, in an order that Qt does not survive.
        gone = asyncio.Event()
        self.window.destroyed.connect(gone.set)
        self.window.deleteLater()
        await gone.wait()

    async def run(self) -> int:
        """From the first paint until the operator leaves."""
        agreed = asyncio.Event()
        self.leaving.agreed.connect(agreed.set)
        self.begin()
        try:
            await agreed.wait()
        finally:
            await self.end()
        return 0


def layout_store(home: Home) -> QSettings:
    """`window.ini` in the home: geometry, theme, columns; nothing that the service reads."""
    return QSettings(str(home.path / "window.ini"), QSettings.Format.IniFormat)


def theme_from(store: QSettings) -> Theme:
    """The theme that was chosen last; dark and comfortable at first."""
    mode = "light" if store.value("appearance/mode") == "light" else "dark"
    density = "compact" if store.value("appearance/density") == "compact" else "comfortable"
    still = str(store.value("appearance/reduced_motion", "false")).lower() == "true"
    return Theme(
        "light" if mode == "light" else "dark", "compact" if density == "compact" else "comfortable", still
    )


def attach(home: Home) -> Callable[[], Awaitable[Console]]:
    """How the real window gets at its service: find it, or start it."""

    async def open_console() -> Console:
        from core.service.control import ensure_service

        # Known by its user until an operator's key proves more.
        return await ensure_service(home, client="window", actor=f"window:{user_name()}")

    return open_console


def run(home: Home, open_console: Callable[[], Awaitable[Console]] | None = None) -> int:
    """Show the window of `home` until the operator closes it; returns the program's exit code.

    Raises:
        BadInput: the home cannot be used.
    """
    install_guard()
    home.create()
    # Off until the process ends: what is left of the window then must not be collected while Qt takes
    # something else apart. The loop's `GuiThreadGarbageCollector` collects meanwhile.
    gc.disable()
    app = QApplication.instance()
    if not isinstance(app, QApplication):
        app = QApplication(sys.argv[:1])
    app.setApplicationName("Quarterdeck")
    app.setDesktopFileName("quarterdeck")
    theme = theme_from(layout_store(home))
    theme.apply(app)
    desk = ConsoleApplication(home, theme, open_console or attach(home))
    return run_on_qt(app, desk.run())
