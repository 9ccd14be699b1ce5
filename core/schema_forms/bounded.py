"""JSON Schema validators of the `jsonschema` library, with every keyword replaced that could hang a program.

Schemas come from devices. So no remote `$ref` is fetched, a `pattern` is matched by
`core.schema_forms.patterns`, every evaluation costs steps of `core.schema_forms.budget`, and the schema
itself is checked against its draft's meta-schema under the same limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import jsonschema
from jsonschema import validators
from jsonschema.exceptions import ValidationError
from jsonschema_specifications import REGISTRY as META_SCHEMAS  # type: ignore[import-untyped]  # ships no types
from referencing.jsonschema import specification_with

from core.schema_forms import budget
from core.schema_forms.json_values import identity_key
from core.schema_forms.patterns import PatternTooCostly

# Keywords whose value is always compared in full, however small the instance.
_COMPARED_WHOLE = {"enum", "const", "required", "dependentRequired", "dependencies"}


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(instance, str):
        return
    try:
        if not budget.matches(pattern, instance):
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
                if budget.matches(pattern, key):
                    yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def surplus_keys(instance: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    """The keys that neither `properties` nor `patternProperties` cover."""
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    return [
        k for k in instance if k not in known and not any(budget.matches(pattern, k) for pattern in patterns)
    ]


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
    # The library compares every pair of objects, which takes minutes for a list that fits into one argument.
    is_list = unique and validator.is_type(instance, "array")
    if is_list and len({identity_key(item) for item in instance}) != len(instance):
        yield ValidationError("has items that are equal")


def _multiple(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # Exact: 0.3 is a multiple of 0.1, and 10^400 of 0.5; with floats the first fails, the second overflows.
    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(step)):
        yield ValidationError(f"is not a multiple of {step}")


def _stay(self: Any, **changes: Any) -> Any:
    """Return a validator for a part of the schema, in place of the library's `evolve`.

    The library's `evolve` switches to its own, unbounded validator at every `$schema`.
    """
    budget.spend(1)
    schema = changes.setdefault("schema", self.schema)
    inner = schema.get("$schema") if isinstance(schema, dict) else None
    cls = _DRAFTS[_draft_named(inner)] if isinstance(inner, str) else type(self)
    kept = {"format_checker": self.format_checker, "registry": self._registry, "_resolver": self._resolver}
    return cls(**{**kept, **changes})


def _counted(follow: Callable[..., Any]) -> Callable[..., Iterator[ValidationError]]:
    def ref(validator: Any, target: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        budget.follow()
        yield from follow(validator, target, instance, schema) or ()

    return ref


def _stepped(name: str, look: Callable[..., Any]) -> Callable[..., Any]:
    whole = name in _COMPARED_WHOLE

    def keyword(validator: Any, limit: Any, instance: Any, schema: Any) -> Any:
        budget.spend_on(limit, instance, whole)
        return look(validator, limit, instance, schema)

    return keyword


def _bounded(base: Any) -> Any:
    """The library's validator of one draft, with the keywords replaced that could hang or overflow."""
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
    extend: Callable[..., Any] = validators.extend  # the stub omits the signature
    made = extend(base, {name: _stepped(name, look) for name, look in {**known, **own}.items()})
    made.evolve = _stay
    return made


_DRAFTS: dict[str, Any] = {
    "draft-04": _bounded(jsonschema.Draft4Validator),
    "draft-06": _bounded(jsonschema.Draft6Validator),
    "draft-07": _bounded(jsonschema.Draft7Validator),
    "2019-09": _bounded(jsonschema.Draft201909Validator),
    "2020-12": _bounded(jsonschema.Draft202012Validator),
}


def dialect_of(schema: Any, look_for_tuples: bool = True) -> str:
    """The draft that a schema's `$schema` names; MCP's default, 2020-12, without a known draft.

    A schema without `$schema` that writes tuples the old way (`items: [...]`) is read as draft 7. Without
    `look_for_tuples` the caller knows that there are none.
    """
    said = schema.get("$schema") if isinstance(schema, dict) else None
    if isinstance(said, str):
        return _draft_named(said)
    return "draft-07" if look_for_tuples and _has_old_tuple(schema) else "2020-12"


def _draft_named(said: str) -> str:
    return next((name for name in _DRAFTS if name in said), "2020-12")


def _has_old_tuple(schema: Any) -> bool:
    return any(isinstance(one.get("items"), list) for one in budget.subschemas(schema))


def checker_of(schema: Any) -> Any:
    """The bounded validator of a whole schema; call `budget.begin` before its `iter_errors`.

    Raises:
        Exception: the library fails on the schema.
    """
    cls = _DRAFTS[dialect_of(schema)]
    # The registry has the official meta-schemas and cannot fetch. The library's default registry would open
    # any address that a `$ref` names.
    resource = specification_with(cls.META_SCHEMA["$schema"]).create_resource(schema)
    uri = resource.id() or ""
    # Names and addresses in the schema are collected once; the library would do it again at every `$ref`.
    registry = META_SCHEMAS.with_resource(uri, resource).crawl()
    return cls(schema, registry=META_SCHEMAS, _resolver=registry.resolver(uri))


def fault_in(schema: Any) -> ValidationError | None:
    """The first error of a schema under its draft's meta-schema; call `budget.begin` before."""
    cls = _DRAFTS[dialect_of(schema)]
    # No format checker: `patterns` decides what is a regular expression, not `re`.
    return next(cls(cls.META_SCHEMA, registry=META_SCHEMAS).iter_errors(schema), None)
