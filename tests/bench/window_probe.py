"""A real window that says when it is usable: `python -m tests.bench.window_probe HOME`; ends when told to.

Usable: painted, attached, and the devices of the home on the screen.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication, attach, layout_store, theme_from
from app.overrides import install_guard
from app.qt_loop import run_on_qt
from core.home import Home


async def probe(app: QApplication, home: Home) -> None:
    theme = theme_from(layout_store(home))
    theme.setParent(app)
    theme.apply(app)
    desk = ConsoleApplication(home, theme, attach(home))
    desk.window.resize(1440, 900)
    usable = asyncio.Event()
    desk.state.reset.connect(usable.set)
    desk.begin()
    await usable.wait()
    desk.window.repaint()
    print("usable", flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    await desk.end()


if __name__ == "__main__":
    install_guard()
    application = QApplication(sys.argv[:1])
    run_on_qt(application, probe(application, Home(Path(sys.argv[1])).create()))
