"""The loggers of modules, and whether a process logs at all.

structlog is imported when the first event is logged: with what it imports it takes 40 ms, and most commands
of the terminal log nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_silent = False


class Logger:
    """A module's logger: its methods are those of structlog's bound loggers."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        if _silent:
            return _ignore
        from core.log_library import structlog

        return getattr(structlog.get_logger(self._name), method)


def _ignore(_event: str | None = None, *_values: object, **_fields: object) -> None:
    pass


@contextlib.contextmanager
def silence(silent: bool = True) -> Iterator[None]:
    """Ignore all that this process logs, for a command line whose output is its result; or log again."""
    global _silent
    before, _silent = _silent, silent
    try:
        yield
    finally:
        _silent = before
