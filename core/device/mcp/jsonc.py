"""Parses JSON with comments and trailing commas, as in configuration files."""

from __future__ import annotations

import json
import re
from typing import Any

_TEXT = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_TEXT})|,(?=\s*[\]}}])", re.DOTALL)


def read_relaxed(text: str) -> Any:
    """Parse a text.

    Raises:
        ValueError: the text is not JSON (the message has the position), or an object has a duplicate key.
    """
    # Replaced by blanks, so that lines and columns in error messages match the file.
    plain = _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text))
    try:
        return json.loads(plain, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        hint = "; in JSON a backslash is written twice" if "escape" in error.msg else ""
        raise ValueError(f"{error}{hint}") from error


def _blank(match: re.Match[str]) -> str:
    return match[1] or re.sub(r"[^\n]", " ", match[0])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object from its pairs; refuses duplicate keys, of which the last would silently win."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key[:60]!r} stands twice in one object; give one of them another name")
        found[key] = value
    return found
