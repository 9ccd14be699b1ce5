"""Secrets that were sent, remembered so that they are masked wherever a device says them again.

What is masked in a command's arguments would otherwise come back in its result, in an error, in progress, or
in the result of a later command. The memory is the service's own: it is written nowhere, and ends with it.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus

from core.aip.binary_frames import BASE64_KEY
from core.dispatch.arguments import CheckedArguments, RedactedArguments
from core.token_formats import MASK, Span, open_token, replaced, token_spans

SHORTEST = 4
"""Characters of the shortest secret that is recognised: shorter ones stand in any text by chance."""
MOST_OF_EACH = 64
"""Secrets that are remembered of one device, and of one run: the latest."""
MOST_CHARACTERS = 16 * 1024 * 1024
"""Characters of secrets that are remembered in all; what was sent first is forgotten first."""
# Digits so few stand in longer numbers by chance.
_SHORT_DIGITS = re.compile(r"[0-9]{4,5}")
_MOST_LINES = 200
_SHORTEST_LINE = 16
# A longer secret is recognised as it is, and as it stands in JSON.
_LONGEST_SPELT = 2_048
_SHORTEST_BASE64 = 6
_MOST_SPELT = 1_024
# As deep as a result may be that is kept at all.
_MOST_DEPTH = 100
_LONGEST_END = 256


class Redaction:
    """Masks what one answer may repeat: secrets of its device and its run, and well-known tokens.

    `count` says how many places were masked.
    """

    def __init__(self, spellings: tuple[str, ...] = ()) -> None:
        """`spellings` are all the ways in which what is to be masked may be written."""
        self._spellings = spellings
        self.count = 0

    def text(self, text: str) -> str:
        """The text with everything masked that must be."""
        spans = self._spans(text)
        if not spans:
            return text
        self.count += len(spans)
        return replaced(text, spans)

    def value(self, value: Any, depth: int = 0) -> Any:
        """JSON data with everything masked in its texts, names of members included.

        A number is masked where it is a secret as a whole. Left as they are is what is deeper than a result
        may be, and bytes, also in base64 (`data_base64`): see `data`. The very object comes back where
        nothing is masked.
        """
        kind = type(value)
        if kind is str:
            return self.text(value)
        if value is None or kind is bool or depth > _MOST_DEPTH:
            return value
        if isinstance(value, dict):
            return self._members(value, depth)
        if isinstance(value, list):
            elements = [self.value(element, depth + 1) for element in value]
            same = all(new is old for new, old in zip(elements, value, strict=True))
            return value if same else elements
        if self._spellings and isinstance(value, int | float) and str(value) in self._spellings:
            self.count += 1
            return MASK
        return value

    def data(self, data: bytes) -> bytes:
        """Bytes that are no picture, with everything masked that must be, as in a text."""
        # Bytes that are no UTF-8 come back as they were.
        text = data.decode("utf-8", "surrogateescape")
        masked = self.text(text)
        return data if masked is text else masked.encode("utf-8", "surrogateescape")

    def beginning(self, text: str) -> tuple[str, str]:
        """The masked beginning of a text that goes on, and the rest, in which a secret may have begun."""
        spans = self._spans(text)
        at = min(open_token(text), *(_open_end(text, spelling) for spelling in self._spellings), len(text))
        # What is a secret already is not kept back because another one may begin in it.
        at = max(at, *(end for start, end in spans if start < at < end), 0)
        done = [span for span in spans if span[1] <= at]
        self.count += len(done)
        return replaced(text[:at], done), text[at:]

    def _members(self, value: dict[Any, Any], depth: int) -> dict[Any, Any]:
        masked: dict[Any, Any] = {}
        same = True
        for name, member in value.items():
            # Changed, base64 would be none; what is in it is masked once it is known what it is.
            inner = member if name == BASE64_KEY else self.value(member, depth + 1)
            called = self.text(name) if isinstance(name, str) else name
            while called in masked:
                called += MASK
            same = same and inner is member and called is name
            masked[called] = inner
        return value if same else masked

    def _spans(self, text: str) -> list[Span]:
        spans = token_spans(text)
        for spelling in self._spellings:
            at = text.find(spelling)
            while at >= 0:
                end = at + len(spelling)
                if not (_SHORT_DIGITS.fullmatch(spelling) and _in_number(text, at, end)):
                    spans.append((at, end))
                at = text.find(spelling, end)
        return spans


def _in_number(text: str, start: int, end: int) -> bool:
    return text[start - 1 : start].isdigit() or text[end : end + 1].isdigit()


def _open_end(text: str, spelling: str) -> int:
    """Where in a text its longest end begins that is the beginning of `spelling`."""
    for length in range(min(len(spelling) - 1, len(text), _LONGEST_END), 0, -1):
        if text.endswith(spelling[:length]):
            return len(text) - length
    return len(text)


class Stream:
    """One text that comes in parts: a secret may be cut in two by them."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._rest = ""

    def feed(self, text: str) -> str:
        """What may be shown once this part has come; the end of it may have to wait for the next one."""
        shown, self._rest = self._redaction.beginning(self._rest + text)
        return shown


class LiveSecrets:
    """The secrets that devices and runs were sent while this service runs."""

    def __init__(self) -> None:
        # By device and by run: each secret with its spellings. What was used latest is last.
        self._sent: OrderedDict[tuple[str, str], OrderedDict[str, tuple[str, ...]]] = OrderedDict()
        self._spelt: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._characters = 0

    def remember(self, device: str, run: str | None, arguments: CheckedArguments) -> None:
        """The secrets in these arguments are about to be sent."""
        for secret in secrets_in(arguments):
            spellings = self._spellings_of(secret)
            for key in _keys(device, run):
                self._add(key, secret, spellings)

    def redaction(self, device: str, run: str | None = None, own: Iterable[str] = ()) -> Redaction:
        """What masks an answer of a device, to a command of a run. `own` are the secrets of the command.

        These count also where so many were sent meanwhile that they are not remembered any more.
        """
        known = [self._sent[key] for key in _keys(device, run) if key in self._sent] if self._sent else []
        groups = [spellings for secrets in known for spellings in secrets.values()]
        return Redaction(_longest_first([*groups, *map(self._spellings_of, own)]))

    def everywhere(self, text: str, more: Iterable[str] = ()) -> str:
        """A text with every secret masked that is remembered at all, and `more`: for what no device said."""
        known = (spellings for secrets in self._sent.values() for spellings in secrets.values())
        return Redaction(_longest_first([*known, *map(self._spellings_of, more)])).text(text)

    def _add(self, key: tuple[str, str], secret: str, spellings: tuple[str, ...]) -> None:
        secrets = self._sent.setdefault(key, OrderedDict())
        self._sent.move_to_end(key)
        if secret not in secrets:
            secrets[secret] = spellings
            self._characters += len(secret)
        secrets.move_to_end(secret)
        if len(secrets) > MOST_OF_EACH:
            forgotten, _ = secrets.popitem(last=False)
            self._characters -= len(forgotten)
        while self._characters > MOST_CHARACTERS and len(self._sent) > 1:
            _, dropped = self._sent.popitem(last=False)
            self._characters -= sum(map(len, dropped))

    def _spellings_of(self, secret: str) -> tuple[str, ...]:
        """A run sends the same secret to a thousand devices: it is spelt once."""
        known = self._spelt.get(secret)
        if known is None:
            known = self._spelt[secret] = spellings(secret)
            if len(self._spelt) > _MOST_SPELT:
                self._spelt.popitem(last=False)
        return known


def _keys(device: str, run: str | None) -> list[tuple[str, str]]:
    return [("device", device), *([("run", run)] if run else [])]


def _longest_first(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({spelling for group in groups for spelling in group}, key=len, reverse=True))


def secrets_in(arguments: CheckedArguments | RedactedArguments) -> Iterator[str]:
    """Every text and number in the secret values of these arguments that is long enough to be recognised."""
    for opening in arguments.openings:
        value: Any = arguments.sent
        for step in opening.path:
            value = value[step]
        yield from texts_in(value)


def texts_in(value: Any) -> Iterator[str]:
    """Every text and number in a JSON value that is long enough to be recognised, but for names."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
        elif isinstance(item, str | int | float) and not isinstance(item, bool):
            text = str(item)
            if len(text.strip()) >= SHORTEST:
                yield text


def spellings(secret: str) -> tuple[str, ...]:
    """The ways in which a secret may be written: as it is, and escaped, quoted or encoded for a text around.

    Each has at least `SHORTEST` characters. Of one with several lines, longer lines count by themselves.
    """
    wholes = list(dict.fromkeys((secret, secret.strip())))
    lines = [line.strip() for line in secret.splitlines()[:_MOST_LINES]] if "\n" in secret else []
    wholes += [line for line in lines if len(line) >= _SHORTEST_LINE]
    found: dict[str, None] = {}
    for whole in wholes:
        forms = [whole, *_in_json(whole)]
        if len(whole) <= _LONGEST_SPELT:
            forms += [*_escaped(whole), *_encoded(whole.encode("utf-8", "surrogatepass"))]
        found.update(dict.fromkeys(forms))
    return tuple(form for form in found if len(form) >= SHORTEST)


def _in_json(text: str) -> Iterator[str]:
    """Inside of a JSON text, also of one that is a text in another one."""
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]


def _escaped(text: str) -> Iterator[str]:
    """In an address, in HTML, in a shell line, and as Python writes it."""
    plain = text.encode("utf-8", "surrogatepass")
    for escaped in (quote(plain), quote(plain, safe=""), quote_plus(plain)):
        yield escaped
        yield re.sub(r"%[0-9A-F]{2}", lambda code: code.group().lower(), escaped)
    yield html.escape(text, quote=False)
    yield html.escape(text)
    yield html.escape(text).replace("&#x27;", "&#39;")
    yield shlex.quote(text).strip("'")
    yield text.replace("'", "'\\''")
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", text)
    yield re.sub(r'(["\\$`])', r"\\\1", text)
    yield repr(text)[1:-1]


def _encoded(data: bytes) -> Iterator[str]:
    """In hexadecimal, and in base64 wherever in a longer text it begins."""
    yield data.hex()
    yield data.hex().upper()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        forms = [encode(data).decode().rstrip("=")]
        for before in range(3):
            # Only digits to which nothing but the secret contributes are the same each time.
            digits = encode(bytes(before) + data).decode()
            forms.append(digits[-(-before * 8 // 6) : (before + len(data)) * 8 // 6])
        yield from (form for form in forms if len(form) >= _SHORTEST_BASE64)
