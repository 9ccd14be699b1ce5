"""Wording of validation errors for people: names the argument and what would be allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jsonschema.exceptions import ValidationError

from core.schema_forms.json_values import Path, path_text, shown, type_word
from core.secret_rule import may_be_secret
from core.similar import most_like
from core.text import escape_hidden, shorten_middle

_TYPE_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_MOST_LISTED = 12
_LONG = 80
# Up to here a float represents every whole number.
_EXACT = 2**53


def type_phrase(types: Any) -> str:
    """A schema's `type` in words: "text", "a whole number or null"."""
    names = [types] if isinstance(types, str) else list(types) if isinstance(types, list) else []
    return _either([_TYPE_WORDS.get(str(name), str(name)) for name in names]) or "another type"


def _either(phrases: list[str]) -> str:
    return " or ".join([", ".join(phrases[:-1]), phrases[-1]] if len(phrases) > 1 else phrases)


def bound(limit: Any) -> Any:
    """A bound for display: schemas made by programs say `600.0` where 600 is meant."""
    whole = isinstance(limit, float) and abs(limit) < _EXACT and limit.is_integer()
    return int(limit) if whole else limit


def listed(values: Sequence[Any]) -> str:
    """Allowed values as a short list: `memory, disk, cpu and 4 more`."""
    first = values[:_MOST_LISTED]
    texts = [shorten_middle(v, _LONG) if isinstance(v, str) and v else shown(v, 40) for v in first]
    more = len(values) - _MOST_LISTED
    return ", ".join(texts) + (f" and {more} more" if more > 0 else "")


def _repeatable(error: ValidationError) -> bool:
    """Whether a message may quote the value: it is short, and no schema that applied marks it as secret."""
    link: Any = error
    while link is not None:
        if may_be_secret(link.schema):
            return False
        link = link.parent
    return not isinstance(error.instance, dict | list)


def describe(error: ValidationError) -> tuple[Path, str]:
    """The path of a validation error, and its message."""
    path: Path = tuple(error.absolute_path)
    return path, f"{path_text(path) or 'The arguments'} {_complaint(error)}."


def _not(error: ValidationError) -> str:
    return f", not {shown(error.instance)}" if _repeatable(error) else ""


def _complaint(error: ValidationError) -> str:
    limit: Any = error.validator_value
    value = error.instance
    keyword = str(error.validator)
    if keyword == "type":
        got = f", not {shown(value)}" if _repeatable(error) else f", not {type_phrase(type_word(value))}"
        return f"must be {type_phrase(limit)}{got}"
    if keyword == "enum":
        return f"must be one of {listed(limit)}{_not(error)}{_nearest(error, limit)}"
    if keyword == "const":
        return f"must be {shown(limit)}{_not(error)}"
    if keyword == "pattern" and isinstance(limit, str):
        # As written in the schema: with JSON's escapes it would read as another pattern.
        pattern = escape_hidden(shorten_middle(limit, _LONG), keep_lines=False)
        return f"must match the pattern {pattern}{_not(error)}"
    if keyword in _SIMPLE:
        return _SIMPLE[keyword].format(limit=shown(bound(limit))) + _not(error)
    if keyword in _COUNTED:
        length = len(value) if isinstance(value, str | list | dict) else 0
        what = _COUNTED[keyword].format(limit=bound(limit), s="" if limit == 1 else "s")
        return f"{what}, not {length}"
    if keyword in ("anyOf", "oneOf"):
        return _no_alternative(error)
    if keyword == "not":
        return "has a value that is excluded" + _not(error)
    if keyword == "uniqueItems":
        return "must not hold the same item twice"
    if keyword == "contains":
        return "must hold at least one item of the kind the tool asks for"
    if error.schema is False or keyword == "None":
        return "is not allowed here"
    return error.message[:200]


_SIMPLE = {
    "minimum": "must be at least {limit}",
    "maximum": "must be at most {limit}",
    "exclusiveMinimum": "must be more than {limit}",
    "exclusiveMaximum": "must be less than {limit}",
    "multipleOf": "must be a multiple of {limit}",
    "divisibleBy": "must be a multiple of {limit}",
    "format": "must be a valid {limit}",
}
_COUNTED = {
    "minLength": "must have at least {limit} character{s}",
    "maxLength": "must have at most {limit} character{s}",
    "minItems": "must have at least {limit} item{s}",
    "maxItems": "must have at most {limit} item{s}",
    "minProperties": "must have at least {limit} field{s}",
    "maxProperties": "must have at most {limit} field{s}",
}


def _nearest(error: ValidationError, allowed: Any) -> str:
    if not isinstance(error.instance, str) or not _repeatable(error):
        return ""
    near = _closest(error.instance, allowed)
    return f"; did you mean {near}" if near else ""


def _closest(typed: str, names: Sequence[Any]) -> str:
    """The name closest to the typed text; empty where none is close."""
    return next(iter(most_like(typed, (name for name in names if isinstance(name, str)), 1)), "")


def _no_alternative(error: ValidationError) -> str:
    branches = error.validator_value if isinstance(error.validator_value, list) else []
    if not error.context and error.validator == "oneOf":
        return "matches more than one of the alternatives, where exactly one is allowed"
    phrases = [phrase for branch in branches if (phrase := branch_phrase(branch))]
    return f"must be {_either(list(dict.fromkeys(phrases))) or 'one of the alternatives'}{_not(error)}"


def branch_phrase(branch: Any) -> str:
    """An alternative of an anyOf in words: `text`, `an object with x, y`, `one of a, b`."""
    if not isinstance(branch, dict):
        return ""
    if "const" in branch:
        return shown(branch["const"])
    if isinstance(branch.get("enum"), list):
        return f"one of {listed(branch['enum'])}"
    if isinstance(branch.get("properties"), dict) and branch["properties"]:
        required = branch.get("required")
        names = required if isinstance(required, list) and required else list(branch["properties"])
        return f"an object with {listed(names[:6])}"
    if isinstance(branch.get("title"), str) and "type" not in branch:
        return str(branch["title"])
    if isinstance(branch.get("$ref"), str):
        return str(branch["$ref"].rsplit("/", 1)[-1]) or "the same again"
    return type_phrase(branch["type"]) if "type" in branch else ""


def missing(path: Path, schema: Any) -> str:
    """The message for a required argument that is left out; `schema` is the argument's, if that is known."""
    values = schema.get("enum") if isinstance(schema, dict) else None
    allowed = f"; it is one of {listed(values)}" if isinstance(values, list) and values else ""
    return f"{path_text(path)} is required{allowed}."


def surplus(path: Path, names: list[str]) -> str:
    """The message for an argument that the tool does not take."""
    near = _closest(str(path[-1]), names)
    hint = f"; did you mean {near}" if near else f"; it takes {listed(names)}" if names else ""
    return f"{path_text(path)} is not an argument here{hint}."
