"""Well-known formats of tokens, keys and passwords, and their detection and redaction in free text.

Only secrets of these formats are recognised; no other secret in free text can be told from ordinary text.
"""

from __future__ import annotations

import re
from itertools import pairwise

MASK = "•••"
"""The replacement for a secret in a text that is shown or stored."""
SHORTEST = 16
"""Minimum characters of a text that is searched."""

Span = tuple[int, int]

# Possible beginnings of a token. Each alternative begins with a fixed character, so that the search skips all
# other characters.
_BEGINNINGS = re.compile(
    r"AKIA|ASIA|gh[opsur]_|github_pat_|gl[a-z]{2,5}-|xox[a-z]-|xapp-|hooks\.slack\.com/services/|rk_(?:live|test)_"
    r"|sk_(?:live|test)_|whsec_|sk-|AIza|ya29\.|GOCSPX-|eyJ|npm_|pypi-|hf_|dop_v1_|SG\.|hv[bs]\."
    r"|shp(?:at|ca|pa|ss)_|dapi|ATATT3|dckr_pat_|tskey-|AGE-SECRET-KEY-1|AccountKey=|-----BEGIN |://"
    r"|secret_access_key|SECRET_ACCESS_KEY|SecretAccessKey|secretAccessKey"
    r"|Authorization|authorization|AUTHORIZATION|Bearer |bearer |BEARER "
)
# The named group that matched is redacted, or else the whole match. Every repetition is bounded.
_TOKENS = re.compile(
    r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|gh[opsur]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255}"
    r"|gl(?:pat|dt|ft|rt|cbt|ptt|oas|soat|imt|agent)-[A-Za-z0-9_-]{20,255}"
    r"|xox[abeoprs]-(?=[A-Za-z-]{0,50}[0-9])[A-Za-z0-9-]{10,255}|xapp-[A-Za-z0-9-]{20,255}"
    r"|hooks\.slack\.com/services/(?P<hook>[A-Za-z0-9/]{20,200})"
    r"|[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{24,255}"
    r"|sk-(?=[A-Za-z_-]{0,100}[0-9])[A-Za-z0-9_-]{20,300}"
    r"|AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,500}|GOCSPX-[A-Za-z0-9_-]{28}"
    r"|eyJ[A-Za-z0-9_-]{8,500}\.[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{0,8000}(?:\.[A-Za-z0-9_-]{1,8000}){0,2}"
    r"|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{50,500}|hf_[A-Za-z0-9]{30,100}"
    r"|dop_v1_[a-f0-9]{64}|SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}|hv[bs]\.[A-Za-z0-9_-]{24,500}"
    r"|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|dapi[a-f0-9]{32}|ATATT3[A-Za-z0-9_=-]{50,300}"
    r"|dckr_pat_[A-Za-z0-9_-]{20,100}|tskey-[a-z]{2,20}-[A-Za-z0-9-]{10,100}|AGE-SECRET-KEY-1[A-Z0-9]{58}"
    r"|AccountKey=(?P<azure>[A-Za-z0-9+/]{40,100}={0,2})"
    r"|(?i:secret_?access_?key)[\"']?\s{0,5}[:=]\s{0,5}[\"']?(?P<aws>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])"
    r"|(?i:authorization)[\"']?\s{0,5}[:=]\s{0,5}[\"']?"
    r"(?:(?i:bearer|basic|token|digest|negotiate)\s{1,5})(?P<header>[A-Za-z0-9._~+/=-]{8,2000})"
    r"|(?i:bearer)\s{1,5}(?P<bearer>[A-Za-z0-9._~+/=-]{16,2000})"
    r"|://[^\s/@:\"'<>]{0,100}:(?P<url>[^\s/@\"'<>]{1,200})@"
)
# Tokens and pairing strings of our own; then tokens from before these had a beginning of their own, which are
# recognised in the address for a stock client and after an agent's name. Searched for one by one: a pattern
# that begins with a fixed text costs 5 ms for a megabyte, in `_BEGINNINGS` the same ones cost 150.
_OUR_BEGINNINGS = ("qdt_", "qd1.", "token=")
_OURS = (
    re.compile(r"qdt_[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])"),
    re.compile(r"qd1\.[A-Za-z0-9_-]{40,16384}\.[0-9a-f]{8}(?![A-Za-z0-9_-])"),
    re.compile(r"token=(?P<bare>[A-Za-z0-9_-]{43})(?![A-Za-z0-9_-])"),
    re.compile(r"\.(?P<bare>[A-Za-z0-9_-]{43})(?![A-Za-z0-9_-])"),
)
_SHORTEST_OF_OURS = 44
# Changes between small letters, capitals, digits and other signs in 43 random characters: 27 on average, and
# fewer than this in 1 of 400. An identifier of that length in camel case has some 14.
_CHANGES_IF_RANDOM = 18
# Beginnings that match inside a longer word too: `aws_secret_access_key`, `ProxyAuthorization`.
_NEED_NO_BOUNDARY = ("://", "secret", "authorization", "bearer", "accountkey")
# A letter or digit directly before a beginning means that it is inside a word, unless that character ends an
# escape: `\\n`, `%20`, `\\u0022`.
_IN_WORD = re.compile(r"(?<!\\)(?<!%)(?<!%[0-9A-Fa-f])(?<!\\u[0-9A-Fa-f]{3})[A-Za-z0-9]")
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_HEADER = re.compile(r"-----BEGIN[A-Z0-9 ]{0,60}-{0,4}\Z")
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# The body of a private key that is cut off: base64, line ends (also escaped as in JSON) and headers.
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\s\\,:;.-]{0,40000}")
_LONGEST_KEY = 40_000
# The end of a text that may continue as a token, with an `Authorization` header name or scheme before it.
_LAST_WORD = re.compile(
    r"(?:(?i:authorization)[\"']?\s{0,5}[:=]\s{0,5}[\"']?)?(?:(?i:bearer|basic|token)\s{1,5})?"
    r"[A-Za-z0-9._~+/=:@-]*\Z"
)
_FIRST = (
    "AKIA ASIA ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- xoxb- xoxp- xapp- rk_live_ sk_live_ whsec_ sk- "
    "AIza ya29. GOCSPX- eyJ npm_ pypi- hf_ dop_v1_ SG. hvs. shpat_ dapi ATATT3 dckr_pat_ tskey- "
    "AGE-SECRET-KEY-1 AccountKey= qdt_ qd1. token= -----BEGIN Authorization authorization Bearer bearer"
).split()
_LONGEST_TAIL = 2_200
# Characters searched at a time: a regular expression search holds the interpreter lock until its end.
_WINDOW = 32_768
_LONGEST_BEGINNING = 32


def token_spans(text: str) -> list[Span]:
    """The offsets of the tokens in a text; in time proportional to the text's length."""
    spans: list[Span] = []
    at = 0 if len(text) >= SHORTEST else len(text)
    while at < len(text):
        end = min(len(text), at + _WINDOW)
        begun = _BEGINNINGS.search(text, at, min(len(text), end + _LONGEST_BEGINNING))
        if begun is None:
            at = end
            continue
        span = _token_at(text, begun.start(), begun.group())
        if span is not None:
            spans.append(span)
        at = span[1] if span is not None else begun.start() + 1
    return spans + _our_spans(text)


def _our_spans(text: str) -> list[Span]:
    """The offsets of tokens and pairing strings of our own."""
    # Most texts of a result are shorter, and trying the four patterns takes 3 µs for each.
    if len(text) < _SHORTEST_OF_OURS:
        return []
    return [
        found.span(found.lastgroup or 0)
        for pattern in _OURS
        for found in pattern.finditer(text)
        if found.lastgroup is None or _is_random(found["bare"])
    ]


def _is_random(text: str) -> bool:
    """Whether 43 characters look like a token without a beginning of its own, and not like a name."""
    kinds = [sign.isdigit() + 2 * sign.islower() + 4 * sign.isupper() for sign in text]
    changes = sum(one != other for one, other in pairwise(kinds))
    return changes >= _CHANGES_IF_RANDOM and {1, 2, 4} <= set(kinds)


def _token_at(text: str, at: int, beginning: str) -> Span | None:
    if beginning == "-----BEGIN ":
        return _key_at(text, at)
    in_word = at > 0 and _IN_WORD.match(text, at - 1)
    if in_word and not beginning.lower().startswith(_NEED_NO_BOUNDARY):
        return None
    found = _TOKENS.match(text, at)
    return found.span(found.lastgroup or 0) if found else None


def _key_at(text: str, at: int) -> Span | None:
    """The span of a private key in PEM; a key without end line ends before the first unfitting character."""
    begun = _KEY_BEGINS.match(text, at)
    if begun is None:
        return None
    ends = _KEY_ENDS.search(text, begun.end(), begun.end() + _LONGEST_KEY)
    body = _KEY_BODY.match(text, begun.end())
    return at, ends.end() if ends else body.end() if body else begun.end()


def open_token(text: str) -> int:
    """The offset where an unfinished token may begin in a text that continues; its length if none does."""
    for begun in _KEY_BEGINS.finditer(text, max(0, len(text) - _LONGEST_KEY)):
        if _KEY_ENDS.search(text, begun.end()) is None:
            return begun.start()
    if header := _KEY_HEADER.search(text, max(0, len(text) - _LONGEST_BEGINNING - 60)):
        return header.start()
    found = _LAST_WORD.search(text, max(0, len(text) - _LONGEST_TAIL))
    word = found.group() if found else ""
    begins = (
        _BEGINNINGS.search(word)
        or any(beginning in word for beginning in _OUR_BEGINNINGS)
        or any(_ends_in(word, first) for first in _FIRST)
    )
    return found.start() if found and begins else len(text)


def _ends_in(word: str, first: str) -> bool:
    """Whether a word ends with a prefix of a token's beginning, at a word boundary."""
    for length in range(min(len(first) - 1, len(word)), 0, -1):
        if word.endswith(first[:length]):
            return not word[: len(word) - length][-1:].isalnum()
    return False


def replaced(text: str, spans: list[Span]) -> str:
    """The text with `MASK` in place of each span; spans that overlap or touch are merged."""
    parts: list[str] = []
    done = 0
    for start, end in _merged(spans):
        parts += [text[done:start], MASK]
        done = end
    return "".join([*parts, text[done:]])


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def without_tokens(text: str) -> str:
    """The text with every token of a well-known format redacted."""
    spans = token_spans(text)
    return replaced(text, spans) if spans else text
