"""The real window on a `Console` of your choice, for GUI tests of every screen.

    async def test_a_device_opens_its_panel(theme, tmp_path):
        async with open_window(theme, tmp_path, FakeConsole()) as desk:
            desk.window.open("fleet")
            await seen(lambda: desk.window.current.panel.isVisible())

`open_window` ends the window in order, and fails when a task is left. The window begins on Fleet, as a fresh
home does; `open_frame` is for tests that open a screen of their own: its window begins with the frame and no
screen in it, which takes a third of the time.

Both are context managers, not fixtures: between the phases of a test pytest-qt has Qt process events while
no asyncio loop runs, so a window does not outlive the test's body.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QApplication, QWidget

from app.input_origin import InputOrigin
from app.main import ConsoleApplication
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
        # Only for the moment: the test opens its screen as an operator does. As in any window the screen
        # comes beside a widget that is there: a stack shows its first one at once, before a screen is bound.
        desk.window.stack.addWidget(QWidget())
        desk.window.open = lambda _screen, _target=None: None  # type: ignore[method-assign,assignment]
        desk.begin()
        del desk.window.open
    else:
        desk.store.setValue("window/screen", screen)
        desk.begin()


@asynccontextmanager
async def open_window(
    theme: Theme,
    folder: Path,
    console: Console | Callable[[], Awaitable[Console]],
    size: tuple[int, int] = (1440, 900),
    wait: bool = True,
    begins_on: str | None = None,
    has_faults: bool = False,
    hand: InputOrigin = InputOrigin.REAL,
) -> AsyncIterator[ConsoleApplication]:
    """The window; with `wait`, once the first state and the operator keys were read.

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

    # A window brings its own.
    app.setStyleSheet("")
    desk = ConsoleApplication(Home(folder).create(), theme, opened, ScriptedHand(hand))
    desk.window.resize(*size)
    uncaught = uncaught_in(desk)
    begin_on(desk, begins_on)
    try:
        if wait:
            await seen(lambda: desk.state.loaded)
            await seen(lambda: desk.keys.is_read or desk.window.notices.words())
            desk.state.flush()
        yield desk
    finally:
        await desk.end()
    nothing_left()
    assert has_faults or not uncaught, uncaught[0]


# A screen takes long to make, and would follow every event behind the one that is tested.
open_frame = partial(open_window, begins_on=NO_SCREEN)


def uncaught_in(desk: ConsoleApplication) -> list[str]:
    """The errors that nobody catches in a window from now on, as its banner is told of them."""
    uncaught: list[str] = []
    desk.reporter.happened.connect(lambda words, details: uncaught.append(f"{words}\n{details}"))
    return uncaught


def nothing_left() -> None:
    """Fail when the loop has another task than this one."""
    left = [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, f"tasks were left: {left}"
