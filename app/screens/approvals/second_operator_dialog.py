"""Another operator approves at this console: who, their passphrase, and nothing is kept afterwards."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from app.input_origin import Stake
from app.screens.approvals.decision_bar import slot_words
from app.screens.approvals.decision_rules import DecisionContext, operator_blocker
from app.signing.press_guard import TYPE_IT, PressGuard
from app.signing.signing_session import SigningSession
from app.text import one_line
from app.widgets.dialog import Dialog
from app.widgets.fields import DropDown, Field, TypedField
from app.widgets.labels import Label
from core.approvals.request_groups import device_words


class SecondOperatorDialog(Dialog):
    """Asks for operator and passphrase. `about` are the requests that it would approve.

    Signals:
        approved(name, passphrase): this operator wants to approve what is on the card.
    """

    approved = Signal(str, str)

    def __init__(
        self, window: QWidget, now: DecisionContext, keys: SigningSession, by_hand: PressGuard
    ) -> None:
        shown = now.approval
        assert shown is not None
        members = (shown, *now.others)
        where = one_line(device_words(one.request.device for one in members))
        super().__init__(
            window,
            "Another operator approves",
            f"{one_line(shown.decision.summary)}, on {where}. Your key is used for this one decision and "
            "forgotten right after; the operator who is unlocked here stays so.",
        )
        self.about = [one.id for one in members]
        self.add(Label(slot_words(shown), "name", "waiting"))
        self.who = DropDown("Operator")
        self.secret = TypedField("Passphrase")
        self.secret.setEchoMode(QLineEdit.EchoMode.Password)
        out: list[str] = []
        for file in keys.listed:
            why = operator_blocker(now, file.name)
            if not why and not file.has_passphrase:
                why = (
                    f"The key of {file.name} has no passphrase, so it does not show that {file.name} is here."
                )
            if why:
                out.append(why)
            else:
                self.who.addItem(f"{file.name}  …{file.public_key[-4:]}", file.name)
        self.add(Field("Operator", self.who))
        self.add(Field("Passphrase", self.secret))
        for words in out:
            self.add(Label(words, "meta", "text3", wrap=True))
        self.add_answer("cancel", "Cancel")
        self._approve = self.add_answer("approve", "Approve once", "primary", closes=False)
        if not self.who.count():
            self._approve.set_off("No other operator's key lies in this home.")
            self.say("No other operator can approve here: add one in Settings, Operators.")
        # The passphrase that takes the place of a hand is typed right here.
        stake = Stake.LOW if now.stake is Stake.LOW else Stake.MEDIUM
        by_hand.guard(self._approve, stake, "approve", self.say, self._go)
        self.secret.was_set.connect(lambda: self.say(TYPE_IT))

    def begin(self) -> None:
        """Come up, with the keyboard in the passphrase."""
        self.open(self.secret)

    def say_wrong(self, problem: str) -> None:
        """The key did not open: try again."""
        self._approve.set_working("")
        self.say(problem)
        self.secret.selectAll()
        self.secret.setFocus()

    def _go(self) -> None:
        if self._approve.isEnabled() and self.secret.text():
            self._approve.set_working("Opening the key…")
            self.approved.emit(str(self.who.currentData()), self.secret.text())
