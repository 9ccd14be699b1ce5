"""The screens in the order of the navigation, imported when they are first opened."""

from __future__ import annotations

import importlib
import traceback
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPlainTextEdit

from app.screens.screen import Screen
from app.theme.theme import theme_of
from app.widgets.labels import Label, set_surface
from app.widgets.layouts import vbox
from core.log import Logger

log = Logger(__name__)


@dataclass(frozen=True, slots=True)
class ScreenEntry:
    """One line of the navigation."""

    name: str
    title: str
    icon: str
    module: str
    class_name: str

    def make(self) -> Screen:
        """Import and make the screen; one that cannot be made is shown with its error instead."""
        try:
            made: Screen = getattr(importlib.import_module(self.module), self.class_name)()
        except Exception as error:
            # The edge: one broken screen must not take Stop all and the other screens with it.
            log.error("screen cannot be made", screen=self.name, exc_info=error)
            return BrokenScreen(self, error)
        return made


SCREENS: tuple[ScreenEntry, ...] = tuple(
    ScreenEntry(name, name.capitalize(), name, f"app.screens.{name}.screen", f"{name.capitalize()}Screen")
    for name in ("fleet", "batch", "approvals", "runs", "replay", "journal", "agents", "settings")
)


class BrokenScreen(Screen):
    """Stands in for a screen that raised while it was made; says what happened, to be copied."""

    name = "broken"
    title = "This screen could not be opened"
    icon = "failed"

    def __init__(self, entry: ScreenEntry, error: BaseException) -> None:
        super().__init__()
        set_surface(self, "base")
        column = vbox(
            Label(f"{entry.title} could not be opened.", "hero"),
            Label("The other screens work. The details below belong into a fault report.", tone="text2"),
            parent=self,
            margins=44,
            spacing=None,
        )
        details = QPlainTextEdit("".join(traceback.format_exception(error)))
        details.setReadOnly(True)
        details.setFont(theme_of(self).font("mono_small"))
        details.setAccessibleName("Details of the error")
        details.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        column.addWidget(details, 1)
