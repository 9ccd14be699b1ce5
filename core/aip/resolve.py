"""The way to a far host: its addresses, then a connection to the first of them that takes one.

A name server that is silent keeps a thread for half a minute. Names are looked up in threads of their own, so
that a hundred devices whose names cannot be found do not take those that everything else needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any

MOST_LOOKUPS = 8
# An address that swallows connections must not use up the time that the next one needs.
FOR_ONE_OF_SEVERAL_S = 2.0

# Threads begin when they are needed, and only then.
_THREADS = ThreadPoolExecutor(MOST_LOOKUPS, "look up a name")

Address = tuple[Any, ...]
"""What `socket.connect` takes: host, port, and for IPv6 flow and scope."""


async def addresses_of(host: str, port: int) -> list[tuple[int, Address]]:
    """A host's addresses, each with its family, in the order in which they should be tried.

    Raises:
        OSError: no address is known (`socket.gaierror`), or none can be asked for.
        UnicodeError: the name is none.
    """
    if _is_number(host):
        return _look_up(host, port)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, _look_up, host, port)


def _look_up(host: str, port: int) -> list[tuple[int, Address]]:
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in rows))


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def tcp_connection(host: str, port: int) -> socket.socket:
    """Connect to a host, one of its addresses after the other; the caller closes the socket.

    Raises:
        OSError: no address is known, or none takes a connection: what the last one said.
        UnicodeError: the name is none.
    """
    found = await addresses_of(host, port)
    for family, address in found[:-1]:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(FOR_ONE_OF_SEVERAL_S):
                return await _connected(family, address)
    family, address = found[-1]
    return await _connected(family, address)


async def _connected(family: int, address: Address) -> socket.socket:
    # Named, for else asyncio would not know that this is TCP, and have small frames wait for others.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
