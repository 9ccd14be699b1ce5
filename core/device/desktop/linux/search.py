"""Finds what a picture must not show, and what has the focus: a quick look at what is on the screen only."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from core.device.desktop.linux.bus import AccessibilityBus, Gone, NotSupported, Ref, Silent
from core.device.desktop.linux.walk import Program, Reader
from core.device.desktop.linux.words import ACCESSIBLE, COMPONENT, PASSWORD_TEXT, role_word, state_words
from core.device.desktop.model import Box

_NODES = 4_000
_SECONDS = 1.5
# Lists and tables whose rows are drawn, not made of controls: thousands of them, and none takes a password.
_DRAWN = "manages descendants"
_LEAVES = ("label", "push button", "check box", "radio button", "menu item", "image", "separator", "icon")


@dataclass(slots=True)
class Found:
    """What a search came across."""

    passwords: list[Ref] = field(default_factory=list)
    focused: list[tuple[Ref, Program]] = field(default_factory=list)
    not_searched: list[str] = field(default_factory=list)


async def search(bus: AccessibilityBus, programs: list[Program]) -> Found:
    """Look through what programs show now. Within two seconds, whatever they do."""
    found = Found()
    until = time.monotonic() + _SECONDS
    await asyncio.gather(*(_search_one(bus, program, found, until) for program in programs))
    return found


async def _search_one(bus: AccessibilityBus, program: Program, found: Found, until: float) -> None:
    reader = Reader(bus)
    level, seen, is_whole = [program.ref], 0, True
    try:
        while level:
            seen += len(level)
            if seen > _NODES or time.monotonic() > until:
                is_whole = False
                break
            looks = (_look(bus, reader, ref, program, found) for ref in level)
            below = await asyncio.gather(*looks, return_exceptions=True)
            level = []
            for one in below:
                if isinstance(one, tuple):
                    level.extend(one[0])
                    is_whole = is_whole and one[1]
                elif not isinstance(one, Gone | NotSupported):
                    raise one
    except Silent:
        is_whole = False
    if not is_whole:
        found.not_searched.append(program.process_name or f"process {program.process_id}")


async def _look(
    bus: AccessibilityBus, reader: Reader, ref: Ref, program: Program, found: Found
) -> tuple[list[Ref], bool]:
    """The children worth a look, and whether those are all."""
    is_program = ref == program.ref
    (number,), (bits,) = await asyncio.gather(
        bus.call(ref, ACCESSIBLE, "GetRole"), bus.call(ref, ACCESSIBLE, "GetState")
    )
    role, states = role_word(int(number)), state_words(list(bits))
    if not is_program and "showing" not in states:
        return [], True
    if "focused" in states:
        found.focused.append((ref, program))
    if role == PASSWORD_TEXT:
        found.passwords.append(ref)
        return [], True
    if role in _LEAVES or _DRAWN in states:
        return [], True
    count = int(await bus.get(ref, ACCESSIBLE, "ChildCount"))
    children = await reader.children(ref, count)
    return children, count <= len(children)


async def box_of(bus: AccessibilityBus, ref: Ref) -> Box | None:
    """Where a control is now; None for one that is gone, hangs, or has no place."""
    try:
        (extents,) = await bus.call(ref, COMPONENT, "GetExtents", "u", (0,))
    except (Gone, NotSupported, Silent):
        return None
    x, y, width, height = (int(one) for one in extents)
    return Box(x, y, width, height) if width > 0 and height > 0 else None
