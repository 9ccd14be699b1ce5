"""The keyboard never dies: after each act something sensible has it, where an operator types next."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.main import ConsoleApplication
from app.records.decision import FindingRow
from app.screens.approvals.screen import ApprovalsScreen
from app.screens.batch.open_dialog import OpenDialog
from app.screens.batch.screen import BatchScreen
from app.screens.fleet.pairing_dialog import PairingDialog
from app.screens.fleet.screen import FleetScreen
from app.screens.targets import OpenPairing, OpenSection
from app.signing.unlock_section import UnlockSection
from app.theme.theme import Theme
from app.widgets.dialog import Dialog, Overlay
from core.approvals.models import ApprovalState
from tests.fakes.approvals_desk import find_in, make_approval
from tests.fakes.console import FakeConsole
from tests.fakes.hand import press_button
from tests.fakes.sign_sheets import PHRASE, operator_of
from tests.fakes.story import story
from tests.fakes.window import open_frame, seen

CTRL = Qt.KeyboardModifier.ControlModifier
ALT = Qt.KeyboardModifier.AltModifier


def key(
    desk: ConsoleApplication, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    """A key to what has the keyboard, as the window system delivers it."""
    QTest.keyClick(QApplication.focusWidget() or desk.window, key, modifier)


def has_place(desk: ConsoleApplication) -> QWidget | None:
    """What has the keyboard, where that is sensible: seen, and in the open question or the screen.

    The top bar and the navigation are sensible only for a person who walked there by Tab or F6.
    """
    focus = QApplication.focusWidget()
    if focus is None or not focus.isVisible() or not focus.window().isActiveWindow():
        return None
    covers = [one for one in desk.window.findChildren(Overlay) if one.isVisible()]
    inside: QWidget = covers[-1] if covers else desk.window.current
    return focus if inside is focus or inside.isAncestorOf(focus) else None


async def keyboard_at(desk: ConsoleApplication) -> QWidget:
    """What has the keyboard once the window has settled."""
    await seen(lambda: has_place(desk))
    focus = has_place(desk)
    assert focus is not None
    return focus


async def test_after_unlocking_from_the_card_the_queue_has_the_keyboard(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path, passphrase=PHRASE)])
    for number in (1, 2, 3):
        approval = make_approval(number)
        console.queue[approval.id] = approval

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("approvals")
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        await seen(lambda: desk.keys.listed and screen.bar.unlock.isVisible())
        press_button(screen.bar.unlock)
        await seen(lambda: any(one.isVisible() for one in desk.window.findChildren(Dialog)))
        secret = desk.window.findChildren(UnlockSection)[-1].secret
        assert await keyboard_at(desk) is secret
        QTest.keyClicks(secret, PHRASE)
        key(desk, Qt.Key.Key_Return)
        await seen(lambda: desk.keys.unlocked)
        assert await keyboard_at(desk) is screen.queue.view
        first = screen.card.approval
        key(desk, Qt.Key.Key_J)
        assert screen.card.approval is not first
        screen.bar.stop_guard()
        screen.pane.show_situation()
        key(desk, Qt.Key.Key_D)
        assert await keyboard_at(desk) is screen.bar.reason


async def approvals_of(desk: ConsoleApplication) -> ApprovalsScreen:
    """The Approvals screen with an open card that may be answered."""
    await seen(lambda: desk.keys.unlocked)
    desk.window.open("approvals")
    screen = desk.window.current
    assert isinstance(screen, ApprovalsScreen)
    await seen(lambda: screen.card.approval)
    await seen(lambda: not screen.bar.guarded)
    return screen


async def test_the_chord_on_a_critical_card_goes_where_the_name_is_typed(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])
    approval = make_approval(1, risk="critical")
    console.queue[approval.id] = approval

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await approvals_of(desk)
        await seen(lambda: screen.card.end_was_seen)
        assert await keyboard_at(desk) is screen.queue.view
        key(desk, Qt.Key.Key_Return, CTRL)
        assert await keyboard_at(desk) is screen.bar.name_field
        QTest.keyClicks(QApplication.focusWidget(), approval.request.device)
        assert screen.bar.name_field.text() == approval.request.device
        key(desk, Qt.Key.Key_Return, CTRL)
        await seen(lambda: console.queue[approval.id].state is ApprovalState.APPROVED)
        await keyboard_at(desk)


async def test_the_chord_goes_to_the_box_whose_end_was_not_seen_and_the_bar_names_it(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])
    for number in range(1, 40):
        approval = make_approval(
            number, device=f"lab-lnx-{number:02}", parameters={"command": "uptime"}, summary="Runs uptime"
        )
        console.queue[approval.id] = approval

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await approvals_of(desk)
        assert len(screen.card.others) == 38
        assert screen.bar.hint.text() == "scroll the list of devices to the end first"
        assert screen.card.group.head.hint.text().endswith("end not seen")
        key(desk, Qt.Key.Key_Return, CTRL)
        assert await keyboard_at(desk) is screen.card.group.box
        key(desk, Qt.Key.Key_End, CTRL)
        await seen(screen.bar.approve.isEnabled)
        assert screen.card.group.head.hint.text().endswith("end seen")
        assert not {"decide", "decide_many"} & set(console.asked)


async def test_tab_goes_through_a_card_as_it_is_read(theme: Theme, tmp_path: Path) -> None:
    command = "rm -rf /srv/x\nsystemctl restart nginx"
    found = [
        find_in(command, "rm -rf /srv/x", "high", "Deletes"),
        find_in(command, "systemctl", "high", "Restarts"),
    ]
    approval = make_approval(1, parameters={"command": command}, findings=found, risk="high", run="r-0001")
    console = FakeConsole(operators=[operator_of(tmp_path)])
    console.queue[approval.id] = approval

    async with open_frame(theme, tmp_path, console) as desk:
        screen = await approvals_of(desk)
        walked = []
        screen.card.bytes.box.setFocus()
        while (focus := QApplication.focusWidget()) is not screen.bar.deny:
            assert focus is not None
            walked.append(focus)
            assert len(walked) < 40
            key(desk, Qt.Key.Key_Tab)
        rows = [one for one in walked if isinstance(one, FindingRow)]
        assert len(rows) == 2
        run = screen.card.facts.value("Run")
        copy = screen.card.bytes.copy
        order = [walked.index(one) for one in (screen.card.bytes.box, copy, *rows, run)]
        assert order == sorted(order)


async def test_c_in_fleet_begins_a_batch_of_the_device_where_its_tool_is_typed(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole(operators=[operator_of(tmp_path)])) as desk:
        desk.window.open("fleet")
        fleet = desk.window.current
        assert isinstance(fleet, FleetScreen)
        await seen(fleet.listing.current_key)
        device = fleet.listing.current_key()
        assert await keyboard_at(desk) is fleet.listing.view
        key(desk, Qt.Key.Key_C)
        await seen(lambda: desk.window.current.name == "batch")
        batch = desk.window.current
        assert isinstance(batch, BatchScreen)
        assert batch.editor.content.steps == ()
        assert batch.editor.content.targets == f"name:{device}"
        assert await keyboard_at(desk) is batch.tools.search
        await seen(lambda: batch.tools.list.tools.items)
        QTest.keyClicks(batch.tools.search, "shell")
        await seen(lambda: not batch.tools.searching)
        chosen = batch.tools.list.current()
        assert chosen is not None
        assert chosen.tool.tool_name.startswith("shell")
        key(desk, Qt.Key.Key_Return)
        # What is typed next is the command, not another search.
        await seen(lambda: batch.step.form.isVisible())
        assert batch.step.isAncestorOf(await keyboard_at(desk))
        QTest.keyClicks(QApplication.focusWidget(), "uptime")
        await seen(lambda: batch.editor.content.steps[0].parameters.get("command") == "uptime")


async def test_the_arrow_from_a_search_goes_below_what_enter_would_take(theme: Theme, tmp_path: Path) -> None:
    async with open_frame(theme, tmp_path, FakeConsole()) as desk:
        desk.window.open("batch")
        batch = desk.window.current
        assert isinstance(batch, BatchScreen)
        await seen(lambda: batch.tools.list.tools.items)
        batch.tools.focus_search()
        QTest.keyClicks(batch.tools.search, "file")
        await seen(lambda: not batch.tools.searching)
        offered = batch.tools.list.currentIndex().row()
        key(desk, Qt.Key.Key_Down)
        assert await keyboard_at(desk) is batch.tools.list
        assert batch.tools.list.currentIndex().row() > offered
        batch.opening.ask()
        await seen(lambda: desk.window.findChildren(OpenDialog))
        sheet = desk.window.findChildren(OpenDialog)[0]
        assert await keyboard_at(desk) is sheet.search
        first = sheet.list.current_key()
        key(desk, Qt.Key.Key_Down)
        assert sheet.list.isAncestorOf(await keyboard_at(desk))
        assert sheet.list.current_key() != first


async def test_a_tool_is_searched_by_its_name_before_its_description(theme: Theme, tmp_path: Path) -> None:
    console = FakeConsole()
    for tools in console.tools_of.values():
        at = next(n for n, tool in enumerate(tools) if tool.tool_name == "get_system_info")
        tools[at] = tools[at].model_copy(update={"description": "Says how large the screen is."})

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("batch")
        batch = desk.window.current
        assert isinstance(batch, BatchScreen)
        await seen(lambda: batch.tools.list.tools.items)
        batch.tools.focus_search()
        QTest.keyClicks(batch.tools.search, "scr")
        await seen(lambda: not batch.tools.searching)
        chosen = batch.tools.list.current()
        assert chosen is not None
        assert chosen.tool.tool_name == "screenshot"


async def test_pairing_asked_for_in_settings_has_the_keyboard_in_the_name(
    theme: Theme, tmp_path: Path
) -> None:
    async with open_frame(theme, tmp_path, FakeConsole(operators=[operator_of(tmp_path)])) as desk:
        await seen(lambda: desk.keys.unlocked)
        desk.window.open("settings", OpenSection("devices"))
        desk.window.open("fleet", OpenPairing())
        await seen(lambda: desk.window.findChildren(PairingDialog))
        sheet = desk.window.findChildren(PairingDialog)[0]
        assert await keyboard_at(desk) is sheet.form.name_field


SCREENS = ["fleet", "batch", "approvals", "runs", "replay", "journal", "agents", "settings"]
EVERYWHERE = ["Ctrl+K", "F1", "Ctrl+F", "F6", "Shift+F6", "Ctrl+B"]


@pytest.mark.parametrize("name", SCREENS)
async def test_after_every_key_of_a_screen_something_sensible_has_the_keyboard(
    theme: Theme, tmp_path: Path, name: str
) -> None:
    console = story([operator_of(tmp_path)])

    async def press(desk: ConsoleApplication, keys: str) -> None:
        QTest.keySequence(QApplication.focusWidget() or desk.window, QKeySequence(keys))
        await asyncio.sleep(0)

    async with open_frame(theme, tmp_path, console) as desk:
        await seen(lambda: desk.keys.unlocked)
        alt = f"Alt+{SCREENS.index(name) + 1}"
        await press(desk, alt)
        assert desk.window.current.name == name
        await keyboard_at(desk)
        for keys in [*(one.keys for one in desk.window.current.listed_keys), *EVERYWHERE]:
            if keys == "Menu" or (name, keys) in (("replay", "O"), ("runs", "Ctrl+E")):
                continue  # a pop-up or dialog grabs the keyboard, which the off-screen platform cannot
            await press(desk, keys)
            if keys not in ("F6", "Shift+F6"):  # these walk to the frame of the window, too
                assert await keyboard_at(desk), keys
            for _ in range(3):
                await press(desk, "Esc")
                if keys not in ("F6", "Shift+F6"):
                    assert await keyboard_at(desk), f"Esc after {keys}"
            await press(desk, alt)
            assert desk.window.current.name == name
            assert await keyboard_at(desk), f"{alt} after {keys}"
