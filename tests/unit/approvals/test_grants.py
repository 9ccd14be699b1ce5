"""Grants that were altered, must not be given or cannot be recorded let nothing through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.approvals.answering_rules import grant_may_answer
from core.approvals.models import ApprovalState
from core.audit.entries import Kind
from core.errors import JournalUnavailable, Refused
from core.home import Home
from core.models.tools import Risk
from core.policy.constraints import Constraint
from core.policy.grant_book import GrantBook
from core.policy.models import Reason
from tests.fakes.operator_answers import SHELL, asked, kinds_of, signed_grant, terms_for, yes
from tests.fakes.rig import open_rig


class TestGrants:
    @pytest.mark.parametrize(
        "change",
        [
            {"devices": ["*"]},
            {"actors": ["*"]},
            {"risk": Risk.CRITICAL},
            {"uses": None},
            {"arguments": {"command": "any"}},
            {"arguments": {"command": Constraint(max_length=99)}},
            {"run": "r-7"},
            {"expires": (datetime.now(UTC) + timedelta(days=60)).isoformat()},
        ],
    )
    async def test_terms_that_were_altered_after_signing_grant_nothing(
        self, home: Home, change: dict[str, Any]
    ):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            honest = signed_grant(rig.key, terms_for(approval, "anna", uses=1))
            altered = honest.model_copy(update={"terms": honest.terms.model_copy(update=change)})
            with pytest.raises(Refused, match="does not hold"):
                await rig.approvals.decide(yes(rig.key, approval), altered)
            assert rig.approvals.get(approval.id).state is ApprovalState.WAITING
            assert rig.policy.grants.all() == []
            rig.approvals.withdraw("enough")
            await task

    @pytest.mark.parametrize("days", [-1, 91, 4_000])
    async def test_a_grant_that_is_over_or_lasts_for_years_is_refused_with_its_approval(
        self, home: Home, days: int
    ):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            ends = (datetime.now(UTC) + timedelta(days=days)).isoformat()
            grant = signed_grant(rig.key, terms_for(approval, "anna", expires=ends))
            with pytest.raises(Refused, match="ends within 90 days"):
                await rig.approvals.decide(yes(rig.key, approval), grant)
            assert rig.approvals.get(approval.id).state is ApprovalState.WAITING
            assert rig.policy.grants.all() == []
            rig.approvals.withdraw("enough")
            await task

    async def test_a_grant_answers_neither_what_several_must_approve_nor_what_an_operator_edited(
        self, home: Home
    ):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            terms = terms_for(approval, "anna").model_copy(update={"approval": "a-another"})
            assert grant_may_answer(terms, approval)
            for change in ({"approvers": 2}, {"edited_from": "a-earlier"}):
                assert not grant_may_answer(terms, approval.model_copy(update=change)), change
            rig.approvals.withdraw("enough")
            await task

    async def test_a_grant_signed_for_one_request_does_not_come_with_the_approval_of_another(
        self, home: Home
    ):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            terms = terms_for(approval, "anna").model_copy(update={"approval": "a-another"})
            with pytest.raises(Refused, match="belongs to another approval"):
                await rig.approvals.decide(yes(rig.key, approval), signed_grant(rig.key, terms))
            assert rig.policy.grants.all() == []
            rig.approvals.withdraw("enough")
            await task

    async def test_a_grant_altered_in_the_journal_does_not_come_back_with_it(self, home: Home):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            grant = signed_grant(rig.key, terms_for(approval, "anna"))
            await rig.approvals.decide(yes(rig.key, approval), grant)
            await task
            entries = await rig.entries("kind:grant_given")
            again = GrantBook()
            assert again.restore(entries, rig.operators.signed_grant) == []
            assert [one.terms.id for one in again.all()] == [grant.terms.id]
            [entry] = entries
            body = entry.model_dump(mode="json")["body"]
            body["signed"]["terms"]["actors"] = ["*"]
            attacked = GrantBook()
            wider = [entry.model_copy(update={"body": body})]
            assert attacked.restore(wider, rig.operators.signed_grant) == [grant.terms.id]
            assert attacked.all() == []

    async def test_what_a_rule_asks_about_each_time_cannot_be_granted(self, home: Home):
        home.policy.write_text('[[rule]]\nid = "each"\ndecision = "ask"\ntool = "shell_execute"\n')
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            with pytest.raises(Refused, match="rule each asks each time"):
                await rig.approvals.decide(
                    yes(rig.key, approval), signed_grant(rig.key, terms_for(approval, "anna"))
                )
            rig.approvals.withdraw("enough")
            await task

    async def test_what_the_device_wants_signed_each_time_cannot_be_granted(self, home: Home):
        async with open_rig(home) as rig:
            await rig.connect(approvers=1)
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            with pytest.raises(Refused, match="wants every action signed for"):
                await rig.approvals.decide(
                    yes(rig.key, approval), signed_grant(rig.key, terms_for(approval, "anna"))
                )
            rig.approvals.withdraw("enough")
            await task

    async def test_no_wording_of_a_reason_lets_a_grant_pass_for_a_device_that_wants_signatures(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(
            "core.policy.engine._signature_reason",
            lambda question: Reason(text="It must be signed", origin="the device's own settings"),
        )
        async with open_rig(home) as rig:
            await rig.connect(approvers=1)
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            with pytest.raises(Refused, match="wants every action signed for"):
                await rig.approvals.decide(
                    yes(rig.key, approval), signed_grant(rig.key, terms_for(approval, "anna"))
                )
            assert rig.policy.grants.all() == []
            rig.approvals.withdraw("enough")
            await task

    async def test_a_full_journal_gives_no_grant_and_the_request_still_waits(self, home: Home):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            grant = signed_grant(rig.key, terms_for(approval, "anna"))
            rig.disk.broken = True
            with pytest.raises(JournalUnavailable):
                await rig.approvals.decide(yes(rig.key, approval), grant)
            assert rig.policy.grants.all() == []
            assert rig.approvals.get(approval.id).state is ApprovalState.WAITING
            rig.disk.broken = False
            await rig.approvals.decide(yes(rig.key, approval), grant)
            assert (await task).error is None
            kinds = await kinds_of(rig)
            assert kinds.index(Kind.GRANT_GIVEN) < kinds.index(Kind.APPROVAL_GIVEN)
