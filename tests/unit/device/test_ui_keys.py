"""How keys are read, and the words of the accessibility protocol."""

from __future__ import annotations

import pytest

from core.device.desktop.key_chords import NAMED, Chord, parse_chord
from core.device.desktop.linux import x11_input
from core.device.desktop.linux.atspi_constants import role_word, state_words
from core.device.desktop.linux.tree_reader import Cached, Ref, cached_item
from core.device.desktop.macos import KEYS as MAC_KEYS
from core.device.desktop.win32 import KEYS as WINDOWS_KEYS
from core.errors import BadInput


@pytest.mark.parametrize(
    ("written", "chord"),
    [
        ("Enter", Chord((), "enter")),
        ("return", Chord((), "enter")),
        ("F5", Chord((), "f5")),
        ("ctrl+shift+t", Chord(("ctrl", "shift"), "t")),
        ("Ctrl + Shift + T", Chord(("ctrl", "shift"), "t")),
        ("ctrl+ctrl+a", Chord(("ctrl",), "a")),
        ("T", Chord((), "T")),
        ("€", Chord((), "€")),
        ("+", Chord((), "+")),
        ("ctrl++", Chord(("ctrl",), "+")),
        ("ctrl+plus", Chord(("ctrl",), "+")),
        (" ", Chord((), "space")),
        ("cmd+option+Esc", Chord(("meta", "alt"), "escape")),
        ("super", Chord((), "meta")),
        ("PageDown", Chord((), "pagedown")),
        ("shift+ß", Chord(("shift",), "ß")),
    ],
)
def test_keys_are_read_as_people_write_them(written: str, chord: Chord) -> None:
    assert parse_chord(written) == chord


@pytest.mark.parametrize(
    "written", ["", "++", "+a", "ctrl+", "hyper+a", "F25", "ctrl+ctrl", "two words", "\x07"]
)
def test_what_is_no_key_is_refused_with_what_there_is(written: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse_chord(written)
    assert "Unknown" in caught.value.message


def test_every_named_key_is_known_to_every_system() -> None:
    assert all(x11_input.keysym_of_name(name) for name in NAMED)
    assert set(NAMED) <= WINDOWS_KEYS.keys()
    # Apple's keyboards have neither locks but one, nor a print key, and end at F20.
    lacking = {"numlock", "scrolllock", "printscreen", "pause", "f21", "f22", "f23", "f24"}
    assert set(NAMED) - MAC_KEYS.keys() == lacking


@pytest.mark.parametrize(
    ("character", "keysym"),
    [("a", 0x61), ("ß", 0xDF), ("€", 0x010020AC), ("✓", 0x01002713), ("🙂", 0x0101F642), ("\n", 0xFF0D)],
)
def test_a_character_has_the_keysym_that_x11_gives_it(character: str, keysym: int) -> None:
    assert x11_input.keysym_of_character(character) == keysym


def test_roles_and_states_are_words() -> None:
    assert (role_word(40), role_word(43), role_word(79), role_word(129)) == (
        "password text",
        "push button",
        "entry",
        "push button menu",
    )
    assert role_word(9_999) == role_word(-1) == "unknown"
    assert state_words([1 << 8 | 1 << 12 | 1 << 25, 1 << (43 - 32)]) == (
        "enabled",
        "focused",
        "showing",
        "read only",
    )
    assert state_words([]) == ()


def test_both_shapes_of_a_toolkits_cache_are_read() -> None:
    own, app, parent = [":1.2", "/a/1"], [":1.2", "/a/root"], [":1.2", "/a/0"]
    wanted = (Ref(":1.2", "/a/1"), Cached(2, 43, "OK", [256, 0], ["org.a11y.atspi.Action"]))
    newer = [own, app, parent, 0, 2, ["org.a11y.atspi.Action"], "OK", 43, "", [256, 0]]
    older = [
        own,
        app,
        parent,
        [[":1.2", "/x"], [":1.2", "/y"]],
        ["org.a11y.atspi.Action"],
        "OK",
        43,
        "",
        [256, 0],
    ]
    assert cached_item(newer) == cached_item(older) == wanted


@pytest.mark.parametrize(
    "item", [[], [1, 2], [[":1.2", "/a"], [], [], 0], [[], [], [], 0, 0, [], "", 1, "", []]]
)
def test_a_cache_entry_of_another_shape_is_left_out(item: list[object]) -> None:
    assert cached_item(item) is None
