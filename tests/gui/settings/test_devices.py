"""Settings, Devices: the address to listen at, what it means, and refused attempts of everybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.main import ConsoleApplication
from app.screens.fleet.pairing_dialog import PairingDialog
from app.screens.settings.devices_page import address_help, address_problem
from app.theme.theme import Theme
from core.errors import BadInput
from core.fleet.models import Listening
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen
from tests.gui.settings.page import open_devices


@pytest.mark.parametrize("address", ["127.0.0.1:5000", "[::1]:5000", "harbour.lan:65535"])
def test_addresses_that_can_be_listened_at(address: str) -> None:
    assert address_problem(address) == ""


@pytest.mark.parametrize("address", ["5000", "127.0.0.1", "127.0.0.1:0", "a:70000", "x y:1", "ws://a:1"])
def test_addresses_that_cannot(address: str) -> None:
    assert address_problem(address)


def test_what_an_address_means_is_said_before_it_is_used() -> None:
    assert address_help("localhost:5000").startswith("Only programs on this computer")
    assert address_help("0.0.0.0:5000").startswith("Other computers can connect: with TLS")


async def test_another_address_is_listened_at_and_shown(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_frame(theme, tmp_path, console) as desk:
        section = open_devices(desk)
        await seen(lambda: section.address.text() == "0.0.0.0:5000")
        assert not section.listen.isEnabled()
        assert "with TLS" in section.facts.value("State").text()
        assert len(section.facts.value("Certificate").text().split()) == 16
        section.address.setText("127.0.0.1:5001")
        QTest.keyClick(section.address, Qt.Key.Key_Return)
        await seen(lambda: "this computer only" in section.facts.value("State").text())
        assert console.listens.address == "127.0.0.1:5001"


async def test_a_taken_port_is_said_below_the_field(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.fail_next["listen"] = BadInput("Port 5001 is taken by another program.")

    async with open_frame(theme, tmp_path, console) as desk:
        section = open_devices(desk)
        await seen(lambda: section.address.text())
        section.address.setText("127.0.0.1:5001")
        section.listen.click()
        await seen(lambda: "is taken" in section.address_row.error)
        assert section.listen.isEnabled()


async def test_a_console_that_does_not_listen_says_why(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.listens = Listening(address="127.0.0.1:5000", problem="Port 5000 is taken.")

    async with open_frame(theme, tmp_path, console) as desk:
        section = open_devices(desk)
        await seen(section.banner.isVisible)
        assert "does not listen" in section.banner.words()
        # The same address may be tried again.
        assert section.listen.isEnabled()


async def test_refused_attempts_of_strangers_are_listed_too(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, story()) as desk:
        section = open_devices(desk)
        await seen(lambda: section.refused.rows_model.rowCount() > 3)
        words = [str(section.refused.rows_model.index(row, 2).data()) for row in range(3)]
        assert words[0] == "The token is not known here."
        assert any(word.startswith("build-lnx-03: ") for word in words)


async def test_the_palette_offers_to_pair(theme: Theme, tmp_path: Path) -> None:
    def _press_first(desk: ConsoleApplication) -> bool:
        from app.shell.command_palette import CommandPalette

        palettes = desk.window.findChildren(CommandPalette)
        if palettes and palettes[0].isVisible():
            QTest.keyClick(desk.window.focusWidget(), Qt.Key.Key_Return)
        return False

    async with open_frame(theme, tmp_path, story()) as desk:
        desk.window.open("settings")
        desk.window.open_palette("pair a device")
        await seen(lambda: desk.window.findChildren(PairingDialog) or _press_first(desk))
