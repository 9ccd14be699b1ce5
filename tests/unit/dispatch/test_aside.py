"""A device's schema that takes long to be read, or to be held against arguments, keeps nobody waiting."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from core.approvals.operator_keys import statement_for
from core.commands.request import CommandRequest
from core.errors import BadInput, ErrorCode
from core.home import Home
from core.schema_forms import validator
from tests.fakes.patience import PATIENCE_S
from tests.fakes.rig import DEVICE, USUAL_TOOLS, Rig, open_rig, tool_info
from tests.fakes.work import Share, longest_turn

# As large as a schema may be, and as slow to be read.
LARGEST = {f"p{n}": {"type": "string", "maxLength": 9} for n in range(3900)}
# Read aside as well, and a fifth of the work.
LARGE = {f"p{n}": LARGEST[f"p{n}"] for n in range(780)}
# Quick to be read; to hold anything against it takes all steps there are.
_TWICE = {f"r{n}": {"allOf": [{"$ref": f"#/$defs/r{n + 1}"}] * 2} for n in range(13)}
DEEP = {"$defs": {**_TWICE, "r13": {"not": {"required": ["x"]}}}, "allOf": [{"$ref": "#/$defs/r0"}]}


def hostile(name: str, schema: dict[str, Any]) -> Any:
    return tool_info(name, "action").model_copy(update={"input_schema": schema})


TOOLS = [*USUAL_TOOLS, hostile("large", {"properties": LARGE}), hostile("deep", DEEP)]


@pytest.fixture(autouse=True)
def nothing_was_seen_before() -> None:
    validator.compiled_schemas.clear()
    validator._by_digest.clear()


async def worst_while(rig: Rig, tool: str, parameters: dict[str, Any]) -> Share:
    """The longest turn of the loop while a hostile tool is explained and called; others are answered."""
    answered = 0
    done = asyncio.Event()

    async def others() -> None:
        nonlocal answered
        while not done.is_set():
            assert (await rig.call("screenshot")).error is None
            answered += 1
            # The scripted device answers within the same turn: somebody else must get one, too.
            await asyncio.sleep(0.004)

    async def call() -> None:
        try:
            await rig.dispatcher.calls.look_ahead([DEVICE], tool, parameters)
            with contextlib.suppress(BadInput):
                rig.dispatcher.explain(DEVICE, tool, parameters)
        finally:
            done.set()

    share = await longest_turn(lambda: asyncio.wait_for(asyncio.gather(others(), call()), PATIENCE_S))
    assert answered > 1
    return share


@pytest.mark.parametrize(
    ("tool", "parameters"), [("largest", {"p1": "a"}), ("deep", {"a": 1})], ids=["to read", "to validate"]
)
async def test_the_worst_schema_that_is_admitted_does_not_stop_the_loop(
    home: Home, tool: str, parameters: dict[str, Any]
) -> None:
    async with open_rig(home, [*TOOLS, hostile("largest", {"properties": LARGEST})]) as rig:
        share = await worst_while(rig, tool, parameters)
        assert share.of_all < 0.2, share


async def test_what_was_found_aside_is_what_the_call_is_told(home: Home) -> None:
    async with open_rig(home, TOOLS) as rig:
        for tool, parameters, words in (
            ("large", {"p1": 7}, "p1"),
            ("deep", {"a": 1}, "too much work"),
        ):
            result = await rig.dispatcher.dispatch(CommandRequest(DEVICE, tool, parameters, "operator:anna"))
            assert result.error is not None
            assert result.error.code is ErrorCode.INVALID_ARGUMENTS
            assert words in result.error.message
        assert rig.tools.seen == []


async def test_who_cannot_wait_is_told_to_ask_again_and_is_answered_once_it_was_looked_at(home: Home) -> None:
    async with open_rig(home, TOOLS) as rig:
        with pytest.raises(BadInput, match="ask again in a moment"):
            rig.dispatcher.explain(DEVICE, "large", {"p1": "a"})
        await rig.dispatcher.calls.look_ahead([DEVICE], "large", {"p1": "a"})
        assert rig.dispatcher.explain(DEVICE, "large", {"p1": "a"}).answer.value == "ask"


async def test_a_tool_that_changes_while_its_schema_is_read_is_not_called(home: Home) -> None:
    async with open_rig(home, TOOLS) as rig:
        waiting = rig.start("large", p1="a")
        await asyncio.sleep(0)
        rig.tools.infos = [hostile("large", {"properties": {"p1": {"type": "string"}}})]
        await rig.fleet.relist(DEVICE)
        approval = await asyncio.wait_for(rig.asked.get(), PATIENCE_S)
        await rig.approvals.decide(rig.key.sign(statement_for(approval, "approve", "anna", "")))
        result = await waiting
        assert result.error is not None
        assert result.error.code is ErrorCode.CONTRACT_CHANGED
        assert rig.tools.seen == []


async def test_the_same_schema_is_read_once_however_many_ask(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    real = validator.Validator.__init__

    def counting(self: validator.Validator, schema: Any) -> None:
        made.append(schema)
        real(self, schema)

    async with open_rig(home, TOOLS) as rig:
        monkeypatch.setattr(validator.Validator, "__init__", counting)
        look = rig.dispatcher.calls.look_ahead
        await asyncio.gather(*(look([DEVICE], "large", {"p1": f"{n}"}) for n in range(20)))
    assert len(made) == 1


async def test_a_policy_that_is_edited_while_a_schema_is_read_is_the_one_that_decides(home: Home) -> None:
    rule = '[[rule]]\nid = "one"\ndecision = "{}"\ntool = "large"\nrisk = ">=low"\n'
    home.policy.write_text(rule.format("allow"))
    async with open_rig(home, TOOLS) as rig:
        waiting = rig.start("large", p1="a")
        await asyncio.sleep(0)
        home.policy.write_text(rule.format("deny"))
        result = await waiting
        assert result.error is not None
        assert result.error.code is ErrorCode.DENIED_BY_POLICY
        assert rig.tools.seen == []
