"""Work limit of one validation, counted in steps, so that a call costs the same on every machine.

A schema from a device can multiply work without a single reference: alternatives times items, nested
`unevaluatedProperties`, a hundred patterns for one text. So every keyword that is evaluated costs steps, more
for large values, and a validation without steps left stops. A schema that is too large is not read at all.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from core.schema_forms.patterns import SafePattern, is_quick, safe_pattern

MAX_STEPS = 50_000
"""Steps (about 10 µs each, twice that on a busy machine) that one validation may take."""
MAX_REFERENCES = 50_000
"""References one validation may follow: twelve definitions, each naming the next twice, ask for 4,096."""
MAX_STEPS_TO_READ = 400_000
"""Steps that checking a schema itself against its draft's meta-schema may take."""
MAX_CHARACTERS = 256 * 1024
MAX_REFERENCE = 1_000
"""Characters of one `$ref`, `$id` or anchor, which is parsed again each time it is followed."""
MAX_SUBSCHEMAS = 4_000
"""Objects in one schema (about 0.4 ms each to read); a schema that describes a whole API has hundreds."""
# Compiling a pattern takes a few milliseconds, in the worst case a tenth of a second.
_STEPS_TO_MAKE = 2_000
# One step covers this many parts of a value that are compared or quoted together, or characters of a text.
_PARTS, _CHARACTERS = 50, 1_000
_NO_SCHEMAS = ("enum", "const", "default", "examples")
_OF_NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef", "$id", "id", "$anchor", "$dynamicAnchor")


class TooMuchWork(Exception):
    """The validation has used up its steps, or followed too many references."""


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about a schema: the sizes of its parts by identity, and its compiled patterns by source."""

    sizes: Mapping[int, int] = field(default_factory=dict)
    patterns: Mapping[str, SafePattern] = field(default_factory=dict)


class _Running(threading.local):
    """Steps and references left to the validation of this thread, and the sizes of the parts of its value."""

    steps = 0
    references = 0
    # Keyed by identity, which is safe: the caller holds the value and the schema during the validation.
    sizes: Mapping[int, int] = MappingProxyType({})
    schema = Known()


_running = _Running()


def begin(value: Any, most_steps: int, schema: Known = Known()) -> dict[int, int]:
    """Begin a validation of `value` under a schema in this thread.

    Returns the size of each part of the value, by identity.
    """
    _running.steps, _running.references = most_steps, MAX_REFERENCES
    sizes: dict[int, int] = {}
    _measure(value, sizes)
    _running.sizes, _running.schema = sizes, schema
    return sizes


def spend(steps: int) -> None:
    """Use up steps.

    Raises:
        TooMuchWork: fewer steps than that are left.
    """
    _running.steps -= steps
    if _running.steps < 0:
        raise TooMuchWork


def spend_on(limit: Any, instance: Any, whole: bool = False) -> None:
    """Use up the cost of checking `instance` against one keyword's `limit`; `whole` counts all its parts.

    Raises:
        TooMuchWork: fewer steps than that are left.
    """
    steps = 1
    if type(instance) is str:
        steps += len(instance) // _CHARACTERS
    elif type(instance) is dict or type(instance) is list:
        steps += _running.sizes.get(id(instance), 0) // _PARTS
    if type(limit) is list or type(limit) is dict:
        parts = _running.schema.sizes.get(id(limit), 0) if whole else 0
        steps += max(len(limit), parts) // _PARTS
    spend(steps)


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern occurs in `text`.

    Raises:
        TooMuchWork: too few steps are left for the search.
        PatternTooCostly, PatternUnsupported: see `core.schema_forms.patterns`.
    """
    known = _running.schema.patterns.get(pattern)
    if known is None:
        # Not among the schema's collected patterns, so it may be compiled at each use: that is charged.
        if not is_quick(pattern):
            spend(_STEPS_TO_MAKE)
        known = safe_pattern(pattern)
        spend(known.size)
    spend(1 + known.most_steps(len(text)))
    return known.search(text)


def follow() -> None:
    """Count one followed reference.

    Raises:
        TooMuchWork: the validation has followed too many.
    """
    _running.references -= 1
    if _running.references < 0:
        raise TooMuchWork


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


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a schema that could be a schema, without recursion."""
    stack = [(schema, False)]
    while stack:
        one, are_names = stack.pop()
        if isinstance(one, dict):
            yield one
            # A property may be called `default`: the value below it is a schema like any other.
            stack.extend(
                (value, key in _OF_NAMES and not are_names)
                for key, value in one.items()
                if are_names or key not in _NO_SCHEMAS
            )
        elif isinstance(one, list):
            stack.extend((item, False) for item in one)


def too_large(schema: Any) -> str:
    """Why a schema is too large to be read; empty where it is not."""
    if not could_fit(schema):
        return f"it has more than {MAX_CHARACTERS:,} characters"
    if _has_long_reference(schema):
        return f"a reference or a name in it has more than {MAX_REFERENCE:,} characters"
    for count, _ in enumerate(subschemas(schema)):
        if count >= MAX_SUBSCHEMAS:
            return f"it has more than {MAX_SUBSCHEMAS:,} parts"
    try:
        text = json.dumps(schema, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "it is not JSON, or nested too deeply"
    if len(text) > MAX_CHARACTERS:
        return f"it has more than {MAX_CHARACTERS:,} characters"
    # The library matches these patterns with `re` where both keywords meet; no known tool combines them.
    if '"unevaluatedProperties"' in text and '"patternProperties"' in text:
        return "unevaluatedProperties together with patternProperties is not supported"
    return ""


def could_fit(schema: Any, most: int = MAX_CHARACTERS) -> bool:
    """Whether a schema could have at most `most` characters; stops reading once that is exceeded."""
    left, stack = most, [schema]
    while stack:
        one = stack.pop()
        if type(one) is str:
            left -= len(one)
        elif type(one) is dict or type(one) is list:
            left -= 1 + len(one)
            if left < 0:
                return False
            if type(one) is dict:
                left -= _length(one)
            stack.extend(one.values() if type(one) is dict else one)
        if left < 0:
            return False
    return True


def _length(names: dict[Any, Any]) -> int:
    try:
        return sum(map(len, names))
    except TypeError:  # keys that are not text: this was never JSON
        return sum(len(name) for name in names if type(name) is str)


def is_small(value: Any, most: int = 2_000) -> bool:
    """Whether a value has at most `most` parts, 100 characters counting as a part; stops once exceeded."""
    left, stack = most, [value]
    while stack and left >= 0:
        one = stack.pop()
        left -= 1
        if type(one) is str:
            left -= len(one) // 100
        elif type(one) is dict:
            left -= len(one)
            stack.extend(one.values() if left >= 0 else ())
        elif type(one) is list:
            stack.extend(one[: left + 1])
    return left >= 0


def _has_long_reference(schema: Any) -> bool:
    stack = [schema]
    while stack:
        one = stack.pop()
        if type(one) is dict:
            texts = (one.get(word) for word in _REFERENCES)
            if any(type(text) is str and len(text) > MAX_REFERENCE for text in texts):
                return True
            stack.extend(one.values())
        elif type(one) is list:
            stack.extend(one)
    return False
