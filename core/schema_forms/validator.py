"""Arguments against a tool's JSON Schema, as sentences for people; in bounded time, and never from the net.

Schemas come from devices and MCP servers, so they are input like any other: a remote `$ref` is never
fetched, a `pattern` is matched by `core.schema_forms.patterns`, references that multiply are counted, and
a schema that is broken gives one error that says so.

Validation for a loop that others wait for: what takes long is done in a thread, one at a time.

A schema comes from a device, and to read the worst one that is admitted takes seconds, to hold arguments
against it half a second. The loop does what is quick itself, and waits for the rest.
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
from core.schema_forms.ecma import MOST_QUICK, is_quick
from core.schema_forms.json_values import Path, path_text
from core.schema_forms.patterns import PatternTooCostly, PatternUnsupported, SafePattern, safe_pattern
from core.text import escape_hidden

MAX_PROGRAMS = 50_000
"""Instructions that a schema's patterns may be together (about 10 µs each to read them)."""
MAX_ERRORS = 50
MAX_CACHED = 512
_MAX_CACHED_CHARACTERS = 32 * 1024 * 1024
# Parts of all schemas that are known by a digest: some 100 bytes each.
_MAX_PARTS = 1_000_000
# Of each schema, the latest values that were found fine: 8 MiB at most over all schemas.
_FINE_KEPT = 16
_FINE_CHARACTERS = 1024
# To say in words what is wrong, with the nearest of what would be right.
_STEPS_OF_AN_ERROR = 50


# What the library raises when a schema is so malformed that even its meta-schema does not see it: a
# reference into a title, an `$id` that is a number.
_LIBRARY_STUMBLES = (AttributeError, TypeError, KeyError, ValueError)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one argument; `path` is empty for the whole."""

    path: Path
    message: str

    @property
    def where(self) -> str:
        """The path as people write it: `region.x`, `files[2]`."""
        return path_text(self.path)


TOO_MUCH = [
    FieldError(
        (), "The tool's schema or the arguments are nested too deeply, or too much work, to be checked."
    )
]


class Validator:
    """One compiled schema. `broken` says why it cannot be used, in which case nothing is valid."""

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
        """Set up the checker; gives what is wrong with the schema itself, or nothing."""
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
        """Read the patterns; gives what is wrong with them, or nothing."""
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
        """Everything that is wrong with `value`, at most `MAX_ERRORS`, in the order of its arguments.

        What cannot be decided within `most_steps` is wrong too.
        """
        found = self.errors_within(value, most_steps)
        return TOO_MUCH if found is None else found

    def errors_within(self, value: Any, most_steps: int) -> list[FieldError] | None:
        """The same; None where `most_steps` do not do, and it was not decided before."""
        text = None if self.broken else _text_of(value)
        if text is not None and text in self._fine:
            return []
        key = hash_of(value) if self._slow else ""
        if key in self._slow:
            return self._slow[key]
        found = self.look_at(value, most_steps)
        if not found and found is not None and text is not None:
            # A run asks a thousand devices the same: what was found fine stays fine.
            self._fine[text] = None
            if len(self._fine) > _FINE_KEPT:
                self._fine.popitem(last=False)
        return found

    def remember(self, value: Any, found: list[FieldError]) -> None:
        """Keep what was found of a value that took its time."""
        if key := hash_of(value):
            self._slow[key] = found
            if len(self._slow) > _FINE_KEPT:
                self._slow.popitem(last=False)

    @property
    def weight(self) -> int:
        """How many parts the schema has."""
        return self._known.sizes.get(id(self.schema), 1)

    def look_at(self, value: Any, most_steps: int) -> list[FieldError] | None:
        """As `errors_within`, for a thread: nothing is remembered."""
        if self.broken:
            return [FieldError((), f"The tool's own schema is broken: {self.broken}.")]
        found: list[FieldError] = []
        try:
            budget.begin(value, most_steps, self._known)
            for error in self._checker.iter_errors(value):
                for one in self._said(error):
                    # Names and values of a device's schema are in it, and what somebody typed.
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
        """Whether nothing is wrong with `value`."""
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
    """A short text that only this value has; None where there is none, as for what is no plain JSON data."""
    try:
        text = plain_bytes(value) if is_plain(value) else None
    except BadInput:
        return None
    return text if text is not None and len(text) <= _FINE_CHARACTERS else None


def hash_of(value: Any) -> str:
    """What only this value has; empty for what is no JSON data."""
    try:
        return digest_of(value)
    except BadInput:
        return ""


def _unresolved(ref: str) -> str:
    if "://" in ref:
        return f"The tool's own schema is broken: it refers to {ref[:120]}, and schemas are never fetched."
    return f"The tool's own schema is broken: it refers to {ref[:120]}, which is not in it."


def _meant_branch(error: ValidationError) -> list[ValidationError]:
    """The errors of the one alternative that was evidently meant, or none when that is not evident."""
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
    """The compiled validator of a schema, compiled once per content; a later change to `schema` is seen."""
    if not budget.could_fit(schema):
        return Validator(schema)
    try:
        # The text itself is the key: sorting and comparing it costs a few µs, RFC 8785 ten times that.
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
    """Everything that is wrong with any JSON value under a schema, in words for people."""
    return validator_for(schema).errors(value)


def known(digest: str) -> Validator | None:
    """The validator of a digest that was seen before."""
    return _by_digest.get(digest)


def keep(digest: str, validator: Validator) -> Validator:
    """Know a digest's validator from now on."""
    if digest:
        _by_digest[digest] = validator
        while len(_by_digest) > MAX_CACHED or (
            len(_by_digest) > 1 and sum(one.weight for one in _by_digest.values()) > _MAX_PARTS
        ):
            _by_digest.popitem(last=False)
    return validator


STEPS_AT_ONCE = 1_000
"""Steps of one validation that the loop takes itself: 10 ms."""
_MOST_PARTS, _MOST_CHARACTERS = 40, 8_000
_LATER = [FieldError((), "The tool's schema has not been read yet; ask again in a moment.")]


class Aside:
    """Validates for one loop."""

    def __init__(self) -> None:
        # However many ask: other work that is done in threads must find one, too.
        self._one = asyncio.Lock()

    async def errors(self, schema: Any, parameters: Any, digest: str) -> list[FieldError]:
        """What is wrong with the arguments of one call; empty when the call may go on.

        Arguments are always an object, whatever the schema says. `digest` is of something that the schema is
        part of, a tool's definition for one: where it was seen before, the schema itself is not read again.
        Gives up the loop only where it takes long.
        """
        if not isinstance(parameters, dict):
            return NOT_AN_OBJECT
        found = _at_once(schema, parameters, digest)
        if found is not None:
            return found
        async with self._one:
            # Whoever waited here may have waited for the very same.
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
    """See `Aside.errors`, for who cannot wait: what takes long and was not asked aside is a fault."""
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
    """Whether a schema is read in some milliseconds: few parts, and no pattern that counts."""
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
