"""Grants with a real service and a real device: the same runs, all else asks, a restart forgets nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.approvals.models import Approval, ApprovalState
from core.approvals.operator_keys import OperatorKey, create_operator_key, statement_for
from core.batch.models import Batch, Run, Step
from core.errors import Refused
from core.home import Home
from core.ids import new_id
from core.models.tools import Risk
from core.policy.grants import GrantTerms, SignedGrant, exact_arguments
from core.service.console import Console
from core.tasks import TaskGroupOwner
from tests.fakes.desk import choose_channel, next_approval
from tests.fakes.patience import PATIENCE_S
from tests.fakes.program import ask, make_home, run, until
from tests.fakes.service_process import served, service_process, until_online
from tests.fakes.signing import anna, identify

LINE = {"command": "printf granted"}


def terms_for(approval: Approval, author: str, **changes: Any) -> GrantTerms:
    fields: dict[str, Any] = {
        "id": f"g-{new_id()}",
        "approval": approval.id,
        "author": author,
        "devices": [approval.request.device],
        "tool_key": approval.request.tool_key,
        "contract": approval.request.contract,
        "actors": [approval.actor],
        "arguments": exact_arguments(approval.request.parameters),
        "risk": Risk.HIGH,
        "uses": None if changes.get("run") else 100,
        "expires": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    }
    return GrantTerms.model_validate({**fields, **changes})


async def grant(console: Console, key: OperatorKey, approval: Approval, **changes: Any) -> SignedGrant:
    signed = key.sign_grant(terms_for(approval, key.name, **changes))
    statement = key.sign(statement_for(approval, "approve", key.name))
    assert (await console.approvals.decide(statement, signed)).state is ApprovalState.APPROVED
    return signed


async def call(console: Console, **parameters: Any) -> Run:
    return await console.runs.call("this-computer", "shell_execute", parameters)


async def runs_unasked(console: Console, **parameters: Any) -> bool:
    """Whether this runs without anybody being asked; what is asked about is denied by cancelling."""
    started = await call(console, **parameters)
    owner = TaskGroupOwner("test")
    ended = owner.spawn("end", console.runs.wait(started.summary.id, PATIENCE_S))
    asked = owner.spawn("request", next_approval(console))
    done, _ = await asyncio.wait([ended, asked], return_when=asyncio.FIRST_COMPLETED)
    if asked in done:
        await console.runs.stop(started.summary.id)
        await ended
        return False
    await owner.close()
    result = ended.result().cells[0].result
    assert result is not None
    return result.error is None


async def test_a_grant_lets_the_same_run_and_nothing_else_over_a_restart_until_revoked(home: Home):
    choose_channel(home, "in-process")
    key = anna(home)
    async with service_process(home) as process:
        console = await process.console()
        await until_online(console)
        await console.approvals.register_operator(key.operator)
        await identify(console, key)
        first = await call(console, **LINE)
        given = await grant(console, key, await next_approval(console))
        assert (await console.runs.wait(first.summary.id, PATIENCE_S)).summary.state.ended
        assert await runs_unasked(console, **LINE)
        assert not await runs_unasked(console, command="printf grantee")
        assert not await runs_unasked(console, **LINE, timeout=5)
        [held] = await console.approvals.grants()
        assert (held.used, held.over) == (1, False)
        assert held.last_used_at is not None
        # A second one that would cover nothing more is refused, and its request still waits.
        other, bert = await process.console(), create_operator_key(home, "bert", None)
        await console.approvals.register_operator(bert.operator)
        await identify(other, bert)
        again = await other.runs.call("this-computer", "shell_execute", LINE)
        waiting = await next_approval(console)
        narrow = key.sign_grant(terms_for(waiting, "anna", actors=["operator:anna"]))
        statement = key.sign(statement_for(waiting, "approve", "anna"))
        with pytest.raises(Refused, match="does not cover this request"):
            await console.approvals.decide(statement, narrow)
        await grant(console, key, waiting, actors=["operator:*"])
        await console.runs.wait(again.summary.id, PATIENCE_S)
        third = await call(console, command="printf third")
        waiting = await next_approval(console)
        wide = {**exact_arguments(waiting.request.parameters), "command": "any"}
        await grant(console, key, waiting, arguments=wide, actors=["*"], devices=["*"])
        await console.runs.wait(third.summary.id, PATIENCE_S)
        assert await runs_unasked(console, command="printf whatever")
        [widest] = [one for one in await console.approvals.grants() if one.terms.arguments == wide]
        await console.approvals.revoke_grant(widest.terms.id)
        assert not await runs_unasked(console, command="printf whatever")
        await process.kill()
    async with service_process(home) as process:
        console = await process.console()
        await identify(console, key)
        await until_online(console)
        assert await runs_unasked(console, **LINE)
        assert not await runs_unasked(console, command="printf whatever")
        held_now = {one.terms.id: one for one in await console.approvals.grants()}
        assert sum(one.used for one in held_now.values()) == 3
        for mark, one in held_now.items():
            if not one.over:
                await console.approvals.revoke_grant(mark)
        assert held_now[given.terms.id].terms == given.terms
        assert not await runs_unasked(console, **LINE)
        assert (await console.journal.verify()).ok


async def test_an_approval_for_a_run_ends_with_its_run(home: Home):
    choose_channel(home, "in-process")
    key = anna(home)
    async with service_process(home) as process:
        console = await process.console()
        await until_online(console)
        await console.approvals.register_operator(key.operator)
        steps = [Step(id=f"s{number}", tool="shell_execute", parameters=LINE) for number in range(3)]
        batch = Batch(name="thrice", targets="name:this-computer", steps=steps)
        started = await console.runs.start(batch)
        approval = await next_approval(console)
        await grant(console, key, approval, run=approval.run)
        ended = await console.runs.wait(started.summary.id, PATIENCE_S)
        assert ended.summary.state.value == "done"
        assert [cell.result.decision.grant != "" for cell in ended.cells if cell.result] == [
            False,
            True,
            True,
        ]
        assert not await runs_unasked(console, **LINE)
        assert [one.over for one in await console.approvals.grants()] == [True]
        # One whose run is cancelled is over too, and both are after a restart.
        lines = (LINE, {"command": "printf other"})
        steps = [Step(id=f"s{n}", tool="shell_execute", parameters=line) for n, line in enumerate(lines)]
        again = await console.runs.start(Batch(name="stopped", targets="name:this-computer", steps=steps))
        approval = await next_approval(console)
        given = await grant(console, key, approval, run=approval.run)
        await next_approval(console)
        assert {one.terms.id for one in await console.approvals.grants() if not one.over} == {given.terms.id}
        await console.runs.stop(again.summary.id)
        await console.runs.wait(again.summary.id, PATIENCE_S)
        assert [one.over for one in await console.approvals.grants()] == [True, True]
        await process.kill()
    async with service_process(home) as process:
        console = await process.console()
        assert [one.over for one in await console.approvals.grants()] == [True, True]


@pytest.fixture(name="served")
def _served(tmp_path: Path) -> Iterator[Home]:
    home = make_home(tmp_path / "home")
    with served(home):
        yield home


def test_at_a_terminal_grants_are_given_listed_and_revoked(served: Home):
    request, _ = ask(served)
    shown = run(served, "approvals", "show", request)
    digest = run(served, "approvals", "show", request, "--json").json["request"]["digest"]
    assert f"{digest[:4]} {digest[4:8]}" in shown.out
    bad = run(served, "approvals", "approve", request, "--grant", "uses=never")
    assert bad.code == 2
    given = run(served, "approvals", "approve", request, "--grant", "uses=1 until=2h")
    assert given.code == 0, given
    assert "As it is defined now" in given.err or "as it is defined now" in given.err
    listed = run(served, "grants", "list", "--json").json["grants"]
    assert [(one["used"], one["terms"]["uses"]) for one in listed] == [(0, 1)]
    used = run(served, "call", "this-computer", "shell_execute", "command=printf hello", "--json")
    assert used.code == 0, used
    assert run(served, "grants", "list").out.startswith("No grant holds")
    assert "1 of 1" in run(served, "grants", "list", "--all").out
    # At high risk a grant always has a limit; where none is given it holds once, as in the window.
    request, _ = ask(served)
    unlimited = run(served, "approvals", "approve", request, "--grant", "uses=any until=2h")
    assert (unlimited.code, "how often it may be used" in unlimited.err) == (3, True), unlimited
    assert run(served, "approvals", "approve", request, "--grant", "until=2h").code == 0
    [narrow] = run(served, "grants", "list", "--json").json["grants"]
    assert narrow["terms"]["uses"] == 1
    assert run(served, "grants", "revoke", narrow["terms"]["id"]).code == 0
    request, _ = ask(served)
    assert run(served, "approvals", "approve", request, "--for-run").code == 0
    # It ends with the run, which is this one call.
    listed = run(served, "grants", "list", "--all", "--json").json["grants"]
    [held] = [one for one in listed if one["terms"]["run"]]
    until(lambda: run(served, "grants", "list").out, lambda out: out.startswith("No grant holds"))
    assert run(served, "grants", "revoke", held["terms"]["id"]).code == 0
    assert run(served, "grants", "revoke", "g-nothing-here").code == 2


def test_a_second_operator_is_vouched_for_and_two_of_two_approve_at_a_terminal(served: Home):
    request, _ = ask(served)
    assert run(served, "approvals", "deny", request, "--reason", "first see to operators").code == 0
    [first] = run(served, "operators", "list", "--json").json["operators"]
    words = served.path / "words"
    words.write_text("correct horse battery\n")
    assert run(served, "operators", "add", "bert").code == 2, "nobody is there to type a passphrase"
    added = run(served, "operators", "add", "bert", "--new-passphrase-file", str(words))
    assert added.code == 0, added
    served.policy.write_text(
        '[[rule]]\nid = "two"\ndecision = "ask"\ntool = "shell_execute"\napprovers = 2\n'
    )
    request, wanted = ask(served)
    assert "0 of 2" in run(served, "approvals", "show", request).out
    unlocked = ("--operator", "bert", "--passphrase-file", str(words))
    half = run(served, "approvals", "approve", request, *unlocked)
    assert half.code == 0, half
    assert "1 of 2 (bert); needs another operator" in half.out
    again = run(served, "approvals", "approve", request, *unlocked)
    assert again.code == 3, again
    # Whoever asked at this terminal is the first operator: they do not count.
    mine = run(served, "approvals", "approve", request, "--operator", first["name"])
    assert mine.code == 3, mine
    run(served, "operators", "add", "carl", "--no-passphrase", "--operator", first["name"])
    assert run(served, "approvals", "approve", request, "--operator", "carl").code == 0
    until(lambda: run(served, "runs", "show", wanted, "--json").json, lambda it: it["results"])
