"""The queue's filter: what it finds, what it says is left out, and that it never changes what is answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.input_origin import InputOrigin
from app.items.filter_edit import offers
from app.screens.approvals.queue_filter import QueueFilter
from app.screens.approvals.screen import ApprovalsScreen
from app.screens.targets import OpenApproval
from app.theme.theme import Theme
from app.widgets.dialog import Dialog
from core.approvals.models import Approval, ApprovalState
from tests.fakes.approvals_desk import CTRL, KEYS, ApprovalsDesk, DeskWith, make_approval, press
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame, seen
from tests.fakes.work import most_calls


def ask_for(desk: ApprovalsDesk, text: str) -> None:
    """Type a filter, and let it hold."""
    desk.screen.queue.focus_filter()
    desk.screen.queue.field.setText(text)
    desk.screen.queue.field.apply()


def queue_words(desk: ApprovalsDesk) -> str:
    return desk.screen.queue.head.detail.text()


def hidden_words(desk: ApprovalsDesk) -> str:
    """What is said of requests that are not shown; empty when nothing is."""
    pane = desk.screen.queue
    return pane.hidden_words.text() if pane.hidden_line.isVisible() else ""


def states(desk: ApprovalsDesk) -> set[ApprovalState]:
    return {one.state for one in desk.console.queue.values()}


def some() -> list[Approval]:
    """Two of agent:clerk on lab devices, one of high risk on production."""
    return [
        make_approval(1, device="lab-lnx-01"),
        make_approval(2, device="lab-lnx-02", tool="write_file", parameters={"file_path": "/srv/Notes"}),
        make_approval(3, device="db-primary", risk="high", actor="agent:night-shift", production=True),
    ]


A_REQUEST = make_approval(
    7,
    device="lab-lnx-01",
    tool="write_file",
    parameters={
        "file_path": "/srv/Reports/june.csv",
        "content": "first\u200bline\nsecond line",
        "rows": [{"depth": 4021}],
        "token": {"$secret": "5eedf00d"},
    },
    said="Routine: the June numbers.",
    run="r-0412",
    summary="Overwrites june.csv",
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "device:lab-lnx-01 tool:write_file risk:medium actor:agent:clerk run:r-0412 production:no",
        "device:lab-*",
        "tool:action::write_file",
        "actor:clerk",
        "actor:agent:*",
        "risk:low,medium",
        "!risk:high !device:db-*",
        "lnx-01",
        "WRITE",
        "clerk",
        "routine",
        '"june numbers"',
        "overwrites",
        "reports/june",
        '"second line"',
        "4021",
        "file_path",
        "U+200B",
        "secret",
    ],
)
def test_what_a_card_shows_is_found(text: str) -> None:
    asked = QueueFilter()
    asked.want(asked.words.language.parse(text))
    assert asked.fits(A_REQUEST)


@pytest.mark.parametrize(
    "text",
    [
        "device:lab",
        "tool:write",
        "risk:high",
        "actor:night-shift",
        "5eedf00d",
        "nowhere",
        "!clerk",
        "run:r-1",
    ],
)
def test_what_it_does_not_show_is_not(text: str) -> None:
    asked = QueueFilter()
    asked.want(asked.words.language.parse(text))
    assert not asked.fits(A_REQUEST)


def test_the_words_and_values_of_the_queue_are_offered() -> None:
    words = QueueFilter().words
    assert [one.choice for _, one in offers(words, "", 0, some())] == [
        "device:", "tool:", "risk:", "actor:", "run:", "production:",
    ]  # fmt: skip
    assert [one.choice for _, one in offers(words, "risk:", 5, some())] == ["medium", "high"]
    assert [one.choice for _, one in offers(words, "lab-lnx-02", 10, some())] == ["device:lab-lnx-02"]


async def test_what_is_left_out_is_counted_and_said(desk_with: DeskWith) -> None:
    async with desk_with(requests=some()) as desk:
        pane = desk.screen.queue
        assert queue_words(desk) == "3"
        assert hidden_words(desk) == ""
        ask_for(desk, "device:lab-*")
        assert pane.model.ids == ["a-0001", "a-0002"]
        assert queue_words(desk) == "2 of 3"
        assert pane.head.accessibleName() == "Approvals, 3 waiting, 2 shown"
        assert hidden_words(desk) == "1 more waits, not shown"
        pane.show_all.click()
        assert pane.model.ids == ["a-0003", "a-0001", "a-0002"]
        assert queue_words(desk) == "3"
        assert hidden_words(desk) == ""


async def test_a_card_that_is_not_asked_for_is_closed_and_no_key_answers_it(desk_with: DeskWith) -> None:
    async with desk_with(requests=some()) as desk:
        await desk.guard_over()
        assert desk.shown().id == "a-0003"
        ask_for(desk, "device:lab-*")
        # Neither the hidden one is open any more, nor one that happens to be left.
        assert desk.screen.card.approval is None
        assert not desk.screen.queue.view.currentIndex().isValid()
        for key, modifier in ((KEYS.Key_Return, CTRL), (KEYS.Key_Enter, CTRL)):
            press(desk, key, modifier)
        desk.screen.bar.press_approve(InputOrigin.REAL)
        desk.screen.bar.deny_act.trigger()
        assert not desk.screen.bar.asks_reason
        assert desk.screen.pane.answering == "", "nothing was signed or sent"
        assert states(desk) == {ApprovalState.WAITING}
        assert desk.screen.queue.field.hasFocus()
        assert desk.screen.stack.narrowed.isVisible()
        assert "2 requests match this filter." in desk.screen.stack.narrowed.accessibleName()


async def test_a_reason_that_was_begun_ends_with_the_card_and_denies_nothing_else(
    desk_with: DeskWith,
) -> None:
    async with desk_with(requests=some()) as desk:
        await desk.guard_over()
        desk.screen.bar.deny_act.trigger()
        QTest.keyClicks(desk.screen.bar.reason, "Not at night")
        ask_for(desk, "device:lab-*")
        QTest.keyClick(desk.screen.bar.reason, KEYS.Key_Return)
        assert desk.screen.pane.answering == "", "nothing was signed or sent"
        assert desk.screen.queue.field.hasFocus()
        assert desk.screen.escape(), "the filter is what Escape takes back"
        assert desk.screen.queue.field.text() == ""
        assert desk.shown().id == "a-0003"
        assert not desk.screen.bar.asks_reason
        assert states(desk) == {ApprovalState.WAITING}


async def test_a_card_that_is_asked_for_stays_open_and_is_what_the_chord_approves(
    desk_with: DeskWith,
) -> None:
    async with desk_with(requests=some()) as desk:
        desk.screen.open_card("a-0002")
        await desk.guard_over()
        ask_for(desk, "device:lab-*")
        assert desk.shown().id == "a-0002"
        assert not desk.screen.bar.guarded
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: desk.console.queue["a-0002"].state is ApprovalState.APPROVED)
        assert desk.console.queue["a-0001"].state is ApprovalState.WAITING
        assert desk.console.queue["a-0003"].state is ApprovalState.WAITING
        # Next comes what is asked for, and never what is hidden.
        await desk.until(lambda: desk.screen.card.approval is not None and desk.shown().id == "a-0001")


async def test_a_group_answers_for_the_same_devices_with_the_filter_and_without(desk_with: DeskWith) -> None:
    same: dict[str, Any] = {"parameters": {"command": "uptime"}, "summary": "Runs uptime"}
    like = [make_approval(n, device=f"lab-lnx-{n:02}", **same) for n in (1, 2, 3)]
    async with desk_with(requests=[*like, make_approval(9, device="db-primary", risk="low")]) as desk:
        screen = desk.screen
        whole = {one.id for one in (desk.shown(), *screen.card.others)}
        assert len(whole) == 3
        ask_for(desk, "device:lab-lnx-02")
        assert {one.id for one in (desk.shown(), *screen.card.others)} == whole
        index = screen.queue.model.index(0, 0)
        assert "3 alike, 1 matches" in screen.queue.model.data(index)
        assert queue_words(desk) == "3 of 4 in 1 card"
        # Closed and opened again under the filter, it is still all of them, and says so.
        ask_for(desk, "device:db-primary")
        assert screen.card.approval is None
        ask_for(desk, "device:lab-lnx-02")
        press(desk, KEYS.Key_Down)
        await desk.guard_over()
        assert {one.id for one in (desk.shown(), *screen.card.others)} == whole
        assert screen.bar.approve.text() == "Approve all 3 once"
        await desk.until(screen.bar.approve.isEnabled)
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(
            lambda: all(desk.console.queue[one].state is ApprovalState.APPROVED for one in whole)
        )
        assert desk.console.queue["a-0009"].state is ApprovalState.WAITING


async def test_a_new_request_that_is_not_asked_for_is_said_at_once(desk_with: DeskWith) -> None:
    async with desk_with(requests=some()) as desk:
        pane = desk.screen.queue
        ask_for(desk, "device:lab-*")
        desk.console.request(make_approval(8, device="db-replica", risk="critical"))
        desk.console.request(make_approval(9, device="db-replica", risk="high"))
        await desk.until(lambda: hidden_words(desk) == "3 more wait, not shown: 2 new, 1 critical")
        assert "a-0008" not in pane.model.ids
        assert desk.screen.card.approval is None
        desk.console.request(make_approval(10, device="lab-lnx-07"))
        await desk.until(lambda: "a-0010" in pane.model.ids)
        assert desk.screen.card.approval is None, "what comes is not opened by itself"
        assert queue_words(desk) == "3 of 6"
        # Typed anew, everything is known.
        ask_for(desk, "device:lab-* risk:medium")
        assert hidden_words(desk) == "3 more wait, not shown: 1 critical"


async def test_when_all_that_was_asked_for_is_done_it_is_not_said_that_nothing_waits(
    desk_with: DeskWith,
) -> None:
    async with desk_with(requests=some()) as desk:
        ask_for(desk, "write_file")
        press(desk, KEYS.Key_Down)
        await desk.guard_over()
        assert desk.shown().id == "a-0002"
        press(desk, KEYS.Key_Return, CTRL)
        page = desk.screen.stack.narrowed
        said = "No request matches this filter. 2 requests wait that the filter leaves out."
        await desk.until(lambda: page.isVisible() and page.accessibleName() == said)
        assert queue_words(desk) == "0 of 2"
        page.acted.emit("all")
        assert desk.screen.queue.field.text() == ""
        assert desk.shown().id == "a-0003"
        assert desk.screen.bar.guarded
        ask_for(desk, "nowhere")
        for number in (1, 3):
            known = desk.console.queue[f"a-{number:04}"]
            desk.console.request(known.model_copy(update={"state": ApprovalState.WITHDRAWN}))
        await desk.until(lambda: desk.screen.nothing.isVisible(), "now nothing waits, and it says so")


async def test_a_card_opened_from_elsewhere_is_in_the_list_while_it_is_open(desk_with: DeskWith) -> None:
    async with desk_with(requests=some()) as desk:
        pane = desk.screen.queue
        ask_for(desk, "device:lab-*")
        desk.screen.enter(OpenApproval("a-0003"))
        assert desk.shown().id == "a-0003"
        assert pane.model.ids == ["a-0003", "a-0001", "a-0002"]
        assert pane.view.currentIndex().row() == 0
        desk.screen.open_card("a-0001")
        assert pane.model.ids == ["a-0001", "a-0002"]
        assert hidden_words(desk) == "1 more waits, not shown"


async def test_what_is_no_filter_is_said_and_the_cards_stay_where_they_are(desk_with: DeskWith) -> None:
    async with desk_with(requests=some()) as desk:
        pane = desk.screen.queue
        ask_for(desk, "device:lab-*")
        top = pane.view.mapTo(pane, pane.view.visualRect(pane.model.index(0, 0)).topLeft())
        ask_for(desk, "colour:red")
        assert pane.problem.isVisible()
        assert 'there is no field "colour"; fields are' in pane.problem.text()
        assert pane.field.accessibleDescription() == pane.problem.text()
        assert pane.model.ids == ["a-0001", "a-0002"]
        assert pane.view.mapTo(pane, pane.view.visualRect(pane.model.index(0, 0)).topLeft()) == top
        ask_for(desk, "risk:high")
        assert not pane.problem.isVisible()
        assert pane.model.ids == ["a-0003"]


async def test_enter_leads_from_the_filter_to_the_cards_and_into_the_only_one(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()
    for one in some():
        console.queue[one.id] = one

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.activateWindow()
        desk.window.open("approvals")
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        view, field = screen.queue.view, screen.queue.field
        await seen(view.hasFocus)
        device = console.queue["a-0001"].request.device
        for text, lands_on in (("device:*", view), (f"device:{device} run:none-like-it", field)):
            field.setFocus()
            field.setText(text)
            QTest.keyClick(field, KEYS.Key_Return)
            assert lands_on.hasFocus(), text
        field.setFocus()
        field.setText(f"device:{device}")
        QTest.keyClick(field, KEYS.Key_Return)
        assert screen.queue.model.rowCount() == 1
        focus = QApplication.focusWidget()
        assert focus is not None
        assert screen.card.isAncestorOf(focus)


async def test_ctrl_f_and_slash_lead_there_escape_clears_and_then_goes_back_to_the_list(
    theme: Theme, tmp_path: Path
) -> None:
    console = FakeConsole()
    for one in some():
        console.queue[one.id] = one

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.activateWindow()
        desk.window.open("approvals")
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        view, field = screen.queue.view, screen.queue.field
        await seen(view.hasFocus)
        QTest.keyClick(view, KEYS.Key_Slash)
        await seen(field.hasFocus)
        QTest.keyClicks(field, "lab")
        QTest.keyClick(field, KEYS.Key_Escape)  # the list of offers
        await seen(lambda: screen.queue.model.rowCount() == 2)
        QTest.keyClick(field, KEYS.Key_Escape)
        assert field.text() == ""
        await seen(lambda: screen.queue.model.rowCount() == 3)
        QTest.keyClick(field, KEYS.Key_Escape)
        assert view.hasFocus()
        QTest.keyClick(view, KEYS.Key_F, CTRL)
        assert field.hasFocus()
        QTest.keyClicks(field, "jkd")
        assert field.text() == "jkd", "letters are letters there"
        sheet = Dialog(desk.window, "A question", "Before anything else.")
        sheet.add_answer("keep", "Keep", primary=True)
        sheet.open()
        QTest.keyClick(desk.window, KEYS.Key_F, CTRL)
        assert not field.hasFocus(), "nothing behind a question is reached"
        sheet.finish("keep")


async def test_a_thousand_requests_are_narrowed_between_two_keys(desk_with: DeskWith) -> None:
    many = [
        make_approval(n, device=f"lab-lnx-{n:04}", parameters={"command": f"echo {n}\n" * 50, "timeout": 20})
        for n in range(1000)
    ]

    async with desk_with(requests=many) as desk:
        with most_calls(500_000):
            ask_for(desk, "lnx-0100 echo")
        assert queue_words(desk) == "1 of 1,000"
