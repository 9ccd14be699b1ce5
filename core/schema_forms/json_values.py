"""JSON values as forms and validation compare, show and address them, and JSON text as people type it.

`parse_json` reads text strictly, and its errors have line and reason; `json_text` writes text without hidden
characters.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NoReturn, TypeAlias

from core.text import at_place

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


def holds_expression(value: Any) -> bool:
    """Whether a batch fills in something of a text when it runs, so that nothing is known of it before."""
    return isinstance(value, str) and EXPRESSION.search(value) is not None


def holds_expressions(value: Any) -> bool:
    """Whether a batch fills in something of a value, or of what lies in it."""
    if isinstance(value, dict):
        return any(holds_expressions(inner) for inner in value.values())
    if isinstance(value, list):
        return any(holds_expressions(inner) for inner in value)
    return holds_expression(value)


def value_at(value: Any, path: Path) -> Any:
    """The part of a value at a path, or `UNSET`."""
    for part in path:
        if isinstance(value, list) and isinstance(part, int):
            value = value[part] if 0 <= part < len(value) else UNSET
        else:
            value = value.get(part, UNSET) if isinstance(value, dict) else UNSET
    return value


# Control characters, bidirectional overrides, zero-width characters, Unicode's own line ends and lone
# surrogates: an editor would swallow them, or they make text look like other text.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufdd0-\ufdef"
    "\ufff9-\uffff\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True)
class JsonProblem:
    """Why a text is not JSON; line and column count from 1."""

    line: int
    column: int
    message: str


class NotJson(ValueError):
    """The text is not JSON; `problem` says where and why."""

    def __init__(self, problem: JsonProblem) -> None:
        super().__init__(at_place(f"{problem.message}.", problem.column, problem.line))
        self.problem = problem


_PARSE_ERRORS = {
    "Expecting value": "a value is expected here",
    "Expecting property name enclosed in double quotes": 'a name in double quotes is expected here, or "}"',
    "Expecting ':' delimiter": "a colon is expected here",
    "Expecting ',' delimiter": "a comma is expected here",
    "Unterminated string starting at": "this text has no closing quote",
    "Invalid control character at": "a line break or tab inside text is written \\n or \\t",
    "Invalid \\escape": "this is not an escape; a backslash is written \\\\",
    "Invalid \\uXXXX escape": "\\u is followed by four hexadecimal digits",
    "Extra data": "there is more after the end of the value",
    "Illegal trailing comma before end of object": "a comma is not allowed before }",
    "Illegal trailing comma before end of array": "a comma is not allowed before ]",
}


class _RepeatedName(ValueError):
    """A name occurs twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise _RepeatedName(key)
        members[key] = value
    return members


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def parse_json(text: str) -> Any:
    """Read JSON text strictly: no repeated names in an object, no NaN.

    Raises:
        NotJson: the text is not JSON; with line, column and reason.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        words = _PARSE_ERRORS.get(error.msg, error.msg)
        raise NotJson(JsonProblem(error.lineno, error.colno, words)) from error
    except _RepeatedName as error:
        line = _line_of(text, str(error))
        raise NotJson(JsonProblem(line, 1, f'the name "{error}" is there twice')) from error
    except RecursionError as error:
        raise NotJson(JsonProblem(1, 1, "it is nested too deeply")) from error
    except ValueError as error:  # NaN, or a number of more than 4,300 digits
        words = "a number has too many digits" if "digits" in str(error) else str(error)
        raise NotJson(JsonProblem(1, 1, words)) from error


def _line_of(text: str, key: str) -> int:
    """The line of the last occurrence of a repeated name, where a person will look for it."""
    quoted = re.compile(re.escape(json.dumps(key, ensure_ascii=False)) + r"\s*:")
    places = [match.start() for match in quoted.finditer(text)]
    return text.count("\n", 0, places[-1]) + 1 if places else 1


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def json_text(value: Any, indent: int | None = 2) -> str:
    """A value as JSON text that can be read back exactly; hidden characters are written as escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    # `json` itself escapes everything below U+0020, so the remaining line feeds are layout.
    return HIDDEN.sub(_escaped, text)


def is_plain(text: str) -> bool:
    """Whether a text field can show and return this text exactly: it has no hidden characters."""
    return HIDDEN.search(text) is None
