"""Finds the window that a call is meant for, brings it forward, and says which window and control were used.

A call that names a window (`window_id`) or a program (`process_name`) acts there or nowhere: in another
window the same keys may do harm.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from core.controls import program_of
from core.device.desktop.interface import Control, Desktop, Window, stale
from core.errors import BadInput, DeviceError, ErrorCode
from core.text import sentences

# A window manager that must first show another workspace may take some tenths of a second.
_FORWARD_S = 2.0
_POLL_S = 0.02
_LISTED = 10


async def named_window(desktop: Desktop, arguments: Mapping[str, Any]) -> Window | None:
    """The window that a call's `window_id` or `process_name` means; None where it names neither.

    Of a program's windows the active one is meant, then the only one, then the topmost of the dialogs that
    belong to the only one.

    Raises:
        BadInput: no window or several windows fit, or the window belongs to another program.
        DeviceError: no window has the id (code `stale_observation`).
    """
    window_id, program = arguments.get("window_id"), program_of(arguments)
    if window_id is None and program is None:
        return None
    windows = await desktop.windows()
    own = await _of_program(desktop, windows, program) if program is not None else windows
    if window_id is None:
        return _only(windows, own, str(program))
    window = next((one for one in windows if same_id(one.id, window_id)), None)
    if window is None:
        raise stale(f"The window {window_id[:60]}")
    if window not in own:
        raise BadInput(f"{described(window)} is not a window of {str(program)[:60]!r}.")
    return window


async def brought_forward(desktop: Desktop, window: Window) -> Window:
    """The window, or the dialog that blocks it, after it was raised and became active.

    Raises:
        DeviceError: it did not become active within two seconds; the message says why, as far as known.
    """
    # A window manager says for a moment that a window is active which it is just minimizing.
    if window.active and out_of_sight(window) is None:
        return window
    if (dialog := _active_dialog(await desktop.windows(), window)) is not None:
        return dialog
    await desktop.bring_forward(window)
    until = time.monotonic() + _FORWARD_S
    before: Window | None = None
    while True:
        windows = await desktop.windows()
        now = next((one for one in windows if one.id == window.id), None)
        if now is None:
            raise stale(f"The window {window.id}")
        active = next((one for one in windows if one.active), None)
        is_there = now.active or _active_dialog(windows, now) is not None
        # A window that comes back from its icon is first mapped elsewhere, then moved to its place.
        if active is not None and is_there and active.visible and active == before:
            return active
        before = active
        if time.monotonic() >= until:
            break
        await asyncio.sleep(_POLL_S)
    reason = out_of_sight(now) or (
        f"the keyboard is in {described(active)}" if active else "no window has the keyboard"
    )
    raise DeviceError(
        sentences(f"{described(now)} did not come to the front: {reason}"), ErrorCode.KEYBOARD_ELSEWHERE
    )


async def only_there(desktop: Desktop, arguments: Mapping[str, Any]) -> Window | None:
    """The window that a call names, brought forward; None where the call names none."""
    window = await named_window(desktop, arguments)
    return None if window is None else await brought_forward(desktop, window)


async def active_window(desktop: Desktop) -> Window | None:
    """The window that keys go to; None where it is not known."""
    try:
        return next((one for one in await desktop.windows() if one.active), None)
    except DeviceError:
        # On Wayland no program can list the windows.
        return None


def check_inside(control: Control, shown_in: Window | None, wanted: Window) -> None:
    """Refuse a control that is not in the window that the call names.

    Raises:
        BadInput: it is in another window.
    """
    if shown_in is None or same_id(shown_in.id, wanted.id):
        return
    name = f"The {control.role} {control.name!r}" if control.name else f"The {control.role}"
    raise BadInput(f"{name} is in {described(shown_in)}, not in {described(wanted)}.")


def out_of_sight(window: Window) -> str | None:
    """The reason why none of a window is on the screen; None where some of it may be."""
    if window.minimized:
        return "its window is minimized"
    if window.workspace is not None and not window.on_this_workspace:
        return f"its window is on workspace {window.workspace}, which is not shown"
    return None if window.visible else "its window is not shown"


def described(window: Window) -> str:
    """A window in the words of an error message."""
    return f"the window {window.title[:80]!r} of {window.process_name or 'an unknown program'} ({window.id})"


def window_target(window: Window | None) -> dict[str, Any] | None:
    """The field `window` of an acting tool's result."""
    if window is None:
        return None
    return {"window_id": window.id, "title": window.title, "process_name": window.process_name}


def control_target(control: Control | None) -> dict[str, Any] | None:
    """The field `control` of an acting tool's result."""
    return None if control is None else {"role": control.role, "name": control.name, "control_id": control.id}


def same_id(first: str, second: str) -> bool:
    """Whether two ids mean the same window, in whatever form the hexadecimal number is written."""
    try:
        return int(first, 16) == int(second, 16)
    except ValueError:
        return first == second


async def _of_program(desktop: Desktop, windows: list[Window], program: str) -> list[Window]:
    if own := [one for one in windows if _is_called(one, program)]:
        return own
    processes = await desktop.processes_called(program)
    return [one for one in windows if one.process_id in processes]


def _only(windows: list[Window], own: list[Window], program: str) -> Window:
    own = [one for one in own if not one.is_popup]
    if not own:
        there = sorted({one.process_name for one in windows if one.process_name})
        known = ", ".join(there[:_LISTED]) or "none"
        raise BadInput(
            f"No window of {program[:60]!r} is there. Programs with windows: {known}.",
            ErrorCode.CONTROL_NOT_FOUND,
        )
    if active := next((one for one in own if one.active), None):
        return active
    ids = {one.id for one in own}
    alone = [one for one in own if one.dialog_of not in ids]
    if len(alone) == 1:
        return own[-1]
    listed = "; ".join(described(one) for one in reversed(alone[-_LISTED:]))
    raise BadInput(
        f"{len(alone)} windows belong to {program[:60]!r}; use window_id with one of: {listed}.",
        ErrorCode.CONTROL_AMBIGUOUS,
    )


def _is_called(window: Window, program: str) -> bool:
    return window.process_name.lower().removesuffix(".exe") == program.lower().removesuffix(".exe")


def _active_dialog(windows: list[Window], window: Window) -> Window | None:
    """The active window, if it is a dialog of a window; its program may be another one, such as a portal."""
    active = next((one for one in windows if one.active), None)
    return active if active is not None and belongs_to(active, window.id, windows) else None


def belongs_to(window: Window, owner: str, windows: list[Window]) -> bool:
    """Whether a window is a dialog of another, or a dialog of its dialog."""
    by_id = {one.id: one for one in windows}
    seen: set[str] = set()
    current: Window | None = window
    while current is not None and current.dialog_of is not None and current.id not in seen:
        if current.dialog_of == owner:
            return True
        seen.add(current.id)
        current = by_id.get(current.dialog_of)
    return False
