"""Pairing: names checked as they are typed, a string shown once, the device awaited, ends confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPlainTextEdit

from app.main import ConsoleApplication
from app.records.device_text import fingerprint_groups, name_problem, split_tags, tags_problem
from app.screens.fleet.pairing_dialog import PairingDialog
from app.screens.targets import OpenDevice, OpenPairing
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.aip.pairing import Pairing as Line
from core.aip.pairing import decode_pairing, encode_pairing
from core.errors import BadInput, DeviceError
from core.fleet.models import Listening
from core.models.devices import Health
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices
from tests.fakes.sign_sheets import operator_of, sign
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.fleet.page import PanelPage, open_fleet
from tests.gui.page import part_of, problem_in


def story_of(folder: Path) -> FakeConsole:
    """The story, with an operator whose key this window has."""
    return story([operator_of(folder)])


async def pairing_of(desk: ConsoleApplication) -> PairingDialog:
    open_fleet(desk).head.pair_button.click()
    sheet = desk.window.findChildren(PairingDialog)[-1]
    await seen(lambda: sheet.listening is not None)
    return sheet


def test_names_and_tags_are_checked_in_words() -> None:
    devices = {device.name: device for device in make_devices()}
    assert name_problem("db-4", devices) == ""
    assert "connected already" in name_problem("db-primary", devices)
    assert "capitals" in name_problem("DB-Primary", devices)
    assert name_problem("-x", devices)
    assert name_problem("this-computer", devices)
    assert name_problem("kiosk-yard", devices) == ""
    assert split_tags("lab,  linux lab") == ["lab", "linux"]
    assert "not a tag" in tags_problem("lab !x")
    assert fingerprint_groups("AB:CD" * 16).splitlines()[0].split() == ["abcd"] * 8


async def test_the_string_is_shown_once_copied_whole_and_the_device_awaited(
    theme: Theme, tmp_path: Path
) -> None:
    console = story_of(tmp_path)

    async with open_window(theme, tmp_path, console) as desk:
        sheet = await pairing_of(desk)
        assert not sheet.answer("pair").isEnabled()
        QTest.keyClicks(sheet.name_field, "db-primary")
        assert "connected already" in sheet.form.name_row.error
        sheet.name_field.clear()
        QTest.keyClicks(sheet.name_field, "db-4")
        sheet.tags_field.setText("db, prod")
        sheet.production.setChecked(True)
        QTest.keyClick(sheet.name_field, Qt.Key.Key_Return)
        await sign(desk)
        result = sheet.result
        await seen(result.isVisible)
        assert console.fleet["db-4"].tags == ["db", "prod"]
        assert console.fleet["db-4"].production
        result.string.button.click()
        assert QGuiApplication.clipboard().text() == result.string.text() != ""
        result.command.button.click()
        assert QGuiApplication.clipboard().text() == "quarterdeck-device --pair -"
        result.start.button.click()
        assert QGuiApplication.clipboard().text() == "quarterdeck-device"
        assert "?token=" in result.stock.text()
        assert len(result.fingerprint.text().split()) == 16
        assert result.waiting.text() == "Waiting for db-4 …"
        console.arrive("db-4")
        await seen(lambda: "db-4 is connected" in result.waiting.text())
        assert not result.spinner.isVisible()
        string = result.string.text()
        sheet.answer("show").click()
        await seen(lambda: not desk.window.findChildren(PairingDialog))
        assert PanelPage(open_fleet(desk)).device == "db-4"
        shown = " ".join(box.toPlainText() for box in desk.window.findChildren(QPlainTextEdit))
        assert string not in shown


async def test_a_device_is_told_another_address_of_this_console(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story_of(tmp_path)) as desk:
        sheet = await pairing_of(desk)
        sheet.name_field.setText("db-4")
        QTest.keyClicks(sheet.form.address_field, "no host")
        assert "not the name or the number of a host" in sheet.form.address_row.error
        assert not sheet.answer("pair").isEnabled()
        sheet.form.address_field.clear()
        QTest.keyClicks(sheet.form.address_field, "203.0.113.7")
        sheet.answer("pair").click()
        await sign(desk)
        await seen(sheet.result.isVisible)
        line = decode_pairing(sheet.result.string.text())
        assert (line.url, line.name) == ("wss://203.0.113.7:5000/ws", "db-4")
        assert sheet.result.stock.text().startswith("wss://203.0.113.7:5000/ws?token=")


async def test_a_device_that_listens_is_told_no_address_of_this_console(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story_of(tmp_path)) as desk:
        sheet = await pairing_of(desk)
        assert sheet.form.address_row.isVisible()
        part_of(sheet.form.direction, "The device listens").click()
        assert not sheet.form.address_row.isVisible()


async def test_what_is_shown_once_is_not_lost_by_a_slip(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, story_of(tmp_path)) as desk:
        sheet = await pairing_of(desk)
        sheet.name_field.setText("db-4")
        sheet.answer("pair").click()
        await sign(desk)
        await seen(sheet.result.isVisible)
        QTest.mouseClick(sheet, Qt.MouseButton.LeftButton, pos=QPoint(5, sheet.height() - 5))
        assert sheet.isVisible()
        QTest.keyClick(desk.window, Qt.Key.Key_Escape)
        assert sheet.isVisible()
        assert "not shown again" in problem_in(sheet)
        QTest.keyClick(desk.window, Qt.Key.Key_Escape)
        await seen(lambda: not desk.window.findChildren(PairingDialog))


async def test_a_console_that_does_not_listen_says_so_where_it_matters(theme: Theme, tmp_path: Path) -> None:
    console = story()
    console.listens = Listening(address="127.0.0.1:5000", problem="Port 5000 is taken by another program.")

    async with open_window(theme, tmp_path, console) as desk:
        sheet = await pairing_of(desk)
        sheet.name_field.setText("db-4")
        await seen(sheet.form.not_listening.isVisible)
        assert "Port 5000 is taken" in sheet.form.not_listening.accessibleName()
        assert not sheet.answer("pair").isEnabled()
        part_of(sheet.form.direction, "The device listens").click()
        assert not sheet.form.not_listening.isVisible()
        part_of(sheet.form.direction, "The device dials in").click()
        sheet.form.not_listening.acted.emit()
        await seen(lambda: desk.window.current.name == "settings")


async def test_a_device_that_listens_is_paired_by_its_string_and_errors_stand_below_it(
    theme: Theme, tmp_path: Path
) -> None:
    console = story_of(tmp_path)

    async with open_window(theme, tmp_path, console) as desk:
        sheet = await pairing_of(desk)
        part_of(sheet.form.direction, "The device listens").click()
        sheet.name_field.setText("line-9")
        assert not sheet.answer("pair").isEnabled()
        sheet.form.string_field.setPlainText("nonsense")
        sheet.answer("pair").click()
        await seen(lambda: "A pairing string begins with" in sheet.form.string_row.error)
        assert "propose" not in console.asked
        string = encode_pairing(Line("wss://line-9.lan:5100/ws", "line-9", "t" * 43, "ab" * 32))
        sheet.form.string_field.setPlainText(string)
        sheet.answer("pair").click()
        await sign(desk)
        await seen(sheet.result.isVisible)
        assert not sheet.result.string.isVisible()
        assert sheet.result.waiting.text().startswith("Dialling line-9 …")
        assert sheet.form.string_field.toPlainText() == ""
        console.change_device("line-9", health=Health.ONLINE)
        await seen(lambda: "line-9 is connected" in sheet.result.waiting.text())
        sheet.answer("done").click()


async def test_a_refused_pairing_keeps_what_was_typed(theme: Theme, tmp_path: Path) -> None:
    console = story_of(tmp_path)
    console.fail_next["pair"] = BadInput("The name is taken.")

    async with open_window(theme, tmp_path, console) as desk:
        desk.window.open("fleet", OpenPairing())
        sheet = desk.window.findChildren(PairingDialog)[-1]
        sheet.name_field.setText("db-4")
        await seen(sheet.answer("pair").isEnabled)
        sheet.answer("pair").click()
        await sign(desk)
        await seen(lambda: "The name is taken." in problem_in(sheet))
        assert sheet.name_field.text() == "db-4"
        assert sheet.answer("pair").isEnabled()
        sheet.dismiss()


@pytest.mark.parametrize("wish", ["revoke", "forget"])
async def test_the_end_of_a_device_is_asked_about_first(theme: Theme, tmp_path: Path, wish: str) -> None:
    console = story()

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("lab-win-02", "link"))
        getattr(fleet.panel.link_tab, wish).click()
        sheet = desk.window.findChildren(Dialog)[0]
        if wish == "forget":
            assert not sheet.answer(wish).isEnabled()
            field = sheet.focusWidget()
            QTest.keyClicks(field, "lab-win-02")
        assert wish not in console.asked
        console.fail_next[wish] = DeviceError("Not now.")
        sheet.answer(wish).click()
        await seen(lambda: "Not now." in problem_in(sheet))
        sheet.answer(wish).click()
        await seen(lambda: not desk.window.findChildren(Dialog))
        if wish == "forget":
            await seen(lambda: "lab-win-02" not in desk.state.devices)
        else:
            await seen(lambda: not desk.state.devices["lab-win-02"].paired)
            await seen(fleet.panel.link_tab.revoked.isVisible)


async def test_tags_and_production_are_set_from_the_device_page(theme: Theme, tmp_path: Path) -> None:
    console = story_of(tmp_path)

    async with open_window(theme, tmp_path, console) as desk:
        fleet = open_fleet(desk)
        fleet.enter(OpenDevice("lab-lnx-05", "link"))
        fleet.panel.link_tab.edit.click()
        sheet = desk.window.findChildren(Dialog)[0]
        QTest.keyClick(sheet.focusWidget(), Qt.Key.Key_End)
        QTest.keyClicks(sheet.focusWidget(), " spare !")
        assert not sheet.answer("save").isEnabled()
        QTest.keyClick(sheet.focusWidget(), Qt.Key.Key_Backspace)
        sheet.answer("save").click()
        shown = await sign(desk)
        await seen(lambda: console.fleet["lab-lnx-05"].tags == ["lab", "spare"])
        assert (shown.before["tags"], shown.after["tags"]) == (["lab"], ["lab", "spare"])
