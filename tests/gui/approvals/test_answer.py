"""Answering: nothing by accident, exactly what is shown, signed, and errors where the wish was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.input_origin import InputOrigin
from app.screens.approvals.decision_bar import PRESS_AGAIN
from app.screens.approvals.edit_dialog import EditDialog
from app.screens.approvals.screen import ApprovalsScreen
from app.theme.theme import Theme
from core.approvals.models import ApprovalState
from core.statements import request_digest
from tests.fakes.approvals_desk import (
    CTRL,
    KEYS,
    DeskWith,
    make_approval,
    press,
    state_of,
)
from tests.fakes.console import FakeConsole
from tests.fakes.sign_sheets import operator_of
from tests.fakes.window import open_frame, seen
from tests.gui.approvals.page import guard_of

LONG = "\n".join(f"echo line {number}" for number in range(60))


async def test_ctrl_enter_signs_exactly_the_request_that_is_shown(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        await desk.guard_over()
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: state_of(desk) is ApprovalState.APPROVED)
        assert desk.console.queue["a-0001"].decided_by == "harbour"
        assert desk.screen.queue.model.row_of("a-0001") < 0 or desk.shown().id == "a-0002"


async def test_a_click_on_approve_leaves_the_keyboard_where_it_was(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        await desk.guard_over()
        desk.screen.queue.view.setFocus()
        QTest.mouseClick(desk.screen.bar.approve, Qt.MouseButton.LeftButton)
        await desk.until(lambda: state_of(desk) is ApprovalState.APPROVED)
        assert desk.screen.queue.view.hasFocus()


async def test_a_new_card_is_not_approved_for_700_ms_and_says_so(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        await desk.guard_over()
        desk.screen.open_card("a-0002")
        bar = desk.screen.bar
        assert bar.guarded
        assert guard_of(bar).interval() == 700
        assert not bar.approve.isEnabled()
        assert not bar.hint.isVisible()
        press(desk, KEYS.Key_Return, CTRL)
        assert bar.hint.isVisible()
        assert bar.hint.text() == PRESS_AGAIN
        QTest.mouseClick(bar.approve, Qt.MouseButton.LeftButton)
        bar.approve_asked.emit(InputOrigin.REAL)
        await desk.until(lambda: not bar.guarded, "the guard ends by itself")
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        assert bar.approve.isEnabled()
        # There was hardly time to read it.
        assert bar.hint.text() == PRESS_AGAIN
        desk.screen.open_card("a-0001")
        assert not bar.hint.isVisible()


async def test_a_reason_typed_right_after_a_card_came_is_all_in_the_reason(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(n) for n in (1, 2, 3)]) as desk:
        await desk.guard_over()
        desk.screen.queue.view.setFocus()
        press(desk, KEYS.Key_J)
        bar = desk.screen.bar
        assert bar.guarded
        press(desk, KEYS.Key_D)
        for letter in "half a reason, jkdegf":
            QTest.keyClick(desk.screen.focusWidget(), letter)
        assert bar.guarded
        assert bar.reason.text() == "half a reason, jkdegf"
        assert not desk.screen.findChildren(EditDialog)
        # A card that comes back to the eye leaves it there, too.
        QApplication.sendEvent(desk.screen, QEvent(QEvent.Type.WindowActivate))
        assert bar.reason.text() == "half a reason, jkdegf"
        press(desk, KEYS.Key_Return)
        await desk.until(lambda: state_of(desk, 2) is ApprovalState.DENIED)
        assert desk.console.queue["a-0002"].reason == "half a reason, jkdegf"
        assert state_of(desk, 1) is state_of(desk, 3) is ApprovalState.WAITING


async def test_what_is_typed_while_the_form_of_an_edit_is_read_reaches_no_card(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole(operators=[operator_of(tmp_path)])
    for number in (1, 2):
        console.queue[f"a-{number:04}"] = make_approval(number)

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("approvals")
        desk.window.activateWindow()
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        await seen(lambda: desk.keys.unlocked and screen.queue.view.hasFocus() and not screen.bar.guarded)
        QTest.keyClick(screen.queue.view, KEYS.Key_E)
        [sheet] = desk.window.findChildren(EditDialog)
        assert not sheet.has_form
        for letter in "jdg":
            QTest.keyClick(QApplication.focusWidget(), letter)
        QTest.keyClick(QApplication.focusWidget(), KEYS.Key_Return, CTRL)
        assert screen.card.approval is not None
        assert screen.card.approval.id == "a-0001"
        assert not screen.bar.asks_reason
        await seen(lambda: sheet.has_form)
        assert sheet.isAncestorOf(QApplication.focusWidget())
        assert "decide" not in console.asked


async def test_escape_leaves_the_name_that_is_typed_to_approve(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, risk="critical"), make_approval(2)]) as desk:
        await desk.guard_over()
        bar = desk.screen.bar
        bar.name_field.setFocus()
        QTest.keyClicks(bar.name_field, "lab")
        assert desk.screen.escape()
        assert desk.screen.queue.view.hasFocus()
        press(desk, KEYS.Key_J)
        assert desk.shown().id == "a-0002"


async def test_a_card_takes_no_answer_right_after_its_window_came_back(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        bar = desk.screen.bar
        assert bar.approve.isEnabled()
        QApplication.sendEvent(desk.screen, QEvent(QEvent.Type.WindowDeactivate))
        assert not bar.guarded
        QApplication.sendEvent(desk.screen, QEvent(QEvent.Type.WindowActivate))
        assert bar.guarded
        assert not bar.approve.isEnabled()
        press(desk, KEYS.Key_Return, CTRL)
        QTest.mouseClick(bar.approve, Qt.MouseButton.LeftButton)
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        await desk.guard_over()
        assert bar.approve.isEnabled()


async def test_the_guard_lasts_at_least_700_ms(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        guard = guard_of(desk.screen.bar)
        assert guard.interval() == 700
        assert guard.timerType() is Qt.TimerType.PreciseTimer


@pytest.mark.parametrize("key", [KEYS.Key_Return, KEYS.Key_Enter, KEYS.Key_Space])
@pytest.mark.parametrize("place", ["queue.view", "bar.approve", "card.bytes.box", "bar.name_field", ""])
async def test_a_stray_key_never_approves(desk_with: DeskWith, key: Qt.Key, place: str) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        target: Any = desk.screen
        for part in place.split(".") if place else ():
            target = getattr(target, part)
        target.setFocus()
        QTest.keyClick(target, key)
        QTest.keyClick(target, key)
        await desk.until(lambda: not desk.screen.bar.guarded)
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        assert not desk.screen.bar.approve.isDefault()
        assert not desk.screen.bar.approve.autoDefault()
        assert not desk.screen.bar.deny.isDefault()


@pytest.mark.parametrize("risk", ["high", "critical"])
async def test_high_risk_is_approved_only_after_its_end_was_seen(desk_with: DeskWith, risk: str) -> None:
    async with desk_with(requests=[make_approval(1, risk=risk, parameters={"command": LONG})]) as desk:
        await desk.guard_over()
        bar, box = desk.screen.bar, desk.screen.card.bytes.box
        bar.name_field.setText("lab-lnx-01")
        assert not bar.approve.isEnabled()
        assert bar.hint.text() == "scroll to the end first"
        press(desk, KEYS.Key_Return, CTRL)
        box.verticalScrollBar().setValue(box.verticalScrollBar().maximum())
        await desk.until(bar.approve.isEnabled, "approve is possible")
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        bar.press_approve(InputOrigin.REAL)
        await desk.until(lambda: state_of(desk) is ApprovalState.APPROVED)


async def test_a_long_second_argument_has_to_be_seen_too(desk_with: DeskWith) -> None:
    hiding = {"command": "true", "script": "x" * 5000 + "rm -rf /"}
    async with desk_with(requests=[make_approval(1, risk="high", parameters=hiding)]) as desk:
        await desk.guard_over()
        card, bar = desk.screen.card, desk.screen.bar
        await desk.until(lambda: card.bytes.box.end_was_seen, "the first argument is seen whole")
        assert not card.end_was_seen
        assert not bar.approve.isEnabled()


async def test_software_that_presses_the_button_does_not_approve_high_risk(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, risk="high", parameters={"command": "x"})]) as desk:
        await desk.guard_over()
        bar = desk.screen.bar
        await desk.until(bar.approve.isEnabled)
        bar.approve.click()
        assert "from a program, not from your hand" in bar.error.words()
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        QTest.mouseClick(bar.approve, Qt.MouseButton.LeftButton)
        await desk.until(lambda: state_of(desk) is ApprovalState.APPROVED)


async def test_medium_risk_does_not_ask_for_the_end(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, parameters={"command": LONG})]) as desk:
        await desk.guard_over()
        assert not desk.screen.card.end_was_seen
        assert desk.screen.bar.approve.isEnabled()


async def test_critical_asks_for_the_devices_name_and_is_not_primary(desk_with: DeskWith) -> None:
    async with desk_with(
        requests=[make_approval(1, risk="critical", device="db-primary", parameters={"command": "x"})]
    ) as desk:
        await desk.guard_over()
        bar = desk.screen.bar
        await desk.until(lambda: desk.screen.card.end_was_seen)
        assert bar.approve.kind == "normal"
        assert bar.name_field.isVisible()
        for wrong in ("", "db-primar", "DB-PRIMARY", "db-primary ", "db-prіmary"):
            bar.name_field.setText(wrong)
            assert not bar.approve.isEnabled(), wrong
            bar.press_approve(InputOrigin.REAL)
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        bar.name_field.setFocus()
        bar.name_field.clear()
        QTest.keyClicks(bar.name_field, "db-primary")
        assert bar.approve.isEnabled()
        QTest.keyClick(bar.name_field, KEYS.Key_Return)
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        QTest.keyClick(bar.name_field, KEYS.Key_Return, CTRL)
        await desk.until(lambda: state_of(desk) is ApprovalState.APPROVED)


async def test_the_typed_name_is_gone_with_the_card(desk_with: DeskWith) -> None:
    both = [make_approval(n, risk="critical", parameters={"command": f"x{n}"}) for n in (1, 2)]
    async with desk_with(requests=both) as desk:
        await desk.guard_over()
        desk.screen.bar.name_field.setText("lab-lnx-01")
        desk.screen.open_card("a-0002")
        assert desk.screen.bar.name_field.text() == ""


async def test_denying_carries_the_reason_to_the_console(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        await desk.guard_over()
        press(desk, KEYS.Key_D)
        bar = desk.screen.bar
        assert bar.asks_reason
        assert bar.reason.hasFocus()
        QTest.keyClicks(bar.reason, "Not during jkd hours")
        QTest.keyClick(bar.reason, KEYS.Key_Return)
        await desk.until(lambda: state_of(desk) is ApprovalState.DENIED)
        assert desk.console.queue["a-0001"].reason == "Not during jkd hours"
        assert state_of(desk, 2) is ApprovalState.WAITING


async def test_denying_without_a_reason_works_and_escape_goes_back(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        bar = desk.screen.bar
        bar.deny_act.trigger()
        assert desk.screen.escape()
        assert not bar.asks_reason
        assert not desk.screen.escape()
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        bar.deny_act.trigger()
        QTest.keyClick(bar.reason, KEYS.Key_Return)
        await desk.until(lambda: state_of(desk) is ApprovalState.DENIED)
        assert desk.console.queue["a-0001"].reason == ""


async def test_a_digest_that_does_not_fit_the_bytes_is_never_signed(desk_with: DeskWith) -> None:
    honest = make_approval(1, parameters={"command": "ls /tmp"})
    evil = make_approval(1, parameters={"command": "rm -rf /"})
    swapped = honest.model_copy(
        update={"request": honest.request.model_copy(update={"digest": evil.request.digest})}
    )

    async with desk_with(requests=[swapped]) as desk:
        await desk.guard_over()
        bar, card = desk.screen.bar, desk.screen.card
        assert card.banner.kind == "fail"
        assert card.banner.isVisible()
        assert "digest does not fit" in card.banner.words().lower()
        assert not bar.approve.isEnabled()
        assert not bar.deny.isEnabled()
        press(desk, KEYS.Key_Return, CTRL)
        bar.approve_asked.emit(InputOrigin.REAL)
        bar.deny_asked.emit("no")
        desk.screen.pane.answer(approve=True, reason="")
        desk.screen.pane.answer(approve=False, reason="")
        assert not {"decide", "decide_many"} & set(desk.console.asked)


async def test_a_request_swapped_under_its_id_is_shown_anew_and_guarded(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1, parameters={"command": "ls"})]) as desk:
        await desk.guard_over()
        other = make_approval(1, parameters={"command": "rm -rf /"})
        desk.console.request(other)
        await desk.until(lambda: b"rm -rf" in desk.screen.card.bytes.box.exact_bytes)
        assert desk.screen.bar.guarded
        assert not desk.screen.bar.approve.isEnabled()
        assert "another one" in desk.screen.card.banner.words()


async def test_a_masked_secret_is_shown_as_dots_and_the_digest_is_checked_all_the_same(
    desk_with: DeskWith,
) -> None:
    masked = make_approval(1, parameters={"command": "login", "password": {"$secret": "ab" * 32}})

    async with desk_with(requests=[masked]) as desk:
        await desk.guard_over()
        shown = desk.screen.card.rest.box.toPlainText()
        assert "••• secret" in shown
        assert "abab" not in shown
        assert "digest fits" in desk.screen.card.facts.value("Checked").text()
        assert desk.screen.bar.approve.isEnabled()


async def test_the_digest_shown_is_the_one_that_is_signed(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        request = desk.shown().request
        assert request.digest == request_digest(request)
        assert request.digest[:4] in desk.screen.card.facts.value("Digest").text()
        assert desk.screen.card.facts.value("Digest").toolTip().find(request.digest) >= 0
