"""Walks over JSON values, and numbers that JSON or its parsers cannot represent.

A walk uses no recursion, so no nesting exhausts the stack; the caller stops it at its own limits of depth,
count or size. Values are those that JSON parsers make, so none contains itself; a tuple counts as a list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

Place: TypeAlias = "tuple[Place, str | int] | None"
"""The place of a value: the place of its object or list, with the name or index in it; None for the whole."""

Members: TypeAlias = "Iterable[tuple[str | int, Any]]"

# No JSON parser used here accepts more levels.
DEEPEST = 2_000
MOST_DIGITS = 4_300
"""Digits of the longest integer that the JSON parsers used here read (Python's own limit)."""
_TOO_LONG = 10**MOST_DIGITS
# Most values in a document, told apart quickly.
_LEAVES = frozenset({str, int, float, bool, type(None)})


def members_of(value: Any) -> Members | None:
    """The members of an object by name, or the elements of a list by index; None for any other value."""
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple) else None


def walk(
    value: Any, members: Callable[[Any], Members | None] = members_of
) -> Iterator[tuple[Any, Place, int]]:
    """Every value, first the whole, in document order, with its place and its depth (0 for the whole).

    `members` opens a value; with another function than `members_of`, values of other kinds are opened too.

    Raises:
        RecursionError: the value is nested deeper than `DEEPEST` levels, or contains itself.
    """
    yield value, None, 0
    first = members(value)
    waiting: list[tuple[Place, Iterator[tuple[str | int, Any]]]] = []
    if first is not None:
        waiting.append((None, iter(first)))
    while waiting:
        outer, rest = waiting[-1]
        for step, member in rest:
            place = outer, step
            yield member, place, len(waiting)
            if type(member) in _LEAVES:
                continue
            if (inner := members(member)) is not None:
                if len(waiting) >= DEEPEST:
                    raise RecursionError(f"nested deeper than {DEEPEST:,} levels")
                waiting.append((place, iter(inner)))
                break
        else:
            waiting.pop()


def steps_to(place: Place) -> list[str | int]:
    """The names and indexes that lead to a place, the outermost first."""
    steps = []
    while place is not None:
        place, step = place
        steps.append(step)
    return steps[::-1]


def place_text(place: Place, whole: str = "") -> str:
    """A place in words for a message: `disks[0].size`; `whole` is the name of the whole value."""
    text = whole
    for step in steps_to(place):
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def values_in(value: Any, *, names: bool = False) -> Iterator[Any]:
    """Every value, the whole included; faster than `walk`, in no particular order.

    `names`: also the names in objects.
    """
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if type(part) in _LEAVES:
            continue
        if isinstance(part, dict):
            if names:
                waiting.extend(part)
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)


def unchanged(value: Any) -> Any:
    """The value itself."""
    return value


def mapped(
    value: Any, change: Callable[[Any], Any] = unchanged, names: Callable[[Any], Any] = unchanged
) -> Any:
    """A copy of a value, with `change` applied to each value in it that is no object and no list.

    `names` is applied to the names in objects. Recursive: for values of the depth that parsers allow.
    """
    if isinstance(value, dict):
        return {names(name): mapped(member, change, names) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [mapped(element, change, names) for element in value]
    return change(value)


def count_parts(value: Any, most: int, characters: int) -> int:
    """The number of values and names; each `characters` characters of a text count as one more.

    Stops counting at `most`, and then returns at least `most`.
    """
    parts, waiting = 0, [value]
    while waiting and parts < most:
        part = waiting.pop()
        parts += 1
        kind = type(part)
        if kind is str:
            parts += len(part) // characters
        elif kind is dict:
            parts += len(part)
            if parts < most:
                waiting.extend(part.values())
        elif kind is list:
            if parts + len(part) >= most:
                return most
            waiting.extend(part)
    return parts


def is_small(value: Any, most: int) -> bool:
    """Whether a value has at most `most` parts, where 100 characters of a text count as one."""
    return count_parts(value, most + 1, 100) <= most


def is_finite(value: Any) -> bool:
    """Whether a value is not a number that JSON lacks: NaN or an infinity.

    Python's parsers accept these, pydantic writes them as null, and each comparison with NaN is false, so
    that NaN passes every limit.
    """
    return not isinstance(value, float) or math.isfinite(value)


def is_too_long(value: int) -> bool:
    """Whether an integer has more than `MOST_DIGITS` digits, so that no parser here would read it back."""
    return not -_TOO_LONG < value < _TOO_LONG


def refuse_constant(name: str) -> Any:
    """`parse_constant` of `json.loads`: refuses NaN and the infinities.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{name} is not JSON")
