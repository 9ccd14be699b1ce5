"""Secrets are found wherever a schema hides them, and no message repeats one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from core.commands.request import CommandRequest, Secrets
from core.commitments import SECRET_MARK, Opening, as_shown, is_stand_in, marked_objects, readable
from core.dispatch.redaction import Redactor
from core.errors import BadInput, ErrorCode
from core.home import Home
from core.models.tools import Risk
from core.policy.constraints import Constraint
from core.policy.grants import exact_arguments
from tests.fakes.arguments import masked
from tests.fakes.operator_answers import asked, yes
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


async def test_what_the_caller_declares_secret_is_masked_where_it_stands_and_where_it_comes_back(
    home: Home,
):
    async with open_rig(home) as rig:
        inside = ({"info_type": f"token={SAID}"}, Secrets((SAID,), {("info_type",): ((6, 6 + len(SAID)),)}))
        wholly = ({"info_type": "plainly"}, Secrets((), {("info_type",): ()}))
        # An equal call, in which nothing was said to be secret, is known from before.
        await rig.call("get_system_info", info_type="plainly")
        rig.tools.answers["get_system_info"] = lambda command: {"heard": f"you said {SAID}"}
        for given, secrets in (inside, wholly):
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
        assert "token=" in written


async def test_what_a_caller_declares_secret_is_judged_as_it_is_sent(home: Home):
    async with open_rig(home) as rig:
        line = {"command": "true; rm -rf /srv/data"}
        plain = rig.dispatcher.explain(DEVICE, "shell_execute", line)
        declared = Secrets((), {("command",): ((6, 22),)})
        hidden = rig.dispatcher.explain(DEVICE, "shell_execute", line, secrets=declared)
        assert (hidden.risk, hidden.answer) == (plain.risk, plain.answer)
        assert [(one.text, one.risk) for one in hidden.findings] == [
            (one.text, one.risk) for one in plain.findings
        ]
        assert "/srv/data" not in hidden.model_dump_json()


async def test_an_operator_edits_the_text_around_a_secret_which_stays_where_it_is(home: Home):
    async with open_rig(home) as rig:
        line = f"curl -H 'X: {SAID}' http://a/"
        start = line.index(SAID)
        secrets = Secrets((SAID,), {("command",): ((start, start + len(SAID)),)})
        order = CommandRequest(DEVICE, "shell_execute", {"command": line}, "operator:anna", secrets=secrets)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(rig.dispatcher.dispatch(order))
            first = await asked(rig)
            before, secret, after = first.request.parameters["command"][SECRET_MARK]
            for stolen in (
                {"command": secret},
                {"command": {SECRET_MARK: [secret, {SECRET_MARK: "0" * 64}]}},
            ):
                with pytest.raises(BadInput, match="stand-in"):
                    rig.approvals.unredacted(first.id, stolen)
            changed = {"command": {SECRET_MARK: [f"nice {before}", secret, after.replace("/a/", "/b/")]}}
            edited = rig.approvals.unredacted(first.id, changed)
            shown, _ = await rig.dispatcher.redacted(
                [DEVICE], "shell_execute", edited.arguments, declared=edited.places
            )
            await rig.approvals.edit(first.id, edited.arguments, shown, "operator:anna", places=edited.places)
            second = await asked(rig)
            assert readable(second.request.parameters)["command"] == "nice curl -H 'X: •••' http://b/"
            await rig.approvals.decide(yes(rig.key, second))
        assert task.result().error is None
        assert rig.tools.seen[-1].parameters["command"] == f"nice {line}".replace("/a/", "/b/")
        assert SAID not in json.dumps([entry.model_dump() for entry in await rig.entries()], default=str)


def test_a_grant_for_a_line_with_a_secret_binds_the_line_and_the_secret():
    def shown(line: str) -> dict[str, Any]:
        start = line.index("<") + 1
        place = {("command",): ((start, line.index(">")),)}
        return Redactor(b"s" * 32).redact("shell_execute", {"command": line}, [], place).shown

    granted = exact_arguments(shown("curl -H <tr0ub4dor> a"))["command"]
    assert isinstance(granted, Constraint)
    assert granted.permits(shown("curl -H <tr0ub4dor> a")["command"])
    for other in ("curl -H <tr0ub4dog> a", "curl -H <tr0ub4dor> b"):
        assert not granted.permits(shown(other)["command"])


def test_masked_texts_are_opened_only_as_they_were_shown():
    line = "a SECRET b SECRET c"
    places = {("command",): ((2, 8), (11, 17))}
    made = Redactor(b"s" * 32).redact("shell_execute", {"command": line}, [], places)
    assert as_shown(made.sent, made.openings) == made.shown
    assert all(map(is_stand_in, marked_objects(made.shown)))
    assert "SECRET" not in json.dumps(made.shown)
    sent_openings = [Opening.model_validate(one.model_dump(mode="json")) for one in made.openings]
    assert tuple(sent_openings) == made.openings
    for wrong in ("a SECRET b SECRET d", "a SECREt b SECRET c"):
        assert as_shown({"command": wrong}, made.openings) != made.shown
    twice = [*made.openings, made.openings[0]]
    with pytest.raises(BadInput, match="overlap"):
        as_shown(made.sent, twice)
    for malformed in (
        [],
        ["a"],
        [{"$secret": "0" * 64}],
        ["a", "b", {"$secret": "0" * 64}],
        ["", {"$secret": "0" * 64}],
        ["a", {"$secret": "x"}],
        ["a", {"$secret": ["a"]}],
    ):
        assert not is_stand_in({SECRET_MARK: malformed})


async def test_a_text_that_a_template_did_not_quote_is_a_finding_also_where_the_call_is_known(home: Home):
    async with open_rig(home) as rig:
        line = {"command": "ls a b"}
        plain = rig.dispatcher.explain(DEVICE, "shell_execute", line)
        marked = rig.dispatcher.explain(DEVICE, "shell_execute", line, unquoted={("command",): ((3, 6),)})
        [finding] = [one for one in marked.findings if one not in plain.findings]
        assert (finding.start, finding.end, finding.risk) == (3, 6, Risk.MEDIUM)
        assert "raw(…)" in finding.text
        assert rig.dispatcher.explain(DEVICE, "shell_execute", line).findings == plain.findings
