"""The right pane: the open card with its bar, the signed answer to it, and what became of it."""

from __future__ import annotations

import time

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.components.banner import BannerKind
from app.link import ConsoleLink
from app.screens.approvals.card import RequestCard
from app.screens.approvals.decision_bar import DecisionBar
from app.screens.approvals.gate import Situation, why_not_approve, why_not_deny
from app.screens.approvals.time_left import TimeLeft
from app.screens.approvals.what_is_sent import DigestCheck, check_digest, count_masks
from app.screens.approvals.words import final_words, outcome_words
from app.screens.base import Navigator
from app.state import AppState, Link
from core.dispatch.models import CommandResult
from core.errors import QuarterdeckError
from core.fleet.models import Contract, Tool
from core.policy.models import Approval, ApprovalState
from core.service.console import CommandRecord

_END_KINDS: dict[ApprovalState, BannerKind] = {ApprovalState.APPROVED: "ok", ApprovalState.EXPIRED: "warn"}


class CardPane(QWidget):
    """One request at a time. What is signed is the request that is on the card, and nothing else.

    Signals:
        decided(approval): the service took the operator's answer.
        not_decided: the service did not take it; the request may have ended meanwhile.
        result_known(call_id, result): what became of an approved command.
    """

    decided = Signal(object)
    not_decided = Signal()
    result_known = Signal(str, object)

    def __init__(self, clock: TimeLeft) -> None:
        super().__init__()
        self._clock = clock
        self._busy = ""
        self._contract: Contract | None = None
        self.answering = ""
        self.card = RequestCard()
        self.bar = DecisionBar()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.card, 1)
        column.addWidget(self.bar)
        self.card.end_seen.connect(self.show_situation)
        self.bar.situation_changed.connect(self.show_situation)
        self.bar.approve_asked.connect(self.approve)
        self.bar.deny_asked.connect(self.deny)

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Follow the keys and the line to the service."""
        self._state, self._link, self._nav = state, link, nav
        self.bar.unlock_asked.connect(nav.start_unlock)
        state.service_changed.connect(self.show_situation)
        nav.keys.changed.connect(self._key_changed)

    # The card

    def show_request(self, one: Approval) -> None:
        """Show another request from its beginning; its first 700 ms take no answer."""
        self._contract = None
        device = self._state.devices.get(one.request.device)
        self.card.show_request(one, device.platform if device else "", None)
        self.bar.start_guard()
        self.show_time()
        self._key_changed()
        if device is not None:
            self._read_contract(one)
        if one.state is not ApprovalState.WAITING:
            self.show_end(one)

    def update_request(self, newest: Approval) -> None:
        """Take over the newest state of the open request; one with other contents is shown as new."""
        shown = self.card.approval
        if shown is not None and (newest.request, newest.decision) != (shown.request, shown.decision):
            self.show_request(newest)
            self.card.banner.say("warn", "This request is another one than before.", "Read it again.")
            return
        self.card.update_request(newest)
        self.show_time()
        self.show_situation()

    def show_none(self) -> None:
        """No card is open."""
        self.card.approval = None
        self.bar.stop_guard()
        self.show_situation()

    def show_time(self) -> None:
        """Say how long the open request still waits."""
        if (shown := self.card.approval) is not None:
            self.card.header.show_time(shown, self._clock.seconds(shown, time.time()))

    def _read_contract(self, one: Approval) -> None:
        self._link.ask(
            lambda console: console.tools(one.request.device),
            lambda tools: self._show_contract(one, tools),
            lambda error: None,  # an offline device's contract stays unknown; its digest is on the card
            what="read the tool's contract",
        )

    def _show_contract(self, one: Approval, tools: list[Tool]) -> None:
        for tool in tools:
            fits = tool.tool_key == one.request.tool_key and tool.contract.digest == one.request.contract
            if fits and self.card.approval is not None and self.card.approval.id == one.id:
                self._contract = tool.contract
                self._key_changed()

    def _key_changed(self) -> None:
        keys = self._nav.keys
        signer = f"{keys.unlocked}  …{keys.fingerprint}" if keys.unlocked else ""
        self.card.show_facts(self._contract, signer)
        self.show_situation()

    # The end of a request

    def show_end(self, one: Approval) -> None:
        """The open request no longer waits: say by whom it was decided, and what became of it."""
        self.card.update_request(one)
        self.bar.stop_guard()
        fact, detail = final_words(one)
        self.card.end_banner.say(_END_KINDS.get(one.state, "info"), fact, detail)
        self.show_time()
        self.show_situation()
        if one.state is ApprovalState.APPROVED:
            self._link.ask(
                lambda console: console.command(one.request.call_id),
                self._show_record,
                lambda error: None,  # the banner says who approved; that no result is known yet is not news
                what="read what became of the command",
            )

    def _show_record(self, record: CommandRecord) -> None:
        if record.result is not None:
            self.result_known.emit(record.call_id, record.result)
            self.show_result(record.call_id, record.result)

    def show_result(self, call_id: str, result: CommandResult) -> None:
        """Say what became of the open request, if this is its result."""
        shown = self.card.approval
        if shown is None or shown.request.call_id != call_id or shown.state is not ApprovalState.APPROVED:
            return
        kind: BannerKind = "ok" if result.error is None else "fail"
        self.card.end_banner.say(kind, final_words(shown)[0], outcome_words(result))

    # The answer

    def situation(self) -> Situation:
        """Everything that stands for or against answering now."""
        return Situation(
            approval=self.card.approval,
            connected=self._state.service.link is Link.CONNECTED,
            guarded=self.bar.guarded,
            busy=self._busy,
            key=self._nav.keys.unlocked or "",
            digest=self.card.sent.digest if self.card.sent is not None else DigestCheck.DIFFERS,
            end_seen=self.card.end_was_seen,
            typed=self.bar.name_field.text(),
        )

    def show_situation(self) -> None:
        """Enable what is possible now."""
        name = self._nav.keys.only_name
        self.bar.show_situation(self.situation(), f"Unlock {name}…" if name else "Unlock a key…")

    def approve(self) -> None:
        """Approve the open request, if nothing stands against it."""
        if not why_not_approve(self.situation()):
            self._answer(approve=True, reason="")

    def deny(self, reason: str) -> None:
        """Deny the open request, if nothing stands against it."""
        if not why_not_deny(self.situation()):
            self._answer(approve=False, reason=reason)

    def _answer(self, approve: bool, reason: str) -> None:
        shown = self.card.approval
        verb = "approve" if approve else "deny"
        if shown is None or not _may_be_signed(shown):
            self.show_situation()
            return
        try:
            signed = self._nav.keys.sign(shown, "approve" if approve else "deny", reason)
        except QuarterdeckError as error:
            self.bar.say_error(f"Could not {verb}.", error)
            return
        self._busy, self.answering = "The answer is on its way.", shown.id
        self.bar.error.hide()
        self.show_situation()
        self._link.ask(
            lambda console: console.decide(signed),
            self._taken,
            lambda error: self._not_taken(verb, error),
            what=f"{verb} the request",
        )

    def _taken(self, approval: Approval) -> None:
        self._busy = self.answering = ""
        self.decided.emit(approval)
        self.show_situation()

    def _not_taken(self, verb: str, error: QuarterdeckError) -> None:
        self._busy = self.answering = ""
        self.bar.say_error(f"Could not {verb}.", error)
        self.show_situation()
        self.not_decided.emit()


def _may_be_signed(approval: Approval) -> bool:
    """The last look before the key: the digest is recomputed once more from what the card shows."""
    masked = count_masks(approval.request.parameters)
    return check_digest(approval.request, masked) is not DigestCheck.DIFFERS
