"""The queue as a list model: requests in the order of risk and age, changed row by row and never reset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.screens.approvals.decision_rules import fates_words
from app.screens.approvals.request_groups import Group, count_words_of, device_words
from app.text import one_line
from app.theme.status_styles import risk_look
from core.approvals.models import Approval, ApprovalState

Index = QModelIndex | QPersistentModelIndex
_NO_PARENT = QModelIndex()
APPROVAL_ROLE = Qt.ItemDataRole.UserRole + 1
SUMMARY_ROLE = Qt.ItemDataRole.UserRole + 2
DEVICES_ROLE = Qt.ItemDataRole.UserRole + 3
ALIKE_ROLE = Qt.ItemDataRole.UserRole + 4
FATE_ROLE = Qt.ItemDataRole.UserRole + 5


class QueueModel(QAbstractListModel):
    """Requests by id. While `frozen`, no row moves: what is new above waits, what is gone stays as gone."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ids: list[str] = []
        self._shown: dict[str, Approval] = {}
        self._summaries: dict[str, str] = {}
        self._places: dict[str, int] = {}
        self._groups: dict[str, Group] = {}
        self._fitting: dict[str, int] = {}
        self._gone: set[str] = set()
        self._waiting: set[str] = set()
        self.ended: Mapping[str, Approval] = {}
        self.held_back = 0

    # what Qt asks

    def rowCount(self, parent: Index = _NO_PARENT) -> int:
        """Number of cards."""
        return 0 if parent.isValid() else len(self._ids)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The request for the delegate; one spoken line for everybody else."""
        if not index.isValid() or index.row() >= len(self._ids):
            return None
        one = self._shown[self._ids[index.row()]]
        if role == APPROVAL_ROLE:
            return one
        if role == SUMMARY_ROLE:
            return self._summaries[one.id] + count_words_of(self._members(one))
        if role == DEVICES_ROLE:
            return one_line(device_words(member.request.device for member in self._members(one)))
        if role == FATE_ROLE:
            return self._fate(one)
        if role == ALIKE_ROLE:
            return self._alike_words(one)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return self._spoken(one)
        return None

    def _members(self, one: Approval) -> tuple[Approval, ...]:
        group = self._groups.get(one.id)
        return group.members if group is not None else (one,)

    def _fate(self, one: Approval) -> str:
        """What became of a card that no longer waits, of each of its requests; empty while it waits."""
        if one.state is ApprovalState.WAITING and one.id not in self._gone:
            return ""
        return fates_words(self._state_of(member, one) for member in self._members(one))

    def _state_of(self, member: Approval, leader: Approval) -> ApprovalState | None:
        if member.id == leader.id and leader.state is not ApprovalState.WAITING:
            return leader.state
        if (ended := self.ended.get(member.id)) is not None:
            return ended.state
        return ApprovalState.WAITING if member.id in self._waiting else None

    def _alike_words(self, one: Approval) -> str:
        """`5 alike`, and how many of them a filter asks for; empty for one alone."""
        alike = len(self._members(one))
        fitting = self._fitting.get(one.id, alike)
        words = f"{alike} alike" if alike > 1 else ""
        return f"{words}, {fitting} match{'es' if fitting == 1 else ''}" if 0 < fitting < alike else words

    def _spoken(self, one: Approval) -> str:
        members = self._members(one)
        parts = [
            risk_look(one.decision.risk.value).word,
            one_line(device_words(member.request.device for member in members)),
            self._summaries[one.id],
        ]
        if one.production:
            parts.insert(0, "Production")
        if words := self._alike_words(one):
            parts.append(words)
        if one.approvers > 1:
            parts.append(needs_words(one))
        if fate := self._fate(one):
            parts.append(fate)
        return ", ".join([*parts, one_line(one.request.tool_name), one_line(one.actor)])

    # what the screen asks

    def show_groups(self, groups: dict[str, Group], fitting: dict[str, int] | None = None) -> None:
        """Learn which requests lead a group; call before `show_waiting`, which is told of leaders only.

        `fitting` says by leader how many of a group a filter asks for.
        """
        self._fitting = fitting or {}
        changed = [
            known
            for known in self._ids
            if groups.get(known, self._groups.get(known)) != self._groups.get(known)
        ]
        # What is gone but still shown keeps the group it had.
        kept = {known: self._groups[known] for known in self._ids if known in self._groups}
        self._groups = {**kept, **groups}
        for known in changed:
            row = self._places[known]
            self.dataChanged.emit(self.index(row), self.index(row))

    @property
    def ids(self) -> list[str]:
        """The cards' ids, top to bottom."""
        return list(self._ids)

    def approval_at(self, row: int) -> Approval | None:
        """The request in this row."""
        return self._shown[self._ids[row]] if 0 <= row < len(self._ids) else None

    def row_of(self, approval: str) -> int:
        """Where a request is; -1 when it is not in the list."""
        return self._places.get(approval, -1)

    def show_waiting(self, waiting: list[Approval], keep: Iterable[str] = (), frozen: bool = False) -> None:
        """Show these requests, already in order. Gone ones stay while named in `keep`, or while `frozen`."""
        now = {one.id: one for one in waiting}
        leaders = [self._groups[one.id].members for one in waiting if one.id in self._groups]
        self._waiting = {*now, *(member.id for members in leaders for member in members)}
        kept = set(self._ids) if frozen else set(keep)
        self._remove([i for i, known in enumerate(self._ids) if known not in now and known not in kept])
        last_known = max((i for i, one in enumerate(waiting) if one.id in self._places), default=-1)
        wanted: list[Approval] = []
        self.held_back = 0
        for number, one in enumerate(waiting):
            if frozen and one.id not in self._places and number < last_known:
                self.held_back += 1
            else:
                wanted.append(one)
        self._update(now)
        self._mark_gone(now)
        self._insert(wanted, frozen)

    def replace(self, approval: Approval) -> None:
        """Show the newest of one request that is still in the list, such as its end."""
        row = self.row_of(approval.id)
        if row >= 0:
            self._shown[approval.id] = approval
            self.dataChanged.emit(self.index(row), self.index(row))

    def _update(self, now: dict[str, Approval]) -> None:
        for row, known in enumerate(self._ids):
            newer = now.get(known)
            if newer is not None and newer is not self._shown[known]:
                self._shown[known] = newer
                self._summaries[known] = one_line(newer.decision.summary)
                self.dataChanged.emit(self.index(row), self.index(row))

    def _mark_gone(self, now: dict[str, Approval]) -> None:
        """Rows that stay although their request has ended say so, and no time runs in them."""
        gone = {known for known in self._ids if known not in now}
        for known in gone | self._gone:
            if (row := self._places.get(known)) is not None:
                self.dataChanged.emit(self.index(row), self.index(row))
        self._gone = gone

    def _remove(self, rows: list[int]) -> None:
        for first, last in reversed(list(_runs(rows))):
            self.beginRemoveRows(QModelIndex(), first, last)
            for gone in self._ids[first : last + 1]:
                del self._shown[gone], self._summaries[gone]
            del self._ids[first : last + 1]
            self._place()
            self.endRemoveRows()

    def _insert(self, wanted: list[Approval], frozen: bool) -> None:
        """Put new requests before the next known one of the order, in as few steps as they have gaps."""
        at, batch = 0, list[Approval]()
        for one in wanted:
            row = self.row_of(one.id)
            if row < 0:
                batch.append(one)
                continue
            self._insert_at(row, batch)
            batch = []
            at = self.row_of(one.id) + 1
        # Rows that are gone but kept may stand below the last one that waits; they keep their place.
        self._insert_at(len(self._ids) if frozen else at, batch)

    def _insert_at(self, at: int, batch: list[Approval]) -> None:
        if batch:
            self.beginInsertRows(QModelIndex(), at, at + len(batch) - 1)
            self._ids[at:at] = [one.id for one in batch]
            for one in batch:
                self._shown[one.id] = one
                self._summaries[one.id] = one_line(one.decision.summary)
            self._place()
            self.endInsertRows()

    def _place(self) -> None:
        self._places = {known: row for row, known in enumerate(self._ids)}


def needs_words(one: Approval) -> str:
    """`needs 2 of 3`: how many operators are still wanted."""
    return f"needs {one.approvers - len(one.approved_by)} of {one.approvers}"


def _runs(rows: list[int]) -> Iterable[tuple[int, int]]:
    """Neighbouring numbers as (first, last)."""
    start = None
    for i, row in enumerate(rows):
        if start is None:
            start = row
        if i + 1 == len(rows) or rows[i + 1] != row + 1:
            yield start, row
            start = None
