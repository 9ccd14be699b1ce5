"""Attacks on approvals: floods, clocks, and what happens while an answer is being recorded."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import core.statements
from core.approvals.models import ApprovalState
from core.audit.entries import Entry, Kind
from core.commands.request import CommandRequest
from core.errors import ErrorCode, Refused
from core.home import Home
from core.policy.grant_book import GrantBook
from core.statements import short_code
from tests.fakes.operator_answers import SHELL, asked, kinds_of, signed_grant, terms_for, yes
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, USUAL_TOOLS, open_rig


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
            assert (await asyncio.wait_for(task, PATIENCE_S)).error is None
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
    async def test_an_agent_that_floods_is_refused_and_nobody_else_is(self, home: Home):
        async with open_rig(home) as rig:

            def ask(actor: str) -> asyncio.Task[Any]:
                order = CommandRequest(DEVICE, "shell_execute", SHELL, actor)
                return rig.tasks.spawn("ask", rig.dispatcher.dispatch(order))

            async def refused_of(asks: list[asyncio.Task[Any]], in_line: int) -> set[asyncio.Task[Any]]:
                """Those that ended, once all but so many have; the others wait in the queue."""
                done, waiting = set[asyncio.Task[Any]](), set(asks)
                async with asyncio.timeout(PATIENCE_S):
                    for _ in range(in_line):
                        await rig.asked.get()
                    while len(waiting) > in_line:
                        ended, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                        done |= ended
                assert len(waiting) == in_line
                return done

            flood = [ask("agent:flood") for _ in range(40)]
            done = await refused_of(flood, 20)
            assert {one.result().error.code for one in done} == {ErrorCode.QUEUE_FULL}
            others = [ask("agent:other") for _ in range(3)]
            assert not await refused_of(others, 3)
            person = ask("operator:anna")
            await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
            mine = next(one for one in rig.approvals.list() if one.actor == "operator:anna")
            await rig.approvals.decide(yes(rig.key, mine))
            assert (await person).error is None
            rig.approvals.withdraw("enough")
            await asyncio.gather(*flood, *others)
            refused = await rig.entries("kind:command_refused")
            assert sum(one.body["result"]["error"]["code"] == "queue_full" for one in refused) == 20


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
                monkeypatch.setattr("core.approvals.queue.datetime", Clock)
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


def test_a_short_code_is_the_head_of_the_digest():
    assert short_code("0123456789abcdef") == "0123 4567"
