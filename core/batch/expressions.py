"""CEL expressions of batch files: compiled against what they may read, evaluated in bounded time.

An expression reads `inputs.NAME`, `device.name|tags|platform|os|os_name`, `steps.ID.FIELD` of steps that
stand before it, and, in an expectation, `result`. In the file it stands in `${{ … }}`, as
`core.batch.templates` has it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from core.batch import large_integers
from core.batch.cel_functions import FUNCTIONS, is_bounded_anyway, like, too_large
from core.batch.cel_syntax import Syntax, read_syntax
from core.batch.cel_types import (
    ANY,
    NUMBER,
    TEXT,
    TEXTS,
    WHOLE,
    FieldType,
    MessageTypes,
    cel_library,
    cel_type,
    checked_name,
    is_selectable,
    new_environment,
)
from core.batch.expression_reads import LARGEST_CONTEXT, MOST_READ, Reads, TooCostly, reads_of, size_of
from core.batch.models import Input
from core.batch.step_values import filled, unfit_for_arguments
from core.errors import BadInput
from core.models.device_filter import os_word
from core.models.devices import Device
from core.text import sentences, too_long

LONGEST = 2_000
"""Most characters of an expression."""

INPUTS, STEPS, DEVICE, RESULT = "inputs", "steps", "device", "result"


class ExpressionError(BadInput):
    """An expression cannot be compiled or evaluated. `line` and `column` count from 1 in its own text."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(sentences(message))
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class StepFacts:
    """The facts about a step on one device for expressions.

    `status` is AIP's, `state` a `CellState`, `verdict` and `error` (an error code) are empty where there is
    none. `result` is that of `core.batch.step_values.readable_value`, None where there is none; reading a
    field of it then is an `ExpressionError`.
    """

    state: str
    status: str = "none"
    verdict: str = ""
    result: Any = None
    error: str = ""
    duration_ms: float = 0.0
    attempts: int = 0


_STEP_TYPES: dict[str, FieldType] = {
    "state": TEXT,
    "status": TEXT,
    "verdict": TEXT,
    "error": TEXT,
    "duration_ms": NUMBER,
    "attempts": WHOLE,
}


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The facts about the device of their step for expressions.

    `os` is the word of the filter, as in `os:linux`; `os_name` is the system with its version.
    """

    name: str = ""
    tags: tuple[str, ...] = ()
    platform: str = ""
    os: str = ""
    os_name: str = ""

    @classmethod
    def of(cls, device: Device) -> DeviceFacts:
        """The facts of a device."""
        return cls(device.name, tuple(device.tags), device.platform, os_word(device), device.system)


_DEVICE_TYPES: dict[str, FieldType] = {
    "name": TEXT,
    "tags": TEXTS,
    "platform": TEXT,
    "os": TEXT,
    "os_name": TEXT,
}
_INPUT_TYPES: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "list": {"type": "array"},
    "object": {"type": "object"},
}


class Declarations:
    """The inputs and steps of a batch with their types, for all its expressions.

    `schemas` has the output schema of each step's tool; an empty one where it is not known.
    """

    def __init__(self, inputs: Mapping[str, Input], schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self.inputs = inputs
        self.schemas = schemas
        self._environments: dict[str | None, tuple[Any, MessageTypes]] = {}

    def environment(self, result_of: str | None) -> tuple[Any, MessageTypes]:
        """The environment that checks types, and its message types; `result_of` is the step of `result`."""
        if result_of not in self._environments:
            self._environments[result_of] = self._new_environment(result_of)
        return self._environments[result_of]

    def _new_environment(self, result_of: str | None) -> tuple[Any, MessageTypes]:
        types = MessageTypes()
        results = {step: types.of_schema(schema) if schema else ANY for step, schema in self.schemas.items()}
        steps = {step: types.add({**_STEP_TYPES, RESULT: result}) for step, result in results.items()}
        inputs = {name: types.of_schema(_INPUT_TYPES[given.type]) for name, given in self.inputs.items()}
        variables = {
            INPUTS: cel_type(types.add(inputs)),
            STEPS: cel_type(types.add(steps)),
            DEVICE: cel_type(types.add(_DEVICE_TYPES)),
        }
        if result_of is not None:
            variables[RESULT] = cel_type(results.get(result_of, ANY))
        return new_environment(variables, types), types


@dataclass(frozen=True, slots=True)
class Scope:
    """The names and types that one expression may read.

    `steps` are the ids of the steps before it, `result_of` is the step whose `result` an expectation reads.
    `secrets`: whether it may read secret inputs, which only arguments may.
    """

    declarations: Declarations
    steps: tuple[str, ...] = ()
    device: bool = True
    result_of: str | None = None
    secrets: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """The values for one evaluation. `result` is read only by expectations.

    `texts` has, by blob, the large texts of results that `Expression.cut` holds; None where no result has
    one.
    """

    inputs: Mapping[str, Any]
    steps: Mapping[str, StepFacts]
    device: DeviceFacts
    result: Any = None
    texts: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that an expression reads, as a path: `("steps", "disk", "result", "filesystems")`."""

    path: tuple[str, ...]
    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. `result_type` is CEL's name in small letters: bool, int, double, string, dyn, …

    `secret`: it reads a secret input, so its value must not be shown or journalled. `argument`: its value
    goes into an argument, so it must read nothing that is masked.
    """

    text: str
    references: tuple[Reference, ...]
    result_type: str
    secret: bool
    argument: bool
    _program: Any = field(repr=False)
    _reads: Reads = field(repr=False)
    # None where nothing that it calls makes more than it reads.
    _grows: Syntax | None = field(repr=False)

    def evaluate(self, context: Context) -> Any:
        """The value, as JSON data.

        Raises:
            ExpressionError: a value it needs is missing, a type is wrong, or a bound is exceeded.
        """
        data = self.cut(context)
        try:
            if context.texts is not None:
                data = filled(data, context.texts)
            if self.argument:
                _check_fit(data)
            data = large_integers.with_large_integers(data)
            self._check_cost(data)
            answer = self._program.eval(data=data)
            return _json_of(answer)
        except (TooCostly, RuntimeError, ValueError) as error:
            if self.secret:
                raise ExpressionError("it cannot be evaluated; the reason may hold a secret.") from None
            raise ExpressionError(self._why_not(str(error), context)) from None

    def cut(self, context: Context) -> dict[str, Any]:
        """The part of the context that it reads, by variable; large texts in it are not loaded."""
        data: dict[str, Any] = {}
        for name, part in self._reads.roots.fields.items():
            if name == STEPS:
                data[name] = {
                    step: {
                        key: inner.cut(getattr(facts, key))
                        for key, inner in of_step.fields.items()
                        if key == RESULT or key in _STEP_TYPES
                    }
                    for step, of_step in part.fields.items()
                    if (facts := context.steps.get(step)) is not None
                }
            elif name == INPUTS:
                data[name] = part.cut(dict(context.inputs))
            elif name == DEVICE:
                device = context.device
                data[name] = {field: getattr(device, field) for field in _DEVICE_TYPES if field != "tags"}
                data[name]["tags"] = list(device.tags)
            elif name == RESULT:
                data[name] = part.cut(context.result)
        return data

    def _check_cost(self, data: dict[str, Any]) -> None:
        size = size_of(data)
        if size > LARGEST_CONTEXT:
            raise TooCostly(f"it reads {size:,} bytes; allowed are {LARGEST_CONTEXT:,}")
        if size * self._reads.element_uses > MOST_READ:
            raise TooCostly(f"its loops would read more than {MOST_READ:,} bytes")
        for bound in self._reads.bounds:
            bound.check(data)
        if self._grows is not None and (why := too_large(self._grows, size)):
            raise TooCostly(why)

    def _why_not(self, error: str, context: Context) -> str:
        for reference in self.references:
            if reference.path[0] == STEPS and reference.path[2:3] == (RESULT,):
                step = reference.path[1]
                facts = context.steps.get(step)
                if facts is None or facts.result is None:
                    state = "was not reached" if facts is None else f"is {facts.state}"
                    return f"{'.'.join(reference.path)} cannot be read: step {step} {state} and has no result"
        return _evaluation_words(error)


def compile_expression(text: str, scope: Scope) -> Expression:
    """Compile an expression and check its types against the scope.

    Raises:
        ExpressionError: the text is no expression, too long, too deeply nested, or reads what is not there.
    """
    if len(text) > LONGEST:
        raise ExpressionError(too_long("an expression", text, LONGEST))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ExpressionError(sentences(f"this is not Unicode: {error.reason}")) from error
    try:
        program = _compiled(_untyped_environment(), text)
    except ExpressionError as error:
        raise _name_behind_dot(text, scope) or error from None
    try:
        tree = read_syntax(program.serialize())
        reads = reads_of(tree)
    except TooCostly as error:
        raise ExpressionError(str(error), *_place_in(text, error.at)) from error
    references = _references(text, reads)
    for reference in references:
        _check_reference(reference, scope)
    environment, types = scope.declarations.environment(scope.result_of)
    checked = _compiled(environment, _for_checker(text, reads), types)
    inputs = scope.declarations.inputs
    secret = any(reference.path[0] == INPUTS and inputs[reference.path[1]].secret for reference in references)
    kind = checked.return_type().name().lower()
    grows = None if is_bounded_anyway(tree) else tree
    return Expression(text, references, kind, secret, scope.secrets, program, reads, grows)


def _check_fit(data: Mapping[str, Any]) -> None:
    for step, facts in data.get(STEPS, {}).items():
        if why := unfit_for_arguments(facts.get(RESULT)):
            raise ExpressionError(sentences(f"{STEPS}.{step}.{RESULT} {why}"))


@cache
def _untyped_environment() -> Any:
    dyn = cel_library().Type.DYN
    return new_environment(dict.fromkeys((INPUTS, STEPS, DEVICE, RESULT), dyn))


_KEY = re.compile(r"""(?:"[^"\\\n]*"|'[^'\\\n]*')\s*\]""")


def _for_checker(text: str, reads: Reads) -> str:
    """The text with `["name"]` as the `.name` that the checker knows; what follows stays at its place."""
    for at, name in reads.keys:
        key, opened = _KEY.match(text, at), text.rfind("[", 0, at)
        if key is not None and not text[opened + 1 : at].strip():
            selected = f".{checked_name(name)}"
            text = text[:opened] + selected.ljust(key.end() - opened) + text[key.end() :]
    return text


def _name_behind_dot(text: str, scope: Scope) -> ExpressionError | None:
    """The error of a text that cannot be compiled, if it reads a name with a dot that cannot be read so."""
    names = [(STEPS, step) for step in scope.steps]
    names += [(INPUTS, name) for name in scope.declarations.inputs]
    for root, name in names:
        found = None if is_selectable(name) else re.search(rf"\b{root}\.{re.escape(name)}(?![\w-])", text)
        if found is not None:
            what = f'the name {name} cannot stand behind a dot; write {root}["{name}"]'
            return ExpressionError(what, *_place_in(text, found.start()))
    return None


def _references(text: str, reads: Reads) -> tuple[Reference, ...]:
    """The longest paths that are read, each once, in the order of the text, at the place of their name."""
    places: dict[tuple[str, ...], int] = {}
    for path, at in reads.places:
        places.setdefault(path, at)
    prefixes = {path[:length] for path in places for length in range(1, len(path))}
    longest = [path for path in places if path not in prefixes]
    named = {path: places[path[: 2 if path[0] in (STEPS, INPUTS) else 1]] for path in longest}
    ordered = sorted(named.items(), key=lambda entry: entry[1])
    return tuple(Reference(path, *_place_in(text, at)) for path, at in ordered)


def _check_reference(reference: Reference, scope: Scope) -> None:
    root, *rest = reference.path
    what = ""
    if root in (STEPS, INPUTS) and not rest:
        what = f"{root} is read by name: {root}.NAME"
    elif root == STEPS and rest[0] not in scope.steps:
        known = ", ".join(scope.steps) or "none"
        what = f'no step "{rest[0]}" stands before this one; known are {known}'
    elif root == STEPS and len(rest) == 1:
        what = f"a step is read by its fields: {', '.join((*_STEP_TYPES, RESULT))}"
    elif root == INPUTS and rest[0] not in scope.declarations.inputs:
        known = ", ".join(scope.declarations.inputs) or "none"
        what = f'there is no input "{rest[0]}"; known are {known}'
    elif root == INPUTS and scope.declarations.inputs[rest[0]].secret and not scope.secrets:
        what = f"the secret input {rest[0]} may only go into an argument"
    elif root == RESULT and scope.result_of is None:
        what = "result is known only in expect; write steps.ID.result"
    elif root == DEVICE and not scope.device:
        what = "an approval is asked once for all devices, so that no device is known here"
    if what:
        raise ExpressionError(what, reference.line, reference.column)


def _place_in(text: str, at: int) -> tuple[int, int]:
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


_PROBLEM = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_NO_FIELD = re.compile(r"undefined field '(.*)' not found in struct '(.*)'")
_NO_OVERLOAD = re.compile(r"found no matching overload for '(.*)' applied to '\((.*)\)'")
_NO_NAME = re.compile(r"undeclared reference to '(.*)' \(in container ''\)")
_TOO_DEEP = re.compile(r"recursion", re.IGNORECASE)
_TYPE_WORDS = (
    (re.compile(r"quarterdeck\.T\d+|map\([^()]*\)"), "object"),
    (re.compile(r"wrapper\((\w+)\)"), r"\1 or null"),
    (re.compile(r"\bdouble\b"), "number"),
    (re.compile(r"\bint\b"), "whole number"),
    (re.compile(r"\bstring\b"), "text"),
    (re.compile(r"null_type"), "null"),
)


def _compiled(environment: Any, text: str, types: MessageTypes | None = None) -> Any:
    try:
        return environment.compile(text)
    except RuntimeError as error:
        match = _PROBLEM.search(str(error))
        if match is None or int(match[1]) < 1:
            deep = _TOO_DEEP.search(str(error))
            what = "it is nested too deeply; allowed are 32 levels" if deep else f"it cannot be read: {error}"
            raise ExpressionError(what) from None
        line, column = int(match[1]), int(match[2])
        after = text.splitlines()[line - 1][column - 1 :] if match[3] else ""
        raise ExpressionError(_problem_words(match[3], after, types), line, column) from None


_CALLED = re.compile(r"\s*\(")
_CALLED_WITH_PREFIX = re.compile(r"(?:math|strings|base64|lists|sets|regex|cel|optional)\.\w+(?=\s*\()")


def _problem_words(problem: str, after: str, types: MessageTypes | None) -> str:
    """A problem of CEL in words; `after` is the text of the expression from its place on."""
    if match := _NO_FIELD.fullmatch(problem):
        known = ", ".join(types.fields_of.get(match[2], ())) if types else ""
        return f'there is no field "{match[1]}"; there are {known or "none"}'
    if match := _NO_OVERLOAD.fullmatch(problem):
        operands = match[2]
        for pattern, word in _TYPE_WORDS:
            operands = pattern.sub(word, operands)
        name = match[1].strip("_@").replace("_", " ").strip() or match[1]
        return f"{name} cannot be used with: {operands}"
    if match := _NO_NAME.fullmatch(problem):
        # The place is that of the bracket, or of the prefix.
        prefixed = _CALLED_WITH_PREFIX.match(after)
        if prefixed or _CALLED.match(after):
            return _no_function(prefixed[0] if prefixed else match[1])
        return f'"{match[1]}" is not known; an expression reads inputs, steps, device, and result in expect'
    return problem.removeprefix("Syntax error: ")


def _no_function(name: str) -> str:
    if name in FUNCTIONS:
        return f"{name}() is called behind the value that it takes, as in value.{name}()"
    near = " or ".join(f"{known}()" for known in like(name))
    return f"there is no function {name}(){f'; did you mean {near}?' if near else ''}"


_NO_KEY = re.compile(r"Key not found in map : (.*)")
_NO_ELEMENT = re.compile(r"[Ii]ndex error: index=(-?\d+) size=(\d+)|index out of bounds.*")
# No other data is of these kinds.
_BEYOND_INT = re.compile(r"\b(?:uint64|struct)\b")
_WRONG_KINDS = re.compile(r"No matching overloads? found ?: ?(.*)")


def _evaluation_words(error: str) -> str:
    error = error.strip()
    if match := _NO_KEY.search(error):
        return f"there is no field {match[1]}"
    if (match := _NO_ELEMENT.search(error)) and match[1]:
        return f"there is no element {match[1]}; the list has {match[2]}"
    if match := _WRONG_KINDS.search(error):
        if _BEYOND_INT.search(match[1]):
            return "an integer beyond 64 bits can be passed on, compared by == and written by string() only"
        return f"values of these kinds do not go together: {match[1]}"
    if "non-message type" in error:
        return "a field is read of a value that has none"
    if "budget" in error:
        return "it takes more than 10,000 iterations"
    return re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", error)


def _json_of(value: Any) -> Any:
    """CEL's value as JSON data.

    A value is never asked for where it is null: cel-expr-python 0.1.3 gives None without taking a reference,
    which ends the process on Python 3.11 after some thousand times.
    """
    kind = value.type().name().partition("<")[0]
    if kind == "NULL":
        return None
    if kind == "ERROR":
        raise ValueError(value.value())
    plain = value.value()
    match kind:
        case "BOOL" | "STRING" | "INT" | "UINT":
            return plain
        case large_integers.MESSAGE:
            return large_integers.large_integer(plain)
        case "DOUBLE":
            if not math.isfinite(plain):
                raise ValueError("the value is not a number that JSON can hold")
            return plain
        case "LIST":
            return [_json_of(element) for element in plain]
        case "MAP":
            return {_key(key): _json_of(inner) for key, inner in plain.items()}
    raise ValueError(f"a value of the kind {kind.lower()} is not a JSON value")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise ValueError(f"the key {key!r} is not text")
    return key
