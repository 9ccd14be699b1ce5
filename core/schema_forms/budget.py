"""How much work one validation may be, counted in steps, so that a call costs the same on every machine.

A schema can multiply work without a single reference: alternatives times items, `unevaluatedProperties`
below each other, a hundred patterns for one text. So every keyword that is looked at takes steps, more of
them for large values, and who has none left stops. A schema that is too large is not even read.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

MAX_STEPS = 50_000
"""Steps (about 10 µs each, twice that on a busy machine) that one validation may take."""
MAX_REFERENCES = 50_000
"""References one validation may follow: twelve definitions, each naming the next twice, ask for 4,096."""
MAX_CHARACTERS = 256 * 1024
MAX_SUBSCHEMAS = 4_000
"""Objects in one schema (about 0.4 ms each to read it); a schema that describes a whole API has hundreds."""
# What a step is worth: parts of a value that are compared or quoted at once, and characters of a text.
_PARTS, _CHARACTERS = 50, 1_000


class TooMuchWork(Exception):
    """The validation has used up its steps, or followed too many references."""


class _Running(threading.local):
    """What the validation that runs in this thread may still do, and how large each part of its value is."""

    steps = 0
    references = 0
    # By identity: the value is held by whoever has it checked.
    sizes: Mapping[int, int] = MappingProxyType({})


_running = _Running()


def begin(value: Any, most_steps: int) -> None:
    """Begin a validation of `value` in this thread."""
    _running.steps, _running.references = most_steps, MAX_REFERENCES
    sizes: dict[int, int] = {}
    _measure(value, sizes)
    _running.sizes = sizes


def spend(steps: int) -> None:
    """Take steps.

    Raises:
        TooMuchWork: there are not that many left.
    """
    _running.steps -= steps
    if _running.steps < 0:
        raise TooMuchWork


def spend_on(limit: Any, instance: Any) -> None:
    """Take what it costs to hold `instance` against one keyword's `limit`.

    Raises:
        TooMuchWork: there are not that many steps left.
    """
    steps = 1
    if type(instance) is str:
        steps += len(instance) // _CHARACTERS
    elif type(instance) is dict or type(instance) is list:
        steps += _running.sizes.get(id(instance), 0) // _PARTS
    if type(limit) is list or type(limit) is dict:
        steps += len(limit) // _PARTS
    spend(steps)


def follow() -> None:
    """Follow one reference.

    Raises:
        TooMuchWork: too many were followed.
    """
    _running.references -= 1
    if _running.references < 0:
        raise TooMuchWork


def _measure(value: Any, sizes: dict[int, int]) -> int:
    """How many parts a value has, long texts counted as several; remembered for every object and list."""
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
    """Every object in a schema that could be a schema, without recursion."""
    stack = [schema]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            yield one
            stack.extend(
                value for key, value in one.items() if key not in ("enum", "const", "default", "examples")
            )
        elif isinstance(one, list):
            stack.extend(one)


def too_large(schema: Any) -> str:
    """Why a schema is more than may be read, or nothing."""
    for count, _ in enumerate(subschemas(schema)):
        if count >= MAX_SUBSCHEMAS:
            return f"it has more than {MAX_SUBSCHEMAS:,} parts"
    try:
        length = len(json.dumps(schema, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return "it is not JSON, or nested too deeply"
    return f"it has more than {MAX_CHARACTERS:,} characters" if length > MAX_CHARACTERS else ""
