"""More devices: paired in the window, seen as a wall, opened, looked after, and sent away."""

from __future__ import annotations

import asyncio

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QTableView,
)

from app.query import Mutation
from app.screens.fleet.device_tabs import TABS
from app.widgets.dialog import Dialog
from core.fleet.models import DeviceSettings, Pairing
from core.models.devices import Health
from core.service.wishes import pairing_change
from tests.tour.context import Scene, TourContext, says
from tests.tour.signing import accept_settings, sign
from tests.tour.ui_driver import UiDriver

DIALS, LISTENS, PLAIN = "db-4", "crane-2", "build-7"
SERVERS = (
    '{"mcpServers": {"tickets": {"command": "npx", "args": ["-y", "ticket-server"], "env": {"KEY": "k-1"}}}}'
)


async def pair(stage: TourContext) -> None:
    """A production device: its name and tags here, the string pasted there, and it is connected."""
    hand = stage.hand
    await hand.press("Fleet")
    await hand.press("Pair a device")
    await hand.write("Name", DIALS)
    await hand.write("Tags", "db lab")
    await _tick(hand, "Production: it carries its colour band wherever it is shown")
    await hand.press("Pair")
    await sign(stage, "sign-pairing")
    box = await hand.find(QPlainTextEdit, "Then paste this string there")
    await hand.until("there is a string", lambda: box.toPlainText().startswith("qd1."))
    await hand.look("pairing")
    await asyncio.gather(stage.crew.pair(DIALS, box.toPlainText()), stage.crew.listen(LISTENS))
    await hand.until(f"{DIALS} is connected", lambda: is_online(stage, DIALS))
    await hand.press("Show the device")
    await hand.until("its page is open", lambda: says(hand, DIALS))


async def pair_listening(stage: TourContext) -> None:
    """One that listens and is dialled: the string comes from there, and the name with it."""
    hand = stage.hand
    await hand.press("Pair a device")
    await hand.press("The device listens")
    field = await hand.find(QPlainTextEdit, "String")
    field.setFocus(Qt.FocusReason.TabFocusReason)
    field.insertPlainText(stage.crew.strings[LISTENS])
    name = await hand.find(QLineEdit, "Name")
    await hand.until("the string's name is offered", lambda: name.text() == LISTENS)
    await hand.write("Tags", "yard")
    await hand.look("pairing-listens")
    await hand.press("Pair")
    await sign(stage)
    await hand.until(f"{LISTENS} is connected", lambda: is_online(stage, LISTENS))
    await hand.press("Done")
    # The third through the door, as `quarterdeck pair` does it.
    made: list[Pairing] = []
    settings = DeviceSettings(tags=["lab", "build"])
    window = stage.desk.window
    Mutation(window, stage.desk.link, made.append, what=f"pair {PLAIN}").carry(
        lambda: window.signing.carry_out(
            pairing_change(PLAIN, settings),
            lambda console, signed: console.devices.pair(PLAIN, settings, signed),
        )
    )
    await sign(stage)
    await hand.until(f"{PLAIN} has a string", lambda: bool(made))
    await stage.crew.pair(PLAIN, made[0].string)
    await hand.until(f"{PLAIN} is connected", lambda: is_online(stage, PLAIN))


async def wall(stage: TourContext) -> None:
    """All of them marked, a picture of each by one key; then kept fresh, and a filter with its count."""
    hand, state = stage.hand, stage.desk.state
    await hand.press("Wall")
    tiles = await hand.find(QAbstractItemView, "Devices as tiles")
    tiles.setFocus(Qt.FocusReason.TabFocusReason)
    await hand.key("Ctrl+A", tiles)
    await hand.key("T", tiles)
    await hand.until(
        "there is a picture of each", lambda: all(device.picture for device in state.devices.values())
    )
    await hand.until("the wall shows them", lambda: _all_say(tiles, "with a picture"))
    await hand.key("L", tiles)
    await hand.until("all of them are live", lambda: _all_say(tiles, "with a live picture"))
    await hand.look("fleet-wall")
    await hand.key("L", tiles)
    await hand.write("Filter devices", "tag:lab !name:db-*")
    await hand.until("the filter counts", lambda: says(hand, "1 of 4 devices"))
    await hand.look("fleet-wall-filter")
    await hand.key("Escape", hand.window)
    await hand.key("Escape", hand.window)
    await hand.press("Table")


async def page(stage: TourContext) -> None:
    """The page of a device: health, tools with contracts and sources, its servers, one call on trial."""
    hand = stage.hand
    devices = await hand.find(QTableView, "Devices")
    await hand.choose(devices, DIALS)
    await hand.key("Return", devices)
    tools = await hand.find(QTableView, "All tools of the device")
    await hand.choose(tools, "write_file")
    await hand.look("device-page")
    tabs = await hand.find(QTabBar, "About the device")
    tabs.setCurrentIndex(TABS.index("servers"))
    await hand.until("its servers are read", lambda: says(hand, "It hosts no MCP server."))
    await hand.press("Add a server…")
    pasted = await hand.find(QPlainTextEdit, "Paste mcpServers JSON")
    pasted.insertPlainText(SERVERS)
    await hand.look("device-servers")
    await hand.press("Back to the servers")
    tabs.setCurrentIndex(TABS.index("try"))
    await hand.pick("Tool", "get_system_info")
    await hand.pick("info_type, required", "memory")
    await hand.press("Call")
    await hand.until("the call is done", lambda: says(hand, "is done"))
    await hand.until("the policy has answered", lambda: says(hand, "Profile guarded"))
    await hand.look("device-try")


async def revoke(stage: TourContext) -> None:
    """The doctor finds nothing; revoked, the device is refused, counted, and the doctor says why."""
    hand, state = stage.hand, stage.desk.state
    await hand.key("Escape", hand.window)
    devices = await hand.find(QTableView, "Devices")
    await hand.choose(devices, PLAIN)
    await hand.key("Return", devices)
    tabs = await hand.find(QTabBar, "About the device")
    tabs.setCurrentIndex(TABS.index("link"))
    await hand.press("Run the doctor")
    await hand.until("the doctor is done", lambda: says(hand, "as it should be"))
    await hand.look("device-doctor")
    await hand.press("Revoke…")
    await hand.press("Revoke", await hand.find(Dialog, f"Revoke {PLAIN}?"))
    await hand.until("its link ended", lambda: state.devices[PLAIN].health is Health.OFFLINE)
    await hand.until("it tried again and was refused", lambda: state.devices[PLAIN].refused > 0)
    refused = await hand.find(QTableView, "Refused attempts")
    await hand.until("the refused attempt is listed", lambda: refused.model().rowCount() > 0)
    await hand.look("device-revoked")
    await hand.key("Escape", hand.window)


def is_online(stage: TourContext, name: str) -> bool:
    device = stage.desk.state.devices.get(name)
    return device is not None and device.health is Health.ONLINE and device.tool_count > 0


def _all_say(view: QAbstractItemView, words: str) -> bool:
    """Whether every item, as it is read aloud, says these words."""
    model = view.model()
    role = Qt.ItemDataRole.AccessibleTextRole
    return all(words in str(model.index(row, 0).data(role)) for row in range(model.rowCount()))


async def _tick(hand: UiDriver, name: str) -> None:
    box = await hand.find(QCheckBox, name)
    box.setFocus(Qt.FocusReason.TabFocusReason)
    QTest.keyClick(box, Qt.Key.Key_Space)


FLEET_SCENES: list[Scene] = [pair, pair_listening, wall, page, revoke, accept_settings]
