"""JSON as editors write it, with comments and trailing commas, made plain JSON."""

from __future__ import annotations

import re

# An unterminated text or comment extends to the end of the text: retrying it at every later quote would take
# quadratic time.
_TEXT = r'"(?:[^"\\]|\\.)*"?'
_COMMENT = re.compile(rf"({_TEXT})|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_COMMA = re.compile(rf"({_TEXT})|,(?=\s*[\]}}])", re.DOTALL)


def blank_comments(text: str) -> str:
    """Replace comments and trailing commas by blanks, so that lines and columns of errors match the text."""
    return _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text))


def _blank(match: re.Match[str]) -> str:
    return match[1] or re.sub(r"[^\n]", " ", match[0])
