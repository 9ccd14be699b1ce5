"""Parses keys and chords such as `Enter`, `F5`, `ctrl+shift+t`, `€`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.errors import BadInput

Modifier = Literal["ctrl", "shift", "alt", "meta", "altgr"]

_MODIFIERS: dict[str, Modifier] = {
    "ctrl": "ctrl",
    "control": "ctrl",
    "shift": "shift",
    "alt": "alt",
    "option": "alt",
    "meta": "meta",
    "super": "meta",
    "win": "meta",
    "cmd": "meta",
    "command": "meta",
    "altgr": "altgr",
}
NAMED = (
    *(
        "enter",
        "tab",
        "escape",
        "space",
        "backspace",
        "delete",
        "insert",
        "home",
        "end",
        "pageup",
        "pagedown",
    ),
    *("left", "right", "up", "down", "capslock", "numlock", "scrolllock", "printscreen", "pause", "menu"),
    *(f"f{number}" for number in range(1, 25)),
)
_OTHER_NAMES = {
    "return": "enter",
    "esc": "escape",
    "del": "delete",
    "ins": "insert",
    "pgup": "pageup",
    "page_up": "pageup",
    "pgdn": "pagedown",
    "page_down": "pagedown",
    "arrowleft": "left",
    "arrowright": "right",
    "arrowup": "up",
    "arrowdown": "down",
    "print": "printscreen",
    "caps_lock": "capslock",
    "contextmenu": "menu",
    "plus": "+",
}


@dataclass(frozen=True, slots=True)
class Chord:
    """A key and its modifiers. `key` is a name in `NAMED`, a character, or a modifier."""

    modifiers: tuple[Modifier, ...]
    key: str


def parse_chord(written: str) -> Chord:
    """Parse a key or a chord. Case matters for a lone character only: `T` is shift and t.

    Raises:
        BadInput: a part is not a key; the message lists valid keys.
    """
    parts = _split(written)
    held: list[Modifier] = []
    for part in parts[:-1]:
        modifier = _MODIFIERS.get(part.lower())
        if modifier is None:
            raise BadInput(f"Unknown modifier: {part[:40]}. One of: {', '.join(dict.fromkeys(_MODIFIERS))}.")
        if modifier not in held:
            held.append(modifier)
    key = _key(parts[-1])
    if len(key) == 1 and held:
        # "ctrl+T" means the key T, not the capital letter.
        key = key.lower() if len(key.lower()) == 1 else key
    if key in held:
        raise BadInput(f"Unknown key: {written[:40]} names {key} twice.")
    return Chord(tuple(held), key)


def _split(written: str) -> list[str]:
    if written in ("+", " "):
        return [written]
    if written.endswith("++"):
        return [*_split_plain(written[:-2]), "+"]
    return _split_plain(written)


def _split_plain(written: str) -> list[str]:
    return [part.strip() or part for part in written.split("+")]


def _key(part: str) -> str:
    if part == " ":
        return "space"
    if len(part) == 1 and part.isprintable():
        return part
    name = part.lower()
    name = _OTHER_NAMES.get(name, name)
    if name in NAMED or name == "+":
        return name
    if modifier := _MODIFIERS.get(name):
        return modifier
    raise BadInput(
        f"Unknown key: {part[:40] or '(nothing)'}. One of: {', '.join(NAMED[:21])}, f1 to f24, "
        f"a modifier ({', '.join(dict.fromkeys(_MODIFIERS.values()))}), or one character."
    )
