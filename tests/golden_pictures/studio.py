"""Where pictures of the real window are taken: on invented data, in each look, once nothing moves."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from PySide6.QtCore import QAbstractAnimation, QThreadPool, QTimer
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QWidget

from app.main import ConsoleApplication
from app.theme.theme import Theme
from app.theme.tokens import Density, Mode
from core.home import Home
from core.service.console import Console
from tests.fakes.hand import ScriptedHand

# The sizes of the look's pictures, and a size at which the window is in its compact layout.
WIDE, SMALL = (1440, 900), (1280, 720)
# Only a window that never comes to rest waits so long.
PATIENCE_S = 60.0
_LOOK_EVERY_S = 0.03
_EQUAL_PICTURES = 4
# A pause of the window before it does something; longer ones are reminders that come while it is at rest.
_LONGEST_PAUSE_MS = 1500
# Tasks that last as long as the window; of others those that are older wait for the operator.
_LASTING = {"window: link", "window: round trip"}
_LONGEST_TASK_S = 3.0


@dataclass(frozen=True, slots=True)
class Look:
    """One way to look at a scene; `size` is the window's in logical pixels."""

    mode: Mode
    density: Density
    size: tuple[int, int] = WIDE


LOOKS = {
    "dark": Look("dark", "comfortable"),
    "light": Look("light", "comfortable"),
    "dark-compact": Look("dark", "compact"),
    "light-compact": Look("light", "compact"),
    "dark-small": Look("dark", "comfortable", SMALL),
}


class Studio:
    """Opens windows and takes their pictures in the chosen looks, at the scale of this process."""

    def __init__(self, app: QApplication, out: Path, looks: Sequence[str], scale: str) -> None:
        """`out` is the folder that pictures are written to; `scale` is part of their names."""
        self._app, self._out, self._looks, self._scale = app, out, looks, scale
        self.theme = Theme("dark", "comfortable", reduced_motion=True, parent=app)
        self.theme.apply(app)
        _threads.watch()

    @asynccontextmanager
    async def desk(self, console_of: Callable[[Home], Console]) -> AsyncIterator[ConsoleApplication]:
        """An open window on a fresh home, with the console that `console_of` makes for it.

        Raises:
            AssertionError: an error in the window that nothing caught.
        """
        with tempfile.TemporaryDirectory() as folder:
            home = Home(Path(folder)).create()
            console = console_of(home)

            async def opened() -> Console:
                return console

            desk = ConsoleApplication(home, self.theme, opened, ScriptedHand())
            errors: list[str] = []
            desk.reporter.happened.connect(lambda words, details: errors.append(f"{words}\n{details}"))
            desk.window.resize(*WIDE)
            desk.begin()
            try:
                await settled(desk.window)
                yield desk
            finally:
                await desk.end()
            assert not errors, errors[0]

    async def take(self, desk: ConsoleApplication, name: str) -> None:
        """Write pictures of the window as it stands."""
        for look in self._looks:
            chosen = LOOKS[look]
            desk.store.setValue("appearance/density", chosen.density)
            desk.window.apply_density()
            self.theme.set_mode(chosen.mode)
            desk.window.resize(*chosen.size)
            self._write(await settled(desk.window), name, look)

    async def take_page(self, make: Callable[[], QWidget], name: str) -> None:
        """Write pictures of a page of the gallery, which is made anew for each; it has one size."""
        for look in self._looks:
            chosen = LOOKS[look]
            if chosen.size != WIDE:
                continue
            self.theme.set_density(chosen.density)
            self.theme.set_mode(chosen.mode)
            page = make()
            self._write(await settled(page), name, look)
            page.close()
            page.deleteLater()

    def _write(self, picture: QImage, name: str, look: str) -> None:
        path = self._out / f"{name}-{look}-{self._scale}.png"
        if not picture.save(str(path)):
            raise OSError(f"The picture {path} cannot be written.")


async def settled(window: QWidget) -> QImage:
    """Wait until nothing is under way in the window; returns its picture then.

    Raises:
        TimeoutError: it did not come to rest.
    """
    last, equal = QImage(), 0
    async with asyncio.timeout(PATIENCE_S):
        while equal < _EQUAL_PICTURES:
            await asyncio.sleep(_LOOK_EVERY_S)
            if _is_busy(window):
                equal = 0
                continue
            picture = window.grab().toImage()
            equal = equal + 1 if picture == last else 0
            last = picture
    return last


class _Threads:
    """Counts what `asyncio.to_thread` has under way, once `watch` was called."""

    def __init__(self) -> None:
        self.busy = 0
        self._real: Callable[..., Awaitable[Any]] = asyncio.to_thread

    def watch(self) -> None:
        """Count from now on, in the whole process."""
        asyncio.to_thread = self._counted  # type: ignore[assignment]

    async def _counted(self, work: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        self.busy += 1
        try:
            return await self._real(work, *arguments, **more)
        finally:
            self.busy -= 1


_threads = _Threads()
_began: WeakKeyDictionary[asyncio.Task[object], float] = WeakKeyDictionary()


def _is_busy(window: QWidget) -> bool:
    """Whether a pause, a fade, a thread or a task of the window has not ended yet."""
    pauses = any(
        timer.isActive() and timer.isSingleShot() and timer.interval() <= _LONGEST_PAUSE_MS
        for timer in window.findChildren(QTimer)
    )
    running = QAbstractAnimation.State.Running
    moves = any(moving.state() == running for moving in window.findChildren(QAbstractAnimation))
    now = asyncio.get_running_loop().time()
    tasks = {task for task in asyncio.all_tasks() if task.get_name() not in _LASTING}
    works = any(
        now - _began.setdefault(task, now) < _LONGEST_TASK_S for task in tasks - {asyncio.current_task()}
    )
    return bool(pauses or moves or works or _threads.busy or QThreadPool.globalInstance().activeThreadCount())
