"""Requests that differ in nothing but the device: one card, one act, one signature for each of them."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel

from app.input_origin import InputOrigin
from app.screens.approvals import request_controller
from app.screens.approvals.decision_rules import grant_blocker
from app.screens.approvals.grant_dialog import GrantDialog
from core.approvals.models import AnswerFate, Approval, ApprovalState, NotTaken
from core.approvals.request_groups import RequestGroups, device_words
from core.errors import ErrorCode, ErrorInfo
from core.statements import SignedStatement
from tests.fakes.approvals_desk import CTRL, KEYS, ApprovalsDesk, DeskWith, make_approval, press, stamp
from tests.gui.approvals.page import keep_guarded


def alike(number: int, **changes: Any) -> Approval:
    """A request for the same thing on device `number`."""
    parameters = changes.pop("parameters", {"command": "uptime"})
    device = changes.pop("device", f"lab-lnx-{number:02}")
    return make_approval(number, device=device, parameters=parameters, summary="Runs uptime", **changes)


def states(desk: ApprovalsDesk) -> list[ApprovalState]:
    return [one.state for one in desk.console.queue.values()]


def groups_of(*approvals: Approval, held: tuple[str, ...] = ()) -> list[list[str]]:
    return [[one.id for one in group.members] for group in RequestGroups().groups(approvals, held)]


def test_critical_requests_on_one_device_are_answered_one_by_one() -> None:
    same = [alike(number, device="lab-lnx-01", risk="critical") for number in (1, 2)]
    assert groups_of(*same) == [["a-0001"], ["a-0002"]]
    assert ["a-0001", "a-0002"] not in groups_of(*same, alike(3, risk="critical"))


def test_alike_is_same_tool_contract_arguments_risk_and_asker_on_different_devices() -> None:
    one = alike(1)
    other = alike(2)
    assert groups_of(one, other) == [["a-0001", "a-0002"]]
    for different in (
        alike(2, parameters={"command": "uptime "}),
        alike(2, run="r-0001", step="s", parameters={"command": "uptime\n"}),
        alike(2, risk="high"),
        alike(2, actor="operator:anna"),
        alike(2, run="r-0002"),
        alike(2, production=True),
        alike(2, said="Trust me."),
        alike(2, approvers=2),
        alike(2, tool="shell_execute_read"),
        other.model_copy(update={"request": other.request.model_copy(update={"contract": "d" * 64})}),
    ):
        assert groups_of(one, different) == [["a-0001"], ["a-0002"]]


def test_the_same_again_on_the_same_device_is_alike_in_whatever_run() -> None:
    again = [alike(number, device="lab-lnx-01", run=f"r-{number}") for number in range(1, 6)]
    assert groups_of(*again) == [[one.id for one in again]]
    for different in (
        alike(6, device="lab-lnx-01", actor="agent:other"),
        alike(6, device="lab-lnx-01", parameters={"command": "uptime -p"}),
        alike(6, device="lab-lnx-01", risk="high"),
        alike(6, device="lab-lnx-01", approvers=2),
        alike(6, device="lab-lnx-01", edited_from="a-0001"),
        alike(6, run="r-6"),
    ):
        assert groups_of(*again, different) == [[one.id for one in again], ["a-0006"]]


def test_a_group_is_of_one_run_or_on_one_device() -> None:
    first, same_run = alike(1, run="r-1"), alike(2, run="r-1")
    same_device, neither = alike(3, device="lab-lnx-01", run="r-2"), alike(4, run="r-2")
    assert groups_of(first, same_run, same_device, neither) == [["a-0001", "a-0002"], ["a-0003", "a-0004"]]
    assert groups_of(first, same_device, same_run, neither) == [["a-0001", "a-0003"], ["a-0002"], ["a-0004"]]
    again = alike(5, device="lab-lnx-02", run="r-1")
    assert groups_of(first, same_run, again) == [["a-0001", "a-0002", "a-0005"]]


def same_again(count: int, **changes: Any) -> list[Approval]:
    return [
        alike(number, device="lab-lnx-01", run=f"r-{number}", **changes) for number in range(1, count + 1)
    ]


async def test_the_same_again_is_one_card_and_one_signature_each(desk_with: DeskWith) -> None:
    async with desk_with(requests=same_again(5)) as desk:
        await desk.guard_over()
        model = desk.screen.queue.model
        assert model.ids == ["a-0001"]
        assert model.items[0].summary == "Runs uptime, 5 times"
        assert model.items[0].devices == "lab-lnx-01"
        assert desk.screen.card.header.device.text() == "lab-lnx-01"
        assert desk.screen.card.group.head.title.text() == "5 requests"
        assert len(desk.screen.card.group.box.toPlainText().splitlines()) == 5
        await desk.until(desk.screen.bar.approve.isEnabled)
        assert desk.screen.bar.approve.text() == "Approve all 5 once"
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: set(states(desk)) == {ApprovalState.APPROVED})
        signed = [one.signed[0] for one in desk.console.queue.values()]
        assert len({one.statement.request_digest for one in signed}) == 5


async def test_the_same_again_of_critical_risk_wants_the_devices_name_once(desk_with: DeskWith) -> None:
    async with desk_with(requests=same_again(3, risk="critical")) as desk:
        await desk.guard_over()
        bar = desk.screen.bar
        assert not bar.approve.isEnabled()
        bar.name_field.setText("lab-lnx-01")
        await desk.until(bar.approve.isEnabled)


async def test_a_grant_from_the_card_of_the_same_again_is_signed_with_the_first_alone(
    desk_with: DeskWith,
) -> None:
    async with desk_with(requests=same_again(3)) as desk:
        await desk.guard_over()
        await desk.until(desk.screen.bar.approve.isEnabled)
        press(desk, KEYS.Key_G)
        sheet = next(iter(desk.screen.findChildren(GrantDialog)))
        assert "2 other requests fit" in sheet.covers.text()
        QTest.mouseClick(sheet.approve, Qt.MouseButton.LeftButton)
        await desk.until(lambda: desk.console.grant_book.all())
        assert states(desk).count(ApprovalState.APPROVED) == 1
        assert desk.console.queue["a-0001"].state is ApprovalState.APPROVED


def test_nothing_joins_the_group_of_a_card_that_is_read() -> None:
    found = groups_of(alike(1), alike(2), alike(3), held=("a-0001", "a-0002"))
    assert found == [["a-0001", "a-0002"], ["a-0003"]]


def test_a_range_names_no_device_that_is_not_in_it() -> None:
    assert device_words(["lab-lnx-03", "lab-lnx-01", "lab-lnx-02"]) == "lab-lnx-01 … 03"
    assert device_words(["lab-lnx-01", "lab-lnx-02", "lab-lnx-04"]) == "lab-lnx-01 and 2 more"
    assert device_words(["a", "b"]) == "a and b"


async def test_one_act_signs_one_statement_for_each_member(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(number) for number in range(1, 6)]) as desk:
        await desk.guard_over()
        assert desk.screen.queue.model.ids == ["a-0001"]
        assert "5 alike" in desk.screen.queue.model.data(desk.screen.queue.model.index(0, 0))
        assert "5 in 1 card" in desk.screen.queue.head.detail.text()
        listed = desk.screen.card.group.box.toPlainText()
        assert all(f"lab-lnx-{number:02}" in listed for number in range(1, 6))
        await desk.until(desk.screen.bar.approve.isEnabled)
        assert desk.screen.bar.approve.text() == "Approve all 5 once"
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: set(states(desk)) == {ApprovalState.APPROVED})
        signed = [one.signed[0] for one in desk.console.queue.values()]
        assert len({one.statement.request_digest for one in signed}) == 5
        assert len({one.signature for one in signed}) == 5


@pytest.mark.parametrize("password", [{}, {"password": {"$secret": "5e" * 32}}], ids=["plain", "masked"])
async def test_one_member_whose_digest_is_that_of_another_command_keeps_all_from_being_signed(
    desk_with: DeskWith, password: dict[str, Any]
) -> None:
    honest = [alike(number, parameters={"command": "uptime", **password}) for number in range(1, 5)]
    other = alike(5, parameters={"command": "rm -rf /", **password}).request.digest
    lying = alike(5, parameters={"command": "uptime", **password})
    lying = lying.model_copy(update={"request": lying.request.model_copy(update={"digest": other})})

    async with desk_with(requests=[*honest, lying]) as desk:
        await desk.guard_over()
        assert len(desk.screen.card.others) == 4
        press(desk, KEYS.Key_Return, CTRL)
        desk.screen.bar.approve_asked.emit(InputOrigin.REAL)
        desk.screen.bar.deny_asked.emit("no")
        for approve in (True, False):
            desk.screen.pane.answer(approve=approve, reason="")
        assert not {"decide", "decide_many"} & set(desk.console.asked)


async def test_a_group_whose_second_request_has_a_wrong_digest_says_that_nothing_was_signed(
    desk_with: DeskWith,
) -> None:
    other = alike(2, parameters={"command": "rm -rf /"}).request.digest
    lying = alike(2)
    lying = lying.model_copy(update={"request": lying.request.model_copy(update={"digest": other})})

    async with desk_with(requests=[alike(1), lying]) as desk:
        await desk.guard_over()
        assert [one.id for one in desk.screen.card.others] == ["a-0002"]
        await desk.until(desk.screen.bar.approve.isEnabled)
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(desk.screen.bar.error.isVisible)
        assert desk.screen.bar.error.words().startswith("Nothing was signed.")
        desk.screen.bar.error.hide()
        desk.screen.bar.deny_asked.emit("no")
        assert desk.screen.bar.error.words().startswith("Nothing was signed.")
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        assert states(desk) == [ApprovalState.WAITING] * 2


@pytest.mark.parametrize("risk", ["medium", "high"])
async def test_no_group_is_approved_before_its_last_device_was_seen(desk_with: DeskWith, risk: str) -> None:
    async with desk_with(requests=[alike(number, risk=risk) for number in range(1, 30)]) as desk:
        await desk.guard_over()
        box, bar = desk.screen.card.group.box, desk.screen.bar
        assert not box.end_was_seen
        assert not bar.approve.isEnabled()
        press(desk, KEYS.Key_Return, CTRL)
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        box.verticalScrollBar().setValue(box.verticalScrollBar().maximum())
        await desk.until(bar.approve.isEnabled)


async def test_mixed_risk_asks_one_by_one(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(1), alike(2, risk="high")]) as desk:
        await desk.guard_over()
        assert desk.screen.queue.model.ids == ["a-0002", "a-0001"]
        assert desk.screen.card.group.isHidden()


async def test_a_critical_group_wants_every_name_typed(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(1, risk="critical"), alike(2, risk="critical")]) as desk:
        await desk.guard_over()
        bar = desk.screen.bar
        await desk.until(lambda: desk.screen.card.end_was_seen)
        bar.name_field.setText("lab-lnx-01")
        assert not bar.approve.isEnabled()
        bar.name_field.setText("lab-lnx-01 lab-lnx-02")
        assert bar.approve.isEnabled()


async def test_one_that_comes_before_the_card_takes_an_answer_joins_it_and_it_begins_anew(
    desk_with: DeskWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_with(requests=[alike(1)]) as desk:
        screen, begun = desk.screen, list[int]()
        keep_guarded(screen.bar)
        begin = screen.bar.start_guard
        monkeypatch.setattr(screen.bar, "start_guard", lambda: (begun.append(1), begin()))
        for number in (2, 3):
            desk.console.request(alike(number))
            await desk.until(lambda number=number: len(screen.card.others) == number - 1)
            assert len(begun) == number - 1
        assert screen.bar.guarded
        assert screen.queue.model.ids == ["a-0001"]
        assert "lab-lnx-03" in screen.card.group.box.toPlainText()
        press(desk, KEYS.Key_Return, CTRL)
        assert not {"decide", "decide_many"} & set(desk.console.asked)
        await desk.guard_over()
        await desk.until(screen.bar.approve.isEnabled)
        assert screen.bar.approve.text() == "Approve all 3 once"
        assert all(one.paused for one in desk.console.queue.values())
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: set(states(desk)) == {ApprovalState.APPROVED})


async def test_requests_without_end_do_not_keep_a_card_closed(
    desk_with: DeskWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk_with(requests=[alike(1)]) as desk:
        keep_guarded(desk.screen.bar)
        monkeypatch.setattr(request_controller, "JOINED_FOR_S", 0.0)
        desk.console.request(alike(2))
        await desk.until(lambda: "a-0002" in desk.screen.queue.model.ids)
        assert desk.screen.card.others == ()


async def test_what_sorts_before_the_open_card_does_not_take_it_over(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(1)]) as desk:
        keep_guarded(desk.screen.bar)
        desk.console.request(alike(2, asked_at=stamp(-86_400)))
        await desk.until(lambda: "a-0002" in desk.screen.queue.model.ids)
        assert desk.shown().id == "a-0001"
        assert desk.screen.card.others == ()


async def test_one_that_comes_meanwhile_waits_beside_the_open_group(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(1), alike(2)]) as desk:
        await desk.guard_over()
        desk.console.request(alike(3))
        await desk.until(lambda: "a-0003" in desk.screen.queue.model.ids)
        assert [one.id for one in desk.screen.card.others] == ["a-0002"]
        assert not desk.screen.bar.guarded
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: states(desk).count(ApprovalState.APPROVED) == 2)
        assert desk.console.queue["a-0003"].state is ApprovalState.WAITING


async def test_a_member_that_was_answered_elsewhere_is_not_signed(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(1), alike(2), alike(3)]) as desk:
        await desk.guard_over()
        gone = desk.console.queue["a-0002"].model_copy(update={"state": ApprovalState.DENIED})
        desk.console.request(gone)
        await desk.until(lambda: len(desk.screen.card.others) == 1)
        assert "lab-lnx-02" not in desk.screen.card.group.box.toPlainText()
        await desk.until(desk.screen.bar.approve.isEnabled)
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: states(desk).count(ApprovalState.APPROVED) == 2)
        assert desk.console.asked.count("decide_many") == 1


async def test_what_of_a_group_is_refused_is_said_and_still_waits(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(1), alike(2), alike(3)]) as desk:
        await desk.guard_over()
        await desk.until(desk.screen.bar.approve.isEnabled)
        taken = desk.console.on_decide_many

        def all_but_the_second(signed: list[SignedStatement]) -> list[AnswerFate]:
            fates = taken([signed[0], signed[2]])
            error = ErrorInfo.of(ErrorCode.APPROVAL_INVALID, "The signature has expired.")
            still = AnswerFate(
                approval="a-0002",
                device="lab-lnx-02",
                state=ApprovalState.WAITING,
                why=NotTaken.EXPIRED,
                error=error,
            )
            return [fates[0], still, fates[1]]

        desk.console.answer("decide_many", all_but_the_second)
        # Of higher risk, so that it is the next card of the queue: the words are not about it.
        desk.console.request(make_approval(9, risk="high"))
        await desk.until(lambda: "a-0009" in desk.screen.queue.model.ids)
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: desk.shown().id == "a-0002", "the card of the one that still waits is open")
        assert "2 of 3 answers were taken. Not on lab-lnx-02" in desk.screen.bar.error.words()
        assert "The signature has expired." in desk.screen.bar.error.words()
        assert desk.console.queue["a-0002"].state is ApprovalState.WAITING
        desk.screen.open_card("a-0009")
        assert not desk.screen.bar.error.isVisible()


async def test_what_ended_meanwhile_is_said_on_the_card_that_it_belongs_to(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(1), alike(2)]) as desk:
        await desk.guard_over()
        await desk.until(desk.screen.bar.approve.isEnabled)
        # Denied elsewhere at this moment: the window has not heard of it.
        denied = desk.console.queue["a-0002"].model_copy(update={"state": ApprovalState.DENIED})
        desk.console.queue["a-0002"] = denied
        desk.console.request(make_approval(9, risk="high"))
        await desk.until(lambda: "a-0009" in desk.screen.queue.model.ids)
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(desk.screen.bar.error.isVisible)
        assert desk.shown().id == "a-0001"
        assert "1 of 2 answers were taken. Not on lab-lnx-02" in desk.screen.bar.error.words()
        assert "denied already" in desk.screen.bar.error.words()


async def test_a_step_with_a_value_of_each_device_is_one_card_with_a_table(desk_with: DeskWith) -> None:
    def writes(number: int) -> Approval:
        path = f"/srv/lab-{number}/a.conf"
        return make_approval(
            number,
            device=f"lab-{number}",
            tool="write_file",
            parameters={"file_path": path, "content": "on"},
            summary=f"Writes 2 bytes to {path}",
            undo=f"Can be undone: the device keeps what {path} contains now.",
            run="r-0001",
            step="write",
        )

    async with desk_with(requests=[writes(number) for number in (1, 2, 3)]) as desk:
        await desk.guard_over()
        screen = desk.screen
        assert screen.queue.model.ids == ["a-0001"]
        assert screen.card.header.summary.text() == "Writes 2 bytes to … on 3 devices"
        lines = screen.card.group.box.toPlainText().splitlines()
        assert lines[0].split() == ["device", "code", "file_path"]
        assert [line.split()[-1] for line in lines[1:]] == [f"/srv/lab-{n}/a.conf" for n in (1, 2, 3)]
        assert "differ in their arguments" in grant_blocker(screen.pane.situation())
        await desk.until(screen.bar.approve.isEnabled)
        press(desk, KEYS.Key_Return, CTRL)
        await desk.until(lambda: set(states(desk)) == {ApprovalState.APPROVED})
        assert desk.console.asked.count("decide_many") == 1


async def test_the_card_says_one_number_of_operators(desk_with: DeskWith) -> None:
    two = make_approval(1, approvers=3, askers=[""])
    asks_two = two.model_copy(update={"decision": two.decision.model_copy(update={"approvers": 2})})
    async with desk_with(requests=[asks_two]) as desk:
        words = [label.text() for label in desk.screen.card.reasons.findChildren(QLabel)]
        assert "3 operators have to approve it." in words
        assert not [text for text in words if text.startswith("2 operators have to")]


async def test_a_denial_with_its_reason_goes_to_every_member(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(1), alike(2)]) as desk:
        await desk.guard_over()
        press(desk, KEYS.Key_D)
        QTest.keyClicks(desk.screen.bar.reason, "Not today")
        QTest.keyClick(desk.screen.bar.reason, KEYS.Key_Return)
        await desk.until(lambda: set(states(desk)) == {ApprovalState.DENIED})
        assert {one.reason for one in desk.console.queue.values()} == {"Not today"}


async def test_every_request_of_a_group_stands_still_while_it_is_read(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(1), alike(2)]) as desk:
        await desk.until(lambda: all(one.paused for one in desk.console.queue.values()))


async def test_a_group_of_which_others_answered_some_says_what_became_of_each(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(number) for number in range(1, 5)]) as desk:
        await desk.guard_over()
        screen = desk.screen
        assert len(screen.card.others) == 3

        def end(number: int, state: ApprovalState) -> None:
            ended = {"state": state, "decided_by": "root", "decided_at": stamp()}
            desk.console.request(desk.console.queue[f"a-{number:04}"].model_copy(update=ended))

        end(1, ApprovalState.APPROVED)
        await desk.until(lambda: not screen.card.end_banner.isHidden(), "the card has ended")
        for number in (2, 3, 4):
            end(number, ApprovalState.DENIED)
        await desk.until(lambda: "1 approved, 3 denied" in screen.card.end_banner.words().lower())
        lines = screen.card.group.box.toPlainText().splitlines()
        assert [line.split()[-1] for line in lines] == ["approved", "denied", "denied", "denied"]
        assert "lab-lnx-01: Approved by root" in screen.card.end_banner.words()
        row = screen.queue.model.row_of("a-0001")
        assert "1 approved, 3 denied" in screen.queue.model.data(screen.queue.model.index(row, 0))


async def test_the_title_counts_only_the_devices_that_would_be_answered_for(desk_with: DeskWith) -> None:
    async with desk_with(requests=[alike(number) for number in range(1, 5)]) as desk:
        await desk.guard_over()
        assert desk.screen.card.header.summary.text().endswith("on 4 devices")
        gone = desk.console.queue["a-0002"].model_copy(update={"state": ApprovalState.DENIED})
        desk.console.request(gone)
        await desk.until(lambda: desk.screen.card.header.summary.text().endswith("on 3 devices"))
