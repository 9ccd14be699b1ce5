"""One write for all entries that are noted in one turn of the event loop.

A thousand commands go through the service together. What each of them notes before it leaves, and after its
answer, costs a system call if it is written alone; gathered, it costs one for all commands of the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from core.audit.encode import Parts
from core.audit.entries import NewEntry
from core.errors import JournalUnavailable


class _Caller(NamedTuple):
    """A caller that waits for the write; `late` are its entries that must not be lost."""

    told: asyncio.Future[None]
    late: Sequence[NewEntry]


class Turn:
    """Gathers encoded entries, and writes them in the next turn of the loop, in the order of the calls."""

    def __init__(
        self, write: Callable[[list[Parts]], None], keep: Callable[[Sequence[NewEntry]], None]
    ) -> None:
        """`write` writes all of these entries or raises `JournalUnavailable`.

        `keep` gets the late entries of a turn that could not be written.
        """
        self._write = write
        self._keep = keep
        self._parts: list[Parts] = []
        self._callers: list[_Caller] = []

    async def written(self, parts: list[Parts], late: Sequence[NewEntry] = ()) -> None:
        """Gather entries; returns when they are written.

        With `late`, the same entries before they were encoded, they are kept if they cannot be written.

        Raises:
            JournalUnavailable: no entry of the turn was written, and these are not kept.
        """
        if not parts:
            return
        loop = asyncio.get_running_loop()
        if not self._parts:
            loop.call_soon(self.write)
        self._parts += parts
        # A future of its own for each caller: cancelling one must not cancel the others.
        caller = _Caller(loop.create_future(), late)
        self._callers.append(caller)
        await caller.told

    def write(self) -> None:
        """Write at once what was gathered, and wake the callers; no effect if nothing was gathered."""
        if not self._parts:
            return
        parts, self._parts = self._parts, []
        callers, self._callers = self._callers, []
        failure: JournalUnavailable | None = None
        try:
            self._write(parts)
        except JournalUnavailable as error:
            failure = error
        for told, late in callers:
            if failure is not None and late:
                self._keep(late)
            if told.done():
                continue
            if failure is None or late:
                told.set_result(None)
            else:
                told.set_exception(JournalUnavailable(failure.message))
