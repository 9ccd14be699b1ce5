"""Texts of a batch file with expressions in `${{ … }}`, compiled: conditions, expectations and arguments."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from core.commands.live_secrets import SHORTEST
from core.commitments import Places, no_places
from core.policy.analysis.arguments import snake
from core.policy.analysis.shell.tool_arguments import line_at
from core.token_formats import Span

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
        """The values that it reads."""
        return self.expression.references

    def evaluate(self, context: Context) -> bool:
        """Whether it holds.

        Raises:
            ExpressionError: as `Expression.evaluate`; also if the value is not true or false.
        """
        value = self.expression.evaluate(context)
        if not isinstance(value, bool):
            raise ExpressionError(f"a condition is true or false; this one gives {_kind(value)}.")
        return value


_NO_WORD = (
    "a secret may be one quoted word of a shell line, and nothing more of it: otherwise no operator could "
    "read what is approved"
)


@dataclass(frozen=True, slots=True)
class Insertion:
    """An expression in a text. `raw`: in a shell line its value is inserted as it is, not as data."""

    expression: Expression
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Filled:
    """A value made of a template. `secret` and `unquoted`: where such parts stand in it, by path."""

    value: Any
    secret: Places = field(default_factory=no_places)
    unquoted: Places = field(default_factory=no_places)


@dataclass(frozen=True, slots=True)
class TextTemplate:
    """A text with expressions in it. `parts` are texts and expressions in turn."""

    parts: tuple[str | Insertion, ...]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions in it."""
        return tuple(part.expression for part in self.parts if isinstance(part, Insertion))

    @property
    def has_raw(self) -> bool:
        """Whether it inserts anything as it is."""
        return any(part.raw for part in self.parts if isinstance(part, Insertion))

    @property
    def whole(self) -> Insertion | None:
        """The expression that is the whole text; None if there is other text."""
        return self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0], Insertion) else None

    def check_line(self) -> None:
        """Check that a shell line may be made of this template, whatever the values.

        Raises:
            ExpressionError: no text can be inserted at a place, or the line is a secret.
        """
        if self.whole is not None:
            if self.whole.expression.secret:
                raise ExpressionError(_NO_WORD)
            return
        self._places([part if isinstance(part, str) else "word" for part in self.parts])

    def fill(self, context: Context, known: Sequence[str] = (), *, is_line: bool = False) -> Filled:
        """The text; the value itself where the text is one expression and nothing else.

        In a shell line every inserted text is data (`core.batch.shell_quoting`). `known` are the values of
        secret inputs: they are also secret where another expression yields them.

        Raises:
            ExpressionError: as `Expression.evaluate`, and as `check_line`.
        """
        # A shorter text is in any other by chance.
        known = [secret for secret in known if len(secret.strip()) >= SHORTEST]
        if self.whole is not None:
            if is_line:
                self.check_line()
            filled = self._whole(self.whole, context, known)
            if is_line and filled.secret:
                raise ExpressionError(_NO_WORD)
            return filled
        values = [
            _written(part.expression.evaluate(context)) if isinstance(part, Insertion) else part
            for part in self.parts
        ]
        places: Sequence[Any] = self._places(values) if is_line else [None] * len(values)
        text = ""
        secret: list[Span] = []
        unquoted: list[Span] = []
        for part, value, place in zip(self.parts, values, places, strict=True):
            if isinstance(part, str):
                text += part
                continue
            inserted, spans = _inserted(part, value, place, known)
            secret += [(len(text) + start, len(text) + end) for start, end in spans]
            if is_line and part.raw and spans:
                raise ExpressionError(_NO_WORD)
            if is_line and part.raw and inserted:
                unquoted.append((len(text), len(text) + len(inserted)))
            text += inserted
        return Filled(text, {(): tuple(secret)} if secret else {}, {(): tuple(unquoted)} if unquoted else {})

    def _whole(self, insertion: Insertion, context: Context, known: Sequence[str]) -> Filled:
        value = insertion.expression.evaluate(context)
        if insertion.expression.secret:
            return Filled(value, {(): ()})
        return Filled(value, dict(_known_in(value, known)) if known else {})

    def _places(self, values: Sequence[str]) -> list[Any]:
        """How the text around each part is quoted; None for texts, and for parts that are not quoted.

        Raises:
            ExpressionError: no text can be inserted at a place.
        """
        # Imported only where a line is made: the parser takes as long to load as all of this.
        from core.batch.shell_quoting import ADVICE, UnsafePlace, places_in

        literals, quoted_parts = [""], []
        for number, (part, value) in enumerate(zip(self.parts, values, strict=True)):
            if isinstance(part, Insertion) and not part.raw:
                quoted_parts.append(number)
                literals.append("")
            else:
                literals[-1] += value
        try:
            places = dict(zip(quoted_parts, places_in(tuple(literals)), strict=True))
        except UnsafePlace as error:
            source = self.parts[quoted_parts[error.number]]
            assert isinstance(source, Insertion)
            raise ExpressionError(
                f"{OPEN} {source.expression.text.strip()} {CLOSE} cannot be inserted into this shell line: "
                f"{error.why}; {ADVICE}."
            ) from None
        return [places.get(number) for number in range(len(self.parts))]


def _inserted(part: Insertion, value: str, place: Any, known: Sequence[str]) -> tuple[str, list[Span]]:
    """The text of a part as it stands in the whole text, and the spans of secrets in it."""
    if place is None:
        text, span = value, (0, len(value))
    else:
        from core.batch.shell_quoting import quoted

        made = quoted(value, place, always=part.expression.secret)
        text, span = made.text, made.span
    if part.expression.secret:
        return text, [span] if value else []
    if place is None:
        return text, list(_spans_of(text, known))
    escaped = [
        made.text[slice(*made.span)] for made in (quoted(secret, place, always=True) for secret in known)
    ]
    return text, list(_spans_of(text, escaped))


def _known_in(value: Any, known: Sequence[str], path: Path = ()) -> Iterator[tuple[Path, tuple[Span, ...]]]:
    """Where values of secret inputs stand in a value of another expression."""
    if isinstance(value, str):
        if spans := tuple(_spans_of(value, known)):
            yield path, spans
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _known_in(inner, known, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _known_in(inner, known, (*path, number))
    elif value is not None and not isinstance(value, bool) and str(value) in known:
        yield path, ()


def _spans_of(text: str, secrets: Sequence[str]) -> Iterator[Span]:
    for secret in secrets:
        at = text.find(secret) if secret else -1
        while at >= 0:
            yield at, at + len(secret)
            at = text.find(secret, at + len(secret))


@dataclass(frozen=True, slots=True)
class FilledArguments:
    """The arguments of a call. `secret` and `unquoted`: where secret and unquoted parts stand in them."""

    parameters: dict[str, Any]
    secret: Places = field(default_factory=no_places)
    unquoted: Places = field(default_factory=no_places)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a step. A text that is wholly `${{ … }}` yields its value with its type."""

    tool: str
    parameters: dict[str, Any]
    templates: Mapping[Path, TextTemplate]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All expressions in the arguments."""
        return tuple(inner for template in self.templates.values() for inner in template.expressions)

    @property
    def has_raw(self) -> bool:
        """Whether anything in them is inserted as it is."""
        return any(template.has_raw for template in self.templates.values())

    def evaluate(self, context: Context) -> dict[str, Any]:
        """The arguments with all expressions replaced by their values, as `fill` does."""
        return self.fill(context).parameters

    def fill(
        self, context: Context, known: Sequence[str] = (), described: Collection[str] = frozenset()
    ) -> FilledArguments:
        """The arguments with all expressions replaced by their values.

        `known` are the values of secret inputs. `described` are the arguments that the schema of the device's
        tool describes as shell lines.

        Raises:
            ExpressionError: as `TextTemplate.fill`; the message names the argument.
        """
        if not self.templates:
            return FilledArguments(self.parameters)
        values: dict[Path, Any] = {}
        secret: dict[Path, tuple[Span, ...]] = {}
        unquoted: dict[Path, tuple[Span, ...]] = {}
        for path, template in self.templates.items():
            is_line = line_at(self.tool, path, described)
            try:
                if is_line and template.whole is None:
                    _check_shell(self.tool, template, context.device.platform)
                filled = template.fill(context, known, is_line=is_line)
            except ExpressionError as error:
                raise ExpressionError(f"argument {_shown(path)}: {error.message}") from None
            values[path] = filled.value
            secret |= {(*path, *inner): spans for inner, spans in filled.secret.items()}
            unquoted |= {(*path, *inner): spans for inner, spans in filled.unquoted.items()}
        replaced = _replaced(self.parameters, values, ())
        assert isinstance(replaced, dict)
        return FilledArguments(replaced, secret, unquoted)


_OTHER_SHELL = re.compile(r"(?:^|_)(?:powershell|pwsh|cmd)(?:$|_)")


def _check_shell(tool: str, template: TextTemplate, platform: str = "") -> None:
    """Check that the shell of a tool is one whose quoting is known.

    Raises:
        ExpressionError: it is cmd or PowerShell, and the template inserts data.
    """
    inserts_data = any(isinstance(part, Insertion) and not part.raw for part in template.parts)
    if inserts_data and (platform.casefold().startswith("win") or _OTHER_SHELL.search(snake(tool))):
        raise ExpressionError(
            "in cmd and PowerShell no quoting is safe for every text; give the text to the line with env:, "
            "or insert it as it is with raw(…)."
        )


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
                templates[path] = template = compile_text(text, scope)
                if line_at(step.tool, path):
                    if template.whole is None:
                        _check_shell(step.tool, template)
                    template.check_line()
            except ExpressionError as error:
                self._faults.append(StepExpressionError(step.id, ("with", *path), error))
        return Arguments(step.tool, step.parameters, templates)


def compile_condition(text: str, scope: Scope) -> Condition:
    """Compile a `when` or an expectation: a text that is wholly `${{ … }}`, whose value is true or false.

    Raises:
        ExpressionError: as `compile_expression`; also if the value cannot be true or false.
    """
    parts = _split(text)
    if len(parts) != 1 or isinstance(parts[0], str):
        raise ExpressionError(f"a condition stands wholly in {OPEN} … {CLOSE}.")
    expression = compile_expression(parts[0].text, scope)
    if expression.result_type not in ("bool", "dyn"):
        raise ExpressionError(
            f"a condition is true or false; this one is of the type {expression.result_type}."
        )
    return Condition(expression)


def compile_text(text: str, scope: Scope) -> TextTemplate:
    """Compile a text with expressions in it.

    Raises:
        ExpressionError: as `compile_expression`; also for brackets that are not closed.
    """
    return TextTemplate(
        tuple(part if isinstance(part, str) else _compile_part(part.text, scope) for part in _split(text))
    )


# `raw( … )` around a whole expression; the rest of a text in CEL's quotes is no bracket.
_RAW = re.compile(r"\s*raw\s*\(")
_BRACKETS = re.compile(r"""(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|([()]))""", re.DOTALL)


def _compile_part(text: str, scope: Scope) -> Insertion:
    begins = _RAW.match(text)
    if begins is None or not _closes_at_end(text, begins.end()):
        return Insertion(compile_expression(text, scope))
    # Blanks in place of the name keep the columns of errors.
    expression = compile_expression(text.replace("raw", "   ", 1), scope)
    if expression.secret:
        raise ExpressionError("a secret is never inserted as it is: raw(…) takes none.")
    return Insertion(expression, raw=True)


def _closes_at_end(text: str, start: int) -> bool:
    """Whether the bracket that is open at `start` is closed by the last sign of a text."""
    depth = 1
    for match in _BRACKETS.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(match[1], 0)
        if depth == 0:
            return not text[match.end() :].strip()
    return False


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
            raise ExpressionError(f"{OPEN} is not closed with {CLOSE}.")
        if not text[opened + len(OPEN) : end].strip():
            raise ExpressionError(f"there is no expression between {OPEN} and {CLOSE}.")
        parts.append(_Source(text[opened + len(OPEN) : end]))
        if len(parts) > 2 * MOST_IN_TEXT:
            raise ExpressionError(f"a text has at most {MOST_IN_TEXT} expressions.")
        at = end + len(CLOSE)
    if at < len(text):
        parts.append(text[at:])
    return parts


def unclosed_expression(text: str) -> str | None:
    """The text behind the last opening brackets, where no closing ones end it; None without such."""
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
