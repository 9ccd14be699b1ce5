"""What loosens asks by whom it is pressed: each control of the window, with presses of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QLabel, QWidget

from app.input_origin import InputOrigin, Stake
from app.main import ConsoleApplication
from app.screens.approvals.edit_dialog import EditDialog
from app.screens.approvals.grant_dialog import GrantDialog
from app.screens.approvals.screen import ApprovalsScreen
from app.screens.approvals.second_operator_dialog import SecondOperatorDialog
from app.screens.fleet.contract_review_dialog import ContractReviewDialog
from app.screens.fleet.pairing_dialog import PairingDialog
from app.screens.settings.operators_page import OperatorsPage
from app.screens.settings.screen import SettingsScreen
from app.screens.targets import OpenDevice, OpenSection
from app.signing import press_guard
from app.signing.press_guard import PassphraseDialog
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.aip.pairing import Pairing, encode_pairing
from core.approvals.operator_keys import create_operator_key
from core.home import Home
from core.policy.models import Profile
from core.policy.policy_store import text_digest
from core.service.console import Console
from tests.fakes.approvals_desk import CTRL, make_approval
from tests.fakes.console import FakeConsole
from tests.fakes.fleet_data import CHANGED_KEY
from tests.fakes.hand import ScriptedHand, press_button
from tests.fakes.sign_sheets import sign_sheet
from tests.fakes.story import story
from tests.fakes.window import open_frame, open_window, seen
from tests.gui.fleet.page import ToolPage, fleet_in_front
from tests.gui.page import part_of, problem_in

PASSPHRASE = "calm seas and wind"
NO_HAND = "from a program, not from your hand"


def settings_of(desk: ConsoleApplication, section: str) -> SettingsScreen:
    desk.window.open("settings", OpenSection(section))
    assert isinstance(desk.window.current, SettingsScreen)
    return desk.window.current


def newest(desk: ConsoleApplication, kind: type[Dialog]) -> Dialog:
    return desk.window.findChildren(kind)[-1]


async def to_sign(desk: ConsoleApplication) -> QAbstractButton:
    """The button that signs what the sheet shows, which was read to its end."""
    sheet = await sign_sheet(desk)
    bar = sheet.diff.verticalScrollBar()
    bar.setValue(bar.maximum())
    await seen(sheet.sign.isEnabled)
    return sheet.sign


async def edit_policy(desk: ConsoleApplication) -> QAbstractButton:
    page = settings_of(desk, "policy").policy
    await seen(lambda: page.work.base is not None)
    page.editor.setPlainText('profile = "trusted"\n')
    await seen(lambda: page.work.found is not None and page.save.isEnabled())
    return page.save


async def save_policy(desk: ConsoleApplication) -> QAbstractButton:
    (await edit_policy(desk)).click()
    return await to_sign(desk)


async def use_trusted(desk: ConsoleApplication) -> QAbstractButton:
    page = settings_of(desk, "policy").policy
    part_of(page.profile, Profile.TRUSTED.value).click()
    return await to_sign(desk)


async def leave_lockdown(desk: ConsoleApplication) -> QAbstractButton:
    desk.window.choose_profile(Profile.LOCKDOWN)
    await seen(lambda: desk.state.policy is not None and desk.state.policy.profile is Profile.LOCKDOWN)
    desk.window.choose_profile(Profile.OBSERVE)
    return await to_sign(desk)


async def resume(desk: ConsoleApplication) -> QAbstractButton:
    desk.window.control.stop_all()
    await seen(lambda: desk.state.stopped)
    desk.window.control.start_resume()
    return await to_sign(desk)


async def listen(desk: ConsoleApplication) -> QAbstractButton:
    section = settings_of(desk, "devices").devices
    await seen(lambda: section.address.text() == "0.0.0.0:5000")
    section.address.setText("0.0.0.0:5001")
    section.listen.click()
    return await to_sign(desk)


async def pair(desk: ConsoleApplication) -> QAbstractButton:
    desk.window.open("fleet")
    fleet_in_front(desk).head.pair_button.click()
    sheet = newest(desk, PairingDialog)
    assert isinstance(sheet, PairingDialog)
    await seen(lambda: sheet.listening is not None)
    sheet.name_field.setText("db-4")
    sheet.answer("pair").click()
    return await to_sign(desk)


async def pair_listening(desk: ConsoleApplication) -> QAbstractButton:
    desk.window.open("fleet")
    fleet_in_front(desk).head.pair_button.click()
    sheet = newest(desk, PairingDialog)
    assert isinstance(sheet, PairingDialog)
    part_of(sheet.form.direction, "The device listens").click()
    line = Pairing(name="db-4", token="t" * 43, fingerprint="f" * 64, url="wss://127.0.0.1:5001")
    sheet.form.string_field.setPlainText(encode_pairing(line))
    sheet.answer("pair").click()
    return await to_sign(desk)


async def set_tags(desk: ConsoleApplication) -> QAbstractButton:
    desk.window.open("fleet", OpenDevice("lab-lnx-05", "link"))
    fleet_in_front(desk).panel.link_tab.edit.click()
    sheet = newest(desk, Dialog)
    QTest.keyClick(sheet.focusWidget(), Qt.Key.Key_End)
    QTest.keyClicks(sheet.focusWidget(), " spare")
    sheet.answer("save").click()
    return await to_sign(desk)


async def trust(desk: ConsoleApplication) -> QAbstractButton:
    desk.window.open("fleet", OpenDevice("build-lnx-03", "tools", CHANGED_KEY))
    tools, shown = fleet_in_front(desk).panel.tools_tab, ToolPage(fleet_in_front(desk))
    await seen(lambda: tools.chosen() is not None and shown.name == "indexer.rebuild")
    tools.details.review_asked.emit()
    await seen(lambda: desk.window.findChildren(ContractReviewDialog))
    sheet = newest(desk, ContractReviewDialog)
    assert isinstance(sheet, ContractReviewDialog)
    await seen(sheet.diff.isVisible)
    for area in (sheet.read_area, sheet.diff):
        area.verticalScrollBar().setValue(area.verticalScrollBar().maximum())
    await seen(sheet.trust.isEnabled)
    sheet.trust.click()
    return await to_sign(desk)


async def name_operator(desk: ConsoleApplication) -> OperatorsPage:
    section = settings_of(desk, "operators").operators
    section.name_field.setText("quay")
    section.secret_field.setText(PASSPHRASE)
    section.again_field.setText(PASSPHRASE)
    return section


async def make_operator(desk: ConsoleApplication) -> QAbstractButton:
    section = await name_operator(desk)
    await seen(section.make.isEnabled)
    press_button(section.make)
    return await to_sign(desk)


async def make_operator_without_passphrase(desk: ConsoleApplication) -> QAbstractButton:
    section = await name_operator(desk)
    await seen(section.without.isEnabled)
    press_button(section.without)
    return await to_sign(desk)


async def register_operator(desk: ConsoleApplication) -> QAbstractButton:
    create_operator_key(desk.window.keys.home, "quay", PASSPHRASE)
    await desk.window.keys.refresh()
    section = settings_of(desk, "operators").operators
    section.table.choose("quay")
    await seen(section.register.isEnabled)
    section.register.click()
    return await to_sign(desk)


async def console_of(desk: ConsoleApplication) -> FakeConsole:
    """The far end of the window."""
    found: list[FakeConsole] = []

    async def note(console: Console) -> None:
        assert isinstance(console, FakeConsole)
        found.append(console)

    desk.link.ask(note, what="find the console")
    await seen(lambda: found)
    return found[0]


async def card_of(desk: ConsoleApplication, risk: str) -> ApprovalsScreen:
    console = await console_of(desk)
    console.request(make_approval(1, risk=risk, parameters={"command": "x"}))
    desk.window.open("approvals")
    screen = desk.window.current
    assert isinstance(screen, ApprovalsScreen)
    desk.window.activateWindow()
    await seen(desk.window.isActiveWindow)
    await seen(screen.bar.approve.isEnabled)
    return screen


async def approve_high(desk: ConsoleApplication) -> QAbstractButton:
    return (await card_of(desk, "high")).bar.approve


async def approve_medium(desk: ConsoleApplication) -> QAbstractButton:
    return (await card_of(desk, "medium")).bar.approve


async def approve_low(desk: ConsoleApplication) -> QAbstractButton:
    return (await card_of(desk, "low")).bar.approve


async def grant(desk: ConsoleApplication) -> QAbstractButton:
    screen = await card_of(desk, "low")
    screen.bar.grant_act.trigger()
    sheet = newest(desk, GrantDialog)
    assert isinstance(sheet, GrantDialog)
    return sheet.approve


async def edit(desk: ConsoleApplication) -> QAbstractButton:
    screen = await card_of(desk, "high")
    screen.bar.edit_act.trigger()
    await seen(lambda: desk.window.findChildren(EditDialog))
    sheet = newest(desk, EditDialog)
    assert isinstance(sheet, EditDialog)
    sheet.form.set_value({"command": "y", "timeout": 20})
    sheet.show_versions()
    return sheet.answer("ask")


@dataclass(frozen=True)
class Act:
    """What leads to the button, and what the service is asked when it counts."""

    open: Callable[[ConsoleApplication], Awaitable[QAbstractButton]]
    asks: str


LOOSENS = [
    Act(save_policy, "save_policy"),
    Act(use_trusted, "set_profile"),
    Act(leave_lockdown, "set_profile"),
    Act(resume, "resume"),
    Act(listen, "listen"),
    Act(pair, "pair"),
    Act(pair_listening, "pair_listening"),
    Act(set_tags, "set_device"),
    Act(trust, "review_contract"),
    Act(make_operator, "register_operator"),
    Act(make_operator_without_passphrase, "register_operator"),
    Act(register_operator, "register_operator"),
    Act(approve_high, "decide"),
    Act(grant, "decide"),
]
INPUT_ONLY = [Act(approve_medium, "decide"), Act(edit, "edit_approval")]


def name_of(act: Act) -> str:
    return act.open.__name__


def press_over_the_bus(button: QAbstractButton) -> None:
    """What assistive technology, and any program on its bus, can do."""
    action = QAccessible.queryAccessibleInterface(button).actionInterface()
    names = action.actionNames()
    action.doAction(next(name for name in ("Press", "Toggle") if name in names))


def set_over_the_bus(field: QWidget, text: str) -> None:
    """`EditableText.SetTextContents`, as the bus carries it out."""
    QAccessible.queryAccessibleInterface(field).setText(QAccessible.Text.Value, text)


def says(desk: ConsoleApplication, words: str) -> bool:
    labels = desk.window.findChildren(QLabel)
    names = [one.accessibleName() for one in desk.window.findChildren(QWidget) if one.isVisible()]
    return any(words in one.text() for one in labels if one.isVisible()) or any(words in one for one in names)


def passphrase_sheet(desk: ConsoleApplication) -> PassphraseDialog | None:
    return next((one for one in desk.window.findChildren(PassphraseDialog) if one.isVisible()), None)


@asynccontextmanager
async def open_unlocked(
    theme: Theme, folder: Path, hand: InputOrigin, passphrase: str | None = PASSPHRASE
) -> AsyncIterator[tuple[ConsoleApplication, FakeConsole]]:
    """A window with the key of `harbour` unlocked."""
    key = create_operator_key(Home(folder).create(), "harbour", passphrase)
    console = story()
    console.operators = [key.operator]
    console.queue.clear()

    async with open_frame(theme, folder, console, hand=hand) as desk:
        if passphrase is not None:
            await desk.keys.unlock("harbour", passphrase)
        await seen(lambda: desk.keys.unlocked)
        yield desk, console


def press_by(desk: ConsoleApplication, button: QAbstractButton, hand: InputOrigin) -> None:
    """A click of the pointer that the window system tells to be made by `hand`."""
    assert isinstance(desk.input_source, ScriptedHand)
    desk.input_source.hand = hand
    press_button(button)


async def press_over_the_bus_in_vain(
    desk: ConsoleApplication, console: FakeConsole, button: QAbstractButton, act: Act
) -> None:
    """Press over the accessibility bus: it is said that no hand did, and nothing is asked."""
    before = console.asked.count(act.asks)
    press_over_the_bus(button)
    await seen(lambda: says(desk, NO_HAND))
    assert passphrase_sheet(desk) is None
    assert console.asked.count(act.asks) == before
    assert button.isEnabled()


@pytest.mark.parametrize("act", LOOSENS, ids=name_of)
async def test_a_press_over_the_bus_loosens_nothing_and_input_of_a_program_asks_for_the_passphrase(
    theme: Theme, tmp_path: Path, act: Act
) -> None:
    async with open_unlocked(theme, tmp_path, InputOrigin.REAL) as (desk, console):
        button = await act.open(desk)
        before = console.asked.count(act.asks)
        await press_over_the_bus_in_vain(desk, console, button, act)
        # The same button, by the input of a program.
        press_by(desk, button, InputOrigin.SYNTHETIC)
        await seen(lambda: passphrase_sheet(desk))
        sheet = passphrase_sheet(desk)
        assert sheet is not None
        QTest.keyClicks(sheet.secret, "wrong words")
        QTest.keyClick(sheet.secret, Qt.Key.Key_Return)
        await seen(lambda: "does not open" in problem_in(sheet))
        assert console.asked.count(act.asks) == before
        sheet.secret.clear()
        QTest.keyClicks(sheet.secret, PASSPHRASE)
        QTest.keyClick(sheet.secret, Qt.Key.Key_Return)
        await seen(lambda: console.asked.count(act.asks) > before)


@pytest.mark.parametrize("act", LOOSENS, ids=name_of)
async def test_without_a_passphrase_input_that_a_program_made_loosens_nothing_and_input_of_a_hand_does(
    theme: Theme, tmp_path: Path, act: Act
) -> None:
    async with open_unlocked(theme, tmp_path, InputOrigin.REAL, passphrase=None) as (desk, console):
        button = await act.open(desk)
        before = console.asked.count(act.asks)
        press_by(desk, button, InputOrigin.SYNTHETIC)
        await seen(lambda: says(desk, "has no passphrase that could take its place"))
        assert console.asked.count(act.asks) == before
        assert passphrase_sheet(desk) is None
        assert button.isEnabled()
        # The same button, where the window system does not tell who made the input.
        press_by(desk, button, InputOrigin.UNKNOWN)
        await seen(lambda: console.asked.count(act.asks) > before)


@pytest.mark.parametrize("hand", [InputOrigin.SYNTHETIC, InputOrigin.UNKNOWN])
@pytest.mark.parametrize("act", INPUT_ONLY, ids=name_of)
async def test_medium_risk_takes_input_whoever_made_it_and_no_press_over_the_bus(
    theme: Theme, tmp_path: Path, act: Act, hand: InputOrigin
) -> None:
    async with open_unlocked(theme, tmp_path, InputOrigin.REAL) as (desk, console):
        button = await act.open(desk)
        await press_over_the_bus_in_vain(desk, console, button, act)
        press_by(desk, button, hand)
        await seen(lambda: act.asks in console.asked)


def test_every_kind_of_press_counts_up_to_its_stake() -> None:
    counting = {stake: [hand for hand in InputOrigin if press_guard.counts(hand, stake)] for stake in Stake}
    assert counting == {
        Stake.LOW: [InputOrigin.NONE, InputOrigin.SYNTHETIC, InputOrigin.UNKNOWN, InputOrigin.REAL],
        Stake.MEDIUM: [InputOrigin.SYNTHETIC, InputOrigin.UNKNOWN, InputOrigin.REAL],
        Stake.HIGH: [InputOrigin.UNKNOWN, InputOrigin.REAL],
    }


async def test_what_tightens_and_low_risk_take_any_press(theme: Theme, tmp_path: Path) -> None:
    """People who work with assistive technology can stop, deny, choose a stricter profile, and read."""

    async with open_unlocked(theme, tmp_path, InputOrigin.REAL) as (desk, console):
        press_over_the_bus(await approve_low(desk))
        await seen(lambda: "decide" in console.asked)
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        console.request(make_approval(2, risk="high"))
        await seen(lambda: screen.card.approval is not None and screen.bar.deny.isEnabled())
        press_over_the_bus(screen.bar.deny)
        press_over_the_bus(screen.bar.deny_now)
        await seen(lambda: console.asked.count("decide") == 2)
        desk.window.choose_profile(Profile.LOCKDOWN)
        await seen(lambda: console.policy_status.profile is Profile.LOCKDOWN)
        press_over_the_bus(desk.window.top_bar.stop)
        await seen(lambda: console.stopped)


async def test_the_first_operator_is_made_by_input_and_not_over_the_bus(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()

    async with open_window(theme, tmp_path, console, hand=InputOrigin.SYNTHETIC) as desk:
        desk.window.open("fleet")
        page = fleet_in_front(desk).first_run
        await seen(page.without.isVisible)
        page.name_field.setText("harbour")
        for button in (page.without, page.create_button):
            press_over_the_bus(button)
            await seen(lambda: NO_HAND in page.key_problem.text())
            page.key_problem.clear()
        section = settings_of(desk, "operators").operators
        section.name_field.setText("harbour")
        press_over_the_bus(section.without)
        await seen(lambda: NO_HAND in section.problem.accessibleName())
        assert "register_operator" not in console.asked
        assert not desk.keys.listed
        press_button(section.without)
        await seen(lambda: console.operators)


async def test_another_operators_passphrase_is_typed_and_their_press_is_input(
    theme: Theme, tmp_path: Path
) -> None:
    home = Home(tmp_path).create()
    anna = create_operator_key(home, "anna", "another calm sea")

    async with open_unlocked(theme, tmp_path, InputOrigin.SYNTHETIC) as (desk, console):
        console.operators.append(anna.operator)
        await desk.keys.refresh()
        console.request(make_approval(1, risk="high", parameters={"command": "x"}, approvers=2))
        desk.window.open("approvals")
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        desk.window.activateWindow()
        await seen(screen.bar.second.isEnabled)
        screen.bar.press_second()
        sheet = newest(desk, SecondOperatorDialog)
        assert isinstance(sheet, SecondOperatorDialog)
        set_over_the_bus(sheet.secret, "another calm sea")
        assert sheet.secret.text() == ""
        assert "does not count" in problem_in(sheet)
        QTest.keyClicks(sheet.secret, "another calm sea")
        press_over_the_bus(sheet.answer("approve"))
        assert NO_HAND in problem_in(sheet)
        assert not {"decide", "decide_many"} & set(console.asked)
        # Typed by a program, as over a remote desktop, it is still the passphrase.
        QTest.keyClick(sheet.secret, Qt.Key.Key_Return)
        await seen(lambda: "decide" in console.asked)


@pytest.mark.parametrize(("hand", "answered"), [(InputOrigin.REAL, True), (InputOrigin.SYNTHETIC, False)])
async def test_the_chord_tells_who_pressed_it(
    theme: Theme, tmp_path: Path, hand: InputOrigin, answered: bool
) -> None:
    async with open_unlocked(theme, tmp_path, hand) as (desk, console):
        screen = await card_of(desk, "high")
        for place in (screen.queue.view, screen.card.bytes.box, screen):
            if "decide" not in console.asked:
                place.setFocus()
                QTest.keyClick(place, Qt.Key.Key_Return, CTRL)
                assert (passphrase_sheet(desk) is None) is answered
                if sheet := passphrase_sheet(desk):
                    sheet.finish("")
        if answered:
            await seen(lambda: "decide" in console.asked)
        else:
            assert not {"decide", "decide_many"} & set(console.asked)


async def test_what_is_approved_is_what_was_on_the_card_at_the_press(theme: Theme, tmp_path: Path) -> None:
    async with open_unlocked(theme, tmp_path, InputOrigin.SYNTHETIC) as (desk, console):
        button = await approve_high(desk)
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        press_button(button)
        await seen(lambda: passphrase_sheet(desk))
        console.request(make_approval(1, risk="high", parameters={"command": "rm -rf /"}))
        await seen(lambda: b"rm -rf" in screen.card.bytes.box.exact_bytes)
        sheet = passphrase_sheet(desk)
        assert sheet is not None
        QTest.keyClicks(sheet.secret, PASSPHRASE)
        QTest.keyClick(sheet.secret, Qt.Key.Key_Return)
        await seen(lambda: "The request is another one by now." in screen.bar.error.words())
        assert not {"decide", "decide_many"} & set(console.asked)


async def test_the_policy_that_is_saved_is_the_one_that_was_signed(theme: Theme, tmp_path: Path) -> None:
    async with open_unlocked(theme, tmp_path, InputOrigin.SYNTHETIC) as (desk, console):
        button = await save_policy(desk)
        assert isinstance(desk.window.current, SettingsScreen)
        page = desk.window.current.policy
        press_button(button)
        await seen(lambda: passphrase_sheet(desk))
        planted = 'profile = "trusted"\n[[rule]]\nid = "all"\ndecision = "allow"\n'
        set_over_the_bus(page.editor, planted)
        sheet = passphrase_sheet(desk)
        assert sheet is not None
        QTest.keyClicks(sheet.secret, PASSPHRASE)
        QTest.keyClick(sheet.secret, Qt.Key.Key_Return)
        await seen(lambda: "save_policy" in console.asked and not page.work.saving)
        assert console.policy_on_disk == 'profile = "trusted"\n'
        # What was set meanwhile is not saved; it needs a signature of its own.
        assert page.work.dirty
        await seen(lambda: page.work.found is not None and page.save.isEnabled())
        page.save.click()
        shown = (await sign_sheet(desk)).proposal.change
        assert shown.after["sha256"] == text_digest(planted)
        assert console.asked.count("save_policy") == 1


async def test_a_choice_that_was_changed_without_a_word_is_not_signed(theme: Theme, tmp_path: Path) -> None:
    async with open_unlocked(theme, tmp_path, InputOrigin.REAL) as (desk, console):
        button = await grant(desk)
        sheet = newest(desk, GrantDialog)
        assert isinstance(sheet, GrantDialog)
        set_over_the_bus(sheet.devices, "*")
        assert sheet.devices.text() == ""
        assert not sheet.approve.isEnabled()
        sheet.devices.setText("lab-lnx-01")
        # What assistive technology chooses in the list is chosen, and nothing in the window is told.
        sheet.lasts.setCurrentIndex(sheet.lasts.count() - 1)
        press_button(button)
        assert "is not what was shown" in problem_in(sheet)
        assert not {"decide", "decide_many"} & set(console.asked)
        press_button(button)
        await seen(lambda: "decide" in console.asked)


async def test_the_name_of_a_critical_request_is_typed(theme: Theme, tmp_path: Path) -> None:
    async with open_unlocked(theme, tmp_path, InputOrigin.REAL) as (desk, console):
        console.request(make_approval(1, risk="critical", parameters={"command": "x"}))
        desk.window.open("approvals")
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        await seen(lambda: screen.bar.name_field.isVisible() and not screen.bar.guarded)
        set_over_the_bus(screen.bar.name_field, "lab-lnx-01")
        assert screen.bar.name_field.text() == ""
        assert not screen.bar.approve.isEnabled()
        QTest.keyClicks(screen.bar.name_field, "lab-lnx-01")
        await seen(screen.bar.approve.isEnabled)
