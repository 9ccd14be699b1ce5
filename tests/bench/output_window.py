"""The window while a command prints: writes how late each line was painted, in milliseconds, a line each.

`python -m tests.bench.output_window COMMAND`, where the command prints times in nanoseconds.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import structlog
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication

from app.overrides import install_guard
from app.qt_loop import run_on_qt
from app.screens.runs.live_box import LiveBox
from app.theme.theme import Theme
from core.batch.models import RunState
from tests.bench.output_bench import lateness
from tests.gui.runs.page import open_runs


class PaintedLines(QObject):
    """Looks, each time that the output is painted, which lines are new in it."""

    def __init__(self, box: LiveBox) -> None:
        super().__init__(box)
        self.late: list[float] = []
        self._box, self._read = box, 0
        box.viewport().installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Qt calls this before the box is painted."""
        if event.type() is QEvent.Type.Paint:
            text = self._box.toPlainText()
            new, _, _ = text[self._read :].rpartition("\n")
            self._read += len(new)
            self.late += lateness(new)
        return False


def main(command: str) -> None:
    """Run the command on this computer and follow its output in Runs."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    install_guard()
    app = QApplication(sys.argv[:1])
    theme = Theme(mode="dark")
    theme.setParent(app)
    theme.apply(app)

    async def follow(folder: Path) -> None:
        async with open_runs(theme, folder) as page:
            step = {"id": "call", "tool": "shell_execute", "with": {"command": command, "timeout": 60}}
            run = await page.start(step)
            painted = PaintedLines(page.drawer.live.box)
            await page.open(run, "this-computer", "call")
            await page.approve()
            await page.until(RunState.DONE)
            sys.stdout.writelines(f"{one:.3f}\n" for one in painted.late)

    with tempfile.TemporaryDirectory(prefix="output-window-") as folder:
        run_on_qt(app, follow(Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1])
