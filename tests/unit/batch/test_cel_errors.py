"""The words of CEL's errors: each pattern that reads them matches what the library says today.

The library has no codes for its errors, so that a changed word would silently change our messages.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from core.batch import expressions
from core.batch.expressions import (
    Context,
    Declarations,
    DeviceFacts,
    ExpressionError,
    Scope,
    StepFacts,
    compile_expression,
)
from core.batch.models import Input

SCHEMA = {"type": "object", "properties": {"percent": {"type": "number"}}, "additionalProperties": False}
SCOPE = Scope(
    Declarations({"text": Input(type="string"), "list": Input(type="list")}, {"known": SCHEMA, "free": {}}),
    ("known", "free"),
)
VALUES: dict[str, Any] = {"n": 1, "large": 2**70, "list": [1]}


def context() -> Context:
    """What the expressions of these tests read."""
    steps = {"free": StepFacts("done", result=VALUES), "known": StepFacts("done", result={"percent": 3.5})}
    return Context({"text": "abc", "list": ["a"]}, steps, DeviceFacts("lab-1"))


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the library's errors, as they come."""
    texts: list[str] = []
    compiled, words = expressions._compiled, expressions._evaluation_words

    class Recorder:
        def __init__(self, environment: Any) -> None:
            self.environment = environment

        def compile(self, text: str) -> Any:
            try:
                return self.environment.compile(text)
            except RuntimeError as error:
                texts.append(str(error))
                raise

    def evaluation_words(error: str) -> str:
        texts.append(error.strip())
        return words(error)

    monkeypatch.setattr(expressions, "_compiled", lambda env, *rest: compiled(Recorder(env), *rest))
    monkeypatch.setattr(expressions, "_evaluation_words", evaluation_words)
    return texts


@pytest.mark.parametrize(
    ("text", "pattern", "groups", "message"),
    [
        (
            "steps.known.result.per > 1",
            expressions._NO_FIELD,
            {1: "per"},
            'there is no field "per"; there are percent.',
        ),
        (
            "inputs.text > 1",
            expressions._NO_OVERLOAD,
            {1: "_>_", 2: "string, int"},
            "> cannot be used with: text, whole number.",
        ),
        (
            "foo > 1",
            expressions._NO_NAME,
            {1: "foo"},
            '"foo" is not known; an expression reads inputs, steps, device, and result in expect.',
        ),
    ],
)
def test_a_mistake_is_read_from_the_words_of_the_library(
    raw: list[str], text: str, pattern: re.Pattern[str], groups: dict[int, str], message: str
) -> None:
    with pytest.raises(ExpressionError) as wrong:
        compile_expression(text, SCOPE)
    [said] = raw
    problem = expressions._PROBLEM.search(said)
    assert problem, said
    assert (int(problem[1]), int(problem[2])) == (wrong.value.line, wrong.value.column)
    match = pattern.fullmatch(problem[3])
    assert match, problem[3]
    assert {number: match[number] for number in groups} == groups
    assert wrong.value.message == message


def test_what_is_nested_too_deeply_is_named_so_by_the_library(raw: list[str]) -> None:
    with pytest.raises(ExpressionError) as wrong:
        compile_expression("(" * 200 + "1" + ")" * 200, SCOPE)
    assert expressions._TOO_DEEP.search(raw[-1])
    assert wrong.value.message == "it is nested too deeply; allowed are 32 levels."


@pytest.mark.parametrize(
    ("text", "pattern", "message"),
    [
        ("steps.free.result.gone", expressions._NO_KEY, 'there is no field "gone".'),
        ("steps.free.result.list[3]", expressions._NO_ELEMENT, "there is no element 3; the list has 1."),
        (
            "steps.free.result.n > 'a'",
            expressions._WRONG_KINDS,
            "values of these kinds do not go together: ",
        ),
        ("steps.free.result.large + 1 > 1", expressions._BEYOND_INT, "an integer beyond 64 bits can be"),
    ],
)
def test_a_failed_evaluation_is_read_from_the_words_of_the_library(
    raw: list[str], text: str, pattern: re.Pattern[str], message: str
) -> None:
    expression = compile_expression(text, SCOPE)
    with pytest.raises(ExpressionError) as wrong:
        expression.evaluate(context())
    assert pattern.search(raw[-1]), raw
    assert wrong.value.message.startswith(message)
