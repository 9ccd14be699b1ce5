"""Identifiers that sort by time, random UUIDs, and time stamps.

An identifier has 26 characters: 48 bits of milliseconds and 80 random bits, in the form of a ULID
(Crockford's base 32), which a person can read aloud.
"""

from __future__ import annotations

import os
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# 256 is a multiple of 32, so that a random byte is translated to each digit equally often.
_DIGITS = _ALPHABET.encode() * 8


def new_id() -> str:
    """A fresh identifier."""
    now = time.time_ns() // 1_000_000
    digits = "".join([_ALPHABET[now >> shift & 31] for shift in range(45, -5, -5)])
    return digits + os.urandom(16).translate(_DIGITS).decode()


def random_word(count: int) -> str:
    """`count` random bytes from the system, in hexadecimal."""
    return os.urandom(count).hex()


def new_uuid() -> str:
    """A fresh random UUID (RFC 9562, version 4), the form of AIP's frame IDs."""
    # `str(uuid.uuid4())` takes four times as long.
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _now() -> str:
    """The present time in UTC, ISO 8601 with microseconds, without a zone."""
    second, rest = divmod(time.time_ns(), 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(second))}.{rest // 1000:06d}"


def now_utc() -> str:
    """The present time in UTC, ISO 8601 with microseconds and `Z`."""
    return f"{_now()}Z"


def now_in_ms() -> str:
    """The present time in UTC, ISO 8601 with milliseconds and `Z`, as in results of LinuxAgent's tools."""
    return f"{_now()[: -len('000')]}Z"


def now_stamp() -> str:
    """The present time in UTC in AIP's form: ISO 8601 with microseconds and the offset `+00:00`."""
    return f"{_now()}+00:00"
