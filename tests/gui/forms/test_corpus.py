"""Forms over the whole corpus, and over schemas nobody thought of: what goes in comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot

from app.forms import SchemaForm
from app.theme.theme import Theme
from core.schema_forms.json_values import same_json
from tests.fakes.window import apply_to_parts


@pytest.fixture(scope="module", autouse=True)
def _themed(qapp: QApplication) -> Theme:
    """One theme for this file: nothing in it switches."""
    theme = Theme("dark", "comfortable", reduced_motion=True, parent=qapp)
    apply_to_parts(theme, qapp)
    return theme


FOLDER = Path(__file__).parents[2] / "fakes" / "schemas"
CASES = [case for file in sorted(FOLDER.glob("*.json")) for case in json.loads(file.read_text())]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_a_form_sends_nothing_that_was_not_typed_and_gives_values_back_untouched(
    case: dict[str, Any], qtbot: QtBot
) -> None:
    form = SchemaForm()
    form.set_schema(case["schema"])
    assert form.value() == {}
    pane = QScrollArea()
    qtbot.addWidget(pane)
    pane.setWidgetResizable(True)
    pane.setWidget(form)
    pane.resize(380, 600)
    pane.show()
    for value in [*case["valid"], *(one for one in case["invalid"] if isinstance(one, dict))]:
        form.set_value(value)
        assert same_json(form.value(), value)
        form.show_problems()
        assert same_json(form.value(), value)
    for value in case["valid"]:
        form.set_value(value)
        assert form.problems() == []
    form.set_value({})
    assert form.value() == {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_values_that_no_schema_asked_for_are_kept(case: dict[str, Any], qtbot: QtBot) -> None:
    form = SchemaForm()
    qtbot.addWidget(form)
    form.set_schema(case["schema"])
    names = case["schema"].get("properties", {}) if isinstance(case["schema"], dict) else {}
    for odd in (None, [], {}, {"x": [1]}, "text", 5, 1.5, True, [[{"y": None}]]):
        value = dict.fromkeys([*list(names)[:20], "surplus"], odd)
        form.set_value(value)
        assert same_json(form.value(), value)


NAMES = st.text(max_size=8)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
)
SCALARS = st.sampled_from(
    [
        {},
        True,
        {"type": "string"},
        {"type": "integer", "default": 7},
        {"type": "number"},
        {"type": "boolean", "default": True},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"type": ["integer", "array", "null"]},
        {"enum": ["a", 1, None, True]},
        {"const": "c"},
        {"type": "string", "format": "password"},
        {"type": "string", "contentMediaType": "text/plain"},
        {"$ref": "#/$defs/again"},
    ]
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "description": st.text(max_size=20),
        },
    )
    lists = st.fixed_dictionaries(
        {"type": st.just("array")}, optional={"items": inner, "maxItems": st.just(2)}
    )
    tuples = st.fixed_dictionaries({"prefixItems": st.lists(inner, min_size=1, max_size=2)})
    choices = st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
    return objects | lists | tuples | choices


SCHEMAS = st.recursive(SCALARS, _nested, max_leaves=8)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    properties=st.dictionaries(NAMES, SCHEMAS, max_size=4), value=st.dictionaries(NAMES, VALUES, max_size=4)
)
def test_any_value_comes_back_from_any_form(qtbot: QtBot, properties: Any, value: Any) -> None:
    again = {"type": "object", "properties": {"deeper": {"$ref": "#/$defs/again"}, "n": {"type": "integer"}}}
    form = SchemaForm()
    form.set_schema({"type": "object", "properties": properties, "$defs": {"again": again}})
    assert form.value() == {}
    mixed = value | dict(zip(properties, value.values(), strict=False))
    form.set_value(mixed)
    assert same_json(form.value(), mixed)
    form.set_value({})
    assert form.value() == {}
    form.deleteLater()
