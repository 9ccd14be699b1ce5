"""The real window on a `Console` of your choice, for GUI tests of every screen.

    def test_a_device_opens_its_panel(theme, tmp_path):
        async def scenario(desk: Desk) -> None:
            desk.window.open("fleet")
            await seen(lambda: desk.window.current.panel.isVisible())

        play(theme, tmp_path, FakeConsole(), scenario)

`play` runs the scenario on the Qt loop, ends the window in order, and fails when a task is left. It begins on
Fleet, as a fresh home does; `play_frame` is for scenarios that open a screen of their own: it begins with the
window's frame and no screen in it, which takes a third of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtWidgets import QApplication, QWidget

from app.input_origin import InputOrigin
from app.main import ConsoleApplication
from app.qt_loop import run_on_qt
from app.screens.targets import Target
from app.theme.theme import Theme
from core.home import Home
from core.service.console import Console
from tests.fakes.hand import ScriptedHand
from tests.fakes.patience import PATIENCE_S

NO_SCREEN = ""


def apply_to_parts(theme: Theme, app: QApplication) -> None:
    """Apply a theme also to widgets that are in no window of ours: those have their style sheet from that."""
    theme.apply(app)
    app.setStyleSheet(theme.style_sheet())
    theme.changed.connect(lambda: app.setStyleSheet(theme.style_sheet()) if app.styleSheet() else None)


async def seen(condition: Callable[[], object], timeout: float = PATIENCE_S) -> None:
    """Wait until something shows on the screen; widgets have no one signal for that.

    Raises:
        TimeoutError: it did not come within `timeout` seconds.
    """
    async with asyncio.timeout(timeout):
        while not condition():  # noqa: ASYNC110  # widgets have no event for "it shows"
            await asyncio.sleep(0.005)


def opened_screens(desk: ConsoleApplication) -> list[tuple[str, Target | None]]:
    """Record where the screen wants to go, without needing the other screens."""
    opened: list[tuple[str, Target | None]] = []
    desk.window.open = lambda screen, target=None: opened.append((screen, target))  # type: ignore[method-assign]
    return opened


def begin_on(desk: ConsoleApplication, screen: str | None) -> None:
    """Begin a window on a screen, unless it was left on another one; None is the usual first one."""
    if screen is None or desk.store.contains("window/screen"):
        desk.begin()
    elif screen == NO_SCREEN:
        # Only for the moment: the scenario opens its screen as an operator does. As in any window the screen
        # comes beside a widget that is there: a stack shows its first one at once, before a screen is bound.
        desk.window.stack.addWidget(QWidget())
        desk.window.open = lambda _screen, _target=None: None  # type: ignore[method-assign]
        desk.begin()
        del desk.window.open
    else:
        desk.store.setValue("window/screen", screen)
        desk.begin()


def play(
    theme: Theme,
    folder: Path,
    console: Console | Callable[[], Awaitable[Console]],
    scenario: Callable[[ConsoleApplication], Coroutine[Any, Any, None]],
    size: tuple[int, int] = (1440, 900),
    wait: bool = True,
    begins_on: str | None = None,
    has_faults: bool = False,
    hand: InputOrigin = InputOrigin.REAL,
) -> None:
    """Play `scenario` in the window; with `wait`, after the first state and the operator keys were read.

    It fails with the first error that nobody caught, wherever Qt or the loop called; with `has_faults` not.
    What `QTest` presses counts as made by `hand`.

    `console` may be a function that opens one, to test what happens when that fails. The window begins on the
    screen that it was left on in this folder before; the first time on `begins_on`, if that is given, or on
    none (`NO_SCREEN`).
    """
    app = QApplication.instance()
    assert isinstance(app, QApplication)

    async def opened() -> Console:
        return console if isinstance(console, Console) else await console()

    async def main() -> None:
        # A window brings its own.
        app.setStyleSheet("")
        desk = ConsoleApplication(Home(folder).create(), theme, opened, ScriptedHand(hand))
        desk.window.resize(*size)
        uncaught: list[str] = []
        desk.reporter.happened.connect(lambda words, details: uncaught.append(f"{words}\n{details}"))
        begin_on(desk, begins_on)
        try:
            if wait:
                await seen(lambda: desk.state.loaded)
                await seen(lambda: desk.keys.is_read or desk.window.notices.words())
                desk.state.flush()
            await scenario(desk)
        finally:
            await desk.end()
        left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, f"tasks were left: {left}"
        assert has_faults or not uncaught, uncaught[0]

    run_on_qt(app, main())


# A screen takes long to make, and would follow every event behind the one that is tested.
play_frame = partial(play, begins_on=NO_SCREEN)
