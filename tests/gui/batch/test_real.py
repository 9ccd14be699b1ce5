"""An operator's first batch against a real service and device: built in the window, planned, run."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.screens.batch.screen import BatchScreen
from app.screens.targets import OpenRun, Target
from app.theme.theme import Theme
from core.batch.models import RunState
from core.home import Home
from core.service.console import Console
from core.service.local_console import LocalConsole
from tests.fakes.desk import choose_channel, next_approval, open_service
from tests.fakes.window import open_window, seen


async def test_reads_end_at_once_and_the_shell_line_waits_with_the_bytes_that_were_typed(
    theme: Theme, tmp_path: Path
) -> None:
    home = Home(tmp_path / "service").create()
    choose_channel(home, "in-process")
    touched = tmp_path / "touched"
    stack = AsyncExitStack()
    doors: list[Console] = []

    async def opened() -> Console:
        service = await stack.enter_async_context(open_service(home))
        doors.append(LocalConsole(service, "operator:harbour"))
        return doors[0]

    async with open_window(theme, tmp_path / "window", opened) as desk:
        desk.window.open("batch")
        screen = desk.window.current
        assert isinstance(screen, BatchScreen)
        await seen(lambda: screen.shelf.offer.find("shell_execute"), 20)
        screens: list[tuple[str, Target | None]] = []
        desk.window.open = lambda screen, target=None: screens.append((screen, target))  # type: ignore[method-assign]
        screen.editor.add("get_system_info", parameters={"info_type": "memory"})
        screen.editor.add("shell_execute")
        screen.step.focus_first()
        QTest.keyClicks(screen.step.form.inputs()[0], f"touch '{touched}'")
        await seen(lambda: screen.dock.counts.words() == "1 run, 1 ask", 20)
        assert not touched.exists()
        QTest.keyClick(screen.steps.view, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
        await seen(lambda: screens, 20)
        target = screens[0][1]
        assert isinstance(target, OpenRun)
        waiting = await next_approval(doors[0])
        assert waiting.request.parameters == {"command": f"touch '{touched}'"}
        run = await doors[0].runs.get(target.run)
        assert run.summary.state is RunState.WAITING
        assert run.cells[0].state.value == "done"
        assert not touched.exists()
        await doors[0].runs.stop(target.run)
        await stack.aclose()
