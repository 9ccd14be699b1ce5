"""Texts of a batch file with expressions in `${{ … }}`, compiled: conditions, expectations and arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.batch.expressions import (
    Context,
    Declarations,
    Expression,
    ExpressionError,
    Reference,
    Scope,
    compile_expression,
)
from core.batch.models import ApprovalStep, Batch, Step, calls

OPEN, CLOSE = "${{", "}}"
MOST_IN_TEXT = 20
"""Most expressions in one text."""

Path = tuple[str | int, ...]
"""The place of an argument: keys and indexes."""


class StepExpressionError(ExpressionError):
    """A mistake in an expression of a step. `path` leads from the step to the text: `("with", "command")`."""

    def __init__(self, step: str, path: Path, error: ExpressionError) -> None:
        where = ".".join(str(part) for part in path)
        super().__init__(f"{step}: {where}: {error.message}", error.line, error.column)
        self.step = step
        self.path = path
        self.what = error.message


@dataclass(frozen=True, slots=True)
class Condition:
    """A `when` or an expectation."""

    expression: Expression

    @property
    def text(self) -> str:
        """The expression without its brackets."""
        return self.expression.text

    @property
    def references(self) -> tuple[Reference, ...]:
        """What it reads."""
        return self.expression.references

    def evaluate(self, context: Context) -> bool:
        """Whether it holds.

        Raises:
            ExpressionError: as `Expression.evaluate`; also if the value is not true or false.
        """
        value = self.expression.evaluate(context)
        if not isinstance(value, bool):
            raise ExpressionError(f"a condition is true or false; this one gives {_kind(value)}")
        return value


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """A text with expressions in it. `parts` are texts and expressions in turn."""

    parts: tuple[str | Expression, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions in it."""
        return tuple(part for part in self.parts if isinstance(part, Expression))

    def evaluate(self, context: Context) -> Any:
        """The text; the value itself where the text is one expression and nothing else."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Expression):
            return self.parts[0].evaluate(context)
        return "".join(
            _written(part.evaluate(context)) if isinstance(part, Expression) else part for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a step. A text that is wholly `${{ … }}` yields its value with its type."""

    parameters: dict[str, Any]
    templates: Mapping[Path, TextTemplate]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All expressions in the arguments."""
        return tuple(inner for template in self.templates.values() for inner in template.expressions)

    @property
    def secret_paths(self) -> frozenset[Path]:
        """The places that receive secret inputs."""
        return frozenset(
            path
            for path, template in self.templates.items()
            if any(inner.secret for inner in template.expressions)
        )

    def evaluate(self, context: Context) -> dict[str, Any]:
        """The arguments with all expressions replaced by their values.

        Raises:
            ExpressionError: as `Expression.evaluate`; the message names the argument.
        """
        if not self.templates:
            return self.parameters
        values: dict[Path, Any] = {}
        for path, template in self.templates.items():
            try:
                values[path] = template.evaluate(context)
            except ExpressionError as error:
                raise ExpressionError(f"argument {_shown(path)}: {error.message}") from None
        replaced = _replaced(self.parameters, values, ())
        assert isinstance(replaced, dict)
        return replaced


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """The expressions of one step or approval step. `arguments` is None for an approval step.

    `question` is what an approval step asks, where that has expressions.
    """

    when: Condition | None
    expect: tuple[Condition, ...] = ()
    arguments: Arguments | None = None
    question: TextTemplate | None = None

    def expressions(self) -> Iterator[Expression]:
        """All expressions of the step."""
        if self.when is not None:
            yield self.when.expression
        yield from (condition.expression for condition in self.expect)
        if self.arguments is not None:
            yield from self.arguments.expressions
        if self.question is not None:
            yield from self.question.expressions


def has_expressions(batch: Batch) -> bool:
    """Whether anything in a batch must be evaluated; if not, CEL is not imported."""
    return any(
        step.when is not None or step.expect or any(True for _ in texts_with_expressions(step.parameters))
        for entry in batch.steps
        for call in calls(entry)
        for step in (call, *call.recover)
    ) or any(
        isinstance(entry, ApprovalStep) and (entry.when is not None or OPEN in entry.approval.question)
        for entry in batch.steps
    )


def compile_batch(
    batch: Batch, schemas: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, CompiledStep]:
    """Compile all expressions of a batch, by step id, recovery steps and approval steps included.

    `schemas` has the output schemas of the steps' tools. A run compiles without them: they differ by device,
    and the planner has checked them.

    Raises:
        StepExpressionError: the first mistake.
    """
    faults: list[StepExpressionError] = []
    compiled = compile_all(batch, schemas or {}, faults)
    if faults:
        raise faults[0]
    return compiled


def compile_all(
    batch: Batch, schemas: Mapping[str, Mapping[str, Any]], faults: list[StepExpressionError]
) -> dict[str, CompiledStep]:
    """Compile as `compile_batch` does, but add mistakes to `faults` and leave their steps out."""
    ids = [step.id for entry in batch.steps for call in calls(entry) for step in (call, *call.recover)]
    compiler = _Compiler(Declarations(batch.inputs, {step: schemas.get(step, {}) for step in ids}), faults)
    for step, before in steps_before(batch):
        if isinstance(step, ApprovalStep):
            compiler.approval(step)
        else:
            compiler.call(step, before)
    return compiler.compiled


def steps_before(batch: Batch) -> Iterator[tuple[Step | ApprovalStep, tuple[str, ...]]]:
    """Every step and approval step, with the ids of the steps that its expressions may read."""
    before: tuple[str, ...] = ()
    for entry in batch.steps:
        if isinstance(entry, ApprovalStep):
            yield entry, ()
            continue
        inner: tuple[str, ...] = ()
        for call in calls(entry):
            yield call, before
            # A recovery step reads the step that failed and the recovery steps before it.
            for number, step in enumerate(call.recover):
                yield step, (*before, call.id, *(one.id for one in call.recover[:number]))
            inner += (call.id, *(step.id for step in call.recover))
        before += inner


class _Compiler:
    def __init__(self, declarations: Declarations, faults: list[StepExpressionError]) -> None:
        self.compiled: dict[str, CompiledStep] = {}
        self._declarations = declarations
        self._faults = faults

    def approval(self, step: ApprovalStep) -> None:
        when = step.when
        scope = Scope(self._declarations, device=False)
        known = len(self._faults)
        condition = None if when is None else self._condition(step.id, ("when",), when, scope)
        question = self._question(step, scope)
        if len(self._faults) == known:
            self.compiled[step.id] = CompiledStep(condition, question=question)

    def _question(self, step: ApprovalStep, scope: Scope) -> TextTemplate | None:
        if OPEN not in step.approval.question:
            return None
        try:
            return compile_text(step.approval.question, scope)
        except ExpressionError as error:
            self._faults.append(StepExpressionError(step.id, ("approval", "question"), error))
            return None

    def call(self, step: Step, before: tuple[str, ...]) -> None:
        known = len(self._faults)
        scope = Scope(self._declarations, before)
        when = None if step.when is None else self._condition(step.id, ("when",), step.when, scope)
        after = Scope(self._declarations, before, result_of=step.id)
        expect = [
            condition
            for number, text in enumerate(step.expect)
            if (condition := self._condition(step.id, ("expect", number), text, after)) is not None
        ]
        arguments = self._arguments(step, Scope(self._declarations, before, secrets=True))
        if len(self._faults) == known:
            self.compiled[step.id] = CompiledStep(when, tuple(expect), arguments)

    def _condition(self, step: str, path: Path, text: str, scope: Scope) -> Condition | None:
        try:
            return compile_condition(text, scope)
        except ExpressionError as error:
            self._faults.append(StepExpressionError(step, path, error))
            return None

    def _arguments(self, step: Step, scope: Scope) -> Arguments:
        templates: dict[Path, TextTemplate] = {}
        for path, text in texts_with_expressions(step.parameters):
            try:
                templates[path] = compile_text(text, scope)
            except ExpressionError as error:
                self._faults.append(StepExpressionError(step.id, ("with", *path), error))
        return Arguments(step.parameters, templates)


def compile_condition(text: str, scope: Scope) -> Condition:
    """Compile a `when` or an expectation: a text that is wholly `${{ … }}`, whose value is true or false.

    Raises:
        ExpressionError: as `compile_expression`; also if the value cannot be true or false.
    """
    parts = _split(text)
    if len(parts) != 1 or isinstance(parts[0], str):
        raise ExpressionError(f"a condition stands wholly in {OPEN} … {CLOSE}")
    expression = compile_expression(parts[0].text, scope)
    if expression.result_type not in ("bool", "dyn"):
        raise ExpressionError(
            f"a condition is true or false; this one is of the type {expression.result_type}"
        )
    return Condition(expression)


def compile_text(text: str, scope: Scope) -> TextTemplate:
    """Compile a text with expressions in it.

    Raises:
        ExpressionError: as `compile_expression`; also for brackets that are not closed.
    """
    return TextTemplate(
        tuple(
            part if isinstance(part, str) else compile_expression(part.text, scope) for part in _split(text)
        )
    )


@dataclass(frozen=True, slots=True)
class _Source:
    text: str


# A text in CEL's quotes may hold the closing brackets.
_INNER = re.compile(r"""(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?!\}\}).)*""", re.DOTALL)


def _split(text: str) -> list[str | _Source]:
    """The literal texts and the expressions of a text, in order; empty literals are left out."""
    parts: list[str | _Source] = []
    at = 0
    while (opened := text.find(OPEN, at)) >= 0:
        if opened > at:
            parts.append(text[at:opened])
        match = _INNER.match(text, opened + len(OPEN))
        end = match.end() if match else len(text)
        if not text.startswith(CLOSE, end):
            raise ExpressionError(f"{OPEN} is not closed with {CLOSE}")
        if not text[opened + len(OPEN) : end].strip():
            raise ExpressionError(f"there is no expression between {OPEN} and {CLOSE}")
        parts.append(_Source(text[opened + len(OPEN) : end]))
        if len(parts) > 2 * MOST_IN_TEXT:
            raise ExpressionError(f"a text has at most {MOST_IN_TEXT} expressions")
        at = end + len(CLOSE)
    if at < len(text):
        parts.append(text[at:])
    return parts


def unclosed_expression(text: str) -> str | None:
    """What follows the last opening brackets of a text, where no closing ones end it; None without such."""
    at = 0
    while (opened := text.find(OPEN, at)) >= 0:
        start = opened + len(OPEN)
        match = _INNER.match(text, start)
        end = match.end() if match else len(text)
        if not text.startswith(CLOSE, end):
            return text[start:]
        at = end + len(CLOSE)
    return None


def texts_with_expressions(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The texts in arguments that hold an expression, each with its place."""
    if isinstance(value, str):
        if OPEN in value:
            yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts_with_expressions(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from texts_with_expressions(inner, (*path, number))


def _replaced(value: Any, values: Mapping[Path, Any], path: Path) -> Any:
    if path in values:
        return values[path]
    if isinstance(value, dict):
        return {key: _replaced(inner, values, (*path, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, values, (*path, number)) for number, inner in enumerate(value)]
    return value


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _shown(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _kind(value: Any) -> str:
    kinds: dict[type, str] = {
        str: "a text",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return kinds.get(type(value), "null")
