"""Schemas as a hostile device may send them, read as fields: bounded, never raising, with nothing hidden."""

from __future__ import annotations

from typing import Any

import pytest

from core.schema_forms.form import MOST_CHOICES, Field, FieldKind, best_alternative, field_for, form_for
from core.schema_forms.normalize import MOST_BRANCHES
from core.schema_forms.secrets import secret_arguments
from core.schema_forms.validator import errors_for
from tests.fakes.work import most_calls

OVERRIDE = "\u202e"


def named(count: int, schema: Any) -> dict[str, Any]:
    return {f"p{number}": schema for number in range(count)}


def only(schema: Any) -> Field:
    """The field of the one property of a form."""
    [field] = form_for(schema).properties
    return field


def look_at(field: Field, left: list[int]) -> None:
    """Ask a field for all that a form asks for."""
    if left[0] <= 0:
        return
    left[0] -= 1
    facts = (field.label, field.where, field.hint, field.limits, field.unit, field.description, field.title)
    assert all(isinstance(fact, str) for fact in facts)
    assert field.is_secret in (True, False)
    assert field.item_limit is None or field.item_limit >= 0
    field.is_mono, field.offers_keys, field.choices, field.examples  # noqa: B018  # to be asked is the point
    field.fits({"a": 1})
    best_alternative(field, {"p0": 1})
    for one in (*field.alternatives, field.key_field("odd"), *field.properties[:5]):
        look_at(one, left)
    if field.kind is FieldKind.ARRAY:
        look_at(field.item_field(0), left)


SLOW: dict[str, Any] = {
    "references to the same": {"a": {"allOf": [{"$ref": "#/$defs/large"}] * 1_000}},
    "lists of values that are compared": {
        "a": {"allOf": [{"enum": list(range(9_000))}, {"enum": list(range(9_000, 18_000))}]}
    },
    "lists of types that are compared": {
        "a": {"allOf": [{"type": [f"a{n}" for n in range(9_000)]}, {"type": [f"b{n}" for n in range(9_000)]}]}
    },
    "alternatives of alternatives": {
        "a": {"anyOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}] * 40}] * 90}
    },
    "alternatives that are large": {"a": {"anyOf": [{"$ref": "#/$defs/large"}] * 100}},
    "a field many times": named(100, {"$ref": "#/$defs/many"}),
    "names that have to be looked for": named(100, {"allOf": [{"$ref": "#there"}, {"$ref": "#there"}]}),
    "names that are nowhere": named(100, {"$ref": "#nowhere"}),
    "properties that overlap": {
        "a": {"allOf": [{"properties": named(900, {"type": "string", "n": n})} for n in range(6)]}
    },
    "parts with addresses of their own": named(100, {"$ref": "#/$defs/homed/properties/x"}),
    "many values": {"a": {"enum": [f"v{n}" for n in range(25_000)]}},
}
DEFINITIONS = {
    "large": {"properties": named(1_500, {"type": "string"})},
    "text": {"type": "string"},
    "many": {"allOf": [{"$ref": "#/$defs/text"}] * 1_900},
    "there": {"$anchor": "there", "type": "string"},
}


HOMED = {"homed": {"$id": "http://here/", "properties": {"x": {"$ref": "#/properties/y"}, "y": {}}}}


@pytest.mark.parametrize("properties", SLOW.values(), ids=SLOW.keys())
def test_no_schema_takes_long_to_be_read_as_fields(properties: dict[str, Any]) -> None:
    # Another object each time: what is remembered of one helps none.
    schema = {"properties": dict(properties), "$defs": {**DEFINITIONS, **HOMED}}
    with most_calls(2_000_000):
        fields = form_for(schema).properties
        for field in fields[:3]:
            field.alternatives, field.choices, best_alternative(field, {"p0": 1})
    assert len(fields) == len(properties)


def test_patterns_of_names_do_not_keep_who_types_a_name_waiting() -> None:
    patterns = {f"^x{n:03}(?:[a-z]{{200}}){{15}}$": {"type": "integer"} for n in range(30)}
    field = form_for({"patternProperties": patterns})
    with most_calls(1_000):
        asked = field.key_field("x001")
    assert asked.kind is FieldKind.JSON
    assert "too large" in asked.reason
    small = form_for({"patternProperties": {"^x": {"type": "integer"}}})
    assert small.key_field("x1").kind is FieldKind.INTEGER
    assert small.key_field("y").kind is FieldKind.JSON


def test_what_is_too_much_is_written_as_json_and_the_rest_is_asked_for_as_ever() -> None:
    form = form_for(
        {"properties": {"b": {"type": "integer"}, **SLOW["references to the same"]}, "$defs": DEFINITIONS}
    )
    kinds = {field.name: (field.kind, field.reason) for field in form.properties}
    assert kinds["a"] == (FieldKind.JSON, "it is put together from too many parts")
    assert kinds["b"] == (FieldKind.INTEGER, "")


ODD: dict[str, Any] = {
    "required that is no list of names": {"allOf": [{"required": [{}]}, {"required": [[]]}]},
    "types that are no names": {"type": [["string"], 5, None]},
    "no type at all": {"type": []},
    "numbers that are no numbers": {"type": "integer", "minimum": "1", "maximum": True, "multipleOf": {}},
    "numbers too long to be written": {"type": "integer", "maximum": 10**4000},
    "a bound without end": {"type": "number", "maximum": float("inf")},
    "items that are no schema": {"type": "array", "items": 5, "maxItems": True},
    "fewer than no items": {"type": "array", "maxItems": -3},
    "alternatives that are no list": {"anyOf": {}, "oneOf": 5},
    "alternatives that are no schemas": {"anyOf": [5, "x", None, []]},
    "parts that are no schemas": {"allOf": [5, True, False, None]},
    "a reference to itself": {"$ref": "#/properties/a"},
    "alternatives that are itself": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "string"}]},
    "a reference that is no text": {"$ref": {"x": 1}},
    "a reference into the middle of nowhere": {"$ref": "#/properties/a/" + "x/" * 400},
    "a reference elsewhere": {"$ref": "http://127.0.0.1:9/schema"},
    "an address that is no text": {"$id": 5, "$ref": "#/x"},
    "a default of another kind": {"type": "integer", "default": {"x": ["y"]}, "examples": "z"},
    "words that are no text": {"type": "string", "title": 5, "description": [], "format": {"x": 1}},
    "names of values that are no list": {"enum": [1, 2], "enumNames": 5, "enumDescriptions": {}},
    "names of values that are too few": {"enum": [[], {}, None], "enumNames": ["x"]},
    "properties that are no schemas": {"properties": {"x": 5, "": None, "y": []}},
    "properties that are no object": {"properties": [], "patternProperties": 5, "additionalProperties": "x"},
    "patterns that are none": {"patternProperties": {"(": {}, "[": True, "\\1": 5}},
}


@pytest.mark.parametrize("schema", ODD.values(), ids=ODD.keys())
def test_no_odd_schema_makes_a_field_that_cannot_be_asked(schema: Any) -> None:
    look_at(form_for({"properties": {"a": schema}}), [60])
    look_at(form_for(schema), [60])


def test_deep_schemas_end_in_json() -> None:
    deep: Any = {"type": "string"}
    for _ in range(400):
        deep = {"allOf": [deep]}
    assert field_for(deep).kind is FieldKind.JSON
    nested: Any = {"type": "string"}
    for _ in range(60):
        nested = {"properties": {"x": nested}}
    field = form_for(nested)
    while field.kind is FieldKind.OBJECT:
        [field] = field.properties
    assert "nested too deeply" in field.reason


def test_a_schema_beyond_all_bounds_is_one_field_at_once() -> None:
    huge = {"properties": named(100_000, {})}
    with most_calls(1_000):
        form = form_for(huge)
        assert secret_arguments(huge)
    assert form.kind is FieldKind.JSON
    assert "262,144 characters" in form.reason


def test_of_very_many_values_one_is_typed() -> None:
    texts = only({"properties": {"a": {"enum": [f"v{n}" for n in range(MOST_CHOICES + 1)]}}})
    numbers = only({"properties": {"a": {"enum": list(range(MOST_CHOICES + 1))}}})
    assert texts.kind is FieldKind.STRING
    assert (numbers.kind, numbers.reason) == (FieldKind.JSON, "its list has 2,001 values")
    assert only({"properties": {"a": {"enum": list(range(MOST_CHOICES))}}}).kind is FieldKind.ENUM


def test_among_very_many_alternatives_nobody_chooses() -> None:
    many = [{"type": "object", "title": f"t{n}"} for n in range(MOST_BRANCHES + 1)]
    field = only({"properties": {"a": {"anyOf": many}}})
    assert (field.kind, field.reason) == (FieldKind.JSON, "it has more than 100 alternatives")
    assert len(only({"properties": {"a": {"anyOf": many[:-1]}}}).alternatives) == MOST_BRANCHES


def test_nothing_hides_in_what_is_shown_of_a_schema() -> None:
    hidden = f"a{OVERRIDE}b\u200bc\x07"
    field = only(
        {
            "properties": {
                hidden: {
                    "enum": [hidden, f"x\n{hidden}"],
                    "enumDescriptions": [hidden, hidden],
                    "title": hidden,
                    "description": hidden,
                    "default": hidden,
                }
            }
        }
    )
    shown = [field.label, field.where, field.title, field.description, field.hint]
    shown += [words for choice in field.choices for words in (choice.label, choice.description)]
    assert all("[U+202E]" in words for words in shown[:4])
    assert not any(set(words) & {OVERRIDE, "\u200b", "\x07", "\n"} for words in shown)
    assert field.name == hidden, "what is sent is the name as the tool spells it"
    assert [choice.value for choice in field.choices] == [hidden, f"x\n{hidden}"]
    odd = only({"properties": {"a": {"$ref": f"#/{hidden}"}}})
    assert OVERRIDE not in odd.reason
    choice = only({"properties": {"a": {"anyOf": [{"title": hidden}, {"const": hidden}]}}})
    assert not any(OVERRIDE in one.title for one in choice.alternatives)


def test_nothing_hides_in_what_is_said_to_be_wrong() -> None:
    schema = {
        "properties": {f"n{OVERRIDE}": {"enum": [f"v{OVERRIDE}", "x\ny"]}},
        "additionalProperties": False,
    }
    for value in ({f"n{OVERRIDE}": "z"}, {"\u200b": 1}, {"two\nlines": 1}):
        for error in errors_for(schema, value):
            assert not set(error.message) & {OVERRIDE, "\u200b", "\n"}


def test_words_and_names_without_end_are_cut() -> None:
    long = "n" * 50_000
    field = only({"properties": {long: {"type": "string", "description": "d" * 50_000, "default": long}}})
    assert len(field.label) <= 80
    assert len(field.where) <= 160
    assert len(field.description) <= 4_000
    assert len(field.hint) <= 120
    number = only({"properties": {"a": {"type": "integer", "minimum": 1, "maximum": 10**4000}}})
    assert len(number.limits) < 100


def test_a_list_of_one_type_is_that_type() -> None:
    assert only({"properties": {"a": {"type": ["string"]}}}).kind is FieldKind.STRING
    field = only({"properties": {"a": {"type": ["integer", "integer", "null"]}}})
    assert (field.kind, field.nullable) == (FieldKind.INTEGER, True)


def test_a_whole_number_of_items_may_be_written_with_a_fraction() -> None:
    assert only({"properties": {"a": {"type": "array", "maxItems": 3.0}}}).item_limit == 3
    assert only({"properties": {"a": {"type": "array", "maxItems": True}}}).item_limit is None
    assert only({"properties": {"a": {"type": "array", "maxItems": 2.5}}}).item_limit is None


def test_equal_parts_that_were_written_twice_are_one() -> None:
    def part() -> dict[str, Any]:
        return {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}

    [field] = form_for({"type": "object", "allOf": [part(), part()]}).properties
    assert field.kind is FieldKind.ANY_OF


class TestSecrets:
    """What anybody calls a secret is one."""

    @pytest.mark.parametrize(
        "schema",
        [
            {"type": "string", "writeOnly": True},
            {"type": "string", "format": "password"},
            {"$ref": "#/$defs/secret"},
            {"$ref": "#/$defs/secret", "writeOnly": False},
            {"allOf": [{"writeOnly": True}, {"type": "string", "writeOnly": False}]},
            {"allOf": [{"format": "password"}, {"type": "string", "format": "uri"}]},
            {"anyOf": [{"type": "integer"}, {"type": "string", "writeOnly": True}]},
            {"type": "string", "anyOf": [{"format": "password"}, {"minLength": 3}]},
            {"anyOf": [{"$ref": "#/$defs/secret"}, {"type": "null"}]},
            {"allOf": [{"$ref": "#/$defs/large"} for _ in range(1_000)]},
        ],
    )
    def test_however_it_is_said(self, schema: dict[str, Any]) -> None:
        secret = {"type": "string", "writeOnly": True}
        whole = {
            "properties": {"first": {"type": "string"}, "hidden": schema},
            "$defs": {**DEFINITIONS, "secret": secret},
        }
        assert secret_arguments(whole) == {"hidden"}

    def test_where_it_cannot_be_told(self) -> None:
        hidden = {"$ref": "#/$defs/secret"}
        definitions = {**DEFINITIONS, **HOMED, "secret": {"type": "string", "writeOnly": True}}
        whole = {"properties": {"first": {"type": "string"}, "hidden": hidden}, "$defs": definitions}
        assert secret_arguments(whole) == {"hidden"}

    def test_in_any_of_the_alternatives_of_the_whole(self) -> None:
        branch = {"type": "object", "properties": {"token": {"type": "string", "writeOnly": True}}}
        assert secret_arguments({"anyOf": [{"type": "object"}, branch]}) == {"token"}

    def test_where_nothing_is_one_there_is_none(self) -> None:
        properties: dict[str, Any] = {"format": {"type": "string"}, "password_hint": {}, "default": {}}
        assert secret_arguments({"properties": properties}) == frozenset()

    def test_by_the_names_of_arguments_alone(self) -> None:
        assert secret_arguments({"properties": {"password": {"type": "string"}, "x": {}}}) == {"password"}
