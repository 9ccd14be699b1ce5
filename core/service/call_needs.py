"""What a call of a tool needs: arguments that its schema requires, and choices of which it needs one.

Many tools require nothing in their schema and still need something: a click needs a control, by its id or by
its name. What the built-in tools need is in their table; of others, the schema's `anyOf` and `oneOf` tell,
and the sentences of their descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from core.models.tools import Tool
from core.policy.analysis.built_in_tools import BUILT_IN_TOOLS

_ONE_OF = re.compile(r"\b(?:one of|either|at least one)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.;!?])\s+|\n")
_IDENTIFIER = re.compile(r"\w+")
_MOST_TEXT = 2_000


def needs_of(tool: Tool) -> list[tuple[str, ...]]:
    """The needs of every call: of each, at least one argument must be given."""
    required = tool.input_schema.get("required")
    single = [(name,) for name in required if isinstance(name, str)] if isinstance(required, list) else []
    if tool.contract.built_in and tool.tool_name in BUILT_IN_TOOLS:
        return [*single, *BUILT_IN_TOOLS[tool.tool_name].one_of]
    return [*single, *_in_schema(tool.input_schema), *_in_prose(tool)]


def lacking(tool: Tool, arguments: Collection[str]) -> list[tuple[str, ...]]:
    """The needs that these arguments do not meet."""
    return [need for need in needs_of(tool) if not any(name in arguments for name in need)]


def need_words(need: tuple[str, ...]) -> str:
    """A need as a reader is told of it: `process_name or pid`."""
    return " or ".join(need)


def _in_schema(schema: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The names of which a choice between required arguments wants one."""
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if not isinstance(branches, list) or not branches:
            continue
        names = [branch.get("required") if isinstance(branch, dict) else None for branch in branches]
        if all(isinstance(some, list) and some for some in names):
            yield tuple(dict.fromkeys(str(name) for some in names for name in some or ()))


def _in_prose(tool: Tool) -> Iterator[tuple[str, ...]]:
    """The names of which a sentence of the description wants one, as "give one of path and url"."""
    properties = tool.input_schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    texts: list[Any] = [tool.description]
    texts += [
        part["description"] for part in known.values() if isinstance(part, dict) and "description" in part
    ]
    for text in dict.fromkeys(text[:_MOST_TEXT] for text in texts if isinstance(text, str)):
        for sentence in _SENTENCE.split(text):
            said = _ONE_OF.search(sentence)
            named = _IDENTIFIER.findall(sentence[said.end() :]) if said else []
            names = tuple(dict.fromkeys(word for word in named if word in known))
            if len(names) > 1:
                yield names
