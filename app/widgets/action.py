"""One act of the window or of a screen, for its key, its buttons, menus, the F1 list and the palette."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QKeySequence

_ON_KEYS = {"Return": "Enter", "Escape": "Esc", "Up": "↑", "Down": "↓", "Left": "←", "Right": "→"}


def chord_words(keys: str) -> str:
    """A chord in Qt's portable form, with the names that stand on the keys."""
    return "+".join(_ON_KEYS.get(part, part) for part in keys.split("+"))


class Action(QAction):
    """What an operator can do. F1 and the palette list it by its words, buttons and menus by its text.

    `also` are words that find it although they are not in its words. `acts_at_once` is true for what reaches
    the service without a question first: Enter in the palette does not meet it before it was typed whole or
    walked to. `tip` is what its buttons say beyond their words while it can be done.

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
        tip: str = "",
    ) -> None:
        """`label` is the text where that is shorter than the words.

        `off` gives the reason why it cannot be done now, whenever it is to be shown or done; `refresh` has
        the buttons ask for it. Without it, `set_off` says so.
        """
        super().__init__("", parent)
        self.concept, self.also, self.acts_at_once, self.tip = icon, also, acts_at_once, tip
        self._words, self._act, self._off, self._reason = words, act, off, ""
        self.set_label(label or words)
        if keys:
            self.setShortcut(QKeySequence(keys))
            self.setShortcutVisibleInContextMenu(True)
            self.setAutoRepeat(False)
        self.triggered.connect(self._do)

    @property
    def words(self) -> str:
        """What it does, understood without its place; its label if it was made without."""
        return self._words or self.label

    @property
    def label(self) -> str:
        """What its buttons and menus say."""
        return self.text().replace("&&", "&")

    def set_label(self, label: str) -> None:
        """Say something else on buttons and in menus."""
        # A single & would mark the letter after it as a key.
        self.setText(label.replace("&", "&&"))

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
        if reason != self._reason:
            self._reason = reason
            self.setEnabled(not reason)
            self.refresh()

    def show_enabled(self) -> None:
        """Be enabled in Qt's eyes, unless `set_off` says otherwise: so that the key is asked again."""
        self.setEnabled(not self._reason)

    def refresh(self) -> None:
        """Have its buttons show what it is called now, and why it is off."""
        self.changed.emit()

    def _do(self, _checked: bool = False) -> None:
        reason = self.reason
        if not reason:
            self._act()
            return
        self.refused.emit(reason)
        if self.isCheckable():
            self.toggle()  # Qt has switched it already
        self.refresh()
