"""Finds NaN and infinities, which Python's JSON parsers accept but JSON cannot represent.

If sent on, they would arrive as null.
"""

from __future__ import annotations

import math
from typing import Any

from core.json_walk import is_finite, steps_to, walk
from core.text import shorten_middle

_LONGEST_PLACE = 300
_LONGEST_KEY = 60


def odd_number(value: Any, encoded: bytes, name: str = "") -> str | None:
    """The first number in a value that JSON cannot represent, with its place: `NaN at structured['rows'][3]`.

    None where there is no such number. `encoded` is the value as `pydantic_core.to_json` writes it, which is
    much faster to search; `name` is the name of the value in messages.
    """
    # A string may contain these words too, so a match requires a search of the value itself.
    if b"NaN" not in encoded and b"Infinity" not in encoded:
        return None
    for part, place, _ in walk(value):
        if not is_finite(part):
            # 1e999 is parsed as infinity, so the server need not have written "Infinity".
            word = "NaN" if math.isnan(part) else "a number beyond all bounds"
            steps = "".join(f"[{_shown(step)!r}]" for step in steps_to(place))
            return f"{word} at {shorten_middle(name + steps, _LONGEST_PLACE)}"
    return None


def with_texts_for_odd(value: Any) -> Any:
    """A copy of a JSON value in which NaN and infinities are the texts "NaN", "Infinity" and "-Infinity"."""
    if isinstance(value, dict):
        return {key: with_texts_for_odd(part) for key, part in value.items()}
    if isinstance(value, list):
        return [with_texts_for_odd(part) for part in value]
    if is_finite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _shown(step: str | int) -> str | int:
    return shorten_middle(step, _LONGEST_KEY) if isinstance(step, str) else step
