"""The Windows desktop, through UI Automation (`uiautomation`). Not yet tested on a machine.

Its calls are tested against a recorded double of the library only.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil

from core.device.desktop.interface import (
    LONGEST_VALUE,
    PROTECTED,
    Box,
    Button,
    Control,
    Direction,
    Need,
    Unavailability,
    Window,
)
from core.device.desktop.key_chords import Chord
from core.device.desktop.threaded_backend import BlockingDesktop, Program, Vanished
from core.errors import BadInput, DeviceError, ErrorCode

# The exception of UI Automation for an element that is gone; the name exists on Windows only.
_COM_ERROR: type[Exception] = getattr(_ctypes, "COMError", OSError)
_BUTTONS: dict[Button, tuple[int, int]] = {
    "left": (0x0002, 0x0004),
    "right": (0x0008, 0x0010),
    "middle": (0x0020, 0x0040),
}
_WHEEL, _WHEEL_ACROSS, _NOTCH = 0x0800, 0x1000, 120
_KEY_UP = 0x0002
_RESTORE = 9
_FOCUS_TRIES = 20
# Windows virtual key codes, by the key names of `key_chords`.
KEYS = {
    "enter": 0x0D,
    "tab": 0x09,
    "escape": 0x1B,
    "space": 0x20,
    "backspace": 0x08,
    "delete": 0x2E,
    "insert": 0x2D,
    "home": 0x24,
    "end": 0x23,
    "pageup": 0x21,
    "pagedown": 0x22,
    "left": 0x25,
    "up": 0x26,
    "right": 0x27,
    "down": 0x28,
    "capslock": 0x14,
    "numlock": 0x90,
    "scrolllock": 0x91,
    "printscreen": 0x2C,
    "pause": 0x13,
    "menu": 0x5D,
    **{f"f{number}": 0x6F + number for number in range(1, 25)},
}
MODIFIERS = {"ctrl": 0x11, "shift": 0x10, "alt": 0x12, "meta": 0x5B, "altgr": 0xA5}


class WindowsDesktop(BlockingDesktop):
    """The Windows implementation of `Desktop`."""

    def __init__(self, library: Any = None, user32: Any = None) -> None:
        super().__init__("windows desktop")
        self._library = library
        self._user32 = user32
        self._com = threading.local()
        self._works = False

    def lack(self, need: Need) -> Unavailability | None:
        """See `Desktop`. UI Automation is asked for the desktop until it has answered once."""
        if self._works:
            return None
        try:
            if self._library is None:
                import uiautomation

                self._library = uiautomation
            self._enter_com()
            self._library.GetRootControl()
        except ImportError as error:
            return Unavailability(
                f"UI Automation cannot be loaded: {error}", "Install the package uiautomation"
            )
        except Exception as error:  # noqa: BLE001 — the library lets through what COM and comtypes raise
            return Unavailability(
                f"UI Automation cannot be used: {type(error).__name__}: {error}",
                "Start the device client in the session of a user who is logged in at the screen",
            )
        self._works = True
        return None

    def _enter_com(self) -> None:
        """Initialize COM in this thread, once; it is uninitialized when the thread ends."""
        if not hasattr(self._com, "set_up"):
            self._com.set_up = self._library.UIAutomationInitializerInThread()

    @property
    def _auto(self) -> Any:
        if lack := self.lack("controls"):
            raise lack.error()
        self._enter_com()
        return self._library

    @property
    def _user(self) -> Any:
        return self._user32 or ctypes.windll.user32  # type: ignore[attr-defined, unused-ignore]

    def look_programs(self) -> list[Program]:
        """See `BlockingDesktop`."""
        by_process: dict[int, list[Any]] = {}
        for window in self._auto.GetRootControl().GetChildren():
            with contextlib.suppress(Vanished), _present():
                by_process.setdefault(int(window.ProcessId), []).append(window)
        return [Program(pid, _process_name(pid), windows) for pid, windows in by_process.items()]

    def look_children(self, element: Any, most: int) -> list[Any]:
        """See `BlockingDesktop`."""
        if isinstance(element, list):
            return element[:most]
        found: list[Any] = []
        with _present():
            child = element.GetFirstChildControl()
            while child is not None and len(found) < most:
                found.append(child)
                child = child.GetNextSiblingControl()
        return found

    def look_at(self, element: Any, *, protected: Callable[[str], bool]) -> Control:
        """See `BlockingDesktop`."""
        if isinstance(element, list):
            raise Vanished
        with _present():
            process_id = int(element.ProcessId)
            control_id = self.remember(element, process_id, *element.GetRuntimeId())
            states = [word for word, holds in _states(element) if holds]
            if element.IsPassword or protected(control_id):
                states.append(PROTECTED)
            value = element.GetPattern(self._auto.PatternId.ValuePattern)
            if value is not None and value.IsReadOnly:
                states.append("read only")
            shown = (
                str(value.Value)[:LONGEST_VALUE] if value is not None and PROTECTED not in states else None
            )
            return Control(
                id=control_id,
                role=_spaced(str(element.ControlTypeName).removesuffix("Control")),
                name=str(element.Name),
                process_id=process_id,
                process_name=_process_name(process_id),
                value=shown,
                states=tuple(states),
                box=_box(element.BoundingRectangle),
                actions=tuple(name for name, _ in self._actions(element)),
                takes_text=value is not None and not value.IsReadOnly,
            )

    def look_windows(self) -> list[Window]:
        """See `BlockingDesktop`."""
        front = int(self._auto.GetForegroundWindow())
        found: list[Window] = []
        for element in self._auto.GetRootControl().GetChildren():
            with contextlib.suppress(Vanished), _present():
                handle, process_id = int(element.NativeWindowHandle), int(element.ProcessId)
                box = _box(element.BoundingRectangle)
                if not handle or box is None:
                    continue
                found.append(
                    Window(
                        id=f"0x{handle:x}",
                        title=str(element.Name),
                        process_id=process_id,
                        process_name=_process_name(process_id),
                        box=box,
                        active=handle == front,
                        visible=not element.IsOffscreen,
                        minimized=bool(self._user.IsIconic(handle)),
                    )
                )
        # UI Automation lists the topmost window first.
        return found[::-1]

    def look_window(self, window: Window, program: Program) -> list[Any]:
        """See `BlockingDesktop`."""
        return [one for one in program.element if int(one.NativeWindowHandle) == int(window.id, 16)]

    def look_focused(self) -> Any | None:
        """See `BlockingDesktop`."""
        with _present():
            return self._auto.GetFocusedControl()

    def do_bring_forward(self, window: Window) -> None:
        """See `BlockingDesktop`."""
        handle = int(window.id, 16)
        if self._user.IsIconic(handle):
            self._user.ShowWindow(handle, _RESTORE)
        self._user.SetForegroundWindow(handle)

    def do_perform(self, element: Any) -> str | None:
        """See `BlockingDesktop`."""
        with _present():
            for name, act in self._actions(element):
                act()
                return name
        return None

    def do_focus(self, element: Any) -> None:
        """See `BlockingDesktop`."""
        with _present():
            for _ in range(_FOCUS_TRIES):
                element.SetFocus()
                if element.HasKeyboardFocus:
                    return
                threading.Event().wait(0.05)
        raise DeviceError("The control does not take the focus.", ErrorCode.KEYBOARD_ELSEWHERE)

    def do_insert(self, element: Any, text: str) -> bool:
        """Insert into an empty field only: UI Automation sets whole values and cannot insert at a caret."""
        with _present():
            if element.IsPassword:
                return False
            value = element.GetPattern(self._auto.PatternId.ValuePattern)
            if value is None or value.IsReadOnly or value.Value:
                return False
            return bool(value.SetValue(text))

    def do_click(self, x: int, y: int, button: Button, count: int) -> None:
        """See `BlockingDesktop`."""
        down, up = _BUTTONS[button]
        self._user.SetCursorPos(x, y)
        for _ in range(count):
            try:
                self._user.mouse_event(down, 0, 0, 0, 0)
            finally:
                self._user.mouse_event(up, 0, 0, 0, 0)

    def do_type(self, text: str, stop: threading.Event) -> int:
        """See `BlockingDesktop`."""
        for typed, character in enumerate(text):
            if stop.is_set():
                return typed
            if character in "\n\t":
                self._strike([], KEYS["enter" if character == "\n" else "tab"])
            else:
                self._auto.SendUnicodeChar(character)
            stop.wait(0.002)
        return len(text)

    def do_press(self, chord: Chord) -> None:
        """See `BlockingDesktop`."""
        held = [MODIFIERS[name] for name in chord.modifiers]
        if len(chord.key) > 1:
            self._strike(held, KEYS.get(chord.key) or MODIFIERS[chord.key])
            return
        found = int(self._user.VkKeyScanW(ord(chord.key)))
        if found & 0xFFFF == 0xFFFF:
            if held:
                raise BadInput(f"This keyboard layout has no key {chord.key}.")
            self._auto.SendUnicodeChar(chord.key)
            return
        wanted = [
            MODIFIERS[name] for bit, name in ((1, "shift"), (2, "ctrl"), (4, "alt")) if found >> 8 & bit
        ]
        self._strike([*held, *(code for code in wanted if code not in held)], found & 0xFF)

    def do_scroll(self, direction: Direction, amount: int, at: tuple[int, int] | None) -> None:
        """See `BlockingDesktop`."""
        if at is not None:
            self._user.SetCursorPos(*at)
        flag = _WHEEL if direction in ("up", "down") else _WHEEL_ACROSS
        turned = _NOTCH if direction in ("up", "right") else -_NOTCH
        for _ in range(amount):
            self._user.mouse_event(flag, 0, 0, turned, 0)

    def _strike(self, held: list[int], code: int) -> None:
        down: list[int] = []
        try:
            for key in (*held, code):
                self._user.keybd_event(key, 0, 0, 0)
                down.append(key)
        finally:
            for key in reversed(down):
                self._user.keybd_event(key, 0, _KEY_UP, 0)

    def _actions(self, element: Any) -> list[tuple[str, Callable[[], Any]]]:
        """The actions equivalent to a click, the best first."""
        patterns = self._auto.PatternId
        known = (
            (patterns.InvokePattern, "invoke", "Invoke"),
            (patterns.TogglePattern, "toggle", "Toggle"),
            (patterns.SelectionItemPattern, "select", "Select"),
            (patterns.ExpandCollapsePattern, "expand", "Expand"),
        )
        found: list[tuple[str, Callable[[], Any]]] = []
        for number, name, method in known:
            pattern = element.GetPattern(number)
            if pattern is not None:
                found.append((name, getattr(pattern, method)))
        return found


@contextlib.contextmanager
def _present() -> Iterator[None]:
    try:
        yield
    except _COM_ERROR as error:
        raise Vanished from error


def _states(element: Any) -> tuple[tuple[str, bool], ...]:
    return (
        ("enabled", bool(element.IsEnabled)),
        ("showing", not element.IsOffscreen),
        ("focusable", bool(element.IsKeyboardFocusable)),
        ("focused", bool(element.HasKeyboardFocus)),
    )


def _spaced(type_name: str) -> str:
    """A type as separate words: `CheckBox` as `check box`, a button as `push button`, as on other systems."""
    words = "".join(f" {sign.lower()}" if sign.isupper() else sign for sign in type_name).strip()
    return {"button": "push button", "edit": "text"}.get(words, words)


def _box(rectangle: Any) -> Box | None:
    width, height = int(rectangle.width()), int(rectangle.height())
    return Box(int(rectangle.left), int(rectangle.top), width, height) if width > 0 and height > 0 else None


def _process_name(process_id: int) -> str:
    try:
        return psutil.Process(process_id).name()
    except psutil.Error:
        return ""
