"""Identifiers that sort by time, random UUIDs, and time stamps.

An identifier has 26 characters: 48 bits of milliseconds and 80 random bits, in the form of a ULID
(Crockford's base 32), which a person can read aloud.
"""

from __future__ import annotations

import os
import threading
import time

_ALPHABET = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_HEX = b"0123456789abcdef"
# RFC 9562: the two highest bits of this digit are the variant of the UUID.
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in _HEX.decode()}


class _Pool:
    """Random digits from the system, fetched many at a time: a call for a few costs as much, 7 µs."""

    SIZE = 4096

    def __init__(self, digits: bytes) -> None:
        """`digits` is the alphabet of 16 or 32 digits, which are equally likely."""
        # 256 is a multiple of the alphabet's size, so that a byte modulo the size is uniform.
        self._table = digits * (256 // len(digits))
        self.forget()
        if hasattr(os, "register_at_fork"):
            # After a fork, parent and child must not return the same digits.
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Discard the fetched digits and create a new lock."""
        self._lock = threading.Lock()
        self._digits = ""
        self._at = 0

    def take(self, count: int) -> str:
        """Return `count` digits that no other caller gets."""
        with self._lock:
            at, end = self._at, self._at + count
            if end > len(self._digits):
                self._digits = os.urandom(self.SIZE).translate(self._table).decode()
                at, end = 0, count
            self._at = end
            return self._digits[at:end]


_base32, _hex = _Pool(_ALPHABET), _Pool(_HEX)


class _Stamp:
    """The ten digits of a millisecond; the last result is cached."""

    def __init__(self) -> None:
        self._written = (-1, "")

    def text(self) -> str:
        """The present millisecond."""
        now = time.time_ns() // 1_000_000
        # Read once: another thread may write it meanwhile.
        written, digits = self._written
        if written != now:
            digits = "".join([chr(_ALPHABET[now >> shift & 31]) for shift in range(45, -5, -5)])
            self._written = (now, digits)
        return digits


_stamp = _Stamp()


def new_id() -> str:
    """A fresh identifier."""
    return _stamp.text() + _base32.take(16)


def random_word(count: int) -> str:
    """`count` random bytes from the system, in hexadecimal, which no other caller gets."""
    return _hex.take(2 * count)


def new_uuid() -> str:
    """A fresh random UUID (RFC 9562, version 4), the form of AIP's frame IDs."""
    digits = _hex.take(31)
    variant = _VARIANT[digits[15]]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[12:15]}-{variant}{digits[16:19]}-{digits[19:]}"


class _Clock:
    """The wall clock as text. The part up to the second is formatted once a second."""

    def __init__(self) -> None:
        self._written = (0, "")

    def text(self, zone: str) -> str:
        """The present time in UTC: ISO 8601 with microseconds, followed by `zone`."""
        now = time.time_ns()
        # Read once: another thread may write it meanwhile.
        second, start = self._written
        rest = now - second
        if not 0 <= rest < 1_000_000_000:
            rest = now % 1_000_000_000
            second = now - rest
            start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second // 1_000_000_000))
            self._written = (second, start)
        return f"{start}.{rest // 1000:06d}{zone}"


_clock = _Clock()


def now_utc() -> str:
    """The present time in UTC, ISO 8601 with microseconds and `Z`."""
    return _clock.text("Z")


def now_in_ms() -> str:
    """The present time in UTC, ISO 8601 with milliseconds and `Z`, as in results of LinuxAgent's tools."""
    return f"{now_utc()[: -len('000Z')]}Z"


def now_stamp() -> str:
    """The present time in UTC in AIP's form: ISO 8601 with microseconds and the offset `+00:00`."""
    return _clock.text("+00:00")
