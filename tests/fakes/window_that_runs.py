"""A real window that starts a run and is then killed: `python -m tests.fakes.window_that_runs HOME COMMAND`.

Prints the run's id when the service has it, and stays until something kills it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication, attach
from app.overrides import install_guard
from app.qt_loop import run_on_qt
from app.theme.theme import Theme
from core.home import Home
from tests.fakes.window import seen


async def run(home: Home, theme: Theme, command: str) -> None:
    desk = ConsoleApplication(home, theme, attach(home))
    desk.begin()
    await seen(lambda: desk.state.loaded and desk.state.devices["this-computer"].tool_count, 30)
    desk.link.ask(
        lambda console: console.runs.call("this-computer", "shell_execute", {"command": command}),
        lambda started: print(started.summary.id, flush=True),
        what="start the run",
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    install_guard()
    application = QApplication(sys.argv[:1])
    look = Theme("dark", "comfortable", True, parent=application)
    look.apply(application)
    run_on_qt(application, run(Home(Path(sys.argv[1])).create(), look, sys.argv[2]))
