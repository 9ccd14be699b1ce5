"""Identifiers that sort by time: 26 characters, 48 bits of milliseconds and 80 random bits.

The form is that of a ULID (Crockford's base 32), so that a person can read one aloud.
"""

from __future__ import annotations

import os
import threading
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Two digits at a time: half the steps.
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]


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
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -10, -10)])


def random_word(count: int) -> str:
    """So many random bytes of the system's that nobody else was given, in hexadecimal digits."""
    return _random.take(count).hex()


def new_uuid() -> str:
    """A fresh random UUID (RFC 9562, version 4), as AIP names frames."""
    number = int.from_bytes(_random.take(16)) & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class _Clock:
    """The wall clock as text. What does not change within a second is written once a second."""

    def __init__(self) -> None:
        self._written = (-1, "")

    def text(self) -> str:
        """Now, in UTC: ISO 8601 with microseconds, without a zone."""
        second, rest = divmod(time.time_ns(), 1_000_000_000)
        # Read once: another thread may write it meanwhile.
        written, start = self._written
        if written != second:
            start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
            self._written = (second, start)
        return f"{start}.{rest // 1000:06d}"


_clock = _Clock()


def now_utc() -> str:
    """The present moment in UTC, ISO 8601 with microseconds and `Z`."""
    return f"{_clock.text()}Z"


def now_stamp() -> str:
    """The same as AIP writes it: with its offset from UTC."""
    return f"{_clock.text()}+00:00"
