"""Bounds in words, as a person would write them."""

from __future__ import annotations

import pytest

from core.schema_forms.form import field_for
from core.schema_forms.validator import errors_for


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"maximum": 600.0}, "at most 600"),
        ({"minimum": 1.0, "maximum": 600.0}, "1 to 600"),
        ({"exclusiveMinimum": 0.0, "maximum": 0.5}, "at most 0.5, more than 0"),
        ({"maximum": 123_456_789.0}, "at most 123456789"),
        ({"maximum": 1e300}, "at most 1e+300"),
    ],
)
def test_a_whole_bound_has_no_decimals(bounds: dict[str, float], words: str) -> None:
    assert field_for({"type": "number", **bounds}).limits == words


def test_a_count_has_no_decimals() -> None:
    assert field_for({"type": "string", "maxLength": 64.0}).limits == "at most 64 characters"


def test_a_failed_check_names_the_bound_as_the_help_does() -> None:
    schema = {"type": "object", "properties": {"timeout": {"type": "number", "maximum": 600.0}}}
    (problem,) = errors_for(schema, {"timeout": 700})
    assert "must be at most 600, not 700" in problem.message


def test_a_pattern_is_shown_as_it_stands_in_the_schema():
    schema = {"properties": {"key": {"type": "string", "pattern": r'^[A-Z]+-\d+"$'}}}
    [error] = errors_for(schema, {"key": "x"})
    assert error.message == r'key must match the pattern ^[A-Z]+-\d+"$, not "x".'
