"""The cards of the queue as a list model, changed row by row and never reset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType

from PySide6.QtCore import QObject, Qt

from app.items.keyed_model import KeyedModel
from app.screens.approvals.decision_rules import fates_words
from app.screens.approvals.question_section import question_of, summary_words
from app.text import one_line, plural
from app.theme.state_looks import risk_look
from core.approvals.models import Approval, ApprovalState
from core.approvals.request_groups import Group, count_words_of, device_words


@dataclass(frozen=True, slots=True)
class QueueCard:
    """One request, those alike that are answered with it, and how many of them a filter asks for.

    `fate` is what became of each of them once the card no longer waits; empty while it does.
    """

    approval: Approval
    members: tuple[Approval, ...]
    fitting: int
    fate: str = ""

    @property
    def id(self) -> str:
        """The id of the request that leads."""
        return self.approval.id

    @property
    def summary(self) -> str:
        """What the requests would do, and how often."""
        return summary_words(self.approval, self.members) + count_words_of(self.members)

    @property
    def devices(self) -> str:
        """The devices in a few words; of a question how many."""
        if (asked := question_of(self.approval.request)) is not None:
            return plural(len(asked.devices), "device")
        return one_line(device_words(member.request.device for member in self.members))

    @property
    def alike(self) -> str:
        """`5 alike`, and how many of them a filter asks for; empty for one alone."""
        alike, fitting = len(self.members), self.fitting
        words = f"{alike} alike" if alike > 1 else ""
        return f"{words}, {fitting} match{'es' if fitting == 1 else ''}" if 0 < fitting < alike else words

    @property
    def spoken(self) -> str:
        """The card as it is read aloud."""
        one = self.approval
        words = [
            "Production" if one.production else "",
            risk_look(one.decision.risk.value).word,
            self.devices,
            self.summary,
            self.alike,
            needs_words(one) if one.approvers > 1 and not self.fate else "",
            self.fate,
            one_line(one.request.tool_name),
        ]
        return ", ".join([*filter(None, words), one_line(one.actor)])


class QueueModel(KeyedModel[QueueCard]):
    """Cards by the id of their request. While frozen, no row moves: what is new above is held back, what is
    gone stays as gone.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        roles = {Qt.ItemDataRole.DisplayRole: _spoken, Qt.ItemDataRole.AccessibleTextRole: _spoken}
        super().__init__(attrgetter("id"), roles, parent)
        self.held_back = 0
        self._waiting: frozenset[str] = frozenset()
        self._ended: Mapping[str, Approval] = MappingProxyType({})

    @property
    def ids(self) -> list[str]:
        """The cards' ids, top to bottom."""
        return [card.id for card in self.items]

    def approval_at(self, row: int) -> Approval | None:
        """The request that leads in this row."""
        card = self.item(row)
        return card.approval if card is not None else None

    def show(
        self,
        groups: Iterable[Group],
        keep: Iterable[str] = (),
        frozen: bool = False,
        fitting: Mapping[str, int] = MappingProxyType({}),
        ended: Mapping[str, Approval] = MappingProxyType({}),
    ) -> None:
        """Show these groups, already in order. Gone cards stay while named in `keep`, or while `frozen`.

        `fitting` says by leader how many of a group a filter asks for, `ended` what became of requests.
        """
        now = {group.leader.id: group.members for group in groups}
        self._waiting = frozenset(member.id for members in now.values() for member in members)
        self._ended = ended
        kept = set(self.ids) if frozen else set(keep)
        cards = {card.id: card for card in self.items if card.id in now or card.id in kept}
        order = self._order_of(list(now), list(cards), frozen)
        for leader in cards.keys() - now.keys():
            cards[leader] = self._with_fate(cards[leader], gone=True)
        for leader, members in now.items():
            card = QueueCard(members[0], members, fitting.get(leader, len(members)))
            cards[leader] = self._with_fate(card, gone=False)
        self.sync(cards[leader] for leader in order)

    def _order_of(self, wanted: list[str], here: list[str], frozen: bool) -> list[str]:
        """New cards before the next known one; while frozen only those below every known one."""
        known = set(here)
        last = max((place for place, one in enumerate(wanted) if one in known), default=-1)
        end, wanted = wanted[last + 1 :], wanted[: last + 1]
        before: dict[str, list[str]] = {}
        batch: list[str] = []
        self.held_back = 0
        for one in wanted:
            if one in known:
                before[one], batch = batch, []
            elif frozen:
                self.held_back += 1
            else:
                batch.append(one)
        order = [] if wanted or frozen else end
        for one in here:
            order += [*before.get(one, ()), one]
            # Cards that are gone but kept may stand below the last one that waits; they keep their place.
            if not frozen and wanted and one == wanted[-1]:
                order += end
        return order + end if frozen else order

    def show_end(self, approval: Approval) -> None:
        """Show the newest of one request that is still in the list, such as its end."""
        cards = [replace(card, approval=approval) if card.id == approval.id else card for card in self.items]
        self.sync(self._with_fate(card, gone=bool(card.fate)) for card in cards)

    def _with_fate(self, card: QueueCard, gone: bool) -> QueueCard:
        """The card with what became of each of its requests, where it no longer waits."""
        if not gone and card.approval.state is ApprovalState.WAITING:
            return card
        return replace(card, fate=fates_words(self._state_of(one, card.approval) for one in card.members))

    def _state_of(self, member: Approval, leader: Approval) -> ApprovalState | None:
        if member.id == leader.id and leader.state is not ApprovalState.WAITING:
            return leader.state
        if (ended := self._ended.get(member.id)) is not None:
            return ended.state
        return ApprovalState.WAITING if member.id in self._waiting else None


def _spoken(card: QueueCard) -> str:
    return card.spoken


def needs_words(one: Approval) -> str:
    """`needs 2 of 3`: how many operators are still wanted."""
    return f"needs {one.approvers - len(one.approved_by)} of {one.approvers}"
