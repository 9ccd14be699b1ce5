"""One call answers many requests: each by a signature of its own, each with its fate and its entry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import core.statements
from core.approvals import queue
from core.approvals.models import AnswerFate, Approval, ApprovalState, NotTaken
from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.audit.entries import Entry, Kind, NewEntry
from core.commands.request import CommandRequest
from core.commands.results import CommandResult
from core.dispatch import approval_stage
from core.errors import BadInput, ErrorCode, JournalUnavailable
from core.home import Home
from core.statements import SignedStatement, verify_signature
from tests.fakes.operator_answers import TWO, asked, no, yes
from tests.fakes.rig import DEVICE, Rig, open_rig

Waiting = tuple[list[Approval], list[asyncio.Task[CommandResult]]]


@asynccontextmanager
async def waiting(home: Home, count: int, **more: Any) -> AsyncIterator[tuple[Rig, Waiting]]:
    """A rig with so many requests that wait, in the order in which they were asked."""
    async with open_rig(home, **more) as rig:
        approvals, tasks = [], []
        for number in range(count):
            tasks.append(rig.start("shell_execute", command=f"rm -rf build-{number}"))
            approvals.append(await asked(rig))
        yield rig, (approvals, tasks)
        rig.approvals.withdraw("The test is over.")


def whys(fates: list[AnswerFate]) -> list[NotTaken | None]:
    return [fate.why for fate in fates]


def moved(key: OperatorKey, signed_for: Approval, named: str) -> SignedStatement:
    """A true signature over one request's digest, under the id of another request."""
    statement = yes(key, signed_for).statement
    return key.sign(statement.model_copy(update={"approval": named}))


async def answers(rig: Rig) -> list[Entry]:
    kinds = (Kind.APPROVAL_GIVEN, Kind.APPROVAL_DENIED, Kind.APPROVAL_REJECTED)
    return [entry for entry in await rig.entries() if entry.kind in kinds]


class TestTaken:
    async def test_all_are_taken_in_one_write_with_an_entry_each_that_proves_it(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        async with waiting(home, 5) as (rig, (approvals, tasks)):
            writes: list[list[NewEntry]] = []
            write = rig.disk.append_many

            async def counted(entries: list[NewEntry]) -> list[Entry]:
                writes.append(entries)
                return await write(entries)

            monkeypatch.setattr(rig.disk, "append_many", counted)
            fates = await rig.approvals.decide_many([yes(rig.key, one) for one in approvals])
            assert [(fate.approval, fate.state, fate.why) for fate in fates] == [
                (one.id, ApprovalState.APPROVED, None) for one in approvals
            ]
            assert len(writes[0]) == 5
            assert all(one.error is None for one in await asyncio.gather(*tasks))
            entries = await answers(rig)
            assert [entry.body["approval"] for entry in entries] == [one.id for one in approvals]
            for entry, approval in zip(entries, approvals, strict=True):
                signed = SignedStatement.model_validate(entry.body["signed"])
                assert verify_signature(signed.statement, signed.signature, rig.key.public_key)
                assert signed.statement.request_digest == approval.request.digest
                assert entry.call_id == approval.request.call_id

    async def test_a_denial_of_all_reaches_each_asker(self, home: Home):
        async with waiting(home, 3) as (rig, (approvals, tasks)):
            fates = await rig.approvals.decide_many([no(rig.key, one) for one in approvals])
            assert {fate.state for fate in fates} == {ApprovalState.DENIED}
            errors = [one.error for one in await asyncio.gather(*tasks)]
            assert [error.code for error in errors if error] == [ErrorCode.DENIED_BY_OPERATOR] * 3
            assert rig.tools.seen == []

    async def test_what_is_not_taken_keeps_no_other_back(self, home: Home):
        async with waiting(home, 3) as (rig, (approvals, tasks)):
            signed = [yes(rig.key, one) for one in approvals]
            rig.approvals.withdraw_one(approvals[1].id, "Cancelled by anna.")
            fates = await rig.approvals.decide_many(signed)
            assert whys(fates) == [None, NotTaken.ENDED, None]
            assert fates[1].state is ApprovalState.WITHDRAWN
            assert fates[1].error is not None
            assert fates[1].error.message == "This request is withdrawn already."
            await asyncio.gather(*tasks)
            assert len(rig.tools.seen) == 2

    async def test_no_request_is_left_out_or_answered_beside_the_list(self, home: Home):
        async with waiting(home, 3) as (rig, (approvals, _)):
            await rig.approvals.decide_many([yes(rig.key, one) for one in approvals[:2]])
            assert rig.approvals.get(approvals[2].id).state is ApprovalState.WAITING
            assert len(await answers(rig)) == 2

    async def test_nothing_to_answer_is_nothing(self, home: Home):
        async with open_rig(home) as rig:
            assert await rig.approvals.decide_many([]) == []
            assert await answers(rig) == []

    async def test_a_journal_that_cannot_be_written_leaves_all_of_them_waiting(self, home: Home):
        async with waiting(home, 3) as (rig, (approvals, tasks)):
            signed = [yes(rig.key, one) for one in approvals]
            rig.disk.broken = True
            with pytest.raises(JournalUnavailable):
                await rig.approvals.decide_many(signed)
            rig.disk.broken = False
            assert [one.id for one in rig.approvals.list()] == [one.id for one in approvals]
            assert whys(await rig.approvals.decide_many(signed)) == [None] * 3
            assert all(one.error is None for one in await asyncio.gather(*tasks))

    async def test_an_operator_who_goes_away_has_answered_all_the_same(self, home: Home):
        async with waiting(home, 3) as (rig, (approvals, tasks)):
            signed = [yes(rig.key, one) for one in approvals]
            answering = rig.tasks.spawn("answer", rig.approvals.decide_many(signed))
            await asyncio.sleep(0)
            answering.cancel()
            assert all(one.error is None for one in await asyncio.gather(*tasks))

    async def test_what_is_stopped_meanwhile_is_not_sent_and_is_said(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        async with waiting(home, 2) as (rig, (approvals, tasks)):
            write = rig.disk.append_many

            async def stopped(entries: list[NewEntry]) -> list[Entry]:
                written = await write(entries)
                rig.approvals.withdraw("Stopped by anna.")
                return written

            monkeypatch.setattr(rig.disk, "append_many", stopped)
            fates = await rig.approvals.decide_many([yes(rig.key, one) for one in approvals])
            assert [(fate.state, fate.why) for fate in fates] == [
                (ApprovalState.WITHDRAWN, NotTaken.ENDED)
            ] * 2
            await asyncio.gather(*tasks)
            assert rig.tools.seen == []


class TestAttacks:
    async def test_a_request_that_is_named_twice_counts_once(self, home: Home):
        home.policy.write_text(TWO)
        async with waiting(home, 1) as (rig, ([approval], _)):
            bert = rig.add_operator("bert")
            fates = await rig.approvals.decide_many([yes(bert, approval)] * 3)
            assert whys(fates) == [None, NotTaken.BEING_ANSWERED, NotTaken.BEING_ANSWERED]
            assert rig.approvals.get(approval.id).approved_by == ["bert"]
            assert rig.tools.seen == []

    async def test_a_list_that_is_altered_after_signing_answers_nothing_new(self, home: Home):
        async with waiting(home, 3) as (rig, (approvals, _)):
            first, second = (yes(rig.key, one) for one in approvals[:2])
            added = first.statement.model_copy(
                update={"approval": approvals[2].id, "request_digest": approvals[2].request.digest}
            )
            altered = [
                # The signatures are exchanged.
                SignedStatement(statement=first.statement, signature=second.signature),
                SignedStatement(statement=second.statement, signature=first.signature),
                # A request is added under a signature for another one.
                SignedStatement(statement=added, signature=first.signature),
            ]
            assert whys(await rig.approvals.decide_many(altered)) == [NotTaken.NOT_SIGNED] * 3
            assert len(rig.approvals.list()) == 3
            assert rig.tools.seen == []
            rejected = await answers(rig)
            assert [entry.kind for entry in rejected] == [Kind.APPROVAL_REJECTED] * 3

    async def test_a_statement_for_another_request_than_it_names_is_not_taken(self, home: Home):
        async with waiting(home, 2) as (rig, (approvals, _)):
            # Truly signed, but the digest is that of the other request.
            mixed = moved(rig.key, approvals[0], approvals[1].id)
            [fate] = await rig.approvals.decide_many([mixed])
            assert (fate.why, fate.state) == (NotTaken.CHANGED, ApprovalState.WAITING)

    async def test_the_same_call_again_is_worthless(self, home: Home):
        async with waiting(home, 2) as (rig, (approvals, tasks)):
            signed = [yes(rig.key, one) for one in approvals]
            await rig.approvals.decide_many(signed)
            assert whys(await rig.approvals.decide_many(signed)) == [NotTaken.ENDED] * 2
            await asyncio.gather(*tasks)
            assert len(rig.tools.seen) == 2
            again = rig.start("shell_execute", command="rm -rf build-0")
            fresh = await asked(rig)
            [fate] = await rig.approvals.decide_many([moved(rig.key, approvals[0], fresh.id)])
            assert fate.why is NotTaken.CHANGED
            assert len(rig.tools.seen) == 2
            rig.approvals.withdraw("enough")
            await again

    async def test_a_request_that_was_edited_after_the_signature_is_not_approved(self, home: Home):
        async with waiting(home, 2) as (rig, (approvals, _)):
            signed = [yes(rig.key, one) for one in approvals]
            other = {"command": "rm -rf /srv"}
            await rig.approvals.edit(approvals[0].id, other, other, "operator:anna")
            edited = await asked(rig)
            signed.append(moved(rig.key, approvals[0], edited.id))
            fates = await rig.approvals.decide_many(signed)
            assert whys(fates) == [NotTaken.CHANGED, None, NotTaken.CHANGED]
            assert rig.approvals.get(edited.id).state is ApprovalState.WAITING
            assert "rm -rf /srv" not in str(rig.tools.seen)

    async def test_one_who_is_no_operator_answers_nothing(self, home: Home, tmp_path: Any):
        async with waiting(home, 2) as (rig, (approvals, _)):
            stranger = create_operator_key(Home(tmp_path / "other").create(), "mallory", None)
            fates = await rig.approvals.decide_many([yes(stranger, one) for one in approvals])
            assert whys(fates) == [NotTaken.NOT_SIGNED] * 2
            # Under the name of an operator, with another key.
            anna = create_operator_key(Home(tmp_path / "third").create(), "anna", None)
            fates = await rig.approvals.decide_many([yes(anna, one) for one in approvals])
            assert whys(fates) == [NotTaken.NOT_SIGNED] * 2
            assert rig.tools.seen == []

    async def test_the_asker_and_one_who_approved_already_do_not_count(self, home: Home):
        home.policy.write_text(TWO)
        async with waiting(home, 2) as (rig, (approvals, tasks)):
            bert, carl = rig.add_operator("bert"), rig.add_operator("carl")
            own = await rig.approvals.decide_many([yes(rig.key, one) for one in approvals])
            assert whys(own) == [NotTaken.NEEDS_OTHER_OPERATOR] * 2
            half = await rig.approvals.decide_many([yes(bert, one) for one in approvals])
            assert [(fate.state, fate.approved_by, fate.approvers, fate.why) for fate in half] == [
                (ApprovalState.WAITING, ["bert"], 2, None)
            ] * 2
            twice = await rig.approvals.decide_many([yes(bert, one) for one in approvals])
            assert whys(twice) == [NotTaken.NEEDS_OTHER_OPERATOR] * 2
            assert rig.tools.seen == []
            whole = await rig.approvals.decide_many([yes(carl, one) for one in approvals])
            assert {fate.state for fate in whole} == {ApprovalState.APPROVED}
            assert all(one.error is None for one in await asyncio.gather(*tasks))

    async def test_one_call_is_not_the_answer_of_two_operators(self, home: Home):
        home.policy.write_text(TWO)
        async with waiting(home, 1) as (rig, ([approval], _)):
            bert, carl = rig.add_operator("bert"), rig.add_operator("carl")
            with pytest.raises(BadInput, match="one operator"):
                await rig.approvals.decide_many([yes(bert, approval), yes(carl, approval)])
            assert rig.approvals.get(approval.id).approved_by == []

    async def test_more_than_may_wait_are_refused_before_any_is_looked_at(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(queue, "MOST_WAITING", 2)
        async with waiting(home, 2) as (rig, (approvals, _)):
            with pytest.raises(BadInput, match="at most 2"):
                await rig.approvals.decide_many([yes(rig.key, approvals[0])] * 3)
            assert len(rig.approvals.list()) == 2

    async def test_an_unknown_id_is_said_and_costs_no_search_for_what_is_like_it(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        async with waiting(home, 1) as (rig, ([approval], _)):
            monkeypatch.setattr(queue, "meant_or_known", lambda *_: pytest.fail("it was searched"))
            unknown = moved(rig.key, approval, "a-unknown")
            [fate] = await rig.approvals.decide_many([unknown])
            assert (fate.why, fate.state) == (NotTaken.NOT_FOUND, None)

    async def test_answers_that_come_at_once_from_two_sides_are_counted_once(self, home: Home):
        async with waiting(home, 3) as (rig, (approvals, tasks)):
            signed = [yes(rig.key, one) for one in approvals]
            both = await asyncio.gather(rig.approvals.decide_many(signed), rig.approvals.decide_many(signed))
            assert whys(both[0]) == [None] * 3
            assert whys(both[1]) == [NotTaken.BEING_ANSWERED] * 3
            await asyncio.gather(*tasks)
            assert len(rig.tools.seen) == 3
            assert len(await answers(rig)) == 3


class Clock:
    """A wall clock that a test sets forward."""

    shift = timedelta()

    @classmethod
    def now(cls, zone: Any = None) -> datetime:
        return datetime.now(zone) + cls.shift

    fromisoformat = datetime.fromisoformat


class TestTime:
    async def test_a_signature_has_to_be_valid_when_the_call_comes(self, home: Home):
        async with waiting(home, 2) as (rig, (approvals, _)):
            past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
            late = (datetime.now(UTC) + timedelta(days=1)).isoformat()
            fates = await rig.approvals.decide_many(
                [yes(rig.key, approvals[0], expires=past), yes(rig.key, approvals[1], expires=late)]
            )
            assert whys(fates) == [NotTaken.EXPIRED] * 2
            assert [fate.state for fate in fates] == [ApprovalState.WAITING] * 2
            assert rig.tools.seen == []

    async def test_no_signature_and_no_request_expires_while_the_answers_before_it_are_taken(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        seconds = [0.0]
        async with waiting(home, 3, expiry_s=60, clock=lambda: seconds[0]) as (rig, (approvals, tasks)):
            signed = [yes(rig.key, one) for one in approvals]
            check = rig.operators.check_signature

            def slow(one: SignedStatement) -> Any:
                # Each signature takes so long that all are over after the first, and so are the requests.
                seconds[0] += 100
                monkeypatch.setattr(Clock, "shift", timedelta(seconds=seconds[0]))
                rig.approvals.expire_due()
                return check(one)

            monkeypatch.setattr(core.statements, "datetime", Clock)
            monkeypatch.setattr(rig.operators, "check_signature", slow)
            write = rig.disk.append_many

            async def quick_again(entries: list[NewEntry]) -> list[Entry]:
                monkeypatch.setattr(Clock, "shift", timedelta())
                return await write(entries)

            monkeypatch.setattr(rig.disk, "append_many", quick_again)
            fates = await rig.approvals.decide_many(signed)
            assert whys(fates) == [None] * 3
            assert all(one.error is None for one in await asyncio.gather(*tasks))

    async def test_the_time_in_which_answers_are_recorded_does_not_count_against_them(
        self, home: Home, monkeypatch: pytest.MonkeyPatch
    ):
        async with open_rig(home) as rig:
            order = CommandRequest(DEVICE, "shell_execute", {"command": "rm -rf build"}, "cli:anna")
            task = rig.tasks.spawn("ask", rig.dispatcher.dispatch(order))
            approval = await asked(rig)
            # Good for a second, of which the write of the answers takes more.
            signed = yes(rig.key, approval, expires=(datetime.now(UTC) + timedelta(seconds=1)).isoformat())
            write = rig.disk.append_many

            async def slow(entries: list[NewEntry]) -> list[Entry]:
                written = await write(entries)
                later = SimpleNamespace(monotonic=lambda: time.monotonic() + 2)
                monkeypatch.setattr(approval_stage, "time", later)
                monkeypatch.setattr(Clock, "shift", timedelta(seconds=2))
                monkeypatch.setattr(core.statements, "datetime", Clock)
                return written

            monkeypatch.setattr(rig.disk, "append_many", slow)
            assert whys(await rig.approvals.decide_many([signed])) == [None]
            assert (await task).error is None
