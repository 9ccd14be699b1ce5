"""Failures inside a payload that came with `success`: the one place that knows what failure looks like.

A device client reports `success` whenever the MCP call itself went through; that the command ended with exit
code 2 or was blocked stands only in the payload. Read as failures: a non-zero exit code, `success: false`,
MCP's `isError: true`, and an `error` that holds words. They are looked for at the top and in what only wraps
the tool's own answer, whichever client sent it:

| place | sent by |
|---|---|
| `structured` | our own hosting of MCP servers (`core.device.mcp.results`) |
| `structuredContent` | stock clients that pass MCP's answer on as it is |
| `result` | stock tools, and MCP's SDK, which wraps in it what is no object |
| the one text block in `content` that is a JSON object | either, where there is no structured part |
| a text that is a JSON object, in place of the others | tools that write their JSON themselves |

Not read as failures: a text that begins with "Error" (a log file does too), a `status` word (of whatever was
looked at), `ok: false` (may answer a question), and members of a list (things that were looked at).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

EXIT_CODES = ("exit_code", "exitCode", "returncode", "return_code", "returnCode", "exit_status", "exitStatus")
STRUCTURED = ("structured", "structuredContent")
WRAPPERS = (*STRUCTURED, "result")
# Where tools put their words, the most telling first.
_WORDS = ("error", "message", "reason", "stderr")
_MOST_WORDS = 300
# Parsing this much takes some milliseconds on the loop; a tool that says that it failed is shorter.
_MOST_TEXT = 1024 * 1024
_MOST_BLOCKS = 100
# {"structured": {"result": {"error": …}}} is two levels down; nothing real is deeper than three.
_DEEPEST = 4
# Most texts are no report of a failure, and are not parsed to learn that.
_MAY_FAIL = re.compile(rf'"(?:success|isError|error|{"|".join(EXIT_CODES)})"')


def failure_in(payload: Any) -> str | None:
    """What the payload says went wrong, in one line; None where it says nothing of the kind.

    `payload` is the value as the device sent it: a failure must not be lost because something in it was
    redacted or stored apart. The line may hold secrets.
    """
    return next(
        (failure for part in _answers(payload, 0) if (failure := _failure_of(part)) is not None), None
    )


def _answers(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """The objects that may be the tool's own answer: the value, then what it wraps."""
    if isinstance(value, str):
        value = _object_in(value)
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    yield value
    for name in WRAPPERS:
        yield from _answers(value.get(name), depth + 1)
    if not any(value.get(name) for name in STRUCTURED):
        objects = [text for text in _texts(value.get("content")) if _looks_like_object(text)]
        # Several are a list of things that were looked at.
        if len(objects) == 1:
            yield from _answers(objects[0], depth + 1)


def _looks_like_object(text: str) -> bool:
    return text.lstrip().startswith("{")


def _object_in(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, where it may say that something failed."""
    if len(text) > _MOST_TEXT or not _looks_like_object(text) or not _MAY_FAIL.search(text):
        return None
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _failure_of(payload: dict[str, Any]) -> str | None:
    for name in EXIT_CODES:
        code = payload.get(name)
        if isinstance(code, (int, float)) and not isinstance(code, bool) and code != 0:
            number = int(code) if isinstance(code, float) and code.is_integer() else code
            return f"Exit code {number}{_because(payload)}"
    if payload.get("success") is False:
        return f"The tool says it did not succeed{_because(payload)}"
    if payload.get("isError") is True:
        return f"The tool reports an error{_because(payload)}"
    # A tool that says it succeeded, or how it exited, means something else by `error`: warnings, a count.
    if payload.get("success") is True or any(name in payload for name in EXIT_CODES):
        return None
    return _words_of(payload.get("error")) or None


def _because(payload: dict[str, Any]) -> str:
    words = next((words for name in _WORDS if (words := _words_of(payload.get(name)))), "")
    words = words or _words_of(next(_texts(payload.get("content")), None))
    return f": {words}" if words else "."


def _words_of(value: Any) -> str:
    """The first line of a text, or of the `message` of an error object."""
    if isinstance(value, dict):
        value = value.get("message")
    return value.strip().splitlines()[0][:_MOST_WORDS] if isinstance(value, str) and value.strip() else ""


def _texts(content: Any) -> Iterator[str]:
    """The texts among the blocks of an MCP result."""
    for block in content[:_MOST_BLOCKS] if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            yield block["text"]
