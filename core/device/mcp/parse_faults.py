"""Says in words why a server's answer cannot be parsed."""

from __future__ import annotations

from pydantic_core import from_json

from core.json_walk import MOST_DIGITS

# Of the parser behind pydantic; both limits are fixed.
_DEEPEST = 200
_TOO_DEEP, _TOO_LONG = "recursion limit exceeded", "number out of range"


def fault_of(data: bytes) -> str:
    """Why a line or body is not a message of MCP, as the end of a sentence about the server's answer."""
    try:
        from_json(data)
    except ValueError as error:
        return fault_in(str(error)) or "is not JSON"
    return "is not a message of MCP"


def fault_in(parser_message: str) -> str | None:
    """The limit that an answer exceeds, found in the parser's own message; None for any other fault."""
    if _TOO_DEEP in parser_message:
        return f"is nested deeper than {_DEEPEST} levels"
    if _TOO_LONG in parser_message:
        return f"has a number of more than {MOST_DIGITS:,} digits"
    return None
