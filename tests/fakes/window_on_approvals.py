"""A window on its approvals, key unlocked: `python -m tests.fakes.window_on_approvals HOME NAME [WORDS]`.

Prints `ready` when the operator NAME, whose passphrase is WORDS, could answer, and stays until something
kills it. With `--devices` in the end it believes what XTEST makes in the name of a real device: no display
of a test has a device that a hand could reach.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.input_origin import InputSource
from app.main import ConsoleApplication, attach
from app.overrides import install_guard
from app.qt_loop import run_on_qt
from app.theme.theme import Theme
from app.x11_input import X11Source, platform_source
from core.home import Home
from tests.fakes.window import seen


def _believing_source() -> InputSource:
    from app.x11_watch import XWatch

    class Believing(XWatch):
        def _record_fakes(self, name: str | None) -> None:
            """This one does not ask who uses XTEST."""

    return X11Source(Believing)


async def run(home: Home, theme: Theme, name: str, passphrase: str | None, source: InputSource) -> None:
    desk = ConsoleApplication(home, theme, attach(home), source)
    # As it was left last: every screen that was made is walked through by whoever looks for a button.
    desk.store.setValue("window/screen", "approvals")
    desk.store.setValue("settings/section", "policy")
    desk.begin()
    await seen(lambda: desk.state.loaded, 30)
    await desk.keys.unlock(name, passphrase)
    if isinstance(source, X11Source):
        await seen(lambda: source.is_watching, 30)
    desk.window.open("approvals")
    desk.window.activateWindow()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    believes = sys.argv[-1] == "--devices"
    home, name, *rest = sys.argv[1 : -1 if believes else None]
    install_guard()
    application = QApplication(sys.argv[:1])
    look = Theme("dark", "comfortable", True, parent=application)
    look.apply(application)
    chosen = _believing_source() if believes else platform_source()
    run_on_qt(application, run(Home(Path(home)).create(), look, name, rest[0] if rest else None, chosen))
