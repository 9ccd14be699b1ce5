"""One act of the window or of a screen, for its key, its buttons, menus, the F1 list and the palette."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QKeySequence


class Action(QAction):
    """What an operator can do. F1 and the palette list it by its words, buttons and menus by its text.

    `also` are words that find it although they are not in its words. `acts_at_once` is true for what reaches
    the service without a question first: Enter in the palette does not meet it before it was typed whole or
    walked to.

    Signals:
        refused(reason): it was pressed while it is off.
    """

    refused = Signal(str)

    def __init__(
        self,
        words: str,
        icon: str,
        act: Callable[[], object],
        keys: str = "",
        also: str = "",
        acts_at_once: bool = False,
        parent: QObject | None = None,
        label: str = "",
        off: Callable[[], str] | None = None,
    ) -> None:
        """`label` is the text where that is shorter than the words.

        `off` gives the reason why it cannot be done now, whenever it is to be shown or done; without it,
        `set_off` says so.
        """
        super().__init__(label or words, parent)
        self.concept, self.also, self.acts_at_once = icon, also, acts_at_once
        self._words, self._act, self._off, self._reason = words if label else "", act, off, ""
        if keys:
            self.setShortcut(QKeySequence(keys))
            self.setAutoRepeat(False)
        self.triggered.connect(self._do)

    @property
    def words(self) -> str:
        """What it does, understood without its place."""
        return self._words or self.text()

    @property
    def keys(self) -> str:
        """The chord in Qt's portable form; empty without."""
        return self.shortcut().toString(QKeySequence.SequenceFormat.PortableText)

    @property
    def reason(self) -> str:
        """Why it is off; empty when it can be triggered."""
        return self._off() if self._off is not None else self._reason

    def set_off(self, reason: str) -> None:
        """Switch it off and say why; an empty reason switches it on."""
        self._reason = reason
        self.setEnabled(not reason)

    def _do(self, _checked: bool = False) -> None:
        if reason := self.reason:
            self.refused.emit(reason)
        else:
            self._act()
