"""The peer to compare with: a bare websockets server that gives JSON back, as a process of its own."""

from __future__ import annotations

import asyncio
import json

from websockets.asyncio.server import ServerConnection, serve


async def _echo(connection: ServerConnection) -> None:
    async for frame in connection:
        await connection.send(json.dumps(json.loads(frame)))


async def main() -> None:
    async with serve(_echo, "127.0.0.1", 0, compression=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
