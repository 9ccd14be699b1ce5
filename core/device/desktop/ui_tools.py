"""Implements the desktop tools: finds the control that the arguments name, acts on it, and reports the
action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.controls import program_of
from core.device.desktop.control_search import Wanted, the_one
from core.device.desktop.interface import Box, Button, Control, Desktop, Scope, Window
from core.device.desktop.key_chords import parse_chord
from core.device.desktop.pressing import in_view, named, press, reachable, screen_of, screens
from core.device.desktop.target_window import (
    active_window,
    check_inside,
    control_target,
    named_window,
    only_there,
    window_target,
)
from core.device.desktop.text_entry import TextEntry
from core.device.observations import ObservationStore
from core.errors import BadInput, DeviceError, ErrorCode

_LONGEST_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class UiTools:
    """The desktop tools of a device."""

    desktop: Desktop
    observations: ObservationStore

    async def windows(self, process: str | None, title: str | None) -> dict[str, Any]:
        """`list_windows`."""
        found = await self.desktop.windows()
        return {
            "windows": [
                window_as_dict(window)
                for window in reversed(found)
                if (process is None or window.process_name.lower() == process.lower())
                and (title is None or title.lower() in window.title.lower())
            ]
        }

    async def click_element(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`click_element`: presses a control, and says what was seen then."""
        control, window = await self._meant(arguments)
        button: Button = arguments.get("button", "left")
        count = 2 if arguments.get("double_click") else 1
        pressed = await press(self.desktop, control, window, button, count)
        return {
            "clicked": True,
            "control_name": control.name,
            "box": pressed.box.as_dict() if pressed.box else None,
            "method": pressed.method,
            "scale": 1.0,
            "screen": screen_of(pressed.box, await screens(self.desktop)),
            "process_id": control.process_id,
            "process_name": control.process_name,
            "window": window_target(window),
            "control": control_target(control),
            "seen": pressed.seen.as_dict(),
        }

    async def click_point(self, x: float, y: float, observation: str, button: Button) -> dict[str, Any]:
        """`click_point`: clicks a pixel of a picture that this device took."""
        seen = self.observations.consume(observation)
        at = seen.on_screen(x, y)
        box = Box(*at, 1, 1)
        screen = screen_of(box, await screens(self.desktop))
        layers, met = await self.desktop.layers(), await self.desktop.layer_at(*at)
        # A pointer moved beyond the screen would stop at its edge, over something else.
        if screen is None or not seen.shows(*at, layers, met):
            raise DeviceError(
                "Another window is at this place than in the picture, or it has moved. Take a new picture.",
                ErrorCode.STALE_OBSERVATION,
            )
        owner = await self.desktop.owner_at(*at)
        await self.desktop.click(*at, button, 1)
        return {
            "clicked": True,
            "control_name": owner.title if owner else "",
            "box": box.as_dict(),
            "method": "pointer",
            "scale": seen.scale,
            "screen": screen,
            "process_id": owner.process_id if owner else None,
            "process_name": owner.process_name if owner else "",
            "window": window_target(owner),
            "control": None,
        }

    async def activate_window(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`activate_window`."""
        before = await active_window(self.desktop)
        window = await only_there(self.desktop, arguments)
        if window is None:
            raise BadInput("Give window_id, or process_name (or app_root_name).")
        return {"active": True, "window": window_target(window), "before": window_target(before)}

    async def type_text(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`type_text`: types at the caret, replacing a selection. No result or error has a secret text."""
        text, control_id = arguments["text"], arguments.get("control_id")
        if len(text) > _LONGEST_TEXT:
            raise BadInput(
                f"text has {len(text)} characters; at most {_LONGEST_TEXT} are typed.", ErrorCode.TOO_LARGE
            )
        window = await only_there(self.desktop, arguments)
        control = None
        if control_id is not None:
            control = await self._to_type_into(control_id)
            if window is not None:
                check_inside(control, await self.desktop.window_of(control), window)
        secret = bool(arguments.get("secret", False))
        entry = await TextEntry(self.desktop, text, control, window, secret).run()
        return {
            "typed": len(text),
            "method": entry.method,
            "process_id": entry.control.process_id if entry.control else None,
            "window": window_target(entry.window or await self._shown_in(entry.control)),
            "control": control_target(entry.control),
            "text_there": entry.stands,
        }

    async def press_key(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`press_key`."""
        chord = parse_chord(arguments["key"])
        only = await only_there(self.desktop, arguments)
        window = only or await active_window(self.desktop)
        control = await self.desktop.focused()
        await self.desktop.press(chord, only)
        return {
            "pressed": "+".join((*chord.modifiers, chord.key)),
            "window": window_target(window),
            "control": control_target(control),
        }

    async def scroll(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """`scroll`: turns the wheel over a control, over the window that is named, or at the pointer."""
        direction, amount = arguments["direction"], int(arguments.get("amount", 3))
        window, control, at = await only_there(self.desktop, arguments), None, None
        if (control_id := arguments.get("control_id")) is not None:
            control = await self.desktop.control(control_id)
            if window is not None:
                check_inside(control, await self.desktop.window_of(control), window)
            control, was_there = await in_view(self.desktop, control), control
            at = await reachable(self.desktop, control)
            if "amount" not in arguments and control is not was_there:
                # It was scrolled to, which is what was wanted.
                amount = 0
        elif window is not None:
            at = window.box.centre
        await self.desktop.scroll(direction, amount, at)
        if window is None:
            window = await self._shown_in(control)
        return {
            "scrolled": amount,
            "direction": direction,
            "window": window_target(window),
            "control": control_target(control),
        }

    async def _shown_in(self, control: Control | None) -> Window | None:
        """The window that shows a control; without one, the active window."""
        if control is None:
            return await active_window(self.desktop)
        try:
            return await self.desktop.window_of(control)
        except DeviceError:
            # An act may close the window that it acts in.
            return None

    async def _meant(self, arguments: dict[str, Any]) -> tuple[Control, Window | None]:
        """The control that a call names, and the window that shows it."""
        program, role, name = program_of(arguments), arguments.get("role"), arguments.get("name")
        only = await named_window(self.desktop, arguments) if "window_id" in arguments else None
        if (control_id := arguments.get("control_id")) is not None:
            control = await self.desktop.control(control_id)
        elif (program is None and only is None) or (role is None and name is None):
            raise BadInput(
                "Give control_id, or process_name (or app_root_name) or window_id with role, name or both."
            )
        else:
            scope = Scope(program) if only is None else Scope(window_id=only.id)
            control = the_one(await self.desktop.find(scope, Wanted(role, name)))
        shown_in = await self._shown_in(control)
        if only is not None:
            check_inside(control, shown_in, only)
        return control, shown_in

    async def _to_type_into(self, control_id: str) -> Control:
        control = await self.desktop.control(control_id)
        if "read only" in control.states or not {"enabled", "sensitive"} & set(control.states):
            raise DeviceError(
                f"{named(control)} takes no text: it is disabled or read-only.", ErrorCode.CONTROL_DISABLED
            )
        return control


def window_as_dict(window: Window) -> dict[str, Any]:
    """A window as it appears in a result."""
    return {
        "id": window.id,
        "title": window.title,
        "process_id": window.process_id,
        "process_name": window.process_name,
        "box": window.box.as_dict(),
        "active": window.active,
        "visible": window.visible,
        "minimized": window.minimized,
        "workspace": window.workspace,
    }
