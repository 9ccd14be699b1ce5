"""Names of the tools of hosted MCP servers, for the device that assigns and the console that judges them.

A device lists a server's tool as `{prefix}_{tool}`. The prefix is the server's name in the configuration, in
which every character except letters, digits, `_` and `-` is replaced by `_`. It does not depend on which
other servers run or what they list. If the name could also be that of a built-in tool, or of a tool of
another configured server, it is `{prefix}.{tool}` instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

# After the prefix in a listed name: the number of a later server, the separator, the server's own tool name.
_AFTER_PREFIX = re.compile(r"(?:-\d+)?[_.](.+)")


def prefixes_of(servers: Iterable[str]) -> dict[str, str]:
    """The prefix of each configured server, in the order of the configuration.

    If names differ in replaced characters only, the later servers get a number: `my_files-2`.
    """
    names = list(servers)
    given: dict[str, str] = {}
    # A name without replaced characters is its own prefix, regardless of the order.
    reserved = {name for name in names if _plain(name) == name}
    for name in names:
        prefix, number = _plain(name), 2
        while prefix in given.values() or (prefix in reserved and prefix != name):
            prefix, number = f"{_plain(name)}-{number}", number + 1
        given[name] = prefix
    return given


def listed_name(prefix: str, tool: str, others: Iterable[str], taken: Collection[str]) -> str:
    """The name under which a device lists a server's tool.

    `others` are the prefixes of all configured servers, `taken` the names of built-in tools.
    """
    name = f"{prefix}_{tool}"
    foreign = any(
        len(other) > len(prefix) and name.startswith((f"{other}_", f"{other}.")) for other in others
    )
    return f"{prefix}.{tool}" if foreign or name in taken else name


def own_name(listed: str, namespace: str | None) -> str | None:
    """The name that the hosted server gave to a tool; None if the listed name lacks the server's prefix.

    `namespace` is the server's name, which the device lists with the tool.
    """
    if not namespace:
        return None
    prefix = _plain(namespace)
    found = _AFTER_PREFIX.fullmatch(listed, len(prefix)) if listed.startswith(prefix) else None
    return found[1] if found else None


def _plain(server: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", server)
