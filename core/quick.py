"""Fast construction of frozen pydantic models, for the models that each command makes."""

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


def made(kind: type[Model], fields: dict[str, Any]) -> Model:
    """A model with exactly these fields, without validation; `fields` must be complete and already valid."""
    model = kind.__new__(kind)
    _set_values(model, fields)
    _set_given(model, _ALL_FIELDS.get(kind) or _ALL_FIELDS.setdefault(kind, set(fields)))
    _set_extra(model, None)
    _set_private(model, None)
    return model
