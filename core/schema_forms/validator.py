"""Validation of arguments against a tool's JSON Schema, with error messages for people.

Schemas come from devices and MCP servers, so they are untrusted input: `core.schema_forms.bounded` limits the
work and fetches nothing, and a broken schema gives a single error that says so.

Reading the worst schema that is admitted takes seconds, and checking arguments against it half a second. So
`ThreadedValidator` does quick work on the event loop and slow work in a thread, one at a time.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jsonschema.exceptions import ValidationError, relevance
from referencing.exceptions import Unresolvable

from core.canonical_json import digest_of
from core.errors import BadInput
from core.schema_forms import messages
from core.schema_forms.bounded import (
    LIBRARY_FAILS,
    MAX_STEPS,
    BrokenSchema,
    CompiledSchema,
    TooMuchWork,
    spend,
)
from core.schema_forms.document import could_fit, patterns_of, subschemas
from core.schema_forms.json_values import Path, path_text
from core.schema_forms.patterns import MOST_QUICK, PatternTooCostly, is_quick
from core.secret_rule import is_secret
from core.text import escape_hidden

MAX_ERRORS = 50
MAX_CACHED = 512
_MAX_CACHED_CHARACTERS = 32 * 1024 * 1024
# Parts of all schemas cached by a digest, at some 100 bytes each.
_MAX_CACHED_PARTS = 1_000_000
# Results of slow checks remembered per schema.
_MOST_RESULTS = 16
# The cost of wording one error, which includes finding the nearest valid value.
_STEPS_OF_AN_ERROR = 50
_MOST_FILLED = 1_000


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in the arguments; `path` is empty where it concerns the whole value."""

    path: Path
    message: str

    @property
    def where(self) -> str:
        """The path for display: `region.x`, `files[2]`."""
        return path_text(self.path)


TOO_MUCH = [
    FieldError(
        (), "The tool's schema or the arguments are nested too deeply, or too much work, to be checked."
    )
]
NOT_AN_OBJECT = [FieldError((), "The arguments must be an object of names and values.")]
_LATER = [FieldError((), "The tool's schema has not been read yet; ask again in a moment.")]


class Validator:
    """One compiled schema. `broken` says why it cannot be used; then every value is invalid."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.broken = ""
        self._compiled: CompiledSchema | None = None
        # The errors of values that took long to check, by their digest.
        self._slow: OrderedDict[str, list[FieldError]] = OrderedDict()
        try:
            self._compiled = CompiledSchema(schema)
        except BrokenSchema as error:
            self.broken = str(error)

    @property
    def weight(self) -> int:
        """The number of parts of the schema."""
        return self._compiled.weight if self._compiled is not None else 1

    def is_valid(self, value: Any) -> bool:
        """Whether `value` has no errors."""
        return not self.errors(value)

    def errors(self, value: Any, most_steps: int = MAX_STEPS) -> list[FieldError]:
        """The errors of `value`, at most `MAX_ERRORS`, in the order of its arguments.

        A value that cannot be decided within `most_steps` gets the error `TOO_MUCH`.
        """
        errors = self.errors_within(value, most_steps)
        return TOO_MUCH if errors is None else errors

    def errors_within(self, value: Any, most_steps: int) -> list[FieldError] | None:
        """As `errors`, but None where `most_steps` do not suffice and no earlier result is known."""
        digest = _digest(value) if self._slow else ""
        if digest in self._slow:
            return self._slow[digest]
        return self.check(value, most_steps)

    def remember(self, value: Any, errors: list[FieldError]) -> None:
        """Store the errors of a value that took long to check."""
        if digest := _digest(value):
            self._slow[digest] = errors
            if len(self._slow) > _MOST_RESULTS:
                self._slow.popitem(last=False)

    def check(self, value: Any, most_steps: int) -> list[FieldError] | None:
        """As `errors_within`, but without the stores of earlier results, so that a thread may call it."""
        if self._compiled is None:
            return [FieldError((), f"The tool's own schema is broken: {self.broken}.")]
        errors: list[FieldError] = []
        try:
            for error in self._compiled.iter_errors(value, most_steps):
                for worded in _field_errors(error):
                    # The message quotes names and values from a device's schema, and what the operator typed.
                    escaped = FieldError(worded.path, escape_hidden(worded.message, keep_lines=False))
                    if escaped not in errors:
                        errors.append(escaped)
                if len(errors) >= MAX_ERRORS:
                    break
        except Unresolvable as error:
            return [FieldError((), _unresolved(str(error.ref)))]
        except PatternTooCostly:
            return [FieldError((), "A field name is too long for the tool's pattern to be checked.")]
        except LIBRARY_FAILS:
            return [
                FieldError((), "The tool's own schema is broken: a part that it refers to is not a schema.")
            ]
        except RecursionError:
            return TOO_MUCH
        except TooMuchWork:
            return None
        return errors


def _field_errors(error: ValidationError) -> Iterator[FieldError]:
    """Yield the library's error in words, or those of the alternative that was evidently meant."""
    spend(_STEPS_OF_AN_ERROR)
    path: Path = tuple(error.absolute_path)
    properties = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    if error.validator == "missing":
        yield FieldError(path, messages.missing(path, properties.get(path[-1])))
    elif error.validator == "surplus":
        yield FieldError(path, messages.surplus(path, list(properties)))
    elif error.validator == "bounded":
        yield FieldError(path, f"{path_text(path) or 'The value'} {error.message}.")
    elif error.validator in ("anyOf", "oneOf") and (inner := _meant_branch(error)):
        for branch_error in inner:
            yield from _field_errors(branch_error)
    else:
        yield FieldError(*messages.describe(error))


def _meant_branch(error: ValidationError) -> list[ValidationError]:
    """The errors of the alternative that was evidently meant; none where that is not evident."""
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    total = len(error.validator_value) if isinstance(error.validator_value, list) else 0
    if total != len(branches):
        return []
    meant = [errors for errors in branches.values() if not any(map(_is_wrong_kind, errors))]
    return sorted(meant[0], key=relevance) if len(meant) == 1 else []


def _is_wrong_kind(error: ValidationError) -> bool:
    """Whether an error means "another alternative": the wrong type, or another tag in a tagged union."""
    depth = len(error.relative_path)
    if error.validator == "type":
        return depth == 0
    return error.validator in ("const", "enum") and depth <= 1


def _unresolved(ref: str) -> str:
    if "://" in ref:
        return f"The tool's own schema is broken: it refers to {ref[:120]}, and schemas are never fetched."
    return f"The tool's own schema is broken: it refers to {ref[:120]}, which is not in it."


def _digest(value: Any) -> str:
    """The digest of a value; empty for data that is not JSON."""
    try:
        return digest_of(value)
    except BadInput:
        return ""


class _Cache:
    """Validators by key; the least recently used go when there are too many, or too large ones together."""

    def __init__(self, most_weight: int) -> None:
        self._most_weight = most_weight
        self._weight = 0
        self._entries: OrderedDict[str, tuple[Validator, int]] = OrderedDict()

    def get(self, key: str) -> Validator | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: str, validator: Validator, weight: int) -> None:
        _, replaced = self._entries.pop(key, (None, 0))
        self._entries[key] = validator, weight
        self._weight += weight - replaced
        while len(self._entries) > MAX_CACHED or (
            len(self._entries) > 1 and self._weight > self._most_weight
        ):
            _, (_, dropped) = self._entries.popitem(last=False)
            self._weight -= dropped

    def clear(self) -> None:
        self._entries.clear()
        self._weight = 0


compiled_schemas = _Cache(_MAX_CACHED_CHARACTERS)
_by_digest = _Cache(_MAX_CACHED_PARTS)


def validator_for(schema: Any) -> Validator:
    """The validator of a schema, compiled once per content, so a later change to `schema` is noticed."""
    if not could_fit(schema):
        return Validator(schema)
    try:
        # The JSON text itself is the key: sorting and comparing it costs a few µs, RFC 8785 ten times that.
        key = json.dumps(schema, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        broken = Validator(None)
        broken.broken = "it is not JSON, or nested too deeply"
        return broken
    validator = compiled_schemas.get(key)
    if validator is None:
        validator = Validator(json.loads(key))
        compiled_schemas.put(key, validator, len(key))
    return validator


def errors_for(schema: Any, value: Any) -> list[FieldError]:
    """The errors of any JSON value under a schema, in words for people."""
    return validator_for(schema).errors(value)


STEPS_AT_ONCE = 1_000
"""Steps of one validation that run on the event loop itself: 10 ms."""
_MOST_PARTS, _MOST_CHARACTERS = 40, 8_000


class ThreadedValidator:
    """Validator for one event loop; slow work runs in a thread, one at a time."""

    def __init__(self) -> None:
        # One thread for all callers: other work that needs a thread must find one free.
        self._lock = asyncio.Lock()

    async def errors(self, schema: Any, parameters: Any, digest: str) -> list[FieldError]:
        """The errors of a call's arguments; empty where they are valid.

        Arguments are always an object, whatever the schema says. `digest` covers data that contains the
        schema, for example a tool's definition: a schema whose digest is known is not read again. Yields to
        the event loop only where the check takes long.
        """
        if not isinstance(parameters, dict):
            return NOT_AN_OBJECT
        errors = _errors_if_quick(schema, parameters, digest)
        if errors is not None:
            return errors
        async with self._lock:
            # The previous holder of the lock may have checked the same schema or arguments.
            errors = _errors_if_quick(schema, parameters, digest)
            if errors is not None:
                return errors
            validator = _by_digest.get(digest)
            if validator is None:
                validator = await asyncio.to_thread(Validator, schema)
                _keep(digest, validator)
            errors = validator.errors_within(parameters, STEPS_AT_ONCE)
            if errors is None:
                errors = await asyncio.to_thread(validator.check, parameters, MAX_STEPS)
                errors = TOO_MUCH if errors is None else errors
                validator.remember(parameters, errors)
            return errors


def errors_at_once(schema: Any, parameters: Any, digest: str) -> list[FieldError]:
    """As `ThreadedValidator.errors`, for callers that cannot wait: what takes long and has no result yet is
    an error."""
    if not isinstance(parameters, dict):
        return NOT_AN_OBJECT
    errors = _errors_if_quick(schema, parameters, digest)
    return _LATER if errors is None else errors


def _errors_if_quick(schema: Any, parameters: dict[str, Any], digest: str) -> list[FieldError] | None:
    """The errors of arguments; None where finding them would take long."""
    validator = _by_digest.get(digest)
    if validator is None:
        if not is_light(schema):
            return None
        validator = validator_for(schema)
        _keep(digest, validator)
    return validator.errors_within(parameters, STEPS_AT_ONCE)


def _keep(digest: str, validator: Validator) -> None:
    if digest:
        _by_digest.put(digest, validator, validator.weight)


def is_light(schema: Any) -> bool:
    """Whether a schema is read in a few milliseconds: few parts, and no pattern with counted repetition."""
    if not could_fit(schema, _MOST_CHARACTERS):
        return False
    left = MOST_QUICK
    for count, part in enumerate(subschemas(schema)):
        if count >= _MOST_PARTS:
            return False
        for source in patterns_of(part):
            left -= len(source)
            if left < 0 or not is_quick(source):
                return False
    return True


def with_defaults(schema: Any, arguments: Any) -> Any:
    """The arguments with the default of each missing required argument; the same object if none is missing.

    JSON Schema's `default` is only an annotation. Schemas generated from zod list such properties as required
    nevertheless, and their servers accept a call without them; our own validation, and a device's, does not.
    A secret is never filled in. A default is validated, judged, shown and signed like a typed value.
    """
    if not isinstance(schema, dict) or not isinstance(arguments, dict):
        return arguments
    required, properties = schema.get("required"), schema.get("properties")
    if not isinstance(required, list) or not isinstance(properties, dict):
        return arguments
    filled: dict[str, Any] = {}
    for name in required[:_MOST_FILLED]:
        if not isinstance(name, str) or name in arguments:
            continue
        subschema = properties.get(name)
        if isinstance(subschema, dict) and "default" in subschema and not is_secret(subschema):
            filled[name] = copy.deepcopy(subschema["default"])
    return {**arguments, **filled} if filled else arguments
