"""The orderly end: nothing of the window is left, however it ends."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, QTimer
from PySide6.QtWidgets import QApplication

from app.main import run
from app.qt_loop import run_on_qt
from app.theme.theme import Theme
from app.window import MainWindow
from core.home import Home
from core.service.console import Console
from tests.fakes.console import FakeConsole
from tests.fakes.patience import PATIENCE_S
from tests.fakes.window import seen


def test_closing_the_window_ends_the_program_and_leaves_the_service(
    theme: Theme, qapp: QApplication, tmp_path: Path
) -> None:
    console = FakeConsole()
    hooks = (sys.excepthook, threading.excepthook)

    async def opened() -> Console:
        def close() -> None:
            next(one for one in qapp.topLevelWidgets() if isinstance(one, MainWindow)).close()

        QTimer.singleShot(0, close)
        return console

    before = set(threading.enumerate())
    assert run(Home(tmp_path), opened) == 0
    assert console.closed, "the window leaves the door"
    assert "shut_down" not in console.asked, "the service is not the window's to end"
    assert set(threading.enumerate()) <= before
    assert (sys.excepthook, threading.excepthook) == hooks
    assert not any(one.isVisible() for one in qapp.topLevelWidgets())
    theme.apply(qapp)


def test_widgets_are_never_collected_in_a_worker_thread(theme: Theme, qapp: QApplication) -> None:
    died_in: list[str] = []
    was_on = gc.isenabled()

    class Watched(QObject):
        def __init__(self) -> None:
            super().__init__()
            self.itself = self  # a cycle: only the collector can free it
            weakref.finalize(self, lambda: died_in.append(threading.current_thread().name))

    # Kept, because freed objects no longer count towards the next collection.
    kept: list[list[object]] = []

    def allocate_much() -> None:
        kept.extend([[]] for _ in range(200_000))

    async def main() -> None:
        for _ in range(20):
            Watched()
        await asyncio.to_thread(allocate_much)
        # The window's own thread may have collected meanwhile, by its timer.
        assert set(died_in) <= {threading.main_thread().name}, "the worker must not collect"
        await seen(lambda: len(died_in) == 20)

    run_on_qt(qapp, main())
    assert set(died_in) == {threading.main_thread().name}
    assert gc.isenabled() is was_on


def test_an_error_in_main_still_ends_the_loop_and_its_tasks(theme: Theme, qapp: QApplication) -> None:
    cancelled: list[bool] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(True)

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            child = asyncio.get_running_loop().create_task(forever())
            await asyncio.sleep(0)
            assert not child.done()
            raise ValueError("main failed")

    with pytest.raises(ValueError, match="main failed"):
        run_on_qt(qapp, main())
    assert cancelled == [True]
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
