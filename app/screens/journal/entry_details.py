"""The entry under the cursor: its facts and body, its proof, what stands around it, its pictures."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QStackedWidget, QTabBar, QWidget

from app.records.proof import ProofView
from app.screens.journal.attachments_tab import AttachmentsTab
from app.screens.journal.context_tab import ContextTab
from app.screens.journal.entry_text import (
    KIND_TONES,
    Present,
    entry_title,
    entry_words,
    outcome_of,
    time_words,
    took_words,
)
from app.screens.screen import Navigator
from app.screens.targets import OpenReplay, OpenRun
from app.service_client import ConsoleLink
from app.text import count_words, one_line
from app.theme.theme import theme_of
from app.theme.tokens import RADIUS, SPACE
from app.widgets import painting
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton
from app.widgets.badges import ProductionStrip, VerdictBadge
from app.widgets.buttons import Button
from app.widgets.empty_state import EmptyState
from app.widgets.json_view import JsonView
from app.widgets.labels import ElidedLabel, Label, separator, set_surface
from app.widgets.layouts import STRETCH, hbox, vbox
from app.widgets.property_list import Property, PropertyList
from app.widgets.section import SectionHead
from core.audit.entries import Entry

TABS = ("entry", "proof", "around", "pictures")
SHORT_BODY = 1_500
ROOM_FOR_NUMBER = 350
WIDTH, NARROW = 372, 320


class BodyBox(QFrame):
    """The body on sunken ground, with a hairline round it."""

    def __init__(self, view: JsonView) -> None:
        super().__init__()
        view.setStyleSheet("background: transparent")
        vbox(view, parent=self, margins=(8, 6, 2, 6), spacing=None)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the box."""
        theme = theme_of(self)
        painter = QPainter(self)
        edge = theme.color("border2")
        painting.box(painter, self.rect().toRectF(), RADIUS.control, theme.color("sunken"), edge)
        painter.end()


class EntryTab(QWidget):
    """What the entry says: the fields as facts, the body as a tree."""

    def __init__(self) -> None:
        super().__init__()
        self.facts = PropertyList(76, "Entry")
        self.body = JsonView()
        self.body.setAccessibleName("Body of the entry")
        self.box = BodyBox(self.body)
        self._head = SectionHead("Body")
        self._none = Label("The entry has no body.", "meta", "text3")
        column = vbox(
            self.facts,
            self._head,
            self._none,
            (self.box, 1),
            parent=self,
            margins=(14, 12, 14, 12),
            spacing=SPACE.small,
        )
        column.addStretch(0)

    def show_entry(self, entry: Entry) -> None:
        """Show another entry."""
        self.facts.show_facts(entry_facts(entry))
        self.body.set_value(entry.body)
        if len(str(entry.body)) < SHORT_BODY:
            self.body.expandToDepth(1)
        self.box.setVisible(bool(entry.body))
        self._none.setVisible(not entry.body)


class EntryDetails(QWidget):
    """The pane right of the rows.

    Signals:
        entry_wanted: show the entry with this number.
        tab_chosen: this tab is in front.
    """

    entry_wanted = Signal(int)
    tab_chosen = Signal(str)

    def __init__(self, link: ConsoleLink, nav: Navigator, replay: Action) -> None:
        """`replay` is the screen's act that replays the entry."""
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Entry")
        self._nav = nav
        self._present = Present()
        self.entry: Entry | None = None
        self._build_head()
        self.tabs = QTabBar()
        self.tabs.setExpanding(False)
        self.tabs.setDrawBase(False)
        self.tabs.setFont(theme_of(self).font("name"))
        self.tabs.setAccessibleName("About the entry")
        self.entry_tab = EntryTab()
        self.proof = ProofView(link)
        self.around = ContextTab(link)
        self.pictures = AttachmentsTab(link)
        self.stack = QStackedWidget()
        for title, tab in zip(
            ("Entry", "Proof", "Around it", "Pictures"),
            (self.entry_tab, self.proof, self.around, self.pictures),
            strict=True,
        ):
            self.tabs.addTab(title)
            self.stack.addWidget(tab)
        self._build_actions(replay)
        self.nothing = EmptyState("No entry is chosen.", "Choose one in the list to see what it says.")
        column = vbox(
            self.strip, self._head, self.tabs, separator(), (self.nothing, 1), (self.stack, 1), parent=self
        )
        column.addStretch(0)
        column.addWidget(self._actions)
        self.tabs.currentChanged.connect(self._tab_chosen)
        self.around.opened.connect(self.entry_wanted)
        self.around.counted.connect(self._show_around_count)
        self.show_entry(None)

    def _build_head(self) -> None:
        self.strip = ProductionStrip("")
        self._kind = Label("", "head")
        self._seq = Label("", "body", "text3")
        self._outcome = VerdictBadge("confirmed")
        self._title = ElidedLabel("", "body", "text2")
        first = hbox(self._kind, self._seq, STRETCH, self._outcome, spacing=SPACE.small)
        self._head = QWidget()
        vbox(first, self._title, parent=self._head, margins=(14, 10, 14, 6), spacing=2)

    def _build_actions(self, replay: Action) -> None:
        self._actions = QWidget()
        set_surface(self._actions, "base")
        self.replay = ActionButton(replay, with_key=True)
        self.run = Button("Open run", icon="runs")
        self.run.clicked.connect(self.open_run)
        row = hbox(self.replay, self.run, STRETCH, margins=(14, 9, 14, 9), spacing=SPACE.small)
        vbox(separator(), row, parent=self._actions)

    # what the screen asks

    def show_entry(self, entry: Entry | None) -> None:
        """Show one entry; a hint when there is none."""
        known = entry is not None
        for part in (self._head, self.tabs, self.stack, self._actions):
            part.setVisible(known)
        self.nothing.setVisible(not known)
        same, self.entry = entry == self.entry, entry
        self._show_present()
        if same or entry is None:
            return
        self._kind.setText(entry_words(entry))
        self._kind.set_tone(KIND_TONES.get(entry.kind, "text"))
        self._show_number()
        self.tabs.setTabText(2, "Around it")
        pictures = len(set(entry.blobs))
        self.tabs.setTabText(3, f"Pictures {pictures}" if pictures else "Pictures")
        self.replay.show_action()
        self.run.set_off("" if entry.run else "This entry belongs to no run.")
        self.entry_tab.show_entry(entry)
        self.proof.show_entry(entry.seq, entry)
        for tab in (self.around, self.pictures):
            tab.show_entry(entry)

    def show_present(self, present: Present) -> None:
        """Other devices are production, or other commands wait."""
        self._present = self.around.present = present
        self._show_present()

    def _show_number(self) -> None:
        """The number stands beside the kind; where there is no room, before the title."""
        if self.entry is None:
            return
        number, title = f"entry {count_words(self.entry.seq)}", entry_title(self.entry)
        room = self.width() >= ROOM_FOR_NUMBER
        self._seq.setText(number if room else "")
        self._title.set_text(title if room else f"{number}, {title}")

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The number goes where there is room."""
        super().resizeEvent(event)
        self._show_number()

    def _show_present(self) -> None:
        entry = self.entry
        self.strip.setVisible(entry is not None and entry.device in self._present.production)
        outcome = outcome_of(entry, self._present) if entry is not None else ""
        self._outcome.setVisible(bool(outcome))
        if outcome:
            self._outcome.set_verdict(outcome)

    def show_tab(self, tab: str) -> None:
        """Bring a tab to the front."""
        self.tabs.setCurrentIndex(TABS.index(tab) if tab in TABS else 0)

    def current_tab(self) -> str:
        """The tab in front."""
        return TABS[self.tabs.currentIndex()]

    def focus_first(self) -> None:
        """Put the focus on the tabs."""
        self.tabs.setFocus(Qt.FocusReason.TabFocusReason)

    def open_replay(self) -> None:
        """Replay the entry's run, or what happened around it, with the playhead on it."""
        if self.entry is None:
            return
        seq, run = self.entry.seq, self.entry.run
        target = OpenReplay(run=run, at=seq) if run else OpenReplay(around=seq, at=seq)
        self._nav.open("replay", target)

    def open_run(self) -> None:
        """Show the entry's run, with its cell open."""
        if self.entry is not None and self.entry.run:
            self._nav.open("runs", OpenRun(self.entry.run, self.entry.device, self.entry.step))

    def _tab_chosen(self, number: int) -> None:
        self.stack.setCurrentIndex(number)
        for place, tab in ((1, self.proof), (2, self.around), (3, self.pictures)):
            tab.set_shown(place == number)
        self.tab_chosen.emit(TABS[number])

    def _show_around_count(self, count: int) -> None:
        self.tabs.setTabText(2, f"Around it {count}" if count else "Around it")


def entry_facts(entry: Entry) -> list[Property]:
    """The fields of an entry, those that it has."""
    facts = [Property("Time", time_words(entry.time), mono=True, full=entry.time)]
    for label, value, mono in (
        ("Device", entry.device, False),
        ("Actor", entry.actor, False),
        ("Tool", entry.tool, True),
        ("Run", entry.run, True),
        ("Step", entry.step, True),
        ("Command", entry.call_id, True),
        ("Status", entry.status, False),
        ("Verdict", (entry.verdict or "").replace("_", " "), False),
        ("Took", took_words(entry.duration_ms), False),
    ):
        if value:
            facts.append(Property(label, one_line(value), mono=mono))
    return facts
