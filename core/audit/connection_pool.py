"""A pool of threads and of read-only connections to the journal; no two threads share a connection."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from core.audit.store import connect, journal_error
from core.errors import JournalUnavailable

Answer = TypeVar("Answer")
_THREADS = 3


class Readers:
    """Runs blocking reads in parallel with the writer; in SQLite's WAL mode they do not block each other."""

    def __init__(self, path: Path, *, immutable: bool = False) -> None:
        """`immutable`: no program changes the file, and SQLite makes no file beside it."""
        self._path = path
        self._immutable = immutable
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="journal-reader")
        self._busy: set[sqlite3.Connection] = set()
        self._closed = False

    async def run(self, work: Callable[[], Answer]) -> Answer:
        """Run blocking work in a thread of the pool.

        Raises:
            JournalUnavailable: the journal is closed.
        """
        if self._closed:
            raise JournalUnavailable("The journal is closed; open the home again to read it.")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def read(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Run `work` with a read-only connection that sees a consistent snapshot of the journal.

        Raises:
            JournalCorrupt, JournalUnavailable: SQLite could not read the journal, or the journal is closed.
        """
        return await self.run(lambda: self._with_connection(work))

    def _with_connection(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        try:
            with self._connection() as connection:
                connection.execute("BEGIN")
                try:
                    return work(connection)
                finally:
                    connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise journal_error(error, self._path) from error

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = connect(self._path, "ro", self._immutable)
        with self._lock:
            self._busy.add(connection)
        whole = True
        try:
            yield connection
        except sqlite3.Error:
            # The connection's state is unknown, so it is closed instead of reused.
            whole = False
            raise
        finally:
            with self._lock:
                self._busy.discard(connection)
                if whole:
                    self._idle.append(connection)
            if not whole:
                connection.close()

    def close(self) -> None:
        """Interrupt running reads, end the threads and close the connections; blocks until that is done."""
        self._closed = True
        with self._lock:
            for connection in self._busy:
                connection.interrupt()
        self._threads.shutdown(wait=True)
        while self._idle:
            self._idle.pop().close()
