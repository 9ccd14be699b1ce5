"""The filter of a screen: a field with completion, what is wrong in words, and the parsed filter."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QWidget

from app.items.completion_popup import CompletionPopup, Suggestion
from app.widgets.fields import SearchField, mark_failed
from core.errors import BadInput
from core.filter_language import LONGEST, Filter, Language

PAUSE_MS = 120
MOST_OFFERED = 8
_PLAIN = re.compile(r"^[^\s,\"'!:*?]+$")


@dataclass(frozen=True, slots=True)
class Words:
    """What a filter's field offers: its language, a hint for each key, the key that a plain word may mean."""

    language: Language[Any]
    hints: dict[str, str]
    usual: str


def term_at(text: str, cursor: int) -> tuple[int, str]:
    """Where the piece that is typed begins, and the piece: a key, or a value after `:` or `,`."""
    start = max(text.rfind(" ", 0, cursor) + 1, 0)
    if text[start : start + 1] == "!":
        start += 1
    return start, text[start:cursor]


def offers(words: Words, text: str, cursor: int, things: Iterable[Any]) -> list[tuple[int, Suggestion]]:
    """What may be put in at the cursor: (where it begins, the suggestion), the most frequent first."""
    fields = words.language.fields
    start, piece = term_at(text, cursor)
    key, colon, rest = piece.partition(":")
    if colon:
        if key.casefold() not in fields:
            return []
        begun = rest.rpartition(",")[2]
        at = cursor - len(begun)
        found = _values(words, key.casefold(), begun, things)
        return [(at, Suggestion.counted(value, count)) for value, count in found if value != begun]
    low = piece.casefold()
    hints = words.hints
    keys = [(start, Suggestion(f"{name}:", hints.get(name, ""))) for name in fields if name.startswith(low)]
    if not low:
        return keys
    usual = [(f"{words.usual}:{value}", count) for value, count in _values(words, words.usual, piece, things)]
    return [*keys, *((start, Suggestion.counted(value, count)) for value, count in usual)][:MOST_OFFERED]


def _values(words: Words, key: str, begun: str, things: Iterable[Any]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for thing in things:
        counts.update(value for value in words.language.fields[key](thing) if value)
    low = begun.casefold()
    found = [(value, count) for value, count in counts.most_common() if value.casefold().startswith(low)]
    return [(_quoted(value), count) for value, count in found[:MOST_OFFERED]]


def _quoted(value: str) -> str:
    if _PLAIN.match(value):
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'


class FilterEdit(SearchField):
    """Asks which of the things on a screen are shown.

    Signals:
        applied: `filter` is another one.
        refused(words): what was typed is no filter; `filter` is still the one before. Empty when it is
            mended.
    """

    applied = Signal()
    refused = Signal(str)

    def __init__(self, name: str, example: str, words: Words, parent: QWidget | None = None) -> None:
        """`example` stands in the empty field."""
        super().__init__(name, example, "filter", parent=parent)
        self._words = words
        self.filter: Filter[Any] = words.language.parse("")
        self.problem = ""
        self.things: Callable[[], Iterable[Any]] = lambda: ()
        self._list: CompletionPopup | None = None
        self._starts: dict[str, int] = {}
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(PAUSE_MS)
        self._pause.timeout.connect(self.apply)
        self.textChanged.connect(lambda _text: self._pause.start())
        self.textEdited.connect(lambda _text: self.offer())
        self.setMaxLength(LONGEST)

    def apply(self) -> None:
        """Read what stands there now, without waiting."""
        self._pause.stop()
        try:
            self.filter = self._words.language.parse(self.text())
        except BadInput as error:
            self.problem = error.message
            self.setAccessibleDescription(error.message)
        else:
            self.problem = ""
            self.setAccessibleDescription("")
        mark_failed(self, bool(self.problem))
        self.refused.emit(self.problem)
        if not self.problem:
            self.applied.emit()

    # completion

    def offer(self) -> None:
        """Offer what may come at the cursor."""
        found = offers(self._words, self.text(), self.cursorPosition(), self.things())
        self._starts = {one.choice: start for start, one in found}
        if not found or not self.hasFocus():
            self.close_list()
            return
        if self._list is None:
            self._list = CompletionPopup(self.window())
            self._list.picked.connect(self._pick)
        below = self.mapTo(self.window(), QPoint(0, self.height() + 2))
        self._list.offer([one for _, one in found], below)

    @property
    def list_is_open(self) -> bool:
        """Whether something is offered."""
        return self._list is not None and self._list.isVisible()

    def offered(self) -> list[str]:
        """What is offered now."""
        return self._list.choices() if self._list is not None and self.list_is_open else []

    def close_list(self) -> bool:
        """Take the offers away; False when there are none."""
        was_open = self.list_is_open
        if self._list is not None:
            self._list.hide()
        return was_open

    def _pick(self, choice: str) -> None:
        cursor, text = self.cursorPosition(), self.text()
        start = self._starts.get(choice, cursor)
        end = "" if choice.endswith(":") or text[cursor : cursor + 1] == " " else " "
        self.setText(f"{text[:start]}{choice}{end}{text[cursor:]}")
        self.setCursorPosition(start + len(choice) + len(end))
        self.setFocus()
        if choice.endswith(":"):
            self.offer()
        else:
            self.close_list()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """↑↓ move in the list, Tab and a chosen Enter take from it, Esc closes it first."""
        key, shown = event.key(), self._list if self.list_is_open else None
        if shown is not None:
            if key in (Qt.Key.Key_Up, Qt.Key.Key_Down):
                shown.step(-1 if key == Qt.Key.Key_Up else 1)
                self.setAccessibleDescription(f"Suggestion: {shown.current()}")
                return
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                if shown.moved:
                    self._pick(shown.current())
                else:
                    self.close_list()
                    self._enter()
                return
            if key == Qt.Key.Key_Escape:
                self.close_list()
                return
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._enter()
            return
        if key == Qt.Key.Key_Space and event.modifiers() == Qt.KeyboardModifier.ControlModifier:
            self.offer()
            return
        super().keyPressEvent(event)

    def _enter(self) -> None:
        """Take the filter at once, and let the screen go on into what it shows."""
        self.apply()
        self.returnPressed.emit()

    def event(self, event: object) -> bool:
        """Tab takes a suggestion before it goes to the next control."""
        if (
            isinstance(event, QKeyEvent)
            and event.type() == QKeyEvent.Type.KeyPress
            and event.key() == Qt.Key.Key_Tab
            and self._list is not None
            and self.list_is_open
        ):
            self._pick(self._list.current())
            return True
        return bool(super().event(event))  # type: ignore[arg-type]  # Qt hands in a QEvent

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The list goes with the focus."""
        super().focusOutEvent(event)
        if event.reason() != Qt.FocusReason.PopupFocusReason:
            self.close_list()
