"""Several operators who must approve, and an operator who approves too hastily."""

from __future__ import annotations

import asyncio

import pytest

from core.approvals.models import Approval, ApprovalState
from core.audit.entries import Kind
from core.commands.request import CommandRequest
from core.errors import ErrorCode, Refused
from core.home import Home
from tests.fakes.operator_answers import SHELL, TWO, asked, no, signed_grant, terms_for, yes
from tests.fakes.rig import DEVICE, open_rig


class TestSeveralOperators:
    async def test_two_must_approve_and_the_asker_does_not_count(self, home: Home):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            bert, carl = rig.add_operator("bert"), rig.add_operator("carl")
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            assert approval.approvers == 2
            with pytest.raises(Refused, match="asker does not count"):
                await rig.approvals.decide(yes(rig.key, approval))
            half = await rig.approvals.decide(yes(bert, approval))
            assert (half.state, half.approved_by) == (ApprovalState.WAITING, ["bert"])
            with pytest.raises(Refused, match="another operator must"):
                await rig.approvals.decide(yes(bert, approval))
            assert rig.tools.seen == []
            whole = await rig.approvals.decide(yes(carl, approval))
            assert (whole.state, whole.approved_by) == (ApprovalState.APPROVED, ["bert", "carl"])
            assert (await task).error is None
            given = [one.body for one in await rig.entries() if one.kind is Kind.APPROVAL_GIVEN]
            assert [(one["number"], one["of"]) for one in given] == [(1, 2), (2, 2)]

    async def test_one_denial_ends_it_whoever_has_approved(self, home: Home):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            bert = rig.add_operator("bert")
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            await rig.approvals.decide(yes(bert, approval))
            assert (await rig.approvals.decide(no(rig.key, approval))).state is ApprovalState.DENIED
            result = await task
            assert result.error
            assert result.error.code is ErrorCode.DENIED_BY_OPERATOR
            assert rig.tools.seen == []

    async def test_one_operator_s_statement_twice_at_once_counts_once(self, home: Home):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            bert = rig.add_operator("bert")
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            both = await asyncio.gather(
                *(rig.approvals.decide(yes(bert, approval)) for _ in range(5)), return_exceptions=True
            )
            assert sum(isinstance(one, Approval) for one in both) == 1
            assert rig.approvals.get(approval.id).approved_by == ["bert"]
            rig.approvals.withdraw("enough")
            await task
            assert rig.tools.seen == []

    async def test_two_operators_at_once_are_two_answers(self, home: Home):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            bert, carl = rig.add_operator("bert"), rig.add_operator("carl")
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            both = await asyncio.gather(
                rig.approvals.decide(yes(bert, approval)),
                rig.approvals.decide(yes(carl, approval)),
                return_exceptions=True,
            )
            late = [one for one in both if isinstance(one, Refused)]
            assert len(late) == 1, "the second is told to answer again"
            again = carl if rig.approvals.get(approval.id).approved_by == ["bert"] else bert
            await rig.approvals.decide(yes(again, approval))
            assert (await task).error is None

    async def test_no_grant_of_one_stands_for_several(self, home: Home):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            bert = rig.add_operator("bert")
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            grant = signed_grant(bert, terms_for(approval, "bert"))
            with pytest.raises(Refused, match="never granted by one"):
                await rig.approvals.decide(yes(bert, approval), grant)
            rig.approvals.withdraw("enough")
            await task

    async def test_a_policy_that_wants_more_meanwhile_gets_more(self, home: Home):
        async with open_rig(home) as rig:
            bert = rig.add_operator("bert")
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            home.policy.write_text(TWO)
            await rig.approvals.decide(yes(bert, approval))
            result = await task
            assert result.error
            assert "wants 2 operators now" in result.error.message
            assert rig.tools.seen == []

    async def test_the_operator_of_an_agent_is_told_why_they_do_not_count(self, home: Home):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            order = CommandRequest(DEVICE, "shell_execute", SHELL, "agent:clerk", operators=("anna",))
            task = rig.tasks.spawn("ask", rig.dispatcher.dispatch(order))
            with pytest.raises(Refused, match="anna signed in the agent that asked for this; where 2 must"):
                await rig.approvals.decide(yes(rig.key, await asked(rig)))
            rig.approvals.withdraw("enough")
            await task

    async def test_the_asker_does_not_count_from_a_terminal_either(self, home: Home):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            order = CommandRequest(DEVICE, "shell_execute", SHELL, "cli:root", operators=("anna",))
            task = rig.tasks.spawn("ask", rig.dispatcher.dispatch(order))
            with pytest.raises(Refused, match="asker does not count"):
                await rig.approvals.decide(yes(rig.key, await asked(rig)))
            rig.approvals.withdraw("enough")
            await task

    @pytest.mark.parametrize("actor", ["cli:root", "window:root", "agent:helper"])
    async def test_one_who_does_not_prove_who_asks_never_helps_to_reach_the_number(
        self, home: Home, actor: str
    ):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            bert, carl = rig.add_operator("bert"), rig.add_operator("carl")
            order = CommandRequest(DEVICE, "shell_execute", SHELL, actor)
            task = rig.tasks.spawn("ask", rig.dispatcher.dispatch(order))
            approval = await asked(rig)
            # Of these three one may have asked; the two others have approved all the same.
            assert (approval.approvers, approval.askers) == (3, [""])
            for key in (rig.key, bert):
                assert (await rig.approvals.decide(yes(key, approval))).state is ApprovalState.WAITING
            assert rig.tools.seen == []
            await rig.approvals.decide(yes(carl, approval))
            assert (await task).error is None

    async def test_one_who_edited_a_request_does_not_count_either(self, home: Home):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            bert = rig.add_operator("bert")
            task = rig.start("shell_execute", **SHELL)
            changed = {**SHELL, "command": "echo other"}
            await rig.approvals.edit((await asked(rig)).id, changed, changed, "operator:bert", "bert")
            approval = await asked(rig)
            assert approval.askers == ["anna", "bert"]
            with pytest.raises(Refused, match="asker does not count"):
                await rig.approvals.decide(yes(bert, approval))
            rig.approvals.withdraw("enough")
            await task

    async def test_the_approval_of_an_operator_who_is_removed_does_not_count_any_more(self, home: Home):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            bert, carl, dora = (rig.add_operator(name) for name in ("bert", "carl", "dora"))
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            await rig.approvals.decide(yes(bert, approval))
            rig.operators.remove("bert")
            rig.approvals.operator_removed("bert")
            assert (await rig.approvals.decide(yes(carl, approval))).state is ApprovalState.WAITING
            with pytest.raises(Refused, match="not an operator"):
                await rig.approvals.decide(yes(bert, approval))
            assert rig.tools.seen == []
            await rig.approvals.decide(yes(dora, approval))
            assert (await task).error is None
            await task


async def test_hasty_approvals_are_noticed_and_journalled_and_time_counts_from_the_first_look(home: Home):
    seconds = [0.0]
    async with open_rig(home, expiry_s=600, clock=lambda: seconds[0]) as rig:
        for number in range(12):
            task = rig.start("shell_execute", command=f"echo {number}")
            approval = await asked(rig)
            seconds[0] += 30
            rig.approvals.pause_expiry(approval.id, "window", True)
            seconds[0] += 0.4
            await rig.approvals.decide(yes(rig.key, approval))
            await task
            while not rig.asked.empty():
                rig.asked.get_nowait()  # what was told while it was read
        measured = rig.approvals.fatigue.measure("anna")
        assert (measured.decided, measured.approved, measured.hasty) == (12, 12, 12)
        assert measured.median_s == pytest.approx(0.4)
        assert measured.warning
        entries = await rig.entries()
        took = [one.body["took_s"] for one in entries if one.kind is Kind.APPROVAL_GIVEN]
        assert took == pytest.approx([0.4] * 12)
        noted = [one for one in entries if one.kind is Kind.FATIGUE_NOTED]
        assert len(noted) == 1
        assert noted[0].actor == "operator:anna"
        assert rig.approvals.fatigue.measure("bert").decided == 0
