"""The Linux desktop: AT-SPI for controls, X11 with XTEST for windows, pointer and keys."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from core.controls import SHOWING
from core.device.desktop.control_search import Found, Wanted, nearest
from core.device.desktop.interface import (
    PROTECTED,
    SEARCHED_BOUNDS,
    Bounds,
    Box,
    Button,
    Control,
    Desktop,
    Direction,
    EditPoint,
    Focus,
    Hidden,
    Layer,
    Need,
    Scope,
    Stacking,
    Tree,
    Unavailability,
    Window,
    monitors_now,
    stale,
)
from core.device.desktop.key_chords import Chord
from core.device.desktop.linux import actions, focus, text_fields, x11_input, x11_windows
from core.device.desktop.linux.atspi import (
    NO_BUS,
    AccessibilityBus,
    Gone,
    NotSupported,
    Ref,
    Silent,
    find_bus,
)
from core.device.desktop.linux.atspi import session_bus_address as session_bus
from core.device.desktop.linux.atspi_constants import ACCESSIBLE, ROOT, TABLE
from core.device.desktop.linux.coordinates import Frame, Places, home_of, places_of
from core.device.desktop.linux.focus import Search
from core.device.desktop.linux.redaction import find_hidden
from core.device.desktop.linux.stacking import read_stacking
from core.device.desktop.linux.tree_reader import Program, Reader, Walk, process_name, programs
from core.device.desktop.linux.visible_children import cell_at, cell_place
from core.device.desktop.linux.x11_connection import XLink
from core.device.desktop.linux.x11_display import display_lack
from core.device.desktop.sensitive_fields import SensitiveFields
from core.device.desktop.target_window import out_of_sight
from core.errors import BadInput, DeviceError, ErrorCode

Answer = TypeVar("Answer")
_LACK_S = 2.0
_FOCUS_S = 1.0
_POLL_S = 0.02
_SHOWN = 10
_MOST_FOUND = 20
_TABLES = ("table", "tree table")


# A program to read, and the objects at which to start; None for all of it.
_Start = tuple[Program, list[Ref] | None]


class LinuxDesktop(Desktop):
    """The Linux implementation of `Desktop`."""

    def __init__(self) -> None:
        self._bus = AccessibilityBus()
        # Two connections, so that reading does not wait while a long text is typed.
        self._eyes = XLink("desktop eyes")
        self._hands = XLink("desktop hands", acts=True)
        self._secrecy = SensitiveFields()

    def lack(self, need: Need) -> Unavailability | None:
        """See `Desktop`."""
        if need != "controls":
            return display_lack(xtest=need == "input")
        if session_bus() is None:
            return NO_BUS
        # In a thread, because this is called both with and without a running event loop.
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            try:
                thread.submit(asyncio.run, find_bus(_LACK_S)).result()
            except DeviceError as error:
                return Unavailability(
                    error.message.removesuffix(f". {NO_BUS.how_to_fix}."), NO_BUS.how_to_fix
                )
        return None

    async def monitors(self) -> list[Box]:
        """See `Desktop`."""
        return await self._eyes.run(lambda _: monitors_now())

    async def windows(self) -> list[Window]:
        """See `Desktop`."""
        return await self._eyes.run(x11_windows.list_windows)

    async def bring_forward(self, window: Window) -> None:
        """See `Desktop`."""
        await self._hands.run(x11_windows.bring_forward, int(window.id, 16))

    async def window_of(self, control: Control) -> Window | None:
        """See `Desktop`."""
        ref = self._bus.ref_of(control.id)
        try:
            windows = await self.windows()
        except DeviceError:
            # On Wayland no program can list the windows.
            return None
        places, frame = await self._told(self._home(ref, windows), ref)
        own = [one for one in windows if one.process_id == places.process_id]
        if frame is not None:
            own = [one for one in windows if one.id in frame.windows] or own
        centre = control.box.centre if control.box else None
        around = [one for one in own if centre and one.visible and one.box.holds(*centre)]
        return next((one for one in own if one.active), next(reversed(around or own), None))

    async def processes_called(self, name: str) -> set[int]:
        """See `Desktop`."""
        try:
            return {one.process_id for one in await self._named(await self._programs(), name)}
        except (BadInput, DeviceError):
            return set()

    async def tree(self, scope: Scope, bounds: Bounds) -> Tree:
        """See `Desktop`."""
        return await _read_all(await self._walking(bounds), await self._scoped(scope))

    async def find(self, scope: Scope, wanted: Wanted, *, showing: bool = False) -> Found[Control]:
        """See `Desktop`.

        What is on the screen is searched first, and only its roles, states and names are read. The rest of
        the programs, such as closed menus, is searched only where nothing on the screen fits.
        """
        start = await self._scoped(scope)
        bounds = replace(SEARCHED_BOUNDS, detail="names", showing=True)
        walk = await self._walking(bounds, wanted)
        found = await _read_all(walk, start)
        if not (fit := wanted.fitting(found.all())):
            fit = await self._cells(walk, found, wanted)
        if not fit and not showing:
            walk = await self._walking(replace(bounds, showing=False), wanted)
            found = await _read_all(walk, start)
            fit = wanted.fitting(found.all())
        near: list[Control] = []
        if not fit:
            with contextlib.suppress(Silent):
                await walk.complete(found.all())
            near = nearest(found.all(), wanted)
        read = await asyncio.gather(*(self._again(one) for one in fit[:_MOST_FOUND]))
        controls = [one for one in read if one is not None]
        is_complete = not found.truncated and len(fit) <= _MOST_FOUND
        return Found(wanted, controls, near, is_complete, found.not_answering)

    async def cell(self, table_id: str, row: int, column: int) -> Control:
        """See `Desktop`."""
        await self._bus.connect()
        table = self._bus.ref_of(table_id)
        reader = Reader(self._bus, self._secrecy)
        if TABLE not in await self._told(reader.interfaces(table), table):
            raise BadInput(f"The control {table_id[:60]} is not a table.")
        ref = await self._told(cell_at(self._bus, table, row - 1, column - 1), table)
        if ref is None:
            raise BadInput(
                f"The table has no cell in row {row}, column {column}.", ErrorCode.CONTROL_NOT_FOUND
            )
        return await self._told(self._read(ref), ref)

    async def control(self, control_id: str) -> Control:
        """See `Desktop`."""
        await self._bus.connect()
        ref = self._bus.ref_of(control_id)
        return await self._told(self._read(ref), ref)

    async def perform(self, control: Control) -> str | None:
        """See `Desktop`."""
        ref = self._bus.ref_of(control.id)
        action = await self._told(actions.pressing_action(self._bus, ref, control), ref)
        if action is None:
            return None
        done = await self._told(actions.do(self._bus, ref, action), ref, is_act=True)
        return action.name if done else None

    async def prefers_pointer(self, control: Control) -> bool:
        """See `Desktop`."""
        ref = self._bus.ref_of(control.id)
        return await self._told(actions.prefers_pointer(self._bus, ref, control), ref)

    async def menus_above(self, control: Control) -> list[Control]:
        """See `Desktop`."""
        ref = self._bus.ref_of(control.id)
        above = await self._told(actions.menus_above(self._bus, ref), ref)
        return [await self._told(self._read(menu), menu) for menu in above]

    async def scroll_to(self, control: Control) -> bool:
        """See `Desktop`."""
        return await actions.scroll_to(self._bus, self._bus.ref_of(control.id), control)

    async def shown(self) -> list[Window]:
        """See `Desktop`."""
        return await self._eyes.run(x11_windows.shown_windows)

    async def states(self, control: Control) -> tuple[str, ...]:
        """See `Desktop`."""
        ref = self._bus.ref_of(control.id)
        return await self._told(actions.states(self._bus, ref), ref)

    async def focus(self, control: Control) -> None:
        """See `Desktop`."""
        ref = self._bus.ref_of(control.id)
        with contextlib.suppress(DeviceError, Gone, Silent, NotSupported):
            # Without X (on Wayland) the program itself may still accept the focus.
            await self._bring_forward(control)
        until = time.monotonic() + _FOCUS_S
        while not await self._told(actions.has_focus(self._bus, ref), ref):
            if time.monotonic() >= until:
                raise DeviceError(
                    f"The {control.role} {control.name!r} does not take the focus.",
                    ErrorCode.KEYBOARD_ELSEWHERE,
                )
            await self._told(actions.focus(self._bus, ref), ref)
            await asyncio.sleep(_POLL_S)

    async def focused(self) -> Control | None:
        """See `Desktop`."""
        return (await self.keyboard()).control

    async def keyboard(self) -> Focus:
        """See `Desktop`."""
        try:
            windows, there = await self.windows(), await self._programs()
        except DeviceError:
            # On Wayland no program can list the windows.
            return Focus(None, "untold")
        active = next((one for one in windows if one.active), None)
        if active is None:
            return Focus(None, "nothing")
        own = [one for one in there if one.process_id == active.process_id]
        if not own:
            return Focus(None, "untold")
        was_menu_open = await self._eyes.run(x11_windows.is_menu_open, active.process_id)
        search = await self._search_focus(own, was_menu_open)
        is_menu_open = await self._eyes.run(x11_windows.is_menu_open, active.process_id)
        if is_menu_open and not was_menu_open:
            search = await self._search_focus(own, is_menu_open)
        found = focus.chosen(search.candidates)
        if found is None and search.may_hide:
            return Focus(None, "untold")
        # LibreOffice goes on reporting the document as focused while a menu is open.
        if is_menu_open and not search.is_gtk4 and (found is None or not focus.has_menu_focus(found)):
            return Focus(None, "nothing")
        with contextlib.suppress(Gone, Silent, NotSupported):
            if found is not None and not found.is_blank:
                return Focus(await self._read(found.ref), "control")
        if not search.is_whole:
            return Focus(None, "not searched")
        is_nothing = found is None and (search.tells_controls or is_menu_open)
        return Focus(None, "nothing" if is_nothing else "untold")

    async def _search_focus(self, own: list[Program], is_menu_open: bool) -> Search:
        reader = Reader(self._bus, self._secrecy)
        return await focus.find_focus(self._bus, reader, own, is_menu_open=is_menu_open)

    async def has_focus(self, control: Control) -> bool:
        """See `Desktop`."""
        ref = self._bus.ref_of(control.id)
        try:
            return await actions.has_focus(self._bus, ref)
        except (Gone, NotSupported):
            return False
        except Silent as error:
            words = "The program that shows this control does not answer"
            raise DeviceError(words, ErrorCode.PROGRAM_NOT_ANSWERING) from error

    async def edit_point(self, control: Control) -> EditPoint | None:
        """See `Desktop`."""
        if PROTECTED in control.states or control.id in self._secrecy:
            return None
        ref = self._bus.ref_of(control.id)
        return await self._told(text_fields.edit_point(self._bus, ref), ref)

    async def text_between(self, control: Control, start: int, end: int) -> str | None:
        """See `Desktop`."""
        if PROTECTED in control.states or control.id in self._secrecy:
            return None
        ref = self._bus.ref_of(control.id)
        return await self._told(text_fields.between(self._bus, ref, start, end), ref)

    async def delete_text(self, control: Control, start: int, end: int) -> bool:
        """See `Desktop`."""
        ref = self._bus.ref_of(control.id)
        return await self._told(text_fields.delete(self._bus, ref, start, end), ref, is_act=True)

    async def insert_text(self, control: Control, text: str) -> bool:
        """See `Desktop`."""
        if not control.takes_text:
            return False
        if "editable" not in control.states:
            # GTK reports success for a read-only field and discards the text.
            raise DeviceError(
                f"The {control.role} {control.name!r} is read-only.", ErrorCode.CONTROL_DISABLED
            )
        ref = self._bus.ref_of(control.id)
        return await self._told(text_fields.insert_text(self._bus, ref, text), ref, is_act=True)

    async def hidden(self) -> Hidden:
        """See `Desktop`."""
        windows = await self._shown()
        hidden = Hidden()
        for one in windows:
            if self._secrecy.hides(one):
                hidden.add(one.box, one.id)
        try:
            found = await self._programs()
        except DeviceError:
            hidden.not_searched.append("every program: the accessibility bus cannot be reached")
            # Programs that had password fields may still show them.
            known = self._secrecy.owners()
            hidden.boxes.extend(one.box for one in windows if one.process_id in known)
            return hidden
        await find_hidden(self._bus, found, self._secrecy, windows, hidden)
        return hidden

    async def stacking(self) -> Stacking | None:
        """See `Desktop`."""
        try:
            return await self._eyes.run(read_stacking)
        except DeviceError:
            return None

    def protect(self, control_id: str | None) -> None:
        """See `Desktop`."""
        if control_id is None:
            self._secrecy.typed_somewhere()
        else:
            self._secrecy.typed_into(control_id)

    async def owner_at(self, x: int, y: int) -> Window | None:
        """See `Desktop`."""
        return await self._eyes.run(x11_windows.owner_at, x, y)

    async def layers(self) -> list[Layer]:
        """See `Desktop`."""
        return await self._eyes.run(x11_windows.layers)

    async def layer_at(self, x: int, y: int) -> str | None:
        """See `Desktop`."""
        return await self._eyes.run(x11_windows.layer_at, x, y)

    async def in_the_way(self, control: Control, x: int, y: int) -> str | None:
        """See `Desktop`."""
        owner = await self.owner_at(x, y)
        ref = self._bus.ref_of(control.id)
        places, frame = await self._told(self._home(ref), ref)
        if owner is not None and _may_hold(owner, frame, places.process_id):
            return None
        shown_in = await self.window_of(control)
        if shown_in is not None and (reason := out_of_sight(shown_in)):
            return f"not on the screen: {reason}"
        if owner is None:
            return "not on the screen: no window is at its place"
        return f"covered by the window {owner.title!r} of {owner.process_name or 'an unknown program'}"

    async def click(self, x: int, y: int, button: Button, count: int) -> None:
        """See `Desktop`."""
        await self._hands.run(x11_input.click, x, y, button, count)

    async def type_keys(self, text: str, window: Window | None = None) -> int:
        """See `Desktop`."""
        stop = threading.Event()
        number = await self._hands.run(x11_windows.active_window) if window is None else int(window.id, 16)
        secret_in = f"0x{number:x}" if self._secrecy.is_pending and number is not None else None
        self._secrecy.typed_in_window(secret_in)
        try:
            seconds = 10 + 0.1 * len(text)
            typed = await self._hands.run(x11_input.type_text, text, stop, number, seconds=seconds)
            # The time for which the window is redacted starts after the last key.
            self._secrecy.typed_in_window(secret_in)
            return typed
        except (asyncio.CancelledError, DeviceError):
            stop.set()
            # The connection has a single thread: when it is free again, all keys are released.
            with contextlib.suppress(DeviceError):
                await self._hands.run(lambda _: None)
            raise

    async def press(self, chord: Chord, window: Window | None = None) -> None:
        """See `Desktop`."""
        await self._hands.run(x11_input.press, chord, None if window is None else int(window.id, 16))

    async def scroll(self, direction: Direction, amount: int, at: tuple[int, int] | None) -> None:
        """See `Desktop`."""
        await self._hands.run(x11_input.scroll, direction, amount, at)

    async def close(self) -> None:
        """See `Desktop`."""
        self._bus.close()
        await asyncio.gather(self._eyes.close(), self._hands.close())

    async def _shown(self) -> list[Window]:
        try:
            return await self._eyes.run(x11_windows.shown_windows)
        except DeviceError:
            # On Wayland, the accessibility bus is the only source of data.
            return []

    async def _home(self, ref: Ref, windows: list[Window] | None = None) -> tuple[Places, Frame | None]:
        """The frames of the program that shows a control, and the frame that contains it."""
        home = await home_of(self._bus, ref)
        places = await places_of(self._bus, home.root, await self._shown() if windows is None else windows)
        return places, await places.frame_of(self._bus, home)

    async def _programs(self) -> list[Program]:
        await self._bus.connect()
        return await programs(self._bus)

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
            raise BadInput(
                f"No program {name[:60]!r} shows controls. One of: {known}.", ErrorCode.CONTROL_NOT_FOUND
            )
        return named

    async def _scoped(self, scope: Scope) -> list[_Start]:
        """The programs to read, each with the objects at which to start; None for all."""
        found = await self._programs()
        if scope.below is not None:
            ref = self._bus.ref_of(scope.below)
            home = await self._told(home_of(self._bus, ref), ref)
            process_id = await self._told(self._bus.process_id(home.root.bus), ref)
            name = process_name(process_id)
            return [(Program(home.root, process_id, name), [ref])]
        if scope.window_id is not None:
            window = await self._eyes.run(x11_windows.window_of_id, scope.window_id)
            found = [one for one in found if one.process_id == window.process_id][:1]
            if not found:
                raise BadInput(f"The program of window {scope.window_id} tells nothing about its controls.")
            return [(found[0], await self._frames(found[0], window))]
        if scope.process_name is not None:
            found = await self._named(found, scope.process_name)
        return [(one, None) for one in found]

    async def _walking(self, bounds: Bounds, wanted: Wanted | None = None) -> Walk:
        return Walk(self._bus, bounds, self._secrecy, await self._shown(), wanted)

    async def _again(self, known: Control) -> Control | None:
        """A control that a search found, with everything that is known about it; None if it is gone."""
        try:
            control = await self.control(known.id)
        except DeviceError as error:
            if error.code is ErrorCode.STALE_OBSERVATION:
                return None
            raise
        control.name = control.name or known.name
        return control

    async def _cells(self, walk: Walk, tree: Tree, wanted: Wanted) -> list[Control]:
        """The cell of a spreadsheet on the screen that has the wanted name, such as B2."""
        place = cell_place(wanted.name or "")
        if place is None:
            return []
        found = []
        tables = [one for one in tree.all() if one.not_showing]
        with contextlib.suppress(Silent):
            await walk.complete(tables)
        for table in tables:
            if table.role in _TABLES and SHOWING in table.states:
                with contextlib.suppress(Gone, Silent, NotSupported, DeviceError):
                    ref = await cell_at(self._bus, self._bus.ref_of(table.id), *place)
                    if ref is not None:
                        found.append(await self._read(ref))
        return wanted.fitting(found)

    async def _frames(self, program: Program, window: Window) -> list[Ref] | None:
        """The program's controls that represent a window; None where they are not known."""
        try:
            places, _ = await self._home(program.ref)
        except (Gone, Silent, NotSupported):
            return []
        return [frame.ref for frame in places.frames if window.id in frame.windows] or None

    async def _read(self, ref: Ref, program: Program | None = None) -> Control:
        if program is None:
            process_id = await self._bus.process_id(ref.bus)
            program = Program(Ref(ref.bus, ROOT), process_id, process_name(process_id))
        places, frame = await self._home(ref)
        return await Reader(self._bus, self._secrecy).read(ref, program, places.of(frame))

    async def _bring_forward(self, control: Control) -> None:
        window = await self.window_of(control)
        if window is not None and not window.active:
            await self.bring_forward(window)

    async def _told(self, asked: Awaitable[Answer], ref: Ref, *, is_act: bool = False) -> Answer:
        """The answer of a bus call, with bus exceptions converted to `DeviceError`."""
        try:
            return await asked
        except Gone as error:
            if is_act and error.was_sent:
                raise DeviceError(
                    "The program that shows this control ended before it answered.", ErrorCode.OUTCOME_UNKNOWN
                ) from error
            raise stale(f"The control {self._bus.id_of(ref)[:60]}") from error
        except Silent as error:
            words = "The program that shows this control does not answer"
            is_unknown = is_act and error.was_sent
            code = ErrorCode.OUTCOME_UNKNOWN if is_unknown else ErrorCode.PROGRAM_NOT_ANSWERING
            raise DeviceError(words, code) from error
        except NotSupported as error:
            # Qt answers so for objects that are gone.
            raise stale(f"The control {self._bus.id_of(ref)[:60]}") from error


async def _read_all(walk: Walk, start: list[_Start]) -> Tree:
    roots = await asyncio.gather(*(walk.program(*one) for one in start))
    return Tree([one for one in roots if one is not None], walk.truncated, walk.silent)


def _may_hold(owner: Window, frame: Frame | None, process_id: int | None) -> bool:
    """Whether a control may be in the topmost window at its position."""
    if frame is not None and owner.id in frame.windows:
        return True
    # Menus have windows of their own.
    is_known = frame is not None and bool(frame.windows) and not owner.is_popup
    return owner.process_id == process_id and not is_known
