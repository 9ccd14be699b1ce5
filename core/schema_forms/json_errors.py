"""JSON as people type and read it: parse errors with line and reason, and text without hidden characters."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

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
        super().__init__(f"line {problem.line}: {problem.message}")
        self.problem = problem


_WORDS = {
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


class _Twice(ValueError):
    """A name occurs twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(key)
        found[key] = value
    return found


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
        words = _WORDS.get(error.msg, error.msg)
        raise NotJson(JsonProblem(error.lineno, error.colno, words)) from error
    except _Twice as error:
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
