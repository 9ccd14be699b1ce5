"""What the fake console answers about its journal: entries, proofs, blobs, timelines of a `FakeJournal`."""

from __future__ import annotations

from core.audit.entries import Entry
from core.audit.models import ExportCursor, ExportPage
from core.errors import ErrorCode, QuarterdeckError
from core.replay.models import ContentHits, Timeline
from core.replay.result_search import find_in_results
from core.service.console import (
    Bucket,
    CommandRecord,
    EntryPage,
    Facet,
    JournalChanged,
    NumberPage,
    Proof,
    VerifyReport,
)
from tests.fakes.console.state import KnownState
from tests.fakes.journal_proof import entry_bytes
from tests.fakes.timeline import make_timeline


class JournalAnswers(KnownState):
    """`console.journal`."""

    def on_entries(self, query: str, before: int | None, limit: int) -> EntryPage:
        return self.fake_journal.page(query, before, limit)

    async def on_entry_numbers(self, query: str, before: int | None, limit: int) -> NumberPage:
        # By `entries`, so that a console that has other entries than this journal's answers with theirs.
        page = await self.answer_to("entries", query=query, before=before, limit=limit)
        numbers = [entry.seq for entry in page.entries]
        return NumberPage(numbers=numbers, next_before=numbers[-1] if page.more else None)

    def on_export_entries(self, query: str, cursor: ExportCursor | None) -> ExportPage:
        """All in one page."""
        texts = [entry_bytes(entry).decode() for entry in reversed(self.fake_journal.matching(query))]
        through = self.fake_journal.status.entries
        return ExportPage(entries=texts if cursor is None else [], through=through, checkpoint="", next=None)

    def on_entry(self, seq: int) -> Entry:
        return self.fake_journal.find(seq)

    def on_histogram(self, query: str, buckets: int) -> list[Bucket]:
        return self.fake_journal.histogram(query, buckets)

    def on_facets(self, field: str, prefix: str, limit: int) -> list[Facet]:
        return self.fake_journal.facets(field, prefix, limit)

    def on_proof(self, seq: int) -> Proof:
        return self.fake_journal.proof(seq)

    def on_command(self, call_id: str) -> CommandRecord:
        found = [one for one in self.fake_journal.entries if one.call_id == call_id]
        if not found:
            raise QuarterdeckError(f"There is no command {call_id}.", ErrorCode.NOT_FOUND)
        result = self.work.result_of(call_id)
        return CommandRecord(
            call_id=call_id, entries=found, decision=result.decision if result else None, result=result
        )

    def on_verify(self) -> VerifyReport:
        report = self.fake_journal.verify()
        self.emit(JournalChanged(journal=self.fake_journal.status))
        return report

    def on_blob(self, sha256: str) -> bytes:
        if sha256 not in self.fake_journal.blobs:
            raise QuarterdeckError(f"There is no blob {sha256[:12]}.", ErrorCode.NOT_FOUND)
        return self.fake_journal.blobs[sha256]

    async def on_find_in_results(self, words: list[str], run: str | None) -> ContentHits:
        entries = [entry for entry in self.fake_journal.entries if run is None or entry.run == run]
        return await find_in_results(entries, words, lambda blob: self.answer_to("blob", sha256=blob))

    def on_timeline(self, run: str | None, around: int | None) -> Timeline:
        if run is not None:
            self.work.find(run)
        return make_timeline(self.fake_journal, run, around)
