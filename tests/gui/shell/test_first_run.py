"""First run, and the operator's key in the window."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFocusFrame, QLabel, QLineEdit

from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.approvals.operator_keys import create_operator_key
from core.errors import Refused, ServiceError
from core.home import Home
from core.models.devices import NOT_CONNECTED_YET, Device, Health
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import make_devices
from tests.fakes.hand import press_button
from tests.fakes.story import story
from tests.fakes.window import open_window, seen
from tests.gui.fleet.page import fleet_in_front
from tests.gui.page import problem_in


def own_device() -> list[Device]:
    return [device for device in make_devices() if device.name == "this-computer"]


@pytest.mark.parametrize("passphrase", ["correct horse battery", None])
async def test_three_steps_lead_from_nothing_to_the_first_picture(
    theme: Theme, tmp_path: Path, passphrase: str | None
) -> None:
    console = FakeConsole(own_device())

    async with open_window(theme, tmp_path, console) as desk:
        page = fleet_in_front(desk).first_run
        await seen(page.isVisible)
        assert page.device_step.state == "done"
        page.name_field.setText("harbour")
        if passphrase is None:
            press_button(page.without)
        else:
            page.secret_field.setText(passphrase)
            QTest.keyClick(page.secret_field, Qt.Key.Key_Return)
        await seen(lambda: page.key_step.state == "done")
        assert [one.name for one in console.operators] == ["harbour"]
        assert console.operators[0].has_passphrase is (passphrase is not None)
        assert desk.keys.unlocked == "harbour"
        page.take.click()
        await seen(lambda: page.picture_step.state == "done")
        await seen(lambda: page.picture.has_picture)
        page.go_on.click()
        assert not page.isVisible()

    async with open_window(theme, tmp_path, console) as desk:
        assert not fleet_in_front(desk).first_run.isVisible()
        if passphrase is None:
            await seen(lambda: desk.keys.unlocked == "harbour")
        else:
            assert desk.keys.unlocked is None


async def test_a_short_passphrase_is_refused_in_words(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(own_device())

    async with open_window(theme, tmp_path, console) as desk:
        page = fleet_in_front(desk).first_run
        page.name_field.setText("harbour")
        page.secret_field.setText("short")
        press_button(page.create_button)
        await seen(page.key_problem.isVisible)
        assert "10 characters" in page.key_problem.text()
        assert not console.operators
        assert not list((tmp_path / "keys").iterdir())


async def test_a_key_that_the_service_did_not_take_is_offered_again_not_made_twice(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(own_device())
    console.fail_next["register_operator"] = ServiceError("The line broke.")

    async with open_window(theme, tmp_path, console) as desk:
        page = fleet_in_front(desk).first_run
        page.name_field.setText("harbour")
        press_button(page.without)
        await seen(page.key_problem.isVisible)
        assert desk.keys.unlocked == "harbour"
        press_button(page.without)
        await seen(lambda: page.key_step.state == "done")
        assert len(list((tmp_path / "keys").glob("*.pem"))) == 1


async def test_first_run_can_be_skipped_for_good(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(own_device())

    async with open_window(theme, tmp_path, console) as desk:
        page = fleet_in_front(desk).first_run
        await seen(page.isVisible)
        page.go_on.click()
        assert not page.isVisible()
        # Nothing has changed since, and nothing may be needed to change: an idle device may not for long.
        panel = fleet_in_front(desk).panel
        await seen(panel.isVisible)
        assert panel.device_name == "this-computer"
        assert fleet_in_front(desk).listing.view.hasFocus()

    async with open_window(theme, tmp_path, console) as desk:
        assert not fleet_in_front(desk).first_run.isVisible()


async def test_unlocking_asks_for_the_passphrase_and_says_when_it_is_wrong(
    theme: Theme, tmp_path: Path
) -> None:
    key = create_operator_key(Home(tmp_path).create(), "harbour", "correct horse battery")
    console = story([key.operator])

    async with open_window(theme, tmp_path, console) as desk:
        await seen(lambda: desk.keys.listed)
        assert desk.keys.unlocked is None
        desk.window.top_bar.key.click()
        await seen(lambda: desk.window.findChildren(Dialog))
        sheet = desk.window.findChildren(Dialog)[0]
        field = sheet.findChildren(QLineEdit)[0]
        assert field.echoMode() == QLineEdit.EchoMode.Password
        field.setText("wrong horse battery")
        sheet.answer("unlock").click()
        await seen(lambda: problem_in(sheet))
        assert desk.keys.unlocked is None
        field.setText("correct horse battery")
        sheet.answer("unlock").click()
        await seen(lambda: desk.keys.unlocked == "harbour")
        desk.window.top_bar.key.click()
        assert desk.keys.unlocked is None


async def test_what_the_window_signs_is_what_the_service_accepts(theme: Theme, tmp_path: Path) -> None:
    key = create_operator_key(Home(tmp_path).create(), "harbour", None)
    console = story([key.operator])

    async with open_window(theme, tmp_path, console) as desk:
        await seen(lambda: desk.keys.unlocked == "harbour")
        approval = desk.state.waiting()[0]
        signed = desk.keys.sign(approval, "approve")
        desk.link.ask(lambda door: door.approvals.decide(signed), what="approve")
        await seen(lambda: approval.id not in desk.state.approvals)


async def test_a_locked_window_signs_nothing(theme: Theme, tmp_path: Path) -> None:
    key = create_operator_key(Home(tmp_path).create(), "harbour", None)
    console = story([key.operator])

    async with open_window(theme, tmp_path, console) as desk:
        await seen(lambda: desk.keys.unlocked)
        desk.keys.lock()
        with pytest.raises(Refused):
            desk.keys.sign(desk.state.waiting()[0], "approve")


async def test_what_has_never_been_connected_starts_and_is_not_offline(theme: Theme, tmp_path: Path) -> None:
    device = own_device()[0].model_copy(update={"health": Health.OFFLINE, "reason": NOT_CONNECTED_YET})
    console = FakeConsole([device])

    async with open_window(theme, tmp_path, console) as desk:
        page = fleet_in_front(desk).first_run
        await seen(page.isVisible)
        words = [label.text() for label in page.device_step.findChildren(QLabel)]
        assert "this-computer is starting" in words
        assert not any("offline" in word or "not connected" in word for word in words)
        console.change_device(device.name, reason="The device client ended with 1.")
        await seen(lambda: any("offline" in label.text() for label in page.device_step.findChildren(QLabel)))


async def test_skipping_has_no_icon_of_a_place(theme: Theme, tmp_path: Path) -> None:
    async with open_window(theme, tmp_path, FakeConsole(own_device())) as desk:
        page = fleet_in_front(desk).first_run
        await seen(page.isVisible)
        assert (page.go_on.text(), page.go_on.icon_concept) == ("Skip this", "")


async def test_the_ring_around_a_passphrase_is_whole(theme: Theme, tmp_path: Path) -> None:
    key = create_operator_key(Home(tmp_path).create(), "harbour", "correct horse battery")

    async with open_window(theme, tmp_path, story([key.operator])) as desk:
        await seen(lambda: desk.keys.listed)
        desk.window.top_bar.key.click()
        await seen(lambda: desk.window.findChildren(Dialog))
        field = desk.window.findChildren(Dialog)[0].findChildren(QLineEdit)[0]
        ring = desk.window.findChild(QFocusFrame)
        assert isinstance(ring, QFocusFrame)
        assert ring.widget() is field
        await seen(lambda: ring.visibleRegion().boundingRect() == ring.rect())
