"""A live tile follows a real screen: a device client's own process, an X display, a service, the window."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest
from Xlib.display import Display

from app.screens.fleet.screen import FleetScreen
from app.theme.theme import Theme
from core.approvals.operator_keys import create_operator_key
from core.home import Home
from core.service.console import Console
from core.service.local_console import LocalConsole
from core.service.service import Service
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.window import open_window, seen

NAME = "this-computer"
GREEN, RED = "#20a040", "#c03020"


def colour(screen: Display, name: str) -> None:
    """Fill the whole screen."""
    root = screen.screen().root
    root.change_attributes(background_pixel=int(name[1:], 16))
    root.clear_area()
    screen.sync()


def shows(fleet: FleetScreen, name: str) -> bool:
    """Whether the tile's picture has about this colour in its middle; codecs are not exact."""
    tile, thumbs = fleet.listing.tile(NAME), fleet.listing.thumbnails
    image = thumbs.get(tile.picture, 320) if thumbs and tile and tile.live else None
    if image is None or image.isNull():
        return False
    there, wanted = image.pixelColor(image.width() // 2, image.height() // 2), QColor(name)
    pairs = zip(there.getRgb()[:3], wanted.getRgb()[:3], strict=True)  # type: ignore[arg-type,index]
    return all(abs(one - other) < 12 for one, other in pairs)


async def test_a_tile_follows_the_screen_while_it_is_seen_and_no_longer(
    theme: Theme, tmp_path: Path, on_display: str
) -> None:
    home = Home(tmp_path / "service").create()
    choose_channel(home, "process")
    stack = AsyncExitStack()
    services: list[Service] = []
    screen = Display(on_display)
    colour(screen, GREEN)

    async def opened() -> Console:
        service = await stack.enter_async_context(open_service(home))
        services.append(service)
        console = LocalConsole(service, "operator:harbour")
        key = create_operator_key(Home(tmp_path / "keys").create(), "harbour", None)
        await console.approvals.register_operator(key.operator)
        return console

    try:
        async with open_window(theme, tmp_path / "window", opened) as desk:
            [service] = services
            desk.window.open("fleet")
            fleet = desk.window.current
            assert isinstance(fleet, FleetScreen)
            fleet.show_as(True)
            fleet.wall.setFocus()
            QTest.keyClick(fleet.wall, Qt.Key.Key_L)
            await seen(lambda: shows(fleet, GREEN), 40)
            colour(screen, RED)
            await seen(lambda: shows(fleet, RED), 40)
            device = desk.state.devices[NAME]
            assert (device.picture, device.doing) == (None, "")
            assert not desk.state.runs
            desk.window.open("runs")
            await seen(lambda: not any("live picture" in name for name in service.tasks.names))
            await service.journal.settle()
            page = await service.journal.query("tool:screenshot kind:command_sent")
            assert len(page.entries) >= 2
            assert all(entry.body["glimpse"] is True for entry in page.entries)
            assert {entry.actor for entry in page.entries} == {"operator:harbour"}
            await stack.aclose()
    finally:
        screen.close()
