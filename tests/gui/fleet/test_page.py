"""The wide page of a device, pictures of all that are marked, and what pairing and settings leave to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit

from app.screens.fleet.pairing_dialog import LISTENS, PairingDialog
from app.screens.fleet.screen import FleetScreen
from app.screens.fleet.screenshot_action import AT_ONCE, MOST_PICTURES
from app.screens.targets import OpenDevice
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.aip.pairing import Pairing, encode_pairing
from core.batch.models import Run
from core.errors import DeviceError
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.fleet.page import PanelPage, ToolPage, open_fleet


async def test_enter_opens_the_page_over_the_whole_pane_and_escape_goes_back(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.listing.choose("build-lnx-03")
        panel = fleet.panel
        width = panel.width()
        QTest.keyClick(fleet.table, Qt.Key.Key_Return)
        await seen(lambda: panel.is_wide and panel.width() == fleet.width())
        assert not fleet.table.isVisible()
        assert panel.overview.isVisible()
        assert panel.tools_tab.isVisible()
        assert not panel.tabs.isTabVisible(0)
        assert panel.overview.mapTo(fleet, panel.overview.rect().topRight()).x() < panel.tools_tab.x() + 600
        assert fleet.escape()
        await seen(lambda: panel.width() == width)
        assert fleet.table.isVisible()
        assert panel.tabs.currentIndex() == 0
        assert panel.overview.isVisible()
        await seen(panel.overview.table.isVisible)
        assert fleet.table.hasFocus()


async def test_the_page_shows_health_over_time_without_scrolling_and_looks_tools_up(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    tools = console.tools_of["build-lnx-03"]
    more = [
        tool.model_copy(update={"tool_key": f"{tool.tool_key}-{n}", "tool_name": f"{tool.tool_name}_{n}"})
        for n in range(2)
        for tool in tools
    ]
    console.tools_of["build-lnx-03"] = [*tools, *more]

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.open("fleet", OpenDevice("build-lnx-03", "tools"))
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        fleet.listing.opened.emit("build-lnx-03")
        tab, plot = fleet.panel.tools_tab, fleet.panel.overview.plot
        await seen(lambda: tab.table.rows_model.rowCount() == 3 * len(tools))
        await seen(
            lambda: plot.accessibleDescription() and plot.visibleRegion().boundingRect() == plot.rect()
        )
        tab.search.setText("FILE _1")
        names = {"write_file_1", "restore_file_1", "read_file_1"}
        assert {tool.tool_name for tool in tab.table.rows_model.items} == names
        assert tab.found.text() == f"3 of {3 * len(tools)}"
        chosen = tab.chosen()
        assert chosen is not None
        assert chosen.tool_name in names
        # A tool that is opened from elsewhere is shown, whatever was looked for.
        fleet.panel.show_tab("tools", "action::shell_execute")
        assert tab.table.current_key() == "action::shell_execute"
        desk.window.open("fleet", OpenDevice("lab-lnx-01", "tools"))
        await seen(lambda: tab.table.rows_model.rowCount() == 10)
        assert not tab.search.isVisible()


async def test_the_page_keeps_the_tab_that_was_open_and_follows_a_device_opened_from_elsewhere(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        desk.window.open("fleet", OpenDevice("build-lnx-03", "link"))
        fleet.panel.widen.click()
        await seen(lambda: fleet.panel.is_wide)
        assert fleet.panel.link_tab.isVisible()
        desk.window.open("fleet", OpenDevice("lab-lnx-01", "overview"))
        assert not fleet.panel.is_wide
        assert fleet.panel.overview.place.isVisible()


async def test_i_opens_and_closes_the_panel_beside_the_tiles(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.show_as(True)
        fleet.wall.setFocus()
        assert not fleet.panel.isVisible()
        QTest.keyClick(fleet.wall, Qt.Key.Key_I)
        assert fleet.panel.isVisible()
        assert fleet.wall.isVisible()
        QTest.keyClick(fleet.wall, Qt.Key.Key_I)
        assert not fleet.panel.isVisible()


async def test_t_takes_pictures_of_all_marked_devices_and_a_few_at_a_time(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()
    under_way = most = 0

    def call(device: str, tool: str, parameters: dict[str, Any], timeout: float | None, said: str) -> Run:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        return console.on_call(device, tool, parameters, timeout, said)

    async def wait_run(run: str, timeout: float) -> Run:
        nonlocal under_way
        try:
            return await console.on_wait_run(run, timeout)
        finally:
            under_way -= 1

    console.answer("call", call)
    console.answer("wait_run", wait_run)

    def asked() -> list[str]:
        return [f"{call['device']} {call['tool']}" for call in console.calls_of("call")]

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        names = [f"lab-lnx-0{number}" for number in range(1, 6)]
        fleet.listing.set_marks(frozenset(names))
        fleet.table.setFocus()
        QTest.keyClick(fleet.table, Qt.Key.Key_T)
        await seen(lambda: "picture" not in fleet.head.detail.text() and len(asked()) == len(names))
        assert sorted(asked()) == [f"{name} screenshot" for name in names]
        assert most <= AT_ONCE


async def test_what_one_device_refuses_stops_no_other_picture_and_is_said(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    def call(device: str, tool: str, parameters: dict[str, Any], timeout: float | None, said: str) -> Run:
        if device == "lab-lnx-01":
            raise DeviceError("lab-lnx-01 is asleep.")
        return console.on_call(device, tool, parameters, timeout, said)

    console.answer("call", call)
    failed: list[tuple[str, str]] = []

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        desk.window.fail = lambda what, detail: failed.append((what, detail))  # type: ignore[method-assign]
        fleet.listing.set_marks(frozenset({"lab-lnx-01", "lab-lnx-02"}))
        fleet.table.setFocus()
        QTest.keyClick(fleet.table, Qt.Key.Key_T)
        await seen(lambda: failed)
        assert failed[0][0] == "1 of 2 pictures taken."
        assert failed[0][1].startswith("lab-lnx-01: lab-lnx-01 is asleep.")
        assert fleet.head.detail.text() == "24 devices, 2 marked"
        fleet.many.start([f"d{number}" for number in range(MOST_PICTURES + 1)])
        assert "at most" in failed[1][1]


async def test_the_name_in_a_listening_devices_string_is_offered_unless_one_was_typed(
    theme: Theme, tmp_path: Path
) -> None:
    string = encode_pairing(Pairing(url="ws://127.0.0.1:5010/ws", name="crane-2", token="t" * 32))

    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        for typed, expected in (("", "crane-2"), ("crane-east", "crane-east")):
            fleet.pair()
            sheet = next(one for one in desk.window.findChildren(PairingDialog) if one.isVisible())
            sheet.form.direction.choose(LISTENS)
            sheet.form.direction.chosen.emit(LISTENS)
            QTest.keyClicks(sheet.name_field, typed)
            sheet.form.string_field.setPlainText(string[:20])
            assert sheet.name_field.text() == typed
            sheet.form.string_field.setPlainText(string)
            assert sheet.name_field.text() == expected
            sheet.dismiss()


async def test_a_configured_agent_can_be_taken_back(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        device = desk.state.devices["line2-board"]
        assert device.agent
        desk.window.open("fleet", OpenDevice("line2-board", "link"))
        fleet.panel.link_tab.edit.click()
        sheet = next(one for one in desk.window.findChildren(Dialog) if one.isVisible())
        field = next(one for one in sheet.findChildren(QLineEdit) if one.text() == device.agent)
        field.clear()
        assert sheet.answer("save").isEnabled()
        sheet.answer("save").click()
        await seen(lambda: not desk.state.devices["line2-board"].agent)


async def test_ctrl_a_on_the_wall_chooses_every_tile(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.show_as(True)
        QTest.keyClick(fleet.wall, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        assert len(fleet.listing.marked()) == len(desk.state.devices)


async def test_the_page_follows_its_device_and_closes_when_that_is_forgotten(
    theme: Theme, tmp_path: Path
) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.listing.choose("lab-lnx-01")
        fleet.listing.opened.emit("lab-lnx-01")
        await seen(lambda: fleet.panel.is_wide)
        await console.devices.revoke("lab-lnx-01")
        desk.window.open("fleet")
        await seen(lambda: PanelPage(fleet).health.lower().endswith("offline"))
        await console.devices.forget("lab-lnx-01")
        await seen(lambda: not fleet.panel.is_wide and fleet.table.isVisible())


async def test_a_tools_page_says_what_it_needs_and_reaches_with_who_says_so(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        desk.window.open("fleet", OpenDevice("lab-lnx-01", "tools", "action::shell_execute"))
        page = ToolPage(open_fleet(desk))
        await seen(lambda: page.scope)
        named = [line.partition(":")[0] for line in page.scope]
        assert named == ["Sign-in", "Network", "Files", "Processes", "Acts as", "Served by", "If it fails"]
        assert "Network: whatever its user may reach, built-in. The line decides." in page.scope
        # Of a tool of a hosted server less is known, and that is said as well.
        desk.window.open("fleet", OpenDevice("lab-lnx-01", "tools", "data_collection::artifact.list"))
        await seen(lambda: any(line.startswith("Sign-in: not known, by default") for line in page.scope))
