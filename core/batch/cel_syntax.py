"""The syntax tree of a compiled CEL expression, read from cel-cpp's serialised `cel.expr.CheckedExpr`.

The Python packages of protobuf and CEL do not have these trees' definitions, so that the wire format is read
without them. Format: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Message = dict[int, list[int | bytes]]
"""The fields of a message by number, each with its values in order; fixed-size numbers are bytes."""


def decode(data: bytes) -> Message:
    """Read a message.

    Raises:
        ValueError: the data is no message.
    """
    fields: Message = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _read_varint(data, at)
            fields[number].append(value)
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == BYTES:
            size, at = _read_varint(data, at)
        if size is None or at + size > len(data):
            raise ValueError(f"field {number} of a protocol buffer cannot be read")
        fields[number].append(data[at : at + size])
        at += size
    return fields


def signed(value: int) -> int:
    """A varint as the signed 64-bit number that it stands for."""
    return struct.unpack("<q", value.to_bytes(8, "little"))[0]  # type: ignore[no-any-return]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number of a protocol buffer cannot be read")


INDEX, ADD, SIZE, CONDITIONAL, SPLIT = "_[_]", "_+_", "size", "_?_:_", "split"


@dataclass(frozen=True, slots=True)
class Syntax:
    """One node. `at` is its offset in the expression, in characters."""

    at: int


@dataclass(frozen=True, slots=True)
class Constant(Syntax):
    """A literal. `value` is set for integers and texts only."""

    value: int | str | None = None


@dataclass(frozen=True, slots=True)
class Name(Syntax):
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Select(Syntax):
    """`operand.field`; with `test_only`, `has(operand.field)`."""

    operand: Syntax
    field: str
    test_only: bool


@dataclass(frozen=True, slots=True)
class Call(Syntax):
    """A function or operator with its arguments, the target of a method first."""

    function: str
    arguments: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Collection(Syntax):
    """A literal list, or the keys and values of a literal map."""

    elements: tuple[Syntax, ...]


@dataclass(frozen=True, slots=True)
class Loop(Syntax):
    """A macro such as `exists`, `map` or `filter`, expanded. `accumulator` names its running value."""

    variable: str
    source: Syntax
    accumulator: str
    start: Syntax
    condition: Syntax
    step: Syntax
    result: Syntax
    second_variable: str = ""

    @property
    def builds_list(self) -> bool:
        """Whether it is `map` or `filter`: cel-cpp copies the list for each element that it appends."""
        return isinstance(self.start, Collection)

    @property
    def filters(self) -> bool:
        """Whether its value has elements of `source` only, unchanged."""
        step = self.step
        if not (self.builds_list and isinstance(step, Call) and step.function == CONDITIONAL):
            return False
        appended = step.arguments[1]
        if not (isinstance(appended, Call) and appended.function == ADD):
            return False
        added = appended.arguments[1]
        return (
            isinstance(added, Collection)
            and len(added.elements) == 1
            and isinstance(added.elements[0], Name)
            and added.elements[0].name == self.variable
        )


@dataclass(slots=True)
class _Reader:
    places: dict[int, int] = field(default_factory=dict)

    def node(self, data: bytes) -> Syntax:
        fields = decode(data)
        at = self.places.get(_number(fields, 2), 0)
        if 3 in fields:
            return _constant(_part(fields, 3), at)
        if 4 in fields:
            return Name(at, _text(decode(_part(fields, 4)), 1))
        if 5 in fields:
            inner = decode(_part(fields, 5))
            return Select(at, self.node(_part(inner, 1)), _text(inner, 2), bool(_number(inner, 3)))
        if 6 in fields:
            inner = decode(_part(fields, 6))
            nodes = [*inner.get(1, ()), *inner.get(3, ())]
            return Call(at, _text(inner, 2), tuple(self.node(_bytes(node)) for node in nodes))
        if 7 in fields:
            elements = decode(_part(fields, 7)).get(1, ())
            return Collection(at, tuple(self.node(_bytes(node)) for node in elements))
        if 8 in fields:
            entries = [decode(_bytes(entry)) for entry in decode(_part(fields, 8)).get(2, ())]
            parts = [_bytes(part) for entry in entries for key in (3, 4) for part in entry.get(key, ())]
            return Collection(at, tuple(self.node(part) for part in parts))
        if 9 in fields:
            inner = decode(_part(fields, 9))
            source, start, condition, step, result = (self.node(_part(inner, key)) for key in (2, 4, 5, 6, 7))
            return Loop(
                at, _text(inner, 1), source, _text(inner, 3), start, condition, step, result, _text(inner, 8)
            )
        raise ValueError("a syntax tree of CEL has a node of an unknown kind")


def read_syntax(serialised: bytes) -> Syntax:
    """The tree of an expression that was serialised by `Expression.serialize`.

    Raises:
        ValueError: it is no such tree.
    """
    checked = decode(_part(decode(serialised), 2))
    reader = _Reader()
    for entry in decode(_part(checked, 5)).get(4, ()):
        pair = decode(_bytes(entry))
        reader.places[_number(pair, 1)] = _number(pair, 2)
    return reader.node(_part(checked, 4))


def _constant(data: bytes, at: int) -> Constant:
    fields = decode(data)
    if 6 in fields:
        return Constant(at, _text(fields, 6))
    return Constant(at, signed(_number(fields, 3)) if 3 in fields else None)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a syntax tree of CEL has a number where a node stands")
    return value


def _part(fields: Message, number: int) -> bytes:
    return _bytes(fields[number][-1]) if fields.get(number) else b""


def _text(fields: Message, number: int) -> str:
    return _part(fields, number).decode()


def _number(fields: Message, number: int) -> int:
    value = fields[number][-1] if fields.get(number) else 0
    return value if isinstance(value, int) else 0
