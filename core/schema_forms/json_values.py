"""Helpers for JSON values that forms and validation share."""

from __future__ import annotations

import json
import re
import sys
from decimal import Decimal
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]


class Unset:
    """The type of `UNSET`: an argument that is left out, which is neither null nor a default."""

    _only: Unset | None = None

    def __new__(cls) -> Unset:
        """Return the only instance."""
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset()


def type_word(value: Any) -> str:
    """The JSON type of a value, as schemas name it (`integer` for numbers written without a fraction)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list | tuple) else "object"


def same_json(left: Any, right: Any) -> bool:
    """Whether two values are written the same in JSON: 1, 1.0 and true are three different values."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)


def identity_key(value: Any) -> Any:
    """A hashable key, equal exactly for values that JSON Schema calls equal (1 equals 1.0, but not true)."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, dict):
        return ("object", frozenset((key, identity_key(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("array", tuple(identity_key(item) for item in value))
    return value


def shown(value: Any, limit: int = 60) -> str:
    """A value as short JSON for a sentence."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = type_word(value)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def path_text(path: Path) -> str:
    """A path as people and expressions write it: `disks[0].mount_point`, `["a.b"]` for unusual names."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        elif part.replace("-", "_").isidentifier():
            out += f".{part}" if out else part
        else:
            out += f"[{json.dumps(part, ensure_ascii=False)}]"
    return out


_JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_MOST_DIGITS = 1_000


def parse_number(text: str, whole: bool) -> int | float:
    """Read a number exactly as typed: `5`, `-0.5`, `1e5`; nothing is rounded, clamped or guessed.

    Raises:
        ValueError: not a JSON number, too large or too long, or not whole although `whole` is set; the
            message is for people.
    """
    kind = "a whole number" if whole else "a number"
    if not _JSON_NUMBER.fullmatch(text):
        raise ValueError(f"must be {kind}, not {shown(text)}")
    if len(text) > _MOST_DIGITS:
        raise ValueError("has too many digits")
    if not set(text) & set(".eE"):
        return int(text)
    exact = Decimal(text)
    if exact.adjusted() > _MOST_DIGITS or (exact and not whole and abs(exact) > _LARGEST_FLOAT):
        raise ValueError("is too large")
    if not whole:
        return float(text)
    if exact != exact.to_integral_value():
        raise ValueError(f"must be {kind}, not {shown(text)}")
    return int(exact)


_LARGEST_FLOAT = Decimal(sys.float_info.max)
EXPRESSION = re.compile(r"\s*\$\{\{.*\}\}\s*", re.DOTALL)


def is_expression(value: Any) -> bool:
    """Whether a value is a text that a batch fills in when it runs: `${{ … }}` with no text around it."""
    return isinstance(value, str) and EXPRESSION.fullmatch(value) is not None


def value_at(value: Any, path: Path) -> Any:
    """The part of a value at a path, or `UNSET`."""
    for part in path:
        if isinstance(value, list) and isinstance(part, int):
            value = value[part] if 0 <= part < len(value) else UNSET
        else:
            value = value.get(part, UNSET) if isinstance(value, dict) else UNSET
    return value
