"""A grant answers the requests that wait when it is given: those it covers, as new ones, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from core.approvals.models import Approval, ApprovalState
from core.audit.entries import Entry, Kind, NewEntry
from core.batch.models import RunState
from core.commands.request import CommandRequest
from core.commands.results import CommandResult
from core.dispatch.command import DispatchedCommand
from core.errors import ErrorCode, Refused
from core.home import Home
from core.policy.constraints import Constraint
from core.policy.models import Decision
from core.policy.policy_file import parse_policy
from core.service.local_console import LocalConsole
from core.service.recovery import recover
from core.service.service import Service
from core.service.time_machine import try_over_journal
from tests.fakes.agents import agent_of
from tests.fakes.desk import choose_channel, open_service
from tests.fakes.operator_answers import TWO, asked, no, signed_grant, terms_for, yes
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, Rig, open_rig, tool_info
from tests.fakes.signing import anna, signing

ANY_COMMAND = {"arguments": {"command": "any"}}
LINES = ("rm -rf a", "rm -rf b", "rm -rf c", "rm -rf d", "rm -rf e")

Task = asyncio.Task[CommandResult]


def ask_as(rig: Rig, actor: str, command: str, **more: Any) -> Task:
    """Dispatch a command of an agent in the background."""
    order = CommandRequest(DEVICE, "shell_execute", {"command": command}, actor, operators=(), **more)
    return rig.tasks.spawn(f"call of {actor}", rig.dispatcher.dispatch(order))


async def waiting(rig: Rig, commands: tuple[str, ...] = LINES) -> tuple[list[Task], list[Approval]]:
    """One request for each command, each of which waits."""
    tasks, approvals = [], []
    for command in commands:
        tasks.append(rig.start("shell_execute", command=command))
        approvals.append(await asked(rig))
    return tasks, approvals


async def grant(rig: Rig, approval: Approval, **changes: Any) -> str:
    """Approve a request and grant with it; gives the id of the grant."""
    signed = signed_grant(rig.key, terms_for(approval, "anna", **changes))
    await rig.approvals.decide(yes(rig.key, approval), signed)
    return signed.terms.id


def state(rig: Rig, approval: Approval) -> ApprovalState:
    return rig.approvals.get(approval.id).state


def ran(rig: Rig) -> list[str]:
    return [str((command.parameters or {})["command"]) for command in rig.tools.seen]


async def settle(rig: Rig, tasks: list[Task], most: int) -> None:
    """Wait until as many have ended as can, then until a read that begins later has gone all its way."""
    while sum(task.done() for task in tasks) < most:
        await asyncio.wait([one for one in tasks if not one.done()], return_when=asyncio.FIRST_COMPLETED)
    await rig.call("get_system_info", info_type="os")
    rig.tools.seen = [one for one in rig.tools.seen if one.tool_name != "get_system_info"]


async def end(rig: Rig, tasks: list[Task]) -> list[CommandResult]:
    rig.approvals.withdraw("enough")
    return list(await asyncio.gather(*tasks))


def of_call(entries: list[Entry], approval: Approval) -> list[Entry]:
    return [one for one in entries if one.call_id == approval.request.call_id]


class TestCovered:
    async def test_what_waits_and_is_covered_goes_on_and_the_journal_names_the_grant(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig)
            given = await grant(rig, approvals[0], **ANY_COMMAND)
            assert all(one.error is None for one in await asyncio.gather(*tasks))
            assert sorted(ran(rig)) == sorted(LINES)
            assert rig.approvals.list() == []
            entries = await rig.entries()
            for one in approvals[1:]:
                kinds = [entry.kind for entry in of_call(entries, one)]
                assert Kind.APPROVAL_GIVEN not in kinds
                assert kinds == [
                    Kind.COMMAND_PREPARED,
                    Kind.COMMAND_DECIDED,
                    Kind.APPROVAL_REQUESTED,
                    Kind.COMMAND_DECIDED,
                    Kind.GRANT_USED,
                    Kind.INTENT_RECORDED,
                    Kind.COMMAND_SENT,
                    Kind.RESULT_RECORDED,
                ]
                first, last = [e for e in of_call(entries, one) if e.kind is Kind.COMMAND_DECIDED]
                assert (first.body["decision"]["answer"], first.body["decision"]["grant"]) == ("ask", "")
                assert (last.body["decision"]["answer"], last.body["decision"]["grant"]) == ("allow", given)
                [used] = [e for e in of_call(entries, one) if e.kind is Kind.GRANT_USED]
                assert used.body["grant"] == given
                assert used.body["approval"] == one.id
                ended = rig.approvals.get(one.id)
                assert ended.decided_by == f"grant {given} of anna"
                assert ended.signed == []
            assert rig.policy.grants.get(given).used == len(approvals) - 1
            trial = await try_over_journal(
                rig.journal, parse_policy(""), lambda name: rig.fleet.target(name).device, 10
            )
            assert (trial.commands, trial.skipped) == (len(approvals), 0)

    async def test_a_use_is_counted_for_each_and_those_beyond_the_count_wait_on(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig)
            given = await grant(rig, approvals[0], uses=2, **ANY_COMMAND)
            await settle(rig, tasks, 3)
            assert len(ran(rig)) == 3
            assert rig.policy.grants.get(given).used == 2
            assert [state(rig, one) for one in approvals].count(ApprovalState.WAITING) == 2
            results = await end(rig, tasks)
            assert [one.error.code for one in results if one.error] == [ErrorCode.CANCELLED] * 2
            assert len(ran(rig)) == 3

    async def test_new_requests_and_waiting_ones_together_never_use_it_more_often_than_it_says(
        self, home: Home
    ):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig)
            giving = rig.tasks.spawn("grant", grant(rig, approvals[0], uses=3, **ANY_COMMAND))
            for number in range(5):
                tasks.append(rig.start("shell_execute", command=f"rm -rf new{number}"))
            given = await giving
            await settle(rig, tasks, 4)
            assert len(ran(rig)) == 4
            assert rig.policy.grants.get(given).used == 3
            await end(rig, tasks)
            assert len(ran(rig)) == 4
            assert len(await rig.entries("kind:grant_used")) == 3

    async def test_a_request_that_went_on_so_is_not_closed_again_after_a_kill(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            await grant(rig, approvals[0], **ANY_COMMAND)
            await asyncio.gather(*tasks)
            recovered = await recover(rig.journal)
            assert recovered.approvals == 0
            assert await rig.entries("kind:approval_expired") == []


class TestNotCovered:
    @pytest.mark.parametrize(
        ("changes", "commands"),
        [
            (
                {"arguments": {"command": Constraint(one_of=["rm -rf a", "rm -rf z"])}},
                ("rm -rf a", "rm -rf b"),
            ),
            (ANY_COMMAND, ("rm -rf a", "rm -rf / --no-preserve-root")),
        ],
        ids=["another argument", "a higher risk"],
    )
    async def test_what_the_terms_do_not_say_waits_on(
        self, home: Home, changes: dict[str, Any], commands: tuple[str, ...]
    ):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, commands)
            await grant(rig, approvals[0], **changes)
            await settle(rig, tasks, 1)
            assert state(rig, approvals[1]) is ApprovalState.WAITING
            await end(rig, tasks)
            assert ran(rig) == ["rm -rf a"]

    async def test_another_agents_request_and_another_runs_wait_on(self, home: Home):
        async with open_rig(home) as rig:
            tasks = [ask_as(rig, "agent:clerk", "rm -rf a", run="r-1")]
            first = await asked(rig)
            for actor, run in (("agent:other", "r-1"), ("agent:clerk", "r-2"), ("agent:clerk", None)):
                tasks.append(ask_as(rig, actor, "rm -rf a", run=run))
                await asked(rig)
            await grant(rig, first, run="r-1")
            await settle(rig, tasks, 1)
            assert len(rig.approvals.list()) == 3
            await end(rig, tasks)
            assert len(ran(rig)) == 1

    async def test_what_two_operators_must_approve_or_a_rule_asks_about_each_time_waits_on(self, home: Home):
        rule = TWO.replace(
            "approvers = 2\n", 'approvers = 2\n[rule.parameters.command]\nequals = "rm -rf b"\n'
        )
        each = (
            '[[rule]]\nid = "each"\ndecision = "ask"\ntool = "shell_execute"\n'
            '[rule.parameters.command]\nequals = "rm -rf c"\n'
        )
        async with open_rig(home) as rig:
            rig.use_policy(rule + each)
            tasks, approvals = await waiting(rig, LINES[:3])
            assert approvals[1].approvers == 2
            # One of the two has approved already: the grant is not the second.
            ben = rig.add_operator("ben")
            await rig.approvals.decide(yes(ben, approvals[1]))
            await grant(rig, approvals[0], **ANY_COMMAND)
            await settle(rig, tasks, 1)
            assert [state(rig, one) for one in approvals[1:]] == [ApprovalState.WAITING] * 2
            await end(rig, tasks)
            assert ran(rig) == ["rm -rf a"]

    async def test_what_an_operator_edited_waits_for_an_operator(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            changed = {"command": "rm -rf z"}
            await rig.approvals.edit(approvals[1].id, changed, changed, "operator:anna", "anna")
            edited = await asked(rig)
            await grant(rig, approvals[0], **ANY_COMMAND)
            await settle(rig, tasks, 1)
            assert state(rig, edited) is ApprovalState.WAITING
            await end(rig, tasks)
            assert ran(rig) == ["rm -rf a"]


class TestJudgedAsNew:
    """The card may be hours old: what holds now is what counts, as it would for a new request."""

    @pytest.mark.parametrize("decision", ["deny", "ask"])
    async def test_a_rule_that_came_meanwhile_holds(self, home: Home, decision: str):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            rig.home.policy.write_text(
                f'[[rule]]\nid = "late"\ndecision = "{decision}"\ntool = "shell_execute"\n'
                '[rule.parameters.command]\nequals = "rm -rf b"\n'
            )
            given = await grant(rig, approvals[0], **ANY_COMMAND)
            await settle(rig, tasks, 1)
            assert state(rig, approvals[1]) is ApprovalState.WAITING
            assert rig.policy.grants.get(given).used == 0
            await end(rig, tasks)
            assert ran(rig) == ["rm -rf a"]

    async def test_a_device_that_wants_signatures_now_is_sent_nothing(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            await rig.connect(approvers=1)
            await grant(rig, approvals[0], **ANY_COMMAND)
            await settle(rig, tasks, 1)
            assert state(rig, approvals[1]) is ApprovalState.WAITING
            await end(rig, tasks)
            assert "rm -rf b" not in ran(rig)

    async def test_a_tool_that_is_another_one_now_is_not_called(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            text = {"type": "string"}
            rig.tools.infos = [
                tool_info("shell_execute", "action", {"command": text, "as_root": text}, ["command"])
                if one.tool_name == "shell_execute"
                else one
                for one in rig.tools.infos
            ]
            await rig.connect()
            await grant(rig, approvals[0], **ANY_COMMAND)
            await settle(rig, tasks, 1)
            assert state(rig, approvals[1]) is ApprovalState.WAITING
            await end(rig, tasks)
            assert ran(rig) == []

    async def test_a_tool_of_which_other_facts_hold_now_is_asked_about_again(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            rig.use_policy('[[contract]]\ntool = "shell_execute"\nreversible = false\nwhy = "it was tried"\n')
            new = rig.start("shell_execute", command="rm -rf c")
            given = await grant(rig, await asked(rig), **ANY_COMMAND)
            assert (await new).error is None
            await settle(rig, [new], 1)
            assert [state(rig, one) for one in approvals] == [ApprovalState.WAITING] * 2
            assert rig.policy.grants.get(given).used == 0
            # Nor does the approval of what the old card shows send anything.
            await rig.approvals.decide(yes(rig.key, approvals[0]))
            result = await tasks[0]
            assert result.error is not None
            assert result.error.code is ErrorCode.CONTRACT_CHANGED
            await end(rig, tasks)
            assert ran(rig) == ["rm -rf c"]

    async def test_what_is_shown_otherwise_now_than_on_its_card_waits_on(self, home: Home):
        """As when another of its arguments is found to be a secret by now."""
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            judge = rig.dispatcher._judge_again

            async def shown_otherwise(request: CommandRequest) -> tuple[DispatchedCommand, Decision]:
                command, decision = await judge(request)
                command.shown = command.shown.model_copy(update={"digest": "0" * 64})
                return command, decision

            rig.dispatcher._judge_again = shown_otherwise  # type: ignore[method-assign]
            given = await grant(rig, approvals[0], **ANY_COMMAND)
            await settle(rig, tasks, 1)
            assert state(rig, approvals[1]) is ApprovalState.WAITING
            assert rig.policy.grants.get(given).used == 0
            await end(rig, tasks)
            assert ran(rig) == ["rm -rf a"]

    async def test_a_journal_that_takes_nothing_lets_nothing_go_on(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            book = rig.policy.grants
            add = book.add

            def add_and_break(terms: Any) -> Any:
                given = add(terms)
                rig.disk.broken = True
                return given

            book.add = add_and_break  # type: ignore[method-assign]
            await grant(rig, approvals[0], **ANY_COMMAND)
            result = await tasks[0]
            assert result.error is not None
            assert result.error.code is ErrorCode.JOURNAL_UNAVAILABLE
            rig.disk.broken = False
            await settle(rig, tasks, 1)
            assert state(rig, approvals[1]) is ApprovalState.WAITING
            await end(rig, tasks)
            assert ran(rig) == []


class TestRaces:
    @pytest.mark.parametrize("deny_first", [True, False])
    async def test_a_denial_at_the_same_moment_and_the_grant_never_both_count(
        self, home: Home, deny_first: bool
    ):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            deny, give = (
                rig.approvals.decide(no(rig.key, approvals[1])),
                grant(rig, approvals[0], **ANY_COMMAND),
            )
            both = (deny, give) if deny_first else (give, deny)
            answers = await asyncio.gather(*both, return_exceptions=True)
            result = (await asyncio.gather(*tasks))[1]
            denied = await rig.entries("kind:approval_denied")
            used = await rig.entries("kind:grant_used")
            # A denial that is being recorded wins, whichever was asked for first.
            assert not [one for one in answers if isinstance(one, BaseException)]
            assert (len(denied), len(used)) == (1, 0)
            assert result.error is not None
            assert result.error.code is ErrorCode.DENIED_BY_OPERATOR
            assert ran(rig) == ["rm -rf a"]

    async def test_a_denial_that_is_being_recorded_is_not_overtaken(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            began, release = asyncio.Event(), asyncio.Event()
            append = rig.disk.append

            async def slow(entry: NewEntry) -> Entry:
                began.set()
                await release.wait()
                return await append(entry)

            rig.disk.append = slow  # type: ignore[method-assign]
            denying = rig.tasks.spawn("deny", rig.approvals.decide(no(rig.key, approvals[1])))
            await began.wait()
            given = await grant(rig, approvals[0], **ANY_COMMAND)
            await settle(rig, tasks, 1)
            assert state(rig, approvals[1]) is ApprovalState.WAITING
            assert rig.policy.grants.get(given).used == 0
            release.set()
            await denying
            result = (await asyncio.gather(*tasks))[1]
            assert result.error is not None
            assert result.error.code is ErrorCode.DENIED_BY_OPERATOR
            assert ran(rig) == ["rm -rf a"]

    async def test_a_denial_after_the_grant_is_too_late_and_says_so(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            await grant(rig, approvals[0], **ANY_COMMAND)
            await asyncio.gather(*tasks)
            with pytest.raises(Refused, match="approved already"):
                await rig.approvals.decide(no(rig.key, approvals[1]))

    async def test_stop_all_right_after_the_grant_lets_nothing_leave(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig)
            await grant(rig, approvals[0], **ANY_COMMAND)
            rig.dispatcher.stop("Everything was stopped.")
            rig.approvals.withdraw("Everything was stopped; nothing was sent.")
            results = await asyncio.gather(*tasks)
            assert ran(rig) == []
            assert {one.error.code for one in results if one.error} == {ErrorCode.STOPPED}
            assert len(results) == len(LINES)

    async def test_a_grant_that_is_revoked_right_after_it_was_given_lets_nothing_that_waits_leave(
        self, home: Home
    ):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig)
            given = await grant(rig, approvals[0], **ANY_COMMAND)
            rig.policy.grants.revoke(given, "operator:anna")
            await settle(rig, tasks, 1)
            await end(rig, tasks)
            assert ran(rig) == ["rm -rf a"]

    async def test_a_request_whose_time_is_over_does_not_go_on(self, home: Home):
        now = [0.0]
        async with open_rig(home, expiry_s=60.0, clock=lambda: now[0]) as rig:
            first = rig.start("shell_execute", command="rm -rf a")
            await asked(rig)
            now[0] = 30.0
            second = rig.start("shell_execute", command="rm -rf b")
            approval = await asked(rig)
            # The clock is past the end of the first, and its timer has not come to it yet.
            now[0] = 75.0
            await grant(rig, approval, **ANY_COMMAND)
            assert (await second).error is None
            await settle(rig, [first, second], 1)
            rig.approvals.expire_due()
            result = await first
            assert result.error is not None
            assert result.error.code is ErrorCode.APPROVAL_EXPIRED
            assert ran(rig) == ["rm -rf b"]

    async def test_a_command_of_a_cancelled_run_does_not_go_on(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:1])
            cancelled = [False]
            tasks.append(ask_as(rig, "operator:anna", "rm -rf b", cancelled=lambda: cancelled[0]))
            await asked(rig)
            cancelled[0] = True
            given = await grant(rig, approvals[0], **ANY_COMMAND)
            await settle(rig, tasks, 1)
            await end(rig, tasks)
            assert ran(rig) == ["rm -rf a"]
            assert rig.policy.grants.get(given).used == 0

    async def test_an_asker_who_goes_in_the_middle_of_it_takes_the_request_along(self, home: Home):
        async with open_rig(home) as rig:
            tasks, approvals = await waiting(rig, LINES[:2])
            await grant(rig, approvals[0], **ANY_COMMAND)
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert rig.approvals.list() == []
            assert ran(rig) == ["rm -rf a"]


class TestThroughTheService:
    """A grant given at the door of the real service, with the real device client in the same process."""

    @pytest.fixture
    async def service(self, home: Home) -> AsyncIterator[Service]:
        choose_channel(home, "in-process")
        async with open_service(home) as service:
            yield service

    async def waits_for(self, service: Service, run: str) -> Approval:
        events = service.hub.subscribe()
        async with asyncio.timeout(PATIENCE_S):
            while not (found := [one for one in service.approvals.list() if one.run == run]):
                await anext(events)
        events.close()
        return found[0]

    async def test_runs_of_an_agent_that_wait_go_on_and_a_cancelled_one_does_not(
        self, service: Service, home: Home, tmp_path: Path
    ):
        console, agent = (
            signing(LocalConsole(service, "operator:anna"), home),
            await agent_of(service, "clerk"),
        )
        key = anna(home)
        places = [tmp_path / str(number) for number in range(4)]
        runs, approvals = [], []
        for place in places:
            run = await agent.runs.call("this-computer", "shell_execute", {"command": f"touch {place}"})
            runs.append(run.summary.id)
            approvals.append(await self.waits_for(service, run.summary.id))
        await console.runs.stop(runs[3])
        terms = terms_for(approvals[0], key.name, devices=["this-computer"], **ANY_COMMAND)
        await console.approvals.decide(yes(key, approvals[0]), signed_grant(key, terms))
        states = [(await console.runs.wait(run, 60)).summary.state for run in runs]
        assert [place.exists() for place in places] == [True, True, True, False]
        assert states == [RunState.DONE] * 3 + [RunState.CANCELLED]
        assert [one.used for one in await console.approvals.grants()] == [2]
        assert (await console.journal.verify()).ok
