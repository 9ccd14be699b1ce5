"""The moment in words: its title and verdict, the decision, the result, and the proof of its entry."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from app.components.badges import ProductionTag, VerdictBadge
from app.components.key_hint import KeyHint
from app.components.label import ElidedLabel, Label, Link, rule, surface
from app.components.timers import once
from app.link import ConsoleLink
from app.look.theme import theme_of
from app.look.tokens import SPACE
from app.query import Query
from app.screens.replay.known import Known, known_at
from app.screens.replay.reel import Reel, shown
from app.screens.replay.tabs import DecisionTab, ProofTab, ResultTab
from app.screens.replay.words import Clock
from core.audit.entries import Entry
from core.errors import QuarterdeckError
from core.replay.models import Moment
from core.service.console import CommandRecord

TABS = ("decision", "result", "proof")
# Stepping with a held key must not ask for every entry that it passes.
PAUSE_MS = 70
KEPT = 256


class Details(QWidget):
    """Title, verdict and three tabs of the moment under the playhead.

    Signals:
        entry_asked(seq, tab): the operator wants to see this entry in the journal.
        tab_chosen(tab): another tab came to the front.
    """

    entry_asked = Signal(int, str)
    tab_chosen = Signal(str)

    def __init__(self, link: ConsoleLink) -> None:
        super().__init__()
        surface(self, "base")
        self.setAccessibleName("Details of the moment")
        self._link = link
        self._reel: Reel | None = None
        self._moment: Moment | None = None
        self._clock = Clock()
        self._records: OrderedDict[str, list[Entry]] = OrderedDict()
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._problem = ""
        self._command = Query(self, link, self._keep_command, self._say_problem, "read the command")
        self._entry = Query(self, link, self._keep_entry, self._say_problem, "read the entry")
        self._pause = once(self, PAUSE_MS, self._read)
        self._build()

    def _build(self) -> None:
        head, tabs, stack = self._build_head(), self._build_tabs(), self._build_stack()
        whole = QVBoxLayout(self)
        whole.setContentsMargins(1, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(head)
        whole.addWidget(rule())
        whole.addWidget(tabs)
        whole.addWidget(rule())
        whole.addWidget(stack, 1)
        whole.addWidget(rule())
        whole.addWidget(_hints())

    def _build_head(self) -> QWidget:
        self.tool = ElidedLabel("", "head")
        self.production = ProductionTag(0)
        self.production_devices: frozenset[str] = frozenset()
        self.verdict = VerdictBadge("done")
        self.entry = Link("")
        self.entry.clicked.connect(self._open_entry)
        self.title = Label("", "body", "text2", wrap=True)
        top = QHBoxLayout()
        top.setSpacing(SPACE.small)
        top.addWidget(self.tool)
        top.addWidget(self.production)
        top.addWidget(self.verdict)
        top.addStretch(1)
        top.addWidget(self.entry)
        head = QWidget()
        column = QVBoxLayout(head)
        column.setContentsMargins(SPACE.side_panel, SPACE.small, SPACE.side_panel, SPACE.small)
        column.setSpacing(SPACE.hair)
        column.addLayout(top)
        column.addWidget(self.title)
        return head

    def _build_tabs(self) -> QTabBar:
        self.tabs = QTabBar()
        self.tabs.setExpanding(False)
        self.tabs.setDrawBase(False)
        self.tabs.setFont(theme_of(self).font("name"))
        self.tabs.setAccessibleName("About the moment")
        for title in ("Decision", "Result", "Proof"):
            self.tabs.addTab(title)
        self.tabs.currentChanged.connect(self._tab_changed)
        return self.tabs

    def _build_stack(self) -> QStackedWidget:
        self.decision_tab = DecisionTab()
        self.result_tab = ResultTab()
        self.proof_tab = ProofTab(self._link)
        self.proof_tab.entry_asked.connect(self.entry_asked)
        self.stack = QStackedWidget()
        for tab in (self.decision_tab, self.result_tab, self.proof_tab):
            self.stack.addWidget(tab)
        return self.stack

    @property
    def tab(self) -> str:
        """The tab in front."""
        return TABS[max(0, self.tabs.currentIndex())]

    def show_tab(self, tab: str) -> None:
        """Bring a tab to the front; the first one when there is none of this name."""
        self.tabs.setCurrentIndex(TABS.index(tab) if tab in TABS else 0)

    def _tab_changed(self, number: int) -> None:
        self.stack.setCurrentIndex(number)
        self.tab_chosen.emit(TABS[number])
        self._show_body()
        self._pause.start()

    def _open_entry(self) -> None:
        if self._moment is not None:
            self.entry_asked.emit(self._moment.seq, "entry")

    # What is shown

    def show_moment(self, reel: Reel | None, place: int, clock: Clock) -> None:
        """Show this moment: what its own entry says at once, the rest when it has been read."""
        self._reel, self._clock = reel, clock
        moment = reel.moments[place] if reel and len(reel) else None
        self._moment = moment
        self._problem = ""
        self.entry.setVisible(moment is not None)
        known = moment is not None and moment.device in self.production_devices
        self.production.set_count(None if known else 0)
        if moment is None:
            self.tool.set_text("")
            self.title.setText("")
            self.verdict.hide()
            return
        self.tool.set_text(shown(moment.tool) or shown(moment.kind.replace("_", " ")).capitalize())
        words = "failed" if moment.status == "failure" else moment.verdict
        self.verdict.setVisible(bool(words))
        if words:
            self.verdict.set_verdict(shown(words))
        self.entry.setText(f"entry {moment.seq:,}")
        self.entry.setAccessibleName(f"Entry {moment.seq:,} in the journal")
        self.entry.updateGeometry()
        self.title.setText(shown(moment.title))
        self._show_body()
        self._pause.start()

    def forget_open(self) -> None:
        """Read commands again that may have gone on; called when the timeline has grown."""
        self._records.clear()

    def _known(self) -> Known | None:
        moment = self._moment
        if moment is None or not moment.call_id or moment.call_id not in self._records:
            return None
        return known_at(self._records[moment.call_id], moment.seq)

    def _show_body(self) -> None:
        moment = self._moment
        if moment is None:
            return
        known = self._known()
        if self.tab == "decision":
            start = _instant(self._reel.timeline.start) if self._reel else None
            self.decision_tab.show_moment(moment, known, self._clock, start, self._problem)
        elif self.tab == "result":
            self.result_tab.show_moment(moment, known, self._entries.get(moment.seq), self._problem)
        else:
            self.proof_tab.show_entry(moment.seq)

    # Reading

    def _read(self) -> None:
        moment = self._moment
        if moment is None:
            return
        self._command.cancel()
        self._entry.cancel()
        call_id, seq = moment.call_id, moment.seq
        if self.tab == "proof":
            self.proof_tab.read()
        elif call_id:
            if call_id not in self._records:
                self._command.load(lambda console: console.journal.command(call_id))
        elif self.tab == "result" and seq not in self._entries:
            self._entry.load(lambda console: console.journal.entry(seq))

    def _keep_command(self, record: CommandRecord) -> None:
        self._records[record.call_id] = sorted(record.entries, key=lambda entry: entry.seq)
        while len(self._records) > KEPT:
            self._records.popitem(last=False)
        self._show_body()

    def _keep_entry(self, entry: Entry) -> None:
        self._entries[entry.seq] = entry
        while len(self._entries) > KEPT:
            self._entries.popitem(last=False)
        self._show_body()

    def _say_problem(self, error: QuarterdeckError) -> None:
        self._problem = error.info.sentences
        self._show_body()


def _hints() -> QWidget:
    hints = QWidget()
    row = QHBoxLayout(hints)
    row.setContentsMargins(SPACE.side_panel, SPACE.snug, SPACE.side_panel, SPACE.snug)
    row.setSpacing(SPACE.medium)
    for keys, words in (("←+→", "entry"), ("Space", "play"), ("N", "next change")):
        row.addWidget(KeyHint(keys, words))
    row.addStretch(1)
    return hints


def _instant(stamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(stamp)
    except ValueError:
        return None
