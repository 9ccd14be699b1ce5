"""Search in time: which moments hold what was typed, shown in the lanes, and walked through."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from PySide6.QtCore import QObject, Qt, Signal

from app.screens.replay.lanes import Lanes
from app.screens.replay.reel import Reel
from app.screens.replay.transport import ReplayHead


class Finder(QObject):
    """The search field's finds in one reel.

    Signals:
        go_wanted(place): the playhead should go to this moment.
        walked: somebody went on to another find.
    """

    go_wanted = Signal(int)
    walked = Signal()

    def __init__(self, head: ReplayHead, lanes: Lanes, parent: QObject) -> None:
        super().__init__(parent)
        self._head, self._lanes = head, lanes
        self._reel: Reel | None = None
        self._place = 0
        self._found: list[int] = []
        head.searched.connect(lambda _text: self._search())
        head.found_asked.connect(self.walk)

    def show_reel(self, reel: Reel | None) -> None:
        """Search in another reel for what stands in the field."""
        self._reel = reel
        self._find()

    def show_place(self, place: int) -> None:
        """Count the finds up to the playhead."""
        self._place = place
        number = bisect_right(self._found, place)
        self._head.show_found(number, len(self._found), bool(self._head.search.text().strip()))

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
        self._found = reel.search(self._head.search.text()) if reel else []
        lanes = reel.lanes_of(self._found) if reel and self._found else None
        self._lanes.show_found([reel.ats[place] for place in self._found] if reel else [], lanes)

    def _search(self) -> None:
        self._find()
        if self._found:
            at = bisect_left(self._found, self._place)
            self.go_wanted.emit(self._found[at % len(self._found)])
        self.show_place(self._place)
