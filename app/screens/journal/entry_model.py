"""Rows of a journal that may be far longer than memory should be: numbers are kept, entries come and go."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from PySide6.QtCore import QObject, Qt, Signal

from app.items.keyed_model import NO_PARENT, Index
from app.items.table_model import Cell, RowStyle, TableModel
from app.screens.journal.entry_text import COLUMNS, ENTRY, OUTCOME, Present, outcome_cell
from app.text import count_words
from core.audit.entries import Entry

PAGES_KEPT = 40
PAGE = 200


@dataclass(eq=False, slots=True)
class _Page:
    """Entries that were read together: always their numbers, the entries themselves while they are near."""

    seqs: Sequence[int]
    entries: list[Entry] | None = None


class EntryModel(TableModel[Entry]):
    """Entries, newest first, in pages.

    Eight bytes a row are kept for good, none where numbers follow each other; of the entries themselves the
    last `PAGES_KEPT` pages that were looked at. A row of a page that was let go, or that was never read,
    shows its number until `page_wanted` is answered.

    Signals:
        page_wanted: the view is at rows whose entries are not here: first and last number of the page.
        more_wanted: the view came near the end; answer with `extend`.
    """

    page_wanted = Signal(int, int)
    more_wanted = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(COLUMNS, attrgetter("seq"), parent=parent)
        self._present = Present()
        self._pages: list[_Page] = []
        self._starts: list[int] = []
        self._count = 0
        self._near: OrderedDict[int, _Page] = OrderedDict()
        self._asked_pages: set[int] = set()
        self._more = self._asked = False

    # what Qt and the table ask

    def rowCount(self, parent: Index = NO_PARENT) -> int:
        """Number of rows that are known."""
        return 0 if parent.isValid() else self._count

    def canFetchMore(self, parent: Index) -> bool:
        """True while there are entries that are not here yet."""
        return self._more and not self._asked and not parent.isValid()

    def fetchMore(self, parent: Index) -> None:
        """Ask for the next page; it comes later, through `extend`."""
        if self.canFetchMore(parent):
            self._asked = True
            self.more_wanted.emit()

    def set_more(self, more: bool) -> None:
        """Say whether there are entries after the last one."""
        self._more, self._asked = more, False

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """The journal has one order."""

    def key_at(self, row: int) -> str:
        """The number of an entry as a key."""
        seq = self.seq_at(row)
        return str(seq) if seq is not None else ""

    def cell(self, row: int, column: int) -> str | Cell:
        """What stands in a cell; of an entry that is being read again its number."""
        entry = self.entry_at(row)
        if entry is None:
            return count_words(self.seq_at(row) or 0) if column == ENTRY else ""
        return outcome_cell(entry, self._present) if column == OUTCOME else self.cell_of(entry, column)

    def style(self, row: int) -> RowStyle:
        """How a row looks."""
        entry = self.entry_at(row)
        production = entry is not None and entry.device in self._present.production
        return RowStyle(production=production, muted=entry is None)

    def row_of(self, key: Hashable) -> int:
        """Where the entry with this number is; -1 when it is not here."""
        seq = int(str(key)) if str(key).isdigit() else 0
        number = bisect_right(self._pages, -seq, key=lambda page: -page.seqs[0]) - 1
        if number < 0:
            return -1
        page = self._pages[number]
        offset = bisect_right(page.seqs, -seq, key=lambda one: -one) - 1
        return self._starts[number] + offset if page.seqs[offset] == seq else -1

    # what the screen asks

    def entry_at(self, place: int) -> Entry | None:
        """The entry in this place, if it is here."""
        if not 0 <= place < self._count:
            return None
        page, offset = self._locate(place)
        return page.entries[offset] if page.entries is not None else None

    def seq_at(self, place: int) -> int | None:
        """The number of the entry in this place."""
        if not 0 <= place < self._count:
            return None
        page, offset = self._locate(place)
        return page.seqs[offset]

    @property
    def newest(self) -> int:
        """The highest number here; 0 when there is none."""
        return self._pages[0].seqs[0] if self._pages else 0

    @property
    def oldest(self) -> int:
        """The lowest number here; 0 when there is none."""
        return self._pages[-1].seqs[-1] if self._pages else 0

    def entries_in_memory(self) -> int:
        """How many entries are here now."""
        return sum(len(page.seqs) for page in self._near.values())

    def show(self, entries: Sequence[Entry]) -> None:
        """Show these, and nothing else."""
        self.beginResetModel()
        self._pages, self._near, self._asked_pages = [], OrderedDict(), set()
        if entries:
            self._pages.append(self._page(entries))
        self._count_starts()
        self.endResetModel()
        self.set_more(False)

    def extend(self, numbers: Sequence[int]) -> None:
        """Add the numbers of older entries below the last, highest first; they are read when looked at."""
        older = (
            numbers[bisect_right(numbers, -self.oldest, key=lambda seq: -seq) :] if self._pages else numbers
        )
        if not older:
            return
        self.beginInsertRows(NO_PARENT, self._count, self._count + len(older) - 1)
        for start in range(0, len(older), PAGE):
            seqs = older[start : start + PAGE]
            self._pages.append(_Page(seqs if isinstance(seqs, range) else array("q", seqs)))
            self._starts.append(self._count)
            self._count += len(seqs)
        self.endInsertRows()

    def prepend(self, entries: Sequence[Entry]) -> int:
        """Add newer entries above the first; how many there were."""
        newer = [one for one in entries if one.seq > self.newest]
        if not newer:
            return 0
        self.beginInsertRows(NO_PARENT, 0, len(newer) - 1)
        first = self._pages[0] if self._pages else None
        if first is not None and first.entries is not None and len(first.seqs) + len(newer) <= PAGE:
            # Single entries that come one by one share a page.
            first.entries[:0] = newer
            first.seqs = _numbers(first.entries)
        else:
            self._pages.insert(0, self._page(newer))
        self._count_starts()
        self.endInsertRows()
        return len(newer)

    def refill(self, entries: Iterable[Entry]) -> None:
        """Answer `page_wanted`: take back the entries of a page."""
        given = {one.seq: one for one in entries}
        if not given:
            return
        place = self.row_of(str(max(given)))
        if place < 0:
            return
        page, _ = self._locate(place)
        self._asked_pages.discard(id(page))
        if page.entries is not None or any(seq not in given for seq in page.seqs):
            return
        page.entries = [given[seq] for seq in page.seqs]
        self._touch(page)
        start = self._starts[self._pages.index(page)]
        last = start + len(page.seqs) - 1
        self.dataChanged.emit(self.index(start, 0), self.index(last, len(self.columns) - 1))

    def forget_asked(self) -> None:
        """An answer will not come: ask again when the view next looks."""
        self._asked_pages.clear()

    def look_at(self, top: int, bottom: int) -> None:
        """The view shows these rows: keep their pages, and ask for what is missing."""
        last = self._count - 1
        for number in sorted({self._page_number(max(0, min(last, place))) for place in (top, bottom)}):
            if not 0 <= number < len(self._pages):
                continue
            page = self._pages[number]
            if page.entries is not None:
                self._touch(page)
            elif id(page) not in self._asked_pages:
                self._asked_pages.add(id(page))
                self.page_wanted.emit(page.seqs[0], page.seqs[-1])
        if bottom >= self._count - 100:
            self.fetchMore(NO_PARENT)

    def show_present(self, present: Present) -> None:
        """Other devices are production, or other commands wait: the rows say so."""
        if present == self._present:
            return
        self._present = present
        if self._count:
            self.dataChanged.emit(self.index(0, 0), self.index(self._count - 1, len(self.columns) - 1))

    # pages

    def _page(self, entries: Sequence[Entry]) -> _Page:
        page = _Page(_numbers(entries), list(entries))
        self._touch(page)
        return page

    def _touch(self, page: _Page) -> None:
        self._near[id(page)] = page
        self._near.move_to_end(id(page))
        while len(self._near) > PAGES_KEPT:
            _, far = self._near.popitem(last=False)
            far.entries = None

    def _count_starts(self) -> None:
        self._starts, self._count = [], 0
        for page in self._pages:
            self._starts.append(self._count)
            self._count += len(page.seqs)

    def _page_number(self, place: int) -> int:
        return bisect_right(self._starts, place) - 1

    def _locate(self, place: int) -> tuple[_Page, int]:
        number = self._page_number(place)
        return self._pages[number], place - self._starts[number]


def _numbers(entries: Iterable[Entry]) -> Sequence[int]:
    return array("q", (one.seq for one in entries))
