"""A program in the service's place shows one command and wants another signed: a terminal signs neither."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from core.approvals.operator_keys import OperatorKey, create_operator_key
from core.home import Home
from tests.fakes.program import Terminal, make_home, run
from tests.fakes.stand_in import (
    DANGEROUS,
    HARMLESS,
    LIES,
    lying_request,
    malformed_request,
    request_for,
    standing_in,
)

REFUSED = 3


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path / "home")


@pytest.fixture
def key(home: Home) -> OperatorKey:
    return create_operator_key(home, "anna", None)


ANSWERS = [("approve",), ("deny",), ("approve", "--grant", "uses=5")]


@pytest.mark.parametrize("lie", LIES)
async def test_no_answer_is_signed_for_another_command_than_the_one_shown(
    home: Home, key: OperatorKey, lie: str
) -> None:
    async with standing_in(home, key.operator, lying_request(lie)) as stand_in:
        for verb, *more in ANSWERS:
            ended = await asyncio.to_thread(run, home, "approvals", verb, stand_in.waiting().id, *more)
            assert stand_in.harvest == [], verb
            assert ended.code == REFUSED, verb
            assert HARMLESS in ended.err, "what was to be signed is shown"
            assert "nothing is signed" in ended.err, verb
            assert stand_in.asked["decide"] == 0, verb


@pytest.mark.parametrize("lie", LIES)
async def test_a_call_on_a_terminal_asks_nobody_about_another_command(
    home: Home, key: OperatorKey, lie: str
) -> None:
    async with standing_in(home, key.operator, lying_request(lie)) as stand_in:
        stand_in.begin_anew()

        def at_the_terminal() -> str:
            terminal = Terminal(home, "call", "this-computer", "change", "text=x", warm=True)
            try:
                terminal.sees("nothing is signed")
                assert terminal.ends() == REFUSED
            finally:
                terminal.leave()
            return terminal.seen

        seen = await asyncio.to_thread(at_the_terminal)
        assert HARMLESS in seen
        assert 'Type "approve"' not in seen
        assert stand_in.harvest == []


async def test_a_request_that_is_only_shown_is_said_not_to_fit_its_digest(
    home: Home, key: OperatorKey
) -> None:
    async with standing_in(home, key.operator, lying_request("plain")) as stand_in:
        for options in ((), ("--json",)):
            shown = await asyncio.to_thread(run, home, *options, "approvals", "show", stand_in.waiting().id)
            assert (shown.code, HARMLESS in shown.out) == (REFUSED, True)
            assert "digest" in shown.err


async def test_what_only_looks_like_a_commitment_is_not_signed_under_its_own_digest_either(
    home: Home, key: OperatorKey
) -> None:
    async with standing_in(home, key.operator, malformed_request()) as stand_in:
        ended = await asyncio.to_thread(run, home, "approvals", "approve", stand_in.waiting().id)
        assert (ended.code, stand_in.harvest) == (REFUSED, [])
        assert "malformed" in ended.err


async def test_a_request_that_is_another_one_by_now_is_not_signed_by_the_digest_that_was_shown(
    home: Home, key: OperatorKey
) -> None:
    async with standing_in(home, key.operator, request_for(HARMLESS)) as stand_in:
        approval = stand_in.waiting()
        shown = await asyncio.to_thread(run, home, "approvals", "show", approval.id)
        assert approval.request.digest in shown.out
        swapped = approval.model_copy(update={"request": request_for(DANGEROUS)})
        stand_in.fake.queue[approval.id] = swapped
        approve = ("approvals", "approve", approval.id)
        ended = await asyncio.to_thread(run, home, *approve, "--digest", approval.request.digest)
        assert (ended.code, stand_in.harvest) == (REFUSED, [])
        assert DANGEROUS in ended.err
        ended = await asyncio.to_thread(run, home, *approve, "--digest", swapped.request.digest)
        assert (ended.code, len(stand_in.harvest)) == (0, 1)
