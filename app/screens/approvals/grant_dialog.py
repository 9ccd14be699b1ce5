"""Approve for…: the whole scope of what would run without asking, in words, before it is signed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QWidget

from app.input_origin import InputOrigin, Stake
from app.screens.approvals.decision_bar import ApproveButton
from app.screens.approvals.grant_draft import (
    BREADTH_WORDS,
    Argument,
    Breadth,
    GrantDraft,
    also_covered,
    devices_of_run,
    fault_of,
    narrowest,
    scope_lines,
    terms_of,
)
from app.signing.press_guard import PressGuard
from app.state import AppState
from app.text import one_line
from app.theme.tokens import SPACE
from app.widgets.buttons import Segmented
from app.widgets.dialog import FOCUS_ROOM, Dialog
from app.widgets.fields import DropDown, Field, TypedField
from app.widgets.labels import ElidedLabel, Label, set_surface
from app.widgets.layouts import hbox, vbox
from app.widgets.section import Card, Section
from app.widgets.util import ScrollArea
from core.approvals.models import Approval
from core.commitments import is_stand_in, readable
from core.errors import BadInput
from core.policy.grants import FEW_USES, GrantTerms
from core.text import shorten_middle

WIDTH = 880
MOST = 1_000_000
MOST_VALUE = 40
_USES: list[tuple[str, int | None]] = [
    ("once", 1), ("5 times", FEW_USES), ("20 times", 20), ("100 times", 100), ("as often as asked", None),
]  # fmt: skip
_LASTS = [
    ("15 minutes", timedelta(minutes=15)),
    ("1 hour", timedelta(hours=1)),
    ("8 hours", timedelta(hours=8)),
    ("1 day", timedelta(days=1)),
    ("7 days", timedelta(days=7)),
    ("30 days", timedelta(days=30)),
]
_RUN, _ALL, _SCOPE = "run", "all", "scope"


class ArgumentRow(QWidget):
    """One argument: exactly as now, or how far it may differ.

    Signals:
        changed: another breadth, or other words.
    """

    changed = Signal()

    def __init__(self, argument: Argument) -> None:
        super().__init__()
        self.argument = argument
        name = one_line(argument.name)
        self.breadth = DropDown(f"How far {name} may differ")
        for one in argument.breadths():
            self.breadth.addItem(BREADTH_WORDS[one], one)
        self.breadth.setMinimumWidth(self.breadth.sizeHint().width())
        self.field = TypedField(f"What {name} may be", mono=True)
        self.value = ElidedLabel(
            shorten_middle(one_line(_shown(argument.value)), MOST_VALUE), "mono_small", "text2"
        )
        title = Label(name, "mono_small")
        title.setMinimumWidth(110)
        hbox(title, self.breadth, (self.field, 1), (self.value, 1), parent=self, spacing=SPACE.small)
        self.setMinimumHeight(max(self.breadth.sizeHint().height(), self.field.sizeHint().height()))
        self.field.hide()
        self.breadth.activated.connect(lambda *_: self._choose())
        self.field.textChanged.connect(self._typed)

    def widen(self, breadth: Breadth, text: str = "") -> None:
        """Choose how far it may differ, as an operator would."""
        self.breadth.setCurrentIndex(self.breadth.findData(breadth))
        self._choose()
        if text:
            self.field.setText(text)

    def _choose(self) -> None:
        self.argument.breadth = Breadth(self.breadth.currentData())
        typed = self.argument.breadth not in (Breadth.EXACT, Breadth.ANY)
        self.field.setVisible(typed)
        self.value.setVisible(not typed)
        self.field.setText(self.argument.suggestion())
        self.argument.text = self.field.text()
        self.changed.emit()

    def _typed(self, text: str) -> None:
        self.argument.text = text
        self.changed.emit()


class GrantDialog(Dialog):
    """Begins as narrow as can be; `why_not` says what stands against approving at this moment.

    Signals:
        agreed(terms): the operator has seen these terms and wants to approve with them.
    """

    agreed = Signal(object)

    def __init__(
        self, window: QWidget, approval: Approval, author: str, state: AppState, by_hand: PressGuard
    ) -> None:
        width = min(WIDTH, window.width() - 2 * SPACE.wide)
        super().__init__(
            window,
            "Approve, and let like requests run without asking",
            "What is signed is exactly what stands at the right. It can be revoked at any time.",
            width=width,
        )
        self.keep_room_for_problem()
        self._approval, self._author, self._state, self._by_hand = approval, author, state, by_hand
        self.why_not: Callable[[], str] = lambda: ""
        self.terms: GrantTerms | None = None
        self.rows: list[ArgumentRow] = []
        self.draft = narrowest(approval)
        height = min(430, max(220, window.height() - 275))
        halves = QWidget()
        hbox(
            (_scrolled(self._form(self.draft), height), 3),
            (_scrolled(self._words(), height), 2),
            parent=halves,
            spacing=SPACE.large,
        )
        self.add(halves, focus_room=True)
        self.add_answer("cancel", "Cancel")
        self.approve = ApproveButton()
        self.approve.set_words("Approve and remember")
        self.add_button("approve", self.approve, primary=True)
        self.approve.clicked.connect(lambda *_: self._go(self.approve.hand))
        state.approvals_changed.connect(self.show_words)
        self.show_words()

    def begin(self) -> None:
        """Come up."""
        self.show_words()
        self.open(self.devices)

    # The form

    def _form(self, draft: GrantDraft) -> QWidget:
        approval = self._approval
        parts = [(_RUN, "For this run"), (_ALL, "For this run, all devices"), (_SCOPE, "For a scope")]
        self.scope = Segmented(parts, "How far it reaches")
        self.scope.choose(_SCOPE)
        run = self._state.runs.get(approval.run or "")
        production = {device.name for device in self._state.devices.values() if device.production}
        self._all, why = devices_of_run(approval, run.devices if run is not None else [], production)
        self.scope.set_part_enabled(_ALL, bool(self._all), why)
        self.scope.set_part_enabled(_RUN, approval.run is not None, "This request belongs to no run.")
        self.devices = TypedField("Devices", mono=True)
        self.devices.setText(approval.request.device)
        self.actors = TypedField("Asked by", mono=True)
        self.actors.setText(approval.actor)
        self.uses, self.lasts = DropDown("How often"), DropDown("Until")
        for words, count in _USES:
            self.uses.addItem(words, count)
        for number, (words, _) in enumerate(_LASTS):
            self.lasts.addItem(f"{words} from now", number)
        self.uses.setCurrentIndex([count for _, count in _USES].index(draft.uses))
        self.lasts.setCurrentIndex([length for _, length in _LASTS].index(draft.lasts))
        form = QWidget()
        set_surface(form, "raised")
        grid = QGridLayout(form)
        grid.setContentsMargins(FOCUS_ROOM, 0, SPACE.small, FOCUS_ROOM)
        grid.setHorizontalSpacing(SPACE.medium)
        grid.setVerticalSpacing(SPACE.medium)
        grid.addWidget(self.scope, 0, 0, 1, 2, Qt.AlignmentFlag.AlignLeft)
        pattern = "Names or patterns such as lab-*, with commas."
        grid.addWidget(Field("Devices", self.devices, help_text=pattern), 1, 0, 1, 2)
        grid.addWidget(
            Field("Asked by", self.actors, help_text="Such as agent:clerk, or agent:*."), 2, 0, 1, 2
        )
        grid.addWidget(Field("How often", self.uses), 3, 0)
        grid.addWidget(Field("Until", self.lasts), 3, 1)
        part = Section("Arguments", "exactly as now, unless you widen them")
        for argument in draft.arguments:
            row = ArgumentRow(argument)
            row.changed.connect(self.show_words)
            part.add(row)
            self.rows.append(row)
        if not draft.arguments:
            part.add(Label("There are none, and none may be added.", "body", "text2"))
        grid.addWidget(part, 4, 0, 1, 2)
        grid.setRowStretch(5, 1)
        self.scope.chosen.connect(lambda *_: self._choose_scope())
        for field in (self.devices, self.actors):
            field.textChanged.connect(lambda *_: self.show_words())
        for choice in (self.uses, self.lasts):
            choice.activated.connect(lambda *_: self.show_words())
        return form

    def _words(self) -> QWidget:
        side = QWidget()
        set_surface(side, "raised")
        column = vbox(Label("What you would sign", "head"), parent=side, spacing=SPACE.small)
        card = Card("outline")
        self.lines = Label("", "body", wrap=True, selectable=True)
        self.lines.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        card.add(self.lines)
        column.addWidget(card)
        self.covers = Label("", "name", "text2", wrap=True)
        self.which = Label("", "meta", "text3", wrap=True)
        column.addWidget(self.covers)
        column.addWidget(self.which)
        column.addStretch(1)
        return side

    def row(self, name: str) -> ArgumentRow:
        """The row of one argument.

        Raises:
            StopIteration: there is none of that name.
        """
        return next(one for one in self.rows if one.argument.name == name)

    def choose_all_devices(self) -> None:
        """Begin with all devices of the run: the card is about several of them."""
        self.scope.choose(_ALL if self._all else _RUN)
        self._choose_scope()

    def _choose_scope(self) -> None:
        """For a run everything is as narrow as can be; a scope may be widened."""
        only_run = self.scope.current() != _SCOPE
        if only_run:
            all_devices = self.scope.current() == _ALL
            self.devices.setText(", ".join(self._all) if all_devices else self._approval.request.device)
            if all_devices:
                enough = (row for row, (_, count) in enumerate(_USES) if (count or MOST) >= len(self._all))
                # A pattern stands for more devices than there are names.
                self.uses.setCurrentIndex(len(_USES) - 1 if self._all == ["*"] else next(enough))
            self.actors.setText(self._approval.actor)
            for row in self.rows:
                row.widen(Breadth.EXACT)
        for widget in (self.devices, self.actors, *self.rows):
            widget.setEnabled(not only_run)
        self.show_words()

    # The words

    def show_words(self) -> None:
        """Say what would be signed now, and which waiting requests it would cover, too."""
        draft = self.draft
        draft.devices = _parts(self.devices.text())
        draft.actors = _parts(self.actors.text())
        draft.run = self._approval.run if self.scope.current() != _SCOPE else None
        draft.uses = self.uses.currentData()
        draft.lasts = _LASTS[self.lasts.currentIndex()][1]
        try:
            self.terms = terms_of(draft, self._author)
            fault = fault_of(self.terms, self._approval)
        except BadInput as error:
            self.terms, fault = None, error.message
        if self.terms is not None:
            self.lines.setText("\n".join(f"– {one_line(line)}" for line in scope_lines(self.terms)))
        self._show_covered()
        why = fault or self.why_not()
        self.approve.set_off(why)
        self.say(one_line(why))

    def _show_covered(self) -> None:
        found = also_covered(self.terms, self._state.waiting()) if self.terms is not None else []
        count = len(found)
        uses = self.terms.uses if self.terms is not None else None
        self.covers.setText(covered_words(count, uses))
        self.covers.set_tone("warn" if count else "text2")
        names = ", ".join(
            one_line(one.request.device) for one in sorted(found, key=lambda one: one.request.device)[:6]
        )
        self.which.setText(names + (f" and {count - 6} more" if count > 6 else ""))
        self.which.setVisible(bool(names))

    # The answer

    def _go(self, hand: InputOrigin) -> None:
        shown = self._scope()
        # The end is counted from now: what was shown a while ago is shown again with the moment it is signed.
        self.show_words()
        terms = self.terms
        if terms is None or not self.approve.isEnabled():
            return
        if self._scope() != shown:
            # A choice can be changed through accessibility without a word to the sheet.
            self.say("What would be signed is not what was shown: read it again.")
            return
        what = "approve and remember"
        self._by_hand.ask(self, hand, Stake.HIGH, what, self.say, lambda: self.agreed.emit(terms))

    def _scope(self) -> object:
        """What the words say, but for the moment from which the end is counted."""
        if self.terms is None:
            return None
        return self.terms.model_copy(update={"expires": ""}), self.draft.lasts


def covered_words(count: int, uses: int | None) -> str:
    """What a grant for `uses` calls (None: any number) does to the `count` waiting requests that fit it."""
    if not count:
        return "It holds for what is asked for from now on; no other request that waits now fits."
    begin = "It holds for what is asked for from now on, and for what waits now: "
    fit = f"{count} other request{' fits' if count == 1 else 's fit'}"
    if uses is None or uses >= count:
        how = "is" if count == 1 else "each is"
        return f"{begin}{fit}, {how} judged again as a new request, and goes on without an answer of its own."
    some = f"{uses} of them goes" if uses == 1 else f"{uses} of them go"
    return f"{begin}{fit}, and {some} on without an answer of {'its' if uses == 1 else 'their'} own."


def _scrolled(inner: QWidget, height: int) -> ScrollArea:
    area = ScrollArea(inner)
    area.setFixedHeight(height)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    return area


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _shown(value: object) -> str:
    if is_stand_in(value):
        text = readable(value)
        return f"{text}, with the same secret" if isinstance(text, str) else "the same secret"
    return value if isinstance(value, str) else repr(value)
