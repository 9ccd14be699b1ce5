"""The part of the fake door that reads the journal."""

from __future__ import annotations

from abc import abstractmethod

from core.audit.entries import Entry
from core.dispatch.models import CommandResult
from core.errors import ErrorCode, QuarterdeckError
from core.replay.models import Timeline
from core.replay.result_search import ContentHits, find_in_results
from core.service.console import (
    Bucket,
    CommandRecord,
    EntryPage,
    Event,
    Facet,
    JournalChanged,
    NumberPage,
    Proof,
    VerifyReport,
)
from tests.fakes.deciding_door import DecidingDoor
from tests.fakes.journal import FakeJournal
from tests.fakes.runs import FakeRuns
from tests.fakes.timeline import make_timeline


class JournalDoor(DecidingDoor):
    """Entries, proofs, blobs and timelines out of a `FakeJournal`."""

    fake_journal: FakeJournal
    work: FakeRuns

    @abstractmethod
    async def _step(self, method: str) -> None:
        """Count a call, and fail or wait where a test wants it."""

    @abstractmethod
    def emit(self, event: Event) -> None:
        """Send an event to every listener."""

    async def on_entries(self, query: str = "", before: int | None = None, limit: int = 200) -> EntryPage:
        await self._step("entries")
        return self.fake_journal.page(query, before, limit)

    async def on_entry_numbers(
        self, query: str = "", before: int | None = None, limit: int = 10_000
    ) -> NumberPage:
        """By `entries`, so that a door that has others than this journal's answers with theirs."""
        page = await self.on_entries(query, before, limit)
        numbers = [entry.seq for entry in page.entries]
        return NumberPage(numbers=numbers, next_before=numbers[-1] if page.more else None)

    async def on_entry(self, seq: int) -> Entry:
        await self._step("entry")
        return self.fake_journal.find(seq)

    async def on_histogram(self, query: str = "", buckets: int = 80) -> list[Bucket]:
        await self._step("histogram")
        return self.fake_journal.histogram(query, buckets)

    async def on_facets(self, field: str, prefix: str = "", limit: int = 12) -> list[Facet]:
        await self._step("facets")
        return self.fake_journal.facets(field, prefix, limit)

    async def on_proof(self, seq: int) -> Proof:
        await self._step("proof")
        return self.fake_journal.proof(seq)

    async def on_command(self, call_id: str) -> CommandRecord:
        await self._step("command")
        found = [one for one in self.fake_journal.entries if one.call_id == call_id]
        if not found:
            raise QuarterdeckError(f"There is no command {call_id}.", ErrorCode.NOT_FOUND)
        result: CommandResult | None = self.work.result_of(call_id)
        return CommandRecord(
            call_id=call_id, entries=found, decision=result.decision if result else None, result=result
        )

    async def on_verify(self, checkpoint: str | None = None) -> VerifyReport:
        await self._step("verify")
        report = self.fake_journal.verify()
        self.emit(JournalChanged(journal=self.fake_journal.status))
        return report

    async def on_blob(self, sha256: str) -> bytes:
        await self._step("blob")
        if sha256 not in self.fake_journal.blobs:
            raise QuarterdeckError(f"There is no blob {sha256[:12]}.", ErrorCode.NOT_FOUND)
        return self.fake_journal.blobs[sha256]

    async def on_find_in_results(
        self, words: list[str], run: str | None = None, around: int | None = None
    ) -> ContentHits:
        await self._step("find_in_results")
        entries = [entry for entry in self.fake_journal.entries if run is None or entry.run == run]
        return await find_in_results(entries, words, self.on_blob)

    async def on_timeline(self, run: str | None = None, around: int | None = None) -> Timeline:
        await self._step("timeline")
        if run is not None:
            self.work.find(run)
        return make_timeline(self.fake_journal, run, around)
