"""Which users of this computer own the two ends of a TCP connection: Linux says it in /proc/net/tcp.

A port of loopback belongs to the user who was there first. So a program looks at who listens there before it
sends a token, and a server can tell its own user's connections from another's.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from core.user import user_id

Place = tuple[str, int]
"""An IP address, an IPv4 one written as such also where IPv6 carries it, and a port."""

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
_ALL_USERS = ["0", "0", "4294967295"]


@dataclass(frozen=True, slots=True)
class _Row:
    """One socket. `accepted` is False for a connection that its server's program has not taken yet."""

    local: Place
    remote: Place
    listens: bool
    uid: int
    accepted: bool


def stranger_at(sock: socket.socket) -> int | None:
    """The user at the other end of a connection to this computer, if it is neither this user nor root.

    None also where the system does not tell. The answer is that of the connection itself once its server has
    taken it; until then the connection waits at the socket that listens, whose user it is.
    """
    if (own := user_id()) is None:
        return None
    here, there = _place(sock.getsockname()), _place(sock.getpeername())
    listeners: dict[str, int] = {}
    owner = None
    for row in _rows(there[1]):
        if row.accepted and (row.local, row.remote) == (there, here):
            owner = row.uid
        elif row.listens and row.local[1] == there[1]:
            listeners[row.local[0]] = row.uid
    if owner is None:
        # The kernel prefers the socket with the very address, then any IPv4 one, then any at all.
        addresses = [address for address in (there[0], "0.0.0.0", "::") if address in listeners]
        owner = listeners[addresses[0]] if addresses else None
    return None if owner in {None, 0, own} else owner


def users_of(port: int) -> dict[Place, int]:
    """The users of the clients of a port of this computer, by the clients' addresses, as far as known."""
    return {row.local: row.uid for row in _rows(port) if row.remote[1] == port and row.accepted}


def _place(address: object) -> Place:
    assert isinstance(address, tuple)
    return _plain(ip_address(str(address[0]).partition("%")[0])), int(address[1])


def _plain(address: IPv4Address | IPv6Address) -> str:
    carried = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(carried or address)


def _rows(port: int) -> Iterator[_Row]:
    """The TCP sockets with this port at either end; none where the system does not tell their users."""
    if not _users_are_real():
        return
    for table in _TABLES:
        try:
            lines = table.read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            # Of thousands of lines only a few are wanted.
            if f":{port:04X} " not in line:
                continue
            parts = line.split()
            yield _Row(_read(parts[1]), _read(parts[2]), parts[3] == _LISTENS, int(parts[7]), parts[9] != "0")


def _users_are_real() -> bool:
    """Whether this process sees users by their numbers: on Linux, and not through a user namespace."""
    try:
        return Path("/proc/self/uid_map").read_text("ascii").split() == _ALL_USERS
    except OSError:
        return False


def _read(text: str) -> Place:
    """An address as the kernel writes it: 32-bit words in the machine's byte order, then the port."""
    words, _, port = text.partition(":")
    data = b"".join(int(words[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(words), 8))
    return _plain(ip_address(data)), int(port, 16)
