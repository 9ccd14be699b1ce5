"""Failures inside a payload that came with `success`: what a tool says of itself, where it says so soundly.

A stock device client reports `success` whenever the MCP call itself went through; that the command ended
with exit code 2 or was blocked stands only in the payload. Read as failures: a non-zero exit code,
`success: false`, MCP's `isError: true`, and an `error` that holds words; at the top, or one level down inside
`result` or `structuredContent`, which only wrap. Not read as failures: a text that begins with "Error" (a log
file does too), a `status` word (of whatever was looked at), and `ok: false` (may answer a question).
"""

from __future__ import annotations

from typing import Any

EXIT_CODES = ("exit_code", "exitCode", "returncode", "return_code")
WRAPPERS = ("result", "structuredContent")
# Where tools put their words, the most telling first.
_WORDS = ("error", "message", "reason", "stderr")
_MOST_WORDS = 300


def failure_in(payload: Any) -> str | None:
    """What the payload says went wrong, in one line; None where it says nothing of the kind."""
    if not isinstance(payload, dict):
        return None
    said = _failure_of(payload)
    if said is not None:
        return said
    for name in WRAPPERS:
        inner = payload.get(name)
        if isinstance(inner, dict) and (said := _failure_of(inner)) is not None:
            return said
    return None


def _failure_of(payload: dict[str, Any]) -> str | None:
    for name in EXIT_CODES:
        code = payload.get(name)
        if type(code) is int and code != 0:
            return f"Exit code {code}{_because(payload)}"
    if payload.get("success") is False:
        return f"The tool says it did not succeed{_because(payload)}"
    if payload.get("isError") is True:
        return f"The tool reports an error{_because(payload)}"
    # A tool that says it succeeded, or how it exited, means something else by `error`: warnings, a count.
    if payload.get("success") is True or any(name in payload for name in EXIT_CODES):
        return None
    return _words_of(payload.get("error")) or None


def _because(payload: dict[str, Any]) -> str:
    words = next((said for name in _WORDS if (said := _words_of(payload.get(name)))), "")
    words = words or _words_of(_first_text(payload.get("content")))
    return f": {words}" if words else "."


def _words_of(said: Any) -> str:
    """The first line of a text, or of the `message` of an error object."""
    if isinstance(said, dict):
        said = said.get("message")
    return said.strip().splitlines()[0][:_MOST_WORDS] if isinstance(said, str) and said.strip() else ""


def _first_text(content: Any) -> Any:
    """The text of the first block of an MCP result."""
    first = content[0] if isinstance(content, list) and content else None
    return first.get("text") if isinstance(first, dict) else None
