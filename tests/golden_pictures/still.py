"""Holds still what else differs between two drawings: the clock, random bytes, new keys.

`hold` comes before the modules of the program are imported: many take `datetime` by name.
"""

from __future__ import annotations

import datetime as datetime_module
import hashlib
import os
import random
import time
from typing import Any

# A Thursday; the time of day is that of the look's first pictures.
NOW = 1_773_312_067.0
_real_datetime = datetime_module.datetime


class _AnyDatetime(type):
    """Real moments, which C code makes, are instances too."""

    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, _real_datetime)


class StillDatetime(_real_datetime, metaclass=_AnyDatetime):
    """`datetime` with a clock that stands at `NOW`."""

    @classmethod
    def now(cls, tz: datetime_module.tzinfo | None = None) -> Any:
        """The fixed moment."""
        return _real_datetime.fromtimestamp(NOW, tz)


class _FixedBytes:
    """`os.urandom` with the same bytes in each process; no two calls return the same."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self, size: int) -> bytes:
        self._calls += 1
        return hashlib.shake_256(self._calls.to_bytes(8, "big")).digest(size)


def hold() -> None:
    """Stop the clocks and fix the random bytes of this process, for good.

    `time.monotonic` goes on: timers and pauses need it. `time.perf_counter` stands still, so that what is
    measured takes 0 ms, and what works in slices of time does all at once.
    """
    datetime_module.datetime = StillDatetime  # type: ignore[misc]
    time.time = lambda: NOW
    time.time_ns = lambda: int(NOW) * 1_000_000_000
    time.perf_counter = lambda: 0.0
    os.urandom = random._urandom = _FixedBytes()  # type: ignore[attr-defined]
    random.seed(0)
    _fix_new_keys()


def _fix_new_keys() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    def generate(cls: type[Ed25519PrivateKey]) -> Ed25519PrivateKey:
        return cls.from_private_bytes(os.urandom(32))

    Ed25519PrivateKey.generate = classmethod(generate)  # type: ignore[method-assign,assignment]
