"""The one line that two ends are paired with."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from core.aip.pairing import Pairing, at_host, check_url, decode_pairing, encode_pairing, is_loopback
from core.errors import BadInput

REMOTE = Pairing("wss://console.lab:5000/ws", "bench 7 ü", "t0ken-that-nobody-may-see", "ab" * 32)


def packed(value: object) -> str:
    data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    body = base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    return f"qd1.{body}.{hashlib.sha256(data).hexdigest()[:8]}"


def test_what_goes_in_comes_out() -> None:
    for pairing in (REMOTE, Pairing("ws://127.0.0.1:5000/ws", "d1", "t"), Pairing("ws://[::1]:9", "d", "t")):
        assert decode_pairing(encode_pairing(pairing)) == pairing


def test_the_string_is_one_line_of_safe_characters_and_its_form_is_fixed() -> None:
    text = encode_pairing(Pairing("ws://127.0.0.1:5000/ws", "d1", "secret"))
    assert text == packed({"u": "ws://127.0.0.1:5000/ws", "n": "d1", "t": "secret", "f": ""})
    assert "secret" not in text


def test_line_breaks_and_spaces_of_a_mail_are_forgiven() -> None:
    text = encode_pairing(REMOTE)
    wrapped = "\r\n  ".join(text[at : at + 20] for at in range(0, len(text), 20))
    assert decode_pairing(f"\t{wrapped}\n\n") == REMOTE


@given(some.data())
def test_one_altered_character_is_noticed(data: some.DataObject) -> None:
    text = encode_pairing(REMOTE)
    at = data.draw(some.integers(0, len(text) - 1))
    letter = data.draw(some.characters(min_codepoint=33, max_codepoint=126))
    if letter.lower() == text[at].lower():
        return
    with pytest.raises(BadInput):
        decode_pairing(text[:at] + letter + text[at + 1 :])


@pytest.mark.parametrize("cut", [1, 4, 20, 60, -9, -1])
def test_half_a_string_is_noticed(cut: int) -> None:
    with pytest.raises(BadInput):
        decode_pairing(encode_pairing(REMOTE)[:cut])


@given(some.text(max_size=200))
def test_any_other_text_is_bad_input_and_nothing_else(text: str) -> None:
    for attempt in (text, f"qd1.{text}", f"qd1.{text}.00000000"):
        with pytest.raises(BadInput):
            decode_pairing(attempt)


@pytest.mark.parametrize("sign", ["\udcff", "é", "\u2028x"])
@pytest.mark.parametrize("at", [0, 3, 20, -1])
def test_bytes_that_a_terminal_garbled_are_bad_input(at: int, sign: str) -> None:
    text = encode_pairing(REMOTE)
    with pytest.raises(BadInput):
        decode_pairing(text[:at] + sign + text[at:][1:])


@pytest.mark.parametrize(
    "value",
    [
        7,
        [],
        {},
        {"u": "wss://h", "n": "d", "t": "t"},
        {"u": "wss://h", "n": "d", "t": "two words", "f": ""},
        {"u": "wss://h", "n": "d", "t": "", "f": ""},
        {"u": "wss://h", "n": " ", "t": "t", "f": ""},
        {"u": "wss://h", "n": "d", "t": "t", "f": "AB" * 32},
        {"u": "ws://10.0.0.7/ws", "n": "d", "t": "t", "f": ""},
        {"u": "http://h", "n": "d", "t": "t", "f": ""},
    ],
)
def test_a_sound_string_with_unsound_parts_is_refused(value: object) -> None:
    with pytest.raises(BadInput):
        decode_pairing(packed(value))


def test_an_error_never_shows_the_token() -> None:
    with pytest.raises(BadInput) as caught:
        decode_pairing(packed({"u": "ws://elsewhere/ws", "n": "d", "t": "hush", "f": ""}))
    assert "hush" not in caught.value.message
    assert "hush" not in repr(Pairing("ws://localhost", "d", "hush"))


@pytest.mark.parametrize(
    ("url", "host", "shown"),
    [
        ("wss://vm:5000/ws", "10.0.0.7", "wss://10.0.0.7:5000/ws"),
        ("wss://vm/ws", "console.example", "wss://console.example/ws"),
        ("wss://vm:5000/ws", "fe80::1", "wss://[fe80::1]:5000/ws"),
        ("wss://[::1]:5000/ws", "[2001:db8::7]", "wss://[2001:db8::7]:5000/ws"),
    ],
)
def test_the_host_of_a_link_can_be_another(url: str, host: str, shown: str) -> None:
    assert at_host(url, host) == shown


@pytest.mark.parametrize("host", ["", "a b", "x/y", "user@h", "h?token=x", "é", "h#x"])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(BadInput):
        at_host("wss://vm:5000/ws", host)


@pytest.mark.parametrize(
    "url", ["ws://127.0.0.1/ws", "ws://localhost:1", "ws://[::1]:5/x", "wss://far.example"]
)
def test_these_addresses_are_used(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    "url", ["ws://127.0.0.1.evil.example/", "ws://localhost.evil/", "ws://0.0.0.0/", "ws://"]
)
def test_plain_links_to_anywhere_else_are_refused(url: str) -> None:
    with pytest.raises(BadInput):
        check_url(url)


def test_loopback_is_told_from_names_that_look_like_it() -> None:
    assert is_loopback("127.8.9.1")
    assert not is_loopback("127.0.0.1.nip.io")
    assert not is_loopback("")
