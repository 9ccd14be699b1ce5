"""Identifiers that sort by time: 26 characters, 48 bits of milliseconds and 80 random bits.

The form is that of a ULID (Crockford's base 32), so that a person can read one aloud.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class _Pool:
    """Random bytes of the system's, fetched many at a time: asking for a few costs as much, 7 µs."""

    SIZE = 4096

    def __init__(self) -> None:
        self.forget()
        if hasattr(os, "register_at_fork"):
            # Two processes must not hand out the same ones.
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Begin anew."""
        self._lock = threading.Lock()
        self._bytes = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        """So many bytes that nobody else was given."""
        with self._lock:
            if self._at + count > len(self._bytes):
                self._bytes, self._at = os.urandom(self.SIZE), 0
            self._at += count
            return self._bytes[self._at - count : self._at]


_random = _Pool()


def new_id() -> str:
    """A fresh identifier."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(_random.take(10))
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -5, -5))


def now_utc() -> str:
    """The present moment in UTC, ISO 8601 with microseconds and `Z`."""
    return datetime.now(UTC).isoformat(timespec="microseconds")[:26] + "Z"
