"""The Batch screen in the real window, opened on a batch."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel, QWidget

from app.main import ConsoleApplication
from app.screens.batch.document import content_of
from app.screens.batch.screen import BatchScreen
from app.widgets.dialog import Dialog
from core.batch.models import Batch
from tests.fakes.window import seen


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
