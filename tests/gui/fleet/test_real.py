"""A device paired in the window against a real service: a stock client connects with the string's address."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from PySide6.QtTest import QTest

from app.screens.fleet.pairing_dialog import PairingDialog
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenDevice
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.home import Home
from core.models.devices import Health
from core.service.console import Console
from core.service.local_console import LocalConsole
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.sign_sheets import operator_of, sign
from tests.fakes.stock_client import stock_client
from tests.fakes.window import open_window, seen
from tests.gui.fleet.page import PanelPage


async def test_a_stock_client_is_paired_in_the_window_seen_tried_and_revoked(
    theme: Theme, tmp_path: Path
) -> None:
    home = Home(tmp_path / "service").create()
    choose_channel(home, "in-process")
    operator = operator_of(tmp_path / "window")
    stack = AsyncExitStack()

    async def opened() -> Console:
        service = await stack.enter_async_context(open_service(home))
        console = LocalConsole(service, "window:test")
        await console.devices.listen("127.0.0.1:0")
        await console.approvals.register_operator(operator)
        return console

    async with open_window(theme, tmp_path / "window", opened) as desk:
        desk.window.open("fleet")
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        fleet.pair()
        sheet = desk.window.findChildren(PairingDialog)[0]
        QTest.keyClicks(sheet.name_field, "line-7")
        QTest.keyClicks(sheet.tags_field, "floor")
        await seen(sheet.answer("pair").isEnabled, 20)
        sheet.answer("pair").click()
        await sign(desk)
        await seen(lambda: sheet.result.stock.text(), 20)
        async with stock_client(sheet.result.stock.text(), "line-7"):
            await seen(lambda: "line-7 is connected" in sheet.result.waiting.text(), 20)
            sheet.answer("show").click()
            await seen(lambda: PanelPage(fleet).device == "line-7")
            await seen(lambda: "plain AIP" in fleet.panel.overview.facts.value("Client").text())
            desk.window.open("fleet", OpenDevice("line-7", "link"))
            doctor = fleet.panel.link_tab.doctor
            doctor.start.click()
            await seen(lambda: doctor.rows(), 20)
            states = {row.check.name: row.check.state.value for row in doctor.rows()}
            # A stock client does not say which machine it is on.
            assert states.pop("machine") == "skipped"
            assert set(states.values()) == {"passed"}
            fleet.panel.link_tab.revoke.click()
            desk.window.findChildren(Dialog)[0].answer("revoke").click()
            await seen(lambda: desk.state.devices["line-7"].health is Health.OFFLINE, 20)
            await seen(fleet.panel.link_tab.revoked.isVisible)
        await seen(lambda: not desk.window.findChildren(Dialog))
        fleet.panel.link_tab.forget.click()
        forget = desk.window.findChildren(Dialog)[0]
        QTest.keyClicks(forget.focusWidget(), "line-7")
        forget.answer("forget").click()
        await seen(lambda: "line-7" not in desk.state.devices, 20)
        await stack.aclose()
