"""The left pane: how many wait, the cards, what is new above them, and what this session has decided."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.components.buttons import Button
from app.components.key_hint import KeyHint
from app.components.label import Label, rule, surface
from app.components.section import ScreenHead
from app.look.tokens import SPACE
from app.screens.approvals.likeness import Group, Likeness
from app.screens.approvals.meter import Meter
from app.screens.approvals.queue_model import QueueModel
from app.screens.approvals.queue_view import QueueView
from app.screens.approvals.time_left import TimeLeft
from core.policy.models import Approval, ApprovalState


class QueuePane(QWidget):
    """Shows the queue; the card that is open is its current row and stays where it is.

    Signals:
        chosen: the operator chose the card with this id.
        card_wanted: the operator wants the keyboard in the open card.
    """

    chosen = Signal(str)
    card_wanted = Signal()

    def __init__(self, clock: TimeLeft) -> None:
        super().__init__()
        surface(self, "base")
        self.setAccessibleName("Queue")
        self.model = QueueModel(self)
        self.view = QueueView(self.model, clock)
        self._waiting: list[Approval] = []
        self._likeness = Likeness()
        self._groups: dict[str, Group] = {}
        self._held: tuple[str, ...] = ()
        self._open = ""
        self._telling = True
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
        column.addWidget(rule())
        column.addWidget(self.view, 1)
        column.addWidget(rule())
        column.addWidget(self._foot())
        self.new_above.clicked.connect(lambda *_: self._put_in_order())
        self.view.pointer_left.connect(self._put_in_order)
        self.view.opened.connect(self.card_wanted)
        self.view.selectionModel().currentChanged.connect(self._moved)
        self.show_decided(0, 0)

    def _foot(self) -> QWidget:
        foot = QWidget()
        self.meter = Meter()
        self.keys = QWidget()
        keys = QHBoxLayout(self.keys)
        keys.setContentsMargins(0, 0, 0, 0)
        keys.setSpacing(SPACE.small)
        for cap, words in (("J K", "move"), ("Ctrl+Enter", "approve"), ("D", "deny")):
            keys.addWidget(KeyHint(cap, words))
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

    def show_waiting(self, waiting: list[Approval]) -> None:
        """Show what waits, in order; nothing moves under the pointer."""
        self._waiting = waiting
        self._show(frozen=self.view.pointer_is_here())
        count, cards = len(waiting), len(self._groups)
        words = f"{count:,}".replace(",", "\u2009") if count else ""
        if cards != count:
            words = f"{words} in {cards} card{'s' if cards > 1 else ''}"
        self.head.set_detail(words)
        self.head.setAccessibleName(f"Approvals, {count} waiting")

    def _show(self, frozen: bool) -> None:
        bar = self.view.verticalScrollBar()
        anchor = self._anchor() if bar.value() > 0 else None
        keep = [self._open] if self._open else []
        self._telling = False
        groups = self._likeness.groups(self._waiting, self._held)
        self._groups = {group.leader.id: group for group in groups}
        self.model.show_groups(self._groups)
        self.model.show_waiting([group.leader for group in groups], keep, frozen)
        self._telling = True
        self._keep_anchor(anchor)
        new = self.model.held_back
        self.new_above.setVisible(new > 0)
        self._order.setVisible(new == 0)
        self.new_above.set_words(f"{new} new above" if new else "")

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
        row = self.model.row_of(anchor[0])
        if row >= 0:
            self.view.doItemsLayout()
            bar = self.view.verticalScrollBar()
            bar.setValue(bar.value() + self.view.visualRect(self.model.index(row)).y() - anchor[1])

    def show_end(self, approval: Approval) -> None:
        """A card in the list no longer waits; it stays while it is open."""
        self.model.replace(approval)

    def refresh_times(self) -> None:
        """Paint the times left anew."""
        self.view.viewport().update()

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
        # Nothing joins the group of a card that is being read.
        self._held = (approval, *(one.id for one in self.others_of(approval))) if approval else ()
        self._telling = False
        row = self.model.row_of(approval)
        index = self.model.index(row) if row >= 0 else QModelIndex()
        self.view.setCurrentIndex(index)
        self._telling = True
        self._show(frozen=self.view.pointer_is_here())
        if (row := self.model.row_of(approval)) >= 0:
            self.view.scrollTo(self.model.index(row))

    def _moved(self, index: QModelIndex) -> None:
        one = self.model.approval_at(index.row())
        if self._telling and one is not None and one.id != self._open:
            self.chosen.emit(one.id)

    def step(self, by: int) -> bool:
        """Choose the next card, or the one before; False at an end, where there is none."""
        row = self.model.row_of(self._open)
        one = self.model.approval_at(row + by if row >= 0 else 0)
        if one is not None:
            self.chosen.emit(one.id)
        return one is not None

    def after(self, approval: str) -> str:
        """The card to open when this one is done: the next that waits, else the first; empty for none."""
        ids = self.model.ids
        row = self.model.row_of(approval)
        for candidate in [*ids[row + 1 :], *ids[: max(0, row)]]:
            one = self.model.approval_at(self.model.row_of(candidate))
            if candidate != approval and one is not None and one.state is ApprovalState.WAITING:
                return candidate
        return ""
