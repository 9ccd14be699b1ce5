"""Sends pointer and key events through XTEST. Pressed keys are released even after an error.

`keysym_of_character` and `keysym_of_name` name the keys.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from Xlib import XK, X
from Xlib import error as xerror
from Xlib.ext import xtest
from Xlib.protocol import event

from core.device.desktop.interface import Button, Direction
from core.device.desktop.key_chords import Chord, Modifier
from core.device.desktop.linux.x11_windows import active_window
from core.errors import BadInput, DeviceError, ErrorCode

NO_SYMBOL = 0
NAMED = {
    "enter": "Return",
    "tab": "Tab",
    "escape": "Escape",
    "space": "space",
    "backspace": "BackSpace",
    "delete": "Delete",
    "insert": "Insert",
    "home": "Home",
    "end": "End",
    "pageup": "Prior",
    "pagedown": "Next",
    "left": "Left",
    "right": "Right",
    "up": "Up",
    "down": "Down",
    "capslock": "Caps_Lock",
    "numlock": "Num_Lock",
    "scrolllock": "Scroll_Lock",
    "printscreen": "Print",
    "pause": "Pause",
    "menu": "Menu",
    **{f"f{number}": f"F{number}" for number in range(1, 25)},
}
MODIFIERS: dict[Modifier, str] = {
    "ctrl": "Control_L",
    "shift": "Shift_L",
    "alt": "Alt_L",
    "meta": "Super_L",
}
# Missing in Xlib's table.
ALTGR = 0xFE03
CONTROLS = {"\n": "Return", "\r": "Return", "\t": "Tab", "\b": "BackSpace", "\x1b": "Escape"}


def keysym_of_name(name: str) -> int:
    """The keysym of a named key or a modifier, as `core.device.desktop.key_chords` names them."""
    if name == "altgr":
        return ALTGR
    x_name = NAMED.get(name) or {str(key): value for key, value in MODIFIERS.items()}.get(name, name)
    return int(XK.string_to_keysym(x_name))


def keysym_of_character(character: str) -> int:
    """The keysym of a character: Latin-1 is its own code point, any other is its code point + 2^24."""
    if character in CONTROLS:
        return int(XK.string_to_keysym(CONTROLS[character]))
    point = ord(character)
    return point if 0x20 <= point <= 0x7E or 0xA0 <= point <= 0xFF else 0x01000000 | point


def other_keysyms(character: str) -> tuple[int, ...]:
    """Older (legacy) keysyms that layouts use for a character."""
    return {"€": (0x20AC,), "Œ": (0x13BC,), "œ": (0x13BD,)}.get(character, ())


_BUTTONS: dict[Button, int] = {"left": 1, "middle": 2, "right": 3}
_WHEEL: dict[Direction, int] = {"up": 4, "down": 5, "left": 6, "right": 7}
# Programs read a changed layout with a delay; keys sent earlier would produce other characters.
_LAYOUT_SETTLES_S = 0.08
_LAYOUT_READ_S = 0.25
# For a program that does not say when it has read a key: some lose keys that arrive faster than they read.
_BETWEEN_KEYS_S = 0.008
# A program that has not read a key after this time does not read keys.
_TAKES_KEYS_S = 3.0
_FIRST_ANSWER_S = 1.0
_LOOK_S = 0.1
# Marks our own questions among those of the window manager, which asks programs whether they hang.
_OURS = 0x51440000
_LOCK_BIT = 1 << X.LockMapIndex


def click(display: Any, x: int, y: int, button: Button, count: int) -> None:
    """Move the pointer to a pixel and press a button.

    Raises:
        DeviceError: a modifier is pressed, which would change the meaning of the click.
    """
    let_go(display)
    xtest.fake_input(display, X.MotionNotify, x=x, y=y)
    for _ in range(count):
        try:
            xtest.fake_input(display, X.ButtonPress, _BUTTONS[button])
        finally:
            xtest.fake_input(display, X.ButtonRelease, _BUTTONS[button])
    display.sync()


def scroll(display: Any, direction: Direction, amount: int, at: tuple[int, int] | None) -> None:
    """Turn the wheel, at a pixel or where the pointer is.

    Raises:
        DeviceError: a modifier is pressed, which would change the meaning of scrolling (to zoom, for
        example).
    """
    let_go(display)
    if at is not None:
        xtest.fake_input(display, X.MotionNotify, x=at[0], y=at[1])
    for _ in range(amount):
        xtest.fake_input(display, X.ButtonPress, _WHEEL[direction])
        xtest.fake_input(display, X.ButtonRelease, _WHEEL[direction])
    display.sync()


def press(display: Any, chord: Chord, window: int | None = None) -> None:
    """Press a key with its modifiers, in `window` if one is given.

    Raises:
        DeviceError: a modifier outside the chord is pressed, or the keyboard is not in that window.
    """
    let_go(display)
    if window is not None and active_window(display) != window:
        raise DeviceError(
            "Another window took the keyboard before the key was pressed.", ErrorCode.KEYBOARD_ELSEWHERE
        )
    keyboard = Keyboard(display)
    held = [keyboard.modifier(modifier) for modifier in chord.modifiers]
    character = chord.key if len(chord.key) == 1 else ""
    if "shift" in chord.modifiers and len(character.upper()) == 1 and not keyboard.has(character):
        # Shift does not change what is on an unused key.
        character = character.upper()
    with keyboard.room(character) as keys:
        if character:
            code, shifted = keys[character]
        else:
            code, shifted = keyboard.named(chord.key), False
        if shifted and keyboard.modifier("shift") not in held:
            held.append(keyboard.modifier("shift"))
        keyboard.strike(code, held)


def type_text(display: Any, text: str, stop: threading.Event, window: int | None = None) -> int:
    """Type characters one by one, each when the program has taken the one before.

    Returns how many were typed before `stop` was set, the keyboard left `window`, or its program took no
    more keys.

    Raises:
        DeviceError: a modifier is pressed, so that the characters would be commands.
    """
    let_go(display)
    keyboard = Keyboard(display)
    typed = 0
    with keyboard.without_caps_lock(), Pace(display, window) as pace:
        for part in keyboard.parts(text):
            with keyboard.room(part) as keys:
                for character in part:
                    if stop.is_set() or not pace.may_go_on():
                        return typed
                    code, shifted = keys[character]
                    keyboard.strike(code, [keyboard.modifier("shift")] if shifted else [])
                    typed += 1
    return typed


def let_go(display: Any) -> None:
    """Release modifiers that a program left pressed when it ended.

    Raises:
        DeviceError: a modifier is still pressed, by a user at the keyboard, or locked.
    """
    held = _held(display)
    if not held:
        return
    down = display.query_keymap()
    for code in held:
        if down[code >> 3] >> (code & 7) & 1:
            xtest.fake_input(display, X.KeyRelease, code)
    display.sync()
    if _held(display):
        raise DeviceError(
            "A modifier key such as ctrl is held on this device's keyboard. Let go of it, then try again.",
            ErrorCode.TOOL_FAILED,
        )


def _held(display: Any) -> list[int]:
    """The keys of the active modifiers, without locks, which do not turn a letter into a command."""
    mask = int(display.screen().root.query_pointer().mask)
    on = [keys for index, keys in enumerate(display.get_modifier_mapping()) if mask >> index & 1]
    if not on:
        return []
    keyboard = Keyboard(display)
    locks = {keysym_of_name(name) for name in ("capslock", "numlock", "scrolllock")}
    return [
        code
        for keys in on
        for code in keys
        if code and not any(locks & set(keyboard.keysyms(one)) for one in keys if one)
    ]


class Pace:
    """Lets keys go out no faster than a window's program reads them.

    A program answers `_NET_WM_PING` when it has read everything that the server sent it before.
    """

    def __init__(self, display: Any, window: int | None) -> None:
        self._display = display
        self._root = display.screen().root
        self._number = window
        self._window: Any = None if window is None else display.create_resource_object("window", window)
        self._protocols = display.intern_atom("WM_PROTOCOLS")
        self._ping = display.intern_atom("_NET_WM_PING")
        self._asked = 0
        self._answers = self._window is not None and self._ping in self._known_protocols()

    def __enter__(self) -> Pace:
        # The answers of programs are sent to the root window, by Qt to those who wait for other events there.
        self._root.change_attributes(event_mask=X.SubstructureNotifyMask | X.StructureNotifyMask)
        # Not every program that promises answers gives them.
        self._answers = self._answers and self._was_read(_FIRST_ANSWER_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._root.change_attributes(event_mask=0)
        self._display.sync()

    def may_go_on(self) -> bool:
        """Wait until the keys so far were read; False where they are not, or the window lost the keyboard."""
        if not self._was_read():
            return False
        return self._number is None or active_window(self._display) == self._number

    def _known_protocols(self) -> list[int]:
        try:
            return list(self._window.get_wm_protocols())
        except xerror.XError:
            return []

    def _was_read(self, seconds: float = _TAKES_KEYS_S) -> bool:
        if not self._answers:
            threading.Event().wait(_BETWEEN_KEYS_S)
            return True
        self._asked += 1
        told = [self._ping, _OURS | self._asked & 0xFFFF, self._number, 0, 0]
        question = event.ClientMessage(window=self._window, client_type=self._protocols, data=(32, told))
        self._window.send_event(question, event_mask=0)
        self._display.flush()
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            while self._display.pending_events():
                if self._is_answer(self._display.next_event(), told[1]):
                    return True
            heard, _, _ = select.select([self._display.fileno()], [], [], min(left, _LOOK_S))
            # A window that a key has closed does not answer.
            if not heard and active_window(self._display) != self._number:
                break
        return False

    def _is_answer(self, heard: Any, mark: int) -> bool:
        if heard.type != X.ClientMessage or heard.client_type != self._protocols:
            return False
        told = list(heard.data[1])
        return bool(told[:2] == [self._ping, mark])


class Keyboard:
    """The current keyboard layout; missing characters are assigned temporarily to unused keys."""

    def __init__(self, display: Any) -> None:
        self._display = display
        self._first = display.display.info.min_keycode
        count = display.display.info.max_keycode - self._first + 1
        self._mapping = [list(codes) for codes in display.get_keyboard_mapping(self._first, count)]
        # In a second layout group (another language) characters are on other keys, so all get unused keys.
        mask = int(display.screen().root.query_pointer().mask)
        self._first_group = mask >> 13 & 3 == 0
        self._caps = bool(mask & _LOCK_BIT)
        self._by_keysym: dict[int, tuple[int, bool]] = {}
        for offset, keysyms in enumerate(self._mapping):
            for level, keysym in enumerate(keysyms[:2]):
                if keysym != NO_SYMBOL and not _is_lent(keysyms):
                    self._by_keysym.setdefault(keysym, (self._first + offset, level == 1))
        self._spare = [
            self._first + offset
            for offset, keysyms in enumerate(self._mapping)
            if not any(keysyms) or _is_lent(keysyms)
        ]

    def has(self, character: str) -> bool:
        """Whether the layout has a key for a character."""
        return self._find(character) is not None

    def keysyms(self, code: int) -> list[int]:
        """A key's keysyms, by level."""
        return [int(one) for one in self._mapping[code - self._first]]

    def modifier(self, name: str) -> int:
        """The key of a modifier."""
        if not (found := self._code(keysym_of_name(name))):
            raise BadInput(f"This keyboard layout has no {name} key.")
        return found

    def named(self, name: str) -> int:
        """The key with a name."""
        if not (found := self._code(keysym_of_name(name))):
            raise BadInput(f"This keyboard layout has no key {name}.")
        return found

    def _code(self, keysym: int) -> int | None:
        # The library's own table dates from the start of the connection; the layout may have changed since.
        for level in range(len(self._mapping[0])):
            for offset, keysyms in enumerate(self._mapping):
                if keysyms[level] == keysym:
                    return int(self._first + offset)
        return None

    def strike(self, code: int, held: list[int]) -> None:
        """Press and release a key while others are held down."""
        down: list[int] = []
        try:
            for key in (*held, code):
                xtest.fake_input(self._display, X.KeyPress, key)
                down.append(key)
        finally:
            for key in reversed(down):
                xtest.fake_input(self._display, X.KeyRelease, key)
            self._display.sync()

    def parts(self, text: str) -> Iterator[str]:
        """The text in parts, each with no more missing characters than there are unused keys.

        Raises:
            DeviceError: the layout lacks a character and has no unused key.
        """
        start, missing = 0, set[str]()
        for index, character in enumerate(text):
            if self._find(character) is not None or character in missing:
                continue
            if not self._spare:
                raise _no_room()
            if len(missing) == len(self._spare):
                yield text[start:index]
                start, missing = index, set()
            missing.add(character)
        yield text[start:]

    @contextmanager
    def room(self, text: str) -> Iterator[dict[str, tuple[int, bool]]]:
        """The key of each character, and whether it needs shift; unused keys are assigned for the context."""
        keys: dict[str, tuple[int, bool]] = {}
        lent: list[int] = []
        try:
            for character in dict.fromkeys(text):
                found = self._find(character)
                if found is None:
                    code = self._lend(character, len(lent))
                    lent.append(code)
                    found = (code, False)
                keys[character] = found
            if lent:
                self._display.sync()
                threading.Event().wait(_LAYOUT_SETTLES_S)
            yield keys
        finally:
            if lent:
                self._display.sync()
                threading.Event().wait(_LAYOUT_READ_S)
                width = len(self._mapping[0])
                for code in lent:
                    self._display.change_keyboard_mapping(code, [[NO_SYMBOL] * width])
                self._display.sync()

    @contextmanager
    def without_caps_lock(self) -> Iterator[None]:
        """Turn Caps Lock off for the context, and on again afterwards if it was on."""
        lock = self._code(keysym_of_name("capslock")) if self._caps else None
        if lock:
            self.strike(lock, [])
        try:
            yield
        finally:
            if lock:
                self.strike(lock, [])

    def _find(self, character: str) -> tuple[int, bool] | None:
        keysym = keysym_of_character(character)
        if not self._first_group and keysym < 0xFF00:
            return None
        for one in (keysym, *other_keysyms(character)):
            if one in self._by_keysym:
                return self._by_keysym[one]
        return None

    def _lend(self, character: str, used: int) -> int:
        if used >= len(self._spare):
            raise _no_room()
        code = int(self._spare[used])
        # The same keysym on every level, so that neither shift nor a second group changes it.
        width = len(self._mapping[0])
        self._display.change_keyboard_mapping(code, [[keysym_of_character(character)] * width])
        return code


def _is_lent(keysyms: list[int]) -> bool:
    """Whether a key has one character on all four levels, as only `Keyboard._lend` leaves it.

    A client that was killed while typing leaves such assignments behind.
    """
    told = set(keysyms[:4])
    return len(told) == 1 and 0x01000100 <= keysyms[0] <= 0x0110FFFF and set(keysyms) <= told | {NO_SYMBOL}


def _no_room() -> DeviceError:
    # The message does not name the character, because the text may be a secret.
    return DeviceError(
        "The keyboard layout lacks a character and has no unused key to put it on.", ErrorCode.TOOL_FAILED
    )
