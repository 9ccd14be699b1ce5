"""The text of a step in Batch as a person sees it: what is said of it, and its tick or cross."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.screens.batch.screen import BatchScreen
from app.widgets.labels import ElidedLabel


def words_on_text(screen: BatchScreen) -> str:
    """What is said of the text, as it is read aloud: `The text: valid`, or what is wrong."""
    names = [label.accessibleName() for label in screen.text.findChildren(ElidedLabel)]
    return next(name for name in names if name.startswith("The text: "))


def is_ticked(screen: BatchScreen) -> bool:
    """Whether the mark beside the words is a tick."""
    [mark] = [one for one in screen.text.findChildren(QWidget) if hasattr(one, "good")]
    return bool(mark.good)
