"""The bars above the film: which run, what is searched, where the playhead is, how fast it goes."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from app.theme.state_looks import cell_look
from app.theme.tokens import SPACE
from app.widgets.action import Action
from app.widgets.action_buttons import ActionButton, ActionIconButton
from app.widgets.badges import ProductionTag, StateBadge
from app.widgets.buttons import Segmented
from app.widgets.fields import CheckBox, SearchField, mark_failed
from app.widgets.json_view import size_words
from app.widgets.labels import ElidedLabel, Label, escaped_tooltip, set_surface
from app.widgets.layouts import hbox
from core.replay.result_search import MOST_TEXT_BYTES

SEARCHED = (
    "Searches titles, tools, devices, people, outcomes, and the texts of results.\n"
    f"Of texts that are stored beside the journal, those of up to {size_words(MOST_TEXT_BYTES)}."
)
SPEEDS = (("0.5", "½×"), ("1", "1×"), ("4", "4×"), ("16", "16×"))


class _TitleButton(ActionButton):
    """A screen's title that opens a list."""

    def _text_role(self) -> str:
        return "title"


class ReplayHead(QWidget):
    """Name of the run, which opens the chooser; its facts; search in time; relative or clock time.

    Signals:
        searched(text), found_asked(step): what to look for, and on to the next (1) or previous (-1) one.
        left_search: the operator is done with searching.
        clock_chosen(key): `relative` or `clock`.
    """

    searched = Signal(str)
    found_asked = Signal(int)
    left_search = Signal()
    clock_chosen = Signal(str)

    def __init__(self, choose: Action) -> None:
        """`choose` opens the chooser."""
        super().__init__()
        set_surface(self, "base")
        self.setFixedHeight(48)
        self.run = _TitleButton(choose, "ghost", "Choose a run", "", menu_mark=True)
        self.facts = ElidedLabel("", "body", "text2")
        self.production = ProductionTag(0)
        self.state = StateBadge(cell_look("done"), "Run")
        self.state.hide()
        self.search = SearchField("Search in time", "Search in time", keys="/")
        self.search.setToolTip(escaped_tooltip(SEARCHED))
        self.search.setFixedWidth(190)
        self.search.textChanged.connect(self.searched)
        self.search.installEventFilter(self)
        self.found = Label("", "meta", "text3")
        self.times = Segmented([("relative", "Relative"), ("clock", "Clock")], "Times")
        self.times.choose("clock")
        self.times.chosen.connect(self.clock_chosen)
        row = self._row = QHBoxLayout(self)
        row.setContentsMargins(SPACE.tight + 2, 0, SPACE.pane, 0)
        row.setSpacing(SPACE.small)
        left: tuple[QWidget, ...] = (self.run, self.facts, self.production, self.state)
        right: tuple[QWidget, ...] = (self.found, self.search, self.times)
        for widget in left:
            row.addWidget(widget)
        row.addStretch(1)
        for widget in right:
            row.addWidget(widget)

    def set_shared(self, transport: PlaybackBar | None) -> None:
        """Take the transport into this row, or let it go; facts are then in the title's tooltip only."""
        self.setFixedHeight(44 if transport else 48)
        self.facts.setVisible(transport is None)
        self.search.setFixedWidth(140 if transport else 190)
        if transport is not None:
            self._row.insertWidget(self._row.indexOf(self.state) + 1, transport)

    def show_facts(self, name: str, facts: str) -> None:
        """Name the run, and say which one it is."""
        self.run.set_words(name)
        self.facts.set_text(facts)
        self.run.set_tip(f"{name}\n{facts}\nChoose another run, or an entry (O)")

    def show_found(self, number: int, count: int, searching: bool, note: str = "") -> None:
        """`3 of 17`, or that nothing matches; `note` says what was not searched."""
        words = f"{number:,} of {count:,}" if count else "nothing found"
        words = f"{words}, {note}" if note else words
        self.found.setText(words if searching else "")
        self.search.setAccessibleDescription(words if searching else "")
        mark_failed(self.search, searching and not count)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """In the search field: Enter and F3 go on, Shift goes back, Down returns to the replay."""
        if watched is self.search and isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_F3):
                back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
                self.found_asked.emit(-1 if back else 1)
                return True
            if event.key() == Qt.Key.Key_Down or (
                event.key() == Qt.Key.Key_Escape and not self.search.text()
            ):
                self.left_search.emit()
                return True
        return super().eventFilter(watched, event)


class PlaybackBar(QWidget):
    """Previous, play, next; where the playhead is; speed; skipping of idle time.

    Signals:
        stepped(step): to the next (1) or previous (-1) entry, by an arrow key.
        speed_chosen(speed): a part of SPEEDS.
        skip_chosen(on): shorten gaps in which nothing happens.
    """

    stepped = Signal(int)
    speed_chosen = Signal(str)
    skip_chosen = Signal(bool)

    def __init__(self, previous: Action, play: Action, next_: Action) -> None:
        super().__init__()
        set_surface(self, "raised")
        self.setFixedHeight(40)
        self.previous = ActionIconButton(previous, "Left")
        self.play = ActionButton(play, "primary", "", "run")
        self.next = ActionIconButton(next_, "Right")
        self.time = Label("", "mono")
        self.place = Label("", "body", "text2")
        self.speeds = Segmented(SPEEDS, "Speed", in_bar=True)
        self.speeds.choose("1")
        self.speeds.chosen.connect(self.speed_chosen)
        self.skip = CheckBox("skip idle")
        self.skip.setChecked(True)
        self.skip.setToolTip("Shorten gaps of more than 2 s while playing")
        self.skip.toggled.connect(self.skip_chosen)
        self.note = Label("", "meta", "text2")
        self.promise = Label("Replaying sends nothing", "meta", "text3")
        row = hbox(parent=self, margins=(SPACE.medium, 0, SPACE.pane, 0), spacing=SPACE.small)
        for button in (self.previous, self.play, self.next):
            row.addWidget(button)
            button.installEventFilter(self)
        row.addSpacing(SPACE.tight)
        others: tuple[QWidget, ...] = (self.time, self.place, self.speeds, self.skip, self.note)
        for widget in others:
            row.addWidget(widget)
        row.addStretch(1)
        row.addWidget(self.promise)
        self.show_playing(False)

    def set_shared(self, shared: bool) -> None:
        """Stand in the head's row, where a low window has no room for two."""
        set_surface(self, "base" if shared else "raised")
        self.style().unpolish(self)
        self.style().polish(self)
        self.promise.setVisible(not shared)
        self.play.setAccessibleDescription("Replaying sends nothing")

    def show_playing(self, playing: bool) -> None:
        """Play or pause."""
        self.play.set_words("", icon="pause" if playing else "run")
        name = "Pause" if playing else "Play"
        self.play.setAccessibleName(name)
        self.play.set_tip(f"{name} (Space)")

    def show_place(self, time: str, place: int, count: int) -> None:
        """The time of the playhead and which entry it is on."""
        self.time.setText(time)
        self.place.setText(f"entry {place + 1:,} of {count:,}" if count else "no entry")
        for button in (self.previous, self.play, self.next):
            button.action.refresh()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Arrow keys on these buttons step; Qt would move the focus."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
            if step is not None:
                self.stepped.emit(step)
                return True
        return super().eventFilter(watched, event)
