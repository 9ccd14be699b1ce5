"""Reads the journal for the table: the first page of a query, older pages, pages again, and what is new."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Signal

from app.query import Query
from app.screens.journal.entry_model import PAGE, EntryModel
from app.screens.journal.query_terms import with_moments_fixed
from app.service_client import ConsoleLink
from app.widgets.util import debounce
from core.audit.entries import Entry
from core.errors import BadInput, QuarterdeckError
from core.service.console import EntryPage, NumberPage

NEWS_PAUSE_MS = 300


class EntryLoader(QObject):
    """Fills an `EntryModel`. One query is in force at a time; answers to earlier ones are dropped.

    Signals:
        shown: the first page of the query is in the model.
        refused(error): the query was not understood; what was shown stays.
        failed(error): the journal could not be read; what was shown stays.
        news(count): so many matching entries are newer than the first row, and are not shown.
        counted: `total`, `total_exact` or `took_ms` changed.
        at_end: `read_to_end` has come to the oldest entry that matches.
    """

    shown = Signal()
    refused = Signal(object)
    failed = Signal(object)
    news = Signal(int)
    counted = Signal()
    at_end = Signal()

    def __init__(self, model: EntryModel, link: ConsoleLink, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._model, self._link = model, link
        self._first = Query(self, link, self._show_first, self._say_not_read, "read the journal")
        self._newer = Query(self, link, self._take_news, self._say_failed, "read new entries")
        self._older = Query(self, link, self._add_older, self._say_no_older, "read older entries")
        self._again: list[Query[EntryPage]] = []
        self.query = ""
        self._sent = ""
        self.total = 0
        self.total_exact = True
        self.took_ms = 0.0
        self.waiting_above = 0
        self.loaded = False
        self._hold_news = False
        self._seen_seq = 0
        self._to_end = False
        self._pause = debounce(self, NEWS_PAUSE_MS, self._ask_news)
        model.more_wanted.connect(self._ask_more)
        model.page_wanted.connect(self._ask_again)

    @property
    def loading(self) -> bool:
        """Whether the first page of the query is waited for."""
        return self._first.loading

    @property
    def sent(self) -> str:
        """The query in force, with ages fixed to moments."""
        return self._sent

    def apply(self, query: str) -> None:
        """Bring another query into force, or read this one again."""
        self._cancel()
        self.query, self._sent = query, with_moments_fixed(query, datetime.now(UTC))
        sent = self._sent
        self._first.load(lambda console: console.journal.entries(sent, None, PAGE))

    def hold_news(self, hold: bool) -> None:
        """While held, newer entries are counted instead of shown."""
        self._hold_news = hold
        if not hold and self.waiting_above:
            self._pause.start(0)

    def grew(self, newest: int) -> None:
        """The journal has entries up to this number now."""
        if not self.loaded or newest == self._seen_seq:
            return
        if newest < self._model.newest:
            self.apply(self.query)  # another journal, or one that was put back from a backup
        elif not self._pause.isActive():
            self._pause.start(NEWS_PAUSE_MS)
        self._seen_seq = newest

    def show_news(self) -> None:
        """Show what is newer now."""
        self._hold_news = False
        self._ask_news()

    def cancel_all(self) -> None:
        """No answer is wanted any more."""
        self._cancel()
        self._pause.stop()

    # asking

    def _cancel(self) -> None:
        queries: list[Query[Any]] = [self._first, self._newer, self._older, *self._again]
        for query in queries:
            query.cancel()
        self._again.clear()
        self._to_end = False

    def _say_not_read(self, error: QuarterdeckError) -> None:
        if isinstance(error, BadInput):
            self._model.forget_asked()
            self.refused.emit(error)
        else:
            self._say_failed(error)

    def _say_failed(self, error: QuarterdeckError) -> None:
        self._model.forget_asked()
        self._model.set_more(self._model.rowCount() > 0)
        self.failed.emit(error)

    def _show_first(self, page: EntryPage) -> None:
        self.loaded = True
        self._note(page)
        self._set_above(0)
        self._model.show(page.entries)
        self._model.set_more(page.more)
        if page.more and not self._sent.strip():
            # Every number down to the first is an entry: nothing has to be asked for to go to any of them.
            self._model.extend(range(self._model.oldest - 1, 0, -1))
            self._model.set_more(False)
        if page.entries:
            self._seen_seq = max(self._seen_seq, page.entries[0].seq)
        self.shown.emit()

    def _note(self, page: EntryPage) -> None:
        self.total, self.total_exact, self.took_ms = page.total, page.total_exact, page.took_ms
        self.counted.emit()

    def read_to_end(self) -> None:
        """Learn the numbers of all entries that match; `at_end` tells when the last of them is known."""
        self._to_end = True
        if self._model.canFetchMore(QModelIndex()):
            self._model.fetchMore(QModelIndex())
        elif not self._older.loading:
            self._ended()

    def _ask_more(self) -> None:
        self._ask_numbers(self._model.oldest)

    def _ask_numbers(self, before: int) -> None:
        sent = self._sent
        self._older.load(lambda console: console.journal.numbers(sent, before))

    def _say_no_older(self, error: QuarterdeckError) -> None:
        self._to_end = False
        self._say_failed(error)

    def _add_older(self, page: NumberPage) -> None:
        self._model.extend(page.numbers)
        if page.next_before is not None and (self._to_end or not page.numbers):
            # All is wanted, or the service searched for as long as it may and found nothing yet.
            self._ask_numbers(page.next_before)
            return
        self._model.set_more(page.next_before is not None)
        self._ended()

    def _ended(self) -> None:
        if self._to_end:
            self._to_end = False
            self.at_end.emit()

    def _ask_again(self, first: int, last: int) -> None:
        query = f"{self._sent} seq:{last}..{first}".lstrip()
        page: Query[EntryPage] = Query(self, self._link, self._refill, self._say_failed, "read entries again")
        self._again = [page, *(one for one in self._again if one.loading)]
        page.load(lambda console: console.journal.entries(query, first + 1, PAGE))

    def _refill(self, page: EntryPage) -> None:
        self._model.refill(page.entries)

    def _ask_news(self) -> None:
        if self._newer.loading or self.loading or not self.loaded:
            return
        query = f"{self._sent} seq:{self._model.newest + 1}..".lstrip()
        self._newer.load(lambda console: console.journal.entries(query, None, PAGE))

    def _take_news(self, page: EntryPage) -> None:
        if not page.entries:
            self._set_above(0)
            return
        if self._hold_news:
            self._set_above(page.total)
        elif page.more:
            self.apply(self.query)  # more than a page: the rows between would be missing
        else:
            self._show_new(page.entries)

    def _show_new(self, entries: list[Entry]) -> None:
        self.total += self._model.prepend(entries)
        self._set_above(0)
        self.counted.emit()

    def _set_above(self, count: int) -> None:
        if count != self.waiting_above:
            self.waiting_above = count
            self.news.emit(count)
