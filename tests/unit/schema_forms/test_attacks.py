"""Schemas that were made to keep the console busy: each cost seconds, or for ever, before it was bounded."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from core.schema_forms.document import subschemas
from core.schema_forms.patterns import PatternTooCostly, PatternUnsupported, SafePattern, safe_pattern
from core.schema_forms.validator import STEPS_AT_ONCE, Validator, is_light, validator_for
from tests.fakes.work import most_calls

TOO_MUCH = "too much work"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def doubled(last: dict[str, Any], times: int, **more: Any) -> dict[str, Any]:
    """A schema under which `last` is looked at 2 ** `times` times."""
    steps = {f"r{n}": {"allOf": [{"$ref": f"#/$defs/r{n + 1}"}] * 2} for n in range(times)}
    return {"$defs": {**more, **steps, f"r{times}": last}, "$ref": "#/$defs/r0"}


def said(validator: Validator, value: Any) -> str:
    return "; ".join(error.message for error in validator.errors(value))


@pytest.mark.parametrize(
    "source",
    [
        "(?:(?:){9000}){3000}",
        "(?:(?:(){300}){300}){300}",
        "(?:(?=a{700})){700}",
        "(?=(?=(?=a{90}){90}){90})",
        "(?i)" + "[\x00-\uffff]" * 390,
        "[\x01-\u07ff\u1000-\ud7ff]" * 280,
    ],
    ids=["empties", "empty groups", "looks", "looks in looks", "classes of any case", "wide classes"],
)
def test_a_pattern_is_read_or_refused_at_once(source: str) -> None:
    with most_calls(300_000), contextlib.suppress(PatternUnsupported):
        SafePattern(source).search("ab")


def test_a_way_through_a_pattern_that_takes_no_text_counts_too() -> None:
    known = SafePattern("^a*a*a*(?:\\B){3900}d")
    with most_calls(3_000_000), contextlib.suppress(PatternTooCostly):
        assert not known.search("a" * 36)


def test_classes_that_are_too_slow_to_be_compiled_match_as_they_should() -> None:
    known = SafePattern("(?i)^" + "[а-я]" * 9 + "$")
    assert known.search("Бвгджзийк")
    assert not known.search("Бвгджзийz")


def test_what_a_class_remembers_of_a_text_is_bounded() -> None:
    known = SafePattern("(?i)^" + "[а-я\u4000-\u9fff]*" * 9 + "$")
    known.search("".join(map(chr, range(0x4000, 0x6000))))
    [first] = [test for op, *rest in known._program.code for test in rest if op == "char"][:1]
    assert 0 < len(first._memo) < 1000


EVIL = {"type": "string", "pattern": "^(a+)+$"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"properties": {"a": {"$schema": DRAFT_7, **EVIL}}}, {"a": "a" * 25 + "!"}),
        ({"$schema": DRAFT_7, "properties": {"a": EVIL, "b": {"$ref": "#"}}}, {"b": {"a": "a" * 25 + "!"}}),
    ],
    ids=["a part with a draft of its own", "a reference to the whole"],
)
def test_no_word_of_a_schema_brings_the_matcher_back_that_backtracks(
    schema: dict[str, Any], value: Any
) -> None:
    validator = Validator(schema)
    with most_calls(5_000):
        found = said(validator, value)
    assert "must match the pattern" in found
    assert validator.is_valid({"a": "aaa"})


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"patternProperties": {"^(a+)+$": {}}}], "unevaluatedProperties": False},
        {
            "default": {"patternProperties": {"^(a+)+$": {}}},
            "allOf": [{"$ref": "#/default"}],
            "unevaluatedProperties": False,
        },
    ],
    ids=["in another part", "where nobody looks for a schema"],
)
def test_names_that_nothing_speaks_of_are_never_held_against_patterns_by_the_library(
    schema: dict[str, Any],
) -> None:
    validator = Validator(schema)
    with most_calls(1_000):
        found = said(validator, {"a" * 25 + "!": 1})
    assert "unevaluatedProperties together with patternProperties is not supported" in found


def test_a_long_list_of_choices_is_compared_in_linear_time() -> None:
    choices = [[number] for number in range(1500)] + list(range(1500))
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "enum": choices}
    with most_calls(200_000):
        validator = Validator(schema)
    assert validator.broken == ""
    assert "equal" in Validator({**schema, "enum": [*choices, 7.0]}).broken


@pytest.mark.parametrize("word", ["$anchor", "$id"])
def test_names_in_a_schema_are_looked_for_once(word: str) -> None:
    mark = "#" if word == "$anchor" else ""
    names = {f"d{n}": {word: f"a{n}", "type": "object"} for n in range(1500)}
    refs = [{"$ref": f"{mark}a{n}"} for n in range(400)]
    validator = Validator({"$id": "http://here/", "$defs": names, "allOf": refs})
    with most_calls(200_000):
        assert validator.errors({"x": 1}) == []
    assert said(validator, []).startswith("The")


def test_a_reference_is_no_longer_than_a_reference_can_be() -> None:
    name = "A" * 20_000
    schema = doubled({"anyOf": [{"$ref": "#/$defs/" + "%41" * 20_000}, {}]}, 8, **{name: {}})
    with most_calls(2_000):
        assert "more than 1,000 characters" in said(Validator(schema), {})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubled({"allOf": [{}] * 3000}, 10), {}),
        ({"patternProperties": {f"^x{n}": {} for n in range(1000)}}, {f"k{n}": 1 for n in range(1000)}),
        (doubled({"enum": [[0] * 249 + [n] for n in range(1, 250)]}, 9), [0] * 250),
    ],
    ids=["parts that say nothing", "patterns and names", "choices that differ at their end"],
)
def test_a_validation_stops_where_its_steps_are_used_up(schema: dict[str, Any], value: Any) -> None:
    validator = Validator(schema)
    assert validator.broken == ""
    with most_calls(20_000_000):
        found = said(validator, value)
    assert TOO_MUCH in found


def test_more_patterns_than_are_remembered_are_not_read_again_for_every_name() -> None:
    patterns = {f"^x{n:04}(?:[a-z]{{9}})*$": {"type": "string"} for n in range(1500)}
    validator = Validator({"patternProperties": patterns, "additionalProperties": {}})
    assert validator.broken == ""
    with most_calls(2_000_000):
        assert validator.errors({f"k{n}": 1 for n in range(12)}) == []
    assert "x0007" in said(validator, {"x0007": 1})


def test_a_schema_that_is_far_too_large_is_not_even_written_down() -> None:
    schema = {"x": [0] * 6_000_000}
    with most_calls(1_000):
        assert "more than 262,144 characters" in validator_for(schema).broken


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{n}": {"pattern": "(((a+)+)+)+" * 8 + str(n)} for n in range(36)}},
        {"properties": {f"p{n}": {"pattern": "[\\u0100-\\uffff]" * 6 + str(n)} for n in range(36)}},
        {"patternProperties": {"(((a+)+)+)+" * 8 + str(n): {} for n in range(36)}},
        {"properties": {"default": {"properties": {"a": {"pattern": "(?:[a-z]{200}){15}$"}}}}},
        {"default": {"pattern": "(?:[a-z]{200}){15}!$"}, "properties": {"p": {"$ref": "#/default"}}},
        {"properties": {f"p{n}": {"type": "string", "title": "x"} for n in range(38)}},
    ],
    ids=[
        "groups",
        "escaped classes",
        "names",
        "below a name of its own",
        "where nobody looks",
        "many fields",
    ],
)
def test_what_is_done_at_once_is_quick(schema: dict[str, Any]) -> None:
    value = {**{f"p{n}": "a" * 200 for n in range(9)}, "default": {"a": "b"}, "p": "x"}
    safe_pattern.cache_clear()
    with most_calls(200_000):
        if is_light(schema):
            Validator(schema).errors_within(value, STEPS_AT_ONCE)


def test_properties_may_have_any_name_and_are_looked_at() -> None:
    within_names = {"default": {"x": {}}, "enum": {"y": {}}, "properties": {"const": {"z": {}}}}
    found = [*subschemas({"properties": within_names, "default": {"never": {}}})]
    assert {"x": {}} in found
    assert {"y": {}} in found
    assert {"z": {}} not in found
    assert {"never": {}} not in found
