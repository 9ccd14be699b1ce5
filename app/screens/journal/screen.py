"""Journal: find what happened, check that it is as it was written, and look at one entry closely."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QApplication, QStackedWidget, QWidget

from app.query import Query
from app.screens.journal.empty_state import NoMatch
from app.screens.journal.entry_details import NARROW, WIDTH, EntryDetails
from app.screens.journal.entry_loader import EntryLoader
from app.screens.journal.entry_table import EntryTable
from app.screens.journal.entry_text import Present
from app.screens.journal.go_to_popup import GoToPopup
from app.screens.journal.histogram import Histogram
from app.screens.journal.query_bar import QueryBar
from app.screens.journal.query_terms import with_term, with_time
from app.screens.journal.row_export import copy_rows
from app.screens.journal.verify_banner import VerifyBanner
from app.screens.screen import Navigator, Screen, Shortcut
from app.screens.targets import OpenEntry, OpenQuery, OpenVerification, Target
from app.service_client import ConsoleLink
from app.state import AppState
from app.text import count_words
from app.widgets.action import Action
from app.widgets.banner import Banner
from app.widgets.labels import separator, set_surface
from app.widgets.layouts import vbox
from app.widgets.master_detail import MasterDetail
from app.widgets.util import debounce
from core.audit.entries import Entry
from core.errors import BadInput, QuarterdeckError
from core.service.console import NumberPage

BARS = 80
BARS_EVERY_MS = 5_000
ENTRY_PAUSE_MS = 40
NO_BARS_BELOW = 700
# So far around a wanted entry the rows are shown when the query in force does not have it near.
CONTEXT = 50


class JournalScreen(Screen):
    """Query, verification, bars, rows, pane."""

    name = "journal"
    title = "Journal"
    icon = "journal"

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self.bar = QueryBar()
        self.verify_act = Action(
            "Verify the journal", "verified", self._verify, "V", off=self._why_not_verified
        )
        self.replay_act = Action("Replay from here", "replay", self._replay, "R", off=self._why_no_entry)
        self.verify_banner = VerifyBanner(self.verify_act)
        self.trouble = Banner()
        self.histogram = Histogram()
        self.table = EntryTable()
        self.no_match = NoMatch()
        self._wanted: tuple[int, str] | None = None
        self._entered = False
        self._narrow = False
        self._choose_newest = True
        self._choose_soon = debounce(self, ENTRY_PAUSE_MS, self._show_current)
        self._bars_soon = debounce(self, 0, self._ask_bars)

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Build what needs the door."""
        self.feed = EntryLoader(self.table.entries, link, self)
        self.pane = EntryDetails(link, nav, self.replay_act)
        self.go_to = GoToPopup(self)
        self.nav = nav
        show_bars = self.histogram.show_buckets
        self._bars = Query(self, link, show_bars, lambda _error: show_bars([]), "count the entries over time")
        self._build()
        super().bind(state, link, nav)
        self.remember("split", self.split)
        self.bar.bind(link, _history_from(self.remembered("history", "[]")))
        self._connect(state)
        self.table.restore_columns(nav.layout_store, "journal/table-v1")
        self.table.arrange()
        self.pane.show_tab(str(self.remembered("tab", "entry")))
        self.verify_banner.show_status(state.journal, state.home)
        self._show_present()

    def _build(self) -> None:
        rows = QWidget()
        self._left = rows
        left = vbox(parent=rows)
        self.pages = QStackedWidget()
        self.pages.addWidget(self.table)
        self.pages.addWidget(self.no_match)
        left.addWidget(self.histogram)
        left.addWidget(self.pages, 1)
        rows.setMinimumWidth(420)
        self.pane.setMinimumWidth(280)
        self.split = MasterDetail(rows, self.pane, (900, NARROW if self._narrow else WIDTH), rows)
        vbox(self.bar, separator(), self.verify_banner, self.trouble, (self.split, 1), parent=self)

    def _connect(self, state: AppState) -> None:
        state.journal_changed.connect(self._journal_changed)
        state.work_changed.connect(lambda: self.verify_banner.show_work(*state.work.get("verify", (0, 0))))
        state.devices_changed.connect(self._show_present)
        state.approvals_changed.connect(self._show_present)
        state.reset.connect(self._reread)
        self.bar.applied.connect(self._apply)
        self.bar.rows_wanted.connect(self._focus_rows)
        self.feed.shown.connect(self._first_page)
        self.feed.refused.connect(self._refused)
        self.feed.failed.connect(self._read_failed)
        self.feed.counted.connect(self._show_count)
        self.feed.news.connect(self.table.above.show_count)
        self.verify_banner.entry_wanted.connect(lambda seq: self.open_entry(seq, "entry"))
        self.trouble.acted.connect(lambda _key: self._reread())
        self.histogram.chosen.connect(self._narrow_time)
        self.table.current_changed.connect(lambda _key: self._choose_soon.start())
        self.table.entries.dataChanged.connect(lambda *_: self._choose_soon.start())
        self.table.opened.connect(lambda _key: self._into_pane())
        self.table.top_left.connect(self.feed.hold_news)
        self.table.looked.connect(self._show_sight)
        self.table.newest_wanted.connect(self._to_newest)
        self.table.oldest_wanted.connect(self.feed.read_to_end)
        self.feed.at_end.connect(self._to_oldest)
        self.go_to.number_wanted.connect(self._go_to_number)
        self.go_to.moment_wanted.connect(self._go_to_moment)
        self.table.copy_wanted.connect(lambda: self._copy(as_json=False))
        self.table.json_wanted.connect(lambda: self._copy(as_json=True))
        self.table.filter_wanted.connect(lambda term: self.bar.set_query(with_term(self.bar.text(), term)))
        self.no_match.query_wanted.connect(self.bar.set_query)
        self.no_match.acted.connect(lambda key: self._reread() if key == "again" else None)
        self.pane.entry_wanted.connect(lambda seq: self.open_entry(seq, self.pane.current_tab()))
        self.pane.tab_chosen.connect(lambda tab: self.keep("tab", tab))

    # What the window asks

    def enter(self, target: Target | None) -> None:
        """Show a query, or one entry."""
        self._entered = True
        if isinstance(target, OpenQuery):
            self.bar.set_query(target.query)
        elif isinstance(target, OpenEntry):
            self.open_entry(target.seq, target.tab)
        elif isinstance(target, OpenVerification):
            self.verify_act.trigger()
        if self.feed.loaded or self.feed.loading:
            self._journal_changed()
        elif self.state.loaded:  # else `reset` reads it, once the service answers
            self._apply(self.bar.text())
        self.table.setFocus()

    def leave(self) -> None:
        """Stop asking for what is not seen."""
        self._entered = False
        self.bar.stop()
        self._bars_soon.stop()
        self.keep("history", json.dumps(self.bar.history))

    def shortcuts(self) -> list[Shortcut | Action]:
        """The keys of comp 09."""
        return [
            Action("Query", "filter", self._focus_query, "/"),
            Shortcut("Up", "Newer entry; in the empty query, the query before"),
            Shortcut("Down", "Older entry"),
            Shortcut("Return", "Pane of the entry"),
            Action("Proof of the entry", "verified", self._open_proof, "P", off=self._why_no_entry),
            self.replay_act,
            self.verify_act,
            Shortcut("Home", "Newest entries"),
            Shortcut("End", "Oldest entry"),
            Action("Go to an entry's number or a time…", "journal", self._open_go_to, "G"),
            Shortcut("Ctrl+C", "Copy the chosen rows"),
        ]

    def primary_filter(self) -> QWidget:
        """The query."""
        return self.bar.field

    def home_of_keyboard(self) -> QWidget:
        """The rows."""
        return self.pages

    def panes(self) -> list[QWidget]:
        """Query, rows, pane."""
        return [self.bar.field, self.pages, self.pane]

    def escape(self) -> bool:
        """The suggestions, the query, the explanation, the focus back to the rows, then the pane."""
        if self.go_to.close_box():
            return True
        if self.bar.close_list() or self.bar.clear_focused() or self.verify_banner.close_advice():
            return True
        focus = QApplication.focusWidget()
        if focus is not None and (focus is self.bar.field or self.pane.isAncestorOf(focus)):
            self.table.setFocus()
            return True
        if self.pane.isVisible():
            self.pane.hide()
            return True
        return False

    def set_compact(self, narrow: bool, low: bool) -> None:
        """The pane gives way a little, actor and tool share a column."""
        del low  # row heights follow by themselves
        if narrow != self._narrow:
            self._narrow = narrow
            self.split.set_size(self.pane, NARROW if narrow else WIDTH)

    def save_layout(self) -> None:
        """Keep columns and panes."""
        super().save_layout()
        self.table.save_columns(self.nav.layout_store, "journal/table-v1")

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The bars need a window of some height."""
        super().resizeEvent(event)
        self._show_bars_if_room()

    # The query

    def _apply(self, query: str) -> None:
        self._choose_newest = query != self.feed.query or self.pane.entry is None
        self.bar.show_busy()
        self.feed.apply(query)
        self._ask_bars()

    def _reread(self) -> None:
        if self._entered:
            self._apply(self.feed.query if self.feed.loaded else self.bar.text())

    def _first_page(self) -> None:
        self.trouble.hide()
        self.bar.show_error("")
        empty = self.table.entries.rowCount() == 0
        if empty:
            self.no_match.show_query(self.feed.query)
        self.pages.setCurrentIndex(int(empty))
        self.table.fit_anew()
        self.table.arrange()
        self.feed.hold_news(not self.table.at_top())
        self._choose_after_reading()
        self._choose_newest = False
        self.table.look()
        self._journal_changed()

    def _choose_after_reading(self) -> None:
        if self._wanted is not None:
            self._choose_wanted(*self._wanted)
        elif self._choose_newest and not self.table.current_key() and self.table.entries.rowCount():
            self.table.choose_seq(self.table.entries.newest)
        self._show_current()

    def _choose_wanted(self, seq: int, tab: str) -> None:
        self._wanted = None
        if self.table.choose_seq(seq):
            self.pane.show_tab(tab)
        elif self.feed.query != _around(seq):
            self._wanted = (seq, tab)
            self.bar.set_query(_around(seq))
        else:
            self.trouble.say(
                "warn", f"There is no entry {count_words(seq)}.", "These stand around its place."
            )

    def _refused(self, error: BadInput) -> None:
        self.bar.show_error(error.message)
        self._show_count()

    def _read_failed(self, error: QuarterdeckError) -> None:
        self._show_count()
        detail = error.info.sentences
        self.trouble.say("fail", "The journal could not be read.", detail, (("again", "Read again"),))
        if self.pages.currentWidget() is self.no_match:
            line = "What the service said stands above."
            self.no_match.say("No entry could be read.", line, ("again", "Read again", "refresh"))

    def _show_count(self) -> None:
        if self.feed.loaded:
            self.table.fit_widths()
            total = max(self._entries(), self.table.entries.newest)
            self.bar.show_count(self.feed.total, self.feed.total_exact, total, self.feed.took_ms)

    def _narrow_time(self, start: datetime, end: datetime) -> None:
        self.bar.set_query(with_time(self.bar.text(), start, end))

    # What is new

    def _entries(self) -> int:
        return self.state.journal.entries if self.state.journal is not None else 0

    def _journal_changed(self) -> None:
        self.verify_banner.show_status(self.state.journal, self.state.home)
        if not self._entered or self.state.journal is None:
            return
        self._show_count()
        if self._entries() != self.table.entries.newest:
            self.feed.grew(self._entries())
            if not self._bars_soon.isActive():
                self._bars_soon.start(BARS_EVERY_MS)

    def _to_newest(self) -> None:
        self.table.scrollToTop()
        self.feed.show_news()
        self.table.setFocus()

    def _to_oldest(self) -> None:
        if entries := self.table.entries.rowCount():
            self.table.choose_seq(self.table.entries.seq_at(entries - 1) or 0)

    def _open_go_to(self) -> None:
        self.go_to.open_at(self.table)

    def _go_to_number(self, seq: int) -> None:
        """Put the cursor on an entry; where the query does not have it, among all entries."""
        seq = max(1, min(seq, self._entries()))
        self.table.setFocus()
        if self.table.choose_seq(seq):
            return
        self._wanted = (seq, self.pane.current_tab())
        if self.bar.text():
            self.bar.set_query("")
        else:
            self._apply("")

    def _go_to_moment(self, moment: datetime) -> None:
        """Put the cursor on the first entry that is not older than a moment; on the newest where all are."""
        stamp = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

        def go_on(page: NumberPage) -> None:
            self._go_to_number((page.numbers[0] if page.numbers else 0) + 1)

        Query(self, self.link, go_on, self._read_failed, "look for a time in the journal").load(
            lambda console: console.journal.numbers(f'until:"{stamp}"', limit=1)
        )

    def _show_present(self) -> None:
        present = Present(
            frozenset(name for name, device in self.state.devices.items() if device.production),
            frozenset(one.request.call_id for one in self.state.approvals.values()),
        )
        self.table.entries.show_present(present)
        self.pane.show_present(present)

    # Bars

    def _show_bars_if_room(self) -> None:
        room = self.window().height() >= NO_BARS_BELOW
        if self.histogram.isHidden() == room:
            self.histogram.setVisible(room)

    def _ask_bars(self) -> None:
        self._bars.cancel()
        if self._entered:
            query = self.feed.sent
            self._bars.load(lambda console: console.journal.histogram(query, BARS))

    def _show_sight(self, top: int, bottom: int) -> None:
        first, last = self.table.entries.entry_at(top), self.table.entries.entry_at(bottom)
        if first is not None and last is not None:
            self.histogram.show_sight(last.time, first.time)

    # One entry

    def open_entry(self, seq: int, tab: str) -> None:
        """Show one entry: in the rows where it is near, else among its neighbours."""
        self.pane.show()
        near = not self.bar.text() and seq > self._entries() - 150
        if self.feed.loaded and self.table.choose_seq(seq):
            self.pane.show_tab(tab)
            self._show_current()
            return
        self._wanted = (seq, tab)
        if near:
            self._apply("")
        else:
            self.bar.set_query(_around(seq))

    def _show_current(self) -> None:
        self._choose_soon.stop()
        entry: Entry | None = self.table.current_entry()
        if entry is not None or not self.table.entries.rowCount():
            self.pane.show_entry(entry)  # without a current row, what is being read stays

    def _into_pane(self) -> None:
        self.pane.show()
        self._show_current()
        self.pane.focus_first()

    def _why_no_entry(self) -> str:
        known = self.pane.entry is not None or self.table.current_entry() is not None
        return "" if known else "No entry is chosen."

    def _open_proof(self) -> None:
        self.pane.show()
        self._show_current()
        self.pane.show_tab("proof")

    def _replay(self) -> None:
        self._show_current()
        self.pane.open_replay()

    # Wishes

    def _why_not_verified(self) -> str:
        return "It is being verified." if self.verify_banner.running else ""

    def _verify(self) -> None:
        """Check the whole journal in the background."""
        self.verify_banner.start()
        Query(self, self.link, self.verify_banner.end, self.verify_banner.fail, "verify the journal").load(
            lambda console: console.journal.verify()
        )

    def _copy(self, as_json: bool) -> None:
        copy_rows(self.table, self.link, self.feed.sent, as_json, self.nav.toast, self.nav.fail)

    def _focus_query(self) -> None:
        self.bar.field.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _focus_rows(self) -> None:
        self.table.setFocus(Qt.FocusReason.TabFocusReason)


def _around(seq: int) -> str:
    return f"seq:{max(1, seq - CONTEXT)}..{seq + CONTEXT}"


def _history_from(kept: object) -> list[str]:
    try:
        found = json.loads(str(kept))
    except ValueError:
        return []
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
