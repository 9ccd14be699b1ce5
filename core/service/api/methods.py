"""Declarations of the console API's methods: the name on the wire, and which clients may call them.

Each method is declared once, by `@rpc` at its place in `core.service.api.interface`. Every way to call a
method begins at these declarations: the control socket knows no other names, and a client in this process has
only objects of the classes that `calls_class` makes of them. An interface with a method that is not declared
cannot be used at all.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any, Final, TypeVar

import core
from core.actors import is_person
from core.errors import Refused

Function = TypeVar("Function", bound=Callable[..., Any])
# The module in a name such as `core.batch.models.Run`.
_MODULE = re.compile(r"\bcore(?:\.[a-z_]+)+(?=\.[A-Z])")


class Callers(Enum):
    """Which clients may call a method.

    An agent may request commands, which the policy judges, and may read what is its own: the devices among
    its targets, its runs and their entries. The implementations of such methods check that. Only operators,
    people at a window or a terminal, see everything, decide about requests and change what is permitted.
    """

    ANY_CLIENT = "any client"
    OPERATORS = "operators"


ANY_CLIENT: Final = Callers.ANY_CLIENT
OPERATORS: Final = Callers.OPERATORS


@dataclass(frozen=True, slots=True)
class ApiMethod:
    """A declared method: `console.<api>.<name>`, called `wire` on the socket.

    `answer_within` is how long, in seconds, a client waits for the answer; None: as long as for any call.
    A method that `only_waits` has no effect before it has ended, and is cancelled when its client has gone.
    """

    wire: str
    callers: Callers
    api: str
    name: str
    function: Callable[..., Any]
    answer_within: float | None = None
    only_waits: bool = False

    def check_caller(self, actor: str) -> None:
        """Check that this actor may call the method.

        Raises:
            Refused: the method is for operators, and the actor is none.
        """
        if self.callers is not ANY_CLIENT:
            check_operator(actor, self.wire.replace("_", " "))


Invoke = Callable[[ApiMethod, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]


def check_operator(actor: str, act: str) -> None:
    """Check that an actor is a person; `act` is a phrase such as "follow events".

    Raises:
        Refused: it is an agent.
    """
    if not is_person(actor):
        raise Refused(f"An agent may not {act}.", next_step="Have an operator do it.")


def rpc(
    wire: str, callers: Callers, *, answer_within: float | None = None, only_waits: bool = False
) -> Callable[[Function], Function]:
    """Declare a method of the interface; the arguments are those of `ApiMethod`."""

    def declare(function: Function) -> Function:
        declared = functools.partial(
            ApiMethod, wire, callers, answer_within=answer_within, only_waits=only_waits
        )
        function.__rpc__ = declared  # type: ignore[attr-defined]  # read by `methods_of`
        # As by `abstractmethod`: a class that does not implement the method cannot be instantiated.
        function.__isabstractmethod__ = True  # type: ignore[attr-defined]
        return function

    return declare


def methods_of(api: str, interface: type) -> Iterator[ApiMethod]:
    """The declared methods of an interface, which is the console's attribute `api`.

    Raises:
        TypeError: a public name of the interface is not a declared method.
    """
    for name, function in vars(interface).items():
        if name.startswith("_"):
            continue
        declared = getattr(function, "__rpc__", None)
        if declared is None:
            raise TypeError(f"{interface.__name__}.{name} does not say who may call it; declare it by @rpc.")
        yield declared(api=api, name=name, function=function)


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of a declared method's parameters, and of its result as `return`.

    The models among them are imported here, by the modules that the annotations name.
    """
    for annotation in function.__annotations__.values():
        for module in _MODULE.findall(annotation):
            import_module(module)
    return typing.get_type_hints(function, localns={"core": core}, include_extras=True)


def calls_class(api: str, interface: type) -> type[Any]:
    """A class with this interface, whose objects pass each call to `invoke`, their only argument."""

    def init(self: Any, invoke: Invoke) -> None:
        self._invoke = invoke

    methods = {method.name: _forward(method) for method in methods_of(api, interface)}
    return type(f"{interface.__name__}Calls", (interface,), {"__init__": init, **methods})


def _forward(method: ApiMethod) -> Callable[..., Any]:
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await self._invoke(method, args, kwargs)

    # `updated` is empty: the copy must not be abstract as its original is.
    return functools.update_wrapper(call, method.function, updated=())
