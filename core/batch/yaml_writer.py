"""Writes JSON data as readable YAML in which every string is a string by the rules of YAML 1.1 and 1.2."""

from __future__ import annotations

import json
import re
from typing import Any

from core.errors import BadInput
from core.json_walk import is_finite

_PLAIN = re.compile(r"[A-Za-z_/][\w./@%+=-]*(?: [\w(/][\w./@%+=(),;-]*)*", re.ASCII)
# Plain words that YAML 1.1 or 1.2 reads as a boolean or null.
_RESERVED = frozenset("y n yes no on off true false null".split(" "))
_NOT_IN_BLOCKS = re.compile(
    r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)


def write_document(data: dict[str, Any], deepest: int) -> str:
    """Write an object as a YAML document. Strings of several lines become block scalars.

    Raises:
        BadInput: a value or key is not JSON, has a lone surrogate, or is nested deeper than `deepest` levels.
    """
    lines: list[str] = []
    _write_map(data, 0, lines, deepest)
    return "\n".join(lines) + "\n"


def _write_map(data: dict[str, Any], indent: int, lines: list[str], deepest: int) -> None:
    for key, value in data.items():
        _write_value(f"{' ' * indent}{_key(key)}:", value, indent, lines, deepest)


def _write_list(data: list[Any], indent: int, lines: list[str], deepest: int) -> None:
    for value in data:
        if isinstance(value, dict) and value:
            # The first key goes on the line of the dash.
            inner: list[str] = []
            _write_map(value, indent + 2, inner, _one_less(deepest))
            inner[0] = f"{' ' * indent}- {inner[0][indent + 2 :]}"
            lines.extend(inner)
        else:
            _write_value(f"{' ' * indent}-", value, indent, lines, deepest)


def _write_value(head: str, value: Any, indent: int, lines: list[str], deepest: int) -> None:
    if isinstance(value, dict) and value:
        lines.append(head)
        _write_map(value, indent + 2, lines, _one_less(deepest))
    elif isinstance(value, list) and value:
        lines.append(head)
        _write_list(value, indent + 2, lines, _one_less(deepest))
    elif isinstance(value, str) and _fits_block(value):
        _write_block(head, value, indent + 2, lines)
    else:
        lines.append(f"{head} {_scalar(value)}")


def _one_less(deepest: int) -> int:
    if deepest <= 2:
        raise BadInput("An argument is nested too deeply to be written to a file.")
    return deepest - 1


def _fits_block(text: str) -> bool:
    return "\n" in text.rstrip("\n") and not _NOT_IN_BLOCKS.search(text) and text[0] not in "\n\t"


def _write_block(head: str, text: str, indent: int, lines: list[str]) -> None:
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    # Without this number a reader takes the leading spaces of the first line for the block's indentation.
    depth = "2" if body.startswith(" ") else ""
    lines.append(f"{head} |{depth}{'-' if ends == 0 else '' if ends == 1 else '+'}")
    lines.extend(" " * indent + line if line else "" for line in body.split("\n"))
    lines.extend([""] * (ends - 1))


def _scalar(value: Any) -> str:
    match value:
        case str():
            return _text(value)
        case None | bool() | int():
            return json.dumps(value)
        case float() if is_finite(value):
            return repr(value)
        case dict():
            return "{}"
        case list():
            return "[]"
    raise BadInput(f"An argument is {value!r}, which is not a JSON value.")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise BadInput(f"A key is {key!r}, which is not text.")
    return _text(key)


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.casefold() not in _RESERVED:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(
        r"[^\x20-\x7e\xa1-\u2027\u202a-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]|[\ud800-\udfff]",
        _escaped,
        quoted,
    )


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xD800 <= code <= 0xDFFF:
        raise BadInput("An argument contains half a character (a lone surrogate), which no file can hold.")
    return f"\\u{code:04x}"
