"""An MCP server for a stock UFO client, run by that client's own Python: tools with awkward ways to answer.

Start it with the port to listen on, on loopback.
"""

import sys
import time

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from mcp.types import CallToolRequest, CallToolResult, ServerResult

mcp = FastMCP("Awkward tools")


@mcp.tool()
def no_rows() -> list[str]:
    """Answer with an empty list."""
    return []


@mcp.tool()
def nothing_left() -> int:
    """Answer with zero."""
    return 0


@mcp.tool()
def switched_on() -> bool:
    """Answer with false."""
    return False


@mcp.tool()
def breaks() -> str:
    """Fail in the way that MCP has for it."""
    raise ToolError("the arm is stuck")


@mcp.tool()
def nap(seconds: float) -> str:
    """Take so many seconds."""
    time.sleep(seconds)
    return "rested"


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool()
def fails_without_a_word() -> str:
    """Fail with no content at all: the client has no words to send, and so sends nothing."""
    return "never called"


_HANDLERS = mcp._mcp_server.request_handlers
_CALL = _HANDLERS[CallToolRequest]


async def _call(request: CallToolRequest) -> ServerResult:
    if request.params.name == "fails_without_a_word":
        return ServerResult(CallToolResult(content=[], isError=True))
    return await _CALL(request)


_HANDLERS[CallToolRequest] = _call

if __name__ == "__main__":
    mcp.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
