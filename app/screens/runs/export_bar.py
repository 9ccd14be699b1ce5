"""Writes the results of a run to a file, with progress; a file that is there is replaced after a question."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.query import Query
from app.screens.runs.inline_confirm import InlineConfirm, Question
from app.screens.runs.save_as import safe_name
from app.service_client import ConsoleLink
from app.text import count_words
from app.theme.tokens import SPACE
from app.widgets.labels import set_surface
from app.widgets.layouts import vbox
from app.widgets.progress import Progress
from core.errors import QuarterdeckError
from core.service.console import Console
from core.service.result_export import export_results, format_of

FILTERS = ["CSV for spreadsheets (*.csv)", "JSON with all details (*.json)"]
_ENDINGS = (".csv", ".json")


class ExportBar(QWidget):
    """Hidden until a file is written.

    Signals:
        written(words): a file is written; what to say of it.
        failed(error): it was not.
    """

    written = Signal(str)
    failed = Signal(object)

    def __init__(self, link: ConsoleLink, ask: InlineConfirm) -> None:
        super().__init__()
        set_surface(self, "raised")
        self._ask = ask
        self._path = Path()
        self.dialog: QFileDialog | None = None
        self._writing = Query(self, link, self._done, self._failed, "export the results")
        self.progress = Progress("Export", cancellable=True)
        self.progress.cancelled.connect(self._cancel)
        vbox(self.progress, parent=self, margins=(SPACE.pane, 8, SPACE.pane, 8))
        self.hide()

    def choose(self, run: str, name: str) -> None:
        """Ask for the file; the window goes on meanwhile."""
        dialog = QFileDialog(self, "Export results")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilters(FILTERS)
        # Asked in the window, where Stop all stays in reach.
        dialog.setOption(QFileDialog.Option.DontConfirmOverwrite)
        dialog.selectFile(safe_name(f"{name} {run}"))
        dialog.setModal(False)
        dialog.fileSelected.connect(lambda path: self.write(run, _with_ending(Path(path), dialog)))
        dialog.finished.connect(dialog.deleteLater)
        self.dialog = dialog
        dialog.show()

    def write(self, run: str, path: Path) -> None:
        """Write, after a question where a file is there already."""
        if not path.exists():
            self._write(run, path)
            return

        def replace(_text: str) -> None:
            self._ask.done(question)
            self._write(run, path)

        question = Question(
            f"Replace {path.name}?",
            f"There is such a file in {path.parent} already.",
            "Keep it",
            "Replace it",
            replace,
        )
        self._ask.ask(question)

    def _write(self, run: str, path: Path) -> None:
        self._path = path
        self.progress.show_progress(None, f"Writing {path.name}…")
        self.show()

        def told(done: int, total: int) -> None:
            words = f"{count_words(done)} of {count_words(total)} devices are in {path.name}"
            self.progress.show_progress(done / max(total, 1), words)

        async def export(console: Console) -> int:
            return await export_results(console.runs, run, format_of(path), path, told)

        self._writing.load(export)

    def _done(self, count: int) -> None:
        self.hide()
        self.written.emit(f"{count_words(count)} results are in {self._path.name}")

    def _failed(self, error: QuarterdeckError) -> None:
        self.hide()
        self.failed.emit(error)

    def _cancel(self) -> None:
        self._writing.cancel()
        self.hide()


def _with_ending(path: Path, dialog: QFileDialog) -> Path:
    """The path with the ending of the chosen format, where its name has neither."""
    if path.suffix.lower() in _ENDINGS:
        return path
    chosen = FILTERS.index(dialog.selectedNameFilter()) if dialog.selectedNameFilter() in FILTERS else 0
    return path.with_name(f"{path.name}{_ENDINGS[chosen]}")
