"""The box of an output that still comes: text is added at its end, the oldest goes, times stand beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from PySide6.QtCore import QEvent, QTimer, Signal
from PySide6.QtGui import QTextBlock, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QWidget

from app.screens.runs.live_text import LivePart
from app.screens.runs.output_box import OutputBox
from app.text import clock
from app.theme.theme import theme_of

# In characters. When there are more, the oldest tenth goes.
MOST_KEPT = 1_000_000
_NO_TIME = -1


class LiveBox(OutputBox):
    """Shows what was added last, for as long as it follows.

    Signals:
        followed(follows): the operator scrolled away from the end, or to it.
    """

    followed = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Output as it comes")
        self._follows = True
        self._parts: deque[LivePart] = deque()
        self._size = 0
        self._times: list[str] = []
        self.dropped = 0
        self.verticalScrollBar().actionTriggered.connect(lambda _action: self._scrolled_soon())
        self.set_numbers(True)

    def start_again(self) -> None:
        """Show nothing."""
        self._parts.clear()
        self._times.clear()
        self._size = self.dropped = 0
        self.clear()

    def add(self, parts: Iterable[LivePart]) -> None:
        """Add text at the end."""
        for part in parts:
            self._parts.append(part)
            self._size += len(part.text)
            self._insert(part)
        self._drop_oldest()
        if self._follows:
            self.show_end()

    def _insert(self, part: LivePart) -> None:
        document = self.document()
        last = document.lastBlock().blockNumber()
        cursor = QTextCursor(document)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(part.text, self._look_of(part))
        block = document.findBlockByNumber(last)
        time = self._number_of_time(part.time)
        while block.isValid():
            # An empty last line gets the time of what comes into it.
            if block.userState() == _NO_TIME and (block.next().isValid() or block.length() > 1):
                block.setUserState(time)
            block = block.next()

    def _look_of(self, part: LivePart) -> QTextCharFormat:
        theme, look = theme_of(self), QTextCharFormat()
        look.setForeground(theme.color(part.tone or ("warn" if part.is_error else "text")))
        if part.is_error:
            look.setBackground(theme.color("warn_tint"))
        return look

    def _number_of_time(self, time: str) -> int:
        """A number for a time to the second, kept in the lines."""
        words = clock(time) if time else ""
        if not self._times or self._times[-1] != words:
            self._times.append(words)
        return len(self._times) - 1

    def _drop_oldest(self) -> None:
        if self._size <= MOST_KEPT:
            return
        while self._size > MOST_KEPT * 9 // 10 and len(self._parts) > 1:
            self._size -= len(self._parts.popleft().text)
        document = self.document()
        kept = document.findBlock(max(0, document.characterCount() - 1 - self._size))
        cursor = QTextCursor(document)
        cursor.setPosition(kept.position(), QTextCursor.MoveMode.KeepAnchor)
        self.dropped += kept.position()
        cursor.removeSelectedText()

    # Times

    def gutter_words(self) -> list[tuple[str, float]]:
        """The time at which each line began."""
        return [(self.time_of(block), top) for block, top in self.lines_in_sight()]

    def time_of(self, block: QTextBlock) -> str:
        """When a line began."""
        number = block.userState()
        return self._times[number] if 0 <= number < len(self._times) else ""

    def gutter_width(self) -> int:
        """As `10:40:18`."""
        return 8

    # The end

    @property
    def follows(self) -> bool:
        """Whether what comes is brought into sight."""
        return self._follows

    def set_follows(self, follows: bool) -> None:
        """Bring what comes into sight, or stay where the operator reads."""
        self._follows = follows
        if follows:
            self.show_end()

    def show_end(self) -> None:
        """Scroll to the end."""
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())

    def _scrolled_soon(self) -> None:
        # The signal comes before the bar has moved.
        QTimer.singleShot(0, self, self._scrolled)

    def _scrolled(self) -> None:
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum()
        if at_end != self._follows:
            self._follows = at_end
            self.followed.emit(at_end)

    def changeEvent(self, event: QEvent) -> None:
        """Take the new mode's colors."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange and hasattr(self, "_parts") and self._parts:
            parts = list(self._parts)
            dropped = self.dropped
            self.start_again()
            self.add(parts)
            self.dropped = dropped
