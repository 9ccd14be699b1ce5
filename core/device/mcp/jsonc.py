"""JSON as people write it into configuration files: comments and a comma too many are passed over."""

from __future__ import annotations

import json
import re
from typing import Any

_TEXT = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_TEXT})|,(?=\s*[\]}}])", re.DOTALL)


def read_relaxed(text: str) -> Any:
    """What a text says.

    Raises:
        ValueError: it is no JSON, or a key stands twice in one object; says where and what to do.
    """
    # Blanks in their place keep lines and columns what they are in the file.
    plain = _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text))
    try:
        return json.loads(plain, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        hint = "; in JSON a backslash is written twice" if "escape" in error.msg else ""
        raise ValueError(f"{error}{hint}") from error


def _blank(match: re.Match[str]) -> str:
    return match[1] or re.sub(r"[^\n]", " ", match[0])


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, of which the second of two equal keys would silently win."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key[:60]!r} stands twice in one object; give one of them another name")
        found[key] = value
    return found
