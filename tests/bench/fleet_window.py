"""A real window that says how long its loop stood: `python -m tests.bench.fleet_window HOME SCREEN`.

Lines on its standard input: `stall` answers with the longest stall since the last time it was asked.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.main import ConsoleApplication, attach, layout_store, theme_from
from app.overrides import install_guard
from app.qt_loop import run_on_qt
from app.screens.targets import OpenRun
from core.home import Home
from tests.bench.lines import StallWatch, input_lines
from tests.fakes.swarm import tell

_followed: set[str] = set()


async def probe(app: QApplication, home: Home, screen: str) -> None:
    store = layout_store(home)
    # A home without an operator would show the page of the first start in the place of its fleet.
    store.setValue("first_run/done", True)
    theme = theme_from(store)
    theme.setParent(app)
    theme.apply(app)
    desk = ConsoleApplication(home, theme, attach(home))
    desk.window.resize(1440, 900)
    usable = asyncio.Event()
    desk.state.reset.connect(usable.set)
    desk.begin()
    await usable.wait()
    desk.window.open(screen)
    if screen == "runs":
        desk.state.runs_changed.connect(lambda run: _follow(desk, run))
    desk.window.repaint()
    tell("usable", devices=len(desk.state.devices))
    watch = StallWatch()
    async for line in input_lines(sys.stdin):
        if line == "stall":
            tell("stall", worst_ms=watch.take())
    watch.close()
    await desk.end()


def _follow(desk: ConsoleApplication, run: str) -> None:
    """Look at a new run as soon as there is one."""
    if run and run not in _followed:
        _followed.add(run)
        desk.window.open("runs", OpenRun(run))


if __name__ == "__main__":
    install_guard()
    application = QApplication(sys.argv[:1])
    run_on_qt(application, probe(application, Home(Path(sys.argv[1])).create(), sys.argv[2]))
