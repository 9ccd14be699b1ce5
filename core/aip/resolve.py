"""Resolves host names and opens TCP connections to the address that accepts first.

A silent name server blocks a thread for half a minute. Names are looked up in a separate thread pool, so that
a hundred devices with unresolvable names do not exhaust the threads that the rest of the program needs.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any

from core.tasks import TaskGroupOwner

MOST_LOOKUPS = 8
# The "connection attempt delay" of RFC 8305.
NEXT_ADDRESS_AFTER_S = 0.25

# The pool starts its threads only on the first look-up.
_THREADS = ThreadPoolExecutor(MOST_LOOKUPS, "look up a name")

Address = tuple[Any, ...]
"""An address for `socket.connect`: host and port, and for IPv6 also flow and scope."""


async def addresses_of(host: str, port: int) -> list[tuple[int, Address]]:
    """A host's addresses, each with its address family, in the order in which to try them.

    The families take turns, so that one that leads nowhere does not delay the other.

    Raises:
        OSError: no address is known (`socket.gaierror`), or the look-up failed.
        UnicodeError: the host is not a valid name.
    """
    if _is_number(host):
        return _look_up(host, port)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, _look_up, host, port)


def _look_up(host: str, port: int) -> list[tuple[int, Address]]:
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    found = dict.fromkeys((int(family), address) for family, _, _, _, address in rows)
    turns: Counter[int] = Counter()
    # Stable: within a turn, the family stays first that the system prefers.
    order = {}
    for one in found:
        order[one] = turns[one[0]]
        turns[one[0]] += 1
    return sorted(found, key=order.__getitem__)


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def first_connection(addresses: Sequence[tuple[int, Address]]) -> socket.socket:
    """Connect to the first of these addresses that accepts; the caller closes the socket.

    As in RFC 8305, the next address is tried beside the earlier ones `NEXT_ADDRESS_AFTER_S` later, or as soon
    as one of them fails, so that an address that does not answer delays the others by a moment only.

    Raises:
        OSError: none accepts a connection (the error of the last that failed).
    """
    tasks = TaskGroupOwner("connect")
    attempts: set[asyncio.Task[socket.socket | OSError]] = set()
    failure = OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
    waiting = list(addresses)
    accepted: socket.socket | None = None
    try:
        while accepted is None and (waiting or attempts):
            if waiting:
                family, address = waiting.pop(0)
                attempts.add(tasks.spawn(str(address[0]), _attempt(family, address)))
            patience = NEXT_ADDRESS_AFTER_S if waiting else None
            await asyncio.wait(attempts, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for attempt in [attempt for attempt in attempts if attempt.done()]:
                result = attempt.result()
                if isinstance(result, OSError):
                    attempts.discard(attempt)
                    failure = result
                elif accepted is None:
                    attempts.discard(attempt)
                    accepted = result
        if accepted is None:
            raise failure
        return accepted
    finally:
        await tasks.close()
        # Those that connected in the same moment.
        for attempt in attempts:
            if not attempt.cancelled() and isinstance(result := attempt.result(), socket.socket):
                result.close()


async def _attempt(family: int, address: Address) -> socket.socket | OSError:
    try:
        return await _connected(family, address)
    except OSError as error:
        return error


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
