"""Resolves host names and opens TCP connections to the first address that accepts.

A silent name server blocks a thread for half a minute. Names are looked up in a separate thread pool, so that
a hundred devices with unresolvable names do not exhaust the threads that the rest of the program needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any

MOST_LOOKUPS = 8
# The timeout for an address that is not the last: an unresponsive address must leave time for the next.
FOR_ONE_OF_SEVERAL_S = 2.0

# The pool starts its threads only on the first look-up.
_THREADS = ThreadPoolExecutor(MOST_LOOKUPS, "look up a name")

Address = tuple[Any, ...]
"""An address for `socket.connect`: host and port, and for IPv6 also flow and scope."""


async def addresses_of(host: str, port: int) -> list[tuple[int, Address]]:
    """A host's addresses, each with its address family, in the order in which to try them.

    Raises:
        OSError: no address is known (`socket.gaierror`), or the look-up failed.
        UnicodeError: the host is not a valid name.
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
    """Connect to a host, trying its addresses in order; the caller closes the socket.

    Raises:
        OSError: no address is known, or none accepts a connection (the error of the last address).
        UnicodeError: the host is not a valid name.
    """
    *others, last = await addresses_of(host, port)
    for family, address in others:
        with contextlib.suppress(OSError):
            async with asyncio.timeout(FOR_ONE_OF_SEVERAL_S):
                return await _connected(family, address)
    return await _connected(*last)


async def _connected(family: int, address: Address) -> socket.socket:
    # `IPPROTO_TCP` is explicit: otherwise asyncio does not set TCP_NODELAY, and small frames are delayed.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock
