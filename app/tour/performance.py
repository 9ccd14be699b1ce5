"""Opens the window for the story, closes it, and opens it again on the same home."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication

from app.look.icons import load_icons
from app.main import Desk, attach, layout_store, theme_from
from app.tour.after_restart import AFTER_RESTART
from app.tour.hand import Hand
from app.tour.story import SCENES, Stage, play
from core.home import Home
from core.service.start import stop_service

SIZE = QSize(1440, 900)


async def perform(app: QApplication, home: Home, out: Path, folder: Path) -> list[Path]:
    """Play the whole story; the service that was started for it is stopped at the end, whatever happened.

    Raises:
        StepDidNotHappen: something did not come about.
    """
    load_icons()
    work = folder / "work"
    work.mkdir()
    theme = theme_from(layout_store(home))
    theme.setParent(app)
    theme.apply(app)
    pictures: list[Path] = []
    for scenes in (SCENES, AFTER_RESTART):
        desk = Desk(home, theme, attach(home))
        hand = Hand(desk.window, out, pictures)
        desk.window.resize(SIZE)
        try:
            desk.begin()
            # Nobody manages windows on a bare display, so the window asks for the keyboard itself.
            desk.window.activateWindow()
            await hand.until("the window has the keyboard", desk.window.isActiveWindow)
            await play(Stage(desk, hand, work), scenes)
        finally:
            await desk.end()
            await stop_service(home, cancel_work=True)
    return pictures
