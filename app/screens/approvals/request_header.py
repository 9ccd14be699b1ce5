"""The head of a card: production, risk, what it would do, where, who asked, and how long it still waits."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from app.records.asker import asker_words, is_agent
from app.screens.approvals.question_section import question_of, summary_words
from app.screens.approvals.text import clock_words, local_time
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.badges import ProductionStrip, RiskBadge
from app.widgets.icon_label import IconLabel
from app.widgets.labels import ElidedLabel, Label, set_surface
from app.widgets.layouts import STRETCH, vbox
from core.approvals.models import Approval, ApprovalState
from core.approvals.request_groups import count_words_of, device_words
from core.models.tools import Risk

SOON_S = 60.0
_AFTER_TOOL = 3
_PLATFORMS = {"linux": "linux", "windows": "windows", "macos": "macos", "darwin": "macos"}


class RequestHeader(QWidget):
    """76 px, and more when the sentence needs two lines; it never scrolls away."""

    def __init__(self) -> None:
        super().__init__()
        set_surface(self, "base")
        self._stacked = False
        self._summary = self._change = ""
        self.strip = ProductionStrip()
        self.risk = RiskBadge()
        self.summary = Label("", "title", wrap=True, selectable=True)
        self.summary.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        # The header's least height is more than two lines take; the badge stands beside the first one anyway.
        self.summary.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self._platform = IconLabel("device")
        self.device = Label("", "head")
        self._tool = ElidedLabel("", "mono_small", "text2")
        self._asker = IconLabel("operator")
        self.actor = ElidedLabel("", "body", "text2")
        self._asked = Label("", "body", "text3")
        self._pause = IconLabel("pause", painted=True, size=12)
        self.time_left = Label("", "name", "text2")
        column = vbox(self.strip, parent=self)
        inner = vbox(
            self._first(),
            self._second(),
            self._who,
            margins=(SPACE.pane, 13, SPACE.pane, 12),
            spacing=SPACE.snug,
        )
        column.addLayout(inner)
        self.setMinimumHeight(76)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)

    def _first(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(SPACE.small)
        badge = vbox(self.risk, STRETCH, margins=(0, 1, 0, 0), spacing=None)
        row.addLayout(badge)
        row.addWidget(self.summary, 1)
        return row

    def _second(self) -> QHBoxLayout:
        row = self._where = QHBoxLayout()
        row.setSpacing(SPACE.small)
        row.addWidget(self._platform)
        row.addWidget(self.device)
        row.addWidget(self._tool)
        row.addStretch(1)
        row.addWidget(self._pause)
        row.addWidget(self.time_left)
        self._who = QHBoxLayout()
        self._who.setSpacing(SPACE.small)
        self._who_parts = (Label("from", "body", "text3"), self._asker, self.actor, self._asked)
        self._place_who(self._where, _AFTER_TOOL)
        return row

    def _place_who(self, row: QHBoxLayout, at: int) -> None:
        for number, part in enumerate(self._who_parts):
            row.insertWidget(at + number, part)

    def set_stacked(self, stacked: bool) -> None:
        """In a narrow card who asked has a line of its own, so that the device keeps its whole name."""
        if stacked == self._stacked:
            return
        self._stacked = stacked
        for part in self._who_parts:
            (self._where if stacked else self._who).removeWidget(part)
        if stacked:
            self._place_who(self._who, 0)
            self._who.addStretch(1)
        else:
            self._who.takeAt(0)
            self._place_who(self._where, _AFTER_TOOL)

    def show_request(self, approval: Approval, platform: str, others: tuple[Approval, ...] = ()) -> None:
        """Show another request, or a group of them."""
        request, decision = approval.request, approval.decision
        self._change = ""
        self.show_devices(approval, others)
        self.strip.setVisible(approval.production)
        self.risk.set_risk(decision.risk.value)
        self.summary.set_tone("critical" if decision.risk is Risk.CRITICAL else "text")
        self._platform.set_icon(_PLATFORMS.get(platform, "device"))
        asked = question_of(request)
        self._tool.set_text("question" if asked else one_line(request.tool_name))
        self._asker.set_icon("agent" if is_agent(approval.actor) else "operator")
        self.actor.set_text(asker_words(approval.actor, approval.program))
        self._asked.setText(f"asked {local_time(approval.asked_at)}")

    def show_devices(self, approval: Approval, others: tuple[Approval, ...]) -> None:
        """Say on which devices, and how many; fewer as soon as one of them was answered elsewhere."""
        asked = question_of(approval.request)
        members = (approval, *others)
        device = asked.where if asked else one_line(device_words(one.request.device for one in members))
        self.strip.set_detail(device)
        self.device.setText(device)
        self._summary = summary_words(approval, members) + count_words_of(members)
        self._show_summary()

    def show_change(self, words: str) -> None:
        """Add what would change, once that is known."""
        self._change = words
        self._show_summary()

    def _show_summary(self) -> None:
        self.summary.setText(f"{self._summary}: {self._change}" if self._change else self._summary)

    def show_time(self, approval: Approval, seconds: float) -> None:
        """Say how long it still waits, and whether reading has stopped its clock."""
        waits = approval.state is ApprovalState.WAITING
        self._pause.setVisible(waits and approval.paused)
        self.time_left.setVisible(waits)
        words = f"{clock_words(seconds)} left"
        if seconds <= 0:
            words = "running out"
        elif approval.paused:
            words += ", paused while you read"
        self.time_left.setText(words)
        self.time_left.set_tone("warn" if seconds < SOON_S else "text2")
