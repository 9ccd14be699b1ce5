"""The fields of a schema, flat: for the text of a description, for agents, and for the search."""

from __future__ import annotations

from typing import Any

import pytest

from core.schema_forms import fields
from core.schema_forms.fields import schema_fields

NODE = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["id"],
}


def paths(schema: Any) -> list[str]:
    return [f"{field.path}: {field.kind_words}" for field in schema_fields(schema)]


def test_fields_of_objects_and_lists_have_paths_types_and_values():
    schema = {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": {"properties": {"name": {"type": ["string", "null"]}}}},
            "kind": {"enum": ["file", None]},
            "box": {
                "anyOf": [{"properties": {"x": {"type": "integer"}}, "type": "object"}, {"type": "null"}]
            },
        },
        "required": ["kind"],
    }
    assert paths(schema) == [
        "rows: list of any",
        "rows[].name: string or null",
        'kind: "file" | null',
        "box: object or null",
        "box.x: integer",
    ]
    assert [field.name for field in schema_fields(schema) if field.required] == ["kind"]


def test_fields_of_one_variant_say_when_they_are_there():
    branches = [
        {"properties": {"what": {"const": "disk"}, "size": {"type": "integer"}}},
        {"properties": {"what": {"const": "os"}, "name": {"type": "string"}}},
    ]
    found = [(field.path, field.when) for field in schema_fields({"oneOf": branches})]
    assert found == [
        ("what", ("what", "disk")),
        ("size", ("what", "disk")),
        ("what", ("what", "os")),
        ("name", ("what", "os")),
    ]


def test_a_definition_that_contains_itself_is_followed_once():
    schema = {"$defs": {"node": NODE}, "properties": {"tree": {"$ref": "#/$defs/node"}}}
    assert paths(schema) == ["tree: object", "tree.id: string", "tree.children: list"]


@pytest.mark.parametrize(
    "schema",
    [
        None, True, [], {"properties": []}, {"properties": {"a": True}}, {"$ref": "#/$defs/none"},
        {"$ref": 7}, {"$ref": "https://elsewhere/x"}, {"allOf": {}, "items": 3},
        {"oneOf": [None, {"properties": {"a": 1}}]},
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_read_has_no_fields_and_is_no_error(schema: Any):
    assert all(field.kind == "any" for field in schema_fields(schema))


def test_a_schema_without_end_is_read_to_a_bound():
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(500):
        deep = {"properties": {"a": deep}}
    assert len(schema_fields(deep)) < 20
    wide = {"properties": {f"f{number}": {} for number in range(5_000)}}
    assert len(schema_fields(wide, 100)) == 100
    doubling: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(40):
        doubling = {"allOf": [doubling, doubling]}
    assert len(schema_fields(doubling, 50)) <= 50


def test_references_cannot_multiply_a_small_schema():
    def level(number: int) -> dict[str, Any]:
        below = {"$ref": f"#/$defs/d{number + 1}"}
        return {"allOf": [below] * 50, "anyOf": [below] * 50, "items": below}

    schema: dict[str, Any] = {"$defs": {f"d{number}": level(number) for number in range(30)}, **level(0)}
    walk = fields._Walk(schema)
    assert list(walk.fields(schema, "", None, frozenset(), 0)) == []
    assert -fields._MOST_LOOKED_AT < walk._left < 0
    # The words for a type follow references, too.
    schema["properties"] = {"a": {"$ref": "#/$defs/d1"}}
    assert [field.path for field in schema_fields(schema)] == ["a"]
