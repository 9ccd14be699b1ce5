"""The SDK's own server with one tool that does nothing: the peer of the gateway.

`python -m tests.bench.empty_mcp` serves it over standard input and output.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


def empty_server() -> Server[Any]:
    """The server, which each transport may run."""

    async def nothing(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text="")])

    async def listed(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="nothing", input_schema={"type": "object"})])

    return Server("empty", on_call_tool=nothing, on_list_tools=listed)


async def main() -> None:
    server = empty_server()
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
