"""Saving what a device sent into a file of the operator's choice, without blocking the window."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QWidget

from app.query import Mutation
from app.service_client import ConsoleLink
from core.errors import QuarterdeckError
from core.service.console import Console

_UNSAFE = re.compile(r"[^\w .-]")
GetBytes = Callable[[Console], Awaitable[bytes]]


class Saver:
    """Asks for a file and writes bytes into it; the file comes whole or not at all."""

    def __init__(self, parent: QWidget, link: ConsoleLink, done: Callable[[str], None]) -> None:
        """`done` is told what to say when a file was written."""
        self._parent, self._link, self._done = parent, link, done
        self.dialog: QFileDialog | None = None

    def save(
        self,
        name: str,
        get: GetBytes,
        on_error: Callable[[QuarterdeckError], None],
    ) -> None:
        """Ask where; then write what `get` (an async function of the door) brings."""
        dialog = QFileDialog(self._parent, "Save as")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.selectFile(safe_name(name))
        # Not modal: Stop all stays in reach while a name is chosen.
        dialog.setModal(False)
        dialog.fileSelected.connect(lambda path: self.write(Path(path), get, on_error))
        dialog.finished.connect(dialog.deleteLater)
        self.dialog = dialog
        dialog.show()

    def write(self, path: Path, get: GetBytes, on_error: Callable[[QuarterdeckError], None]) -> None:
        """Write what `get` brings to `path`."""

        async def fetch_and_write(console: Console) -> None:
            data = await get(console)
            await asyncio.to_thread(_write, path, data)

        def written(_none: None) -> None:
            self._done(f"Saved {path.name}")

        Mutation(self._parent, self._link, written, on_error, f"save {path.name}").run(fetch_and_write)


def safe_name(name: str) -> str:
    """A name for a file. Names of tools and devices are in it: nothing of them may lead to another folder."""
    return _UNSAFE.sub("_", name).lstrip(".")


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise QuarterdeckError(f"{path} could not be written: {error.strerror or error}.") from error
