"""A grant may bind a secret argument: the same secret runs, another asks, and the grant holds none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.approvals.models import Approval
from core.errors import ErrorCode, Refused
from core.home import Home
from core.policy.constraints import Constraint
from core.policy.grants import GrantTerms, scope_words
from tests.fakes.operator_answers import asked, no, signed_grant, terms_for, yes
from tests.fakes.rig import Rig, open_rig, tool_info

KEY, OTHER = "sesame-3141592653", "sesame-2718281828"
TOOL = tool_info(
    "run_it",
    properties={
        "command": {"type": "string"},
        "api_key": {"type": "string"},
        "login": {
            "type": "object",
            "properties": {"user": {"type": "string"}, "password": {"type": "string"}},
        },
    },
    required=["command"],
)


@pytest.fixture
async def rig(home: Home) -> AsyncIterator[Rig]:
    async with open_rig(home, [TOOL]) as made:
        yield made


async def granted(rig: Rig, parameters: dict[str, Any], **changes: Any) -> tuple[Approval, GrantTerms]:
    """Approve a call and grant it with it, by default exactly as it is."""
    running = rig.start("run_it", **parameters)
    approval = await asked(rig)
    terms = terms_for(approval, "anna", **changes)
    await rig.approvals.decide(yes(rig.key, approval), signed_grant(rig.key, terms))
    assert (await running).error is None
    return approval, terms


async def asks(rig: Rig, **parameters: Any) -> bool:
    """Whether an operator is asked about a call, which is then denied; else it has run."""
    before = len(rig.tools.seen)
    running = rig.start("run_it", **parameters)
    waits = rig.tasks.spawn("asked", asked(rig))
    await asyncio.wait([running, waits], return_when=asyncio.FIRST_COMPLETED)
    if waits.done():
        await rig.approvals.decide(no(rig.key, waits.result()))
        result = await running
        assert result.error is not None
        assert result.error.code is ErrorCode.DENIED_BY_OPERATOR
        assert len(rig.tools.seen) == before
        return True
    waits.cancel()
    assert len(rig.tools.seen) == before + 1
    return False


async def test_the_same_secret_runs_without_asking_and_another_one_asks(rig: Rig):
    _, terms = await granted(rig, {"command": "ls", "api_key": KEY})
    assert not await asks(rig, command="ls", api_key=KEY)
    assert rig.tools.seen[-1].parameters == {"command": "ls", "api_key": KEY}
    assert await asks(rig, command="ls", api_key=OTHER)
    assert await asks(rig, command="rm -rf /", api_key=KEY)
    assert await asks(rig, command="ls")
    told = terms.model_dump_json() + "".join(scope_words(terms))
    assert KEY not in told
    kept = [entry.model_dump_json() for entry in await rig.entries()]
    assert any(terms.id in entry for entry in kept)
    assert not any(KEY in entry for entry in kept)


async def test_a_secret_inside_an_object_binds_the_whole_object(rig: Rig):
    login = {"user": "anna", "password": KEY}
    await granted(rig, {"command": "ls", "login": login})
    assert not await asks(rig, command="ls", login=login)
    assert await asks(rig, command="ls", login={**login, "password": OTHER})
    assert await asks(rig, command="ls", login={**login, "user": "root"})
    assert await asks(rig, command="ls", login={"user": "anna"})


async def test_a_commitment_is_no_secret_that_could_be_sent(rig: Rig):
    approval, _ = await granted(rig, {"command": "ls", "api_key": KEY})
    seen = len(rig.tools.seen)
    stolen = approval.request.parameters["api_key"]
    result = await rig.call("run_it", command="ls", api_key=stolen)
    assert result.error is not None
    assert result.error.code is ErrorCode.INVALID_ARGUMENTS
    assert await asks(rig, command="ls", api_key=stolen["$secret"])
    assert len(rig.tools.seen) == seen


@pytest.mark.parametrize(
    "guess",
    [
        Constraint(pattern="^sesame-"),
        Constraint(equals=KEY),
        Constraint(one_of=[KEY, OTHER]),
        Constraint(max_length=10),
        Constraint(below="/"),
    ],
)
async def test_nothing_of_a_secret_can_be_found_out_by_granting(rig: Rig, guess: Constraint):
    running = rig.start("run_it", command="ls", api_key=KEY)
    approval = await asked(rig)
    terms = terms_for(approval, "anna", arguments={"command": Constraint(equals="ls"), "api_key": guess})
    with pytest.raises(Refused, match="does not cover this request"):
        await rig.approvals.decide(yes(rig.key, approval), signed_grant(rig.key, terms))
    await rig.approvals.decide(no(rig.key, approval))
    assert (await running).error is not None
    assert rig.tools.seen == []


async def test_a_secret_that_may_be_anything_may(rig: Rig):
    wide = {"command": Constraint(equals="ls"), "api_key": "any"}
    await granted(rig, {"command": "ls", "api_key": KEY}, arguments=wide)
    assert not await asks(rig, command="ls", api_key=OTHER)
    assert await asks(rig, command="ls -a", api_key=OTHER)


async def test_another_homes_commitment_covers_nothing(rig: Rig):
    _, terms = await granted(rig, {"command": "ls", "api_key": KEY}, uses=1)
    strange = Constraint(equals={"$secret": "0" * 64})
    running = rig.start("run_it", command="ls", api_key=OTHER)
    approval = await asked(rig)
    wrong = terms_for(approval, "anna", arguments={**terms.arguments, "api_key": strange})
    with pytest.raises(Refused, match="does not cover this request"):
        await rig.approvals.decide(yes(rig.key, approval), signed_grant(rig.key, wrong))
    await rig.approvals.decide(no(rig.key, approval))
    assert (await running).error is not None
