"""The tools `list_tools` and `get_mcp_tools`, which list the device's tools; agents use either name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from core.aip.messages import ToolInfo
from core.device.tool import OBSERVES, Tool, ToolCall, nullable, object_schema, text, yes_or_no

NAMES = ("list_tools", "get_mcp_tools")

_KIND = {
    "enum": ["data_collection", "action", None],
    "description": "Only tools of this type; null for both.",
    "default": None,
}
_WITHOUT_META = yes_or_no("Leave the listing tools themselves out.", default=True)

_INFO = object_schema(
    {
        "tool_key": text("Type and name."),
        "tool_name": text("Name to call it by."),
        "title": nullable(text("Name to show.")),
        "namespace": nullable(text("The tool server that serves it.")),
        "tool_type": {"enum": ["data_collection", "action"]},
        "description": nullable(text("What it does.")),
        "input_schema": nullable({"type": "object", "description": "JSON Schema of the arguments."}),
        "output_schema": nullable({"type": "object", "description": "JSON Schema of the result."}),
        "meta": nullable({"type": "object", "description": "The declared contract, under `quarterdeck`."}),
        "annotations": nullable({"type": "object", "description": "MCP's hints."}),
    }
)


def offer(tools: Callable[[], list[ToolInfo]]) -> list[Tool]:
    """Both listing tools; `tools` is called for the current tools at each call."""

    def listed(call: ToolCall, namespace_argument: str) -> list[dict[str, Any]]:
        namespace = call.arguments.get(namespace_argument)
        kind = call.arguments.get("tool_type")
        without_meta = call.arguments.get("remove_meta", True)
        return [
            info.model_dump()
            for info in tools()
            if (namespace is None or info.namespace == namespace)
            and (kind is None or info.tool_type == kind)
            and not (without_meta and info.tool_name in NAMES)
        ]

    async def list_tools(call: ToolCall) -> list[dict[str, Any]]:
        return listed(call, "namespace")

    async def get_mcp_tools(call: ToolCall) -> list[dict[str, Any]]:
        return listed(call, "server_name")

    def tool(name: str, title: str, argument: str, run: Any) -> Tool:
        server = nullable(text("Only tools of this tool server; null for all.", default=None))
        return Tool(
            name=name,
            title=title,
            tool_type="data_collection",
            description="List the tools that this device offers, with their schemas and contracts.",
            input_schema=object_schema(
                {argument: server, "tool_type": _KIND, "remove_meta": _WITHOUT_META}, required=()
            ),
            output_schema={"type": "array", "items": _INFO},
            contract=OBSERVES,
            run=run,
            meta_tool=True,
        )

    return [
        tool("list_tools", "List tools", "namespace", list_tools),
        tool("get_mcp_tools", "List MCP tools", "server_name", get_mcp_tools),
    ]
