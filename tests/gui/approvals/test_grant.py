"""Approve for…: the scope is shown whole before it is signed, begins narrow, and holds no secret."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.screens.approvals.grant_dialog import GrantDialog, covered_words
from app.screens.approvals.grant_draft import Breadth, also_covered, narrowest, scope_lines, terms_of
from app.screens.approvals.screen import ApprovalsScreen
from app.theme.theme import Theme
from app.widgets.dialog import FOCUS_ROOM
from core.approvals.models import Approval, ApprovalState
from core.approvals.operator_keys import create_operator_key
from core.home import Home
from core.policy.constraints import Constraint
from core.policy.grant_scope import uncovered_request
from core.statements import verify_signature
from tests.fakes.approvals_desk import CTRL, KEYS, ApprovalsDesk, DeskWith, make_approval, press
from tests.fakes.console import FakeConsole
from tests.fakes.window import open_frame, seen
from tests.gui.page import problem_in


def write(number: int, path: str = "/srv/a/x.txt", **more: Any) -> Approval:
    parameters = {"file_path": path, "content": f"text {number}"}
    return make_approval(number, tool="write_file", parameters=parameters, **more)


async def sheet_of(desk: ApprovalsDesk) -> GrantDialog:
    await desk.guard_over()
    press(desk, KEYS.Key_G)
    sheet = next(iter(desk.screen.findChildren(GrantDialog)))
    assert sheet.isVisible()
    return sheet


async def test_the_focus_ring_has_room_beside_every_field_of_a_grant(desk_with: DeskWith) -> None:
    async with desk_with(requests=[write(1)]) as desk:
        sheet = await sheet_of(desk)
        await desk.until(sheet.devices.hasFocus)
        for field in (sheet.devices, sheet.actors, sheet.uses, sheet.lasts):
            form = sheet.scope.parentWidget()
            assert form.isAncestorOf(field)
            assert field.mapTo(form, QPoint(0, 0)).x() >= FOCUS_ROOM


async def test_nothing_moves_under_the_hand_while_the_scope_changes(desk_with: DeskWith) -> None:
    requests = [write(1), *(write(n, id=f"a-{n}", device=f"lab-lnx-{n:02}") for n in range(2, 20))]
    async with desk_with(requests=requests) as desk:
        sheet = await sheet_of(desk)
        fixed = (sheet.devices, sheet.actors, sheet.uses, sheet.lasts, *sheet.rows, sheet.approve)

        def places() -> list[tuple[QPoint, int]]:
            # What a layout posts may have another one post; outside the loop's turn it takes seconds instead.
            for _ in range(5):
                QApplication.sendPostedEvents()
            return [(one.mapTo(sheet.window(), QPoint(0, 0)), one.height()) for one in fixed]

        began = places()
        words = sheet.covers.text()
        sheet.row("file_path").widen(Breadth.ANY)
        sheet.row("content").widen(Breadth.ANY)
        sheet.devices.setText("lab-lnx-*")
        assert sheet.covers.text() != words
        assert places() == began
        sheet.row("file_path").widen(Breadth.PATTERN, "^/srv/a/")
        assert places() == began
        sheet.devices.clear()
        await desk.until(lambda: not sheet.approve.isEnabled())
        assert places() == began


def given(desk: ApprovalsDesk) -> list[Any]:
    return desk.console.grant_book.all()


def test_a_draft_begins_with_this_device_this_asker_and_every_argument_as_it_is() -> None:
    one = write(1, run="r-1")
    terms = terms_of(narrowest(one), "harbour")
    assert terms.devices == ["lab-lnx-01"]
    assert terms.actors == ["agent:clerk"]
    assert also_covered(terms, [one, write(2), write(1, device="lab-lnx-02", id="a-2")]) == []
    for other in ("/srv/a/y.txt", "/srv/a/x.txt "):
        changed = write(1, path=other)
        faults = uncovered_request(
            terms, changed.request, actor="agent:clerk", run=None, risk=changed.decision.risk
        )
        assert faults == ["file_path is not as granted"]


async def test_a_secret_is_in_a_draft_by_its_commitment_only_and_shown_as_the_same_secret(
    desk_with: DeskWith,
) -> None:
    secret = {"$secret": "ab" * 32}

    async with desk_with(
        requests=[make_approval(1, parameters={"command": "ls", "api_key": secret})]
    ) as desk:
        sheet = await sheet_of(desk)
        row = sheet.row("api_key")
        assert row.argument.breadths() == [Breadth.EXACT, Breadth.ANY]
        assert row.value.text() == "the same secret"
        assert sheet.terms is not None
        assert sheet.terms.arguments["api_key"] == Constraint(equals=secret)
        assert "api_key is the same secret as now" in sheet.lines.text()


def test_the_scope_says_every_part_of_it() -> None:
    words = "\n".join(scope_lines(terms_of(narrowest(write(1)), "harbour")))
    for part in ("lab-lnx-01", "agent:clerk", "file_path", "content", "medium", "5 times", "Until"):
        assert part in words


@pytest.mark.parametrize(("risk", "uses", "minutes"), [("medium", 5, 60), ("high", 1, 15)])
async def test_a_sheet_begins_with_few_uses_and_a_short_time_fewer_and_shorter_for_high_risk(
    desk_with: DeskWith, risk: str, uses: int, minutes: int
) -> None:
    async with desk_with(requests=[make_approval(1, risk=risk)]) as desk:
        sheet = await sheet_of(desk)
        assert sheet.terms is not None
        assert sheet.terms.uses == uses
        left = datetime.fromisoformat(sheet.terms.expires) - datetime.now(UTC)
        assert timedelta(0) < left <= timedelta(minutes=minutes)
        assert f"Up to {risk} risk" in sheet.lines.text()
        assert ("Once" if uses == 1 else f"{uses} times") in sheet.lines.text()


def test_the_words_about_what_waits_count_no_more_than_the_uses() -> None:
    assert "no other request that waits now fits" in covered_words(0, None)
    assert "1 other request fits, is judged again" in covered_words(1, 1)
    assert "4 other requests fit, each is judged again" in covered_words(4, None)
    assert "4 other requests fit, and 1 of them goes on" in covered_words(4, 1)
    assert "4 other requests fit, and 3 of them go on" in covered_words(4, 3)


async def test_the_sheet_shows_what_would_be_signed_and_signs_exactly_that(desk_with: DeskWith) -> None:
    async with desk_with(
        requests=[write(1), write(2, path="/srv/a/y.txt"), write(3, path="/etc/passwd")]
    ) as desk:
        sheet = await sheet_of(desk)
        assert "file_path is '/srv/a/x.txt'" in sheet.lines.text()
        sheet.row("content").widen(Breadth.ANY)
        sheet.row("file_path").widen(Breadth.BELOW)
        assert sheet.row("file_path").field.text() == "/srv/a"
        assert "content may be anything" in sheet.lines.text()
        assert "file_path is below /srv/a" in sheet.lines.text()
        assert "1 other request fits" in sheet.covers.text()
        assert "goes on without an answer of its own" in sheet.covers.text()
        shown = sheet.terms
        QTest.mouseClick(sheet.approve, Qt.MouseButton.LeftButton)
        await desk.until(lambda: given(desk))
        terms = given(desk)[0].terms
        assert terms.arguments == shown.arguments if shown is not None else False
        assert terms.devices == ["lab-lnx-01"]
        assert desk.console.queue["a-0001"].state is ApprovalState.APPROVED
        assert desk.console.queue["a-0002"].state is ApprovalState.WAITING


async def test_a_grant_is_signed_by_the_unlocked_key(desk_with: DeskWith) -> None:
    async with desk_with(requests=[write(1)]) as desk:
        await desk.guard_over()
        terms = terms_of(narrowest(desk.shown()), "harbour")
        signed = desk.nav.keys.sign_grant(terms)
        operator = desk.nav.keys.operator
        assert operator is not None
        assert verify_signature(signed.terms, signed.signature, operator.public_key)


async def test_for_this_run_everything_is_exact_and_bound_to_the_run(desk_with: DeskWith) -> None:
    async with desk_with(requests=[write(1, run="r-7")]) as desk:
        sheet = await sheet_of(desk)
        sheet.devices.setText("*")
        sheet.row("content").widen(Breadth.ANY)
        sheet.scope.choose("run")
        sheet.scope.chosen.emit("run")
        assert sheet.devices.text() == "lab-lnx-01"
        assert "Only in run r-7" in sheet.lines.text()
        assert "anything" not in sheet.lines.text()
        QTest.mouseClick(sheet.approve, Qt.MouseButton.LeftButton)
        await desk.until(lambda: given(desk))
        assert given(desk)[0].terms.run == "r-7"


@pytest.mark.parametrize(
    ("breadth", "text", "words"),
    [
        (Breadth.BELOW, "relative", "absolute folder"),
        (Breadth.PATTERN, "(", "pattern"),
        (Breadth.ONE_OF, "other.txt", "would not cover this request"),
        (Breadth.BELOW, "/etc", "would not cover this request"),
    ],
)
async def test_words_that_make_no_scope_are_said_and_not_signed(
    desk_with: DeskWith, breadth: Breadth, text: str, words: str
) -> None:
    async with desk_with(requests=[write(1)]) as desk:
        sheet = await sheet_of(desk)
        sheet.row("file_path").widen(breadth, text)
        assert words in problem_in(sheet)
        assert not sheet.approve.isEnabled()
        QTest.mouseClick(sheet.approve, Qt.MouseButton.LeftButton)
        assert not {"decide", "decide_many"} & set(desk.console.asked)


@pytest.mark.parametrize(
    "request_",
    [
        make_approval(1, approvers=2),
        make_approval(1, risk="critical", parameters={"command": "x"}),
    ],
    ids=["several", "critical"],
)
async def test_what_must_not_be_remembered_is_refused_in_words(
    desk_with: DeskWith, request_: Approval
) -> None:
    async with desk_with(requests=[request_]) as desk:
        await desk.guard_over()
        press(desk, KEYS.Key_G)
        assert not desk.screen.findChildren(GrantDialog)
        assert desk.screen.bar.grant.accessibleDescription()


async def test_high_risk_wants_its_end_seen_before_anything_is_remembered(desk_with: DeskWith) -> None:
    long = "\n".join(f"echo {n}" for n in range(80))
    async with desk_with(requests=[make_approval(1, risk="high", parameters={"command": long})]) as desk:
        sheet = await sheet_of(desk)
        assert not sheet.approve.isEnabled()
        assert "scroll to the end" in problem_in(sheet)


async def test_software_that_presses_the_sheets_button_remembers_nothing_of_high_risk(
    desk_with: DeskWith,
) -> None:
    async with desk_with(requests=[make_approval(1, risk="high", parameters={"command": "x"})]) as desk:
        await desk.guard_over()
        await desk.until(lambda: desk.screen.card.end_was_seen)
        sheet = await sheet_of(desk)
        sheet.approve.click()
        assert "from a program, not from your hand" in problem_in(sheet)
        assert not {"decide", "decide_many"} & set(desk.console.asked)


async def test_a_letter_in_a_text_field_is_a_letter(desk_with: DeskWith) -> None:
    async with desk_with(requests=[write(1), write(2)]) as desk:
        await desk.guard_over()
        desk.screen.bar.deny_act.trigger()
        QTest.keyClicks(desk.screen.bar.reason, "beg dfjk")
        assert desk.screen.bar.reason.text() == "beg dfjk"
        assert not desk.screen.findChildren(GrantDialog)
        assert desk.shown().id == "a-0001"


async def test_in_the_window_the_chord_answers_the_sheet_and_not_the_card_below(
    theme: Theme, tmp_path: Path
) -> None:
    key = create_operator_key(Home(tmp_path).create(), "harbour", None)
    console = FakeConsole(operators=[key.operator])
    console.queue["a-0001"] = write(1)

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("approvals")
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        await seen(lambda: desk.keys.unlocked and screen.bar.grant.isEnabled())
        desk.window.activateWindow()
        await seen(lambda: not screen.bar.guarded)
        screen.bar.grant_act.trigger()
        sheet = next(iter(desk.window.findChildren(GrantDialog)))
        await seen(sheet.devices.hasFocus)
        QTest.keyClicks(sheet.devices, " egdfjk")
        assert sheet.devices.text().endswith(" egdfjk")
        sheet.devices.setText("lab-lnx-01")
        QTest.keyClick(sheet.devices, KEYS.Key_Return, CTRL)
        await seen(lambda: console.grant_book.all())
        assert console.asked.count("decide") == 1


async def test_the_chord_right_after_g_answers_the_sheet_of_a_group_and_not_its_card(
    theme: Theme, tmp_path: Path
) -> None:
    """For a run the first field of the sheet is off: the keyboard must be in the sheet all the same."""
    key = create_operator_key(Home(tmp_path).create(), "harbour", None)
    console = FakeConsole(operators=[key.operator])
    for number in (1, 2):
        parameters = {"command": "uptime"}
        console.queue[f"a-{number:04}"] = make_approval(
            number, device=f"lab-lnx-{number:02}", parameters=parameters, run="r-1", summary="Runs uptime"
        )

    async with open_frame(theme, tmp_path, console) as desk:
        desk.window.open("approvals")
        desk.window.activateWindow()
        screen = desk.window.current
        assert isinstance(screen, ApprovalsScreen)
        await seen(lambda: desk.keys.unlocked and screen.queue.view.hasFocus() and not screen.bar.guarded)
        await seen(lambda: screen.bar.approve.isEnabled())
        assert len(screen.card.others) == 1
        QTest.keyClick(QApplication.focusWidget(), KEYS.Key_G)
        [sheet] = desk.window.findChildren(GrantDialog)
        assert not sheet.devices.isEnabled()
        QTest.keyClick(QApplication.focusWidget(), KEYS.Key_Return, CTRL)
        await seen(lambda: console.grant_book.all())
        assert console.asked.count("decide") == 1
        assert console.queue["a-0002"].state is ApprovalState.WAITING


async def test_a_sheet_whose_request_is_answered_says_so_and_one_opened_early_comes_to_life(
    desk_with: DeskWith,
) -> None:
    async with desk_with(requests=[write(1)]) as desk:
        screen = desk.screen
        assert screen.bar.guarded
        press(desk, KEYS.Key_G)
        [sheet] = screen.findChildren(GrantDialog)
        assert not sheet.approve.isEnabled()
        await desk.guard_over()
        assert sheet.approve.isEnabled()
        desk.console.request(desk.shown().model_copy(update={"state": ApprovalState.WITHDRAWN}))
        await desk.until(lambda: not sheet.approve.isEnabled())
        assert problem_in(sheet) == "The request that this began with is answered by now: close this."


async def test_after_a_grant_the_next_card_is_one_that_the_grant_does_not_answer(desk_with: DeskWith) -> None:
    requests = [write(1), write(2, path="/srv/a/y.txt"), write(3, path="/etc/passwd")]
    async with desk_with(requests=requests) as desk:
        sheet = await sheet_of(desk)
        sheet.row("content").widen(Breadth.ANY)
        sheet.row("file_path").widen(Breadth.BELOW)
        QTest.mouseClick(sheet.approve, Qt.MouseButton.LeftButton)
        await desk.until(lambda: desk.shown().id == "a-0003")


async def test_a_card_that_the_grant_answers_a_moment_later_is_not_left_selected(desk_with: DeskWith) -> None:
    requests = [write(1), write(2, path="/srv/a/y.txt")]
    async with desk_with(requests=requests) as desk:
        sheet = await sheet_of(desk)
        sheet.row("content").widen(Breadth.ANY)
        sheet.row("file_path").widen(Breadth.BELOW)
        QTest.mouseClick(sheet.approve, Qt.MouseButton.LeftButton)
        await desk.until(lambda: desk.shown().id == "a-0002")
        later = desk.console.queue["a-0002"].model_copy(update={"state": ApprovalState.WITHDRAWN})
        desk.console.request(later)
        await desk.until(lambda: desk.screen.stack.currentIndex() == 0)
        assert not desk.screen.queue.view.currentIndex().isValid()
