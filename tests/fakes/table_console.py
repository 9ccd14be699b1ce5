"""`TableConsole`, the one fake of the console: a table of what each method of the API answers.

    console = TableConsole({
        "tools": [tool],                                          # a value: answered each time
        "doctor": DeviceError("lab-lnx-01 is offline."),          # an error: raised each time
        "runs": lambda active: [] if active else [summary],       # a function of arguments that it names
    })
    console.answer("tools", [])                 # another answer from now on
    console.fail_next["tools"] = DeviceError("...")           # the next call raises this, once
    console.hold_back("tools")                  # calls wait until the returned asyncio.Event is set
    console.emit(DeviceChanged(device=...))     # an event to every listener
    console.lose("The service was killed.")     # every stream ends with ServiceError, until `come_back`
    console.calls                               # every call, with its arguments by name

Calls and answers go through the wire forms of `core.service.rpc.protocol`, as between a window and a service,
so that a screen gets what JSON leaves of an answer. What does not fit the API as it is declared fails the
test, also where a screen catches the error: a method that is unknown or not in the table, an argument that is
missing, surplus or of another type, an answer or event of another type (`Misuse`).
"""

from __future__ import annotations

import asyncio
import inspect
import typing
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from core.errors import QuarterdeckError, ServiceError
from core.service.api.methods import ApiMethod
from core.service.console import Console, Event, api_methods
from core.service.rpc import protocol

EVENTS = typing.get_args(typing.get_args(Event)[0])
_END = object()


class Misuse(AssertionError):
    """A fake of the console, or its caller, does not fit the API; fails the test, at its end at latest."""

    seen: typing.ClassVar[list[Misuse]] = []

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.seen.append(self)

    @classmethod
    def check(cls) -> None:
        """Raise the first misuse since the last check."""
        seen, cls.seen[:] = list(cls.seen), []
        if seen:
            raise seen[0]


@dataclass(frozen=True, slots=True)
class Call:
    """A call: the method's name on the wire, and every argument by name, defaults included."""

    method: str
    arguments: dict[str, Any]


class TableConsole(Console):
    """A console that answers from a table by names on the wire.

    A subclass may have methods `on_<name on the wire>`: they are in the table from the beginning.
    """

    # As whom the journal would have what this client asks for.
    actor = "window:harbour"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, function in vars(cls).items():
            if name.startswith("on_"):
                _check_answer(name.removeprefix("on_"), function, given={"self"})

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.fail_next: dict[str, QuarterdeckError] = {}
        self.closed = False
        self._answers: dict[str, Any] = {}
        self._held: dict[str, asyncio.Event] = {}
        self._listeners: list[asyncio.Queue[Any]] = []
        self._lost: ServiceError | None = None
        for name, answer in (answers or {}).items():
            self.answer(name, answer)

    # For tests

    def answer(self, method: str, answer: Any) -> None:
        """Let a method answer this from now on: a value, an error, or a function, which may be async."""
        _check_answer(method, answer)
        self._answers[method] = answer

    @property
    def asked(self) -> list[str]:
        """Names of the methods in the order they were called."""
        return [call.method for call in self.calls]

    def calls_of(self, method: str) -> list[dict[str, Any]]:
        """The arguments of each call of a method."""
        return [call.arguments for call in self.calls if call.method == method]

    def hold_back(self, method: str) -> asyncio.Event:
        """Let a method wait, each time, until the returned event is set."""
        self._held[method] = asyncio.Event()
        return self._held[method]

    def emit(self, event: Event) -> None:
        """Send an event to every listener."""
        if not isinstance(event, EVENTS):
            raise Misuse(f"{event!r} is no event of the API.")
        for listener in self._listeners:
            listener.put_nowait(event)

    def lose(self, why: str = "The service ended.") -> None:
        """Break the connection: listeners end, and every further call raises, until `come_back`."""
        self._lost = ServiceError(why)
        for listener in self._listeners:
            listener.put_nowait(self._lost)

    def come_back(self) -> None:
        """Answer again after `lose`."""
        self._lost = None

    # The console API

    async def invoke(self, method: ApiMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        form = protocol.methods()[method.wire]
        arguments = _received(form, args, kwargs)
        self.calls.append(Call(method.wire, arguments))
        if self._lost is not None:
            raise self._lost
        method.check_caller(self.actor)
        if (error := self.fail_next.pop(method.wire, None)) is not None:
            raise error
        if (held := self._held.get(method.wire)) is not None:
            await held.wait()
        return await _sent(form, await self.answer_to(method.wire, **arguments))

    async def answer_to(self, method: str, **arguments: Any) -> Any:
        """What the table answers to all arguments of a method; for answers that are made from others."""
        answer = self._answers.get(method, getattr(self, f"on_{method}", _END))
        if answer is _END:
            raise Misuse(f"{method} was called, and the table of this console has no answer to it.")
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            wanted = inspect.signature(answer).parameters
            answer = answer(**{name: arguments[name] for name in wanted})
        return await answer if inspect.isawaitable(answer) else answer

    def events(self) -> AsyncIterator[Event]:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self._listeners.append(queue)
        return self._stream(queue)

    async def _stream(self, queue: asyncio.Queue[Any]) -> AsyncIterator[Event]:
        try:
            while (one := await queue.get()) is not _END:
                if isinstance(one, QuarterdeckError):
                    raise one
                yield one
        finally:
            self._listeners.remove(queue)

    async def close(self) -> None:
        self.closed = True
        for listener in self._listeners:
            listener.put_nowait(_END)


def _check_answer(method: str, answer: Any, given: frozenset[str] | set[str] = frozenset()) -> None:
    """Check that the API has this method and, of a function, the arguments that it names."""
    if method not in api_methods():
        raise Misuse(f"The API has no method {method!r}.")
    if callable(answer):
        unknown = (
            set(inspect.signature(answer).parameters) - set(protocol.methods()[method].parameters) - given
        )
        if unknown:
            raise Misuse(f"{method} has no argument {', '.join(sorted(unknown))}.")


def _received(form: protocol.Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments as a service gets them, with the declared defaults.

    Raises:
        BadInput: they have no JSON form, such as NaN; a real console says the same.
    """
    try:
        bound = form.signature.bind(None, *args, **kwargs)
    except TypeError as error:
        raise Misuse(f"{form.name}: {error}") from error
    for name, adapter in form.parameters.items():
        if name in bound.arguments:
            _check_type(adapter, bound.arguments[name], f"{form.name}: {name}")
    frame = protocol.encode(form.encode_arguments(args, kwargs))
    arguments = form.decode_arguments(from_json(frame))
    bound.apply_defaults()
    return {name: arguments.get(name, bound.arguments[name]) for name in form.parameters}


async def _sent(form: protocol.Method, value: Any) -> Any:
    """An answer as a client gets it."""
    _check_type(form.result, value, f"The answer to {form.name}")
    data = await protocol.encode_result(0, form, value)
    if form.gives_bytes:
        return data[protocol.ID_BYTES :]
    try:
        return form.result.validate_python(from_json(data)["result"])
    except ValidationError as error:
        raise Misuse(f"The answer to {form.name} cannot be read: {error}") from error


def _check_type(adapter: Any, value: Any, what: str) -> None:
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        # A text that has no UTF-8 form is bad input, not another type.
        if any(one["type"] != "string_unicode" for one in error.errors()):
            raise Misuse(f"{what} has another type than the API declares: {error}") from error
