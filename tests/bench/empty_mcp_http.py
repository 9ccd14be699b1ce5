"""The SDK's own empty server over streamable HTTP, until its standard input ends; prints its URL."""

from __future__ import annotations

import asyncio
import socket
import sys

import uvicorn

from tests.bench.empty_mcp import empty_server
from tests.bench.lines import input_lines
from tests.fakes.swarm import tell


async def main() -> None:
    # With the protocol named, asyncio sets TCP_NODELAY, as for the gateway's own socket.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as sock:
        sock.bind(("127.0.0.1", 0))
        # Listens before it says where: a client may come before uvicorn does.
        sock.listen()
        config = uvicorn.Config(
            empty_server().streamable_http_app(), log_config=None, ws="none", access_log=False
        )
        server = uvicorn.Server(config)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(server.serve(sockets=[sock]))
            tell("listening", url=f"http://127.0.0.1:{sock.getsockname()[1]}/mcp")
            async for _ in input_lines(sys.stdin):
                pass
            server.should_exit = True


if __name__ == "__main__":
    asyncio.run(main())
