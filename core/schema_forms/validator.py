"""Validation of arguments against a tool's JSON Schema, with error messages for people.

Schemas come from devices and MCP servers, so they are untrusted input: a remote `$ref` is never fetched,
`core.schema_forms.patterns` matches each `pattern`, followed references are counted, and a broken schema
gives a single error that says so.

Time is bounded too. Reading the worst schema that is admitted takes seconds, and checking arguments against
it half a second. So `ThreadedValidator` does quick work on the event loop and slow work in a thread, one at a
time.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jsonschema.exceptions import ValidationError, relevance
from referencing.exceptions import Unresolvable

from core.canonical_json import digest_of, is_plain, plain_bytes
from core.errors import BadInput
from core.schema_forms import budget, messages
from core.schema_forms.bounded import checker_of, fault_in
from core.schema_forms.json_values import Path, path_text
from core.schema_forms.patterns import (
    MOST_QUICK,
    PatternTooCostly,
    PatternUnsupported,
    SafePattern,
    is_quick,
    safe_pattern,
)
from core.text import escape_hidden

MAX_PROGRAMS = 50_000
"""Instructions that all patterns of a schema may have together (about 10 µs each to compile)."""
MAX_ERRORS = 50
MAX_CACHED = 512
_MAX_CACHED_CHARACTERS = 32 * 1024 * 1024
# Parts of all schemas known by a digest, at some 100 bytes each.
_MAX_PARTS = 1_000_000
# Per schema, the latest values found valid: 8 MiB at most over all schemas.
_FINE_KEPT = 16
_FINE_CHARACTERS = 1024
# The cost of wording one error, which includes finding the nearest valid value.
_STEPS_OF_AN_ERROR = 50


# Exceptions of the library for a schema so malformed that even the meta-schema misses it: a reference into a
# title, an `$id` that is a number.
_LIBRARY_STUMBLES = (AttributeError, TypeError, KeyError, ValueError)


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


class Validator:
    """One compiled schema. `broken` says why it cannot be used; then every value is invalid."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.broken = ""
        self._fine: OrderedDict[bytes, None] = OrderedDict()
        self._slow: OrderedDict[str, list[FieldError]] = OrderedDict()
        if not isinstance(schema, dict | bool):
            self.broken = "it is not an object"
            return
        self._checker: Any = None
        self._known = budget.Known()
        self.broken = self._compile()

    def _compile(self) -> str:
        """Set up the checker; returns the schema's own fault, or an empty text."""
        if why := budget.too_large(self.schema):
            return why
        try:
            sizes = budget.begin(self.schema, budget.MAX_STEPS_TO_READ)
            if error := fault_in(self.schema):
                at = path_text(tuple(error.absolute_path))
                return f"{error.message[:160]}{f' (at {at})' if at else ''}"
            self._checker = checker_of(self.schema)
        except RecursionError:
            return "it is nested too deeply"
        except (budget.TooMuchWork, PatternTooCostly):
            return "it is too much work to be read"
        except (*_LIBRARY_STUMBLES, Unresolvable) as error:
            return f"{type(error).__name__}: {str(error)[:120]}"
        return self._know(sizes)

    def _know(self, sizes: dict[int, int]) -> str:
        """Compile the patterns; returns their fault, or an empty text."""
        programs = 0
        known: dict[str, SafePattern] = {}
        for one in budget.subschemas(self.schema):
            patterns = one.get("patternProperties")
            sources = [one.get("pattern"), *(patterns if isinstance(patterns, dict) else ())]
            for source in sources:
                if not isinstance(source, str) or source in known:
                    continue
                try:
                    programs += (made := safe_pattern(source)).size
                except PatternUnsupported as error:
                    return f"its pattern {source[:80]!r} cannot be checked: {error}"
                if programs > MAX_PROGRAMS:
                    return "its patterns are too large together"
                known[source] = made
        self._known = budget.Known(sizes, known)
        return ""

    def errors(self, value: Any, most_steps: int = budget.MAX_STEPS) -> list[FieldError]:
        """The errors of `value`, at most `MAX_ERRORS`, in the order of its arguments.

        A value that cannot be decided within `most_steps` gets the error `TOO_MUCH`.
        """
        found = self.errors_within(value, most_steps)
        return TOO_MUCH if found is None else found

    def errors_within(self, value: Any, most_steps: int) -> list[FieldError] | None:
        """As `errors`, but None where `most_steps` do not suffice and no earlier result is known."""
        text = None if self.broken else _text_of(value)
        if text is not None and text in self._fine:
            return []
        key = hash_of(value) if self._slow else ""
        if key in self._slow:
            return self._slow[key]
        found = self.look_at(value, most_steps)
        if not found and found is not None and text is not None:
            # A run sends the same arguments to a thousand devices, so a valid value is remembered.
            self._fine[text] = None
            if len(self._fine) > _FINE_KEPT:
                self._fine.popitem(last=False)
        return found

    def remember(self, value: Any, found: list[FieldError]) -> None:
        """Store the errors of a value that took long to check."""
        if key := hash_of(value):
            self._slow[key] = found
            if len(self._slow) > _FINE_KEPT:
                self._slow.popitem(last=False)

    @property
    def weight(self) -> int:
        """The number of parts of the schema."""
        return self._known.sizes.get(id(self.schema), 1)

    def look_at(self, value: Any, most_steps: int) -> list[FieldError] | None:
        """As `errors_within`, but without the stores of earlier results, so that a thread may call it."""
        if self.broken:
            return [FieldError((), f"The tool's own schema is broken: {self.broken}.")]
        found: list[FieldError] = []
        try:
            budget.begin(value, most_steps, self._known)
            for error in self._checker.iter_errors(value):
                for one in self._said(error):
                    # The message quotes names and values from a device's schema, and what the operator typed.
                    seen = FieldError(one.path, escape_hidden(one.message, keep_lines=False))
                    if seen not in found:
                        found.append(seen)
                if len(found) >= MAX_ERRORS:
                    break
        except Unresolvable as error:
            return [FieldError((), _unresolved(str(error.ref)))]
        except PatternTooCostly:
            return [FieldError((), "A field name is too long for the tool's pattern to be checked.")]
        except _LIBRARY_STUMBLES:
            return [FieldError((), "The tool's own schema is broken: a part that is used is no schema.")]
        except RecursionError:
            return TOO_MUCH
        except budget.TooMuchWork:
            return None
        return found

    def is_valid(self, value: Any) -> bool:
        """Whether `value` has no errors."""
        return not self.errors(value)

    def _said(self, error: ValidationError) -> Iterator[FieldError]:
        budget.spend(_STEPS_OF_AN_ERROR)
        path: Path = tuple(error.absolute_path)
        if error.validator == "missing":
            yield FieldError(path, messages.missing(path))
        elif error.validator == "surplus":
            known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
            yield FieldError(path, messages.surplus(path, list(known)))
        elif error.validator == "bounded":
            yield FieldError(path, f"{path_text(path) or 'The value'} {error.message}.")
        elif error.validator in ("anyOf", "oneOf") and (inner := _meant_branch(error)):
            for one in inner:
                yield from self._said(one)
        else:
            yield FieldError(*messages.describe(error))


def _text_of(value: Any) -> bytes | None:
    """A short text unique to this value; None for a long value and for data that is not plain JSON."""
    try:
        text = plain_bytes(value) if is_plain(value) else None
    except BadInput:
        return None
    return text if text is not None and len(text) <= _FINE_CHARACTERS else None


def hash_of(value: Any) -> str:
    """The digest of a value; empty for data that is not JSON."""
    try:
        return digest_of(value)
    except BadInput:
        return ""


def _unresolved(ref: str) -> str:
    if "://" in ref:
        return f"The tool's own schema is broken: it refers to {ref[:120]}, and schemas are never fetched."
    return f"The tool's own schema is broken: it refers to {ref[:120]}, which is not in it."


def _meant_branch(error: ValidationError) -> list[ValidationError]:
    """The errors of the alternative that was evidently meant; none where that is not evident."""
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    total = len(error.validator_value) if isinstance(error.validator_value, list) else 0
    if total != len(branches):
        return []
    meant = [found for found in branches.values() if not any(_is_wrong_kind(one) for one in found)]
    return sorted(meant[0], key=relevance) if len(meant) == 1 else []


def _is_wrong_kind(error: ValidationError) -> bool:
    """Whether an error means "another alternative": the wrong type, or another tag in a tagged union."""
    depth = len(error.relative_path)
    if error.validator == "type":
        return depth == 0
    return error.validator in ("const", "enum") and depth <= 1


NOT_AN_OBJECT = [FieldError((), "The arguments must be an object of names and values.")]
_cache: OrderedDict[str, Validator] = OrderedDict()
_by_digest: OrderedDict[str, Validator] = OrderedDict()


def validator_for(schema: Any) -> Validator:
    """The validator of a schema, compiled once per content, so a later change to `schema` is noticed."""
    if not budget.could_fit(schema):
        return Validator(schema)
    try:
        # The JSON text itself is the key: sorting and comparing it costs a few µs, RFC 8785 ten times that.
        key = json.dumps(schema, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        broken = Validator(True)
        broken.broken = "it is not JSON, or nested too deeply"
        return broken
    known = _cache.get(key)
    if known is not None:
        _cache.move_to_end(key)
        return known
    compiled = _cache[key] = Validator(json.loads(key))
    while len(_cache) > MAX_CACHED or (len(_cache) > 1 and sum(map(len, _cache)) > _MAX_CACHED_CHARACTERS):
        _cache.popitem(last=False)
    return compiled


def errors_for(schema: Any, value: Any) -> list[FieldError]:
    """The errors of any JSON value under a schema, in words for people."""
    return validator_for(schema).errors(value)


def known(digest: str) -> Validator | None:
    """The validator stored for a digest; None where there is none."""
    return _by_digest.get(digest)


def keep(digest: str, validator: Validator) -> Validator:
    """Store the validator of a digest and return it."""
    if digest:
        _by_digest[digest] = validator
        while len(_by_digest) > MAX_CACHED or (
            len(_by_digest) > 1 and sum(one.weight for one in _by_digest.values()) > _MAX_PARTS
        ):
            _by_digest.popitem(last=False)
    return validator


STEPS_AT_ONCE = 1_000
"""Steps of one validation that run on the event loop itself: 10 ms."""
_MOST_PARTS, _MOST_CHARACTERS = 40, 8_000
_LATER = [FieldError((), "The tool's schema has not been read yet; ask again in a moment.")]


class ThreadedValidator:
    """Validator for one event loop; slow work runs in a thread, one at a time."""

    def __init__(self) -> None:
        # One thread for all callers: other work that needs a thread must find one free.
        self._one = asyncio.Lock()

    async def errors(self, schema: Any, parameters: Any, digest: str) -> list[FieldError]:
        """The errors of a call's arguments; empty where they are valid.

        Arguments are always an object, whatever the schema says. `digest` covers data that contains the
        schema, for example a tool's definition: a schema whose digest is known is not read again. Yields to
        the event loop only where the check takes long.
        """
        if not isinstance(parameters, dict):
            return NOT_AN_OBJECT
        found = _at_once(schema, parameters, digest)
        if found is not None:
            return found
        async with self._one:
            # The previous holder of the lock may have checked the same schema or arguments.
            found = _at_once(schema, parameters, digest)
            if found is not None:
                return found
            validator = known(digest) or keep(digest, await asyncio.to_thread(Validator, schema))
            found = validator.errors_within(parameters, STEPS_AT_ONCE)
            if found is None:
                found = await asyncio.to_thread(validator.look_at, parameters, budget.MAX_STEPS)
                found = TOO_MUCH if found is None else found
                validator.remember(parameters, found)
            return found


def errors_at_once(schema: Any, parameters: Any, digest: str) -> list[FieldError]:
    """As `ThreadedValidator.errors`, for callers that cannot wait: what takes long and has no result yet is
    an error."""
    if not isinstance(parameters, dict):
        return NOT_AN_OBJECT
    found = _at_once(schema, parameters, digest)
    return _LATER if found is None else found


def _at_once(schema: Any, parameters: dict[str, Any], digest: str) -> list[FieldError] | None:
    validator = known(digest)
    if validator is None:
        if not is_light(schema):
            return None
        validator = keep(digest, validator_for(schema))
    return validator.errors_within(parameters, STEPS_AT_ONCE)


def is_light(schema: Any) -> bool:
    """Whether a schema is read in a few milliseconds: few parts, and no pattern with counted repetition."""
    if not budget.could_fit(schema, _MOST_CHARACTERS):
        return False
    left = MOST_QUICK
    for count, one in enumerate(budget.subschemas(schema)):
        if count >= _MOST_PARTS:
            return False
        patterns = one.get("patternProperties")
        for source in (one.get("pattern"), *(patterns if isinstance(patterns, dict) else ())):
            left -= len(source) if isinstance(source, str) else 0
            if isinstance(source, str) and (left < 0 or not is_quick(source)):
                return False
    return True
