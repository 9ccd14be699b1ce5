"""A journal in memory: entries with numbers and times, blobs by digest, the journal's query language."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from core.audit.entries import Entry, Kind
from core.audit.query import TEXT_FIELDS
from core.canonical_json import sha256_hex
from core.errors import ErrorCode, QuarterdeckError
from core.service.console import Bucket, EntryPage, Facet, JournalStatus, Proof, VerifyReport
from tests.fakes.fleet_data import NOW
from tests.fakes.journal_proof import matches, parse, prove_entry


def stamp(moment: datetime) -> str:
    """A time as the journal writes it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class FakeJournal:
    """Entries in order. `first_seq` lets it look like the end of a longer journal."""

    def __init__(self, first_seq: int = 1) -> None:
        self.entries: list[Entry] = []
        self.blobs: dict[str, bytes] = {}
        self.status = JournalStatus(entries=first_seq - 1, writable=True)
        self._first = first_seq

    def add_blob(self, data: bytes) -> str:
        """Keep a blob and return its digest."""
        digest = sha256_hex(data)
        self.blobs[digest] = data
        return digest

    def write(self, kind: Kind, actor: str, at: datetime | None = None, **fields: Any) -> Entry:
        """Add an entry; `at` is now by default and never goes back behind the entry before."""
        moment = stamp(at or datetime.now(UTC))
        if self.entries and moment < self.entries[-1].time:
            moment = self.entries[-1].time
        entry = Entry(seq=self._first + len(self.entries), time=moment, kind=kind, actor=actor, **fields)
        self.entries.append(entry)
        self.status = self.status.model_copy(update={"entries": entry.seq})
        return entry

    def find(self, seq: int) -> Entry:
        """One entry. NOT_FOUND."""
        place = seq - self._first
        if not 0 <= place < len(self.entries):
            raise QuarterdeckError(f"There is no entry {seq}.", ErrorCode.NOT_FOUND)
        return self.entries[place]

    def matching(self, query: str) -> list[Entry]:
        """Entries that match, newest first. BadInput says what is wrong in the query."""
        parsed = parse(query)
        return [one for one in reversed(self.entries) if matches(one, parsed)]

    def page(self, query: str, before: int | None, limit: int) -> EntryPage:
        """Rows of a query."""
        found = self.matching(query)
        older = [one for one in found if before is None or one.seq < before]
        return EntryPage(
            entries=older[:limit], more=len(older) > limit, total=len(found), total_exact=True, took_ms=3.2
        )

    def histogram(self, query: str, buckets: int) -> list[Bucket]:
        """Counts over time."""
        found = self.matching(query)
        if not found:
            return []
        first, last = (datetime.fromisoformat(found[at].time) for at in (-1, 0))
        width = max((last - first) / buckets, timedelta(milliseconds=1))
        made = []
        for number in range(buckets):
            start = first + width * number
            end = start + width
            inside = [
                one
                for one in found
                if start <= datetime.fromisoformat(one.time) < end
                or (number == buckets - 1 and one is found[0])
            ]
            made.append(
                Bucket(
                    start=stamp(start),
                    end=stamp(end),
                    count=len(inside),
                    failed=sum(1 for one in inside if one.status == "failure"),
                    unknown=sum(1 for one in inside if one.verdict == "unknown"),
                )
            )
        return made

    def facets(self, field: str, prefix: str, limit: int) -> list[Facet]:
        """Values of one field."""
        counts: dict[str, int] = {}
        for one in self.entries:
            value = _value(one, field)
            if value and value.startswith(prefix):
                counts[value] = counts.get(value, 0) + 1
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return [Facet(value=value, count=count) for value, count in ordered[:limit]]

    def proof(self, seq: int) -> Proof:
        """A proof that holds."""
        return prove_entry(self.entries, self.find(seq))

    def verify(self) -> VerifyReport:
        """Always well, and remembered in the status."""
        at = stamp(datetime.now(UTC))
        count = self.status.entries
        self.status = self.status.model_copy(
            update={"verified_at": at, "verified_ok": True, "verified_entries": count}
        )
        return VerifyReport(
            ok=True,
            entries=count,
            blobs=len(self.blobs),
            checkpoints=12,
            took_s=0.4,
            checked_at=at,
            root=sha256_hex(b"root"),
        )


def _value(entry: Entry, field: str) -> str:
    return str(getattr(entry, TEXT_FIELDS.get(field, field), None) or "")


def at(seconds_ago: float) -> datetime:
    """A moment before the fakes were made."""
    return NOW - timedelta(seconds=seconds_ago)
