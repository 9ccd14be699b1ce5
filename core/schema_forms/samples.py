"""Sample texts that a pattern may match, made from its parse tree, to show what else the pattern matches.

A sample proves nothing: try it with `SafePattern.search` or with the code that uses the pattern.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator
from typing import Any

from core.schema_forms.ecma import PatternUnsupported, translate

# The same parser as in `core.schema_forms.patterns`.
_parser: Any = importlib.import_module("re._parser")
_MOST_REPEATED = 64
_MOST_CHOICES = 8
_DEEPEST = 40
_LONGEST = 2_000
# Preferred characters where a pattern allows several.
_USUAL = "ax1-_. /Z0@=:"


class Sampler:
    """Makes samples for a pattern; none where it cannot be read or names Unicode's categories."""

    def __init__(self, source: str) -> None:
        self._tree: Any = None
        try:
            translated, has_category = translate(source)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._tree = None if has_category else _parser.parse(translated, re.ASCII)
        except (PatternUnsupported, re.error, RecursionError, OverflowError):
            return

    def texts(self, filling: str = "") -> Iterator[str]:
        """Yield the shortest texts, or texts with `filling` wherever a character may repeat often enough.

        The first text takes the first alternative of each choice, the next text the second, and so on.
        """
        if self._tree is None:
            return
        last = ""
        for choice in range(_MOST_CHOICES):
            text = _Maker(choice, filling).text(self._tree, 0)
            if choice and text == last:
                return
            last = text
            yield text


class _Maker:
    """Walks a parse tree once, taking the alternative of the given number where it exists, else the last."""

    def __init__(self, choice: int, filling: str) -> None:
        self._choice = choice
        self._filling = filling
        self._left = _LONGEST

    def text(self, tree: Any, depth: int) -> str:
        """A text for this part of the tree, cut at the length limit."""
        parts: list[str] = []
        for op, value in tree:
            if self._left <= 0 or depth > _DEEPEST:
                break
            parts.append(self._part(str(op), value, depth))
        return "".join(parts)

    def _part(self, op: str, value: Any, depth: int) -> str:
        match op:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                self._left -= 1
                return _sign(op, value)
            case "BRANCH":
                choices = value[1]
                return self.text(choices[min(self._choice, len(choices) - 1)], depth + 1)
            case "SUBPATTERN":
                return self.text(value[3], depth + 1)
            case "MAX_REPEAT" | "MIN_REPEAT":
                low, high, body = value
                return self._repeated(low, high, body, depth)
        return ""

    def _repeated(self, low: int, high: int, body: Any, depth: int) -> str:
        filling = self._filling
        op = str(body[0][0]) if len(body) == 1 else ""
        if filling and high >= len(filling) and op in ("ANY", "IN", "NOT_LITERAL"):
            # Whether each character is allowed there, only the pattern itself decides.
            self._left -= len(filling)
            more = min(max(low - len(filling), 0), _MOST_REPEATED)
            return filling + _sign(op, body[0][1]) * more
        parts: list[str] = []
        for _ in range(min(max(low, 1 if filling else 0), high, _MOST_REPEATED)):
            if self._left <= 0:
                break
            parts.append(self.text(body, depth + 1))
        return "".join(parts)


def _sign(op: str, value: Any) -> str:
    if op == "LITERAL":
        return chr(value)
    if op == "NOT_LITERAL":
        return next(sign for sign in _USUAL if ord(sign) != value)
    return "x" if op == "ANY" else next((sign for sign in _USUAL if _matches(value, sign)), _first(value))


def _matches(items: list[Any], sign: str) -> bool:
    negated = bool(items) and str(items[0][0]) == "NEGATE"
    return any(_has(item, sign) for item in items[negated:]) != negated


def _has(item: tuple[Any, Any], sign: str) -> bool:
    op, value = str(item[0]), item[1]
    if op == "LITERAL":
        return bool(ord(sign) == value)
    if op == "RANGE":
        return bool(value[0] <= ord(sign) <= value[1])
    kind = str(value).removeprefix("CATEGORY_")
    matches = {"DIGIT": sign.isdigit(), "SPACE": sign.isspace(), "WORD": sign.isalnum() or sign == "_"}
    return matches[kind.removeprefix("NOT_")] != kind.startswith("NOT_")


def _first(items: list[Any]) -> str:
    for op, value in items:
        if str(op) == "LITERAL":
            return chr(value)
        if str(op) == "RANGE":
            return chr(value[0])
    return "\n"
