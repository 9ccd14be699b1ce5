"""Finds what a picture must not show: where fields of passwords and secrets are on the screen now."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from core.device.desktop.linux.bus import AccessibilityBus, Gone, NotSupported, Ref, Silent
from core.device.desktop.linux.places import Places, home_of, places_of
from core.device.desktop.linux.search import search
from core.device.desktop.linux.walk import Program
from core.device.desktop.linux.words import ACCESSIBLE, state_words
from core.device.desktop.model import Box, Hidden, Window
from core.device.desktop.secrecy import Secrecy
from core.errors import DeviceError


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
