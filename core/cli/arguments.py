"""Parser of `key=value` words as arguments of a tool, typed by its JSON Schema.

`key=value` is read as the type in the schema, `key:=JSON` as JSON, `key=@FILE` as the text of a file (a text
that begins with @ is written `key:='"@…"'`), and `key:=@FILE` as the JSON in a file.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from core.broken_text import holds_half_a_character
from core.cli.output import note
from core.errors import BadInput, ErrorCode
from core.json_walk import MOST_DIGITS
from core.text import sentences

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_LONGEST_REF = 20
# Far above what a device accepts as an argument; bounds the reading of endless files.
LARGEST_FILE = 64 << 20


class Mistyped(BadInput):
    """A value does not have the type in the schema; `hint` says whether writing it differently helps."""

    def __init__(self, message: str, hint: bool) -> None:
        super().__init__(message)
        self.hint = hint


def parse_arguments(words: list[str], schema: dict[str, Any], lenient: bool = False) -> dict[str, Any]:
    """Parse words as arguments. The called tool's validation decides whether they fit.

    With `lenient`, a value of another type than the schema's remains the text that was written.

    Raises:
        BadInput: a word has no `=` or names an argument twice, a file cannot be read, or JSON is malformed.
        Mistyped: a value does not have the type in the schema.
    """
    found: dict[str, Any] = {}
    for word in words:
        key, sign, value = word.partition("=")
        raw = key.endswith(":")
        key = key.removesuffix(":")
        if not sign or not key:
            raise BadInput(
                f"{word!r} is not an argument: write key=value, key:=JSON, key=@FILE or key:=@FILE."
            )
        if key in found:
            raise BadInput(f"{key} is given twice.")
        if raw:
            # No JSON text begins with @.
            found[key] = _json_file(key, value[1:]) if value.startswith("@") else _json(key, value)
        elif value.startswith("@"):
            found[key] = _file(key, value[1:])
        else:
            try:
                found[key] = _typed(key, value, _property(schema, key))
            except Mistyped:
                if not lenient:
                    raise
                found[key] = value
    return found


def typed_as_written(words: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    """Parse words as arguments; a value of another type than the schema's stays a text and is refused later.

    How such a value is to be written is noted on standard error.

    Raises:
        BadInput: as `parse_arguments`.
    """
    try:
        return parse_arguments(words, schema)
    except Mistyped as error:
        if error.hint:
            note(error.message)
        return parse_arguments(words, schema, lenient=True)


def _json(key: str, text: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(sentences(f"{key}: this is not JSON: {error}")) from error


def _json_file(key: str, name: str) -> Any:
    # A byte order mark, which editors write, is not part of JSON.
    text = _file(key, name).removeprefix("\ufeff")
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(sentences(f"{key}: {name} is not JSON: {error}")) from error


def read_json(text: str) -> Any:
    """Parse JSON text, and refuse any text whose value would silently change on its way to the device."""
    value = json.loads(
        text,
        parse_constant=_no_number,
        parse_float=_finite,
        parse_int=_whole,
        object_pairs_hook=_each_once,
    )
    if holds_half_a_character(value):
        raise ValueError(
            "a text has half a character (a lone \\ud800 to \\udfff), which is not valid Unicode"
        )
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        # Infinity has no JSON form and would arrive as null.
        raise ValueError(f"{digits:.40} is larger than a number can be")
    return value


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > MOST_DIGITS:
        raise ValueError(f"a number has more than {MOST_DIGITS:,} digits")
    return int(digits)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _file(key: str, name: str) -> str:
    try:
        with Path(name).expanduser().open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise BadInput(f"{key}: {name} has more than {LARGEST_FILE:,} bytes.", ErrorCode.TOO_LARGE)
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{key}: {name} is not UTF-8 text.") from error
    except OSError as error:
        raise BadInput(f"{key}: {name} cannot be read: {error.strerror}.") from error
    except (RuntimeError, ValueError) as error:
        raise BadInput(sentences(f"{key}: {name} cannot be read: {error}")) from error


def _property(schema: dict[str, Any], key: str) -> dict[str, Any]:
    properties = schema.get("properties")
    found = properties.get(key) if isinstance(properties, dict) else None
    return _resolved(found, schema) if isinstance(found, dict) else {}


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Follow references within the schema; without a target, the type is unknown."""
    for _ in range(_LONGEST_REF):
        ref = part.get("$ref")
        if not isinstance(ref, str):
            return part
        target: Any = schema if ref.startswith("#/") else None
        for step in ref[2:].split("/"):
            target = (
                target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
            )
        part = target if isinstance(target, dict) else {}
    return {}


def _types(part: dict[str, Any]) -> set[str]:
    """The JSON types that a value may have; empty where the schema does not say."""
    kind = part.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {one for one in kind if isinstance(one, str)}
    if "const" in part or isinstance(part.get("enum"), list):
        values = part["enum"] if isinstance(part.get("enum"), list) else [part["const"]]
        return {_type_of(value) for value in values}
    for word in ("anyOf", "oneOf"):
        if isinstance(options := part.get(word), list):
            return set().union(*(_types(one) for one in options if isinstance(one, dict)))
    return set()


def _type_of(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    return next(
        name
        for name, types in _JSON_TYPES.items()
        if isinstance(value, types) and (name == "boolean" or not isinstance(value, bool))
    )


def _typed(key: str, text: str, part: dict[str, Any]) -> Any:
    types = _types(part)
    if not types or types == {"string"}:
        return text
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        value = text
    if not isinstance(value, str):
        kind = _type_of(value)
        # In JSON Schema 3 is also a number, and 3.0 also an integer.
        if kind in types or (kind == "integer" and "number" in types):
            return value
        if kind == "number" and "integer" in types and float(value).is_integer():
            return int(value)
    if "string" in types:
        return text
    wanted = " or ".join(sorted(types))
    hint = f" (write {key}:=JSON)" if types & {"array", "object"} else ""
    raise Mistyped(f"{key} must be {wanted}, not {text!r:.80}{hint}.", bool(hint))
