"""The Batch screen in the real window: opened on a batch, over a console that remembers what was started."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QLabel, QWidget

from app.main import ConsoleApplication
from app.screens.batch.document import content_of
from app.screens.batch.screen import BatchScreen
from app.screens.targets import Target
from app.widgets.dialog import Dialog
from core.batch.models import Batch, Run
from tests.fakes.console import FakeConsole
from tests.fakes.window import seen


class Recorder(FakeConsole):
    """Remembers which batches were started, on which devices."""

    def __init__(self, **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]  # handed on as they are
        self.started: list[tuple[Batch, list[str] | None]] = []
        self.inputs: list[dict[str, Any] | None] = []

    async def on_start_run(
        self,
        batch: Batch,
        expected_devices: list[str] | None = None,
        inputs: dict[str, Any] | None = None,
        said: str = "",
        request_id: str = "",
    ) -> Run:
        self.started.append((batch, expected_devices))
        self.inputs.append(inputs)
        return await super().on_start_run(batch, expected_devices, inputs)


def risky(targets: str, command: str = "rm -rf /srv/cache") -> Batch:
    steps = [
        {"id": "look", "tool": "get_system_info", "with": {"info_type": "disk"}},
        {"id": "clean", "tool": "shell_execute", "with": {"command": command}},
    ]
    return Batch.model_validate({"name": "Clean", "targets": targets, "steps": steps})


async def batch_of(desk: ConsoleApplication, batch: Batch | None = None) -> BatchScreen:
    desk.window.open("batch")
    screen = desk.window.current
    assert isinstance(screen, BatchScreen)
    await seen(lambda: desk.link.connected)
    if batch is not None:
        screen.editor.load(content_of(batch))
    await seen(lambda: screen.shelf.offer.tools and not screen.shelf.offer.reading)
    return screen


def sheet_of(desk: ConsoleApplication) -> Dialog | None:
    return next((one for one in desk.window.findChildren(Dialog) if one.isVisible()), None)


def words_in(sheet: Dialog) -> str:
    names = [widget.accessibleName() for widget in sheet.findChildren(QLabel)]
    texts = [label.text() for label in sheet.findChildren(QLabel)]
    tags = [one.accessibleName() for one in sheet.card.findChildren(QWidget)]
    return "\n".join([*texts, *names, *tags])


def opened_screens(desk: ConsoleApplication) -> list[tuple[str, Target | None]]:
    opened: list[tuple[str, Target | None]] = []
    desk.window.open = lambda screen, target=None: opened.append((screen, target))  # type: ignore[method-assign]
    return opened
