"""Who asks for a command, and what they say about it, which is shown as a quotation and never as a fact."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout

from app.text import one_line, person_words
from app.theme.tokens import SPACE
from app.widgets.icon_label import IconLabel
from app.widgets.labels import Label
from app.widgets.line_breaks import breakable
from app.widgets.section import Card
from core.text import escape_hidden

MOST_SAID = 2000


def asker_words(actor: str, program: str = "") -> str:
    """Who asks, in full; of a window that proved no operator, that it is not proved.

    `program` is what an agent's program calls itself, which is not checked.
    """
    words = one_line(person_words(actor) if actor.startswith("window:") else actor)
    return f"{words} (calls itself {one_line(program)})" if program else words


def is_agent(actor: str) -> bool:
    """True for an LLM program."""
    return actor.startswith("agent:")


def quoted(said: str) -> str:
    """What the asker says, as a quotation; very long ones are cut with words that say so."""
    shown = escape_hidden(said[:MOST_SAID]).strip()
    left = len(said) - MOST_SAID
    return f"“{shown}”" if left <= 0 else f"“{shown} …” ({left} more characters are in the journal)"


class Quote(Card):
    """What the asker says; hidden while they say nothing."""

    def __init__(self) -> None:
        super().__init__("quote")
        head = QHBoxLayout()
        head.setSpacing(SPACE.snug)
        self._icon = IconLabel("agent")
        self.title = Label("", "badge", "text2")
        head.addWidget(self._icon)
        head.addWidget(self.title)
        head.addStretch(1)
        self.body.addLayout(head)
        self.words = Label("", "quote", "text2", wrap=True, selectable=True)
        self.words.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.who = Label("", "meta", "text3", wrap=True)
        self.add(self.words)
        self.add(self.who)

    def show_said(self, said: str, actor: str, program: str = "") -> None:
        """Show what `actor` says, and what its program calls itself."""
        self.setVisible(bool(said.strip()))
        self.title.setText(f"The {'agent' if is_agent(actor) else 'asker'} says (not checked)")
        self._icon.set_icon("agent" if is_agent(actor) else "operator")
        self.words.setText(quoted(said))
        # A program may call itself by one long word.
        self.who.setText(breakable(asker_words(actor, program)))
        self.setAccessibleName(f"{self.title.text()}: {self.words.text()}")
