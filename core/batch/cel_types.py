"""Types for CEL's checker: JSON Schemas as message types, and operators on mixed kinds of numbers.

cel-cpp checks fields by name only in message types, so each JSON object with known properties becomes one.
The types serve checking alone; an expression is evaluated over plain JSON data.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.batch.large_integers import message_pool, string_function
from core.errors import ErrorCode, QuarterdeckError

PACKAGE = "quarterdeck"
MOST_MESSAGES = 400
MOST_FIELDS = 300
DEEPEST = 20

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_LETTER = re.compile(r"[^A-Za-z0-9_]")
WORDS_OF_CEL = frozenset({"in", "true", "false", "null"})
"""Names that cannot be selected with a dot."""
# Numbers of google.protobuf.FieldDescriptorProto.Type and Label.
_DOUBLE, _INT64, _BOOL, _STRING, _MESSAGE = 1, 3, 8, 9, 11
_OPTIONAL, _REPEATED = 1, 3
_GOOGLE = ("struct", "wrappers")
_SCALARS = {"number": _DOUBLE, "integer": _INT64, "boolean": _BOOL, "string": _STRING}
_NULLABLE = {
    "number": "DoubleValue",
    "integer": "Int64Value",
    "boolean": "BoolValue",
    "string": "StringValue",
}


def cel_library() -> Any:
    """The module `cel_expr_python.cel`, imported when the first expression is compiled.

    It is 50 MB large, so device clients are installed without it.

    Raises:
        QuarterdeckError: it is not installed.
    """
    try:
        import google.protobuf.message_factory  # noqa: F401  # cel-cpp aborts the process without it
        from cel_expr_python import cel
    except ImportError as error:
        raise QuarterdeckError(
            "This batch has expressions, and the package that evaluates them is not installed: "
            "install quarterdeck[expressions].",
            ErrorCode.INTERNAL,
        ) from error
    return cel


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field: the number of a scalar type, or the name of a message type."""

    number: int
    message: str = ""
    repeated: bool = False


ANY = FieldType(_MESSAGE, "google.protobuf.Value")
TEXT, WHOLE, NUMBER = FieldType(_STRING), FieldType(_INT64), FieldType(_DOUBLE)
TEXTS = FieldType(_STRING, repeated=True)
_LIST = FieldType(_MESSAGE, "google.protobuf.ListValue")
_MAP = FieldType(_MESSAGE, "google.protobuf.Struct")


def is_selectable(name: str) -> bool:
    """Whether a field of this name can be read as `.name`; others are read as `["name"]`."""
    return _IDENTIFIER.fullmatch(name) is not None and name not in WORDS_OF_CEL


def checked_name(name: str) -> str:
    """The name under which the checker knows a field, as its names are identifiers."""
    if is_selectable(name):
        return name
    return f"_{_NO_LETTER.sub('_', name)}_"


class MessageTypes:
    """Message types under construction. `fields_of` has the names of the fields of each type."""

    def __init__(self) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto

        self.fields_of: dict[str, list[str]] = {}
        self._file = FileDescriptorProto(name="quarterdeck.proto", package=PACKAGE, syntax="proto2")
        self._file.dependency.extend(f"google/protobuf/{name}.proto" for name in _GOOGLE)

    def add(self, fields: Mapping[str, FieldType]) -> FieldType:
        """Define a message type with the `checked_name` of each field; two of the same name have any type."""
        name = f"T{len(self.fields_of)}"
        named: dict[str, FieldType] = {}
        for key, kind in list(fields.items())[:MOST_FIELDS]:
            checked = checked_name(key)
            named[checked] = ANY if checked in named else kind
        self.fields_of[f"{PACKAGE}.{name}"] = list(fields)[:MOST_FIELDS]
        message = self._file.message_type.add(name=name)
        # Two properties such as `fooBar` and `foo_bar` are two fields.
        message.options.deprecated_legacy_json_field_conflicts = True
        for number, (key, kind) in enumerate(named.items(), 1):
            message.field.add(
                name=key,
                json_name=key,
                number=number,
                label=_REPEATED if kind.repeated else _OPTIONAL,
                type=kind.number,
                type_name=f".{kind.message}" if kind.message else None,
            )
        return FieldType(_MESSAGE, f"{PACKAGE}.{name}")

    def pool(self) -> Any:
        """The types as protobuf's descriptor pool."""
        from google.protobuf import struct_pb2, wrappers_pb2
        from google.protobuf.descriptor_pool import DescriptorPool

        pool = DescriptorPool()
        for known in (struct_pb2, wrappers_pb2):
            pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
        pool.Add(self._file)
        return pool

    def of_schema(self, schema: object, root: object = None, depth: int = 0) -> FieldType:
        """The type of the data that a JSON Schema describes; `ANY` where it is not exact enough."""
        root = schema if root is None else root
        schema = _resolved(schema, root)
        if not isinstance(schema, Mapping) or depth > DEEPEST or len(self.fields_of) >= MOST_MESSAGES:
            return ANY
        kind, nullable = _kind_of(schema)
        if kind in _SCALARS:
            if nullable:
                return FieldType(_MESSAGE, f"google.protobuf.{_NULLABLE[kind]}")
            return FieldType(_SCALARS[kind])
        if kind == "object":
            properties = _properties_of(schema, root)
            if not properties:
                return _MAP
            return self.add(
                {key: self.of_schema(inner, root, depth + 1) for key, inner in properties.items()}
            )
        if kind == "array" and not nullable:
            inner = self.of_schema(schema.get("items"), root, depth + 1)
            return (
                _LIST
                if inner.repeated or inner in (ANY, _LIST, _MAP)
                else FieldType(inner.number, inner.message, repeated=True)
            )
        return ANY


_KIND_WORDS = {
    "string": "text",
    "integer": "whole number",
    "int": "whole number",
    "number": "number",
    "double": "number",
    "boolean": "true or false",
    "bool": "true or false",
    "array": "list",
    "list": "list",
    "object": "object",
    "map": "object",
}


def kind_words(kind: str) -> str:
    """A type of JSON Schema, of an input or of CEL in words; empty where it says nothing."""
    return _KIND_WORDS.get(kind, "")


def described_fields(
    schema: object, root: object = None, depth: int = 0
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The fields that a schema describes, by their paths, with their kinds in words, parents first.

    `[0]` in a path is the first element of a list.
    """
    root = schema if root is None else root
    schema = _resolved(schema, root)
    if not isinstance(schema, Mapping) or depth > DEEPEST // 4:
        return
    kind, _ = _kind_of(schema)
    if kind == "array":
        for path, words in described_fields(schema.get("items"), root, depth + 1):
            yield ("[0]", *path), words
        return
    for key, inner in list(_properties_of(schema, root).items())[:MOST_FIELDS]:
        resolved = _resolved(inner, root)
        yield (key,), kind_words(_kind_of(resolved)[0] if isinstance(resolved, Mapping) else "")
        for path, words in described_fields(inner, root, depth + 1):
            yield (key, *path), words


def cel_type(kind: FieldType) -> Any:
    """A field's type as cel-cpp's."""
    types = cel_library().Type
    scalar = {_DOUBLE: types.DOUBLE, _INT64: types.INT, _BOOL: types.BOOL, _STRING: types.STRING}
    well_known = {ANY.message: types.DYN, _LIST.message: types.LIST, _MAP.message: types.MAP}
    inner = well_known.get(kind.message) or scalar.get(kind.number) or types(kind.message)
    return types.List(inner) if kind.repeated else inner


# By operator: the types of its operands, and of its result. `~A` is any type, the
# same on both sides. What is not in the standard library has an implementation in `_MIXED`.
_NUMBERS = ("int,int", "double,double", "int,double", "double,int")
_ORDERED = (*_NUMBERS, "string,string", "bool,bool", "timestamp,timestamp", "duration,duration")
_ARITHMETIC = {"int,int": "int", "double,double": "double", "int,double": "double", "double,int": "double"}
_OPERATORS: dict[str, dict[str, str]] = {
    **{name: dict.fromkeys(_ORDERED, "bool") for name in ("_<_", "_<=_", "_>_", "_>=_")},
    **{name: dict.fromkeys(("~A,~A", "int,double", "double,int"), "bool") for name in ("_==_", "_!=_")},
    "_+_": {
        **_ARITHMETIC,
        "string,string": "string",
        "list<~A>,list<~A>": "list<~A>",
        "timestamp,duration": "timestamp",
        "duration,duration": "duration",
    },
    "_-_": {**_ARITHMETIC, "timestamp,timestamp": "duration", "timestamp,duration": "timestamp"},
    "_*_": dict(_ARITHMETIC),
    "_/_": dict(_ARITHMETIC),
}
_MIXED: dict[str, Callable[[float, float], float]] = {
    "_+_": operator.add,
    "_-_": operator.sub,
    "_*_": operator.mul,
    "_/_": lambda left, right: left / right if right else math.nan,
}


def new_environment(variables: Mapping[str, Any], messages: MessageTypes | None = None) -> Any:
    """An environment in which whole and other numbers mix, as JSON does not tell them apart."""
    cel = cel_library()
    mixed = {
        f"{name}({operands})": compute
        for name, compute in _MIXED.items()
        for operands in ("int,double", "double,int")
    }
    if messages is not None:
        pool, extensions = messages.pool(), _extensions()
    else:
        pool, extensions = message_pool(), (*_extensions(), string_function(cel))
    return cel.NewEnv(
        pool,
        _configuration(),
        variables=dict(variables),
        extensions=extensions,
        function_impls=mixed,
    )


@cache
def _extensions() -> tuple[Any, ...]:
    """CEL's functions for texts, numbers and encodings; cel-expr-python 0.1.3 has none for lists."""
    from cel_expr_python.ext import ext_encoders, ext_math, ext_strings

    return ext_strings.ExtStrings(), ext_math.ExtMath(), ext_encoders.ExtEncoders()


@cache
def _configuration() -> Any:
    functions = [
        {
            "name": name,
            "overloads": [
                {
                    "id": f"{name}({operands})",
                    "signature": re.sub("[<>]", r"\\\g<0>", name) + f"({operands})",
                    "return": result,
                }
                for operands, result in overloads.items()
            ],
        }
        for name, overloads in _OPERATORS.items()
    ]
    excluded = [{"name": name} for name in _OPERATORS]
    # JSON is YAML, which this reads.
    return cel_library().NewEnvConfigFromYaml(
        json.dumps({"stdlib": {"exclude_functions": excluded}, "functions": functions})
    )


def _properties_of(schema: Mapping[str, Any], root: object) -> dict[str, Any]:
    """The properties of an object, those of its alternatives together; of two definitions neither counts."""
    merged: dict[str, Any] = {}
    alternatives = [inner for key in ("oneOf", "anyOf") for inner in schema.get(key, ())]
    for part in (schema, *(_resolved(inner, root) for inner in alternatives)):
        properties = part.get("properties") if isinstance(part, Mapping) else None
        for name, inner in (properties if isinstance(properties, Mapping) else {}).items():
            merged[str(name)] = inner if merged.get(str(name), inner) == inner else {}
        if part is not schema and not properties:
            return {}  # an alternative may have any properties
    return merged


def _kind_of(schema: Mapping[str, Any]) -> tuple[str, bool]:
    """The single type that a schema allows beside null, and whether null is allowed; empty if not single."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list) and values and all(isinstance(value, str) for value in values):
        return "string", False
    for key in ("anyOf", "oneOf"):
        choices = schema.get(key)
        if isinstance(choices, list) and "type" not in schema:
            inner = [_kind_of(choice) if isinstance(choice, Mapping) else ("", False) for choice in choices]
            scalars = {kind for kind, _ in inner} - {"null"}
            if len(scalars) == 1 and scalars <= set(_SCALARS):
                return scalars.pop(), any(nullable for _, nullable in inner)
            return "", False
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return kinds, kinds == "null"
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        if len(others) == 1 and isinstance(others[0], str):
            return others[0], "null" in kinds
    return "", False


def _resolved(schema: object, root: object) -> object:
    """Follow references within the schema document, at most a few of them."""
    for _ in range(5):
        if not (isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str)):
            return schema
        target: object = root
        if not schema["$ref"].startswith("#/"):
            return None
        for part in schema["$ref"][2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) else None
        schema = target
    return None
