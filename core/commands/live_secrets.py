"""Remembers secrets that were sent to devices, to redact them wherever a device repeats them.

A secret that is redacted in a command's arguments could otherwise appear in its result, an error, progress,
or the result of a later command. The secrets are in the service's memory only, and are never stored.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from core.aip.binary_frames import BASE64_KEY
from core.commands.arguments import Arguments
from core.commitments import opened
from core.json_walk import values_in
from core.token_formats import MASK, Span, open_token, replaced, token_spans

SHORTEST = 4
"""Length of the shortest secret that is recognised: shorter strings occur in any text by chance."""
MOST_OF_EACH = 64
"""Secrets that are remembered for each device and for each run: the latest ones."""
MOST_CHARACTERS = 16 * 1024 * 1024
"""Total characters of remembered secrets; the least recently sent are dropped first."""
# So few digits occur in longer numbers by chance.
_SHORT_DIGITS = re.compile(r"[0-9]{4,5}")
_MOST_LINES = 200
_SHORTEST_LINE = 16
# A longer secret is recognised only verbatim and JSON-escaped.
_LONGEST_SPELT = 2_048
_SHORTEST_BASE64 = 6
_MOST_SPELT = 1_024
# Levels of a result; deeper values are refused (`result_sanitizer`), so they need not be redacted.
MOST_DEPTH = 100
_LONGEST_END = 256


class Redaction:
    """Redacts one answer: the secrets of its device and run, and tokens of well-known formats.

    `count` is the number of redacted places.
    """

    def __init__(self, spellings: tuple[str, ...] = ()) -> None:
        """`spellings` are all the forms in which the secrets may be written."""
        self._spellings = spellings
        self.count = 0

    def text(self, text: str) -> str:
        """The redacted text."""
        spans = self._spans(text)
        if not spans:
            return text
        self.count += len(spans)
        return replaced(text, spans)

    def value(self, value: Any, depth: int = 0) -> Any:
        """JSON data, redacted in all its strings, including the names of members.

        A number is redacted if the whole number is a secret. Not redacted: values nested deeper than a result
        may be, and bytes, also as base64 (`data_base64`); see `data`. Returns the same object if nothing is
        redacted.
        """
        value_type = type(value)
        if value_type is str:
            return self.text(value)
        if value is None or value_type is bool or depth > MOST_DEPTH:
            return value
        if isinstance(value, dict):
            return self._members(value, depth)
        if isinstance(value, list):
            elements = [self.value(element, depth + 1) for element in value]
            unchanged = all(new is old for new, old in zip(elements, value, strict=True))
            return value if unchanged else elements
        if self._spellings and isinstance(value, int | float) and str(value) in self._spellings:
            self.count += 1
            return MASK
        return value

    def data(self, data: bytes) -> bytes:
        """Bytes other than pictures, redacted like text."""
        # `surrogateescape` restores bytes that are not UTF-8.
        text = data.decode("utf-8", "surrogateescape")
        redacted = self.text(text)
        return data if redacted is text else redacted.encode("utf-8", "surrogateescape")

    def beginning(self, text: str) -> tuple[str, str]:
        """Split an unfinished text: its redacted beginning, and the rest, in which a secret may begin."""
        spans = self._spans(text)
        split = min(open_token(text), *(_open_end(text, spelling) for spelling in self._spellings), len(text))
        # A complete secret is not withheld only because another secret may begin within it.
        split = max(split, *(end for start, end in spans if start < split < end), 0)
        complete = [span for span in spans if span[1] <= split]
        self.count += len(complete)
        return replaced(text[:split], complete), text[split:]

    def _members(self, value: dict[Any, Any], depth: int) -> dict[Any, Any]:
        redacted: dict[Any, Any] = {}
        unchanged = True
        for name, member in value.items():
            # Redacting base64 would corrupt it; its content is redacted after decoding.
            redacted_member = member if name == BASE64_KEY else self.value(member, depth + 1)
            redacted_name = self.text(name) if isinstance(name, str) else name
            while redacted_name in redacted:
                redacted_name += MASK
            unchanged = unchanged and redacted_member is member and redacted_name is name
            redacted[redacted_name] = redacted_member
        return value if unchanged else redacted

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
    """The index of the text's longest suffix that is a prefix of `spelling`."""
    for length in range(min(len(spelling) - 1, len(text), _LONGEST_END), 0, -1):
        if text.endswith(spelling[:length]):
            return len(text) - length
    return len(text)


class Stream:
    """Redacts a text that arrives in parts: a secret may be split between two parts."""

    def __init__(self, redaction: Redaction) -> None:
        self._redaction = redaction
        self._rest = ""

    def feed(self, text: str) -> str:
        """The redacted text that may be shown now; the end of a part may have to wait for the next part."""
        displayable, self._rest = self._redaction.beginning(self._rest + text)
        return displayable


class LiveSecrets:
    """The secrets sent to each device and in each run since the service started."""

    def __init__(self) -> None:
        # By device and by run: each secret with its spellings, the latest used last.
        self._sent: OrderedDict[tuple[str, str], OrderedDict[str, tuple[str, ...]]] = OrderedDict()
        self._spelt: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._characters = 0

    def remember(self, device: str, run: str | None, secrets: Iterable[str]) -> None:
        """Remember the secrets of a command that is about to be sent."""
        for secret in secrets:
            spellings = self._spellings_of(secret)
            for key in _keys(device, run):
                self._add(key, secret, spellings)

    def redaction(self, device: str, run: str | None = None, own_secrets: Sequence[str] = ()) -> Redaction:
        """The `Redaction` for a device's answer to a command of a run.

        `own_secrets` are the command's secrets, redacted even if they have been dropped from memory since.
        """
        if not self._sent and not own_secrets:
            return Redaction()
        remembered = [self._sent[key] for key in _keys(device, run) if key in self._sent]
        groups = [spellings for secrets in remembered for spellings in secrets.values()]
        return Redaction(_longest_first([*groups, *map(self._spellings_of, own_secrets)]))

    def redact_everywhere(self, text: str, extra: Iterable[str] = ()) -> str:
        """Redact every remembered secret, and `extra`, in a text that does not come from a device."""
        remembered = (spellings for secrets in self._sent.values() for spellings in secrets.values())
        return Redaction(_longest_first([*remembered, *map(self._spellings_of, extra)])).text(text)

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
        """`spellings`, cached: a run sends the same secret to a thousand devices."""
        cached = self._spelt.get(secret)
        if cached is None:
            cached = self._spelt[secret] = spellings(secret)
            if len(self._spelt) > _MOST_SPELT:
                self._spelt.popitem(last=False)
        return cached


def _keys(device: str, run: str | None) -> list[tuple[str, str]]:
    return [("device", device), *([("run", run)] if run else [])]


def _longest_first(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({spelling for group in groups for spelling in group}, key=len, reverse=True))


def secrets_in(arguments: Arguments) -> Iterator[str]:
    """Every string and number in the secrets of these arguments that is long enough to recognise."""
    for value in opened(arguments.sent, arguments.openings):
        yield from texts_in(value)


def texts_in(value: Any) -> Iterator[str]:
    """Every string and number in a JSON value that is long enough to recognise; names are not included."""
    for item in values_in(value):
        if isinstance(item, str | int | float) and not isinstance(item, bool):
            text = str(item)
            if len(text.strip()) >= SHORTEST:
                yield text


def spellings(secret: str) -> tuple[str, ...]:
    """The forms in which a secret may be written: verbatim, and escaped, quoted or encoded.

    Each form has at least `SHORTEST` characters. Longer lines of a multi-line secret are forms of their own.
    """
    texts = list(dict.fromkeys((secret, secret.strip())))
    lines = [line.strip() for line in secret.splitlines()[:_MOST_LINES]] if "\n" in secret else []
    texts += [line for line in lines if len(line) >= _SHORTEST_LINE]
    distinct: dict[str, None] = {}
    for text in texts:
        forms = [text, *_in_json(text)]
        if len(text) <= _LONGEST_SPELT:
            forms += [*_escaped(text), *_encoded(text.encode("utf-8", "surrogatepass"))]
        distinct.update(dict.fromkeys(forms))
    return tuple(form for form in distinct if len(form) >= SHORTEST)


def _in_json(text: str) -> Iterator[str]:
    """As within a JSON string, and within a JSON string that is nested in another."""
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]


def _escaped(text: str) -> Iterator[str]:
    """As in a URL, in HTML, in a shell command line, and in Python's `repr`."""
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
    """In hexadecimal, and in base64 at any offset within longer data."""
    yield data.hex()
    yield data.hex().upper()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        forms = [encode(data).decode().rstrip("=")]
        for before in range(3):
            # Only the digits that depend on the secret alone are the same in any context.
            digits = encode(bytes(before) + data).decode()
            forms.append(digits[-(-before * 8 // 6) : (before + len(data)) * 8 // 6])
        yield from (form for form in forms if len(form) >= _SHORTEST_BASE64)
