"""Identifiers that sort by time: 26 characters, 48 bits of milliseconds and 80 random bits.

The form is that of a ULID (Crockford's base 32), so that a person can read one aloud.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id() -> str:
    """A fresh identifier."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -5, -5))


def now_utc() -> str:
    """The present moment in UTC, ISO 8601 with microseconds and `Z`."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
