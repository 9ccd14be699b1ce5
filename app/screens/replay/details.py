"""The moment in words: title and verdict; tabs with the decision, the result and the proof of its entry."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QStackedWidget, QTabBar, QWidget

from app.query import Query
from app.records.asker import Quote
from app.records.command import Command, read_command
from app.records.decision import past_answer
from app.records.proof import ProofView
from app.screens.replay.moment_facts import command_facts, moment_facts
from app.screens.replay.text import Clock
from app.screens.replay.timeline_index import TimelineIndex
from app.service_client import ConsoleLink
from app.text import one_line
from app.theme.theme import theme_of
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.action_buttons import ActionLink
from app.widgets.badges import ProductionTag, RiskBadge, VerdictBadge
from app.widgets.banner import Notice
from app.widgets.json_view import JsonView
from app.widgets.labels import ElidedLabel, Label, separator, set_surface
from app.widgets.layouts import STRETCH, Gap, hbox, vbox
from app.widgets.property_list import PropertyList
from app.widgets.shortcut_label import ShortcutLabel
from app.widgets.util import ScrollArea, debounce
from core.audit.entries import Entry
from core.commitments import readable
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

    def __init__(self, link: ConsoleLink, open_entry: Action) -> None:
        """`open_entry` shows the entry of the moment in the journal."""
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Details of the moment")
        self._open_entry = open_entry
        self._link = link
        self._reel: TimelineIndex | None = None
        self._moment: Moment | None = None
        self._clock = Clock()
        self._records: OrderedDict[str, list[Entry]] = OrderedDict()
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._problem = ""
        self._command = Query(self, link, self._keep_command, self._say_problem, "read the command")
        self._entry = Query(self, link, self._keep_entry, self._say_problem, "read the entry")
        self._pause = debounce(self, PAUSE_MS, self._read)
        self._build()

    def _build(self) -> None:
        head, tabs, stack = self._build_head(), self._build_tabs(), self._build_stack()
        vbox(
            head,
            separator(),
            tabs,
            separator(),
            (stack, 1),
            separator(),
            _hints(),
            parent=self,
            margins=(1, 0, 0, 0),
        )

    def _build_head(self) -> QWidget:
        self.tool = ElidedLabel("", "head")
        self.production = ProductionTag(0)
        self.production_devices: frozenset[str] = frozenset()
        self.verdict = VerdictBadge("done")
        self.entry = ActionLink(self._open_entry, "")
        self.title = Label("", "body", "text2", wrap=True)
        top = hbox(self.tool, self.production, self.verdict, STRETCH, self.entry, spacing=SPACE.small)
        head = QWidget()
        vbox(
            top,
            self.title,
            parent=head,
            margins=(SPACE.side_panel, SPACE.small, SPACE.side_panel, SPACE.small),
            spacing=SPACE.hair,
        )
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
        self.proof_tab = ProofView(self._link, elsewhere=True)
        self.proof_tab.journal_wanted.connect(lambda seq: self.entry_asked.emit(seq, "proof"))
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
        self.proof_tab.set_shown(TABS[number] == "proof")
        self.tab_chosen.emit(TABS[number])
        self._show_body()
        self._pause.start()

    # What is shown

    def show_moment(self, reel: TimelineIndex | None, place: int, clock: Clock) -> None:
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
        self.tool.set_text(one_line(moment.tool) or one_line(moment.kind.replace("_", " ")).capitalize())
        words = "failed" if moment.status == "failure" else moment.verdict
        self.verdict.setVisible(bool(words))
        if words:
            self.verdict.set_verdict(one_line(words))
        self.entry.setText(f"entry {moment.seq:,}")
        self.entry.setAccessibleName(f"Entry {moment.seq:,} in the journal")
        self.entry.updateGeometry()
        self.title.setText(one_line(moment.title))
        self._show_body()
        self._pause.start()

    def forget_open(self) -> None:
        """Read commands again that may have gone on; called when the timeline has grown."""
        self._records.clear()

    def _known(self) -> Command | None:
        moment = self._moment
        if moment is None or not moment.call_id or moment.call_id not in self._records:
            return None
        # Later entries are not looked at: they were not known at this moment.
        return read_command(one for one in self._records[moment.call_id] if one.seq <= moment.seq)

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
            return
        if call_id:
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
    row = hbox(
        parent=hints,
        margins=(SPACE.side_panel, SPACE.snug, SPACE.side_panel, SPACE.snug),
        spacing=SPACE.medium,
    )
    for keys, words in (("←+→", "entry"), ("Space", "play"), ("N", "next change")):
        row.addWidget(ShortcutLabel(keys, words))
    row.addStretch(1)
    return hints


def _instant(stamp: str) -> datetime | None:
    try:
        return datetime.fromisoformat(stamp)
    except ValueError:
        return None


class DecisionTab(QWidget):
    """Why it was done or not: decision, risk, approval, rule, sending, answer."""

    def __init__(self) -> None:
        super().__init__()
        self.risk = RiskBadge("low")
        self.answer = Label("")
        self.facts = PropertyList(84, name="Decision")
        self.entry_facts = PropertyList(84, name="Entry")
        self.words = Label("", "meta", "text3")
        self.problem = Notice("fail", "Not read", "")
        self.said = Quote()
        name = Label("Decision", "body", "text3")
        name.setFixedWidth(84)
        self.decided = QWidget()
        risk = hbox(parent=self.decided, spacing=SPACE.label_gap)
        for part in (name, self.answer, self.risk):
            risk.addWidget(part)
        risk.addStretch(1)
        inner = set_surface(QWidget(), "base")
        vbox(
            self.decided,
            self.facts,
            self.entry_facts,
            self.words,
            Gap(SPACE.tight),
            self.said,
            self.problem,
            STRETCH,
            parent=inner,
            margins=(SPACE.side_panel, SPACE.small, SPACE.side_panel, SPACE.medium),
            spacing=SPACE.tight,
        )
        vbox(ScrollArea(inner), parent=self, spacing=None)

    def show_moment(
        self, moment: Moment, known: Command | None, clock: Clock, start: datetime | None, problem: str
    ) -> None:
        """Show what was known of the moment's command; of another entry, the entry itself."""
        decision = known.decision if known else None
        self.decided.setVisible(known is not None)
        self.risk.setVisible(decision is not None)
        self.answer.setText(past_answer(decision) or "not decided yet")
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
        self.said.show_said(known.said if known else "", known.asker if known else "")
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
        vbox(self.words, (self.tree, 1), parent=self)

    def show_moment(self, moment: Moment, known: Command | None, entry: Entry | None, problem: str) -> None:
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

    def _content(self, moment: Moment, known: Command | None, entry: Entry | None) -> tuple[str, Any]:
        if not moment.call_id:
            return ("What the entry holds", entry.body) if entry else ("Reading…", None)
        if known is None:
            return "Reading…", None
        if known.ended is None:
            if known.parameters:
                return "Not answered yet at this entry. What was to be sent:", readable(known.parameters)
            return "Not answered yet at this entry.", None
        body = known.ended.body
        result = body.get("result")
        return f"As recorded in entry {known.ended.seq:,}", result if isinstance(
            result, dict
        ) and result else body
