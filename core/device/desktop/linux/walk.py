"""Reads programs' controls over the accessibility bus, level by level, within bounds.

One program that hangs costs one call's time: it is left out from then on, and named.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

from core.device.desktop.linux.bus import AccessibilityBus, Gone, NotSupported, Ref, Silent
from core.device.desktop.linux.words import (
    ACCESSIBLE,
    ACTION,
    CACHE,
    COMPONENT,
    EDITABLE_TEXT,
    NULL,
    PASSWORD_TEXT,
    REGISTRY,
    ROOT,
    TEXT,
    VALUE,
    role_word,
    state_words,
)
from core.device.desktop.model import LONGEST_VALUE, PROTECTED, Bounds, Box, Control

Answer = TypeVar("Answer")
# A table may have a million rows; asking for all its children would hang its program, not only us.
_CHILDREN = 200
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
    """What a toolkit's cache already told of one object."""

    children: int
    role: int
    name: str
    states: list[int]
    interfaces: list[str]


def process_name(process_id: int | None) -> str:
    """A process' name; empty for one that is not there."""
    try:
        return psutil.Process(process_id).name() if process_id else ""
    except psutil.Error:
        return ""


async def programs(bus: AccessibilityBus) -> list[Program]:
    """The programs that say what they show."""
    try:
        (children,) = await bus.call(Ref(REGISTRY, ROOT), ACCESSIBLE, "GetChildren")
    except (Silent, *_GONE_OR_UNKNOWN):
        return []

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

    def __init__(self, bus: AccessibilityBus, protected: Iterable[str] = ()) -> None:
        self._bus = bus
        self._protected = frozenset(protected)

    async def read(self, ref: Ref, program: Program, cached: Cached | None = None) -> tuple[Control, int]:
        """A control and how many children it has.

        Raises:
            Silent: its program hangs.
            Gone: it is not there.
        """
        call, get = self._bus.call, self._bus.get
        if cached is None:
            role, states, interfaces, name, count, extents = await asyncio.gather(
                call(ref, ACCESSIBLE, "GetRole"),
                call(ref, ACCESSIBLE, "GetState"),
                self._or(call(ref, ACCESSIBLE, "GetInterfaces"), [[]]),
                self._or(get(ref, ACCESSIBLE, "Name"), ""),
                self._or(get(ref, ACCESSIBLE, "ChildCount"), 0),
                self._or(call(ref, COMPONENT, "GetExtents", "u", (0,)), None),
            )
            cached = Cached(int(count), int(role[0]), str(name), list(states[0]), list(interfaces[0]))
        else:
            extents = await self._or(call(ref, COMPONENT, "GetExtents", "u", (0,)), None)
        control = Control(
            id=self._bus.id_of(ref),
            role=role_word(cached.role),
            name=cached.name,
            process_id=program.process_id,
            process_name=program.process_name,
            states=state_words(cached.states),
            box=_box(extents),
            takes_text=EDITABLE_TEXT in cached.interfaces,
        )
        if control.role == PASSWORD_TEXT or control.id in self._protected:
            control.states = (*control.states, PROTECTED)
        await asyncio.gather(
            self._read_actions(ref, control, cached.interfaces),
            self._read_value(ref, control, cached.interfaces),
        )
        return control, cached.children

    async def count(self, ref: Ref) -> int:
        """How many children a control has now.

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
        if count <= _CHILDREN:
            answers = await self._or(self._bus.call(ref, ACCESSIBLE, "GetChildren"), [[]])
            return [Ref(str(name), str(path)) for name, path in answers[0] if str(path) != NULL]
        asked = (
            self._or(self._bus.call(ref, ACCESSIBLE, "GetChildAtIndex", "i", (index,)), None)
            for index in range(_CHILDREN)
        )
        found = await asyncio.gather(*asked)
        return [Ref(str(one[0][0]), str(one[0][1])) for one in found if one and str(one[0][1]) != NULL]

    async def _read_actions(self, ref: Ref, control: Control, interfaces: list[str]) -> None:
        if ACTION in interfaces:
            answer = await self._or(self._bus.call(ref, ACTION, "GetActions"), [[]])
            control.actions = tuple(str(one[0]) for one in answer[0])

    async def _read_value(self, ref: Ref, control: Control, interfaces: list[str]) -> None:
        # What is not asked for cannot leak: a password's length and dots stay in its program.
        if PROTECTED in control.states:
            return
        if VALUE in interfaces and control.role in _NUMBERS:
            value = await self._or(self._bus.get(ref, VALUE, "CurrentValue"), None)
            control.value = float(value) if value is not None else None
        elif TEXT in interfaces:
            # An end beyond the text's makes Qt write warnings into its program's log.
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


def _box(extents: list[Any] | None) -> Box | None:
    if not extents:
        return None
    x, y, width, height = (int(one) for one in extents[0])
    return Box(x, y, width, height) if width > 0 and height > 0 else None


class Walk:
    """One look at the controls of several programs, with one budget of nodes and seconds for all."""

    def __init__(self, bus: AccessibilityBus, bounds: Bounds, protected: Iterable[str] = ()) -> None:
        self._bus = bus
        self._bounds = bounds
        self._reader = Reader(bus, protected)
        self._left = bounds.nodes
        self._until = time.monotonic() + bounds.seconds
        self.truncated = False
        self.silent: list[str] = []

    async def program(self, program: Program, start: list[Ref] | None = None) -> Control | None:
        """A program with what it shows; only what is below `start` if that is given."""
        top: Control | None = None
        try:
            top, count = await self._reader.read(program.ref, program)
            cache = await self._cache(program)
            refs = start if start is not None else await self._reader.children(program.ref, count)
            level = [(top, ref) for ref in refs]
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
            # The program ended, or is no accessible program after all.
            return top
        return top

    async def _level(
        self, level: list[tuple[Control, Ref]], program: Program, cache: dict[Ref, Cached]
    ) -> list[tuple[Control, Ref]]:
        level = self._within_budget(level)
        if not level:
            return []
        outcomes = await asyncio.gather(
            *(self._one(ref, program, cache.get(ref)) for _, ref in level), return_exceptions=True
        )
        below: list[tuple[Control, Ref]] = []
        silent: Silent | None = None
        for (parent, _), outcome in zip(level, outcomes, strict=True):
            if isinstance(outcome, Silent):
                silent = outcome
            elif isinstance(outcome, _GONE_OR_UNKNOWN):
                self._left += 1
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                control, refs = outcome
                parent.children.append(control)
                below.extend((control, ref) for ref in refs)
        if silent is not None:
            raise silent
        return below

    async def _one(self, ref: Ref, program: Program, cached: Cached | None) -> tuple[Control, list[Ref]]:
        control, count = await self._reader.read(ref, program, cached)
        if count < 0:
            # GTK's cache does not count the rows of what draws them itself.
            count = await self._reader.count(ref)
        refs = await self._reader.children(ref, count)
        if count > _CHILDREN:
            control.truncated = self.truncated = True
        return control, refs

    def _within_budget(self, level: list[tuple[Control, Ref]]) -> list[tuple[Control, Ref]]:
        if time.monotonic() >= self._until and level:
            self.truncated = True
            return []
        taken = level[: self._left]
        self._left -= len(taken)
        if len(taken) < len(level):
            self.truncated = True
        return taken

    async def _cache(self, program: Program) -> dict[Ref, Cached]:
        """What the toolkit keeps ready, in one call; empty for one that keeps nothing, such as Qt's."""
        try:
            (items,) = await self._bus.call(
                Ref(program.ref.bus, "/org/a11y/atspi/cache"), CACHE, "GetItems", seconds=2.0
            )
        except _GONE_OR_UNKNOWN:
            return {}
        return dict(entry for item in items if (entry := cached_item(item)) is not None)


def cached_item(item: list[Any]) -> tuple[Ref, Cached] | None:
    """One entry of `GetItems`, in the newer shape, which counts children, or the older, which lists them.

    None for a shape that is neither.
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
