"""Integers beyond 64 bits in expressions: CEL has none, so each travels as a message with its digits.

CEL passes such a value on, compares it by `==` and `in`, and writes it by `string()`. It has no order and no
arithmetic for it, so both end in an error instead of a rounded number.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson

from core.json_walk import mapped

MESSAGE = "quarterdeck.LargeInteger"
# CEL's int and uint together; orjson writes the same integers, and no others.
_LEAST, _MOST = -(2**63), 2**64 - 1


def with_large_integers(data: Any) -> Any:
    """The data for one evaluation, with messages in place of integers beyond 64 bits."""
    try:
        orjson.dumps(data)
    except orjson.JSONEncodeError:
        return mapped(data, _as_message)
    return data


def large_integer(message: Any) -> int:
    """The integer that a message stands for."""
    return int(digits_of(message))


def digits_of(message: Any) -> str:
    """The digits of the integer that a message stands for."""
    return str(message.digits)


@cache
def message_pool() -> Any:
    """The message type, as protobuf's descriptor pool."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    package, _, name = MESSAGE.partition(".")
    file = FileDescriptorProto(name="large_integers.proto", package=package, syntax="proto2")
    # Label 1 is optional, type 9 is text.
    file.message_type.add(name=name).field.add(name="digits", number=1, label=1, type=9)
    pool = DescriptorPool()
    pool.Add(file)
    return pool


def string_function(cel: Any) -> Any:
    """The extension of CEL with `string()` of a large integer; `cel` is the library."""
    kind = cel.Type(MESSAGE)
    overload = cel.Overload("large_integer_to_string", cel.Type.STRING, [kind], impl=digits_of)
    return cel.CelExtension("large_integers", [cel.FunctionDecl("string", [overload])])


@cache
def _message_class() -> Any:
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(message_pool().FindMessageTypeByName(MESSAGE))


def _as_message(value: Any) -> Any:
    if type(value) is int and not _LEAST <= value <= _MOST:
        return _message_class()(digits=str(value))
    return value
