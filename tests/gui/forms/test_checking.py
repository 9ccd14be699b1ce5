"""Arguments that take long to be checked: what is said meanwhile, and that nothing old is taken for new."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.forms import SchemaForm
from app.forms.validator import (
    IDLE_END_MS,
    NOT_CHECKED,
    STILL_CHECKED,
    SchemaHandle,
    Validator,
    ValidatorProcess,
    validator_process,
)
from app.theme.theme import Theme
from core.schema_forms import validator
from core.schema_forms.validator import FieldError
from tests.fakes.window import apply_to_parts
from tests.gui.forms.page import is_being_checked

PROPERTIES = {"name": {"type": "string", "minLength": 3}, "count": {"type": "integer", "maximum": 5}}
SMALL = {"type": "object", "properties": PROPERTIES, "required": ["name"]}
# Valid for the same arguments, and too much to be read at once.
LARGE = {**SMALL, "$defs": {f"d{number}": {"type": "string", "maxLength": number} for number in range(400)}}


@pytest.fixture(scope="module", autouse=True)
def _themed(qapp: QApplication) -> Theme:
    """One theme for this file: nothing in it switches."""
    theme = Theme("dark", "comfortable", reduced_motion=True, parent=qapp)
    apply_to_parts(theme, qapp)
    return theme


@pytest.fixture
def process() -> Iterator[ValidatorProcess]:
    known = validator_process()
    known.stop()
    yield known
    known.stop()


@pytest.fixture
def form(qtbot: QtBot, process: ValidatorProcess) -> SchemaForm:
    del process
    form = SchemaForm()
    qtbot.addWidget(form)
    form.set_schema(LARGE, {"name": "ab"})
    form.show()
    return form


def type_into(form: SchemaForm, name: str, text: str) -> None:
    row = form.row((name,))
    assert row is not None
    QTest.keyClicks(row.own_inputs()[0], text)


class Told:
    """What came of waiting for a check."""

    def __init__(self) -> None:
        self.found: list[list[FieldError]] = []
        self.changed = 0

    def change(self) -> None:
        self.changed += 1


def test_what_is_quick_is_known_at_once_and_needs_no_process(qtbot: QtBot, process: ValidatorProcess) -> None:
    form = SchemaForm()
    qtbot.addWidget(form)
    form.set_schema(SMALL, {"name": "ab"})
    assert form.is_checked
    assert [error.path for error in form.show_problems()] == [("name",)]
    told = Told()
    form.when_checked(told.found.append, told.change)
    assert len(told.found) == 1
    assert process.pid == 0


def test_what_takes_long_is_said_as_soon_as_it_is_known(form: SchemaForm, qtbot: QtBot) -> None:
    assert form.problems() == []
    qtbot.waitUntil(lambda: bool(form.errors))
    assert form.is_checked
    assert form.errors == {("name",): "name must have at least 3 characters, not 2."}
    type_into(form, "name", "c")
    qtbot.waitUntil(lambda: form.is_checked)
    assert form.problems() == []


def test_it_is_said_calmly_that_arguments_are_checked_while_that_takes_long(
    form: SchemaForm, qtbot: QtBot, process: ValidatorProcess
) -> None:
    assert not is_being_checked(form)
    form.problems()
    qtbot.waitUntil(lambda: process.pid != 0)
    os.kill(process.pid, signal.SIGSTOP)
    qtbot.waitUntil(lambda: is_being_checked(form))
    os.kill(process.pid, signal.SIGCONT)
    qtbot.waitUntil(lambda: not is_being_checked(form))
    assert form.errors


def test_what_takes_long_is_done_by_no_thread_of_the_window(
    form: SchemaForm, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the window read the schema itself")

    monkeypatch.setattr(validator.Validator, "__init__", never)
    form.set_schema({**LARGE, "title": "Read by nobody before"}, {"name": "ab"})
    qtbot.waitUntil(lambda: form.is_checked)
    assert [error.path for error in form.problems()] == [("name",)]


def test_who_cannot_wait_is_told_that_nothing_is_known_yet(form: SchemaForm) -> None:
    assert [error.message for error in form.show_problems()] == [STILL_CHECKED]


def test_who_waits_is_told_what_is_wrong_with_what_stands_in_the_form(form: SchemaForm, qtbot: QtBot) -> None:
    told = Told()
    form.when_checked(told.found.append, told.change)
    assert told.found == []
    qtbot.waitUntil(lambda: bool(told.found))
    assert [[error.path for error in found] for found in told.found] == [[("name",)]]
    assert told.changed == 0


@pytest.mark.parametrize("how", ["typed", "given", "another tool"])
def test_what_is_known_of_earlier_arguments_is_never_taken_for_later_ones(
    form: SchemaForm, qtbot: QtBot, how: str
) -> None:
    told = Told()
    form.set_value({"name": "abc"})
    form.when_checked(told.found.append, told.change)
    if how == "typed":
        type_into(form, "count", "9")
    elif how == "given":
        form.set_value({"name": "abc", "count": 9})
    else:
        form.set_schema({**LARGE, "required": ["count"]}, {"name": "abc"})
    assert told.changed == 1
    qtbot.waitUntil(lambda: form.is_checked)
    assert [error.path for error in form.problems()] == [("count",)]
    assert told.found == []


def test_arguments_that_are_typed_back_are_the_same_again(form: SchemaForm, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: form.is_checked)
    type_into(form, "count", "9")
    assert not form.is_checked
    form.set_value({"name": "ab"})
    assert not form.is_checked, "what was found of it was given up when something else was asked"
    qtbot.waitUntil(lambda: form.is_checked)
    assert [error.path for error in form.problems()] == [("name",)]


def test_a_process_that_dies_is_said_and_the_next_try_has_another(
    form: SchemaForm, qtbot: QtBot, process: ValidatorProcess
) -> None:
    form.set_value({"name": "abc"})
    form.problems()
    qtbot.waitUntil(lambda: process.pid != 0)
    first = process.pid
    os.kill(first, signal.SIGKILL)
    qtbot.waitUntil(lambda: form.is_checked)
    assert [error.message for error in form.problems()] == [NOT_CHECKED]
    told = Told()
    form.when_checked(told.found.append, told.change)
    qtbot.waitUntil(lambda: bool(told.found))
    assert told.found == [[]]
    assert process.pid not in (0, first)


def test_the_process_ends_when_nobody_asks_any_more(
    form: SchemaForm, qtbot: QtBot, process: ValidatorProcess
) -> None:
    [idle] = [timer for timer in process.findChildren(QTimer) if timer.interval() == IDLE_END_MS]
    idle.setInterval(30)
    try:
        qtbot.waitUntil(lambda: form.is_checked and process.pid == 0)
    finally:
        idle.setInterval(IDLE_END_MS)
    type_into(form, "name", "c")
    qtbot.waitUntil(lambda: form.is_checked)
    assert form.problems() == []


def test_many_checks_are_answered_each_with_its_own(qtbot: QtBot, process: ValidatorProcess) -> None:
    del process
    subject = SchemaHandle(LARGE)
    values = [{"name": "x" * number} for number in range(6)]
    checks = [Validator(subject) for _ in values]
    for check, value in zip(checks, values, strict=True):
        assert check.errors(value) is None
    told: list[None] = []
    checks[2].known.connect(lambda: told.append(None))
    checks[2].drop()

    def known() -> list[Any]:
        return [
            check.errors(value)
            for at, (check, value) in enumerate(zip(checks, values, strict=True))
            if at != 2
        ]

    qtbot.waitUntil(lambda: None not in known())
    assert [bool(found) for found in known()] == [True, True, False, False, False]
    assert not told


def test_a_form_that_is_gone_is_told_nothing(qtbot: QtBot, process: ValidatorProcess) -> None:
    form = SchemaForm()
    form.set_schema(LARGE, {"name": "ab"})
    assert not form.is_checked
    with qtbot.waitSignal(form.destroyed):
        form.deleteLater()
    after = Validator(LARGE)
    after.errors({"name": "abcd"})
    qtbot.waitUntil(lambda: after.errors({"name": "abcd"}) is not None)
    assert process.pid != 0


def test_a_required_field_with_a_default_may_be_left_empty(process: ValidatorProcess):
    del process
    scale = {"type": "string", "enum": ["css", "device"], "default": "css"}
    check = Validator({"type": "object", "properties": {"scale": scale}, "required": ["scale"]})
    assert check.errors({}) == []
    assert check.errors({"scale": "x"}) not in ([], None)
