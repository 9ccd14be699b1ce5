"""Wherever a schema says that a value is secret, in whatever form, it is found; and no other value is."""

from __future__ import annotations

import copy
import json
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.schema_forms import secrets
from core.schema_forms.secrets import secret_arguments, secret_paths
from core.secret_rule import SecretNames
from tests.fakes.run_size import examples

SECRET: dict[str, Any] = {"type": "string", "writeOnly": True}
NAMES = ["alpha", "beta", "gamma", "delta"]
MARK = "m4rker"


def ways(inner: Any, number: int) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Schemas under which what `inner` says of a value is said too, each with the definitions it needs."""
    name = f"d{number}"
    return {
        "itself": (inner, {}),
        "allOf": ({"allOf": [{}, inner]}, {}),
        "anyOf": ({"anyOf": [{"type": "integer"}, inner]}, {}),
        "oneOf": ({"oneOf": [inner, {"const": 1}]}, {}),
        "then": ({"if": {"type": "string"}, "then": inner}, {}),
        "else": ({"if": False, "else": inner}, {}),
        "if": ({"if": inner}, {}),
        "dependentSchemas": ({"dependentSchemas": {"alpha": inner}}, {}),
        "dependencies": ({"dependencies": {"alpha": inner, "beta": ["alpha"]}}, {}),
        "$ref": ({"$ref": f"#/$defs/{name}"}, {name: inner}),
        "$ref, encoded": ({"$ref": f"#/%24defs/{name}"}, {name: inner}),
        "$ref, escaped": ({"$ref": f"#/$defs/{name}~1x~0"}, {f"{name}/x~": inner}),
        "$ref into a list": ({"$ref": f"#/$defs/{name}/anyOf/1"}, {name: {"anyOf": [{}, inner]}}),
        "$anchor": ({"$ref": f"#{name}a"}, {name: {"allOf": [inner], "$anchor": f"{name}a"}}),
        "$dynamicRef": (
            {"$dynamicRef": f"#{name}b"},
            {name: {"allOf": [inner], "$dynamicAnchor": f"{name}b"}},
        ),
        "$id": ({"$ref": f"https://a.example/{name}"}, {name: {"$id": f"https://a.example/{name}", **inner}}),
        "own $id": (
            {"$id": f"https://b.example/{name}", "$ref": "#/$defs/it", "$defs": {"it": inner}},
            {},
        ),
    }


def places(inner: Any) -> dict[str, tuple[Any, Any]]:
    """Schemas of an object or a list in which `inner` speaks of one part, each with how it is filled."""
    return {
        "properties": ({"properties": {"alpha": inner}}, lambda value: {"alpha": value, "beta": "plain"}),
        "patternProperties": (
            {"patternProperties": {"^al": inner}},
            lambda value: {"alpha": value, "beta": 1},
        ),
        "additionalProperties": (
            {"properties": {"beta": {}}, "additionalProperties": inner},
            lambda value: {"alpha": value, "beta": "plain"},
        ),
        "unevaluatedProperties": (
            {"properties": {"beta": {}}, "unevaluatedProperties": inner},
            lambda value: {"alpha": value, "beta": "plain"},
        ),
        "items": ({"items": inner}, lambda value: [value]),
        "items, old": ({"items": [{}, inner]}, lambda value: ["plain", value]),
        "prefixItems": ({"prefixItems": [{}, inner]}, lambda value: ["plain", value]),
        "additionalItems": ({"items": [{}], "additionalItems": inner}, lambda value: ["x", value]),
        "unevaluatedItems": ({"prefixItems": [{}], "unevaluatedItems": inner}, lambda value: ["x", value]),
        "contains": ({"contains": inner}, lambda value: [value]),
    }


@st.composite
def hidden(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], list[str], tuple[str | int, ...]]:
    """A tool's schema, arguments in which it hides the mark, the ways that lead there, and where it is."""
    schema: Any = draw(
        st.sampled_from([SECRET, {"format": "password"}, {"writeOnly": True, "type": "object"}])
    )
    value: Any = draw(st.sampled_from([MARK, {"x": MARK}, [MARK]]))
    secret = value
    definitions: dict[str, Any] = {}
    taken: list[str] = []
    for number in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            way = draw(st.sampled_from(sorted(ways({}, 0))))
            schema, more = ways(schema, number)[way]
            definitions |= more
        else:
            way = draw(st.sampled_from(sorted(places({}))))
            schema, fill = places(schema)[way]
            value = fill(value)
        taken.append(way)
    whole = {"type": "object", "properties": {"gamma": schema, "delta": {}}, "$defs": definitions}
    arguments = {"gamma": value, "delta": "open"}
    return whole, arguments, taken, path_to(secret, arguments)


def path_to(wanted: Any, value: Any) -> tuple[str | int, ...]:
    """Where an object lies in another one; the only text of its kind counts as one."""
    if value is wanted:
        return ()
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in inner:
        if MARK in json.dumps(part):
            return (step, *path_to(wanted, part))
    raise AssertionError("it is not in there")


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def without(arguments: dict[str, Any], paths: list[tuple[str | int, ...]]) -> dict[str, Any]:
    left = copy.deepcopy(arguments)
    for path in paths:
        at(left, path[:-1])[path[-1]] = "hidden"
    return left


@settings(max_examples=examples(600, quick=100), suppress_health_check=[HealthCheck.too_slow])
@given(hidden())
def test_however_deep_and_by_whatever_ways_a_secret_is_found(case: Any) -> None:
    schema, arguments, taken, path = case
    paths = secret_paths(arguments, [schema])
    # Some ways do not go together, and lead nowhere: names inside of another address, or in draft 7.
    references = [way for way in taken if "$" in way]
    is_old = {"items, old", "additionalItems"} & set(taken) and references
    # What is taken for secret as a whole covers what is inside.
    covered = any(path[: len(one)] == one for one in paths)
    assert covered or len(references) > 1 or is_old, taken
    left = without(arguments, paths)
    assert MARK not in json.dumps(left), taken
    assert left["delta"] == "open"


@settings(max_examples=examples(200))
@given(hidden(), hidden())
def test_of_several_schemas_each_may_say_so(first: Any, second: Any) -> None:
    schema, arguments, *_ = first
    for schemas in ([schema, second[0]], [second[0], schema]):
        assert MARK not in json.dumps(without(arguments, secret_paths(arguments, schemas)))


@settings(max_examples=examples(200))
@given(hidden())
def test_what_is_found_given_values_is_found_without_them_where_it_is_the_argument_itself(case: Any) -> None:
    schema, arguments, taken, _ = case
    paths = secret_paths(arguments, [schema])
    known = secret_arguments(schema)
    for path in paths:
        if len(path) == 1:
            assert path[0] in known, taken


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
WORDS = [
    "properties", "patternProperties", "additionalProperties", "items", "prefixItems", "anyOf", "allOf", "if",
    "$ref", "$dynamicRef", "$anchor", "$id", "$defs", "contains", "dependentSchemas", "writeOnly", "format",
    "not", "unevaluatedProperties", "x-quarterdeck-secret-if", "alpha", "beta",
]  # fmt: skip
ODD_SCHEMA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["#", "#/", "#x", "#/$defs/a", "", "(", "x"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=examples(500))
@given(ODD_SCHEMA, st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4))
def test_no_schema_and_no_arguments_break_the_search(schema: Any, arguments: dict[str, Any]) -> None:
    paths = secret_paths(arguments, [schema])
    assert len(set(paths)) == len(paths)
    for path in paths:
        at(arguments, path)
        assert not any(path[:length] in paths for length in range(len(path))), "one lies inside of another"
    secret_arguments(schema)


class TestBounds:
    """What cannot be read to its end counts as secret, where it can say so at all."""

    def alternatives(self, count: int, last: Any) -> dict[str, Any]:
        return {"properties": {"a": {"anyOf": [*({"const": number} for number in range(count)), last]}}}

    def test_more_alternatives_than_are_read_hide_the_value(self) -> None:
        many = secrets.MOST_BRANCHES + 1
        assert secret_paths({"a": 1}, [self.alternatives(many, SECRET)]) == [("a",)]
        harmless = {"properties": {"a": {"type": "string", "writeOnly": False}}}
        marked = self.alternatives(many, {}) | {"$defs": harmless}
        assert secret_paths({"a": 1, "b": 2}, [marked]) == [("a",)]

    def test_a_secret_beside_a_neighbour_is_hidden_among_more_alternatives_than_are_read(self) -> None:
        beside = {"x-quarterdeck-secret-if": "hide"}
        many = [{"const": number} for number in range(secrets.MOST_BRANCHES + 1)]
        schema = {"properties": {"a": {"anyOf": [beside, *many]}, "hide": {"type": "boolean"}}}
        assert secret_paths({"a": "s", "hide": True}, [schema]) == [("a",)]

    def test_a_choice_of_many_values_that_says_nothing_of_secrets_stays_readable(self) -> None:
        assert secret_paths({"a": 1}, [self.alternatives(5_000, {"const": "x"})]) == []

    def test_work_is_counted_and_what_is_left_undone_is_hidden(self) -> None:
        wide = {"anyOf": [{"properties": {f"p{number}": {}}} for number in range(900)]}
        deep: dict[str, Any] = wide
        for _ in range(30):
            deep = {"properties": {"n": deep}, **copy.deepcopy(wide)}
        value: Any = {"p1": MARK}
        for _ in range(30):
            value = {"n": value}
        paths = secret_paths({"n": value, "z": 1}, [deep | {"$defs": {"s": SECRET}}])
        assert MARK not in json.dumps(without({"n": value, "z": 1}, paths))

    def test_definitions_that_multiply_end(self) -> None:
        definitions: dict[str, Any] = {"d0": SECRET}
        for number in range(1, 40):
            inner = {"$ref": f"#/$defs/d{number - 1}"}
            definitions[f"d{number}"] = {"allOf": [inner, {"anyOf": [inner, inner]}]}
        schema = {"properties": {"a": {"$ref": "#/$defs/d39"}}, "$defs": definitions}
        assert secret_paths({"a": "x", "b": "y"}, [schema]) == [("a",)]

    def test_a_pattern_that_is_slow_or_none_may_mean_any_name(self) -> None:
        for pattern in ("(", "(a+)+$" * 30, "x" * 5_000, "\\p{L}{9}{9}"):
            schema = {"properties": {"a": {"patternProperties": {pattern: SECRET}}}}
            assert secret_paths({"a": {"b": "x"}}, [schema]) == [("a", "b")]
        plain = {"properties": {"a": {"patternProperties": {"(": {"type": "string"}}}}}
        assert secret_paths({"a": {"b": "x"}}, [plain]) == []


class TestNeighbours:
    SCHEMA: ClassVar[dict[str, Any]] = {
        "properties": {
            "text": {"$ref": "#/$defs/text"},
            "hidden": {"type": "boolean"},
            "inside": {"properties": {"text": {"x-quarterdeck-secret-if": "hidden"}}},
        },
        "$defs": {"text": {"anyOf": [{"type": "string", "x-quarterdeck-secret-if": "hidden"}]}},
    }

    @pytest.mark.parametrize(("told", "is_secret"), [(True, True), (False, False), (None, False), (0, True)])
    def test_a_neighbour_says_so_also_behind_a_reference(self, told: Any, is_secret: bool) -> None:
        paths = secret_paths({"text": "x", "hidden": told}, [self.SCHEMA])
        assert paths == ([("text",)] if is_secret else [])

    def test_only_a_neighbour_counts(self) -> None:
        assert secret_paths({"inside": {"text": "x"}, "hidden": True}, [self.SCHEMA]) == []
        assert secret_paths({"inside": {"text": "x", "hidden": 1}}, [self.SCHEMA]) == [("inside", "text")]


class TestNamesBesideSchemas:
    def test_a_name_counts_at_any_depth_and_whatever_the_schema_says(self) -> None:
        schema = {"properties": {"a": {"properties": {"token": {"writeOnly": False}}}}}
        arguments = {"a": {"token": "x", "b": [{"passwd2": 1}, {"author": 2}]}, "max_tokens": 5}
        assert secret_paths(arguments, [schema]) == [("a", "token"), ("a", "b", 0, "passwd2")]

    def test_true_and_null_are_no_secrets_by_their_names(self) -> None:
        assert secret_paths({"secret": True, "auth": None, "pin": False, "otp": 0}, []) == [("otp",)]
        assert secret_paths({"secret": True}, [{"properties": {"secret": SECRET}}]) == [("secret",)]

    def test_added_names_count_too(self) -> None:
        assert secret_paths({"badge": "x"}, [], SecretNames(["badge"])) == [("badge",)]
        schema = {"properties": {"badge": {}, "b": {}}}
        assert secret_arguments(schema, SecretNames(["badge"])) == {"badge"}

    def test_where_the_whole_is_secret_each_argument_is(self) -> None:
        assert secret_paths({"a": 1, "b": {"c": 2}}, [SECRET]) == [("a",), ("b",)]
