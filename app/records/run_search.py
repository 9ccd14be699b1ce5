"""Runs found by words: asked of the service, which looks through all there are, a page at a time."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.query import Query
from app.service_client import ConsoleLink
from core.batch.models import RunSummary
from core.errors import QuarterdeckError
from core.service.console import RunPage


class RunSearch(QObject):
    """One search at a time; the answer to an earlier one is dropped.

    Signals:
        came: `runs`, `more` or `busy` changed.
        failed(error): the service could not search; what was found before stays.
    """

    came = Signal()
    failed = Signal(object)

    def __init__(self, link: ConsoleLink, page: int, parent: QObject | None = None) -> None:
        """`page` is how many runs are wanted at a time."""
        super().__init__(parent)
        self._page = page
        self._pages = Query(self, link, self._page_came, self._page_failed, "search the runs")
        self._wanted = page
        self._fresh: list[RunSummary] = []
        self._next: int | None = None
        self._begun = False
        self.words = ""
        self.runs: list[RunSummary] = []

    @property
    def busy(self) -> bool:
        """Whether an answer is waited for."""
        return self._pages.loading

    @property
    def more(self) -> bool:
        """Whether there are runs that were not looked at."""
        return self._next is not None

    def look(self, words: str) -> None:
        """Search for the newest runs that have these words."""
        self.stop()
        self.words, self.runs = words, []
        self._wanted = self._page
        self._begin()

    def look_again(self) -> None:
        """Search again for the same words; until the answer is here, what was found stays."""
        self.stop()
        self._wanted = max(self._page, len(self.runs))
        self._begin()

    def read_more(self) -> None:
        """Find the next page of older runs; the first one, where nothing was asked for yet."""
        if not self._begun:
            self._begin()
        if self.busy or self._next is None:
            return
        self._wanted = len(self.runs) + self._page
        self._fresh = list(self.runs)
        self._ask(self._next)

    def stop(self) -> None:
        """No answer is wanted any more."""
        self._pages.cancel()

    def _begin(self) -> None:
        self._begun = True
        self._fresh, self._next = [], None
        self._ask(None)

    def _ask(self, before: int | None) -> None:
        words, limit = self.words, self._wanted - len(self._fresh)
        self._pages.load(lambda console: console.runs.find(words, before, limit))

    def _page_came(self, page: RunPage) -> None:
        self._fresh += page.runs
        self._next = page.next_before
        if self._next is not None and len(self._fresh) < self._wanted:
            # The service looked for as long as it may at a time; the rest is asked for at once.
            self._ask(self._next)
            if not self.runs:
                self.runs = list(self._fresh)
                self.came.emit()
            return
        self.runs = self._fresh
        self.came.emit()

    def _page_failed(self, error: QuarterdeckError) -> None:
        self.failed.emit(error)
