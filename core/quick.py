"""Fast construction and copying of frozen pydantic models, for code that makes thousands of them a second."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)

# Models made here are never modified, so that all models of a class can share their set of field names.
_ALL_FIELDS: dict[type[BaseModel], set[str]] = {}


# These setters bypass a frozen model's `__setattr__`, at half the cost of `object.__setattr__`.
_set_values = BaseModel.__dict__["__dict__"].__set__
_set_given = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private = BaseModel.__dict__["__pydantic_private__"].__set__


def changed(model: Model, **changes: Any) -> Model:
    """A copy with some fields changed: `model_copy(update=…)` at a tenth of its cost.

    Like `model_copy`, it validates nothing and shares unchanged values. Only for models without private
    attributes and extra fields.
    """
    given = model.__pydantic_fields_set__
    if not changes.keys() <= given:
        given = given | changes.keys()
    return made(type(model), {**model.__dict__, **changes}, given)


def made(kind: type[Model], fields: dict[str, Any], given: set[str] | None = None) -> Model:
    """A model with exactly these fields, without validation; `fields` must be complete and already valid."""
    model = kind.__new__(kind)
    _set_values(model, fields)
    if given is None:
        given = _ALL_FIELDS.get(kind) or _ALL_FIELDS.setdefault(kind, set(fields))
    _set_given(model, given)
    _set_extra(model, None)
    _set_private(model, None)
    return model
