"""The three tabs beside the pictures: why it was done, what came back, and the proof of the entry."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from app.components.badges import RiskBadge
from app.components.banner import Notice
from app.components.facts import Fact, Facts, short_digest
from app.components.icon_mark import IconMark
from app.components.json_view import JsonView
from app.components.label import Label, Link, surface
from app.components.section import Card
from app.link import ConsoleLink
from app.look.tokens import SPACE
from app.query import Query
from app.screens.replay.known import ANSWERS, Known, command_facts, moment_facts
from app.screens.replay.reel import shown
from app.screens.replay.words import Clock
from core.audit.entries import Entry
from core.errors import QuarterdeckError
from core.replay.models import Moment
from core.service.console import Console, Proof
from core.service.proof_check import Finding, check_proof


def _scrolled(inner: QWidget) -> QScrollArea:
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QScrollArea.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setWidget(inner)
    surface(inner, "base")
    return area


class DecisionTab(QWidget):
    """Why it was done or not: decision, risk, approval, rule, sending, answer."""

    def __init__(self) -> None:
        super().__init__()
        self.risk = RiskBadge("low")
        self.answer = Label("")
        self.facts = Facts(84, name="Decision")
        self.entry_facts = Facts(84, name="Entry")
        self.words = Label("", "meta", "text3")
        self.problem = Notice("fail", "Not read", "")
        self.said_card = Card("quote")
        self.said_card.add(Label("The agent says (not checked)", "label", "text3"))
        self.said = Label("", "quote", "text2", wrap=True, selectable=True)
        self.said_card.add(self.said)
        name = Label("Decision", "body", "text3")
        name.setFixedWidth(84)
        self.decided = QWidget()
        risk = QHBoxLayout(self.decided)
        risk.setContentsMargins(0, 0, 0, 0)
        risk.setSpacing(SPACE.label_gap)
        for part in (name, self.answer, self.risk):
            risk.addWidget(part)
        risk.addStretch(1)
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(SPACE.side_panel, SPACE.small, SPACE.side_panel, SPACE.medium)
        column.setSpacing(SPACE.tight)
        column.addWidget(self.decided)
        column.addWidget(self.facts)
        column.addWidget(self.entry_facts)
        column.addWidget(self.words)
        column.addSpacing(SPACE.tight)
        column.addWidget(self.said_card)
        column.addWidget(self.problem)
        column.addStretch(1)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(_scrolled(inner))

    def show_moment(
        self, moment: Moment, known: Known | None, clock: Clock, start: datetime | None, problem: str
    ) -> None:
        """Show what was known of the moment's command; of another entry, the entry itself."""
        decision = known.decision if known else None
        self.decided.setVisible(known is not None)
        self.risk.setVisible(decision is not None)
        self.answer.setText(ANSWERS[decision.answer] if decision else "not decided yet")
        if decision is not None:
            self.risk.set_risk(decision.risk.value)
        self.facts.setVisible(known is not None)
        self.entry_facts.setVisible(known is None)
        reading = known is None and bool(moment.call_id) and not problem
        self.words.setText("Reading what was decided…" if reading else "")
        if known is not None:
            self.facts.show_facts(command_facts(known, clock, start, moment))
        else:
            self.entry_facts.show_facts(moment_facts(moment, clock))
        said = shown(known.said) if known else ""
        self.said_card.setVisible(bool(said))
        self.said.setText(f"“{said}”")
        self.problem.setVisible(bool(problem) and known is None)
        self.problem.say("fail", "The command could not be read.", problem)


class ResultTab(QWidget):
    """What came back, as JSON; before it came, that it had not; of other entries, their body."""

    def __init__(self) -> None:
        super().__init__()
        self.words = Label("", "meta", "text3", wrap=True)
        self.words.setContentsMargins(SPACE.side_panel, SPACE.small, SPACE.side_panel, SPACE.tight)
        self.tree = JsonView()
        self.tree.setAccessibleName("Result")
        self._shown: object = None
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.words)
        column.addWidget(self.tree, 1)

    def show_moment(self, moment: Moment, known: Known | None, entry: Entry | None, problem: str) -> None:
        """Show the result as far as it was known."""
        words, value = self._content(moment, known, entry)
        if problem and value is None:
            words = problem
        self.words.setText(words)
        self.words.set_tone("fail" if problem and value is None else "text3")
        self.tree.setVisible(value is not None)
        if value is not None and value != self._shown:
            self.tree.set_value(value)
        self._shown = value

    def _content(self, moment: Moment, known: Known | None, entry: Entry | None) -> tuple[str, Any]:
        if not moment.call_id:
            return ("What the entry holds", entry.body) if entry else ("Reading…", None)
        if known is None:
            return "Reading…", None
        if known.ended is None:
            if known.parameters:
                return "Not answered yet at this entry. What was to be sent:", known.parameters
            return "Not answered yet at this entry.", None
        result = known.result if known.result is not None else known.ended.body
        return f"As recorded in entry {known.ended.seq:,}", result


class ProofTab(QWidget):
    """That this entry is in the journal, checked in this window with the journal's public key.

    Signals:
        entry_asked(seq, tab): the operator wants the entry's proof in the journal.
    """

    entry_asked = Signal(int, str)

    def __init__(self, link: ConsoleLink) -> None:
        super().__init__()
        self._seq = 0
        self._proof = Query(self, link, self._show_proof, self._say_no_proof, "read the proof")
        self.notice = Notice("note", "Reading the proof…", "", "")
        self.holds = QWidget()
        mark = IconMark("verified", "ok", 18)
        self.holds_words = Label("", "body", "text2", wrap=True)
        words = QVBoxLayout()
        words.setSpacing(0)
        words.addWidget(Label("Checked in this window.", "head"))
        words.addWidget(self.holds_words)
        row = QHBoxLayout(self.holds)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACE.small)
        row.addWidget(mark, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(words, 1)
        self.holds.hide()
        self.facts = Facts(84, name="Proof")
        self.journal = Link("Show in Journal")
        self.journal.clicked.connect(lambda *_: self.entry_asked.emit(self._seq, "proof"))
        inner = QWidget()
        column = QVBoxLayout(inner)
        column.setContentsMargins(SPACE.side_panel, SPACE.medium, SPACE.side_panel, SPACE.medium)
        column.setSpacing(SPACE.medium)
        column.addWidget(self.notice)
        column.addWidget(self.holds)
        column.addWidget(self.facts)
        column.addWidget(self.journal, 0, Qt.AlignmentFlag.AlignLeft)
        column.addStretch(1)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(_scrolled(inner))

    def show_entry(self, seq: int) -> None:
        """Take another entry; `read` asks for its proof."""
        if seq == self._seq:
            return
        self._seq = seq
        self._proof.forget()
        self.facts.show_facts([])
        self.holds.hide()
        self.notice.show()
        self.notice.say("note", f"Reading the proof of entry {seq:,}…")

    def read(self) -> None:
        """Ask for the proof and check it."""
        seq = self._seq

        async def prove(console: Console) -> tuple[Proof, Finding]:
            proof = await console.journal.prove(seq)
            shown = await console.journal.entry(seq)
            return proof, await asyncio.to_thread(check_proof, shown, proof, seq)

        self._proof.ensure(prove, seq)

    def _show_proof(self, answer: tuple[Proof, Finding]) -> None:
        seq, (proof, found) = self._seq, answer
        if not proof.public_key or not proof.entry:
            self.notice.say(
                "warn", "Not checked here.", "The service gave no public key to check the checkpoint with."
            )
        elif found.ok:
            self.holds_words.setText(f"Entry {seq:,} is in the tree whose root the checkpoint signs.")
        else:
            why = f"{found.words} {found.what_now}"
            self.notice.say("fail", f"Entry {seq:,} does not match its proof.", why)
        holds = found.ok and bool(proof.public_key and proof.entry)
        self.holds.setVisible(holds)
        self.notice.setVisible(not holds)
        self.facts.show_facts(_proof_facts(proof))

    def _say_no_proof(self, error: QuarterdeckError) -> None:
        self.notice.say("fail", "There is no proof.", error.info.sentences)


def _proof_facts(proof: Proof) -> list[Fact]:
    key = shown(proof.public_key)
    lines = proof.checkpoint.splitlines()
    origin = shown(lines[0]) if lines else "—"
    facts = [
        Fact("Entry", f"{proof.seq:,}"),
        Fact("Leaf", short_digest(shown(proof.leaf)), mono=True, full=shown(proof.leaf)),
        Fact("Path", f"{len(proof.path)} hashes"),
        Fact("Root", short_digest(shown(proof.root)), mono=True, full=shown(proof.root)),
        Fact("Checkpoint", f"{origin}, {proof.size:,} entries"),
    ]
    if key:
        facts.append(Fact("Key", short_digest(key, "ed25519"), mono=True, full=key))
    return facts
