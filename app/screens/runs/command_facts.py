"""This command: how it was decided, what identifies it, how long it took, what may be concluded."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.records.command import Command
from app.records.decision import past_answer
from app.records.run_text import BASIS_WORDS, cell_time, seconds_between, short_time
from app.text import clock, one_line
from app.theme.state_looks import cell_look
from app.theme.tokens import SPACE
from app.widgets.labels import Label, Link, set_surface
from app.widgets.layouts import vbox
from app.widgets.property_list import Property, PropertyList, short_digest
from app.widgets.section import Card
from app.widgets.util import ScrollArea
from core.batch.models import Cell
from core.commands.results import Basis
from core.text import shorten_middle

# From top to bottom.
_LABELS = (
    "Decision", "Verdict", "Basis", "Device said", "call_id", "Digest", "Contract",
    "Started", "Took", "So far", "Attempts", "Note",
    "Asks", "When", "Expects", "Retried", "Recovered by", "Recovers", "Step says", "Inputs",
)  # fmt: skip


class CommandFacts(ScrollArea):
    """The right side of the drawer.

    Each line is made once and hidden while there is nothing to say: to make them again for every cell would
    hold the window for longer than a frame.
    """

    def __init__(self) -> None:
        super().__init__(name="This command")
        self._lines = {label: PropertyList(84, label) for label in _LABELS}
        self._hint = Card()
        self._hint_words = Label("", "meta", "text2", wrap=True)
        self._hint.add(self._hint_words)
        inside = set_surface(QWidget(), "base")
        column = vbox(Label("This command", "head"), parent=inside, margins=(14, 10, 14, 10), spacing=10)
        lines = QVBoxLayout()
        lines.setSpacing(SPACE.tight)
        for line in self._lines.values():
            line.hide()
            lines.addWidget(line)
        column.addLayout(lines)
        column.addWidget(self._hint)
        column.addStretch(1)
        self.setWidget(inside)

    def show_cell(self, cell: Cell, look: str, known: Command, rules: Sequence[tuple[str, str]]) -> None:
        """Show the facts of one cell; `rules` are what its batch says of the step."""
        facts = {fact.label: fact for fact in _facts(cell, look, known)}
        facts |= {label: Property(label, words) for label, words in rules}
        for label, line in self._lines.items():
            if label in facts:
                line.show_facts([facts[label]])
            line.setVisible(label in facts)
        words = _hint_words(look)
        self._hint.setVisible(bool(words))
        self._hint_words.setText(words)

    def value(self, label: str) -> Label | Link:
        """The widget that shows the value of `label`.

        Raises:
            KeyError: there is no such line now.
        """
        if self._lines[label].isHidden():
            raise KeyError(label)
        return self._lines[label].value(label)


def _facts(cell: Cell, look: str, known: Command) -> list[Property]:
    facts = []
    answers = [one.sentence() for one in (known.edited, known.answered) if one is not None]
    if decided := ", ".join(filter(None, [past_answer(known.decision), *answers])):
        facts.append(Property("Decision", decided))
    result = cell.result or known.result
    if result is not None:
        tone = cell_look(result.verdict.value).word_color
        facts.append(Property("Verdict", cell_look(result.verdict.value).word, tone=_word_tone(tone)))
        facts.append(Property("Basis", BASIS_WORDS[result.basis]))
        if result.basis not in (Basis.NOTHING_SENT, Basis.NO_ANSWER, Basis.DEVICE_DOES_NOT_KNOW):
            facts.append(Property("Device said", result.status.value))
    if cell.call_id:
        facts.append(
            Property("call_id", shorten_middle(one_line(cell.call_id), 18), mono=True, full=cell.call_id)
        )
    if known.digest:
        facts.append(Property("Digest", short_digest(known.digest), mono=True, full=known.digest))
    if known.contract:
        facts.append(Property("Contract", short_digest(known.contract), mono=True, full=known.contract))
    if cell.started_at:
        facts.append(Property("Started", clock(cell.started_at)))
    took = short_time(seconds_between(cell.started_at, cell.ended_at)) if cell.ended_at else ""
    if (words := cell_time(cell, look) or took) and look not in ("waiting", "refused"):
        facts.append(Property("Took" if cell.ended_at else "So far", words))
    if cell.attempts > 1:
        facts.append(Property("Attempts", str(cell.attempts)))
    if cell.note and result is None:
        facts.append(Property("Note", one_line(cell.note)))
    return facts


def _word_tone(tone: str) -> str:
    return "text" if tone == "text2" else tone


def _hint_words(look: str) -> str:
    if look == "running":
        return "Cancelling asks the device first. Without an answer the cell becomes unknown."
    if look == "unverified":
        return "A claim of the device. Nothing was looked at afterwards."
    return ""
