"""One line on a terminal that says how far long work is."""

from __future__ import annotations

import sys

from core.cli.output import note
from core.cli.terminal import moves_cursor

_TO_THE_END = "\x1b[K"


class ProgressLine:
    """The line, drawn over itself on standard error; nothing where that is no terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._shown = False
        self._wanted = sys.stderr.isatty() and moves_cursor()

    def show(self, words: str) -> None:
        """Say how far it is now."""
        if self._wanted:
            self._shown = True
            print(f"\r{self._what}: {words}{_TO_THE_END}", end="", file=sys.stderr, flush=True)

    def show_bytes(self, done: int, total: int) -> None:
        """Say how many of how many bytes are done."""
        if total:
            self.show(f"{100 * done // total} % of {total / 1e6:,.1f} MB")

    def close(self) -> None:
        """End the line."""
        if self._shown:
            note("")
