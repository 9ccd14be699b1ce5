"""The Runs screen as a person meets it, in a real window on a real service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QWidget

from app.screens.runs.cell_details import CellDetails
from app.screens.runs.resume_dialog import ResumeDialog
from app.screens.runs.screen import RunsScreen
from app.screens.runs.undo_dialog import UndoDialog
from app.screens.targets import OpenRun
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from app.widgets.labels import Label
from core.batch.models import Batch, Cell, Run, RunState, RunSummary
from core.fleet.models import DeviceSettings
from core.home import Home
from core.models.devices import Health
from core.service.console import RunChanged
from core.service.wishes import pairing_change
from tests.fakes.desk import approve, next_approval
from tests.fakes.remote_device import RemoteDevice, paired, stands
from tests.fakes.window import seen
from tests.fakes.window_on_service import Bay, open_on_service
from tests.gui.page import button_named, visible

TRUSTED = 'profile = "trusted"\n'
# Ends when its file is there, or when it is stopped.
UNTIL = "echo begun; while [ ! -e '{}' ]; do sleep 0.02; done; echo ended"


@dataclass
class RunsPage:
    """What an operator sees and does on the screen; `work` is the folder in which this computer may write."""

    bay: Bay
    work: Path

    @property
    def screen(self) -> RunsScreen:
        screen = self.bay.desk.window.current
        assert isinstance(screen, RunsScreen)
        return screen

    @property
    def drawer(self) -> CellDetails:
        return self.screen.drawer

    async def start(self, *steps: dict[str, Any], **batch: Any) -> str:
        """Start a batch as another client of the operator does, and look at its run."""
        inputs = batch.pop("values", None)
        batch = {"name": "Work", "targets": "name:this-computer", "steps": list(steps), **batch}
        run = await self.bay.beside.runs.start(Batch.model_validate(batch), inputs=inputs)
        await self.open(run.summary.id)
        return run.summary.id

    async def approve(self) -> None:
        """Approve what waits, somewhere else."""
        beside = self.bay.beside
        await approve(beside, await next_approval(beside), self.bay.keys["harbour"])

    async def open(self, run: str, device: str | None = None, step: str | None = None) -> None:
        self.bay.desk.window.open("runs", OpenRun(run, device, step))
        await seen(lambda: self.screen.head.number.text() == run and self.screen.matrix.cells.total())

    async def until(self, state: RunState) -> Run:
        """Wait until the head of the run on show says this state, and its cells were read."""
        word = state.value
        await seen(lambda: self.state == word and self.screen.run is not None)
        await seen(lambda: self.screen.run.summary.state.value == word if state.ended else True)
        return await self.bay.beside.runs.get(self.run)

    @property
    def run(self) -> str:
        """The id in the head."""
        return self.screen.head.number.text()

    @property
    def state(self) -> str:
        """The state in the head."""
        return self.screen.head.accessibleName().rpartition(", ")[2]

    def words_of(self, step: str, device: str = "this-computer") -> str:
        """What a cell of the matrix says."""
        cells = self.screen.matrix.cells
        return str(cells.index_of(device, step).data())

    def cells(self) -> list[Cell]:
        """All cells that the screen has."""
        model, summary = self.screen.matrix.cells, self.screen.run.summary
        indexes = [model.index_of(device, step) for device in summary.devices for step in summary.steps]
        return [cell for index in indexes if (cell := model.cell_at(index)) is not None]

    def choose(self, step: str, device: str = "this-computer") -> None:
        """Put the cursor on a cell."""
        assert self.screen.matrix.go_to_cell(device, step)

    def press_key(self, key: Qt.Key, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
        self.screen.matrix.setFocus()
        QTest.keyClick(self.screen.matrix, key, modifiers)

    def buttons(self) -> list[str]:
        """What the head offers."""
        return [one.text() for one in visible(self.screen.head, QAbstractButton) if one.text()]

    def press(self, words: str, inside: QWidget | None = None) -> None:
        found = [one for one in visible(inside or self.screen, QAbstractButton) if one.text() == words]
        assert len(found) == 1, [one.text() for one in visible(inside or self.screen, QAbstractButton)]
        found[0].click()

    def offers(self, words: str) -> bool:
        """Whether there is something to press with these words."""
        return any(one.text() == words for one in visible(self.screen, QAbstractButton))

    def tell(self, summary: RunSummary) -> None:
        """Tell the window of a run, as the service does."""
        self.bay.desk.state.apply(RunChanged(run=summary))

    def dialog(self) -> ResumeDialog | UndoDialog:
        """The dialog that is open."""
        found = [one for one in visible(self.bay.desk.window, Dialog) if one.isVisible()]
        assert len(found) == 1
        assert isinstance(found[0], ResumeDialog | UndoDialog)
        return found[0]

    @property
    def has_dialog(self) -> bool:
        return bool(visible(self.bay.desk.window, Dialog))

    def words(self, inside: QWidget) -> str:
        """Everything that is written somewhere."""
        return "\n".join(label.text() for label in visible(inside, Label))

    def off(self, words: str, inside: QWidget) -> str:
        """Why a button is off; empty while it is on."""
        button = button_named(inside, words)
        return "" if button.isEnabled() else button.accessibleDescription()

    @asynccontextmanager
    async def device(self, name: str) -> AsyncIterator[RemoteDevice]:
        """Another device, a process of its own."""
        wish = pairing_change(name, DeviceSettings())
        beside = self.bay.beside
        pairing = await beside.devices.pair(name, DeviceSettings(), await self.bay.signed_by("harbour", wish))
        async with paired(self.work.parent / name, pairing.string) as device:
            await stands(beside, name, Health.ONLINE)
            yield device


@asynccontextmanager
async def open_runs(theme: Theme, folder: Path, policy: str = TRUSTED) -> AsyncIterator[RunsPage]:
    """The window on a service; this computer may write in `work` only."""
    work = folder / "work"
    work.mkdir()
    home = Home(folder / "home").create()
    (home.device_state / "device.toml").write_text(
        f'roots = ["{work}"]\ntools_off = ["shell_execute_read"]\n'
    )
    async with open_on_service(theme, folder, policy=policy) as bay:
        yield RunsPage(bay, work)
