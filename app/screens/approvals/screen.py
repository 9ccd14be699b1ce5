"""Approvals: what waits for an operator, exactly what each request would send, and the signed answer to it.

Nothing here is approved by accident: a card that appears takes neither focus nor place, is not approved in
its first 700 ms, and then by a chord or a click alone. What is signed is the request that is on the screen.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QWidget

from app.screens.approvals.decision_history import DecisionHistory
from app.screens.approvals.queue_pane import QueuePane
from app.screens.approvals.read_hold import ReadHold
from app.screens.approvals.request_controller import RequestController
from app.screens.approvals.request_stack import RequestStack
from app.screens.approvals.text import TimeLeft
from app.screens.screen import Navigator, Screen, Shortcut
from app.screens.targets import OpenAgent, OpenApproval, OpenRun, Target
from app.service_client import ConsoleLink
from app.state import AppState, Link
from app.widgets.action import Action
from app.widgets.layouts import hbox
from app.widgets.master_detail import MasterDetail
from core.approvals.models import Approval, ApprovalState
from core.batch.models import Cell
from core.commands.results import CommandResult
from core.errors import QuarterdeckError

QUEUE = 336
QUEUE_NARROW = 300
STACKED_BELOW = 1200
TICK_MS = 1000
# What the last hour was like is asked for again so often: answers leave the hour while nothing is decided.
MEASURE_TICKS = 30


class ApprovalsScreen(Screen):
    """The queue at the left, the open card with its bar at the right."""

    name = "approvals"
    title = "Approvals"
    icon = "approvals"

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._clock = TimeLeft()
        self.log = DecisionHistory()
        self._open = ""
        self._entered = False
        self._ended: frozenset[str] = frozenset()
        self._ticks = 0
        self._asking_end = ""
        self._edited_one = ""
        self._reading: ReadHold | None = None
        self.queue = QueuePane(self._clock)
        self.go_on_act = Action("Next request", "approvals", self.step_on, "J", off=self._why_no_next)
        self.pane = RequestController(self._clock, self.go_on_act)
        self.card, self.bar = self.pane.card, self.pane.bar
        self._build()
        self._tick = QTimer(self)
        self._tick.setInterval(TICK_MS)
        self._tick.timeout.connect(self._show_times)
        self._connect()

    def _build(self) -> None:
        self.stack = RequestStack(self.pane)
        self.nothing = self.stack.nothing
        self.split = MasterDetail(self.queue, self.stack, (QUEUE, 900), self.stack)
        self.queue.setMinimumWidth(240)
        hbox(self.split, parent=self, spacing=None)

    def _connect(self) -> None:
        self.queue.chosen.connect(self._choose_card)
        self.queue.card_wanted.connect(self._focus_card)
        self.queue.narrowed.connect(self._filter_changed)
        self.queue.counted.connect(self._show_what_is_left)
        self.stack.narrowed.acted.connect(lambda _key: self.queue.clear_filter())
        self.card.copied.connect(lambda: self.nav.toast("Copied the exact bytes"))
        self.card.run_wanted.connect(lambda run: self.nav.open("runs", OpenRun(run)))
        self.card.agent_wanted.connect(lambda agent: self.nav.open("agents", OpenAgent(agent)))
        self.card.undo_wanted.connect(self._open_undo)
        self.bar.focus_to_park.connect(self._park_focus)
        self.pane.decided.connect(self._decided)
        self.pane.not_decided.connect(self._refresh_open)
        self.pane.edited.connect(self._edited)
        self.pane.result_known.connect(self._note_result)
        self.nothing.show_wanted.connect(self._show_again)

    # What a screen is

    def bind(self, state: AppState, link: ConsoleLink, nav: Navigator) -> None:
        """Follow the queue, the keys and the line to the service."""
        super().bind(state, link, nav)
        self.pane.bind(state, link, nav)
        self._reading = ReadHold(state, link)
        self.remember("split", self.split)
        state.approvals_changed.connect(self._queue_changed)
        nav.keys.changed.connect(self.measure)
        state.reset.connect(self._after_reset)
        state.service_changed.connect(self._show_known)
        state.cell_changed.connect(self._note_cell)

    def _open_undo(self, approval: Approval) -> None:
        assert approval.run is not None
        target = OpenRun(approval.run, approval.request.device, approval.step, undo=True)
        self.nav.open("runs", target)

    def enter(self, target: Target | None) -> None:
        """Show the queue, and one card of it."""
        self._entered = True
        self._show_known()
        self._tick.start()
        self._clock.note(self.state.approvals.values())
        self.queue.show_waiting(self.state.waiting(), ended=self.state.ended_approvals)
        if isinstance(target, OpenApproval):
            self._show_again(target.approval)
        elif self._open:
            self.bar.start_guard()
            self._refresh_open()
        self._open_first_if_none()
        self.pane.show_situation()
        self._sync_hold()
        self.measure()

    def leave(self) -> None:
        """The card is not read any more."""
        self.queue.field.close_list()
        self._entered = False
        self._tick.stop()
        self.bar.close_reason()
        self._sync_hold()

    def shortcuts(self) -> list[Shortcut | Action]:
        """The keys of this screen; letters act only when no text field has the focus."""
        bar, card = self.bar, self.card
        return [
            self.go_on_act,
            Action(
                "Request before",
                "approvals",
                lambda: self.queue.step(-1),
                "K",
                off=self._why_none_before,
            ),
            Shortcut(
                "Ctrl+Return",
                "Approve once; first to what is still to be read or typed",
                act_by=bar.press_approve,
            ),
            Shortcut("Ctrl+Enter", "Approve once (number pad)", act_by=bar.press_approve),
            bar.deny_act,
            bar.edit_act,
            bar.grant_act,
            Action("Next finding in the bytes", "search", card.next_finding, "F", off=card.why_no_finding),
            Action(
                "Before you decide: to the helpers",
                "approvals",
                self._focus_helpers,
                "B",
                off=self._why_no_helpers,
            ),
            Action("Filter the queue", "filter", self.queue.focus_filter, "/"),
            Shortcut("Up", "Request before, in the queue"),
            Shortcut("Down", "Next request, in the queue"),
            Shortcut("Return", "From the queue into the card, to what is to be read to its end"),
            Shortcut("Ctrl+End", "In the card: to the end of the box that has the keyboard"),
        ]

    def panes(self) -> list[QWidget]:
        """Queue, card, bar."""
        return [self.queue, self.card, self.bar]

    def home_of_keyboard(self) -> QWidget:
        """The queue: no key answers anything there by itself."""
        return self.queue.view

    def primary_filter(self) -> QWidget:
        """The field above the queue."""
        return self.queue.field

    def escape(self) -> bool:
        """First the list of offers, the reason, the typed name, then the filter; the queue comes last."""
        field = self.queue.field
        if field.close_list() or (self._open and self.bar.close_reason()):
            return True
        if self.bar.name_field.hasFocus():
            self._park_focus()
            return True
        if field.text():
            self.queue.clear_filter()
            return True
        if field.hasFocus():
            self._park_focus()
            return True
        return False

    def set_compact(self, narrow: bool, low: bool) -> None:
        """Queue 300 and right column 272 when narrow."""
        if self.split.sizes()[0] in (QUEUE, QUEUE_NARROW):
            self.split.set_size(self.queue, QUEUE_NARROW if narrow else QUEUE)
        self.card.set_side_width(narrow)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Below 1200 px the right column goes under the left one."""
        super().resizeEvent(event)
        self.card.set_stacked(self.window().width() < STACKED_BELOW)

    def event(self, event: QEvent) -> bool:
        """A card is only being read while the window is active; one that comes back is new to the eye."""
        if event.type() == QEvent.Type.WindowActivate and self._entered and self._open:
            self.bar.start_guard(is_new=False)
            self.pane.show_situation()
            self._sync_hold(active=True)
        elif event.type() == QEvent.Type.WindowDeactivate and self._entered:
            self._sync_hold(active=False)
        return super().event(event)

    # The queue

    def _queue_changed(self) -> None:
        ended = frozenset(self.state.ended_approvals)
        if self._entered and ended != self._ended:
            # Answered at another place, by the same key perhaps.
            self.measure()
        self._ended = ended
        self._clock.note(self.state.approvals.values())
        self.queue.show_waiting(
            self.state.waiting(), self._entered and self.pane.takes_in, self.state.ended_approvals
        )
        if self._entered:
            self._refresh_open()
            self._open_first_if_none()

    def _open_first_if_none(self) -> None:
        # What is chosen out of a narrowed queue is the operator's to say.
        if not self._open and not self.queue.narrows and self.queue.first:
            self.open_card(self.queue.first)
        elif not self._open:
            self._show_nothing()
        self._open_edited()

    def _refresh_open(self) -> None:
        shown = self.card.approval
        if not self._open or shown is None:
            return
        newest = self.state.approvals.get(self._open)
        if newest is not None:
            self.pane.update_request(newest)
            others = self.queue.others_of(self._open)
            if len(others) > len(self.card.others):
                self._park_focus_of_card()
            if self.pane.update_others(others):
                self._sync_hold()
        elif shown.state is not ApprovalState.WAITING:
            self.pane.show_fates()
            self._open_left_over()
        elif self._open not in (self.pane.answering, self._asking_end):
            self._ask_end(self._open)

    def _choose_card(self, approval: str) -> None:
        """The operator goes on by themselves: the card stays, whatever becomes of its request."""
        self.pane.granted = frozenset()
        self.open_card(approval)

    def _open_left_over(self) -> None:
        """Open the card of those whose answer was not taken, once the queue shows them by themselves."""
        for one in self.pane.left_over or ():
            leader = self.queue.leader_of(one)
            if leader != self._open and leader in self.state.approvals:
                self.open_card(one)
                return

    def open_card(self, approval: str) -> None:
        """Show a card of the queue; a request in a group is shown on the group's card."""
        one = self.state.approvals.get(self.queue.leader_of(approval))
        if one is None or one.id == self._open:
            return
        self._show_card(one)

    def _show_card(self, one: Approval) -> None:
        self._park_focus_of_card()
        self._open = one.id
        self._edited_one = ""
        self.pane.show_request(one, self.queue.others_of(one.id))
        self.queue.set_open(one.id)
        self.stack.show_card()
        self._sync_hold()

    def _show_nothing(self) -> None:
        self._open = ""
        self.pane.show_none()
        self.queue.set_open("")
        self.nothing.show_log(self.log)
        self._show_what_is_left()
        self._sync_hold()

    def _show_what_is_left(self) -> None:
        """Without an open card: say that nothing waits only when that is so."""
        if not self._open:
            self.stack.show_rest(self.queue.narrows, self.queue.shown, self.queue.hidden)

    def _filter_changed(self) -> None:
        """A card that is not asked for any more is not open any more: nothing unseen is ever answered."""
        if self._open and not self.queue.fits(self._open):
            self._park_focus_of_card()
            self._show_nothing()
        if self._entered:
            self._open_first_if_none()

    def _show_known(self) -> None:
        self.nothing.show_known(self.state.loaded and self.state.service.link is Link.CONNECTED)

    @property
    def _is_done(self) -> bool:
        shown = self.card.approval
        return bool(self._open) and shown is not None and shown.state is not ApprovalState.WAITING

    def step_on(self) -> None:
        """The next card; from one that is done, to what still waits."""
        if self._is_done:
            self._go_on()
        else:
            self.queue.step(1)

    def _why_no_next(self) -> str:
        return "" if self._is_done or self.queue.has_at(1) else "No request stands below this one."

    def _why_none_before(self) -> str:
        return "" if self.queue.has_at(-1) else "No request stands above this one."

    def _go_on(self) -> None:
        """Leave a card that is done for the next that waits."""
        following = self.queue.after(self._open, self.pane.granted)
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
            lambda console: console.approvals.get(approval),
            self._show_found,
            what=f"show the request {approval}",
        )

    def _show_found(self, one: Approval) -> None:
        if one.id != self._open:
            self._show_card(one)

    # The end of a request

    def _ask_end(self, approval: str) -> None:
        self._asking_end = approval
        self.link.ask(
            lambda console: console.approvals.get(approval),
            self._show_end,
            self._say_gone,
            what="read what became of the request",
        )

    def _show_end(self, one: Approval) -> None:
        self._asking_end = ""
        self.queue.show_end(one)
        if one.id == self._open and one.id in self.pane.granted:
            # The grant that was just signed has answered it; there is nothing here to read or decide.
            self._go_on()
        elif one.id == self._open:
            self.pane.show_end(one)
            self._sync_hold()

    def _say_gone(self, error: QuarterdeckError) -> None:
        shown = self.card.approval
        if shown is not None and self._asking_end == self._open:
            gone = {"state": ApprovalState.WITHDRAWN, "reason": "It is no longer in the queue."}
            self._show_end(shown.model_copy(update=gone))
        self._asking_end = ""

    def _note_cell(self, cell: Cell) -> None:
        if cell.call_id is not None and cell.result is not None:
            self._note_result(cell.call_id, cell.result)
            self.pane.show_result(cell.call_id, cell.result)

    def _note_result(self, call_id: str, result: CommandResult) -> None:
        if self.log.note_result(call_id, result) and not self._open:
            self.nothing.show_log(self.log)

    def _decided(self, approval: Approval) -> None:
        self.measure()
        if approval.state is ApprovalState.WAITING:
            # One of several approvals: the card stays for the next operator.
            if approval.id == self._open:
                self.pane.update_request(approval)
            return
        self.log.add(approval)
        self.queue.show_decided(*self.log.counts)
        self.queue.show_end(approval)
        if self._open == approval.id:
            self.card.update_request(approval)
            if self.pane.left_over is None:
                self._go_on()
            else:
                self.pane.show_end(approval)
                self._open_left_over()
        elif not self._open:
            self.nothing.show_log(self.log)

    def _edited(self, ended: Approval) -> None:
        """The open request was edited: go on with the one that came of it."""
        self.queue.show_end(ended)
        self._edited_one = ended.id
        if self._open == ended.id:
            self.pane.show_end(ended)
        self._open_edited()

    def _open_edited(self) -> None:
        """Open what came of an edit, as soon as it is in the queue, while its first version is still open."""
        if not self._edited_one:
            return
        for one in list(self.state.approvals.values()):
            if one.edited_from == self._edited_one:
                still, self._edited_one = self._open == self._edited_one, ""
                if still:
                    self.open_card(one.id)
                return

    def measure(self) -> None:
        """Read how the operator has been deciding, for the foot of the queue."""
        self.queue.meter.read(self.link, self.nav.keys.unlocked)

    # Reading

    def _sync_hold(self, active: bool | None = None) -> None:
        """A card is read while it is open, waits, and its window is active."""
        if active is None:
            active = self.isActiveWindow()
        shown = self.card.approval
        waits = shown is not None and shown.state is ApprovalState.WAITING
        if self._reading is not None:
            held = [self._open, *(one.id for one in self.card.others)]
            self._reading.read(*(held if self._entered and active and waits else []))

    def _after_reset(self) -> None:
        if self._reading is not None:
            self._reading.forget()
        self._sync_hold()

    def _show_times(self) -> None:
        self._ticks += 1
        if self._ticks % MEASURE_TICKS == 0:
            self.measure()
        self.queue.refresh_times()
        self.pane.show_time()

    # The focus

    def _why_no_helpers(self) -> str:
        if not self._open:
            return "No request is open."
        has = self.card.helpers.buttons and not self.card.helpers.isHidden()
        return "" if has else "Nothing can be looked up for this request."

    def _focus_helpers(self) -> None:
        """From wherever the keyboard is to what helps to decide."""
        self.card.helpers.focus_first()
        self.card.middle.ensureWidgetVisible(self.card.helpers)

    def _focus_card(self) -> None:
        if self._open:
            self.pane.go_to_unseen()

    def _park_focus(self) -> None:
        """Put the keyboard where no key answers anything."""
        self.queue.view.setFocus(Qt.FocusReason.OtherFocusReason)

    def _park_focus_of_card(self) -> None:
        """The rows of the card are made again; a focus in them would go astray."""
        focus = self.focusWidget()
        if focus is not None and focus.hasFocus() and self.stack.isAncestorOf(focus):
            self._park_focus()
