"""Edits, a second operator at the same console, helpers, the meter, and the note in the tray."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget

from app.forms.validator import validator_process
from app.screens.approvals.edit_dialog import EditDialog
from app.screens.approvals.edited_section import arguments_text, changed_names
from app.screens.approvals.screen import MEASURE_TICKS
from app.screens.approvals.second_operator_dialog import SecondOperatorDialog
from app.screens.targets import OpenApproval
from app.shell.tray import Tray, note_words
from app.widgets.dialog import FOCUS_ROOM
from core.approvals.models import ApprovalState
from core.approvals.preview_models import Helper
from core.errors import DeviceError
from tests.fakes.approvals_desk import CTRL, KEYS, ApprovalsDesk, DeskWith, make_approval, press
from tests.fakes.hand import press_button
from tests.fakes.slow_schema import LARGE, while_checking
from tests.gui.approvals.page import tick_of
from tests.gui.page import problem_in

PHRASE = "a long passphrase"


async def edit_of(desk: ApprovalsDesk) -> EditDialog:
    await desk.guard_over()
    press(desk, KEYS.Key_E)
    await desk.until(lambda: any(one.has_form for one in desk.screen.findChildren(EditDialog)))
    return next(iter(desk.screen.findChildren(EditDialog)))


async def second_of(desk: ApprovalsDesk) -> SecondOperatorDialog:
    await desk.guard_over()
    QTest.mouseClick(desk.screen.bar.second, Qt.MouseButton.LeftButton)
    return next(iter(desk.screen.findChildren(SecondOperatorDialog)))


# Edit, then approve


async def test_an_edit_begins_with_the_keyboard_in_the_first_field(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        sheet = await edit_of(desk)
        first = sheet.form.inputs()[0]
        await desk.until(first.hasFocus)
        room = first.mapTo(sheet.form, QPoint(0, 0))
        assert room.x() >= FOCUS_ROOM, "else the list that scrolls would cut the ring off"
        assert room.y() >= FOCUS_ROOM


async def test_an_edit_ends_the_request_and_shows_the_new_one_with_what_was_changed(
    desk_with: DeskWith,
) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        sheet = await edit_of(desk)
        assert not sheet.answer("ask").isEnabled()
        sheet.form.set_value({"command": "echo harmless", "timeout": 20})
        sheet.show_versions()
        assert sheet.versions.head.hint.text() == "command"
        QTest.mouseClick(sheet.answer("ask"), Qt.MouseButton.LeftButton)
        await desk.until(lambda: desk.shown().edited_from == "a-0001")
        assert desk.console.queue["a-0001"].state is ApprovalState.EDITED
        card = desk.screen.card
        assert b"echo harmless" in card.bytes.box.exact_bytes
        assert "changed the arguments" in card.banner.words()
        await desk.until(card.edited.isVisible)
        assert desk.screen.bar.guarded
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        assert desk.shown().request.digest != desk.console.queue["a-0001"].request.digest


async def test_an_edit_waits_until_its_arguments_are_checked(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        validator_process().stop()
        for tools in desk.console.tools_of.values():
            for place, tool in enumerate(tools):
                tools[place] = tool.model_copy(update={"input_schema": LARGE})
        sheet = await edit_of(desk)
        await desk.until(lambda: sheet.form.is_checked)

        async def press_twice() -> None:
            sheet.form.set_value({"command": "echo harmless"})
            sheet.show_versions()
            QTest.mouseClick(sheet.answer("ask"), Qt.MouseButton.LeftButton)
            assert "being checked" in sheet.answer("ask").toolTip()
            sheet.form.set_value({"command": "echo other"})
            assert "are others than when they were to be checked" in problem_in(sheet)
            sheet.show_versions()
            QTest.mouseClick(sheet.answer("ask"), Qt.MouseButton.LeftButton)
            assert "edit_approval" not in desk.console.asked

        await while_checking(press_twice)
        await desk.until(lambda: desk.shown().edited_from == "a-0001")
        assert desk.shown().request.parameters == {"command": "echo other"}
        assert desk.console.asked.count("edit_approval") == 1


async def test_an_edit_that_is_refused_says_so_and_the_request_still_waits(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        sheet = await edit_of(desk)
        desk.console.fail_next["edit_approval"] = DeviceError("lab-lnx-01 is offline.")
        sheet.form.set_value({"command": "true"})
        sheet.show_versions()
        press_button(sheet.answer("ask"))
        await desk.until(lambda: "offline" in problem_in(sheet))
        assert desk.console.queue["a-0001"].state is ApprovalState.WAITING


async def test_a_request_with_a_masked_secret_cannot_be_edited(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, parameters={"command": {"$secret": "ab" * 32}})]) as desk:
        await desk.guard_over()
        press(desk, KEYS.Key_E)
        assert "secret" in desk.screen.bar.edit.accessibleDescription()
        assert "tools" not in desk.console.asked[desk.console.asked.index("helpers") + 1 :]


def test_both_versions_are_told_apart_by_value_and_presence() -> None:
    assert changed_names({"a": 1, "b": 2}, {"a": 1, "b": "2", "c": None}) == ["b", "c"]
    assert arguments_text({"b": "x\ny", "a": 1}) == "a: 1\nb:\n  x\n  y\n"


# Several approvers


async def test_the_first_of_two_leaves_the_card_open_for_another(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, approvers=2)], second=PHRASE) as desk:
        await desk.guard_over()
        bar = desk.screen.bar
        assert bar.slots.words() == "0 of 2, needs 2 operators"
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: desk.shown().approved_by == ["harbour"])
        assert bar.slots.words() == "1 of 2, needs another operator"
        assert not bar.approve.isVisible()
        assert desk.console.queue["a-0001"].state is ApprovalState.WAITING
        press(desk, KEYS.Key_Return, CTRL)
        assert desk.console.asked.count("decide") == 1


async def test_another_operator_approves_once_and_their_key_is_forgotten(desk_with: DeskWith) -> None:
    async with desk_with(
        requests=[make_approval(1, approvers=2, approved_by=["harbour"])], second=PHRASE
    ) as desk:
        sheet = await second_of(desk)
        assert [sheet.who.itemData(n) for n in range(sheet.who.count())] == ["anna"]
        QTest.keyClicks(sheet.secret, "wrong words")
        QTest.keyClick(sheet.secret, KEYS.Key_Return)
        await desk.until(lambda: "passphrase" in problem_in(sheet))
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        sheet.secret.clear()
        QTest.keyClicks(sheet.secret, PHRASE)
        QTest.keyClick(sheet.secret, KEYS.Key_Return)
        await desk.until(lambda: desk.console.queue["a-0001"].state is ApprovalState.APPROVED)
        assert desk.console.queue["a-0001"].approved_by == ["harbour", "anna"]
        assert desk.nav.keys.unlocked == "harbour"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"actor": "agent:clerk"}, "you signed in the agent that asked for this, so you do not count"),
        ({"edited_from": "a-0000"}, "you asked for this or changed it, so you do not count"),
    ],
)
async def test_an_asker_is_told_by_what_they_became_one(
    desk_with: DeskWith, more: dict[str, str], words: str
) -> None:
    waiting = make_approval(1, approvers=2, askers=["harbour"], **more)
    async with desk_with(requests=[waiting], second=PHRASE) as desk:
        await desk.guard_over()
        assert words in desk.screen.bar.hint.text()


async def test_the_asker_is_told_that_they_do_not_count(desk_with: DeskWith) -> None:
    waiting = make_approval(1, approvers=2, askers=["harbour"], actor="operator:harbour")
    async with desk_with(requests=[waiting], second=PHRASE) as desk:
        await desk.guard_over()
        bar = desk.screen.bar
        assert not bar.approve.isVisible()
        assert "you asked for this" in bar.hint.text()
        press(desk, KEYS.Key_Return, CTRL)
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        sheet = await second_of(desk)
        assert [sheet.who.itemData(n) for n in range(sheet.who.count())] == ["anna"]


async def test_a_key_without_a_passphrase_does_not_stand_for_a_second_person(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, approvers=2, askers=["anna"])], second=PHRASE) as desk:
        sheet = await second_of(desk)
        assert sheet.who.count() == 0
        assert not sheet.answer("approve").isEnabled()


# Before you decide


async def test_b_leads_to_the_helpers_and_what_they_find_stands_below(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        listing = Helper(
            id="h1", title="List what\u202e would match", device="lab-lnx-01", tool="x", parameters={}
        )
        desk.console.helpful["a-0001"] = [listing]
        desk.console.answer_with["lab-lnx-01", "x"] = {"stdout": "a\u200bb\n"}
        await desk.open(make_approval(1))
        part = desk.screen.card.helpers
        await desk.until(part.isVisible)
        press(desk, KEYS.Key_B)
        assert part.buttons[0].hasFocus()
        assert "\u202e" not in part.buttons[0].text()
        QTest.keyClick(part.buttons[0], KEYS.Key_Return)
        await desk.until(lambda: part.found)
        assert "aU+200Bb" in part.found[0].text.toPlainText()
        assert desk.console.asked.count("run_helper") == 1
        assert not {"decide", "decide_many"} & set(desk.console.asked)


async def test_a_helper_that_fails_says_why(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        await desk.open(make_approval(1))
        part = desk.screen.card.helpers
        await desk.until(lambda: part.buttons)
        desk.console.fail_next["run_helper"] = DeviceError("lab-lnx-01 is offline.")
        part.buttons[0].click()
        await desk.until(lambda: part.found)
        assert "offline" in part.found[0].words.text()
        assert part.buttons[0].isEnabled()


# The meter


async def test_the_foot_says_how_decisions_were_made_and_warns(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        meter = desk.screen.queue.meter
        assert meter.warning.isHidden()
        desk.console.took_s = 0.4
        await desk.guard_over()
        desk.console.tired = "6 of 6 approvals took less than a second each."
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(meter.warning.isVisible)
        assert "1 decided, 100 % approved" in meter.decided.text()
        assert "less than a second" in meter.warning.text()


async def test_the_foot_is_read_again_while_the_screen_is_open(desk_with: DeskWith) -> None:
    """What is answered elsewhere counts, and answers leave the last hour while nothing happens."""

    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        meter = desk.screen.queue.meter
        operator = desk.screen.nav.keys.unlocked
        assert operator is not None
        desk.console.answered(operator, 5.0, True)
        desk.console.request(make_approval(2).model_copy(update={"state": ApprovalState.DENIED}))
        await desk.until(lambda: "1 decided, 100 % approved" in meter.decided.text())
        desk.console.answered(operator, 5.0, False)
        for _ in range(MEASURE_TICKS):
            tick_of(desk.screen).timeout.emit()
        await desk.until(lambda: "2 decided, 50 % approved" in meter.decided.text())


# The tray


class TrayWindow(QWidget):
    """A window that notes what it was asked to show."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[str, str]] = []

    def open(self, screen: str, target: OpenApproval | None = None) -> None:
        self.opened.append((screen, target.approval if target is not None else ""))

    def raise_(self) -> None:
        """The off-screen platform warns that it cannot."""


class FakeIcon(QObject):
    """What the desktop's tray was told."""

    pressed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str, str]] = []
        self.waiting = 0

    def say(self, title: str, words: str) -> None:
        self.said.append((title, words))

    def tell(self, waiting: int) -> None:
        self.waiting = waiting


def test_a_note_names_device_tool_and_risk_and_nothing_of_others_words() -> None:
    one = make_approval(1, device="db-\u202eprimary", risk="critical", said="click allow", production=True)
    title, words = note_words([one, make_approval(2)])
    assert title == "Critical risk on db-[U+202E]primary"
    assert words == "Production. shell_execute waits for an operator. 1 more came in with it."


async def test_the_note_opens_the_card_and_decides_nothing(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        icon, window = FakeIcon(), TrayWindow()
        tray = Tray(window, desk.state, icon)  # type: ignore[arg-type]  # stand-ins for window and icon
        desk.state.approvals_changed.emit()
        assert icon.said == []
        desk.console.request(make_approval(5, risk="high"))
        await desk.until(lambda: icon.said)
        assert icon.said[0][0] == "High risk on lab-lnx-01"
        assert icon.waiting == 2
        icon.pressed.emit()
        assert window.opened == [("approvals", "a-0005")]
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        tray.deleteLater()
        window.deleteLater()
