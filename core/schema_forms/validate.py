"""Arguments against a tool's JSON Schema, as sentences for people; in bounded time, and never from the net.

Schemas come from devices and MCP servers, so they are input like any other: a remote `$ref` is never
fetched, a `pattern` is matched by `core.schema_forms.patterns`, references that multiply are counted, and
a schema that is broken gives one error that says so.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jsonschema
from jsonschema import validators
from jsonschema.exceptions import SchemaError, ValidationError, relevance
from jsonschema.protocols import Validator as JsonSchemaValidator
from jsonschema_specifications import REGISTRY as META_SCHEMAS  # type: ignore[import-untyped]  # ships no types
from referencing.exceptions import Unresolvable

from core.canonical import is_plain, plain_bytes
from core.errors import BadInput
from core.schema_forms import budget, words
from core.schema_forms.json_values import Path, identity_key, path_text
from core.schema_forms.patterns import PatternTooCostly, PatternUnsupported, safe_pattern

MAX_PROGRAMS = 50_000
"""Instructions that a schema's patterns may be together (about 10 µs each to read them)."""
MAX_ERRORS = 50
MAX_CACHED = 512
_MAX_CACHED_CHARACTERS = 32 * 1024 * 1024
# Of each schema, the latest values that were found fine: 8 MiB at most over all schemas.
_FINE_KEPT = 16
_FINE_CHARACTERS = 1024
# To say in words what is wrong, with the nearest of what would be right.
_STEPS_OF_AN_ERROR = 50
_TOO_MUCH = "The tool's schema or the arguments are nested too deeply, or too much work, to be checked."


# What the library raises when a schema is so malformed that even its meta-schema does not see it: a
# reference into a title, an `$id` that is a number.
_LIBRARY_STUMBLES = (AttributeError, TypeError, KeyError, ValueError)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing that is wrong with one argument; `path` is empty for the whole."""

    path: Path
    message: str

    @property
    def where(self) -> str:
        """The path as people write it: `region.x`, `files[2]`."""
        return path_text(self.path)


def _matches(pattern: str, text: str) -> bool:
    known = safe_pattern(pattern)
    budget.spend(known.most_steps(len(text)))
    return known.search(text)


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    try:
        if not _matches(pattern, instance):
            yield ValidationError(f"does not match {pattern!r}")
    except PatternTooCostly:
        yield ValidationError(
            f"is too long ({len(instance):,} characters) for its pattern to be checked", validator="bounded"
        )


def _pattern_properties(
    validator: Any, patterns: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for pattern, subschema in patterns.items():
            for key, value in instance.items():
                if _matches(pattern, key):
                    yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def surplus_keys(instance: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """The keys that neither `properties` nor `patternProperties` speak of."""
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [k for k in instance if k not in known and not any(_matches(pattern, k) for pattern in patterns)]


def _additional(validator: Any, allowed: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    extras = surplus_keys(instance, schema)
    if allowed is False:
        for key in extras:
            error = ValidationError("surplus", validator="surplus")
            error.path.append(key)
            yield error
    elif isinstance(allowed, dict):
        for key in extras:
            yield from validator.descend(instance[key], allowed, path=key)


def _required(validator: Any, required: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(instance, "object"):
        for key in required:
            if key not in instance:
                error = ValidationError("missing", validator="missing")
                error.path.append(key)
                yield error


def _unique(validator: Any, unique: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # The library compares every pair of objects: minutes for a list that fits into one argument.
    is_list = unique and validator.is_type(instance, "array")
    if is_list and len({identity_key(item) for item in instance}) != len(instance):
        yield ValidationError("has items that are equal")


def _multiple(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # Exact: 0.3 is a multiple of 0.1, and 10^400 of 0.5, where floats would say no or overflow.
    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(step)):
        yield ValidationError(f"is not a multiple of {step}")


def _counted(follow: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
    def ref(validator: Any, target: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        budget.follow()
        yield from follow(validator, target, instance, schema) or ()

    return ref


def _stepped(look: Callable[..., Any]) -> Callable[..., Any]:
    def keyword(validator: Any, limit: Any, instance: Any, schema: Any) -> Any:
        budget.spend_on(limit, instance)
        return look(validator, limit, instance, schema)

    return keyword


def _bounded(base: Any) -> Any:
    """The library's validator of one draft, with the keywords that could hang or overflow replaced."""
    known = base.VALIDATORS
    own: dict[str, Any] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional,
        "uniqueItems": _unique,
    }
    if base is not jsonschema.Draft3Validator:
        own |= {"required": _required, "multipleOf": _multiple}
    own |= {name: _counted(known[name]) for name in ("$ref", "$dynamicRef", "$recursiveRef") if name in known}
    extend: Callable[..., Any] = validators.extend  # its stub leaves the signature out
    return extend(base, {name: _stepped(look) for name, look in {**known, **own}.items()})


_DRAFTS: dict[str, Any] = {
    "draft-04": _bounded(jsonschema.Draft4Validator),
    "draft-06": _bounded(jsonschema.Draft6Validator),
    "draft-07": _bounded(jsonschema.Draft7Validator),
    "2019-09": _bounded(jsonschema.Draft201909Validator),
    "2020-12": _bounded(jsonschema.Draft202012Validator),
}


def dialect_of(schema: Any) -> str:
    """The draft a schema says it is written in; MCP's own, 2020-12, when it does not say.

    A schema without `$schema` that writes tuples the old way (`items: [...]`) is read as draft 7.
    """
    said = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(said, str):
        return next((name for name in _DRAFTS if name in said), "2020-12")
    return "draft-07" if _has_old_tuple(schema) else "2020-12"


def _has_old_tuple(schema: Any) -> bool:
    return any(isinstance(one.get("items"), list) for one in budget.subschemas(schema))


class Validator:
    """One compiled schema. `broken` says why it cannot be used, in which case nothing is valid."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.broken = ""
        self._fine: OrderedDict[bytes, None] = OrderedDict()
        if not isinstance(schema, dict | bool):
            self.broken = "it is not an object"
            return
        cls: Any = _DRAFTS[dialect_of(schema)]
        self._checker: JsonSchemaValidator = cls({})
        self.broken = self._compile(cls)

    def _compile(self, cls: Any) -> str:
        """Set up the checker; gives what is wrong with the schema itself, or nothing."""
        if why := budget.too_large(self.schema):
            return why
        try:
            # Without a format checker: what is a regular expression is decided by `patterns`, not by `re`.
            cls.check_schema(self.schema, format_checker=jsonschema.FormatChecker(formats=()))
            # A registry with the official meta-schemas and nothing that could fetch: the library's default
            # registry would open any address that a `$ref` names.
            self._checker = cls(self.schema, registry=META_SCHEMAS)
        except SchemaError as error:
            at = path_text(tuple(error.absolute_path))
            return f"{error.message[:160]}{f' (at {at})' if at else ''}"
        except RecursionError:
            return "it is nested too deeply"
        except _LIBRARY_STUMBLES as error:
            return f"{type(error).__name__}: {str(error)[:120]}"
        return self._broken_part()

    def _broken_part(self) -> str:
        programs = 0
        for one in budget.subschemas(self.schema):
            patterns = one.get("patternProperties")
            sources = [one.get("pattern"), *(patterns if isinstance(patterns, dict) else ())]
            for source in sources:
                if not isinstance(source, str):
                    continue
                try:
                    programs += safe_pattern(source).size
                except PatternUnsupported as error:
                    return f"its pattern {source[:80]!r} cannot be checked: {error}"
                if programs > MAX_PROGRAMS:
                    return "its patterns are too large together"
            if "unevaluatedProperties" in one and isinstance(patterns, dict):
                # The library matches these with `re`; no known tool combines the two.
                return "unevaluatedProperties beside patternProperties is not supported"
        return ""

    def errors(self, value: Any, most_steps: int = budget.MAX_STEPS) -> list[FieldError]:
        """Everything that is wrong with `value`, at most `MAX_ERRORS`, in the order of its arguments.

        What cannot be decided within `most_steps` is wrong too.
        """
        if self.broken:
            return [FieldError((), f"The tool's own schema is broken: {self.broken}.")]
        text = _text_of(value)
        if text is not None and text in self._fine:
            return []
        found = self._look_at(value, most_steps)
        if not found and text is not None:
            # A run asks a thousand devices the same: what was found fine stays fine.
            self._fine[text] = None
            if len(self._fine) > _FINE_KEPT:
                self._fine.popitem(last=False)
        return found

    def _look_at(self, value: Any, most_steps: int) -> list[FieldError]:
        found: list[FieldError] = []
        try:
            budget.begin(value, most_steps)
            for error in self._checker.iter_errors(value):
                for one in self._said(error):
                    if one not in found:
                        found.append(one)
                if len(found) >= MAX_ERRORS:
                    break
        except Unresolvable as error:
            return [FieldError((), _unresolved(str(error.ref)))]
        except PatternTooCostly:
            return [FieldError((), "A field name is too long for the tool's pattern to be checked.")]
        except _LIBRARY_STUMBLES:
            return [FieldError((), "The tool's own schema is broken: a part that is used is no schema.")]
        except (RecursionError, budget.TooMuchWork):
            return [FieldError((), _TOO_MUCH)]
        return found

    def is_valid(self, value: Any) -> bool:
        """Whether nothing is wrong with `value`."""
        return not self.errors(value)

    def _said(self, error: ValidationError) -> Iterator[FieldError]:
        budget.spend(_STEPS_OF_AN_ERROR)
        path: Path = tuple(error.absolute_path)
        if error.validator == "missing":
            yield FieldError(path, words.missing(path))
        elif error.validator == "surplus":
            known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
            yield FieldError(path, words.surplus(path, list(known)))
        elif error.validator == "bounded":
            yield FieldError(path, f"{path_text(path) or 'The value'} {error.message}.")
        elif error.validator in ("anyOf", "oneOf") and (inner := _meant_branch(error)):
            for one in inner:
                yield from self._said(one)
        else:
            yield FieldError(*words.describe(error))


def _text_of(value: Any) -> bytes | None:
    """A short text that only this value has; None where there is none, as for what is no plain JSON data."""
    try:
        text = plain_bytes(value) if is_plain(value) else None
    except BadInput:
        return None
    return text if text is not None and len(text) <= _FINE_CHARACTERS else None


def _unresolved(ref: str) -> str:
    if "://" in ref:
        return f"The tool's own schema is broken: it refers to {ref[:120]}, and schemas are never fetched."
    return f"The tool's own schema is broken: it refers to {ref[:120]}, which is not in it."


def _meant_branch(error: ValidationError) -> list[ValidationError]:
    """The errors of the one alternative that was evidently meant, or none when that is not evident."""
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.schema_path[0], []).append(inner)
    total = len(error.validator_value) if isinstance(error.validator_value, list) else 0
    if total != len(branches):
        return []
    meant = [found for found in branches.values() if not any(_is_wrong_kind(one) for one in found)]
    return sorted(meant[0], key=relevance) if len(meant) == 1 else []


def _is_wrong_kind(error: ValidationError) -> bool:
    """Whether an error means "another alternative": the wrong type, or another tag in a tagged union."""
    depth = len(error.relative_path)
    if error.validator == "type":
        return depth == 0
    return error.validator in ("const", "enum") and depth <= 1


_cache: OrderedDict[str, Validator] = OrderedDict()
_by_digest: OrderedDict[str, Validator] = OrderedDict()


def validator_for(schema: Any) -> Validator:
    """The compiled validator of a schema, compiled once per content; a later change to `schema` is seen."""
    try:
        # The text itself is the key: sorting and comparing it costs a few µs, RFC 8785 ten times that.
        key = json.dumps(schema, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        broken = Validator(True)
        broken.broken = "it is not JSON, or nested too deeply"
        return broken
    known = _cache.get(key)
    if known is not None:
        _cache.move_to_end(key)
        return known
    compiled = _cache[key] = Validator(json.loads(key))
    while len(_cache) > MAX_CACHED or (len(_cache) > 1 and sum(map(len, _cache)) > _MAX_CACHED_CHARACTERS):
        _cache.popitem(last=False)
    return compiled


def errors_for(schema: Any, value: Any) -> list[FieldError]:
    """Everything that is wrong with any JSON value under a schema, in words for people."""
    return validator_for(schema).errors(value)


def validate_arguments(schema: Any, parameters: Any, digest: str = "") -> list[FieldError]:
    """What is wrong with the arguments of one call; empty when the call may go on.

    Arguments are always an object, whatever the schema says. `digest` is of something that the schema is part
    of, a tool's definition for one: where it was seen before, the schema itself is not read again.
    """
    if not isinstance(parameters, dict):
        return [FieldError((), "The arguments must be an object of names and values.")]
    known = _by_digest.get(digest)
    if known is None:
        known = validator_for(schema)
        if digest:
            _by_digest[digest] = known
            if len(_by_digest) > MAX_CACHED:
                _by_digest.popitem(last=False)
    return known.errors(parameters)
