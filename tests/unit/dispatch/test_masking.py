"""Secrets are found wherever a schema hides them, and no message repeats one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.commitments import SECRET_MARK
from core.dispatch.command_request import CommandRequest, Secrets
from core.errors import ErrorCode
from core.home import Home
from tests.fakes.arguments import masked
from tests.fakes.rig import DEVICE, open_rig, tool_info

SECRET = {"type": "string", "writeOnly": True, "format": "password"}
SAID = "hunter2hunter2"
HIDDEN = [
    ({"pin": {"anyOf": [SECRET, {"type": "null"}]}}, {"pin": SAID}),
    ({"pin": {"oneOf": [{"allOf": [SECRET]}]}}, {"pin": SAID}),
    ({"pin": {"$ref": "#/$defs/Pin"}}, {"pin": SAID}),
    ({"login": {"$ref": "#/$defs/Login"}}, {"login": {"pin": SAID}}),
    ({"logins": {"type": "array", "items": {"$ref": "#/$defs/Login"}}}, {"logins": [{"pin": SAID}]}),
    ({"pair": {"type": "array", "prefixItems": [{"type": "string"}, SECRET]}}, {"pair": ["a", SAID]}),
    ({"pins": {"type": "object", "additionalProperties": SECRET}}, {"pins": {"door": SAID}}),
    ({"pins": {"type": "object", "patternProperties": {".": SECRET}}}, {"pins": {"door": SAID}}),
    ({}, {"accessToken": SAID}),
    ({}, {"env": {"AWS_SECRET_ACCESS_KEY": SAID}}),
    ({}, {"headers": {"Authorization": f"Bearer {SAID}"}}),
]
DEFS = {"Pin": SECRET, "Login": {"type": "object", "properties": {"pin": {"$ref": "#/$defs/Pin"}}}}


@pytest.mark.parametrize(("properties", "parameters"), HIDDEN)
def test_a_secret_is_found_wherever_the_schema_says_so(properties: Any, parameters: Any):
    schema = {"type": "object", "properties": properties, "$defs": DEFS}
    shown = json.dumps(masked(parameters, schema))
    assert SAID not in shown
    assert SECRET_MARK in shown


@pytest.mark.parametrize("name", ["compass", "bypass", "keyboard", "tokenizer", "passage"])
def test_a_name_that_only_contains_such_a_word_is_no_secret(name: str):
    assert masked({name: "x"}) == {name: "x"}


def test_a_schema_that_refers_to_itself_or_is_none_ends():
    schema: dict[str, Any] = {"$ref": "#", "properties": {"a": {"$ref": "#/properties/a"}}, "items": 5}
    assert masked({"a": {"a": ["x"]}}, schema) == {"a": {"a": ["x"]}}
    assert masked({"a": 1}, {"properties": [], "anyOf": 7}) == {"a": 1}


@pytest.mark.parametrize("reference", [3, None, "#/nowhere", "https://a.example/schema", "#name", "%", "#/%"])
def test_what_lies_under_a_reference_that_leads_nowhere_counts_as_secret(reference: Any):
    schema = {"properties": {"a": {"$ref": reference}, "b": {"type": "string"}}}
    shown = masked({"a": SAID, "b": "x"}, schema)
    assert SAID not in json.dumps(shown)
    assert shown["b"] == "x"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^[0-9]+$"},
        {"type": "integer"},
        {"enum": ["a", "b"]},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    ],
)
async def test_a_secret_that_does_not_fit_is_not_repeated_in_the_reason(home: Home, schema: dict[str, Any]):
    async with open_rig(home, [tool_info("log_in", "action", {"password": schema})]) as rig:
        result = await rig.call("log_in", password=SAID)
        assert result.error is not None
        assert result.error.code is ErrorCode.INVALID_ARGUMENTS
        assert "password" in result.error.message
        assert SAID not in "".join(one.model_dump_json() for one in await rig.entries())


async def test_what_the_caller_knows_to_be_secret_is_masked_in_any_argument_and_where_it_comes_back(
    home: Home,
):
    async with open_rig(home) as rig:
        by_value = ({"info_type": f"token={SAID}"}, Secrets((SAID,)))
        by_place = ({"info_type": "plainly"}, Secrets((), frozenset({("info_type",)})))
        # An equal call, in which nothing was said to be secret, is known from before.
        await rig.call("get_system_info", info_type="plainly")
        rig.tools.answers["get_system_info"] = lambda command: {"heard": f"you said {SAID}"}
        for given, secrets in (by_value, by_place):
            order = CommandRequest(
                DEVICE, "get_system_info", given, "operator:anna", run="r-1", secrets=secrets
            )
            result = await rig.dispatcher.dispatch(order)
            assert result.error is None
            assert rig.tools.seen[-1].parameters == given
            assert SAID not in result.model_dump_json()
        written = json.dumps([entry.model_dump() for entry in await rig.entries()], default=str)
        assert SAID not in written
        assert written.count("plainly") == 2
        assert written.count(SECRET_MARK) >= 2
