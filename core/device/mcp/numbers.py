"""Finds NaN and infinities, which Python's JSON parsers accept but JSON cannot represent.

If sent on, they would arrive as null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

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
    found = _odd_number(value)
    if found is None:
        return None
    word, steps = found
    return f"{word} at {shorten_middle(name + ''.join(reversed(steps)), _LONGEST_PLACE)}"


def _odd_number(value: Any) -> tuple[str, list[str]] | None:
    """The number's description and the path to it, innermost key first."""
    if isinstance(value, float) and not math.isfinite(value):
        # 1e999 is parsed as infinity, so the server need not have written "Infinity".
        return ("NaN" if math.isnan(value) else "a number beyond all bounds"), []
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, item in parts:
        if found := _odd_number(item):
            shown = shorten_middle(key, _LONGEST_KEY) if isinstance(key, str) else key
            found[1].append(f"[{shown!r}]")
            return found
    return None
