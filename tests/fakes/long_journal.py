"""A console whose journal has as many entries as a test wants, made when they are asked for."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta

from core.audit.entries import Entry, Kind
from core.audit.query import SeqTerm, parse_query
from core.errors import ErrorCode, QuarterdeckError
from core.service.console import Bucket, EntryPage, JournalChanged, JournalStatus
from tests.fakes.console import FakeConsole
from tests.fakes.journal import stamp
from tests.fakes.journal_proof import matches

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT_BOUND = 10_000
TOOLS = ("screenshot", "shell_execute", "get_system_info", "write_file", "read_file")
KINDS = (Kind.COMMAND_PREPARED, Kind.COMMAND_DECIDED, Kind.COMMAND_SENT, Kind.RESULT_RECORDED)


@functools.lru_cache(2_000)  # a console that is slow itself would hide what the window needs
def made_entry(seq: int) -> Entry:
    """The entry with this number; always the same."""
    command, stage = divmod(seq, len(KINDS))
    ended = stage == len(KINDS) - 1
    return Entry(
        seq=seq,
        time=stamp(START + timedelta(milliseconds=250 * seq)),
        kind=KINDS[stage],
        actor=f"device:lab-lnx-0{command % 5 + 1}" if ended else "service",
        run=f"r-{command // 50:06d}",
        step=f"s{command % 50}",
        device=f"lab-lnx-0{command % 5 + 1}",
        call_id=f"c-{command:07d}",
        tool=TOOLS[command % len(TOOLS)],
        status="success" if ended else None,
        verdict="confirmed" if ended else None,
        duration_ms=float(seq % 900) if ended else None,
        body={"number": seq, "result": {"stdout": "line\n" * (seq % 7)}},
    )


class LongConsole(FakeConsole):
    """Entries 1 to `count`, newest first, by the journal's rules; `grow` adds more."""

    def __init__(self, count: int) -> None:
        super().__init__([])
        self.fake_journal.status = JournalStatus(entries=count, writable=True)

    @property
    def queries(self) -> list[str]:
        """The query of every page that was asked for."""
        return [call["query"] for call in self.calls_of("entries")]

    @property
    def count(self) -> int:
        """How many there are."""
        return self.fake_journal.status.entries

    def grow(self, by: int) -> None:
        """Add entries and tell everybody."""
        self.fake_journal.status = self.fake_journal.status.model_copy(update={"entries": self.count + by})
        self.emit(JournalChanged(journal=self.fake_journal.status))

    def on_entries(self, query: str, before: int | None, limit: int) -> EntryPage:
        parsed = parse_query(query)
        spans = [term for term in parsed.terms if isinstance(term, SeqTerm) and not term.negated]
        low = max([1, *(term.low for term in spans)])
        high = min([self.count, *(term.high for term in spans)])
        everything = len(spans) == len(parsed.terms) and parsed.since is None and parsed.until is None
        top = high if before is None else min(high, before - 1)
        found: list[Entry] = []
        seq = top
        while seq >= low and len(found) <= limit:
            one = made_entry(seq)
            if everything or matches(one, parsed):
                found.append(one)
            seq -= 1
        total = max(0, high - low + 1) if everything else min(len(found), COUNT_BOUND)
        return EntryPage(
            entries=found[:limit],
            more=len(found) > limit,
            total=total,
            total_exact=everything or seq < low,
            took_ms=3.0,
        )

    def on_entry(self, seq: int) -> Entry:
        if not 1 <= seq <= self.count:
            raise QuarterdeckError(f"There is no entry {seq}.", ErrorCode.NOT_FOUND)
        return made_entry(seq)

    def on_histogram(self, query: str, buckets: int) -> list[Bucket]:
        parse_query(query)
        step = max(1, self.count // buckets)
        edges = range(1, self.count + 1, step)
        return [
            Bucket(start=made_entry(low).time, end=made_entry(low + step).time, count=step) for low in edges
        ][:buckets]
