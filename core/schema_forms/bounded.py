"""JSON Schema validation whose work is limited, whatever the schema: `CompiledSchema`.

Schemas come from devices. The validators are those of the `jsonschema` library, with every keyword replaced
that could hang a program: no remote `$ref` is fetched, and a `pattern` is matched by
`core.schema_forms.patterns`. A schema can also multiply work without a single reference: alternatives times
items, nested `unevaluatedProperties`, a hundred patterns for one text. So every keyword that is evaluated
costs steps, more for large values, and a validation without steps left stops: a call costs the same on every
machine. The schema itself is checked against its draft's meta-schema under the same limits.

`jsonschema-rs` (0.60) is eighty times as fast, and is not used. It collects all errors before it returns the
first: 20,000 values that are not in an enum of 2,000 took more than 1.7 GB. It keeps the interpreter's lock,
so it needs a process that can be killed, on each device as well, and callers that cannot wait would have no
answer. It refuses a whole schema for an unused part that is broken, accepts every value where a reference
leads to itself, and its pattern engines are no replacement (see `patterns`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import jsonschema
from jsonschema import validators
from jsonschema.exceptions import ValidationError
from referencing.exceptions import Unresolvable

from core.schema_forms.document import (
    META_SCHEMAS,
    draft_named,
    draft_of,
    local_resolver,
    patterns_of,
    subschemas,
    too_large,
)
from core.schema_forms.json_values import identity_key, path_text
from core.schema_forms.patterns import (
    PatternTooCostly,
    PatternUnsupported,
    SafePattern,
    is_quick,
    safe_pattern,
)

MAX_STEPS = 50_000
"""Steps (about 10 µs each, twice that on a busy machine) that one validation may take."""
MAX_REFERENCES = 50_000
"""References one validation may follow: twelve definitions, each naming the next twice, ask for 4,096."""
MAX_STEPS_TO_READ = 400_000
"""Steps that checking a schema itself against its draft's meta-schema may take."""
MAX_PROGRAMS = 50_000
"""Instructions that all patterns of a schema may have together (about 10 µs each to compile)."""
# Compiling a pattern takes a few milliseconds, in the worst case a tenth of a second.
_STEPS_TO_COMPILE = 2_000
# One step covers this many parts of a value that are compared or quoted together, or characters of a text.
_PARTS, _CHARACTERS = 50, 1_000
# Keywords whose value is always compared in full, however small the instance.
_COMPARED_WHOLE = {"enum", "const", "required", "dependentRequired", "dependencies"}

LIBRARY_FAILS = (AttributeError, TypeError, KeyError, ValueError)
"""Exceptions of the library for a schema so malformed that even the meta-schema misses it: a reference into a
title, an `$id` that is a number."""


class TooMuchWork(Exception):
    """The validation has used up its steps, or followed too many references."""


class BrokenSchema(ValueError):
    """The schema cannot be used; the message says why, for people."""


class CompiledSchema:
    """A schema that was checked itself, and whose patterns are compiled."""

    def __init__(self, schema: Any) -> None:
        """Read a schema; takes seconds for the worst schema that is admitted.

        Raises:
            BrokenSchema: it is not a schema, or too large, or a pattern in it cannot be matched.
        """
        if not isinstance(schema, dict | bool):
            raise BrokenSchema("it is not an object")
        if reason := too_large(schema):
            raise BrokenSchema(reason)
        self.schema = schema
        try:
            self._sizes = _begin(schema, MAX_STEPS_TO_READ, {}, {})
            self._validator = _validator_of(schema)
        except RecursionError as error:
            raise BrokenSchema("it is nested too deeply") from error
        except (TooMuchWork, PatternTooCostly) as error:
            raise BrokenSchema("it is too much work to be read") from error
        except BrokenSchema:
            raise
        except (*LIBRARY_FAILS, Unresolvable) as error:
            raise BrokenSchema(f"{type(error).__name__}: {str(error)[:120]}") from error
        self._patterns = _compiled_patterns(schema)

    @property
    def weight(self) -> int:
        """The number of parts of the schema."""
        return self._sizes.get(id(self.schema), 1)

    def iter_errors(self, value: Any, most_steps: int) -> Iterator[ValidationError]:
        """Yield the errors of a value; the caller may use up further steps with `spend`.

        Raises:
            TooMuchWork: `most_steps` do not suffice.
            PatternTooCostly: a name is too long for a pattern.
            Unresolvable: a reference leads nowhere, or to another document.
            RecursionError, and those of `LIBRARY_FAILS`: schema or value are nested too deeply, or a part of
                the schema is none.
        """
        _begin(value, most_steps, self._sizes, self._patterns)
        yield from self._validator.iter_errors(value)


def _validator_of(schema: Any) -> Any:
    """The library's validator of a schema that is correct by its draft's meta-schema."""
    draft = draft_of(schema)
    cls = _VALIDATORS[draft]
    # No format checker: `patterns` decides what is a regular expression, not `re`.
    fault = next(cls(cls.META_SCHEMA, registry=META_SCHEMAS).iter_errors(schema), None)
    if fault is not None:
        at = path_text(tuple(fault.absolute_path))
        raise BrokenSchema(f"{fault.message[:160]}{f' (at {at})' if at else ''}")
    return cls(schema, registry=META_SCHEMAS, _resolver=local_resolver(schema, draft))


def _compiled_patterns(schema: Any) -> dict[str, SafePattern]:
    """The patterns of a schema by their source.

    Raises:
        BrokenSchema: one of them cannot be matched, or they are too large together.
    """
    programs = 0
    compiled: dict[str, SafePattern] = {}
    for subschema in subschemas(schema):
        for source in patterns_of(subschema):
            if source in compiled:
                continue
            try:
                compiled[source] = safe_pattern(source)
            except PatternUnsupported as error:
                raise BrokenSchema(f"its pattern {source[:80]!r} cannot be checked: {error}") from error
            programs += compiled[source].size
            if programs > MAX_PROGRAMS:
                raise BrokenSchema("its patterns are too large together")
    return compiled


class _Work(threading.local):
    """The budget left to the validation of this thread, and facts about its value and its schema."""

    steps = 0
    references = 0
    # Sizes of the parts of the value and of the schema. Keyed by identity, which is safe: the caller holds
    # both during the validation.
    value_sizes: Mapping[int, int] = MappingProxyType({})
    schema_sizes: Mapping[int, int] = MappingProxyType({})
    patterns: Mapping[str, SafePattern] = MappingProxyType({})


_work = _Work()


def _begin(
    value: Any, most_steps: int, schema_sizes: Mapping[int, int], patterns: Mapping[str, SafePattern]
) -> dict[int, int]:
    """Begin a validation of `value` in this thread; returns the size of each part of the value."""
    _work.steps, _work.references = most_steps, MAX_REFERENCES
    _work.schema_sizes, _work.patterns = schema_sizes, patterns
    sizes: dict[int, int] = {}
    _measure(value, sizes)
    _work.value_sizes = sizes
    return sizes


def _measure(value: Any, sizes: dict[int, int]) -> int:
    """Count the parts of a value, a long text as several, and record the count of each object and list."""
    if type(value) is str:
        return 1 + len(value) * _PARTS // _CHARACTERS
    if type(value) is dict:
        parts = 1 + sum(_measure(key, sizes) + _measure(item, sizes) for key, item in value.items())
    elif type(value) is list:
        parts = 1 + sum(_measure(item, sizes) for item in value)
    else:
        return 1
    sizes[id(value)] = parts
    return parts


def spend(steps: int) -> None:
    """Use up steps of this thread's validation.

    Raises:
        TooMuchWork: fewer steps than that are left.
    """
    _work.steps -= steps
    if _work.steps < 0:
        raise TooMuchWork


def _spend_on(limit: Any, instance: Any, whole: bool) -> None:
    """Use up the cost of checking `instance` against one keyword's `limit`; `whole` counts all its parts."""
    steps = 1
    if type(instance) is str:
        steps += len(instance) // _CHARACTERS
    elif type(instance) is dict or type(instance) is list:
        steps += _work.value_sizes.get(id(instance), 0) // _PARTS
    if type(limit) is list or type(limit) is dict:
        parts = _work.schema_sizes.get(id(limit), 0) if whole else 0
        steps += max(len(limit), parts) // _PARTS
    spend(steps)


def _matches(source: str, text: str) -> bool:
    """Whether a pattern occurs in `text`.

    Raises:
        TooMuchWork: too few steps are left for the search.
        PatternTooCostly, PatternUnsupported: see `core.schema_forms.patterns`.
    """
    pattern = _work.patterns.get(source)
    if pattern is None:
        # Not among the schema's collected patterns, so it may be compiled at each use: that is charged.
        if not is_quick(source):
            spend(_STEPS_TO_COMPILE)
        pattern = safe_pattern(source)
        spend(pattern.size)
    spend(1 + pattern.most_steps(len(text)))
    return pattern.search(text)


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    try:
        if not _matches(pattern, instance):
            yield ValidationError(f"does not match {pattern!r}")
    except PatternTooCostly:
        yield ValidationError(
            f"is too long ({len(instance):,} characters) for its pattern to be checked", validator="bounded"
        )


def _pattern_properties(
    validator: Any, patterns: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for pattern, subschema in patterns.items():
            for key, value in instance.items():
                if _matches(pattern, key):
                    yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _surplus_keys(instance: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """The keys that neither `properties` nor `patternProperties` cover."""
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [
        key
        for key in instance
        if key not in properties and not any(_matches(pattern, key) for pattern in patterns)
    ]


def _additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    extras = _surplus_keys(instance, schema)
    if allowed is False:
        for key in extras:
            error = ValidationError("surplus", validator="surplus")
            error.path.append(key)
            yield error
    elif isinstance(allowed, dict):
        for key in extras:
            yield from validator.descend(instance[key], allowed, path=key)


def _required(validator: Any, required: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for key in required:
            if key not in instance:
                error = ValidationError("missing", validator="missing")
                error.path.append(key)
                yield error


def _unique(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # The library compares every pair of objects, which takes minutes for a list that fits into one argument.
    is_list = unique and validator.is_type(instance, "array")
    if is_list and len({identity_key(item) for item in instance}) != len(instance):
        yield ValidationError("has items that are equal")


def _multiple(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # Exact: 0.3 is a multiple of 0.1, and 10^400 of 0.5; with floats the first fails, the second overflows.
    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(step)):
        yield ValidationError(f"is not a multiple of {step}")


def _evolve(self: Any, **changes: Any) -> Any:
    """Return a validator for a part of the schema, in place of the library's `evolve`.

    The library's `evolve` switches to its own, unbounded validator at every `$schema`.
    """
    spend(1)
    schema = changes.setdefault("schema", self.schema)
    inner = schema.get("$schema") if isinstance(schema, dict) else None
    cls = _VALIDATORS[draft_named(inner)] if isinstance(inner, str) else type(self)
    same = {"format_checker": self.format_checker, "registry": self._registry, "_resolver": self._resolver}
    return cls(**{**same, **changes})


def _counted(follow: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
    """A keyword that follows a reference, counted against `MAX_REFERENCES`."""

    def ref(validator: Any, target: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        _work.references -= 1
        if _work.references < 0:
            raise TooMuchWork
        yield from follow(validator, target, instance, schema) or ()

    return ref


def _charged(name: str, check: Callable[..., Any]) -> Callable[..., Any]:
    """A keyword that costs steps."""
    whole = name in _COMPARED_WHOLE

    def keyword(validator: Any, limit: Any, instance: Any, schema: Any) -> Any:
        _spend_on(limit, instance, whole)
        return check(validator, limit, instance, schema)

    return keyword


def _bounded(base: Any) -> Any:
    """The library's validator of one draft, with the keywords replaced that could hang or overflow."""
    keywords = base.VALIDATORS
    own: dict[str, Any] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional,
        "required": _required,
        "multipleOf": _multiple,
        "uniqueItems": _unique,
    }
    refs = ("$ref", "$dynamicRef", "$recursiveRef")
    own |= {name: _counted(keywords[name]) for name in refs if name in keywords}
    extend: Callable[..., Any] = validators.extend  # the stub omits the signature
    bounded = extend(base, {name: _charged(name, check) for name, check in {**keywords, **own}.items()})
    bounded.evolve = _evolve
    return bounded


_VALIDATORS: dict[str, Any] = {
    "draft-04": _bounded(jsonschema.Draft4Validator),
    "draft-06": _bounded(jsonschema.Draft6Validator),
    "draft-07": _bounded(jsonschema.Draft7Validator),
    "2019-09": _bounded(jsonschema.Draft201909Validator),
    "2020-12": _bounded(jsonschema.Draft202012Validator),
}
