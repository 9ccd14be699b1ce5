"""The proof of one entry: the way from its hash to the signed root, checked in this window."""

from __future__ import annotations

import asyncio

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from app.query import Query
from app.service_client import ConsoleLink
from app.text import count_words, plural
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets.banner import Notice
from app.widgets.code_view import CodeView
from app.widgets.empty_state import EmptyState, Offer
from app.widgets.icon_label import IconLabel
from app.widgets.labels import Label, Link
from app.widgets.layouts import STRETCH, Gap, hbox, vbox
from app.widgets.section import SectionHead
from app.widgets.util import ScrollArea, clear_layout
from core.audit.entries import Entry
from core.errors import QuarterdeckError
from core.service.console import Console, Proof
from core.service.proof_check import Finding, ProofStep, check_proof, steps_of

SHOWN_STEPS = 2
# Going through entries with a held key must not ask for the proof of every one that it passes.
PAUSE_MS = 70


class ProofView(ScrollArea):
    """Asks for a proof when it is in front, checks it in this window, and shows both.

    Signals:
        journal_wanted(seq): the operator wants the entry's proof in the journal.
    """

    journal_wanted = Signal(int)

    def __init__(self, link: ConsoleLink, elsewhere: bool = False) -> None:
        """`elsewhere`: not in the journal, which a link leads to."""
        super().__init__(name="Proof")
        self._proof = Query(self, link, self._show_proof, self._say_no_proof, "prove the entry", PAUSE_MS)
        self._seq = 0
        self._entry: Entry | None = None
        self._shown = False
        self.journal = Link("Show in Journal")
        self.journal.clicked.connect(lambda *_: self.journal_wanted.emit(self._seq))
        self._build()
        self.journal.setVisible(elsewhere)

    def _build(self) -> None:
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        inner = QWidget()
        inner.setProperty("clear", "true")
        self.message = EmptyState()
        self.message.acted.connect(lambda _key: self._read_again())
        self._mark = IconLabel("verified", "ok", 18)
        self.verdict = Label("", "head")
        self._verdict_row = QWidget()
        hbox(self._mark, (self.verdict, 1), parent=self._verdict_row, spacing=SPACE.small)
        self.failure = Notice("fail", "", "")
        self.tree = HashTree()
        self._note = Label("", "meta", "text3", wrap=True)
        self._checkpoint_head = SectionHead("Checkpoint")
        self.checkpoint = CodeView("Checkpoint", 8, numbers=False)
        self._entry_head = SectionHead("The entry as it is hashed")
        self.text = CodeView("The entry as it is hashed", 12, numbers=False)
        vbox(
            (self.message, 1),
            self._verdict_row,
            self.failure,
            self.tree,
            self._note,
            Gap(SPACE.tight),
            self._checkpoint_head,
            self.checkpoint,
            self._entry_head,
            self.text,
            (self.journal, 0, Qt.AlignmentFlag.AlignLeft),
            STRETCH,
            parent=inner,
            margins=(14, 12, 14, 12),
            spacing=SPACE.small,
        )
        self.setWidget(inner)
        self._parts = (
            self._verdict_row,
            self.failure,
            self.tree,
            self._note,
            self._checkpoint_head,
            self.checkpoint,
            self._entry_head,
            self.text,
        )
        self._say("")

    def show_entry(self, seq: int, entry: Entry | None = None) -> None:
        """Take another entry, 0 for none; its proof is asked for when the tab is in front.

        The proof must hold for `entry`, what is on the screen; without it, for what the service has as `seq`.
        """
        if seq != self._seq:
            self._proof.forget()
        self._seq, self._entry = seq, entry
        self._read()

    def set_shown(self, shown: bool) -> None:
        """The tab came to the front, or left it."""
        self._shown = shown
        self._read()

    def _read(self) -> None:
        seq, entry = self._seq, self._entry
        if not self._shown or not seq or self._proof.key == seq:
            return
        self._say("Proving the entry…", "Its proof is checked in this window.")

        async def prove(console: Console) -> tuple[Proof, Finding]:
            proof = await console.journal.prove(seq)
            shown = entry or await console.journal.entry(seq)
            return proof, await asyncio.to_thread(check_proof, shown, proof, seq)

        self._proof.load(prove, seq)

    def _read_again(self) -> None:
        self._proof.forget()
        self._read()

    def _say_no_proof(self, error: QuarterdeckError) -> None:
        self._say("There is no proof.", error.info.sentences, ("again", "Prove again", "refresh"))

    def _say(self, heading: str, sentence: str = "", offer: Offer | None = None) -> None:
        self.message.say(heading, sentence, offer)
        self.message.setVisible(bool(heading))
        for part in self._parts:
            part.hide()

    def _show_proof(self, answer: tuple[Proof, Finding]) -> None:
        proof, finding = answer
        self._say("")
        for part in self._parts:
            part.show()
        self._verdict_row.setVisible(finding.ok)
        self.verdict.setText(finding.words)
        self.failure.setVisible(not finding.ok)
        self.failure.say("fail", finding.words, finding.what_now)
        self.tree.show_proof(proof, finding.ok)
        key = proof.public_key
        self._note.setText(
            f"{finding.what_now} The journal's key is {key[:8]} … {key[-8:]}." if finding.ok else ""
        )
        self._note.setVisible(finding.ok)
        self._checkpoint_head.set_hint(plural(proof.size, "entry", "entries"))
        self.checkpoint.show_text(proof.checkpoint.rstrip("\n"))
        self.text.show_text(proof.entry)


class HashTree(QWidget):
    """Leaf, siblings, root; what is between is folded until it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._ok = True
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(14, 0, 0, 0)
        self._grid.setHorizontalSpacing(SPACE.small)
        self._grid.setVerticalSpacing(SPACE.tight)
        self._grid.setColumnMinimumWidth(0, 48)
        self._grid.setColumnStretch(1, 1)
        self.more: Link | None = None
        self._proof: Proof | None = None
        self._open = False
        self.setAccessibleName("Path to the root")

    def show_proof(self, proof: Proof, ok: bool) -> None:
        """Show another proof."""
        self._proof, self._ok, self._open = proof, ok, False
        self._rebuild()

    def _rebuild(self) -> None:
        clear_layout(self._grid)
        self.more = None
        proof = self._proof
        if proof is None:
            return
        self._line("leaf", proof.leaf, "this entry")
        steps = steps_of(proof)
        if len(steps) != len(proof.path):
            self._line(f"+ {len(proof.path)}", "", "a path of another length than it must have")
        shown = steps if self._open or len(steps) <= SHOWN_STEPS + 1 else steps[:SHOWN_STEPS]
        for step in shown:
            self._line(f"+ {step.side}", step.digest, _range_words(step))
        if len(shown) < len(steps):
            self.more = Link(f"+ {len(steps) - len(shown)} more", "body")
            self.more.clicked.connect(self._unfold)
            self._grid.addWidget(self.more, self._grid.rowCount(), 0, 1, 3, Qt.AlignmentFlag.AlignLeft)
        self._line("root", proof.root, plural(proof.size, "entry", "entries"))

    def _unfold(self) -> None:
        self._open = True
        self._rebuild()

    def _line(self, what: str, digest: str, where: str) -> None:
        row = self._grid.rowCount()
        self._grid.addWidget(Label(what, "body", "text3"), row, 0)
        value = Label(_short(digest), "mono_small", selectable=True)
        value.setToolTip(digest)
        value.setAccessibleName(f"{what}: {digest}")
        self._grid.addWidget(value, row, 1)
        place = Label(where, "body", "text3")
        place.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._grid.addWidget(place, row, 2)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the line that holds the path together."""
        painter = QPainter(self)
        color = theme_of(self).color("ok" if self._ok else "fail")
        painter.fillRect(QRectF(4, 2, 2, self.height() - 4), color)
        painter.end()


def _short(digest: str) -> str:
    return f"{digest[:4]} … {digest[-4:]}" if len(digest) > 16 else digest


def _range_words(step: ProofStep) -> str:
    if step.first == step.last:
        return count_words(step.first)
    return f"{count_words(step.first)} to {count_words(step.last)}"
