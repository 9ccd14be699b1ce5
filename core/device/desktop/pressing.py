"""Presses a control as a user would, and looks again: what opened, what closed, what the control says now.

The accessibility action is used first. The pointer is used where there is no action, for another button or a
double click, and where the desktop prefers it (`Desktop.prefers_pointer`): an action may make a toolkit deaf
until the dialog that it opened is closed, or arm a button and never release it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal

from core.device.desktop.interface import PROTECTED, Box, Button, Control, Desktop, Window
from core.device.desktop.key_chords import Chord
from core.device.desktop.target_window import brought_forward, out_of_sight, window_target
from core.errors import DeviceError, ErrorCode

Method = Literal["accessibility", "pointer"]
MENU_ITEMS = ("menu item", "check menu item", "radio menu item", "menu")
# A press through accessibility shows a button pressed for a tenth of a second, and a check box that springs
# back does so after three.
_SETTLES_S = 0.4
# A popup is drawn by its program before it is mapped.
_OPENS_S = 1.0
# The time that a program has to answer an action after the dialog that it opened is there: some answer only
# after the dialog has been closed.
_ANSWERS_S = 0.15
_SHOWS_S = 1.0
# Before the second look; before each further one twice as long.
_FIRST_S = 0.04
_POLL_S = 0.03
_READ_S = 0.4
# States that do not tell what a press did: the focus comes with a click, whatever it did.
_PASSING = {"focused", "active", PROTECTED}
# Windows of another program that a program's dialogs may be in.
_PORTAL = "xdg-desktop-portal"


@dataclass(frozen=True, slots=True)
class Sight:
    """The windows on the screen and the popups, by id."""

    windows: dict[str, Window] = field(default_factory=dict)
    popups: frozenset[str] = frozenset()

    @classmethod
    def of(cls, shown: list[Window]) -> Sight:
        """The windows and controls on the screen."""
        windows = {one.id: one for one in shown if not one.is_popup}
        return cls(windows, frozenset(one.id for one in shown if one.is_popup))


@dataclass(slots=True)
class Seen:
    """The observed change after a press. `gained` and `lost` are states of the control."""

    control: Literal["there", "not showing", "gone", "not answering"] = "there"
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    opened: list[Window] = field(default_factory=list)
    closed: list[Window] = field(default_factory=list)
    popup: bool = False

    @property
    def windows_changed(self) -> bool:
        """Whether a window opened or closed."""
        return bool(self.opened or self.closed)

    @property
    def anything(self) -> bool:
        """Whether anything is otherwise than before the press."""
        return bool(self.windows_changed or self.popup or self.gained or self.lost) or self.control in (
            "gone",
            "not showing",
        )

    def as_dict(self) -> dict[str, Any]:
        """The field `seen` of a result."""
        return {
            "control": self.control,
            "gained": list(self.gained),
            "lost": list(self.lost),
            "opened": [window_target(one) for one in self.opened],
            "closed": [window_target(one) for one in self.closed],
            "popup": self.popup,
        }


@dataclass(frozen=True, slots=True)
class Pressed:
    """How a control was pressed, and what was seen then. `box` is where it was."""

    method: Method
    box: Box | None
    seen: Seen


class NotPressed(DeviceError):
    """A control that was not pressed; nothing was done."""


async def press(
    desktop: Desktop, control: Control, window: Window | None, button: Button = "left", count: int = 1
) -> Pressed:
    """Press a control that `window` shows.

    Raises:
        NotPressed: it is disabled, covered or not showing, or there is no pointer; nothing was done.
        DeviceError: it was pressed without the effect that a press has, or whether it was is not known (code
            `outcome_unknown`).
    """
    if not _is_enabled(control):
        raise NotPressed(f"{named(control)} is disabled.", ErrorCode.CONTROL_DISABLED)
    return await _Press(desktop, control, window, button, count).run()


async def in_view(desktop: Desktop, control: Control) -> Control:
    """The control, scrolled to if it is not on the screen; as it was where that does not help."""
    if await _is_in_view(desktop, control) or not await desktop.scroll_to(control):
        return control
    async for again in _readings(desktop, control, _SHOWS_S):
        if await _is_in_view(desktop, again):
            return again
    return control


async def reachable(desktop: Desktop, control: Control) -> tuple[int, int]:
    """The centre of a control, if a click there would reach the control.

    Raises:
        NotPressed: it is not showing, or covered.
    """
    if control.box is None or not await _is_shown(desktop, control):
        raise NotPressed(f"{named(control)} is not showing.", ErrorCode.CONTROL_NOT_SHOWING)
    x, y = control.box.centre
    if not any(one.holds(x, y) for one in await screens(desktop)):
        raise NotPressed(f"{named(control)} is not on the screen.", ErrorCode.CONTROL_NOT_SHOWING)
    if obstacle := await desktop.in_the_way(control, x, y):
        raise NotPressed(f"{named(control)} is {obstacle}.", ErrorCode.CONTROL_COVERED)
    return x, y


async def forward(desktop: Desktop, window: Window | None) -> None:
    """Bring the window of a control forward, if it can be: what still covers it then is said by a look."""
    if window is not None and not window.active and not window.is_popup:
        with contextlib.suppress(DeviceError):
            await brought_forward(desktop, window)


async def screens(desktop: Desktop) -> list[Box]:
    """The monitors; none where they cannot be read."""
    try:
        return await desktop.monitors()
    except DeviceError:
        # On Wayland, controls can be pressed although no program can read the screen.
        return []


def named(control: Control) -> str:
    """A control in the words of an error message."""
    return f"The {control.role} {control.name!r}" if control.name else f"The {control.role}"


def screen_of(box: Box | None, monitors: list[Box]) -> int | None:
    """The number of the monitor that shows the centre of a box."""
    if box is None:
        return None
    return next((index for index, one in enumerate(monitors, 1) if one.holds(*box.centre)), None)


@dataclass(slots=True)
class _Press:
    desktop: Desktop
    control: Control
    window: Window | None
    button: Button
    count: int

    async def run(self) -> Pressed:
        must_point = self.button != "left" or self.count > 1
        points = must_point or await self.desktop.prefers_pointer(self.control)
        if must_point or not points:
            if _opens_popup(self.control):
                await self._to_front()
            before = await self._look()
            if not points and (pressed := await self._perform(before)) is not None:
                return pressed
            await self._need_pointer()
        elif (pressed := await self._point_if_reached()) is not None:
            return pressed
        else:
            before = await self._look()
            if (pressed := await self._perform(before)) is not None:
                return pressed
        return await self._point()

    async def _point_if_reached(self) -> Pressed | None:
        """Press with the pointer; None where the pointer cannot reach the control."""
        is_hidden = self.control.box is None and "showing" not in self.control.states
        if is_hidden and self.control.role not in MENU_ITEMS:
            # A tool bar or a page that is switched off: nothing to scroll to.
            return None
        try:
            await self._need_pointer()
            if self.control.role in MENU_ITEMS:
                await self._open_menus()
            return await self._point()
        except NotPressed:
            return None

    async def _point(self) -> Pressed:
        x, y = await self._reach()
        before = await self._look()
        await self.desktop.click(x, y, self.button, self.count)
        return await self._pressed("pointer", before)

    async def _reach(self) -> tuple[int, int]:
        """Where to click, after the control was scrolled to and its window brought forward."""
        self.control = await in_view(self.desktop, self.control)
        try:
            at = await reachable(self.desktop, self.control)
            if not _opens_popup(self.control) or self.window is None or self.window.active:
                return at
        except NotPressed as error:
            hidden = self.window is not None and out_of_sight(self.window) is not None
            if error.code is not ErrorCode.CONTROL_COVERED and not hidden:
                raise
        await self._to_front()
        return await reachable(self.desktop, self.control)

    async def _to_front(self) -> None:
        """Bring the control's window forward and scroll to the control, which is then read again."""
        if self.window is not None and not self.window.active:
            await forward(self.desktop, self.window)
            self.control = await self.desktop.control(self.control.id)
        self.control = await in_view(self.desktop, self.control)

    async def _open_menus(self) -> None:
        """Open the menus that hide a menu item, as a user does; closes them again where one does not open.

        Raises:
            NotPressed: the item is not showing in the end.
        """
        if await _is_in_view(self.desktop, self.control):
            return
        above = await self.desktop.menus_above(self.control)
        before = await self._look()
        for menu, below in zip(above, [*above[1:], self.control], strict=True):
            if await _is_in_view(self.desktop, await self.desktop.control(below.id)):
                continue
            inner = _Press(self.desktop, await self.desktop.control(menu.id), self.window, "left", 1)
            try:
                x, y = await inner._reach()
                await self.desktop.click(x, y, "left", 1)
                async for again in _readings(self.desktop, below, _SHOWS_S):
                    if await _is_in_view(self.desktop, again):
                        break
                else:
                    raise NotPressed(f"{named(menu)} does not open.", ErrorCode.CONTROL_NOT_SHOWING)
            except NotPressed:
                if (await self._look()).popups - before.popups:
                    await self.desktop.press(Chord((), "escape"))
                raise
        self.control = await self.desktop.control(self.control.id)

    async def _perform(self, before: Sight) -> Pressed | None:
        """Perform the accessibility action; None where there is none.

        An action that has not returned while the dialog that it opened is there has been done.
        """
        async with asyncio.TaskGroup() as group:
            action = group.create_task(self._answer())
            since: float | None = None
            while not action.done():
                await asyncio.wait({action}, timeout=_ANSWERS_S)
                if action.done():
                    break
                if since is None and self._opened(await self._look(), before):
                    since = time.monotonic()
                if since is not None and time.monotonic() - since >= _ANSWERS_S:
                    action.cancel()
                    return await self._pressed("accessibility", before)
        done = action.result()
        if done is None:
            return None
        if isinstance(done, str):
            return await self._pressed("accessibility", before)
        # It may have been done all the same, and its program says so late or never.
        seen = await self._seen(before, await self._look())
        if not seen.anything:
            raise done
        return Pressed("accessibility", self.control.box, seen)

    async def _answer(self) -> str | DeviceError | None:
        """The name of the action that was performed, or the error of one that may have been."""
        try:
            return await self.desktop.perform(self.control)
        except DeviceError as error:
            if error.code is not ErrorCode.OUTCOME_UNKNOWN:
                raise
            return error

    async def _pressed(self, method: Method, before: Sight) -> Pressed:
        """Look until the effect has settled.

        Raises:
            DeviceError: the press had no effect, and it must have had one.
        """
        opens = _opens_popup(self.control)
        until = time.monotonic() + (_OPENS_S if opens else _SETTLES_S)
        pause = _FIRST_S
        while True:
            seen = await self._seen(before, await self._look())
            # A dialog may open after the menu has closed from which it was opened.
            if seen.windows_changed or (opens and seen.anything) or time.monotonic() >= until:
                break
            await asyncio.sleep(min(pause, until - time.monotonic()))
            pause *= 2
        box = self.control.box
        if _is_only_armed(self.control, seen):
            # Not clicked as well: a program that is only slow would be pressed twice.
            raise DeviceError(
                f"{named(self.control)} is armed, and was not released: its program has not acted on it yet.",
                ErrorCode.OUTCOME_UNKNOWN,
            )
        if opens and not seen.anything and _says_what_opens(self.control):
            raise DeviceError(
                f"{named(self.control)} was pressed, and nothing opened within {_OPENS_S:g} s.",
                ErrorCode.TOOL_FAILED,
            )
        return Pressed(method, box, seen)

    async def _need_pointer(self) -> None:
        if lack := await asyncio.to_thread(self.desktop.lack, "input"):
            error = lack.error()
            raise NotPressed(error.message, ErrorCode.TOOL_FAILED)

    async def _look(self) -> Sight:
        try:
            return Sight.of(await self.desktop.shown())
        except DeviceError:
            # On Wayland no program can list the windows.
            return Sight()

    async def _seen(self, before: Sight, now: Sight) -> Seen:
        seen = Seen(
            opened=[one for key, one in now.windows.items() if key not in before.windows],
            closed=[one for key, one in before.windows.items() if key not in now.windows],
            popup=bool(now.popups - before.popups),
        )
        try:
            async with asyncio.timeout(_READ_S):
                states = await self.desktop.states(self.control)
        except TimeoutError:
            seen.control = "not answering"
            return seen
        except DeviceError as error:
            seen.control = "gone" if error.code is ErrorCode.STALE_OBSERVATION else "not answering"
            return seen
        if "defunct" in states:
            seen.control = "gone"
        elif "showing" in self.control.states and "showing" not in states:
            seen.control = "not showing"
        then, after = (set(one) - _PASSING for one in (self.control.states, states))
        seen.gained, seen.lost = tuple(sorted(after - then)), tuple(sorted(then - after))
        return seen

    def _opened(self, now: Sight, before: Sight) -> bool:
        """Whether a window of the control's program opened; its dialogs may be the portal's."""
        fresh = (one for key, one in now.windows.items() if key not in before.windows)
        own = {self.control.process_id, self.window.process_id if self.window else None}
        return any(one.process_id in own or one.process_name.startswith(_PORTAL) for one in fresh)


async def _readings(desktop: Desktop, control: Control, seconds: float) -> AsyncIterator[Control]:
    """The control as it is now, again and again for some seconds."""
    until = time.monotonic() + seconds
    while True:
        yield await desktop.control(control.id)
        if time.monotonic() >= until:
            return
        await asyncio.sleep(_POLL_S)


async def _is_in_view(desktop: Desktop, control: Control) -> bool:
    if control.box is None or not await _is_shown(desktop, control):
        return False
    monitors = await screens(desktop)
    return not monitors or any(one.holds(*control.box.centre) for one in monitors)


async def _is_shown(desktop: Desktop, control: Control) -> bool:
    """Whether a control is showing; GTK 2 does not say so of the items of an open menu."""
    if "showing" in control.states:
        return True
    if control.role not in MENU_ITEMS or control.box is None:
        return False
    with contextlib.suppress(DeviceError):
        owner = await desktop.owner_at(*control.box.centre)
        return owner is not None and owner.is_popup and owner.process_id == control.process_id
    return False


def _is_enabled(control: Control) -> bool:
    return "enabled" in control.states or "sensitive" in control.states


def _opens_popup(control: Control) -> bool:
    return control.role in ("combo box", "menu") or "has popup" in control.states


def _says_what_opens(control: Control) -> bool:
    """Whether the control tells when its popup is open, so that one that stays closed did not open."""
    return "expandable" in control.states and "expanded" not in control.states


def _is_only_armed(control: Control, seen: Seen) -> bool:
    """Whether a press left a button armed and did nothing else."""
    return (
        control.role in ("push button", "toggle button", "check box", "radio button")
        and "armed" in seen.gained
        and set(seen.gained) <= {"armed", "pressed"}
        and not (seen.lost or seen.windows_changed or seen.popup)
        and seen.control == "there"
    )
