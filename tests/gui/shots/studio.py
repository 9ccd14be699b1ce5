"""Where pictures of the real window are taken: one window on invented data, in one mode and size."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QApplication

from app.main import Desk
from app.theme.theme import Theme
from app.theme.tokens import Mode
from app.widgets.dialog import Overlay
from core.home import Home
from core.service.console import Console

SETTLE_S = 1.0


@dataclass(frozen=True, slots=True)
class Studio:
    """How pictures are taken: `out` is the folder they are written to, `size` the window's in pixels."""

    app: QApplication
    mode: Mode
    size: QSize
    out: Path

    @asynccontextmanager
    async def desk(self, console_of: Callable[[Home], Console]) -> AsyncIterator[Desk]:
        """An open window on a fresh home, with the console that `console_of` makes for it."""
        with tempfile.TemporaryDirectory() as folder:
            home = Home(Path(folder)).create()
            console = console_of(home)
            theme = Theme(self.mode, "comfortable", True, parent=self.app)
            theme.apply(self.app)

            async def opened() -> Console:
                return console

            desk = Desk(home, theme, opened)
            desk.window.resize(self.size)
            desk.begin()
            await asyncio.sleep(SETTLE_S)
            try:
                yield desk
            finally:
                await desk.end()

    def take(self, desk: Desk, name: str) -> Path:
        """Write a picture of the window as it stands, then close what lies over it."""
        path = self.out / f"{name}-{self.mode}.png"
        desk.window.grab().save(str(path))
        for cover in desk.window.findChildren(Overlay):
            cover.dismiss()
        return path
