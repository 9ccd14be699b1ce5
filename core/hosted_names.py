"""Names of the tools of hosted MCP servers, for the device that gives them and the console that judges them.

A device lists a tool of a server as `{prefix}_{tool}`; the prefix is the name in its configuration, with
every sign but letters, digits, `_` and `-` made a `_`. It depends on nothing else: not on which other servers
are up, nor on what they list. Where that name could be read as a built-in tool, or as a tool of another
configured server, it is `{prefix}.{tool}`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

# What follows the prefix in a listed name: the number of a later server, a joint, the server's own name.
_AFTER_PREFIX = re.compile(r"(?:-\d+)?[_.](.+)")


def prefixes_of(servers: Iterable[str]) -> dict[str, str]:
    """The prefix of each configured server, in the order of the configuration.

    Of servers whose names differ in replaced signs only, the later ones get a number: `my_files-2`.
    """
    names = list(servers)
    given: dict[str, str] = {}
    # A name that needs no sign replaced keeps it, wherever it stands.
    reserved = {name for name in names if _plain(name) == name}
    for name in names:
        prefix, number = _plain(name), 2
        while prefix in given.values() or (prefix in reserved and prefix != name):
            prefix, number = f"{_plain(name)}-{number}", number + 1
        given[name] = prefix
    return given


def listed_name(prefix: str, tool: str, others: Iterable[str], taken: Collection[str]) -> str:
    """The name under which a server's tool is listed.

    `others` are the prefixes of all configured servers, `taken` the names of built-in tools.
    """
    name = f"{prefix}_{tool}"
    foreign = any(
        len(other) > len(prefix) and name.startswith((f"{other}_", f"{other}.")) for other in others
    )
    return f"{prefix}.{tool}" if foreign or name in taken else name


def own_name(listed: str, namespace: str | None) -> str | None:
    """The name that a hosted server itself gave to a tool; None where a listed name is not made of one.

    `namespace` is the server's name, as the device lists it beside the tool.
    """
    if not namespace:
        return None
    prefix = _plain(namespace)
    found = _AFTER_PREFIX.fullmatch(listed, len(prefix)) if listed.startswith(prefix) else None
    return found[1] if found else None


def _plain(server: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", server)
