"""Reads programs' controls over the accessibility bus, level by level, within bounds.

A program that hangs costs the time of one call: it is then skipped, and named in the result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

import psutil

from core.device.desktop.interface import LONGEST_VALUE, PROTECTED, Bounds, Control, Window
from core.device.desktop.linux.atspi import NO_BUS, AccessibilityBus, Gone, NotSupported, Ref, Silent
from core.device.desktop.linux.atspi_constants import (
    ACCESSIBLE,
    ACTION,
    CACHE,
    EDITABLE_TEXT,
    MOST_ACTIONS,
    NULL,
    PASSWORD_TEXT,
    REGISTRY,
    ROOT,
    TEXT,
    VALUE,
    role_word,
    state_words,
)
from core.device.desktop.linux.coordinates import Where, extents_of, places_of
from core.device.desktop.sensitive_fields import SensitiveFields

Answer = TypeVar("Answer")
# A table may have a million rows; a request for all of them would hang its program and this one.
_CHILDREN = 200
_LONGEST_NAME = 500
_LONGEST_ACTION = 100
_NUMBERS = ("slider", "progress bar", "spin button", "scroll bar", "level bar", "dial")
_GONE_OR_UNKNOWN = (Gone, NotSupported)


@dataclass(frozen=True, slots=True)
class Program:
    """A program on the accessibility bus."""

    ref: Ref
    process_id: int
    process_name: str


@dataclass(slots=True)
class Cached:
    """The data on an object from its toolkit's cache."""

    children: int
    role: int
    name: str
    states: list[int]
    interfaces: list[str]


def process_name(process_id: int | None) -> str:
    """A process's name; empty where it does not exist."""
    try:
        return psutil.Process(process_id).name() if process_id else ""
    except psutil.Error:
        return ""


async def programs(bus: AccessibilityBus) -> list[Program]:
    """The programs that expose their controls.

    Raises:
        DeviceError: the bus cannot list them.
    """
    try:
        (children,) = await bus.call(Ref(REGISTRY, ROOT), ACCESSIBLE, "GetChildren")
    except (Silent, *_GONE_OR_UNKNOWN) as error:
        raise NO_BUS.error() from error

    async def known(name: str, path: str) -> Program | None:
        try:
            process_id = await bus.process_id(name)
        except (Silent, *_GONE_OR_UNKNOWN):
            return None
        return Program(Ref(name, path), process_id, process_name(process_id))

    found = await asyncio.gather(*(known(str(name), str(path)) for name, path in children))
    return [one for one in found if one is not None]


class Reader:
    """Reads single controls."""

    def __init__(self, bus: AccessibilityBus, secrecy: SensitiveFields) -> None:
        self._bus = bus
        self._secrecy = secrecy
        self._others: dict[str, Program] = {}

    async def read(
        self, ref: Ref, program: Program, where: Where, cached: Cached | None = None
    ) -> tuple[Control, int]:
        """A control and the number of its children.

        Raises:
            Silent: its program hangs.
            Gone: it does not exist.
        """
        call, get = self._bus.call, self._bus.get
        program = await self._owner(ref, program)
        place = self._or(extents_of(self._bus, ref, where.coordinates), None)
        if cached is None:
            role, states, interfaces, name, count, extents = await asyncio.gather(
                call(ref, ACCESSIBLE, "GetRole"),
                call(ref, ACCESSIBLE, "GetState"),
                self._or(call(ref, ACCESSIBLE, "GetInterfaces"), [[]]),
                self._or(get(ref, ACCESSIBLE, "Name"), ""),
                self._or(get(ref, ACCESSIBLE, "ChildCount"), 0),
                place,
            )
            cached = Cached(int(count), int(role[0]), str(name), list(states[0]), list(interfaces[0]))
        else:
            extents = await place
        control = Control(
            id=self._bus.id_of(ref),
            role=role_word(cached.role),
            name=cached.name[:_LONGEST_NAME],
            process_id=program.process_id,
            process_name=program.process_name,
            states=state_words(cached.states),
            box=where.place.on_screen(extents) if where.place else None,
            takes_text=EDITABLE_TEXT in cached.interfaces,
        )
        if not where.tells_showing and control.box is not None and "visible" in control.states:
            control.states = tuple(dict.fromkeys((*control.states, "showing")))
        if control.role == PASSWORD_TEXT:
            self._secrecy.saw_password(control.id)
        if control.id in self._secrecy:
            control.states = (*control.states, PROTECTED)
        await asyncio.gather(
            self._read_actions(ref, control, cached.interfaces),
            self._read_value(ref, control, cached.interfaces),
        )
        return control, cached.children

    async def count(self, ref: Ref) -> int:
        """The number of children of a control now.

        Raises:
            Silent: its program hangs.
        """
        return int(await self._or(self._bus.get(ref, ACCESSIBLE, "ChildCount"), 0))

    async def children(self, ref: Ref, count: int) -> list[Ref]:
        """At most 200 children of a control.

        Raises:
            Silent: its program hangs.
        """
        if count <= 0:
            return []
        listed: list[Any] = []
        if count <= _CHILDREN:
            (listed,) = await self._or(self._bus.call(ref, ACCESSIBLE, "GetChildren"), [[]])
        if len(listed) < count:
            # Too many to list, or some belong to another program, such as a web page, which GTK does not
            # list.
            asked = (
                self._or(self._bus.call(ref, ACCESSIBLE, "GetChildAtIndex", "i", (index,)), None)
                for index in range(min(count, _CHILDREN))
            )
            listed = [one[0] for one in await asyncio.gather(*asked) if one] or listed
        found = (await self._ref(str(name), str(path)) for name, path in listed[:_CHILDREN])
        return [one async for one in found if one is not None]

    async def _ref(self, name: str, path: str) -> Ref | None:
        if path == NULL:
            return None
        if not name.startswith(":"):
            # WebKit's pages use a well-known name, which another program may own later.
            try:
                name = await self._bus.unique_name(name)
            except _GONE_OR_UNKNOWN:
                return None
        return Ref(name, path)

    async def _owner(self, ref: Ref, program: Program) -> Program:
        """The program that owns an object: another program's objects may be below it, as in browsers."""
        if ref.bus == program.ref.bus:
            return program
        if (known := self._others.get(ref.bus)) is None:
            process_id = await self._bus.process_id(ref.bus)
            known = Program(Ref(ref.bus, ROOT), process_id, process_name(process_id))
            self._others[ref.bus] = known
        return known

    async def _read_actions(self, ref: Ref, control: Control, interfaces: list[str]) -> None:
        if ACTION in interfaces:
            try:
                (listed,) = await self._bus.call(ref, ACTION, "GetActions")
                names = [one[0] for one in listed[:MOST_ACTIONS]]
            except NotSupported:
                count = int(await self._or(self._bus.get(ref, ACTION, "NActions"), 0))
                named = (
                    self._bus.call(ref, ACTION, "GetName", "i", (at,))
                    for at in range(min(count, MOST_ACTIONS))
                )
                names = [one[0] for one in await asyncio.gather(*(self._or(one, [""]) for one in named))]
            control.actions = tuple(str(name)[:_LONGEST_ACTION] for name in names if name)

    async def _read_value(self, ref: Ref, control: Control, interfaces: list[str]) -> None:
        # A password's value is not even requested, so that neither its length nor its dots can leak.
        if PROTECTED in control.states:
            return
        if VALUE in interfaces and control.role in _NUMBERS:
            value = await self._or(self._bus.get(ref, VALUE, "CurrentValue"), None)
            # JSON cannot represent NaN and infinities.
            control.value = float(value) if value is not None and isfinite(value) else None
        elif TEXT in interfaces:
            # Qt logs a warning in its program if the requested range exceeds the text.
            count = int(await self._or(self._bus.get(ref, TEXT, "CharacterCount"), 0))
            end = min(count, LONGEST_VALUE)
            answer = (
                await self._or(self._bus.call(ref, TEXT, "GetText", "ii", (0, end)), None) if end else [""]
            )
            control.value = str(answer[0])[:LONGEST_VALUE] if answer else None

    async def _or(self, asked: Awaitable[Answer], otherwise: Any) -> Any:
        try:
            return await asked
        except NotSupported:
            return otherwise


# A control to read: its parent, its reference, and how to convert its coordinates.
_Below = tuple[Control, Ref, Where]


class Walk:
    """A single read of several programs' controls, with a shared budget of nodes and seconds."""

    def __init__(
        self, bus: AccessibilityBus, bounds: Bounds, secrecy: SensitiveFields, windows: Sequence[Window] = ()
    ) -> None:
        self._bus = bus
        self._bounds = bounds
        self._windows = windows
        self._reader = Reader(bus, secrecy)
        self._seen: set[Ref] = set()
        self._left = bounds.nodes
        self._until = time.monotonic() + bounds.seconds
        self.truncated = False
        self.silent: list[str] = []

    async def program(self, program: Program, start: list[Ref] | None = None) -> Control | None:
        """A program with its controls; only those below `start` if that is given."""
        top: Control | None = None
        self._seen.add(program.ref)
        try:
            top, count = await self._reader.read(program.ref, program, Where())
            cache = await self._cache(program)
            titles = {ref: entry.name for ref, entry in cache.items()}
            places = await places_of(self._bus, program.ref, self._windows, titles)
            refs = start if start is not None else await self._reader.children(program.ref, count)
            level = [(top, ref, places.of(places.frame(ref))) for ref in refs]
            for _ in range(self._bounds.depth):
                level = await self._level(level, program, cache)
                if not level:
                    break
            if level:
                self.truncated = True
        except Silent:
            self.silent.append(program.process_name or f"process {program.process_id}")
            self.truncated = True
            if top is not None:
                top.truncated = True
        except (Gone, NotSupported):
            # The program has ended, or is not accessible after all.
            return top
        return top

    async def _level(self, level: list[_Below], program: Program, cache: dict[Ref, Cached]) -> list[_Below]:
        level = self._within_budget(level)
        if not level:
            return []
        outcomes = await asyncio.gather(
            *(self._one(ref, program, where, cache.get(ref)) for _, ref, where in level),
            return_exceptions=True,
        )
        below: list[_Below] = []
        silent: Silent | None = None
        for (parent, _, where), outcome in zip(level, outcomes, strict=True):
            if isinstance(outcome, Silent):
                silent = outcome
            elif isinstance(outcome, _GONE_OR_UNKNOWN):
                self._left += 1
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                control, refs = outcome
                parent.children.append(control)
                below.extend((control, ref, where) for ref in refs)
        if silent is not None:
            raise silent
        return below

    async def _one(
        self, ref: Ref, program: Program, where: Where, cached: Cached | None
    ) -> tuple[Control, list[Ref]]:
        control, count = await self._reader.read(ref, program, where, cached)
        if count < 0:
            # GTK's cache has no row count for controls that draw their rows themselves.
            count = await self._reader.count(ref)
        refs = await self._reader.children(ref, count)
        if count > _CHILDREN:
            control.truncated = self.truncated = True
        return control, refs

    def _within_budget(self, level: list[_Below]) -> list[_Below]:
        # Toolkits list some controls twice, and a program may name its own parent as its child.
        fresh = {below[1]: below for below in reversed(level) if below[1] not in self._seen}
        level = list(reversed(fresh.values()))
        self._seen.update(fresh)
        if time.monotonic() >= self._until and level:
            self.truncated = True
            return []
        taken = level[: self._left]
        self._left -= len(taken)
        if len(taken) < len(level):
            self.truncated = True
        return taken

    async def _cache(self, program: Program) -> dict[Ref, Cached]:
        """The toolkit's cache, read in a single call; empty for toolkits without a cache, such as Qt."""
        try:
            (items,) = await self._bus.call(
                Ref(program.ref.bus, "/org/a11y/atspi/cache"), CACHE, "GetItems", seconds=2.0
            )
            # Entries may have any type, because it differs between AT-SPI versions.
            entries = list(items)
        except (*_GONE_OR_UNKNOWN, ValueError, TypeError):
            return {}
        return dict(entry for item in entries if (entry := cached_item(item)) is not None)


def cached_item(item: list[Any]) -> tuple[Ref, Cached] | None:
    """An entry of `GetItems`: in the newer format, which counts children, or the older, which lists them.

    None for any other format.
    """
    try:
        own, _, _, *rest = item
        children: int
        if isinstance(rest[0], list):
            listed, interfaces, name, role, _, states = rest
            children = len(listed)
        else:
            _, children, interfaces, name, role, _, states = rest
        return Ref(str(own[0]), str(own[1])), Cached(
            int(children), int(role), str(name), list(states), [str(one) for one in interfaces]
        )
    except (ValueError, IndexError, TypeError):
        return None
