"""Reading what the service says in slices: between two of them the loop does whatever else is due.

A thousand devices or cells in one frame take some ten milliseconds to check and build, in the window's own
thread: as one piece they would stop it visibly. What is built is the same, in the same order.
"""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter

from core.service import wire
from core.service.console import Console, Event

SLICE = 100


async def read_result(method: wire.Method, value: Any) -> Any:
    """What `method.result` makes of an answer's JSON data.

    Raises:
        ValidationError: the data are not that.
    """
    said = _result_type(method.name)
    if isinstance(value, list):
        if len(value) > SLICE and (element := _model_in(said)) is not None:
            value = await _in_slices(_list_of(element).validate_python, value)
    elif isinstance(value, dict):
        for key, element in _lists_of(said).items():
            if isinstance(part := value.get(key), list) and len(part) > SLICE:
                built = await _in_slices(_list_of(element).validate_python, part)
                value = {**value, key: built}
    # Models that are built already are taken as they are.
    return method.result.validate_python(value)


async def read_events(value: Any, take: Callable[[list[Event]], None]) -> None:
    """Hand over the events of a frame as they are read.

    Raises:
        ValidationError: something in it is no event; what stood before it was handed over, as far as it goes.
    """
    if not isinstance(value, list):
        take(wire.decode_events(value))
        return
    for start in range(0, len(value), SLICE):
        if start:
            await asyncio.sleep(0)
        take(wire.decode_events(value[start : start + SLICE]))


async def _in_slices(build: Callable[[list[Any]], list[Any]], values: list[Any]) -> list[Any]:
    built: list[Any] = []
    for start in range(0, len(values), SLICE):
        await asyncio.sleep(0)
        built += build(values[start : start + SLICE])
    return built


@cache
def _result_type(name: str) -> Any:
    return typing.get_type_hints(getattr(Console, name))["return"]


@cache
def _list_of(element: type[BaseModel]) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[element])  # type: ignore[valid-type]  # it is only known when it runs


@cache
def _lists_of(said: Any) -> dict[str, type[BaseModel]]:
    """The keys under which a model has lists of models; none for what is no model."""
    if not (inspect.isclass(said) and issubclass(said, BaseModel)):
        return {}
    listed = {field.alias or name: _model_in(field.annotation) for name, field in said.model_fields.items()}
    return {key: element for key, element in listed.items() if element is not None}


def _model_in(said: Any) -> type[BaseModel] | None:
    """The model that a `list[Model]` is of; None for any other type."""
    if typing.get_origin(said) is not list:
        return None
    (element,) = typing.get_args(said)
    return element if inspect.isclass(element) and issubclass(element, BaseModel) else None
