"""X11 keysyms for characters, named keys and modifiers."""

from __future__ import annotations

from Xlib import XK

from core.device.desktop.key_chords import Modifier

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
