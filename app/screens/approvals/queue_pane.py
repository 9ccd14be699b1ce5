"""The left pane: how many wait, a filter, the cards, what is new above them, and what was decided."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.items.filter_edit import FilterEdit
from app.screens.approvals.decision_stats import DecisionStats
from app.screens.approvals.queue_cards import QueueModel
from app.screens.approvals.queue_filter import EXAMPLE, QueueFilter
from app.screens.approvals.queue_view import QueueView
from app.screens.approvals.text import TimeLeft
from app.text import count_words
from app.theme.tokens import SPACE
from app.widgets.buttons import Button
from app.widgets.labels import Label, Link, separator, set_surface
from app.widgets.section import ScreenHead
from app.widgets.shortcut_label import ShortcutLabel
from core.approvals.models import Approval, ApprovalState
from core.approvals.request_groups import Group, RequestGroups
from core.models.tools import Risk


class QueuePane(QWidget):
    """Shows the queue; the card that is open is its current row and stays where it is.

    A filter shows and hides whole cards: what one card answers for is the same with it and without. The open
    card is in the list while it is open; when the operator asks for others, the screen closes it.

    Signals:
        chosen: the operator chose the card with this id.
        card_wanted: the operator wants the keyboard in the open card.
        narrowed: the operator asks for others than before, or for all again.
        counted: how many are shown, or wait, is another number now.
    """

    chosen = Signal(str)
    card_wanted = Signal()
    narrowed = Signal()
    counted = Signal()

    def __init__(self, clock: TimeLeft) -> None:
        super().__init__()
        set_surface(self, "base")
        self.setAccessibleName("Queue")
        self.model = QueueModel(self)
        self.view = QueueView(self.model, clock)
        self._waiting: list[Approval] = []
        self._likeness = RequestGroups()
        self._groups: dict[str, Group] = {}
        self._held: tuple[str, ...] = ()
        self._open = ""
        self._filter = QueueFilter()
        self._seen: set[str] = set()
        # What came while this screen was open and has not been in sight.
        self._unseen: set[str] = set()
        self._ended: set[str] = set()
        self._ends: Mapping[str, Approval] = MappingProxyType({})
        self.shown = 0
        self.head = ScreenHead("Approvals")
        self._order = Label("Risk, then age", "meta", "text3")
        self.head.add(self._order)
        self.new_above = Button("", "ghost", "up")
        self.new_above.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.new_above.hide()
        # In the head and not above the list: its coming must not push the cards down.
        self.head.add(self.new_above)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.head)
        # The list comes before the field above it, for Tab as well: letters typed blindly must be keys there.
        column.addWidget(self.view, 1)
        column.insertWidget(1, self._filter_row())
        column.insertWidget(2, separator())
        hidden_line = self._hidden_line()
        column.addWidget(self.problem)
        column.addWidget(hidden_line)
        column.addWidget(separator())
        column.addWidget(self._foot())
        self.new_above.clicked.connect(lambda *_: self._go_to_new())
        self.view.verticalScrollBar().valueChanged.connect(lambda _value: self._show_new())
        self.view.pointer_left.connect(self._put_in_order)
        self.view.opened.connect(self.card_wanted)
        self.view.selectionModel().currentChanged.connect(self._moved)
        self.show_decided(0, 0)

    def _filter_row(self) -> QWidget:
        row = QWidget()
        self.field = FilterEdit("Filter requests", EXAMPLE, self._filter.words)
        self.field.things = lambda: self._waiting
        self.field.applied.connect(self._take_filter)
        self.field.refused.connect(self._say_problem)
        self.field.down_pressed.connect(self.go_to_cards)
        self.field.returnPressed.connect(self._enter_cards)
        column = QVBoxLayout(row)
        column.setContentsMargins(SPACE.small, 0, SPACE.small, SPACE.small)
        column.setSpacing(SPACE.tight)
        column.addWidget(self.field)
        return row

    def _hidden_line(self) -> QWidget:
        """What is wrong with the filter, and what it hides: below the list, where it pushes no card."""
        self.problem = Label("", "meta", "fail", wrap=True)
        self.problem.setContentsMargins(SPACE.pane, SPACE.tight, 13, SPACE.tight)
        self.problem.hide()
        self.hidden_line = QWidget()
        self.hidden_words = Label("", "meta_strong", "text2", wrap=True)
        self.show_all = Link("Show all", "meta_strong")
        self.show_all.setAccessibleName("Show all requests: clear the filter")
        self.show_all.clicked.connect(lambda *_: self.clear_filter())
        row = QHBoxLayout(self.hidden_line)
        row.setContentsMargins(SPACE.pane, SPACE.tight, 13, SPACE.tight)
        row.setSpacing(SPACE.small)
        row.addWidget(self.hidden_words, 1)
        row.addWidget(self.show_all)
        self.hidden_line.hide()
        return self.hidden_line

    def _foot(self) -> QWidget:
        foot = QWidget()
        self.meter = DecisionStats()
        self.keys = QWidget()
        keys = QHBoxLayout(self.keys)
        keys.setContentsMargins(0, 0, 0, 0)
        keys.setSpacing(SPACE.small)
        for cap, words in (("J K", "move"), ("Ctrl+Enter", "approve"), ("D", "deny")):
            keys.addWidget(ShortcutLabel(cap, words))
        keys.addStretch(1)
        column = QVBoxLayout(foot)
        column.setContentsMargins(SPACE.pane, 10, 13, 10)
        column.setSpacing(SPACE.tight)
        column.addWidget(self.meter)
        column.addWidget(self.keys)
        return foot

    def show_decided(self, count: int, approved: int) -> None:
        """Say what this window has decided since it was opened."""
        self.meter.show_session(count, approved)

    # The queue

    def show_waiting(
        self,
        waiting: list[Approval],
        takes_in: bool = False,
        ended: Mapping[str, Approval] = MappingProxyType({}),
    ) -> None:
        """Show what waits, in order; nothing moves under the pointer.

        `takes_in`: the open card cannot be answered yet, so that what is alike may still join it. `ended`
        says by id what became of requests that no longer wait; those that stay under the pointer show it.
        """
        self._ends = ended
        # The answer to a request may be here before the event that takes it out of the queue.
        self._ended &= {one.id for one in waiting}
        known = {one.id for one in self._waiting}
        self._waiting = [one for one in waiting if one.id not in self._ended]
        now = {one.id for one in self._waiting}
        self._unseen = (self._unseen & now) | (now - known)
        if takes_in:
            self._take_in()
        self._filter.forget_all_but(self._waiting)
        if not self._filter.narrows:
            self._seen = {one.id for one in self._waiting}
        self._show(frozen=self.view.pointer_is_here())

    def _show_counts(self, shown: list[Group]) -> None:
        count, self.shown = len(self._waiting), sum(len(group.members) for group in shown)
        cards = len(shown)
        words = count_words(self.shown) if count else ""
        if self._filter.narrows and count:
            words = f"{words} of {count_words(count)}"
        if cards != self.shown:
            words = f"{words} in {cards} card{'s' if cards > 1 else ''}"
        self.head.set_detail(words)
        spoken = f"Approvals, {count} waiting"
        self.head.setAccessibleName(f"{spoken}, {self.shown} shown" if self._filter.narrows else spoken)
        known = {one.id for group in shown for one in group.members}
        self._show_hidden([one for one in self._waiting if one.id not in known])
        self.counted.emit()

    def _show_hidden(self, hidden: list[Approval]) -> None:
        """Say what waits beside what is shown; what came since the filter was typed is named."""
        new = sum(one.id not in self._seen for one in hidden)
        critical = sum(one.decision.risk is Risk.CRITICAL for one in hidden)
        words = f"{count_words(len(hidden))} more wait{'s' if len(hidden) == 1 else ''}, not shown"
        counted = ((new, "new"), (critical, "critical"))
        marks = [f"{count_words(count)} {what}" for count, what in counted if count]
        self.hidden_words.setText(f"{words}: {', '.join(marks)}" if marks else words)
        self.hidden_words.set_tone("waiting" if marks else "text2")
        self.hidden_line.setVisible(bool(hidden))

    @property
    def hidden(self) -> int:
        """How many requests wait that are not shown."""
        return len(self._waiting) - self.shown

    def _show(self, frozen: bool) -> None:
        bar = self.view.verticalScrollBar()
        anchor = self._anchor() if bar.value() > 0 else None
        keep = [self._open] if self._open else []
        groups = self._likeness.groups(self._waiting, self._held)
        self._groups = {group.leader.id: group for group in groups}
        fitting = {group.leader.id: self._filter.fitting(group) for group in groups}
        shown = [group for group in groups if fitting[group.leader.id] or self._has_open(group)]
        self.model.show(shown, keep, frozen, fitting, self._ends)
        self._keep_anchor(anchor)
        # What joined a group has no card of its own.
        self._unseen -= {other.id for group in groups for other in group.others}
        self._show_new()
        self._show_counts(shown)

    def _show_new(self) -> None:
        """Say how many new cards are above what is in sight: held back, or scrolled out of it."""
        above = self._rows_above()
        self._unseen = {one for one in self._unseen if (row := self.model.row_of(one)) < 0 or row in above}
        new = self.model.held_back + len(above)
        self.new_above.setVisible(new > 0)
        self._order.setVisible(new == 0 and not self._filter.narrows)
        self.new_above.set_words(f"{new} new above" if new else "")

    def _rows_above(self) -> list[int]:
        """The rows of what is new and scrolled out of sight at the top, the first of them first."""
        if self.view.verticalScrollBar().value() == 0:
            return []
        rows = sorted(row for one in self._unseen if (row := self.model.row_of(one)) >= 0)
        return [row for row in rows if self.view.visualRect(self.model.index(row, 0)).center().y() < 0]

    def _go_to_new(self) -> None:
        """Bring what is new into sight, beginning with the first of it."""
        self._put_in_order()
        if rows := self._rows_above():
            self.view.scrollTo(self.model.index(rows[0], 0), QueueView.ScrollHint.PositionAtTop)

    def _take_in(self) -> None:
        for group in self._likeness.groups(self._waiting):
            # The card stays the one that it is: what sorts before it has a card of its own.
            if group.leader.id == self._open:
                self._held = tuple(one.id for one in group.members)

    def _has_open(self, group: Group) -> bool:
        return any(one.id == self._open for one in group.members)

    def _put_in_order(self) -> None:
        self._show(frozen=False)

    def _anchor(self) -> tuple[str, int] | None:
        """The first card in sight and how far it is from the top, to find it again there."""
        index = self.view.indexAt(self.view.viewport().rect().topLeft())
        one = self.model.approval_at(index.row())
        return (one.id, self.view.visualRect(index).y()) if one is not None else None

    def _keep_anchor(self, anchor: tuple[str, int] | None) -> None:
        if anchor is None:
            return
        index = self.model.index_of(anchor[0])
        if index.isValid():
            self.view.doItemsLayout()
            bar = self.view.verticalScrollBar()
            bar.setValue(bar.value() + self.view.visualRect(index).y() - anchor[1])

    def show_end(self, approval: Approval) -> None:
        """A card in the list no longer waits; it stays while it is open."""
        self.model.show_end(approval)
        if approval.state is not ApprovalState.WAITING:
            self._ended.add(approval.id)

    @property
    def first(self) -> str:
        """The request that is first in order, shown or not; empty when nothing waits."""
        return self._waiting[0].id if self._waiting else ""

    def refresh_times(self) -> None:
        """Paint the times left again."""
        self.view.viewport().update()

    # The filter

    @property
    def narrows(self) -> bool:
        """Whether a filter stands against showing everything."""
        return self._filter.narrows

    def fits(self, approval: str) -> bool:
        """Whether the card of this request is asked for; one of its requests is enough."""
        leader = self.leader_of(approval)
        if (group := self._groups.get(leader)) is not None:
            return self._filter.fitting(group) > 0
        ended = self.model.approval_at(self.model.row_of(leader))
        return ended is not None and self._filter.fits(ended)

    def clear_filter(self) -> None:
        """Show all again."""
        self.field.clear()
        self.field.apply()

    def focus_filter(self) -> None:
        """Put the keyboard into the field, on what stands there."""
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.field.selectAll()

    def go_to_cards(self) -> int:
        """From the field into the list; without an open card to the first one. How many cards there are."""
        count = self.model.rowCount()
        if count:
            self.view.setFocus(Qt.FocusReason.OtherFocusReason)
            if not self._open:
                self.step(1)
        return count

    def _enter_cards(self) -> None:
        """Into the list; with one card alone, into that."""
        if not self.field.problem and self.go_to_cards() == 1:
            self.card_wanted.emit()

    def _take_filter(self) -> None:
        if self.field.filter.text.split() == self._filter.wanted.text.split():
            return
        self._filter.want(self.field.filter)
        self._seen = {one.id for one in self._waiting}
        # First the card that is no longer asked for: it is in the list for as long as it is open.
        self.narrowed.emit()
        self._show(frozen=False)
        self.view.viewport().update()

    def _say_problem(self, problem: str) -> None:
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))

    # Groups

    def leader_of(self, approval: str) -> str:
        """The request whose card shows this one; itself where it is in no group."""
        for group in self._groups.values():
            if any(member.id == approval for member in group.members):
                return group.leader.id
        return approval

    def others_of(self, leader: str) -> tuple[Approval, ...]:
        """The requests that are alike and answered with this one."""
        group = self._groups.get(leader)
        return group.others if group is not None else ()

    # The open card

    def set_open(self, approval: str) -> None:
        """Mark the card that is open, without telling; empty marks none. What was kept may go."""
        if approval == self._open:
            return
        self._open = approval
        # Nothing joins the group of a card that is being read, but for its first moment.
        self._held = (approval, *(one.id for one in self.others_of(approval))) if approval else ()
        # First the list: one that the filter leaves out is in it for as long as it is open.
        self._show(frozen=self.view.pointer_is_here())
        index = self.model.index_of(approval)
        self.view.setCurrentIndex(index)
        if index.isValid():
            self.view.scrollTo(index)

    def _moved(self, index: QModelIndex) -> None:
        one = self.model.approval_at(index.row())
        if one is not None and one.id != self._open and not self.model.syncing:
            self.chosen.emit(one.id)

    def step(self, by: int) -> None:
        """Choose the next card, or the one before; at an end nothing."""
        if (one := self._at(by)) is not None:
            self.chosen.emit(one.id)

    def has_at(self, by: int) -> bool:
        """Whether there is a next card, or one before."""
        return self._at(by) is not None

    def _at(self, by: int) -> Approval | None:
        row = self.model.row_of(self._open)
        return self.model.approval_at(row + by if row >= 0 else 0)

    def after(self, approval: str, leaving: Container[str] = ()) -> str:
        """The card to open when this one is done: the next that waits, else the first; empty for none.

        Those that are `leaving`, since a grant is about to answer them, come last.
        """
        ids = self.model.ids
        row = self.model.row_of(approval)
        waiting = [
            candidate
            for candidate in [*ids[row + 1 :], *ids[: max(0, row)]]
            if candidate != approval
            and (one := self.model.approval_at(self.model.row_of(candidate))) is not None
            and one.state is ApprovalState.WAITING
        ]
        return next((one for one in waiting if one not in leaving), next(iter(waiting), ""))
