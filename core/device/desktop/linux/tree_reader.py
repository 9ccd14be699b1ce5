"""Reads programs' controls over the accessibility bus, level by level, within bounds.

A program that hangs costs the time of one call: it is then skipped, and named in the result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

import psutil

from core.controls import PASSIVE, SHOWING, folded
from core.device.desktop.control_search import Wanted
from core.device.desktop.interface import (
    LONGEST_VALUE,
    PROTECTED,
    Bounds,
    Control,
    Detail,
    Tree,
    Window,
)
from core.device.desktop.linux.actions import action_names
from core.device.desktop.linux.atspi import NO_BUS, AccessibilityBus, Gone, NotSupported, Ref, Silent
from core.device.desktop.linux.atspi_constants import (
    ACCESSIBLE,
    ACTION,
    CACHE,
    COLLECTION,
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
from core.device.desktop.linux.control_names import (
    name_by_program,
    name_by_surroundings,
    own_name,
    wants_name,
)
from core.device.desktop.linux.coordinates import Places, Where, extents_of, home_of, places_of
from core.device.desktop.linux.visible_children import (
    DRAWN,
    MOST_ON_SCREEN,
    SHOWING_BITS,
    children_on_screen,
)
from core.device.desktop.sensitive_fields import SensitiveFields

Answer = TypeVar("Answer")
# A table may have a million rows; a request for all of them would hang its program and this one.
_CHILDREN = 200
# A single child is looked at, because it may belong to another program, as a web page does.
_FEW = 1
# The role of an object that was not asked for it.
_NO_ROLE = -1
# Holds the controls that a program draws without its toolkit, which may be placed otherwise than its window.
_DRAWN_BY_PROGRAM = "root pane"
_MOST_NAMED = 1_000_000
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
    """The data on an object from its toolkit's cache, or as it was first looked at."""

    children: int
    role: int
    name: str
    states: list[int]
    interfaces: list[str] | None = None


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

    async def look(self, ref: Ref) -> Cached:
        """Role, states, name and number of children of an object, which are enough to recognise it.

        Raises:
            Silent: its program hangs.
            Gone: it does not exist.
        """
        seen, (role, states) = await asyncio.gather(self.glance(ref), self.kind(ref))
        seen.role, seen.states = role, states
        return seen

    async def glance(self, ref: Ref) -> Cached:
        """The name and the number of children of an object, without its role and states.

        Raises:
            Silent: its program hangs.
            Gone: it does not exist.
        """
        name, count = await asyncio.gather(
            self._or(self._bus.get(ref, ACCESSIBLE, "Name"), ""), self.count(ref)
        )
        return Cached(count, _NO_ROLE, str(name), [])

    async def kind(self, ref: Ref) -> tuple[int, list[int]]:
        """Role and states of an object.

        Raises:
            Silent: its program hangs.
            Gone: it does not exist.
        """
        role, states = await asyncio.gather(
            self._bus.call(ref, ACCESSIBLE, "GetRole"), self._bus.call(ref, ACCESSIBLE, "GetState")
        )
        return int(role[0]), list(states[0])

    async def control(
        self, ref: Ref, program: Program, where: Where, seen: Cached, detail: Detail
    ) -> Control:
        """A control, in the detail wanted.

        Raises:
            Silent: its program hangs.
            Gone: it does not exist.
        """
        program = await self._owner(ref, program)
        control = Control(
            id=self._bus.id_of(ref),
            role=role_word(seen.role) if seen.role != _NO_ROLE else "",
            name=seen.name[:_LONGEST_NAME],
            process_id=program.process_id,
            process_name=program.process_name,
            states=state_words(seen.states),
        )
        interfaces = await self._interfaces(ref, seen) if detail != "names" else []
        control.takes_text = EDITABLE_TEXT in interfaces
        # GTK 3 logs a failed assertion for the extents of an object without this interface.
        if COMPONENT in interfaces or not where.tells_showing:
            extents = await self._or(extents_of(self._bus, ref, where.coordinates), None)
            control.box = where.place.on_screen(extents) if where.place else None
        if not where.tells_showing and control.box is not None and "visible" in control.states:
            control.states = tuple(dict.fromkeys((*control.states, SHOWING)))
        if control.role == PASSWORD_TEXT:
            self._secrecy.saw_password(control.id)
        if control.id in self._secrecy:
            control.states = (*control.states, PROTECTED)
        if detail == "all":
            await asyncio.gather(
                self._read_actions(ref, control, interfaces), self._read_value(ref, control, interfaces)
            )
        elif detail == "outline":
            await self._read_value(ref, control, interfaces)
        return control

    async def cell(self, ref: Ref, program: Program, where: Where, kind: Cached) -> Control:
        """A cell of a table that draws its own; an empty cell is only looked at, because there are hundreds.

        `kind`: another cell of the table.

        Raises:
            Silent: its program hangs.
            Gone: it does not exist.
        """
        name, (states,), count = await asyncio.gather(
            self._or(self._bus.get(ref, ACCESSIBLE, "Name"), ""),
            self._bus.call(ref, ACCESSIBLE, "GetState"),
            self._or(self._bus.get(ref, TEXT, "CharacterCount"), None),
        )
        seen = Cached(0, kind.role, str(name), list(states), kind.interfaces)
        words = state_words(seen.states)
        if count == 0 and "focused" not in words:
            control = await self.control(ref, program, where, seen, "names")
            control.value = None if PROTECTED in control.states else ""
            return control
        return await self.control(ref, program, where, seen, "outline")

    async def read(self, ref: Ref, program: Program, where: Where) -> Control:
        """A control with everything that is known about it.

        Raises:
            Silent: its program hangs.
            Gone: it does not exist.
        """
        control = await self.control(ref, program, where, await self.look(ref), "all")
        if wants_name(control):
            control.name = await own_name(self._bus, ref)
        return control

    async def _interfaces(self, ref: Ref, seen: Cached) -> list[str]:
        if seen.interfaces is None:
            seen.interfaces = await self.interfaces(ref)
        return seen.interfaces

    async def interfaces(self, ref: Ref) -> list[str]:
        """The interfaces of an object.

        Raises:
            Silent: its program hangs.
            Gone: it does not exist.
        """
        (listed,) = await self._or(self._bus.call(ref, ACCESSIBLE, "GetInterfaces"), [[]])
        return [str(one) for one in listed]

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
            names = await action_names(self._bus, ref)
            control.actions = tuple(name[:_LONGEST_ACTION] for name in names if name)

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
        self,
        bus: AccessibilityBus,
        bounds: Bounds,
        secrecy: SensitiveFields,
        windows: Sequence[Window] = (),
        wanted: Wanted | None = None,
    ) -> None:
        self._bus = bus
        self._bounds = bounds
        # With a name, roles and states are read of the controls only that have it, or have no name.
        self._name = None if wanted is None or wanted.name is None else folded(wanted.name)
        self._windows = windows
        self._reader = Reader(bus, secrecy)
        self._seen: set[Ref] = set()
        self._left = bounds.nodes
        self._until = time.monotonic() + bounds.seconds
        # Objects that a program said are showing, when it listed the children of their parent.
        self._showing: set[Ref] = set()
        # Cells of tables that draw their own, each with the first cell of its table, which is of its kind.
        self._cells: dict[Ref, Cached] = {}
        # The frames of the programs that are read.
        self._places: dict[Ref, Places] = {}
        # Whether programs, by their bus names, can filter the children of a control.
        self._filters: dict[str, bool] = {}
        self.truncated = False
        self.silent: list[str] = []

    async def program(self, program: Program, start: Sequence[Ref] | None = None) -> Control | None:
        """A program with its controls; only those below `start` if that is given."""
        top: Control | None = None
        self._seen.add(program.ref)
        try:
            seen = await self._reader.look(program.ref)
            top = await self._reader.control(program.ref, program, Where(), seen, self._bounds.detail)
            cache = await self._cache(program)
            titles = {ref: entry.name for ref, entry in cache.items()}
            places = await places_of(self._bus, program.ref, self._windows, titles)
            self._places[program.ref] = places
            refs = start if start is not None else await self._reader.children(program.ref, seen.children)
            level = [(top, ref, await self._where(ref, places, start)) for ref in refs]
            for _ in range(self._bounds.depth):
                level = await self._level(level, program, cache)
                if not level:
                    break
            if level:
                self.truncated = True
            if self._bounds.showing or self._bounds.detail != "names":
                await self._name_the_nameless(top, places)
        except Silent:
            self.silent.append(program.process_name or f"process {program.process_id}")
            self.truncated = True
            if top is not None:
                top.truncated = True
        except (Gone, NotSupported):
            # The program has ended, or is not accessible after all.
            return top
        return top

    async def complete(self, controls: Iterable[Control]) -> None:
        """Read role and states of controls of which only the names were read.

        Raises:
            Silent: their program hangs.
        """
        lacking = [one for one in controls if not one.role]
        refs = (self._bus.ref_of(one.id) for one in lacking)
        kinds = await asyncio.gather(*(self._reader.kind(ref) for ref in refs), return_exceptions=True)
        for control, kind in zip(lacking, kinds, strict=True):
            if isinstance(kind, tuple):
                role, states = kind
                control.role, control.states = role_word(role), state_words(states)
            elif not isinstance(kind, _GONE_OR_UNKNOWN):
                raise kind

    async def _name_the_nameless(self, top: Control, places: Places) -> None:
        everything = Tree([top]).all()
        await self._read_roles(one for one in everything if not one.name.strip())
        await name_by_program(self._bus, everything)
        # A name that a program gives comes before one that is only concluded from the surroundings.
        is_found = self._name is not None and any(
            folded(one.name) == self._name and one.role not in ("", *PASSIVE) for one in everything
        )
        if not is_found and any(wants_name(one) for one in everything):
            await self._read_roles(everything)
            await name_by_surroundings(self._bus, top, places.of(None).coordinates)

    async def _read_roles(self, controls: Iterable[Control]) -> None:
        """Read the roles of controls that are known to be showing, which is enough to name them."""
        lacking = [one for one in controls if not one.role]
        asked = (self._bus.call(self._bus.ref_of(one.id), ACCESSIBLE, "GetRole") for one in lacking)
        for control, told in zip(lacking, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            if isinstance(told, list):
                control.role = role_word(int(told[0]))
            elif not isinstance(told, _GONE_OR_UNKNOWN):
                raise told

    def _is_wanted(self, name: str) -> bool:
        return self._name is None or folded(name) == self._name

    async def _where(self, ref: Ref, places: Places, start: Sequence[Ref] | None) -> Where:
        """How an object at which reading starts, and what is below it, is placed."""
        frame = places.frame(ref)
        if frame is None and start is not None:
            frame = await places.frame_of(self._bus, await home_of(self._bus, ref))
        return places.of(frame)

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
        for (parent, _, _), outcome in zip(level, outcomes, strict=True):
            if isinstance(outcome, Silent):
                silent = outcome
            elif isinstance(outcome, _GONE_OR_UNKNOWN):
                self._left += 1
            elif isinstance(outcome, BaseException):
                raise outcome
            elif outcome is None:
                parent.not_showing += 1
                self._left += 1
            else:
                control, refs, where = outcome
                parent.children.append(control)
                below.extend((control, ref, where) for ref in refs)
        if silent is not None:
            raise silent
        return below

    async def _one(
        self, ref: Ref, program: Program, where: Where, cached: Cached | None
    ) -> tuple[Control, list[Ref], Where] | None:
        """A control, and the children to read next with their place.

        None for a control that is not showing and not wanted.
        """
        if (kind := self._cells.get(ref)) is not None:
            return await self._reader.cell(ref, program, where, kind), [], where
        seen = cached if cached is not None else await self._look(ref, where)
        is_own = ref.bus == program.ref.bus and ref not in self._showing
        if self._bounds.showing and is_own and _is_away(seen, where):
            return None
        if self._bounds.detail != "names" and role_word(seen.role) == _DRAWN_BY_PROGRAM:
            places = self._places[program.ref]
            frame = await places.frame_of(self._bus, await home_of(self._bus, ref))
            where = places.of(frame) if frame is not None else where
        control = await self._reader.control(ref, program, where, seen, self._bounds.detail)
        count = seen.children
        if count < 0:
            # GTK's cache has no row count for controls that draw their rows themselves.
            count = await self._reader.count(ref)
        return control, await self._children(ref, control, count, where), where

    async def _look(self, ref: Ref, where: Where) -> Cached:
        if self._bounds.detail != "names" or self._name is None or not where.tells_showing:
            return await self._reader.look(ref)
        is_shown = ref in self._showing
        seen: Cached
        if self._bounds.showing and not is_shown:
            seen, (states,) = await asyncio.gather(
                self._reader.glance(ref), self._bus.call(ref, ACCESSIBLE, "GetState")
            )
            seen.states = list(states)
        else:
            seen = await self._reader.glance(ref)
            seen.states = SHOWING_BITS if is_shown else []
        if self._is_wanted(seen.name):
            seen.role, seen.states = await self._reader.kind(ref)
        return seen

    async def _children(self, ref: Ref, control: Control, count: int, where: Where) -> list[Ref]:
        """The children to read: those on the screen, where there are many or only those are wanted."""
        is_many = count > _CHILDREN
        if self._bounds.detail == "names" and count > _MOST_NAMED:
            # The cells of a spreadsheet are found by their row and column.
            control.not_showing = count
            return []
        is_filtered = where.tells_showing and (is_many or (self._bounds.showing and count > _FEW))
        can_filter = is_filtered and await self._can_filter(ref)
        if is_many or can_filter:
            is_drawn = False
            if is_many:
                _, states = await self._reader.kind(ref)
                is_drawn = DRAWN in state_words(states)
            found = await children_on_screen(
                self._bus,
                ref,
                count,
                is_drawn=is_drawn,
                can_filter=can_filter,
                coordinates=where.coordinates,
            )
            if found is not None:
                is_whole = self._bounds.showing and len(found) < MOST_ON_SCREEN
                control.not_showing = count - len(found)
                if not is_whole:
                    control.truncated = self.truncated = True
                if found or is_whole:
                    self._showing.update(found)
                    if is_drawn and found and self._bounds.detail == "outline":
                        kind = await self._reader.look(found[0])
                        kind.interfaces = await self._reader.interfaces(found[0])
                        self._cells.update(dict.fromkeys(found, kind))
                    return found
        if is_many:
            control.truncated = self.truncated = True
        return await self._reader.children(ref, count)

    async def _can_filter(self, ref: Ref) -> bool:
        if (known := self._filters.get(ref.bus)) is None:
            known = self._filters[ref.bus] = COLLECTION in await self._reader.interfaces(ref)
        return known

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


def _is_away(seen: Cached, where: Where) -> bool:
    """Whether a control, and with it what is below it, is not on the screen."""
    states = state_words(seen.states)
    # A web page's container has no states.
    return bool(states) and (SHOWING if where.tells_showing else "visible") not in states


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
