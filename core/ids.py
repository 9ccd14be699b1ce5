"""Identifiers that sort by time, random UUIDs, and time stamps.

An identifier has 26 characters: 48 bits of milliseconds and 80 random bits, in the form of a ULID
(Crockford's base 32), which a person can read aloud.
"""

from __future__ import annotations

import os
import threading
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# 256 is a multiple of 32, so that a random byte is translated to each digit equally often.
_DIGITS = _ALPHABET.encode() * 8


class _RandomBytes:
    """Random bytes from the system, fetched many at a time.

    Each system call lets another thread run: beside the journal's busy writer, a few bytes for each command
    cost several times what they cost alone.
    """

    SIZE = 4096

    def __init__(self) -> None:
        self.forget()
        if hasattr(os, "register_at_fork"):
            # After a fork, parent and child must not return the same bytes.
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Discard the fetched bytes and create a new lock."""
        self._lock = threading.Lock()
        self._bytes = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        """Return `count` bytes that no other caller gets."""
        with self._lock:
            at, end = self._at, self._at + count
            if end > len(self._bytes):
                self._bytes = os.urandom(max(self.SIZE, count))
                at, end = 0, count
            self._at = end
            return self._bytes[at:end]


_random = _RandomBytes()


def new_id() -> str:
    """A fresh identifier."""
    now = time.time_ns() // 1_000_000
    digits = "".join([_ALPHABET[now >> shift & 31] for shift in range(45, -5, -5)])
    return digits + _random.take(16).translate(_DIGITS).decode()


def random_word(count: int) -> str:
    """`count` random bytes from the system, in hexadecimal, which no other caller gets."""
    return _random.take(count).hex()


def new_uuid() -> str:
    """A fresh random UUID (RFC 9562, version 4), the form of AIP's frame IDs."""
    # `str(uuid.uuid4())` takes four times as long.
    digits = _random.take(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


# The last second that was put into words, and the words: six stamps of a command and its entries take 17 µs
# with `strftime` for each, a thirtieth of the command. One tuple, so that threads see both or neither.
_last_second = (-1, "")


def _now() -> str:
    """The present time in UTC, ISO 8601 with microseconds, without a zone."""
    global _last_second
    second, rest = divmod(time.time_ns(), 1_000_000_000)
    known, words = _last_second
    if known != second:
        words = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _last_second = (second, words)
    return f"{words}.{rest // 1000:06d}"


def now_utc() -> str:
    """The present time in UTC, ISO 8601 with microseconds and `Z`."""
    return f"{_now()}Z"


def now_in_ms() -> str:
    """The present time in UTC, ISO 8601 with milliseconds and `Z`, as in results of LinuxAgent's tools."""
    return f"{_now()[: -len('000')]}Z"


def now_stamp() -> str:
    """The present time in UTC in AIP's form: ISO 8601 with microseconds and the offset `+00:00`."""
    return f"{_now()}+00:00"
