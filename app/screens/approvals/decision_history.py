"""What this window has decided since it was opened, and what became of it: shown while nothing waits."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.screens.approvals.text import local_time, outcome_words
from app.text import one_line, with_nothing_sent
from app.theme.tokens import SPACE
from app.widgets.empty_state import EmptyState
from app.widgets.icon_label import IconLabel
from app.widgets.labels import ElidedLabel, Label, Link, separator, set_surface
from app.widgets.layouts import hbox, vbox
from app.widgets.util import clear_layout
from core.approvals.models import Approval, ApprovalState
from core.commands.results import CommandResult

MOST_SHOWN = 8
MOST_KEPT = 200
_NOTHING = (
    "Nothing waits for you.",
    "A command appears here when the policy asks about it: the exact bytes, what they would do, and why you "
    "are asked. Nothing opens by itself, and nothing is sent until you answer.",
)
_NOT_KNOWN = (
    "What waits is not known.",
    "The service is not connected. Requests that wait are shown as soon as it answers.",
)
_MARKS = {ApprovalState.APPROVED: ("check", "ok"), ApprovalState.DENIED: ("cancel", "fail")}


class DecisionHistory:
    """Decided requests, newest first, and the results that came in for them."""

    def __init__(self) -> None:
        self._decided: list[Approval] = []
        self._results: dict[str, CommandResult] = {}
        self._approved = 0
        self._count = 0

    def add(self, approval: Approval) -> None:
        """Remember a decision of this window."""
        self._decided.insert(0, approval)
        self._count += 1
        self._approved += approval.state is ApprovalState.APPROVED
        for forgotten in self._decided[MOST_KEPT:]:
            self._results.pop(forgotten.request.call_id, None)
        del self._decided[MOST_KEPT:]

    def note_result(self, call_id: str, result: CommandResult) -> bool:
        """Remember what became of a command; False when it was not decided here."""
        known = any(one.request.call_id == call_id for one in self._decided)
        if known:
            self._results[call_id] = result
        return known

    @property
    def decided(self) -> list[Approval]:
        """Newest first; the oldest are forgotten."""
        return list(self._decided)

    @property
    def counts(self) -> tuple[int, int]:
        """How many were decided, and how many of them approved."""
        return self._count, self._approved

    def outcome(self, approval: Approval) -> str:
        """What became of a request, as far as it is known."""
        if approval.state is not ApprovalState.APPROVED:
            reason = one_line(approval.reason)
            return with_nothing_sent(reason)
        result = self._results.get(approval.request.call_id)
        return outcome_words(result) if result is not None else "No result yet."


class NothingWaits(EmptyState):
    """The empty queue: what is true, what will appear, and the last decisions.

    Signals:
        show_wanted(approval): the operator wants to see this decided request again.
    """

    show_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__(*_NOTHING)
        set_surface(self, "base")
        self._list = QWidget()
        self._rows = vbox(parent=self._list, margins=(0, SPACE.wide, 0, 0))
        self.more.addWidget(self._list)
        self._list.hide()

    def show_known(self, known: bool) -> None:
        """Without the service it is not known what waits, and the screen must not say that nothing does."""
        self.say(*(_NOTHING if known else _NOT_KNOWN))

    def show_log(self, log: DecisionHistory) -> None:
        """Show the last decisions of this session."""
        clear_layout(self._rows)
        shown = log.decided[:MOST_SHOWN]
        self._list.setVisible(bool(shown))
        self.set_wide(bool(shown))
        if not shown:
            return
        self._rows.addWidget(Label("Decided in this session", "label", "text3"))
        self._rows.addSpacing(SPACE.tight)
        for approval in shown:
            self._rows.addWidget(separator())
            self._rows.addWidget(self._row(approval, log.outcome(approval)))

    def _row(self, approval: Approval, outcome: str) -> QWidget:
        row = QWidget()
        line = hbox(parent=row, margins=(0, SPACE.small, 0, SPACE.small), spacing=SPACE.small)
        glyph, tone = _MARKS.get(approval.state, ("dot", "text3"))
        word = "Approved" if approval.state is ApprovalState.APPROVED else "Denied"
        line.addWidget(IconLabel(glyph, tone, 14, painted=True), 0, Qt.AlignmentFlag.AlignTop)
        texts = QVBoxLayout()
        texts.setSpacing(0)
        summary = one_line(approval.decision.summary)
        texts.addWidget(ElidedLabel(f"{word} {local_time(approval.decided_at)}  {summary}", "name"))
        device, tool = one_line(approval.request.device), one_line(approval.request.tool_name)
        texts.addWidget(ElidedLabel(f"{device}  {tool}  {outcome}", "meta", "text3"))
        line.addLayout(texts, 1)
        link = Link("Show")
        link.setAccessibleName(f"Show the request: {summary}")
        link.clicked.connect(lambda *_, wanted=approval.id: self.show_wanted.emit(wanted))
        line.addWidget(link)
        return row
