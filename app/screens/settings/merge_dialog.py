"""Two versions of the policy beside each other: the file as it is now, and what was typed here."""

from __future__ import annotations

import asyncio

from PySide6.QtWidgets import QWidget

from app.qt_loop import ended
from app.widgets.dialog import Dialog
from app.widgets.diff_view import DiffView
from app.widgets.labels import Label
from app.widgets.text_diff import diff_of

TAKE, KEEP, LATER = "take", "keep", "later"


async def compare(window: QWidget, disk: str, mine: str) -> str:
    """Ask which of two texts to go on with; `TAKE` the file's, `KEEP` the one typed here, or neither."""
    diff = await asyncio.to_thread(diff_of, disk, mine)
    sheet = Dialog(
        window,
        "policy.toml was changed by another program",
        "What was typed here began from an older file. Red lines are in the file now and would be lost if "
        "yours replaced it; green lines are yours.",
        width=820,
    )
    view = DiffView()
    view.show_diff(diff)
    sheet.add(Label(f"From the file to yours: {diff.words()}.", "label", "text3"))
    sheet.add(view)
    sheet.add_answer(LATER, "Go on editing")
    sheet.add_answer(TAKE, "Take the file, give up mine")
    sheet.add_answer(KEEP, "Keep mine", primary=True)
    sheet.open(view)
    return str(await ended(sheet.finished))
