"""Search in time: which moments hold what was typed, shown in the lanes, and walked through."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from PySide6.QtCore import QObject, Qt, Signal

from app.query import Query
from app.screens.replay.playback_bar import ReplayHead
from app.screens.replay.timeline_index import TimelineIndex
from app.screens.replay.timeline_view import TimelineView
from app.screens.targets import OpenReplay
from app.service_client import ConsoleLink
from app.text import plural
from core.errors import QuarterdeckError
from core.replay.models import LONGEST_WORD, MOST_WORDS, ContentHits

# The service reads entries and stored texts for it: not for each letter that is typed.
CONTENTS_PAUSE_MS = 200


class Search(QObject):
    """The search field's finds in one reel.

    Signals:
        go_wanted(place): the playhead should go to this moment.
        walked: the operator went on to another find.
    """

    go_wanted = Signal(int)
    walked = Signal()

    def __init__(self, head: ReplayHead, lanes: TimelineView, parent: QObject) -> None:
        super().__init__(parent)
        self._head, self._lanes = head, lanes
        self._reel: TimelineIndex | None = None
        self._place = 0
        self._found: list[int] = []
        self._contents: Query[ContentHits] | None = None
        self._words_asked: list[str] = []
        self._target: OpenReplay | None = None
        self._hits: dict[str, frozenset[int]] = {}
        self._note = ""
        head.searched.connect(lambda _text: self._search())
        head.found_asked.connect(self.walk)

    def bind(self, link: ConsoleLink) -> None:
        """Where the contents of results are searched."""
        self._contents = Query(
            self, link, self._show_hits, self._say_not_searched, "search the results", CONTENTS_PAUSE_MS
        )

    def show_reel(self, reel: TimelineIndex | None, target: OpenReplay | None = None) -> None:
        """Search in another reel, which was read for `target`, for what stands in the field."""
        if target != self._target:
            self._hits = {}
        self._reel, self._target = reel, target
        self._find()
        self._ask_soon()

    def show_place(self, place: int) -> None:
        """Count the finds up to the playhead."""
        self._place = place
        number = bisect_right(self._found, place)
        self._head.show_found(number, len(self._found), bool(self._head.search.text().strip()), self._note)

    def take_keyboard(self) -> None:
        """Begin to type, over what was searched last."""
        self._head.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._head.search.selectAll()

    def walk(self, step: int) -> None:
        """Go to the next find, or to the one before; around at the ends."""
        if not self._found:
            return
        self.walked.emit()
        before = bisect_left(self._found, self._place) - 1
        at = bisect_right(self._found, self._place) if step > 0 else before
        self.go_wanted.emit(self._found[at % len(self._found)])

    def _find(self) -> None:
        reel = self._reel
        self._found = reel.search(self._head.search.text(), self._hits) if reel else []
        lanes = reel.lanes_of(self._found) if reel and self._found else None
        self._lanes.show_found([reel.ats[place] for place in self._found] if reel else [], lanes)

    def _search(self) -> None:
        self._hits, self._note = {}, ""
        self._find()
        self._go_to_first()
        self._ask_soon()

    def _go_to_first(self) -> None:
        if self._found:
            at = bisect_left(self._found, self._place)
            self.go_wanted.emit(self._found[at % len(self._found)])
        self.show_place(self._place)

    # The contents of results

    def _words(self) -> list[str]:
        words = dict.fromkeys(self._head.search.text().casefold().split())
        return [word for word in words if len(word) <= LONGEST_WORD][:MOST_WORDS]

    def _ask_soon(self) -> None:
        if self._contents is None:
            return
        self._contents.cancel()
        words, target = self._words(), self._target
        if self._reel is not None and target is not None and words:
            self._words_asked = words
            self._contents.load(
                lambda console: console.journal.find_in_results(words, run=target.run, around=target.around)
            )

    def _show_hits(self, hits: ContentHits) -> None:
        self._hits = dict(zip(self._words_asked, map(frozenset, hits.numbers), strict=True))
        left = plural(hits.not_searched, "text")
        self._note = f"{left} too large or unreadable, not searched" if hits.not_searched else ""
        nothing = not self._found
        self._find()
        if nothing:
            self._go_to_first()
        else:
            self.show_place(self._place)

    def _say_not_searched(self, error: QuarterdeckError) -> None:
        self._note = f"results not searched: {error.message}"
        self.show_place(self._place)
