"""Settings, Operators: keys, who is unlocked, and another operator whom one vouches for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel, QLineEdit

from app.screens.approvals.screen import ApprovalsScreen
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenSection
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from app.widgets.fields import Field
from core.approvals.operator_keys import create_operator_key, list_operator_keys, load_operator_key
from core.approvals.operators import removing
from core.home import Home
from tests.fakes.approvals_desk import make_approval
from tests.fakes.console import FakeConsole
from tests.fakes.hand import press_button
from tests.fakes.policy_data import make_grants
from tests.fakes.sign_sheets import do_not_sign, press, sign, sign_sheet
from tests.fakes.window import open_frame, seen
from tests.gui.page import problem_in, visible
from tests.gui.settings.page import dialog_in_front, fill_key, open_operators, operator_row

PHRASE = "correct horse battery"


async def test_the_unlocked_operator_vouches_for_another_one(theme: Theme, tmp_path: Path) -> None:
    harbour = create_operator_key(Home(tmp_path).create(), "harbour", None)
    console = FakeConsole(operators=[harbour.operator])

    async with open_frame(theme, tmp_path, console) as desk:
        section = await open_operators(desk)
        assert section.head.title.text() == "Add another operator"
        fill_key(section, "quay", PHRASE, PHRASE + "x")
        assert "not the same" in section.again_row.error
        assert not section.make.isEnabled()
        fill_key(section, "quay", PHRASE, PHRASE)
        section.make.click()
        shown = await sign(desk)
        await seen(lambda: len(console.operators) == 2)
        assert shown.after["public_key"] == console.operators[1].public_key
        await seen(lambda: operator_row(section, "quay")[3] != "not yet")
        # Whoever was unlocked still is: the new key did not take the window over.
        assert desk.window.keys.unlocked == "harbour"
        assert operator_row(section, "quay")[2] == "yes"
        assert section.secret_field.text() == ""


async def test_while_a_key_is_made_the_keyboard_waits_on_its_button_and_a_second_press_makes_no_other(
    theme: Theme, tmp_path: Path
) -> None:
    harbour = create_operator_key(Home(tmp_path).create(), "harbour", None)
    console = FakeConsole(operators=[harbour.operator])
    made = console.hold_back("register_operator")

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.activateWindow()
        section = await open_operators(desk)
        fill_key(section, "quay", PHRASE, PHRASE)
        section.make.setFocus(Qt.FocusReason.TabFocusReason)
        await seen(section.make.hasFocus)
        QTest.keyClick(section.make, Qt.Key.Key_Return)
        await sign(desk)
        await seen(lambda: "register_operator" in console.asked)
        assert section.make.hasFocus()
        assert section.make.accessibleDescription() == "The key is being made."
        assert not section.without.isEnabled()
        QTest.keyClick(section.make, Qt.Key.Key_Return)
        # The key file is there by now; what the form says of its name does not end the work.
        section.show_state()
        QTest.keyClick(section.make, Qt.Key.Key_Space)
        made.set()
        await seen(lambda: len(console.operators) == 2 and not section.make.is_working)
        assert section.make.hasFocus()
        assert console.asked.count("register_operator") == 1


async def test_a_key_that_no_operator_signs_for_is_deleted_and_what_was_typed_stays(
    theme: Theme, tmp_path: Path
) -> None:
    harbour = create_operator_key(Home(tmp_path).create(), "harbour", PHRASE)
    console = FakeConsole(operators=[harbour.operator])

    async with open_frame(theme, tmp_path, console) as desk:
        section = await open_operators(desk)
        fill_key(section, "quay", PHRASE, PHRASE)
        section.make.click()
        sheet = await sign_sheet(desk)
        assert len(list_operator_keys(Home(tmp_path))) == 2
        # The key is locked: without its passphrase nothing is signed.
        press(sheet)
        await seen(lambda: problem_in(sheet))
        assert console.signed == []
        await do_not_sign(desk)
        await seen(section.make.isEnabled)
        assert [file.name for file in list_operator_keys(Home(tmp_path))] == ["harbour"]
        assert (section.name_field.text(), section.secret_field.text()) == ("quay", PHRASE)
        assert section.name_row.error == ""
        assert "register_operator" not in console.asked
        assert [known.name for known in console.operators] == ["harbour"]


async def test_a_passphrase_unlocks_and_the_same_button_locks(theme: Theme, tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    operators = [create_operator_key(home, name, PHRASE).operator for name in ("harbour", "quay")]
    console = FakeConsole(operators=operators)

    async with open_frame(theme, tmp_path, console) as desk:
        section = await open_operators(desk)
        section.table.choose("quay")
        assert section.unlock.text() == "Unlock quay…"
        section.unlock.click()
        sheet = await dialog_in_front(desk)
        secret = sheet.findChildren(QLineEdit)[0]
        QTest.keyClicks(secret, "wrong one here")
        sheet.answer("unlock").click()
        await seen(lambda: "wrong" in problem_in(sheet))
        secret.setText(PHRASE)
        sheet.answer("unlock").click()
        await seen(lambda: desk.window.keys.unlocked == "quay")
        assert operator_row(section, "quay")[4] == "unlocked"
        assert operator_row(section, "harbour")[4] == "locked"
        section.unlock.click()
        assert desk.window.keys.unlocked is None


async def test_a_passphrase_is_changed_and_the_key_stays_unlocked(theme: Theme, tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    quay = create_operator_key(home, "quay", PHRASE)
    console = FakeConsole(operators=[quay.operator])

    async with open_frame(theme, tmp_path, console) as desk:
        section = await open_operators(desk)
        await desk.window.keys.unlock("quay", PHRASE)
        section.table.choose("quay")
        assert section.passphrase.text() == "Change passphrase…"
        section.passphrase.click()
        dialog = await dialog_in_front(desk)
        old, new, again = dialog.findChildren(QLineEdit)
        assert all(field.echoMode() is QLineEdit.EchoMode.Password for field in (old, new, again))
        change = dialog.answer("change")
        QTest.keyClicks(old, "wrong one here")
        QTest.keyClicks(new, "another long one")
        assert not change.isEnabled()
        QTest.keyClicks(again, "another long on")
        assert "not the same" in dialog.findChildren(Field)[2].error
        QTest.keyClicks(again, "e")
        change.click()
        await seen(lambda: "wrong" in problem_in(dialog))
        load_operator_key(home, "quay", PHRASE)
        old.setText(PHRASE)
        QTest.keyClick(again, Qt.Key.Key_Return)
        await seen(lambda: not visible(desk.window, Dialog))
        assert load_operator_key(home, "quay", "another long one").public_key == quay.public_key
        assert desk.window.keys.unlocked == "quay"
        await desk.window.keys.prove("another long one")
        # The service hears nothing of it.
        assert console.signed == []


async def test_a_key_without_a_passphrase_is_given_one(theme: Theme, tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    harbour = create_operator_key(home, "harbour", None)
    console = FakeConsole(operators=[harbour.operator])

    async with open_frame(theme, tmp_path, console) as desk:
        section = await open_operators(desk)
        assert operator_row(section, "harbour")[2] == "none"
        assert section.passphrase.text() == "Set a passphrase…"
        section.passphrase.click()
        dialog = await dialog_in_front(desk)
        new, again = dialog.findChildren(QLineEdit)
        for field in (new, again):
            QTest.keyClicks(field, "short")
        dialog.answer("change").click()
        await seen(lambda: "at least 10" in problem_in(dialog))
        for field in (new, again):
            field.setText(PHRASE)
        dialog.answer("change").click()
        await seen(lambda: operator_row(section, "harbour")[2] == "yes")
        # The key file says it; that the registration says otherwise changes nothing.
        desk.window.keys.lock()
        section.unlock.click()
        unlocking = await dialog_in_front(desk)
        unlocking.findChildren(QLineEdit)[0].setText(PHRASE)
        unlocking.answer("unlock").click()
        await seen(lambda: desk.window.keys.unlocked == "harbour")


async def test_a_key_that_nobody_registered_is_shown_and_registered_with_a_signature(
    theme: Theme, tmp_path: Path
) -> None:
    home = Home(tmp_path).create()
    harbour = create_operator_key(home, "harbour", None)
    console = FakeConsole(operators=[harbour.operator])

    async with open_frame(theme, tmp_path, console) as desk:
        section = await open_operators(desk)
        assert section.register.isHidden()
        await asyncio.to_thread(create_operator_key, home, "quay", PHRASE)
        await desk.window.keys.refresh()
        assert operator_row(section, "quay")[3] == "not yet"
        section.table.choose("quay")
        section.register.click()
        await sign(desk)
        await seen(lambda: [one.name for one in console.operators] == ["harbour", "quay"])


async def test_another_key_under_a_registered_name_cannot_sign_for_them(theme: Theme, tmp_path: Path) -> None:
    home = Home(tmp_path).create()
    create_operator_key(home, "harbour", None)
    stranger = create_operator_key(Home(tmp_path / "other").create(), "harbour", None)
    console = FakeConsole(operators=[stranger.operator])

    async with open_frame(theme, tmp_path, console) as desk:
        section = await open_operators(desk)
        assert operator_row(section, "harbour")[4] == "another key"
        assert not section.unlock.isEnabled()
        fill_key(section, "quay", PHRASE, PHRASE)
        assert not section.make.isEnabled()


async def test_the_first_operator_needs_nobody(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    console.given = make_grants()

    async with open_frame(theme, tmp_path, console) as desk:
        section = await open_operators(desk)
        assert section.head.title.text() == "Make a key"
        fill_key(section, "harbour", PHRASE, PHRASE)
        press_button(section.make)
        await seen(lambda: [one.name for one in console.operators] == ["harbour"])
        assert desk.window.keys.unlocked == "harbour"


async def test_an_operator_is_removed_signed_with_the_consequence_said_and_their_grants_end(
    theme: Theme, tmp_path: Path
) -> None:
    home = Home(tmp_path).create()
    operators = [create_operator_key(home, name, None).operator for name in ("harbour", "quay")]
    console = FakeConsole(operators=operators)
    console.given = make_grants()

    async with open_frame(theme, tmp_path, console) as desk:
        await desk.window.keys.unlock("quay", None)
        section = await open_operators(desk)
        section.table.choose("harbour")
        assert section.remove.kind == "danger"
        section.remove.click()
        shown = await do_not_sign(desk)
        assert shown == removing(operators[0])
        await seen(section.remove.isEnabled)
        assert "remove_operator" not in console.asked
        section.remove.click()
        sheet = await sign_sheet(desk)
        words = " ".join(label.text() for label in sheet.findChildren(QLabel))
        assert "3 grants of theirs end." in words
        assert "decides nothing any more" in sheet.sentences.accessibleName()
        assert await sign(desk) == shown
        await seen(lambda: [known.name for known in console.operators] == ["quay"])
        assert all(grant.over for grant in console.given)
        assert console.signed[0].statement.approver == "quay"
        await seen(lambda: section.table.current_key() == "quay" or section.table.choose("quay"))
        await seen(lambda: not section.remove.isEnabled())
        assert "only operator stays" in section.remove.toolTip()


async def test_a_card_without_any_operator_leads_to_making_a_key_and_back_to_it(
    theme: Theme, tmp_path: Path
) -> None:
    Home(tmp_path).create()
    console = FakeConsole()
    console.queue["a-0001"] = make_approval(1)

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("approvals")
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        bar = screen.bar
        await seen(lambda: bar.unlock.isVisible() and not bar.guarded)
        assert bar.unlock.text() == "Make your operator key…"
        assert bar.hint.text() == "Every answer is signed: make your operator key first."
        press_button(bar.unlock)
        settings = desk.window.current
        assert isinstance(settings, SettingsScreen)
        section = settings.operators
        assert section.name_field.hasFocus()
        assert "Approvals opens again" in section.endorsed.text()
        fill_key(section, "harbour", PHRASE, PHRASE)
        press_button(section.make)
        await seen(lambda: desk.window.current is screen)
        await seen(lambda: bar.approve.isVisible() and bar.approve.isEnabled())
        assert screen.card.approval is not None
        assert screen.card.approval.id == "a-0001"
        assert [one.name for one in console.operators] == ["harbour"]
        # A second key, made from Settings itself, leads nowhere.
        desk.window.open("settings", OpenSection("operators"))
        assert "opens again" not in section.endorsed.text()
