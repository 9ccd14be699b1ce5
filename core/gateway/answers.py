"""The answers of the gateway's tools: outcomes of commands in few words, long values cut, pictures scaled.

An agent pays for each word of an answer. What is the same on several devices is said once, and what an agent
can do nothing with is left out; the resource of a run has the envelopes in full. Everything that a device or
another program wrote stays a value inside JSON. In the text of an answer, hidden characters are written as
their JSON escapes: the same value, but visible. A value that is cut keeps its shape, so that programs can
read it.
"""

from __future__ import annotations

import base64
import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from mcp import types

from core.batch.models import RunState, RunSummary
from core.commands.results import Verdict
from core.errors import ErrorInfo, QuarterdeckError
from core.models.tool_names import READ_SHELL
from core.models.tools import BUILT_IN_NAMESPACE
from core.next_steps import for_an_agent
from core.service.envelope import Envelope, EnvelopeError, envelope_error
from core.text import escape_hidden

_LEAST = 40
"""Characters of JSON below which a part is left out rather than shortened."""


def shortened(value: Any, room: int) -> tuple[Any, list[str]]:
    """A value whose JSON has some `room` characters, and what was left out of it, part by part."""
    left_out: list[str] = []
    return _fit(value, room, "result", left_out), left_out


def _fit(value: Any, room: int, place: str, left_out: list[str]) -> Any:
    size = _size(value)
    if size <= room:
        return value
    match value:
        case str():
            left_out.append(f"{place}: the first {room:,} of {len(value):,} characters")
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
        left_out.append(f"{place}: the first {len(kept):,} of {len(value):,} elements")
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


SCHEME = "quarterdeck://"
"""The scheme of the gateway's resources."""
MOST_CHARACTERS = 12_000
"""Characters of one result in an answer, and of one part of a long output."""
MOST_OF_ALL = 40_000
"""Characters of all results in an answer, if each has more than the least."""
_LEAST_OF_ONE = 400
_MOST_LEFT_OUT = 20
LONGEST_EDGE = 1_280
"""Pixels of the longer edge of a picture that is sent to an agent."""
MOST_PIXELS = 64_000_000
# `hidden` are the private places of the machine, whatever the line; `not_seen` has those that the line needs.
_SAID_BY_DESCRIPTION = {READ_SHELL: ("hidden",)}
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
    """An error of a call that was not carried out."""
    return _without_empty(_error_item(envelope_error(error)))


def run_item(run: RunSummary, envelopes: list[Envelope], ticket: str) -> Item:
    """The state of a run: the outcome of what has ended, what waits for an operator, and the next step."""
    numbered = _numbered(envelopes)
    room = room_of_each(sum(envelope.verdict is not None for envelope in envelopes))
    item: Item = {
        "ticket": ticket,
        "state": run.state.value,
        "results": _grouped(
            (envelope.device, number | _outcome(envelope, ticket, room))
            for number, envelope in numbered
            if envelope.verdict is not None
        ),
    }
    waiting = _grouped(
        (envelope.device, number | _waiting(envelope))
        for number, envelope in numbered
        if envelope.approval is not None
    )
    step = next_step(run.state, ticket)
    return (
        item
        | ({"waiting": waiting} if waiting else {})
        | ({"next": step} if step else {})
        | ({"note": run.note} if run.note else {})
    )


def whole_run_item(run: RunSummary, envelopes: list[Envelope], ticket: str) -> Item:
    """The state of a run with the envelope of each command; long results are cut there, too."""
    room = room_of_each(len(envelopes))
    return {
        "ticket": ticket,
        "state": run.state.value,
        "results": [_whole_envelope(envelope, ticket, room) for envelope in envelopes],
        "note": run.note,
    }


def run_failed(run: RunSummary) -> bool:
    """Whether a run has ended and not everything in it was done."""
    return run.state.ended and run.state is not RunState.DONE


def room_of_each(results: int) -> int:
    """The characters that each of so many results has in an answer."""
    return max(_LEAST_OF_ONE, min(MOST_CHARACTERS, MOST_OF_ALL // max(results, 1)))


def result_uri(ticket: str, call_id: str) -> str:
    """The resource that has all of a command's result."""
    return f"{SCHEME}result/{ticket}/{call_id}"


def _numbered(envelopes: list[Envelope]) -> list[tuple[Item, Envelope]]:
    """Each envelope with the number of its command on its device, if the devices have several commands."""
    seen: Counter[str] = Counter()
    numbered: list[tuple[Item, Envelope]] = []
    for envelope in envelopes:
        seen[envelope.device] += 1
        numbered.append(({"step": seen[envelope.device]}, envelope))
    has_several = max(seen.values(), default=0) > 1
    return [(number if has_several else {}, envelope) for number, envelope in numbered]


def _grouped(items: Iterable[tuple[str, Item]]) -> list[Item]:
    """Each item once, with the devices of which it is true, and their number if there are several."""
    groups: dict[str, tuple[list[str], Item]] = {}
    for device, item in items:
        devices, _ = groups.setdefault(visible_json(item), ([], item))
        devices.append(device)
    return [
        ({"count": len(devices)} if len(devices) > 1 else {}) | {"devices": devices} | item
        for devices, item in groups.values()
    ]


def _waiting(envelope: Envelope) -> Item:
    return {"tool_name": envelope.tool_name} | ({"note": envelope.note} if envelope.note else {})


def _outcome(envelope: Envelope, ticket: str, room: int) -> Item:
    """The outcome of a command in the envelope's words, without what is empty or follows from the verdict.

    `evidence` is the number of pictures and files that `get_evidence` lists.
    """
    item: Item = {"tool_name": envelope.tool_name, "verdict": envelope.verdict}
    if envelope.verdict not in (Verdict.CONFIRMED, Verdict.REFUSED):
        item["basis"] = envelope.basis
    if envelope.error is not None:
        item["error"] = _without_empty(_error_item(envelope.error))
    if envelope.result is not None:
        item |= _result(envelope, ticket, room, _said_once(envelope))
    item |= {"note": envelope.note} if envelope.note else {}
    return item | ({"evidence": len(envelope.evidence)} if envelope.evidence else {})


def _said_once(envelope: Envelope) -> Any:
    """The result without what is the same in each of the tool's results and stands in its description."""
    result = envelope.result
    if envelope.namespace != BUILT_IN_NAMESPACE or not isinstance(result, dict):
        return result
    left_out = _SAID_BY_DESCRIPTION.get(envelope.tool_name, ())
    return {name: value for name, value in result.items() if name not in left_out}


def _whole_envelope(envelope: Envelope, ticket: str, room: int) -> Item:
    item: Item = envelope.model_dump(mode="json")
    if envelope.error is not None:
        item["error"] = _error_item(envelope.error)
    return item | _result(envelope, ticket, room, envelope.result)


def _error_item(error: EnvelopeError) -> Item:
    """An error in the envelope's form, with a next step that an agent can take."""
    return error.model_dump(mode="json") | {"next": for_an_agent(error.code, error.next)}


def _without_empty(error: Item) -> Item:
    return {name: value for name, value in error.items() if value not in ("", [])}


def _result(envelope: Envelope, ticket: str, room: int, result: Any) -> Item:
    """A result; a long one is cut to a value of the same shape, beside what is left out and where all is."""
    size = len(result_text(result))
    if size <= room or envelope.call_id is None:
        return {"result": result}
    value, left_out = shortened(result, room)
    return {
        "result": value,
        "left_out": left_out[:_MOST_LEFT_OUT],
        "whole": {
            "resource": result_uri(ticket, envelope.call_id),
            "get_evidence_item": envelope.call_id,
            "characters": size,
        },
    }


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
