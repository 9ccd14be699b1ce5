"""The time machine: what an edited policy would have said of the commands that the journal has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.approvals.operator_keys import statement_for
from core.audit.entries import Entry, Kind
from core.audit.models import Page
from core.commands.request import CommandRequest, Purpose
from core.home import Home
from core.models.devices import Device
from core.policy.models import Answer
from core.policy.policy_file import PolicyFile, parse_policy
from core.service.time_machine import PAGE, try_over_journal
from tests.fakes.policy_calls import a_device
from tests.fakes.rig import DEVICE, Rig, open_rig
from tests.fakes.work import most_calls

CALLS_FOR_AN_ENTRY = 500

ALLOW_SHELL = '[[rule]]\nid = "open"\ndecision = "allow"\ntool = "shell_execute"\nrisk = ">=low"\n'


def nobody(name: str) -> Device | None:
    return None


class Pages:
    """A journal of made-up entries, given out page by page."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.asked = 0
        self.under_way = asyncio.Event()

    async def query(
        self, query: str, before: int | None = None, after: int | None = None, limit: int = 200
    ) -> Page:
        self.asked += 1
        if self.asked == 3:
            self.under_way.set()
        start = after or 0
        rows = self.entries[start : start + limit]
        end = start + len(rows)
        return Page(
            entries=rows,
            count=len(rows),
            count_exact=True,
            complete=True,
            searched_to=None,
            next_before=None,
            next_after=end if end < len(self.entries) else None,
            took_ms=0.0,
        )


def entry(seq: int, kind: Kind, call: str, body: dict[str, Any], tool: str, device: str = "lab-1") -> Entry:
    return Entry(
        seq=seq,
        time="2026-11-16T12:00:00.000000Z",
        kind=kind,
        actor="agent:night",
        device=device,
        call_id=call,
        tool=tool,
        body=body,
    )


def command(
    number: int,
    answer: str = "ask",
    *,
    tool: str = "shell_execute",
    parameters: dict[str, Any] | None = None,
    tags: list[str] | None = None,
    human: Kind | None = None,
    glimpse: bool = False,
    **decided: Any,
) -> Iterator[Entry]:
    call = f"c{number}"
    sent = {"command": "ls"} if parameters is None else parameters
    prepared = {
        "digest": "",
        "contract": "0" * 64,
        "tool_key": f"action::{tool}",
        "tool_type": "action",
        "namespace": "builtin",
        "parameters": sent,
        "said": "",
    }
    decision = {
        "answer": answer,
        "risk": "high",
        "effect": "unknown",
        "profile": "guarded",
        "summary": f"command {number}",
        "reasons": [],
        "findings": [],
        **decided,
    }
    body: dict[str, Any] = {"decision": decision}
    if tags is not None:
        body |= {"tags": tags, "production": False}
    if glimpse:
        prepared["glimpse"] = body["glimpse"] = True
    yield entry(3 * number + 1, Kind.COMMAND_PREPARED, call, prepared, tool)
    yield entry(3 * number + 2, Kind.COMMAND_DECIDED, call, body, tool)
    if human is not None:
        yield entry(3 * number + 3, human, call, {}, tool)


async def tried(text: str, *commands: Iterator[Entry], limit: int = 100, device_of: Any = nobody):
    journal = Pages([one for each in commands for one in each])
    return await try_over_journal(journal, parse_policy(text), device_of, limit)


async def test_commands_are_counted_by_what_the_edited_policy_says():
    trial = await tried(
        ALLOW_SHELL + '[[rule]]\nid = "no"\ndecision = "deny"\ntool = "write_file"\n',
        command(1, tags=[]),
        command(2, tags=[], tool="write_file"),
        command(3, "allow", tags=[], tool="other", risk="low", effect="change"),
        command(4, tags=[], tool="other"),
    )
    assert (trial.commands, trial.looked_at, trial.skipped) == (4, 4, 0)
    assert (trial.allowed, trial.asked, trial.denied) == (2, 1, 1)
    assert trial.changed == 2
    assert [(row.seq, row.was, row.now, row.rule) for row in trial.rows] == [
        (8, Answer.ASK, Answer.DENY, "no"),
        (5, Answer.ASK, Answer.ALLOW, "open"),
    ]


async def test_what_would_run_although_a_human_said_no_is_counted_apart():
    trial = await tried(
        ALLOW_SHELL,
        command(1, tags=[], human=Kind.APPROVAL_DENIED),
        command(2, tags=[], human=Kind.APPROVAL_GIVEN),
        command(3, tags=[]),
        command(4, tags=[], tool="other", human=Kind.APPROVAL_DENIED),
    )
    assert trial.allowed_but_denied_by_human == 1
    assert [(row.call_id, row.human) for row in trial.rows] == [
        ("c3", ""),
        ("c2", "approved"),
        ("c1", "denied"),
    ]


async def test_tags_count_as_they_were_and_old_entries_are_judged_by_the_tags_of_now():
    rule = ALLOW_SHELL + 'tag = "lab"\n'
    trial = await tried(
        rule,
        command(1, tags=["lab"]),
        command(2, tags=["prod"]),
        command(3),
        device_of=lambda name: a_device(name, "lab"),
    )
    assert (trial.allowed, trial.asked) == (2, 1)
    assert (await tried(rule, command(3))).skipped == 1


async def test_a_rule_on_a_secret_argument_cannot_be_tried():
    rule = '[[rule]]\nid = "x"\ndecision = "deny"\n[rule.parameters.password]\nmax_length = 3\n'
    secret = {"password": {"$secret": "abc"}}
    trial = await tried(rule, command(1, tags=[], parameters=secret), command(2, tags=[]))
    assert (trial.commands, trial.skipped, trial.looked_at) == (2, 1, 1)
    assert (await tried(ALLOW_SHELL, command(1, tags=[], parameters=secret))).allowed == 1


async def test_what_was_granted_stays_granted_where_nothing_else_speaks():
    granted = command(1, "allow", tags=[], grant="g1")
    trial = await tried("", granted)
    assert (trial.allowed, trial.changed) == (1, 0)
    trial = await tried('[[rule]]\nid = "a"\ndecision = "ask"\n', command(1, "allow", tags=[], grant="g1"))
    assert (trial.asked, trial.changed) == (1, 1)


def glimpse(number: int, **more: Any) -> Iterator[Entry]:
    """A picture of a live wall, as the dispatcher writes it."""
    return command(
        number, "allow", tool="screenshot", tags=[], glimpse=True, risk="low", effect="observe", **more
    )


async def test_live_pictures_are_counted_apart_from_commands():
    walls = [glimpse(number, parameters={}) for number in range(10, 1250)]
    trial = await tried(ALLOW_SHELL, command(1, tags=[]), *walls, command(2, tags=[], tool="other"))
    assert (trial.commands, trial.looked_at, trial.allowed, trial.asked) == (2, 2, 1, 1)
    assert (trial.glimpses, trial.glimpses_refused) == (1240, 0)
    assert [row.call_id for row in trial.rows] == ["c1"]


@pytest.mark.parametrize("answer", ["ask", "deny"])
async def test_live_pictures_that_would_be_refused_are_said_so_without_a_row(answer: str):
    rule = f'[[rule]]\nid = "no"\ndecision = "{answer}"\ntool = "screenshot"\n'
    pictures = (glimpse(1), glimpse(2), command(3, "allow", tags=[], tool="screenshot", effect="observe"))
    trial = await tried(rule, *pictures)
    assert (trial.glimpses, trial.glimpses_refused) == (2, 2)
    # A picture that somebody asked for is a command like any other.
    assert (trial.commands, trial.changed, [row.call_id for row in trial.rows]) == (1, 1, ["c3"])


async def test_live_pictures_that_cannot_be_judged_are_not_among_the_commands_left_out():
    rule = '[[rule]]\nid = "x"\ndecision = "deny"\n[rule.parameters.password]\nmax_length = 3\n'
    trial = await tried(rule, glimpse(1, parameters={"password": {"$secret": "abc"}}))
    assert (trial.commands, trial.skipped, trial.glimpses, trial.glimpses_refused) == (0, 0, 1, 0)


async def test_an_operators_word_on_a_tool_counts_but_what_the_arguments_do_still_does():
    lowered = '[[contract]]\ntool = "shell_execute"\neffect = "observe"\nrisk = "low"\nwhy = "a lab"\n'
    grave = [{"text": "Runs as root", "risk": "high"}]
    trial = await tried(lowered, command(1, tags=[]), command(2, tags=[], findings=grave))
    assert (trial.allowed, trial.asked) == (1, 1)


async def test_rows_are_the_newest_and_no_more_than_asked_for():
    commands = [command(number, tags=[]) for number in range(PAGE)]
    trial = await tried(ALLOW_SHELL, *commands, limit=5)
    assert trial.changed == PAGE
    assert [row.call_id for row in trial.rows] == [f"c{PAGE - 1 - number}" for number in range(5)]
    assert (await tried(ALLOW_SHELL, command(1, tags=[]), limit=0)).rows == []


async def test_a_command_is_found_again_over_the_edge_of_a_page():
    # An entry more at the front, so that every page ends between a command and its decision.
    front = entry(0, Kind.APPROVAL_GIVEN, "none", {}, "other")
    commands = [command(number, tags=[], human=Kind.APPROVAL_DENIED) for number in range(PAGE)]
    trial = await tried(ALLOW_SHELL, iter([front]), *commands)
    assert (trial.looked_at, trial.skipped, trial.allowed_but_denied_by_human) == (PAGE, 0, PAGE)


@pytest.fixture(scope="module")
def hundred_thousand() -> list[Entry]:
    # The same hundred again and again: judging them costs what judging others does, making them does not.
    return [one for number in range(100) for one in command(number, tags=["lab"])] * 1_000


def a_large_policy() -> PolicyFile:
    rules = [
        f'[[rule]]\nid = "r{n}"\ndecision = "deny"\n[rule.parameters.command]\nequals = "x{n}"\n'
        for n in range(500)
    ]
    return parse_policy("\n".join(rules) + ALLOW_SHELL)


async def test_it_says_how_far_it_has_come_after_every_page():
    commands = [command(number, tags=[]) for number in range(PAGE)]
    entries = [one for each in commands for one in each]
    told: list[int] = []
    await try_over_journal(Pages(entries), parse_policy(ALLOW_SHELL), nobody, 0, told.append)
    assert told == sorted(told)
    assert told[0] < told[-1] == entries[-1].seq


async def test_the_work_grows_no_faster_than_the_commands(hundred_thousand: list[Entry]):
    """Each command costs the same of thousands as of a page, under five hundred rules."""
    commands = 2_000
    entries = hundred_thousand[: commands * len([*command(0, tags=["lab"])])]
    with most_calls(CALLS_FOR_AN_ENTRY * len(entries)):
        trial = await try_over_journal(Pages(entries), a_large_policy(), nobody, 50)
    assert trial.allowed == commands
    assert len(trial.rows) == 50


async def test_a_trial_can_be_cancelled_and_lets_others_work_meanwhile(hundred_thousand: list[Entry]):
    journal = Pages(hundred_thousand)
    ticks = 0

    async def beside() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        other = group.create_task(beside())
        trial = group.create_task(try_over_journal(journal, a_large_policy(), nobody, 50))
        await journal.under_way.wait()
        trial.cancel()
        other.cancel()
    assert trial.cancelled()
    assert journal.asked < 10
    assert ticks > 2 * PAGE / 100


@pytest.fixture
async def rig(tmp_path: Path):
    async with open_rig(Home(tmp_path / "home").create()) as opened:
        yield opened


async def test_the_pictures_of_a_live_wall_in_a_real_journal_are_no_commands(rig: Rig):
    for _ in range(3):
        wall = CommandRequest(DEVICE, "screenshot", {}, "operator:anna", purpose=Purpose.LIVE_VIEW)
        await rig.dispatcher.dispatch(wall)
    await rig.call("screenshot")
    await rig.entries()
    lit = await try_over_journal(rig.journal, parse_policy(""), nobody, 10)
    assert (lit.commands, lit.glimpses, lit.glimpses_refused) == (1, 3, 0)
    dark = await try_over_journal(rig.journal, parse_policy('profile = "lockdown"\n'), nobody, 10)
    assert (dark.commands, dark.changed, dark.glimpses, dark.glimpses_refused) == (1, 1, 3, 3)


async def test_a_real_journal_is_tried(rig: Rig):
    await rig.call("get_system_info", info_type="os")
    denied = rig.start("shell_execute", command="ls")
    asked = await rig.asked.get()
    await rig.approvals.decide(rig.key.sign(statement_for(asked, "deny", "anna", "no")))
    await denied
    approved = rig.start("write_file", file_path="/srv/x", content="y")
    asked = await rig.asked.get()
    await rig.approvals.decide(rig.key.sign(statement_for(asked, "approve", "anna", "")))
    await approved
    await rig.entries()
    text = ALLOW_SHELL + '[[rule]]\nid = "desk"\ndecision = "deny"\ntag = "desk"\ntool = "write_file"\n'
    trial = await try_over_journal(rig.journal, parse_policy(text), nobody, 10)
    assert (trial.commands, trial.allowed, trial.asked, trial.denied) == (3, 2, 0, 1)
    assert trial.allowed_but_denied_by_human == 1
    assert [(row.tool, row.human, row.rule) for row in trial.rows] == [
        ("write_file", "approved", "desk"),
        ("shell_execute", "denied", "open"),
    ]
