"""The process that checks arguments for a window."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

from core.schema_forms.validator import TOO_MUCH, FieldError, Validator
from core.schema_forms.worker import MOST_KEPT, errors_in, question, serve

SCHEMA = {"properties": {"a": {"type": "integer", "maximum": 10**30}}, "required": ["a"]}


def answers(*questions: bytes) -> list[Any]:
    out = io.BytesIO()
    serve(questions, out)
    return [errors_in(line) for line in out.getvalue().splitlines()]


def told(key: str, value: Any) -> bytes:
    return question(key, value, json.dumps(SCHEMA))


def test_a_schema_is_told_once_and_answers_are_those_of_the_validator() -> None:
    for value in ({"a": 1}, {"a": 10**31}, {"a": 1.5}, {"b": "\ud800"}, {"a": [1]}, {}):
        expected = Validator(SCHEMA).errors(value)
        assert answers(question("k", value), told("k", value), question("k", value)) == [
            None,
            expected,
            expected,
        ]


def test_only_the_latest_schemas_are_remembered() -> None:
    first = [told(f"k{number}", {}) for number in range(MOST_KEPT + 1)]
    found = answers(*first, question("k0", {}), question("k1", {}))
    assert found[-2:] == [None, [FieldError(("a",), "a is required.")]]


def test_arguments_that_are_nested_too_deeply_are_said_to_be() -> None:
    deep = b'{"key": "k", "value": ' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    assert answers(deep, told("k", {"a": 1})) == [TOO_MUCH, []]


def test_the_process_ends_with_whoever_asked() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "core.schema_forms.worker"],
        input=told("k", {}) + question("k", {"a": 1}),
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert [errors_in(line) for line in ran.stdout.splitlines()] == [
        [FieldError(("a",), "a is required.")],
        [],
    ]
