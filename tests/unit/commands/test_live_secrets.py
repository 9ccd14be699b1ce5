"""Secrets that were sent are masked when they come back: in every spelling, cut anywhere, and only then."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.commands import live_secrets
from core.commands.arguments import Arguments
from core.commands.live_secrets import MOST_OF_EACH, LiveSecrets, Redaction, Stream, secrets_in, spellings
from core.dispatch.redaction import Redactor
from core.token_formats import MASK
from tests.fakes.arguments import checked, tool_of

SECRETS = [
    "tr0ub4dor", "it's a \"secret\"/pass & <x>", "pâss wörd!", "anna$HOME`x`", "a\\b\\c", "50% off+more",
    "abcd", "line one of a long key\nline two of the long key\n", " padded ", "日本語パス", "12345678",
]  # fmt: skip
SAID_AS = {
    "as it is": lambda s: s,
    "JSON": lambda s: json.dumps({"a": s}),
    "JSON in JSON": lambda s: json.dumps(json.dumps({"a": s})),
    "JSON in Unicode": lambda s: json.dumps({"a": s}, ensure_ascii=False),
    "a path of an address": lambda s: "https://h/" + quote(s),
    "a query": lambda s: urlencode({"a": s}),
    "a query in full": lambda s: "a=" + quote(s, safe=""),
    "a query in small letters": lambda s: re.sub("%..", lambda code: code[0].lower(), quote(s, safe="")),
    "a form": lambda s: quote_plus(s),
    "HTML": lambda s: html.escape(s),
    "a shell line": lambda s: "echo " + shlex.quote(s),
    "Python": lambda s: repr({"a": s}),
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 for addresses": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "hexadecimal": lambda s: s.encode().hex(),
    "hexadecimal in capitals": lambda s: s.encode().hex().upper(),
}


def redaction(*secrets: str) -> Redaction:
    return Redaction(tuple(form for secret in secrets for form in spellings(secret)))


@pytest.mark.parametrize("way", SAID_AS)
def test_a_secret_is_masked_however_it_is_written(way: str) -> None:
    shown = {}
    for secret in SECRETS:
        said = SAID_AS[way](secret)
        masked = redaction(secret).text(f"before {said} after")
        if said in masked or not re.fullmatch(f"before .*{MASK}.* after", masked, re.DOTALL):
            shown[secret] = masked
    assert shown == {}


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "anna:"])
@pytest.mark.parametrize("after", ["", "\n", "@host"])
def test_a_secret_in_the_middle_of_base64_is_masked(before: str, after: str) -> None:
    said = base64.b64encode(f"{before}tr0ub4dor{after}".encode()).decode()
    masked = redaction("tr0ub4dor").text(f"Basic {said}")
    left = masked.removeprefix("Basic ").replace(MASK, "")
    assert len(left) <= len(said) - 10


def test_what_is_short_or_stands_by_chance_is_left_alone() -> None:
    assert redaction("abc").text("abc") == "abc"
    assert redaction("1234").text("512345 and 12345") == "512345 and 12345"
    assert redaction("1234").text("code 1234, or 1234x") == f"code {MASK}, or {MASK}x"
    assert redaction("123456").text("91234567") == f"9{MASK}7"


def test_secrets_that_overlap_are_masked_as_one() -> None:
    masks = redaction("abcdef", "defghi", "abcdefgh")
    assert masks.text("xabcdefghix") == f"x{MASK}x"
    assert masks.text("xabcdef-defghix") == f"x{MASK}-{MASK}x"


def test_a_line_of_a_key_is_one_by_itself() -> None:
    key = "-----BEGIN X-----\nMIIEvQIBADANBgkqhkiG\n9w0BAQEFAASCBKcwggSj\n-----END X-----"
    assert "MIIEvQIBADANBgkqhkiG" not in redaction(key).text("2: MIIEvQIBADANBgkqhkiG")


class TestValues:
    def test_texts_names_and_numbers_are_masked_at_any_depth(self) -> None:
        masks = redaction("tr0ub4dor", "271828")
        value = {
            "a": [{"b": "is tr0ub4dor"}, 271828, 271828.0, 2718281],
            "tr0ub4dor": 1,
            "c": None,
            "d": True,
        }
        assert masks.value(value) == {
            "a": [{"b": f"is {MASK}"}, MASK, 271828.0, 2718281],
            MASK: 1,
            "c": None,
            "d": True,
        }

    def test_members_whose_names_become_alike_are_all_kept(self) -> None:
        masks = redaction("tr0ub4dor", "s3same12")
        masked = masks.value({"tr0ub4dor": 1, "s3same12": 2, MASK: 3})
        assert sorted(masked.values()) == [1, 2, 3]

    def test_what_holds_nothing_comes_back_as_the_very_object(self) -> None:
        value = {"a": [1, {"b": "c"}], "d": "e" * 100}
        masks = redaction("tr0ub4dor")
        assert masks.value(value) is value
        assert masks.count == 0

    def test_bytes_are_masked_whatever_else_they_are(self) -> None:
        masks = redaction("tr0ub4dor")
        assert masks.data(b"\xff\x00tr0ub4dor\xfe") == b"\xff\x00" + MASK.encode() + b"\xfe"
        assert masks.data(data := b"\xff\x00nothing\xfe") is data


class TestStreams:
    @given(st.data())
    def test_wherever_a_text_is_cut_no_part_of_a_secret_shows(self, data: st.DataObject) -> None:
        secret = data.draw(st.sampled_from(["tr0ub4dor", "abab", "aaab", "x y\nz w"]))
        parts = st.sampled_from([secret, secret[:-1], "ab", "a", " ", "\n", "tr0"])
        text = "".join(data.draw(st.lists(parts, max_size=12)))
        stream = Stream(redaction(secret))
        shown, at = "", 0
        while at < len(text):
            length = data.draw(st.integers(1, 7))
            shown += stream.feed(text[at : at + length])
            at += length
        whole = redaction(secret).text(text)
        assert secret not in shown
        # What is not shown yet is the end, and may be the beginning of a secret.
        assert (shown + redaction(secret).text(stream._rest)).replace(MASK, "") in {
            whole.replace(MASK, ""),
            redaction(secret).text(shown + stream._rest).replace(MASK, ""),
        }

    def test_what_cannot_be_the_beginning_of_one_is_shown_at_once(self) -> None:
        stream = Stream(redaction("tr0ub4dor"))
        assert stream.feed("45 %") == "45 %"
        assert stream.feed(" tr0") == " "
        assert stream.feed("uble\n") == "tr0uble\n"

    def test_a_token_and_a_key_that_are_cut_are_masked_as_well(self) -> None:
        stream = Stream(Redaction())
        shown = "".join(map(stream.feed, ["x gh", "p_", "a" * 20, "b" * 16, " y\n"]))
        assert shown == f"x {MASK} y\n"
        key = "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 16 + "\n-----END PRIVATE KEY-----\n"
        shown = "".join(stream.feed(key[at : at + 11]) for at in range(0, len(key), 11))
        assert "QUJD" not in shown
        assert stream.feed("on\n").endswith("on\n")


def arguments(**parameters: Any) -> Arguments:
    return Redactor(b"x" * 32).redact("t", parameters, [])


class TestMemory:
    def remembered(self, memory: LiveSecrets, device: str, run: str | None, **parameters: Any) -> None:
        given = checked(parameters, tool_of("t", {"type": "object"}))
        memory.remember(device, run, secrets_in(given))

    def test_every_text_and_number_in_a_secret_counts_and_nothing_else(self) -> None:
        given = arguments(
            password={"a": ["tr0ub4dor", 27182818, True, None, "abc"], "name": "x" * 5}, user="anna", pin=4711
        )
        assert sorted(secrets_in(given)) == sorted(["tr0ub4dor", "27182818", "xxxxx", "4711"])

    def test_a_device_and_a_run_are_remembered_each(self) -> None:
        memory = LiveSecrets()
        self.remembered(memory, "lab-1", "r-0001", password="tr0ub4dor")
        for device, run, masked in (
            ("lab-1", None, True),
            ("lab-1", "r-0002", True),
            ("lab-2", "r-0001", True),
            ("lab-2", "r-0002", False),
            ("lab-2", None, False),
        ):
            assert (memory.redaction(device, run).text("tr0ub4dor") == MASK) is masked
        assert memory.redact_everywhere("tr0ub4dor") == MASK

    def test_arguments_without_secrets_leave_nothing(self) -> None:
        memory = LiveSecrets()
        self.remembered(memory, "lab-1", "r-0001", user="tr0ub4dor")
        assert memory.redaction("lab-1", "r-0001").text("tr0ub4dor") == "tr0ub4dor"

    def test_what_was_sent_first_is_forgotten_first(self) -> None:
        memory = LiveSecrets()
        for number in range(MOST_OF_EACH + 1):
            self.remembered(memory, "lab-1", None, password=f"s3same-{number:04}")
        masks = memory.redaction("lab-1")
        assert masks.text("s3same-0000") == "s3same-0000"
        assert masks.text("s3same-0001") == MASK
        self.remembered(memory, "lab-1", None, password="s3same-0001")
        self.remembered(memory, "lab-1", None, password="one more")
        assert memory.redaction("lab-1").text("s3same-0001") == MASK

    def test_the_memory_is_bounded_in_characters(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(live_secrets, "MOST_CHARACTERS", 1_000)
        memory = LiveSecrets()
        for number in range(100):
            self.remembered(memory, f"lab-{number}", None, password=f"{number:03}" + "x" * 97)
        kept = [number for number in range(100) if ("device", f"lab-{number}") in memory._sent]
        assert kept == list(range(90, 100))


@given(st.text(min_size=1, max_size=60), st.text(max_size=40), st.text(max_size=40))
def test_no_text_around_a_secret_keeps_it_from_being_masked(secret: str, before: str, after: str) -> None:
    assume(len(secret.strip()) >= 4 and not secret.isdigit())
    try:
        secret.encode()
    except UnicodeEncodeError:
        assume(False)
    assert secret not in redaction(secret).text(before + secret + after).replace(MASK, "\0")
