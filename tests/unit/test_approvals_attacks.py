"""Attacks on approvals: several operators, floods, clocks, full disks, altered grants, edited requests."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import core.statements
from core.audit.entries import Entry, Kind
from core.dispatch.order import Order
from core.errors import ErrorCode, JournalUnavailable, QuarterdeckError, Refused
from core.fleet.models import Risk
from core.home import Home
from core.ids import new_id
from core.policy import approvals as queue
from core.policy.constraints import Constraint
from core.policy.grants import GrantBook, GrantTerms, SignedGrant, exact_arguments
from core.policy.models import Answer, Approval, ApprovalState
from core.policy.operator_keys import OperatorKey, statement_for
from core.statements import SignedStatement, short_code, signed_bytes
from tests.fakes.rig import DEVICE, USUAL_TOOLS, Rig, open_rig, tool_info

SHELL = {"command": "rm -rf build"}
TWO = '[[rule]]\nid = "two"\ndecision = "ask"\ntool = "shell_execute"\napprovers = 2\n'


async def asked(rig: Rig) -> Approval:
    return await asyncio.wait_for(rig.asked.get(), 20)


def yes(key: OperatorKey, approval: Approval, **changes: Any) -> SignedStatement:
    return key.sign(statement_for(approval, "approve", key.name).model_copy(update=changes))


def no(key: OperatorKey, approval: Approval) -> SignedStatement:
    return key.sign(statement_for(approval, "deny", key.name, "not now"))


def terms_for(approval: Approval, author: str, **changes: Any) -> GrantTerms:
    fields: dict[str, Any] = {
        "id": f"g-{new_id()}",
        "approval": approval.id,
        "author": author,
        "devices": [DEVICE],
        "tool_key": approval.request.tool_key,
        "contract": approval.request.contract,
        "actors": [approval.actor],
        "arguments": exact_arguments(approval.request.parameters),
        "risk": Risk.HIGH,
        "expires": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    }
    return GrantTerms.model_validate({**fields, **changes})


def signed_grant(key: OperatorKey, terms: GrantTerms) -> SignedGrant:
    return SignedGrant(terms=terms, signature=key._private.sign(signed_bytes(terms)).hex())


async def kinds_of(rig: Rig) -> list[Kind]:
    return [entry.kind for entry in await rig.entries()]


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

    async def test_the_asker_does_not_count_from_a_terminal_either(self, home: Home):
        home.policy.write_text(TWO)
        async with open_rig(home) as rig:
            order = Order(DEVICE, "shell_execute", SHELL, "cli:anna")
            task = rig.tasks.spawn("ask", rig.dispatcher.dispatch(order))
            with pytest.raises(Refused, match="asker does not count"):
                await rig.approvals.decide(yes(rig.key, await asked(rig)))
            rig.approvals.withdraw("enough")
            await task


class TestWhileAnAnswerIsRecorded:
    async def test_what_is_taken_back_meanwhile_stays_back_even_after_resuming(self, home: Home):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            answering = rig.tasks.spawn("answer", rig.approvals.decide(yes(rig.key, approval)))
            await asyncio.sleep(0)
            rig.dispatcher.stop("Stopped by anna.")
            assert rig.approvals.withdraw("Stopped by anna.") == 1
            rig.dispatcher.resume()
            assert (await answering).state is ApprovalState.WITHDRAWN
            result = await task
            assert result.error
            assert result.error.code is ErrorCode.CANCELLED
            assert rig.tools.seen == []

    async def test_an_operator_who_goes_away_has_answered_all_the_same(self, home: Home):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            answering = rig.tasks.spawn("answer", rig.approvals.decide(yes(rig.key, approval)))
            await asyncio.sleep(0)
            answering.cancel()
            assert (await asyncio.wait_for(task, 20)).error is None
            assert (await kinds_of(rig)).count(Kind.APPROVAL_GIVEN) == 1

    async def test_a_tool_that_changes_while_the_intent_is_written_is_not_called(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        async with open_rig(home) as rig:
            write = rig.disk.append_many

            async def slow(entries: list[Any]) -> list[Entry]:
                written = await write(entries)
                rig.tools.infos = [one.model_copy(update={"description": "other"}) for one in USUAL_TOOLS]
                await rig.connect()
                return written

            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            monkeypatch.setattr(rig.disk, "append_many", slow)
            await rig.approvals.decide(yes(rig.key, approval))
            result = await task
            assert result.error
            assert result.error.code is ErrorCode.CONTRACT_CHANGED
            assert rig.tools.seen == []

    async def test_a_grant_that_is_revoked_while_the_intent_is_written_lets_nothing_out(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            grant = signed_grant(rig.key, terms_for(approval, "anna"))
            await rig.approvals.decide(yes(rig.key, approval), grant)
            await task
            write = rig.disk.append_many

            async def slow(entries: list[Any]) -> list[Entry]:
                written = await write(entries)
                rig.policy.grants.revoke(grant.terms.id, "operator:anna")
                return written

            monkeypatch.setattr(rig.disk, "append_many", slow)
            result = await rig.call("shell_execute", **SHELL)
            assert result.error
            assert "revoked" in result.error.message
            assert len(rig.tools.seen) == 1


class TestFloods:
    async def test_an_agent_that_floods_is_refused_and_nobody_else_is(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(queue, "MOST_WAITING_OF_AGENT", 5)
        monkeypatch.setattr(queue, "MOST_WAITING_OF_AGENTS", 8)
        async with open_rig(home) as rig:

            def ask(actor: str) -> asyncio.Task[Any]:
                order = Order(DEVICE, "shell_execute", SHELL, actor)
                return rig.tasks.spawn("ask", rig.dispatcher.dispatch(order))

            async def refused_of(asks: list[asyncio.Task[Any]], in_line: int) -> set[asyncio.Task[Any]]:
                """Those that ended, once all but so many have; the others wait in the queue."""
                before = len(rig.approvals.list())
                done, waiting = set[asyncio.Task[Any]](), set(asks)
                async with asyncio.timeout(20):
                    while len(waiting) > in_line or len(rig.approvals.list()) < before + in_line:
                        ended, waiting = await asyncio.wait(waiting, timeout=0.02)
                        done |= ended
                assert len(waiting) == in_line
                return done

            flood = [ask("agent:flood") for _ in range(20)]
            done = await refused_of(flood, 5)
            assert {one.result().error.code for one in done} == {ErrorCode.QUEUE_FULL}
            # A name is only what an agent says: more names do not make more room than all agents have.
            others = [ask(f"agent:name-{number}") for number in range(10)]
            turned_away = await refused_of(others, 3)
            assert {one.result().error.code for one in turned_away} == {ErrorCode.QUEUE_FULL}
            person = ask("operator:anna")
            while len(rig.approvals.list()) < 9:
                await asyncio.wait_for(rig.asked.get(), 20)
            mine = next(one for one in rig.approvals.list() if one.actor == "operator:anna")
            await rig.approvals.decide(yes(rig.key, mine))
            assert (await person).error is None
            rig.approvals.withdraw("enough")
            await asyncio.gather(*flood, *others)
            refused = await rig.entries("kind:command_refused")
            assert sum(one.body["result"]["error"]["code"] == "queue_full" for one in refused) == 22


class Clock:
    """A wall clock that a test sets."""

    shift = timedelta()

    @classmethod
    def now(cls, zone: Any = None) -> datetime:
        return datetime.now(zone) + cls.shift

    fromisoformat = datetime.fromisoformat


class TestClocks:
    @pytest.mark.parametrize("hours", [-24, 1, 24 * 400])
    async def test_a_statement_outside_its_time_counts_for_nothing(
        self, home: Home, monkeypatch: pytest.MonkeyPatch, hours: int
    ):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            signed = yes(rig.key, approval)
            with monkeypatch.context() as patch:
                patch.setattr(Clock, "shift", timedelta(hours=hours))
                patch.setattr(core.statements, "datetime", Clock)
                with pytest.raises(Refused, match="expired, or is valid for too long"):
                    await rig.approvals.decide(signed)
            await rig.approvals.decide(signed)
            assert (await task).error is None

    async def test_what_waits_expires_by_time_that_passes_and_not_by_the_date(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        seconds = [0.0]
        async with open_rig(home, expiry_s=60, clock=lambda: seconds[0]) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            for days in (-400, 400):
                monkeypatch.setattr(Clock, "shift", timedelta(days=days))
                monkeypatch.setattr("core.policy.waiting.datetime", Clock)
                rig.approvals.expire_due()
                assert rig.approvals.get(approval.id).remaining_s == 60
            seconds[0] = 61
            rig.approvals.expire_due()
            result = await task
            assert result.error
            assert result.error.code is ErrorCode.APPROVAL_EXPIRED

    async def test_a_clock_that_is_set_back_brings_no_grant_back(self, home: Home):
        now = [datetime.now(UTC)]
        async with open_rig(home, grants=GrantBook(now=lambda: now[0])) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            ends = (now[0] + timedelta(minutes=10)).isoformat()
            grant = signed_grant(rig.key, terms_for(approval, "anna", expires=ends))
            await rig.approvals.decide(yes(rig.key, approval), grant)
            await task
            assert (await rig.call("shell_execute", **SHELL)).error is None
            for minutes in (11, -60):
                now[0] += timedelta(minutes=minutes)
                assert rig.dispatcher.explain(DEVICE, "shell_execute", SHELL, "operator:anna").grant == ""
            assert rig.policy.grants.get(grant.terms.id).over


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


class TestEdits:
    async def test_both_versions_are_journalled_and_the_old_signature_is_worthless(self, home: Home):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            first = await asked(rig)
            signed = yes(rig.key, first)
            other = {"command": "rm -rf build/cache"}
            await rig.approvals.edit(first.id, other, other, "operator:anna")
            second = await asked(rig)
            assert second.edited_from == first.id
            assert rig.approvals.get(first.id).edited_to == second.id
            assert second.request.digest != first.request.digest
            moved = signed.statement.model_copy(update={"approval": second.id})
            for worthless in (signed, rig.key.sign(moved)):
                with pytest.raises(Refused):
                    await rig.approvals.decide(worthless)
            assert rig.tools.seen == []
            await rig.approvals.decide(yes(rig.key, second))
            await task
            assert [one.parameters for one in rig.tools.seen] == [other]
            [edited] = [one for one in await rig.entries() if one.kind is Kind.APPROVAL_EDITED]
            assert (edited.body["before"], edited.body["after"]) == (SHELL, other)
            assert edited.actor == "operator:anna"

    async def test_an_edit_that_cannot_be_recorded_did_not_happen(self, home: Home):
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            approval = await asked(rig)
            rig.disk.broken = True
            with pytest.raises(JournalUnavailable):
                await rig.approvals.edit(approval.id, {"command": "id"}, {"command": "id"}, "operator:anna")
            rig.disk.broken = False
            assert rig.approvals.get(approval.id).state is ApprovalState.WAITING
            await rig.approvals.decide(yes(rig.key, approval))
            await task
            assert [one.parameters for one in rig.tools.seen] == [SHELL]

    async def test_what_the_policy_would_allow_still_asks_after_an_edit(self, home: Home):
        home.policy.write_text(
            '[[rule]]\nid = "id"\ndecision = "allow"\ntool = "shell_execute"\n'
            '[rule.parameters.command]\nequals = "id"\n'
        )
        async with open_rig(home) as rig:
            task = rig.start("shell_execute", **SHELL)
            first = await asked(rig)
            await rig.approvals.edit(first.id, {"command": "id"}, {"command": "id"}, "operator:anna")
            second = await asked(rig)
            assert second.decision.answer is Answer.ASK
            await rig.approvals.decide(no(rig.key, second))
            assert (await task).error is not None
            assert rig.tools.seen == []

    async def test_a_secret_that_is_left_alone_is_sent_as_it_was_and_cannot_be_moved(self, home: Home):
        secret = {"type": "string", "writeOnly": True}
        text = {"type": "string"}
        infos = [tool_info("log_in", "action", {"user": text, "word": secret}, ["user", "word"])]
        async with open_rig(home, infos) as rig:
            task = rig.start("log_in", user="anna", word="tr0ub4dor")
            first = await asked(rig)
            masked = first.request.parameters["word"]
            assert "tr0ub4dor" not in str(first)
            for attack in ({"user": masked, "word": masked}, {"user": "anna", "word": {"$secret": "0" * 64}}):
                with pytest.raises(QuarterdeckError, match="stand-in"):
                    rig.approvals.restored(first.id, attack)
            wanted = rig.approvals.restored(first.id, {"user": "bert", "word": masked})
            shown = rig.dispatcher.masked([DEVICE], "log_in", wanted)
            await rig.approvals.edit(first.id, wanted, shown, "operator:anna")
            second = await asked(rig)
            assert "tr0ub4dor" not in str(second)
            await rig.approvals.decide(yes(rig.key, second))
            await task
            assert [one.parameters for one in rig.tools.seen] == [{"user": "bert", "word": "tr0ub4dor"}]
            assert "tr0ub4dor" not in str(await rig.entries())


async def test_hasty_approvals_are_noticed_and_journalled_and_time_counts_from_the_first_look(home: Home):
    seconds = [0.0]
    async with open_rig(home, expiry_s=600, clock=lambda: seconds[0]) as rig:
        for number in range(12):
            task = rig.start("shell_execute", command=f"echo {number}")
            approval = await asked(rig)
            seconds[0] += 30
            rig.approvals.hold(approval.id, "window", True)
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


def test_a_short_code_is_the_head_of_the_digest():
    assert short_code("0123456789abcdef") == "0123 4567"
