"""Replay: step through what happened in a run, or around an entry, with the pictures that were known then."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QStackedWidget, QVBoxLayout, QWidget

from app.screens.replay.details import Details
from app.screens.replay.film_strip import FilmStrip
from app.screens.replay.header import heading_of
from app.screens.replay.image_compare import ImageCompare
from app.screens.replay.images import ReplayImages
from app.screens.replay.playback import Playback
from app.screens.replay.playback_bar import SPEEDS, PlaybackBar, ReplayHead
from app.screens.replay.run_chooser import RunChooser
from app.screens.replay.search import Search
from app.screens.replay.text import Clock
from app.screens.replay.timeline_index import TimelineIndex
from app.screens.replay.timeline_loader import TimelineSource
from app.screens.replay.timeline_view import TimelineView
from app.screens.screen import Navigator, Screen, Shortcut
from app.screens.targets import OpenEntry, OpenReplay, Target
from app.service_client import ConsoleLink
from app.state import AppState
from app.theme.state_looks import cell_look
from app.widgets.action import Action
from app.widgets.empty_state import EmptyState
from app.widgets.image_view import STEP, ImageView
from app.widgets.labels import separator, set_surface
from app.widgets.layouts import vbox
from app.widgets.master_detail import MasterDetail
from core.errors import QuarterdeckError
from core.replay.models import Timeline

LEAST_SHARED = 1190
NOTHING_YET = "Nothing has run yet."
NOTHING_LINE = (
    "After the first run you step through it here: every entry in order, the pictures before and after, "
    "what changed between them, who approved what, and the proof of each entry."
)
NOT_KNOWN = "What has run is not known."
NOT_KNOWN_LINE = "The service is not connected. Runs are shown as soon as it answers."


class ReplayScreen(Screen):
    """One timeline, and the playhead in it."""

    name = "replay"
    title = "Replay"
    icon = "replay"

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self._low = self._shared = False
        self._reel: TimelineIndex | None = None
        self._place = 0
        self._shown: OpenReplay | None = None
        self._stale = False
        self._clock = Clock()
        self._in_front = False
        self.player = Playback(self._delay, self)

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Build what needs the door."""
        self._make_actions()
        self._build(state, link)
        self.finder = Search(self.head, self.lanes, self)
        self.finder.bind(link)
        super().bind(state, link, nav)
        self.offer(self.previous_act, self.next_act, self.play_act)
        self.remember("panes", self.split)
        self._connect(state)
        self._restore()
        self._show_page()

    def _make_actions(self) -> None:
        self.choose_act = Action("Choose another run…", "replay", self._open_chooser, "O")
        self.entry_act = Action(
            "Show the entry in Journal", "journal", self._open_entry, "J", off=self._why_no_reel
        )
        # Their keys are the screen's: held arrows go on stepping, and Space presses what has the keyboard.
        self.previous_act = Action(
            "Previous entry", "previous", lambda: self.step(-1), off=lambda: self._why_no_step(-1)
        )
        self.next_act = Action("Next entry", "next", lambda: self.step(1), off=lambda: self._why_no_step(1))
        self.play_act = Action("Play or pause", "run", self.toggle_play, off=self._why_not_played)

    def _why_no_reel(self) -> str:
        return "" if self._reel is not None and len(self._reel) else "Nothing is replayed."

    def _why_no_step(self, step: int) -> str:
        if why := self._why_no_reel():
            return why
        assert self._reel is not None
        at_end = self._place + 1 >= len(self._reel) if step > 0 else self._place <= 0
        return f"This is the {'last' if step > 0 else 'first'} entry." if at_end else ""

    def _why_not_played(self) -> str:
        single = self._reel is not None and len(self._reel) == 1
        return self._why_no_reel() or ("There is one entry only." if single else "")

    def _build(self, state: AppState, link: ConsoleLink) -> None:
        """Make the parts; once, from `bind`."""
        self.source = TimelineSource(link, self)
        self.shelf = ReplayImages(link, self)
        self.head = ReplayHead(self.choose_act)
        self.transport = PlaybackBar(self.previous_act, self.play_act, self.next_act)
        self.film = FilmStrip()
        self.film.set_shelf(self.shelf)
        self.lanes = TimelineView()
        self.pictures = ImageCompare(self.shelf)
        self.details = Details(link, self.entry_act)
        self.chooser = RunChooser(state, link, self)
        self._place_parts()

    def _place_parts(self) -> None:
        self.split = MasterDetail(self.pictures, self.details, (900, 346), self.pictures)
        work = QWidget()
        column = self._work = QVBoxLayout(work)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self._below_transport = separator()
        for part in (self.transport, self._below_transport, self.film, separator(), self.lanes, separator()):
            column.addWidget(part)
        column.addWidget(self.split, 1)
        self.empty = EmptyState(NOT_KNOWN, NOT_KNOWN_LINE)
        self.pages = QStackedWidget()
        self.pages.addWidget(work)
        self.pages.addWidget(self.empty)
        vbox(self.head, separator(), (self.pages, 1), parent=self)

    def _connect(self, state: AppState) -> None:
        self.finder.walked.connect(self.pause)
        self.finder.go_wanted.connect(self.go_to)
        self.head.left_search.connect(self.film.setFocus)
        self.head.clock_chosen.connect(self._set_clock)
        self.chooser.chosen.connect(self._choose)
        self.empty.acted.connect(self._act_on_empty)
        self.transport.stepped.connect(self.step)
        self.transport.speed_chosen.connect(self._set_speed)
        self.player.due.connect(lambda: self.step(1))
        self.player.changed.connect(self.transport.show_playing)
        self.source.came.connect(self._came)
        self.source.failed.connect(self._failed)
        self.transport.skip_chosen.connect(lambda on: self.keep("skip", on))
        self.film.chosen.connect(self.go_to_entry)
        self.lanes.scrubbed.connect(self._scrub)
        self.pictures.mode_chosen.connect(self.set_mode)
        self.details.entry_asked.connect(lambda seq, tab: self.nav.open("journal", OpenEntry(seq, tab)))
        self.details.tab_chosen.connect(lambda tab: self.keep("tab", tab))
        state.runs_changed.connect(self._run_changed)
        state.reset.connect(self._everything_changed)

    def _restore(self) -> None:
        self.details.show_tab(str(self.remembered("tab", "decision")))
        self.set_mode(str(self.remembered("mode", "changed")))
        self.transport.skip.setChecked(str(self.remembered("skip", "true")).lower() == "true")
        if str(self.remembered("clock", "clock")) == "relative":
            self.head.times.choose("relative")
            self._clock = Clock(relative=True)
        speed = str(self.remembered("speed", "1"))
        if speed in dict(SPEEDS):
            self._set_speed(speed)

    # What the window asks

    def enter(self, target: Target | None) -> None:
        """Show a run or the entries around one; without a target, what was shown, or the latest run."""
        self._in_front = True
        if isinstance(target, OpenReplay):
            self._choose(target)
        elif self._shown is None:
            self._choose_latest()
        elif self._stale:
            self.source.read(self._shown)
        self.film.ask_again()
        self.pictures.ask_again()
        self.home_of_keyboard().setFocus()

    def leave(self) -> None:
        """Stop playing; nothing is read for a screen that is not seen."""
        self._in_front = False
        self.pause()
        self.source.rest()
        self.shelf.stop()

    def shortcuts(self) -> list[Shortcut | Action]:
        """The keys of comp 08."""
        no_reel = self._why_no_reel
        return [
            Shortcut("Left", "Previous entry"),
            Shortcut("Right", "Next entry"),
            Action("Next change", "replay", lambda: self.next_change(1), "N", off=no_reel),
            Action("Previous change", "replay", lambda: self.next_change(-1), "Shift+N", off=no_reel),
            Shortcut("Space", "Play or pause"),
            Shortcut("+", "Faster"),
            Shortcut("-", "Slower"),
            Action("Search in time", "search", self.finder.take_keyboard, "/"),
            Action("Next moment found", "search", lambda: self.finder.walk(1), "F3"),
            Shortcut("Home", "First entry"),
            Shortcut("End", "Last entry"),
            Action("Side by side", "replay", lambda: self.set_mode("side"), "1"),
            Action("Changed", "replay", lambda: self.set_mode("changed"), "2"),
            Action("Full picture", "replay", lambda: self.set_mode("full"), "3"),
            Action("Zoom the lanes in", "replay", lambda: self.lanes.zoom(2), "Z", off=no_reel),
            Action("Zoom the lanes out", "replay", lambda: self.lanes.zoom(0.5), "Shift+Z", off=no_reel),
            self.choose_act,
            self.entry_act,
        ]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Keys that no focused part wanted for itself; held arrows go on stepping."""
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        key = Qt.Key(event.key())
        if event.modifiers() & ~(Qt.KeyboardModifier.KeypadModifier | Qt.KeyboardModifier.ShiftModifier):
            super().keyPressEvent(event)
        elif key in steps:
            self.pause()
            self.step(steps[key])
        elif key == Qt.Key.Key_Home:
            self.go_to(0)
        elif key == Qt.Key.Key_End and self._reel is not None:
            self.go_to(len(self._reel) - 1)
        elif key == Qt.Key.Key_Space and not event.isAutoRepeat():
            self.play_act.trigger()
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self._change_speed(1)
        elif key in (Qt.Key.Key_Minus, Qt.Key.Key_Underscore):
            self._change_speed(-1)
        else:
            super().keyPressEvent(event)

    def escape(self) -> bool:
        """First the search, then the zoomed stretch of time."""
        if self.head.search.text():
            self.head.search.clear()
            self.film.setFocus()
            return True
        return self.lanes.reset_range()

    # Which timeline

    @property
    def reel(self) -> TimelineIndex | None:
        """What is replayed."""
        return self._reel

    @property
    def place(self) -> int:
        """The number of the moment under the playhead, from 0."""
        return self._place

    def _choose_latest(self) -> None:
        runs = self.state.runs_newest_first()
        if runs:
            self._choose(OpenReplay(run=runs[0].id))
        else:
            self._show_page()

    def _choose(self, target: OpenReplay) -> None:
        if target.run is None and target.around is None:
            self._choose_latest()
            return
        self.pause()
        same = self._shown is not None and (self._shown.run, self._shown.around) == (
            target.run,
            target.around,
        )
        if not same:
            self._shown = target
            self._reel = None
            self._place = 0
            self.finder.show_reel(None)
            self.lanes.reset_range()
            self.head.search.clear()
        self.source.read(target)
        self._show_page()

    def _failed(self, error: QuarterdeckError) -> None:
        if self._reel is None:
            again = ("again", "Read again", "refresh")
            self.empty.say("This cannot be replayed now.", error.info.sentences, again)
            self.pages.setCurrentWidget(self.empty)
        else:
            self.transport.note.setText(f"not up to date: {error.message}")
            self.transport.note.set_tone("fail")

    def _came(self, target: OpenReplay, timeline: Timeline) -> None:
        old, self._stale = self._reel, False
        reel = self._reel = TimelineIndex(timeline)
        self.details.forget_open()
        self.transport.note.setText("cut: not every entry is shown" if timeline.truncated else "")
        self.transport.note.set_tone("warn")
        self._shown = OpenReplay(run=target.run, around=target.around)
        self._show_page()
        production = frozenset(one.name for one in self.state.devices.values() if one.production)
        self.film.show_reel(reel, self._clock, production)
        self.details.production_devices = production
        self.lanes.show_reel(reel, self._clock, production)
        if len(reel):
            self.finder.show_reel(reel, self._shown)
            place = self._place_in(reel, old, target)
            self._place = -1
            self.go_to(place)
        if self.hasFocus():
            # The keyboard waited here for the film.
            self.home_of_keyboard().setFocus()

    def _place_in(self, reel: TimelineIndex, old: TimelineIndex | None, target: OpenReplay) -> int:
        """Where the playhead is in a timeline that was just read."""
        if target.at is not None:
            return reel.at_seq(target.at)
        if old is not None and len(old) and self._place < len(old) - 1:
            return reel.at_seq(old.moments[self._place].seq)
        if (old is None or not len(old)) and target.around is not None:
            return reel.at_seq(target.around)
        # A run opens at its end: all of it is known there, Space plays it from the start, and one that is
        # under way is followed.
        return len(reel) - 1

    def _run_changed(self, run: str) -> None:
        if not self._in_front:
            self._stale = True
            return
        if self._shown is None:
            self._choose_latest()
        elif self._shown.run is not None and run in ("", self._shown.run):
            self._show_head()
            self.source.read_again_soon()

    def _everything_changed(self) -> None:
        self.shelf.forget_problems()
        if self._in_front and self._shown is None:
            self._choose_latest()
        elif self._in_front:
            self.source.read_again_soon()
        self._stale = not self._in_front
        self._show_page()

    def _show_page(self) -> None:
        self._show_head()
        if self._shown is None:
            known = self.state.loaded
            if known:
                self.empty.say(NOTHING_YET, NOTHING_LINE, ("batch", "Build a batch", "batch"))
            else:
                self.empty.say(NOT_KNOWN, NOT_KNOWN_LINE)
        elif self._reel is None:
            self.empty.say("Reading the entries…", "They are shown as soon as the service answers.")
        elif not len(self._reel):
            line = "Choose another run, or another entry."
            self.empty.say("Nothing is in the journal here.", line, (self.choose_act, "Choose…", "search"))
        ready = self._reel is not None and len(self._reel) > 0
        self.pages.setCurrentIndex(0 if ready else 1)
        self.head.search.setEnabled(ready)
        self.head.times.set_off(self._why_no_reel())

    def _act_on_empty(self, key: str) -> None:
        if key == "batch":
            self.nav.open("batch")
        elif self._shown is not None:
            self.source.read(self._shown)

    def _show_head(self) -> None:
        shown_now = self._shown
        run = self.state.runs.get(shown_now.run) if shown_now and shown_now.run else None
        heading = heading_of(shown_now, run, self._reel.timeline if self._reel else None)
        self.head.show_facts(heading.name, heading.facts)
        known = self.state.devices
        production = [name for name in heading.devices if name in known and known[name].production]
        self.head.production.set_count(len(production))
        self.head.state.setVisible(run is not None)
        if run is not None:
            self.head.state.set_look(cell_look(run.state.value))

    # The playhead

    def step(self, step: int) -> None:
        """Go on by entries; stays at the ends."""
        if self._reel is not None:
            self.go_to(self._place + step)

    def go_to_entry(self, seq: int) -> None:
        """Go to an entry by its number."""
        if self._reel is not None:
            self.pause()
            self.go_to(self._reel.at_seq(seq))

    def go_to(self, place: int) -> None:
        """Put the playhead on a moment and show what was known then."""
        reel = self._reel
        if reel is None or not len(reel):
            return
        place = max(0, min(place, len(reel) - 1))
        if place == self._place:
            return
        forward = place > self._place
        self._place = place
        moment = reel.moments[place]
        words = self._clock.words(moment.time, moment.at, exact=True)
        self.transport.show_place(words, place, len(reel))
        self.film.show_current(reel.frame_at(place))
        self.lanes.show_at(moment.at, f"{words}, entry {place + 1} of {len(reel)}")
        self.pictures.show_moment(reel, place, self._clock, forward)
        self.details.show_moment(reel, place, self._clock)
        self.finder.show_place(place)

    def next_change(self, step: int) -> None:
        """Go to the next moment that changed a picture, or the one before."""
        assert self._reel is not None
        place = self._reel.next_change(self._place, step)
        if place is None:
            self.transport.note.set_tone("text3")
            self.transport.note.setText("no further change" if step > 0 else "no earlier change")
            return
        self.pause()
        self.go_to(place)

    def _scrub(self, seconds: float) -> None:
        if self._reel is not None:
            self.pause()
            self.go_to(self._reel.at_time(seconds))

    # Playing

    @property
    def playing(self) -> bool:
        """Whether the playhead moves by itself."""
        return self.player.playing

    def toggle_play(self) -> None:
        """Play from here, from the beginning when at the end, or pause."""
        if self.playing:
            self.pause()
        elif self._reel is not None and len(self._reel) > 1:
            if self._place == len(self._reel) - 1:
                self.go_to(0)
            self.player.play()

    def pause(self) -> None:
        """Stop where it is."""
        self.player.pause()

    def _delay(self, speed: float) -> float | None:
        if self._reel is None or self._place + 1 >= len(self._reel):
            return None
        return self._reel.delay(self._place, speed, self.transport.skip.isChecked())

    def _set_speed(self, speed: str) -> None:
        self.player.set_speed(float(speed))
        self.transport.speeds.choose(speed)
        self.keep("speed", speed)

    def _change_speed(self, step: int) -> None:
        focus = self.focusWidget()
        if isinstance(focus, ImageView) and not focus.image().isNull():
            focus.zoom_to(focus.zoom() * STEP**step)
            return
        keys = [key for key, _ in SPEEDS]
        place = keys.index(self.transport.speeds.current()) + step
        self._set_speed(keys[max(0, min(place, len(keys) - 1))])

    # Times, modes

    def _set_clock(self, key: str) -> None:
        self._clock = Clock(relative=key == "relative")
        self.keep("clock", key)
        self.film.show_clock(self._clock)
        self.lanes.show_clock(self._clock)
        place, self._place = self._place, -1
        self.go_to(place)

    def set_mode(self, mode: str) -> None:
        """Show pictures `side` by side, `changed`, or one in `full`."""
        self.pictures.set_mode(mode)
        self.keep("mode", self.pictures.mode)

    def _open_chooser(self) -> None:
        self.chooser.open_below(self.head.run)

    def _open_entry(self) -> None:
        assert self._reel is not None
        self.nav.open("journal", OpenEntry(self._reel.moments[self._place].seq))

    # As wide as title, state, transport, search and the choice of times are together.

    def primary_filter(self) -> QWidget:
        """Search in time."""
        return self.head.search

    def home_of_keyboard(self) -> QWidget:
        """The film; until there is one, the screen itself."""
        return self if self.pages.currentIndex() else self.film

    def panes(self) -> list[QWidget]:
        """Film, lanes, pictures, details."""
        if self.pages.currentIndex():
            return [self.head]
        return [self.film, self.lanes, self.pictures, self.details]

    def set_compact(self, narrow: bool, low: bool) -> None:
        """Film, lanes and pictures give way."""
        self._low = low
        self._share_row()
        self.film.set_compact(low)
        self.lanes.set_compact(low)
        self.pictures.set_compact(narrow)
        self.details.setMinimumWidth(300 if narrow else 320)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Head and transport share a row where it is low and wide enough."""
        super().resizeEvent(event)
        self._share_row()

    def _share_row(self) -> None:
        share = self._low and self.width() >= LEAST_SHARED
        if share == self._shared:
            return
        self._shared = share
        self.head.set_shared(self.transport if share else None)
        self.transport.set_shared(share)
        self._below_transport.setVisible(not share)
        if not share:
            self._work.insertWidget(0, self.transport)
        self.transport.show()
