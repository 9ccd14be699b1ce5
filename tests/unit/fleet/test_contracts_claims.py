"""What a device says beside a tool's definition raises its risk at once, and lowers it only by a review."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.aip.messages import ToolInfo
from core.audit.entries import Kind
from core.changes import Change, ChangeKind, Proposal, change_statement
from core.errors import ErrorCode
from core.home import Home
from core.models.tools import Effect, Risk, Tool
from tests.fakes.rig import DEVICE, TEXT, Rig, open_rig, tool_info
from tests.fakes.run_size import examples
from tests.fakes.signing import accepted

SWEEP = tool_info("sweep", "action", {"path": TEXT}, namespace="mcp:far")
LOOKS = tool_info("screenshot", "data_collection")
RULE = '[[rule]]\nid = "no"\ndecision = "deny"\neffect = "destroy"\nreason = "Nothing is destroyed."\n'


def rated(risk: object, info: ToolInfo = SWEEP) -> ToolInfo:
    return info.model_copy(update={"meta": {"quarterdeck": {"risk": risk}}})


def the(rig: Rig) -> Tool:
    [tool] = rig.fleet.tools(DEVICE)
    return tool


async def says(rig: Rig, info: ToolInfo, *, again: bool = True, **more: Any) -> Tool:
    """What the one tool is held to be once its device lists it so, `again` over the same link."""
    rig.tools.infos = [info]
    if again:
        await rig.fleet.relist(DEVICE)
    else:
        await rig.connect(**more)
    return the(rig)


async def refuses(rig: Rig) -> ErrorCode:
    """Why a call of the one tool does not leave."""
    result = await rig.call(the(rig).tool_name)
    assert rig.tools.seen == []
    assert result.error is not None
    return result.error.code


async def review(rig: Rig, tool: Tool) -> None:
    """Trust a tool as it is now, with an operator's signature, as the service does it."""
    after = {"contract": tool.contract.digest, "pin": rig.fleet.pin_now(DEVICE, tool.tool_key)}
    change = Change(kind=ChangeKind.CONTRACT, subject=f"{DEVICE}/{tool.tool_key}", after=after)
    home_key = rig.journal.public_key.public_bytes_raw().hex()
    proposal = Proposal(home=home_key, change=change, needs_signature=True)
    signed = rig.key.sign_change(change_statement(proposal, rig.key.name))
    proof = {"signed": signed.model_dump(mode="json")}
    await rig.fleet.review(DEVICE, tool.tool_key, tool.contract.digest, "operator:anna", proof)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


@pytest.mark.parametrize("again", [True, False], ids=["over the same link", "when it comes again"])
@pytest.mark.parametrize("now", [None, "high", "low", "none", 7])
async def test_a_device_that_takes_its_rating_back_is_blocked_until_somebody_reviews_it(
    home: Home, again: bool, now: object
):
    async with open_rig(home, [rated("critical")]) as rig:
        assert (the(rig).contract.risk.value, the(rig).changed) == (Risk.CRITICAL, False)
        assert (await says(rig, rated(now), again=again)).changed
        assert await refuses(rig) is ErrorCode.CONTRACT_CHANGED
        [noticed] = [one for one in await rig.entries() if one.kind is Kind.CONTRACT_CHANGED]
        assert list(noticed.body["tools"]) == ["action::sweep"]
        reviewed = await rig.fleet.review(DEVICE, "action::sweep", the(rig).contract.digest, "operator:anna")
        assert (reviewed.changed, reviewed.contract.risk.value) == (False, Risk.HIGH)
        assert not (await says(rig, rated(now))).changed


async def test_what_was_claimed_outlives_the_service(home: Home):
    # A review counts after a restart if the journal names its operator.
    await accepted(home)
    async with open_rig(home, [rated("critical")]):
        pass
    async with open_rig(home, [SWEEP]) as rig:
        assert the(rig).changed
        assert await refuses(rig) is ErrorCode.CONTRACT_CHANGED
        await review(rig, the(rig))
    async with open_rig(home, [SWEEP]) as rig:
        assert not the(rig).changed


async def test_a_higher_claim_counts_at_once_and_cannot_be_taken_back(home: Home):
    async with open_rig(home, [SWEEP]) as rig:
        raised = await says(rig, rated("critical"))
        assert (raised.contract.risk.value, raised.changed) == (Risk.CRITICAL, False)
        pinned = (await rig.entries(f"kind:{Kind.CONTRACT_PINNED}"))[-1]
        assert (pinned.actor, pinned.body["claims"]) == ("service", {"action::sweep": "critical"})
        assert "reviewed" not in pinned.body
    async with open_rig(home, [SWEEP]) as rig:
        assert the(rig).changed
        back = await says(rig, rated("critical"))
        assert (back.contract.risk.value, back.changed) == (Risk.CRITICAL, False)


async def test_a_claim_that_makes_no_difference_may_go(home: Home):
    async with open_rig(home, [rated("medium")]) as rig:
        tool = await says(rig, SWEEP)
        assert (tool.contract.risk.value, tool.changed) == (Risk.HIGH, False)


async def test_an_operators_own_word_unblocks_nothing_that_the_device_took_back(home: Home):
    async with open_rig(home, [rated("critical")]) as rig:
        home.policy.write_text('[[contract]]\ntool = "sweep"\nrisk = "low"\nwhy = "An empty room."\n')
        assert (await says(rig, SWEEP)).changed
        home.policy.unlink()
        assert the(rig).changed


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (rated("low"), "now claims low risk, no longer critical"),
        (SWEEP, "no longer claims critical risk"),
        (rated("critical").model_copy(update={"description": "Sweeps."}), "changed its definition"),
        (rated("low").model_copy(update={"description": "Sweeps."}), "changed its definition"),
    ],
    ids=["a lower claim", "a claim taken back", "another definition", "both"],
)
async def test_a_blocked_tool_says_what_of_it_changed(home: Home, now: ToolInfo, words: str):
    async with open_rig(home, [rated("critical")]) as rig:
        assert (await says(rig, now)).change == words
        result = await rig.call("sweep")
        assert result.error is not None
        assert result.error.message == f"sweep on {DEVICE} is not what was trusted: it {words}."
        await rig.fleet.review(DEVICE, "action::sweep", the(rig).contract.digest, "operator:anna")
        assert (the(rig).change, the(rig).changed) == ("", False)


class TestWhatElseAContractFollowsFrom:
    """Each of these comes from the device."""

    @pytest.mark.parametrize(
        "change",
        [
            {"annotations": {"destructiveHint": False}},
            {"annotations": None},
            {"tool_type": "data_collection"},
            {"tool_type": "data_collection", "tool_key": "data_collection::sweep"},
            {"tool_key": "action::sweep-2", "description": "Now it deletes."},
            {"tool_key": "sweep", "annotations": None},
            {"namespace": "builtin"},
            {"namespace": None},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("again", [True, False], ids=["over the same link", "when it comes again"])
    async def test_a_tool_of_the_same_name_that_is_defined_otherwise_is_blocked(
        self, home: Home, change: dict[str, Any], again: bool
    ):
        was = SWEEP.model_copy(update={"annotations": {"destructiveHint": True}})
        home.policy.write_text(RULE)
        async with open_rig(home, [was]) as rig:
            assert await refuses(rig) is ErrorCode.DENIED_BY_POLICY
            assert (await says(rig, was.model_copy(update=change), again=again)).changed
            assert await refuses(rig) is ErrorCode.CONTRACT_CHANGED

    async def test_a_stranger_that_calls_itself_our_own_client_is_blocked(self, home: Home):
        async with open_rig(home, []) as rig:
            stranger = await says(rig, LOOKS, again=False, ours=False)
            assert (stranger.contract.risk.value, stranger.changed) == (Risk.HIGH, False)
            assert (await says(rig, LOOKS, again=False, ours=True)).changed
            assert the(rig).change == "is now offered by quarterdeck-device"
            assert await refuses(rig) is ErrorCode.CONTRACT_CHANGED

    async def test_our_own_client_that_becomes_a_stranger_counts_as_one_at_once_and_stays_one(
        self, home: Home
    ):
        async with open_rig(home, []) as rig:
            own = await says(rig, LOOKS, again=False, ours=True)
            assert (own.contract.risk.value, own.changed) == (Risk.LOW, False)
            stranger = await says(rig, LOOKS, again=False, ours=False)
            assert (stranger.contract.risk.value, stranger.changed) == (Risk.HIGH, False)
            assert (await says(rig, LOOKS, again=False, ours=True)).changed

    async def test_a_destroying_tool_does_not_slip_past_a_rule_by_becoming_a_strangers(self, home: Home):
        closes = tool_info("close_application", "action")
        home.policy.write_text(RULE)
        async with open_rig(home, []) as rig:
            own = await says(rig, closes, again=False, ours=True)
            assert own.contract.effect.value is Effect.DESTROY
            assert (await says(rig, closes, again=False, ours=False)).changed
            assert await refuses(rig) is ErrorCode.CONTRACT_CHANGED

    async def test_a_tool_that_was_away_for_a_while_is_held_to_what_it_was(self, home: Home):
        async with open_rig(home, [rated("critical")]) as rig:
            rig.tools.infos = []
            await rig.fleet.relist(DEVICE)
            assert (await says(rig, SWEEP)).changed


async def test_what_a_device_claims_while_it_is_reviewed_counts_when_that_has_ended(home: Home):
    async with open_rig(home, [rated("critical")]) as rig:
        seen = await says(rig, SWEEP)
        rig.tools.infos = [rated("critical")]
        await asyncio.gather(
            rig.fleet.review(DEVICE, "action::sweep", seen.contract.digest, "operator:anna"),
            rig.fleet.relist(DEVICE),
        )
        assert the(rig).contract.risk.value is Risk.CRITICAL


async def test_a_review_shows_the_claim_beside_the_one_that_was_trusted(home: Home):
    async with open_rig(home, [rated("critical")]) as rig:
        held = the(rig).contract
        await says(rig, SWEEP)
        change = await rig.fleet.change(DEVICE, "action::sweep")
        assert change.before is not None
        assert (change.before["claimed_risk"], change.after["claimed_risk"]) == ("critical", None)
        assert change.before_contract == held
        await rig.fleet.review(DEVICE, "action::sweep", the(rig).contract.digest, "operator:anna")
        [reviewed] = [one for one in await rig.entries() if one.body.get("reviewed")]
        assert reviewed.body["facts"] == {"risk": ["critical", "high"]}
        assert (await rig.fleet.change(DEVICE, "action::sweep")).before == change.after


async def test_of_a_definition_that_was_not_kept_it_is_still_told_that_only_the_claim_changed(home: Home):
    large = SWEEP.model_copy(update={"description": "x" * 300_000})
    async with open_rig(home, [rated("critical", large)]) as rig:
        held = the(rig).contract
        await says(rig, large)
        change = await rig.fleet.change(DEVICE, "action::sweep")
        assert change.before is not None
        assert change.before["description"] == change.after["description"]
        assert change.before_contract == held


CLAIMS = st.sampled_from([None, "low", "medium", "high", "critical", "none"])


@settings(max_examples=examples(20, quick=8))
@given(st.lists(st.tuples(CLAIMS, st.booleans(), st.booleans()), min_size=2, max_size=6))
def test_whatever_a_device_says_in_turn_its_risk_never_falls_without_a_review(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[str | None, bool, bool]]
):
    """Each word: the claim, whether it calls itself our own client, whether the service starts anew first."""
    home = Home(tmp_path_factory.mktemp("claims") / "home").create()

    async def plays() -> None:
        floor = -1
        opening = open_rig(home, [])
        rig = await opening.__aenter__()
        for claim, ours, anew in said:
            if anew:
                await opening.__aexit__(None, None, None)
                opening = open_rig(home, [])
                rig = await opening.__aenter__()
            tool = await says(rig, rated(claim, LOOKS), again=False, ours=ours)
            # A blocked tool cannot be called, whatever it counts as.
            if not tool.changed:
                assert tool.contract.risk.value.rank >= floor
                floor = tool.contract.risk.value.rank
        await opening.__aexit__(None, None, None)

    asyncio.run(plays())
