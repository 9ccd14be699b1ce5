"""What a plan takes to arrive from a tool, by the client that hands it on."""

from __future__ import annotations

from typing import Any

import pytest

from core.batch.result_schema import arriving_schema
from core.models.devices import Device, Health
from core.models.tools import Tool

NAMES = {"type": "array", "items": {"$ref": "#/$defs/Name"}}
DEFINED = {"Name": {"type": "string"}}
WRAPPED: dict[str, Any] = {
    "type": "object",
    "properties": {"result": NAMES},
    "$defs": DEFINED,
    "x-fastmcp-wrap-result": True,
}
PLAIN: dict[str, Any] = {"type": "object", "properties": {"count": {"type": "integer"}}}
STOCK = Device(name="hw1", health=Health.ONLINE, since="", direction="in")
OWN = STOCK.model_copy(update={"features": ["progress"]})


def arrives(declared: dict[str, Any], device: Device, namespace: str | None) -> Any:
    return arriving_schema(Tool.model_construct(output_schema=declared, namespace=namespace), device)


def test_a_stock_client_unwraps_what_fastmcp_wrapped_and_nothing_else():
    assert arrives(WRAPPED, STOCK, "HardwareExecutor") == {**NAMES, "$defs": DEFINED}
    assert arrives(PLAIN, STOCK, "HardwareExecutor") == PLAIN


@pytest.mark.parametrize("declared", [WRAPPED, PLAIN])
def test_our_client_hands_on_the_whole_answer_of_a_hosted_server(declared):
    schema = arrives(declared, OWN, "alpha")
    assert schema["properties"].keys() == {"content", "structured", "meta", "truncated"}
    assert schema["properties"]["structured"]["properties"] == declared["properties"]
    assert schema.get("$defs") == declared.get("$defs")


def test_a_tool_of_our_own_gives_what_it_declares():
    assert arrives(PLAIN, OWN, "builtin") == PLAIN


def test_of_a_tool_that_declares_nothing_nothing_is_known():
    assert arrives({}, OWN, "alpha") == {}
