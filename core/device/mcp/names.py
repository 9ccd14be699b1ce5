"""What the tools of all servers are called, since a console knows a tool of a device by its name alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

_RESERVED_PREFIX = "quarterdeck."


def assign_names(taken: Iterable[str], servers: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], str]:
    """The offered name of each (server, tool).

    A tool keeps its own name where nobody else has it. A name that a built-in tool has, or that several
    servers have, is prefixed with the server's: `{server}_{tool}`, for every one of them, so that no name
    passes from one server to another, whichever starts first. Where that is taken too, a number follows.
    """
    builtin = set(taken)
    wanted = Counter(tool for tools in servers.values() for tool in set(tools))
    given: dict[tuple[str, str], str] = {}
    used = set(builtin)
    clashing: list[tuple[str, str]] = []
    for server, tools in servers.items():
        for tool in dict.fromkeys(tools):
            if tool in builtin or wanted[tool] > 1 or tool.startswith(_RESERVED_PREFIX):
                clashing.append((server, tool))
            else:
                given[server, tool] = tool
                used.add(tool)
    for server, tool in clashing:
        base = prefixed(server, tool)
        name, number = base, 2
        while name in used:
            name, number = f"{base}_{number}", number + 1
        given[server, tool] = name
        used.add(name)
    return given


def prefixed(server: str, tool: str) -> str:
    """A tool's name with its server's before it."""
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '_', server)}_{tool}"
