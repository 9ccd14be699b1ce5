"""Answers journal queries: pages, entry numbers, counts, facets and histograms.

The journal is searched in spans of entry numbers. A search that finds little ends after about one second; it
returns the entries found and how far it searched.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice

from core.audit.encode import decode
from core.audit.entries import Entry
from core.audit.models import Bucket, ExportCursor, ExportPage, Facet, NumberPage, Page
from core.audit.query import TEXT_FIELDS, Query, parse_query
from core.audit.query_plan import Plan, count_value, first_since, last_seq, plan_search, time_of, values_of
from core.errors import BadInput, JournalCorrupt
from core.ids import now_utc

COUNT_BOUND = 10_000
BUDGET_SECONDS = 1.0
MAX_BUCKETS = 1000
MAX_FACETS = 1000
_PAGE_BYTES = 32 * 1024 * 1024
# A page of an export ends at the first of these; the last entry of a page may have 8 MiB.
EXPORT_ENTRIES = 2_000
EXPORT_BYTES = 4 * 1024 * 1024
# A page may take `BUDGET_SECONDS`; the count that follows must not be noticeable.
COUNT_SECONDS = 0.04
_FIRST_SPAN = 16_384
_MAX_SPAN = 65_536
_FAILED, _UNKNOWN = "failure", "unknown"


def search(
    connection: sqlite3.Connection, query: Query, before: int | None, after: int | None, limit: int
) -> Page:
    """One page of the matching entries."""
    started = time.monotonic()
    deadline = started + BUDGET_SECONDS
    newest_first = before is not None or after is None
    whole = plan_search(connection, query, 1, last_seq(connection))
    low = max(whole.low, after + 1) if after is not None else whole.low
    high = min(whole.high, before - 1) if before is not None else whole.high
    walk = _Walk(connection, whole, low, high, newest_first, deadline)
    with closing(walk):
        found = list(islice(walk, limit + 1))
    complete = len(found) > limit or walk.complete
    entries, cut = _load(connection, found[:limit])
    edge = None
    if cut or len(found) > limit:
        edge = entries[-1].seq
    elif not complete:
        edge = walk.reached
    counter = _Walk(connection, whole, whole.low, whole.high, newest_first, time.monotonic() + COUNT_SECONDS)
    with closing(counter):
        counted = sum(1 for _ in islice(counter, COUNT_BOUND + 1))
    return Page(
        entries=entries,
        count=min(counted, COUNT_BOUND),
        count_exact=counter.exhausted,
        complete=complete,
        searched_to=edge,
        next_before=edge if newest_first else None,
        next_after=None if newest_first else edge,
        took_ms=round((time.monotonic() - started) * 1000, 3),
    )


def search_numbers(
    connection: sqlite3.Connection, query: Query, before: int | None, limit: int
) -> NumberPage:
    """The numbers of the matching entries, highest first.

    There is no next page when all entries were searched. After `BUDGET_SECONDS` the search ends with the
    numbers found so far.
    """
    plan = plan_search(connection, query, 1, last_seq(connection))
    high = min(plan.high, before - 1) if before is not None else plan.high
    walk = _Walk(connection, plan, plan.low, high, True, time.monotonic() + BUDGET_SECONDS)
    with closing(walk):
        numbers = list(islice(walk, limit + 1))
    if len(numbers) > limit:
        return NumberPage(numbers=numbers[:limit], next_before=numbers[limit - 1])
    return NumberPage(numbers=numbers, next_before=None if walk.complete else walk.reached)


def export_page(connection: sqlite3.Connection, query: str, cursor: ExportCursor | None) -> ExportPage:
    """The next entries of an export, oldest first; the first ones without a cursor.

    Like any search it ends after `BUDGET_SECONDS`, with what was found so far and a cursor.

    Raises:
        BadInput: the query or the cursor is invalid.
    """
    head = connection.execute("SELECT note FROM head").fetchone()
    newest = last_seq(connection)
    if cursor is None:
        cursor = ExportCursor(after=0, through=newest, at=now_utc())
    plan = plan_search(connection, parse_query(query, _moment_of(cursor)), 1, min(cursor.through, newest))
    walk = _Walk(
        connection,
        plan,
        max(plan.low, cursor.after + 1),
        plan.high,
        newest_first=False,
        deadline=time.monotonic() + BUDGET_SECONDS,
    )
    texts: list[str] = []
    size, after = 0, cursor.after
    with closing(walk):
        for seq in walk:
            data = _bytes_of(connection, seq)
            texts.append(data.decode())
            size, after = size + len(data), seq
            if len(texts) == EXPORT_ENTRIES or size >= EXPORT_BYTES:
                break
        else:
            after = cursor.through if walk.complete else walk.reached or cursor.after
    return ExportPage(
        entries=texts,
        through=cursor.through,
        checkpoint=head[0] if head is not None else "",
        next=cursor.model_copy(update={"after": after}) if after < cursor.through else None,
    )


def _moment_of(cursor: ExportCursor) -> datetime:
    try:
        moment = _as_datetime(cursor.at)
    except ValueError as error:
        raise BadInput("An export goes on from the cursor of its last page only.") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def entries_of_run(
    connection: sqlite3.Connection, run: str, devices: Sequence[str] | None = None
) -> Generator[Entry, None, None]:
    """All entries of a run, oldest first; with `devices`, those of these devices and of no device.

    The answer to a question of a batch has an empty device: its request is for none.

    Each is read when it is asked for. Close the generator: an unfinished read outlives its transaction.
    """
    marks = (
        ""
        if devices is None
        else f" AND (device IS NULL OR device IN ({','.join('?' * (len(devices) + 1))}))"
    )
    rows = connection.execute(
        f"SELECT entry FROM entries INDEXED BY by_run WHERE run = ?{marks} ORDER BY seq",
        (run, *(() if devices is None else ("", *devices))),
    )
    with closing(rows):
        for row in rows:
            yield decode(row[0])


def facets_of(connection: sqlite3.Connection, name: str, prefix: str, limit: int) -> list[Facet]:
    """The values of a field that begin with `prefix`."""
    if name not in TEXT_FIELDS:
        raise BadInput(f"The field {name!r} has no list of values; these have: {', '.join(TEXT_FIELDS)}.")
    column = TEXT_FIELDS[name]
    facets = []
    for value in islice(values_of(connection, column, prefix), min(limit, MAX_FACETS)):
        count = count_value(connection, column, value, 1, last_seq(connection), COUNT_BOUND)
        facets.append(Facet(value=value, count=count))
    return facets


def histogram_of(connection: sqlite3.Connection, query: Query, buckets: int) -> list[Bucket]:
    """The number of matching entries in equal spans of time, over the time that the query allows."""
    if not 1 <= buckets <= MAX_BUCKETS:
        raise BadInput(f"A histogram has 1 to {MAX_BUCKETS} buckets, not {buckets}.")
    plan = plan_search(connection, query, 1, last_seq(connection))
    if plan.low > plan.high:
        return []
    start = _as_datetime(query.since or time_of(connection, plan.low))
    end = _as_datetime(query.until or time_of(connection, plan.high))
    step = max((end - start) / buckets, timedelta(microseconds=1))
    edges = [_as_text(start + step * number) for number in range(buckets)]
    firsts = [plan.low, *(first_since(connection, edge, plan.low, plan.high) for edge in edges[1:])]
    lasts = [first - 1 for first in firsts[1:]] + [plan.high]
    answer = []
    for number, (low, high) in enumerate(zip(firsts, lasts, strict=True)):
        count, failed, unknown = _count(connection, plan, low, high)
        edge = edges[number + 1] if number + 1 < buckets else _as_text(max(end, start + step * buckets))
        answer.append(Bucket(start=edges[number], end=edge, count=count, failed=failed, unknown=unknown))
    return answer


def _count(connection: sqlite3.Connection, plan: Plan, low: int, high: int) -> tuple[int, int, int]:
    """In a span: the number of matching entries, of those with a failure, of those with verdict unknown."""
    if plan.nothing or low > high:
        return 0, 0, 0
    if not plan.driver and not plan.rest:
        failed = count_value(connection, "status", _FAILED, low, high, high - low + 1)
        unknown = count_value(connection, "verdict", _UNKNOWN, low, high, high - low + 1)
        return high - low + 1, failed, unknown
    sql, parameters = plan.statement(low, high, True)
    # Status and verdict are looked up in their indexes, so the entries, which may be long, are not read.
    probe = "EXISTS (SELECT 1 FROM entries p INDEXED BY by_{0} WHERE p.{0} = ? AND p.seq = m.seq)"
    counts = f"count(*), total({probe.format('status')}), total({probe.format('verdict')})"
    row = connection.execute(f"SELECT {counts} FROM ({sql}) m", [_FAILED, _UNKNOWN, *parameters]).fetchone()
    return int(row[0]), int(row[1]), int(row[2])


class _Walk:
    """Iterates over the matching numbers in order, span by span, until all is searched or time is up."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        plan: Plan,
        low: int,
        high: int,
        newest_first: bool,
        deadline: float,
    ) -> None:
        self._connection = connection
        self._plan = plan
        self._low, self._high = low, high
        self._newest_first = newest_first
        self.deadline = deadline
        self._rows = self._search()
        self.complete = True
        self.exhausted = False
        # The exclusive bound at which the next search begins.
        self.reached: int | None = None

    def __iter__(self) -> Iterator[int]:
        return self._rows

    def close(self) -> None:
        """End the running statement. Otherwise its connection keeps reading an old state until the garbage
        collector runs: in SQLite, a read that has begun survives even a rollback."""
        self._rows.close()

    def _search(self) -> Generator[int, None, None]:
        low, high, span = self._low, self._high, _FIRST_SPAN
        if self._plan.nothing:
            self.exhausted = True
            return
        while low <= high:
            if self._newest_first:
                first, last = max(low, high - span + 1), high
                high = first - 1
                self.reached = first
            else:
                first, last = low, min(high, low + span - 1)
                low = last + 1
                self.reached = last
            for (seq,) in self._connection.execute(*self._plan.statement(first, last, self._newest_first)):
                yield seq
            span = min(span * 2, _MAX_SPAN)
            if time.monotonic() > self.deadline and low <= high:
                self.complete = False
                return
        self.exhausted = True


def _load(connection: sqlite3.Connection, seqs: list[int]) -> tuple[list[Entry], bool]:
    """The entries with these numbers, and whether some were omitted because the page would be too large."""
    entries: list[Entry] = []
    size = 0
    for seq in seqs:
        data = _bytes_of(connection, seq)
        size += len(data)
        if entries and size > _PAGE_BYTES:
            return entries, True
        entries.append(decode(data))
    return entries, False


def _bytes_of(connection: sqlite3.Connection, seq: int) -> bytes:
    """The canonical bytes of an entry that the indexes name."""
    row = connection.execute("SELECT entry FROM entries WHERE seq = ?", (seq,)).fetchone()
    if row is None or type(row[0]) is not bytes:
        raise JournalCorrupt(f"Journal entry {seq} is missing; run `quarterdeck audit verify`.")
    return row[0]


def _as_datetime(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _as_text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds")[:26] + "Z"
