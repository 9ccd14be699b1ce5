"""What a card shows of the screen is of its request's time; nothing older is held against an approval."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.aip.messages import Command, Result, ResultStatus
from core.approvals.models import Approval
from core.approvals.operator_keys import statement_for
from core.dispatch.card_views import CardView
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, Rig, open_rig
from tests.unit.dispatch.test_evidence import TOOLS, Screen, card_of, evidence_of, say_yes, sent


@pytest.fixture
def screen() -> Screen:
    return Screen()


@pytest.fixture
async def rig(home: Home, screen: Screen) -> AsyncIterator[Rig]:
    async with open_rig(home, TOOLS) as rig:
        rig.tools.answers["screenshot"] = screen
        rig.tools.answers["get_ui_tree"] = screen.tree
        yield rig


async def waiting(rig: Rig) -> Approval:
    """A request that waits; its card may still be reading the screen."""
    return await asyncio.wait_for(rig.asked.get(), PATIENCE_S)


async def view_of(rig: Rig, approval: Approval, *, renew: bool = False) -> CardView:
    view = await rig.dispatcher.cards.shown(approval.request.digest, renew=renew)
    assert view is not None
    return view


def failure(words: str) -> Any:
    return lambda command: Result(status=ResultStatus.FAILURE, error=f"tool_failed: {words}")


class Slow:
    """A tool whose answer waits for `go_on`."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.began, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, command: Command) -> Any:
        self.began.set()
        await self.go_on.wait()
        return self._answer(command)


async def test_an_approval_is_not_held_against_a_picture_from_before_the_request(rig: Rig, screen: Screen):
    await rig.call("screenshot")
    screen.at = (30, 200)
    call = rig.start("click_element", control_id="7")
    await say_yes(rig, await card_of(rig))
    result = await call
    assert result.error is None, result.error
    assert sent(rig)[-1] == "click_element"


async def test_both_reads_are_journalled_for_the_request(rig: Rig):
    call = rig.start("click_element", control_id="7")
    approval = await card_of(rig)
    view = await view_of(rig, approval)
    await say_yes(rig, approval)
    result = await call
    assert view.picture is not None
    [card] = await evidence_of(rig, result.call_id)
    assert (card.body["moment"], card.blobs) == ("on the card", [view.picture.blob])
    sent = await rig.entries("kind:command_sent")
    reads = [one for one in sent if one.body.get("evidence_for") == result.call_id]
    assert [one.tool for one in reads[:2]] == ["get_ui_tree", "screenshot"]
    assert {one.actor for one in reads} == {"service"}


async def test_what_is_approved_before_the_picture_is_there_waits_for_it_and_needs_no_other(
    rig: Rig, screen: Screen
):
    rig.tools.answers["screenshot"] = slow = Slow(screen)
    call = rig.start("click_element", control_id="7")
    approval = await waiting(rig)
    await asyncio.wait_for(slow.began.wait(), PATIENCE_S)
    await say_yes(rig, approval)
    assert sent(rig) == ["get_ui_tree", "screenshot"]
    slow.go_on.set()
    assert (await call).error is None
    assert sent(rig) == ["get_ui_tree", "screenshot", "click_element"]


async def test_what_is_approved_before_its_control_was_looked_for_is_held_if_there_is_none(
    rig: Rig, screen: Screen
):
    rig.tools.answers["get_ui_tree"] = slow = Slow(screen.tree)
    call = rig.start("click_element", control_id="8")
    approval = await waiting(rig)
    await asyncio.wait_for(slow.began.wait(), PATIENCE_S)
    await say_yes(rig, approval)
    slow.go_on.set()
    result = await call
    assert result.error is not None
    assert result.error.code is ErrorCode.STALE_OBSERVATION
    assert "no control fits it now" in result.error.message
    assert "click_element" not in sent(rig)


async def test_a_last_look_that_is_old_by_now_is_compared(
    rig: Rig, screen: Screen, monkeypatch: pytest.MonkeyPatch
):
    """An approved request may wait minutes for its turn."""
    monkeypatch.setattr("core.dispatch.evidence.LAST_LOOK_S", 0.0)

    def changes(command: Command) -> Any:
        taken = screen(command)
        screen.label = "Sell"
        return taken

    rig.tools.answers["screenshot"] = slow = Slow(changes)
    call = rig.start("click_element", control_id="7")
    approval = await waiting(rig)
    await asyncio.wait_for(slow.began.wait(), PATIENCE_S)
    await say_yes(rig, approval)
    slow.go_on.set()
    result = await call
    assert result.error is not None
    assert result.error.code is ErrorCode.STALE_OBSERVATION
    assert "click_element" not in sent(rig)


async def test_a_picture_that_an_operator_takes_elsewhere_is_not_on_the_card(rig: Rig, screen: Screen):
    call = rig.start("click_element", control_id="7")
    approval = await card_of(rig)
    screen.label = "Sell"
    await rig.call("screenshot")
    await say_yes(rig, approval)
    result = await call
    assert result.error is not None
    assert result.error.code is ErrorCode.STALE_OBSERVATION


async def test_without_a_picture_the_approval_is_enough_and_the_old_one_is_not_compared(
    rig: Rig, screen: Screen
):
    await rig.call("screenshot")
    screen.at, screen.broken = (30, 200), "tool_failed: The display cannot be opened"
    call = rig.start("click_element", control_id="7")
    approval = await card_of(rig)
    view = await view_of(rig, approval)
    assert view.picture is None
    assert "display cannot be opened" in view.problem
    await say_yes(rig, approval)
    result = await call
    assert result.error is None
    [missing] = await evidence_of(rig, result.call_id)
    assert "display cannot be opened" in missing.body["missing"]


@pytest.mark.parametrize("changed", ["its name", "gone"])
async def test_without_a_picture_the_control_is_still_looked_for(rig: Rig, screen: Screen, changed: str):
    screen.broken = "tool_failed: The display cannot be opened"
    call = rig.start("click_element", control_id="7")
    approval = await card_of(rig)
    if changed == "gone":
        rig.tools.answers["get_ui_tree"] = lambda command: {"tree": [], "truncated": False}
    else:
        screen.label = "Sell"
    await say_yes(rig, approval)
    result = await call
    assert result.error is not None
    assert result.error.code is ErrorCode.STALE_OBSERVATION
    assert ("is the button 'Sell'" if changed == "its name" else "no control fits") in result.error.message
    assert "click_element" not in sent(rig)


async def test_requests_that_begin_to_wait_together_share_their_reads(rig: Rig, screen: Screen):
    rig.tools.answers["get_ui_tree"] = slow = Slow(screen.tree)
    calls = [rig.start("click_element", control_id="7") for _ in range(3)]
    approvals = [await waiting(rig) for _ in calls]
    slow.go_on.set()
    views = [await view_of(rig, approval) for approval in approvals]
    assert sent(rig) == ["get_ui_tree", "screenshot"]
    assert len({view.picture.blob for view in views if view.picture}) == 1
    for call, approval in zip(calls, approvals, strict=True):
        await say_yes(rig, approval)
        result = await call
        assert result.error is None
        [card] = await evidence_of(rig, result.call_id)
        assert card.body["moment"] == "on the card"


async def test_a_later_request_shares_no_read_that_has_ended(rig: Rig, screen: Screen):
    """What the earlier one saw may have changed before the later one was made."""
    for _ in range(2):
        rig.start("click_element", control_id="7")
        assert (await view_of(rig, await waiting(rig))).picture is not None
    assert sent(rig) == ["get_ui_tree", "screenshot"] * 2


async def test_an_edited_request_has_a_view_of_its_own(rig: Rig, screen: Screen):
    call = rig.start("click_element", control_id="7")
    before = await card_of(rig)
    await rig.approvals.edit(before.id, {"control_id": "8"}, {"control_id": "8"}, "operator:anna")
    after = await card_of(rig)
    assert "no control fits" in (await view_of(rig, after)).fault
    assert await rig.dispatcher.cards.shown(before.request.digest, renew=True) is None
    await rig.approvals.decide(rig.key.sign(statement_for(after, "deny", "anna")))
    assert (await call).error is not None
    assert await rig.dispatcher.cards.shown(after.request.digest, renew=True) is None


async def test_what_needs_no_approval_has_no_card(rig: Rig):
    rig.use_policy('[[rule]]\nid = "ok"\ndecision = "allow"\ntool = "click_element"\nrisk = ["high"]\n')
    assert (await rig.call("click_element", control_id="7")).error is None
    assert sent(rig) == ["click_element"]


async def test_a_denial_does_not_wait_for_the_screen(rig: Rig, screen: Screen):
    rig.tools.answers["get_ui_tree"] = slow = Slow(screen.tree)
    call = rig.start("click_element", control_id="7")
    approval = await waiting(rig)
    await asyncio.wait_for(slow.began.wait(), PATIENCE_S)
    await rig.approvals.decide(rig.key.sign(statement_for(approval, "deny", "anna")))
    result = await asyncio.wait_for(call, PATIENCE_S)
    assert result.error is not None
    assert result.error.code is ErrorCode.DENIED_BY_OPERATOR


@pytest.mark.parametrize("fails", [False, True])
async def test_a_card_that_is_opened_again_is_compared_with_what_it_shows_then(
    rig: Rig, screen: Screen, monkeypatch: pytest.MonkeyPatch, fails: bool
):
    monkeypatch.setattr("core.dispatch.card_views._RENEWED_AFTER_S", 0.0)
    monkeypatch.setattr("core.dispatch.card_views._SHARED_S", 0.0)
    call = rig.start("click_element", control_id="7")
    approval = await card_of(rig)
    first = await view_of(rig, approval)
    screen.label = "Sell"
    if fails:
        screen.broken = "tool_failed: busy"
    second = await view_of(rig, approval, renew=True)
    screen.broken = ""
    if fails:
        assert second.picture == first.picture
        assert "no newer picture could be taken" in second.problem
    await say_yes(rig, approval)
    result = await call
    assert (result.error is not None) == fails


async def test_a_control_on_another_monitor_is_shown_and_compared(home: Home, screen: Screen):
    screen.size, screen.at = (800, 300), (500, 80)
    with_monitor = {"type": "object", "properties": {"monitor": {"type": "number"}}}
    infos = [
        one.model_copy(update={"input_schema": with_monitor}) if one.tool_name == "screenshot" else one
        for one in TOOLS
    ]
    async with open_rig(home, infos) as rig:
        rig.tools.answers["get_ui_tree"] = screen.tree
        # Without the argument it is the first monitor, which the control is not on.
        rig.tools.answers["screenshot"] = lambda command: (screen if command.parameters else Screen())(
            command
        )
        call = rig.start("click_element", control_id="7")
        await say_yes(rig, await card_of(rig))
        assert (await call).error is None
        pictures = [one.parameters for one in rig.tools.seen if one.tool_name == "screenshot"]
        assert pictures == [{}, {"monitor": 0}, {"monitor": 0}]


async def test_a_point_whose_place_has_changed_is_said_to_have_changed(rig: Rig, screen: Screen):
    shot = await rig.call("screenshot")
    screen.label = "Sell"
    call = rig.start("click_point", x=140, y=95, observation=shot.result["observation"])
    approval = await card_of(rig)
    view = await view_of(rig, approval)
    assert "not as in the picture that the click names" in view.problem
    await say_yes(rig, approval)
    result = await call
    assert result.error is not None
    assert result.error.code is ErrorCode.STALE_OBSERVATION
    assert "click_point" not in sent(rig)


async def test_a_device_that_goes_away_leaves_a_card_that_says_so(rig: Rig, screen: Screen):
    rig.tools.answers["screenshot"] = failure("the line is gone")
    rig.start("click_element", control_id="7")
    approval = await card_of(rig)
    assert approval.request.device == DEVICE
    assert "the line is gone" in (await view_of(rig, approval)).problem
