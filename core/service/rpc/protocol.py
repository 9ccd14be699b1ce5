"""The wire protocol of the control socket, which carries the calls of the console API.

Text frames are JSON objects. A client sends `{"hello": {...}}` and receives `{"welcome": {...}}` or
`{"error": {...}}`. Then it sends `{"id", "method", "params"}` and receives `{"id", "result"}` or
`{"id", "error"}`. A result of bytes is a binary frame: the id (8 bytes, big-endian), then the bytes.
`{"subscribe": n}` and `{"unsubscribe": n}` begin and end a stream of `{"stream": n, "events": [...]}`;
`{"forget": id}` tells the service that the client no longer waits for that answer.

This module names no method: each wire form is derived from the method's declaration and annotations.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from core.actors import AGENT_PREFIX, is_agent
from core.broken_text import fault_words
from core.errors import BadInput, ErrorCode, ErrorInfo, QuarterdeckError, ServiceError, first_fault
from core.json_walk import Members, is_finite, members_of, place_text, walk
from core.service.api.interface import api_methods
from core.service.api.methods import ApiMethod, types_of
from core.service.api.version import API_VERSION
from core.tasks import in_turns
from core.text import sentences

if TYPE_CHECKING:
    from core.service.api.events import Event

MAX_FRAME = 64 * 1024 * 1024
PAGE = 100
"""Members of a list that are encoded or validated at once. In a run of 1,000 devices the window stands for
15 ms (median), with pages of 500 for 21 to 26 ms."""
ID_BYTES = 8
MAX_ID = 2**53 - 1

ACTOR = r"^(operator|window|cli|agent):[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$"
Client = Literal["window", "cli", "agent", "test"]


class Hello(BaseModel):
    """A client's claim of its identity. `token` proves which agent an agent is.

    A person's permissions depend on signatures, not on this claim.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    api_version: int
    client: Client
    actor: str = Field(pattern=ACTOR)
    version: str = Field(default="", max_length=64)
    token: str = Field(default="", max_length=200, repr=False)

    @property
    def is_agent(self) -> bool:
        """Whether the client is an agent, by its kind or by its actor."""
        return self.client == "agent" or is_agent(self.actor)

    def known_as(self, user: str) -> str:
        """The actor under which the client's requests are recorded; `user` is the socket peer's user name.

        A person has the name of their system user until an operator's key proves their identity. An agent
        always stays an agent, whatever name it claims.
        """
        if self.is_agent:
            return AGENT_PREFIX + self.actor.partition(":")[2]
        return f"cli:{user}" if self.client == "cli" else f"window:{user}"


class Welcome(BaseModel):
    """The service's answer to a hello that it accepts."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    api_version: int
    version: str
    pid: int


@dataclass(frozen=True, slots=True)
class Method:
    """The wire form of one method of the console API."""

    api: ApiMethod
    signature: inspect.Signature
    parameters: dict[str, TypeAdapter[Any]]
    required: frozenset[str]
    result: TypeAdapter[Any]
    result_type: Any
    gives_bytes: bool

    @property
    def name(self) -> str:
        """The method's name on the wire."""
        return self.api.wire

    def encode_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Encode arguments as JSON data, by name.

        Raises:
            BadInput: the arguments do not fit the method, or have no JSON form.
        """
        try:
            # The leading None is `self`.
            bound = self.signature.bind(None, *args, **kwargs).arguments
            _check_finite(bound)
            return {
                name: self.parameters[name].dump_python(value, mode="json", by_alias=True, warnings="error")
                for name, value in bound.items()
                if name != "self"
            }
        except (TypeError, ValueError, UnicodeError, RecursionError) as error:
            raise BadInput(sentences(f"{self.name}: {fault_words(error)}")) from error

    def decode_arguments(self, params: Any) -> dict[str, Any]:
        """Decode and check arguments.

        Raises:
            BadInput: an argument is surplus, missing or wrongly typed; names it.
        """
        if not isinstance(params, dict):
            raise BadInput(f"{self.name}: params must be an object of arguments by name.")
        if surplus := sorted(set(params) - set(self.parameters)):
            raise BadInput(f"{self.name} has no argument {', '.join(map(repr, surplus))}.")
        if missing := sorted(self.required - set(params)):
            raise BadInput(f"{self.name} lacks the argument {', '.join(map(repr, missing))}.")
        try:
            return {name: self.parameters[name].validate_python(value) for name, value in params.items()}
        except ValidationError as error:
            raise BadInput(sentences(f"{self.name}: {first_fault(error)}")) from error


def _check_finite(arguments: dict[str, Any]) -> None:
    """Refuse NaN and infinity, which JSON lacks and pydantic would write as null.

    Raises:
        BadInput: an argument contains NaN or infinity; names the place.
    """
    for value, place, _ in walk(arguments, _members):
        if not is_finite(value):
            raise BadInput(f"{place_text(place)} must be a finite number, not {value}.")


def _members(value: Any) -> Members | None:
    """The members of a value that becomes JSON: also the fields of a model."""
    return members_of(dict(value) if isinstance(value, BaseModel) else value)


def methods() -> dict[str, Method]:
    """The wire form of every method of the console API, by its name on the wire."""
    return {name: wire_form(api) for name, api in sorted(api_methods().items())}


@cache
def wire_form(api: ApiMethod) -> Method:
    """The wire form of a method, made when the method is first called: a client calls few of them."""
    hints = types_of(api.function)
    result = hints.pop("return")
    signature = inspect.signature(api.function)
    return Method(
        api=api,
        signature=signature,
        parameters={key: TypeAdapter(hint) for key, hint in hints.items()},
        required=frozenset(
            key
            for key, parameter in signature.parameters.items()
            if key != "self" and parameter.default is inspect.Parameter.empty
        ),
        result=TypeAdapter(result),
        result_type=result,
        gives_bytes=result is bytes,
    )


@cache
def _event_list() -> TypeAdapter[list[Event]]:
    # Imported here: many clients follow no events, and do without the models of all of them.
    from core.service.api.events import Event

    return TypeAdapter(list[Event])


def encode(frame: dict[str, Any]) -> bytes:
    """Encode a frame as JSON.

    Raises:
        BadInput: a value has no JSON form, or the frame exceeds `MAX_FRAME` bytes (`too_large`).
    """
    try:
        data = pydantic_core.to_json(frame)
    except (pydantic_core.PydanticSerializationError, UnicodeError) as error:
        raise BadInput(f"This has no JSON form: {fault_words(error)}.") from error
    if len(data) > MAX_FRAME:
        raise BadInput(f"{len(data)} bytes are more than one call may carry.", ErrorCode.TOO_LARGE)
    return data


def decode(data: str | bytes) -> dict[str, Any]:
    """Decode the JSON object in a text frame.

    Raises:
        BadInput: the frame is not a JSON object.
    """
    try:
        frame = pydantic_core.from_json(data)
    except ValueError as error:
        raise BadInput(sentences(f"The frame is not JSON: {error}")) from error
    if not isinstance(frame, dict):
        raise BadInput("The frame is not a JSON object.")
    return frame


async def encode_result(number: int, method: Method, value: Any) -> bytes:
    """Encode the frame of an answer: binary if the method returns bytes, else JSON.

    Raises:
        QuarterdeckError: the result has no JSON form (`bad_result`) or exceeds `MAX_FRAME` (`too_large`).
    """
    if method.gives_bytes:
        data = number.to_bytes(ID_BYTES, "big") + bytes(value)
    else:
        try:
            parts = [part async for part in in_turns(_json_parts(method, value))]
        except (pydantic_core.PydanticSerializationError, UnicodeError) as error:
            raise QuarterdeckError(
                f"The result of {method.name} has no JSON form: {fault_words(error)}.", ErrorCode.BAD_RESULT
            ) from error
        data = b'{"id":%d,"result":%s}' % (number, b"".join(parts))
    if len(data) > MAX_FRAME:
        raise BadInput(
            f"The result of {method.name} has {len(data)} bytes, more than one answer may carry.",
            ErrorCode.TOO_LARGE,
        )
    return data


def _json_parts(method: Method, value: Any) -> Iterator[bytes]:
    """The JSON of a result: in one part, or in several if the result or a field of it is a long list."""
    of_fields = value.__dict__ if isinstance(value, BaseModel) else {}
    long = {name: of_field for name, of_field in of_fields.items() if _is_long(of_field)}
    if _is_long(value):
        yield from _list_parts(value)
        return
    whole = method.result.dump_json(value, exclude=set(long) or None, by_alias=True, warnings=False)
    yield whole[:-1] if long else whole
    for name, values in long.items():
        alias = type(value).model_fields[name].serialization_alias or name
        yield b'%b"%b":' % (b"" if whole == b"{}" else b",", alias.encode())
        yield from _list_parts(values)
        whole = b""
    if long:
        yield b"}"


def _list_parts(values: list[Any]) -> Iterator[bytes]:
    for number, page in enumerate(pages_of(values)):
        part = pydantic_core.to_json(page, by_alias=True, inf_nan_mode="null")
        yield (b"," if number else b"[") + part[1:-1]
    yield b"]"


def pages_of(values: list[Any]) -> Iterator[list[Any]]:
    """A list in pages of `PAGE` members."""
    for start in range(0, len(values), PAGE):
        yield values[start : start + PAGE]


def _is_long(value: Any) -> bool:
    return isinstance(value, list) and len(value) > PAGE


def encode_events(stream: int, events: list[Event]) -> bytes:
    """Encode the frame with a stream's next events."""
    return b'{"stream":%d,"events":[%b]}' % (stream, b",".join([event.encoded for event in events]))


def decode_events(value: Any) -> list[Event]:
    """Decode the events of a frame."""
    return _event_list().validate_python(value)


def encode_error(number: int | None, error: ErrorInfo) -> bytes:
    """Encode the frame of a call's error; `number` is None if the call could not be identified."""
    return encode({"id": number, "error": error.model_dump(mode="json")})


def number_in(frame: dict[str, Any], key: str) -> int:
    """A frame's call or stream number.

    Raises:
        BadInput: it is not a whole number from 0 to 2^53 - 1.
    """
    number = frame.get(key)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_ID:
        raise BadInput(f"{key!r} must be a whole number from 0 to 2^53 - 1.")
    return number


def read_hello(data: str | bytes) -> Hello:
    """Decode a client's first frame.

    Raises:
        ServiceError: the client uses another version of the console API (`home_busy`).
        BadInput: the frame is not a hello.
    """
    hello = decode(data).get("hello")
    if not isinstance(hello, dict):
        raise BadInput("The first frame must be a hello.")
    # Checked first: another version's hello may have another shape.
    if (theirs := hello.get("api_version")) != API_VERSION:
        raise ServiceError(
            f"The service speaks version {API_VERSION} of its interface, this program version {theirs}. "
            "End the service with the program that started it, then start this one again.",
            ErrorCode.HOME_BUSY,
        )
    try:
        return Hello.model_validate(hello)
    except ValidationError as error:
        raise BadInput(sentences(f"hello: {first_fault(error)}")) from error
