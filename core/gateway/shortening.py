"""Long results, shortened to a JSON value of the same shape that programs can read."""

from __future__ import annotations

import json
from typing import Any

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
