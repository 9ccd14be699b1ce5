"""A stage, and how scenes are played on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QWidget

from app.main import ConsoleApplication
from core.service.console import Console
from tests.tour.devices import DemoDevices
from tests.tour.ui_driver import StepDidNotHappen, UiDriver

PASSPHRASE = "fair winds and following seas"


@dataclass(frozen=True, slots=True)
class TourContext:
    """What one scene needs: the window, the hand that works it, a folder for the shell step, the devices.

    `agent` is a door of its own, through which an agent asks for things.
    """

    desk: ConsoleApplication
    hand: UiDriver
    folder: Path
    crew: DemoDevices
    agent: Callable[[], Awaitable[Console]]


Scene = Callable[[TourContext], Awaitable[None]]


def says(hand: UiDriver, words: str) -> bool:
    """Whether these words stand somewhere on the screen, or are read out by assistive technology."""
    for widget in hand.window.current.findChildren(QWidget):
        if widget.isVisible():
            shown = widget.text() if isinstance(widget, (QLabel, QAbstractButton, QLineEdit)) else ""
            if words in shown or words in widget.accessibleName():
                return True
    return False


async def play(stage: TourContext, scenes: list[Scene]) -> None:
    """Play scenes in order.

    Raises:
        StepDidNotHappen: says in which scene; the window as it stood is kept as a picture.
    """
    for scene in scenes:
        try:
            await scene(stage)
        except StepDidNotHappen as missed:
            await stage.hand.look(f"failed-in-{scene.__name__}")
            raise StepDidNotHappen(f"{scene.__name__}: {missed}") from missed
        await asyncio.sleep(0)
