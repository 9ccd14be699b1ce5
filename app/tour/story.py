"""The story: from a fresh home to a batch approved, looked at, replayed, and still there after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtWidgets import QTabBar, QTableView

from app.main import Desk
from app.tour.hand import Hand, StepDidNotHappen
from core.fleet.models import Health

PASSPHRASE = "fair winds and following seas"


@dataclass(frozen=True, slots=True)
class Stage:
    """What one scene needs: the window, the hand that works it, and a folder the shell step may write to."""

    desk: Desk
    hand: Hand
    folder: Path


Scene = Callable[[Stage], Awaitable[None]]


async def first_run(stage: Stage) -> None:
    """A fresh home: this computer comes online by itself; the operator makes a key and takes a picture."""
    hand, state = stage.hand, stage.desk.state
    await hand.until(
        "this computer is online",
        lambda: any(device.health is Health.ONLINE for device in state.devices.values()),
    )
    stage.desk.theme.set_mode("light")
    await hand.write("Your name on approvals", "harbour")
    await hand.write("Passphrase", PASSPHRASE)
    await hand.look("first-run")
    await hand.press("Create key")
    await hand.until("the key is registered", lambda: bool(state.operators))
    await hand.press("Take a picture")
    await hand.until("the first picture", lambda: any(device.picture for device in state.devices.values()))
    await hand.look("first-run-done")
    stage.desk.theme.set_mode("dark")
    await hand.press("Open the fleet")


async def fleet(stage: Stage) -> None:
    """The one device, its health, its tools with their contracts."""
    hand = stage.hand
    table = await hand.find(QTableView, "Devices")
    await hand.choose(table, "this-computer")
    await hand.key("Return", table)
    await hand.look("fleet")
    tabs = await hand.find(QTabBar, "About the device")
    tabs.setCurrentIndex(1)
    tools = await hand.find(QTableView, "All tools of the device")
    await hand.choose(tools, "shell_execute")
    await hand.look("fleet-tool-contract")


SCENES: list[Scene] = [first_run, fleet]


async def play(stage: Stage, scenes: list[Scene]) -> None:
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
