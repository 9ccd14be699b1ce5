"""The calls about the journal: entries, proofs, commands, blobs and timelines."""

from __future__ import annotations

from core.audit.entries import Entry
from core.audit.events import event_of
from core.audit.models import Bucket, ExportCursor, ExportPage, Facet, NumberPage, VerifyReport
from core.audit.projection import CommandState
from core.audit.query import quoted
from core.commands.results import CommandResult
from core.errors import BadInput, ErrorCode
from core.policy.models import Decision
from core.replay.models import ContentHits, Timeline
from core.replay.result_search import find_in_results
from core.replay.timeline import build_timeline
from core.service.api.client import Client, ClientApi
from core.service.api.models import CommandRecord, EntryPage, Proof
from core.service.api.run_reader import RunReader
from core.service.console import JournalApi

MOST_NUMBERS = 10_000
FACETS_LOOKED_AT = 200
AROUND_BEFORE, AROUND_AFTER = 150, 250


class LocalJournal(ClientApi, JournalApi):
    """Implements `JournalApi` in the service."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._runs = RunReader(client)

    async def entries(self, query: str = "", before: int | None = None, limit: int = 200) -> EntryPage:
        await self._service.journal.settle()
        page = await self._service.journal.query(query, before=before, limit=limit)
        return EntryPage(
            entries=page.entries,
            more=page.next_before is not None,
            total=page.count,
            total_exact=page.count_exact,
            took_ms=page.took_ms,
        )

    async def numbers(self, query: str = "", before: int | None = None, limit: int = 10_000) -> NumberPage:
        await self._service.journal.settle()
        return await self._service.journal.numbers(query, before, min(max(limit, 1), MOST_NUMBERS))

    async def export(self, query: str = "", cursor: ExportCursor | None = None) -> ExportPage:
        if cursor is None:
            await self._service.journal.settle()
        return await self._service.journal.export(query, cursor)

    async def entry(self, seq: int) -> Entry:
        entry = await self._service.journal.entry(seq)
        await self._check_own(entry, f"There is no entry {seq}.")
        return entry

    async def histogram(self, query: str = "", buckets: int = 80) -> list[Bucket]:
        return await self._service.journal.histogram(query, buckets)

    async def facets(self, field: str, prefix: str = "", limit: int = 12) -> list[Facet]:
        facets = await self._service.journal.facets(field, prefix, max(limit, FACETS_LOOKED_AT))
        facets.sort(key=lambda facet: (-facet.count, facet.value))
        return facets[: max(limit, 0)]

    async def command(self, call_id: str) -> CommandRecord:
        await self._service.journal.settle()
        page = await self._service.journal.query(f"call:{quoted(call_id)}", after=0, limit=500)
        if not page.entries:
            raise BadInput(f"There is no command {call_id}.", ErrorCode.NOT_FOUND)
        await self._check_own(page.entries[0], f"There is no command {call_id}.")
        command = CommandState(call_id)
        for entry in page.entries:
            command.apply(entry, event_of(entry))
        return CommandRecord(
            call_id=call_id,
            entries=page.entries,
            decision=None if command.decision is None else Decision.model_validate(command.decision),
            result=None if command.result is None else CommandResult.model_validate(command.result),
        )

    async def blob(self, sha256: str) -> bytes:
        return await self._service.journal.get_blob(sha256)

    async def prove(self, seq: int) -> Proof:
        journal = self._service.journal
        inclusion = await journal.prove(seq)
        return Proof(**dict(inclusion), public_key=journal.public_key.public_bytes_raw().hex())

    async def verify(self, checkpoint: str | None = None) -> VerifyReport:
        return await self._service.verify(checkpoint)

    async def timeline(self, run: str | None = None, around: int | None = None) -> Timeline:
        await self._service.journal.settle()
        if run is not None:
            name = (await self._runs.summary(run)).name
            return build_timeline(await self._stretch(run, around), name, run)
        middle = around if around is not None else self._service.journal.state.entries
        return build_timeline(await self._stretch(None, middle), f"Around entry {middle:,}", None)

    async def find_in_results(
        self, words: list[str], run: str | None = None, around: int | None = None
    ) -> ContentHits:
        entries = await self._stretch(run, around)
        return await find_in_results(entries, words, self._service.journal.get_blob)

    async def _check_own(self, entry: Entry, problem: str) -> None:
        """Check that an entry exists for this client: for an agent, those of its own runs do."""
        if not self._client.is_agent or entry.actor == self._client.actor:
            return
        try:
            if entry.run is None:
                raise BadInput(problem, ErrorCode.NOT_FOUND)
            await self._runs.summary(entry.run)
        except BadInput as error:
            raise BadInput(problem, ErrorCode.NOT_FOUND) from error

    async def _stretch(self, run: str | None, around: int | None) -> list[Entry]:
        """The entries of a run, or the entries around an entry; oldest first."""
        journal = self._service.journal
        await journal.settle()
        if run is not None:
            return await journal.entries_of_run(run)
        middle = around if around is not None else journal.state.entries
        page = await journal.query(
            "", after=max(0, middle - AROUND_BEFORE), limit=AROUND_BEFORE + AROUND_AFTER
        )
        return list(page.entries)
