"""Every schema of the corpus: fields are built, valid values pass, invalid ones are named in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.schema_forms.form import Field, FieldKind, form_for
from core.schema_forms.validator import errors_for

FOLDER = Path(__file__).parents[2] / "fakes" / "schemas"
CASES = [case for file in sorted(FOLDER.glob("*.json")) for case in json.loads(file.read_text())]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))


def walk(field: Field, budget: list[int]) -> None:
    """Look at everything a form would, as far as the budget goes."""
    budget[0] -= 1
    if budget[0] < 0:
        return
    assert isinstance(field.limits + field.hint + field.unit + field.description + field.where, str)
    assert field.kind is not FieldKind.JSON or isinstance(field.reason, str)
    for below in (*field.properties, *field.alternatives):
        walk(below, budget)
    if field.kind is FieldKind.ARRAY:
        walk(field.item_field(0), budget)
    if field.kind is FieldKind.OBJECT and field.offers_keys:
        walk(field.key_field("some key"), budget)
    assert all(choice.label for choice in field.choices)


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) >= 60
    assert len(set(names)) == len(names)


@cases
def test_fields_are_built_for_every_schema(case: dict[str, Any]) -> None:
    walk(form_for(case["schema"]), [400])


@cases
def test_valid_values_pass_and_invalid_ones_are_named(case: dict[str, Any]) -> None:
    for value in case["valid"]:
        assert errors_for(case["schema"], value) == []
    for value in case["invalid"]:
        errors = errors_for(case["schema"], value)
        assert errors
        for error in errors:
            assert error.message.endswith(".")
            assert len(error.message) < 400
