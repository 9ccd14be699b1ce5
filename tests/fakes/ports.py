"""Ports of loopback for tests that run beside others: none is given to two of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager


def _ports() -> Iterator[int]:
    """Ports below those that systems hand out by themselves, each process beginning elsewhere."""
    lowest, count = 20_000, 12_000
    for number in itertools.count(os.getpid() * 101):
        yield lowest + number % count


_PORTS = _ports()


def free_port() -> int:
    """A port of loopback that is free, and that nobody gets who asks for any.

    A port that the system chose could be given to the next one who connects or listens before it is used.
    """
    for port in _PORTS:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("Ports have no end")


@contextmanager
def closed_port() -> Iterator[int]:
    """A port of loopback at which nothing listens, and that nobody else gets meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
