"""Reads the journal for the table: the first page of a query, older pages, pages again, and what is new."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from PySide6.QtCore import QModelIndex, QObject, Signal

from app.screens.journal.entry_model import PAGE, EntryModel
from app.screens.journal.query_terms import with_moments_fixed
from app.service_client import ConsoleLink
from app.widgets.util import once
from core.audit.entries import Entry
from core.errors import BadInput, QuarterdeckError
from core.service.console import EntryPage, NumberPage

NEWS_PAUSE_MS = 300


class EntryFeed(QObject):
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
        self.query = ""
        self._sent = ""
        self.total = 0
        self.total_exact = True
        self.took_ms = 0.0
        self.waiting_above = 0
        self.loading = False
        self.loaded = False
        self._hold_news = False
        self._seen_seq = 0
        self._asks: set[asyncio.Future[Any]] = set()
        self._news_asked = self._numbers_asked = self._to_end = False
        self._pause = once(self, NEWS_PAUSE_MS, self._ask_news)
        model.more_wanted.connect(self._ask_more)
        model.page_wanted.connect(self._ask_again)

    @property
    def sent(self) -> str:
        """The query in force, with ages fixed to moments."""
        return self._sent

    def apply(self, query: str) -> None:
        """Bring another query into force, or read this one anew."""
        self._cancel()
        self.query, self._sent = query, with_moments_fixed(query, datetime.now(UTC))
        sent = self._sent
        self.loading = True
        self._ask(sent, None, self._show_first, "read the journal", first=True)

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

    def _ask(self, query: str, before: int | None, came: Any, what: str, first: bool = False) -> None:
        sent = self._sent

        def done(page: EntryPage) -> None:
            if sent == self._sent:
                came(page)

        def failed(error: QuarterdeckError) -> None:
            if sent == self._sent:
                self._failed(error, first)

        self._keep(
            self._link.ask(
                lambda console: console.journal.entries(query, before, PAGE), done, failed, what=what
            )
        )

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._asks.add(task)
        task.add_done_callback(self._asks.discard)

    def _cancel(self) -> None:
        for task in self._asks:
            task.cancel()
        self._asks.clear()
        self._news_asked = self._numbers_asked = self._to_end = False
        self.loading = False

    def _failed(self, error: QuarterdeckError, first: bool) -> None:
        self.loading = self._news_asked = False
        self._model.forget_asked()
        if isinstance(error, BadInput) and first:
            self.refused.emit(error)
            return
        self._model.set_more(self._model.rowCount() > 0)
        self.failed.emit(error)

    def _show_first(self, page: EntryPage) -> None:
        self.loading, self.loaded = False, True
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
        elif not self._numbers_asked:
            self._ended()

    def _ask_more(self) -> None:
        self._ask_numbers(self._model.oldest)

    def _ask_numbers(self, before: int) -> None:
        sent, self._numbers_asked = self._sent, True

        def came(page: NumberPage) -> None:
            if sent == self._sent:
                self._add_older(page)

        def failed(error: QuarterdeckError) -> None:
            if sent == self._sent:
                self._numbers_asked = self._to_end = False
                self._failed(error, first=False)

        self._keep(
            self._link.ask(
                lambda console: console.journal.numbers(sent, before), came, failed, "read older entries"
            )
        )

    def _add_older(self, page: NumberPage) -> None:
        self._model.extend(page.numbers)
        if page.next_before is not None and (self._to_end or not page.numbers):
            # All is wanted, or the service searched for as long as it may and found nothing yet.
            self._ask_numbers(page.next_before)
            return
        self._numbers_asked = False
        self._model.set_more(page.next_before is not None)
        self._ended()

    def _ended(self) -> None:
        if self._to_end:
            self._to_end = False
            self.at_end.emit()

    def _ask_again(self, first: int, last: int) -> None:
        query = f"{self._sent} seq:{last}..{first}".lstrip()
        self._ask(query, first + 1, lambda page: self._model.refill(page.entries), "read entries again")

    def _ask_news(self) -> None:
        if self._news_asked or self.loading or not self.loaded:
            return
        self._news_asked = True
        query = f"{self._sent} seq:{self._model.newest + 1}..".lstrip()
        self._ask(query, None, self._take_news, "read new entries")

    def _take_news(self, page: EntryPage) -> None:
        self._news_asked = False
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
