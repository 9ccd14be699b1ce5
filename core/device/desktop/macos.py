"""The macOS desktop, through Accessibility and Quartz (pyobjc). Not yet tested on a machine.

Its calls are tested against a recorded double of the libraries only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

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
from core.text import sentences

_ANSWER_S = 1.0
_FOCUS_TRIES = 20
_SUCCESS, _INVALID_ELEMENT, _CANNOT_COMPLETE = 0, -25202, -25204
_PRESSING = ("AXPress", "AXPick", "AXConfirm", "AXOpen", "AXShowMenu")
_SECURE = "AXSecureTextField"
_F_KEYS = (122, 120, 99, 118, 96, 97, 98, 100, 101, 109, 103, 111, 105, 107, 113, 106, 64, 79, 80, 90)
# macOS key codes, which are positions on a keyboard, by the key names of `key_chords`.
KEYS = {
    "enter": 36,
    "tab": 48,
    "space": 49,
    "backspace": 51,
    "escape": 53,
    "capslock": 57,
    "delete": 117,
    "home": 115,
    "end": 119,
    "pageup": 116,
    "pagedown": 121,
    "left": 123,
    "right": 124,
    "down": 125,
    "up": 126,
    "insert": 114,
    "menu": 110,
    **{f"f{number}": code for number, code in enumerate(_F_KEYS, 1)},
}
# Letters and digits on an ANSI keyboard; other characters are sent as text.
_PLACES = {
    **dict(zip("asdfhgzxcv", range(10), strict=True)),
    **dict(zip("bqweryt", range(11, 18), strict=True)),
    **{"1": 18, "2": 19, "3": 20, "4": 21, "6": 22, "5": 23, "9": 25, "7": 26, "8": 28, "0": 29},
    **{"o": 31, "u": 32, "i": 34, "p": 35, "l": 37, "j": 38, "k": 40, "n": 45, "m": 46},
    **{"=": 24, "-": 27, "]": 30, "[": 33, "'": 39, ";": 41, "\\": 42, ",": 43, "/": 44, ".": 47, "`": 50},
}
_MODIFIERS = {"ctrl": (59, 1 << 18), "shift": (56, 1 << 17), "alt": (58, 1 << 19), "meta": (55, 1 << 20)}


class MacDesktop(BlockingDesktop):
    """The macOS implementation of `Desktop`."""

    def __init__(self, accessibility: Any = None, quartz: Any = None, workspace: Any = None) -> None:
        super().__init__("macos desktop")
        self._ax = accessibility
        self._quartz = quartz
        self._workspace = workspace

    def lack(self, need: Need) -> Unavailability | None:
        """See `Desktop`."""
        if self._ax is None:
            try:
                import AppKit
                import ApplicationServices
                import Quartz
            except ImportError as error:
                return Unavailability(
                    f"The system's libraries cannot be loaded: {error}",
                    "Install pyobjc-framework-ApplicationServices and pyobjc-framework-Quartz",
                )
            self._ax, self._quartz = ApplicationServices, Quartz
            self._workspace = AppKit.NSWorkspace.sharedWorkspace()
        if need != "windows" and not self._ax.AXIsProcessTrusted():
            return Unavailability(
                "macOS does not let this program use other programs' windows",
                "Allow it in System Settings, Privacy & Security, Accessibility, then start it again",
            )
        return None

    def look_programs(self) -> list[Program]:
        """See `BlockingDesktop`."""
        found: list[Program] = []
        for one in self._space.runningApplications():
            # Policy 0 is a program in the Dock; other programs have no ordinary windows.
            if one.activationPolicy() == 0:
                process_id = int(one.processIdentifier())
                element = self._ax.AXUIElementCreateApplication(process_id)
                self._ax.AXUIElementSetMessagingTimeout(element, _ANSWER_S)
                found.append(Program(process_id, str(one.localizedName()), element))
        return found

    def look_children(self, element: Any, most: int) -> list[Any]:
        """See `BlockingDesktop`."""
        return list(self._get(element, "AXChildren") or [])[:most]

    def look_at(self, element: Any, *, protected: Callable[[str], bool]) -> Control:
        """See `BlockingDesktop`."""
        role = self._get(element, "AXRole")
        if role is None:
            raise Vanished
        process_id = self._process_id(element)
        # References to the same control have equal hashes; the system offers no other identity.
        control_id = self.remember(element, process_id, hash(element))
        states = [word for word, attribute in _STATES if self._get(element, attribute)]
        box = self._box(element)
        if box is not None:
            states.append("showing")
        if self._get(element, "AXSubrole") == _SECURE or protected(control_id):
            states.append(PROTECTED)
        value = None if PROTECTED in states else self._get(element, "AXValue")
        name = self._get(element, "AXTitle") or self._get(element, "AXDescription") or ""
        return Control(
            id=control_id,
            role=_spaced(str(role).removeprefix("AX")),
            name=str(name),
            process_id=process_id,
            value=_plain(value),
            states=tuple(states),
            box=box,
            actions=tuple(self._action_names(element)),
            takes_text=role in ("AXTextField", "AXTextArea", "AXComboBox"),
        )

    def look_windows(self) -> list[Window]:
        """See `BlockingDesktop`."""
        quartz = self._loaded(self._quartz)
        wanted = quartz.kCGWindowListOptionOnScreenOnly | quartz.kCGWindowListExcludeDesktopElements
        front = self._space.frontmostApplication()
        front_id = int(front.processIdentifier()) if front is not None else None
        found: list[Window] = []
        is_first = True
        for told in quartz.CGWindowListCopyWindowInfo(wanted, quartz.kCGNullWindowID) or []:
            # Other layers contain the menu bar, the Dock and similar.
            if told.get("kCGWindowLayer", 0) != 0:
                continue
            bounds, process_id = told["kCGWindowBounds"], int(told["kCGWindowOwnerPID"])
            active = is_first and process_id == front_id
            is_first = is_first and not active
            found.append(
                Window(
                    id=f"0x{int(told['kCGWindowNumber']):x}",
                    title=str(told.get("kCGWindowName") or ""),
                    process_id=process_id,
                    process_name=str(told.get("kCGWindowOwnerName") or ""),
                    box=Box(*(int(bounds[key]) for key in ("X", "Y", "Width", "Height"))),
                    active=active,
                    visible=True,
                )
            )
        return found[::-1]

    def look_window(self, window: Window, program: Program) -> list[Any]:
        """See `BlockingDesktop`."""
        windows = list(self._get(program.element, "AXWindows") or [])
        return [one for one in windows if self._box(one) == window.box] or windows

    def look_focused(self) -> Any | None:
        """See `BlockingDesktop`."""
        return self._get(self._loaded(self._ax).AXUIElementCreateSystemWide(), "AXFocusedUIElement")

    def do_bring_forward(self, window: Window) -> None:
        """See `BlockingDesktop`."""
        program = next((one for one in self.look_programs() if one.process_id == window.process_id), None)
        if program is None:
            raise Vanished
        self._activate(program.process_id)
        for element in self.look_window(window, program)[:1]:
            self._ax.AXUIElementSetAttributeValue(element, "AXMinimized", False)
            self._ax.AXUIElementPerformAction(element, "AXRaise")

    def do_perform(self, element: Any) -> str | None:
        """See `BlockingDesktop`."""
        names = self._action_names(element)
        wanted = next((name for name in _PRESSING if name in names), None)
        if wanted is None:
            return None
        self._check(self._ax.AXUIElementPerformAction(element, wanted))
        return wanted

    def do_focus(self, element: Any) -> None:
        """See `BlockingDesktop`."""
        self._activate(self._process_id(element))
        for _ in range(_FOCUS_TRIES):
            self._ax.AXUIElementSetAttributeValue(element, "AXFocused", True)
            if self._get(element, "AXFocused"):
                return
            threading.Event().wait(0.05)
        raise DeviceError("The control does not take the focus.", ErrorCode.KEYBOARD_ELSEWHERE)

    def _activate(self, process_id: int) -> None:
        for one in self._space.runningApplications():
            if int(one.processIdentifier()) == process_id:
                one.activateWithOptions_(1 << 1)

    def do_insert(self, element: Any, text: str) -> bool:
        """Replace the selection, which is empty at a caret."""
        return bool(self._ax.AXUIElementSetAttributeValue(element, "AXSelectedText", text) == _SUCCESS)

    def do_click(self, x: int, y: int, button: Button, count: int) -> None:
        """See `BlockingDesktop`."""
        quartz = self._loaded(self._quartz)
        down, up, number = {
            "left": (quartz.kCGEventLeftMouseDown, quartz.kCGEventLeftMouseUp, 0),
            "right": (quartz.kCGEventRightMouseDown, quartz.kCGEventRightMouseUp, 1),
            "middle": (quartz.kCGEventOtherMouseDown, quartz.kCGEventOtherMouseUp, 2),
        }[button]
        self._post(quartz.CGEventCreateMouseEvent(None, quartz.kCGEventMouseMoved, (x, y), 0))
        for nth in range(1, count + 1):
            for kind in (down, up):
                event = quartz.CGEventCreateMouseEvent(None, kind, (x, y), number)
                quartz.CGEventSetIntegerValueField(event, quartz.kCGMouseEventClickState, nth)
                self._post(event)

    def do_type(self, text: str, stop: threading.Event) -> int:
        """See `BlockingDesktop`."""
        for typed, character in enumerate(text):
            if stop.is_set():
                return typed
            if character in "\n\t":
                self._strike(KEYS["enter" if character == "\n" else "tab"], 0)
            else:
                self._strike(0, 0, character)
            stop.wait(0.002)
        return len(text)

    def do_press(self, chord: Chord) -> None:
        """See `BlockingDesktop`."""
        if "altgr" in (*chord.modifiers, chord.key):
            raise BadInput("macOS has no altgr key. Use alt.")
        flags = 0
        for name in chord.modifiers:
            flags |= _MODIFIERS[name][1]
        if len(chord.key) > 1:
            code = KEYS.get(chord.key, _MODIFIERS.get(chord.key, (None, 0))[0])
            if code is None:
                raise BadInput(f"macOS has no key {chord.key}.")
            self._strike(code, flags)
        elif chord.modifiers and chord.key in _PLACES:
            self._strike(_PLACES[chord.key], flags)
        else:
            self._strike(0, flags, chord.key)

    def do_scroll(self, direction: Direction, amount: int, at: tuple[int, int] | None) -> None:
        """See `BlockingDesktop`."""
        quartz = self._loaded(self._quartz)
        if at is not None:
            self._post(quartz.CGEventCreateMouseEvent(None, quartz.kCGEventMouseMoved, at, 0))
        down, across = {"up": (1, 0), "down": (-1, 0), "left": (0, 1), "right": (0, -1)}[direction]
        for _ in range(amount):
            unit = quartz.kCGScrollEventUnitLine
            self._post(quartz.CGEventCreateScrollWheelEvent(None, unit, 2, down, across))

    @property
    def _space(self) -> Any:
        return self._loaded(self._workspace)

    def _loaded(self, library: Any) -> Any:
        if library is None:
            raise DeviceError("The system's libraries are not loaded.", ErrorCode.TOOL_FAILED)
        return library

    def _strike(self, code: int, flags: int, character: str = "") -> None:
        """Press and release a key; modifiers are flags of both events, so none can stay pressed."""
        quartz = self._loaded(self._quartz)
        for is_down in (True, False):
            event = quartz.CGEventCreateKeyboardEvent(None, code, is_down)
            if character:
                units = len(character.encode("utf-16-le")) // 2
                quartz.CGEventKeyboardSetUnicodeString(event, units, character)
            quartz.CGEventSetFlags(event, flags)
            self._post(event)

    def _post(self, event: Any) -> None:
        self._quartz.CGEventPost(self._quartz.kCGHIDEventTap, event)

    def _get(self, element: Any, attribute: str) -> Any:
        error, value = self._ax.AXUIElementCopyAttributeValue(element, attribute, None)
        if error in (_INVALID_ELEMENT, _CANNOT_COMPLETE):
            raise Vanished
        return value if error == _SUCCESS else None

    def _check(self, error: int) -> None:
        if error == _INVALID_ELEMENT:
            raise Vanished
        if error == _CANNOT_COMPLETE:
            raise DeviceError("The program did not answer.", ErrorCode.OUTCOME_UNKNOWN)
        if error != _SUCCESS:
            raise DeviceError(sentences(f"macOS refused with its error {error}"), ErrorCode.TOOL_FAILED)

    def _process_id(self, element: Any) -> int:
        error, process_id = self._ax.AXUIElementGetPid(element, None)
        self._check(error)
        return int(process_id)

    def _action_names(self, element: Any) -> list[str]:
        error, names = self._ax.AXUIElementCopyActionNames(element, None)
        return [str(name) for name in names] if error == _SUCCESS and names else []

    def _box(self, element: Any) -> Box | None:
        place, size = self._get(element, "AXPosition"), self._get(element, "AXSize")
        if place is None or size is None:
            return None
        has_place, point = self._ax.AXValueGetValue(place, self._ax.kAXValueCGPointType, None)
        has_size, extent = self._ax.AXValueGetValue(size, self._ax.kAXValueCGSizeType, None)
        if not (has_place and has_size) or extent.width < 1 or extent.height < 1:
            return None
        return Box(int(point.x), int(point.y), int(extent.width), int(extent.height))


_STATES = (
    ("enabled", "AXEnabled"),
    ("focused", "AXFocused"),
    ("selected", "AXSelected"),
    ("expanded", "AXExpanded"),
)


def _spaced(role: str) -> str:
    """A role as separate words: `CheckBox` as `check box`, a button as `push button`, as on other systems."""
    words = "".join(f" {sign.lower()}" if sign.isupper() else sign for sign in role).strip()
    return {"button": "push button", "text field": "text", "static text": "label"}.get(words, words)


def _plain(value: Any) -> str | float | None:
    if isinstance(value, bool | int | float):
        return float(value)
    return str(value)[:LONGEST_VALUE] if isinstance(value, str) else None
