"""Patterns for names of devices, tools, actors, tags and programs: `*`, `?` and `[…]` as in file names."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from functools import lru_cache


def fits(text: str, patterns: list[str]) -> bool:
    """Whether a text matches one of the patterns: `*`, `?` and `[…]` as in file names, case-sensitive."""
    return any(
        pattern == "*" or pattern == text or (is_glob(pattern) and compiled(pattern)(text) is not None)
        for pattern in patterns
    )


def is_glob(pattern: str) -> bool:
    """Whether a pattern has wildcards."""
    return any(sign in pattern for sign in "*?[")


@lru_cache(maxsize=60_000)
def compiled(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """The match function of a pattern that has wildcards, compiled once."""
    return re.compile(fnmatch.translate(re.sub(r"\*+", "*", pattern))).match
