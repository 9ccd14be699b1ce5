"""Finds the areas to redact in a picture: the secret fields on the screen now.

The search is bounded in time and covers only controls that are showing.
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
    role_word,
    state_words,
)
from core.device.desktop.linux.coordinates import Home, Places, home_of, places_of
from core.device.desktop.linux.tree_reader import Program, Reader
from core.device.desktop.sensitive_fields import SensitiveFields
from core.errors import DeviceError

_NODES = 4_000
_SECONDS = 1.5
# Lists and tables that draw their rows themselves: there may be thousands of rows, and none takes a password.
_DRAWN = "manages descendants"
_LEAVES = ("label", "push button", "check box", "radio button", "menu item", "image", "separator", "icon")


# A web page may have 100 000 controls. Its program searches them itself, in a single call.
_PAGE = "document web"
_MATCHES = 100
_RULE, _ALL, _ANY, _IN_ORDER = "(aiia{ss}iaiiasib)uib", 1, 2, 1


@dataclass(slots=True)
class Found:
    """The findings of a search."""

    passwords: list[Ref] = field(default_factory=list)
    not_searched: list[Program] = field(default_factory=list)


async def search(bus: AccessibilityBus, programs: list[Program], secrecy: SensitiveFields) -> Found:
    """Search the controls that programs show now, and remember their password fields. Takes two seconds at
    most.
    """
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
        # GTK 4 does not report whether controls below its windows are showing.
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
    """The children to search, and whether these are all."""
    is_program = ref == program.ref
    (bits,) = await bus.call(ref, ACCESSIBLE, "GetState")
    states = state_words(list(bits))
    # A web page belongs to another program. Its container has no states, and controls around it may lack the
    # state `showing`.
    is_own = ref.bus == program.ref.bus and bool(states)
    if not is_program and is_own and ("showing" if tells_showing else "visible") not in states:
        return [], True
    (number,) = await bus.call(ref, ACCESSIBLE, "GetRole")
    role = role_word(int(number))
    if role == PASSWORD_TEXT:
        found.passwords.append(ref)
        return [], True
    if role in _LEAVES or _DRAWN in states:
        return [], True
    if role == _PAGE and await _look_through(bus, ref, found):
        return [], True
    count = int(await bus.get(ref, ACCESSIBLE, "ChildCount"))
    children = await reader.children(ref, count)
    return children, count <= len(children)


async def _look_through(bus: AccessibilityBus, page: Ref, found: Found) -> bool:
    """Have a page's program search for the fields; returns False where it does not support that."""
    try:
        passwords = await _matches(bus, page, [0, 0], _bits(ROLES.index(PASSWORD_TEXT), 5))
    except NotSupported:
        return False
    found.passwords.extend(passwords)
    return len(passwords) < _MATCHES


async def _matches(bus: AccessibilityBus, page: Ref, states: list[int], roles: list[int]) -> list[Ref]:
    rule = [states, _ALL, {}, _ALL, roles, _ANY if any(roles) else _ALL, [], _ALL, False]
    body = (rule, _IN_ORDER, _MATCHES, True)
    (told,) = await bus.call(page, COLLECTION, "GetMatches", _RULE, body)
    return [Ref(str(name), str(path)) for name, path in told[:_MATCHES]]


def _bits(number: int, words: int) -> list[int]:
    """A bit set with a single bit, in words of 32 bits."""
    return [1 << number % 32 if at == number // 32 else 0 for at in range(words)]


async def find_hidden(
    bus: AccessibilityBus,
    programs: list[Program],
    secrecy: SensitiveFields,
    windows: Sequence[Window],
    hidden: Hidden,
) -> None:
    """Add the areas to redact, and the programs that could not be searched, to `hidden`."""
    found = await search(bus, programs, secrecy)
    hidden.not_searched.extend(one.process_name or f"process {one.process_id}" for one in found.not_searched)
    known = {one.process_id for one in programs}
    hung = {one.process_id for one in found.not_searched}
    hidden.answering.update(one for one in known - hung if one is not None)
    hidden.blank.extend(one for one in windows if one.process_id not in known)
    fields = dict.fromkeys(found.passwords, True)
    for control_id in secrecy.fields():
        try:
            fields.setdefault(bus.ref_of(control_id), False)
        except DeviceError:
            # The field was on a bus that is gone. Its program does not join the next bus, but still runs.
            owner = secrecy.owner(control_id)
            hidden.boxes.extend(one.box for one in windows if owner and one.process_id == owner)
    masks = _Masks(bus, secrecy, windows)
    await masks.learn(list(fields))
    for areas in await asyncio.gather(*(masks.of(ref, is_shown) for ref, is_shown in fields.items())):
        for box, window_id in areas:
            hidden.add(box, window_id)


_Area = tuple[Box, str | None]
"""A box, and the window that it is in; None where that is not certain."""


class _Masks:
    """The areas of single fields. In doubt the whole window is redacted."""

    def __init__(self, bus: AccessibilityBus, secrecy: SensitiveFields, windows: Sequence[Window]) -> None:
        self._bus = bus
        self._secrecy = secrecy
        self._windows = windows
        self._homes: dict[Ref, Home] = {}
        self._places: dict[Ref, Places] = {}

    async def learn(self, fields: list[Ref]) -> None:
        """Find the programs that show the fields, and their frames."""
        await asyncio.gather(*(self._learn_home(ref) for ref in fields))
        roots = {home.root for home in self._homes.values()}
        await asyncio.gather(*(self._learn_places(root) for root in roots))

    async def of(self, ref: Ref, is_shown: bool) -> list[_Area]:
        """The areas of a field; `is_shown` when the search has just found it on the screen."""
        control_id = self._bus.id_of(ref)
        home = self._homes.get(ref, Home(ref))
        places = self._places.get(home.root, Places())
        if places.process_id is not None:
            self._secrecy.shown_by(control_id, places.process_id)
        try:
            if not is_shown and not await self._is_showing(ref, places):
                return []
            boxes = await places.boxes(self._bus, ref, home)
            if boxes or places.of(None).place is not None:
                window_id = places.window_of(home.top)
                return [(box, window_id) for box in boxes]
        except Gone:
            self._secrecy.forget(control_id)
            return []
        except NotSupported:
            # Qt answers so for objects that are gone.
            if not is_shown:
                return []
        except Silent:
            # The hung program's last content is still on the screen.
            pass
        owner = self._secrecy.owner(control_id)
        return [(one.box, None) for one in self._windows if owner is not None and one.process_id == owner]

    async def _learn_home(self, ref: Ref) -> None:
        with contextlib.suppress(Gone, NotSupported, Silent):
            self._homes[ref] = await home_of(self._bus, ref)

    async def _learn_places(self, root: Ref) -> None:
        with contextlib.suppress(Gone, NotSupported, Silent):
            self._places[root] = await places_of(self._bus, root, self._windows)

    async def _is_showing(self, ref: Ref, places: Places) -> bool:
        (bits,) = await self._bus.call(ref, ACCESSIBLE, "GetState")
        return ("visible" if places.inside_window else "showing") in state_words(list(bits))
