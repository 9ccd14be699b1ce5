"""The queue: in order of risk and age, still under the pointer, quick with a thousand, never in the way."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtTest import QAbstractItemModelTester, QTest
from PySide6.QtWidgets import QApplication

from app.screens.approvals.queue_cards import QueueModel
from app.screens.approvals.queue_pane import QueuePane
from app.screens.approvals.text import TimeLeft, clock_words
from core.approvals.models import Approval, ApprovalState
from core.approvals.request_groups import Group
from tests.fakes.approvals_desk import ApprovalsDesk, DeskWith, make_approval
from tests.fakes.work import most_calls


def gone(desk: ApprovalsDesk, number: int) -> None:
    known = desk.console.queue[f"a-{number:04}"]
    desk.console.request(known.model_copy(update={"state": ApprovalState.WITHDRAWN}))


def hover(desk: ApprovalsDesk, row: int) -> None:
    view = desk.screen.queue.view
    spot = QPointF(view.visualRect(view.model().index(row, 0)).center())
    none, no_keys = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    # QTest.mouseMove would run a loop of its own, which loses the tasks of this one.
    move = QMouseEvent(QEvent.Type.MouseMove, spot, view.viewport().mapToGlobal(spot), none, none, no_keys)
    QApplication.sendEvent(view.viewport(), move)


def leave(desk: ApprovalsDesk) -> None:
    QApplication.sendEvent(desk.screen.queue.view.viewport(), QEvent(QEvent.Type.Leave))


def place_of(pane: QueuePane, row: int) -> QPoint:
    """Where a card is drawn in its pane."""
    return pane.view.mapTo(pane, pane.view.visualRect(pane.model.index(row, 0)).topLeft())


def numbers(*approvals: int) -> list[str]:
    return [f"a-{number:04}" for number in approvals]


async def test_the_highest_risk_comes_first_then_the_oldest(desk_with: DeskWith) -> None:
    risks = {1: "medium", 2: "high", 3: "medium", 4: "critical", 5: "high"}
    async with desk_with(requests=[make_approval(n, risk=risk) for n, risk in risks.items()]) as desk:
        assert desk.screen.queue.model.ids == numbers(4, 2, 5, 1, 3)


async def test_a_new_card_moves_neither_selection_nor_focus(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2), make_approval(3)]) as desk:
        await desk.guard_over()
        screen = desk.screen
        screen.open_card("a-0002")
        await desk.guard_over()
        screen.card.bytes.box.setFocus()
        desk.console.request(make_approval(9, risk="critical"))
        await desk.until(lambda: "a-0009" in screen.queue.model.ids)
        assert screen.queue.model.ids[0] == "a-0009"
        assert desk.shown().id == "a-0002"
        assert screen.queue.view.currentIndex().row() == screen.queue.model.row_of("a-0002")
        assert screen.card.bytes.box.hasFocus()
        assert not screen.bar.guarded


async def test_the_first_card_in_an_empty_queue_takes_no_focus(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        assert desk.screen.stack.currentIndex() == 0
        before = desk.screen.focusWidget()
        desk.console.request(make_approval(1))
        await desk.until(lambda: desk.screen.stack.currentIndex() == 1)
        assert desk.screen.focusWidget() is before
        assert desk.screen.bar.guarded


async def test_nothing_moves_under_the_pointer_until_it_leaves(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(n) for n in (1, 2, 3)]) as desk:
        await desk.guard_over()
        pane = desk.screen.queue
        hover(desk, 1)
        before = [
            pane.view.mapTo(pane, pane.view.visualRect(pane.model.index(row, 0)).topLeft())
            for row in (0, 1, 2)
        ]
        desk.console.request(make_approval(8, risk="high"))
        desk.console.request(make_approval(9, risk="critical"))
        gone(desk, 2)
        await desk.until(pane.new_above.isVisible, "the line says what is new")
        assert pane.new_above.text() == "2 new above"
        assert pane.model.ids == numbers(1, 2, 3)
        after = [
            pane.view.mapTo(pane, pane.view.visualRect(pane.model.index(row, 0)).topLeft())
            for row in (0, 1, 2)
        ]
        assert after == before
        leave(desk)
        assert pane.model.ids == numbers(9, 8, 1, 3)
        assert not pane.new_above.isVisible()


async def test_the_line_brings_what_is_new_into_the_list(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        pane = desk.screen.queue
        hover(desk, 0)
        desk.console.request(make_approval(9, risk="critical"))
        await desk.until(pane.new_above.isVisible)
        pane.new_above.click()
        assert pane.model.ids == numbers(9, 1)


def scrolled(desk: ApprovalsDesk) -> None:
    bar = desk.screen.queue.view.verticalScrollBar()
    desk.screen.queue.view.doItemsLayout()
    assert bar.maximum() > 200
    bar.setValue(200)


async def test_what_is_new_is_said_to_be_above_until_it_has_been_in_sight(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(n) for n in range(1, 30)]) as desk:
        await desk.guard_over()
        pane = desk.screen.queue
        scrolled(desk)
        hover(desk, 5)
        desk.console.request(make_approval(98, risk="high"))
        desk.console.request(make_approval(99, risk="critical"))
        await desk.until(pane.new_above.isVisible, "the line says what is new")
        leave(desk)
        assert pane.model.ids[:2] == numbers(99, 98)
        assert pane.view.visualRect(pane.model.index(1, 0)).bottom() < 0
        assert pane.new_above.isVisible()
        assert pane.new_above.text() == "2 new above"
        pane.view.scrollTo(pane.model.index(1, 0))
        assert pane.new_above.text() == "1 new above"
        pane.view.scrollToTop()
        assert not pane.new_above.isVisible()
        scrolled(desk)
        assert not pane.new_above.isVisible()


async def test_what_is_new_above_is_said_without_the_pointer_too_and_the_line_leads_there(
    desk_with: DeskWith,
) -> None:
    async with desk_with(requests=[make_approval(n) for n in range(1, 30)]) as desk:
        await desk.guard_over()
        pane = desk.screen.queue
        scrolled(desk)
        desk.console.request(make_approval(99, risk="critical"))
        await desk.until(pane.new_above.isVisible, "the line says what is new")
        assert pane.new_above.text() == "1 new above"
        pane.new_above.click()
        assert pane.view.visualRect(pane.model.index(0, 0)).top() >= 0
        assert not pane.new_above.isVisible()


async def test_what_goes_again_before_it_was_in_sight_is_not_counted(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(n) for n in range(1, 30)]) as desk:
        await desk.guard_over()
        pane = desk.screen.queue
        scrolled(desk)
        desk.console.request(make_approval(99, risk="critical"))
        await desk.until(pane.new_above.isVisible, "the line says what is new")
        gone(desk, 99)
        await desk.until(lambda: not pane.new_above.isVisible())


async def test_what_is_new_below_appears_at_once_also_under_the_pointer(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        hover(desk, 0)
        desk.console.request(make_approval(2, risk="low"))
        await desk.until(lambda: desk.screen.queue.model.ids == numbers(1, 2))
        assert not desk.screen.queue.new_above.isVisible()


async def test_j_and_k_and_the_arrows_move_through_the_queue(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(n) for n in (1, 2, 3)]) as desk:
        await desk.guard_over()
        view = desk.screen.queue.view
        view.setFocus()
        seen = [desk.shown().id]
        for key in (Qt.Key.Key_J, Qt.Key.Key_J, Qt.Key.Key_J, Qt.Key.Key_K, Qt.Key.Key_Down, Qt.Key.Key_Up):
            QTest.keyClick(view, key)
            seen.append(desk.shown().id)
        assert seen == numbers(1, 2, 3, 3, 2, 3, 2)


async def test_letters_reach_the_reason_field_instead_of_moving_the_queue(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        await desk.guard_over()
        desk.screen.bar.deny_act.trigger()
        QTest.keyClicks(desk.screen.bar.reason, "jkdf")
        assert desk.screen.bar.reason.text() == "jkdf"
        assert desk.shown().id == "a-0001"


async def test_keys_of_the_screen_work_while_the_bytes_have_the_focus(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:
        await desk.guard_over()
        box = desk.screen.card.bytes.box
        box.setFocus()
        QTest.keyClick(box, Qt.Key.Key_J)
        assert desk.shown().id == "a-0002"


async def test_after_the_last_answer_the_empty_queue_lists_what_was_decided(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1)]) as desk:
        await desk.guard_over()
        desk.screen.pane.deny("Not today")
        await desk.until(lambda: desk.screen.stack.currentIndex() == 0)
        assert desk.screen.nothing.accessibleName().startswith("Nothing waits for you.")
        assert [one.id for one in desk.screen.log.decided] == ["a-0001"]
        assert desk.screen.log.outcome(desk.screen.log.decided[0]) == "Nothing was sent. Not today"
        desk.screen.nothing.show_wanted.emit("a-0001")
        await desk.until(lambda: desk.screen.stack.currentIndex() == 1)
        assert "Denied by harbour" in desk.screen.card.end_banner.words()


async def test_a_thousand_requests_are_shown_scrolled_and_added_to_in_few_calls(desk_with: DeskWith) -> None:
    many = [make_approval(n, risk=["low", "medium", "high"][n % 3]) for n in range(1000)]

    async with desk_with(requests=many) as desk:
        screen, view = desk.screen, desk.screen.queue.view
        assert screen.queue.model.rowCount() == 1000
        fresh = QueueModel()
        with most_calls(45_000):
            fresh.show(Group((one,)) for one in desk.state.waiting())
        with most_calls(120_000):
            view.doItemsLayout()
            view.viewport().grab()
        bar = view.verticalScrollBar()
        for step in range(20):
            with most_calls(15_000):
                bar.setValue(step * bar.maximum() // 20)
                view.viewport().grab()
        with most_calls(300_000):
            desk.console.request(make_approval(2000, risk="critical"))
            await desk.until(lambda: "a-2000" in screen.queue.model.ids)
        assert desk.shown().id == screen.queue.view.currentIndex().data(Qt.ItemDataRole.UserRole + 1).id


async def test_the_place_in_the_list_is_kept_when_cards_come_above(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(n) for n in range(60)]) as desk:
        view = desk.screen.queue.view
        view.verticalScrollBar().setValue(view.verticalScrollBar().maximum() // 2)
        top = view.indexAt(QPoint(5, 5)).data(Qt.ItemDataRole.UserRole + 1).id
        desk.console.request(make_approval(500, risk="critical"))
        await desk.until(lambda: "a-0500" in desk.screen.queue.model.ids)
        assert view.indexAt(QPoint(5, 5)).data(Qt.ItemDataRole.UserRole + 1).id == top


async def test_a_card_that_is_read_is_held_and_let_go_again(desk_with: DeskWith) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2)]) as desk:

        def held() -> list[tuple[str, bool]]:
            return [(call["approval"], call["reading"]) for call in desk.console.calls_of("hold")]

        await desk.until(lambda: desk.shown().paused, "the first card is held")
        assert held() == [("a-0001", True)]
        assert desk.screen.card.header.time_left.text().endswith("paused while you read")
        desk.screen.open_card("a-0002")
        await desk.until(lambda: len(held()) == 3)
        assert held()[1:] == [("a-0001", False), ("a-0002", True)]
        QApplication.sendEvent(desk.screen, QEvent(QEvent.Type.WindowDeactivate))
        await desk.until(lambda: len(held()) == 4)
        assert held()[-1] == ("a-0002", False)
        QApplication.sendEvent(desk.screen, QEvent(QEvent.Type.WindowActivate))
        await desk.until(lambda: len(held()) == 5)
        assert held()[-1] == ("a-0002", True)
        assert desk.screen.bar.guarded
        desk.screen.leave()
        await desk.until(lambda: len(held()) == 6)
        assert held()[-1] == ("a-0002", False)


def test_time_runs_down_and_stands_still_while_paused_for_five_minutes_at_most() -> None:
    clock = TimeLeft()
    one = make_approval(1, left=600.0)
    asked = asked_at(one)
    clock.note([one])
    assert clock.seconds(one, asked) == pytest.approx(600)
    assert clock.seconds(one, asked + 100) == pytest.approx(500)
    assert clock.seconds(one, asked + 10_000) == 0
    paused = one.model_copy(update={"paused": True})
    clock.note([paused])
    assert clock.seconds(paused, asked + 299) == pytest.approx(600)
    assert clock.seconds(paused, asked + 400) == pytest.approx(500)


def asked_at(approval: Approval) -> float:
    """When a request with all its time left was asked, as a UNIX time."""
    return datetime.fromisoformat(approval.expires_at).timestamp() - approval.remaining_s


def test_a_second_pause_gets_only_what_the_first_left() -> None:
    clock = TimeLeft()
    one = make_approval(1, left=600.0)
    began = asked_at(one)
    clock.note([one.model_copy(update={"paused": True})])
    # 200 s on.
    ends = datetime.fromisoformat(one.expires_at) + timedelta(seconds=200)
    later = one.model_copy(update={"expires_at": ends.isoformat()})
    clock.note([later])
    again = later.model_copy(update={"paused": True})
    clock.note([again])
    assert clock.seconds(again, began + 200 + 99) == pytest.approx(600)
    assert clock.seconds(again, began + 200 + 150) == pytest.approx(550)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0:00"), (59.9, "0:59"), (271, "4:31"), (3729, "1:02:09")]
)
def test_times_left_are_written_as_clocks(seconds: float, words: str) -> None:
    assert clock_words(seconds) == words


def test_the_model_keeps_qts_promises_through_every_change(qapp: QApplication) -> None:
    model = QueueModel()
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    made = [Group((make_approval(n),)) for n in range(40)]
    model.show(made[5:30:3])
    model.show(made, frozen=True)
    assert model.held_back > 0
    model.show(made)
    assert model.held_back == 0
    assert model.ids == [one.leader.id for one in made]
    model.show(made[::2], keep=["a-0001"], frozen=False)
    assert model.ids == ["a-0000", "a-0001", *(one.leader.id for one in made[2::2])]
    model.show([])
    assert model.rowCount() == 0
    del tester


async def test_without_the_service_the_screen_does_not_say_that_nothing_waits(desk_with: DeskWith) -> None:
    async with desk_with() as desk:
        assert desk.screen.nothing.accessibleName().startswith("Nothing waits for you.")
        desk.console.lose("The service was killed.")
        await desk.until(lambda: "not known" in desk.screen.nothing.accessibleName())
        desk.console.come_back()
        await desk.until(lambda: "Nothing waits" in desk.screen.nothing.accessibleName())


@pytest.mark.parametrize(
    ("state", "word"), [(ApprovalState.DENIED, "denied"), (ApprovalState.WITHDRAWN, "withdrawn")]
)
async def test_what_was_answered_elsewhere_says_so_in_the_row_that_stays_under_the_pointer(
    desk_with: DeskWith, state: ApprovalState, word: str
) -> None:
    async with desk_with(requests=[make_approval(1), make_approval(2), make_approval(3)]) as desk:
        await desk.guard_over()
        queue = desk.screen.queue
        hover(desk, 1)
        for number in (2, 3):
            gone = desk.console.queue[f"a-{number:04}"].model_copy(update={"state": state})
            desk.console.request(gone)
        await desk.until(lambda: queue.shown == 1, "the queue was told")
        assert queue.model.ids == ["a-0001", "a-0002", "a-0003"]
        fates = [card.fate for card in queue.model.items]
        assert fates == ["", word, word]
        assert word in queue.model.data(queue.model.index(1, 0))
        leave(desk)
        assert queue.model.ids == ["a-0001"]
