"""The answers of the gateway's tools: results of runs in an envelope, long values cut, pictures scaled.

Everything that a device or another program wrote stays a value inside JSON. In the text of an answer, hidden
characters are written as their JSON escapes: the same value, but visible.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from typing import Any

from mcp import types

from core.batch.models import RunState, RunSummary
from core.errors import ErrorInfo, QuarterdeckError
from core.next_steps import for_an_agent
from core.service.envelope import Envelope, envelope_error
from core.text import escape_hidden

_LEAST = 40
"""Characters of JSON below which a part is left out rather than shortened."""


def shortened(value: Any, room: int) -> tuple[Any, list[str]]:
    """A value whose JSON has some `room` characters, and what was left out of it, part by part."""
    left_out: list[str] = []
    return _fit(value, room, "the result", left_out), left_out


def _fit(value: Any, room: int, place: str, left_out: list[str]) -> Any:
    size = _size(value)
    if size <= room:
        return value
    match value:
        case str():
            left_out.append(f"{place}: {room:,} of {len(value):,} characters")
            return value[:room]
        case list():
            return _beginning(value, room, place, left_out)
        case dict():
            return _members(value, room, place, left_out)
    return value


def _beginning(value: list[Any], room: int, place: str, left_out: list[str]) -> list[Any]:
    kept: list[Any] = []
    for element in value:
        size = _size(element) + 1
        if size > room:
            if not kept and room >= _LEAST:
                kept.append(_fit(element, room - 1, f"{place}[0]", left_out))
            break
        kept.append(element)
        room -= size
    if len(kept) < len(value):
        left_out.append(f"{place}: {len(kept):,} of {len(value):,} elements")
    return kept


def _members(value: dict[str, Any], room: int, place: str, left_out: list[str]) -> dict[str, Any]:
    """The members, small ones whole; what they leave of the room is shared by the large ones."""
    sizes = {name: _size(member) + _size(name) + 2 for name, member in value.items()}
    kept: dict[str, Any] = {}
    left = len(sizes)
    for name in sorted(sizes, key=lambda name: sizes[name]):
        share = room // left
        left -= 1
        if sizes[name] > share and share < _LEAST + _size(name):
            left_out.append(f"{place}.{name}: all")
            continue
        kept[name] = _fit(value[name], share - _size(name) - 2, f"{place}.{name}", left_out)
        room -= min(sizes[name], share)
    return {name: kept[name] for name in value if name in kept}


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


MOST_CHARACTERS = 12_000
"""Characters of one result in an answer, and of one part of a long output."""
_MOST_LEFT_OUT = 20
LONGEST_EDGE = 1_280
"""Pixels of the longer edge of a picture that is sent to an agent."""
MOST_PIXELS = 64_000_000
Item = dict[str, Any]


def visible_json(value: Any) -> str:
    """Compact JSON of exactly this value, with every hidden character as its JSON escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    hidden = {ord(sign) for sign in set(text) if escape_hidden(sign, False) != sign}
    return text.translate({code: json.dumps(chr(code))[1:-1] for code in hidden - {0x7F}} | {0x7F: "\\u007f"})


def answer(
    value: Item, *, is_error: bool = False, pictures: Sequence[types.ImageContent] = ()
) -> types.CallToolResult:
    """A tool's answer: the same value as text and as structured content, then pictures."""
    text = types.TextContent(type="text", text=visible_json(value))
    return types.CallToolResult(content=[text, *pictures], structured_content=value, is_error=is_error)


def error_answer(error: QuarterdeckError) -> types.CallToolResult:
    """The answer of a call that was not carried out."""
    return answer({"error": error_item(error.info)}, is_error=True)


def error_item(error: ErrorInfo) -> Item:
    """An error in the envelope's form, with a next step that an agent can take."""
    return envelope_error(error).model_dump(mode="json") | {"next": for_an_agent(error.code, error.next)}


def run_item(run: RunSummary, envelopes: list[Envelope], ticket: str) -> Item:
    """The state of a run: the outcome of what has ended, what waits for an operator, and the next step."""
    item: Item = {
        "ticket": ticket,
        "state": run.state.value,
        "results": [_cut(envelope) for envelope in envelopes if envelope.verdict is not None],
        "waiting": [_cut(envelope) for envelope in envelopes if envelope.approval is not None],
        "next": next_step(run.state, ticket),
    }
    return item | ({"note": run.note} if run.note else {})


def run_failed(run: RunSummary) -> bool:
    """Whether a run has ended and not everything in it was done."""
    return run.state.ended and run.state is not RunState.DONE


def _cut(envelope: Envelope) -> Item:
    """An envelope as JSON, with a next step that an agent can take.

    A long result is cut to a value of the same shape, and `get_evidence` gives all of it as text.
    """
    item: Item = envelope.model_dump(mode="json")
    if envelope.error is not None:
        item["error"]["next"] = for_an_agent(envelope.error.code, envelope.error.next)
    text = result_text(envelope.result)
    if len(text) > MOST_CHARACTERS:
        value, left_out = shortened(envelope.result, MOST_CHARACTERS)
        item["result"] = {
            "cut": value,
            "left_out": left_out[:_MOST_LEFT_OUT],
            "characters": len(text),
            "whole": f"get_evidence with item {envelope.call_id}, as text in parts",
        }
    return item


def result_text(result: Any) -> str:
    """A result as the text of which `get_evidence` gives parts."""
    if isinstance(result, str):
        return result
    return "" if result is None else visible_json(result)


def next_step(state: RunState, ticket: str) -> str:
    """The agent's next step; empty if the run is over."""
    if state is RunState.WAITING:
        return f"An operator decides. Call wait_run again with the ticket {ticket}; do not ask again."
    if state is RunState.RUNNING:
        return f"Call wait_run again with the ticket {ticket}."
    if state is RunState.INTERRUPTED:
        return (
            "The service ended meanwhile. What was not sent is not done: ask for it again, with another "
            "request_id if you gave one."
        )
    if state is RunState.UNKNOWN:
        return "It is not known whether it was done. Look before you ask again, with another request_id."
    return ""


def picture(data: bytes, media_type: str) -> types.ImageContent | None:
    """A picture scaled down to `LONGEST_EDGE`; None if the bytes are no picture of a known form."""
    # Imported here: few agents ask for a picture.
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP", "GIF")) as image:
            if image.width * image.height > MOST_PIXELS:
                return None
            if max(image.size) > LONGEST_EDGE:
                image.thumbnail((LONGEST_EDGE, LONGEST_EDGE))
                scaled = io.BytesIO()
                image.convert("RGB").save(scaled, "JPEG", quality=80)
                data, media_type = scaled.getvalue(), "image/jpeg"
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
        return None
    return types.ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type=media_type)
