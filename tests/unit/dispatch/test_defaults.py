"""A required argument that is left out is what its schema's default says: seen, judged, journalled, sent."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from core.audit.entries import Kind
from core.errors import ErrorCode
from core.home import Home
from core.policy.models import Answer
from core.schema_forms.validator import with_defaults
from tests.fakes.policy_calls import rule
from tests.fakes.rig import DEVICE, TEXT, USUAL_TOOLS, open_rig, tool_info

# As playwright's browser_take_screenshot has it.
SCALE = {"type": "string", "enum": ["css", "device"], "default": "css"}
SHOT = tool_info("take", "action", {"scale": SCALE, "name": TEXT}, ["scale"], namespace="web")
WRONG = tool_info("wrong", "action", {"scale": {**SCALE, "default": "none"}}, ["scale"], namespace="web")
WIPE = tool_info("wipe", "action", {"path": {**TEXT, "default": "/etc"}}, ["path"], namespace="web")
ALL = rule("allow", 'risk = ["low", "medium", "high"]', "all")


async def test_the_default_of_a_required_argument_is_what_is_sent_and_written(home: Home):
    home.policy.write_text(ALL)
    async with open_rig(home, [*USUAL_TOOLS, SHOT]) as rig:
        given: dict[str, Any] = {}
        result = await rig.call("take", **given)
        assert result.error is None
        assert rig.tools.seen[-1].parameters == {"scale": "css"}
        [prepared] = [entry for entry in await rig.entries() if entry.kind is Kind.COMMAND_PREPARED]
        assert prepared.body["parameters"] == {"scale": "css"}
        # Twice, as what has passed is remembered.
        await rig.call("take", **given)
        await rig.call("take", scale="device")
        assert [command.parameters for command in rig.tools.seen[-2:]] == [
            {"scale": "css"},
            {"scale": "device"},
        ]


async def test_a_default_is_judged_like_what_was_typed(home: Home):
    home.policy.write_text(ALL + rule("deny", 'tool = "wipe"\n[rule.parameters.path]\nbelow = "/etc"'))
    async with open_rig(home, [*USUAL_TOOLS, WIPE]) as rig:
        assert rig.dispatcher.explain(DEVICE, "wipe", {}).answer is Answer.DENY
        result = await rig.call("wipe")
        assert result.error is not None
        assert result.error.code is ErrorCode.DENIED_BY_POLICY
        assert not rig.tools.seen


async def test_a_default_that_its_own_schema_refuses_sends_nothing(home: Home):
    async with open_rig(home, [*USUAL_TOOLS, WRONG]) as rig:
        result = await rig.call("wrong")
        assert result.error is not None
        assert result.error.code is ErrorCode.INVALID_ARGUMENTS
        assert not rig.tools.seen


@pytest.mark.parametrize(
    ("schema", "filled"),
    [
        ({"required": ["a"], "properties": {"a": {"default": {"b": [1]}}}}, {"a": {"b": [1]}}),
        ({"required": ["a"], "properties": {"a": {"default": None}}}, {"a": None}),
        ({"required": [], "properties": {"a": {"default": 1}}}, {}),
        ({"required": ["a"], "properties": {"a": {"type": "string"}}}, {}),
        ({"required": ["a"], "properties": {"a": {"default": "x", "format": "password"}}}, {}),
        ({"required": ["a"], "properties": {"a": {"default": "x", "writeOnly": True}}}, {}),
        ({"required": "a", "properties": {"a": {"default": 1}}}, {}),
        ({"required": [1, "b"], "properties": {"a": True, "b": True}}, {}),
        (True, {}),
    ],
)
def test_only_what_is_required_has_a_default_and_is_no_secret_is_filled_in(schema: Any, filled: Any):
    before = copy.deepcopy(schema)
    given: dict[str, Any] = {}
    found = with_defaults(schema, given)
    assert found == filled
    assert given == {}
    assert (found is given) is (filled == {})
    for value in found.values():
        if isinstance(value, dict):
            value["b"].append(2)
    assert schema == before
