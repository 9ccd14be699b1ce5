"""Addresses to listen at, `host:port`."""

from __future__ import annotations

import re

from core.errors import BadInput


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port` or `[host]:port`; port 0 means any free port.

    Raises:
        BadInput: the address is malformed; names the expected form.
    """
    host, colon, port = address.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise BadInput(
            f"{address!r} is not an address to listen at; write HOST:PORT, such as 127.0.0.1:5000."
        )
    if not re.fullmatch(r"[A-Za-z0-9._:%-]+", host):
        raise BadInput(f"{host!r} is not the name or the number of a host.")
    return host, int(port)
