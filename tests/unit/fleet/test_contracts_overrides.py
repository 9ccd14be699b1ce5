"""An operator's word on a tool is the strongest, the only one that lowers, and part of what is approved."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.approvals.operator_keys import statement_for
from core.audit.entries import Kind
from core.errors import BadInput, ErrorCode
from core.fleet.contracts import judge
from core.home import Home
from core.models.tools import Effect, Risk, Source
from core.policy.models import Answer
from core.policy.policy_file import parse_policy
from tests.fakes.policy_calls import a_tool, judged
from tests.fakes.rig import DEVICE, TEXT, Rig, open_rig, tool_info

STRANGE = tool_info(
    "frobnicate", "action", {"what": TEXT}, namespace="mcp:far", annotations={"readOnlyHint": True}
)
LOWERED = """
[[contract]]
tool = "frobnicate"
namespace = "mcp:*"
effect = "observe"
risk = "low"
why = "We wrote that server and read its source."
"""
RAISED = """
[[contract]]
tool = "read_*"
risk = "critical"
why = "This machine holds patients' files."
"""


@pytest.fixture
async def rig(tmp_path: Path):
    async with open_rig(Home(tmp_path / "home").create(), [STRANGE, *_usual()]) as opened:
        yield opened


def _usual():
    return [tool_info("read_file", "data_collection", {"file_path": TEXT}, ["file_path"])]


def said(rig: Rig, tool: str):
    return next(one for one in rig.fleet.tools(DEVICE) if one.tool_name == tool).contract


async def test_without_an_operators_word_a_strangers_tool_asks_whatever_it_says_of_itself(rig: Rig):
    assert said(rig, "frobnicate").risk.value is Risk.HIGH
    assert rig.dispatcher.explain(DEVICE, "frobnicate", {}).answer is Answer.ASK


async def test_an_override_lowers_what_nobody_else_can_and_says_why(rig: Rig):
    before = said(rig, "frobnicate")
    rig.use_policy(LOWERED)
    after = said(rig, "frobnicate")
    assert (after.effect.value, after.risk.value) == (Effect.OBSERVE, Risk.LOW)
    assert (after.risk.source, after.risk.why) == (
        Source.OPERATOR,
        "We wrote that server and read its source.",
    )
    assert after.digest != before.digest
    result = await rig.call("frobnicate")
    assert result.error is None
    assert len(rig.tools.seen) == 1


async def test_an_override_raises_a_built_in_tool(rig: Rig):
    rig.use_policy(RAISED)
    decision = rig.dispatcher.explain(DEVICE, "read_file", {"file_path": "/a"})
    assert (decision.answer, decision.risk) == (Answer.ASK, Risk.CRITICAL)
    assert any(reason.text == "This machine holds patients' files." for reason in decision.reasons)


async def test_taking_an_override_away_counts_from_the_next_command_on(rig: Rig):
    rig.use_policy(LOWERED)
    assert (await rig.call("frobnicate")).error is None
    rig.use_policy(None)
    waiting = rig.start("frobnicate")
    asked = await rig.asked.get()
    assert asked.request.contract == said(rig, "frobnicate").digest
    waiting.cancel()
    assert len(rig.tools.seen) == 1


async def test_an_override_that_comes_while_somebody_thinks_makes_their_approval_worthless(rig: Rig):
    waiting = rig.start("frobnicate")
    asked = await rig.asked.get()
    rig.use_policy(LOWERED.replace('risk = "low"', 'risk = "critical"'))
    await rig.approvals.decide(rig.key.sign(statement_for(asked, "approve", "anna", "")))
    result = await waiting
    assert result.error is not None
    assert result.error.code is ErrorCode.CONTRACT_CHANGED
    assert rig.tools.seen == []


async def test_the_first_entry_that_names_a_tool_holds_alone(rig: Rig):
    first = '[[contract]]\ntool = "frobnicate"\nreversible = true\nwhy = "first"\n'
    rig.use_policy(first + LOWERED)
    contract = said(rig, "frobnicate")
    assert (contract.reversible.value, contract.risk.value) == (True, Risk.HIGH)


async def test_an_effect_alone_does_not_lower_the_risk(rig: Rig):
    rig.use_policy(LOWERED.replace('risk = "low"\n', ""))
    contract = said(rig, "frobnicate")
    assert (contract.effect.value, contract.risk.value) == (Effect.OBSERVE, Risk.HIGH)
    assert contract.risk.why == "Nobody has rated it: that counts as high."


async def test_an_override_is_for_the_devices_it_names(rig: Rig):
    rig.use_policy(LOWERED + 'device = "other-*"\n')
    assert said(rig, "frobnicate").risk.value is Risk.HIGH


async def test_what_shows_that_it_worked_is_a_fact_with_a_source(rig: Rig):
    assert said(rig, "read_file").evidence.source is Source.BUILT_IN
    assert said(rig, "frobnicate").evidence.source is Source.DEFAULT
    rig.use_policy('[[contract]]\ntool = "frob*"\nevidence = "The lamp is lit."\nwhy = "seen"\n')
    assert said(rig, "frobnicate").evidence.value == "The lamp is lit."


def test_while_an_operators_rating_holds_what_the_arguments_do_still_raises():
    rated = judge(
        tool_info("shell_execute"),
        override=parse_policy('[[contract]]\ntool = "*"\nrisk = "low"\nwhy = "a lab"\n').contracts[0],
    )
    tool = a_tool("shell_execute").model_copy(update={"contract": rated})
    assert judged("", tool, {"command": "ls"}).risk is Risk.LOW
    assert judged("", tool, {"command": "rm -rf /"}).risk is Risk.CRITICAL


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[contract]]\ntool = "x"\nwhy = "because"\n', "line 1: contract 1: says nothing of the tool"),
        ('[[contract]]\ntool = "x"\nrisk = "low"\n', "contract 1: why"),
        ('\n\n[[contract]]\ntool = "x"\nrisk = "none"\nwhy = "xxx"\n', "line 3: contract 1: risk"),
        ('[[contract]]\ntool = "x"\nrisk = "low"\ncolour = 1\nwhy = "xxx"\n', "colour"),
    ],
)
def test_an_entry_with_a_fault_names_its_line(text: str, says: str):
    with pytest.raises(BadInput) as caught:
        parse_policy(text)
    assert says in caught.value.message


def test_lines_are_found_beside_texts_of_many_lines_and_comments():
    text = (
        '# [[rule]]\n[[rule]]\nid = "a"\ndecision = "deny"\nreason = """\n[[rule]]\n"""\n\n'
        '[[rule]]\nid = "b"\ndecision = "deny"\n'
    )
    assert parse_policy(text).line_numbers == [2, 9]


class TestChangedDefinitions:
    """What was trusted is kept, so that a change can be shown beside it."""

    async def test_a_changed_definition_is_blocked_and_shown_beside_the_trusted_one(self, rig: Rig):
        rig.tools.infos[0] = STRANGE.model_copy(update={"description": "Now it also deletes."})
        await rig.fleet.relist(DEVICE)
        result = await rig.call("frobnicate")
        assert result.error is not None
        assert result.error.code is ErrorCode.CONTRACT_CHANGED
        change = await rig.fleet.change(DEVICE, "action::frobnicate")
        assert change.before is not None
        assert change.before["description"] == STRANGE.description
        assert change.after["description"] == "Now it also deletes."

    async def test_after_a_review_the_new_definition_is_the_trusted_one(self, rig: Rig):
        rig.tools.infos[0] = STRANGE.model_copy(update={"description": "New."})
        await rig.fleet.relist(DEVICE)
        reviewed = await rig.fleet.review(
            DEVICE, "action::frobnicate", said(rig, "frobnicate").digest, "operator:anna"
        )
        assert not reviewed.changed
        change = await rig.fleet.change(DEVICE, "action::frobnicate")
        assert change.before == change.after
        pinned = (await rig.entries(f"kind:{Kind.CONTRACT_PINNED}"))[-1]
        assert (pinned.actor, pinned.tool, pinned.body["reviewed"]) == ("operator:anna", "frobnicate", True)
        assert pinned.blobs == [pinned.body["tools"]["action::frobnicate"]]

    async def test_a_definition_too_large_to_keep_is_trusted_all_the_same(self, tmp_path: Path):
        large = STRANGE.model_copy(update={"description": "x" * 300_000})
        async with open_rig(Home(tmp_path / "large").create(), [large]) as rig:
            assert not rig.fleet.tools(DEVICE)[0].changed
            rig.tools.infos = [large.model_copy(update={"description": "Now it also deletes."})]
            await rig.fleet.relist(DEVICE)
            assert rig.fleet.tools(DEVICE)[0].changed
            assert (await rig.fleet.change(DEVICE, "action::frobnicate")).before is None
