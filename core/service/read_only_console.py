"""The console API on a home that can only be read: its journal and its runs, and nothing that acts.

For a home on a file system that cannot be written, such as evidence on a medium. No service can own it, so
that the command that asks reads the journal itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

from core.audit.checkpoint import load_public_key
from core.audit.read_only import ReadOnlyJournal, open_read_only
from core.home import Home
from core.service.api.client import Client
from core.service.api.journal import LocalJournal
from core.service.api.methods import ApiMethod
from core.service.api.runs import LocalRuns
from core.service.console import Console, Event
from core.service.ended_runs import EndedRuns
from core.service.service import Service

_READS = {
    "journal": frozenset(
        {
            "entries",
            "numbers",
            "export",
            "entry",
            "histogram",
            "facets",
            "command",
            "blob",
            "prove",
            "timeline",
        }
    ),
    "runs": frozenset({"list", "find", "get", "cells"}),
}


class ReadOnlyConsole(Console):
    """The console of a client where nothing can be written."""

    def __init__(self, home: Home, journal: ReadOnlyJournal, actor: str) -> None:
        super().__init__()
        self._home = home
        # Entries in the spool, which are not shown.
        self.spooled = journal.spooled
        kept = SimpleNamespace(
            journal=journal,
            runs=SimpleNamespace(find=lambda run: None, active=()),
            ended_runs=EndedRuns(),
        )
        # Of a service, the methods in `_READS` use the journal and the runs that are active.
        client = Client(cast(Service, kept), actor)
        self._implementations = {"journal": LocalJournal(client), "runs": LocalRuns(client)}

    async def invoke(self, method: ApiMethod, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if method.name not in _READS.get(method.api, ()):
            raise self._home.not_writable()
        return await getattr(self._implementations[method.api], method.name)(*args, **kwargs)

    def events(self) -> AsyncIterator[Event]:
        raise self._home.not_writable()

    async def close(self) -> None:
        return


@contextlib.asynccontextmanager
async def read_only_console(home: Home, actor: str) -> AsyncIterator[ReadOnlyConsole]:
    """A console on a home that can only be read.

    Raises:
        BadInput: the home has no journal.
        JournalError: the journal cannot be read, or is damaged.
    """
    if not (home.path / "journal.db").exists():
        raise home.not_writable()
    key = load_public_key(home.keys / "journal.pub")
    async with open_read_only(home.path, key) as journal:
        yield ReadOnlyConsole(home, journal, actor)
