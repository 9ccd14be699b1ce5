"""Approvals: what waits for an operator, exactly what each request would send, and the signed answer to it.

Nothing here is pressed by accident: a card that appears takes neither focus nor place, ignores every answer
for 700 ms, and is approved by a chord or a click alone. What is signed is the request that is on the screen.
"""

from __future__ import annotations

import time

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from app.components.banner import BannerKind
from app.link import ConsoleLink
from app.screens.approvals.card import RequestCard
from app.screens.approvals.decision_bar import DecisionBar
from app.screens.approvals.gate import Situation, why_not_approve, why_not_deny
from app.screens.approvals.queue_pane import QueuePane
from app.screens.approvals.session_log import NothingWaits, SessionLog
from app.screens.approvals.time_left import TimeLeft
from app.screens.approvals.what_is_sent import DigestCheck, check_digest, count_masks
from app.screens.approvals.words import final_words, outcome_words
from app.screens.base import Navigator, OpenApproval, OpenRun, Screen, Shortcut, Target
from app.state import AppState, Link
from core.batch.models import Cell
from core.errors import QuarterdeckError
from core.fleet.models import Contract, Tool
from core.policy.models import Approval, ApprovalState
from core.service.console import CommandRecord

QUEUE = 336
QUEUE_NARROW = 300
STACKED_BELOW = 1200
TICK_MS = 1000
_END_KINDS: dict[ApprovalState, BannerKind] = {ApprovalState.APPROVED: "ok", ApprovalState.EXPIRED: "warn"}


class ApprovalsScreen(Screen):
    """The queue at the left, the open card with its bar at the right."""

    name = "approvals"
    title = "Approvals"
    icon = "approvals"

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._clock = TimeLeft()
        self._log = SessionLog()
        self._open = ""
        self._entered = False
        self._busy = ""
        self._deciding = ""
        self._held = ""
        self._contract: Contract | None = None
        self.queue = QueuePane(self._clock)
        self.card = RequestCard()
        self.bar = DecisionBar()
        self.nothing = NothingWaits()
        self._build()
        self._tick = QTimer(self)
        self._tick.setInterval(TICK_MS)
        self._tick.timeout.connect(self._show_times)
        self._connect()

    def _build(self) -> None:
        answer = QWidget()
        column = QVBoxLayout(answer)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.card, 1)
        column.addWidget(self.bar)
        self.stack = QStackedWidget()
        self.stack.addWidget(self.nothing)
        self.stack.addWidget(answer)
        self.split = QSplitter(Qt.Orientation.Horizontal)
        self.split.setChildrenCollapsible(False)
        self.split.setHandleWidth(1)
        self.split.addWidget(self.queue)
        self.split.addWidget(self.stack)
        self.split.setStretchFactor(0, 0)
        self.split.setStretchFactor(1, 1)
        self.split.setSizes([QUEUE, 900])
        self.queue.setMinimumWidth(240)
        self.stack.setMinimumWidth(480)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.split)

    def _connect(self) -> None:
        self.queue.chosen.connect(self.open_card)
        self.queue.card_wanted.connect(self._focus_card)
        self.card.end_seen.connect(self._show_situation)
        self.card.copied.connect(lambda: self.nav.toast("Copied the exact bytes"))
        self.card.run_wanted.connect(lambda run: self.nav.open("runs", OpenRun(run)))
        self.bar.situation_changed.connect(self._show_situation)
        self.bar.approve_asked.connect(self._approve)
        self.bar.deny_asked.connect(self._deny)
        self.bar.unlock_asked.connect(self._unlock)
        self.bar.next_asked.connect(self._go_on)
        self.bar.focus_to_park.connect(self._park_focus)
        self.nothing.show_wanted.connect(self._show_again)

    # What a screen is

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Follow the queue, the keys and the line to the service."""
        super().bind(state, link, nav)
        state.approvals_changed.connect(self._queue_changed)
        state.service_changed.connect(self._show_situation)
        state.reset.connect(self._after_reset)
        state.cell_changed.connect(self._note_cell)
        nav.keys.changed.connect(self._key_changed)

    def enter(self, target: Target | None) -> None:
        """Show the queue, and one card of it."""
        self._entered = True
        self._tick.start()
        self._clock.note(self.state.approvals.values())
        self.queue.show_waiting(self.state.waiting())
        if isinstance(target, OpenApproval):
            self._show_again(target.approval)
        elif self._open:
            self.bar.start_guard()
            self._refresh_open()
        self._open_first_if_none()
        self._show_situation()
        self._sync_hold()

    def leave(self) -> None:
        """Nobody reads the card any more."""
        self._entered = False
        self._tick.stop()
        self.bar.close_reason()
        self._sync_hold()

    def shortcuts(self) -> list[Shortcut]:
        """The keys of this screen."""
        return [
            Shortcut("J", "Next request", lambda: self.queue.step(1)),
            Shortcut("K", "Request before", lambda: self.queue.step(-1)),
            Shortcut("Ctrl+Return", "Approve once", self.bar.press_approve),
            Shortcut("Ctrl+Enter", "Approve once (number pad)", self.bar.press_approve),
            Shortcut("D", "Deny, with a reason", self.bar.open_reason),
            Shortcut("F", "Next finding in the bytes", self.card.next_finding),
            Shortcut("Up", "Request before, in the queue"),
            Shortcut("Down", "Next request, in the queue"),
            Shortcut("Return", "From the queue into the card, to read it"),
        ]

    def panes(self) -> list[QWidget]:
        """Queue, card, bar."""
        return [self.queue, self.card, self.bar]

    def escape(self) -> bool:
        """Go back from the reason."""
        return self.bar.close_reason()

    def set_compact(self, narrow: bool, low: bool) -> None:
        """Queue 300 and right column 272 when narrow."""
        sizes = self.split.sizes()
        if sizes[0] in (QUEUE, QUEUE_NARROW):
            wanted = QUEUE_NARROW if narrow else QUEUE
            self.split.setSizes([wanted, max(1, sum(sizes) - wanted)])
        self.card.set_side_width(narrow)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Below 1200 px the right column goes under the left one."""
        super().resizeEvent(event)
        self.card.set_stacked(self.window().width() < STACKED_BELOW)

    def event(self, event: QEvent) -> bool:
        """A card is only being read while the window is active; one that comes back is new to the eye."""
        if event.type() == QEvent.Type.WindowActivate and self._entered and self._open:
            self.bar.start_guard()
            self._show_situation()
            self._sync_hold(active=True)
        elif event.type() == QEvent.Type.WindowDeactivate and self._entered:
            self._sync_hold(active=False)
        return super().event(event)

    # The queue

    def _queue_changed(self) -> None:
        self._clock.note(self.state.approvals.values())
        self.queue.show_waiting(self.state.waiting())
        if self._entered:
            self._refresh_open()
            self._open_first_if_none()

    def _open_first_if_none(self) -> None:
        if not self._open and (waiting := self.state.waiting()):
            self.open_card(waiting[0].id)
        elif not self._open:
            self._show_nothing()

    def _refresh_open(self) -> None:
        shown = self.card.approval
        if not self._open or shown is None:
            return
        newest = self.state.approvals.get(self._open)
        if newest is None:
            if shown.state is ApprovalState.WAITING and self._deciding != self._open:
                self._ask_end(self._open)
        elif (newest.request, newest.decision) != (shown.request, shown.decision):
            self._show_card(newest)
            self.card.banner.say("warn", "This request is another one than before.", "Read it again.")
        else:
            self.card.update_request(newest)
            self._show_times()
            self._show_situation()

    def open_card(self, approval: str) -> None:
        """Show a card of the queue."""
        one = self.state.approvals.get(approval)
        if one is None or approval == self._open:
            return
        self._show_card(one)

    def _show_card(self, one: Approval) -> None:
        self._park_focus_of_card()
        self._open = one.id
        self._contract = None
        device = self.state.devices.get(one.request.device)
        self.card.show_request(one, device.platform if device else "", None)
        self.queue.set_open(one.id)
        self.stack.setCurrentIndex(1)
        self.bar.start_guard()
        self._show_times()
        self._key_changed()
        self._sync_hold()
        self._read_contract(one)
        if one.state is not ApprovalState.WAITING:
            self._show_end(one)

    def _show_nothing(self) -> None:
        self._open = ""
        self.card.approval = None
        self.bar.stop_guard()
        self.queue.set_open("")
        self.nothing.show_log(self._log)
        self.stack.setCurrentIndex(0)
        self._sync_hold()

    def _go_on(self) -> None:
        """Leave a card that is done for the next that waits."""
        following = self.queue.after(self._open)
        if following:
            self.open_card(following)
        else:
            self._show_nothing()

    def _show_again(self, approval: str) -> None:
        """Show a request by its id, wherever it stands now."""
        if approval in self.state.approvals:
            self.open_card(approval)
            return
        self.link.ask(
            lambda console: console.approval(approval), self._show_found, what=f"show the request {approval}"
        )

    def _show_found(self, one: Approval) -> None:
        if one.id != self._open:
            self._show_card(one)

    # The end of a request

    def _ask_end(self, approval: str) -> None:
        self._deciding = approval
        self.link.ask(
            lambda console: console.approval(approval),
            self._show_end_elsewhere,
            self._say_gone,
            what="read what became of the request",
        )

    def _show_end_elsewhere(self, one: Approval) -> None:
        self._deciding = ""
        if one.id == self._open:
            self._show_end(one)

    def _say_gone(self, error: QuarterdeckError) -> None:
        self._deciding = ""
        shown = self.card.approval
        if shown is not None and shown.id == self._open:
            gone = {"state": ApprovalState.WITHDRAWN, "reason": "It is no longer in the queue."}
            self._show_end(shown.model_copy(update=gone))

    def _show_end(self, one: Approval) -> None:
        self.card.update_request(one)
        self.bar.stop_guard()
        self.queue.show_end(one)
        fact, detail = final_words(one)
        self.card.end_banner.say(_END_KINDS.get(one.state, "info"), fact, detail)
        self._show_times()
        self._show_situation()
        self._sync_hold()
        if one.state is ApprovalState.APPROVED:
            call_id = one.request.call_id
            self.link.ask(
                lambda console: console.command(call_id),
                self._show_outcome,
                lambda error: None,  # the banner already says who approved; a missing result is not news
                what="read what became of the command",
            )

    def _show_outcome(self, record: CommandRecord) -> None:
        shown = self.card.approval
        if record.result is not None:
            self._log.note_result(record.call_id, record.result)
            if shown is not None and shown.request.call_id == record.call_id:
                self.card.end_banner.say("ok", final_words(shown)[0], outcome_words(record.result))

    def _note_cell(self, cell: Cell) -> None:
        if cell.call_id is None or cell.result is None:
            return
        if self._log.note_result(cell.call_id, cell.result) and not self._open:
            self.nothing.show_log(self._log)
        shown = self.card.approval
        approved = shown is not None and shown.state is ApprovalState.APPROVED
        if approved and shown is not None and shown.request.call_id == cell.call_id:
            self.card.end_banner.say("ok", final_words(shown)[0], outcome_words(cell.result))

    # The answer

    def _unlock(self) -> None:
        self.nav.start_unlock()

    def _situation(self) -> Situation:
        return Situation(
            approval=self.card.approval if self._open else None,
            connected=self.state.service.link is Link.CONNECTED,
            guarded=self.bar.guarded,
            busy=self._busy,
            key=self.nav.keys.unlocked or "",
            digest=self.card.sent.digest if self.card.sent is not None else DigestCheck.DIFFERS,
            end_seen=self.card.end_was_seen,
            typed=self.bar.name_field.text(),
        )

    def _show_situation(self) -> None:
        name = self.nav.keys.only_name
        words = f"Unlock {name}…" if name else "Unlock a key…"
        self.bar.show_situation(self._situation(), words)

    def _approve(self) -> None:
        if not why_not_approve(self._situation()):
            self._answer(approve=True, reason="")

    def _deny(self, reason: str) -> None:
        if not why_not_deny(self._situation()):
            self._answer(approve=False, reason=reason)

    def _answer(self, approve: bool, reason: str) -> None:
        """Sign what is on the screen, and nothing else."""
        shown = self.card.approval
        verb = "approve" if approve else "deny"
        if shown is None or check_digest(shown.request, count_masks(shown.request.parameters)) is (
            DigestCheck.DIFFERS
        ):
            self._show_situation()
            return
        try:
            signed = self.nav.keys.sign(shown, "approve" if approve else "deny", reason)
        except QuarterdeckError as error:
            self.bar.say_error(f"Could not {verb}.", error)
            return
        self._busy, self._deciding = "The answer is on its way.", shown.id
        self.bar.error.hide()
        self._show_situation()
        self.link.ask(
            lambda console: console.decide(signed),
            self._decided,
            lambda error: self._not_decided(verb, error),
            what=f"{verb} the request",
        )

    def _decided(self, approval: Approval) -> None:
        self._busy = self._deciding = ""
        self._log.add(approval)
        self.queue.show_decided(*self._log.counts)
        self.queue.show_end(approval)
        if self._open == approval.id:
            self.card.update_request(approval)
            self._go_on()
        elif not self._open:
            self.nothing.show_log(self._log)
        self._show_situation()

    def _not_decided(self, verb: str, error: QuarterdeckError) -> None:
        self._busy = self._deciding = ""
        self.bar.say_error(f"Could not {verb}.", error)
        self._show_situation()
        # It may have been answered by somebody else, or have run out, meanwhile.
        self._refresh_open()

    # Reading

    def _sync_hold(self, active: bool | None = None) -> None:
        """Tell the service which card is being read; its clock stands still meanwhile."""
        if active is None:
            active = self.isActiveWindow()
        shown = self.card.approval
        waits = shown is not None and shown.state is ApprovalState.WAITING and shown.id == self._open
        wanted = self._open if self._entered and active and waits else ""
        if wanted == self._held:
            return
        before, self._held = self._held, wanted
        for approval, reading in ((before, False), (wanted, True)):
            if approval and (reading or approval in self.state.approvals):
                self._hold(approval, reading)

    def _hold(self, approval: str, reading: bool) -> None:
        self.link.ask(
            lambda console: console.hold(approval, reading),
            on_error=lambda error: None,  # the card shows whether its clock stands, as the service says it
            what="say that the card is read",
        )

    def _after_reset(self) -> None:
        # After a new connection the service knows nothing of what is being read here.
        self._held = ""
        self._sync_hold()

    def _show_times(self) -> None:
        self.queue.refresh_times()
        shown = self.card.approval
        if shown is not None:
            self.card.header.show_time(shown, self._clock.seconds(shown, time.time()))

    def _read_contract(self, one: Approval) -> None:
        device = self.state.devices.get(one.request.device)
        if device is None:
            return
        self.link.ask(
            lambda console: console.tools(device.name),
            lambda tools: self._show_contract(one, tools),
            lambda error: None,  # an offline device's contract stays unknown; the digest is on the card
            what="read the tool's contract",
        )

    def _show_contract(self, one: Approval, tools: list[Tool]) -> None:
        for tool in tools:
            fits = tool.tool_key == one.request.tool_key and tool.contract.digest == one.request.contract
            if fits and one.id == self._open:
                self._contract = tool.contract
                self._key_changed()

    def _key_changed(self) -> None:
        keys = self.nav.keys
        signer = f"{keys.unlocked}  …{keys.fingerprint}" if keys.unlocked else ""
        self.card.show_facts(self._contract, signer)
        self._show_situation()

    # The focus

    def _focus_card(self) -> None:
        if self._open:
            self.card.bytes.box.setFocus(Qt.FocusReason.OtherFocusReason)

    def _park_focus(self) -> None:
        """Put the keyboard where no key answers anything."""
        self.queue.view.setFocus(Qt.FocusReason.OtherFocusReason)

    def _park_focus_of_card(self) -> None:
        """The rows of the card are made anew; a focus in them would go astray."""
        focus = self.focusWidget()
        if focus is not None and focus.hasFocus() and self.stack.isAncestorOf(focus):
            self._park_focus()
