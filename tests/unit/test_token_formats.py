"""Tokens of well-known formats are found in any text, and nothing else is."""

from __future__ import annotations

import json
import random
import re
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import token_formats
from core.aip.pairing import Pairing, encode_pairing
from core.token_formats import MASK, open_token, token_spans, without_tokens
from core.tokens import new_token

_random = random.Random(7)


def of(count: int, letters: str = string.ascii_letters + string.digits) -> str:
    return "".join(_random.choice(letters) for _ in range(count))


UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URL_SAFE = string.ascii_letters + string.digits + "-_"
TOKENS = {
    "AWS key": f"AKIA{of(16, UPPER)}",
    "AWS session": f"ASIA{of(16, UPPER)}",
    "GitHub": f"ghp_{of(36)}",
    "GitHub fine": f"github_pat_{of(82)}",
    "GitLab": f"glpat-{of(20)}",
    "Slack": f"xoxb-{of(12, string.digits)}-{of(24)}",
    "Stripe": f"sk_live_{of(24)}",
    "Google": f"AIza{of(35)}",
    "OpenAI": f"sk-proj-1{of(40)}",
    "Anthropic": f"sk-ant-api03-{of(90)}",
    "JWT": f"eyJ{of(20)}.eyJ{of(60)}.{of(43)}",
    "npm": f"npm_{of(36)}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{of(60)}",
    "Hugging Face": f"hf_{of(34)}",
    "SendGrid": f"SG.{of(22)}.{of(43)}",
    "DigitalOcean": f"dop_v1_{of(64, HEX)}",
    "Vault": f"hvs.{of(30)}",
    "ours": new_token(),
    "an agent's": new_token("night-shift."),
    "an agent's of before": f"night-shift.{of(43, URL_SAFE)}",
    "an address of before": f"token={of(43, URL_SAFE)}",
    "a pairing string": encode_pairing(Pairing("wss://10.0.0.1:8765", "lab-1", new_token(), "0" * 64)),
}
# The first begins with a name, which is no secret; nothing marks the other until it is complete.
UNMARKED = {"an agent's", "an agent's of before"}
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{of(64)}\n{of(64)}\n-----END RSA PRIVATE KEY-----"
AROUND = [
    "{}", "x={}", '"{}"', "({})", "a {} b", "export A={}; echo", "https://u:{}@host/", "/{}/", "{}\n{}",
    "Authorization: token {}", "\t{},", "ü{}ü", "one\\n{}\\ntwo", "a%20{}%20b", "a%3D{}", "\\t{}", "[{}]",
    "\\u0022{}\\u0022",
]  # fmt: skip


@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_is_masked_wherever_it_stands(kind: str) -> None:
    token = TOKENS[kind]
    masked = {around: without_tokens(around.replace("{}", token)) for around in AROUND}
    assert {around: text for around, text in masked.items() if token[8:-4] in text or MASK not in text} == {}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("curl -H 'Authorization: Bearer abcdefgh12' x", "curl -H 'Authorization: Bearer •••' x"),
        ("authorization=basic dXNlcjpwYXNz", "authorization=basic •••"),
        ('{"Authorization": "Bearer abc.def-123"}', '{"Authorization": "Bearer •••"}'),
        ("bearer 0123456789abcdef0", "bearer •••"),
        ("git clone https://anna:s3same@host/x.git", "git clone https://anna:•••@host/x.git"),
        ("postgres://u:p%40ss@db:5432/x", "postgres://u:•••@db:5432/x"),
        (f"aws_secret_access_key = {'a' * 40}", "aws_secret_access_key = •••"),
        (f"AWS_SECRET_ACCESS_KEY='{'A/b+' * 10}'", "AWS_SECRET_ACCESS_KEY='•••'"),
        (f'"SecretAccessKey": "{"x" * 40}"', '"SecretAccessKey": "•••"'),
        (f"AccountKey={'k' * 86}==;Endpoint=x", "AccountKey=•••;Endpoint=x"),
        (f"before\n{PEM}\nafter", "before\n•••\nafter"),
        (json.dumps({"key": PEM}), '{"key": "•••"}'),
        (f"{PEM}{PEM}", "•••"),
        (f"{PEM[:90]}{{cut}} off", "•••{cut} off"),
    ],
)
def test_keys_headers_and_addresses_lose_what_is_secret_in_them(text: str, left: str) -> None:
    assert without_tokens(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "task-spinner-0123456789abcdef", "risk-1234567890123456789012345", "sk-spinner-loading-indicator-x",
        "Authorization: none", "the bearer token is missing", "http://localhost:8080/a@b", "http://host:80/",
        "mailto:anna@example.org", "https://host/path?q=a:b", "deadbeef" * 8, "a" * 200, "eyJ begins them",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----", "://:@",
        "sha256:" + "0" * 64, "npm_config_registry=https://registry.npmjs.org/", "hf_hub", "AKIA", "ghp_x",
        "pypi-simple-index", "dapibus ac facilisis in egestas", "xoxo-and-love-from-all-of-us",
        "qdt_, qd1. and token= begin them", "a.Quarterdeck_dispatches_commands_to_its_devices1",
        "com.example.TheQuarterdeckServiceThatDispatches1000Commands", f"sha256.{HEX * 2}01234567890",
        "x?token=the-token-of-a-page-that-is-quite-long-12345", "x." + "a" * 43,
    ],
)  # fmt: skip
def test_what_only_looks_a_little_like_one_is_left_alone(text: str) -> None:
    assert without_tokens(text) == text


def test_a_token_is_found_across_the_windows_of_a_long_text() -> None:
    token = TOKENS["GitHub"]
    for at in range(token_formats._WINDOW - 50, token_formats._WINDOW + 5):
        text = "x" * at + " " + token + " " + "y" * token_formats._WINDOW
        assert token_spans(text) == [(at + 1, at + 1 + len(token))]


def test_the_work_is_in_proportion_to_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """However a text is made up, no place in it is looked at more often than its beginnings say."""

    class Counting:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern, self.calls = pattern, 0

        def __getattr__(self, name: str) -> Any:
            def counted(*asked: Any) -> Any:
                self.calls += 1
                return getattr(self.pattern, name)(*asked)

            return counted

    names = ("_BEGINNINGS", "_TOKENS", "_KEY_BEGINS", "_KEY_ENDS", "_KEY_BODY")
    for evil in (
        "-eyJ",
        "://a:",
        "-sk-",
        "-----BEGIN PRIVATE KEY-----",
        "bearer a",
        "authorization: ",
        "AKIA",
    ):
        costs = []
        for times in (2_000, 8_000):
            counted = {name: Counting(getattr(token_formats, name)) for name in names}
            with monkeypatch.context() as patch:
                for name, pattern in counted.items():
                    patch.setattr(token_formats, name, pattern)
                token_spans(evil * times)
            costs.append(sum(pattern.calls for pattern in counted.values()))
        assert costs[1] <= 5 * costs[0], evil


@given(st.text(max_size=200))
def test_whatever_the_text_masking_it_twice_changes_nothing_more(text: str) -> None:
    once = without_tokens(text)
    assert without_tokens(once) == once


@pytest.mark.parametrize("kind", sorted(TOKENS.keys() - UNMARKED))
def test_a_token_that_is_cut_anywhere_is_seen_to_have_begun(kind: str) -> None:
    text = f"it is: {TOKENS[kind]}"
    begins = text.index(TOKENS[kind])
    for cut in range(begins + 4, len(text)):
        assert open_token(text[:cut]) <= begins
    assert open_token(text + " and on") == len(text + " and on")
    assert open_token("nothing of the kind") == len("nothing of the kind")
