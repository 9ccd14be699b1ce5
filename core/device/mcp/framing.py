"""Splits a server's output into lines of bounded length, and logs its other output at a bounded rate."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from core.text import shorten_middle

_KEPT_END = 4096
_MOST_SEARCHED = 100_000
_LAST_LINES = 4
_MOST_LAST = 300
# The id is at the beginning of an answer or, from some servers, at its end.
_ID_FIRST = re.compile(rb'^\s*\{(?:\s*"jsonrpc"\s*:\s*"2\.0"\s*,)?\s*"id"\s*:\s*(\d{1,15})\s*,')
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that was discarded: its size, and the id of the request that it answers, if found."""

    size: int
    request_id: int | None


class LineCutter:
    """Splits a stream of bytes into lines of at most `most` bytes; longer lines are discarded."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0
        self._head = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that end in `chunk`, without their line ends."""
        *ended, rest = chunk.split(b"\n")
        lines: list[bytes | TooLong] = []
        for part in ended:
            self._add(part)
            lines.append(self._take())
        self._add(rest)
        return lines

    def _add(self, part: bytes) -> None:
        if not part:
            return
        self._size += len(part)
        if self._size <= self._most:
            self._parts.append(part)
            return
        if self._parts:
            whole = b"".join(self._parts)
            self._head, self._tail = whole[:_KEPT_END], whole[-_KEPT_END:]
            self._parts.clear()
        self._head = self._head or part[:_KEPT_END]
        self._tail = (self._tail + part[-_KEPT_END:])[-_KEPT_END:]

    def _take(self) -> bytes | TooLong:
        line: bytes | TooLong = b"".join(self._parts)
        if self._size > self._most:
            line = TooLong(self._size, _request_in(self._head, self._tail))
        self._parts.clear()
        self._size, self._head, self._tail = 0, b"", b""
        return line


def request_of(line: bytes) -> int | None:
    """The id of the request that an invalid line answers; None where it cannot be found."""
    return _request_in(line[:_KEPT_END], line[-_KEPT_END:])


def _request_in(head: bytes, tail: bytes) -> int | None:
    found = _ID_FIRST.search(head) or _ID_LAST.search(tail)
    return int(found[1]) if found else None


class ServerLog:
    """Logs a server's output beside its answers: shortened, rate-limited, and with secrets redacted."""

    def __init__(
        self,
        write: Callable[[str, str], None],
        hide: Callable[[str], str],
        *,
        most_lines: int = 40,
        each_s: float = 10.0,
        most_characters: int = 500,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._hide = hide
        self._most = most_lines
        self._each_s = each_s
        self._characters = most_characters
        self._clock = clock
        self._since = clock()
        self._written = 0
        self._dropped = 0
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._odd = ""

    @property
    def last(self) -> str:
        """The last lines of standard error as logged; several, because the last often explains nothing."""
        return shorten_middle(" / ".join(self._shown(line) for line in self._last), _MOST_LAST)

    @property
    def odd(self) -> str:
        """The first line of standard output that was not a message, as logged."""
        return self._shown(self._odd)

    def forget(self) -> None:
        """Reset `last` and `odd`."""
        self._last.clear()
        self._odd = ""

    def say_odd(self, text: str) -> None:
        """Log a line of standard output that is not a message."""
        self._odd = self._odd or text
        self.say("stdout", f"not a message: {text}")

    def say(self, where: str, text: str) -> None:
        """Log a line from `where`, or only count it beyond the rate limit."""
        if not text.strip():
            return
        if where == "stderr":
            self._last.append(text)
        now = self._clock()
        if now - self._since >= self._each_s:
            if self._dropped:
                self._write(where, f"({self._dropped} more lines were not logged)")
            self._since, self._written, self._dropped = now, 0, 0
        if self._written >= self._most:
            # Lines beyond the limit are not searched for secrets either, which would take too long.
            self._dropped += 1
        elif shown := self._shown(text):
            self._written += 1
            self._write(where, shown)

    def _shown(self, text: str) -> str:
        # Redacted before it is cut, because half a secret would not be recognised.
        whole = self._hide(text[:_MOST_SEARCHED])
        shown = "".join(sign if sign.isprintable() else " " for sign in whole).strip()
        return shown if len(shown) <= self._characters else f"{shown[: self._characters]}…"
