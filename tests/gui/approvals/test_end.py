"""When an answer does not get through, or somebody else was first: the card says so, and nothing is lost."""

from __future__ import annotations

import pytest

from app.input_origin import InputOrigin
from core.approvals.models import ApprovalState
from core.errors import ErrorCode, JournalUnavailable, Refused
from tests.fakes.approvals_desk import (
    CTRL,
    KEYS,
    DeskWith,
    make_approval,
    press,
    state_of,
)


async def test_j_leaves_a_last_card_that_is_done_as_its_button_does(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        gone = {"state": ApprovalState.WITHDRAWN}
        desk.console.request(desk.console.queue["a-0001"].model_copy(update=gone))
        await desk.until(desk.screen.bar.next.isVisible)
        press(desk, KEYS.Key_J)
        await desk.until(lambda: desk.screen.stack.currentIndex() == 0)


async def test_decided_elsewhere_while_open_says_by_whom_and_disables_the_bar(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        await desk.guard_over()
        desk.screen.bar.deny_act.trigger()
        decided = {"state": ApprovalState.DENIED, "decided_by": "anna", "reason": "No."}
        desk.console.request(desk.console.queue["a-0001"].model_copy(update=decided))
        end = desk.screen.card.end_banner
        await desk.until(lambda: not end.isHidden(), "the card says so")
        assert "Denied by anna" in end.words()
        assert "No." in end.words()
        assert desk.shown().id == "a-0001"
        bar = desk.screen.bar
        assert not bar.asks_reason
        assert not bar.approve.isVisible()
        bar.press_approve(InputOrigin.REAL)
        press(desk, KEYS.Key_Return, CTRL)
        press(desk, KEYS.Key_D)
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        bar.next.click()
        assert desk.shown().id == "a-0002"
        assert desk.screen.queue.model.ids == ["a-0002"]


@pytest.mark.parametrize("state", [ApprovalState.EXPIRED, ApprovalState.WITHDRAWN])
async def test_a_request_that_ran_out_or_was_withdrawn_says_that_nothing_was_sent(
    desk_with: DeskWith, state: ApprovalState
) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        desk.console.request(desk.console.queue["a-0001"].model_copy(update={"state": state}))
        end = desk.screen.card.end_banner
        await desk.until(lambda: not end.isHidden())
        assert state.value in end.words().lower()
        assert "nothing was sent" in end.words().lower()


async def test_a_refused_answer_stays_on_the_card_with_what_to_do(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        desk.console.fail_next["decide"] = JournalUnavailable("The disk is full.")
        desk.screen.bar.press_approve(InputOrigin.REAL)
        bar = desk.screen.bar
        await desk.until(bar.error.isVisible)
        assert "The disk is full." in bar.error.words()
        assert "Make the journal writable" in bar.error.words()
        assert bar.approve.isEnabled()
        assert state_of(desk) is ApprovalState.WAITING


async def test_while_an_answer_is_on_its_way_there_is_no_second_one(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        free = desk.console.hold_back("decide")
        bar = desk.screen.bar
        bar.press_approve(InputOrigin.REAL)
        assert bar.approve.text() == "Sending…"
        assert not bar.approve.isEnabled()
        bar.press_approve(InputOrigin.REAL)
        bar.deny_act.trigger()
        assert not bar.asks_reason
        await desk.until(lambda: "decide" in desk.console.asked)
        free.set()
        await desk.until(lambda: state_of(desk) is ApprovalState.APPROVED)
        assert desk.console.asked.count("decide") == 1


async def test_a_locked_key_is_offered_to_be_unlocked_instead_of_approving(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)], unlocked=False, passphrase="long enough words") as desk:
        await desk.guard_over()
        bar = desk.screen.bar
        assert not bar.approve.isVisible()
        assert bar.unlock.text() == "Unlock harbour…"
        press(desk, KEYS.Key_Return, CTRL)
        press(desk, KEYS.Key_D)
        assert not bar.asks_reason
        bar.unlock.click()
        assert desk.nav.unlocks == 1
        await desk.nav.keys.unlock("harbour", "long enough words")
        await desk.until(bar.approve.isVisible)
        assert bar.approve.isEnabled()


@pytest.mark.parametrize(
    "why",
    [
        "Every answer is signed: unlock a key first.",
        "Every answer is signed: make your operator key first.",
        "The service is not connected; nothing can be answered.",
        "The bytes shown are not the ones the digest is of; nothing is signed.",
    ],
)
async def test_in_the_smallest_window_the_bar_says_why_not_in_whole_sentences(
    desk_with: DeskWith, why: str
) -> None:
    # The room that the smallest window has, 1024 × 640, beside its narrow navigation and between its bars.
    async with desk_with(
        requests=[make_approval(1)], size=(972, 570), unlocked=False, passphrase="long enough words"
    ) as desk:
        await desk.guard_over()
        hint = desk.screen.bar.hint
        assert hint.text() == "Every answer is signed: unlock a key first."
        hint.set_text(why)
        desk.screen.bar.layout().activate()
        hint.grab()  # what is cut is said in the tooltip while it is painted
        assert hint.toolTip() == ""
        assert " ".join(hint.lines()) == why
        assert len(hint.lines()) * 18 <= hint.height() <= desk.screen.bar.height()


async def test_a_request_that_was_just_answered_is_not_opened_again_before_its_event_came(
    desk_with: DeskWith,
) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        screen, taken = desk.screen, {"state": ApprovalState.APPROVED, "decided_by": "harbour"}
        screen.pane.decided.emit(desk.shown().model_copy(update=taken))
        assert screen.stack.currentIndex() == 0
        # The event of another request may come first: this one is in the window's state as it was.
        assert desk.state.approvals["a-0001"].state is ApprovalState.WAITING
        desk.state.approvals_changed.emit()
        assert screen.stack.currentIndex() == 0
        assert screen.queue.model.ids == []
        desk.console.request(make_approval(2))
        await desk.until(lambda: screen.stack.currentIndex() == 1)
        assert desk.shown().id == "a-0002"


async def test_without_the_service_nothing_can_be_answered(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        desk.console.lose("The service was killed.")
        bar = desk.screen.bar
        await desk.until(lambda: not bar.approve.isEnabled())
        assert "not connected" in bar.hint.text()
        desk.console.come_back()
        await desk.until(bar.approve.isEnabled)


async def test_an_answer_too_late_says_what_happened_meanwhile(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        gone = {"state": ApprovalState.EXPIRED}
        desk.console.queue["a-0001"] = desk.console.queue["a-0001"].model_copy(update=gone)
        desk.console.fail_next["decide"] = Refused("This request is expired.", ErrorCode.APPROVAL_INVALID)
        desk.screen.bar.press_approve(InputOrigin.REAL)
        await desk.until(desk.screen.bar.error.isVisible)
        assert "expired" in desk.screen.bar.error.words()
