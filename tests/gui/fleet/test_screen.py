"""Fleet: table, filter, panel, tools with their contracts, review of changed definitions."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.screens.fleet.contract_review_dialog import ContractReviewDialog
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenDevice, OpenQuery
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.audit.entries import Kind
from core.errors import DeviceError, ErrorCode, Refused
from core.models.devices import Health
from tests.fakes.fleet_data import CHANGED_KEY
from tests.fakes.sign_sheets import do_not_sign, operator_of, sign
from tests.fakes.story import story
from tests.fakes.window import open_window, opened_screens, seen
from tests.gui.fleet.page import PanelPage, ToolPage, open_fleet
from tests.gui.page import problem_in
from tests.gui.shell.page import status_part


def names_in(fleet: FleetScreen) -> list[str]:
    return [device.name for device in fleet.table.devices.items]


async def test_production_devices_come_first_and_carry_their_band(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        devices = fleet.table.devices
        marked = [device.name for row, device in enumerate(devices.items) if devices.style(row).production]
        assert len(devices.items) == 24
        assert names_in(fleet)[: len(marked)] == marked
        assert fleet.head.detail.text() == "24 devices"


async def test_the_filter_counts_as_it_is_typed(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        QTest.keyClick(desk.window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
        QTest.keyClicks(fleet.filter_field, "os:linux tag:lab")
        await seen(lambda: fleet.head.detail.text() == "5 of 24 devices")
        assert names_in(fleet) == [f"lab-lnx-0{number}" for number in range(1, 6)]
        assert fleet.run_button.text() == "Run on 5…"


async def test_half_a_filter_says_what_is_wrong_and_keeps_the_rows(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.filter_field.setText("health:sick")
        await seen(fleet.problem.isVisible)
        assert "Column" in fleet.problem.text()
        assert len(names_in(fleet)) == 24
        fleet.filter_field.setText("health:stale")
        await seen(lambda: names_in(fleet) == ["kiosk-hall-2"])
        assert not fleet.problem.isVisible()


async def test_a_status_part_opens_the_fleet_with_its_filter(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        desk.window.open("settings")
        status_part(desk, Health.OFFLINE.value).click()
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        assert names_in(fleet) == ["kiosk-yard", "lab-win-03"]


async def test_a_device_keeps_its_row_while_its_state_changes(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.table.choose("lab-lnx-03")
        console.change_device("lab-lnx-01", health=Health.OFFLINE, reason="The line was closed.")
        devices = fleet.table.devices
        await seen(lambda: devices.style(devices.row_of("lab-lnx-01")).muted)
        assert fleet.table.current_key() == "lab-lnx-03"
        assert PanelPage(fleet).device == "lab-lnx-03"


async def test_the_panel_shows_tools_with_effect_risk_and_source(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("lab-lnx-01", "tools"))
        table = fleet.panel.tools_tab.table
        await seen(lambda: table.rows_model.rowCount() == 10)
        shell = table.rows_model.words(table.rows_model.row_of("action::shell_execute"))
        assert shell.split("\t")[1:] == ["change", "High", "built-in"]


async def read_to_the_end(sheet: ContractReviewDialog) -> None:
    """Scroll what changed to its last line, as an operator has to."""
    await seen(lambda: sheet.diff.isVisible())
    assert not sheet.trust.isEnabled()
    for area in (sheet.read_area, sheet.diff):
        area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())
    await seen(sheet.trust.isEnabled)


async def test_tool_details_say_who_says_so_and_why(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("lab-lnx-01", "tools", "data_collection::artifact.list"))
        tool = ToolPage(fleet)
        await seen(lambda: tool.name == "artifact.list")
        told = next(words for words in tool.facts if words.startswith("Risk:"))
        assert told.startswith("Risk: low, the device says. The device declares it read-only")
        assert '"prefix"' in tool.schema.toPlainText()


async def test_what_a_device_says_is_never_taken_for_markup(theme: Theme, tmp_path: Path) -> None:
    console = story()
    tools = console.tools_of["lab-lnx-01"]
    tools[0] = tools[0].model_copy(update={"description": "<b>harmless</b><img src='file:///etc/passwd'>"})

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("lab-lnx-01", "tools", tools[0].tool_key))
        tool = ToolPage(fleet)
        await seen(lambda: "harmless" in tool.description.text())
        assert tool.description.textFormat() == Qt.TextFormat.PlainText


async def test_unavailable_tools_are_listed_with_the_reason_and_how_to_get_them(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("this-computer", "tools"))
        missing = fleet.panel.tools_tab.missing
        await seen(missing.isVisible)
        rows = [" ".join(str(missing.rows_model.index(n, c).data()) for c in (0, 1)) for n in range(3)]
        assert any(
            "shell_execute_read bubblewrap is not installed. apt install bubblewrap" in row for row in rows
        )


async def test_an_offline_device_says_why_its_tools_cannot_be_read(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("kiosk-yard"))
        await seen(lambda: "kiosk-yard is offline." in fleet.panel.overview.place.words)
        assert not fleet.panel.take.isEnabled()
        assert "cannot be asked now" in fleet.panel.take.toolTip()


async def test_taking_a_picture_shows_it(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.fleet["lab-lnx-02"] = console.fleet["lab-lnx-02"].model_copy(update={"picture": None})

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("lab-lnx-02"))
        assert not fleet.panel.picture.has_picture
        fleet.table.setFocus()
        QTest.keyClick(fleet.table, Qt.Key.Key_T)
        await seen(lambda: fleet.panel.picture.has_picture)
        assert "1280\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}800" in PanelPage(fleet).picture_words
        assert fleet.panel.take.text() == "Take picture"


async def test_a_picture_that_is_no_image_is_said_to_be_unreadable(theme: Theme, tmp_path: Path) -> None:
    console = story()
    blob = console.fake_journal.add_blob(b"not an image")
    console.fleet["lab-lnx-02"] = console.fleet["lab-lnx-02"].model_copy(update={"picture": blob})

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("lab-lnx-02"))
        await seen(lambda: PanelPage(fleet).picture_words == "The picture cannot be read.")


async def test_a_picture_that_fails_says_what_to_do_beside_the_button(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.fail_next["call"] = DeviceError("lab-lnx-02 did not answer.", ErrorCode.TIMEOUT)

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("lab-lnx-02"))
        fleet.panel.take_picture()
        await seen(lambda: PanelPage(fleet).problem)
        assert "did not answer" in PanelPage(fleet).problem
        assert "allow more time" in PanelPage(fleet).problem
        assert fleet.panel.take.isEnabled()


async def test_call_a_tool_opens_its_form_and_sends_nothing(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("lab-lnx-01", "tools", "action::write_file"))
        await seen(lambda: fleet.panel.tools_tab.chosen() is not None)
        await seen(lambda: ToolPage(fleet).name == "write_file")
        opened = opened_screens(desk)
        fleet.panel.call.click()
        [(screen, target)] = opened
        assert screen == "batch"
        assert target is not None
        assert (target.device, target.tool_name) == ("lab-lnx-01", "write_file")  # type: ignore[union-attr]
        assert not {"call", "start_run"} & set(console.asked)


async def test_run_takes_the_filter_or_the_marked_devices(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenQuery("tag:kiosk"))
        opened = opened_screens(desk)
        fleet.run_button.click()
        assert opened[-1][1].targets == "tag:kiosk"  # type: ignore[union-attr]
        fleet.table.selectAll()
        fleet.run_button.click()
        targets = opened[-1][1].targets  # type: ignore[union-attr]
        assert targets == "name:kiosk-hall-1,kiosk-hall-2,kiosk-yard"


async def test_a_changed_definition_is_blocked_shown_whole_and_trusted_only_by_a_button(
    theme: Theme, tmp_path: Path
) -> None:
    console = story([operator_of(tmp_path)])

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("build-lnx-03"))
        overview = fleet.panel.overview
        await seen(lambda: overview.notice.isVisible() and overview.table.rows_model.rowCount())
        overview.notice.acted.emit()
        await seen(lambda: desk.window.findChildren(Dialog))
        sheet = desk.window.findChildren(Dialog)[0]
        assert isinstance(sheet, ContractReviewDialog)
        await read_to_the_end(sheet)
        shown = " ".join(line.text for line in sheet.diff.shown)
        assert "also deletes what the index does not name" in shown
        assert CHANGED_KEY in console.fleet["build-lnx-03"].changed_tools
        sheet.answer("trust").click()
        await do_not_sign(desk)
        await seen(sheet.trust.isEnabled)
        assert CHANGED_KEY in console.fleet["build-lnx-03"].changed_tools
        sheet.answer("trust").click()
        await sign(desk)
        await seen(lambda: not overview.notice.isVisible())
        assert console.fleet["build-lnx-03"].changed_tools == []


async def test_a_definition_that_changed_again_is_not_trusted(theme: Theme, tmp_path: Path) -> None:
    console = story([operator_of(tmp_path)])

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("build-lnx-03", "tools", CHANGED_KEY))
        tools = fleet.panel.tools_tab
        await seen(lambda: ToolPage(fleet).name == "indexer.rebuild")
        assert not tools.details.call.isEnabled()
        tools.details.review_asked.emit()
        await seen(lambda: desk.window.findChildren(Dialog))
        console.fail_next["review_contract"] = Refused("It changed again.", ErrorCode.CONTRACT_CHANGED)
        sheet = desk.window.findChildren(Dialog)[0]
        assert isinstance(sheet, ContractReviewDialog)
        await read_to_the_end(sheet)
        sheet.answer("trust").click()
        await sign(desk)
        await seen(lambda: "It changed again." in problem_in(sheet))
        assert sheet.isVisible()
        sheet.finish("")


async def test_recent_follows_the_journal(theme: Theme, tmp_path: Path) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("db-primary", "recent"))
        table = fleet.panel.recent.table
        await seen(lambda: table.rows_model.rowCount() > 0)
        before = console.asked.count("entries")
        newest = console.write(Kind.DEVICE_CONNECTED, "device:db-primary", device="db-primary")
        await seen(lambda: table.rows_model.row_of(str(newest.seq)) == 0)
        assert console.asked.count("entries") == before + 1


async def test_recent_shows_the_journal_of_this_device_only(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story()) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("db-primary", "recent"))
        table = fleet.panel.recent.table
        await seen(lambda: table.rows_model.rowCount() > 3)
        opened = opened_screens(desk)
        table.opened.emit(table.rows_model.key_at(0))
        assert opened[0][0] == "journal"
