"""The gateway over standard input and output, for an agent program that starts it as its MCP server."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from core.gateway.agent_session import AgentSession
from core.gateway.server import make_server
from core.home import Home


async def serve_stdio(home: Home, token: str) -> None:
    """Serve the agent with this token until its program closes standard input; its runs go on.

    Raises:
        Refused: it is not the token of an agent (code `agent_unknown`).
        ServiceError: the service cannot be reached.
    """
    session = AgentSession(home, token)
    # Before anything is served: a wrong token ends the program with an error that says so.
    await session.console()
    server = make_server(lambda context: session)
    try:
        async with stdio_server() as (read_stream, write_stream):
            await server.run(read_stream, write_stream, server.create_initialization_options())
    finally:
        await session.close()
