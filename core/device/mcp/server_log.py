"""The log of what an MCP server writes beside its answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from core.text import shorten_middle

_MOST_SEARCHED = 100_000
_LAST_LINES = 4
_MOST_LAST = 300


class ServerLog:
    """Logs a server's output beside its answers: shortened, rate-limited, and with secrets redacted."""

    def __init__(
        self,
        write: Callable[[str, str], None],
        redact: Callable[[str], str],
        *,
        most_lines: int = 40,
        each_s: float = 10.0,
        most_characters: int = 500,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._redact = redact
        self._most = most_lines
        self._each_s = each_s
        self._characters = most_characters
        self._clock = clock
        self._since = clock()
        self._written = 0
        self._dropped = 0
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._first_stray = ""

    @property
    def last_lines(self) -> str:
        """The last lines of standard error as logged; several, because the last often explains nothing."""
        return shorten_middle(" / ".join(self._displayed(line) for line in self._last_lines), _MOST_LAST)

    @property
    def first_stray(self) -> str:
        """The first line of standard output that was not a message, as logged."""
        return self._displayed(self._first_stray)

    def reset(self) -> None:
        """Reset `last_lines` and `first_stray`."""
        self._last_lines.clear()
        self._first_stray = ""

    def log_stray(self, text: str) -> None:
        """Log a line of standard output that is not a message."""
        self._first_stray = self._first_stray or text
        self.log("stdout", f"not a message: {text}")

    def log(self, where: str, text: str) -> None:
        """Log a line from `where`, or only count it beyond the rate limit."""
        if not text.strip():
            return
        if where == "stderr":
            self._last_lines.append(text)
        now = self._clock()
        if now - self._since >= self._each_s:
            if self._dropped:
                self._write(where, f"({self._dropped} more lines were not logged)")
            self._since, self._written, self._dropped = now, 0, 0
        if self._written >= self._most:
            # Lines beyond the limit are not searched for secrets either, which would take too long.
            self._dropped += 1
        elif shown := self._displayed(text):
            self._written += 1
            self._write(where, shown)

    def _displayed(self, text: str) -> str:
        # Redacted before it is cut, because half a secret would not be recognised.
        whole = self._redact(text[:_MOST_SEARCHED])
        shown = "".join(character if character.isprintable() else " " for character in whole).strip()
        return shown if len(shown) <= self._characters else f"{shown[: self._characters]}…"
