"""The Linux desktop: AT-SPI for controls, X11 with XTEST for windows, pointer and keys."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable
from typing import TypeVar

from core.device.desktop.keys import Chord
from core.device.desktop.linux import acts, search, x11_input, x11_windows
from core.device.desktop.linux.bus import NO_BUS, AccessibilityBus, Gone, NotSupported, Ref, Silent, find_bus
from core.device.desktop.linux.bus import session_bus_address as session_bus
from core.device.desktop.linux.walk import Program, Reader, Walk, process_name, programs
from core.device.desktop.linux.words import ACCESSIBLE
from core.device.desktop.linux.x11 import XLink, display_lack
from core.device.desktop.model import (
    Bounds,
    Box,
    Button,
    Control,
    Desktop,
    Direction,
    Hidden,
    Lack,
    Need,
    Scope,
    Tree,
    Window,
    stale,
)
from core.device.desktop.screens import monitors_now
from core.errors import BadInput, DeviceError, ErrorCode

Answer = TypeVar("Answer")
_LACK_S = 2.0
_FOCUS_S = 1.0
_POLL_S = 0.02
_PROTECTED_KEPT = 256
_WINDOW_HIDDEN_S = 30.0
_SHOWN = 10


class LinuxDesktop(Desktop):
    """See the module."""

    def __init__(self) -> None:
        self._bus = AccessibilityBus()
        # Two connections, so that looking does not wait until a long text is typed.
        self._eyes = XLink("desktop eyes")
        self._hands = XLink("desktop hands")
        self._protected: OrderedDict[str, None] = OrderedDict()
        self._hidden_until = 0.0

    def lack(self, need: Need) -> Lack | None:
        """See `Desktop`."""
        if need != "controls":
            return display_lack(xtest=need == "input")
        if session_bus() is None:
            return NO_BUS
        # A thread of its own: this is asked with and without a loop running here.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            try:
                thread.submit(asyncio.run, find_bus(_LACK_S)).result()
            except DeviceError as error:
                return Lack(error.message.removesuffix(f". {NO_BUS.how_to_fix}"), NO_BUS.how_to_fix)
        return None

    async def monitors(self) -> list[Box]:
        """See `Desktop`."""
        return await self._eyes.run(lambda _: monitors_now())

    async def windows(self) -> list[Window]:
        """See `Desktop`."""
        return await self._eyes.run(x11_windows.list_windows)

    async def tree(self, scope: Scope, bounds: Bounds) -> Tree:
        """See `Desktop`."""
        found = await self._programs()
        start: list[Ref] | None = None
        if scope.window_id is not None:
            window = await self._eyes.run(x11_windows.window_of_id, scope.window_id)
            found = [one for one in found if one.process_id == window.process_id]
            if not found:
                raise BadInput(f"The program of window {scope.window_id} tells nothing about its controls")
            start = await self._frames(found[0], window)
            found = found[:1]
        elif scope.process_name is not None:
            found = await self._named(found, scope.process_name)
        walk = Walk(self._bus, bounds, self._protected)
        roots = await asyncio.gather(*(walk.program(one, start) for one in found))
        return Tree([one for one in roots if one is not None], walk.truncated, walk.silent)

    async def control(self, control_id: str) -> Control:
        """See `Desktop`."""
        await self._bus.connect()
        ref = self._bus.ref_of(control_id)
        return await self._told(self._read(ref), ref)

    async def perform(self, control: Control) -> str | None:
        """See `Desktop`."""
        ref = self._bus.ref_of(control.id)
        return await self._told(acts.perform(self._bus, ref, control), ref, is_act=True)

    async def focus(self, control: Control) -> None:
        """See `Desktop`."""
        ref = self._bus.ref_of(control.id)
        with contextlib.suppress(DeviceError):
            # Without X (Wayland) the program itself may still take the focus.
            await self._bring_forward(control)
        until = time.monotonic() + _FOCUS_S
        while not await self._told(acts.has_focus(self._bus, ref), ref):
            if time.monotonic() >= until:
                raise DeviceError(
                    f"The {control.role} {control.name!r} does not take the focus", ErrorCode.TOOL_FAILED
                )
            await self._told(acts.focus(self._bus, ref), ref)
            await asyncio.sleep(_POLL_S)

    async def focused(self) -> Control | None:
        """See `Desktop`."""
        try:
            found = await search.search(self._bus, await self._active_programs())
        except DeviceError:
            return None
        if not found.focused:
            return None
        ref, program = found.focused[-1]
        with contextlib.suppress(Gone, Silent, NotSupported):
            return (await Reader(self._bus, self._protected).read(ref, program))[0]
        return None

    async def insert_text(self, control: Control, text: str) -> bool:
        """See `Desktop`."""
        if not control.takes_text:
            return False
        ref = self._bus.ref_of(control.id)
        return await self._told(acts.insert_text(self._bus, ref, text), ref, is_act=True)

    async def hidden(self) -> Hidden:
        """See `Desktop`."""
        hidden = Hidden()
        if time.monotonic() < self._hidden_until:
            hidden.boxes.extend(one.box for one in await self.windows() if one.active)
        try:
            found = await search.search(self._bus, await self._programs())
        except DeviceError:
            hidden.not_searched.append("every program: the accessibility bus cannot be reached")
            return hidden
        hidden.not_searched.extend(found.not_searched)
        refs = list(found.passwords)
        for control_id in self._protected:
            with contextlib.suppress(DeviceError):
                refs.append(self._bus.ref_of(control_id))
        boxes = await asyncio.gather(*(search.box_of(self._bus, ref) for ref in dict.fromkeys(refs)))
        hidden.boxes.extend(box for box in boxes if box is not None)
        return hidden

    def protect(self, control_id: str | None) -> None:
        """See `Desktop`."""
        if control_id is None:
            self._hidden_until = time.monotonic() + _WINDOW_HIDDEN_S
            return
        self._protected[control_id] = None
        while len(self._protected) > _PROTECTED_KEPT:
            self._protected.popitem(last=False)

    async def owner_at(self, x: int, y: int) -> Window | None:
        """See `Desktop`."""
        return await self._eyes.run(x11_windows.owner_at, x, y)

    async def click(self, x: int, y: int, button: Button, count: int) -> None:
        """See `Desktop`."""
        await self._hands.run(x11_input.click, x, y, button, count)

    async def type_keys(self, text: str) -> None:
        """See `Desktop`."""
        stop = threading.Event()
        try:
            await self._hands.run(x11_input.type_text, text, stop, seconds=10 + 0.05 * len(text))
        except (asyncio.CancelledError, DeviceError):
            stop.set()
            # The thread is this connection's only one: when it is free, all keys are up again.
            with contextlib.suppress(DeviceError):
                await self._hands.run(lambda _: None)
            raise

    async def press(self, chord: Chord) -> None:
        """See `Desktop`."""
        await self._hands.run(x11_input.press, chord)

    async def scroll(self, direction: Direction, amount: int, at: tuple[int, int] | None) -> None:
        """See `Desktop`."""
        await self._hands.run(x11_input.scroll, direction, amount, at)

    async def close(self) -> None:
        """See `Desktop`."""
        self._bus.close()
        await asyncio.gather(self._eyes.close(), self._hands.close())

    async def _programs(self) -> list[Program]:
        await self._bus.connect()
        return await programs(self._bus)

    async def _active_programs(self) -> list[Program]:
        found = await self._programs()
        active = [one.process_id for one in await self.windows() if one.active]
        return [one for one in found if one.process_id in active]

    async def _named(self, found: list[Program], name: str) -> list[Program]:
        async def is_called(program: Program) -> bool:
            if program.process_name.lower() == name.lower():
                return True
            with contextlib.suppress(Gone, Silent, NotSupported):
                return str(await self._bus.get(program.ref, ACCESSIBLE, "Name")).lower() == name.lower()
            return False

        matches = await asyncio.gather(*(is_called(one) for one in found))
        named = [one for one, fits in zip(found, matches, strict=True) if fits]
        if not named:
            there = sorted({one.process_name for one in found if one.process_name})
            known = ", ".join(there[:_SHOWN]) or "none shows controls now"
            raise BadInput(f"No program {name[:60]!r} shows controls. One of: {known}")
        return named

    async def _frames(self, program: Program, window: Window) -> list[Ref]:
        """The program's controls that are one window: by place, else by title, else all of them."""
        try:
            refs = await Reader(self._bus).children(program.ref, 1)
            boxes = await asyncio.gather(*(search.box_of(self._bus, ref) for ref in refs))
            placed = [ref for ref, box in zip(refs, boxes, strict=True) if box == window.box]
            if len(placed) == 1:
                return placed
            names = await asyncio.gather(*(self._bus.get(ref, ACCESSIBLE, "Name") for ref in refs))
            return [ref for ref, name in zip(refs, names, strict=True) if name == window.title] or refs
        except (Gone, Silent, NotSupported):
            return []

    async def _read(self, ref: Ref) -> Control:
        process_id = await self._bus.process_id(ref.bus)
        program = Program(ref, process_id, process_name(process_id))
        control, _ = await Reader(self._bus, self._protected).read(ref, program)
        return control

    async def _bring_forward(self, control: Control) -> None:
        own = [one for one in await self.windows() if one.process_id == control.process_id and one.visible]
        if not own or any(one.active for one in own):
            return
        centre = control.box.centre if control.box else None
        chosen = next((one for one in reversed(own) if centre and one.box.holds(*centre)), own[-1])
        await self._hands.run(x11_windows.bring_forward, int(chosen.id, 16))

    async def _told(self, asked: Awaitable[Answer], ref: Ref, *, is_act: bool = False) -> Answer:
        """The answer, or the bus' words turned into this product's errors."""
        try:
            return await asked
        except Gone as error:
            raise stale(f"The control {self._bus.id_of(ref)[:60]}") from error
        except Silent as error:
            code = ErrorCode.OUTCOME_UNKNOWN if is_act else ErrorCode.TIMEOUT
            raise DeviceError("The program that shows this control does not answer", code) from error
        except NotSupported as error:
            # Qt answers so for objects that are gone.
            raise stale(f"The control {self._bus.id_of(ref)[:60]}") from error
