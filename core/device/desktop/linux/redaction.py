"""Finds what a picture must not show: where fields of passwords and secrets are on the screen now.

Finds what a picture must not show, and what has the focus: a quick look at what is on the screen only.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.device.desktop.interface import Box, Hidden, Window
from core.device.desktop.linux.atspi import AccessibilityBus, Gone, NotSupported, Ref, Silent
from core.device.desktop.linux.atspi_constants import (
    ACCESSIBLE,
    COLLECTION,
    PASSWORD_TEXT,
    ROLES,
    STATES,
    role_word,
    state_words,
)
from core.device.desktop.linux.coordinates import Places, home_of, places_of
from core.device.desktop.linux.tree_reader import Program, Reader
from core.device.desktop.sensitive_fields import Secrecy
from core.errors import DeviceError

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


async def find_hidden(
    bus: AccessibilityBus,
    programs: list[Program],
    secrecy: Secrecy,
    windows: Sequence[Window],
    hidden: Hidden,
) -> None:
    """Add what must be hidden, and what could not be searched, to `hidden`."""
    found = await search(bus, programs, secrecy)
    hidden.not_searched.extend(one.process_name or f"process {one.process_id}" for one in found.not_searched)
    known = {one.process_id for one in programs}
    hidden.blank.extend(one for one in windows if one.process_id not in known)
    fields = dict.fromkeys(found.passwords, True)
    for control_id in secrecy.fields():
        try:
            fields.setdefault(bus.ref_of(control_id), False)
        except DeviceError:
            # It was on a bus that is gone. Programs do not find the next one, but they go on.
            owner = secrecy.owner(control_id)
            hidden.boxes.extend(one.box for one in windows if owner and one.process_id == owner)
    masks = _Masks(bus, secrecy, windows)
    await masks.learn(list(fields))
    for boxes in await asyncio.gather(*(masks.of(ref, is_shown) for ref, is_shown in fields.items())):
        hidden.boxes.extend(boxes)


class _Masks:
    """Where single fields are. In doubt the whole window is hidden."""

    def __init__(self, bus: AccessibilityBus, secrecy: Secrecy, windows: Sequence[Window]) -> None:
        self._bus = bus
        self._secrecy = secrecy
        self._windows = windows
        self._roots: dict[Ref, Ref] = {}
        self._places: dict[Ref, Places] = {}

    async def learn(self, fields: list[Ref]) -> None:
        """Find the programs that show fields, and their places."""
        await asyncio.gather(*(self._learn_root(ref) for ref in fields))
        await asyncio.gather(*(self._learn_places(root) for root in set(self._roots.values())))

    async def of(self, ref: Ref, is_shown: bool) -> list[Box]:
        """The boxes of one field; `is_shown` when it was just seen on the screen."""
        control_id = self._bus.id_of(ref)
        places = self._places.get(self._roots.get(ref, ref), Places())
        if places.process_id is not None:
            self._secrecy.shown_by(control_id, places.process_id)
        try:
            if not is_shown and not await self._is_showing(ref, places):
                return []
            boxes = await places.boxes(self._bus, ref)
            if boxes or places.of(None).place is not None:
                return boxes
        except Gone:
            self._secrecy.forget(control_id)
            return []
        except NotSupported:
            # Qt answers so for what is gone.
            if not is_shown:
                return []
        except Silent:
            # Its last picture is still on the screen.
            pass
        owner = self._secrecy.owner(control_id)
        return [one.box for one in self._windows if owner is not None and one.process_id == owner]

    async def _learn_root(self, ref: Ref) -> None:
        with contextlib.suppress(Gone, NotSupported, Silent):
            self._roots[ref] = (await home_of(self._bus, ref)).root

    async def _learn_places(self, root: Ref) -> None:
        with contextlib.suppress(Gone, NotSupported, Silent):
            self._places[root] = await places_of(self._bus, root, self._windows)

    async def _is_showing(self, ref: Ref, places: Places) -> bool:
        (bits,) = await self._bus.call(ref, ACCESSIBLE, "GetState")
        return ("visible" if places.inside_window else "showing") in state_words(list(bits))
