"""A window on its approvals, key unlocked: `python -m tests.fakes.window_on_approvals HOME NAME`.

Prints `ready` when the operator NAME could answer, and stays until something kills it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.event_loop import run_on_qt
from app.look.theme import Theme
from app.main import Desk, attach
from core.home import Home
from tests.fakes.window import seen


async def run(home: Home, theme: Theme, name: str) -> None:
    desk = Desk(home, theme, attach(home))
    # As it was left last: every screen that was made is walked through by whoever looks for a button.
    desk.store.setValue("window/screen", "approvals")
    desk.begin()
    await seen(lambda: desk.state.loaded, 30)
    await desk.keys.unlock(name, None)
    desk.window.open("approvals")
    desk.window.activateWindow()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    application = QApplication(sys.argv[:1])
    look = Theme("dark", "comfortable", True, parent=application)
    look.apply(application)
    run_on_qt(application, run(Home(Path(sys.argv[1])).create(), look, sys.argv[2]))
