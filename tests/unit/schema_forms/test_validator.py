"""Checking arguments: words for people, bounded time whatever the schema, nothing fetched."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from core.schema_forms import validator
from core.schema_forms.patterns import PatternTooCostly, PatternUnsupported, SafePattern, safe_pattern
from core.schema_forms.validator import (
    FieldError,
    ThreadedValidator,
    Validator,
    errors_at_once,
    errors_for,
    validator_for,
)
from tests.fakes.work import most_calls

SHELL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "minLength": 1},
        "timeout": {"type": "integer", "minimum": 1, "maximum": 600},
        "mode": {"enum": ["create", "overwrite", "append"]},
        "region": {
            "anyOf": [{"const": "full"}, {"type": "object", "properties": {"x": {"type": "integer"}}}]
        },
        "token": {"type": "string", "writeOnly": True, "maxLength": 4},
    },
    "required": ["command"],
    "additionalProperties": False,
}


def found_in(schema: Any, parameters: Any) -> list[FieldError]:
    """What a dispatcher finds wrong with the arguments of a call."""
    return asyncio.run(ThreadedValidator().errors(schema, parameters, ""))


def said(parameters: Any, schema: Any = None) -> list[str]:
    return [error.message for error in found_in(SHELL if schema is None else schema, parameters)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "command is required."),
        ({"command": "x", "timeout": "5"}, 'timeout must be a whole number, not "5".'),
        ({"command": "x", "timeout": 0}, "timeout must be at least 1, not 0."),
        ({"command": "x", "timeout": True}, "timeout must be a whole number, not true."),
        ({"command": ""}, "command must have at least 1 character, not 0."),
        (
            {"command": "x", "mode": "creat"},
            'mode must be one of create, overwrite, append, not "creat"; did you mean create.',
        ),
        ({"command": "x", "comand": "y"}, "comand is not an argument here; did you mean command."),
        ({"command": "x", "region": {"x": "a"}}, 'region.x must be a whole number, not "a".'),
        ({"command": "x", "region": 5}, 'region must be "full" or an object with x, not 5.'),
    ],
)
def test_an_error_names_the_argument_and_what_is_allowed(parameters: Any, message: str) -> None:
    assert said(parameters) == [message]


@pytest.mark.parametrize("parameters", [None, [], "x", 5, True])
def test_arguments_that_are_no_object_are_refused_even_by_an_empty_schema(parameters: Any) -> None:
    assert said(parameters, {}) == ["The arguments must be an object of names and values."]


def test_a_secret_is_never_repeated_in_an_error() -> None:
    assert "hunter2" not in " ".join(said({"command": "x", "token": "hunter2"}))
    nested = {"properties": {"o": {"format": "password", "anyOf": [{"const": 1}, {"maxLength": 2}]}}}
    assert "hunter2" not in " ".join(said({"o": "hunter2"}, nested))


def test_a_remote_reference_is_never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    (error,) = errors_for({"$ref": "http://127.0.0.1:9/schema.json"}, {})
    assert "never fetched" in error.message


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 50_000 + "!"),
        ("^(a|aa)+$", "a" * 5_000 + "!"),
        ("(x+x+)+y", "x" * 3_000),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 100_000),
        ("(.*)*(.*)*(.*)*!", "a" * 2_000),
        ("\\s*\\s*\\s*\\s*\\s*x", " " * 5_000),
        ("^(?=(a+)+$).*b", "a" * 3_000),
        ("(a?){200}a{200}", "a" * 199),
    ],
)
def test_a_catastrophic_pattern_ends_in_bounded_work(pattern: str, text: str) -> None:
    safe_pattern.cache_clear()
    with most_calls(4_000_000):
        errors = errors_for({"properties": {"v": {"pattern": pattern}}}, {"v": text})
    assert len(errors) == 1


def test_a_catastrophic_property_name_pattern_ends_in_bounded_work() -> None:
    schema = {"patternProperties": {"^(a+)+$": {"type": "string"}}, "additionalProperties": False}
    safe_pattern.cache_clear()
    with most_calls(2_000_000):
        assert errors_for(schema, {"a" * 5_000 + "!": 1})


def test_references_that_double_end_in_bounded_work() -> None:
    doubling = {f"a{at}": {"allOf": [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(40)}
    with most_calls(5_000_000):
        (error,) = errors_for({"$defs": {**doubling, "a40": {}}, "$ref": "#/$defs/a0"}, {})
    assert "nested too deeply" in error.message


def test_unique_items_of_a_long_list_of_objects_are_checked_in_proportion_to_it() -> None:
    schema = {"properties": {"l": {"uniqueItems": True}}}
    with most_calls(2_000_000):
        assert not errors_for(schema, {"l": [{"i": at} for at in range(20_000)]})
    assert errors_for(schema, {"l": [{"i": 1}, {"i": 1.0}]})
    assert not errors_for(schema, {"l": [1, True, "1", None]})


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^[a-z]+$", "abc\n", False),
        ("^\\d+$", "١٢", False),
        ("(?<year>\\d{4})", "in 2026", True),
        ("^\\p{Lu}\\p{L}*$", "Ünder", True),
        ("^[\\p{L}-]+$", "a-1", False),
        ("^(?!.*\\.\\.)[a-z.]+$", "a..b", False),
        ("^(?:[a-z]+-)*[a-z]+$", "ab-cd-e", True),
        ("(?<=x)y", "xy", True),
        ("(?<!x)y", "xy", False),
        ("^[^]+$", "a\nb", True),
        ("[[\\]]", "]", True),
        ("\\u{1F600}", "😀", True),
        ("^(a+)+$", "a" * 3_000, True),
        ("\\bword\\b", "a word here", True),
        ("^.{2,3}$", "abcd", False),
        ("^a{0}b?$", "", True),
    ],
)
def test_patterns_mean_what_ecma_says(pattern: str, text: str, matches: bool) -> None:
    assert safe_pattern(pattern).search(text) is matches


@pytest.mark.parametrize(
    "pattern", ["(", "(a)\\1", "(?<n>a)\\k<n>", "\\p{Emoji}", "a{4001}{4001}", "x" * 2_001]
)
def test_a_pattern_that_cannot_be_bounded_is_refused(pattern: str) -> None:
    with pytest.raises(PatternUnsupported):
        SafePattern(pattern)
    (error,) = errors_for({"properties": {"v": {"pattern": pattern}}}, {"v": "a"})
    assert error.message.startswith("The tool's own schema is broken")


def test_a_text_too_long_for_its_pattern_is_refused_not_waited_for() -> None:
    with pytest.raises(PatternTooCostly):
        safe_pattern("^(a|b|ab)*c$").search("ab" * 500_000)
    (error,) = errors_for({"properties": {"v": {"pattern": "^(a|b|ab)*c$"}}}, {"v": "ab" * 500_000})
    assert "too long" in error.message


def test_a_plain_pattern_is_checked_on_a_megabyte() -> None:
    assert not errors_for({"properties": {"v": {"pattern": "^[^\\0]*$"}}}, {"v": "x" * 1_000_000})


def test_numbers_beyond_floats_are_compared_exactly() -> None:
    schema = {"properties": {"n": {"multipleOf": 0.1}}}
    assert not errors_for(schema, {"n": 0.3})
    assert not errors_for(schema, {"n": 10**400})
    assert errors_for(schema, {"n": 0.05})


def test_a_validator_is_compiled_once_per_content_and_sees_changes() -> None:
    schema: dict[str, Any] = {"type": "object", "required": ["a"]}
    assert validator_for(schema) is validator_for({"required": ["a"], "type": "object"})
    assert errors_for(schema, {})
    schema["required"] = []
    assert not errors_for(schema, {})


def test_a_deeply_nested_argument_is_an_error_not_a_crash() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"a": deep}
    schema = {"properties": {"a": {"$ref": "#"}}}
    (error,) = errors_for(schema, deep)
    assert "too deeply" in error.message


def test_the_schemas_that_are_kept_are_the_latest_used_within_their_number_and_weight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validator, "MAX_CACHED", 3)
    cache = validator._Cache(most_weight=10)
    for key in "abc":
        cache.put(key, Validator(True), 2)
    assert cache.get("a") is not None
    cache.put("d", Validator(True), 2)
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]
    cache.put("e", Validator(True), 7)
    assert [key for key in "acde" if cache.get(key) is not None] == ["d", "e"]
    cache.put("e", Validator(True), 1)
    cache.put("f", Validator(True), 7)
    assert [key for key in "def" if cache.get(key) is not None] == ["d", "e", "f"]
    cache.put("g", Validator(True), 99)
    assert [key for key in "defg" if cache.get(key) is not None] == ["g"]


def test_one_small_object_is_checked_in_few_calls() -> None:
    value = {"command": "ls", "timeout": 30, "mode": "append"}
    assert not errors_at_once(SHELL, value, "of a shell")
    with most_calls(1_000):
        assert not errors_at_once(SHELL, value, "of a shell")


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": 5},
        {"$ref": "#/title", "title": "x"},
        {"$ref": "#/$defs/0", "$defs": [1]},
        None,
        [],
        "x",
        {"type": "foo"},
    ],
)
def test_a_schema_that_is_itself_broken_gives_one_clear_error(schema: Any) -> None:
    (error,) = found_in(schema, {"a": 1})
    assert error.path == ()
    assert error.message.startswith("The tool's own schema is broken")


def _below_each_other(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"unevaluatedProperties": False, "allOf": [schema], "properties": {"a": {}}}
    return {"type": "object", **schema}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        # Each level looks twice at all that is below it, and no reference is followed.
        pytest.param(_below_each_other(30), {"a": 1}, id="unevaluated"),
        pytest.param(
            {"properties": {"a": {"allOf": [{"pattern": f"(?:(.*)(?:.*)){{{n}}}q"} for n in range(5, 60)]}}},
            {"a": "x" * 2000},
            id="many patterns for one text",
        ),
        pytest.param(
            {"properties": {"a": {"items": {"allOf": [{"minimum": 0}] * 200}}}},
            {"a": list(range(20_000))},
            id="alternatives times items",
        ),
        pytest.param(
            {"allOf": [{"properties": {"a": {"uniqueItems": True}}}] * 200},
            {"a": [[list(range(10_000))]]},
            id="one large value, many times",
        ),
    ],
)
def test_work_that_a_schema_multiplies_without_references_ends_in_bounded_work(
    schema: dict[str, Any], value: Any
) -> None:
    with most_calls(30_000_000):
        (error,) = errors_for(schema, value)
    assert "too much work" in error.message


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"properties": {f"p{n}": {"type": "string"} for n in range(5_000)}}, "parts"),
        ({"description": "x" * 300_000}, "characters"),
        ({"properties": {f"p{n}": {"pattern": f"(?:a{{60}}){{60}}{n}"} for n in range(200)}}, "patterns"),
    ],
)
def test_a_schema_that_would_take_seconds_to_read_is_not_read(schema: dict[str, Any], reason: str) -> None:
    with most_calls(4_000_000):
        (error,) = errors_for(schema, {})
    assert reason in error.message


def test_a_large_list_of_plain_values_is_still_checked() -> None:
    schema = {"properties": {"a": {"items": {"type": "integer"}}}}
    assert errors_for(schema, {"a": list(range(20_000))}) == []
    assert errors_for(schema, {"a": [*range(20_000), "x"]}) != []


def test_the_nearest_word_is_not_looked_for_among_pages() -> None:
    pages = ["".join(chr(0x4E00 + (n * step) % 300) for n in range(8_000)) for step in (7, 11, 13)]
    schema = {"properties": {"a": {"enum": pages * 10}}}
    with most_calls(20_000):
        (error,) = errors_for(schema, {"a": pages[0][::-1], "pages[0]": 1})
    assert "must be one of" in error.message
    assert len(error.message) < 3_000
