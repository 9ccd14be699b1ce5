"""The right pane: the open card with its bar, the signed answer to it, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from app.input_origin import InputOrigin, Stake
from app.query import Mutation, Query, quietly
from app.screens.approvals.decision_bar import DecisionBar
from app.screens.approvals.decision_rules import (
    DecisionContext,
    approve_blocker,
    deny_blocker,
    edit_blocker,
    fates_words,
    grant_blocker,
    second_operator_blocker,
)
from app.screens.approvals.edit_dialog import EditDialog
from app.screens.approvals.grant_dialog import GrantDialog
from app.screens.approvals.grant_draft import also_covered
from app.screens.approvals.preview_loader import PreviewLoader
from app.screens.approvals.request_payload import DigestCheck, check_digest
from app.screens.approvals.request_view import RequestView
from app.screens.approvals.second_operator_dialog import SecondOperatorDialog
from app.screens.approvals.submit import Answers, answer_all
from app.screens.approvals.text import TimeLeft, final_words, outcome_words
from app.screens.screen import Navigator
from app.service_client import ConsoleLink
from app.state import AppState, Link
from app.text import one_line
from app.widgets.action import Action
from app.widgets.banner import BannerKind
from app.widgets.layouts import vbox
from core.actors import AGENT_PREFIX
from core.approvals.models import Approval, ApprovalState
from core.approvals.request_groups import device_words
from core.commands.results import CommandResult
from core.errors import QuarterdeckError, error_from
from core.models.tools import Contract, Tool
from core.policy.grants import GrantTerms, SignedGrant
from core.service.console import CommandRecord
from core.statements import SignedStatement

# A run asks for a thousand devices within a moment; but requests that never end must not keep a card closed.
JOINED_FOR_S = 5.0
_END_KINDS: dict[ApprovalState, BannerKind] = {ApprovalState.APPROVED: "ok", ApprovalState.EXPIRED: "warn"}


class RequestController(QWidget):
    """One request at a time. What is signed is the request that is on the card, and nothing else.

    Signals:
        decided(approval): the service took the operator's answer.
        not_decided: the service did not take it; the request may have ended meanwhile.
        edited(approval): the request was edited; a new one comes that has to be approved by itself.
        result_known(call_id, result): what became of an approved command.
    """

    decided = Signal(object)
    not_decided = Signal()
    edited = Signal(object)
    result_known = Signal(str, object)

    def __init__(self, clock: TimeLeft, go_on: Action) -> None:
        """`go_on` leads to the next request."""
        super().__init__()
        self._clock = clock
        self._busy = ""
        self._since = 0.0
        # Those of the last answer that were not taken and still wait, and what to say of them.
        self._left_over: tuple[frozenset[str], str, QuarterdeckError] | None = None
        self._contract: Contract | None = None
        self._outcome, self._outcome_failed = "", False
        self.answering = ""
        # What the grant that was signed last covers of what waited then: it answers them a moment later.
        self.granted: frozenset[str] = frozenset()
        self.card = RequestView()
        self.bar = DecisionBar(go_on)
        vbox((self.card, 1), self.bar, parent=self)
        self.card.end_seen.connect(self.show_situation)
        self.bar.situation_changed.connect(self.show_situation)
        self.bar.approve_asked.connect(self.approve)
        self.bar.reading_wanted.connect(self.go_to_unseen)
        self.bar.deny_asked.connect(self.deny)
        self.bar.second_asked.connect(self.ask_second)
        self.bar.grant_asked.connect(self.ask_grant)
        self.bar.edit_asked.connect(self.ask_edit)

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Follow the keys and the line to the service."""
        self._state, self._link, self._nav = state, link, nav
        self._looking = PreviewLoader(self.card, link)
        # An offline device's contract stays unknown; its digest is on the card.
        self._tools = Query(self, link, self._show_contract, quietly, "read the tool's contract")
        self._form = Query(self, link, self._show_form, self._say_no_form, "read the tool's form")
        self._edit_sheet: EditDialog | None = None
        self.bar.unlock_asked.connect(nav.start_unlock)
        state.service_changed.connect(self.show_situation)
        state.agents_changed.connect(self._show_agent)
        nav.keys.changed.connect(self._key_changed)

    # The card

    def show_request(self, one: Approval, others: tuple[Approval, ...] = ()) -> None:
        """Show another request from its beginning, or a group; its first 700 ms take no answer."""
        self._contract = None
        self._drop_answers()
        self._since = time.monotonic()
        device = self._state.devices.get(one.request.device)
        production = {device.name for device in self._state.devices.values() if device.production}
        self.card.show_request(one, device.platform if device else "", None, others, production)
        self._show_agent()
        self.bar.start_guard()
        if self._left_over is not None and self._left_over[0] & {one.id, *(other.id for other in others)}:
            _, fact, error = self._left_over
            self._left_over = None
            self.bar.say_error(fact, error)
        self.show_time()
        self._key_changed()
        if device is not None:
            self._tools.load(lambda console: console.devices.tools(one.request.device))
        self._looking.begin(one)
        if one.state is not ApprovalState.WAITING:
            self.show_end(one)

    def _show_agent(self) -> None:
        shown = self.card.approval
        agent = self._state.agents.get(shown.actor.removeprefix(AGENT_PREFIX)) if shown is not None else None
        self.card.show_agent_paused(agent is not None and agent.settings.paused)

    def update_request(self, newest: Approval) -> None:
        """Take over the newest state of the open request; one with other contents is shown as new."""
        shown = self.card.approval
        if shown is not None and (newest.request, newest.decision) != (shown.request, shown.decision):
            self.show_request(newest, self.card.others)
            self.card.banner.say("warn", "This request is another one than before.", "Read it again.")
            return
        self.card.update_request(newest)
        self.show_time()
        self._key_changed()

    def update_others(self, others: tuple[Approval, ...]) -> bool:
        """Take over who else of the group still waits.

        What comes while the card takes no answer yet joins it, and it begins again; nothing joins it later.
        Returns whether a request left or came.
        """
        known = {one.id for one in self.card.others}
        left = tuple(one for one in others if one.id in known)
        shown = self.card.approval
        if len(left) < len(others) and self.takes_in and shown is not None:
            since = self._since
            self.show_request(shown, others)
            self._since = since
            return True
        fewer = len(left) < len(known)
        if left != self.card.others:
            self.card.show_others(left)
            self.show_situation()
        return fewer

    @property
    def takes_in(self) -> bool:
        """Whether requests that are alike may join the open card: no answer to it was begun yet."""
        return self.bar.guarded and not self.bar.asks_reason and time.monotonic() - self._since < JOINED_FOR_S

    def show_none(self) -> None:
        """No card is open."""
        self._drop_answers()
        self._looking.stop()
        self.card.approval = None
        self.card.others = ()
        self.bar.stop_guard()
        self.show_situation()

    def show_time(self) -> None:
        """Say how long the open request still waits, and how old its picture is."""
        if (shown := self.card.approval) is not None:
            self.card.target.show_age()
            self.card.header.show_time(shown, self._clock.seconds(shown, time.time()))

    def _drop_answers(self) -> None:
        """What is on its way is about a card that is not open any more."""
        self._tools.cancel()
        self._form.cancel()
        if self._edit_sheet is not None and not self._edit_sheet.has_form:
            self._edit_sheet.dismiss()

    def _show_contract(self, tools: list[Tool]) -> None:
        shown = self.card.approval
        for tool in tools:
            if shown is not None and (tool.tool_key, tool.contract.digest) == (
                shown.request.tool_key,
                shown.request.contract,
            ):
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
        self._looking.end()
        self.bar.stop_guard()
        self._outcome, self._outcome_failed = "", False
        self.show_fates()
        self.show_time()
        self.show_situation()
        if one.state is ApprovalState.APPROVED:
            # The banner says who approved; that no result is known yet is not news.
            Query(self, self._link, self._show_record, quietly, "read what became of the command").load(
                lambda console: console.journal.command(one.request.call_id)
            )

    def show_fates(self) -> None:
        """Say of a card that has ended what became of its request, or of each of its group."""
        shown = self.card.approval
        if shown is None or shown.state is ApprovalState.WAITING:
            return
        fact, detail = final_words(shown)
        detail = self._outcome or detail
        kind = _END_KINDS.get(shown.state, "info")
        if self._outcome_failed:
            kind = "fail"
        if self.card.others:
            fates = {one.id: self._fate(one) for one in (shown, *self.card.others)}
            self.card.show_fates({one: fates_words([state]) for one, state in fates.items()})
            detail = f"{one_line(shown.request.device)}: {fact} {detail}".strip()
            words = fates_words(fates.values())
            same = len(set(fates.values())) == 1
            devices = {one.request.device for one in (shown, *self.card.others)}
            all_of = f" on all {len(fates)} devices" if len(devices) == len(fates) else f", all {len(fates)}"
            fact = f"{words[:1].upper()}{words[1:]}{all_of if same else ''}."
            kind = kind if same else "warn"
        self.card.end_banner.say(kind, fact, detail)

    def _fate(self, one: Approval) -> ApprovalState | None:
        """How a request of the open card stands now; None when the window was not told."""
        shown = self.card.approval
        if shown is not None and one.id == shown.id:
            return shown.state
        ended = self._state.ended_approvals.get(one.id)
        if ended is None and one.id in self._state.approvals:
            return ApprovalState.WAITING
        return ended.state if ended is not None else None

    def _show_record(self, record: CommandRecord) -> None:
        if record.result is not None:
            self.result_known.emit(record.call_id, record.result)
            self.show_result(record.call_id, record.result)

    def show_result(self, call_id: str, result: CommandResult) -> None:
        """Say what became of the open request, if this is its result."""
        shown = self.card.approval
        if shown is None or shown.request.call_id != call_id or shown.state is not ApprovalState.APPROVED:
            return
        self._outcome, self._outcome_failed = outcome_words(result), result.error is not None
        self.show_fates()

    def go_to_unseen(self) -> None:
        """Put the keyboard into what is still to be read to its end; the bytes, where nothing is."""
        unseen = self.card.unseen()
        box = unseen[1] if unseen is not None else self.card.bytes.reader
        box.setFocus(Qt.FocusReason.OtherFocusReason)
        self.card.middle.ensureWidgetVisible(box)

    # The answer

    def situation(self) -> DecisionContext:
        """Everything that stands for or against answering now."""
        unseen = self.card.unseen()
        return DecisionContext(
            approval=self.card.approval,
            connected=self._state.service.link is Link.CONNECTED,
            guarded=self.bar.guarded,
            busy=self._busy,
            key=self._nav.keys.unlocked or "",
            makes_key=not self._nav.keys.listed,
            digest=self.card.sent.digest if self.card.sent is not None else DigestCheck.DIFFERS,
            masked=self.card.sent.masked if self.card.sent is not None else 0,
            end_seen=self.card.end_was_seen,
            unseen=unseen[0] if unseen is not None and self.card.has_several_boxes else "",
            typed=self.bar.name_field.text(),
            others=self.card.others,
        )

    def show_situation(self) -> None:
        """Enable what is possible now."""
        now, name = self.situation(), self._nav.keys.usual_name
        words = f"Unlock {name}…" if name else "Make your operator key…" if now.makes_key else "Unlock a key…"
        self.bar.show_situation(now, words)

    def approve(self, hand: InputOrigin) -> None:
        """Approve the open request, if nothing stands against it and the press counts."""
        now = self.situation()
        if approve_blocker(now):
            return
        about = self._about()

        def answer() -> None:
            if self._about() != about:
                self.bar.error.tell("Nothing was signed.", "The request is another one by now.")
            elif not approve_blocker(self.situation()):
                self.answer(approve=True, reason="")

        self._ask_hand(hand, now.stake, "approve the request", answer)

    def _ask_hand(self, hand: InputOrigin, stake: Stake, what: str, act: Callable[[], None]) -> None:
        def say(why: str) -> None:
            self.bar.error.tell("Not accepted.", why)

        self._nav.by_hand.ask(self, hand, stake, what, say, act)

    def _about(self) -> list[tuple[str, str]]:
        """What an answer now would be about: each request on the card, with its digest."""
        shown = self.card.approval
        members = [shown, *self.card.others] if shown is not None else []
        return [(one.id, one.request.digest) for one in members]

    def deny(self, reason: str) -> None:
        """Deny the open request, if nothing stands against it."""
        if not deny_blocker(self.situation()):
            self.answer(approve=False, reason=reason)

    def answer(self, approve: bool, reason: str) -> None:
        """Sign one statement for each request on the card, and send them."""
        verb = "approve" if approve else "deny"
        members = self._members()
        if not members:
            self.bar.error.tell("Nothing was signed.", "A digest does not fit the bytes of its request.")
            self.show_situation()
            return
        verdict: Literal["approve", "deny"] = "approve" if approve else "deny"
        try:
            signed = [self._nav.keys.sign(one, verdict, reason) for one in members]
        except QuarterdeckError as error:
            self.bar.say_error(f"Could not {verb}.", error)
            return
        self._send(verb, members, signed)

    def _members(self) -> list[Approval]:
        """The requests on the card, when every one of them may be signed."""
        shown = self.card.approval
        members = [shown, *self.card.others] if shown is not None else []
        # The last look before the key: recomputed once more from what the card shows.
        fits = all(check_digest(member.request) is DigestCheck.FITS for member in members)
        return members if fits else []

    def _send(
        self,
        verb: str,
        members: list[Approval],
        signed: list[SignedStatement],
        grant: SignedGrant | None = None,
    ) -> None:
        self._busy = "The answer is on its way."
        self.answering = self.card.approval.id if self.card.approval is not None else ""
        self.bar.error.hide()
        self.show_situation()
        self._link.ask(
            lambda console: answer_all(console, members, signed, grant),
            lambda answers: self._taken(verb, answers),
            lambda error: self._not_taken(verb, error),
            what=f"{verb} the request",
        )

    def _taken(self, verb: str, answers: Answers) -> None:
        self._busy = self.answering = ""
        self._left_over = None
        if answers.refused and (info := answers.refused[0].error) is not None:
            total = len(answers.taken) + len(answers.refused)
            devices = device_words(fate.device for fate in answers.refused)
            fact = one_line(f"{len(answers.taken)} of {total} answers were taken. Not on {devices}:")
            waiting = [fate.approval for fate in answers.refused if fate.state is ApprovalState.WAITING]
            self._left_over = (frozenset(waiting), fact, error_from(info))
            # On this card, which stays until the card of those that still wait is there.
            self.bar.say_error(fact, error_from(info))
        for approval in answers.taken:
            self.decided.emit(approval)
        if answers.refused:
            self.not_decided.emit()
        self.show_situation()

    @property
    def left_over(self) -> tuple[str, ...] | None:
        """The requests whose answer was not taken and which still wait; None if all were taken or told."""
        return tuple(sorted(self._left_over[0])) if self._left_over is not None else None

    def _not_taken(self, verb: str, error: QuarterdeckError) -> None:
        self._busy = self.answering = ""
        self.bar.say_error(f"Could not {verb}.", error)
        self.show_situation()
        self.not_decided.emit()

    # Answers that ask something first

    def ask_second(self) -> None:
        """Another operator is here: they approve with their own key, which is forgotten right after."""
        now = self.situation()
        if second_operator_blocker(now) or now.approval is None:
            return
        sheet = SecondOperatorDialog(self.window(), now, self._nav.keys, self._nav.by_hand)
        sheet.approved.connect(
            lambda name, words: self._link.spawn("sign", self._sign_second(sheet, name, words))
        )
        sheet.begin()

    async def _sign_second(self, sheet: SecondOperatorDialog, name: str, passphrase: str) -> None:
        members = self._members()
        if sheet.about != [one.id for one in members] or second_operator_blocker(self.situation()):
            sheet.say("The request is another one by now.")
            return
        try:
            signed = await self._nav.keys.sign_once(name, passphrase, members)
        except QuarterdeckError as error:
            sheet.say_wrong(error.message)
            return
        sheet.finish("approved")
        self._send("approve", members, signed)

    def ask_grant(self) -> None:
        """Approve, and let like requests run from now on: the whole scope is shown before it is signed."""
        now = self.situation()
        shown = now.approval
        if grant_blocker(now) or shown is None:
            return
        sheet = GrantDialog(
            self.window(), shown, self._nav.keys.unlocked or "", self._state, self._nav.by_hand
        )
        if now.several_devices:
            sheet.choose_all_devices()
        sheet.why_not = lambda: self._why_not_granted(shown)
        sheet.agreed.connect(lambda terms: self._grant(sheet, terms))
        self.bar.situation_changed.connect(sheet.show_words)
        sheet.begin()

    def _why_not_granted(self, about: Approval) -> str:
        """Why the request that a grant is made from cannot be approved now; empty when it can."""
        shown = self.card.approval
        if about.id not in self._state.approvals or shown is None or shown.id != about.id:
            return "The request that this began with is answered by now: close this."
        return approve_blocker(self.situation())

    def _grant(self, sheet: GrantDialog, terms: GrantTerms) -> None:
        members = self._members()
        now = self.situation()
        # The others of a group are judged again under the grant, which is of their run then.
        beyond = now.several_devices and terms.run is None
        if approve_blocker(now) or beyond or [one.id for one in members[:1]] != [terms.approval]:
            return
        try:
            grant = self._nav.keys.sign_grant(terms)
            signed = self._nav.keys.sign(members[0], "approve")
        except QuarterdeckError as error:
            sheet.say(error.message)
            return
        covered = also_covered(terms, self._state.waiting())
        self.granted = frozenset(one.id for one in covered)
        sheet.finish("granted")
        self._send("approve", members[:1], [signed], grant)

    def ask_edit(self) -> None:
        """Change the arguments: this request ends, and a new one with the changes asks again."""
        now = self.situation()
        shown = now.approval
        if edit_blocker(now) or shown is None:
            return
        sheet = self._edit_sheet = EditDialog(self.window(), shown, self._nav.by_hand)
        sheet.wanted.connect(lambda parameters: self._edit(sheet, shown, parameters))
        sheet.finished.connect(lambda _answer: self._forget_edit())
        sheet.open()
        self._form.load(lambda console: console.devices.tools(shown.request.device))

    def _forget_edit(self) -> None:
        self._edit_sheet = None
        self._form.cancel()

    def _say_no_form(self, error: QuarterdeckError) -> None:
        if self._edit_sheet is not None:
            self._edit_sheet.dismiss()
        self.bar.say_error("The tool's form cannot be read.", error)

    def _show_form(self, tools: list[Tool]) -> None:
        shown, sheet = self.card.approval, self._edit_sheet
        if sheet is None:
            return
        if shown is None or edit_blocker(self.situation()):
            sheet.dismiss()
            return
        tool = next((one for one in tools if one.tool_key == shown.request.tool_key), None)
        sheet.show_form(tool.input_schema if tool is not None else {"type": "object"})

    def _edit(self, sheet: EditDialog, shown: Approval, parameters: dict[str, Any]) -> None:

        def edited(ended: Approval) -> None:
            sheet.finish("edited")
            self.edited.emit(ended)

        edit = Mutation(
            sheet, self._link, edited, lambda error: sheet.say_wrong(error.message), "edit the request"
        )
        edit.run(lambda console: console.approvals.edit(shown.id, parameters))
