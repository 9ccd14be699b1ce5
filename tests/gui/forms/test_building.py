"""Rows of a form that are filled one after the other: what they hold counts from the beginning."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot

from app.forms import FormWithJson, SchemaForm
from app.forms.base import FieldRow, RawEditor
from app.forms.lazy_builder import AT_ONCE, MOST_ROWS
from app.forms.union_editor import UnionEditor
from app.forms.wrapping_label import WrappingLabel
from app.theme.theme import Theme
from core.schema_forms.json_values import same_json
from tests.fakes.window import apply_to_parts

COUNT = 30
TEXTS: dict[str, Any] = {"properties": {f"p{n}": {"type": "string", "minLength": 2} for n in range(COUNT)}}


@pytest.fixture(scope="module", autouse=True)
def _themed(qapp: QApplication) -> Theme:
    """One theme for this file: nothing in it switches."""
    theme = Theme("dark", "comfortable", reduced_motion=True, parent=qapp)
    apply_to_parts(theme, qapp)
    return theme


def shown(qtbot: QtBot, schema: Any, value: Any = None) -> SchemaForm:
    form = SchemaForm()
    form.set_schema(schema, value)
    pane = QScrollArea()
    pane.setWidgetResizable(True)
    pane.setWidget(form)
    pane.resize(380, 700)
    qtbot.addWidget(pane)
    pane.show()
    form.__dict__["pane"] = pane  # or Python would end it here, and Qt the form with it
    return form


def rows(form: SchemaForm) -> list[FieldRow]:
    return [row for _, row in form.all_rows()]


def done(form: SchemaForm, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: form.is_built)


def test_the_first_rows_are_there_at_once_and_all_in_the_end(qtbot: QtBot) -> None:
    form = shown(qtbot, TEXTS)
    assert len(rows(form)) == COUNT
    assert sum(row.is_filled for row in rows(form)) == AT_ONCE
    done(form, qtbot)
    assert all(row.is_filled for row in rows(form))
    assert len(form.inputs()) == COUNT + 1, "each its own, and the button behind them"
    assert form.value() == {}


def test_what_a_row_is_given_counts_before_it_is_filled(qtbot: QtBot) -> None:
    given: dict[str, Any] = {"p25": "x", "p26": 7, "p1": "yy", "other": {"z": [None]}}
    form = shown(qtbot, TEXTS, given)
    assert same_json(form.value(), given)
    assert list(form.value()) == list(given)
    found = {error.path for error in form.show_problems()}
    assert {("p25",), ("p26",)} <= found
    assert form.errors[("p25",)].startswith("p25 must have at least 2 characters")
    form.set_value({"p25": "long enough"})
    assert form.value() == {"p25": "long enough"}
    done(form, qtbot)
    assert form.value() == {"p25": "long enough"}


def test_an_error_is_shown_in_a_row_that_is_filled_after_it_was_found(qtbot: QtBot) -> None:
    form = shown(qtbot, TEXTS, {"p29": "x"})
    form.show_problems()
    done(form, qtbot)
    row = dict(form.all_rows())[("p29",)]
    assert row.error.text() == "p29 must have at least 2 characters, not 1."
    assert row.own_inputs()[0].property("state") == "fail"


def test_who_is_led_to_a_row_finds_it_filled(qtbot: QtBot) -> None:
    nested = {
        "properties": {**TEXTS["properties"], "deep": {"type": "object", "properties": TEXTS["properties"]}}
    }
    form = shown(qtbot, nested, {"deep": {"p28": "x"}})
    assert form.focus_path(("deep", "p28"))
    QTest.keyClicks(form.focusWidget(), "y")
    assert form.value()["deep"]["p28"] in ("xy", "yx")


def test_another_form_leaves_rows_of_the_last_one_unfilled(qtbot: QtBot) -> None:
    form = shown(qtbot, TEXTS)
    form.set_schema({"properties": {"a": {"type": "string"}}})
    done(form, qtbot)
    assert [row.field.name for row in rows(form)] == ["a"]


def test_constants_of_an_alternative_are_chosen_also_where_rows_wait(qtbot: QtBot) -> None:
    many = {f"c{n}": {"const": n} for n in range(40)}
    branch = {"type": "object", "properties": many, "required": list(many)}
    form = shown(qtbot, {"properties": {"a": {"anyOf": [{"type": "string"}, branch]}}})
    row = form.row(("a",))
    assert row is not None
    assert isinstance(row.editor, UnionEditor)
    row.editor.input.setCurrentIndex(2)
    row.editor.input.activated.emit(2)
    assert form.value() == {"a": {f"c{n}": n for n in range(40)}}
    done(form, qtbot)
    assert form.value() == {"a": {f"c{n}": n for n in range(40)}}


def test_objects_that_never_end_are_json_once_the_form_is_long(qtbot: QtBot) -> None:
    again = {"type": "object", "properties": {f"p{n}": {"$ref": "#/$defs/a"} for n in range(30)}}
    again["required"] = list(again["properties"])
    form = shown(qtbot, {"$ref": "#/$defs/a", "$defs": {"a": again}})
    done(form, qtbot)
    assert MOST_ROWS <= len(rows(form)) < MOST_ROWS + 60
    assert any(isinstance(row.shown_editor, RawEditor) for row in rows(form))
    assert form.value() == {}


def test_secrets_are_masked_beside_the_form_before_their_rows_are_filled(qtbot: QtBot) -> None:
    both = FormWithJson()
    qtbot.addWidget(both)
    secret = {"properties": {**TEXTS["properties"], "token": {"type": "string", "writeOnly": True}}}
    both.set_schema(secret, {"token": "hunter2"})
    assert not rows(both.form)[0].is_filled
    block = both.json.editor.document().findBlockByNumber(1)
    assert any(
        part.format.foreground().color() == part.format.background().color()
        for part in block.layout().formats()
    )


def test_words_that_wrap_are_as_high_as_they_need_and_ask_no_layout(qtbot: QtBot) -> None:
    words = "Something that is said about an argument, and more of it. " * 6
    form = shown(qtbot, {"properties": {"a": {"type": "string", "description": words}}})
    [said] = [one for one in form.findChildren(WrappingLabel) if one.text().startswith("Something")]
    pane = form.__dict__["pane"]
    heights = []
    for width in (380, 240, 380, 600):
        pane.resize(width, 700)
        qtbot.waitUntil(lambda: said.width() == form.width() == pane.viewport().width())
        lines = said.fontMetrics().boundingRect(
            0, 0, said.width(), 9_999, Qt.TextFlag.TextWordWrap, said.text()
        )
        heights.append(said.height())
        assert abs(said.height() - lines.height()) <= 2
    assert heights[1] > heights[0] == heights[2] > heights[3]
    assert not form.hasHeightForWidth()
