"""Finds what a picture must not show, and what has the focus: a quick look at what is on the screen only."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from core.device.desktop.linux.bus import AccessibilityBus, Gone, NotSupported, Ref, Silent
from core.device.desktop.linux.walk import Program, Reader
from core.device.desktop.linux.words import (
    ACCESSIBLE,
    COLLECTION,
    PASSWORD_TEXT,
    ROLES,
    STATES,
    role_word,
    state_words,
)
from core.device.desktop.secrecy import Secrecy

_NODES = 4_000
_SECONDS = 1.5
# Lists and tables whose rows are drawn, not made of controls: thousands of them, and none takes a password.
_DRAWN = "manages descendants"
_LEAVES = ("label", "push button", "check box", "radio button", "menu item", "image", "separator", "icon")


# A web page may have a hundred thousand controls. Its program looks through them itself, in one call.
_PAGE = "document web"
_MATCHES = 100
_RULE, _ALL, _ANY, _IN_ORDER = "(aiia{ss}iaiiasib)uib", 1, 2, 1


@dataclass(slots=True)
class Found:
    """What a search came across."""

    passwords: list[Ref] = field(default_factory=list)
    focused: list[tuple[Ref, Program]] = field(default_factory=list)
    not_searched: list[Program] = field(default_factory=list)


async def search(bus: AccessibilityBus, programs: list[Program], secrecy: Secrecy) -> Found:
    """Look through what programs show now, and remember their passwords' fields. Within two seconds."""
    found = Found()
    until = time.monotonic() + _SECONDS
    await asyncio.gather(*(_search_one(bus, Reader(bus, secrecy), one, found, until) for one in programs))
    for ref in found.passwords:
        secrecy.saw_password(bus.id_of(ref))
    return found


async def _search_one(
    bus: AccessibilityBus, reader: Reader, program: Program, found: Found, until: float
) -> None:
    level, is_whole = [program.ref], True
    seen = set(level)
    try:
        # GTK 4 tells of nothing below its windows whether it is showing.
        tells_showing = not (await bus.toolkit(program.ref)).is_gtk(4)
        while level:
            if len(seen) > _NODES or time.monotonic() > until:
                is_whole = False
                break
            looks = (_look(bus, reader, ref, program, found, tells_showing) for ref in level)
            below = await asyncio.gather(*looks, return_exceptions=True)
            level = []
            for one in below:
                if isinstance(one, tuple):
                    level.extend(one[0])
                    is_whole = is_whole and one[1]
                elif not isinstance(one, Gone | NotSupported):
                    raise one
            level = [ref for ref in dict.fromkeys(level) if ref not in seen]
            seen.update(level)
    except Silent:
        is_whole = False
    except Gone:
        return
    if not is_whole:
        found.not_searched.append(program)


async def _look(
    bus: AccessibilityBus, reader: Reader, ref: Ref, program: Program, found: Found, tells_showing: bool
) -> tuple[list[Ref], bool]:
    """The children worth a look, and whether those are all."""
    is_program = ref == program.ref
    (number,), (bits,) = await asyncio.gather(
        bus.call(ref, ACCESSIBLE, "GetRole"), bus.call(ref, ACCESSIBLE, "GetState")
    )
    role, states = role_word(int(number)), state_words(list(bits))
    # A web page is another program's. What holds it has no states, and not all around it says that it shows.
    is_own = ref.bus == program.ref.bus and bool(states)
    if not is_program and is_own and ("showing" if tells_showing else "visible") not in states:
        return [], True
    if "focused" in states:
        found.focused.append((ref, program))
    if role == PASSWORD_TEXT:
        found.passwords.append(ref)
        return [], True
    if role in _LEAVES or _DRAWN in states:
        return [], True
    if role == _PAGE and await _look_through(bus, ref, program, found):
        return [], True
    count = int(await bus.get(ref, ACCESSIBLE, "ChildCount"))
    children = await reader.children(ref, count)
    return children, count <= len(children)


async def _look_through(bus: AccessibilityBus, page: Ref, program: Program, found: Found) -> bool:
    """Have a page's program look for what is wanted; False where it does not do that."""
    try:
        passwords = await _matches(bus, page, [0, 0], _bits(ROLES.index(PASSWORD_TEXT), 5))
        focused = await _matches(bus, page, _bits(STATES.index("focused"), 2), [0])
    except NotSupported:
        return False
    found.passwords.extend(passwords)
    found.focused.extend((ref, program) for ref in focused)
    return max(len(passwords), len(focused)) < _MATCHES


async def _matches(bus: AccessibilityBus, page: Ref, states: list[int], roles: list[int]) -> list[Ref]:
    rule = [states, _ALL, {}, _ALL, roles, _ANY if any(roles) else _ALL, [], _ALL, False]
    body = (rule, _IN_ORDER, _MATCHES, True)
    (told,) = await bus.call(page, COLLECTION, "GetMatches", _RULE, body)
    return [Ref(str(name), str(path)) for name, path in told[:_MATCHES]]


def _bits(number: int, words: int) -> list[int]:
    """A set of one number, in words of 32 bits."""
    return [1 << number % 32 if at == number // 32 else 0 for at in range(words)]
