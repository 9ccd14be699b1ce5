"""The worst schemas that a device may send: the window's loop never stands still because of one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QScrollArea, QWidget

from app.forms import SchemaForm
from app.theme.theme import Theme
from core.schema_forms import document, validator
from core.schema_forms.patterns import safe_pattern
from tests.fakes.qt_turns import most_calls_a_turn
from tests.fakes.window import seen

# What is made in one turn of 3,900 fields is 250,000.
MOST_IN_A_TURN = 500_000


def named(count: int, schema: Any) -> dict[str, Any]:
    return {f"p{number}": schema for number in range(count)}


def twice(last: dict[str, Any], times: int) -> dict[str, Any]:
    """Definitions under which `last` is looked at 2 ** `times` times."""
    steps = {f"r{n}": {"allOf": [{"$ref": f"#/$defs/r{n + 1}"}] * 2} for n in range(times)}
    return {**steps, f"r{times}": last}


TEXT = {"type": "string", "maxLength": 9, "description": "Something to say of it."}
LEVELS = {
    f"l{level}": {
        "type": "object",
        "properties": named(100, {"$ref": f"#/$defs/l{level + 1}"}),
        "required": list(named(100, 0)),
    }
    for level in range(5)
}
MANY_VALUES = {"enum": [f"value {number}" for number in range(2_000)]}
POINT = {"type": "object", "properties": named(60, {"const": 1})}
WORST: dict[str, dict[str, Any]] = {
    "as many parts as there may be": {"properties": named(3_900, {"type": "string", "maxLength": 9})},
    "two fields, and many parts": {
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "$defs": named(3_000, {"type": "string", "pattern": "^x"}),
    },
    "slow to be held against": {
        "properties": {"a": {"type": "string"}},
        "$defs": twice({"not": {"required": ["x"]}}, 13),
        "allOf": [{"$ref": "#/$defs/r0"}],
    },
    "patterns": {
        "properties": {
            f"p{number}": {"type": "string", "pattern": f"^[a-z]{{{number % 40 + 1}}}x{number}$"}
            for number in range(100)
        }
    },
    "merged again and again": {
        "properties": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 1_000}},
        "$defs": {"a": {"properties": named(1_500, {"type": "string"})}},
    },
    "each field slow to be read": {
        "properties": named(100, {"$ref": "#/$defs/a"}),
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}] * 1_990}, "b": {"type": "string"}},
    },
    "as many fields as a form shows": {"properties": named(119, TEXT)},
    "objects in objects": {"$ref": "#/$defs/l0", "$defs": {**LEVELS, "l5": {"type": "string"}}},
    "long lists of choices": {"properties": named(100, {"$ref": "#/$defs/a"}), "$defs": {"a": MANY_VALUES}},
    "endless lists of choices": {"properties": {"a": {"enum": [f"{n}" for n in range(20_000)]}}},
    "as many alternatives as there may be": {
        "properties": named(50, {"oneOf": [{"$ref": "#/$defs/a"}] * 100}),
        "$defs": {"a": POINT},
    },
    "itself": {
        "properties": {"deeper": {"$ref": "#"}, "list": {"items": {"$ref": "#"}}},
        "required": ["deeper"],
    },
    "megabytes": {"properties": named(60_000, {"type": "string", "description": "x" * 20})},
}


def nothing_is_remembered() -> None:
    """As when the schema is seen for the first time."""
    validator.compiled_schemas.clear()
    document.serialized_schemas.clear()
    safe_pattern.cache_clear()


@asynccontextmanager
async def open_form(theme: Theme) -> AsyncIterator[SchemaForm]:
    """A form, with each turn of the window's loop held to its calls."""
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    form, pane = SchemaForm(), QScrollArea()
    pane.setWidgetResizable(True)
    pane.setWidget(form)
    pane.resize(420, 700)
    # As in a window: the application has no sheet of its own.
    app.setStyleSheet("")
    theme.dress(pane)
    pane.show()
    form.set_schema({"type": "object"})
    await seen(lambda: form.is_checked)
    with most_calls_a_turn(MOST_IN_A_TURN):
        yield form
    gone = asyncio.Event()
    pane.destroyed.connect(gone.set)
    pane.deleteLater()
    await gone.wait()


def first_input(form: SchemaForm) -> QWidget:
    return form.inputs()[0]


@pytest.mark.parametrize("schema", WORST.values(), ids=WORST.keys())
async def test_the_window_goes_on_while_a_form_is_made_and_typed_in(
    theme: Theme, schema: dict[str, Any]
) -> None:
    async with open_form(theme) as form:
        nothing_is_remembered()
        form.set_schema({**schema})
        assert form.inputs()
        QTest.keyClicks(first_input(form), "1")
        await seen(lambda: form.is_built and form.is_checked)
        QTest.keyClicks(first_input(form), "2")
        await seen(lambda: form.is_checked)
